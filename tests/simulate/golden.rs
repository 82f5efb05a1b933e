//! Golden vectors of the real kube-scheduler, run through files and flags.
//!
//! `golden/README.md` describes the vectors. All of them are simulated in this process, and one of each file with the
//! program itself.

use crate::recorded;
use crate::support::{Files, list};
use clap::Parser as _;
use serde_json::Value;
use supercargo::args::{Args, Command};
use supercargo_cli::commands::simulate::{Simulation, to_value};

const RULES: [&str; 7] = ["--as-written", "--tie-break", "name", "-o", "json", "--detail", "full"];

/// Returns the vectors of each file.
fn vectors() -> Vec<Vec<Value>> {
    let lines =
        |text: &String| text.lines().map(|line| serde_json::from_str(line).expect("a vector")).collect();
    recorded::read().iter().map(lines).collect()
}

fn objects(scenario: &Value, field: &str) -> String {
    list(scenario[field].as_array().map_or(&[], Vec::as_slice))
}

/// Writes the files of a vector; returns them with the flags for the simulation.
fn written(vector: &Value) -> (Files, Vec<&'static str>) {
    let scenario = &vector["scenario"];
    let files = Files::with(&objects(scenario, "objects"), &objects(scenario, "pods"));
    let mut flags = RULES.to_vec();
    // The vectors are from this version.
    flags.extend(["--emulated-version", "1.36"]);
    if scenario["config"].is_object() {
        files.write("config", &scenario["config"].to_string());
        flags.extend(["--config", "config"]);
    }
    (files, flags)
}

/// Returns the differences between the report and the recorded decisions.
fn differences(vector: &Value, got: &[Value]) -> Vec<String> {
    let expected = vector["decisions"].as_array().expect("a list");
    let name = vector["scenario"]["name"].as_str().unwrap_or("?");
    let mut found = Vec::new();
    if expected.len() != got.len() {
        found.push(format!("{name}: {} decisions, expected {}", got.len(), expected.len()));
    }
    for (expected, got) in expected.iter().zip(got) {
        let fields = ["pod", "message", "preFilter", "rejected", "feasible", "scores", "totals", "claims"];
        let messages = expected["messages"].as_array();
        let pairs = fields.iter().map(|&field| (field, &expected[field], &got[field]));
        let pairs = pairs.chain([("node", &expected["selected"], &got["node"])]);
        let pairs = pairs.filter(|(_, expected, got)| !is_same(expected, got));
        // If nodes fail with different errors, all of them are recorded.
        let is_recorded_message = |message: &Value| messages.is_some_and(|all| all.contains(message));
        for (field, expected, got) in
            pairs.filter(|(field, _, got)| *field != "message" || !is_recorded_message(got))
        {
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

/// Returns the whole message of the event, if the addition of PostFilter is recorded.
fn event(expected: &Value) -> Option<String> {
    let (message, added) = (expected["message"].as_str()?, expected["postFilter"].as_str()?);
    let separator = if added.is_empty() { "" } else { " " };
    Some(format!("{message}{separator}{added}"))
}

/// Compares values; a value that is missing in the record must be empty in the report.
fn is_same(expected: &Value, got: &Value) -> bool {
    let is_empty = match got {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        other => other.is_null(),
    };
    expected == got || (expected.is_null() && is_empty)
}

/// Returns whether the nominated node is recorded. The record may lack nodes that tie with recorded ones.
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
fn simulation_reproduces_all_golden_vectors() {
    let mut found = Vec::new();
    let mut decisions = 0;
    for vector in vectors().iter().flatten() {
        let (files, flags) = written(vector);
        let path = |name: &str| files.path().join(name).display().to_string();
        let mut args = vec!["supercargo".to_owned(), "simulate".to_owned(), "--compat=upstream".to_owned()];
        args.extend(["--cluster".to_owned(), path("cluster"), "--pods".to_owned(), path("pods")]);
        args.extend(
            flags.iter().map(|&flag| if flag == "config" { path("config") } else { flag.to_owned() }),
        );
        let Some(Command::Simulate(args)) = Args::parse_from(args).command else { panic!("another command") };
        let simulation = Simulation::load(&args, &mut std::io::empty()).expect("the vector is valid");
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
fn program_reproduces_one_golden_vector_of_each_file() {
    for vector in vectors().iter().filter_map(|of_file| of_file.first()) {
        let (files, flags) = written(vector);
        let ran = files.simulate(&flags);
        let found = differences(vector, &ran.decisions());
        assert!(found.is_empty(), "{}", found.join("\n"));
        let all_placed = ran.decisions().iter().all(|decision| decision["node"].is_string());
        assert_eq!(ran.code, Some(if all_placed { 0 } else { 3 }));
    }
}
