//! The result of a replay as a table.

use crate::commands::replay::report::{Compared, Difference, Divergence, Recording, ReplayReport};
use crate::screen::Screen;
use serde_json::Value;
use serde_json::value::RawValue;

/// Formats the result; `in_full` shows all differences and complete decisions.
pub(super) fn text(of: &ReplayReport, in_full: bool) -> String {
    let mut screen = Screen::of_stdout();
    let Recording { time, version, lines, seconds, .. } = &of.recording;
    let head = format!("Recorded from {time} by {version}: {lines} lines, {seconds:.1} s");
    match (&of.watched, &of.divergence) {
        (Some(name), _) => screen.heading(&format!("{head}, observed bindings of {name}")),
        (None, divergence) => {
            screen.heading(&format!("{head}, {} decisions, {} placed", of.decisions, of.placed));
            match divergence {
                None => screen.line("  all decisions equal the recording, byte for byte"),
                Some(divergence) => diverged(&mut screen, divergence, in_full),
            }
        }
    }
    if let Some(compared) = &of.compared {
        differs(&mut screen, compared, in_full);
    }
    screen.into_text()
}

fn diverged(screen: &mut Screen, at: &Divergence, in_full: bool) {
    screen.line(&format!("  first difference at line {}; later lines are not compared", at.line));
    for (when, decision) in [("then", &at.then), ("now", &at.now)] {
        let text = match decision {
            None => "nothing".to_owned(),
            Some(decision) if in_full => decision.get().to_owned(),
            Some(decision) => in_short(decision),
        };
        screen.line(&format!("  {when:<4}  {text}"));
    }
}

/// Formats the pod, the attempt and the result of a decision.
fn in_short(decision: &RawValue) -> String {
    let Ok(it) = serde_json::from_str::<Value>(decision.get()) else { return decision.get().to_owned() };
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let pod = format!("{}/{}", text(&it["pod"]["namespace"]), text(&it["pod"]["name"]));
    let result = text(&it["result"]);
    let what = ["node", "message"].into_iter().find_map(|field| it[field].as_str()).unwrap_or_default();
    format!("{pod}, attempt {}: {result} {what}", it["attempt"])
}

fn differs(screen: &mut Screen, of: &Compared, in_full: bool) {
    let Compared {
        config,
        asked,
        same,
        elsewhere,
        nowhere,
        only_now,
        other_victims,
        not_ours,
        failed,
        raced,
        unjudged,
        ..
    } = of;
    screen.heading(&format!("With {config}"));
    let counts = [
        (*same, "the same"),
        (*elsewhere, "on another node"),
        (*nowhere, "unschedulable, was placed"),
        (*only_now, "placed, was unschedulable"),
        (*other_victims, "unschedulable both times, with different victims"),
        (*not_ours, "not decided: no profile has the pod's schedulerName"),
        (*failed, "failed"),
        (*raced, "the same if concurrent events are reordered"),
    ];
    let share = |count: u64| 100.0 * count as f64 / (*asked).max(1) as f64;
    let mut rows = vec![["DECISIONS", "SHARE", "RESULT"].map(str::to_owned).to_vec()];
    rows.extend(
        counts.iter().filter(|(count, what)| *count > 0 || *what == "the same").map(|(count, what)| {
            vec![count.to_string(), format!("{:.1}%", share(*count)), (*what).to_owned()]
        }),
    );
    screen.table(&[0, 1], &rows);
    if *unjudged > 0 {
        screen.line(&format!("  {unjudged} more could not be evaluated"));
    }
    let shown = if in_full { of.differences.len() } else { of.differences.len().min(1) };
    if shown == 0 {
        return;
    }
    screen.heading(if in_full { "Differences" } else { "First difference; --diff shows all" });
    let mut rows = vec![["LINE", "POD", "ATTEMPT", "THEN", "NOW", "WHY"].map(str::to_owned).to_vec()];
    rows.extend(of.differences[..shown].iter().map(row));
    screen.table(&[0, 2], &rows);
    if in_full && of.more > 0 {
        screen.line(&format!("  and {} more", of.more));
    }
}

fn row(of: &Difference) -> Vec<String> {
    let node = |node: &Option<String>| node.clone().unwrap_or_else(|| "-".to_owned());
    vec![
        of.line.to_string(),
        format!("{}/{}", of.namespace, of.name),
        of.attempt.to_string(),
        node(&of.then),
        node(&of.now),
        of.why.clone(),
    ]
}
