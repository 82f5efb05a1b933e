//! Tests of the workloads of `make bench`. Each workload, at a small size, places its pods and decides the same in
//! two runs. Workloads timed with the real kube-scheduler have the same nodes and pods there, field by field. Its
//! decisions on small ones are recorded in `golden/workloads.jsonl.gz`, and `tests/golden.rs` compares ours.

#[path = "../benches/engine/mod.rs"]
mod engine;
#[path = "../benches/workloads/mod.rs"]
mod workloads;

use engine::measure;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::path::Path;
use workloads::{Size, Workload};

/// The workloads whose pods fit on no node.
const UNSCHEDULABLE: [&str; 1] = ["claims-unmet"];

#[test]
fn every_workload_decides_the_same_in_two_runs() {
    for workload in Workload::all() {
        let size = workload.tiny();
        let [first, second] = [measure(&workload, size, false), measure(&workload, size, true)];
        println!(
            "{:<18} {} of {} placed, decisions {:016x}",
            workload.id, first.scheduled, size.pods, first.digest
        );
        assert_eq!(first.digest, second.digest, "{}", workload.id);
        let fits = !UNSCHEDULABLE.contains(&workload.id);
        assert_eq!(first.scheduled, if fits { size.pods } else { 0 }, "{}", workload.id);
    }
}

/// The oracle's objects of its workloads, written by `make golden` from `oracle time --print`.
const OBJECTS: &str = include_str!("fixtures/bench-objects.jsonl");

/// The sizes used for [`OBJECTS`].
const PRINTED: Size = Size { nodes: 3, existing: 2, pods: 2, signatures: 3, waiting: 0 };

#[test]
fn oracle_is_timed_on_identical_nodes_and_pods() {
    let mut theirs =
        OBJECTS.lines().map(|line| bare(serde_json::from_str(line).expect("a line is an object")));
    let mut compared = 0;
    for workload in Workload::all().iter().take(7) {
        let ours: Vec<Value> = workload.cluster(PRINTED).chain(workload.pods(PRINTED)).collect();
        for object in ours {
            let theirs = theirs.next().expect("the oracle has as many");
            assert_eq!(bare(object), theirs, "{}", workload.id);
            compared += 1;
        }
    }
    assert_eq!(compared, 49);
    assert_eq!(theirs.next(), None, "the oracle has no more");
}

/// Removes what does not matter: the kind, which the oracle does not write, and empty fields, which Go writes.
fn bare(object: Value) -> Value {
    match object {
        Value::Object(fields) => {
            let said =
                fields.into_iter().filter(|(key, _)| key != "apiVersion" && key != "kind" && key != "Port");
            let said = said.map(|(key, value)| (key, bare(value))).filter(|(_, value)| !is_empty(value));
            Value::Object(said.collect())
        }
        Value::Array(items) => items.into_iter().map(bare).collect(),
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Returns the compared workloads, at a small size, as scenarios. Recorded clusters with devices are in `dra.jsonl.gz`;
/// of these workloads, the benchmark compares the decisions.
fn scenarios() -> Vec<Value> {
    let all = Workload::all().into_iter();
    let comparable = all.filter(|workload| workload.is_comparable() && !workload.needs_devices());
    comparable.map(|workload| workload.scenario(workload.shrunk(8, 6))).collect()
}

/// With `UPDATE_EXPECT=1`, writes the scenarios without decisions, which `make golden` then adds.
#[test]
fn kube_schedulers_decisions_are_recorded_for_current_workloads() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/workloads.jsonl.gz");
    let ours = scenarios();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let mut text = GzEncoder::new(Vec::new(), Compression::best());
        for scenario in &ours {
            writeln!(text, "{}", json!({"scenario": scenario, "decisions": []})).expect("memory takes it");
        }
        std::fs::write(&file, text.finish().expect("memory takes it"))
            .expect("the repository can be written");
    }
    let (bytes, mut text) = (std::fs::read(&file).expect("the file is here"), String::new());
    GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).expect("it is text");
    let recorded: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert_eq!(recorded.len(), ours.len());
    for (recorded, ours) in recorded.iter().zip(&ours) {
        assert_eq!(&recorded["scenario"], ours, "{} differs from the recorded workload", ours["name"]);
        let decided = recorded["decisions"].as_array().map_or(0, Vec::len);
        assert_eq!(decided, ours["pods"].as_array().map_or(0, Vec::len), "{}", ours["name"]);
    }
}
