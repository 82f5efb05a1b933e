//! Generates scheduler configurations: weights, order and arguments of plugins.

use super::affinity::node_term;
use super::{HOST, Mix, REGION, ZONE};
use crate::draw::Draw;
use serde_json::{Value, json};

/// Scoring plugins with their default weights.
const SCORES: &[&str] = &[
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "VolumeBinding",
    "DynamicResources",
];

/// Plugins that can be disabled without breaking others.
const FILTERS: &[&str] = &[
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeDeclaredFeatures",
];

/// Returns a KubeSchedulerConfiguration, most often with one profile.
pub(super) fn configuration(draw: &mut Draw) -> Value {
    let mut profiles = vec![profile(draw, "default-scheduler")];
    if draw.percent(15) {
        profiles.push(profile(draw, "other"));
    }
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
    })
}

/// Generates the arguments of a plugin.
type Maker = fn(&mut Draw) -> Value;

fn profile(draw: &mut Draw, name: &str) -> Value {
    let mut profile = json!({ "schedulerName": name });
    if draw.percent(60) {
        profile["plugins"] = plugins(draw);
    }
    let makers: [(usize, &str, Maker); 6] = [
        (60, "NodeResourcesFit", fit),
        (30, "NodeResourcesBalancedAllocation", balanced),
        (30, "InterPodAffinity", pod_affinity),
        (30, "PodTopologySpread", spread),
        (25, "NodeAffinity", node_affinity),
        (5, "VolumeBinding", |draw| json!({ "bindTimeoutSeconds": draw.below(700) })),
    ];
    let mut arguments = Vec::new();
    for (chance, plugin, make) in makers {
        if draw.percent(chance) {
            arguments.push(json!({ "name": plugin, "args": make(draw) }));
        }
    }
    if !arguments.is_empty() {
        profile["pluginConfig"] = arguments.into();
    }
    profile
}

fn plugins(draw: &mut Draw) -> Value {
    let mut plugins = json!({});
    if draw.percent(40) {
        plugins["multiPoint"] = json!({ "enabled": some(draw, SCORES, true) });
        if draw.percent(40) {
            let left_out = draw.pick(FILTERS);
            plugins["multiPoint"]["disabled"] = json!([{ "name": left_out }]);
        }
    }
    if draw.percent(60) {
        plugins["score"] = json!({});
        if draw.percent(60) {
            plugins["score"]["enabled"] = some(draw, SCORES, true);
        }
        match draw.below(5) {
            0 => plugins["score"]["disabled"] = json!([{ "name": "*" }]),
            1 | 2 => plugins["score"]["disabled"] = some(draw, SCORES, false),
            _ => {}
        }
    }
    if draw.percent(40) {
        plugins["filter"] = json!({});
        if draw.percent(60) {
            plugins["filter"]["enabled"] = some(draw, FILTERS, false);
        }
        match draw.below(6) {
            0 => plugins["filter"]["disabled"] = json!([{ "name": "*" }]),
            1 | 2 => plugins["filter"]["disabled"] = some(draw, FILTERS, false),
            _ => {}
        }
    }
    if draw.percent(6) {
        let point = draw.pick(&["preFilter", "preScore", "postFilter"]);
        let left_out = if draw.percent(40) { "*" } else { draw.pick(FILTERS) };
        plugins[point] = json!({ "disabled": [{ "name": left_out }] });
    }
    plugins
}

/// Returns some of the plugins in random order.
fn some(draw: &mut Draw, from: &[&str], weights: bool) -> Value {
    let mut left = from.to_vec();
    let count = draw.between(1, 3);
    let plugins = draw.list(count, |draw| {
        let at = draw.below(left.len());
        let mut plugin = json!({ "name": left.swap_remove(at) });
        if weights && draw.percent(75) {
            plugin["weight"] = draw.weighted(&[(1, 0), (3, 1), (3, 2), (2, 5), (1, 100)]).into();
        }
        plugin
    });
    plugins.into()
}

/// Returns resource names with weights.
fn resources(draw: &mut Draw, weights: bool) -> Value {
    let mut left =
        vec!["cpu", "memory", "example.com/gpu", "ephemeral-storage", "hugepages-2Mi", "none.example/x"];
    let count = draw.between(1, 4);
    let resources = draw.list(count, |draw| {
        let at = if draw.percent(50) { 0 } else { draw.below(left.len()) };
        let weight = if weights { draw.weighted(&[(3, 1), (2, 2), (2, 5), (1, 100), (1, 0)]) } else { 1 };
        json!({ "name": left.remove(at), "weight": weight })
    });
    resources.into()
}

fn fit(draw: &mut Draw) -> Value {
    let mut args = json!({});
    if draw.percent(85) {
        let kind = draw.pick(&[
            "LeastAllocated",
            "MostAllocated",
            "RequestedToCapacityRatio",
            "RequestedToCapacityRatio",
        ]);
        let mut strategy = json!({ "type": kind });
        if draw.percent(80) {
            strategy["resources"] = resources(draw, true);
        }
        if kind == "RequestedToCapacityRatio" {
            strategy["requestedToCapacityRatio"] = json!({ "shape": shape(draw) });
        }
        args["scoringStrategy"] = strategy;
    }
    if draw.percent(20) {
        args["ignoredResources"] =
            json!([draw.pick(&["example.com/gpu", "example.com/fpga", "hugepages-2Mi"])]);
    }
    if draw.percent(20) {
        args["ignoredResourceGroups"] = json!([draw.pick(&["example.com", "kubernetes.io", "other.org"])]);
    }
    args
}

fn shape(draw: &mut Draw) -> Value {
    let mut utilization = draw.below(30);
    let count = draw.between(1, 4);
    let points = draw.list(count, |draw| {
        let point = json!({ "utilization": utilization.min(100), "score": draw.below(11) });
        utilization += draw.between(1, 35);
        point
    });
    points.into()
}

fn balanced(draw: &mut Draw) -> Value {
    json!({ "resources": resources(draw, false) })
}

fn pod_affinity(draw: &mut Draw) -> Value {
    let mut args = json!({});
    if draw.percent(80) {
        args["hardPodAffinityWeight"] = draw.weighted(&[(3, 0), (2, 1), (2, 7), (2, 100)]).into();
    }
    if draw.percent(50) {
        args["ignorePreferredTermsOfExistingPods"] = draw.percent(70).into();
    }
    args
}

fn spread(draw: &mut Draw) -> Value {
    if draw.percent(20) {
        return json!({ "defaultingType": "System" });
    }
    let mut keys = vec![ZONE, HOST, "rack", REGION];
    let count = draw.between(0, 3);
    let constraints = draw.list(count, |draw| {
        let at = draw.below(keys.len());
        json!({
            "maxSkew": draw.between(1, 3), "topologyKey": keys.remove(at),
            "whenUnsatisfiable": draw.pick(&["ScheduleAnyway", "ScheduleAnyway", "DoNotSchedule"]),
        })
    });
    json!({ "defaultingType": "List", "defaultConstraints": constraints })
}

fn node_affinity(draw: &mut Draw) -> Value {
    let good = Mix::default();
    let mut added = json!({});
    if draw.percent(50) {
        let count = draw.between(1, 2);
        let terms = draw.list(count, |draw| node_term(draw, good, 10));
        added["requiredDuringSchedulingIgnoredDuringExecution"] = json!({ "nodeSelectorTerms": terms });
    }
    if draw.percent(60) {
        let count = draw.between(1, 2);
        let terms = draw.list(count, |draw| {
            json!({ "weight": draw.weighted(&[(2, 1), (2, 10), (1, 100)]), "preference": node_term(draw, good, 4) })
        });
        added["preferredDuringSchedulingIgnoredDuringExecution"] = terms.into();
    }
    json!({ "addedAffinity": added })
}
