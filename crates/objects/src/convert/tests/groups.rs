//! Tests of pod groups: both API versions, both encodings, and the pods that name them.

use super::*;
use crate::api::proto::FromProtobuf as _;
use crate::api::{PodGroupV1Alpha2, PodGroupV1Beta1};
use crate::convert::Watched;
use serde_json::json;
use supercargo_core::model::emulation::GroupGates;
use supercargo_core::model::event::Event;
use supercargo_core::model::group::{DisruptionMode, GroupApi, GroupCondition, GroupPolicy, PodGroup};
use supercargo_core::model::group_options::{GroupOptions, Replacements};
use supercargo_core::model::time::Time;

fn converted(tables: &mut Tables, object: &impl Watched) -> PodGroup {
    match object.applied(tables) {
        Ok(Event::PodGroupApplied(group)) => *group,
        other => panic!("{other:?}"),
    }
}

fn status(kind: &str) -> Value {
    let other = json!({"type": "DisruptionTarget", "status": "True", "reason": "x"});
    let own = json!({
        "type": kind, "status": "False", "reason": "Unschedulable", "message": "no room", "observedGeneration": 2,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    json!({"conditions": [other, own]})
}

fn expected(api: GroupApi, tables: &mut Tables) -> PodGroup {
    PodGroup {
        key: supercargo_core::model::group::GroupKey {
            namespace: tables.symbol("ns"),
            name: tables.symbol("g"),
        },
        api,
        uid: "u".into(),
        generation: 3,
        policy: GroupPolicy::Gang(4),
        topology: Some([tables.symbol("rack")].into()),
        disruption: DisruptionMode::All,
        priority: 7,
        options: Ok(GroupOptions { replacements: Replacements::Together, ..GroupOptions::default() }),
        scheduled: Some(GroupCondition {
            is_true: false,
            reason: "Unschedulable".into(),
            message: "no room".into(),
            observed_generation: 2,
        }),
    }
}

#[test]
fn groups_of_both_api_versions_become_the_same_group() {
    let mut tables = Tables::new();
    let metadata = json!({"name": "g", "namespace": "ns", "uid": "u", "generation": 3,
        "annotations": {"supercargo.dev/replacements": "together"}});
    let policy = json!({"gang": {"minCount": 4}});
    let constraints = json!({"topology": [{"key": "rack"}]});
    let old = json!({
        "metadata": metadata,
        "spec": {"schedulingPolicy": policy, "schedulingConstraints": constraints, "disruptionMode": "PodGroup",
            "priority": 7, "podGroupTemplateRef": {"workload": {"workloadName": "w"}}},
        "status": status("PodGroupScheduled"),
    });
    let new = json!({
        "metadata": metadata,
        "spec": {"schedulingPolicy": policy, "schedulingConstraints": constraints, "disruptionMode": {"all": {}},
            "priority": 7, "workloadRef": {"workloadName": "w"}},
        "status": status("PodGroupInitiallyScheduled"),
    });
    let old: PodGroupV1Alpha2 = serde_json::from_value(old).unwrap();
    let new: PodGroupV1Beta1 = serde_json::from_value(new).unwrap();
    assert_eq!(converted(&mut tables, &old), expected(GroupApi::V1Alpha2, &mut tables));
    assert_eq!(converted(&mut tables, &new), expected(GroupApi::V1Beta1, &mut tables));
}

#[test]
fn absent_and_empty_constraints_differ_and_the_default_is_a_basic_group() {
    let mut tables = Tables::new();
    let group = |tables: &mut Tables, spec: Value| {
        let object = json!({"metadata": {"name": "g", "namespace": "ns"}, "spec": spec});
        converted(tables, &serde_json::from_value::<PodGroupV1Alpha2>(object).unwrap())
    };
    let plain = group(&mut tables, json!({"schedulingPolicy": {"basic": {}}}));
    assert_eq!((plain.policy, plain.topology.as_deref()), (GroupPolicy::Basic, None));
    assert_eq!((plain.disruption, plain.priority), (DisruptionMode::Single, 0));
    let empty = group(&mut tables, json!({"schedulingConstraints": {}}));
    assert_eq!(empty.topology.as_deref(), Some(&[][..]));
}

#[test]
fn part_of_a_composite_group_is_refused_in_both_encodings() {
    let mut tables = Tables::new();
    let text = "spec.parentCompositePodGroupName of the pod group is \"train\", but composite groups are not scheduled; \
                create the pod group without it to schedule it alone";
    let metadata = json!({"name": "g", "namespace": "ns"});
    let object = json!({"metadata": metadata, "spec": {"parentCompositePodGroupName": "train"}});
    let from_json: PodGroupV1Beta1 = serde_json::from_value(object).unwrap();
    let metadata = field(1, &[field(1, b"g"), field(3, b"ns")].concat());
    let from_proto = PodGroupV1Beta1::from_protobuf(&[metadata, field(2, &field(1, b"train"))].concat());
    for object in [from_json, from_proto] {
        assert_eq!(converted(&mut tables, &object).options, Err(text.into()));
    }
    let alone =
        json!({"metadata": {"name": "g", "namespace": "ns"}, "spec": {"parentCompositePodGroupName": null}});
    let alone: PodGroupV1Beta1 = serde_json::from_value(alone).unwrap();
    assert_eq!(converted(&mut tables, &alone).options, Ok(GroupOptions::default()));
}

/// Encodes a field with bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("a short field");
    let mut tag = vec![number << 3 | 2];
    if number > 15 {
        tag = vec![(number & 15) << 3 | 2 | 128, number >> 4];
    }
    [&tag[..], &[length], content].concat()
}

/// Encodes a field with a small number.
fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

/// Encodes a group, whose fields have other numbers in each version: policy, constraints, mode with its content,
/// priority.
fn encoded(numbers: [u8; 4], mode: &[u8], condition: &str) -> Vec<u8> {
    let [policy, constraints, disruption, priority] = numbers;
    let annotation = [field(1, b"supercargo.dev/replacements"), field(2, b"together")].concat();
    let metadata = [field(1, b"g"), field(3, b"ns"), field(5, b"u"), number(7, 3), field(12, &annotation)];
    let metadata = metadata.concat();
    let spec = [
        field(policy, &field(2, &number(1, 4))),
        field(constraints, &field(1, &field(1, b"rack"))),
        field(disruption, mode),
        number(priority, 7),
    ];
    let condition = [
        field(1, condition.as_bytes()),
        field(2, b"False"),
        number(3, 2),
        field(5, b"Unschedulable"),
        field(6, b"no room"),
    ];
    [field(1, &metadata), field(2, &spec.concat()), field(3, &field(1, &condition.concat()))].concat()
}

#[test]
fn protobuf_of_each_version_is_decoded_by_its_own_field_numbers() {
    let mut tables = Tables::new();
    let old = encoded([2, 3, 5, 7], b"PodGroup", "PodGroupScheduled");
    let new = encoded([3, 4, 6, 8], &field(2, b""), "PodGroupInitiallyScheduled");
    let old = PodGroupV1Alpha2::from_protobuf(&old);
    let new = PodGroupV1Beta1::from_protobuf(&new);
    assert_eq!(converted(&mut tables, &old), expected(GroupApi::V1Alpha2, &mut tables));
    assert_eq!(converted(&mut tables, &new), expected(GroupApi::V1Beta1, &mut tables));
}

#[test]
fn pod_names_its_group_only_if_groups_are_enabled() {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": "1970-01-01T00:00:07Z"},
        "spec": {"schedulingGroup": {"podGroupName": "g"}},
    });
    let mut tables = Tables::new();
    assert_eq!(convert(&mut tables, &pod).unwrap().group, None);
    tables.set_group_gates(GroupGates { workloads: true, ..GroupGates::OFF });
    let converted = convert(&mut tables, &pod).unwrap();
    let membership = converted.group.as_ref().expect("it names a group");
    assert_eq!((membership.group, membership.created), (tables.symbol("g"), Time::from_secs(7)));
    assert_eq!(converted.group_key().map(|key| key.namespace), Some(tables.symbol("ns")));

    // In protobuf, PodSpec has the group as field 43.
    let metadata = [field(1, b"p"), field(3, b"ns"), field(5, b"u")].concat();
    let spec = field(43, &field(1, b"g"));
    let pod = Pod::from_protobuf(&[field(1, &metadata), field(2, &spec)].concat());
    let converted = crate::convert::pod(&mut tables, &pod).unwrap();
    assert_eq!(converted.group.map(|membership| membership.group), Some(tables.symbol("g")));
}
