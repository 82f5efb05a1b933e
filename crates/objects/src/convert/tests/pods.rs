//! Tests of pods (without their requests), nodes, lookups and events.

use super::*;
use crate::api::{Node, ReplicaSet, ReplicationController, Service};
use crate::convert::{Watched, lookups};
use serde::de::DeserializeOwned;
use serde_json::json;
use supercargo_core::model::event::{Event, ObjectKey};
use supercargo_core::model::intern::known;
use supercargo_core::model::node::TaintEffect;
use supercargo_core::model::pod::{ControllerKind, TolerationOperator, WhenUnsatisfiable};
use supercargo_core::model::selector::{Operator, Selector};
use supercargo_core::model::time::Time;

fn decode<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[test]
fn empty_pod_converts_to_defaults() {
    let mut tables = Tables::new();
    let pod = convert(&mut tables, &json!({})).unwrap();
    assert_eq!(
        (&*pod.uid, &*pod.name, pod.namespace, pod.scheduler_name),
        ("/", "", known::EMPTY, known::EMPTY)
    );
    assert_eq!((pod.priority, pod.generation, pod.deleting, pod.image_sources), (0, 0, false, 0));
    assert!(pod.node_name.is_none() && pod.nominated_node.is_none() && pod.owner.is_none());
    assert!(
        pod.node_affinity.is_absent() && pod.preferred_node_affinity.is_none() && pod.pod_affinity.is_none()
    );
    assert!(pod.scheduled.is_none() && pod.claims.is_empty());
}

#[test]
fn metadata_and_status_are_converted() {
    let mut tables = Tables::new();
    let pod = convert(
        &mut tables,
        &json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u-1", "resourceVersion": "42", "generation": 3,
                         "deletionTimestamp": "2026-01-02T03:04:05Z", "labels": {"a": "b"}},
            "spec": {"nodeName": "n", "schedulerName": "s", "priority": -5, "schedulingGates": [{"name": "g2"}, {"name": "g1"}]},
            "status": {"nominatedNodeName": "m", "conditions": [{"type": "Ready"}, {"type": "PodScheduled", "status": "False",
                       "reason": "Unschedulable", "message": "0/1", "lastTransitionTime": "2026-01-02T03:04:05Z"}]},
        }),
    )
    .unwrap();
    assert_eq!(
        (&*pod.uid, pod.resource_version.clone(), pod.generation, pod.deleting),
        ("u-1", "42".into(), 3, true)
    );
    assert_eq!((pod.node_name, pod.nominated_node), (tables.find("n"), tables.find("m")));
    assert_eq!((pod.priority, tables.text(pod.scheduler_name)), (-5, "s"));
    assert_eq!(pod.gates.iter().map(|&g| tables.text(g)).collect::<Vec<_>>(), ["g2", "g1"]);
    let scheduled = pod.scheduled.unwrap();
    assert_eq!(
        (&*scheduled.status, &*scheduled.reason, &*scheduled.message),
        ("False", "Unschedulable", "0/1")
    );
    assert_eq!(&*scheduled.last_transition_time, "2026-01-02T03:04:05Z");
}

#[test]
fn preemption_fields_are_converted() {
    let mut tables = Tables::new();
    let mut read = |spec: Value, status: Value| {
        let pod = convert(&mut tables, &json!({"spec": spec, "status": status})).unwrap();
        (pod.never_preempts, pod.start_time.map(Time::as_nanos), pod.preempted)
    };
    assert_eq!(read(json!({"preemptionPolicy": "Never"}), json!({})), (true, None, false));
    let started = json!({"startTime": "1970-01-01T00:00:07Z"});
    assert_eq!(
        read(json!({"preemptionPolicy": "PreemptLowerPriority"}), started),
        (false, Some(7_000_000_000), false)
    );
    assert_eq!(read(json!({}), json!({"startTime": "1969-12-31T23:59:59Z"})).1, Some(0));
    let marked =
        |status: &str, reason: &str| json!({"type": "DisruptionTarget", "status": status, "reason": reason});
    let ours = marked("True", "PreemptionByScheduler");
    let mut preempted = |conditions: Value| read(json!({}), json!({"conditions": conditions})).2;
    assert!(preempted(json!([{"type": "Ready"}, ours])));
    assert!(!preempted(json!([marked("False", "PreemptionByScheduler")])));
    assert!(
        !preempted(json!([marked("True", "EvictionByEvictionAPI"), ours])),
        "the first such condition counts"
    );
}

#[test]
fn owner_must_be_controller_of_exact_version_and_kind() {
    let mut tables = Tables::new();
    let mut owner = |version: &str, kind: &str, controller: Value| {
        let owner =
            json!({"apiVersion": version, "kind": kind, "name": "o", "uid": "1", "controller": controller});
        let pod = convert(&mut tables, &json!({"metadata": {"ownerReferences": [owner]}})).unwrap();
        pod.owner.map(|owner| owner.kind)
    };
    assert_eq!(owner("apps/v1", "ReplicaSet", json!(true)), Some(ControllerKind::ReplicaSet));
    assert_eq!(owner("apps/v1", "StatefulSet", json!(true)), Some(ControllerKind::StatefulSet));
    assert_eq!(
        owner("v1", "ReplicationController", json!(true)),
        Some(ControllerKind::ReplicationController)
    );
    assert_eq!(owner("apps/v1beta1", "ReplicaSet", json!(true)), None);
    assert_eq!(owner("apps/v1", "DaemonSet", json!(true)), None);
    assert_eq!(owner("apps/v1", "ReplicaSet", json!(false)), None);
    assert_eq!(owner("apps/v1", "ReplicaSet", json!(null)), None);
}

#[test]
fn host_ports_come_from_long_running_containers() {
    let mut tables = Tables::new();
    let port = |port: i32| json!([{"containerPort": 1, "hostPort": port}]);
    let pod = with_spec(
        &mut tables,
        &json!({
            "initContainers": [{"ports": port(1)}, {"restartPolicy": "Always", "ports": port(2)}],
            "containers": [{"ports": [{"hostPort": 3, "protocol": "UDP", "hostIP": "::"}, {"hostPort": 0}, {"containerPort": 4}]}],
        }),
    );
    let ports: Vec<_> =
        pod.ports.iter().map(|p| (p.port, tables.text(p.protocol), tables.text(p.address))).collect();
    assert_eq!(ports, [(2, "TCP", "0.0.0.0"), (3, "UDP", "::")]);
}

#[test]
fn untagged_images_get_latest_and_image_volumes_count() {
    let mut tables = Tables::new();
    let pod = with_spec(
        &mut tables,
        &json!({
            "containers": [{"image": "nginx"}, {"image": "host:5000/nginx"}, {"image": "a@sha256:0"}, {"image": ""}],
            "initContainers": [{"image": "nginx:1"}],
            "volumes": [{"name": "v", "image": {"reference": "img"}}, {"name": "e", "emptyDir": {}}],
        }),
    );
    let images: Vec<_> = pod.images.iter().map(|&image| tables.text(image)).collect();
    let expected =
        ["nginx:1", "nginx:latest", "host:5000/nginx:latest", "a@sha256:0", ":latest", "img:latest"];
    assert_eq!(images, expected);
    assert_eq!(pod.image_sources, 5);
}

#[test]
fn tolerations_and_taints_keep_unknown_values() {
    let mut tables = Tables::new();
    let pod = with_spec(
        &mut tables,
        &json!({"tolerations": [{}, {"key": "k", "operator": "Exists", "effect": "NoExecute"}, {"operator": "Gt", "effect": "Odd"}]}),
    );
    let odd = TaintEffect::Other(tables.find("Odd").unwrap());
    let seen: Vec<_> = pod.tolerations.iter().map(|t| (t.key.is_some(), t.operator, t.effect)).collect();
    assert_eq!(
        seen,
        [
            (false, TolerationOperator::Equal, None),
            (true, TolerationOperator::Exists, Some(TaintEffect::NoExecute)),
            (false, TolerationOperator::Never, Some(odd)),
        ]
    );
    let node: Node =
        decode(json!({"metadata": {"name": "n", "labels": {"l": "v"}}, "spec": {"unschedulable": true,
        "taints": [{"key": "k", "effect": "NoSchedule"}, {"key": "j", "value": "v", "effect": "Odd"}]},
        "status": {"images": [{"names": ["a:1", "a@sha256:0"], "sizeBytes": 7}, {"names": null}]}}));
    let node = super::super::node(&mut tables, &node).unwrap();
    let taints = tables.taints(node.taints);
    assert_eq!(
        (taints[0].effect, taints[1].effect, taints[0].value),
        (TaintEffect::NoSchedule, odd, known::EMPTY)
    );
    assert!(node.unschedulable);
    let images: Vec<_> = node.images.iter().map(|&(name, size)| (tables.text(name), size)).collect();
    assert_eq!(images, [("a:1", 7), ("a@sha256:0", 7)]);
}

#[test]
fn match_label_keys_add_the_pods_labels_to_spread_selectors() {
    let mut tables = Tables::new();
    let constraint = |more: Value| {
        let mut constraint = json!({"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                                    "matchLabelKeys": ["rev", "absent"]});
        constraint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        constraint
    };
    let pod = convert(
        &mut tables,
        &json!({"metadata": {"labels": {"rev": "7"}}, "spec": {"topologySpreadConstraints": [
            constraint(json!({"labelSelector": {}})),
            constraint(json!({"whenUnsatisfiable": "ScheduleAnyway", "minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"})),
            constraint(json!({"whenUnsatisfiable": "Odd", "nodeAffinityPolicy": "Odd", "nodeTaintsPolicy": "Odd",
                              "labelSelector": {"matchLabels": {"-": ""}}})),
        ]}}),
    )
    .unwrap();
    let [first, second, third] = &pod.spread[..] else { panic!("three constraints") };
    let Ok(Selector::All(requirements)) = &first.selector else { panic!("{:?}", first.selector) };
    let rev = tables.find("rev").unwrap();
    assert_eq!((requirements.len(), requirements[0].key), (1, rev));
    assert_eq!(requirements[0].operator, Operator::In([tables.find("7").unwrap()].into()));
    assert_eq!(
        (first.max_skew, first.min_domains, first.when_unsatisfiable),
        (2, 1, WhenUnsatisfiable::DoNotSchedule)
    );
    assert_eq!((first.honor_node_affinity, first.honor_node_taints), (true, false));
    assert_eq!(second.selector, Ok(Selector::Nothing));
    assert_eq!((second.min_domains, second.when_unsatisfiable), (3, WhenUnsatisfiable::ScheduleAnyway));
    assert_eq!((second.honor_node_affinity, second.honor_node_taints), (false, true));
    assert_eq!(third.when_unsatisfiable, WhenUnsatisfiable::Unknown);
    assert_eq!((third.honor_node_affinity, third.honor_node_taints), (false, false));
    assert!(
        third
            .selector
            .as_ref()
            .unwrap_err()
            .starts_with("key: Invalid value: \"-\": name part must consist of")
    );
}

#[test]
fn affinity_terms_without_namespaces_use_the_pods_own() {
    let mut tables = Tables::new();
    let terms = json!([{}, {"namespaces": ["b", "a", "b"]}, {"namespaceSelector": {}}]);
    let pod = with_spec(
        &mut tables,
        &json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}),
    );
    let terms = pod.pod_affinity.clone().unwrap().required_affinity.unwrap();
    let namespaces = |at: usize| {
        let mut names: Vec<_> = terms[at].namespaces.iter().map(|&name| tables.text(name)).collect();
        names.sort_unstable();
        names
    };
    assert_eq!((namespaces(0), namespaces(1), namespaces(2)), (vec!["ns"], vec!["a", "b"], vec![]));
    assert_eq!((&terms[0].namespace_selector, &terms[0].selector), (&Selector::Nothing, &Selector::Nothing));
    assert!(terms[2].namespace_selector.is_empty());
}

#[test]
fn absent_and_empty_differ_as_upstream() {
    let mut tables = Tables::new();
    let preferred = |list: Value| json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list}}});
    assert!(with_spec(&mut tables, &preferred(json!(null))).preferred_node_affinity.is_none());
    assert!(with_spec(&mut tables, &preferred(json!([]))).preferred_node_affinity.is_some());
    assert!(with_spec(&mut tables, &json!({"nodeSelector": {}})).node_affinity.node_selector.is_some());
    assert!(with_spec(&mut tables, &json!({"affinity": {"podAffinity": {}}})).pod_affinity.is_some());
    assert!(with_spec(&mut tables, &json!({"affinity": {}})).pod_affinity.is_none());
    let service = |spec: Value| decode::<Service>(json!({ "spec": spec }));
    assert!(lookups::service(&mut tables, &service(json!({}))).unwrap().selector.is_none());
    assert!(lookups::service(&mut tables, &service(json!({"selector": {}}))).unwrap().selector.is_some());
}

#[test]
fn absent_or_invalid_controller_selector_requires_nothing() {
    let mut tables = Tables::new();
    let mut demands = |selector: Value| {
        let set: ReplicaSet = decode(json!({"spec": {"selector": selector}}));
        lookups::replica_set(&mut tables, &set).unwrap().len()
    };
    assert_eq!(demands(json!(null)), 0);
    assert_eq!(
        demands(json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]})),
        2
    );
    assert_eq!(
        demands(json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Odd"}]})),
        0
    );
    let controller: ReplicationController = decode(json!({"spec": {"selector": {"not valid": "not valid"}}}));
    assert_eq!(lookups::replication_controller(&mut tables, &controller).unwrap().len(), 1);
}

#[test]
fn terminal_pod_is_gone_and_malformed_pod_keeps_its_key() {
    let mut tables = Tables::new();
    let ended: Pod = decode(json!({"metadata": {"uid": "u"}, "status": {"phase": "Failed"}}));
    assert!(matches!(ended.applied(&mut tables).unwrap(), Event::Gone(ObjectKey::Pod(uid)) if &*uid == "u"));
    let malformed: Pod = decode(json!({"metadata": {"uid": "u"}, "spec": 5}));
    assert!(malformed.applied(&mut tables).is_err());
    assert_eq!(malformed.key(&mut tables), ObjectKey::Pod("u".into()));
}

#[test]
fn kubelet_features_used_by_a_spec_are_required() {
    let mut tables = Tables::new();
    let mut required = |spec: &Value| {
        let pod = with_spec(&mut tables, spec);
        pod.required_features.iter().map(|&name| tables.text(name).to_owned()).collect::<Vec<_>>()
    };
    let rules = |action: &str| json!([{"restartPolicyRules": [{"action": "Restart"}, {"action": action}]}]);
    assert_eq!(
        required(&json!({"hostNetwork": true, "hostUsers": false})),
        ["UserNamespacesHostNetworkSupport"]
    );
    assert!(required(&json!({"hostNetwork": true, "hostUsers": true})).is_empty());
    assert!(required(&json!({"hostNetwork": true})).is_empty());
    assert!(required(&json!({"hostUsers": false})).is_empty());
    for place in ["containers", "initContainers"] {
        let spec = json!({ place: rules("RestartAllContainers") });
        assert_eq!(required(&spec), ["RestartAllContainersOnContainerExits"], "{place}");
        assert!(required(&json!({ place: rules("Restart") })).is_empty());
    }
}

#[test]
fn pod_rejected_by_kubelet_has_reason_and_evicted_pod_is_gone() {
    let mut tables = Tables::new();
    let mut event = |reason: &str, message: &str| {
        let status = json!({"phase": "Failed", "reason": reason, "message": message});
        let pod: crate::api::Pod =
            decode(json!({"metadata": {"name": "p", "uid": "u"}, "spec": {}, "status": status}));
        (pod.applied(&mut tables).unwrap(), pod.gone(&mut tables))
    };
    // `pkg/kubelet/kubelet.go#rejectPod` writes the prefix `Pod was rejected: `.
    let (applied, gone) =
        event("OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 1");
    for event in [applied, gone] {
        assert!(
            matches!(&event, Event::NotAdmitted { uid, reason } if &**uid == "u" && &**reason == "OutOfcpu"),
            "{event:?}"
        );
    }
    let (applied, gone) = event("Evicted", "The node was low on resource: memory.");
    assert!(matches!(applied, Event::Gone(_)) && matches!(gone, Event::Gone(_)));
}

#[test]
fn extended_resources_of_containers_are_listed_once() {
    let mut tables = Tables::new();
    let pod = json!({"spec": {
        "initContainers": [{"resources": {"limits": {"example.com/b": 1, "memory": 1}}}],
        "containers": [
            {"resources": {"requests": {"cpu": 1, "example.com/a": 0}, "limits": {"example.com/a": null}}},
            {"resources": {"requests": {"example.com/b": "1"}}},
        ],
        "overhead": {"example.com/c": 1},
    }});
    let names = convert(&mut tables, &pod).unwrap().extended_resources.clone();
    let names: Vec<&str> = names.iter().map(|&name| tables.text(name)).collect();
    assert_eq!(names, ["example.com/b", "example.com/a"]);
}
