//! A vector, and where our decisions differ from those it records. What preemption does is not compared.

use crate::world::World;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

#[derive(Deserialize)]
pub(crate) struct Vector {
    pub(crate) scenario: Scenario,
    pub(crate) decisions: Vec<Value>,
}

#[derive(Deserialize)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) objects: Vec<Value>,
    pub(crate) pods: Vec<Value>,
}

/// Decides on the pods of a vector and says where that differs from what is recorded.
pub(crate) fn compare_vector(vector: &Vector, mismatches: &mut Vec<String>) {
    let mut world = World::new(&vector.scenario);
    for (pod, expected) in vector.scenario.pods.iter().zip(&vector.decisions) {
        let got = world.decide(pod);
        let mut differences = Vec::new();
        diff("", &comparable(expected), &got, &mut differences);
        let place = format!("{} {}", vector.scenario.name, expected["pod"].as_str().unwrap_or("?"));
        mismatches.extend(differences.into_iter().map(|difference| format!("{place}{difference}")));
        // Where the choice differs, each side would go on from another cluster.
        if expected.get("selected") != got.get("selected") {
            mismatches.push(format!("{place}: the rest of the vector is not compared"));
            return;
        }
    }
}

/// The recorded decision without what is not compared.
fn comparable(expected: &Value) -> Value {
    let mut expected = expected.clone();
    expected.as_object_mut().expect("a decision is an object").remove("preemption");
    expected
}

fn diff(path: &str, expected: &Value, got: &Value, differences: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(e), Value::Object(g)) => {
            let keys: BTreeSet<_> = e.keys().chain(g.keys()).collect();
            for key in keys {
                let of = |side: &Map<String, Value>| side.get(key).cloned().unwrap_or(Value::Null);
                diff(&format!("{path} / {key}"), &of(e), &of(g), differences);
            }
        }
        _ if expected != got => differences.push(format!("{path}: expected {expected}, got {got}")),
        _ => {}
    }
}
