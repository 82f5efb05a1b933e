//! Tests of the expansion of workloads.

use super::*;
use crate::load::files::Files;
use crate::load::input::InputLimit;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write as _;

fn item(object: &Value) -> Item {
    let mut file = tempfile::NamedTempFile::new().expect("the temporary file is created");
    write!(file, "{object}").expect("the file is written");
    let items = Files::within(InputLimit::default(), |warning| panic!("{warning}"))
        .read(file.path(), &mut std::io::empty())
        .expect("the object is valid");
    items.into_iter().next().expect("the file has one object")
}

fn workload(api_version: &str, kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": { "name": "web", "namespace": "shop", "uid": "u-1" }, "spec": spec,
    })
}

fn template() -> Value {
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } })
}

fn selector() -> Value {
    json!({ "matchLabels": { "app": "web" } })
}

fn made(object: &Value) -> Expanded {
    expand(&item(object), &[]).expect("the workload is valid")
}

fn names(expanded: &Expanded) -> Vec<&str> {
    expanded.pods.iter().map(Item::name).collect()
}

/// Returns kind and name of the object's only owner.
fn owner(item: &Item) -> (String, String) {
    let owners = item.value["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    assert_eq!(owners.len(), 1, "{}", item.value);
    assert_eq!(owners[0]["controller"], true);
    (text_at(&owners[0], "/kind").to_owned(), text_at(&owners[0], "/name").to_owned())
}

#[test]
fn deployment_expands_to_replica_set_and_pods() {
    let spec = json!({ "replicas": 3, "selector": selector(), "template": template() });
    let expanded = made(&workload("apps/v1", "Deployment", &spec));
    let set = &expanded.objects[0];
    let hash = text_at(&set.value, "/metadata/labels/pod-template-hash").to_owned();
    assert!(!hash.is_empty());
    assert_eq!((set.kind(), set.name()), ("ReplicaSet", format!("web-{hash}").as_str()));
    assert_eq!(owner(set), ("Deployment".to_owned(), "web".to_owned()));
    let labels = json!({ "app": "web", "pod-template-hash": hash });
    assert_eq!(set.value["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(expanded.pods.len(), 3);
    for pod in &expanded.pods {
        assert_eq!(pod.name().len(), set.name().len() + 6);
        assert!(pod.name().starts_with(&format!("{}-", set.name())), "{}", pod.name());
        assert_eq!((pod.namespace(), &pod.value["metadata"]["labels"]), ("shop", &labels));
        assert_eq!(owner(pod), ("ReplicaSet".to_owned(), set.name().to_owned()));
        assert_eq!(pod.value["spec"], template()["spec"]);
    }
    assert_eq!(names(&expanded).into_iter().collect::<BTreeSet<_>>().len(), 3);
}

#[test]
fn template_hash_depends_on_the_template_only() {
    let hash = |replicas: u32, image: &str| {
        let mut template = template();
        template["spec"]["containers"][0]["image"] = image.into();
        let spec = json!({ "replicas": replicas, "selector": selector(), "template": template });
        made(&workload("apps/v1", "Deployment", &spec)).objects[0].name().to_owned()
    };
    assert_eq!(hash(1, "a"), hash(2, "a"));
    assert_ne!(hash(1, "a"), hash(1, "b"));
}

#[test]
fn replica_set_without_replicas_expands_to_one_pod() {
    let expanded =
        made(&workload("apps/v1", "ReplicaSet", &json!({ "selector": selector(), "template": template() })));
    assert_eq!(expanded.pods.len(), 1);
    assert_eq!(owner(&expanded.pods[0]), ("ReplicaSet".to_owned(), "web".to_owned()));
    let none = json!({ "replicas": 0, "selector": selector(), "template": template() });
    assert_eq!(made(&workload("apps/v1", "ReplicaSet", &none)).pods.len(), 0);
}

#[test]
fn stateful_set_expands_to_numbered_pods_with_claims() {
    let mut template = template();
    template["spec"]["volumes"] =
        json!([{ "name": "data", "emptyDir": {} }, { "name": "tmp", "emptyDir": {} }]);
    let claim = json!({ "metadata": { "name": "data", "labels": { "keep": "yes" } }, "spec": { "storageClassName": "fast" } });
    let spec = json!({
        "replicas": 2, "ordinals": { "start": 3 }, "selector": selector(), "template": template,
        "volumeClaimTemplates": [claim],
    });
    let expanded = made(&workload("apps/v1", "StatefulSet", &spec));
    assert_eq!(names(&expanded), ["web-3", "web-4"]);
    let pod = &expanded.pods[0].value;
    assert_eq!(
        pod["spec"]["volumes"],
        json!([
            { "name": "data", "persistentVolumeClaim": { "claimName": "data-web-3" } },
            { "name": "tmp", "emptyDir": {} },
        ])
    );
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-3");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "3");
    assert!(text_at(labels, "/controller-revision-hash").starts_with("web-"));
    let claims: Vec<(&str, &str)> =
        expanded.objects.iter().map(|claim| (claim.kind(), claim.name())).collect();
    assert_eq!(claims, [("PersistentVolumeClaim", "data-web-3"), ("PersistentVolumeClaim", "data-web-4")]);
    assert_eq!(expanded.objects[0].value["metadata"]["labels"], json!({ "app": "web", "keep": "yes" }));
    assert_eq!(expanded.objects[0].value["spec"], json!({ "storageClassName": "fast" }));
}

fn node(name: &str, labels: &Value, taints: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels }, "spec": { "taints": taints },
    })
}

#[test]
fn daemon_set_expands_to_one_pod_per_eligible_node() {
    let taint = |key: &str| json!([{ "key": key, "effect": "NoSchedule" }]);
    let nodes = [
        node("plain", &json!({ "os": "linux" }), &json!([])),
        node("cordoned", &json!({ "os": "linux" }), &taint("node.kubernetes.io/unschedulable")),
        node("tainted", &json!({ "os": "linux" }), &taint("gpu")),
        node("other", &json!({ "os": "windows" }), &json!([])),
    ];
    let mut template = template();
    template["spec"]["nodeSelector"] = json!({ "os": "linux" });
    let set = workload("apps/v1", "DaemonSet", &json!({ "selector": selector(), "template": template }));
    let expanded = expand(&item(&set), &nodes).expect("the workload is valid");
    let field = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0";
    let tied: Vec<&Value> = expanded.pods.iter().filter_map(|pod| pod.value.pointer(field)).collect();
    let to = |name: &str| json!({ "key": "metadata.name", "operator": "In", "values": [name] });
    assert_eq!(tied, [&to("plain"), &to("cordoned")]);
    assert_eq!(expanded.pods.len(), 2);
    assert_eq!(owner(&expanded.pods[0]), ("DaemonSet".to_owned(), "web".to_owned()));
    let tolerations =
        expanded.pods[0].value["spec"]["tolerations"].as_array().expect("tolerations are a list").len();
    assert_eq!(tolerations, 6);
    assert_ne!(expanded.pods[0].text("/metadata/uid"), expanded.pods[1].text("/metadata/uid"));
}

#[test]
fn daemon_set_replaces_required_node_affinity_and_adds_tolerations() {
    let mut template = template();
    let list = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = json!([{ "matchExpressions": [{ "key": "os", "operator": "Exists" }] }]);
    template["spec"]["affinity"] = json!({ "nodeAffinity": { list: { "nodeSelectorTerms": terms } } });
    template["spec"]["hostNetwork"] = true.into();
    let set = workload("apps/v1", "DaemonSet", &json!({ "selector": selector(), "template": template }));
    let nodes = [node("a", &json!({ "os": "linux" }), &json!([])), node("b", &json!({}), &json!([]))];
    let expanded = expand(&item(&set), &nodes).expect("the workload is valid");
    assert_eq!(expanded.pods.len(), 1);
    let spec = &expanded.pods[0].value["spec"];
    assert_eq!(spec["affinity"]["nodeAffinity"][list]["nodeSelectorTerms"][0].get("matchExpressions"), None);
    assert_eq!(spec["tolerations"].as_array().map(Vec::len), Some(7));
}

#[test]
fn job_expands_to_its_parallel_pods() {
    let of = |spec: Value| {
        let mut spec = spec;
        spec["template"] = template();
        made(&workload("batch/v1", "Job", &spec))
    };
    assert_eq!(of(json!({})).pods.len(), 1);
    assert_eq!(of(json!({ "completions": 5 })).pods.len(), 1);
    assert_eq!(of(json!({ "parallelism": 3 })).pods.len(), 3);
    assert_eq!(of(json!({ "parallelism": 3, "completions": 2 })).pods.len(), 2);
    assert_eq!(of(json!({ "parallelism": 3, "suspend": true })).pods.len(), 0);
    let indexed = of(json!({ "parallelism": 2, "completions": 2, "completionMode": "Indexed" }));
    assert!(indexed.pods[1].name().starts_with("web-1-"), "{}", indexed.pods[1].name());
    let labels = &indexed.pods[1].value["metadata"]["labels"];
    assert_eq!(labels["batch.kubernetes.io/job-completion-index"], "1");
    assert_eq!(labels["batch.kubernetes.io/job-name"], "web");
    assert_eq!(labels["batch.kubernetes.io/controller-uid"], "u-1");
}

#[test]
fn cron_job_expands_to_one_run() {
    let spec = json!({ "schedule": "0 * * * *", "jobTemplate": { "spec": { "parallelism": 2, "template": template() } } });
    let expanded = made(&workload("batch/v1", "CronJob", &spec));
    assert_eq!(expanded.pods.len(), 2);
    assert_eq!(owner(&expanded.pods[0]), ("Job".to_owned(), "web-30000000".to_owned()));
    assert!(expanded.pods[0].name().starts_with("web-30000000-"));
}

#[test]
fn invalid_workload_error_names_the_field() {
    let wrong = |object: Value| expand(&item(&object), &[]).expect_err("the workload is invalid").path;
    assert_eq!(wrong(workload("apps/v1", "Deployment", &json!({ "selector": selector() }))), "spec.template");
    assert_eq!(wrong(workload("apps/v1", "Deployment", &json!({ "template": template() }))), "spec");
    let spec = json!({ "replicas": "three", "selector": selector(), "template": template() });
    assert_eq!(wrong(workload("apps/v1", "ReplicaSet", &spec)), "spec.replicas");
    let spec = json!({ "replicas": 2_147_483_647, "selector": selector(), "template": template() });
    for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
        assert_eq!(wrong(workload("apps/v1", kind, &spec)), "spec.replicas");
    }
    let spec = json!({ "parallelism": 2_147_483_647, "completions": 2_147_483_647, "template": template() });
    assert_eq!(wrong(workload("batch/v1", "Job", &spec)), "spec.parallelism");
    let spec = json!({ "replicas": -1, "selector": selector(), "template": template() });
    assert_eq!(wrong(workload("apps/v1", "StatefulSet", &spec)), "spec.replicas");
    assert_eq!(wrong(workload("batch/v1", "CronJob", &json!({}))), "spec.jobTemplate");
    let spec = json!({ "jobTemplate": { "spec": { "completions": 1.5, "template": template() } } });
    assert_eq!(wrong(workload("batch/v1", "CronJob", &spec)), "spec.jobTemplate.spec.completions");
}

#[test]
fn ephemeral_volumes_expand_to_claims_of_the_pod() {
    let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "storageClassName": "fast" } });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "shop", "uid": "u-2" },
        "spec": { "volumes": [{ "name": "v", "ephemeral": { "volumeClaimTemplate": template } }, { "name": "w" }] },
    });
    let claims = ephemeral_claims(&item(&pod));
    assert_eq!(claims.len(), 1);
    assert_eq!((claims[0].name(), claims[0].namespace()), ("p-v", "shop"));
    assert_eq!(owner(&claims[0]), ("Pod".to_owned(), "p".to_owned()));
    assert_eq!(claims[0].value["metadata"]["labels"], json!({ "a": "b" }));
}
