//! Tests of pod requests and node allocatable.

use super::*;
use crate::api::Node;
use serde_json::json;
use supercargo_core::model::resources::{PodResources, Resources};

fn asked(pod: &Value) -> PodResources {
    convert(&mut Tables::new(), pod).unwrap().resources.clone()
}

fn asked_by_spec(spec: &Value) -> PodResources {
    asked(&json!({ "spec": spec }))
}

fn container(requests: &Value) -> Value {
    json!({"name": "c", "resources": {"requests": requests}})
}

fn cpu_and_memory(resources: &Resources) -> (i64, i64) {
    (resources.cpu_milli, resources.memory)
}

const MI: i64 = 1024 * 1024;

#[test]
fn requests_are_rounded_up_once_per_pod() {
    let half = container(&json!({"cpu": "0.5m", "memory": "0.5"}));
    assert_eq!(cpu_and_memory(&asked_by_spec(&json!({"containers": [half, half]})).request), (1, 1));
    assert_eq!(cpu_and_memory(&asked_by_spec(&json!({"containers": [half, half, half]})).request), (2, 2));
}

#[test]
fn sidecars_add_to_later_init_containers_and_main_sum() {
    let sidecar = json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}});
    let spec = json!({
        "initContainers": [container(&json!({"cpu": "500m"})), sidecar, container(&json!({"cpu": "400m"}))],
        "containers": [container(&json!({"cpu": "300m"}))],
    });
    assert_eq!(asked_by_spec(&spec).request.cpu_milli, 600);
}

#[test]
fn overhead_is_added_and_limits_are_ignored() {
    let spec = json!({
        "containers": [{"resources": {"requests": {"cpu": 1}, "limits": {"cpu": 8, "memory": "8Gi"}}}],
        "overhead": {"cpu": "250m", "memory": "64Mi"},
    });
    let asked = asked_by_spec(&spec);
    assert_eq!(cpu_and_memory(&asked.request), (1250, 64 * MI));
    assert_eq!(asked.placed, asked.request);
    // Scoring adds the default memory request, because the container has none.
    assert_eq!((asked.non_zero_cpu_milli, asked.non_zero_memory), (1250, 264 * MI));
    assert_eq!(cpu_and_memory(&asked.score), (1250, 264 * MI));
}

#[test]
fn defaults_apply_per_container_but_not_to_explicit_zero() {
    let asked =
        asked_by_spec(&json!({"containers": [container(&json!({"cpu": "0"})), container(&json!({}))]}));
    assert_eq!(cpu_and_memory(&asked.request), (0, 0));
    assert_eq!((asked.non_zero_cpu_milli, asked.non_zero_memory), (100, 400 * MI));
    let init = asked_by_spec(&json!({"initContainers": [{}], "containers": [{}]}));
    assert_eq!((init.non_zero_cpu_milli, init.non_zero_memory), (100, 200 * MI));
}

#[test]
fn pod_level_requests_replace_sums_except_in_fit_scores() {
    let spec = json!({
        "resources": {"requests": {"cpu": "2", "example.com/x": 9}},
        "containers": [container(&json!({"cpu": "3", "example.com/x": 1})), {}],
    });
    let asked = asked_by_spec(&spec);
    assert_eq!(asked.request.cpu_milli, 2000);
    assert_eq!(asked.request.scalar.iter().map(|s| s.1).collect::<Vec<_>>(), [1]);
    assert_eq!(asked.score.cpu_milli, 3100);
    // CPU is set at pod level, so only memory gets defaults.
    assert_eq!((asked.non_zero_cpu_milli, asked.non_zero_memory), (2000, 400 * MI));
}

#[test]
fn pod_level_request_does_not_accumulate_overhead() {
    let pod =
        json!({"spec": {"resources": {"requests": {"memory": "1.5Gi"}}, "overhead": {"memory": "512Mi"}}});
    let pod: crate::api::Pod = serde_json::from_value(pod).unwrap();
    for _ in 0..3 {
        let resources = crate::convert::pod(&mut Tables::new(), &pod).unwrap().resources.clone();
        assert_eq!((resources.request.memory, resources.placed.memory), (2048 * MI, 2048 * MI));
        assert_eq!(resources.non_zero_memory, 2048 * MI);
    }
}

#[test]
fn unsupported_pod_level_resources_are_ignored() {
    let spec = json!({"resources": {"requests": {"ephemeral-storage": "9Gi"}}, "containers": [{}]});
    let asked = asked_by_spec(&spec);
    assert_eq!(asked.request, Resources::default());
    assert_eq!(asked.non_zero_cpu_milli, 100);
}

#[test]
fn resize_counts_largest_amount_on_node_but_not_for_pending_pod() {
    let pod = |condition: Value| {
        json!({
            "spec": {"containers": [container(&json!({"cpu": "3"}))]},
            "status": {"conditions": condition, "containerStatuses": [
                {"name": "c", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "2"}}]},
        })
    };
    let asked_while = |condition| asked(&pod(condition));
    let going = asked_while(json!(null));
    assert_eq!((going.request.cpu_milli, going.placed.cpu_milli), (3000, 3000));
    let refused = asked_while(json!([{"type": "PodResizePending", "reason": "Infeasible"}]));
    assert_eq!((refused.request.cpu_milli, refused.placed.cpu_milli), (3000, 2000));
    assert_eq!((refused.non_zero_cpu_milli, refused.score.cpu_milli), (2000, 3000));
    let deferred = asked_while(json!([{"type": "PodResizePending", "reason": "Deferred"},
                                      {"type": "PodResizePending", "reason": "Infeasible"}]));
    assert_eq!(deferred.placed.cpu_milli, 3000);
}

#[test]
fn container_status_without_resources_is_ignored() {
    let pod = json!({
        "spec": {"containers": [container(&json!({"cpu": "1"}))], "resources": {"requests": {"memory": "1Mi"}}},
        "status": {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "5"}}],
                   "resources": {"requests": {"memory": "3Mi"}}, "allocatedResources": {"memory": "2Mi"}},
    });
    let asked = asked(&pod);
    assert_eq!(cpu_and_memory(&asked.placed), (1000, 3 * MI));
    assert_eq!(cpu_and_memory(&asked.request), (1000, MI));
}

#[test]
fn oversized_request_does_not_free_resources() {
    let asked = asked_by_spec(
        &json!({"containers": [container(&json!({"cpu": "9223372036854775807", "memory": "10E"}))]}),
    );
    for resources in [&asked.request, &asked.placed, &asked.score] {
        assert_eq!(cpu_and_memory(resources), (i64::MAX, i64::MAX));
    }
    assert_eq!((asked.non_zero_cpu_milli, asked.non_zero_memory), (i64::MAX, i64::MAX));
}

#[test]
fn only_tracked_resources_are_converted() {
    let mut tables = Tables::new();
    let names = json!({
        "example.com/gpu": 1, "hugepages-2Mi": "4Mi", "attachable-volumes-x": 2, "sub.kubernetes.io/y": 0,
        "storage": "1Gi", "foo": 1, "pods": 3, "requests.example.com/x": 1, "example.com/": 1, "-bad.com/x": 1,
    });
    let pod = with_spec(&mut tables, &json!({"containers": [container(&names)]}));
    let scalar = &pod.resources.request.scalar;
    let mut kept: Vec<_> = scalar.iter().map(|&(name, amount)| (tables.text(name), amount)).collect();
    kept.sort_unstable();
    assert_eq!(
        kept,
        [
            ("attachable-volumes-x", 2),
            ("example.com/gpu", 1),
            ("hugepages-2Mi", 4 * MI),
            ("sub.kubernetes.io/y", 0)
        ]
    );
    assert!(scalar.is_sorted_by_key(|&(name, _)| name));
}

#[test]
fn node_without_pod_limit_allows_no_pods() {
    let mut tables = Tables::new();
    let mut node = |status: Value| {
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n"}, "status": status})).unwrap();
        super::super::node(&mut tables, &node)
    };
    let info = node(json!({"capacity": {"cpu": "x"}, "allocatable": {"cpu": 4, "memory": "1Gi", "pods": "110", "foo": 1}})).unwrap();
    assert_eq!(
        (info.allocatable.cpu_milli, info.allocatable.memory, info.allocatable_pods),
        (4000, 1024 * MI, 110)
    );
    assert_eq!(node(json!({})).unwrap().allocatable_pods, 0);
    assert_eq!(
        node(json!({"allocatable": {"memory": "1 Gi"}})).unwrap_err().to_string(),
        "Node n is malformed: status.allocatable[memory]: \"1 Gi\": quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    );
}

#[test]
fn invalid_quantity_makes_pod_malformed() {
    let bad = json!({"foo": "1Q"});
    for (pod, field) in [
        (
            json!({"spec": {"containers": [{}, container(&bad)]}}),
            "spec.containers[1].resources.requests[foo]",
        ),
        (
            json!({"spec": {"initContainers": [container(&bad)]}}),
            "spec.initContainers[0].resources.requests[foo]",
        ),
        (json!({"spec": {"overhead": bad}}), "spec.overhead[foo]"),
        (json!({"spec": {"resources": {"requests": bad}}}), "spec.resources.requests[foo]"),
    ] {
        let error = convert(&mut Tables::new(), &pod).unwrap_err();
        assert!(error.reason.starts_with(&format!("{field}: \"1Q\": ")), "{error}");
    }
}

#[test]
fn device_class_has_implicit_and_explicit_resource_names() {
    use crate::api::DeviceClass;
    use crate::convert::Watched as _;
    use supercargo_core::model::event::{Event, ObjectKey};
    let mut tables = Tables::new();
    let mut read = |spec: Value| {
        let class: DeviceClass = serde_json::from_value(json!({"metadata": {"name": "gpus"}, "spec": spec}))
            .expect("any JSON is read");
        assert_eq!(class.key(&mut tables), ObjectKey::DeviceClass(tables.symbol("gpus")));
        let applied = class.applied(&mut tables).expect("it is well formed");
        let Event::DeviceClassApplied { class, .. } = applied else { panic!("unexpected event") };
        let text = |name| tables.text(name).to_owned();
        (text(class.implicit), class.explicit.map(text))
    };
    let implicit = "deviceclass.resource.kubernetes.io/gpus".to_owned();
    assert_eq!(
        read(json!({"extendedResourceName": "example.com/gpu"})),
        (implicit.clone(), Some("example.com/gpu".into()))
    );
    assert_eq!(read(json!({"selectors": [{"cel": {"expression": "true"}}]})), (implicit, None));
}
