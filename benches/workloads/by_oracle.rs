//! The workloads of `oracle time` (`tests/upstream/oracle/load.go`), with equal nodes and pods. A test compares them
//! with the oracle's objects in `tests/fixtures/bench-objects.jsonl`.

use super::objects::{
    HOSTNAME, ZONE, affinity, labels, large, node, node_affinity, pod, selector, some, spread, term,
    weighted, with, with_cpu,
};
use super::{Activity, Size, Workload};
use serde_json::{Value, json};

const SIZE: Size = Size { nodes: 5_000, existing: 10_000, pods: 1_000, signatures: 1, waiting: 0 };

pub(super) fn all() -> Vec<Workload> {
    [
        ("basic", "pods with only resource requests", basic as fn(usize, &Size) -> Value),
        ("soft-anti", "preferred anti-affinity to pods of the same app, by node", soft_anti),
        ("hard-anti", "required anti-affinity to pods of the same app, by node", hard_anti),
        ("zone-affinity", "required affinity to pods of the same app, by zone", zone_affinity),
        ("spread", "DoNotSchedule over zones, ScheduleAnyway over nodes", hard_spread),
        ("soft-spread", "ScheduleAnyway over zones and nodes", soft_spread),
        ("node-affinity", "required node affinity to a label that every second node has", on_ssd),
    ]
    .into_iter()
    .map(|(id, about, pod)| Workload {
        id,
        about,
        size: SIZE,
        activity: Activity::Arrivals,
        other_objects: |_| Vec::new(),
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
