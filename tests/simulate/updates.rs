//! Manifests of existing objects, and StatefulSet replicas with their own claims.

use crate::support::{Files, Ran, list, node, pod};
use serde_json::{Value, json};

const HASH: &str = "6b7f";

fn template(cpu: u32, image: &str) -> Value {
    let mut spec = pod("x", cpu, &json!({}))["spec"].clone();
    spec["containers"][0]["image"] = json!(image);
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": spec })
}

fn workload(kind: &str, name: &str, replicas: Option<u32>, template: &Value) -> Value {
    let mut workload = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name },
        "spec": { "selector": { "matchLabels": { "app": "web" } }, "template": template },
    });
    if let Some(replicas) = replicas {
        workload["spec"]["replicas"] = json!(replicas);
    }
    workload
}

/// A pod with an owner on a node.
fn owned(name: &str, kind: &str, owner: &str, node: &str) -> Value {
    let mut pod = pod(name, 1, &json!({ "nodeName": node }));
    pod["metadata"]["labels"] = json!({ "app": "web" });
    pod["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner, "controller": true }]);
    pod
}

/// A Deployment with three pods on two nodes, as in a cluster dump.
fn running() -> Vec<Value> {
    let mut set = workload("ReplicaSet", &format!("web-{HASH}"), Some(3), &template(1, "i"));
    set["metadata"]["labels"] = json!({ "app": "web", "pod-template-hash": HASH });
    set["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] = json!(HASH);
    set["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true }]);
    let mut live = template(1, "i");
    // Defaults that an API server sets.
    live["spec"]["dnsPolicy"] = json!("ClusterFirst");
    live["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
    live["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1000m");
    let mut objects = vec![node("a", 4), node("b", 4), workload("Deployment", "web", Some(3), &live), set];
    objects.extend(["a", "a", "b"].iter().zip(0..).map(|(node, at)| {
        let mut pod = owned(&format!("web-{HASH}-{at}"), "ReplicaSet", &format!("web-{HASH}"), node);
        pod["metadata"]["labels"]["pod-template-hash"] = json!(HASH);
        pod
    }));
    objects
}

/// Runs a plain simulation and a what-if with the same files.
fn both(cluster: &[Value], manifest: &Value) -> [Ran; 2] {
    let files = Files::with(&list(cluster), &manifest.to_string());
    let plain = files.simulate(&["-o", "json"]);
    let changed = files.simulate(&["-o", "json", "--add-nodes", "0:template=a"]);
    [plain, changed]
}

fn all_placed(ran: &Ran) -> Vec<String> {
    ran.placed().into_iter().map(|(pod, node)| format!("{pod} {}", node.is_some())).collect()
}

#[test]
fn unchanged_template_adds_only_missing_pods() {
    for ran in both(&running(), &workload("Deployment", "web", Some(5), &template(1, "i"))) {
        assert_eq!(ran.placed().len(), 2, "{ran:?}");
        assert!(
            ran.placed().iter().all(|(pod, node)| pod.starts_with("default/web-6b7f-") && node.is_some())
        );
        let expected = "Deployment default/web already exists; replicas 3 → 5; the pod template is unchanged: 3 pods kept, 0 removed";
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    // Without replicas in the manifest the current number stays.
    for ran in both(&running(), &workload("Deployment", "web", None, &template(1, "i"))) {
        assert_eq!((ran.placed().len(), ran.code), (0, Some(0)), "{ran:?}");
    }
}

#[test]
fn workload_is_not_scaled_by_its_manifest_and_a_flag_at_once() {
    let files = Files::with(&list(&running()), "");
    let refused = |manifest: &Value, scale: &str| {
        files.write("pods", &manifest.to_string());
        files.simulate(&["--scale", scale]).refused().to_owned()
    };
    let expected = "--scale web: Deployment default/web is among the pods to place; set spec.replicas in its file instead";
    for image in ["i", "i:2"] {
        let manifest = workload("Deployment", "web", Some(5), &template(1, image));
        for scale in ["web=5", "deploy/web=5"] {
            assert_eq!(refused(&manifest, scale), expected);
        }
    }
    let new = workload("StatefulSet", "new", Some(1), &template(1, "i"));
    assert!(refused(&new, "new=2").starts_with("--scale new: StatefulSet default/new is among"));
    // Another workload can be scaled beside the manifest.
    let ran = files.simulate(&["-o", "json", "--scale", "web=4"]);
    assert_eq!(ran.placed().len(), 2, "{ran:?}");
}

#[test]
fn fewer_replicas_free_the_resources_of_removed_pods() {
    let mut manifest = vec![workload("Deployment", "web", Some(1), &template(1, "i"))];
    manifest.push(pod("large", 4, &json!({})));
    let files = Files::with(&list(&running()), &list(&manifest));
    for more in [&["-o", "json"][..], &["-o", "json", "--add-nodes", "0:template=a"]] {
        let ran = files.simulate(more);
        assert_eq!(all_placed(&ran), ["default/large true"], "{ran:?}");
        assert!(ran.stderr.contains("1 pod kept, 2 removed"), "{}", ran.stderr);
    }
}

#[test]
fn changed_template_replaces_all_pods() {
    let objects: Vec<Value> = running()
        .into_iter()
        .map(|mut it| {
            if it["kind"] == "Node" {
                it["status"]["capacity"]["cpu"] = json!("2");
            }
            it
        })
        .collect();
    // The new pods do not fit beside the old ones.
    for ran in both(&objects, &workload("Deployment", "web", Some(4), &template(1, "i:2"))) {
        assert_eq!((ran.placed().len(), ran.code), (4, Some(0)), "{ran:?}");
        let expected = "the pod template changes (spec.containers[c].image: i → i:2): 3 pods replaced";
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    let [_, changed] = both(&objects, &workload("Deployment", "web", Some(4), &template(1, "i:2")));
    let report: Value = serde_json::from_str(&changed.stdout).expect("a report");
    let placed = |when: &str| &report["summary"][when]["placed"];
    assert_eq!((placed("before"), placed("after")), (&json!(3), &json!(4)));
}

#[test]
fn stateful_set_keeps_existing_replicas_and_claims() {
    let mut objects = vec![node("a", 4), node("b", 4)];
    let mut set = workload("StatefulSet", "db", Some(1), &template(1, "i"));
    set["spec"]["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" }, "spec": claim() }]);
    let mut first = owned("db-0", "StatefulSet", "db", "a");
    first["spec"]["volumes"] =
        json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data-db-0" } }]);
    objects.extend([set.clone(), first]);
    objects.extend(storage(2));
    let mut grown = set;
    grown["spec"]["replicas"] = json!(4);
    // The first replica uses one of the two volumes.
    for ran in both(&objects, &grown) {
        let expected = ["default/db-1 true", "default/db-2 false", "default/db-3 false"];
        assert_eq!(all_placed(&ran), expected, "{ran:?}");
    }
    let files = Files::with(&list(&objects), "");
    for detail in ["full", "none"] {
        let flags = ["--cluster", "cluster", "-o", "json", "--detail", detail, "--scale", "db=3"];
        let ran = files.run(&flags, "");
        assert_eq!(all_placed(&ran), ["default/db-1 true", "default/db-2 false"], "{ran:?}");
    }
}

#[test]
fn stateful_set_scaled_up_from_zero_has_claims_from_its_templates() {
    let mut going = owned("db-0", "StatefulSet", "db", "a");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut failed = owned("db-0", "StatefulSet", "db", "a");
    failed["status"] = json!({ "phase": "Failed" });
    for replicas in [Some(0), Some(1), None] {
        let mut set = workload("StatefulSet", "db", replicas, &template(1, "i"));
        set["spec"]["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" }, "spec": claim() }]);
        for pods in [vec![], vec![failed.clone()]] {
            let objects = [vec![node("a", 4), set.clone()], pods, storage(1)].concat();
            let files = Files::with(&list(&objects), "");
            let ran = files.run(&["--cluster", "cluster", "-o", "json", "--scale", "sts/db=2"], "");
            assert_eq!(all_placed(&ran), ["default/db-0 true", "default/db-1 false"], "{ran:?}");
        }
        // Each replica has the labels of its own ordinal: the two are kept apart by name.
        set["spec"]["template"]["spec"]["affinity"] = json!({ "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": { "matchLabels": { "apps.kubernetes.io/pod-index": "1" } },
            }],
        } });
        set["spec"].as_object_mut().expect("an object").remove("volumeClaimTemplates");
        let objects = [node("a", 4), set, going.clone()];
        let files = Files::with(&list(&objects), "");
        let ran = files.run(&["--cluster", "cluster", "-o", "json", "--scale", "sts/db=2"], "");
        assert_eq!(all_placed(&ran), ["default/db-0 true", "default/db-1 false"], "{ran:?}");
    }
}

fn claim() -> Value {
    json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "resources": { "requests": { "storage": "1Gi" } } })
}

/// A class whose claims bind with their pods, and volumes, the first bound to `data-db-0`.
fn storage(volumes: usize) -> Vec<Value> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "local" },
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let volume = |at: usize| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": format!("pv-{at}") },
            "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "local" },
            "status": { "phase": "Available" },
        })
    };
    let mut all: Vec<Value> = [class].into_iter().chain((0..volumes).map(volume)).collect();
    if volumes > 1 {
        all[1]["spec"]["claimRef"] = json!({ "namespace": "default", "name": "data-db-0", "uid": "claim" });
        let mut spec = claim();
        spec["volumeName"] = json!("pv-0");
        all.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": "data-db-0", "uid": "claim", "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
            "spec": spec, "status": { "phase": "Bound" },
        }));
    }
    all
}

#[test]
fn daemon_set_adds_pods_only_to_nodes_without_one() {
    let set = workload("DaemonSet", "agent", None, &template(1, "i"));
    let objects = [node("a", 4), node("b", 4), set.clone(), owned("agent-x", "DaemonSet", "agent", "a")];
    for ran in both(&objects, &set) {
        let nodes: Vec<Option<String>> = ran.placed().into_iter().map(|(_, node)| node).collect();
        assert_eq!(nodes, [Some("b".to_owned())], "{ran:?}");
    }
}

#[test]
fn bound_pod_stays_and_pending_pod_uses_its_manifest() {
    let objects = [node("a", 4), pod("there", 1, &json!({ "nodeName": "a" })), pod("waits", 9, &json!({}))];
    for ran in both(&objects, &pod("there", 1, &json!({}))) {
        assert!(ran.stderr.contains("Pod default/there already runs on a and stays there"), "{ran:?}");
    }
    for ran in both(&objects, &pod("waits", 2, &json!({}))) {
        let expected = "Pod default/waits already exists and is pending; changes: spec.containers[c].resources.requests.cpu: 9 → 2";
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        assert!(all_placed(&ran).contains(&"default/waits true".to_owned()), "{ran:?}");
    }
}

#[test]
fn other_objects_are_merged_with_their_manifest() {
    let manifest = list(&[
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "a" }, "spec": { "unschedulable": true } }),
        pod("p", 1, &json!({})),
    ]);
    let files = Files::with(&list(&[node("a", 4)]), &manifest);
    let ran = files.simulate(&["-o", "json"]);
    assert_eq!(all_placed(&ran), ["default/p false"]);
    assert!(ran.stderr.contains("Node a already exists; changes: spec"), "{}", ran.stderr);
}

/// Returns whether the pod `p` is placed with each version of an object: the cluster's, and that of a manifest.
fn placed_before_and_after(
    others: &[Value],
    given: &[Value],
    object: impl Fn(bool) -> Value,
) -> [Option<bool>; 2] {
    [false, true].map(|is_changed| {
        let cluster = [&[node("a", 4), object(false)], others].concat();
        let manifest = [given, &[object(is_changed)]].concat();
        let files = Files::with(&list(&cluster), &list(&manifest));
        let placed = |more: &[&str]| {
            let ran = files.simulate(&[&["-o", "json"], more].concat());
            let is_placed = ran.placed().iter().find(|(pod, _)| pod == "default/p").map(|it| it.1.is_some());
            assert!(ran.stderr.contains("already exists; "), "{ran:?}");
            is_placed
        };
        let [plain, changed] = [placed(&[]), placed(&["--add-nodes", "0:template=a"])];
        assert_eq!(plain, changed);
        plain
    })
}

#[test]
fn changed_limit_range_sets_the_requests_of_new_pods() {
    let range = |name: &str, cpu: &str| {
        json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": name, "namespace": "default" },
            "spec": { "limits": [{ "type": "Container", "defaultRequest": { "cpu": cpu } }] },
        })
    };
    let plain = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c" }] } });
    let of = |is_changed: bool| range("own", if is_changed { "5" } else { "1" });
    let given = std::slice::from_ref(&plain);
    assert_eq!(placed_before_and_after(&[], given, of), [Some(true), Some(false)]);
    // The range that the cluster names first decides, also if the manifest changes it.
    assert_eq!(placed_before_and_after(&[range("next", "5")], given, of), [Some(true), Some(false)]);
    let after = |is_changed: bool| range("next", if is_changed { "5" } else { "2" });
    let cluster = [node("a", 4), range("own", "1"), after(false)];
    let files = Files::with(&list(&cluster), &list(&[plain, after(true)]));
    assert_eq!(all_placed(&files.simulate(&["-o", "json"])), ["default/p true"]);
}

#[test]
fn changed_mark_of_the_default_storage_class_applies_to_new_claims() {
    let class = |is_changed: bool| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": { "name": "standard", "annotations": {
                "storageclass.kubernetes.io/is-default-class": (!is_changed).to_string(),
            } },
            "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer",
        })
    };
    let mut claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "c" }, "spec": claim() });
    claim["spec"].as_object_mut().expect("an object").remove("storageClassName");
    let volumes = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "c" } }]);
    let given = [claim, pod("p", 1, &json!({ "volumes": volumes }))];
    assert_eq!(placed_before_and_after(&[], &given, class), [Some(true), Some(false)]);
}

#[test]
fn changed_overhead_of_a_runtime_class_counts_for_new_pods() {
    let class = |is_changed: bool| {
        json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "sandbox" }, "handler": "h",
            "overhead": { "podFixed": { "cpu": if is_changed { "4" } else { "1" } } },
        })
    };
    let given = [pod("p", 1, &json!({ "runtimeClassName": "sandbox" }))];
    assert_eq!(placed_before_and_after(&[], &given, class), [Some(true), Some(false)]);
}

#[test]
fn changed_value_of_a_priority_class_counts_for_new_pods() {
    let class = |is_changed: bool| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "high" },
            "value": if is_changed { 1_000 } else { 10 },
        })
    };
    let others = [pod("there", 4, &json!({ "nodeName": "a", "priority": 500 }))];
    let given = [pod("p", 4, &json!({ "priorityClassName": "high" }))];
    let evicts = [false, true].map(|is_changed| {
        let cluster = [&[node("a", 4), class(false)], &others[..]].concat();
        let files = Files::with(&list(&cluster), &list(&[&given[..], &[class(is_changed)]].concat()));
        let placed = |more: &[&str]| {
            let flags = ["-o", "json", "--preemption", "apply"];
            all_placed(&files.simulate(&[&flags[..], more].concat()))
        };
        let [plain, changed] = [placed(&[]), placed(&["--add-nodes", "0:template=a"])];
        assert_eq!(plain, changed);
        plain
    });
    assert_eq!(evicts, [["default/p false"], ["default/p true"]]);
}

#[test]
fn changed_resource_claim_template_is_used_for_new_pods() {
    let template = |is_changed: bool| {
        let count = if is_changed { 2 } else { 1 };
        let requests = json!([{ "name": "r", "exactly": { "deviceClassName": "gpu", "count": count } }]);
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": { "name": "one", "namespace": "default" },
            "spec": { "spec": { "devices": { "requests": requests } } },
        })
    };
    let class = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "gpu", "uid": "gpu" } });
    let claims = json!({ "resourceClaims": [{ "name": "c", "resourceClaimTemplateName": "one" }] });
    let given = [pod("p", 1, &claims)];
    let others = [class, crate::devices::slice("s", "d", 1)];
    assert_eq!(placed_before_and_after(&others, &given, template), [Some(true), Some(false)]);
}

#[test]
fn duplicate_manifest_is_rejected_with_both_positions() {
    let files = Files::with(&list(&[node("a", 4)]), "");
    let twice = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n---\n";
    files.write("pods", &twice.repeat(2));
    let error = files.simulate(&[]).refused().to_owned();
    assert!(error.starts_with("pods:8:") && error.contains("first at pods:3:"), "{error}");
}
