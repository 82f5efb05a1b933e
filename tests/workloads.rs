//! The workloads of `make bench`: that each runs, tiny, places what it should, and decides the same twice; and that those with
//! which the real kube-scheduler is timed have the same nodes and pods there, field by field.

#[path = "../benches/engine/mod.rs"]
mod engine;
#[path = "../benches/workloads/mod.rs"]
mod workloads;

use engine::measure;
use serde_json::Value;
use workloads::{Size, Workload};

#[test]
fn every_workload_decides_the_same_twice() {
    for workload in Workload::all() {
        let size = workload.tiny();
        let [first, second] = [measure(&workload, size), measure(&workload, size)];
        println!(
            "{:<18} {} of {} placed, decisions {:016x}",
            workload.id, first.scheduled, size.pods, first.digest
        );
        assert_eq!(first.digest, second.digest, "{}", workload.id);
        assert_eq!(first.scheduled, size.pods, "{}", workload.id);
    }
}

/// What the oracle makes of its workloads: `make golden` writes it, as `oracle time --print` tells it.
const OBJECTS: &str = include_str!("fixtures/bench-objects.jsonl");

/// The sizes it is written for.
const PRINTED: Size = Size { nodes: 3, existing: 2, pods: 2, signatures: 3, waiting: 0 };

#[test]
fn the_oracle_is_timed_on_the_same_nodes_and_pods_field_by_field() {
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

/// The object without what says nothing: its kind, which the oracle does not write, and what is empty, which Go writes.
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
