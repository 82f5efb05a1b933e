//! `supercargo fit`: how many more pods fit.

use crate::offline::{list, merge};
use crate::support::{Cluster, Ran, plain_node, pod, run};
use serde_json::{Value, json};

fn ask(cluster: &Cluster, template: &Value, more: &[&str]) -> Ran {
    cluster.write("template", &template.to_string());
    let mut args = vec!["fit", "-f", "template", "--cluster", "cluster"];
    args.extend(more);
    run(cluster.folder(), &args)
}

fn answer(objects: &[Value], template: &Value, more: &[&str]) -> (Value, Option<i32>) {
    let mut args = vec!["-o", "json"];
    args.extend(more);
    let ran = ask(&Cluster::of(objects), template, &args);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(
        (&answer["apiVersion"], &answer["kind"]),
        (&json!("supercargo.dev/v1alpha1"), &json!("FitCheck"))
    );
    (answer, ran.code)
}

#[test]
fn fit_counts_pods_until_a_resource_runs_out() {
    let other = pod("other", "3", &json!({ "nodeName": "a" }));
    let objects = [plain_node("a"), plain_node("b"), other];
    let (answer, code) = answer(&objects, &pod("p", "1500m", &json!({})), &[]);
    assert_eq!((&answer["fits"], code), (&json!(2), Some(0)));
    assert_eq!(answer["nodes"], json!([{ "node": "b", "pods": 2 }]));
    assert_eq!(answer["limitedBy"][0]["text"], "requests 1500m cpu; most free: 1 of 4, on a");
}

#[test]
fn each_placed_copy_uses_resources() {
    let anti = json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "p" } } }] } } });
    let objects = [plain_node("a"), plain_node("b"), plain_node("c")];
    let (answer, _) = answer(&objects, &pod("p", "1", &anti), &[]);
    assert_eq!(answer["fits"], 3);
    assert_eq!(answer["limitedBy"][0]["code"], "PodAntiAffinity");
}

#[test]
fn fit_accepts_a_workload_for_its_pods() {
    let template = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 5, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } }, "spec": pod("x", "2", &json!({}))["spec"].clone() } },
    });
    let (answer, _) = answer(&[plain_node("a"), plain_node("b")], &template, &[]);
    assert_eq!(answer["fits"], 4, "{answer:#}");
}

/// A StorageClass with late binding, and this many of its volumes.
fn storage(volumes: usize) -> Vec<Value> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "local" },
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let volume = |at| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": format!("pv-{at}") },
            "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "local" },
            "status": { "phase": "Available" },
        })
    };
    [class].into_iter().chain((0..volumes).map(volume)).collect()
}

fn claim_spec() -> Value {
    json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "resources": { "requests": { "storage": "1Gi" } } })
}

fn stateful_set(replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "db" },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": "db" } },
            "template": { "metadata": { "labels": { "app": "db" } }, "spec": pod("x", "10m", &json!({}))["spec"].clone() },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": claim_spec() }],
        },
    })
}

#[test]
fn each_statefulset_replica_needs_its_own_volumes() {
    let objects = |volumes| [vec![plain_node("a"), plain_node("b")], storage(volumes)].concat();
    for volumes in [0, 1, 3] {
        let (answer, code) = answer(&objects(volumes), &stateful_set(2), &[]);
        assert_eq!(answer["fits"], volumes, "{answer:#}");
        assert_eq!(code, Some(if volumes == 0 { 3 } else { 0 }));
    }
    // The StatefulSet exists, and its first replica has a volume.
    let mut first = pod(
        "db-0",
        "10m",
        &json!({ "nodeName": "a", "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data-db-0" } }] }),
    );
    first["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": true }]);
    let mut all = objects(3);
    all[3]["spec"]["claimRef"] = json!({ "namespace": "default", "name": "data-db-0", "uid": "claim" });
    all[3]["status"]["phase"] = json!("Bound");
    let mut spec = claim_spec();
    spec["volumeName"] = json!("pv-0");
    all.push(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": "data-db-0", "uid": "claim", "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": spec, "status": { "phase": "Bound" },
    }));
    all.extend([stateful_set(1), first]);
    let (answer, _) = answer(&all, &stateful_set(1), &[]);
    assert_eq!(answer["fits"], 2, "{answer:#}");
}

#[test]
fn ephemeral_volumes_are_per_pod_and_named_claims_are_shared() {
    let objects = [vec![plain_node("a")], storage(2)].concat();
    let volumes =
        json!([{ "name": "scratch", "ephemeral": { "volumeClaimTemplate": { "spec": claim_spec() } } }]);
    let (result, _) = answer(&objects, &pod("p", "10m", &json!({ "volumes": volumes })), &[]);
    assert_eq!(result["fits"], 2, "{result:#}");
    let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "shared" }, "spec": claim_spec() });
    let volumes = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "shared" } }]);
    let (result, _) =
        answer(&[objects, vec![claim]].concat(), &pod("p", "10m", &json!({ "volumes": volumes })), &[]);
    assert_eq!(result["fits"], 10, "{result:#}");
}

#[test]
fn fit_stops_counting_at_the_limit() {
    let (answer, code) = answer(&[plain_node("a")], &pod("p", "1m", &json!({})), &["--limit", "7"]);
    assert_eq!((&answer["fits"], &answer["atLimit"], code), (&json!(7), &json!(true), Some(0)));
    assert_eq!(answer["limitedBy"], json!([]));
}

#[test]
fn fit_of_no_pod_prints_reasons_and_exits_with_3() {
    let ran = ask(&Cluster::of(&[plain_node("a")]), &pod("p", "9", &json!({})), &[]);
    assert_eq!(ran.code, Some(3));
    assert_eq!(
        ran.stdout,
        "default/p: 0 fit\n\nWhy no more fit\n  NODES  ONLY REASON  REASON           DETAILS\n      1            1  \
         InsufficientCpu  requests 9 cpu; even when empty, the largest of these nodes has only 4\n"
    );
}

#[test]
fn fit_rejects_a_file_without_a_pod() {
    let ran = ask(&Cluster::of(&[plain_node("a")]), &plain_node("b"), &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert_eq!(
        ran.stderr,
        "error: template: expected a pod or a workload, as in `kubectl get deploy NAME -o yaml`\n"
    );
}

#[test]
fn workload_without_pods_is_copied_as_one_with_pods() {
    let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": pod("x", "2", &json!({}))["spec"].clone() });
    let selector = json!({ "matchLabels": { "app": "web" } });
    let job = json!({ "suspend": true, "parallelism": 0, "completions": 0, "template": template });
    let of_apps = |kind: &str, spec: Value| {
        let mut all = json!({ "selector": selector, "template": template });
        merge(&mut all, &spec);
        json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": "web" }, "spec": all })
    };
    let of_batch = |kind: &str, spec: Value| json!({ "apiVersion": "batch/v1", "kind": kind, "metadata": { "name": "web" }, "spec": spec });
    for workload in [
        of_apps("Deployment", json!({ "replicas": 0 })),
        of_apps("Deployment", json!({ "paused": true })),
        of_apps("ReplicaSet", json!({ "replicas": 0 })),
        of_apps("StatefulSet", json!({ "replicas": 0 })),
        of_batch("Job", job.clone()),
        of_batch(
            "Job",
            json!({ "suspend": true, "completionMode": "Indexed", "completions": 3, "template": template }),
        ),
        of_batch(
            "CronJob",
            json!({ "suspend": true, "schedule": "0 * * * *", "jobTemplate": { "spec": job } }),
        ),
    ] {
        let (answer, code) = answer(&[plain_node("a"), plain_node("b")], &workload, &[]);
        assert_eq!((&answer["fits"], code), (&json!(4), Some(0)), "{workload:#}");
    }
}

#[test]
fn fit_rejects_what_is_not_one_pod_to_copy() {
    let stdout_of = |objects: &[Value]| {
        let cluster = Cluster::of(&[plain_node("a")]);
        cluster.write("template", &list(objects));
        let ran = run(cluster.folder(), &["fit", "-f", "template", "--cluster", "cluster"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        ran.stderr
    };
    let several = stdout_of(&[pod("p", "1", &json!({})), plain_node("b"), stateful_set(2)]);
    let text = "StatefulSet db follows Pod p, but only one is copied; give one pod or workload\n";
    assert!(several.starts_with("error: template:1:") && several.ends_with(text), "{several}");
    let mut daemons = stateful_set(1);
    daemons["kind"] = json!("DaemonSet");
    daemons["spec"] =
        json!({ "selector": daemons["spec"]["selector"], "template": daemons["spec"]["template"] });
    let of_daemons = stdout_of(&[daemons]);
    assert!(of_daemons.contains("DaemonSet db has one pod per node"), "{of_daemons}");
    assert!(of_daemons.contains("`supercargo simulate --pods`"), "{of_daemons}");
}

#[test]
fn object_of_the_file_that_exists_is_named_as_unused() {
    let class = |value: i32| json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "gold" }, "value": value });
    let cluster = Cluster::of(&[plain_node("a"), class(1)]);
    let template = list(&[class(2), pod("p", "1", &json!({ "priorityClassName": "gold" }))]);
    cluster.write("template", &template);
    let ran = run(cluster.folder(), &["fit", "-f", "template", "--cluster", "cluster"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = "the cluster has one of this name, which is used\n";
    assert!(ran.stderr.starts_with("ignoring PriorityClass gold of template:1:"), "{ran:?}");
    assert!(ran.stderr.ends_with(text) && ran.stderr.lines().count() == 1, "{ran:?}");
}

#[test]
fn preemption_adds_the_copies_that_take_the_place_of_victims() {
    let low = |name: &str, node: &str, priority: i32| {
        pod(name, "2", &json!({ "nodeName": node, "priority": priority }))
    };
    let objects = [plain_node("a"), plain_node("b"), low("x", "a", 0), low("y", "b", 0), low("z", "b", 100)];
    let template = pod("p", "2", &json!({ "priority": 50 }));
    let flags = ["--as-written", "--preempt"];
    let (with, code) = answer(&objects, &template, &flags);
    assert_eq!((&with["fits"], code), (&json!(1), Some(0)), "{with:#}");
    let expected = json!({ "fits": 2, "victims": 2, "atLimit": false, "steps": [
        { "node": "a", "victims": ["/x"] }, { "node": "b", "victims": ["/y"] }] });
    assert_eq!(with["preemption"], expected);
    let (limited, _) = answer(&objects, &template, &["--as-written", "--preempt", "--limit", "2"]);
    assert_eq!(
        (&limited["preemption"]["fits"], &limited["preemption"]["atLimit"]),
        (&json!(1), &json!(true))
    );
    let (without, _) = answer(&objects, &template, &["--as-written"]);
    assert_eq!(without["preemption"], Value::Null);
    // No copy fits without preemption.
    let full = [plain_node("a"), pod("x", "4", &json!({ "nodeName": "a" }))];
    let (by_preemption, code) = answer(&full, &template, &flags);
    assert_eq!(
        (&by_preemption["fits"], &by_preemption["preemption"]["fits"], code),
        (&json!(0), &json!(2), Some(0))
    );
}
