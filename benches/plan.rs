//! Times `plan free-nodes --all-possible`, and compares it with rules of other programs, as their documentation
//! describes them and re-implemented here on the same engine.
//!
//! ```text
//! cargo bench --bench plan -- [--nodes 5000] [--pods 50000]
//! ```
//!
//! Each rule starts from the same cluster. The scheduler places the pods, so differences are those of the rules:
//!
//! - *drain in order*: nodes with the fewest pods first. A node is emptied if all of its pods get another place.
//! - *multi-node consolidation* (Karpenter, "Disruption"): of at most 100 nodes with the lowest disruption cost, here
//!   the number of pods, the largest first part whose pods all fit elsewhere, found by binary search. It is repeated
//!   until it finds nothing, for at most a minute. Its replacement by a cheaper node is left out.
//! - *HighNodeUtilization* (descheduler): evicts the pods of nodes below 20 % of CPU, memory and pods if another node
//!   has room for the pod, and deducts nothing for the pods evicted before.
//!
//! Prints a table without thresholds. Requires Linux for CPU time.

use clap::Parser;
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};
use supercargo_dev::draw::Draw;
use supercargo_whatif::cluster::{Cluster, Setup};
use supercargo_whatif::plan::{Accepted, Goal, free_nodes};

/// Number of candidates of multi-node consolidation, and its time limit.
const CANDIDATES_MAX: usize = 100;
const CONSOLIDATION_MAX: Duration = Duration::from_secs(60);
/// Share of each resource, in percent, below which HighNodeUtilization empties a node.
const UNDERUSED: i64 = 20;
/// Amounts of a node: CPU in thousandths, memory in MiB, pods.
const NODE: [i64; 3] = [16_000, 65_536, 110];
/// Requests of CPU and memory that pods draw from.
const CPU: [i64; 6] = [100, 250, 500, 500, 1_000, 2_000];
const MEMORY: [i64; 5] = [256, 512, 1_024, 2_048, 4_096];
/// Number of pods of a workload.
const REPLICAS: usize = 25;

#[derive(Parser)]
#[command(name = "plan", about = "Times plans, and compares them with other rules")]
struct Args {
    /// Number of nodes
    #[arg(long, default_value_t = 5_000)]
    nodes: usize,
    /// Number of pods
    #[arg(long, default_value_t = 50_000)]
    pods: usize,
    /// Accepted and ignored: cargo passes it
    #[arg(long, hide = true)]
    bench: bool,
}

/// The same objects as a cluster, with what the rules read.
struct World {
    objects: Vec<Value>,
    /// The pods of each node, with CPU and memory.
    pods: BTreeMap<String, Vec<(String, [i64; 3])>>,
}

impl World {
    /// Draws workloads of pods that differ in size and rules, on nodes that are filled to a varying degree.
    fn new(nodes: usize, pods: usize) -> Self {
        let mut random = Draw::new(7, 0);
        let name = |at: usize| format!("n{at:05}");
        let mut objects: Vec<Value> = (0..nodes).map(|at| node(&name(at), at % 3)).collect();
        let mut on: BTreeMap<String, Vec<(String, [i64; 3])>> =
            (0..nodes).map(|at| (name(at), Vec::new())).collect();
        // Some nodes are chosen ten times as often as others.
        let weights: Vec<usize> = (0..nodes).map(|_| 1 + random.below(10)).collect();
        let wheel: Vec<usize> = (0..nodes).flat_map(|at| std::iter::repeat_n(at, weights[at])).collect();
        let mut used = vec![[0_i64; 3]; nodes];
        let mut workload = (0, [0, 0, 1], 0);
        for at in 0..pods {
            if at % REPLICAS == 0 {
                let request = [CPU[random.below(CPU.len())], MEMORY[random.below(MEMORY.len())], 1];
                workload = (at / REPLICAS, request, random.below(10));
            }
            let (owner, request, rule) = workload;
            let fits =
                |node: usize, used: &[[i64; 3]]| (0..3).all(|it| used[node][it] + request[it] <= NODE[it]);
            let mut chosen = wheel[random.below(wheel.len())];
            while !fits(chosen, &used) {
                chosen = random.below(nodes);
            }
            (0..3).for_each(|it| used[chosen][it] += request[it]);
            let pod = format!("w{owner}-{at}");
            objects.push(running(&pod, &format!("w{owner}"), &name(chosen), request, rule));
            on.get_mut(&name(chosen)).expect("it is a node").push((format!("default/{pod}"), request));
        }
        Self { objects, pods: on }
    }

    fn cluster(&self) -> Cluster {
        let setup = Setup { as_written: true, ..Setup::default() };
        Cluster::from_objects(self.objects.clone(), &setup).expect("the objects are valid")
    }

    /// Returns the nodes with pods, those with the fewest first.
    fn by_pods(&self) -> Vec<&str> {
        let mut nodes: Vec<(usize, &str)> =
            self.pods.iter().map(|(node, pods)| (pods.len(), node.as_str())).collect();
        nodes.sort_unstable();
        nodes.into_iter().filter(|(pods, _)| *pods > 0).map(|(_, node)| node).collect()
    }
}

fn node(name: &str, zone: usize) -> Value {
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("z{zone}")});
    let [cpu, memory, pods] = NODE;
    let amounts =
        json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi"), "pods": pods.to_string()});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts}})
}

fn running(name: &str, owner: &str, node: &str, [cpu, memory, _]: [i64; 3], rule: usize) -> Value {
    let selector = json!({"matchLabels": {"app": owner}});
    let term = json!({"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"});
    let mut spec = json!({
        "nodeName": node,
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}}}],
    });
    match rule {
        0 => {
            let preferred = json!([{"weight": 50, "podAffinityTerm": term}]);
            spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
                preferred;
        }
        1 => {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selector,
            }]);
        }
        2 => spec["nodeSelector"] = json!({"topology.kubernetes.io/zone": "z1"}),
        _ => {}
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "labels": {"app": owner},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}],
        },
        "spec": spec,
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// What a rule achieves.
struct Outcome {
    freed: usize,
    evictions: usize,
    /// Displaced pods without a place.
    pending: usize,
}

fn planner(world: &World, cluster: &mut Cluster) -> Outcome {
    let plan = free_nodes(cluster, &Goal::All, Accepted::default()).expect("no node is named");
    let empty = world.pods.values().filter(|pods| pods.is_empty()).count();
    Outcome { freed: plan.freed.len() - empty, evictions: plan.moves.len(), pending: 0 }
}

/// Removes nodes in a transaction. Returns the number of displaced pods, or undoes it if one of them has no place.
fn emptied(cluster: &mut Cluster, nodes: &[&str]) -> Option<usize> {
    cluster.fork();
    let removed = nodes.iter().map(|node| cluster.remove_node(node).expect("it exists").len()).sum();
    let fits = cluster.place_pending().iter().all(|placed| placed.node.is_some());
    let ended = if fits { cluster.commit() } else { cluster.undo().map(drop) };
    ended.expect("a transaction is open");
    fits.then_some(removed)
}

fn drain_in_order(world: &World, cluster: &mut Cluster) -> Outcome {
    let mut outcome = Outcome { freed: 0, evictions: 0, pending: 0 };
    for node in world.by_pods() {
        if let Some(evictions) = emptied(cluster, &[node]) {
            outcome.freed += 1;
            outcome.evictions += evictions;
        }
    }
    outcome
}

fn consolidation(world: &World, cluster: &mut Cluster) -> Outcome {
    let mut outcome = Outcome { freed: 0, evictions: 0, pending: 0 };
    let mut candidates = world.by_pods();
    let began = Instant::now();
    loop {
        let most = candidates.len().min(CANDIDATES_MAX);
        let (mut low, mut high, mut found) = (1, most, 0);
        while low <= high && began.elapsed() < CONSOLIDATION_MAX {
            let middle = usize::midpoint(low, high);
            cluster.fork();
            let fits = emptied(cluster, &candidates[..middle]).is_some();
            cluster.undo().expect("a transaction is open");
            if fits {
                (found, low) = (middle, middle + 1);
            } else {
                high = middle - 1;
            }
        }
        if found == 0 {
            return outcome;
        }
        outcome.evictions += emptied(cluster, &candidates[..found]).unwrap_or_default();
        outcome.freed += found;
        candidates.drain(..found);
    }
}

fn high_node_utilization(world: &World, cluster: &mut Cluster) -> Outcome {
    let mut used: BTreeMap<&str, [i64; 3]> = BTreeMap::new();
    for (node, pods) in &world.pods {
        let sum =
            pods.iter().fold([0; 3], |sum, (_, request)| std::array::from_fn(|it| sum[it] + request[it]));
        used.insert(node, sum);
    }
    let is_underused = |used: &[i64; 3]| (0..3).all(|it| used[it] * 100 < UNDERUSED * NODE[it]);
    let (under, targets): (Vec<_>, Vec<_>) = used.iter().partition(|(_, used)| is_underused(used));
    let mut evictions = 0;
    for (node, _) in &under {
        for (pod, request) in &world.pods[**node] {
            let fits = |used: &[i64; 3]| (0..3).all(|it| used[it] + request[it] <= NODE[it]);
            if targets.iter().any(|(_, used)| fits(used)) {
                cluster.evict(pod).expect("it is on a node");
                evictions += 1;
            }
        }
    }
    let placed = cluster.place_pending();
    let pending = placed.iter().filter(|placed| placed.node.is_none()).count();
    let taken: std::collections::BTreeSet<&str> =
        placed.iter().filter_map(|placed| placed.node.as_deref()).collect();
    let is_freed = |node: &str| {
        let had = &world.pods[node];
        let stays = had.iter().any(|(pod, _)| cluster.node_of(pod) == Some(node));
        !had.is_empty() && !taken.contains(node) && !stays
    };
    let freed = under.iter().filter(|(node, _)| is_freed(node)).count();
    Outcome { freed, evictions, pending }
}

fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux has this clock").into()
}

type Rule = fn(&World, &mut Cluster) -> Outcome;

fn main() -> io::Result<()> {
    let args = Args::parse();
    let world = World::new(args.nodes, args.pods);
    let mut out = io::stdout().lock();
    let used = world.pods.values().filter(|pods| !pods.is_empty()).count();
    writeln!(out, "{} nodes, {used} of them with pods; {} pods\n", args.nodes, args.pods)?;
    writeln!(out, "| Rule | Nodes freed | Evictions | Pods without a place | Wall s | CPU s |")?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    let rules: [(&str, Rule); 4] = [
        ("`plan free-nodes --all-possible`", planner),
        ("drain in order", drain_in_order),
        ("multi-node consolidation", consolidation),
        ("HighNodeUtilization", high_node_utilization),
    ];
    for (name, rule) in rules {
        let mut cluster = world.cluster();
        let (began, before) = (Instant::now(), cpu());
        let Outcome { freed, evictions, pending } = rule(&world, &mut cluster);
        let (wall, cpu) = (began.elapsed().as_secs_f64(), (cpu() - before).as_secs_f64());
        writeln!(out, "| {name} | {freed} | {evictions} | {pending} | {wall:.1} | {cpu:.1} |")?;
        out.flush()?;
    }
    Ok(())
}
