//! Tests of storage objects and pod volumes.

use super::*;
use crate::api::{
    CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
use crate::convert::{Watched, volumes};
use serde::de::DeserializeOwned;
use serde_json::json;
use supercargo_core::model::event::{Event, ObjectKey};
use supercargo_core::model::intern::known;
use supercargo_core::model::volume::{BindingMode, InTreePlugin, StorageKind, StorageSize, VolumeSource};

fn decode<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("any JSON is read")
}

#[test]
fn irrelevant_pod_volumes_are_dropped_and_order_is_kept() {
    let mut tables = Tables::new();
    let spec = json!({"volumes": [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "emptyDir": {}}, {"name": "c", "rbd": null},
        {"name": "d", "ephemeral": {}}, {"name": "e", "csi": {"driver": "x"}}, {"name": "f", "azureFile": {}},
        {"name": "g", "awsElasticBlockStore": {"volumeID": "aws://z/bad"}}, {"name": "h", "iscsi": {"iqn": "i", "readOnly": true}},
    ]});
    let pod =
        convert(&mut tables, &json!({"metadata": {"name": "p"}, "spec": spec})).expect("it is well formed");
    let names: Vec<&str> = pod.volumes.iter().map(|volume| &*volume.name).collect();
    assert_eq!(names, ["a", "d", "e", "f", "g", "h"]);
    assert_eq!(pod.volumes[0].source, VolumeSource::Claim(tables.symbol("data")));
    assert_eq!(pod.volumes[1].source, VolumeSource::Ephemeral(tables.symbol("p-d")));
    assert_eq!(pod.volumes[2].source, VolumeSource::Csi(tables.symbol("x")));
    let migratable = |at: usize| pod.volumes[at].migratable().map(|disk| (disk.plugin, disk.handle.is_ok()));
    assert_eq!(migratable(3), Some((InTreePlugin::AzureFile, true)));
    assert_eq!(migratable(4), Some((InTreePlugin::AwsEbs, false)));
    assert_eq!(migratable(5), None);
    assert!(pod.volumes[5].disk().is_some_and(|disk| disk.exclusive.is_some()));
}

#[test]
fn class_annotation_overrides_field_even_if_empty() {
    let mut tables = Tables::new();
    let object = |class: Value| {
        json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": class, "other": "x", "null": null}},
               "spec": {"storageClassName": "field"}})
    };
    let mut classes = |class: Value| {
        let claim: PersistentVolumeClaim = decode(object(class.clone()));
        let volume: PersistentVolume = decode(object(class));
        let claim = volumes::claim(&mut tables, &claim).expect("a claim").class;
        assert_eq!(volumes::persistent_volume(&mut tables, &volume).expect("a volume").class, claim);
        tables.text(claim).to_owned()
    };
    assert_eq!(classes(json!("noted")), "noted");
    assert_eq!(classes(json!("")), "");
    assert_eq!(classes(Value::Null), "");
    let plain: PersistentVolumeClaim = decode(json!({"spec": {"storageClassName": "field"}}));
    let class = volumes::claim(&mut tables, &plain).expect("a claim").class;
    assert_eq!(tables.text(class), "field");
}

#[test]
fn non_string_annotation_makes_object_malformed() {
    let claim: PersistentVolumeClaim =
        decode(json!({"metadata": {"name": "c", "annotations": {"other": 5}}}));
    let error = volumes::claim(&mut Tables::new(), &claim).expect_err("upstream rejects it").to_string();
    assert!(error.contains("annotations"), "{error}");
}

#[test]
fn claims_convert_binding_request_and_owner() {
    let mut tables = Tables::new();
    let claim: PersistentVolumeClaim = decode(json!({
        "metadata": {"namespace": "ns", "name": "c", "uid": "u", "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"pv.kubernetes.io/bind-completed": "", "volume.kubernetes.io/selected-node": "a"},
            "ownerReferences": [{"uid": "other"}, {"uid": "owner", "controller": true}]},
        "spec": {"volumeName": "v", "accessModes": ["ReadWriteOncePod"], "volumeMode": "Block", "resources": {"requests": {"storage": "1500m"}},
            "selector": {"matchExpressions": [{"key": "k", "operator": "Like"}]}, "volumeAttributesClassName": "gold"},
        "status": {"phase": "Lost"},
    }));
    let info = volumes::claim(&mut tables, &claim).expect("it is well formed");
    assert_eq!(info.bound_volume(), Some(tables.symbol("v")));
    assert_eq!((info.selected_node, info.controller.as_deref()), (Some(tables.symbol("a")), Some("owner")));
    assert_eq!((&*info.uid, &*info.resource_version, info.deleting, info.lost), ("u", "7", true, true));
    assert_eq!(info.access_modes, [known::READ_WRITE_ONCE_POD].into());
    let request = info.request.expect("it asks for storage");
    assert!(
        request > StorageSize::from_bytes(1) && request < StorageSize::from_bytes(2) && request.bytes() == 2
    );
    let error = info.selector.expect("it selects").expect_err("no such operator");
    assert_eq!(&*error, "\"Like\" is not a valid label selector operator");
    assert_eq!((tables.text(info.mode), tables.text(info.attributes_class)), ("Block", "gold"));
    let malformed: PersistentVolumeClaim =
        decode(json!({"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": "much"}}}}));
    let error = volumes::claim(&mut tables, &malformed).expect_err("no quantity").to_string();
    assert!(error.contains("spec.resources.requests"), "{error}");
}

#[test]
fn volume_affinity_uses_node_labels_only() {
    let mut tables = Tables::new();
    let mut terms = |terms: Value| {
        let volume: PersistentVolume =
            decode(json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}));
        let info = volumes::persistent_volume(&mut tables, &volume).expect("it is well formed");
        info.node_affinity.expect("it has one").terms.iter().map(|term| term.len()).collect::<Vec<_>>()
    };
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["a"]});
    let label = json!({"key": "k", "operator": "Exists"});
    assert_eq!(terms(json!([{"matchFields": [field]}])), [0], "a requirement on the name is ignored");
    assert_eq!(terms(json!([{"matchFields": [field], "matchExpressions": [label]}])), [1]);
    assert!(terms(json!([{}, {"matchExpressions": [{"key": "k", "operator": "In"}]}])).is_empty());
    assert!(terms(json!([])).is_empty());
}

#[test]
fn zone_labels_are_sets_and_invalid_ones_are_ignored() {
    let mut tables = Tables::new();
    let volume: PersistentVolume = decode(json!({"metadata": {"labels": {
        "topology.kubernetes.io/zone": "b__ a__b", "topology.kubernetes.io/region": "r__",
        "failure-domain.beta.kubernetes.io/zone": "z", "other": "x__y",
    }}}));
    let info = volumes::persistent_volume(&mut tables, &volume).expect("it is well formed");
    let topology: Vec<(&str, Vec<&str>)> = info
        .topology
        .iter()
        .map(|(key, values)| {
            let mut values: Vec<_> = values.iter().map(|&value| tables.text(value)).collect();
            values.sort_unstable();
            (tables.text(*key), values)
        })
        .collect();
    assert_eq!(
        topology,
        [
            ("failure-domain.beta.kubernetes.io/zone", vec!["z"]),
            ("topology.kubernetes.io/zone", vec!["a", "b"])
        ]
    );
}

#[test]
fn storage_classes_and_capacities_decode_top_level_fields() {
    let mut tables = Tables::new();
    let class: StorageClass = decode(json!({
        "metadata": {"name": "c"}, "provisioner": "kubernetes.io/cinder", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{}, {"matchLabelExpressions": [{"key": "k", "values": []}]},
            {"matchLabelExpressions": [{"key": "k", "values": ["v"]}]}],
    }));
    let info = volumes::storage_class(&mut tables, &class).expect("it is well formed");
    assert_eq!(info.binding_mode, Some(BindingMode::WaitForFirstConsumer));
    assert_eq!(info.in_tree, Some((InTreePlugin::Cinder, tables.symbol("cinder.csi.openstack.org"))));
    let usable: Vec<bool> = info.allowed_topologies.iter().map(Option::is_some).collect();
    assert_eq!(usable, [false, false, true]);
    let mut limit = |fields: Value| {
        let capacity: CsiStorageCapacity = decode(fields);
        let info = volumes::csi_storage_capacity(&mut tables, &capacity).expect("it is well formed");
        (info.limit, info.topology.is_some())
    };
    assert_eq!(
        limit(json!({"capacity": "5", "maximumVolumeSize": "3", "nodeTopology": {}})),
        (Some(3), true)
    );
    assert_eq!(limit(json!({"capacity": "5"})), (Some(5), false));
    assert_eq!(
        limit(json!({"nodeTopology": {"matchExpressions": [{"key": "k", "operator": "x"}]}})),
        (None, false)
    );
    let malformed: StorageClass = decode(json!({"metadata": {"name": "c"}, "provisioner": 5}));
    let error = volumes::storage_class(&mut tables, &malformed).expect_err("no text").to_string();
    assert!(error.starts_with("StorageClass c is malformed: provisioner"), "{error}");
}

#[test]
fn missing_limits_and_attachment_fields_are_accepted() {
    let mut tables = Tables::new();
    let node: CsiNode = decode(json!({
        "metadata": {"name": "a", "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs,x"}},
        "spec": {"drivers": [{"name": "d", "allocatable": {"count": 3}}, {"name": "e", "allocatable": {}}, {"name": "f"}]},
    }));
    let info = volumes::csi_node(&mut tables, &node).expect("it is well formed");
    let limits = ["d", "e", "f"].map(|driver| info.limit(tables.symbol(driver)));
    assert_eq!(limits, [Some(3), None, None]);
    assert!(info.has_migrated(InTreePlugin::AwsEbs) && !info.has_migrated(InTreePlugin::GcePd));
    let attachment: VolumeAttachment =
        decode(json!({"metadata": {"name": "t"}, "spec": {"attacher": "d", "nodeName": "a", "source": {}}}));
    let info = volumes::volume_attachment(&mut tables, &attachment).expect("it is well formed");
    assert_eq!((tables.text(info.attacher), tables.text(info.node), info.volume), ("d", "a", None));
}

#[test]
fn storage_object_event_has_its_key() {
    let mut tables = Tables::new();
    let claim: PersistentVolumeClaim = decode(json!({"metadata": {"namespace": "ns", "name": "c"}}));
    let Event::StorageApplied(object) = claim.applied(&mut tables).expect("it is well formed") else {
        panic!("a claim is an object of storage")
    };
    assert_eq!(claim.key(&mut tables), ObjectKey::Storage(object.key()));
    assert_eq!(object.key().kind, StorageKind::PersistentVolumeClaim);
    let volume: PersistentVolume =
        decode(json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "x"}}}));
    assert!(volume.applied(&mut tables).is_err(), "a malformed one has a key, too");
    assert!(matches!(volume.key(&mut tables), ObjectKey::Storage(key) if key.namespace.is_none()));
}

/// Messages are Go's; the golden vectors `branches-volumes-ebs-url-*` cover the others.
#[test]
fn ebs_volume_id_prefix_is_validated_as_a_host() {
    let mut tables = Tables::new();
    let mut handle = |id: &str| {
        let volumes = json!([{"name": "v", "awsElasticBlockStore": {"volumeID": id}}]);
        let pod = convert(&mut tables, &json!({"metadata": {"name": "p"}, "spec": {"volumes": volumes}}));
        let disk = pod.expect("it is well formed").volumes[0].migratable().expect("a disk").handle.clone();
        disk.map(|name| name.to_string()).map_err(|error| error.to_string())
    };
    assert_eq!(handle("aws://us-east-1a/vol-1").as_deref(), Ok("vol-1"));
    assert_eq!(handle("aws://user%zz@zone/vol-1").as_deref(), Ok("vol-1"));
    assert_eq!(handle("aws://[nonsense]/vol-1").as_deref(), Ok("vol-1"));
    let flaw = handle("aws://%zz/vol-1#part").expect_err("no escape");
    assert!(flaw.ends_with(r#"parse "aws://%zz/vol-1": invalid URL escape "%zz""#), "{flaw}");
    let flaw = handle("aws://a{b/vol-1").expect_err("no host");
    assert!(flaw.ends_with(r#"invalid character "{" in host name"#), "{flaw}");
}
