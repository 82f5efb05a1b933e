//! W1 to W17: large clusters, and public complaints about kube-scheduler. Shapes and sizes follow kube-scheduler's
//! own scheduler_perf where it has an equivalent. What needs a real API server is part of `make bench-e2e`.

use super::by_oracle::basic;
use super::objects::{
    HOSTNAME, REGION, ZONE, affinity, labels, large, node, node_affinity, node_name, pod, pod_in, running,
    selector, small, some, spread, term, weighted, with, with_cpu,
};
use super::{Activity, Size, Workload, storage};
use serde_json::{Value, json};

const fn size(nodes: usize, existing: usize, pods: usize) -> Size {
    Size { nodes, existing, pods, signatures: 1, waiting: 0 }
}

/// Plain pods on nodes of scheduler_perf's size.
const PLAIN: Workload = Workload {
    id: "W1",
    about: "pods with only resource requests",
    size: size(5_000, 5_000, 50_000),
    activity: Activity::Arrivals,
    other_objects: |_| Vec::new(),
    node: |number, _| node(number, &small()),
    existing: None,
    waiting: |_, _| Value::Null,
    pod: |number, _| pod(&name(number), labels(&[]), &some()),
};

pub(super) fn all() -> Vec<Workload> {
    let large_cluster = Workload {
        id: "W2",
        about: "the same in a cluster of 100,000 nodes",
        size: size(100_000, 0, 100_000),
        ..PLAIN
    };
    let mut all = vec![PLAIN, large_cluster];
    all.extend(spreading());
    all.extend(affine());
    all.extend(by_namespace());
    all.extend(daemons());
    all.extend(needles());
    all.extend(preempting());
    all.extend(storms());
    all.extend(volumes());
    all.extend(signatures());
    all.extend(starting());
    all
}

fn name(number: usize) -> String {
    format!("pod-{number:07}")
}

fn colored(number: usize, color: &str) -> Value {
    pod(&name(number), labels(&[("color", color)]), &some())
}

/// Returns a pod of one of `count` Services.
fn served(number: usize, count: usize) -> Value {
    pod(&name(number), labels(&[("app", &format!("service-{}", number % count))]), &some())
}

fn services(count: usize) -> Vec<Value> {
    let service = |number: usize| {
        let name = format!("service-{number}");
        let metadata = json!({"name": name, "namespace": "load"});
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {"app": name}}})
    };
    (0..count).map(service).collect()
}

/// Returns a pod of one of `count` Deployments, spread over region and nodes.
fn spread_deployment(number: usize, count: usize) -> Value {
    let app = format!("deployment-{}", number % count);
    let own = selector("app", &app);
    let constraints =
        [spread(&own, REGION, 1, "ScheduleAnyway"), spread(&own, HOSTNAME, 1, "ScheduleAnyway")];
    let plain = pod(&name(number), labels(&[("app", &app)]), &some());
    with(plain, "topologySpreadConstraints", json!(constraints))
}

fn spreading() -> [Workload; 5] {
    let served_by_one = Workload {
        id: "W3",
        about: "pods of one Service, spread by default",
        other_objects: |_| services(1),
        pod: |number, _| served(number, 1),
        ..PLAIN
    };
    let served_by_many = Workload {
        id: "W3-services",
        about: "pods of 1,000 Services in turn",
        other_objects: |size| services(size.pods.min(1_000)),
        pod: |number, size| served(number, size.pods.min(1_000)),
        ..PLAIN
    };
    let over_zones = Workload {
        id: "W4",
        about: "spread over zones, DoNotSchedule with maxSkew 5",
        size: size(5_000, 5_000, 5_000),
        pod: |number, _| {
            let over = spread(&selector("color", "blue"), ZONE, 5, "DoNotSchedule");
            with(colored(number, "blue"), "topologySpreadConstraints", json!([over]))
        },
        ..PLAIN
    };
    let after_disaster = Workload {
        id: "W5",
        about: "100,000 pending pods of one Deployment, ScheduleAnyway over region and nodes",
        size: size(2_000, 0, 100_000),
        node: |number, _| node(number, &large()),
        pod: |number, _| spread_deployment(number, 1),
        ..PLAIN
    };
    let of_many = Workload {
        id: "W5-100",
        about: "the same of 100 Deployments in turn",
        size: size(2_000, 0, 100_000),
        node: |number, _| node(number, &large()),
        pod: |number, _| spread_deployment(number, 100),
        ..PLAIN
    };
    [served_by_one, served_by_many, over_zones, after_disaster, of_many]
}

fn alone(number: usize) -> Value {
    let term = term(&selector("color", "green"), HOSTNAME);
    with(colored(number, "green"), "affinity", affinity("podAntiAffinity", true, &term))
}

fn rather(number: usize, kind: &str, color: &str) -> Value {
    let term = weighted(1, &term(&selector("color", color), HOSTNAME));
    with(colored(number, color), "affinity", affinity(kind, false, &term))
}

fn affine() -> [Workload; 5] {
    [
        Workload {
            id: "W6",
            about: "required anti-affinity to similar pods, by node",
            size: size(5_000, 1_000, 2_000),
            pod: |number, _| alone(number),
            ..PLAIN
        },
        Workload {
            id: "W6-matching",
            about: "pods that anti-affinity of pods on 1,000 nodes rejects",
            size: size(5_000, 1_000, 5_000),
            existing: Some(|number, size| running(alone(number), number, size.nodes)),
            pod: |number, _| colored(number, "green"),
            ..PLAIN
        },
        Workload {
            id: "W7",
            about: "required affinity to similar pods, by zone",
            size: size(5_000, 5_000, 5_000),
            pod: |number, _| {
                let term = term(&selector("color", "blue"), ZONE);
                with(colored(number, "blue"), "affinity", affinity("podAffinity", true, &term))
            },
            ..PLAIN
        },
        Workload {
            id: "W7-preferred",
            about: "preferred affinity to similar pods, by node",
            size: size(5_000, 5_000, 5_000),
            pod: |number, _| rather(number, "podAffinity", "red"),
            ..PLAIN
        },
        Workload {
            id: "W7-preferred-anti",
            about: "preferred anti-affinity to similar pods, by node",
            size: size(5_000, 5_000, 5_000),
            pod: |number, _| rather(number, "podAntiAffinity", "green"),
            ..PLAIN
        },
    ]
}

fn namespaces() -> Vec<Value> {
    let namespace = |name: String| {
        let metadata = json!({"name": name, "labels": {"team": "devops"}});
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    };
    (0..100)
        .map(|number| namespace(format!("init-{number}")))
        .chain([namespace("measured".to_owned())])
        .collect()
}

/// Returns a pod whose term selects all namespaces of a team; existing pods are in 100 of them.
fn across(number: usize, size: &Size, kind: &str, is_required: bool, topology_key: &str) -> Value {
    let namespace =
        if number < size.existing { format!("init-{}", number % 100) } else { "measured".to_owned() };
    let mut term = term(&selector("color", "green"), topology_key);
    term["namespaceSelector"] = selector("team", "devops");
    let term = if is_required { term } else { weighted(1, &term) };
    let plain = pod_in(&namespace, &name(number), labels(&[("color", "green")]), &some());
    with(plain, "affinity", affinity(kind, is_required, &term))
}

fn by_namespace() -> [Workload; 4] {
    let across_all = Workload { size: size(6_000, 4_000, 2_000), other_objects: |_| namespaces(), ..PLAIN };
    [
        Workload {
            id: "W8",
            about: "required anti-affinity by node to similar pods in 101 namespaces",
            pod: |number, size| across(number, size, "podAntiAffinity", true, HOSTNAME),
            ..across_all
        },
        Workload {
            id: "W8-preferred-anti",
            about: "the same as a preference",
            pod: |number, size| across(number, size, "podAntiAffinity", false, HOSTNAME),
            ..across_all
        },
        Workload {
            id: "W8-affinity",
            about: "required affinity by zone to similar pods in all namespaces",
            pod: |number, size| across(number, size, "podAffinity", true, ZONE),
            ..across_all
        },
        Workload {
            id: "W8-preferred",
            about: "preferred affinity by node to similar pods in all namespaces",
            pod: |number, size| across(number, size, "podAffinity", false, HOSTNAME),
            ..across_all
        },
    ]
}

/// Returns a DaemonSet's pod for the `number`-th node.
fn daemon(number: usize, size: &Size) -> Value {
    let here = node_affinity("matchFields", "metadata.name", &node_name(number % size.nodes));
    with(pod(&name(number), labels(&[("app", "daemon")]), &json!({})), "affinity", here)
}

fn daemons() -> [Workload; 3] {
    [
        Workload {
            id: "W9",
            about: "DaemonSet pods, each for one node by name",
            size: size(15_000, 0, 30_000),
            pod: daemon,
            ..PLAIN
        },
        Workload {
            id: "W9-rolling",
            about: "the same, each after its predecessor is deleted",
            size: size(5_000, 30_000, 5_000),
            activity: Activity::Replaced,
            pod: daemon,
            ..PLAIN
        },
        Workload {
            id: "W9-label",
            about: "pods for one node by label",
            size: size(5_000, 0, 50_000),
            pod: |number, size| {
                let here = node_affinity("matchExpressions", HOSTNAME, &node_name(number % size.nodes));
                with(pod(&name(number), labels(&[("app", "daemon")]), &json!({})), "affinity", here)
            },
            ..PLAIN
        },
    ]
}

/// Returns the node; every `every`-th has the label that pods require, and room for all of them.
fn haystack(number: usize, every: usize) -> Value {
    if !number.is_multiple_of(every) {
        return node(number, &small());
    }
    let mut found = node(number, &json!({"cpu": "100k", "memory": "100Ti", "pods": "1M"}));
    found["metadata"]["labels"]["pool"] = "needle".into();
    found
}

fn needles() -> [Workload; 3] {
    let needle = Workload {
        id: "W10",
        about: "one node in the cluster has the required label",
        size: size(5_000, 5_000, 5_000),
        node: |number, size| haystack(number, size.nodes),
        existing: Some(|number, size| running(colored(number, "blue"), number, size.nodes)),
        pod: |number, _| with(colored(number, "blue"), "nodeSelector", json!({"pool": "needle"})),
        ..PLAIN
    };
    [
        Workload {
            id: "W10-10",
            about: "ten nodes have it",
            node: |number, size| haystack(number, size.nodes.div_ceil(10)),
            ..needle
        },
        Workload {
            id: "W10-percent",
            about: "one node of a hundred has it",
            node: |number, _| haystack(number, 100),
            ..needle
        },
        needle,
    ]
}

fn of_priority(number: usize, priority: i32, asks: &Value) -> Value {
    with(pod(&name(number), labels(&[("color", "blue")]), asks), "priority", priority.into())
}

fn unimportant(number: usize, size: &Size) -> Value {
    running(of_priority(number, 0, &json!({"cpu": "900m", "memory": "500Mi"})), number, size.nodes)
}

fn important(number: usize) -> Value {
    of_priority(number, 10, &json!({"cpu": "3", "memory": "500Mi"}))
}

fn preempting() -> [Workload; 2] {
    let contest = Workload {
        id: "W11",
        about: "full nodes, and pods that preempt three victims each",
        size: size(5_000, 20_000, 5_000),
        activity: Activity::Preempting,
        existing: Some(unimportant),
        pod: |number, _| important(number),
        ..PLAIN
    };
    [
        Workload {
            id: "W11-mix",
            about: "plain pods, of which every hundredth preempts three victims",
            pod: |number, _| {
                if number.is_multiple_of(100) { important(number) } else { colored(number, "blue") }
            },
            ..contest
        },
        contest,
    ]
}

fn storms() -> [Workload; 6] {
    let storm = Workload {
        id: "W12",
        about: "10,000 unschedulable pods of ten signatures on full nodes, and small pods arrive",
        size: Size { waiting: 10_000, signatures: 10, ..size(5_000, 5_000, 1_000) },
        activity: Activity::Storm,
        existing: Some(|number, size| {
            running(of_priority(number, 100, &json!({"cpu": "3500m"})), number, size.nodes)
        }),
        waiting: |number, size| {
            let large = of_priority(number, 10, &json!({"cpu": "1", "memory": "500Mi"}));
            with_cpu(large, 1_001 + number % size.signatures)
        },
        pod: |number, _| pod(&name(number), labels(&[]), &json!({"cpu": "10m"})),
        ..PLAIN
    };
    [
        Workload {
            id: "W12-idle",
            about: "the same small pods without pending pods: the baseline of W12",
            size: Size { waiting: 0, ..storm.size },
            ..storm
        },
        Workload {
            id: "W12-many",
            about: "W12 with 10,000 different signatures",
            size: Size { signatures: 10_000, ..storm.size },
            ..storm
        },
        storm,
        Workload {
            id: "W13",
            about: "10,000 gated pods, while others are created, bound and deleted",
            size: Size { waiting: 10_000, ..size(1, 0, 20_000) },
            activity: Activity::Gone,
            waiting: |number, _| {
                let gate = json!([{"name": "scheduling-gate-1"}]);
                with(colored(number, "blue"), "schedulingGates", gate)
            },
            pod: |number, _| colored(number, "blue"),
            ..PLAIN
        },
        Workload {
            id: "churn",
            about: "a million pods with unique labels are created, bound and deleted",
            size: size(100, 0, 1_000_000),
            activity: Activity::Gone,
            pod: |number, _| pod(&name(number), labels(&[("unique", &format!("value-{number}"))]), &some()),
            ..PLAIN
        },
        Workload {
            id: "W13-reports",
            about: "50,000 running pods, with 50 status updates per new pod",
            size: size(1_000, 50_000, 2_000),
            activity: Activity::Reports,
            node: |number, _| node(number, &large()),
            pod: |number, _| colored(number, "blue"),
            ..PLAIN
        },
    ]
}

fn volumes() -> [Workload; 2] {
    [
        Workload {
            id: "W14",
            about: "each pod has a bound claim of a CSI volume",
            size: size(5_000, 1_000, 2_000),
            other_objects: storage::bound,
            pod: |number, _| with(colored(number, "blue"), "volumes", storage::of_pod(number)),
            ..PLAIN
        },
        Workload {
            id: "W14-late",
            about: "each pod has a claim whose volume is provisioned after the decision",
            size: size(500, 0, 1_000),
            activity: Activity::Provisioning,
            other_objects: storage::unbound,
            pod: |number, _| with(colored(number, "blue"), "volumes", storage::of_pod(number)),
            ..PLAIN
        },
    ]
}

fn signatures() -> [Workload; 3] {
    let templates = Workload {
        id: "W15",
        about: "1,000 signatures in turn, with different CPU requests",
        size: Size { signatures: 1_000, ..size(5_000, 5_000, 50_000) },
        node: |number, _| node(number, &large()),
        pod: basic,
        ..PLAIN
    };
    [
        Workload {
            id: "W15-20k",
            about: "the same in a cluster of 20,000 nodes",
            size: Size { nodes: 20_000, ..templates.size },
            ..templates
        },
        Workload {
            id: "W15-new",
            about: "pods of unseen signatures",
            size: Size { signatures: 1_000_000, pods: 5_000, ..templates.size },
            ..templates
        },
        templates,
    ]
}

fn starting() -> [Workload; 3] {
    let start = Workload {
        id: "W16",
        about: "startup with 140,000 running pods and one pending pod",
        size: size(5_000, 140_000, 1),
        activity: Activity::Start,
        node: |number, _| node(number, &large()),
        pod: |number, _| served(number, 100),
        ..PLAIN
    };
    [
        Workload {
            id: "W16-100k",
            about: "the same with 100,000 nodes and 1,000,000 pods",
            size: size(100_000, 1_000_000, 1),
            ..start
        },
        start,
        Workload {
            id: "W17",
            about: "every 20 pods, a node is deleted, one is added, and one moves to another zone",
            size: size(5_000, 5_000, 2_000),
            activity: Activity::NodeChurn,
            ..PLAIN
        },
    ]
}
