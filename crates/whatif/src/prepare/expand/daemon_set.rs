//! Expands DaemonSets: one pod per eligible node, bound to it by node affinity.

use crate::load::files::{Origin, Wrong, text_at};
use crate::prepare::expand::{Controller, Expanded};
use crate::prepare::identity::{fields_at, generated_name, set, template_hash};
use serde_json::{Value, json};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::pod::PodInfo;
use supercargo_objects::api::{Node, Pod};
use supercargo_objects::convert;

/// Taints that DaemonSet pods tolerate (`pkg/controller/daemon/util/daemonset_util.go`).
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// A further taint that pods with `hostNetwork` tolerate.
const TOLERATED_ON_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Expands a DaemonSet. Upstream: `pkg/controller/daemon/daemon_controller.go`.
pub(super) fn expand(object: &Value, origin: Origin, nodes: &[Value]) -> Result<Expanded, Wrong> {
    let owner = Controller::new(object)?;
    let hash = template_hash(owner.template);
    let labels = [("controller-revision-hash", hash.as_str()), ("pod-template-generation", "1")];
    let base = format!("{}-", owner.name);
    let mut pattern = owner.pod("", &labels);
    tolerate_troubles(&mut pattern);
    let mut tables = Tables::new();
    let mut expanded = Expanded::default();
    let Some(judged) = read_pod(&mut tables, &pattern) else {
        // An invalid template is reported when its pod is loaded.
        expanded.add_pod(named(&pattern, &owner, &base, 0), origin);
        return Ok(expanded);
    };
    for (at, node) in nodes.iter().enumerate() {
        if may_run(&mut tables, &judged, node) {
            let mut pod = named(&pattern, &owner, &base, at);
            tie_to(&mut pod, text_at(node, "/metadata/name"));
            expanded.add_pod(pod, origin);
        }
    }
    Ok(expanded)
}

fn named(pattern: &Value, owner: &Controller<'_>, base: &str, at: usize) -> Value {
    let mut pod = pattern.clone();
    let name = generated_name(base, "DaemonSet", owner.namespace, at);
    let uid = crate::prepare::expand::derived_uid("Pod", owner.namespace, &name);
    set(&mut pod, &["metadata", "name"], name.into());
    set(&mut pod, &["metadata", "uid"], uid.into());
    pod
}

fn tolerate_troubles(pod: &mut Value) {
    let on_host_network = pod.pointer("/spec/hostNetwork") == Some(&Value::Bool(true));
    let more = on_host_network.then_some(TOLERATED_ON_HOST_NETWORK);
    let Some(spec) = fields_at(pod, &["spec"]) else { return };
    let tolerations = spec.entry("tolerations").or_insert_with(|| Value::Array(Vec::new()));
    let Some(tolerations) = tolerations.as_array_mut() else { return };
    for (key, effect) in TOLERATED.into_iter().chain(more) {
        let toleration = json!({ "key": key, "operator": "Exists", "effect": effect });
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
}

/// Restricts the pod to a node by name; replaces any required node affinity.
fn tie_to(pod: &mut Value, node: &str) {
    let by_name = json!({ "key": "metadata.name", "operator": "In", "values": [node] });
    let required = json!({ "nodeSelectorTerms": [{ "matchFields": [by_name] }] });
    set(
        pod,
        &["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"],
        required,
    );
}

fn read_pod(tables: &mut Tables, pod: &Value) -> Option<PodInfo> {
    let pod: Pod = serde_json::from_value(pod.clone()).ok()?;
    convert::pod(tables, &pod).ok()
}

fn read_node(tables: &mut Tables, node: &Value) -> Option<NodeInfo> {
    let node: Node = serde_json::from_value(node.clone()).ok()?;
    convert::node(tables, &node).ok()
}

/// Returns whether the controller creates a pod for the node: name, labels and taints decide. Resources do not,
/// because the scheduler checks them.
fn may_run(tables: &mut Tables, pod: &PodInfo, node: &Value) -> bool {
    let Some(node) = read_node(tables, node) else { return false };
    let tolerates = !tables.taints(node.taints).iter().any(|taint| taint.keeps_out(&pod.tolerations));
    pod.node_name.is_none_or(|name| name == node.name)
        && pod.node_affinity.matches(tables, node.name, tables.labels(node.labels))
        && tolerates
}
