//! Generates devices: classes, slices, claims, pods that ask for them, and changes between decisions.
//!
//! Amounts are small, because kube-scheduler's search takes exponential time.

mod claims;
mod expressions;
mod slices;

use super::{Size, ZONE, objects_of};
use crate::draw::Draw;
use claims::Claims;
use serde_json::{Value, json};

const API: &str = "resource.k8s.io/v1";
const GPU: &str = "gpu.example.com";
const NIC: &str = "nic.example.com";
const FPGA: &str = "fpga.example.org";
const DRIVERS: &[&str] = &[GPU, GPU, GPU, GPU, GPU, NIC, NIC, FPGA];

/// Extended resources that classes may serve.
const EXTENDED: &[&str] = &["example.com/gpu", "example.com/card"];

/// Returns a driver; a claim, a class and a slice meet more often if they prefer the same one.
fn driver(draw: &mut Draw) -> &'static str {
    draw.pick(DRIVERS)
}

/// Returns classes and slices.
pub(super) fn objects(draw: &mut Draw, nodes: usize) -> Vec<Value> {
    let mut objects = classes(draw);
    objects.extend(slices::slices(draw, nodes));
    objects
}

fn classes(draw: &mut Draw) -> Vec<Value> {
    let mut classes = Vec::new();
    for name in ["gpu", "big", "nic", "any"] {
        if draw.percent(4) {
            continue; // requests of this class fail
        }
        classes.push(class(draw, name));
    }
    classes
}

fn class(draw: &mut Draw, name: &str) -> Value {
    let mut class = json!({
        "apiVersion": API, "kind": "DeviceClass",
        "metadata": {
            "name": name, "uid": format!("uid-{name}"),
            "creationTimestamp": format!("2024-01-01T00:00:0{}Z", draw.below(3)),
        },
        "spec": {},
    });
    let own = match name {
        "gpu" | "big" => Some(GPU),
        "nic" => Some(NIC),
        _ => None,
    };
    let mut selectors: Vec<Value> = Vec::new();
    if let Some(driver) = own.filter(|_| draw.percent(80)) {
        selectors.push(selector(&format!("device.driver == \"{driver}\"")));
    }
    if draw.percent(if name == "big" { 70 } else { 12 }) {
        let wanted = own.unwrap_or(GPU);
        selectors.push(selector(&expressions::expression(draw, wanted)));
    }
    if !selectors.is_empty() {
        class["spec"]["selectors"] = selectors.into();
    }
    if draw.percent(25) {
        class["spec"]["config"] =
            json!([{ "opaque": { "driver": driver(draw), "parameters": { "of": name } } }]);
    }
    if draw.percent(30) {
        class["spec"]["extendedResourceName"] = draw.pick(EXTENDED).into();
    }
    class
}

fn selector(expression: &str) -> Value {
    json!({ "cel": { "expression": expression } })
}

/// Adds claims for the pods to the objects, some of them allocated, and changes between the decisions.
pub(super) fn claim(draw: &mut Draw, scenario: &mut Value, size: Size) {
    let mut claims = Claims::new(draw, objects_of(scenario));
    let mut pods = std::mem::take(&mut scenario["pods"]);
    for pod in pods.as_array_mut().into_iter().flatten() {
        claims.ask(draw, pod);
    }
    claims.run(draw, size.nodes);
    let writes = draw.percent(50) && !claims.has_twins;
    let changes = if draw.percent(60) { changes(draw, scenario, &claims, size, writes) } else { Vec::new() };
    let objects = scenario["objects"].as_array_mut().expect("a scenario has objects");
    objects.extend(claims.made);
    scenario["pods"] = pods;
    if writes {
        scenario["writes"] = true.into();
    }
    if !changes.is_empty() {
        scenario["changes"] = changes.into();
    }
}

/// Returns changes of slices, classes and claims. A claim that may be in flight does not change.
fn changes(draw: &mut Draw, scenario: &Value, claims: &Claims, size: Size, writes: bool) -> Vec<Value> {
    let count = draw.between(1, 3);
    let changes = draw.list(count, |draw| {
        let before = draw.between(1, 5);
        let of_kind = |kind: &str| -> Vec<&Value> {
            objects_of(scenario).iter().filter(|object| object["kind"] == kind).collect()
        };
        let identity = |object: &Value| {
            json!({
                "apiVersion": API, "kind": object["kind"],
                "metadata": { "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"] },
            })
        };
        let known = of_kind("ResourceSlice");
        let free: Vec<&Value> =
            claims.made.iter().filter(|claim| writes || claims.is_foreign(claim)).collect();
        Some(match draw.below(10) {
            0..=2 if !known.is_empty() => {
                let old = known[draw.below(known.len())];
                json!({ "before": before, "object": slices::changed(draw, old, size.nodes) })
            }
            3 if !known.is_empty() => {
                let old = known[draw.below(known.len())];
                json!({ "before": before, "object": identity(old), "deleted": true })
            }
            4 => {
                let mut others = slices::slices(draw, size.nodes);
                if others.is_empty() {
                    return None;
                }
                let at = draw.below(others.len());
                json!({ "before": before, "object": others.swap_remove(at) })
            }
            5 | 6 => {
                let name = draw.pick(&["gpu", "big", "nic", "any"]);
                let class = class(draw, name);
                if draw.percent(15) {
                    json!({ "before": before, "object": identity(&class), "deleted": true })
                } else {
                    json!({ "before": before, "object": class })
                }
            }
            _ if !free.is_empty() => {
                let claim = free[draw.below(free.len())];
                let way = if draw.percent(75) { "freed" } else { "deleted" };
                json!({ "before": before, "object": identity(claim), way: true })
            }
            _ => return None,
        })
    });
    changes.into_iter().flatten().collect()
}

/// Returns other versions of slices, to which they change and back.
pub(super) fn others(draw: &mut Draw, objects: &[Value], nodes: usize) -> Vec<Value> {
    let slices = objects.iter().filter(|object| object["kind"] == "ResourceSlice");
    slices.map(|slice| slices::changed(draw, slice, nodes)).collect()
}

/// Returns a term that selects a zone, or one that selects nothing.
fn zone_term(draw: &mut Draw) -> Value {
    let requirement = match draw.below(8) {
        0 => json!({ "key": "disk", "operator": "In", "values": ["ssd", "nvme"] }),
        1 => json!({ "key": "disk", "operator": "Exists" }),
        2 => json!({ "key": ZONE, "operator": "NotIn", "values": ["z1"] }),
        _ => json!({ "key": ZONE, "operator": "In", "values": [draw.pick(&["z1", "z2", "z3"])] }),
    };
    json!({ "matchExpressions": [requirement] })
}

fn node_selector(draw: &mut Draw) -> Value {
    if draw.percent(10) {
        let name = format!("n{}", draw.below(4));
        return json!({ "nodeSelectorTerms": [{
            "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [name] }],
        }] });
    }
    json!({ "nodeSelectorTerms": [zone_term(draw)] })
}
