//! Recorded decisions of the real kube-scheduler, reached through files and flags.
//!
//! `golden/README.md` tells what vectors hold. Each is written to files and simulated: all of them in this process, one of
//! each file of vectors by the program itself.

use crate::recorded;
use crate::support::{Files, list};
use clap::Parser as _;
use serde_json::Value;
use supercargo::args::{Args, Command};
use supercargo::cli::simulate::{Simulation, to_value};

const RULES: [&str; 7] = ["--as-written", "--tie-break", "name", "-o", "json", "--detail", "full"];

/// The vectors of each file.
fn vectors() -> Vec<Vec<Value>> {
    let lines =
        |text: &String| text.lines().map(|line| serde_json::from_str(line).expect("a vector")).collect();
    recorded::read().iter().map(lines).collect()
}

fn objects(scenario: &Value, field: &str) -> String {
    list(scenario[field].as_array().map_or(&[], Vec::as_slice))
}

/// The files of a vector, and the flags to simulate it.
fn written(vector: &Value) -> (Files, Vec<&'static str>) {
    let scenario = &vector["scenario"];
    let files = Files::with(&objects(scenario, "objects"), &objects(scenario, "pods"));
    let mut flags = RULES.to_vec();
    if scenario["config"].is_object() {
        files.write("config", &scenario["config"].to_string());
        flags.extend(["--config", "config"]);
    }
    (files, flags)
}

/// Where the report differs from what is recorded.
fn differences(vector: &Value, got: &[Value]) -> Vec<String> {
    let expected = vector["decisions"].as_array().expect("a list");
    let name = vector["scenario"]["name"].as_str().unwrap_or("?");
    let mut found = Vec::new();
    if expected.len() != got.len() {
        found.push(format!("{name}: {} decisions, expected {}", got.len(), expected.len()));
    }
    for (expected, got) in expected.iter().zip(got) {
        let fields = ["pod", "message", "preFilter", "rejected", "feasible", "scores", "totals"];
        let pairs = fields.iter().map(|&field| (field, &expected[field], &got[field]));
        let pairs = pairs.chain([("node", &expected["selected"], &got["node"])]);
        for (field, expected, got) in pairs.filter(|(_, expected, got)| !is_same(expected, got)) {
            found.push(format!("{name} {field}: expected {expected}, got {got}"));
        }
        if let Some(event) = event(expected).filter(|event| got["event"] != *event.as_str()) {
            found.push(format!("{name} event: expected {event:?}, got {}", got["event"]));
        }
        if !is_recorded(&expected["preemption"], &got["preemption"]) {
            found.push(format!("{name}: expected {}, got {}", expected["preemption"], got["preemption"]));
        }
    }
    found
}

/// The whole text of the event, where what PostFilter adds is recorded.
fn event(expected: &Value) -> Option<String> {
    let (message, added) = (expected["message"].as_str()?, expected["postFilter"].as_str()?);
    let separator = if added.is_empty() { "" } else { " " };
    Some(format!("{message}{separator}{added}"))
}

/// What is left out of a record is empty in a report.
fn is_same(expected: &Value, got: &Value) -> bool {
    let is_empty = match got {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        other => other.is_null(),
    };
    expected == got || (expected.is_null() && is_empty)
}

/// A node that ties with those that were seen need not have been seen.
fn is_recorded(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::Null, got) => got.is_null(),
        (_, Value::Null) => false,
        (expected, got) => {
            let node = got["nominatedNode"].as_str().expect("a name");
            expected.get(node).is_none_or(|victims| *victims == got["victims"])
        }
    }
}

#[test]
fn every_recorded_decision_is_reached_through_files() {
    let mut found = Vec::new();
    let mut decisions = 0;
    for vector in vectors().iter().flatten() {
        let (files, flags) = written(vector);
        let path = |name: &str| files.path().join(name).display().to_string();
        let mut args = vec!["supercargo".to_owned(), "simulate".to_owned()];
        args.extend(["--cluster".to_owned(), path("cluster"), "--pods".to_owned(), path("pods")]);
        args.extend(
            flags.iter().map(|&flag| if flag == "config" { path("config") } else { flag.to_owned() }),
        );
        let Some(Command::Simulate(args)) = Args::parse_from(args).command else { panic!("another command") };
        let simulation = Simulation::load(&args, &mut std::io::empty()).expect("a vector is good");
        let report = to_value(&simulation.decisions());
        let got = report["decisions"].as_array().expect("a list");
        decisions += got.len();
        found.extend(differences(vector, got));
    }
    assert!(
        found.is_empty(),
        "{} differences, the first:\n{}",
        found.len(),
        found[..found.len().min(20)].join("\n")
    );
    assert!(decisions > 1_000, "{decisions} decisions");
}

#[test]
fn the_program_reaches_the_recorded_decisions_too() {
    for vector in vectors().iter().filter_map(|of_file| of_file.first()) {
        let (files, flags) = written(vector);
        let ran = files.simulate(&flags);
        let found = differences(vector, &ran.decisions());
        assert!(found.is_empty(), "{}", found.join("\n"));
        let all_placed = ran.decisions().iter().all(|decision| decision["node"].is_string());
        assert_eq!(ran.code, Some(if all_placed { 0 } else { 3 }));
    }
}
