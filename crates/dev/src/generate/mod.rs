//! Generates scenarios: small clusters, and some of up to 200 nodes, biased to error-prone cases.
//!
//! Names, labels, amounts and ports come from small pools, so that they interact: pods that fit exactly, tied scores,
//! matching selectors. Objects are what an API server would store or, rarely, reject; they always decode.

mod affinity;
mod amounts;
mod configuration;
mod contest;
mod devices;
mod images;
mod in_tree;
mod lookups;
mod nodes;
mod pods;
mod selectors;
mod spread;
mod taints;
mod volumes;

use crate::draw::Draw;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Topology keys of spreading and affinity.
const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

const NAMESPACES: &[&str] = &["default", "team-a", "team-b"];

/// How often, in percent, a pod, node or cluster has a feature.
#[derive(Clone, Copy, Default)]
struct Mix {
    /// More than simple requests: sidecars, overhead, pod-level requests, resizes, extended resources.
    resources: usize,
    node_affinity: usize,
    taints: usize,
    ports: usize,
    pod_affinity: usize,
    spread: usize,
    /// Services and controllers that own pods.
    owners: usize,
    images: usize,
    /// Pending pods with a nominated node.
    nominated: usize,
    /// Running pods that are terminating or terminal.
    leaving: usize,
    /// Pods that mount volumes.
    volumes: usize,
    /// Clusters with devices, and pods that claim them.
    devices: usize,
    /// Features a node must declare.
    features: usize,
    /// Clusters in which pods of higher priority do not fit.
    contest: usize,
    /// Clusters with a configuration.
    configuration: usize,
    /// Fields that an API server would reject.
    odd: usize,
    /// Clusters with enough nodes to be evaluated in blocks.
    many: usize,
    /// Terms and constraints on the label `rack`, and clusters with many racks of a few nodes each.
    racks: usize,
    /// Pods to place that repeat an earlier one, so that its signature is decided again in a changed cluster.
    repeated: usize,
}

/// A family of scenarios.
#[derive(Clone, Copy)]
pub struct Family {
    pub name: &'static str,
    mix: Mix,
}

/// Low rates of everything, so that each family also covers features beyond its focus.
const LITTLE: Mix = Mix {
    resources: 4,
    node_affinity: 3,
    taints: 3,
    ports: 2,
    pod_affinity: 3,
    spread: 3,
    owners: 3,
    images: 5,
    nominated: 3,
    leaving: 3,
    volumes: 0,
    devices: 0,
    features: 2,
    contest: 0,
    configuration: 0,
    odd: 1,
    many: 0,
    racks: 0,
    repeated: 10,
};

/// Medium rates of features that most clusters have.
const MIXED: Mix = Mix {
    resources: 35,
    node_affinity: 30,
    taints: 30,
    ports: 20,
    pod_affinity: 30,
    spread: 30,
    owners: 30,
    images: 40,
    nominated: 15,
    leaving: 10,
    ..LITTLE
};

/// All families.
pub const FAMILIES: &[Family] = &[
    Family { name: "resources", mix: Mix { resources: 80, nominated: 10, leaving: 8, odd: 4, ..LITTLE } },
    Family { name: "node-affinity", mix: Mix { node_affinity: 85, odd: 8, ..LITTLE } },
    Family { name: "taints", mix: Mix { taints: 85, odd: 5, ..LITTLE } },
    Family { name: "ports", mix: Mix { ports: 80, nominated: 10, odd: 4, ..LITTLE } },
    Family {
        name: "pod-affinity",
        mix: Mix { pod_affinity: 75, nominated: 10, leaving: 8, odd: 5, ..LITTLE },
    },
    Family {
        name: "spread",
        mix: Mix { spread: 85, taints: 35, node_affinity: 35, nominated: 10, leaving: 15, odd: 5, ..LITTLE },
    },
    Family { name: "spread-default", mix: Mix { owners: 80, leaving: 10, odd: 5, spread: 5, ..LITTLE } },
    Family { name: "images", mix: Mix { images: 95, ..LITTLE } },
    Family {
        name: "nominated",
        mix: Mix { nominated: 90, pod_affinity: 35, spread: 35, ports: 25, resources: 25, ..LITTLE },
    },
    Family { name: "mixed", mix: MIXED },
    Family { name: "volumes", mix: Mix { volumes: 70, odd: 2, ..LITTLE } },
    Family { name: "devices", mix: Mix { devices: 100, resources: 15, odd: 0, ..LITTLE } },
    Family { name: "devices-mix", mix: Mix { devices: 100, contest: 30, configuration: 25, ..MIXED } },
    Family { name: "configuration", mix: Mix { configuration: 100, ..MIXED } },
    Family { name: "preemption", mix: Mix { contest: 100, odd: 0, ..LITTLE } },
    Family { name: "preemption-mix", mix: Mix { contest: 100, ..MIXED } },
    Family {
        name: "everything",
        mix: Mix { contest: 40, configuration: 40, volumes: 25, features: 10, ..MIXED },
    },
    Family { name: "many-nodes", mix: Mix { many: 100, resources: 50, configuration: 30, ..MIXED } },
    Family {
        name: "many-domains",
        mix: Mix { many: 100, racks: 60, repeated: 50, pod_affinity: 40, spread: 40, leaving: 8, ..LITTLE },
    },
];

/// The size of a cluster.
#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    /// Number of values of the label `rack`.
    racks: usize,
    /// Whether pods of higher priority do not fit.
    contest: bool,
}

/// Returns scenario `number` of the run with this seed. Families alternate.
pub fn scenario(families: &[Family], seed: u64, number: u64) -> Value {
    let count = u64::try_from(families.len()).expect("a usize fits");
    let family = families[usize::try_from(number % count).expect("it is below a usize")];
    let draw = &mut Draw::new(seed, number);
    let mix = family.mix;
    let nodes = if mix.many > 0 && draw.percent(mix.many) {
        draw.between(60, 200)
    } else {
        draw.weighted(&[(5, 1), (10, 2), (3, 3), (3, 4), (3, 5), (2, 6), (2, 8)])
    };
    let contest = draw.percent(mix.contest);
    let mut objects = lookups::namespaces(draw);
    let racks = racks(draw, mix, nodes);
    let size = Size { nodes, racks, contest };
    let mut cluster: Vec<Value> = (0..nodes).map(|index| nodes::node(draw, mix, index, size)).collect();
    // In the API server's list order: of errors on several nodes, the first node's is reported.
    cluster.sort_by(|a, b| a["metadata"]["name"].as_str().cmp(&b["metadata"]["name"].as_str()));
    objects.extend(cluster);
    objects.extend(lookups::services_and_controllers(draw, mix));
    if mix.volumes > 0 {
        objects.extend(volumes::objects(draw, mix, nodes));
    }
    if mix.devices > 0 {
        objects.extend(devices::objects(draw, nodes));
    }
    let running = match (contest, mix.many) {
        (true, _) => draw.between(6, 20),
        (false, 0) => draw.below(21),
        (false, _) => draw.below(2 * nodes),
    };
    let mut pods: Vec<_> = (0..running).map(|index| pods::running(draw, mix, index, nodes)).collect();
    if contest {
        pods.iter_mut().for_each(|pod| contest::running(draw, pod));
        objects.extend(contest::budgets(draw, mix));
    }
    if draw.percent(mix.nominated) {
        let count = draw.between(1, 3);
        pods.extend((0..count).map(|index| pods::nominated(draw, mix, index, nodes)));
    }
    let count = draw.between(1, 6);
    let mut incoming: Vec<_> = (0..count).map(|index| pods::incoming(draw, mix, index)).collect();
    if contest {
        incoming.iter_mut().for_each(|pod| contest::incoming(draw, pod, nodes));
    }
    repeat_some(draw, mix, &mut incoming);
    for pod in pods.iter_mut().chain(&mut incoming) {
        if draw.percent(mix.volumes) {
            objects.extend(volumes::mount(draw, mix, pod));
        }
    }
    objects.extend(pods);
    let mut scenario = json!({
        "name": format!("{}-{seed}-{number}", family.name),
        "kind": family.name,
        "objects": objects,
        "pods": incoming,
    });
    if draw.percent(mix.configuration) {
        scenario["config"] = configuration::configuration(draw);
    }
    if mix.devices > 0 && draw.percent(mix.devices) {
        devices::claim(draw, &mut scenario, size);
    }
    if draw.percent(50) {
        let detour = detour(draw, mix, size, objects_of(&scenario));
        scenario["detour"] = detour;
    }
    scenario
}

fn objects_of(scenario: &Value) -> &[Value] {
    scenario["objects"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns other versions of some objects, perhaps more pods, and perhaps a deleted node. Before each decision, our
/// side changes the objects and changes them back, so that cached decisions must follow. The oracle does not read this.
fn detour(draw: &mut Draw, mix: Mix, size: Size, objects: &[Value]) -> Value {
    let mut others = lookups::namespaces(draw);
    others.extend(lookups::services_and_controllers(draw, mix));
    others.extend((0..size.nodes).map(|index| {
        let mut node = nodes::node(draw, mix, index, size);
        // Of many racks, a node's own follows from its index; here it moves to another one, perhaps a new one.
        if size.racks > 3 && draw.percent(60) {
            node["metadata"]["labels"]["rack"] = format!("k{}", draw.below(size.racks + 1)).into();
        }
        node
    }));
    // Nodes that move to another rack, with their pods and without any other change.
    for node in objects.iter().filter(|object| object["kind"] == "Node" && size.racks > 3) {
        if draw.percent(mix.racks) {
            let mut node = node.clone();
            node["metadata"]["labels"]["rack"] = format!("k{}", draw.below(size.racks + 1)).into();
            others.push(node);
        }
    }
    if mix.volumes > 0 {
        others.extend(volumes::objects(draw, mix, size.nodes));
    }
    if mix.devices > 0 {
        others.extend(devices::others(draw, objects, size.nodes));
    }
    if size.contest {
        others.extend(contest::budgets(draw, mix));
    }
    others.extend((0..20).map(|index| pods::running(draw, mix, index, size.nodes)));
    others.extend((0..3).map(|index| pods::nominated(draw, mix, index, size.nodes)));
    others.iter_mut().for_each(|other| keep_identity(other, objects));
    let key = |object: &Value| {
        let of = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        (object["kind"].as_str().unwrap_or_default().to_owned(), of("namespace"), of("name"))
    };
    let exist: BTreeSet<_> = objects.iter().map(key).collect();
    let mut by_kind: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for other in others.into_iter().filter(|other| other["kind"] == "Pod" || exist.contains(&key(other))) {
        by_kind.entry(key(&other).0).or_default().push(other);
    }
    let mut kinds: Vec<Vec<Value>> = by_kind.into_values().collect();
    let count = draw.between(1, 4);
    // A node that runs pods matters more often: they leave its domains with it.
    let hosts: BTreeSet<&str> =
        objects.iter().filter_map(|object| object["spec"]["nodeName"].as_str()).collect();
    let is_host = |object: &Value| {
        object["kind"] == "Node"
            && object["metadata"]["name"].as_str().is_some_and(|name| hosts.contains(name))
    };
    let picked = draw.list(count, |draw| {
        let kind = draw.below(kinds.len());
        let of_kind = &mut kinds[kind];
        if of_kind.is_empty() {
            return None;
        }
        let from = draw.below(of_kind.len());
        let wants_host = of_kind[from]["kind"] == "Node" && draw.percent(70);
        let host = (from..of_kind.len()).chain(0..from).find(|&at| wants_host && is_host(&of_kind[at]));
        Some(of_kind.swap_remove(host.unwrap_or(from)))
    });
    let deleted = deleted_nodes(draw, objects);
    picked.into_iter().flatten().chain(deleted).collect()
}

/// Returns nodes that a detour deletes. The cluster keeps the size of an image that it saw first, so that nodes with
/// images stay.
fn deleted_nodes(draw: &mut Draw, objects: &[Value]) -> Vec<Value> {
    let has_images =
        |node: &Value| node["status"]["images"].as_array().is_some_and(|images| !images.is_empty());
    let nodes = objects.iter().filter(|object| object["kind"] == "Node" && !has_images(object));
    let names: Vec<&Value> = nodes.map(|node| &node["metadata"]["name"]).collect();
    if names.is_empty() || !draw.percent(30) {
        return Vec::new();
    }
    let name = names[draw.below(names.len())];
    vec![json!({ "kind": "Node", "metadata": { "name": name }, "deleted": true })]
}

/// Gives another version of an object what cannot change and be changed back: a pod's namespace, because its UID
/// follows from its name, and a node's images, because the cluster keeps the size that it saw first.
fn keep_identity(other: &mut Value, objects: &[Value]) {
    let name = &other["metadata"]["name"];
    let own = objects.iter().find(|own| own["kind"] == other["kind"] && own["metadata"]["name"] == *name);
    match own {
        Some(own) if own["kind"] == "Pod" => {
            other["metadata"]["namespace"] = own["metadata"]["namespace"].clone();
        }
        Some(own) if own["kind"] == "Node" => other["status"]["images"] = own["status"]["images"].clone(),
        _ => {}
    }
}

/// Returns a number of racks. Up to 64 domains are tracked individually; a rack has 1, 2, 3 or many nodes.
fn racks(draw: &mut Draw, mix: Mix, nodes: usize) -> usize {
    if nodes < 60 {
        [1, 2, 3, nodes][draw.below(4)]
    } else if draw.percent(mix.racks) {
        [65, 66, nodes / 3, nodes / 2, nodes][draw.below(5)]
    } else {
        [1, 2, 3, 63, 64, 65, 66, nodes / 3, nodes / 2, nodes][draw.below(10)]
    }
}

/// Replaces some of the pods by copies of earlier ones, with their own name and UID.
fn repeat_some(draw: &mut Draw, mix: Mix, pods: &mut [Value]) {
    for index in 1..pods.len() {
        if draw.percent(mix.repeated) {
            let [name, uid] = ["name", "uid"].map(|field| pods[index]["metadata"][field].take());
            pods[index] = pods[draw.below(index)].clone();
            pods[index]["metadata"]["name"] = name;
            pods[index]["metadata"]["uid"] = uid;
        }
    }
}

/// Returns a topology key.
fn topology_key(draw: &mut Draw, mix: Mix) -> &'static str {
    if draw.percent(mix.racks) {
        return "rack";
    }
    draw.weighted(&[(5, ZONE), (5, HOST), (1, REGION), (2, "rack"), (1, "none")])
}

/// Returns the name of a node, rarely of a missing one.
fn node_name(draw: &mut Draw, nodes: usize) -> String {
    let index = if draw.percent(3) { nodes } else { draw.below(nodes) };
    format!("n{index}")
}
