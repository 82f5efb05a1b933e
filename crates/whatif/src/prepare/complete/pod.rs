//! Defaults of the pod spec, and the tolerations and selectors that admission adds.

use crate::load::files::text_at;
use crate::prepare::complete::pod_level;
use crate::prepare::complete::{default, is_absent};
use serde_json::{Map, Value, json};

/// The fields of a pod spec with containers that request resources and open ports.
pub(super) const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// Taints that every pod tolerates for [`FAILING_SECONDS`] (admission plugin DefaultTolerationSeconds).
const FAILING: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const FAILING_SECONDS: i64 = 300;

/// Sets the defaults of `SetDefaults_Pod`, `SetDefaults_PodSpec` and `SetDefaults_ContainerPort`.
pub(super) fn default_spec(pod: &mut Value) {
    default(pod, &["spec", "schedulerName"], "default-scheduler");
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let host_network = spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false);
    for container in containers(spec) {
        requests_from_limits(container);
        for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            default(port, &["protocol"], "TCP");
            let Some(port) = port.as_object_mut().filter(|_| host_network) else { continue };
            let is_unset = port.get("hostPort").is_none_or(|number| number.is_null() || *number == 0);
            if let Some(number) = port.get("containerPort").cloned().filter(|_| is_unset) {
                port.insert("hostPort".to_owned(), number);
            }
        }
    }
    pod_level::default_requests(spec);
}

/// Returns all containers and init containers that are objects.
pub(super) fn containers(spec: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let lists = spec.iter_mut().filter(|(key, _)| CONTAINERS.contains(&key.as_str()));
    lists.filter_map(|(_, list)| list.as_array_mut()).flatten().filter_map(Value::as_object_mut)
}

/// Sets missing requests to the limits.
fn requests_from_limits(container: &mut Map<String, Value>) {
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    add_missing(resources, "requests", &limits);
}

/// Adds the amounts of `more` that are missing under `field`.
pub(super) fn add_missing(resources: &mut Map<String, Value>, field: &str, more: &Map<String, Value>) {
    let amounts = resources.entry(field).or_insert(Value::Null);
    if amounts.is_null() {
        *amounts = Value::Object(Map::new());
    }
    let Some(amounts) = amounts.as_object_mut() else { return };
    for (name, amount) in more {
        amounts.entry(name).or_insert_with(|| amount.clone());
    }
}

/// Admission plugin DefaultTolerationSeconds.
pub(super) fn tolerate_failing_nodes(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let tolerations = spec.entry("tolerations").or_insert(Value::Null);
    if tolerations.is_null() {
        *tolerations = Value::Array(Vec::new());
    }
    let Some(tolerations) = tolerations.as_array_mut() else { return };
    let given = tolerations.clone();
    for taint in FAILING {
        let tolerates = |toleration: &Value| {
            let (key, effect) = (text_at(toleration, "/key"), text_at(toleration, "/effect"));
            (key.is_empty() || key == taint) && (effect.is_empty() || effect == "NoExecute")
        };
        if !given.iter().any(tolerates) {
            tolerations.push(json!({
                "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": FAILING_SECONDS,
            }));
        }
    }
}

/// Merges the pod's own label values into its selectors: `matchLabelKeys` and `mismatchLabelKeys` of affinity terms,
/// `matchLabelKeys` of spread constraints.
pub(super) fn merge_label_keys(pod: &mut Value) {
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
    let list = "DuringSchedulingIgnoredDuringExecution";
    for affinity in ["podAffinity", "podAntiAffinity"] {
        for (kind, term) in [("required", ""), ("preferred", "/podAffinityTerm")] {
            for entry in array_at(pod, &format!("/spec/affinity/{affinity}/{kind}{list}")) {
                if let Some(term) = entry.pointer_mut(term) {
                    merge_into_selector(term, "matchLabelKeys", "In", &labels);
                    merge_into_selector(term, "mismatchLabelKeys", "NotIn", &labels);
                }
            }
        }
    }
    for constraint in array_at(pod, "/spec/topologySpreadConstraints") {
        merge_into_selector(constraint, "matchLabelKeys", "In", &labels);
    }
}

fn array_at<'a>(value: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Adds the requirements to a selector. A missing selector matches no pod and stays missing.
fn merge_into_selector(term: &mut Value, field: &str, operator: &str, labels: &Map<String, Value>) {
    let keys = term.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    if is_absent(term, "/labelSelector") {
        return;
    }
    for key in keys.iter().filter_map(Value::as_str) {
        let Some(value) = labels.get(key) else { continue };
        let requirement = json!({ "key": key, "operator": operator, "values": [value] });
        let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else { return };
        let expressions = selector.entry("matchExpressions").or_insert(Value::Null);
        if expressions.is_null() {
            *expressions = Value::Array(Vec::new());
        }
        // An object from a cluster already has the requirement.
        if let Some(expressions) = expressions.as_array_mut().filter(|all| !all.contains(&requirement)) {
            expressions.push(requirement);
        }
    }
}
