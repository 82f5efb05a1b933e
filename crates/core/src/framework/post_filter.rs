//! What a PostFilter plugin is: asked when no node can take a pod, it may find a node that could if other pods went.
//!
//! It decides and changes nothing. Upstream: `kube-scheduler/framework/interface.go#PostFilterPlugin`.

use super::PluginName;
use super::dry_runs::DryRuns;
use super::status::{CycleError, Rejection};
use crate::cache::{NodeView, Snapshot};
use crate::extender::Room;
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use crate::pod::PodInfo;
use crate::rng::Seed;
use crate::time::Time;
use std::collections::BTreeSet;

/// A plugin with PostFilter.
pub trait PostFilterPlugin: Send + Sync {
    /// Upstream's name, as in KubeSchedulerConfiguration.
    fn name(&self) -> PluginName;

    /// Looks for a way to place the pod.
    fn post_filter<'a>(&self, unplaced: &Unplaced<'a>) -> PostFiltered<'a>;

    /// Whether the pod could really be placed once the victims of a candidate are gone; asked of the one that is chosen, before anyone
    /// is evicted. Upstream does not ask.
    fn holds<'a>(&self, _unplaced: &Unplaced<'a>, _candidate: &Candidate<'a>) -> bool {
        true
    }

    /// Looks for a way among candidates that hold; asked when the chosen one does not.
    fn post_filter_to_hold<'a>(&self, unplaced: &Unplaced<'a>) -> PostFiltered<'a> {
        self.post_filter(unplaced)
    }

    /// The same where `known` is what was found out for pods alike, of nodes that did not change since. Of several candidates it may
    /// give one alone: the one that would be drawn of them.
    fn post_filter_again<'a>(&self, unplaced: &Unplaced<'a>, _known: &mut DryRuns) -> PostFiltered<'a> {
        self.post_filter(unplaced)
    }
}

/// A pod no node can take, and what is known of it.
#[derive(Clone, Copy)]
pub struct Unplaced<'a> {
    /// The pod.
    pub pod: &'a PodInfo,
    /// The cluster in which it was decided about.
    pub snapshot: Snapshot<'a>,
    /// The nodes whose status is Unschedulable: that other pods go may help there.
    pub curable: &'a NodeSet,
    /// The plugins whose PreFilter ran, in order; those behind a rejection did not.
    pub prepared_by: &'a [PluginName],
    /// What the filters say of a node as it would be.
    pub judge: &'a dyn Judge,
    /// Where draws come from.
    pub draws: Draws,
    /// Now.
    pub now: Time,
    /// What extenders have to do with making room for it.
    pub rooms: Rooms<'a>,
}

/// What extenders have to do with making room for a pod.
#[derive(Clone, Copy, Debug)]
pub enum Rooms<'a> {
    /// Nothing.
    Free,
    /// They are to be asked: every candidate is wanted, not only the best.
    All,
    /// They were.
    Said {
        /// Where room can be made, or why nobody is to be sent away.
        rooms: Result<&'a [Room], &'a str>,
        /// Whether anything changed since the dry runs, so that what they found has to hold still.
        changed: bool,
    },
}

/// All filters of a cycle, with what they prepared for its pod.
pub trait Judge {
    /// The first rejection of the node, if there is one, and whose it is.
    ///
    /// # Errors
    /// When a filter fails.
    fn first_rejection(&self, node: &NodeView<'_>) -> Result<Option<(PluginName, Rejection)>, CycleError>;

    /// Whether none rejects the node nor fails, where none did with other pods on it.
    fn still_passes(&self, node: &NodeView<'_>) -> bool {
        matches!(self.first_rejection(node), Ok(None))
    }
}

/// A source of draws that differ by attempt.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    /// The scheduler's seed.
    pub seed: Seed,
    /// Which attempt for the pod this is.
    pub attempt: u32,
}

/// What a PostFilter plugin came to.
#[derive(Clone, Debug)]
pub enum PostFiltered<'a> {
    /// Nodes that could take the pod if their victims went, each as good as the others; upstream's Success.
    Found(Vec<Candidate<'a>>),
    /// No way; the next plugin is asked. Upstream's Unschedulable.
    Nothing {
        /// The text for the message.
        reason: String,
        /// Whether the pod's nomination is to be cleared, since it leads nowhere.
        clear_nomination: bool,
        /// The plugins that would keep the pod out even if others went: what they hear of may open the way.
        hindered_by: BTreeSet<PluginName>,
    },
    /// It failed, and nobody else is asked.
    Failed(CycleError),
}

/// A node that could take a pod if some others went (upstream `preemption.Candidate`).
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// The node.
    pub node: NodeIdx,
    /// The pods that would have to go, the most important first; at least one.
    pub victims: Vec<&'a PodInfo>,
    /// How many of them a disruption budget protects.
    pub violations: usize,
}
