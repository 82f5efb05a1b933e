//! Explains differences about devices that are intended. Each rule names its row in `FIDELITY.md`.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

// The beginnings of rows.
pub(crate) const SEARCH_TIME: &str = "A search for devices ends after 10 seconds, with an error";
pub(crate) const GATED_NOMINATION: &str =
    "Up to 1.36, the nomination of a pod that is gated when it is added counts from the pod's next change";
pub(crate) const SLICES_DISAGREE: &str =
    "Slices of one generation that state different numbers of slices are read in random order";
pub(crate) const DEVICE_TWICE: &str =
    "A device that two claims have counts as free when one of them is freed";
pub(crate) const CLAIM_TWICE: &str = "A claim that a pod names twice is allocated twice";
pub(crate) const SHARED_ALTERNATIVES: &str =
    "An alternative for all devices, unless it is the first, takes devices of the first alternative";
pub(crate) const DISTINCT: &str =
    "A `distinctAttribute` constraint forgets a device when a later one is given back";
pub(crate) const EMPTY_CLAIM: &str =
    "A pod with a claim and an extended resource that a device plugin serves gets an empty claim";
pub(crate) const MIXED_SCORE: &str =
    "A pod with claims that were allocated earlier and claims that are allocated now fails with an error";
pub(crate) const ORDER_OF_POOLS: &str = "Up to 1.35, pools of devices are visited in an order of chance";

/// Whether the scenario has claims or classes, which repairs are about.
pub(crate) fn has_devices(answer: &Value) -> bool {
    objects(answer).any(|object| object["apiVersion"] == "resource.k8s.io/v1")
}

/// Explains a difference from upstream's decisions with upstream's defects.
pub(crate) fn of_upstream(answer: &Value) -> Option<&'static str> {
    let decisions = answer["decisions"].as_array().into_iter().flatten();
    let texts = decisions.flat_map(|it| {
        let all = it["messages"].as_array().into_iter().flatten();
        all.chain(Some(&it["message"])).filter_map(Value::as_str)
    });
    let mut timeouts = texts.filter(|text| text.contains("timed out trying to allocate devices"));
    if timeouts.next().is_some() {
        return Some(SEARCH_TIME);
    }
    if has_gated_nomination(answer) {
        return Some(GATED_NOMINATION);
    }
    if disagree_on_their_number(answer) {
        return Some(SLICES_DISAGREE);
    }
    has_device_twice(answer).then_some(DEVICE_TWICE)
}

/// Whether PreEnqueue gates a pod that is nominated: its claims cannot be resolved, so its PreFilter rejects it, too.
fn has_gated_nomination(answer: &Value) -> bool {
    let decisions = answer["decisions"].as_array().into_iter().flatten();
    pods(answer).zip(decisions).any(|(pod, decision)| {
        let pre_filter = &decision["preFilter"];
        let reason = pre_filter["reasons"][0].as_str().unwrap_or_default();
        let is_by_claims = pre_filter["plugin"] == "DynamicResources" && !reason.starts_with("request ");
        is_by_claims && !pod["status"]["nominatedNodeName"].is_null()
    })
}

/// Whether slices of a generation of a pool state different numbers of slices.
fn disagree_on_their_number(answer: &Value) -> bool {
    let changed =
        answer["scenario"]["changes"].as_array().into_iter().flatten().map(|change| &change["object"]);
    let slices = objects(answer).chain(changed).filter(|object| object["kind"] == "ResourceSlice");
    let mut numbers: BTreeMap<String, &Value> = BTreeMap::new();
    slices.filter(|slice| !slice["spec"].is_null()).any(|slice| {
        let (spec, pool) = (&slice["spec"], &slice["spec"]["pool"]);
        let generation = format!("{} {} {}", spec["driver"], pool["name"], pool["generation"]);
        let number = &pool["resourceSliceCount"];
        numbers.insert(generation, number).is_some_and(|other| other != number)
    })
}

/// Whether two claims have the same device from the start, and one of them is freed later.
fn has_device_twice(answer: &Value) -> bool {
    let changes = answer["scenario"]["changes"].as_array().into_iter().flatten();
    let mut freed = changes.filter(|change| change["object"]["kind"] == "ResourceClaim");
    let mut held = BTreeSet::new();
    let results =
        objects(answer).filter_map(|it| it.pointer("/status/allocation/devices/results")?.as_array());
    let mut is_twice = results
        .flatten()
        .filter(|result| result["adminAccess"] != true)
        .map(|result| held.insert(format!("{} {} {}", result["driver"], result["pool"], result["device"])));
    freed.next().is_some() && is_twice.any(|is_new| !is_new)
}

/// Explains a difference from upstream's decisions without upstream's defects.
pub(crate) fn of_repaired(answer: &Value) -> Option<&'static str> {
    if pods(answer).any(names_a_claim_twice) {
        return Some(CLAIM_TWICE);
    }
    if is_up_to_1_35(answer) && objects(answer).any(has_later_for_all) {
        return Some(SHARED_ALTERNATIVES);
    }
    let distinct = |claim: &Value| {
        let constraints = claim.pointer("/spec/devices/constraints").and_then(Value::as_array);
        constraints.into_iter().flatten().any(|it| !it["distinctAttribute"].is_null())
    };
    if objects(answer).any(distinct) {
        return Some(DISTINCT);
    }
    let decisions = || answer["decisions"].as_array().into_iter().flatten();
    let is_mixed = |decision: &Value| {
        decision["message"].as_str().is_some_and(|text| text.ends_with("is smaller than number of claims"))
    };
    if decisions().any(is_mixed) {
        return Some(MIXED_SCORE);
    }
    let mut claims = decisions().flat_map(|it| it["claims"].as_array().into_iter().flatten());
    let is_empty = |claim: &Value| {
        let name = claim["claim"].as_str().unwrap_or_default();
        name.ends_with("<extended-resources>") && claim["requests"].is_null()
    };
    claims.any(is_empty).then_some(EMPTY_CLAIM)
}

fn objects(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["scenario"]["objects"].as_array().into_iter().flatten()
}

fn pods(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["scenario"]["pods"].as_array().into_iter().flatten()
}

fn is_up_to_1_35(answer: &Value) -> bool {
    matches!(answer["scenario"]["emulatedVersion"].as_str(), Some("1.34" | "1.35"))
}

/// Whether an alternative but the first is for all devices, which up to 1.35 gets what the first one finds.
fn has_later_for_all(claim: &Value) -> bool {
    let requests = claim.pointer("/spec/devices/requests").and_then(Value::as_array);
    requests.into_iter().flatten().any(|request| {
        let alternatives = request["firstAvailable"].as_array().into_iter().flatten();
        alternatives.skip(1).any(|alternative| alternative["allocationMode"] == "All")
    })
}

fn names_a_claim_twice(pod: &Value) -> bool {
    let claims = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    let names: Vec<&str> = claims.filter_map(|claim| claim["resourceClaimName"].as_str()).collect();
    names.iter().collect::<BTreeSet<_>>().len() < names.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_explanation_is_the_beginning_of_a_row() {
        let text = include_str!("../../../../../FIDELITY.md");
        let rows = [
            SEARCH_TIME,
            GATED_NOMINATION,
            SLICES_DISAGREE,
            DEVICE_TWICE,
            CLAIM_TWICE,
            SHARED_ALTERNATIVES,
            DISTINCT,
            EMPTY_CLAIM,
            MIXED_SCORE,
            ORDER_OF_POOLS,
        ];
        let is_row = |row: &&str| text.lines().any(|line| line.starts_with(&format!("| {row}")));
        let absent: Vec<&str> = rows.into_iter().filter(|row| !is_row(row)).collect();
        assert_eq!(absent, [""; 0], "not in FIDELITY.md");
    }
}
