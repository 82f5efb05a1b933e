//! Traits of filter and score plugins.
//!
//! A plugin prepares a pod once and returns a *rule*: an owned object of ids and numbers that judges nodes.
//! Returning no rule is upstream's Skip. Rules work on sets of nodes. [`FilterRule::check`] is the scalar
//! equivalent: it returns reasons, applies an overlay of added and removed pods, and is the oracle of the set
//! path.

use super::PluginName;
use super::device_rule::DeviceRule;
use super::event::{ClusterEvent, Hint};
use super::event_set::EventSet;
use super::fact::Fact;
use super::node_plugin::{NodeFilterPlugin, NodeScorePlugin};
use super::status::{CycleError, Rejection, Verdict};
use super::tally::{FilterTally, ScoreTally};
use crate::cache::{Facts, NodeView, Snapshot};
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::model::volume::Reservation;

/// The result of preparing a pod (upstream's PreFilter and PreScore).
pub enum Prepared<R: ?Sized> {
    /// The plugin does not apply to this pod and takes no further part in the decision.
    Skip,
    /// No node can take the pod.
    Rejected(Rejection),
    /// The attempt ends with an error.
    Failed(CycleError),
    /// The plugin judges nodes by `rule`. If `only` is given, nodes outside it are infeasible.
    Run {
        /// The plugin's state for this pod.
        rule: Box<R>,
        /// The nodes to which PreFilter restricts the search, ascending; may be empty.
        only: Option<Vec<NodeIdx>>,
    },
}

impl<R: ?Sized> Prepared<R> {
    /// Upstream's name of the status code.
    pub fn status(&self) -> &'static str {
        match self {
            Self::Skip => "Skip",
            Self::Rejected(rejection) => rejection.code.as_str(),
            Self::Failed(_) => "Error",
            Self::Run { .. } => "Success",
        }
    }

    /// Returns the rule, if the plugin judges nodes.
    pub fn into_rule(self) -> Option<Box<R>> {
        match self {
            Self::Run { rule, .. } => Some(rule),
            Self::Skip | Self::Rejected(_) | Self::Failed(_) => None,
        }
    }
}

/// The state on which a rule's result for a node depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependsOn {
    /// The node object alone.
    NodeSpec,
    /// The node object and the pods on that node.
    NodeUsage,
    /// Pods and nodes anywhere.
    Cluster,
}

/// The state that a filter plugin reads to prepare a pod, besides the pod itself.
///
/// Plugins that read less, and judge each node alone, implement [`NodeFilterPlugin`] or [`NodeScorePlugin`] instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The pod's volumes and storage objects.
    ///
    /// The plugin skips pods without volumes. Its rule rejects nodes one by one and may be applied to any
    /// subset of them.
    Volumes,
    /// Any state of the cluster.
    Cluster,
}

impl DependsOn {
    /// Returns the facts on which a result may depend.
    pub(crate) fn facts(self) -> Facts {
        match self {
            Self::NodeSpec => Facts::NodeObjects,
            Self::NodeUsage => Facts::NodeUsage,
            Self::Cluster => Facts::Cluster,
        }
    }
}

/// The kind of a rule's NormalizeScore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// No normalization: raw scores are the final scores.
    Raw,
    /// A normalization that gives all nodes the same score if every raw score is 0, for any number of nodes.
    Relative,
}

/// The incremental form of a rule that reads the cluster.
pub enum Tallied<T: ?Sized> {
    /// No incremental form: the rule is prepared for each decision.
    No,
    /// The plugin does not apply to the pod, whatever the nodes and other pods are.
    Silent,
    /// The tally that replaces the rule.
    Yes(Box<T>),
}

/// A plugin with PreFilter or Filter.
///
/// A plugin that judges each node alone implements [`NodeFilterPlugin`] instead, so that its results are cached.
pub trait FilterPlugin: Send + Sync {
    /// Upstream's name, as in KubeSchedulerConfiguration.
    fn name(&self) -> PluginName;

    /// The plugin as one that judges each node alone. Only [`NodeFilterPlugin`] overrides this.
    fn as_node_plugin(&self) -> Option<&dyn NodeFilterPlugin> {
        None
    }

    /// The state that [`prepare`](Self::prepare) reads.
    fn reads(&self) -> Reads {
        Reads::Cluster
    }

    /// PreFilter: prepares a rule for this pod from the whole snapshot.
    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule>;

    /// The incremental form of the rule, for a plugin that reads the cluster and needs only counts of pods.
    fn tally(&self, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Tallied<dyn FilterTally> {
        Tallied::No
    }

    /// The rule if PreFilter does not run, because upstream's plugin has none or the configuration disables
    /// it.
    ///
    /// Returns `None` if every node passes.
    fn without_pre_filter(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<Box<dyn FilterRule>> {
        self.prepare(pod, snapshot).into_rule()
    }

    /// EventsToRegister: the events for which [`hint`](Self::hint) may return [`Hint::Queue`]. The method is
    /// not called for others.
    fn events(&self) -> EventSet;

    /// QueueingHint: whether `event` may make `pod`, which this plugin rejected, schedulable.
    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint;
}

/// A filter plugin's state for one pod.
pub trait FilterRule: Send {
    /// The state on which a verdict depends.
    fn depends_on(&self) -> DependsOn;

    /// Removes infeasible nodes from `feasible`.
    ///
    /// # Errors
    /// If [`check`](Self::check) returns [`Verdict::Failed`] for a node in the set. Of several errors, the
    /// first in slot order is returned.
    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        let mut failed = Ok(());
        feasible.retain(|node| {
            // The decision ends with the first error, whatever the other nodes would say.
            failed.is_ok()
                && match self.check(&snapshot.node(node)) {
                    Verdict::Fits => true,
                    Verdict::Rejected(_) => false,
                    Verdict::Failed(error) => {
                        failed = Err(error);
                        false
                    }
                }
        });
        failed
    }

    /// Returns how many such pods fit on the node if it has no others, at most. An upper bound is enough.
    fn most_on_empty(&self, _snapshot: Snapshot<'_>, _node: NodeIdx) -> usize {
        usize::MAX
    }

    /// Returns the rule as one that allocates devices, if its results for nodes can be shared with other pods.
    fn as_device_rule(&self, _snapshot: Snapshot<'_>) -> Option<&dyn DeviceRule> {
        None
    }

    /// Whether [`check`](Self::check) cannot fail for any node of this snapshot.
    fn is_safe(&self, _snapshot: Snapshot<'_>) -> bool {
        false
    }

    /// Returns the verdict for one node, with reasons and with the view's overlay applied.
    fn check(&self, node: &NodeView<'_>) -> Verdict;

    /// A number that identifies the verdict of [`check`](Self::check), if it is cheaper to compute.
    ///
    /// 0 means that the node passes. Rejections have equal numbers if their codes and reasons are equal.
    /// `None` means that the caller must use the verdict itself.
    fn verdict_number(&self, _node: &NodeView<'_>) -> Option<u64> {
        None
    }

    /// Returns the numbers and names behind a rejection by [`check`](Self::check), for explanations only.
    fn facts(&self, _node: &NodeView<'_>) -> Vec<Fact> {
        Vec::new()
    }

    /// Reserve: returns what the pod needs on the chosen node besides its resources.
    ///
    /// The reservations are assumed and rolled back together with the pod.
    ///
    /// # Errors
    /// If the node turns out to be unusable.
    fn reserve(&self, _node: &NodeView<'_>) -> Result<Vec<Reservation>, Rejection> {
        Ok(Vec::new())
    }
}

/// A plugin with Score.
///
/// A plugin that judges each node alone implements [`NodeScorePlugin`] instead, so that its results are cached.
pub trait ScorePlugin: Send + Sync {
    /// Upstream's name, as in KubeSchedulerConfiguration.
    fn name(&self) -> PluginName;

    /// The plugin as one that judges each node alone. Only [`NodeScorePlugin`] overrides this.
    fn as_node_plugin(&self) -> Option<&dyn NodeScorePlugin> {
        None
    }

    /// The incremental form of the rule, for a plugin that reads the cluster and needs only counts of pods.
    fn tally(&self, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Tallied<dyn ScoreTally> {
        Tallied::No
    }

    /// PreScore: prepares a rule that scores `feasible` for this pod.
    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>, feasible: &NodeSet) -> Prepared<dyn ScoreRule>;
}

/// A score plugin's state for one pod.
pub trait ScoreRule: Send {
    /// Writes the raw score of each feasible node into `raw`, one entry per node in set order.
    ///
    /// # Errors
    /// If the attempt must end.
    fn score(&self, snapshot: Snapshot<'_>, feasible: &NodeSet, raw: &mut [i64]) -> Result<(), CycleError>;

    /// The state on which a raw score depends.
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeUsage
    }

    /// Whether the raw scores are those of [`DeviceRule::judge`].
    fn scores_devices(&self) -> bool {
        false
    }

    /// The kind of normalization of [`normalize`](Self::normalize).
    fn scale(&self) -> Scale {
        Scale::Raw
    }

    /// NormalizeScore: maps raw scores to 0..=100. A result outside this range ends the attempt with an
    /// error.
    fn normalize(&self, _snapshot: Snapshot<'_>, _feasible: &NodeSet, _raw: &mut [i64]) {}
}
