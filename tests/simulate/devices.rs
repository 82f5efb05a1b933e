//! Devices: what simulations show of ResourceSlices that are at odds, and devices of pods that leave.

use crate::support::{Files, Ran, list, node, pod};
use serde_json::{Value, json};

pub(crate) fn slice(name: &str, device: &str, of: i64) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": name, "uid": name },
        "spec": {
            "driver": "gpu.example.com", "nodeName": "a",
            "pool": { "name": "p", "generation": 1, "resourceSliceCount": of },
            "devices": [{ "name": device }],
        },
    })
}

/// Returns the message of a pod that claims a device of these slices; `None` if it is placed.
fn message(slices: [Value; 2]) -> Option<String> {
    let class = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "gpu", "uid": "gpu" } });
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": { "name": "c", "namespace": "default", "uid": "c" },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "gpu" } }] } },
    });
    let [first, second] = slices;
    let cluster = list(&[node("a", 1), class, claim, first, second]);
    let claims = json!({ "resourceClaims": [{ "name": "c", "resourceClaimName": "c" }] });
    let ran = Files::with(&cluster, &list(&[pod("p", 1, &claims)])).simulate(&["-o", "json"]);
    ran.decisions()[0]["message"].as_str().map(str::to_owned)
}

/// The pool is complete if the first slice by name says that there are two.
#[test]
fn slices_that_disagree_are_read_by_name() {
    let complete = || [slice("s1", "d1", 2), slice("s2", "d2", 3)];
    let incomplete = || [slice("s1", "d1", 3), slice("s2", "d2", 2)];
    let reversed = |[first, second]: [Value; 2]| [second, first];
    for slices in [complete(), reversed(complete())] {
        assert_eq!(message(slices), None);
    }
    for slices in [incomplete(), reversed(incomplete())] {
        let text = message(slices).expect("an incomplete pool offers no device");
        assert!(text.contains("cannot allocate all claims"), "{text}");
    }
}

fn class() -> Value {
    json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "gpu", "uid": "gpu" } })
}

fn requests() -> Value {
    json!({ "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "gpu" } }] } })
}

/// A template of claims for one device.
fn template() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": { "name": "one", "namespace": "default" }, "spec": { "spec": requests() },
    })
}

/// The spec of a pod with a claim from the template.
fn with_device() -> Value {
    json!({ "resourceClaims": [{ "name": "c", "resourceClaimTemplateName": "one" }] })
}

/// A claim that holds the device `d` for a pod, given by its uid; `selector` limits the nodes that can use it.
fn held(name: &str, pod: &str, selector: &Value) -> Value {
    let results = json!([{ "request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d" }]);
    let mut allocation = json!({ "devices": { "results": results } });
    crate::offline::merge(&mut allocation, selector);
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": { "name": name, "namespace": "default", "uid": name }, "spec": requests(),
        "status": { "allocation": allocation, "reservedFor": [{ "resource": "pods", "name": pod, "uid": pod }] },
    })
}

fn on_node_a() -> Value {
    let names = json!({ "key": "metadata.name", "operator": "In", "values": ["a"] });
    json!({ "nodeSelector": { "nodeSelectorTerms": [{ "matchFields": [names] }] } })
}

/// The node `b`, larger than `a`, with a device of its own.
fn larger_node() -> [Value; 2] {
    let mut slice = slice("t", "e", 1);
    slice["spec"]["nodeName"] = json!("b");
    slice["spec"]["pool"]["name"] = json!("q");
    [node("b", 64), slice]
}

fn trainer(image: &str) -> Value {
    let mut spec = pod("x", 1, &with_device())["spec"].take();
    spec["containers"][0]["image"] = json!(image);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "trainer" },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "trainer" } },
            "template": { "metadata": { "labels": { "app": "trainer" } }, "spec": spec } },
    })
}

/// A cluster with one device, which a pod of the Deployment `trainer` holds.
fn training() -> Vec<Value> {
    let mut running = pod("trainer-6b7f-x", 1, &with_device());
    running["spec"]["nodeName"] = json!("a");
    running["metadata"]["uid"] = json!("running");
    running["metadata"]["labels"] = json!({ "app": "trainer", "pod-template-hash": "6b7f" });
    running["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "trainer-6b7f", "uid": "r", "controller": true,
    }]);
    running["status"] =
        json!({ "resourceClaimStatuses": [{ "name": "c", "resourceClaimName": "trainer-c" }] });
    let mut claim = held("trainer-c", "running", &on_node_a());
    claim["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "trainer-6b7f-x", "uid": "running", "controller": true,
    }]);
    vec![node("a", 8), class(), template(), slice("s", "d", 1), claim, trainer("i"), running]
}

fn nodes(ran: &Ran) -> Vec<Option<String>> {
    ran.placed().into_iter().map(|(_, node)| node).collect()
}

#[test]
fn replaced_pod_frees_its_device_for_the_new_one() {
    let files = Files::with(&list(&training()), &trainer("i:2").to_string());
    for more in [&["-o", "json"][..], &["-o", "json", "--add-nodes", "0:template=a"]] {
        let ran = files.simulate(more);
        assert_eq!(nodes(&ran), [Some("a".to_owned())], "{ran:?}");
        assert!(ran.stderr.contains("1 pod replaced"), "{}", ran.stderr);
    }
}

#[test]
fn workload_scaled_down_frees_its_devices() {
    let objects = [training(), vec![pod("waits", 1, &with_device())]].concat();
    let files = Files::with(&list(&objects), "");
    let asked =
        |scale: &str| nodes(&files.run(&["--cluster", "cluster", "-o", "json", "--scale", scale], ""));
    assert_eq!(asked("trainer=1"), [None]);
    assert_eq!(asked("trainer=0"), [Some("a".to_owned())]);
}

/// A pending pod stays the same pod if its manifest changes.
#[test]
fn updated_pending_pod_keeps_its_reserved_device() {
    let named = json!({ "resourceClaims": [{ "name": "c", "resourceClaimName": "mine" }] });
    let mut waits = pod("waits", 2, &named);
    waits["metadata"]["uid"] = json!("waits");
    let objects = [node("a", 8), class(), slice("s", "d", 1), held("mine", "waits", &on_node_a()), waits];
    let objects = [&objects[..], &larger_node()].concat();
    let files = Files::with(&list(&objects), &pod("waits", 1, &named).to_string());
    for more in [&["-o", "json"][..], &["-o", "json", "--add-nodes", "0:template=a"]] {
        assert_eq!(nodes(&files.simulate(more)), [Some("a".to_owned())]);
    }
}

#[test]
fn terminating_pod_of_a_removed_node_frees_its_device() {
    let mut slice = slice("s", "d", 1);
    let spec = slice["spec"].as_object_mut().expect("an object");
    spec.remove("nodeName");
    spec.insert("allNodes".to_owned(), json!(true));
    let named = json!({ "nodeName": "a", "resourceClaims": [{ "name": "c", "resourceClaimName": "taken" }] });
    let mut going = pod("going", 1, &named);
    going["metadata"]["uid"] = json!("going");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let held = held("taken", "going", &json!({}));
    let waits = pod("waits", 1, &with_device());
    let objects = [node("a", 8), node("b", 8), class(), template(), slice, held, going, waits];
    let files = Files::with(&list(&objects), "");
    let asked = |change: [&str; 2]| {
        nodes(&files.run(&["--cluster", "cluster", "-o", "json", change[0], change[1]], ""))
    };
    assert_eq!(asked(["--add-nodes", "0:template=a"]), [None]);
    assert_eq!(asked(["--remove-node", "a"]), [Some("b".to_owned())]);
}

#[test]
fn comparison_of_configurations_allocates_all_devices_again() {
    let files = Files::with(&list(&[&training()[..], &larger_node()].concat()), "");
    let config =
        json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration" });
    files.write("same", &config.to_string());
    let ran = files.run(&["--cluster", "cluster", "-o", "json", "--compare-config", "same"], "");
    assert_eq!(nodes(&ran), [Some("b".to_owned())], "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
    assert_eq!(report["summary"]["elsewhere"], json!([]));
}
