//! Incremental forms of rules that depend only on topology counts.
//!
//! A tally defines its counters, what each pod adds to them, and the result for given sums. The caller counts
//! all nodes once, updates the sums for changed nodes, and asks once for all nodes with equal sums. A tally
//! must equal its plugin's rule, which is its oracle. If it cannot, it is not made. Upstream has no
//! equivalent.

use crate::cache::Snapshot;
use crate::model::intern::Symbol;
use crate::model::node::NodeIdx;
use crate::model::pod::PodFacets;

/// The domains of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domains {
    /// Each value of the label is a domain; a node without the label is in none.
    Values,
    /// Each node with the label is its own domain, whatever the value.
    Nodes,
}

/// A counter: a topology key and its domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The topology key.
    pub key: Symbol,
    /// Its domains.
    pub domains: Domains,
}

/// Aggregates of a counter over all domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// The lowest sum of a domain with a counted node; `None` if there is no such domain or it is not
    /// requested.
    pub lowest: Option<i64>,
    /// Number of domains with a counted node; 0 if it is not requested.
    pub domains: usize,
    /// Whether every sum is 0.
    pub is_zero: bool,
}

/// A change of the cluster invalidated the tally; it must be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outdated;

/// The common part of all tallies.
///
/// A tally is made from the pod, namespaces, Services and controllers; [`Self::counters`] also depends on the
/// existing pods.
pub trait Tally: Send {
    /// The counters of this tally.
    fn counters(&self) -> &[Counter];

    /// Reports what a pod on a node adds to each counter, by index; repeated additions are summed.
    ///
    /// Pods of one pod class add the same.
    ///
    /// # Errors
    /// If the pod adds to something without a counter.
    fn adds(
        &self,
        snapshot: Snapshot<'_>,
        pod: PodFacets<'_>,
        add: &mut dyn FnMut(usize, i64),
    ) -> Result<(), Outdated>;

    /// Whether pods without pod affinity never add anything.
    fn ignores_pods_without_affinity(&self) -> bool {
        false
    }

    /// Whether [`Self::counts_on`] is true for every node that is in a domain of each counter.
    ///
    /// `_are_all_placed` says that every node is in a domain of every counter and that no domain has an empty
    /// value.
    fn counts_everywhere(&self, _are_all_placed: bool) -> bool {
        true
    }

    /// Whether the pods of a node count for each counter, given that the node is in a domain of it.
    ///
    /// # Errors
    /// If the tally cannot handle the node.
    fn counts_on(
        &self,
        _snapshot: Snapshot<'_>,
        _node: NodeIdx,
        _counts: &mut [bool],
    ) -> Result<(), Outdated> {
        Ok(())
    }
}

/// A filter's tally. `sums` are those of a node's domains; `None` if the node is in none.
pub trait FilterTally: Tally {
    /// Whether [`Self::passes`] compares domains. Only then does [`Whole`] hold the lowest sum and the number
    /// of domains.
    fn compares_domains(&self) -> bool;

    /// Whether nodes with these sums pass.
    fn passes(&self, sums: &[Option<i64>], whole: &[Whole]) -> bool;
}

/// A score's tally. `sums` are those of a node's domains; `None` if the node is in none.
pub trait ScoreTally: Tally {
    /// Whether nodes with these sums get no score and are left out of the domains passed to
    /// [`Self::weights`].
    fn ignores(&self, _sums: &[Option<i64>]) -> bool {
        false
    }

    /// Whether [`Self::weights`] depends on the number of domains.
    fn weighs_domains(&self) -> bool {
        false
    }

    /// Returns the weight of one counted pod for each counter.
    ///
    /// `domains` is the number of domains with a feasible node for each counter; nodes without a domain
    /// together form one more. For [`Domains::Nodes`] it is the number of nodes.
    fn weights(&self, domains: &[usize]) -> Vec<f64>;

    /// Returns the raw score of nodes with these sums.
    fn raw(&self, sums: &[Option<i64>], weights: &[f64]) -> i64;

    /// NormalizeScore over all feasible nodes, with one entry for each distinct raw score; `None` marks
    /// ignored nodes.
    fn normalize(&self, raw: &mut [Option<i64>]);
}
