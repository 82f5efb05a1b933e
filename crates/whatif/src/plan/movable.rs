//! Which pods may be evicted so that their controllers create them again elsewhere, and why others may not.

use crate::cluster::Cluster;
use crate::explain::{Leaving, Protected};
use crate::prepare::owners::OwnedPod;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::pod::PodInfo;

/// What the caller accepts to lose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accepted {
    /// The data in emptyDir and hostPath volumes.
    pub local_data: bool,
}

/// What happens to a pod if its node is emptied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It belongs to the node and stays.
    Stays,
    /// It is evicted and created again. The text says why that is allowed.
    Moves(String),
    /// It keeps the node, for this reason.
    Blocks {
        /// The reason.
        why: String,
        /// Whether it usually passes by itself.
        passes: bool,
    },
}

/// A pod on a node.
#[derive(Clone, Debug)]
pub(super) struct Resident {
    /// `namespace/name`.
    pub(super) key: String,
    pub(super) pod: Arc<PodInfo>,
    pub(super) node: Symbol,
    pub(super) fate: Fate,
    /// The owner's kind and name; empty without an owner.
    pub(super) owner: String,
}

impl Resident {
    pub(super) fn moves(&self) -> bool {
        matches!(self.fate, Fate::Moves(_))
    }

    /// Returns the order of decisions: large pods first, equal ones together.
    pub(super) fn rank(&self, total: (i64, i64)) -> (std::cmp::Reverse<i64>, &str, &str) {
        (std::cmp::Reverse(share(&self.pod, total)), &self.owner, &self.key)
    }
}

/// Returns the larger share, in millionths, that a pod requests of the largest amounts of CPU and memory.
pub(super) fn share(pod: &PodInfo, (cpu, memory): (i64, i64)) -> i64 {
    let placed = &pod.resources.placed;
    let of = |amount: i64, all: i64| (i128::from(amount) * 1_000_000 / i128::from(all.max(1))) as i64;
    of(placed.cpu_milli, cpu).max(of(placed.memory, memory))
}

/// Returns the pods on nodes, in the order of their names.
pub(super) fn residents(cluster: &Cluster, accepted: Accepted) -> Vec<Resident> {
    let snapshot = cluster.trial().snapshot();
    let placed = cluster.owned_pods().filter_map(|(key, owned)| {
        let (_, node) = cluster.trial().placement(&owned.pod.uid)?;
        Some((key, owned, node))
    });
    let placed: Vec<(&str, &OwnedPod, Symbol)> = placed.collect();
    let leaving: Vec<Leaving> = placed.iter().map(|(_, owned, _)| leaving(owned)).collect();
    let protected = Protected::of(snapshot, &leaving.iter().collect::<Vec<_>>(), cluster.budgets());
    let mut budgets: BTreeMap<usize, (&str, i32)> = BTreeMap::new();
    for (name, (allowed, pods)) in &protected.budgets {
        budgets.extend(pods.iter().map(|&at| (at, (name.as_str(), *allowed))));
    }
    let resident = |(at, (key, owned, node)): (usize, (&str, &OwnedPod, Symbol))| {
        let several = protected.several.get(&at).map(Vec::as_slice);
        let owner = owned.owner.as_ref();
        Resident {
            key: key.to_owned(),
            pod: Arc::clone(&owned.pod),
            node,
            fate: fate(owned, accepted, several, budgets.get(&at).copied()),
            owner: owner.map_or_else(String::new, |owner| format!("{}/{}", owner.kind, owner.name)),
        }
    };
    placed.into_iter().enumerate().map(resident).collect()
}

/// Returns what the rules about disruption budgets read of a pod.
fn leaving(of: &OwnedPod) -> Leaving {
    Leaving {
        pod: Arc::clone(&of.pod),
        stays: None,
        is_unmanaged: of.owner.is_none(),
        has_empty_dir: of.has_empty_dir,
        is_pending: of.is_pending,
        is_ready: of.is_ready,
    }
}

fn fate(of: &OwnedPod, accepted: Accepted, several: Option<&[String]>, budget: Option<(&str, i32)>) -> Fate {
    if of.is_of_its_node() {
        return Fate::Stays;
    }
    let blocks = |text: &str| Fate::Blocks { why: text.to_owned(), passes: false };
    if of.pod.deleting {
        return Fate::Blocks {
            why: "it is terminating; plan again once it is gone".to_owned(),
            passes: true,
        };
    }
    if of.eviction.is_safe == Some(false) {
        return blocks("its annotation cluster-autoscaler.kubernetes.io/safe-to-evict is \"false\"");
    }
    let Some(owner) = &of.owner else { return blocks("no controller would create it again") };
    if of.eviction.has_local_data && !accepted.local_data {
        return blocks("it has an emptyDir or hostPath volume, whose data would be lost");
    }
    if of.pod.group.is_some() {
        return blocks("it is a member of a pod group, which starts as a whole");
    }
    if let Some(several) = several {
        let names = several.join(", ");
        return blocks(&format!("several disruption budgets protect it, so it cannot be evicted: {names}"));
    }
    match budget {
        Some((name, allowed)) if allowed < 1 => {
            let why = format!("the disruption budget {name} allows no eviction now");
            Fate::Blocks { why, passes: true }
        }
        Some((name, allowed)) => {
            let again = format!("the {} {} creates it again", owner.kind, owner.name);
            Fate::Moves(format!("{again}; the disruption budget {name} allows {allowed} at a time"))
        }
        None => Fate::Moves(format!("the {} {} creates it again", owner.kind, owner.name)),
    }
}
