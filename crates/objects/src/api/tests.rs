//! Tests of what the lean types accept and reject.

use super::*;
use serde_json::json;

fn pod(value: &Value) -> Pod {
    serde_json::from_value(value.clone()).unwrap()
}

fn reason(value: &Value) -> String {
    pod(value).content().unwrap_err().to_string()
}

#[test]
fn unknown_fields_and_nulls_are_accepted() {
    let pod = pod(&json!({
        "apiVersion": "v1", "kind": "Pod", "extra": {"deep": [1, {"x": null}]},
        "metadata": {"name": "p", "namespace": null, "labels": {"a": null}, "ownerReferences": [null], "managedFields": "odd"},
        "spec": {
            "containers": [null, {"name": "c", "resources": {"requests": {"cpu": null, "memory": 1.5}, "limits": null, "claims": "odd"},
                                  "ports": null, "livenessProbe": {"httpGet": {"port": "web"}}}],
            "tolerations": null, "affinity": {"nodeAffinity": null}, "priority": null, "nodeSelector": null,
        },
        "status": null,
    }));
    let content = pod.content().unwrap();
    assert_eq!((pod.name(), pod.namespace()), ("p", ""));
    assert_eq!(pod.metadata.labels.as_ref().unwrap()["a"], "");
    assert_eq!(content.spec.containers.len(), 2);
    let requests = &content.spec.containers[1].resources.requests;
    assert_eq!((requests["cpu"].as_str(), requests["memory"].as_str()), ("0", "1.5"));
}

#[test]
fn quantities_keep_their_text_until_conversion() {
    let text =
        r#"{"spec":{"overhead":{"a":0.12345678901234567890,"b":" 1Gi ","c":true,"d":"1\u0047i","e":1e3}}}"#;
    let pod: Pod = serde_json::from_str(text).unwrap();
    let overhead = &pod.content().unwrap().spec.overhead;
    let texts: Vec<_> = overhead.values().map(meta::QuantityText::as_str).collect();
    assert_eq!(texts, ["0.12345678901234567890", "1Gi", "true", r"1\u0047i", "1e3"]);
}

#[test]
fn wrong_type_makes_object_malformed_and_names_the_field() {
    let bad = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7"},
                     "spec": {"containers": [{"name": "c"}, {"ports": [{"hostPort": 1}, {"hostPort": "80"}]}]}});
    assert_eq!(
        reason(&bad),
        "Pod ns/p is malformed: spec.containers[1].ports[1].hostPort: invalid type: string \"80\", expected i32"
    );
    assert_eq!(pod(&bad).metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(pod(&bad).metadata.uid.as_deref(), Some("u"));
    let bad = json!({"metadata": {"name": "p"}, "spec": {"priority": 3_000_000_000_u64}});
    assert!(reason(&bad).starts_with("Pod p is malformed: spec.priority: "), "{}", reason(&bad));
    let bad = json!({"metadata": {"name": "p", "labels": {"a": 1}}});
    assert!(reason(&bad).starts_with("Pod p is malformed: metadata.labels.a: "), "{}", reason(&bad));
    let bad = json!({"metadata": 5});
    assert!(reason(&bad).starts_with("Pod  is malformed: metadata: "), "{}", reason(&bad));
    assert!(pod(&json!("text")).content().is_err());
}

#[test]
fn list_and_watch_survive_a_malformed_object() {
    let good = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
    let bad = json!({"metadata": {"name": "b", "resourceVersion": "2"}, "spec": {"containers": 5}});
    let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [good, bad]});
    let list: kube::core::ObjectList<Pod> = serde_json::from_str(&list.to_string()).unwrap();
    let judged: Vec<_> = list.items.iter().map(|pod| (pod.name(), pod.content().is_ok())).collect();
    assert_eq!(judged, [("a", true), ("b", false)]);

    let line = format!(r#"{{"type":"MODIFIED","object":{bad}}}"#);
    match serde_json::from_str(&line).unwrap() {
        kube::core::WatchEvent::<Pod>::Modified(pod) => {
            assert!(pod.content().is_err());
            assert_eq!(kube::ResourceExt::resource_version(&pod).as_deref(), Some("2"));
        }
        other => panic!("{other:?}"),
    }
    let error = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}}"#;
    assert!(
        matches!(serde_json::from_str(error).unwrap(), kube::core::WatchEvent::<Pod>::Error(status) if status.code == 410)
    );
    let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"5","creationTimestamp":null},"spec":{"containers":null},"status":{}}}"#;
    assert!(matches!(serde_json::from_str(bookmark).unwrap(), kube::core::WatchEvent::<Pod>::Bookmark(_)));
}

#[test]
fn only_the_controlling_owner_is_kept() {
    let pod = pod(&json!({"metadata": {"name": "p", "ownerReferences": [
        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "2", "controller": true},
    ]}}));
    let owners: Vec<_> = pod.metadata.owner_references.unwrap().into_iter().map(|owner| owner.name).collect();
    assert_eq!(owners, ["rs"]);
}

#[test]
fn request_paths_match_the_api() {
    use kube::Resource;
    assert_eq!(Pod::url_path(&(), Some("ns")), "/api/v1/namespaces/ns/pods");
    assert_eq!(Node::url_path(&(), None), "/api/v1/nodes");
    assert_eq!(StatefulSet::url_path(&(), None), "/apis/apps/v1/statefulsets");
}

#[test]
fn object_is_decoded_by_its_api_version_and_kind() {
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": 4, "memory": "8Gi"}}
    });
    let Ok(Object::Node(node)) = Object::from_value(node) else { panic!("expected a node") };
    assert_eq!(node.content().unwrap().status.allocatable["cpu"].as_str(), "4");
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"}});
    assert!(matches!(Object::from_value(set), Ok(Object::ReplicaSet(set)) if set.name() == "r"));
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let error = Object::from_value(other).unwrap_err();
    assert_eq!(error.to_string(), "v1 ConfigMap m is of an unsupported kind");
}
