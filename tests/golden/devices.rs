//! Decisions about devices where supercargo repairs a defect of kube-scheduler, beside the recorded ones.

use super::compare::Vector;
use serde_json::Value;
use supercargo_core::model::emulation::Compat;
use supercargo_dev::golden::world::World;

/// Returns the recorded decisions of a vector, and those without upstream's defects.
fn both(name: &str) -> Vec<(Value, Value)> {
    let vector = super::vectors().into_iter().find(|vector| vector.scenario.name.ends_with(name));
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

/// All other recorded decisions are equal with and without the repairs.
#[test]
fn repairs_change_nothing_else() {
    let repaired = [
        "dra-same-claim-under-two-names",
        "dra-distinct-forgets-what-it-took-back",
        "dra-extended-beside-a-user-claim",
    ];
    let is_trap = |vector: &Vector| vector.scenario.name.contains("-dra-");
    let is_other = |vector: &Vector| !repaired.iter().any(|name| vector.scenario.name.ends_with(name));
    let mut count = 0;
    let mut different = Vec::new();
    for vector in super::vectors().into_iter().filter(is_trap).filter(is_other) {
        let mut plain = World::new(&vector.scenario);
        let mut world = World::with(&vector.scenario, Compat::Repaired);
        for pod in &vector.scenario.pods {
            count += 1;
            if plain.decide(pod) != world.decide(pod) {
                different.push(vector.scenario.name.clone());
            }
        }
    }
    assert_eq!(different, [""; 0]);
    assert!(count > 150, "{count} decisions");
}
