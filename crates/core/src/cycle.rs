//! One decision: PreFilter, Filter, PreScore, Score, and the choice of a node.
//!
//! A decision is a function of a pod and a snapshot. It does not use the queue and has no effects. Upstream:
//! `pkg/scheduler/schedule_one.go`, `pkg/scheduler/framework/runtime/framework.go`.

mod diagnosis;
mod enabled_plugin;
mod filter;
mod post_filter;
mod sampling;
mod score;
mod unschedulable;
mod with_extenders;

pub use diagnosis::{Diagnosis, NodeVerdict};
pub use enabled_plugin::{EnabledFilter, EnabledScore, Rank};
pub(crate) use enabled_plugin::{EnabledRule, in_order_of_reserve};
pub use filter::Filtered;
pub(crate) use filter::NodeRejection;
pub use post_filter::{InfeasibleDecision, Nomination, PostFilter};
pub use sampling::{Sampling, Walk};
pub use score::{PluginScores, Scores};
pub(crate) use unschedulable::{Nominate, Unschedulable};
pub use with_extenders::{ExtendedDecision, ExtenderAnswers, ExtenderRequest, RequestKind};

use crate::cache::Snapshot;
use crate::framework::extension_point::ExtensionPoint;
use crate::framework::placement::EnabledPlacementScore;
use crate::framework::post_filter::PostFilterPlugin;
use crate::framework::{ClusterEvent, CycleError, Hint, PluginName, PodAction};
use crate::model::emulation::VersionRules;
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::model::rng::{Purpose, Seed};
use crate::model::volume::Reservation;
use crate::switches::mutation::{self, Mutation};
use std::collections::BTreeMap;
use std::time::Duration;

/// The time limits of PreBind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timeouts {
    /// For binding a pod's volumes.
    pub(crate) volumes: Duration,
    /// For the binding conditions of a pod's devices.
    pub(crate) devices: Duration,
}

/// The plugins of a profile (upstream `framework.Framework`).
pub struct Framework {
    /// Plugins with PreFilter or Filter, in the order of PreFilter.
    pub(crate) filters: Vec<EnabledFilter>,
    /// Plugins with PreScore or Score, in the order of PreScore.
    pub(crate) scores: Vec<EnabledScore>,
    /// Plugins with PostFilter, in order.
    pub(crate) post_filters: Vec<Box<dyn PostFilterPlugin>>,
    /// Plugins with PlacementScore, in order.
    pub(crate) placement_scores: Vec<EnabledPlacementScore>,
    /// The time limits of PreBind.
    pub(crate) timeouts: Timeouts,
    /// The number of feasible nodes that ends a search; `None` searches all nodes.
    ///
    /// With sampling, a node's verdict counts only if the search reaches the node, so every filter path must end in
    /// `filter_sample`.
    pub(crate) sampling: Option<Sampling>,
    /// Whether extenders filter or score. Without extenders and score plugins, a sampled search ends at the first
    /// feasible node.
    pub(crate) extended: bool,
    /// The names of the plugins that run at each point, in order.
    pub(crate) points: BTreeMap<ExtensionPoint, Vec<PluginName>>,
}

/// A stage of a decision that a [`Probe`] observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// All plugins prepare the pod.
    PreFilter,
    /// All filter plugins evaluate all candidate nodes.
    Filter,
    /// No node is feasible; preemption looks for candidates.
    PostFilter,
    /// All score plugins prepare the pod.
    PreScore,
    /// All score plugins score the feasible nodes, normalization included.
    Score,
}

impl Point {
    /// Returns the name in upstream's metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreFilter => "PreFilter",
            Self::Filter => "Filter",
            Self::PostFilter => "PostFilter",
            Self::PreScore => "PreScore",
            Self::Score => "Score",
        }
    }
}

/// An observer of a decision's stages, for metrics and traces. The engine itself has no clock.
pub trait Probe {
    /// Called when an attempt begins: a pod has left the queue.
    fn attempt_begins(&mut self) {}
    /// Called when the current attempt is decided: the pod is assumed on its node or reported as unschedulable. Later
    /// work belongs to the queue.
    fn attempt_decided(&mut self) {}
    /// Called when a stage begins.
    fn enter(&mut self, _point: Point) {}
    /// Called when the current stage ends; `status` is upstream's name of its result.
    fn leave(&mut self, _point: Point, _status: &'static str) {}
    /// Called before a call of a plugin.
    fn plugin_begins(&mut self) {}
    /// Called after a call of a plugin, with the number of nodes it evaluated (1 if it was called for the pod alone).
    /// `status` is upstream's name of its result.
    fn plugin_ended(&mut self, _plugin: PluginName, _point: Point, _status: &'static str, _nodes: usize) {}
    /// Called after a full evaluation, before its result is used. Cached decisions have none.
    fn evaluated(&mut self, _evaluation: &Evaluation<'_>) {}
}

/// A full evaluation, as a report needs it.
#[derive(Clone, Copy)]
pub struct Evaluation<'a> {
    /// The profile.
    pub framework: &'a Framework,
    /// The pod.
    pub pod: &'a PodInfo,
    /// The state of the cluster at the decision.
    pub snapshot: Snapshot<'a>,
    /// The result.
    pub decision: &'a Decision,
}

/// A probe that ignores everything.
pub struct NoProbe;

impl Probe for NoProbe {}

/// Options of a decision.
#[derive(Debug, Default)]
pub struct Options<'w> {
    /// Scores even if only one node is feasible. A decision does not need that score.
    pub always_score: bool,
    /// Does not try the pod's nominated node alone before all other nodes.
    pub ignore_own_nomination: bool,
    /// The order of nodes and the start of a sampled search. Without it, a search starts at the first node.
    pub walk: Option<&'w mut Walk>,
    /// The nodes to which the decision is restricted: a placement of the pod's group. Filters still see the whole
    /// cluster, and messages count these nodes.
    pub within: Option<&'w NodeSet>,
}

/// The result of a decision without an error.
pub enum Decision {
    /// At least one node is feasible.
    Feasible(Feasible),
    /// No node is feasible.
    Infeasible(Filtered),
}

/// The feasible nodes of a pod and their scores.
pub struct Feasible {
    /// The results of the filters.
    pub filtered: Filtered,
    /// The scores; `None` if only one node is feasible, which skips scoring.
    pub scores: Option<Scores>,
}

impl Feasible {
    /// Returns the nodes with the highest total, ascending by slot.
    pub fn winners(&self) -> Vec<NodeIdx> {
        winners(self.filtered.feasible(), self.scores.as_ref().map(|scores| &*scores.totals))
    }

    /// Returns the highest total; `None` if only one node is feasible, which skips scoring.
    pub fn best(&self) -> Option<i64> {
        self.scores.as_ref().and_then(|scores| scores.totals.iter().max().copied())
    }

    /// Chooses one of [`Self::winners`]. The choice depends only on the seed, the pod and its attempt.
    ///
    /// Upstream's choice among ties depends on the layout of its heap. Any tied node is equally good.
    pub fn choose(&self, seed: Seed, pod: &PodInfo, attempt: u32) -> NodeIdx {
        choose(&self.winners(), seed, pod, attempt)
    }
}

fn winners(feasible: &NodeSet, totals: Option<&[i64]>) -> Vec<NodeIdx> {
    let Some(totals) = totals else { return feasible.iter().collect() };
    let best = totals.iter().max().copied().unwrap_or(0);
    feasible.iter().zip(totals).filter(|&(_, &total)| total == best).map(|(node, _)| node).collect()
}

fn choose(winners: &[NodeIdx], seed: Seed, pod: &PodInfo, attempt: u32) -> NodeIdx {
    winners[seed.draw(Purpose::TieBreak, &pod.uid, u64::from(attempt), winners.len())]
}

impl Framework {
    /// Filters and scores all nodes for `pod`: the full evaluation.
    ///
    /// # Errors
    ///
    /// If a plugin fails, returns the text of the FailedScheduling event.
    pub fn decide(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        options: Options<'_>,
        probe: &mut dyn Probe,
    ) -> Result<Decision, CycleError> {
        let always_score = options.always_score;
        let mut filtered = self.prepare(pod, snapshot, probe)?;
        filtered.place_within(options.within);
        if filtered.prefilter_rejection().is_some() {
            return Ok(Decision::Infeasible(filtered));
        }
        probe.enter(Point::Filter);
        let outcome = self.filter(pod, snapshot, options, &mut filtered, probe);
        let found = outcome.is_ok() && !filtered.feasible().is_empty();
        probe.leave(
            Point::Filter,
            if outcome.is_err() {
                "Error"
            } else if found {
                "Success"
            } else {
                "Unschedulable"
            },
        );
        outcome?;
        if !found {
            return Ok(Decision::Infeasible(filtered));
        }
        let scores = if always_score || filtered.feasible().len() > 1 {
            Some(self.score(pod, snapshot, filtered.feasible(), probe)?)
        } else {
            None
        };
        Ok(Decision::Feasible(Feasible { filtered, scores }))
    }

    fn filter(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        options: Options<'_>,
        filtered: &mut Filtered,
        probe: &mut dyn Probe,
    ) -> Result<(), CycleError> {
        let nominated = pod.nominated_node.filter(|_| !options.ignore_own_nomination);
        let nominated = nominated.and_then(|name| snapshot.find_node(name));
        let nominated = nominated.filter(|&node| options.within.is_none_or(|nodes| nodes.contains(node)));
        let ran = nominated.map(|node| filtered.run(pod, snapshot, [node].into_iter().collect(), probe));
        if matches!(ran, Some(Ok(()))) && !filtered.feasible().is_empty() {
            return Ok(());
        }
        self.filter_all(
            pod,
            snapshot,
            options,
            nominated.filter(|_| matches!(ran, Some(Ok(())))),
            filtered,
            probe,
        )
    }

    /// Filters all nodes, or a sample of them. `rejected` is the nominated node, if it was tried alone before.
    fn filter_all(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        options: Options<'_>,
        rejected: Option<NodeIdx>,
        filtered: &mut Filtered,
        probe: &mut dyn Probe,
    ) -> Result<(), CycleError> {
        let mut first = Walk::default();
        match self.sampling {
            None => filtered.run(pod, snapshot, filtered.candidates(snapshot), probe),
            Some(sampling) => {
                let walk = options.walk.unwrap_or(&mut first);
                self.filter_sample((sampling, walk), pod, snapshot, rejected, filtered, probe)
            }
        }
    }

    /// Returns the plugins at an extension point, in order.
    pub fn plugins_at(&self, point: ExtensionPoint) -> &[PluginName] {
        self.points.get(&point).map_or(&[], Vec::as_slice)
    }

    /// Whether the plugin runs at the extension point.
    pub fn runs(&self, point: ExtensionPoint, plugin: PluginName) -> bool {
        self.plugins_at(point).contains(&plugin)
    }

    /// Whether the plugin is registered for `event`, by itself or by the rules of the version.
    pub fn hears(&self, plugin: PluginName, event: &ClusterEvent<'_>, rules: VersionRules) -> bool {
        self.filters.iter().any(|enabled| {
            let events = enabled.plugin.events();
            enabled.plugin.name() == plugin
                && (events.contains(event) || rules.adds_taint_events && events.may_be_added(event))
        })
    }

    /// Returns the queueing hint of the plugin that rejected `pod`: whether `event` may make it schedulable.
    pub fn hint(
        &self,
        plugin: PluginName,
        event: &ClusterEvent<'_>,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Hint {
        if mutation_ignores(plugin, event) {
            return Hint::Skip;
        }
        match self.filters.iter().find(|enabled| enabled.plugin.name() == plugin) {
            None => Hint::Skip,
            Some(enabled)
                if snapshot.rules().adds_taint_events && enabled.plugin.events().may_be_added(event) =>
            {
                Hint::Queue
            }
            Some(enabled) => enabled.plugin.hint(event, pod, snapshot),
        }
    }

    /// Whether `pod` fits on `node`: the recheck before the Binding is sent.
    ///
    /// The pod must not be counted anywhere. A pod that needs a new reservation on the node does not fit if the
    /// reservation is to be written (`is_written`): after the decision nothing would carry it out.
    ///
    /// # Errors
    ///
    /// Returns the text of a plugin's error.
    pub fn fits_on(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
        is_written: impl Fn(&Reservation) -> bool,
    ) -> Result<bool, CycleError> {
        let mut filtered = self.prepare(pod, snapshot, &mut NoProbe)?;
        if filtered.prefilter_rejection().is_some() || !filtered.candidates(snapshot).contains(node) {
            return Ok(false);
        }
        filtered.run(pod, snapshot, [node].into_iter().collect(), &mut NoProbe)?;
        let fits = !filtered.feasible().is_empty();
        Ok(fits && filtered.reserve(snapshot, node).is_ok_and(|needed| !needed.iter().any(is_written)))
    }
}

/// A deliberate mistake for mutation tests: ignores events that may help a pod.
fn mutation_ignores(plugin: PluginName, event: &ClusterEvent<'_>) -> bool {
    let goes = matches!(event, ClusterEvent::AssignedPod { action: PodAction::Delete, .. });
    match plugin {
        "NodeResourcesFit" => mutation::is_on(Mutation::ResourceHintSkipsAll),
        "InterPodAffinity" => {
            mutation::is_on(Mutation::AffinityHintSkipsAll)
                || goes && mutation::is_on(Mutation::AffinityHintIgnoresDeletions)
        }
        "PodTopologySpread" => mutation::is_on(Mutation::SpreadHintSkipsAll),
        "TaintToleration" => mutation::is_on(Mutation::TaintHintSkipsAll),
        _ => false,
    }
}
