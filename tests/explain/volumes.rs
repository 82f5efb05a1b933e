//! Reasons about volumes: claim, class, size, topology and fixes.

use crate::offline::merge;
use crate::support::{Cluster, codes, node, plain_node, pod, reasons};
use serde_json::{Value, json};

fn claim(name: &str, class: &str, more: &Value) -> Value {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "10Gi" } }, "storageClassName": class,
    });
    merge(&mut spec, more);
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name }, "spec": spec })
}

fn class(name: &str, more: &Value) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    });
    merge(&mut class, more);
    class
}

fn volume(name: &str, class: &str, size: &str, more: &Value) -> Value {
    let mut spec = json!({ "storageClassName": class, "capacity": { "storage": size }, "accessModes": ["ReadWriteOnce"] });
    merge(&mut spec, more);
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name }, "spec": spec,
        "status": { "phase": "Available" },
    })
}

fn with_claim(name: &str) -> Value {
    pod("p", "1", &json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": name } }] }))
}

/// Explains the pod `p` in a cluster of these objects and thirty nodes that take two volumes of a driver each.
fn explained(more: &[Value]) -> Value {
    let mut objects: Vec<Value> = (0..30).map(|at| plain_node(&format!("n{at:02}"))).collect();
    let limited = (0..30).map(|at| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": format!("n{at:02}") },
            "spec": { "drivers": [{ "name": "disk.example.com", "nodeID": "x", "allocatable": { "count": 2 } }] },
        })
    });
    objects.extend(limited);
    objects.extend(more.iter().cloned());
    let (answer, code) = Cluster::of(&objects).answer("p", &[]);
    assert_eq!(code, Some(3), "{answer:#}");
    answer
}

fn text<'a>(answer: &'a Value, pointer: &str) -> &'a str {
    answer.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{pointer}: {answer:#}"))
}

#[test]
fn missing_claim_is_reported_once_and_not_for_nodes() {
    let answer = explained(&[
        class("local", &json!({})),
        volume("pv", "local", "10Gi", &json!({})),
        claim("data", "local", &json!({})),
        with_claim("dta"),
    ]);
    let before = answer["beforeNodes"].as_array().expect("a list");
    assert_eq!((before.len(), &before[0]["code"]), (1, &json!("ClaimNotReady")), "{answer:#}");
    let reason = text(&answer, "/beforeNodes/0/text");
    assert!(reason.contains("create the claim dta in the namespace default"), "{reason}");
    assert!(reason.ends_with("did you mean data?"), "{reason}");
    assert_eq!(reasons(&answer), [], "no node has this reason");
    assert!(text(&answer, "/summary").contains("claim dta"), "{answer:#}");
    assert_eq!(codes(&answer), ["CorrectClaim"]);
    assert_eq!(answer["changes"][0]["fitsOn"], 30, "{answer:#}");
}

#[test]
fn claim_without_free_volume_names_class_and_size() {
    let answer = explained(&[
        class("local", &json!({})),
        volume("small", "local", "5Gi", &json!({})),
        claim("data", "local", &json!({})),
        with_claim("data"),
    ]);
    assert_eq!(answer["verdict"], "blocked", "{answer:#}");
    assert_eq!(reasons(&answer), [("VolumeUnavailable".to_owned(), 30)]);
    let reason = text(&answer, "/reasons/0/text");
    for part in ["the claim data (10Gi, class local, ReadWriteOnce)", "no provisioner", "the largest has 5Gi"]
    {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    assert!(text(&answer, "/summary").contains("has a volume for it"), "{answer:#}");
    assert_eq!(codes(&answer), ["CreateVolume"]);
    let change = &answer["changes"][0];
    assert_eq!(change["fitsOn"], 30, "{answer:#}");
    assert!(
        text(&answer, "/changes/0/how").contains(
            r#"storageClassName: "local", capacity: {storage: 10Gi}, accessModes: [ReadWriteOnce]"#
        ),
        "{change:#}"
    );
}

#[test]
fn volumes_in_use_differ_from_missing_volumes() {
    let reason = |volumes: &[Value]| {
        let answer = explained(
            &[&[class("local", &json!({})), claim("data", "local", &json!({})), with_claim("data")], volumes]
                .concat(),
        );
        text(&answer, "/reasons/0/text").to_owned()
    };
    assert!(reason(&[]).ends_with("there is no PersistentVolume of the class local"), "{}", reason(&[]));
    let used = volume(
        "pv",
        "local",
        "10Gi",
        &json!({ "claimRef": { "namespace": "default", "name": "other", "uid": "u" } }),
    );
    let in_use = reason(&[used]);
    assert!(in_use.contains("the only PersistentVolume of the class local is in use"), "{in_use}");
}

#[test]
fn class_of_other_zones_names_them() {
    let zones = json!([{ "matchLabelExpressions": [{ "key": "topology.kubernetes.io/zone", "values": ["b", "c"] }] }]);
    let made = class("zonal", &json!({ "provisioner": "disk.example.com", "allowedTopologies": zones }));
    let answer = explained(&[made, claim("data", "zonal", &json!({})), with_claim("data")]);
    let reason = text(&answer, "/reasons/0/text");
    assert!(
        reason.contains(
            "the class zonal provisions volumes only for nodes with topology.kubernetes.io/zone in (b,c)"
        ),
        "{reason}"
    );
    assert_eq!(answer["verdict"], "blocked", "a node in zone b would be feasible");
}

#[test]
fn unreachable_bound_volume_names_its_topology() {
    let here = json!({ "nodeAffinity": { "required": { "nodeSelectorTerms": [
        { "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "In", "values": ["gone"] }] }] } } });
    let mut bound = claim("data", "local", &json!({ "volumeName": "pv" }));
    bound["metadata"]["annotations"] = json!({ "pv.kubernetes.io/bind-completed": "yes" });
    let answer = explained(&[
        class("local", &json!({})),
        volume("pv", "local", "10Gi", &here),
        bound,
        with_claim("data"),
    ]);
    assert_eq!(reasons(&answer), [("VolumeNodeMismatch".to_owned(), 30)]);
    let reason = text(&answer, "/reasons/0/text");
    assert!(
        reason.contains(
            "is bound to the volume pv, which is reachable only from nodes with kubernetes.io/hostname=gone"
        ),
        "{reason}"
    );
}

#[test]
fn unbound_claim_names_its_missing_class() {
    let answer =
        explained(&[class("fast", &json!({})), claim("data", "fsat", &json!({})), with_claim("data")]);
    let reason = text(&answer, "/beforeNodes/0/text");
    assert!(
        reason.contains("there is no StorageClass fsat") && reason.ends_with("did you mean fast?"),
        "{reason}"
    );
    let at_once =
        class("fast", &json!({ "provisioner": "disk.example.com", "volumeBindingMode": "Immediate" }));
    let answer = explained(&[at_once, claim("data", "fast", &json!({})), with_claim("data")]);
    let reason = text(&answer, "/beforeNodes/0/text");
    assert!(
        reason.contains(
            "disk.example.com must provision its volume first: kubectl describe pvc data -n default"
        ),
        "{reason}"
    );
}

#[test]
fn node_lacking_three_resources_is_no_near_miss() {
    let mut asks = pod("p", "1", &json!({}));
    asks["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "9", "memory": "90Gi", "nvidia.com/gpu": "1" }, "limits": { "nvidia.com/gpu": "1" } });
    let (answer, _) = Cluster::of(&[plain_node("a"), asks]).answer("p", &[]);
    assert_eq!(reasons(&answer).len(), 3, "{answer:#}");
    assert_eq!((&answer["nearMisses"], &answer["nearMissCount"]), (&json!([]), &json!(0)));
}

#[test]
fn missing_device_suggests_no_larger_node() {
    let mut gpu = node("gpu", &json!({}), &json!({}));
    gpu["status"]["allocatable"]["nvidia.com/gpu"] = json!("1");
    let mut asks = pod("p", "1", &json!({}));
    asks["spec"]["containers"][0]["resources"]["limits"] = json!({ "nvidia.com/gpu": "1" });
    let mut busy = asks.clone();
    busy["metadata"]["name"] = json!("busy");
    busy["spec"]["nodeName"] = json!("gpu");
    let (answer, code) = Cluster::of(&[plain_node("cpu"), gpu, busy, asks]).answer("p", &[]);
    assert_eq!(code, Some(3), "{answer:#}");
    let suggested = codes(&answer);
    assert!(!suggested.iter().any(|codes| codes.contains("GrowNode")), "{answer:#}");
    assert!(suggested.contains(&"AddNode".to_owned()), "another node with one helps: {answer:#}");
}
