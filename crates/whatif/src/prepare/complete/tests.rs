//! Tests of each default against the output of a real API server for the same object.

use super::*;
use crate::load::files::{Files, Item};
use crate::load::input::InputLimit;
use serde_json::json;
use std::io::Write as _;

/// Reads the objects from a file.
fn items(objects: &[Value]) -> Vec<Item> {
    let mut file = tempfile::NamedTempFile::new().expect("the temporary file is created");
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    write!(file, "{list}").expect("the file is written");
    Files::within(InputLimit::default(), |warning| panic!("{warning}"))
        .read(file.path(), &mut std::io::empty())
        .expect("the objects are valid")
}

/// Completes an object in a cluster with these other objects.
fn completed_beside(others: &[Value], mut object: Value) -> Result<Value, Wrong> {
    let others = items(others);
    Completer::new(&others).complete(&mut object)?;
    Ok(object)
}

fn completed(object: Value) -> Value {
    completed_beside(&[], object).expect("the object is valid")
}

fn pod(spec: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "default" }, "spec": spec })
}

fn priority_class(name: &str, value: i64, more: Value) -> Value {
    let mut class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name }, "value": value,
    });
    if let (Some(class), Value::Object(more)) = (class.as_object_mut(), more) {
        class.extend(more);
    }
    class
}

#[test]
fn missing_request_defaults_to_the_limit() {
    let resources = json!({ "limits": { "cpu": 2, "memory": "1Gi" }, "requests": { "memory": "512Mi" } });
    let spec = json!({
        "containers": [{ "name": "c", "resources": resources }, { "name": "d" }],
        "initContainers": [{ "name": "i", "resources": { "limits": { "example.com/gpu": "1" } } }],
    });
    let spec = completed(pod(&spec))["spec"].clone();
    assert_eq!(spec["containers"][0]["resources"]["requests"], json!({ "cpu": 2, "memory": "512Mi" }));
    assert_eq!(spec["containers"][1].get("resources"), None);
    assert_eq!(spec["initContainers"][0]["resources"]["requests"], json!({ "example.com/gpu": "1" }));
}

#[test]
fn pod_level_requests_default_to_container_sums_then_limits() {
    let container = |cpu: &str| json!({ "name": "c", "resources": { "requests": { "cpu": cpu } } });
    let spec = json!({
        "resources": { "limits": { "cpu": "4", "memory": "2Gi" } },
        "containers": [container("500m"), container("1")],
        "initContainers": [
            { "name": "s", "restartPolicy": "Always", "resources": { "requests": { "cpu": "250m" } } },
            { "name": "i", "resources": { "requests": { "cpu": "2" } } },
        ],
    });
    let spec = completed(pod(&spec))["spec"].clone();
    assert_eq!(spec["resources"]["requests"], json!({ "cpu": "2250m", "memory": "2Gi" }));
    let without_limits =
        json!({ "resources": { "requests": { "memory": "1Gi" } }, "containers": [container("1")] });
    let spec = completed(pod(&without_limits))["spec"].clone();
    assert_eq!(spec["resources"]["requests"], json!({ "memory": "1Gi" }));
}

#[test]
fn pod_level_huge_pages_default_to_container_limits() {
    let pages = json!({ "limits": { "hugepages-2Mi": "4Mi" } });
    let spec = json!({
        "resources": { "requests": { "cpu": "1" } },
        "containers": [{ "name": "a", "resources": pages }, { "name": "b", "resources": pages }],
    });
    let resources = completed(pod(&spec))["spec"]["resources"].clone();
    assert_eq!(resources["limits"], json!({ "hugepages-2Mi": "8388608000m" }));
    assert_eq!(resources["requests"], json!({ "cpu": "1", "hugepages-2Mi": "8388608000m" }));
}

#[test]
fn ports_default_to_tcp_and_host_network_sets_host_port() {
    let ports =
        json!([{ "containerPort": 80 }, { "containerPort": 53, "protocol": "UDP", "hostPort": 5353 }]);
    let spec = |host: bool| json!({ "hostNetwork": host, "containers": [{ "name": "c", "ports": ports }] });
    let of = |host| completed(pod(&spec(host)))["spec"]["containers"][0]["ports"].clone();
    assert_eq!(
        of(true),
        json!([
            { "containerPort": 80, "protocol": "TCP", "hostPort": 80 },
            { "containerPort": 53, "protocol": "UDP", "hostPort": 5353 },
        ])
    );
    assert_eq!(of(false)[0], json!({ "containerPort": 80, "protocol": "TCP" }));
}

#[test]
fn scheduler_name_defaults_to_default_scheduler() {
    assert_eq!(completed(pod(&json!({})))["spec"]["schedulerName"], "default-scheduler");
    let named = completed(pod(&json!({ "schedulerName": "mine" })));
    assert_eq!(named["spec"]["schedulerName"], "mine");
}

#[test]
fn priority_comes_from_class_then_default_class_then_zero() {
    let classes = [
        priority_class("low", -5, json!({ "preemptionPolicy": "Never" })),
        priority_class("usual", 7, json!({ "globalDefault": true })),
    ];
    let of = |others: &[Value], spec: Value| {
        completed_beside(others, pod(&spec)).expect("the pod is valid")["spec"].clone()
    };
    let low = of(&classes, json!({ "priorityClassName": "low" }));
    assert_eq!((&low["priority"], &low["preemptionPolicy"]), (&json!(-5), &json!("Never")));
    assert_eq!(of(&classes, json!({}))["priority"], 7);
    assert_eq!(of(&[], json!({}))["priority"], 0);
    assert_eq!(of(&classes, json!({ "priority": 3 }))["priority"], 3);
}

#[test]
fn system_priority_classes_always_exist() {
    let of = |name: &str| completed(pod(&json!({ "priorityClassName": name })))["spec"]["priority"].clone();
    assert_eq!(of("system-node-critical"), 2_000_001_000);
    assert_eq!(of("system-cluster-critical"), 2_000_000_000);
}

#[test]
fn unknown_class_is_an_error_unless_the_pod_has_its_fields() {
    let wrong = completed_beside(&[], pod(&json!({ "priorityClassName": "gold" })))
        .expect_err("the class does not exist");
    assert_eq!(wrong.path, "spec.priorityClassName");
    assert!(wrong.message.contains("\"gold\""), "{}", wrong.message);
    assert!(completed_beside(&[], pod(&json!({ "priorityClassName": "gold", "priority": 9 }))).is_ok());
    let wrong = completed_beside(&[], pod(&json!({ "runtimeClassName": "kata" })))
        .expect_err("the class does not exist");
    assert_eq!(wrong.path, "spec.runtimeClassName");
    assert!(completed_beside(&[], pod(&json!({ "runtimeClassName": "kata", "nodeName": "n" }))).is_ok());
}

fn runtime_class() -> Value {
    json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "kata" }, "handler": "kata",
        "overhead": { "podFixed": { "memory": "120Mi" } },
        "scheduling": { "nodeSelector": { "vm": "yes" }, "tolerations": [{ "key": "vm", "operator": "Exists" }] },
    })
}

#[test]
fn runtime_class_adds_overhead_node_selector_and_tolerations() {
    let asked = pod(&json!({ "runtimeClassName": "kata", "nodeSelector": { "disk": "ssd" } }));
    let spec = completed_beside(&[runtime_class()], asked).expect("the pod is valid")["spec"].clone();
    assert_eq!(spec["overhead"], json!({ "memory": "120Mi" }));
    assert_eq!(spec["nodeSelector"], json!({ "disk": "ssd", "vm": "yes" }));
    let tolerations = spec["tolerations"].as_array().expect("tolerations are a list");
    assert!(tolerations.contains(&json!({ "key": "vm", "operator": "Exists" })));
    let conflicting = pod(&json!({ "runtimeClassName": "kata", "nodeSelector": { "vm": "no" } }));
    let wrong = completed_beside(&[runtime_class()], conflicting).expect_err("the selectors conflict");
    assert_eq!(wrong.path, "spec.nodeSelector[vm]");
}

#[test]
fn pods_tolerate_failing_nodes_for_five_minutes() {
    let keys = |spec: Value| {
        let spec = completed(pod(&spec))["spec"].clone();
        let all = spec["tolerations"].as_array().cloned().unwrap_or_default();
        all.iter()
            .map(|it| (text_at(it, "/key").to_owned(), it["tolerationSeconds"].clone()))
            .collect::<Vec<_>>()
    };
    let (not_ready, unreachable) = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable");
    assert_eq!(keys(json!({})), [(not_ready.to_owned(), json!(300)), (unreachable.to_owned(), json!(300))]);
    let own = json!({ "tolerations": [{ "key": not_ready, "operator": "Exists", "effect": "NoExecute" }] });
    assert_eq!(keys(own), [(not_ready.to_owned(), json!(null)), (unreachable.to_owned(), json!(300))]);
    let everything = json!({ "tolerations": [{ "operator": "Exists" }] });
    assert_eq!(keys(everything).len(), 1);
}

#[test]
fn label_keys_are_merged_into_selectors_once() {
    let term = json!({
        "topologyKey": "zone", "labelSelector": { "matchLabels": { "a": "b" } },
        "matchLabelKeys": ["version", "absent"], "mismatchLabelKeys": ["tenant"],
    });
    let list = "DuringSchedulingIgnoredDuringExecution";
    let mut object = pod(&json!({
        "affinity": {
            "podAffinity": { format!("required{list}"): [term] },
            "podAntiAffinity": { format!("preferred{list}"): [{ "weight": 1, "podAffinityTerm": term }] },
        },
        "topologySpreadConstraints": [
            { "topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["version"] },
            { "topologyKey": "zone", "matchLabelKeys": ["version"] },
        ],
    }));
    object["metadata"]["labels"] = json!({ "version": "2", "tenant": "t" });
    let once = completed(object);
    let version = json!({ "key": "version", "operator": "In", "values": ["2"] });
    let tenant = json!({ "key": "tenant", "operator": "NotIn", "values": ["t"] });
    let affinity = &once["spec"]["affinity"];
    let merged = json!([version, tenant]);
    let of_required =
        &affinity["podAffinity"][format!("required{list}")][0]["labelSelector"]["matchExpressions"];
    assert_eq!(of_required, &merged);
    let preferred = &affinity["podAntiAffinity"][format!("preferred{list}")][0]["podAffinityTerm"];
    assert_eq!(preferred["labelSelector"]["matchExpressions"], merged);
    let spread = &once["spec"]["topologySpreadConstraints"];
    assert_eq!(spread[0]["labelSelector"]["matchExpressions"], json!([version]));
    assert_eq!(spread[1].get("labelSelector"), None);
    assert_eq!(completed(once.clone()), once);
}

#[test]
fn limit_range_sets_missing_container_resources() {
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "l", "namespace": "default" },
        "spec": { "limits": [
            { "type": "Pod", "max": { "cpu": "9" } },
            { "type": "Container", "default": { "cpu": "500m" }, "max": { "memory": "1Gi" }, "min": { "disk": "1" } },
        ] },
    });
    let asked =
        pod(&json!({ "containers": [{ "name": "c", "resources": { "requests": { "cpu": "100m" } } }] }));
    let of = |object: Value| {
        let object = completed_beside(std::slice::from_ref(&range), object).expect("the pod is valid");
        object["spec"]["containers"][0]["resources"]["requests"].clone()
    };
    assert_eq!(of(asked.clone()), json!({ "cpu": "100m", "memory": "1Gi", "disk": "1" }));
    let mut elsewhere = asked.clone();
    elsewhere["metadata"]["namespace"] = "other".into();
    assert_eq!(of(elsewhere), json!({ "cpu": "100m" }));
    let mut admitted = asked;
    admitted["metadata"]["resourceVersion"] = "7".into();
    assert_eq!(of(admitted), json!({ "cpu": "100m" }));
}

#[test]
fn nodes_namespaces_volumes_and_controllers_get_their_defaults() {
    let object = |kind: &str, more: Value| {
        let mut object = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "x" } });
        if let (Some(fields), Value::Object(more)) = (object.as_object_mut(), more) {
            fields.extend(more);
        }
        completed(object)
    };
    let capacity = json!({ "cpu": "4" });
    let node = object("Node", json!({ "status": { "capacity": capacity } }));
    assert_eq!(node["status"]["allocatable"], capacity);
    let node = object("Node", json!({ "status": { "capacity": capacity, "allocatable": { "cpu": "3" } } }));
    assert_eq!(node["status"]["allocatable"], json!({ "cpu": "3" }));
    let namespace = object("Namespace", json!({}));
    assert_eq!(namespace["metadata"]["labels"], json!({ "kubernetes.io/metadata.name": "x" }));
    assert_eq!(object("PersistentVolume", json!({}))["spec"]["volumeMode"], "Filesystem");
    assert_eq!(object("PersistentVolumeClaim", json!({}))["spec"]["volumeMode"], "Filesystem");
    assert_eq!(object("StorageClass", json!({}))["volumeBindingMode"], "Immediate");
    let late = object("StorageClass", json!({ "volumeBindingMode": "WaitForFirstConsumer" }));
    assert_eq!(late["volumeBindingMode"], "WaitForFirstConsumer");
    let labels = json!({ "a": "b" });
    let controller = object(
        "ReplicationController",
        json!({ "spec": { "template": { "metadata": { "labels": labels } } } }),
    );
    assert_eq!(controller["spec"]["selector"], labels);
}

#[test]
fn claim_without_class_gets_the_default_class() {
    let class = |name: &str, created: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {
                "name": name, "creationTimestamp": created,
                "annotations": { "storageclass.kubernetes.io/is-default-class": "true" },
            },
        })
    };
    let classes = [
        class("old", "2020-01-01T00:00:00Z"),
        class("b", "2021-01-01T00:00:00Z"),
        class("a", "2021-01-01T00:00:00Z"),
    ];
    let of = |spec: Value| {
        let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "c" }, "spec": spec });
        completed_beside(&classes, claim).expect("the claim is valid")["spec"]["storageClassName"].clone()
    };
    assert_eq!(of(json!({})), "a");
    assert_eq!(of(json!({ "storageClassName": "" })), "");
    assert_eq!(of(json!({ "storageClassName": "old" })), "old");
}

#[test]
fn malformed_objects_pass_completion_unchanged() {
    for spec in [
        json!(5),
        json!(null),
        json!({ "containers": 5, "tolerations": {} }),
        json!({ "containers": [null, 3] }),
    ] {
        completed(pod(&spec));
    }
    completed(json!({ "kind": "Node", "status": [] }));
}
