//! The pending pods and their explanations. This section needs no script.

use crate::commands::explain::new_pods_text;
use crate::commands::report::model::{Report, Waiting};
use crate::commands::report::page::groups;
use crate::commands::report::page::markup::Markup;
use supercargo_whatif::explain::format::count as counted;
use supercargo_whatif::explain::{Change, Explanation, Group, Verdict};

/// Maximum number of identical pods listed by name.
const ALIKE_MAX: usize = 20;
/// Maximum number of unexplained pods listed by name.
const UNEXPLAINED_MAX: usize = 100;

/// Returns the number of pending pods.
pub(super) fn count(report: &Report) -> usize {
    report.pending.iter().map(|waiting| waiting.pods.len()).sum::<usize>() + report.unexplained.len()
}

/// Returns the content of the section.
pub(super) fn section(report: &Report) -> String {
    let mut out = Markup::default();
    if count(report) == 0 {
        out.element("p", "No pending pods.");
        return out.into_text();
    }
    groups::all(&mut out, &report.groups);
    for (at, waiting) in report.pending.iter().enumerate() {
        one(&mut out, report, waiting, at);
    }
    if !report.unexplained.is_empty() {
        let left = report.unexplained.len();
        let text = format!(
            "{left} more pending pods without an explanation: the report explains {} groups of identical pods",
            report.pending.len()
        );
        out.raw("<details><summary>").text(&text).raw("</summary><ul class=\"names\">");
        for &pod in report.unexplained.iter().take(UNEXPLAINED_MAX) {
            out.element("li", &name(report, pod));
        }
        out.raw("</ul>");
        if left > UNEXPLAINED_MAX {
            out.element("p", &format!("and {} more", left - UNEXPLAINED_MAX));
        }
        out.raw("</details>");
    }
    out.into_text()
}

fn name(report: &Report, pod: u32) -> String {
    let pods = &report.pods;
    format!("{}/{}", report.namespaces[pods.namespace[pod as usize] as usize], pods.name[pod as usize])
}

fn one(out: &mut Markup, report: &Report, waiting: &Waiting, at: usize) {
    let of = &waiting.explanation;
    let (class, verdict) = verdict(of.verdict);
    let open = if report.pending.len() == 1 { " open" } else { "" };
    out.raw(&format!("<details class=\"wait\" id=\"waiting-{at}\"{open}><summary>"));
    out.element(&format!("span class=\"chip {class}\""), verdict).raw(" ").element("b", &of.pod);
    if waiting.pods.len() > 1 {
        out.raw(" ").element("span class=\"dim\"", &format!("and {} identical", waiting.pods.len() - 1));
    }
    out.element("span class=\"why\"", &gist(of)).raw("</summary><div class=\"inside\">");
    before(out, of);
    reasons(out, of);
    near_misses(out, of);
    hints(out, of);
    changes(out, &of.changes, "scheduling the pod again", of.new_pod.as_deref());
    if let Some(event) = &of.event {
        out.raw("<h3>FailedScheduling event</h3>").element("p class=\"mono\"", event);
    }
    if waiting.pods.len() > 1 {
        out.raw("<h3>Identical pods</h3><ul class=\"names\">");
        for &pod in waiting.pods.iter().take(ALIKE_MAX) {
            out.element("li", &name(report, pod));
        }
        if waiting.pods.len() > ALIKE_MAX {
            out.element("li", &format!("and {} more", waiting.pods.len() - ALIKE_MAX));
        }
        out.raw("</ul>");
    }
    out.raw("</div></details>");
}

/// Returns the summary with the most frequent reason.
fn gist(of: &Explanation) -> String {
    let is_stuck = matches!(of.verdict, Verdict::Blocked | Verdict::NeverFits | Verdict::WaitsForPreemption);
    match (of.before_nodes.first(), of.reasons.first()) {
        (Some(said), _) => format!("{}; {}", of.summary, said.text),
        (None, Some(most)) if is_stuck => {
            format!("{}; on {} of {}: {}", of.summary, most.nodes, of.nodes, most.text)
        }
        _ => of.summary.clone(),
    }
}

fn verdict(of: Verdict) -> (&'static str, &'static str) {
    match of {
        Verdict::FitsNow => ("good", "fits now"),
        Verdict::WaitsForPreemption => ("soon", "waiting for preemption"),
        Verdict::Blocked => ("bad", "blocked"),
        Verdict::NeverFits => ("bad", "fits on no node of this cluster"),
        Verdict::WaitsForGroup => ("soon", "waiting for its group"),
        Verdict::Gated => ("soon", "gated"),
        Verdict::NotOurs => ("soon", "handled by another scheduler"),
        Verdict::Bound => ("good", "placed"),
        Verdict::Ended => ("good", "finished"),
        Verdict::Deleting => ("soon", "being deleted"),
    }
}

fn before(out: &mut Markup, of: &Explanation) {
    if of.before_nodes.is_empty() {
        return;
    }
    out.raw("<h3>Before node evaluation</h3><ul>");
    for said in &of.before_nodes {
        out.raw("<li>").element("code", &format!("{:?}", said.code)).raw(" ").text(&said.text).raw("</li>");
    }
    out.raw("</ul>");
}

fn reasons(out: &mut Markup, of: &Explanation) {
    if of.reasons.is_empty() {
        return;
    }
    let heading = format!(
        "Why not ({}, every filter evaluated on each; {} feasible)",
        counted(of.nodes, "node"),
        of.fits_on
    );
    out.element("h3", &heading);
    reasons_table(out, &of.reasons);
}

/// Adds a table of reasons.
pub(super) fn reasons_table(out: &mut Markup, reasons: &[Group]) {
    out.raw("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Reasons\"><table><caption class=\"unseen\">Reasons</caption>");
    out.head(&[("Nodes", true), ("Only reason", true), ("Reason", false), ("Details", false)]).raw("<tbody>");
    for group in reasons {
        out.raw("<tr>").element("td class=\"n\"", &group.nodes.to_string());
        out.element("td class=\"n\"", &group.alone_on.to_string());
        out.raw("<th scope=\"row\" class=\"whole\">")
            .element("code", &format!("{:?}", group.code))
            .raw("</th>")
            .element("td", &group.text)
            .raw("</tr>");
    }
    out.raw("</tbody></table></div>");
}

fn near_misses(out: &mut Markup, of: &Explanation) {
    if of.near_misses.is_empty() || of.verdict == Verdict::FitsNow {
        return;
    }
    out.raw("<h3>Nodes rejected for a single reason</h3><dl class=\"rows\">");
    for near in &of.near_misses {
        out.raw("<div>").element("dt class=\"mono\"", &near.node).element("dd", &near.text).raw("</div>");
    }
    out.raw("</dl>");
    if of.near_miss_count > of.near_misses.len() {
        out.element("p class=\"dim\"", &format!("and {} more", of.near_miss_count - of.near_misses.len()));
    }
}

fn hints(out: &mut Markup, of: &Explanation) {
    if of.hints.is_empty() {
        return;
    }
    out.raw("<h3>Possible typo</h3><ul>");
    for hint in &of.hints {
        out.raw("<li>").element("code", &hint.field).raw(": ").text(&hint.text);
        if let Some(meant) = &hint.did_you_mean {
            out.raw(". Did you mean ").element("code", meant).raw("?");
        }
        out.raw("</li>");
    }
    out.raw("</ul>");
}

/// Adds verified changes; `verified` says what was decided again, and `new_pod` how to make those that need a new pod.
pub(super) fn changes(out: &mut Markup, changes: &[Change], verified: &str, new_pod: Option<&str>) {
    if changes.is_empty() {
        return;
    }
    out.raw("<h3>Possible fixes ")
        .element("span class=\"dim\"", &format!("each verified by {verified} with the change"));
    out.raw("</h3><ol class=\"changes\">");
    for change in changes {
        out.raw("<li>").text(&change.text);
        let names = change.examples.join(", ");
        let then = match change.fits_on {
            0 => String::new(),
            1 => format!("it then fits on {names}"),
            many if many > change.examples.len() => format!("it then fits on {many} nodes: {names}, ..."),
            many => format!("it then fits on {many} nodes: {names}"),
        };
        if !then.is_empty() {
            out.element("span class=\"then\"", &then);
        }
        if let Some(how) = &change.how {
            out.raw("<pre>").text(how).raw("</pre>");
        }
        out.raw("</li>");
    }
    out.raw("</ol>");
    if let Some(text) = new_pods_text(changes, new_pod) {
        out.element("p", &format!("{text}."));
    }
}
