//! The traits of filter and score plugins.
//!
//! A plugin prepares a pod once and returns a *rule*: an owned object of ids and numbers that judges nodes. Not
//! returning one is upstream's Skip. Rules work on sets of nodes; [`FilterRule::check`] is the scalar twin that gives
//! reasons, works under an overlay of added and removed pods, and is the oracle of the set path.

use super::PluginName;
use super::event::{ClusterEvent, Hint};
use super::event_set::EventSet;
use super::fact::Fact;
use super::status::{CycleError, Rejection, Verdict};
use super::tally::{FilterTally, ScoreTally};
use crate::cache::{NodeView, Snapshot};
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use crate::pod::PodInfo;
use crate::volume::Reservation;

/// What preparing a pod came to (upstream's PreFilter and PreScore).
pub enum Prepared<R: ?Sized> {
    /// The plugin has nothing to say of this pod; it takes no further part in the decision.
    Skip,
    /// No node can take the pod.
    Rejected(Rejection),
    /// The cycle ends.
    Failed(CycleError),
    /// The plugin judges nodes by `rule`, and if `only` is given, no node outside it can take the pod.
    Run {
        /// The plugin's state for this pod.
        rule: Box<R>,
        /// The nodes PreFilter narrowed the search to, ascending; they may be none.
        only: Option<Vec<NodeIdx>>,
    },
}

impl<R: ?Sized> Prepared<R> {
    /// Upstream's name of the answer.
    pub fn status(&self) -> &'static str {
        match self {
            Self::Skip => "Skip",
            Self::Rejected(rejection) => rejection.code.as_str(),
            Self::Failed(_) => "Error",
            Self::Run { .. } => "Success",
        }
    }
}

/// What can change what a rule says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependsOn {
    /// The node object alone.
    NodeSpec,
    /// The node object and the pods on that node.
    NodeUsage,
    /// Pods and nodes anywhere.
    Cluster,
}

/// What a plugin reads to prepare a pod, beside the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Which nodes exist, and which resources DeviceClasses serve: what it prepared for a pod holds for all pods of its
    /// signature until one of these changes. Its rule judges each node by that node alone, and it reads nothing of the pod that
    /// [`NodeSignature`](crate::signature::NodeSignature) leaves out: neither labels, namespace and owner nor affinity to pods and spreading.
    Pod,
    /// The pod's volumes and objects of storage, so that it has nothing to say of a pod without volumes. Its rule takes nodes out one by
    /// one, and may be asked of any part of them.
    Volumes,
    /// Anything.
    Cluster,
}

/// What NormalizeScore does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Nothing: raw scores are what counts.
    Raw,
    /// Something that gives all nodes the same where every raw score is 0, however many they are.
    Relative,
}

/// What a plugin that reads the cluster can be asked instead of its rule.
pub enum Tallied<T: ?Sized> {
    /// Nothing: the rule is to be prepared for each decision.
    No,
    /// Nothing is needed: the plugin has no say on the pod, whatever nodes and pods there are.
    Silent,
    /// The tally.
    Yes(Box<T>),
}

/// A plugin with PreFilter or Filter.
pub trait FilterPlugin: Send + Sync {
    /// Upstream's name, as in KubeSchedulerConfiguration.
    fn name(&self) -> PluginName;

    /// What [`prepare`](Self::prepare) reads.
    fn reads(&self) -> Reads {
        Reads::Cluster
    }

    /// PreFilter: what the plugin needs to know of this pod, over the whole snapshot.
    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule>;

    /// What follows from counts of pods alone, of a plugin that reads the cluster.
    fn tally(&self, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Tallied<dyn FilterTally> {
        Tallied::No
    }

    /// The rule where PreFilter does not run, because upstream's plugin has none or the configuration disables it: what
    /// Filter then says by itself. `None` where every node passes.
    fn without_pre_filter(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<Box<dyn FilterRule>> {
        match self.prepare(pod, snapshot) {
            Prepared::Run { rule, .. } => Some(rule),
            Prepared::Skip | Prepared::Rejected(_) | Prepared::Failed(_) => None,
        }
    }

    /// EventsToRegister: the events of which [`hint`](Self::hint) may say that they are worth an attempt. Of the others it
    /// is not asked.
    fn events(&self) -> EventSet;

    /// QueueingHint: whether `event` may make `pod`, which this plugin rejected, schedulable.
    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint;
}

/// A filter plugin's state for one pod.
pub trait FilterRule: Send {
    /// What can change a verdict.
    fn depends_on(&self) -> DependsOn;

    /// Patches the rule after pods or nodes changed on `nodes`, where it outlives a decision.
    fn touched(&mut self, _snapshot: Snapshot<'_>, _nodes: &[NodeIdx]) {}

    /// Takes out of `feasible` the nodes that cannot take the pod.
    ///
    /// # Errors
    /// When the cycle must end, as [`Verdict::Failed`] of any node in the set does; of several, the first in slot order tells.
    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        let mut failed = Ok(());
        feasible.retain(|node| match self.check(&snapshot.node(node)) {
            Verdict::Fits => true,
            Verdict::Rejected(_) => false,
            Verdict::Failed(error) => {
                failed = failed.clone().and(Err(error));
                false
            }
        });
        failed
    }

    /// Whether [`check`](Self::check) fails for no node, as the cluster is.
    fn is_safe(&self, _snapshot: Snapshot<'_>) -> bool {
        false
    }

    /// The same verdict for one node, with reasons, and with the view's overlay applied.
    fn check(&self, node: &NodeView<'_>) -> Verdict;

    /// A number in place of [`check`](Self::check)'s verdict, where that is cheaper: 0 where the node passes, otherwise the same for
    /// nodes that are rejected with the same code for the same reasons. `None` where only the verdict itself tells.
    fn verdict_number(&self, _node: &NodeView<'_>) -> Option<u64> {
        None
    }

    /// The numbers and names behind a rejection by [`check`](Self::check), for people. No decision asks for them.
    fn facts(&self, _node: &NodeView<'_>) -> Vec<Fact> {
        Vec::new()
    }

    /// Reserve: what the pod needs on this node, which was chosen for it, beside its place there. It is assumed as soon as
    /// the pod is, and taken back with it.
    ///
    /// # Errors
    /// When the node will not do after all.
    fn reserve(&self, _node: &NodeView<'_>) -> Result<Vec<Reservation>, Rejection> {
        Ok(Vec::new())
    }
}

/// A plugin with Score.
pub trait ScorePlugin: Send + Sync {
    /// Upstream's name, as in KubeSchedulerConfiguration.
    fn name(&self) -> PluginName;

    /// What [`prepare`](Self::prepare) reads; with [`Reads::Pod`] it does not look at `feasible` either.
    fn reads(&self) -> Reads {
        Reads::Cluster
    }

    /// What follows from counts of pods alone, of a plugin that reads the cluster.
    fn tally(&self, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Tallied<dyn ScoreTally> {
        Tallied::No
    }

    /// PreScore: what the plugin needs to know of this pod to score `feasible`.
    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>, feasible: &NodeSet) -> Prepared<dyn ScoreRule>;
}

/// A score plugin's state for one pod.
pub trait ScoreRule: Send {
    /// Patches the rule after pods or nodes changed on `nodes`, where it outlives a decision.
    fn touched(&mut self, _snapshot: Snapshot<'_>, _nodes: &[NodeIdx]) {}

    /// Writes the raw score of each feasible node, one cell per node in set order.
    ///
    /// # Errors
    /// When the cycle must end.
    fn score(&self, snapshot: Snapshot<'_>, feasible: &NodeSet, raw: &mut [i64]) -> Result<(), CycleError>;

    /// What can change a raw score.
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeUsage
    }

    /// What [`normalize`](Self::normalize) does.
    fn scale(&self) -> Scale {
        Scale::Raw
    }

    /// NormalizeScore: maps raw scores to 0..=100; what it leaves outside ends the cycle with an error.
    fn normalize(&self, _snapshot: Snapshot<'_>, _feasible: &NodeSet, _raw: &mut [i64]) {}
}
