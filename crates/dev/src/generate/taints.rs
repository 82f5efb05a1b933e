//! Generates taints and tolerations.

use super::Mix;
use crate::draw::Draw;
use serde_json::{Value, json};

const KEYS: &[&str] = &["dedicated", "flaky", "node.kubernetes.io/unschedulable"];
const EFFECTS: &[(usize, &str)] = &[(3, "NoSchedule"), (6, "PreferNoSchedule"), (1, "NoExecute")];

fn effect(draw: &mut Draw, mix: Mix) -> &'static str {
    if draw.percent(mix.odd) { draw.pick(&["", "Never", "noschedule"]) } else { draw.weighted(EFFECTS) }
}

/// Returns a node's taints.
pub(super) fn taints(draw: &mut Draw, mix: Mix) -> Value {
    let count = draw.weighted(&[(3, 0), (5, 1), (3, 2), (1, 3)]);
    let taints = draw.list(count, |draw| {
        let mut taint = json!({ "key": draw.pick(KEYS), "effect": effect(draw, mix) });
        if draw.percent(60) {
            taint["value"] = draw.pick(&["", "a", "b", "5"]).into();
        }
        taint
    });
    taints.into()
}

/// Returns a pod's tolerations.
pub(super) fn tolerations(draw: &mut Draw, mix: Mix) -> Value {
    let count = draw.weighted(&[(1, 0), (4, 1), (4, 2), (3, 3)]);
    let tolerations = draw.list(count, |draw| {
        let mut toleration = json!({});
        if draw.percent(85) {
            toleration["key"] = draw.pick(KEYS).into();
        }
        if draw.percent(75) {
            toleration["operator"] =
                draw.weighted(&[(4, "Equal"), (5, "Exists"), (1, "Lt"), (1, "Gt"), (1, "")]).into();
        }
        if draw.percent(mix.odd) {
            toleration["operator"] = "NotEqual".into();
        }
        if draw.percent(60) {
            toleration["value"] = draw.pick(&["", "a", "b", "4", "6"]).into();
        }
        if draw.percent(60) {
            toleration["effect"] = effect(draw, mix).into();
        }
        if draw.percent(10) {
            toleration["tolerationSeconds"] = draw.below(300).into();
        }
        toleration
    });
    tolerations.into()
}
