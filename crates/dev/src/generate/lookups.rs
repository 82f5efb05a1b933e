//! Generates namespaces, and what default spreading looks up: Services and the controllers of pods.

use super::selectors::{label_selector, match_labels};
use super::{Mix, NAMESPACES};
use crate::draw::Draw;
use serde_json::{Value, json};

/// Possible controllers of pods by apiVersion and kind; the last few are not looked up.
const OWNERS: &[(usize, (&str, &str))] = &[
    (3, ("v1", "ReplicationController")),
    (5, ("apps/v1", "ReplicaSet")),
    (4, ("apps/v1", "StatefulSet")),
    (1, ("batch/v1", "Job")),
    (1, ("apps/v1beta1", "StatefulSet")),
    (1, ("v1", "ReplicaSet")),
];

/// Returns Namespace objects; some namespaces have none.
pub(super) fn namespaces(draw: &mut Draw) -> Vec<Value> {
    let mut objects = Vec::new();
    for name in NAMESPACES {
        if draw.percent(15) {
            continue;
        }
        let mut labels = json!({ "kubernetes.io/metadata.name": name });
        if draw.percent(65) {
            labels["env"] = draw.pick(&["dev", "prod"]).into();
        }
        objects.push(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } }));
    }
    objects
}

/// Returns Services, ReplicationControllers, ReplicaSets and StatefulSets.
pub(super) fn services_and_controllers(draw: &mut Draw, mix: Mix) -> Vec<Value> {
    let mut objects = Vec::new();
    for index in 0..2 {
        if draw.percent(mix.owners) {
            let mut service = object(draw, "v1", "Service", &format!("s{index}"));
            if draw.percent(90) {
                service["spec"]["selector"] = match_labels(draw, mix);
            }
            objects.push(service);
        }
    }
    for (api_version, kind) in OWNERS[..3].iter().map(|(_, owner)| *owner) {
        for name in ["o0", "o1"] {
            if !draw.percent(mix.owners / 2) {
                continue;
            }
            let mut controller = object(draw, api_version, kind, name);
            controller["spec"]["selector"] =
                if api_version == "v1" { match_labels(draw, mix) } else { label_selector(draw, mix) };
            objects.push(controller);
        }
    }
    objects
}

fn object(draw: &mut Draw, api_version: &str, kind: &str, name: &str) -> Value {
    let namespace = draw.pick(&["default", "default", "team-a"]);
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": { "name": name, "namespace": namespace, "uid": format!("uid-{kind}-{namespace}-{name}") },
        "spec": {},
    })
}

/// Returns a pod's owner references.
pub(super) fn owner_references(draw: &mut Draw) -> Value {
    let count = draw.weighted(&[(6, 1), (1, 2)]);
    let owners = draw.list(count, |draw| {
        let (api_version, kind) = draw.weighted(OWNERS);
        let name = draw.pick(&["o0", "o1", "gone"]);
        let mut owner =
            json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": format!("uid-{name}") });
        if draw.percent(90) {
            owner["controller"] = draw.percent(90).into();
        }
        owner
    });
    owners.into()
}
