//! Generates topology spread constraints.

use super::selectors::label_selector;
use super::{Mix, topology_key};
use crate::draw::Draw;
use serde_json::{Value, json};

/// Returns a pod's constraints.
pub(super) fn constraints(draw: &mut Draw, mix: Mix) -> Value {
    let count = draw.weighted(&[(1, 0), (6, 1), (4, 2), (1, 3)]);
    draw.list(count, |draw| constraint(draw, mix)).into()
}

fn constraint(draw: &mut Draw, mix: Mix) -> Value {
    let mut constraint = json!({
        "maxSkew": draw.weighted(&[(5, 1), (3, 2), (1, 3), (1, 5)]),
        "topologyKey": topology_key(draw, mix),
        "whenUnsatisfiable": draw.weighted(&[(5, "DoNotSchedule"), (4, "ScheduleAnyway")]),
    });
    let usual = draw.percent(40);
    let selector = if usual { json!({ "matchLabels": { "app": "web" } }) } else { label_selector(draw, mix) };
    if !selector.is_null() || draw.percent(50) {
        constraint["labelSelector"] = selector;
    }
    if draw.percent(25) {
        constraint["minDomains"] = draw.weighted(&[(2, 1), (3, 2), (3, 3), (1, 9)]).into();
    }
    if draw.percent(20) {
        let count = draw.between(0, 2);
        constraint["matchLabelKeys"] = draw.list(count, |draw| draw.pick(&["ver", "tier", "none"])).into();
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if draw.percent(40) {
            constraint[policy] = draw.pick(&["Honor", "Ignore"]).into();
        }
    }
    if draw.percent(mix.odd) {
        match draw.below(5) {
            0 => constraint["maxSkew"] = draw.weighted(&[(1, 0), (1, -1), (1, 2_147_483_647)]).into(),
            1 => constraint["minDomains"] = draw.weighted(&[(1, 0), (1, -2)]).into(),
            2 => constraint["whenUnsatisfiable"] = draw.pick(&["", "Never"]).into(),
            3 => constraint["nodeTaintsPolicy"] = draw.pick(&["", "honor"]).into(),
            _ => constraint["nodeAffinityPolicy"] = draw.pick(&["", "ignore"]).into(),
        }
    }
    constraint
}
