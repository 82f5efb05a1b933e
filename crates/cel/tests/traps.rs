//! Selectors whose outcomes kube-scheduler's own decisions show: texts of compilation and evaluation are compared in
//! full.

#[path = "support/devices.rs"]
mod support;

use serde_json::Value as Json;
use supercargo_cel::compile;

const ROWS: &str = include_str!("traps.jsonl");

#[test]
fn selectors_decide_as_in_kube_scheduler() {
    let rows: Vec<Json> =
        ROWS.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert!(rows.len() > 40);
    let differences: Vec<String> = rows.iter().filter_map(difference).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn difference(row: &Json) -> Option<String> {
    let expression = row["expression"].as_str().expect("an expression");
    let found = match compile(expression) {
        Err(error) => format!("CEL compile error: {error}"),
        Ok(program) => match program.matches(&support::device(&row["device"])) {
            Ok(matches) => matches.to_string(),
            Err(error) => format!("CEL runtime error: {error}"),
        },
    };
    let expected = row["outcome"].as_str().expect("an outcome");
    (found != expected).then(|| format!("{}: found {found}\nexpected {expected}", row["name"]))
}
