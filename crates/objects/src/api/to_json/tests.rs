//! Round-trip tests of encoding to JSON.

use crate::api::{Kind, Received, ToJson as _, apps, core, policy, resource, storage};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::io::Read as _;

/// Debug output of an object, the same after a round trip, and its JSON.
type Twice = fn(&str) -> (String, String, Value);

fn twice<K: Kind>(json: &str) -> (String, String, Value) {
    let object: Received<K> = serde_json::from_str(json).unwrap();
    let written = object.to_json();
    let again: Received<K> = serde_json::from_str(&written.to_string()).unwrap();
    (format!("{object:?}"), format!("{again:?}"), written)
}

fn kinds() -> [(&'static str, Twice); 18] {
    fn of<K: Kind>() -> (&'static str, Twice) {
        (K::KIND, twice::<K>)
    }
    [
        of::<core::PodKind>(),
        of::<core::NodeKind>(),
        of::<core::NamespaceKind>(),
        of::<core::ServiceKind>(),
        of::<core::ReplicationControllerKind>(),
        of::<apps::ReplicaSetKind>(),
        of::<apps::StatefulSetKind>(),
        of::<policy::PodDisruptionBudgetKind>(),
        of::<resource::DeviceClassKind>(),
        of::<resource::ResourceClaimKind>(),
        of::<resource::ResourceSliceKind>(),
        of::<storage::PersistentVolumeKind>(),
        of::<storage::PersistentVolumeClaimKind>(),
        of::<storage::StorageClassKind>(),
        of::<storage::CsiNodeKind>(),
        of::<storage::CsiDriverKind>(),
        of::<storage::CsiStorageCapacityKind>(),
        of::<storage::VolumeAttachmentKind>(),
    ]
}

#[test]
fn encoded_objects_decode_to_the_same_objects() {
    let packed = include_bytes!("../../../../../tests/fixtures/protobuf.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    let mut seen = std::collections::BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let served = &line["served"];
        let kind = served["kind"].as_str().unwrap();
        let Some((kind, twice)) = kinds().into_iter().find(|(known, _)| *known == kind) else { continue };
        let (read, again, written) = twice(&served.to_string());
        assert_eq!(read, again, "{served}\n{written}");
        *seen.entry(kind).or_insert(0) += 1;
    }
    assert!(seen.len() == 18 && seen["Pod"] > 100, "{seen:?}");
}

#[test]
fn fields_that_are_not_decoded_are_not_encoded() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": "b", "annotations": {"token": "hush"}, "managedFields": [{"manager": "hush"}]},
        "spec": {
            "containers": [{
                "name": "c", "image": "i", "command": ["hush"], "args": ["hush"],
                "env": [{"name": "PASSWORD", "value": "hush"}, {"name": "X", "valueFrom": {"secretKeyRef": {"name": "hush", "key": "k"}}}],
                "envFrom": [{"secretRef": {"name": "hush"}}],
                "resources": {"requests": {"cpu": "1"}},
            }],
            "imagePullSecrets": [{"name": "hush"}],
            "volumes": [{"name": "v", "secret": {"secretName": "hush"}}],
        },
    });
    let (read, again, written) = twice::<core::PodKind>(&pod.to_string());
    assert_eq!(read, again);
    assert!(!written.to_string().contains("hush"), "{written}");
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": "b", "annotations": {"supercargo/others": ""}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}], "volumes": [{"name": "v"}]},
    });
    assert_eq!(written, expected);
}

#[test]
fn malformed_object_is_encoded_as_its_metadata() {
    let json = json!({"metadata": {"name": "a", "namespace": "b", "uid": "u"}, "spec": {"containers": 3}});
    let object: Received<core::PodKind> = serde_json::from_value(json).unwrap();
    assert!(object.is_malformed());
    let expected =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b", "uid": "u"}});
    assert_eq!(object.to_json(), expected);
}

#[test]
fn empty_and_absent_stay_distinct_where_they_differ() {
    let term = json!({"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {
        "nodeSelector": {},
        "hostUsers": false,
        "priority": 0,
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}, "preferredDuringSchedulingIgnoredDuringExecution": []},
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        },
    }});
    let (read, again, written) = twice::<core::PodKind>(&pod.to_string());
    assert_eq!(read, again);
    assert_eq!(written["spec"], pod["spec"]);
}
