//! Pods as large as the API server accepts, one at a time among small ones: the longest step of the engine, and
//! the outcome of the large pod.
//!
//! Each pod in the cluster has its own label value, like pods of StatefulSets and indexed Jobs, so that each
//! term is compared with each pod. An object has at most 1.5 MiB (etcd's `--max-request-bytes`); the counts
//! below stay under that in protobuf.

use crate::engine::Engine;
use crate::workloads::objects::{HOSTNAME, ZONE, large, node, node_name, pod, some, with_node};
use serde_json::{Value, json};
use std::io::Write;

/// A large pod: the repeated field and its count.
struct Shape {
    name: &'static str,
    count: usize,
    build: fn(usize) -> Value,
}

const SHAPES: [Shape; 16] = [
    Shape {
        name: "anti-affinity terms, one label each",
        count: 12_000,
        build: |n| required("podAntiAffinity", n, equal),
    },
    Shape {
        name: "anti-affinity terms, NotIn",
        count: 12_000,
        build: |n| required("podAntiAffinity", n, absent_key),
    },
    Shape {
        name: "affinity terms that all pods match",
        count: 12_000,
        build: |n| required("podAffinity", n, not_in),
    },
    Shape { name: "preferred affinity terms, NotIn", count: 12_000, build: |n| preferred(n, not_in) },
    Shape { name: "values of one affinity term", count: 120_000, build: values_of_affinity },
    Shape { name: "node affinity terms", count: 20_000, build: node_terms },
    Shape { name: "preferred node affinity terms", count: 20_000, build: preferred_node_terms },
    Shape { name: "values of node affinity", count: 120_000, build: node_values },
    Shape { name: "tolerations", count: 40_000, build: tolerations },
    Shape { name: "images", count: 20_000, build: images },
    Shape { name: "host ports", count: 40_000, build: ports },
    Shape { name: "extended resources", count: 20_000, build: resources },
    Shape { name: "topology spread constraints, hard", count: 10_000, build: |n| spread(n, "DoNotSchedule") },
    Shape {
        name: "topology spread constraints, soft",
        count: 10_000,
        build: |n| spread(n, "ScheduleAnyway"),
    },
    Shape { name: "inline CSI volumes", count: 15_000, build: volumes },
    Shape { name: "nothing", count: 0, build: |_| bare() },
];

fn bare() -> Value {
    pod("large", json!({"app": "large"}), &some())
}

fn equal(at: usize) -> Value {
    json!({"matchLabels": {"own": format!("x{at}")}})
}

fn not_in(at: usize) -> Value {
    json!({"matchExpressions": [{"key": "own", "operator": "NotIn", "values": [format!("x{at}")]}]})
}

fn absent_key(at: usize) -> Value {
    json!({"matchExpressions": [{"key": format!("k{at}"), "operator": "Exists"}]})
}

fn term(at: usize, selector: fn(usize) -> Value) -> Value {
    let key = if at.is_multiple_of(2) { HOSTNAME } else { ZONE };
    json!({"topologyKey": key, "labelSelector": selector(at)})
}

fn required(kind: &str, count: usize, selector: fn(usize) -> Value) -> Value {
    let terms: Vec<Value> = (0..count).map(|at| term(at, selector)).collect();
    let mut pod = bare();
    pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"] = terms.into();
    pod
}

fn preferred(count: usize, selector: fn(usize) -> Value) -> Value {
    let terms = (0..count).map(|at| json!({"weight": 1 + at % 100, "podAffinityTerm": term(at, selector)}));
    let mut pod = bare();
    pod["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
        terms.collect();
    pod
}

fn values_of_affinity(count: usize) -> Value {
    let values: Vec<String> = (0..count).map(|at| format!("x{at}")).collect();
    let selector = json!({"matchExpressions": [{"key": "own", "operator": "In", "values": values}]});
    let mut pod = bare();
    pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!([{"topologyKey": HOSTNAME, "labelSelector": selector}]);
    pod
}

fn node_term(at: usize) -> Value {
    json!({"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [format!("x{at}")]}]})
}

fn node_terms(count: usize) -> Value {
    let mut terms: Vec<Value> = (0..count).map(node_term).collect();
    terms.push(json!({"matchExpressions": [{"key": HOSTNAME, "operator": "Exists"}]}));
    let mut pod = bare();
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
        terms.into();
    pod
}

fn preferred_node_terms(count: usize) -> Value {
    let terms = (0..count).map(|at| json!({"weight": 1, "preference": node_term(at)}));
    let mut pod = bare();
    pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
        terms.collect();
    pod
}

fn node_values(count: usize) -> Value {
    let mut values: Vec<String> = (0..count).map(|at| format!("x{at}")).collect();
    values.push(node_name(7));
    let mut pod = bare();
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
        json!([{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": values}]}]);
    pod
}

fn tolerations(count: usize) -> Value {
    let mut pod = bare();
    pod["spec"]["tolerations"] =
        (0..count).map(|at| json!({"key": format!("k{at}"), "operator": "Exists"})).collect();
    pod
}

fn images(count: usize) -> Value {
    let mut pod = bare();
    pod["spec"]["containers"] =
        (0..count).map(|at| json!({"name": format!("c{at}"), "image": format!("i{at}")})).collect();
    pod
}

fn ports(count: usize) -> Value {
    let mut pod = bare();
    let ports = (0..count).map(|at| json!({"containerPort": 1 + at, "hostPort": 1 + at}));
    pod["spec"]["containers"][0]["ports"] = ports.collect();
    pod
}

fn resources(count: usize) -> Value {
    let mut pod = bare();
    for at in 0..count {
        pod["spec"]["containers"][0]["resources"]["requests"][format!("e.x/r{at}")] = "1".into();
    }
    pod
}

fn spread(count: usize, unsatisfiable: &str) -> Value {
    let constraint = |at: usize| {
        let key = if at == 0 { ZONE.to_owned() } else { format!("k{at}") };
        json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": unsatisfiable, "labelSelector": not_in(at)})
    };
    let mut pod = bare();
    pod["spec"]["topologySpreadConstraints"] = (0..count).map(constraint).collect();
    pod
}

fn volumes(count: usize) -> Value {
    let mut pod = bare();
    pod["spec"]["volumes"] =
        (0..count).map(|at| json!({"name": format!("v{at}"), "csi": {"driver": format!("d{at}")}})).collect();
    pod
}

/// Prints for each shape the longest step, the number of steps, and the number of small pods that were placed
/// in the meantime.
pub(crate) fn run(nodes: usize, existing: usize, only: Option<&str>, out: &mut dyn Write) {
    for shape in SHAPES.iter().filter(|shape| only.is_none_or(|only| shape.name.contains(only))) {
        let mut engine = Engine::new();
        (0..nodes).for_each(|at| {
            let mut node = node(at, &large());
            node["spec"]["taints"] = json!([{"key": format!("k{}", at % 20), "effect": "PreferNoSchedule"}]);
            engine.feed(node);
        });
        for at in 0..existing {
            let name = format!("running-{at}");
            let running = pod(&name, json!({"app": "running", "own": name}), &some());
            engine.feed(with_node(running, &node_name(at % nodes)));
        }
        engine.end_lists();
        let small = |at: usize| pod(&format!("small-{at}"), json!({"app": "small"}), &some());
        let event = engine.event(small(0));
        engine.run(vec![event]);
        let large = (shape.build)(shape.count);
        let bytes = large.to_string().len();
        let events: Vec<_> =
            [large].into_iter().chain((1..=100).map(small)).map(|it| engine.event(it)).collect();
        let evaluate_large = engine.evaluate_large(events);
        let _ = writeln!(
            out,
            "{:<40} {:>7} {:>8} B: longest step {:>8.1} ms, taking it in {:>6.1} ms; steps {:>6}, in all {:>7.1} ms; small pods placed before it {}; {}",
            shape.name,
            shape.count,
            bytes,
            evaluate_large.longest.as_secs_f64() * 1e3,
            evaluate_large.taken_in.as_secs_f64() * 1e3,
            evaluate_large.steps,
            evaluate_large.in_all.as_secs_f64() * 1e3,
            evaluate_large.before,
            evaluate_large.outcome
        );
    }
}
