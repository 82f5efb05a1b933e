//! Rules that follow from how many pods there are in which topology domain, in the form that is kept up to date.
//!
//! Such a rule says what a pod adds to which of its counters, and what it makes of the sums. Somebody else counts, once for
//! all nodes and then for those that were touched, and asks once for all nodes that see the same sums. A tally says the same
//! as the rule of its plugin, which stays its oracle; where it cannot, it is not made. Upstream has nothing of the kind.

use crate::cache::Snapshot;
use crate::intern::Symbol;
use crate::node::NodeIdx;
use crate::pod::PodInfo;

/// The domains a counter counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domains {
    /// The values of the label; a node without it is in none.
    Values,
    /// Each node with the label by itself, whatever the value.
    Nodes,
}

/// One thing that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The topology key.
    pub key: Symbol,
    /// Its domains.
    pub domains: Domains,
}

/// What is known of a counter as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// The lowest sum of a domain with a node that counts; `None` where there is no such domain, or nobody asks.
    pub lowest: Option<i64>,
    /// How many domains have a node that counts; 0 where nobody asks.
    pub domains: usize,
    /// Whether every sum is 0.
    pub is_zero: bool,
}

/// Something about the cluster made the tally useless: it is to be made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outdated;

/// What all tallies do. What they are made from is the pod, namespaces, Services, controllers and, for [`Self::counters`], the
/// pods that are there.
pub trait Tally: Send {
    /// What is counted.
    fn counters(&self) -> &[Counter];

    /// Tells what a pod on a node adds to which counter, by index; more than once adds up. Pods of a kind add the same.
    ///
    /// # Errors
    /// When it adds to something that is not among the counters.
    fn adds(
        &self,
        snapshot: Snapshot<'_>,
        pod: &PodInfo,
        add: &mut dyn FnMut(usize, i64),
    ) -> Result<(), Outdated>;

    /// Whether pods without affinity of their own never add anything.
    fn ignores_pods_without_affinity(&self) -> bool {
        false
    }

    /// Whether [`Self::counts_on`] says yes of every node, counters and nodes that are in no domain of theirs apart;
    /// `are_all_placed` says that there are none such, and that no domain is that of an empty value.
    fn counts_everywhere(&self, _are_all_placed: bool) -> bool {
        true
    }

    /// Whether the pods of a node count for each counter, given that the node is in a domain of it.
    ///
    /// # Errors
    /// When the node is one that the tally cannot do.
    fn counts_on(
        &self,
        _snapshot: Snapshot<'_>,
        _node: NodeIdx,
        _counts: &mut [bool],
    ) -> Result<(), Outdated> {
        Ok(())
    }
}

/// A filter's tally. `sums` are those of a node's domains, `None` where the node is in none.
pub trait FilterTally: Tally {
    /// Whether [`Self::passes`] compares domains: only then [`Whole`] tells of the lowest sum, and how many domains there are.
    fn compares_domains(&self) -> bool;

    /// Whether such nodes pass.
    fn passes(&self, sums: &[Option<i64>], whole: &[Whole]) -> bool;
}

/// A score's tally. `sums` are those of a node's domains, `None` where the node is in none.
pub trait ScoreTally: Tally {
    /// Whether such nodes get no score, and are none of those whose domains [`Self::weights`] is told of.
    fn ignores(&self, _sums: &[Option<i64>]) -> bool {
        false
    }

    /// Whether [`Self::weights`] looks at the domains.
    fn weighs_domains(&self) -> bool {
        false
    }

    /// What one of a counter counts. `domains` says in how many domains the feasible nodes are, counter by counter,
    /// those in none being in one domain more; of [`Domains::Nodes`], how many nodes there are.
    fn weights(&self, domains: &[usize]) -> Vec<f64>;

    /// The raw score of such nodes.
    fn raw(&self, sums: &[Option<i64>], weights: &[f64]) -> i64;

    /// NormalizeScore over all feasible nodes: of nodes with the same raw score one is given. `None` are those ignored.
    fn normalize(&self, raw: &mut [Option<i64>]);
}
