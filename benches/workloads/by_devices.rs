//! Workloads with ResourceClaims, after scheduler_perf's (`test/integration/scheduler_perf/dra`): each node has 8
//! devices, and each device an attribute that no other has.

use super::objects::{labels, large, node, node_name, pod, some, with};
use super::{Activity, Size, Workload};
use serde_json::{Value, json};

pub(crate) const DRIVER: &str = "gpu.example.com";
const DEVICES: usize = 8;
const SIZE: Size = Size { nodes: 1_000, existing: 0, pods: 1_000, signatures: 1, waiting: 0 };

pub(super) fn all() -> Vec<Workload> {
    let one = |id, about, signatures, other_objects, pod| Workload {
        id,
        about,
        size: Size { signatures, ..SIZE },
        activity: Activity::Arrivals,
        other_objects,
        node: |number, _| node(number, &large()),
        existing: None,
        waiting: |_, _| Value::Null,
        pod,
    };
    vec![
        one("claims", "a claim for one device, from one template", 1, claims, claiming),
        one("claims-10", "10 classes, each with its own expression, in turn", 10, claims, claiming),
        one("claims-100", "100 classes, each with its own expression, in turn", 100, claims, claiming),
        one("claims-unseen", "each claim has an expression of its own", 1_000, unseen, claiming),
        one("claims-unmet", "a claim that no device satisfies, of one template", 1, unmet, claiming),
        one("first-available", "a claim with two alternatives", 1, alternatives, claiming),
        one("partitions", "devices that consume shared counters", 1, partitions, claiming),
        one("shares", "shares of a device's capacity", 1, shares, claiming),
        one("extended", "an extended resource that a DeviceClass serves", 1, served, requesting),
    ]
}

fn class(name: &str, expression: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    })
}

/// Returns the class with this number. All classes select all devices, by different expressions.
fn numbered_class(number: usize) -> Value {
    let expression = format!(
        "device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].generation >= {}",
        -(number as i64)
    );
    class(&format!("class-{number:03}"), &expression)
}

fn device(node: usize, number: usize) -> Value {
    json!({
        "name": format!("gpu-{number}"),
        "attributes": {
            "uuid": {"string": format!("{node:08x}-{number:04x}")},
            "model": {"string": if number < DEVICES / 2 { "large" } else { "small" }},
            "generation": {"int": 4},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    })
}

fn slice(node: usize, name: &str, count: usize, content: (&str, Value)) -> Value {
    let node = node_name(node);
    let mut slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": format!("{node}-{name}"), "uid": format!("{node}-{name}"), "resourceVersion": "1"},
        "spec": {
            "driver": DRIVER, "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": count},
        },
    });
    slice["spec"][content.0] = content.1;
    slice
}

fn slices(size: &Size) -> impl Iterator<Item = Value> {
    (0..size.nodes).map(|node| {
        let devices: Vec<Value> = (0..DEVICES).map(|number| device(node, number)).collect();
        slice(node, DRIVER, 1, ("devices", devices.into()))
    })
}

fn claim_name(number: usize) -> String {
    format!("claim-{number:06}")
}

/// Returns the claim of a pod, with one request.
fn claim(number: usize, request: &Value) -> Value {
    let name = claim_name(number);
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "load", "uid": name, "resourceVersion": "1"},
        "spec": {"devices": {"requests": [request]}}, "status": {},
    })
}

fn with_claims(size: &Size, mut objects: Vec<Value>, request: impl Fn(usize) -> Value) -> Vec<Value> {
    objects.extend((size.existing..size.existing + size.pods).map(|number| claim(number, &request(number))));
    objects
}

fn exactly(class: &str) -> Value {
    json!({"name": "gpu", "exactly": {"deviceClassName": class, "allocationMode": "ExactCount", "count": 1}})
}

fn claims(size: &Size) -> Vec<Value> {
    let objects = (0..size.signatures).map(numbered_class).chain(slices(size)).collect();
    with_claims(size, objects, |number| exactly(&format!("class-{:03}", number % size.signatures)))
}

fn unseen(size: &Size) -> Vec<Value> {
    let objects = [numbered_class(0)].into_iter().chain(slices(size)).collect();
    with_claims(size, objects, |number| {
        let mut request = exactly("class-000");
        let expression =
            format!("device.attributes['{DRIVER}'].generation > -{}", 1 + number % size.signatures);
        request["exactly"]["selectors"] = json!([{"cel": {"expression": expression}}]);
        request
    })
}

fn unmet(size: &Size) -> Vec<Value> {
    let objects = [numbered_class(0)].into_iter().chain(slices(size)).collect();
    with_claims(size, objects, |_| {
        let mut request = exactly("class-000");
        let expression = format!("device.attributes['{DRIVER}'].generation > 4");
        request["exactly"]["selectors"] = json!([{"cel": {"expression": expression}}]);
        request
    })
}

fn alternatives(size: &Size) -> Vec<Value> {
    let objects = [numbered_class(0)].into_iter().chain(slices(size)).collect();
    let alternative = |model: &str| {
        json!({
            "name": model, "deviceClassName": "class-000", "allocationMode": "ExactCount", "count": 1,
            "selectors": [{"cel": {"expression": format!("device.attributes['{DRIVER}'].model == '{model}'")}}],
        })
    };
    with_claims(
        size,
        objects,
        |_| json!({"name": "gpu", "firstAvailable": [alternative("large"), alternative("small")]}),
    )
}

/// Each node has one GPU, which can be used in whole, in halves or in quarters.
fn partitions(size: &Size) -> Vec<Value> {
    let mut objects = vec![numbered_class(0)];
    for node in 0..size.nodes {
        let set = json!([{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}]);
        let parts = ["80Gi", "40Gi", "40Gi", "20Gi", "20Gi", "20Gi", "20Gi"];
        let devices = parts.iter().enumerate().map(|(number, memory)| {
            let mut device = device(node, number);
            device["capacity"]["memory"]["value"] = (*memory).into();
            device["consumesCounters"] =
                json!([{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}]);
            device
        });
        objects.push(slice(node, "counters", 2, ("sharedCounters", set)));
        objects.push(slice(node, "devices", 2, ("devices", devices.collect())));
    }
    with_claims(size, objects, |_| {
        let mut request = exactly("class-000");
        let expression = format!("device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) <= 0");
        request["exactly"]["selectors"] = json!([{"cel": {"expression": expression}}]);
        request
    })
}

fn shares(size: &Size) -> Vec<Value> {
    let mut objects = vec![numbered_class(0)];
    objects.extend(slices(size).map(|mut slice| {
        for device in slice["spec"]["devices"].as_array_mut().into_iter().flatten() {
            device["allowMultipleAllocations"] = true.into();
        }
        slice
    }));
    with_claims(size, objects, |_| {
        let mut request = exactly("class-000");
        request["exactly"]["capacity"] = json!({"requests": {"memory": "20Gi"}});
        request
    })
}

fn served(size: &Size) -> Vec<Value> {
    let mut class = numbered_class(0);
    class["spec"]["extendedResourceName"] = "example.com/gpu".into();
    [class].into_iter().chain(slices(size)).collect()
}

fn claiming(number: usize, _: &Size) -> Value {
    let pod = pod(&format!("claiming-{number:06}"), labels(&[("app", "claiming")]), &some());
    with(pod, "resourceClaims", json!([{"name": "gpu", "resourceClaimName": claim_name(number)}]))
}

fn requesting(number: usize, _: &Size) -> Value {
    let mut pod = pod(&format!("requesting-{number:06}"), labels(&[("app", "requesting")]), &some());
    let resources = &mut pod["spec"]["containers"][0]["resources"];
    resources["requests"]["example.com/gpu"] = "1".into();
    resources["limits"]["example.com/gpu"] = "1".into();
    pod
}
