//! The pages of log lines and events have every one of the source.

use super::{read, root, sources};
use std::collections::BTreeSet;
use std::fs;

const PAGE: &str = "docs/logs-and-events.md";
const LEVELS: [&str; 4] = ["error", "warn", "info", "debug"];
/// Packages whose code runs in a cluster.
const PACKAGES: [&str; 3] = ["src/", "crates/apiserver/src/", "crates/config/src/"];

/// Returns the text up to the parenthesis that closes the one before it, split at its commas.
fn arguments(text: &str) -> Vec<String> {
    let (mut depth, mut in_string, mut is_escaped) = (0, false, false);
    let mut found = vec![String::new()];
    for c in text.chars() {
        let last = found.last_mut().expect("there is always one");
        if in_string {
            in_string = c != '"' || is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            last.push(c);
            continue;
        }
        match c {
            '"' => in_string = true,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(String::new());
                continue;
            }
            _ => {}
        }
        last.push(c);
    }
    found.iter().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()
}

/// Returns the text of a string literal, continued lines joined.
fn literal(argument: &str) -> Option<String> {
    let inner = argument.strip_prefix('"')?.strip_suffix('"')?;
    let mut lines = inner.split("\\\n").map(str::trim_start);
    let first = lines.next()?.to_owned();
    Some(lines.fold(first, |all, line| all + line).replace("\\\"", "\""))
}

/// Returns the name of a field: `name = value`, `%name`, `?name`, or a variable's name.
fn field(argument: &str) -> Option<String> {
    let name = argument.split('=').next()?.trim().trim_start_matches(['%', '?']);
    let name = name.rsplit('.').next()?.trim_matches('"');
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    is_name.then(|| name.to_owned())
}

/// The code of a file before its tests.
fn shipped(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

fn is_shipped(name: &str) -> bool {
    PACKAGES.iter().any(|package| name.starts_with(package)) && !name.contains("/tests")
}

/// Returns each log line: level, text and fields.
fn log_lines(text: &str) -> Vec<(usize, String, Vec<String>)> {
    let mut found = Vec::new();
    for (rank, level) in LEVELS.iter().enumerate() {
        let call = format!("{level}!(");
        for (at, _) in text.match_indices(&call) {
            if text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
                continue;
            }
            let arguments = arguments(&text[at + call.len()..]);
            let Some(position) = arguments.iter().position(|it| it.starts_with('"')) else { continue };
            let Some(message) = literal(&arguments[position]) else { continue };
            let fields = arguments[..position].iter().filter(|it| !it.starts_with("target:"));
            found.push((rank, message, fields.filter_map(|it| field(it)).collect()));
        }
    }
    found
}

/// Returns the rows of the table of log lines.
fn log_rows() -> BTreeSet<(usize, String, String)> {
    let mut rows = BTreeSet::new();
    for (_, text) in sources().iter().filter(|(name, _)| is_shipped(name)) {
        for (rank, message, fields) in log_lines(shipped(text)) {
            let fields: Vec<String> = fields.iter().map(|it| format!("`{it}`")).collect();
            rows.insert((rank, message.replace('|', "\\|"), fields.join(", ")));
        }
    }
    rows
}

/// Returns type, reason and action of each event that the engine records.
fn events() -> BTreeSet<[String; 3]> {
    let mut found = BTreeSet::new();
    for (name, text) in sources() {
        if !name.starts_with("crates/core/src/scheduler/") {
            continue;
        }
        for call in ["self.record(", "self.event_of("] {
            for (at, _) in text.match_indices(call) {
                let arguments = arguments(&text[at + call.len()..]);
                let severity = arguments.iter().position(|it| it.starts_with("Severity::"));
                let Some([severity, reason, action, ..]) = severity.map(|at| &arguments[at..]) else {
                    continue;
                };
                let reason = literal(reason).unwrap_or_else(|| panic!("{name}: the reason is a literal"));
                let action = literal(action).unwrap_or_else(|| panic!("{name}: the action is a literal"));
                found.insert([severity.replace("Severity::", ""), reason, action]);
            }
        }
    }
    found
}

#[test]
fn page_of_logs_and_events_has_every_log_line_and_event() {
    let page = read(PAGE);
    const HEAD: &str = "| Level | Message | Fields |\n|---|---|---|\n";
    let (before, _) = page.split_once(HEAD).expect("the page has the table of log lines, at its end");
    let rows = log_rows();
    assert!(rows.len() > 60, "log lines are found: {}", rows.len());
    let row = |(rank, message, fields): &(usize, String, String)| {
        format!("| {} | `{message}` | {fields} |\n", LEVELS[*rank])
    };
    let expected = format!("{before}{HEAD}{}", rows.iter().map(row).collect::<String>());
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(root().join(PAGE), &expected).expect("the page can be written");
    }
    assert!(
        read(PAGE) == expected,
        "{PAGE} is out of date; UPDATE_EXPECT=1 cargo test --test tidy rewrites it"
    );
    let events = events();
    assert!(events.len() >= 5, "{events:?}");
    for [severity, reason, action] in &events {
        let row = format!("| `{reason}` | {severity} | {action} |");
        assert!(before.contains(&row), "{PAGE} lacks the event {row}");
    }
}

#[test]
fn log_lines_are_read_from_source() {
    let text = "tracing::warn!(\n    lock, %error, why = f(a, \")\"), self.count,\n    \"it \\\n     failed: {name}\"\n);";
    let names = ["lock", "error", "why", "count"].map(str::to_owned);
    assert_eq!(log_lines(text), [(1, "it failed: {name}".to_owned(), names.to_vec())]);
    assert_eq!(log_lines("eprintln_error!(\"no\")"), []);
}
