//! Builders for parts of objects.

use serde_json::{Map, Value, json};

pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const REGION: &str = "topology.kubernetes.io/region";

/// The namespace of pods.
pub(crate) const NAMESPACE: &str = "load";

pub(crate) fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

/// Returns a node with these resources in one of three zones.
pub(crate) fn node(number: usize, has: &Value) -> Value {
    let name = node_name(number);
    let (zone, disk) = (format!("zone-{}", number % 3), ["ssd", "hdd"][number % 2]);
    let labels = labels(&[(HOSTNAME, &name), (ZONE, &zone), (REGION, "r1"), ("disk", disk)]);
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {}, "status": {"capacity": has, "allocatable": has},
    })
}

/// Returns the resources of a node of `oracle time`.
pub(crate) fn large() -> Value {
    json!({"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "500Gi"})
}

/// Returns the resources of a node of scheduler_perf.
pub(crate) fn small() -> Value {
    json!({"cpu": "4", "memory": "32Gi", "pods": "110"})
}

/// Returns a pod with these requests.
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

/// Returns the requests of most pods.
pub(crate) fn some() -> Value {
    json!({"cpu": "100m", "memory": "500Mi"})
}

/// Sets the pod's own CPU request.
pub(crate) fn with_cpu(mut pod: Value, milli: usize) -> Value {
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = quantity(milli).into();
    pod
}

/// Formats the amount as the API server does.
fn quantity(milli: usize) -> String {
    if milli.is_multiple_of(1000) { (milli / 1000).to_string() } else { format!("{milli}m") }
}

/// Adds a part to the pod's spec.
pub(crate) fn with(mut pod: Value, part: &str, value: Value) -> Value {
    pod["spec"][part] = value;
    pod
}

/// Binds the pod to the node of this name.
pub(crate) fn with_node(pod: Value, node: &str) -> Value {
    with(pod, "nodeName", node.into())
}

/// Returns a running counterpart of the pod, with another name, on one of `nodes` nodes in turn.
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

/// Returns a selector of pods with this label.
pub(crate) fn selector(key: &str, value: &str) -> Value {
    json!({"matchLabels": {key: value}})
}

/// Returns a pod affinity term.
pub(crate) fn term(selector: &Value, topology_key: &str) -> Value {
    json!({"labelSelector": selector, "topologyKey": topology_key})
}

/// Returns the same term with a weight, as a preference.
pub(crate) fn weighted(weight: i32, term: &Value) -> Value {
    json!({"weight": weight, "podAffinityTerm": term})
}

/// Returns `podAffinity` or `podAntiAffinity`, required or preferred.
pub(crate) fn affinity(kind: &str, is_required: bool, term: &Value) -> Value {
    let when = if is_required {
        "requiredDuringSchedulingIgnoredDuringExecution"
    } else {
        "preferredDuringSchedulingIgnoredDuringExecution"
    };
    json!({kind: {when: [term]}})
}

/// Returns node affinity with this requirement.
pub(crate) fn node_affinity(part: &str, key: &str, value: &str) -> Value {
    let term = json!({part: [{"key": key, "operator": "In", "values": [value]}]});
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}})
}

/// Returns a spread constraint.
pub(crate) fn spread(selector: &Value, key: &str, skew: i32, when: &str) -> Value {
    json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector})
}
