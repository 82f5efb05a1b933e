//! The parts that objects are put together from.

use serde_json::{Map, Value, json};

pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const REGION: &str = "topology.kubernetes.io/region";

/// The namespace of pods.
pub(crate) const NAMESPACE: &str = "load";

pub(crate) fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

/// A node of this much in one of three zones.
pub(crate) fn node(number: usize, has: &Value) -> Value {
    let name = node_name(number);
    let (zone, disk) = (format!("zone-{}", number % 3), ["ssd", "hdd"][number % 2]);
    let labels = labels(&[(HOSTNAME, &name), (ZONE, &zone), (REGION, "r1"), ("disk", disk)]);
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {}, "status": {"capacity": has, "allocatable": has},
    })
}

/// What a node of `oracle time` has.
pub(crate) fn large() -> Value {
    json!({"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "500Gi"})
}

/// What a node of scheduler_perf has.
pub(crate) fn small() -> Value {
    json!({"cpu": "4", "memory": "32Gi", "pods": "110"})
}

/// A pod that asks for this much.
pub(crate) fn pod(name: &str, labels: Value, asks: &Value) -> Value {
    pod_in(NAMESPACE, name, labels, asks)
}

pub(crate) fn pod_in(namespace: &str, name: &str, labels: Value, asks: &Value) -> Value {
    let container =
        json!({"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": asks}});
    let mut metadata = json!({"name": name, "namespace": namespace, "uid": name});
    metadata["labels"] = labels;
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"schedulerName": "default-scheduler", "containers": [container]}, "status": {},
    })
}

/// What most pods ask for.
pub(crate) fn some() -> Value {
    json!({"cpu": "100m", "memory": "500Mi"})
}

/// The pod with an amount of cpu of its own.
pub(crate) fn with_cpu(mut pod: Value, milli: usize) -> Value {
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = quantity(milli).into();
    pod
}

/// The amount in the form the API server gives it.
fn quantity(milli: usize) -> String {
    if milli.is_multiple_of(1000) { (milli / 1000).to_string() } else { format!("{milli}m") }
}

/// The pod with one more part of its spec.
pub(crate) fn with(mut pod: Value, part: &str, value: Value) -> Value {
    pod["spec"][part] = value;
    pod
}

/// The pod as one that is on the node of this name.
pub(crate) fn with_node(pod: Value, node: &str) -> Value {
    with(pod, "nodeName", node.into())
}

/// The pod as one that runs already, among `nodes` nodes in turn; never the one it is made from, but one beside it.
pub(crate) fn running(mut pod: Value, number: usize, nodes: usize) -> Value {
    let name = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let own = name(&pod["metadata"]["name"]);
    pod["metadata"]["name"] = format!("e-{own}").into();
    pod["metadata"]["uid"] = format!("{own}e").into();
    with_node(pod, &node_name(number % nodes))
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.into())).collect::<Map<_, _>>().into()
}

/// A selector of pods with this label.
pub(crate) fn selector(key: &str, value: &str) -> Value {
    json!({"matchLabels": {key: value}})
}

/// A pod affinity term.
pub(crate) fn term(selector: &Value, topology_key: &str) -> Value {
    json!({"labelSelector": selector, "topologyKey": topology_key})
}

/// The same as a preference.
pub(crate) fn weighted(weight: i32, term: &Value) -> Value {
    json!({"weight": weight, "podAffinityTerm": term})
}

/// `podAffinity` or `podAntiAffinity`, required or preferred.
pub(crate) fn affinity(kind: &str, is_required: bool, term: &Value) -> Value {
    let when = if is_required {
        "requiredDuringSchedulingIgnoredDuringExecution"
    } else {
        "preferredDuringSchedulingIgnoredDuringExecution"
    };
    json!({kind: {when: [term]}})
}

/// Node affinity to nodes for which this holds.
pub(crate) fn node_affinity(part: &str, key: &str, value: &str) -> Value {
    let term = json!({part: [{"key": key, "operator": "In", "values": [value]}]});
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}})
}

/// A spread constraint.
pub(crate) fn spread(selector: &Value, key: &str, skew: i32, when: &str) -> Value {
    json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector})
}
