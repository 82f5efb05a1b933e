//! One decision: PreFilter, Filter, PreScore, Score, and the choice of a node.
//!
//! A function of a pod and a snapshot; it knows no queue and no effect. Upstream: `pkg/scheduler/schedule_one.go`,
//! `pkg/scheduler/framework/runtime/framework.go`.

mod diagnosis;
mod enabled_plugin;
mod filter;
mod post_filter;
mod sampling;
mod score;
mod with_extenders;

pub use diagnosis::{Diagnosis, NodeVerdict};
pub use enabled_plugin::{EnabledFilter, EnabledScore, Rank};
pub use filter::Filtered;
pub(crate) use filter::{Refusing, unprepared};
pub use post_filter::{Failed, Nomination, PostFilter};
pub use sampling::{Sampling, Walk};
pub use score::{PluginScores, Scores};
pub use with_extenders::{About, Ask, Consulted, Transcript};

use crate::cache::Snapshot;
use crate::framework::post_filter::PostFilterPlugin;
use crate::framework::registry::ExtensionPoint;
use crate::framework::{ClusterEvent, CycleError, Hint, PluginName, PodAction};
use crate::mutation::{self, Mutation};
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use crate::pod::PodInfo;
use crate::rng::{Purpose, Seed};
use std::collections::BTreeMap;
use std::time::Duration;

/// The plugins of a profile (upstream `framework.Framework`).
pub struct Framework {
    /// Plugins with PreFilter or Filter, in the order of PreFilter.
    pub(crate) filters: Vec<EnabledFilter>,
    /// Plugins with PreScore or Score, in the order of PreScore.
    pub(crate) scores: Vec<EnabledScore>,
    /// Plugins with PostFilter, in order.
    pub(crate) post_filters: Vec<Box<dyn PostFilterPlugin>>,
    /// How long the volumes of a pod may take to be bound.
    pub(crate) bind_timeout: Duration,
    /// How much of the nodes is enough; `None` for all of them.
    ///
    /// Where it is set, a node's verdict counts only if the walk reaches the node: no way of filtering that does not end in
    /// `filter_sample` may be taken then.
    pub(crate) sampling: Option<Sampling>,
    /// Whether there are extenders that filter or score, so that one feasible node is not enough where no plugin scores.
    pub(crate) extended: bool,
    /// The names of the plugins that run at each point, in order.
    pub(crate) points: BTreeMap<ExtensionPoint, Vec<PluginName>>,
}

/// The points of a decision a [`Probe`] is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// All plugins prepare the pod.
    PreFilter,
    /// All plugins judge all nodes.
    Filter,
    /// Where no node is feasible, a way is looked for.
    PostFilter,
    /// All score plugins prepare the pod.
    PreScore,
    /// All score plugins score the feasible nodes, normalization included.
    Score,
}

impl Point {
    /// The point as upstream's metrics spell it.
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

/// Told when a decision enters and leaves its points, by one who has a clock.
pub trait Probe {
    /// An attempt begins: a pod has left the queue.
    fn attempt_begins(&mut self) {}
    /// The attempt that began last is decided: the pod is counted on its node, or told of as one that has none. What follows is
    /// the queue's.
    fn attempt_decided(&mut self) {}
    /// A point begins.
    fn enter(&mut self, _point: Point) {}
    /// The point that began last ends; `status` is upstream's name of what it came to.
    fn leave(&mut self, _point: Point, _status: &'static str) {}
    /// A plugin is about to be asked.
    fn plugin_begins(&mut self) {}
    /// The plugin that began last has answered at a point, about this many nodes (1 where it is asked about the pod alone);
    /// `status` is upstream's name of what it said.
    fn plugin_ended(&mut self, _plugin: PluginName, _point: Point, _status: &'static str, _nodes: usize) {}
}

/// A probe that listens to nothing.
pub struct NoProbe;

impl Probe for NoProbe {}

/// How much of a decision is carried out.
#[derive(Debug, Default)]
pub struct Options<'w> {
    /// Score even where one node is feasible, which a decision does not need.
    pub always_score: bool,
    /// Do not try the pod's own nominated node alone before all others.
    pub ignore_own_nomination: bool,
    /// Where a profile that looks at a part of the nodes goes on looking; without it, at the first node.
    pub walk: Option<&'w mut Walk>,
}

/// What a decision came to.
pub enum Decision {
    /// At least one node can take the pod.
    Feasible(Feasible),
    /// None can.
    Infeasible(Filtered),
}

/// The nodes that can take a pod, and how good they are.
pub struct Feasible {
    /// What the filters said.
    pub filtered: Filtered,
    /// The scores; `None` where a single node made them needless.
    pub scores: Option<Scores>,
}

impl Feasible {
    /// The nodes with the highest total, ascending by slot.
    pub fn winners(&self) -> Vec<NodeIdx> {
        winners(self.filtered.feasible(), self.scores.as_ref().map(|scores| &*scores.totals))
    }

    /// The highest total; `None` where a single node made scoring needless.
    pub fn best(&self) -> Option<i64> {
        self.scores.as_ref().and_then(|scores| scores.totals.iter().max().copied())
    }

    /// The node chosen: one of [`Self::winners`], by a draw that depends on nothing but the seed, the pod and its
    /// attempt. Upstream's tie falls to the layout of its heap; any tied node is as good.
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
    /// Decides where `pod` can go and how good each place is.
    ///
    /// # Errors
    /// With the text of the FailedScheduling event, when a plugin fails and the cycle ends.
    pub fn decide(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        options: Options<'_>,
        probe: &mut dyn Probe,
    ) -> Result<Decision, CycleError> {
        let always_score = options.always_score;
        let mut filtered = self.prepare(pod, snapshot, probe)?;
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
        let own = pod.nominated_node.filter(|_| !options.ignore_own_nomination);
        let own = own.and_then(|name| snapshot.find_node(name));
        let ran = own.map(|node| filtered.run(pod, snapshot, [node].into_iter().collect(), probe));
        if matches!(ran, Some(Ok(()))) && !filtered.feasible().is_empty() {
            return Ok(());
        }
        self.filter_all(pod, snapshot, options, own.filter(|_| matches!(ran, Some(Ok(())))), filtered, probe)
    }

    /// Filter over all nodes, or enough of them. `rejected` is the nominated node that was tried alone.
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

    /// The plugins that run at a point, in order.
    pub fn plugins_at(&self, point: ExtensionPoint) -> &[PluginName] {
        self.points.get(&point).map_or(&[], Vec::as_slice)
    }

    /// Whether the plugin runs at the point.
    pub fn runs(&self, point: ExtensionPoint, plugin: PluginName) -> bool {
        self.plugins_at(point).contains(&plugin)
    }

    /// Whether the plugin of this name listens to `event`.
    pub fn hears(&self, plugin: PluginName, event: &ClusterEvent<'_>) -> bool {
        self.filters.iter().any(|seat| seat.plugin.name() == plugin && seat.plugin.events().contains(event))
    }

    /// Whether `event` may make `pod`, which the plugin of this name rejected, schedulable.
    pub fn hint(
        &self,
        plugin: PluginName,
        event: &ClusterEvent<'_>,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Hint {
        if is_deaf(plugin, event) {
            return Hint::Skip;
        }
        let seat = self.filters.iter().find(|seat| seat.plugin.name() == plugin);
        seat.map_or(Hint::Skip, |seat| seat.plugin.hint(event, pod, snapshot))
    }

    /// Whether `node` can take `pod`, which is not counted anywhere: the last look before a binding leaves. `as_it_is` asks that
    /// nothing has to be reserved for it there, since nobody would see to it any more.
    ///
    /// # Errors
    /// When a plugin fails.
    pub fn fits_on(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
        as_it_is: bool,
    ) -> Result<bool, CycleError> {
        let mut filtered = self.prepare(pod, snapshot, &mut NoProbe)?;
        if filtered.prefilter_rejection().is_some() || !filtered.candidates(snapshot).contains(node) {
            return Ok(false);
        }
        filtered.run(pod, snapshot, [node].into_iter().collect(), &mut NoProbe)?;
        let fits = !filtered.feasible().is_empty();
        let needs_nothing = || filtered.reserve(snapshot, node).is_ok_and(|needed| needed.is_empty());
        Ok(fits && (!as_it_is || needs_nothing()))
    }
}

/// The mistake of not hearing what may help.
fn is_deaf(plugin: PluginName, event: &ClusterEvent<'_>) -> bool {
    let goes = matches!(event, ClusterEvent::AssignedPod { action: PodAction::Delete, .. });
    match plugin {
        "NodeResourcesFit" => mutation::is_on(Mutation::DeafResources),
        "InterPodAffinity" => {
            mutation::is_on(Mutation::DeafAffinity) || goes && mutation::is_on(Mutation::DeafAffinityDelete)
        }
        "PodTopologySpread" => mutation::is_on(Mutation::DeafSpread),
        "TaintToleration" => mutation::is_on(Mutation::DeafTaints),
        _ => false,
    }
}
