//! A generated cluster of any size, always the same: zones, workloads of different sizes, tainted and
//! cordoned nodes, pending pods.

use serde_json::{Value, json};

const ZONES: [&str; 3] = ["eu-north-1a", "eu-north-1b", "eu-north-1c"];
const APPS: [&str; 6] = ["api", "worker", "cache", "ingest", "gateway", "batch"];
const TEAMS: [&str; 4] = ["shop", "payments", "search", "data"];

/// A deterministic generator of pseudo-random numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// Returns the objects of a cluster with this number of nodes and pods.
pub(crate) fn cluster(nodes: usize, pods: usize) -> Vec<Value> {
    let mut draw = Draw(1);
    let mut objects: Vec<Value> = (0..nodes).map(node).collect();
    let workers: Vec<String> = (0..nodes).filter(|at| !has_gpu(*at)).map(name).collect();
    let mut used = vec![0; workers.len()];
    for at in 0..pods {
        let app = draw.below(APPS.len()).min(draw.below(APPS.len()));
        let team = draw.below(TEAMS.len());
        let cpu = 250 * (1 + (app * 5 + team * 3) % 7);
        // Some nodes are preferred, but none exceeds its capacity.
        let mut on = draw.below(workers.len()).max(draw.below(workers.len()) / 2);
        for _ in 0..20 {
            if used[on] + cpu > 15_890 {
                on = draw.below(workers.len());
            }
        }
        while used[on] + cpu > 15_890 {
            on = (on + 1) % workers.len();
        }
        used[on] += cpu;
        objects.push(pod(at, (APPS[app], TEAMS[team]), cpu, &workers[on]));
    }
    objects.extend(waiting());
    objects
}

fn has_gpu(at: usize) -> bool {
    at % 17 == 3
}

fn name(at: usize) -> String {
    let kind = if has_gpu(at) { "gpu" } else { "worker" };
    format!("{kind}-{}-{:04}", &ZONES[at % 3][10..], at / 3)
}

fn node(at: usize) -> Value {
    let (name, zone) = (name(at), ZONES[at % 3]);
    let disk = if at.is_multiple_of(4) { "ssd" } else { "hdd" };
    let mut allocatable = json!({ "cpu": "15890m", "memory": "61Gi", "pods": "110" });
    let mut spec = json!({});
    if has_gpu(at) {
        allocatable["nvidia.com/gpu"] = json!("8");
        spec = json!({ "taints": [{ "key": "nvidia.com/gpu", "value": "a100", "effect": "NoSchedule" }] });
    } else if at % 23 == 5 {
        spec = json!({ "unschedulable": true });
    }
    json!({
        "apiVersion": "v1", "kind": "Node", "spec": spec, "status": { "allocatable": allocatable },
        "metadata": {
            "name": name,
            "labels": { "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "disk": disk },
        },
    })
}

fn pod(at: usize, (app, team): (&str, &str), cpu: usize, node: &str) -> Value {
    let hash = "6d4cf56db9";
    let spread = json!([
        { "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
          "labelSelector": { "matchLabels": { "app": app } } },
        { "maxSkew": 5, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
          "labelSelector": { "matchLabels": { "app": app } } },
    ]);
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-{hash}"), "controller": true, "uid": "u",
    });
    let requests = json!({ "cpu": format!("{cpu}m"), "memory": format!("{}Mi", 2 * cpu) });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{app}-{hash}-{at:05x}"), "namespace": team,
            "labels": { "app": app, "pod-template-hash": hash }, "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node, "containers": [{ "name": "c", "image": "i", "resources": { "requests": requests } }],
            "topologySpreadConstraints": if app == "api" { spread } else { json!([]) },
        },
    })
}

/// Pending pods: one with a typo, one too large for any node, and one with a scheduling gate.
fn waiting() -> Vec<Value> {
    let pod = |name: &str, requests: Value, more: Value| {
        let mut spec =
            json!({ "containers": [{ "name": "c", "image": "i", "resources": { "requests": requests } }] });
        spec.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "data" }, "spec": spec })
    };
    let misspelt = |name| pod(name, json!({ "cpu": "2" }), json!({ "nodeSelector": { "disk": "sdd" } }));
    vec![
        misspelt("trainer-0"),
        misspelt("trainer-1"),
        misspelt("trainer-2"),
        pod("warehouse", json!({ "cpu": "64" }), json!({})),
        pod(
            "later",
            json!({ "cpu": "1" }),
            json!({ "schedulingGates": [{ "name": "example.com/after-the-sale" }] }),
        ),
    ]
}

/// A Deployment to place, with this number of pods.
pub(crate) fn checkout(replicas: usize) -> Value {
    let labels = json!({ "app": "checkout" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "checkout", "namespace": "shop" },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "topologySpreadConstraints": [
                        { "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                          "labelSelector": { "matchLabels": labels } },
                        { "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                          "labelSelector": { "matchLabels": labels } },
                    ],
                    "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
                        "weight": 10, "preference": { "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["ssd"] }] },
                    }] } },
                    "containers": [{
                        "name": "c", "image": "i", "resources": { "requests": { "cpu": "1500m", "memory": "2Gi" } },
                    }],
                },
            },
        },
    })
}
