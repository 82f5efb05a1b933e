//! Moves pods until no node has more requests, no workload more skew, and no resource more fragments than a bound
//! allows.
//!
//! Fragments come first, node by node. Then each step takes the move that lowers the excess most. A pod goes where the
//! scheduler decides; if that is its own node, it is not moved.

use super::answer::{Excess, RebalancePlan};
use super::candidates::Nodes;
use super::defragment::Fragments;
use super::movable::{Accepted, Fate, Resident, residents};
use super::passes::Planner;
use super::steps::{Certainty, Step};
use crate::cluster::{Cluster, ClusterError};
use std::collections::{BTreeMap, BTreeSet};
use supercargo_core::cache::Snapshot;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::node_set::NodeSet;

/// What a rebalanced cluster must not exceed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The share of a node's allocatable CPU and memory that its pods may request, in percent.
    pub requested_percent: Option<u32>,
    /// A topology key, and by how much the numbers of a workload's pods may differ between its domains.
    pub skew: Option<(String, u32)>,
    /// An extended resource, and the share of its free amount, in percent, that may be on nodes with pods that use it.
    pub fragmented: Option<(String, u32)>,
}

/// A part of the cluster that may exceed a bound.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Node(NodeIdx),
    /// The pods of an owner, by namespace, kind and name.
    Workload(Symbol, String),
    /// The extended resource whose fragments are bounded.
    Resource,
}

/// Plans how to bring a cluster below bounds. The cluster stays as it is.
///
/// # Errors
/// Fails if no node has the topology key or the resource of a bound.
pub fn rebalance(
    cluster: &mut Cluster,
    bounds: &Bounds,
    accepted: Accepted,
) -> Result<RebalancePlan, ClusterError> {
    let pods = residents(cluster, accepted);
    let nodes = Nodes::of(cluster.trial().snapshot(), &pods, None);
    let planner = Planner::new(cluster, &pods, &nodes);
    let start = planner.trial.mark();
    let mut search = Search::new(planner, bounds)?;
    let before = search.excesses();
    let (mut steps, cordoned) = search.defragment();
    steps.extend(search.run(&steps));
    let after = search.excesses();
    let trial = cluster.trial_mut();
    trial.roll_back_to(start);
    trial.refreshed();
    let moves =
        steps.iter().zip(1..).map(|(step, number)| step.shown(cluster.trial(), &pods, number)).collect();
    let name = |node: &Symbol| cluster.trial().tables().text(*node).to_owned();
    let mut cordoned: Vec<String> = cordoned.iter().map(name).collect();
    cordoned.sort_unstable();
    Ok(RebalancePlan::new(cordoned, moves, before, after))
}

struct Search<'a> {
    planner: Planner<'a>,
    bounds: &'a Bounds,
    /// The number of pods of each workload in each domain.
    counts: BTreeMap<Part, BTreeMap<Symbol, i64>>,
    /// The domains of nodes that accept pods.
    domains: BTreeSet<Symbol>,
    key: Option<Symbol>,
    fragments: Option<Fragments>,
}

impl<'a> Search<'a> {
    fn new(planner: Planner<'a>, bounds: &'a Bounds) -> Result<Self, ClusterError> {
        let snapshot = planner.trial.snapshot();
        let key = bounds.skew.as_ref().map(|(key, _)| key_of(snapshot, key)).transpose()?;
        let fragments = bounds.fragmented.as_ref().map(|(name, percent)| {
            let none = || ClusterError::Invalid(format!("no node has the extended resource {name}"));
            Fragments::new(snapshot, name, *percent).ok_or_else(none)
        });
        let fragments = fragments.transpose()?;
        let open = snapshot.nodes().iter().filter(|node| !snapshot.cordoned_nodes().contains(*node));
        let domains = key.map(|key| open.filter_map(|node| snapshot.node_labels(node).get(key)).collect());
        let domains = domains.unwrap_or_default();
        let mut search = Self { planner, bounds, counts: BTreeMap::new(), domains, key, fragments };
        for pod in search.planner.pods.iter().filter(|pod| pod.fate != Fate::Stays) {
            let Some(domain) = search.domain(pod.node) else { continue };
            *search.counts.entry(workload(pod)).or_default().entry(domain).or_default() += 1;
        }
        Ok(search)
    }

    /// Moves pods off nodes with fragments. Returns the steps, and the nodes that are cordoned from the first step on.
    fn defragment(&mut self) -> (Vec<Step>, BTreeSet<Symbol>) {
        let Some(fragments) = &self.fragments else { return Default::default() };
        let (steps, cordoned) = fragments.lower(&mut self.planner);
        steps.iter().for_each(|step| self.count(step));
        (steps, cordoned)
    }

    fn domain(&self, node: Symbol) -> Option<Symbol> {
        let snapshot = self.planner.trial.snapshot();
        let node = snapshot.find_node(node)?;
        snapshot.node_labels(node).get(self.key?)
    }

    /// Moves pods, after those of `earlier` steps, until nothing exceeds a bound or no move helps. Returns the steps.
    fn run(&mut self, earlier: &[Step]) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut moved: BTreeSet<usize> = earlier.iter().map(|step| step.pod).collect();
        // What is left in fragments cannot be helped.
        let mut stuck: BTreeSet<Part> = [Part::Resource].into();
        while let Some(part) = self.worst(&stuck) {
            match self.best_move(&part, &moved) {
                Some(at) => {
                    // The same step was possible before, unless the time is over now.
                    let Some(step) = self.step(at) else { break };
                    self.count(&step);
                    moved.insert(at);
                    steps.push(step);
                    // A move elsewhere may let others move.
                    stuck.retain(|part| *part == Part::Resource);
                }
                None => drop(stuck.insert(part)),
            }
        }
        steps
    }

    fn step(&mut self, at: usize) -> Option<Step> {
        let own = self.planner.trial.snapshot().find_node(self.planner.pods[at].node)?;
        let avoided: NodeSet = [own].into_iter().collect();
        self.planner.step(at, &avoided, Certainty::Certain, false).ok()
    }

    fn count(&mut self, step: &Step) {
        let (from, to) = (self.domain(step.from), self.domain(step.to));
        let counts = self.counts.entry(workload(&self.planner.pods[step.pod])).or_default();
        if let Some(from) = from {
            *counts.entry(from).or_default() -= 1;
        }
        if let Some(to) = to {
            *counts.entry(to).or_default() += 1;
        }
    }

    /// Returns the part that exceeds its bound most.
    fn worst(&self, stuck: &BTreeSet<Part>) -> Option<Part> {
        let parts = self.parts().filter(|part| !stuck.contains(part));
        let exceeding = parts.map(|part| (self.excess(&part), part)).filter(|(excess, _)| *excess > 0);
        exceeding.max_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.cmp(&a.1))).map(|(_, part)| part)
    }

    fn parts(&self) -> impl Iterator<Item = Part> {
        let nodes = self.planner.trial.snapshot().nodes().iter().map(Part::Node);
        nodes.chain(self.counts.keys().cloned()).chain(self.fragments.as_ref().map(|_| Part::Resource))
    }

    /// Returns by how much a part exceeds its bound: in millionths of a node, or in pods times a million.
    fn excess(&self, part: &Part) -> i64 {
        match part {
            Part::Node(node) => {
                let Some(percent) = self.bounds.requested_percent else { return 0 };
                let over = |share: i64| (share - i64::from(percent) * 10_000).max(0);
                let [cpu, memory] = shares(self.planner.trial.snapshot(), *node);
                over(cpu) + over(memory)
            }
            Part::Workload(..) => {
                let Some((_, bound)) = self.bounds.skew else { return 0 };
                (self.skew(part) - i64::from(bound)).max(0) * 1_000_000
            }
            Part::Resource => {
                let excess = |it: &Fragments| it.excess(self.planner.trial.snapshot());
                self.fragments.as_ref().map_or(0, excess)
            }
        }
    }

    fn skew(&self, part: &Part) -> i64 {
        let Some(counts) = self.counts.get(part) else { return 0 };
        let of = |domain: &Symbol| counts.get(domain).copied().unwrap_or(0);
        let most = counts.values().copied().max().unwrap_or(0);
        most - self.domains.iter().map(of).min().unwrap_or(most)
    }

    /// Returns the pod of the part whose move lowers the total excess most.
    fn best_move(&mut self, part: &Part, moved: &BTreeSet<usize>) -> Option<usize> {
        let mut best: Option<(i64, usize)> = None;
        for at in self.of_part(part).into_iter().filter(|at| !moved.contains(at)) {
            let mark = self.planner.trial.mark();
            let workload = workload(&self.planner.pods[at]);
            let skew = self.excess(&workload);
            let from = self.planner.trial.snapshot().find_node(self.planner.pods[at].node)?;
            let hot_from = self.excess(&Part::Node(from));
            if let Some(step) = self.step(at) {
                let to = self.planner.trial.snapshot().find_node(step.to)?;
                let after = self.excess(&Part::Node(from)) + self.excess(&Part::Node(to));
                let counts = self.counts.get(&workload).cloned();
                self.count(&step);
                let skew_after = self.excess(&workload);
                match counts {
                    Some(before) => self.counts.insert(workload.clone(), before),
                    None => self.counts.remove(&workload),
                };
                self.planner.trial.roll_back_to(mark);
                let hot_to = self.excess(&Part::Node(to));
                let change = after - hot_from - hot_to + skew_after - skew;
                if change < 0 && best.is_none_or(|(least, _)| change < least) {
                    best = Some((change, at));
                }
            }
        }
        best.map(|(_, at)| at)
    }

    /// Returns the pods that may move and whose departure can lower the excess of the part.
    fn of_part(&self, part: &Part) -> Vec<usize> {
        let snapshot = self.planner.trial.snapshot();
        match part {
            Part::Node(node) => {
                self.planner.on.get(&snapshot.node_info(*node).name).cloned().unwrap_or_default()
            }
            Part::Workload(..) => {
                let counts = &self.counts[part];
                let most = counts.values().copied().max().unwrap_or(0);
                let is_full = |node| self.domain(node).is_some_and(|it| counts.get(&it) == Some(&most));
                let all =
                    self.planner.on.iter().filter(|(node, _)| is_full(**node)).flat_map(|(_, pods)| pods);
                all.copied().filter(|&at| workload(&self.planner.pods[at]) == *part).collect()
            }
            Part::Resource => Vec::new(),
        }
    }

    /// Words what exceeds a bound.
    fn excesses(&self) -> Vec<Excess> {
        let snapshot = self.planner.trial.snapshot();
        let exceeding = self.parts().filter(|part| self.excess(part) > 0);
        let mut all: Vec<Excess> = exceeding
            .map(|part| match &part {
                Part::Node(node) => {
                    let [cpu, memory] = shares(snapshot, *node).map(|share| share / 10_000);
                    let subject = format!("node {}", snapshot.text(snapshot.node_info(*node).name));
                    Excess {
                        subject,
                        text: format!("{cpu} % of its cpu and {memory} % of its memory requested"),
                    }
                }
                Part::Workload(namespace, owner) => {
                    let subject = format!("{owner} in {}", snapshot.text(*namespace));
                    Excess { subject, text: format!("skew {}", self.skew(&part)) }
                }
                Part::Resource => {
                    let fragments = self.fragments.as_ref().expect("it is a part only with a bound");
                    let (free, name) = (fragments.free(snapshot), snapshot.text(fragments.resource));
                    let text = format!(
                        "{} % of the free amount, {} of {}, on nodes with pods that use it",
                        free.share() / 10_000,
                        free.fragmented,
                        free.all
                    );
                    Excess { subject: format!("resource {name}"), text }
                }
            })
            .collect();
        all.sort();
        all
    }
}

/// Returns a topology key that some node has.
fn key_of(snapshot: Snapshot<'_>, key: &str) -> Result<Symbol, ClusterError> {
    let has =
        |found: &Symbol| snapshot.nodes().iter().any(|it| snapshot.node_labels(it).get(*found).is_some());
    let none = || ClusterError::Invalid(format!("no node has the label {key}"));
    snapshot.tables().find(key).filter(has).ok_or_else(none)
}

fn workload(pod: &Resident) -> Part {
    Part::Workload(pod.pod.namespace, pod.owner.clone())
}

/// Returns the requested shares of a node's CPU and memory, in millionths.
fn shares(snapshot: Snapshot<'_>, node: NodeIdx) -> [i64; 2] {
    let (allocatable, requested) = (&snapshot.node_info(node).allocatable, snapshot.requested(node));
    let of = |amount: i64, all: i64| {
        let share = i128::from(amount) * 1_000_000 / i128::from(all.max(1));
        i64::try_from(share).unwrap_or(i64::MAX / 4)
    };
    [of(requested.cpu_milli, allocatable.cpu_milli), of(requested.memory, allocatable.memory)]
}
