//! Decisions about devices where supercargo repairs a defect of kube-scheduler, beside the recorded ones.

use super::compare::Vector;
use serde_json::Value;
use std::collections::BTreeSet;
use supercargo_core::model::emulation::{Compat, EmulatedVersion};
use supercargo_dev::golden::world::World;

/// Returns the recorded vectors of this repository.
fn vectors() -> Vec<Vector> {
    let text = super::recorded::own().concat();
    text.lines().map(|line| serde_json::from_str(line).expect("a line is a vector")).collect()
}

/// Returns the recorded decisions of a vector, and those without upstream's defects.
fn both(name: &str) -> Vec<(Value, Value)> {
    let vector = vectors().into_iter().find(|vector| vector.scenario.name.ends_with(name));
    let Vector { scenario, decisions } = vector.expect("the vector exists");
    let mut world = World::with(&scenario, Compat::Repaired);
    decisions.into_iter().zip(scenario.pods.iter().map(|pod| world.decide(pod))).collect()
}

/// Returns claim and devices of each allocation of a decision.
fn devices(decision: &Value) -> Vec<String> {
    let claims = decision["claims"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_claim = |claim: &Value| {
        let results = claim.pointer("/allocation/devices/results").and_then(Value::as_array);
        let devices: Vec<String> = results.into_iter().flatten().map(|it| text(&it["device"])).collect();
        format!("{}: {}", text(&claim["claim"]), devices.join(" "))
    };
    claims.map(of_claim).collect()
}

/// Upstream allocates the claim twice. The second allocation can never be written, so the pod is never bound.
#[test]
fn claim_under_two_names_is_allocated_once() {
    let (upstream, ours) = &both("dra-same-claim-under-two-names")[0];
    assert_eq!(devices(upstream), ["default/c: d0", "default/c: d1"]);
    assert_eq!(devices(ours), ["default/c: d0"]);
}

/// Upstream forgets the first device of a request when it gives back the second, and takes two devices with one value.
#[test]
fn distinct_attribute_holds_after_backtracking() {
    let (upstream, ours) = &both("dra-distinct-forgets-what-it-took-back")[0];
    assert_eq!(devices(upstream), ["default/c: d0 d2 d1"], "d0 and d2 have the same value");
    assert_eq!(devices(ours), [""; 0]);
    assert_eq!(ours["message"], "0/1 nodes are available: 1 cannot allocate all claims.");
}

/// Upstream makes a claim without requests for extended resources that a device plugin serves, fails to name it in the
/// pod's status, deletes it, and does so again for ever.
#[test]
fn no_empty_claim_is_made_for_extended_resources() {
    let (upstream, ours) = &both("dra-extended-beside-a-user-claim")[0];
    assert_eq!(devices(upstream), ["default/c: d0", "default/<extended-resources>: "]);
    assert_eq!(devices(ours), ["default/c: d0"]);
}

/// Returns the decisions of a version with and without its defects. Those with defects equal the recorded ones, as
/// `versions.rs` shows.
fn both_of(name: &str, version: EmulatedVersion) -> Vec<(Value, Value)> {
    let vector = vectors().into_iter().find(|vector| vector.scenario.name.ends_with(name));
    let mut scenario = vector.expect("the vector exists").scenario;
    scenario.emulated_version = version;
    let (mut plain, mut world) = (World::new(&scenario), World::with(&scenario, Compat::Repaired));
    scenario.pods.iter().map(|pod| (plain.decide(pod), world.decide(pod))).collect()
}

/// 1.34 compares the addresses of values, which always differ.
#[test]
fn distinct_attribute_compares_values_in_1_34() {
    let (upstream, ours) = &both_of("dra-distinct-across-requests", EmulatedVersion::V1_34)[0];
    assert_eq!(devices(upstream), ["default/c: d0 d1"], "d0 and d1 have the same value");
    assert_eq!(devices(ours), ["default/c: d0 d2"]);
}

/// 1.35 expects as many allocations as the pod has claims, although one was allocated earlier.
#[test]
fn claims_allocated_earlier_and_now_are_scored_together_in_1_35() {
    let decisions = both_of("dra-score-of-claims-already-allocated", EmulatedVersion::V1_35);
    let failed = |decision: &Value| {
        decision["message"].as_str().is_some_and(|text| text.contains("smaller than number of claims"))
    };
    let failures: Vec<(bool, bool)> =
        decisions.iter().map(|(upstream, ours)| (failed(upstream), failed(ours))).collect();
    assert!(failures.contains(&(true, false)), "{failures:?}");
    assert!(decisions.iter().all(|(_, ours)| !ours["selected"].is_null()), "{decisions:?}");
}

/// The repairs change the decisions of these recorded clusters, and no others.
#[test]
fn repairs_change_nothing_else() {
    let twice = ["dra-13", "trap-337-dra-same-claim-under-two-names"];
    let empty_claim = ["trap-433-dra-extended-beside-a-user-claim"];
    let distinct = "trap-348-dra-distinct-forgets-what-it-took-back";
    let distinct_of_1_34 =
        ["dra-75", "trap-346-dra-two-constraints", "trap-347-dra-distinct-across-requests", distinct];
    let alternatives = ["dra-1", "dra-81"];
    let scores = ["dra-73", "dra-80", "trap-424-dra-score-of-claims-already-allocated"];
    let of = |version| match version {
        EmulatedVersion::V1_34 => [&twice[..], &distinct_of_1_34].concat(),
        EmulatedVersion::V1_35 => [&twice[..], &alternatives, &scores].concat(),
        EmulatedVersion::V1_36 => [&twice[..], &empty_claim, &["dra-83", distinct]].concat(),
        EmulatedVersion::V1_37 => [&twice[..], &empty_claim].concat(),
    };
    for version in EmulatedVersion::ALL {
        let mut changed = BTreeSet::new();
        let mut count = 0;
        for mut vector in vectors() {
            if !vector.scenario.name.split('-').any(|part| part == "dra") {
                continue;
            }
            vector.scenario.emulated_version = version;
            let mut plain = World::new(&vector.scenario);
            let mut world = World::with(&vector.scenario, Compat::Repaired);
            for pod in &vector.scenario.pods {
                count += 1;
                if plain.decide(pod) != world.decide(pod) {
                    changed.insert(vector.scenario.name.clone());
                }
            }
        }
        let expected: BTreeSet<String> = of(version).into_iter().map(str::to_owned).collect();
        assert_eq!(changed, expected, "{version}");
        assert!(count > 800, "{count} decisions");
    }
}
