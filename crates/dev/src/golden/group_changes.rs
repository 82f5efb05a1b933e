//! What the changes of a recorded scenario of pod groups do to its objects. Without the engine, so that other tests may
//! include this file.

use serde_json::Value;
use std::collections::BTreeMap;

/// When the recorded deletions happen.
pub(crate) const DELETED_AT: &str = "2023-11-14T22:21:40Z";
/// How long after its creation a pod starts, in seconds.
const STARTS_AFTER: i64 = 1_000;

/// Kind, namespace and name.
pub(crate) type Key = (String, String, String);

/// What happens to one object.
pub(crate) enum Edit {
    /// It is created or replaced.
    Put(Value),
    /// It goes.
    Remove(Key),
}

/// Returns what a change does, given the objects before it. `name` has the form `namespace/name` for pods.
pub(crate) fn edits(what: &str, value: &Value, objects: &BTreeMap<Key, Value>) -> Vec<Edit> {
    let name = || value.as_str().unwrap_or_default();
    match what {
        "create" => vec![Edit::Put(value.clone())],
        "update" => {
            let mut value = value.clone();
            value["status"] = objects[&key(&value)]["status"].clone();
            vec![Edit::Put(value)]
        }
        "delete" => {
            let mut parts = name().split('/').map(str::to_owned);
            let (kind, last) = (parts.next().unwrap_or_default(), parts.next_back());
            let namespace = parts.next().unwrap_or_default();
            vec![Edit::Remove((kind, namespace, last.unwrap_or_default()))]
        }
        "finish" => vec![Edit::Remove(pod_key(name()))],
        "reap" => {
            let pods = objects.iter().filter(|((kind, ..), _)| kind == "Pod");
            let gone = pods.filter(|(_, pod)| !pod["metadata"]["deletionTimestamp"].is_null());
            gone.map(|(key, _)| Edit::Remove(key.clone())).collect()
        }
        "ungate" => {
            let mut pod = objects[&pod_key(name())].clone();
            pod["spec"].as_object_mut().expect("a pod has a spec").remove("schedulingGates");
            vec![Edit::Put(pod)]
        }
        other => panic!("the change {other} is not known"),
    }
}

pub(crate) fn key(object: &Value) -> Key {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    (text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
}

pub(crate) fn pod_key(id: &str) -> Key {
    let (namespace, name) = id.split_once('/').unwrap_or_default();
    ("Pod".to_owned(), namespace.to_owned(), name.to_owned())
}

/// Gives a pod a node, as its Binding and the kubelet do.
pub(crate) fn bind(pod: &mut Value, node: Value) {
    let created = pod["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
    let created: jiff::Timestamp = created.parse().expect("a pod has a time of creation");
    pod["spec"]["nodeName"] = node;
    pod["status"]["startTime"] = (created + jiff::SignedDuration::from_secs(STARTS_AFTER)).to_string().into();
    pod["status"].as_object_mut().expect("a pod has a status").remove("nominatedNodeName");
}
