//! The workloads of `oracle time` (`tests/upstream/oracle/load.go`): its nodes and pods, field by field.
//! `tests/fixtures/bench-objects.jsonl` is what the oracle makes of them, and a test compares.

use super::objects::{
    HOSTNAME, ZONE, affinity, labels, large, node, node_affinity, pod, selector, some, spread, term,
    weighted, with, with_cpu,
};
use super::{Course, Size, Workload};
use serde_json::{Value, json};

const SIZE: Size = Size { nodes: 5_000, existing: 10_000, pods: 1_000, signatures: 1, waiting: 0 };

pub(super) fn all() -> Vec<Workload> {
    [
        ("basic", "pods that ask for nothing but room", basic as fn(usize, &Size) -> Value),
        ("soft-anti", "rather no other pod of the same app on the node", soft_anti),
        ("hard-anti", "no other pod of the same app on the node", hard_anti),
        ("zone-affinity", "a pod of the same app in the zone", zone_affinity),
        ("spread", "even over zones, rather even over nodes", hard_spread),
        ("soft-spread", "rather even over zones and nodes", soft_spread),
        ("node-affinity", "a node with a label that every second has", on_ssd),
    ]
    .into_iter()
    .map(|(id, about, pod)| Workload {
        id,
        about,
        size: SIZE,
        course: Course::Arrivals,
        beside: |_| Vec::new(),
        node: |number, _| node(number, &large()),
        existing: None,
        waiting: |_, _| Value::Null,
        pod,
    })
    .collect()
}

fn app(number: usize) -> String {
    format!("app-{}", number % 50)
}

fn plain(workload: &str, number: usize, size: &Size) -> Value {
    let name = format!("{workload}-{number:06}");
    let pod = pod(&name, labels(&[("app", &app(number)), ("w", workload)]), &some());
    with_cpu(pod, 100 + number % size.signatures)
}

pub(super) fn basic(number: usize, size: &Size) -> Value {
    plain("basic", number, size)
}

fn own(number: usize) -> Value {
    selector("app", &app(number))
}

fn soft_anti(number: usize, size: &Size) -> Value {
    let rather = weighted(100, &term(&own(number), HOSTNAME));
    with(plain("soft-anti", number, size), "affinity", affinity("podAntiAffinity", false, &rather))
}

fn hard_anti(number: usize, size: &Size) -> Value {
    let alone = affinity("podAntiAffinity", true, &term(&own(number), HOSTNAME));
    with(plain("hard-anti", number, size), "affinity", alone)
}

fn zone_affinity(number: usize, size: &Size) -> Value {
    let together = affinity("podAffinity", true, &term(&own(number), ZONE));
    with(plain("zone-affinity", number, size), "affinity", together)
}

fn spread_over(number: usize, over_zones: &str) -> Value {
    let own = own(number);
    json!([spread(&own, ZONE, 1, over_zones), spread(&own, HOSTNAME, 1, "ScheduleAnyway")])
}

fn hard_spread(number: usize, size: &Size) -> Value {
    let pod = plain("spread", number, size);
    with(pod, "topologySpreadConstraints", spread_over(number, "DoNotSchedule"))
}

fn soft_spread(number: usize, size: &Size) -> Value {
    let pod = plain("soft-spread", number, size);
    with(pod, "topologySpreadConstraints", spread_over(number, "ScheduleAnyway"))
}

fn on_ssd(number: usize, size: &Size) -> Value {
    let pod = plain("node-affinity", number, size);
    with(pod, "affinity", node_affinity("matchExpressions", "disk", "ssd"))
}
