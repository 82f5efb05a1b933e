//! Compares a manifest with the existing object and merges both, like `kubectl apply` without the last applied
//! manifest.

use crate::explain::format::count;
use serde_json::Value;
use supercargo_objects::convert::quantity::Quantity;

/// Fields without a default: if a manifest omits them, applying it removes them.
const NEVER_DEFAULTED: [&str; 15] = [
    "affinity",
    "hostNetwork",
    "initContainers",
    "limits",
    "nodeName",
    "nodeSelector",
    "overhead",
    "ports",
    "priorityClassName",
    "requests",
    "runtimeClassName",
    "schedulingGates",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
];
/// Maps whose keys all come from the manifest.
const WHOLE_MAPS: [&str; 5] = ["labels", "limits", "matchLabels", "nodeSelector", "requests"];
/// A label that a controller adds.
const HASH_LABEL: &str = "pod-template-hash";

/// Returns the differences between a manifest and the existing object, each as `path: old → new`.
///
/// With `is_whole`, fields that exist and are missing in the manifest are differences, too, unless an API server sets
/// them.
pub(super) fn differences(given: &Value, live: &Value, is_whole: bool) -> Vec<String> {
    let mut found = Vec::new();
    Comparison { is_whole }.compare(given, live, "", &mut found);
    found
}

/// Returns the existing object with the manifest applied: objects are merged, lists are replaced.
pub(super) fn merged(live: &Value, given: &Value) -> Value {
    match (live, given) {
        (Value::Object(live), Value::Object(given)) => {
            let mut all = live.clone();
            for (field, value) in given {
                let value = live.get(field).map_or_else(|| value.clone(), |live| merged(live, value));
                all.insert(field.clone(), value);
            }
            Value::Object(all)
        }
        (live, Value::Null) => live.clone(),
        (_, given) => given.clone(),
    }
}

struct Comparison {
    is_whole: bool,
}

impl Comparison {
    fn compare(&self, given: &Value, live: &Value, path: &str, found: &mut Vec<String>) {
        let differ = |found: &mut Vec<String>| {
            found.push(format!("{path}: {} → {}", short(live), short(given)));
        };
        match (given, live) {
            (Value::Null, _) => {}
            (given, Value::Null) if is_nothing(given) => {}
            (Value::Object(new), Value::Object(old)) => {
                for (field, value) in new.iter().filter(|(field, _)| !is_the_servers(path, field)) {
                    let old = old.get(field).unwrap_or(&Value::Null);
                    self.compare(value, old, &joined(path, field), found);
                }
                let last = path.rsplit('.').next().unwrap_or_default();
                let is_gone = |field: &String| {
                    !new.contains_key(field)
                        && field != HASH_LABEL
                        && (WHOLE_MAPS.contains(&last) || NEVER_DEFAULTED.contains(&field.as_str()))
                };
                let gone = old.iter().filter(|(field, value)| is_gone(field) && !is_nothing(value));
                for (field, value) in gone.filter(|_| self.is_whole) {
                    found.push(format!("{}: {} → none", joined(path, field), short(value)));
                }
            }
            (Value::Array(new), Value::Array(old)) => self.lists(new, old, path, found),
            (given, live) if is_same(given, live) => {}
            _ => differ(found),
        }
    }

    fn lists(&self, new: &[Value], old: &[Value], path: &str, found: &mut Vec<String>) {
        let name = |value: &Value| value["name"].as_str().map(str::to_owned);
        let are_named = new.iter().chain(old).all(|it| name(it).is_some());
        if self.is_whole && new.len() != old.len() {
            found.push(format!("{path}: {} → {}", count(old.len(), "entry"), new.len()));
            return;
        }
        for (at, value) in new.iter().enumerate() {
            if are_named {
                let name = name(value).unwrap_or_default();
                let old = old.iter().find(|it| it["name"] == name.as_str()).unwrap_or(&Value::Null);
                self.compare(value, old, &format!("{path}[{name}]"), found);
            } else if !old.iter().any(|it| differences(value, it, self.is_whole).is_empty()) {
                let was = old.get(at).unwrap_or(&Value::Null);
                found.push(format!("{path}[{at}]: {} → {}", short(was), short(value)));
            }
        }
    }
}

/// Returns whether a field belongs to the API server and is not compared: identity, status and annotations.
fn is_the_servers(path: &str, field: &str) -> bool {
    let of_metadata = ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"];
    (path.is_empty() && field == "status")
        || (path == "metadata" && (of_metadata.contains(&field) || field == "annotations"))
}

fn joined(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// Returns whether a value means the same as its absence.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_nothing),
    }
}

/// Returns whether two values are the same quantity, in any notation.
fn is_same(given: &Value, live: &Value) -> bool {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let amount = |value: &Value| Quantity::parse(&text(value)?).ok().map(Quantity::nano_value);
    given == live || amount(given).is_some_and(|given| amount(live) == Some(given))
}

/// Formats a value in short form.
fn short(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => count(items.len(), "entry"),
        Value::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn server_defaults_are_not_differences() {
        let container = json!({ "name": "c", "image": "i", "resources": { "requests": { "cpu": "0.5", "memory": "1024Mi" } } });
        let given =
            json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [container] } });
        let live = json!({ "metadata": { "labels": { "app": "web", "pod-template-hash": "x" }, "creationTimestamp": null }, "spec": {
            "containers": [{ "name": "c", "image": "i", "imagePullPolicy": "Always", "resources": { "requests": { "cpu": "500m", "memory": "1Gi" } } }],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {} } });
        assert_eq!(differences(&given, &live, true), Vec::<String>::new());
    }

    #[test]
    fn added_changed_and_removed_fields_are_reported_with_paths() {
        let live = json!({ "spec": { "nodeSelector": { "disk": "ssd" }, "containers": [{ "name": "c", "image": "i:1" }] } });
        let changes = |spec: &Value| differences(&json!({ "spec": spec }), &live, true);
        let containers = json!([{ "name": "c", "image": "i:2" }]);
        assert_eq!(
            changes(&json!({ "nodeSelector": { "disk": "ssd" }, "containers": containers })),
            ["spec.containers[c].image: i:1 → i:2"]
        );
        let containers = json!([{ "name": "c", "image": "i:1" }]);
        assert_eq!(changes(&json!({ "containers": containers })), ["spec.nodeSelector: an object → none"]);
        let tolerations = json!([{ "key": "a" }]);
        assert_eq!(
            changes(
                &json!({ "nodeSelector": { "disk": "ssd" }, "containers": containers, "tolerations": tolerations })
            ),
            ["spec.tolerations: none → 1 entry"]
        );
    }

    #[test]
    fn merge_joins_fields_and_replaces_lists() {
        let live = json!({ "spec": { "a": 1, "list": [1, 2] }, "status": { "x": 1 } });
        let given = json!({ "spec": { "b": 2, "list": [3], "a": null } });
        let all = json!({ "spec": { "a": 1, "b": 2, "list": [3] }, "status": { "x": 1 } });
        assert_eq!(merged(&live, &given), all);
    }
}
