//! Suggested fixes: each is applied to the files here, and then the pod fits.

use crate::support::{Cluster, codes, node, plain_node, pod};
use serde_json::{Value, json};

fn suggestions(objects: &[Value]) -> (Vec<String>, Value) {
    let (answer, _) = Cluster::of(objects).answer("p", &[]);
    (codes(&answer), answer)
}

fn change<'a>(answer: &'a Value, code: &str) -> &'a Value {
    let changes = answer["changes"].as_array().expect("a list");
    changes
        .iter()
        .find(|change| change["codes"] == json!([code]))
        .unwrap_or_else(|| panic!("{code}: {answer:#}"))
}

fn fits(objects: &[Value]) {
    let (answer, code) = Cluster::of(objects).answer("p", &[]);
    assert_eq!((&answer["verdict"], code), (&json!("fitsNow"), Some(0)), "{answer:#}");
}

#[test]
fn suggested_toleration_is_valid_and_helps() {
    let taint = json!({ "taints": [{ "key": "gpu", "value": "a100", "effect": "NoSchedule" }] });
    let tainted = node("a", &json!({}), &taint);
    let (codes, answer) = suggestions(&[tainted.clone(), pod("p", "1", &json!({}))]);
    assert_eq!(codes, ["AddToleration", "RemoveTaint"]);
    assert_eq!(
        change(&answer, "AddToleration")["how"],
        "tolerations: [{key: gpu, operator: Equal, value: a100, effect: NoSchedule}]"
    );
    assert_eq!(change(&answer, "RemoveTaint")["how"], "kubectl taint nodes a gpu:NoSchedule-");
    let tolerations = json!({ "tolerations": [{ "key": "gpu", "operator": "Equal", "value": "a100", "effect": "NoSchedule" }] });
    fits(&[tainted, pod("p", "1", &tolerations)]);
}

#[test]
fn toleration_comes_before_removal_of_the_taint_beside_another_obstacle() {
    let taint =
        json!({ "taints": [{ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }] });
    let tainted = node("a", &json!({ "disk": "sdd" }), &taint);
    let wants = pod("p", "1", &json!({ "nodeSelector": { "disk": "ssd" } }));
    let (codes, _) = suggestions(&[tainted, plain_node("b"), wants]);
    let at = |code: &str| codes.iter().position(|found| found == code);
    let (tolerated, removed) = (at("AddToleration+LabelNode"), at("RemoveTaint+LabelNode"));
    let tolerated = tolerated.or_else(|| at("LabelNode+AddToleration"));
    let removed = removed.or_else(|| at("LabelNode+RemoveTaint"));
    assert!(tolerated.is_some() && tolerated < removed, "{codes:?}");
}

#[test]
fn fixes_that_no_update_of_a_pod_can_make_say_how_to_make_them() {
    let owned = |kind: &str, name: &str, labels: Value| {
        let mut pod = pod("p", "1", &json!({ "nodeSelector": { "disk": "ssd" } }));
        if !kind.is_empty() {
            let owner = json!({ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true });
            pod["metadata"]["ownerReferences"] = json!([owner]);
        }
        pod["metadata"]["labels"] = labels;
        pod
    };
    let of_template = "make the change in the template of";
    for (pod, how) in [
        (owned("", "", json!({})), "create the pod again (kubectl replace --force -f FILE)".to_owned()),
        (
            owned("ReplicaSet", "web-5d9", json!({ "pod-template-hash": "5d9" })),
            format!("{of_template} deployment/web"),
        ),
        (owned("StatefulSet", "db", json!({})), format!("{of_template} statefulset/db")),
        (
            owned("Job", "once", json!({})),
            "create job/once again, with the change in its template".to_owned(),
        ),
    ] {
        let cluster = Cluster::of(&[plain_node("a"), pod]);
        let (answer, _) = cluster.answer("p", &[]);
        assert_eq!(codes(&answer), ["LabelNode", "DropNodeLabel"]);
        let needs: Vec<&Value> = answer["changes"].as_array().into_iter().flatten().collect();
        let needs: Vec<&Value> = needs.iter().map(|change| &change["needsNewPod"]).collect();
        assert_eq!((needs, &answer["newPod"]), (vec![&json!(false), &json!(true)], &json!(how)));
        let line = format!("\n  Fix 2 is not possible as an update of an existing pod: {how}\n");
        let text = cluster.ask("p", &[]).stdout;
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn fixes_of_nodes_and_tolerations_need_no_new_pod() {
    let taint = json!({ "taints": [{ "key": "gpu", "effect": "NoSchedule" }] });
    let cluster = Cluster::of(&[node("a", &json!({}), &taint), pod("p", "1", &json!({}))]);
    let (answer, _) = cluster.answer("p", &[]);
    assert_eq!((codes(&answer).len(), &answer["newPod"]), (2, &Value::Null));
    assert!(!cluster.ask("p", &[]).stdout.contains("existing pod"));
}

#[test]
fn node_condition_taint_suggests_no_toleration() {
    let taint = json!({ "taints": [{ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }] });
    let (codes, _) = suggestions(&[node("a", &json!({}), &taint), pod("p", "1", &json!({}))]);
    assert_eq!(codes, Vec::<String>::new());
}

#[test]
fn uncordon_also_removes_the_taint() {
    let closed = json!({ "unschedulable": true, "taints": [{ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }] });
    let (codes, answer) = suggestions(&[node("a", &json!({}), &closed), pod("p", "1", &json!({}))]);
    assert_eq!(codes, ["Uncordon"]);
    assert_eq!(answer["nearMissCount"], 1);
}

#[test]
fn misspelt_label_value_and_key_are_corrected() {
    let nodes = [node("a", &json!({ "disk": "ssd" }), &json!({})), plain_node("b")];
    for (wrong, field) in [
        (json!({ "disk": "sdd" }), "disk=sdd"),
        (json!({ "dsk": "ssd" }), "dsk=ssd"),
        (json!({ "storage-sort": "ssd" }), "storage-sort=ssd"),
    ] {
        let (codes, answer) = suggestions(&[
            nodes[0].clone(),
            nodes[1].clone(),
            pod("p", "1", &json!({ "nodeSelector": wrong })),
        ]);
        assert_eq!(codes[0], "CorrectNodeLabel", "{field}: {answer:#}");
        assert_eq!(answer["changes"][0]["text"], format!("use disk=ssd in nodeSelector instead of {field}"));
        assert_eq!(answer["hints"][0]["didYouMean"], "disk=ssd", "{field}");
    }
    fits(&[nodes[0].clone(), pod("p", "1", &json!({ "nodeSelector": { "disk": "ssd" } }))]);
}

#[test]
fn unrelated_word_has_no_suggestion() {
    let wants = json!({ "nodeSelector": { "accelerator": "tpu" } });
    let (codes, answer) =
        suggestions(&[node("a", &json!({ "disk": "ssd" }), &json!({})), pod("p", "1", &wants)]);
    assert_eq!(codes, ["LabelNode", "DropNodeLabel"]);
    assert_eq!(answer["hints"][0]["code"], "LabelKeyUnknown");
    assert_eq!(answer["hints"][0]["didYouMean"], Value::Null);
}

#[test]
fn pod_selector_without_match_is_corrected() {
    let peer = |app: &str| {
        json!({ "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": app } } }] } } })
    };
    let web = pod("web-server", "1", &json!({ "nodeName": "a" }));
    let (codes, answer) = suggestions(&[plain_node("a"), web.clone(), pod("p", "1", &peer("web-sever"))]);
    assert_eq!(codes, ["CorrectPodLabel", "SoftenAffinity"]);
    assert_eq!(answer["hints"][0]["didYouMean"], "app=web-server");
    fits(&[plain_node("a"), web, pod("p", "1", &peer("web-server"))]);
}

#[test]
fn misspelt_topology_key_is_corrected() {
    let spread = json!({ "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "kubernetes.io/hostnam",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "app": "p" } } }] });
    let (codes, answer) = suggestions(&[plain_node("a"), pod("p", "1", &spread)]);
    assert_eq!(codes, ["CorrectTopologyKey", "SoftenSpread"]);
    assert_eq!(answer["hints"][0]["didYouMean"], "kubernetes.io/hostname");
}

#[test]
fn unused_toleration_is_reported() {
    let taint = json!({ "taints": [{ "key": "business", "value": "cars", "effect": "NoSchedule" }] });
    let tolerations = json!({ "tolerations": [{ "key": "busines", "operator": "Equal", "value": "cars", "effect": "NoSchedule" }] });
    let (_, answer) = suggestions(&[node("a", &json!({}), &taint), pod("p", "1", &tolerations)]);
    assert_eq!(answer["hints"][0]["code"], "TolerationUnused");
    assert_eq!(answer["hints"][0]["didYouMean"], "business=cars:NoSchedule");
}

#[test]
fn insufficient_cpu_has_four_kinds_of_fixes() {
    let large = pod("large", "3", &json!({ "nodeName": "a" }));
    let small = pod("small", "500m", &json!({ "nodeName": "a" }));
    let (codes, answer) = suggestions(&[plain_node("a"), large.clone(), small, pod("p", "1", &json!({}))]);
    assert_eq!(codes, ["LowerRequest", "AddNode", "RemovePod", "GrowNode"]);
    assert_eq!(change(&answer, "LowerRequest")["how"], "resources: {requests: {cpu: 500m}}");
    assert_eq!(change(&answer, "GrowNode")["text"], "add 500m cpu to a");
    let removed = change(&answer, "RemovePod")["text"].as_str().expect("a text").to_owned();
    assert!(removed.starts_with("remove default/small from a "), "{removed}");
    fits(&[plain_node("a"), large, pod("p", "1", &json!({}))]);
}

#[test]
fn pod_larger_than_every_node_suggests_a_larger_one_and_no_more_than_needed() {
    let taint = json!({ "taints": [{ "key": "gpu", "effect": "NoSchedule" }] });
    let tainted = node("b", &json!({}), &taint);
    let (codes, answer) = suggestions(&[plain_node("a"), tainted, pod("p", "6", &json!({}))]);
    assert_eq!(codes, ["LowerRequest", "AddNode", "GrowNode"], "no taint must go in addition");
    let added = change(&answer, "AddNode");
    assert_eq!(added["text"], "add a node like a with 6 cpu allocatable");
    assert_eq!(added["examples"], json!(["the new node"]));
}

#[test]
fn two_obstacles_of_one_node_are_removed_together() {
    let taint = json!({ "taints": [{ "key": "gpu", "effect": "NoSchedule" }] });
    let wants = json!({ "nodeSelector": { "disk": "ssd" } });
    let (codes, answer) = suggestions(&[node("a", &json!({}), &taint), pod("p", "1", &wants)]);
    assert!(codes.contains(&"RemoveTaint+LabelNode".to_owned()), "{codes:?}");
    assert_eq!(answer["nearMissCount"], 0);
}

#[test]
fn useless_changes_are_not_suggested() {
    // A copy of the only node would be cordoned, too.
    let taint = json!({ "taints": [{ "key": "node.kubernetes.io/unreachable", "effect": "NoSchedule" }] });
    let other = pod("other", "4", &json!({ "nodeName": "a" }));
    let (codes, _) = suggestions(&[node("a", &json!({}), &taint), other, pod("p", "1", &json!({}))]);
    assert_eq!(codes, Vec::<String>::new());
}

#[test]
fn surplus_replicas_are_counted() {
    let anti = json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "web" } } }] } } });
    let replica = |name: &str, node: Option<&str>| {
        let mut replica = pod(name, "1", &anti);
        replica["metadata"]["labels"] = json!({ "app": "web", "pod-template-hash": "abc" });
        replica["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-abc", "uid": "u", "controller": true }]);
        if let Some(node) = node {
            replica["spec"]["nodeName"] = json!(node);
        }
        replica
    };
    let objects = [
        plain_node("a"),
        plain_node("b"),
        replica("x", Some("a")),
        replica("y", Some("b")),
        replica("p", None),
        replica("q", None),
    ];
    let (codes, answer) = suggestions(&objects);
    assert_eq!(codes, ["SoftenAntiAffinity", "AddNode", "FewerReplicas"]);
    assert_eq!(
        change(&answer, "FewerReplicas")["how"],
        "kubectl scale deployment web --namespace default --replicas=2"
    );
    assert!(
        change(&answer, "FewerReplicas")["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("scale web down by 2 replicas"))
    );
}

#[test]
fn answer_for_many_node_types_is_short_and_stable() {
    let objects: Vec<Value> = (0..60)
        .map(|at| {
            let taint = json!({ "taints": [{ "key": format!("team-{at}"), "effect": "NoSchedule" }] });
            node(&format!("n{at:02}"), &json!({}), &taint)
        })
        .chain([pod("p", "1", &json!({}))])
        .collect();
    let cluster = Cluster::of(&objects);
    let first = cluster.ask("p", &["-o", "json"]);
    assert_eq!(first.stdout, cluster.ask("p", &["-o", "json"]).stdout);
    let answer: Value = serde_json::from_str(&first.stdout).expect("the text is valid JSON");
    assert_eq!(codes(&answer), ["AddToleration", "AddToleration", "RemoveTaint", "RemoveTaint"]);
    assert_eq!(
        (answer["nearMisses"].as_array().map(Vec::len), &answer["nearMissCount"]),
        (Some(10), &json!(60))
    );
}
