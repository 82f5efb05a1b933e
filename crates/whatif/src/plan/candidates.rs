//! The nodes that may be emptied, in the order in which they are tried.

use super::answer::{Blocker, KeptNode};
use super::movable::{Fate, Resident, share};
use std::collections::BTreeMap;
use supercargo_core::cache::Snapshot;
use supercargo_core::model::intern::Symbol;

/// The label of control plane nodes.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// A node that may be emptied.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) node: Symbol,
    pub(super) name: String,
    /// The positions of the pods to evict among the residents.
    pub(super) pods: Vec<usize>,
    /// The share of the largest node that these pods request, in millionths.
    requested: i64,
}

/// All nodes, by whether they may be emptied.
pub(super) struct Nodes {
    /// Those that may, fewest evictions first.
    pub(super) candidates: Vec<Candidate>,
    /// Those that may not, by name.
    pub(super) kept: BTreeMap<String, KeptNode>,
    /// The largest allocatable CPU, in millicores, and memory, in bytes, of a node.
    pub(super) largest: (i64, i64),
}

impl Nodes {
    /// Sorts the nodes. Control plane nodes are candidates only if they are `named`.
    pub(super) fn of(snapshot: Snapshot<'_>, pods: &[Resident], named: Option<&[String]>) -> Self {
        let mut on: BTreeMap<Symbol, Vec<usize>> = BTreeMap::new();
        for (at, pod) in pods.iter().enumerate() {
            on.entry(pod.node).or_default().push(at);
        }
        let infos = || snapshot.nodes().iter().map(|node| snapshot.node_info(node));
        let largest = infos().fold((1, 1), |(cpu, memory), info| {
            (cpu.max(info.allocatable.cpu_milli), memory.max(info.allocatable.memory))
        });
        let control_plane = snapshot.tables().find(CONTROL_PLANE);
        let (mut candidates, mut kept) = (Vec::new(), BTreeMap::new());
        for node in snapshot.nodes().iter() {
            let info = snapshot.node_info(node);
            let name = snapshot.text(info.name).to_owned();
            let is_named = named.is_none_or(|named| named.contains(&name));
            let is_control_plane =
                control_plane.is_some_and(|label| snapshot.node_labels(node).get(label).is_some());
            if !is_named || is_control_plane && named.is_none() {
                continue;
            }
            let here = on.remove(&info.name).unwrap_or_default();
            let blockers = here.iter().filter_map(|&at| match &pods[at].fate {
                Fate::Blocks { why, passes } => {
                    Some(Blocker { pod: pods[at].key.clone(), reason: why.clone(), passes: *passes })
                }
                Fate::Stays | Fate::Moves(_) => None,
            });
            let blockers: Vec<Blocker> = blockers.collect();
            if blockers.is_empty() {
                let pods_to_move: Vec<usize> = here.into_iter().filter(|&at| pods[at].moves()).collect();
                let requested = pods_to_move.iter().map(|&at| share(&pods[at].pod, largest)).sum();
                candidates.push(Candidate { node: info.name, name, pods: pods_to_move, requested });
            } else {
                kept.insert(name.clone(), KeptNode { node: name, blockers });
            }
        }
        candidates
            .sort_by(|a, b| (a.pods.len(), a.requested, &a.name).cmp(&(b.pods.len(), b.requested, &b.name)));
        Self { candidates, kept, largest }
    }
}
