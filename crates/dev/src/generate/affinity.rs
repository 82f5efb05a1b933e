//! Generates node affinity and pod affinity.

use super::selectors::{label_selector, spoil};
use super::{HOST, Mix, NAMESPACES, ZONE, topology_key};
use crate::draw::Draw;
use serde_json::{Map, Value, json};

/// Adds a node selector or node affinity to a pod's spec.
pub(super) fn to_nodes(draw: &mut Draw, mix: Mix, spec: &mut Value) {
    if draw.percent(20) {
        let mut pairs = Map::new();
        for _ in 0..draw.weighted(&[(1, 0), (6, 1), (1, 2)]) {
            pairs.insert(
                draw.pick(&["disk", "rack", ZONE]).into(),
                draw.pick(&["ssd", "hdd", "k1", "z1"]).into(),
            );
        }
        if draw.percent(mix.odd) {
            pairs.insert("-odd-".into(), "not valid!".into());
        }
        spec["nodeSelector"] = pairs.into();
    }
    if draw.percent(30) {
        return;
    }
    let mut affinity = json!({});
    if draw.percent(45) {
        let count = draw.weighted(&[(1, 0), (5, 1), (4, 2), (2, 3)]);
        let terms = draw.list(count, |draw| node_term(draw, mix, 15));
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = json!({ "nodeSelectorTerms": terms });
    }
    if draw.percent(75) {
        let count = draw.weighted(&[(1, 0), (5, 1), (3, 2), (1, 3)]);
        let terms = draw.list(count, |draw| {
            let weight = if draw.percent(8) { 0 } else { weight(draw) };
            json!({ "weight": weight, "preference": node_term(draw, mix, 4) })
        });
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = terms.into();
    }
    spec["affinity"]["nodeAffinity"] = affinity;
}

fn weight(draw: &mut Draw) -> i64 {
    let any = i64::try_from(draw.between(1, 100)).expect("it is small");
    draw.weighted(&[(2, 1), (1, 29), (1, 58), (2, 100), (5, any)])
}

/// Returns a node affinity term, which names nodes in `by_name` percent of cases.
pub(super) fn node_term(draw: &mut Draw, mix: Mix, by_name: usize) -> Value {
    let mut term = json!({});
    if draw.percent(85) {
        let count = draw.weighted(&[(1, 0), (8, 1), (3, 2)]);
        term["matchExpressions"] = draw.list(count, |draw| node_requirement(draw, mix)).into();
    }
    if draw.percent(by_name) {
        let count = draw.weighted(&[(1, 0), (8, 1), (2, 2)]);
        term["matchFields"] = draw.list(count, |draw| name_requirement(draw, mix)).into();
    }
    term
}

fn node_requirement(draw: &mut Draw, mix: Mix) -> Value {
    let key = draw.weighted(&[(3, "disk"), (2, "rack"), (2, ZONE), (3, "gen"), (1, "none"), (1, HOST)]);
    let value = |draw: &mut Draw| match key {
        "disk" => draw.pick(&["ssd", "hdd", "nvme"]),
        "rack" => draw.pick(&["k1", "k2", ""]),
        "gen" => draw.pick(&["1", "2", "05", "5", "x"]),
        HOST => draw.pick(&["n0", "n1", "shared"]),
        _ => draw.pick(&["z1", "z2", ""]),
    };
    let mut requirement = match draw.below(12) {
        0..4 => {
            let count = draw.between(1, 2);
            json!({ "key": key, "operator": "In", "values": draw.list(count, value) })
        }
        4..6 => json!({ "key": key, "operator": "NotIn", "values": [value(draw)] }),
        6..8 => json!({ "key": key, "operator": "Exists" }),
        8 => json!({ "key": key, "operator": "DoesNotExist" }),
        _ => {
            let bounds = &["0", "1", "2", "3", "007", "9223372036854775806", "9223372036854775807"];
            let bound = if draw.percent(mix.odd) { "-4" } else { draw.pick(bounds) };
            json!({ "key": "gen", "operator": draw.pick(&["Gt", "Lt"]), "values": [bound] })
        }
    };
    if draw.percent(mix.odd) {
        spoil(draw, &mut requirement);
    }
    requirement
}

fn name_requirement(draw: &mut Draw, mix: Mix) -> Value {
    let name = draw.pick(&["n0", "n1", "n2", "n9"]);
    let operator = draw.weighted(&[(5, "In"), (2, "NotIn")]);
    let mut requirement = json!({ "key": "metadata.name", "operator": operator, "values": [name] });
    if draw.percent(mix.odd * 2) {
        match draw.below(4) {
            0 => requirement["values"] = json!([name, "n2"]),
            1 => requirement["key"] = "metadata.namespace".into(),
            _ => spoil(draw, &mut requirement),
        }
    }
    requirement
}

/// Adds pod affinity, pod anti-affinity or both to a pod's spec.
pub(super) fn to_pods(draw: &mut Draw, mix: Mix, spec: &mut Value) {
    for (field, chance) in [("podAffinity", 50), ("podAntiAffinity", 55)] {
        if !draw.percent(chance) {
            continue;
        }
        let mut affinity = json!({});
        if draw.percent(50) {
            let count = draw.weighted(&[(1, 0), (6, 1), (2, 2)]);
            let terms = draw.list(count, |draw| pod_term(draw, mix));
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = terms.into();
        }
        if draw.percent(50) {
            let count = draw.weighted(&[(1, 0), (5, 1), (3, 2)]);
            let terms = draw.list(count, |draw| {
                let weight =
                    if draw.percent(mix.odd) { draw.weighted(&[(1, 0), (1, -5)]) } else { weight(draw) };
                json!({ "weight": weight, "podAffinityTerm": pod_term(draw, mix) })
            });
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = terms.into();
        }
        spec["affinity"][field] = affinity;
    }
}

fn pod_term(draw: &mut Draw, mix: Mix) -> Value {
    let mut term = json!({ "topologyKey": topology_key(draw, mix) });
    if draw.percent(mix.odd) {
        term["topologyKey"] = "".into();
    }
    let selector = label_selector(draw, mix);
    if !selector.is_null() || draw.percent(50) {
        term["labelSelector"] = selector;
    }
    if draw.percent(20) {
        let count = draw.between(0, 2);
        term["namespaces"] = draw.list(count, |draw| draw.pick(&["default", "team-a", "gone"])).into();
    }
    if draw.percent(25) {
        term["namespaceSelector"] = namespace_selector(draw, mix);
    }
    if draw.percent(4) {
        term["matchLabelKeys"] = json!(["ver"]);
    }
    term
}

/// Returns a selector of namespaces by labels that some of them have.
fn namespace_selector(draw: &mut Draw, mix: Mix) -> Value {
    let name = draw.pick(NAMESPACES);
    let mut expression = match draw.below(8) {
        0 => return json!({}),
        1 | 2 => return json!({ "matchLabels": { "env": draw.pick(&["dev", "prod", "gone"]) } }),
        3 => return json!({ "matchLabels": { "kubernetes.io/metadata.name": name } }),
        4 => json!({ "key": "env", "operator": "NotIn", "values": ["dev"] }),
        5 => json!({ "key": "env", "operator": "DoesNotExist" }),
        6 => json!({ "key": "env", "operator": "Exists" }),
        _ => json!({ "key": "kubernetes.io/metadata.name", "operator": "In", "values": [name, "gone"] }),
    };
    if draw.percent(mix.odd) {
        spoil(draw, &mut expression);
    }
    json!({ "matchExpressions": [expression] })
}
