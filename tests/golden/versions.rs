//! Vectors of rules in which versions of kube-scheduler differ, with the answers of each version.
//!
//! Each line of `versions/rules.jsonl` is a scenario of one rule. Absent scores count as 0. The text that PostFilter
//! adds is compared in the vectors that record it.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_dev::golden::compare::{Scenario, differences};
use supercargo_dev::golden::world::World;

const VECTORS: usize = 24;

#[derive(Deserialize)]
struct Vector {
    scenario: Scenario,
    decisions: BTreeMap<String, Vec<Value>>,
}

#[test]
fn each_version_decides_as_recorded() {
    let mut vectors: Vec<Vector> = include_str!("versions/rules.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is a vector"))
        .collect();
    assert_eq!(vectors.len(), VECTORS);
    let mut mismatches = Vec::new();
    for vector in &mut vectors {
        let versions: Vec<&str> = vector.decisions.keys().map(String::as_str).collect();
        assert_eq!(versions, EmulatedVersion::ALL.map(EmulatedVersion::as_str), "{}", vector.scenario.name);
        let has_text = vector.decisions.values().flatten().any(|it| it.get("postFilterMessage").is_some());
        for version in EmulatedVersion::ALL {
            vector.scenario.emulated_version = version;
            let mut world = World::new(&vector.scenario);
            for (pod, expected) in vector.scenario.pods.iter().zip(&vector.decisions[version.as_str()]) {
                let (expected, got) = (comparable(expected, has_text), comparable(&world.decide(pod), false));
                let place = format!("{} {version} {}", vector.scenario.name, expected["pod"]);
                mismatches
                    .extend(differences(&expected, &got, false).iter().map(|it| format!("{place}{it}")));
            }
        }
    }
    assert!(mismatches.is_empty(), "{} mismatches:\n{}", mismatches.len(), mismatches.join("\n"));
}

/// Returns a decision without scores of 0. If the vector records PostFilter's text, it becomes the field that our
/// decisions have, empty if absent.
fn comparable(decision: &Value, has_text: bool) -> Value {
    let mut decision = decision.clone();
    for scores in decision["scores"].as_object_mut().into_iter().flat_map(|nodes| nodes.values_mut()) {
        let scores = scores.as_object_mut().expect("scores of a node by plugin");
        scores.retain(|_, score| *score != 0);
    }
    let fields = decision.as_object_mut().expect("a decision is an object");
    fields.retain(|_, value| !value.is_null());
    if has_text && !fields.contains_key("selected") {
        let text = fields.remove("postFilterMessage").unwrap_or_else(|| "".into());
        fields.insert("postFilter".to_owned(), text);
    }
    decision
}
