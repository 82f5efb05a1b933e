//! The registry of in-tree plugins: the only place that names them.
//!
//! Names, points, order and weights are upstream's (`pkg/scheduler/apis/config/v1/default_plugins.go`,
//! `pkg/scheduler/framework/plugins/registry.go`). An entry without constructors only keeps its plugin's
//! place in order and configuration. DynamicResources rejects pods that need device allocation. The
//! configuration is validated outside the engine; a [`Plan`] names only plugins of this registry.

mod args;
mod gate;

use crate::framework::extension_point::ExtensionPoint;
pub use args::{PluginArgs, VolumeBindingArgs};

use crate::cycle::{EnabledFilter, EnabledScore, Framework, Rank, Timeouts};
use crate::framework::placement::{EnabledPlacementScore, PlacementScorePlugin};
use crate::framework::post_filter::PostFilterPlugin;
use crate::framework::{FilterPlugin, PluginName, ScorePlugin};
use crate::model::emulation::{EmulatedVersion, VersionRules};
use crate::plugins::dynamic_resources::{Deallocation, DeviceScore, DynamicResources};
use crate::plugins::gang_scheduling;
use crate::plugins::image_locality::ImageLocality;
use crate::plugins::node_affinity::NodeAffinity;
use crate::plugins::node_declared_features::NodeDeclaredFeatures;
use crate::plugins::node_name::NodeName;
use crate::plugins::node_ports::NodePorts;
use crate::plugins::node_resources::{
    NodeResourcesBalancedAllocation, NodeResourcesFit, PlacementUtilization,
};
use crate::plugins::node_unschedulable::NodeUnschedulable;
use crate::plugins::node_volume_limits::NodeVolumeLimits;
use crate::plugins::pod_group_pods_count::{self, PodGroupPodsCount};
use crate::plugins::taint_toleration::TaintToleration;
use crate::plugins::topology_placement;
use crate::plugins::volume_binding::{StorageScore, VolumeBinding};
use crate::plugins::volume_restrictions::VolumeRestrictions;
use crate::plugins::volume_zone::VolumeZone;
use crate::preemption::DefaultPreemption;
use std::collections::BTreeMap;

use ExtensionPoint::{
    Bind, Filter, Permit, PlacementGenerate, PlacementScore, PostFilter, PreBind, PreEnqueue, PreFilter,
    PreScore, QueueSort, Reserve, Score,
};

type MakeFilter = fn(&PluginArgs) -> Box<dyn FilterPlugin>;
type MakeScore = fn(&Plan) -> Box<dyn ScorePlugin>;
type MakePostFilter = fn(&PluginArgs) -> Box<dyn PostFilterPlugin>;

/// A property of the emulated version.
type Rule = fn(VersionRules) -> bool;

/// An entry of the registry.
struct Entry {
    name: PluginName,
    /// The first version that has the plugin.
    since: EmulatedVersion,
    /// The points that upstream's plugin implements in every version.
    points: &'static [ExtensionPoint],
    /// The points that it implements only where the rule holds.
    some_points: &'static [(ExtensionPoint, Rule)],
    /// Its default weight, if it is a default plugin with Score.
    weight: Option<i32>,
    /// Whether it is enabled by default.
    is_default: Rule,
    filter: Option<MakeFilter>,
    score: Option<MakeScore>,
    post_filter: Option<MakePostFilter>,
    /// Points that fail with upstream's error if the point that prepares for them is disabled.
    needs: &'static [Need],
}

/// `point` ends the attempt with `error` unless `prepared_by` is enabled, too.
struct Need {
    point: ExtensionPoint,
    prepared_by: ExtensionPoint,
    error: &'static str,
}

const fn need(point: ExtensionPoint, prepared_by: ExtensionPoint, error: &'static str) -> Need {
    Need { point, prepared_by, error }
}

impl Entry {
    const fn new(name: PluginName, points: &'static [ExtensionPoint]) -> Self {
        Self {
            name,
            since: EmulatedVersion::ALL[0],
            points,
            some_points: &[],
            weight: None,
            is_default: |_| true,
            filter: None,
            score: None,
            post_filter: None,
            needs: &[],
        }
    }

    /// Marks a plugin that only the configuration enables.
    const fn optional(self) -> Self {
        self.default_if(|_| false)
    }

    /// Marks a plugin that is enabled by default only where the rule holds.
    const fn default_if(mut self, rule: Rule) -> Self {
        self.is_default = rule;
        self
    }

    const fn since(mut self, version: EmulatedVersion) -> Self {
        self.since = version;
        self
    }

    const fn some_points(mut self, points: &'static [(ExtensionPoint, Rule)]) -> Self {
        self.some_points = points;
        self
    }

    fn implements(&self, point: ExtensionPoint, rules: VersionRules) -> bool {
        let holds = |&(other, holds): &(ExtensionPoint, Rule)| other == point && holds(rules);
        self.points.contains(&point) || self.some_points.iter().any(holds)
    }

    const fn filter(mut self, make: MakeFilter) -> Self {
        self.filter = Some(make);
        self
    }

    const fn score(mut self, make: MakeScore) -> Self {
        self.score = Some(make);
        self
    }

    const fn post_filter(mut self, make: MakePostFilter) -> Self {
        self.post_filter = Some(make);
        self
    }

    const fn weight(mut self, weight: i32) -> Self {
        self.weight = Some(weight);
        self
    }

    const fn needs(mut self, needs: &'static [Need]) -> Self {
        self.needs = needs;
        self
    }

    /// The error with which `point` ends the attempt because its preparing point is disabled.
    fn fails_at(&self, point: ExtensionPoint, plan: &Plan) -> Option<&'static str> {
        let unmet = |need: &&Need| need.point == point && !plan.runs(need.prepared_by, self.name);
        self.needs.iter().find(unmet).map(|need| need.error)
    }
}

/// In 1.36 and older, these plugins have no PreFilter.
const PRE_FILTER_SINCE_1_37: &[(ExtensionPoint, Rule)] = &[(PreFilter, |rules| rules.node_name_narrows)];

const IN_TREE: &[Entry] = &[
    Entry::new("SchedulingGates", &[PreEnqueue]),
    Entry::new("PrioritySort", &[QueueSort]),
    Entry::new("NodeUnschedulable", &[Filter])
        .some_points(PRE_FILTER_SINCE_1_37)
        .filter(|_| Box::new(NodeUnschedulable)),
    Entry::new("NodeName", &[Filter]).some_points(PRE_FILTER_SINCE_1_37).filter(|_| Box::new(NodeName)),
    Entry::new("TaintToleration", &[Filter, PreScore, Score])
        .some_points(PRE_FILTER_SINCE_1_37)
        .filter(|_| Box::new(TaintToleration))
        .score(|_| Box::new(TaintToleration))
        .weight(3)
        .needs(&[need(
            Score,
            PreScore,
            "failed to read \"PreScoreTaintToleration\" from cycleState: not found",
        )]),
    Entry::new("NodeAffinity", &[PreFilter, Filter, PreScore, Score])
        .filter(|args| Box::new(NodeAffinity::new(args.node_affinity.clone())))
        .score(|plan| Box::new(NodeAffinity::new(plan.args.node_affinity.clone())))
        .weight(2),
    Entry::new("NodePorts", &[PreFilter, Filter]).filter(|_| Box::new(NodePorts)).needs(&[need(
        Filter,
        PreFilter,
        "reading \"PreFilterNodePorts\" from cycleState: not found",
    )]),
    Entry::new("NodeResourcesFit", &[PreFilter, Filter, PreScore, Score, PlacementScore])
        .filter(|args| Box::new(NodeResourcesFit::new(args.node_resources_fit.clone())))
        .score(|plan| Box::new(NodeResourcesFit::new(plan.args.node_resources_fit.clone())))
        .weight(1)
        .needs(&[need(
            Filter,
            PreFilter,
            "error reading \"PreFilterNodeResourcesFit\" from cycleState: not found",
        )]),
    Entry::new("VolumeRestrictions", &[PreFilter, Filter])
        .filter(|_| Box::new(VolumeRestrictions))
        .needs(&[need(Filter, PreFilter, "cannot read \"PreFilterVolumeRestrictions\" from cycleState")]),
    Entry::new("NodeVolumeLimits", &[PreFilter, Filter]).filter(|_| Box::new(NodeVolumeLimits)),
    Entry::new("VolumeBinding", &[PreFilter, Filter, PreScore, Score, Reserve, PreBind])
        .filter(|_| Box::new(VolumeBinding))
        .score(|plan| {
            let [pre_filters, filters] = [PreFilter, Filter].map(|point| plan.runs(point, "VolumeBinding"));
            Box::new(StorageScore::new(plan.args.volume_binding.shape.clone(), pre_filters, filters))
        })
        .needs(&[need(Filter, PreFilter, "not found")]),
    Entry::new("VolumeZone", &[PreFilter, Filter]).filter(|_| Box::new(VolumeZone)),
    Entry::new("PodTopologySpread", &[PreFilter, Filter, PreScore, Score])
        .filter(|args| Box::new(args.pod_topology_spread.clone()))
        .score(|plan| Box::new(plan.args.pod_topology_spread.clone()))
        .weight(2)
        .needs(&[
            need(Filter, PreFilter, "reading \"PreFilterPodTopologySpread\" from cycleState: not found"),
            need(Score, PreScore, "error reading \"PreScorePodTopologySpread\" from cycleState: not found"),
        ]),
    Entry::new("InterPodAffinity", &[PreFilter, Filter, PreScore, Score])
        .filter(|args| Box::new(args.inter_pod_affinity))
        .score(|plan| Box::new(plan.args.inter_pod_affinity))
        .weight(2)
        .needs(&[
            need(Filter, PreFilter, "error reading \"PreFilterInterPodAffinity\" from cycleState: not found"),
            need(Score, PreScore, "failed to read \"PreScoreInterPodAffinity\" from cycleState: not found"),
        ]),
    Entry::new("DynamicResources", &[PreEnqueue, PreFilter, Filter, PostFilter, Reserve, PreBind])
        .some_points(&[(Score, |rules| rules.scores_devices)])
        .filter(|args| Box::new(DynamicResources::new(args.dynamic_resources)))
        .score(|plan| Box::new(DeviceScore::new(plan.args.dynamic_resources)))
        .post_filter(|args| Box::new(Deallocation::new(args.dynamic_resources)))
        .weight(2)
        .needs(&[need(Filter, PreFilter, "not found"), need(Score, PreFilter, "not found")]),
    Entry::new("DefaultPreemption", &[PostFilter, PreEnqueue])
        .post_filter(|args| Box::new(DefaultPreemption::new(args.default_preemption))),
    Entry::new("NodeResourcesBalancedAllocation", &[PreScore, Score])
        .score(|plan| {
            let args = plan.args.node_resources_balanced_allocation.clone();
            Box::new(NodeResourcesBalancedAllocation::new(args))
        })
        .weight(1),
    Entry::new("ImageLocality", &[Score]).score(|_| Box::new(ImageLocality)).weight(1),
    Entry::new("DefaultBinder", &[Bind]),
    Entry::new("NodeDeclaredFeatures", &[PreFilter, Filter])
        .since(EmulatedVersion::V1_35)
        .default_if(|rules| rules.checks_declared_features)
        .filter(|_| Box::new(NodeDeclaredFeatures)),
    // These plugins do nothing without their feature gates, which are off by default.
    Entry::new(gang_scheduling::NAME, &[Permit, PreEnqueue])
        .since(EmulatedVersion::V1_35)
        .default_if(|rules| rules.groups.gangs),
    Entry::new(topology_placement::NAME, &[PlacementGenerate])
        .since(EmulatedVersion::V1_36)
        .default_if(|rules| rules.groups.topology),
    Entry::new(pod_group_pods_count::NAME, &[PlacementScore])
        .since(EmulatedVersion::V1_36)
        .default_if(|rules| rules.groups.topology),
    Entry::new("DeferredPodScheduling", &[PreFilter, Filter, Permit])
        .since(EmulatedVersion::V1_37)
        .optional(),
];

fn entry(name: &str) -> Option<&'static Entry> {
    IN_TREE.iter().find(|entry| entry.name == name)
}

/// Returns the names of all plugins of a version.
pub fn names(rules: VersionRules) -> impl Iterator<Item = PluginName> {
    IN_TREE.iter().filter(move |entry| entry.since <= rules.version).map(|entry| entry.name)
}

/// Returns the plugin of this name, if the version has it.
pub fn find(name: &str, rules: VersionRules) -> Option<PluginName> {
    entry(name).filter(|entry| entry.since <= rules.version).map(|entry| entry.name)
}

/// Whether upstream's plugin of this name implements `point`.
pub fn implements(name: &str, point: ExtensionPoint, rules: VersionRules) -> bool {
    entry(name).is_some_and(|entry| entry.implements(point, rules))
}

/// Returns the plugins that are enabled by default, in upstream's order, with their weights.
pub fn default_plugins(rules: VersionRules) -> Vec<(PluginName, Option<i32>)> {
    let mut entries: Vec<&Entry> = IN_TREE.iter().filter(|entry| (entry.is_default)(rules)).collect();
    if rules.node_name_narrows {
        let at = |name| entries.iter().position(|entry| entry.name == name).expect("a default plugin");
        let (unschedulable, node_name) = (at("NodeUnschedulable"), at("NodeName"));
        entries.swap(unschedulable, node_name);
    }
    let weight = |entry: &Entry| entry.weight.filter(|_| entry.implements(Score, rules));
    entries.into_iter().map(|entry| (entry.name, weight(entry))).collect()
}

/// The enabled plugins of a profile: points, order, weights and arguments.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The plugins of each point, in execution order.
    pub points: BTreeMap<ExtensionPoint, Vec<PluginName>>,
    /// Weights of Score; 1 if absent.
    pub weights: BTreeMap<PluginName, i64>,
    /// Arguments of the plugins.
    pub args: PluginArgs,
}

impl Default for Plan {
    fn default() -> Self {
        Self::of(VersionRules::default())
    }
}

impl Plan {
    /// Returns the default plugins of a version with their default weights and arguments.
    pub fn of(rules: VersionRules) -> Self {
        let defaults = default_plugins(rules);
        let at = |point: ExtensionPoint| {
            defaults.iter().map(|&(name, _)| name).filter(|name| implements(name, point, rules)).collect()
        };
        let weighed = defaults.iter().filter_map(|&(name, weight)| Some((name, i64::from(weight?))));
        Self {
            points: ExtensionPoint::ALL.map(|point| (point, at(point))).into(),
            weights: weighed.collect(),
            args: PluginArgs::default(),
        }
    }

    /// Returns the plugins of a point, in execution order.
    pub fn at(&self, point: ExtensionPoint) -> &[PluginName] {
        self.points.get(&point).map_or(&[], Vec::as_slice)
    }

    /// Whether the plugin is enabled at the point.
    pub fn runs(&self, point: ExtensionPoint, name: &str) -> bool {
        self.at(point).contains(&name)
    }

    fn rank(&self, point: ExtensionPoint, name: &str) -> Option<usize> {
        self.at(point).iter().position(|other| *other == name)
    }

    /// Returns the entries in the order of `point`, followed by all others.
    fn ordered_by(&self, point: ExtensionPoint) -> Vec<&'static Entry> {
        let mut rows: Vec<&Entry> = IN_TREE.iter().collect();
        rows.sort_by_key(|row| self.rank(point, row.name).unwrap_or(usize::MAX));
        rows
    }

    fn filter_seat(&self, row: &Entry) -> Option<EnabledFilter> {
        let make = row.filter?;
        // A plugin that is enabled nowhere does not affect requeueing either.
        if !ExtensionPoint::ALL.iter().any(|&point| self.runs(point, row.name)) {
            return None;
        }
        let filter = self.rank(Filter, row.name);
        Some(EnabledFilter {
            plugin: make(&self.args),
            pre_filter: self.runs(PreFilter, row.name),
            filter: filter.map(|rank| Rank { rank, fails: row.fails_at(Filter, self) }),
            reserve: self.rank(Reserve, row.name),
        })
    }

    fn score_seat(&self, row: &Entry) -> Option<EnabledScore> {
        let make = row.score?;
        let (pre_score, score) = (self.runs(PreScore, row.name), self.rank(Score, row.name));
        (pre_score || score.is_some()).then(|| EnabledScore {
            plugin: make(self),
            weight: self.weights.get(row.name).copied().unwrap_or(1),
            pre_score,
            score: score.map(|rank| Rank { rank, fails: row.fails_at(Score, self) }),
        })
    }
}

impl Plan {
    fn placement_scores(&self) -> Vec<EnabledPlacementScore> {
        let enabled = |&name: &PluginName| {
            let plugin: Box<dyn PlacementScorePlugin> = match name {
                pod_group_pods_count::NAME => Box::new(PodGroupPodsCount),
                "NodeResourcesFit" => {
                    Box::new(PlacementUtilization::new(self.args.node_resources_fit.resources.clone()))
                }
                _ => return None,
            };
            let weight = self.weights.get(name).copied().unwrap_or(1);
            Some(EnabledPlacementScore { plugin, weight })
        };
        self.at(PlacementScore).iter().filter_map(enabled).collect()
    }
}

impl Framework {
    /// Builds the plugins of a plan.
    pub fn new(plan: &Plan) -> Self {
        let filters = plan.ordered_by(PreFilter);
        let scores = plan.ordered_by(PreScore);
        let post_filters = plan.at(PostFilter).iter().filter_map(|name| entry(name)?.post_filter);
        Self {
            filters: filters.into_iter().filter_map(|row| plan.filter_seat(row)).collect(),
            scores: scores.into_iter().filter_map(|row| plan.score_seat(row)).collect(),
            post_filters: post_filters.map(|make| make(&plan.args)).collect(),
            placement_scores: plan.placement_scores(),
            sampling: None,
            extended: false,
            timeouts: Timeouts {
                volumes: plan.args.volume_binding.bind_timeout,
                devices: plan.args.dynamic_resources.binding_timeout,
            },
            points: plan.points.clone(),
        }
    }
}

impl Default for Framework {
    /// The default plugins with their default weights and arguments, in upstream's order.
    fn default() -> Self {
        Self::new(&Plan::default())
    }
}

#[cfg(test)]
mod tests;
