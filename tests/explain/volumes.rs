//! What is said of volumes: which claim, of which class and size, reachable from where, and what would help.

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

/// Thirty nodes that take two volumes of a driver each, and more.
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
fn a_missing_claim_is_named_once_and_blames_no_node() {
    let answer = explained(&[
        class("local", &json!({})),
        volume("pv", "local", "10Gi", &json!({})),
        claim("data", "local", &json!({})),
        with_claim("dta"),
    ]);
    let before = answer["beforeNodes"].as_array().expect("a list");
    assert_eq!((before.len(), &before[0]["code"]), (1, &json!("ClaimNotReady")), "{answer:#}");
    let said = text(&answer, "/beforeNodes/0/text");
    assert!(said.contains("create the claim dta in the namespace default"), "{said}");
    assert!(said.ends_with("did you mean data?"), "{said}");
    assert_eq!(reasons(&answer), [], "no node is to blame");
    assert!(text(&answer, "/summary").contains("claim dta"), "{answer:#}");
    assert_eq!(codes(&answer), ["CorrectClaim"]);
    assert_eq!(answer["changes"][0]["fitsOn"], 30, "{answer:#}");
}

#[test]
fn a_claim_without_a_free_volume_is_told_with_class_and_size_and_can_fit() {
    let answer = explained(&[
        class("local", &json!({})),
        volume("small", "local", "5Gi", &json!({})),
        claim("data", "local", &json!({})),
        with_claim("data"),
    ]);
    assert_eq!(answer["verdict"], "blocked", "{answer:#}");
    assert_eq!(reasons(&answer), [("VolumeUnavailable".to_owned(), 30)]);
    let said = text(&answer, "/reasons/0/text");
    for part in ["the claim data (10Gi, class local, ReadWriteOnce)", "no provisioner", "the largest has 5Gi"]
    {
        assert!(said.contains(part), "{part}: {said}");
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
fn volumes_in_use_and_none_at_all_are_told_apart() {
    let said = |volumes: &[Value]| {
        let answer = explained(
            &[&[class("local", &json!({})), claim("data", "local", &json!({})), with_claim("data")], volumes]
                .concat(),
        );
        text(&answer, "/reasons/0/text").to_owned()
    };
    assert!(said(&[]).ends_with("there is no PersistentVolume of the class local"), "{}", said(&[]));
    let used = volume(
        "pv",
        "local",
        "10Gi",
        &json!({ "claimRef": { "namespace": "default", "name": "other", "uid": "u" } }),
    );
    let told = said(&[used]);
    assert!(told.contains("the only PersistentVolume of the class local is in use"), "{told}");
}

#[test]
fn a_class_that_serves_other_zones_tells_which() {
    let zones = json!([{ "matchLabelExpressions": [{ "key": "topology.kubernetes.io/zone", "values": ["b", "c"] }] }]);
    let made = class("zonal", &json!({ "provisioner": "disk.example.com", "allowedTopologies": zones }));
    let answer = explained(&[made, claim("data", "zonal", &json!({})), with_claim("data")]);
    let said = text(&answer, "/reasons/0/text");
    assert!(
        said.contains(
            "the class zonal provisions volumes only for nodes with topology.kubernetes.io/zone in (b,c)"
        ),
        "{said}"
    );
    assert_eq!(answer["verdict"], "blocked", "a node of zone b would do");
}

#[test]
fn a_bound_volume_out_of_reach_is_told_with_where_it_can_be_reached() {
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
    let said = text(&answer, "/reasons/0/text");
    assert!(
        said.contains(
            "is bound to the volume pv, which is reachable only from nodes with kubernetes.io/hostname=gone"
        ),
        "{said}"
    );
}

#[test]
fn an_unbound_claim_of_a_class_that_is_not_there_says_so() {
    let answer =
        explained(&[class("fast", &json!({})), claim("data", "fsat", &json!({})), with_claim("data")]);
    let said = text(&answer, "/beforeNodes/0/text");
    assert!(said.contains("there is no StorageClass fsat") && said.ends_with("did you mean fast?"), "{said}");
    let at_once =
        class("fast", &json!({ "provisioner": "disk.example.com", "volumeBindingMode": "Immediate" }));
    let answer = explained(&[at_once, claim("data", "fast", &json!({})), with_claim("data")]);
    let said = text(&answer, "/beforeNodes/0/text");
    assert!(
        said.contains(
            "disk.example.com must provision its volume first: kubectl describe pvc data -n default"
        ),
        "{said}"
    );
}

#[test]
fn a_node_short_of_three_things_has_no_single_obstacle() {
    let mut asks = pod("p", "1", &json!({}));
    asks["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "9", "memory": "90Gi", "nvidia.com/gpu": "1" }, "limits": { "nvidia.com/gpu": "1" } });
    let (answer, _) = Cluster::of(&[plain_node("a"), asks]).answer("p", &[]);
    assert_eq!(reasons(&answer).len(), 3, "{answer:#}");
    assert_eq!((&answer["nearMisses"], &answer["nearMissCount"]), (&json!([]), &json!(0)));
}

#[test]
fn nobody_is_told_to_build_a_device_into_a_node() {
    let mut gpu = node("gpu", &json!({}), &json!({}));
    gpu["status"]["allocatable"]["nvidia.com/gpu"] = json!("1");
    let mut asks = pod("p", "1", &json!({}));
    asks["spec"]["containers"][0]["resources"]["limits"] = json!({ "nvidia.com/gpu": "1" });
    let mut busy = asks.clone();
    busy["metadata"]["name"] = json!("busy");
    busy["spec"]["nodeName"] = json!("gpu");
    let (answer, code) = Cluster::of(&[plain_node("cpu"), gpu, busy, asks]).answer("p", &[]);
    assert_eq!(code, Some(3), "{answer:#}");
    let told = codes(&answer);
    assert!(!told.iter().any(|codes| codes.contains("GrowNode")), "{answer:#}");
    assert!(told.contains(&"AddNode".to_owned()), "another node with one helps: {answer:#}");
}
