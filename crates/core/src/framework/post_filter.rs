//! The PostFilter extension point: finds nodes that become feasible if other pods are evicted.
//!
//! Plugins run only if no node is feasible, and they change nothing. Upstream:
//! `kube-scheduler/framework/interface.go#PostFilterPlugin`.

use super::PluginName;
use super::dry_runs::DryRuns;
use super::status::{CycleError, Rejection};
use crate::cache::{NodeView, Snapshot};
use crate::model::device::ResourceClaim;
use crate::model::extender::ExtenderCandidate;
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::model::rng::Seed;
use crate::model::time::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A plugin with PostFilter.
pub trait PostFilterPlugin: Send + Sync {
    /// Upstream's name, as in KubeSchedulerConfiguration.
    fn name(&self) -> PluginName;

    /// Searches for candidates for the pod.
    fn post_filter<'a>(&self, unplaced: &Unplaced<'a>) -> PostFiltered<'a>;

    /// Whether the pod passes all filters after a candidate's victims are gone.
    ///
    /// Called for the chosen candidate before any eviction. Upstream has no such check.
    fn holds<'a>(&self, _unplaced: &Unplaced<'a>, _candidate: &Candidate<'a>) -> bool {
        true
    }

    /// Searches only among candidates that pass [`holds`](Self::holds); called if the chosen one does not.
    fn post_filter_to_hold<'a>(&self, unplaced: &Unplaced<'a>) -> PostFiltered<'a> {
        self.post_filter(unplaced)
    }

    /// Like [`post_filter`](Self::post_filter), but reuses `_known` dry runs of identical pods on unchanged
    /// nodes.
    ///
    /// If there are several candidates, it may return only the one that the tie-break would draw.
    fn post_filter_again<'a>(&self, unplaced: &Unplaced<'a>, _known: &mut DryRuns) -> PostFiltered<'a> {
        self.post_filter(unplaced)
    }
}

/// A pod without a feasible node, and the state of its attempt.
#[derive(Clone, Copy)]
pub struct Unplaced<'a> {
    /// The pod.
    pub pod: &'a PodInfo,
    /// The snapshot of the attempt.
    pub snapshot: Snapshot<'a>,
    /// Nodes with status Unschedulable: evicting pods may help there.
    pub curable: &'a NodeSet,
    /// Plugins whose PreFilter ran, in order; those after a rejection did not run.
    pub prepared_by: &'a [PluginName],
    /// Evaluates the filters on a hypothetical node.
    pub judge: &'a dyn Judge,
    /// The source of random choices.
    pub draws: Draws,
    /// The current time.
    pub now: Time,
    /// The extenders' part in preemption.
    pub rooms: ExtenderCandidates<'a>,
}

/// The extenders' part in preemption.
#[derive(Clone, Copy, Debug)]
pub enum ExtenderCandidates<'a> {
    /// No extender takes part.
    Free,
    /// Extenders will be called: return every candidate, not only the best.
    All,
    /// Extenders have answered.
    Answered {
        /// The candidates that extenders accepted, or the reason for no eviction.
        rooms: Result<&'a [ExtenderCandidate], &'a str>,
        /// Whether relevant state changed since the dry runs, so that their results must be checked again.
        changed: bool,
    },
}

/// All filters of an attempt, with the rules prepared for its pod.
pub trait Judge {
    /// Returns the first rejection of the node and its plugin, or `None` if the node passes.
    ///
    /// # Errors
    /// If a filter fails.
    fn first_rejection(&self, node: &NodeView<'_>) -> Result<Option<(PluginName, Rejection)>, CycleError>;

    /// Returns the rejection that Filter reports of the node, with or without the pods nominated to it.
    ///
    /// # Errors
    /// If a filter fails.
    fn reported_rejection(
        &self,
        _pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
    ) -> Result<Option<(PluginName, Rejection)>, CycleError> {
        self.first_rejection(&snapshot.node(node))
    }

    /// Whether Filter evaluated the node: PreFilter did not exclude it.
    fn is_candidate(&self, snapshot: Snapshot<'_>, node: NodeIdx) -> bool;

    /// Whether each node is judged by the node object and the pods on that node alone.
    fn judges_nodes_alone(&self) -> bool {
        false
    }

    /// Whether the node still passes all filters without error, given that it passed with other pods on it.
    fn still_passes(&self, node: &NodeView<'_>) -> bool {
        matches!(self.first_rejection(node), Ok(None))
    }
}

/// The source of random choices, different for each attempt.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    /// The scheduler's seed.
    pub seed: Seed,
    /// The number of the attempt for this pod.
    pub attempt: u32,
}

/// The result of a PostFilter plugin.
#[derive(Clone, Debug)]
pub enum PostFiltered<'a> {
    /// Candidates of equal rank; upstream's Success.
    Found(Vec<Candidate<'a>>),
    /// No candidate; the next plugin runs. Upstream's Unschedulable.
    Nothing {
        /// The text for the FailedScheduling message; may be empty.
        reason: String,
        /// Whether the pod's nomination is to be cleared because it is useless.
        clear_nomination: bool,
        /// Plugins that reject the pod even without the victims; their events may make it schedulable.
        preemption_blockers: BTreeSet<PluginName>,
        /// The claim to free or to delete, so that devices are allocated again.
        deallocated: Option<Deallocated>,
    },
    /// The plugin failed; no further plugin runs.
    Failed(CycleError),
}

/// A claim to be freed or deleted because no node can use its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deallocated {
    /// The claims of which one is chosen.
    pub candidates: Vec<Arc<ResourceClaim>>,
    /// The position of the chosen one.
    pub chosen: usize,
    /// Whether it is deleted.
    pub deletes: bool,
}

/// A node that becomes feasible if its victims are evicted (upstream `preemption.Candidate`).
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// The node.
    pub node: NodeIdx,
    /// The victims, highest importance first; at least one.
    pub victims: Vec<&'a PodInfo>,
    /// Number of victims whose eviction violates a disruption budget.
    pub violations: usize,
}
