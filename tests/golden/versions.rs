//! Vectors of rules in which versions of kube-scheduler differ, with the answers of each version.
//!
//! Each line of `versions/rules.jsonl` is a scenario of one rule. Absent scores count as 0. The text that PostFilter
//! adds is compared in the vectors that record it.

use crate::recorded;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_dev::golden::compare::{
    Scenario, Vector as Recorded, compare_vector, differences, without_zeros,
};
use supercargo_dev::golden::world::World;

const VECTORS: usize = 37;

/// The number of clusters on which the other versions decide, and how many of them each refuses.
const CLUSTERS: usize = 1070;
const RECORDED: [(EmulatedVersion, usize); 3] =
    [(EmulatedVersion::V1_34, 3), (EmulatedVersion::V1_35, 0), (EmulatedVersion::V1_37, 0)];

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

/// Clusters on which 1.37 decides by the random order of its lists: of storage capacities, and of budgets.
const UNORDERED: [&str; 2] = ["branches-volumes-dynamic-capacity-exact", "trap-148-pdb-all-decremented"];

/// The answer of another version to a golden vector of 1.36: decisions, or the error with which it refuses.
#[derive(Deserialize)]
struct Answer {
    name: String,
    decisions: Option<Vec<Value>>,
    error: String,
}

#[test]
fn other_versions_decide_on_all_clusters_as_recorded() {
    if std::env::var_os("GOLDEN_DIR").is_some() {
        return;
    }
    let mut vectors = crate::vectors();
    // Devices are compared below.
    vectors.retain(|vector| !vector.scenario.name.split('-').any(|part| part == "dra"));
    for (version, refused) in RECORDED {
        let file = format!("{}/tests/golden/versions/{version}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
        let text = recorded::text(Path::new(&file)).expect("a compressed file");
        let answer = |line| serde_json::from_str(line).map(|it: Answer| (it.name.clone(), it));
        let mut answers: BTreeMap<String, Answer> =
            text.lines().map(|line| answer(line).expect("a line is an answer")).collect();
        assert_eq!(answers.len(), CLUSTERS, "{version}");
        assert_eq!(answers.values().filter(|it| !it.error.is_empty()).count(), refused, "{version}");
        let mut mismatches = Vec::new();
        for vector in &mut vectors {
            let answer = answers.remove(&vector.scenario.name).expect("every vector is answered");
            let is_random =
                version == EmulatedVersion::V1_37 && UNORDERED.contains(&vector.scenario.name.as_str());
            let Some(decisions) = answer.decisions.filter(|_| !is_random) else { continue };
            (vector.scenario.emulated_version, vector.decisions) = (version, decisions);
            compare_vector(vector, &mut mismatches);
        }
        let shown: Vec<_> = mismatches.iter().take(50).map(String::as_str).collect();
        assert!(mismatches.is_empty(), "{version}: {} mismatches:\n{}", mismatches.len(), shown.join("\n"));
    }
}

/// The number of clusters with devices. Before 1.36, pools are visited in random order, and the answers of several runs
/// are recorded, of which any is right.
const DEVICE_CLUSTERS: usize = 237;

/// Clusters with attributes that are lists, which only a gate lets drivers publish. Without the gate, 1.37 reads them
/// in expressions; supercargo does not.
const LISTS: [&str; 2] =
    ["trap-362-dra-cel-list-attribute-poisons-the-device", "trap-374-dra-cel-attribute-is-no-range"];

/// The answers of another version to a cluster with devices.
#[derive(Deserialize)]
struct Answers {
    name: String,
    decisions: Vec<Value>,
    #[serde(default)]
    others: Vec<Vec<Value>>,
}

#[test]
fn devices_are_allocated_as_1_34_recorded() {
    compare_devices(EmulatedVersion::V1_34);
}

#[test]
fn devices_are_allocated_as_1_35_recorded() {
    compare_devices(EmulatedVersion::V1_35);
}

#[test]
fn devices_are_allocated_as_1_37_recorded() {
    compare_devices(EmulatedVersion::V1_37);
}

fn compare_devices(version: EmulatedVersion) {
    if std::env::var_os("GOLDEN_DIR").is_some() {
        return;
    }
    let is_of_devices = |name: &str| name.split('-').any(|part| part == "dra");
    let mut vectors = crate::vectors();
    vectors.retain(|vector| is_of_devices(&vector.scenario.name));
    let file = format!("{}/tests/golden/versions/dra-{version}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let text = recorded::text(Path::new(&file)).expect("a compressed file");
    let answer = |line| serde_json::from_str(line).map(|it: Answers| (it.name.clone(), it));
    let mut answers: BTreeMap<String, Answers> =
        text.lines().map(|line| answer(line).expect("a line is an answer")).collect();
    assert_eq!(answers.len(), DEVICE_CLUSTERS, "{version}");
    let mut mismatches = Vec::new();
    for vector in &mut vectors {
        let answer = answers.remove(&vector.scenario.name).expect("every vector is answered");
        if version == EmulatedVersion::V1_37 && LISTS.contains(&vector.scenario.name.as_str()) {
            continue;
        }
        vector.scenario.emulated_version = version;
        mismatches.extend(differences_from_any(vector, answer));
    }
    let shown: Vec<_> = mismatches.iter().take(60).map(String::as_str).collect();
    assert!(mismatches.is_empty(), "{version}: {} mismatches:\n{}", mismatches.len(), shown.join("\n"));
}

/// Returns the differences from the most similar of the recorded answers.
fn differences_from_any(vector: &mut Recorded, answer: Answers) -> Vec<String> {
    let mut fewest: Option<Vec<String>> = None;
    for decisions in std::iter::once(answer.decisions).chain(answer.others) {
        let mut mismatches = Vec::new();
        vector.decisions = decisions;
        compare_vector(vector, &mut mismatches);
        if fewest.as_ref().is_none_or(|fewest| mismatches.len() < fewest.len()) {
            fewest = Some(mismatches);
        }
    }
    fewest.unwrap_or_default()
}

/// Returns a decision without scores of 0. If the vector records PostFilter's text, it becomes the field that our
/// decisions have, empty if absent.
fn comparable(decision: &Value, has_text: bool) -> Value {
    let mut decision = without_zeros(decision);
    let fields = decision.as_object_mut().expect("a decision is an object");
    fields.retain(|_, value| !value.is_null());
    if has_text && !fields.contains_key("selected") {
        let text = fields.remove("postFilterMessage").unwrap_or_else(|| "".into());
        fields.insert("postFilter".to_owned(), text);
    }
    decision
}
