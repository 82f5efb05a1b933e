//! `supercargo queue POD`: one pending pod, and the reasons the scheduler has.

use super::table::{between, next_try, tone};
use super::{SAME_VERSION, Source, answered, read, wrong};
use crate::cluster::Refused;
use crate::live::port::encoded;
use crate::screen::Screen;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::pending::{EXPLAIN, PendingAnswer, PendingReason, Severity};

/// Asks for the explanation of a pod.
pub(super) fn answer(source: &mut Source<'_>, name: &str) -> Result<PendingAnswer, Refused> {
    let args = source.args;
    let name = name.strip_prefix("pod/").unwrap_or(name);
    let text = match &args.file {
        Some(file) => read(file)?,
        None => {
            let path = |namespace: &str| {
                format!("{EXPLAIN}?namespace={}&name={}", encoded(namespace), encoded(name))
            };
            let (page, asked) = source.page(path)?;
            let message = page.message();
            if page.status == 404 && message.contains("no pending pod") {
                let text = format!(
                    "{}; it has a node, is another scheduler's, or does not exist: see `supercargo why {name} -n {}`",
                    message.trim_end(),
                    asked.namespace
                );
                return Err(InputError(text).into());
            }
            answered(page, EXPLAIN, asked.way)?
        }
    };
    let answer = parsed(&text).map_err(|text| wrong(args, &text))?;
    let is_namespace = args.namespace.as_ref().is_none_or(|namespace| *namespace == answer.pod.namespace);
    if answer.pod.name == name && is_namespace {
        return Ok(answer);
    }
    let (namespace, other) = (&answer.pod.namespace, &answer.pod.name);
    Err(wrong(args, &format!("about pod {other}; ask for it with: queue {other} -n {namespace}")).into())
}

fn parsed(text: &str) -> Result<PendingAnswer, String> {
    let answer: PendingAnswer = serde_json::from_str(text)
        .map_err(|error| format!("not a PendingExplanation: {error}; expected an answer of {EXPLAIN}"))?;
    if answer.is_of_this_version() {
        return Ok(answer);
    }
    let (kind, version) = (&answer.kind, &answer.api_version);
    Err(format!("{kind} of {version} is not supported by this version of supercargo; {SAME_VERSION}"))
}

/// Formats the explanation as text.
pub(super) fn text(of: &PendingAnswer) -> String {
    let mut screen = Screen::of_stdout();
    let pod = &of.pod;
    screen.heading(&format!("{}/{}: {}", pod.namespace, pod.name, pod.place));
    let since = between(&pod.since, &of.time);
    let mut rows = vec![["waits for".to_owned(), pod.waits_for.clone()]];
    rows.push(["since".to_owned(), format!("{since} ({})", pod.since)]);
    let next = match &pod.next_try {
        Some(next) => format!("{} ({next}), or earlier if the cluster changes", next_try(next, &of.time)),
        None => "when what it waits for has happened".to_owned(),
    };
    rows.push(["next try".to_owned(), next]);
    let errors = match pod.errors {
        0 => String::new(),
        errors => format!(", the last {errors} with an error; the scheduler's log has it"),
    };
    rows.push(["attempts".to_owned(), format!("{}{errors}", pod.attempts)]);
    rows.push(["priority".to_owned(), pod.priority.to_string()]);
    if let Some(group) = &pod.group {
        rows.push(["group".to_owned(), format!("podgroup/{group}")]);
    }
    if let Some(node) = &pod.nominated_node {
        rows.push(["nominated to".to_owned(), node.clone()]);
    }
    let rows: Vec<Vec<String>> = rows.into_iter().map(Vec::from).collect();
    let severity = tone(Severity::of(pod));
    screen.toned_table(&[], &rows, |row, column| severity.filter(|_| (row, column) == (0, 1)));
    if !of.before_nodes.is_empty() {
        screen.heading("Before node evaluation");
        let row = |reason: &PendingReason| vec![reason.code.clone(), reason.text.clone()];
        screen.table(&[], &of.before_nodes.iter().map(row).collect::<Vec<_>>());
    }
    if !of.reasons.is_empty() {
        screen.heading(&format!("Why not ({}, {} feasible)", count(of.nodes, "node"), of.fits_on));
        let mut rows = vec![["NODES", "ONLY REASON", "REASON", "DETAILS"].map(str::to_owned).to_vec()];
        let number =
            |number: Option<usize>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        rows.extend(of.reasons.iter().map(|reason| {
            vec![number(reason.nodes), number(reason.alone_on), reason.code.clone(), reason.text.clone()]
        }));
        screen.table(&[0, 1], &rows);
    }
    if pod.place == "unschedulable" || pod.place == "backoff" {
        screen.line("");
        screen.line(&format!("Possible fixes: supercargo why {} -n {}", pod.name, pod.namespace));
    }
    screen.into_text()
}
