//! A heterogeneous cluster, and pods for every plugin.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::harness::nodes::KwokNode;
use crate::harness::objects::pod;

const ZONES: usize = 3;
/// Number of pods with the same labels and terms, as in a Deployment.
const GROUP: usize = 25;

/// A node with a taint that few pods tolerate.
pub(super) const TAINTED: &str = "n03";

/// Returns nodes of three zones and three sizes; some have taints, fast disks or an image.
pub(super) fn nodes(count: usize) -> Vec<KwokNode> {
    let node = |number: usize| {
        let mut node = KwokNode::new(&format!("n{number:02}"))
            .label("topology.kubernetes.io/zone", &format!("z{}", number % ZONES))
            .allocatable("cpu", ["16", "32", "64"][number / ZONES % 3])
            .allocatable("memory", ["64Gi", "32Gi", "128Gi"][number / 7 % 3]);
        if number % 10 == 3 {
            node = node.taint("dedicated", "batch", "NoSchedule");
        }
        if number % 10 == 7 {
            node = node.taint("worn", "", "PreferNoSchedule");
        }
        if number % 4 == 1 {
            node = node.label("disk", "fast");
        }
        if number % 5 == 2 {
            node = node.image(&["registry.k8s.io/pause:3.10"], 400 << 20);
        }
        node
    };
    (0..count).map(node).collect()
}

/// Returns priority classes; no preemption happens, because all pods fit.
pub(super) fn priority_classes() -> String {
    let class = |(name, value): (&str, i32)| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
    let items: Vec<Value> = [("shadow-low", 1), ("shadow-high", 100)].map(class).to_vec();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn selector(group: &str) -> Value {
    json!({"matchLabels": {"group": group}})
}

fn term(group: &str, key: &str) -> Value {
    json!({"labelSelector": selector(group), "topologyKey": key})
}

fn spread(group: &str, key: &str, skew: usize, when: &str) -> Value {
    json!({"topologySpreadConstraints": [
        {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector(group)},
    ]})
}

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Returns a kind's fields beside its resource requests.
fn kind(number: usize, group: &str) -> Value {
    match number {
        0 | 1 => json!({}),
        2 => {
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(group, HOST)]}}})
        }
        3 => json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 50, "podAffinityTerm": term(group, HOST)},
        ]}}}),
        4 => {
            json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(group, ZONE)]}}})
        }
        5 => json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 80, "podAffinityTerm": term(group, ZONE)},
        ]}}}),
        6 => spread(group, ZONE, 1, "DoNotSchedule"),
        7 => spread(group, HOST, 2, "ScheduleAnyway"),
        8 => json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z0", "z1"]}]},
            ]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}},
            ],
        }}}),
        _ => {
            json!({"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}]})
        }
    }
}

/// Returns pods of alternating kinds; `too_large` of them fit no node.
pub(super) fn mixed(namespace: &str, count: usize, too_large: usize) -> Result<Vec<Pod>> {
    const KINDS: usize = 10;
    let one = |number: usize| {
        let of_kind = number % KINDS;
        let group = format!("k{of_kind}-{}", number / (KINDS * GROUP));
        let mut spec = kind(of_kind, &group);
        let cpu = if number < too_large { "100".to_owned() } else { format!("{}m", 50 + 50 * (number % 7)) };
        let mut container = json!({"name": "main", "image": "registry.k8s.io/pause:3.10"});
        // Every eleventh has no requests.
        if number < too_large || !number.is_multiple_of(11) {
            let memory = format!("{}Mi", 64 << (number % 4));
            container["resources"] = json!({"requests": {"cpu": cpu, "memory": memory}});
        }
        spec["containers"] = json!([container]);
        if number.is_multiple_of(9) {
            spec["priorityClassName"] =
                json!(if number.is_multiple_of(2) { "shadow-low" } else { "shadow-high" });
        }
        let mut pod = pod(&format!("p{number:05}"), "default-scheduler", &spec)?;
        pod.metadata.namespace = Some(namespace.to_owned());
        pod.metadata.labels = Some([("group".to_owned(), group)].into());
        Ok(pod)
    };
    (0..count).map(one).collect()
}
