//! Tests of claims, slices, classes, and what pods say about them.

use super::*;
use crate::api::{DeviceClass, ResourceClaim, ResourceSlice};
use crate::convert::{allocation_json, devices};
use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::io::Read as _;
use supercargo_core::model::device::{
    AllocationMode, Attribute, ConstraintKind, PodClaimSource, Reach, RequestKind,
};
use supercargo_core::model::node::NodeInfo;

fn decode<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("any JSON is read")
}

/// Claims in the recorded objects that have devices.
fn allocated_claims() -> Vec<Value> {
    let packed = include_bytes!("../../../../../tests/fixtures/protobuf.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    let lines = text.lines().filter(|line| line.contains("ResourceClaim") && line.contains("allocation"));
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let written = lines.filter(|line| line["written"] != "random").map(|mut line| line["served"].take());
    written.filter(|claim| claim["status"]["allocation"].is_object()).collect()
}

#[test]
fn allocations_are_written_as_the_api_server_serves_them() {
    let mut tables = Tables::new();
    let claims = allocated_claims();
    for claim in &claims {
        let read = devices::resource_claim(&mut tables, &decode(claim)).unwrap();
        let mut expected = claim["status"]["allocation"].clone();
        if expected["allocationTimestamp"] == "2999-01-01T00:00:00Z" {
            expected["allocationTimestamp"] = "2554-07-21T23:34:33Z".into();
        }
        assert_eq!(allocation_json(&read.allocation.unwrap()), expected, "{claim}");
    }
    assert!(claims.len() > 50, "{}", claims.len());
}

#[test]
fn all_fields_of_an_allocation_are_written() {
    let allocation = json!({
        "allocationTimestamp": "2026-11-22T13:30:21Z",
        "devices": {
            "results": [{
                "request": "r/s", "driver": "d", "pool": "p", "device": "x", "adminAccess": true, "shareID": "id",
                "consumedCapacity": {"bandwidth": "1953125Ki"}, "bindingConditions": ["a"], "bindingFailureConditions": ["f"],
                "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 5}],
            }],
            "config": [
                {"source": "FromClass", "requests": ["r"], "opaque": {"driver": "d", "parameters": {"a": [1, null]}}},
                {"source": "FromClaim", "opaque": {"driver": "d", "parameters": null}},
            ],
        },
        "nodeSelector": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "k", "operator": "Exists"}], "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
        ]},
    });
    let claim = json!({"metadata": {"name": "c"}, "status": {"allocation": allocation}});
    let read = devices::resource_claim(&mut Tables::new(), &decode(&claim)).unwrap();
    assert_eq!(allocation_json(&read.allocation.unwrap()), allocation);
    assert_eq!(allocation_json(&Default::default()), json!({"devices": {}}));
}

#[test]
fn claim_keeps_what_decisions_read_of_it() {
    let mut tables = Tables::new();
    let claim: ResourceClaim = decode(&json!({
        "metadata": {
            "namespace": "ns", "name": "c", "uid": "u", "resourceVersion": "7", "deletionTimestamp": "2026-01-02T03:04:05Z",
            "finalizers": ["other", "resource.kubernetes.io/delete-protection"],
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-p", "controller": true}],
        },
        "spec": {"devices": {
            "requests": [
                {"name": "a", "exactly": {
                    "deviceClassName": "gpu", "allocationMode": "All", "adminAccess": true, "selectors": [{"cel": {"expression": "true"}}, {}],
                    "capacity": {"requests": {"memory": "1024Mi"}},
                }},
                {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}]},
                {"name": "c"},
                {"name": "d", "exactly": {"count": 3}},
            ],
            "constraints": [{"matchAttribute": "m"}, {"requests": ["a"], "distinctAttribute": "d"}, {}],
            "config": [{"requests": ["a"], "opaque": {"driver": "d", "parameters": {"x": 1}}}],
        }},
        "status": {
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u-p"}, {"uid": "u-q"}],
            "devices": [{"driver": "d", "pool": "p", "device": "x", "conditions": [{"type": "t", "status": "True", "reason": "r", "message": "m"}]}],
        },
    }));
    let info = devices::resource_claim(&mut tables, &claim).unwrap();
    assert!(
        info.deleting && info.is_protected && info.is_for_extended_resources && info.allocation.is_none()
    );
    assert_eq!(info.controller, Some(("p".into(), "u-p".into())));
    assert_eq!((&*info.uid, &*info.resource_version), ("u", "7"));
    assert_eq!(*info.reserved_for, ["u-p".into(), "u-q".into()]);
    let condition = &info.devices[0].conditions[0];
    assert!(condition.is_true && *condition.kind == *"t" && *condition.message == *"m");
    let RequestKind::Exactly(exact) = &info.spec.requests[0].kind else { panic!("{info:?}") };
    assert_eq!((&exact.mode, exact.admin_access), (&AllocationMode::All, true));
    assert_eq!(exact.selectors.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    assert_eq!(exact.capacity[0].1.to_string(), "1Gi");
    let RequestKind::FirstAvailable(alternatives) = &info.spec.requests[1].kind else { panic!("{info:?}") };
    assert_eq!((&*alternatives[0].name, &alternatives[0].mode), ("x", &AllocationMode::ExactCount(2)));
    assert_eq!(info.spec.requests[2].kind, RequestKind::Unknown);
    let RequestKind::Exactly(exact) = &info.spec.requests[3].kind else { panic!("{info:?}") };
    assert_eq!(exact.mode, AllocationMode::Unknown("".into()), "the API server sets the default");
    let kinds: Vec<_> = info.spec.constraints.iter().map(|constraint| constraint.kind.clone()).collect();
    let expected =
        [ConstraintKind::Match("m".into()), ConstraintKind::Distinct("d".into()), ConstraintKind::Unknown];
    assert_eq!(kinds, expected);
    assert_eq!(&*info.spec.config[0].parameters, r#"{"opaque":{"driver":"d","parameters":{"x":1}}}"#);
}

#[test]
fn slice_keeps_order_and_kinds_of_its_devices() {
    let mut tables = Tables::new();
    let slice: ResourceSlice = decode(&json!({
        "metadata": {"name": "s"},
        "spec": {
            "driver": "d", "pool": {"name": "p", "generation": 3, "resourceSliceCount": 2}, "perDeviceNodeSelection": true,
            "devices": [
                {"name": "z", "nodeName": "n", "bindsToNode": true, "bindingConditions": [], "allowMultipleAllocations": true,
                 "taints": [{"key": "k", "effect": "NoSchedule"}],
                 "attributes": {"t": {"string": "x"}, "i": {"int": -1}, "b": {"bool": false}, "v": {"version": "1.0.0"}, "l": {"ints": [1]}},
                 "capacity": {"m": {"value": "2", "requestPolicy": {"default": "1", "validValues": ["1", "2"], "validRange": {"min": "1"}}}}},
                {"name": "a", "allNodes": true, "consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "1Gi"}}}]},
                {"name": "m"},
            ],
        },
    }));
    let info = devices::resource_slice(&mut tables, &slice).unwrap();
    assert_eq!((&*info.pool.driver, &*info.pool.name, info.generation, info.slices), ("d", "p", 3, 2));
    assert_eq!(info.reach, Reach::PerDevice);
    let names: Vec<_> = info.devices.iter().map(|device| &*device.name).collect();
    assert_eq!(names, ["z", "a", "m"]);
    let reaches: Vec<_> = info.devices.iter().map(|device| device.reach.clone()).collect();
    assert_eq!(reaches, [Reach::Node(tables.symbol("n")), Reach::AllNodes, Reach::Nothing]);
    let device = &info.devices[0];
    assert!(device.binds_to_node && device.is_shareable && device.taints[0].repels());
    assert_eq!(
        (device.binding_conditions.as_deref(), info.devices[1].binding_conditions.as_deref()),
        (Some(&[][..]), None)
    );
    let attributes: Vec<_> = device.attributes.iter().map(|(name, value)| (&**name, value.clone())).collect();
    let expected = [
        ("b", Attribute::Bool(false)),
        ("i", Attribute::Int(-1)),
        ("l", Attribute::Other),
        ("t", Attribute::Text("x".into())),
        ("v", Attribute::Version("1.0.0".into())),
    ];
    assert_eq!(attributes, expected);
    let policy = device.capacity[0].1.policy.as_ref().unwrap();
    assert_eq!(policy.values.as_ref().unwrap().len(), 2);
    assert_eq!(policy.range.as_ref().unwrap().min.as_ref().unwrap().to_string(), "1");
    assert_eq!(info.devices[1].consumes[0].counters[0].1.to_string(), "1Gi");
    let malformed = json!({"metadata": {"name": "s"}, "spec": {"devices": [{"name": "x", "capacity": {"m": {"value": "much"}}}]}});
    let error = devices::resource_slice(&mut tables, &decode(&malformed)).unwrap_err().to_string();
    assert!(error.starts_with("ResourceSlice s is malformed: spec.devices \"x\": capacity: "), "{error}");
}

#[test]
fn node_selector_error_of_a_slice_names_the_selector_and_all_errors() {
    let mut tables = Tables::new();
    let requirement = |operator: &str| json!({"key": "k", "operator": operator, "values": ["v", "w"]});
    let terms =
        json!([{}, {"matchExpressions": [requirement("In")]}, {"matchExpressions": [requirement("Within")]}]);
    let slice = json!({"metadata": {"name": "s"}, "spec": {"nodeSelector": {"nodeSelectorTerms": terms}}});
    let info = devices::resource_slice(&mut tables, &decode(&slice)).unwrap();
    let node = NodeInfo::clone(
        &crate::convert::node(&mut tables, &decode(&json!({"metadata": {"name": "n"}}))).unwrap(),
    );
    let labels = tables.labels(node.labels);
    let error = info.reach.matches(&tables, node.name, labels).unwrap_err();
    let expected = "failed to parse node selector &NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{\
        NodeSelectorTerm{MatchExpressions:[]NodeSelectorRequirement{},MatchFields:[]NodeSelectorRequirement{},},\
        NodeSelectorTerm{MatchExpressions:[]NodeSelectorRequirement{NodeSelectorRequirement{Key:k,Operator:In,Values:[v w],},},\
        MatchFields:[]NodeSelectorRequirement{},},\
        NodeSelectorTerm{MatchExpressions:[]NodeSelectorRequirement{NodeSelectorRequirement{Key:k,Operator:Within,Values:[v w],},},\
        MatchFields:[]NodeSelectorRequirement{},},},}: \
        nodeSelectorTerms[2].matchExpressions[0].operator: Unsupported value: \"Within\": \
        supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\", \"Gt\", \"Lt\"";
    assert_eq!(&*error, expected);
}

#[test]
fn class_serves_two_resources_and_has_an_age() {
    let mut tables = Tables::new();
    let class: DeviceClass = decode(&json!({
        "metadata": {"name": "gpu", "creationTimestamp": "1970-01-01T00:00:07Z"},
        "spec": {"extendedResourceName": "example.com/gpu", "selectors": [{"cel": {"expression": "a == b"}}], "config": [{"opaque": {"driver": "d \"x\""}}]},
    }));
    let info = devices::device_class(&mut tables, &class).unwrap();
    assert_eq!(tables.text(info.implicit), "deviceclass.resource.kubernetes.io/gpu");
    assert_eq!(info.explicit, Some(tables.symbol("example.com/gpu")));
    assert_eq!(info.created.map(|at| at.as_nanos()), Some(7_000_000_000));
    assert_eq!(info.selectors[0].as_ref().unwrap().0.text(), "a == b");
    assert_eq!(&*info.config[0], r#"{"opaque":{"driver":"d \"x\"","parameters":null}}"#);
}

#[test]
fn claims_of_a_pod_follow_its_status() {
    let mut tables = Tables::new();
    let pod = json!({
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"resourceClaims": [
            {"name": "own", "resourceClaimName": "c"},
            {"name": "made", "resourceClaimTemplateName": "t"},
            {"name": "unneeded", "resourceClaimTemplateName": "t"},
            {"name": "missing", "resourceClaimTemplateName": "t"},
            {"name": "strange"},
        ]},
        "status": {"resourceClaimStatuses": [
            {"name": "made", "resourceClaimName": "p-made"}, {"name": "made", "resourceClaimName": "other"}, {"name": "unneeded"},
        ]},
    });
    let pod = convert(&mut tables, &pod).unwrap();
    let sources: Vec<_> = pod.claims.iter().map(|claim| claim.source.clone()).collect();
    let expected = [
        PodClaimSource::Named(tables.symbol("c")),
        PodClaimSource::Generated(tables.symbol("p-made")),
        PodClaimSource::NotNeeded,
        PodClaimSource::NotCreated,
        PodClaimSource::Unknown,
    ];
    assert_eq!(sources, expected);
}

#[test]
fn container_requests_are_positions_among_all_names() {
    let mut tables = Tables::new();
    let requests = |list: Value| json!({"name": "c", "resources": {"requests": list}});
    let mut sidecar = requests(json!({"example.com/gpu": "1"}));
    sidecar["restartPolicy"] = json!("Always");
    let spec = json!({
        "initContainers": [requests(json!({"example.com/gpu": "2"})), sidecar],
        "containers": [
            requests(json!({"cpu": "1", "memory": "1", "example.com/b": "3", "deviceclass.resource.kubernetes.io/gpu": 4})),
            requests(json!({"example.com/half": "1500m", "example.com/none": "0", "hugepages-2Mi": "2Mi", "kubernetes.io/x": "1", "example.com/k": "1k"})),
        ],
    });
    let pod = with_spec(&mut tables, &spec);
    let all = pod.container_requests.iter();
    let shown: Vec<_> = all
        .map(|it| (it.container, it.is_short_lived, it.position, tables.text(it.resource), it.count))
        .collect();
    let expected = [
        (0, true, 0, "example.com/gpu", 2),
        (1, false, 0, "example.com/gpu", 1),
        (2, false, 1, "deviceclass.resource.kubernetes.io/gpu", 4),
        (2, false, 2, "example.com/b", 3),
        (3, false, 1, "example.com/k", 1000),
    ];
    assert_eq!(shown, expected);
    assert_eq!(pod.container_requests[0].name, "c".into());
}
