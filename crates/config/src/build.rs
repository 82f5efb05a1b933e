//! Converts plugin arguments into the engine's types. Strings are interned.

use crate::v1::args::{
    Args, NodeAffinity, NodeResourcesFitArgs, NodeSelectorTerm, PodTopologySpreadArgs, ResourceSpec,
    SelectorRequirement, TopologySpreadConstraint, UtilizationShapePoint,
};
use std::time::Duration;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::WhenUnsatisfiable;
use supercargo_core::plugins::inter_pod_affinity::InterPodAffinity;
use supercargo_core::plugins::node_affinity::NodeAffinityArgs;
use supercargo_core::plugins::node_resources::{
    NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs as FitArgs, ResourceSpec as CoreResource,
    ScoringStrategy,
};
use supercargo_core::plugins::pod_topology_spread::{DefaultConstraint, Defaults, PodTopologySpread};
use supercargo_core::plugins::shape::ShapePoint;
use supercargo_core::preemption::DefaultPreemptionArgs;
use supercargo_core::registry::PluginArgs;
use supercargo_objects::api::core as api;
use supercargo_objects::api::meta::SelectorRequirement as ApiRequirement;
use supercargo_objects::convert::selectors::{preferred_terms, required_terms};

/// Applies `args`, valid and with defaults, to the arguments of their plugin.
pub(crate) fn apply(args: &Args, to: &mut PluginArgs, tables: &mut Tables) {
    match args {
        Args::InterPodAffinity(args) => {
            to.inter_pod_affinity = InterPodAffinity {
                hard_pod_affinity_weight: args.hard_pod_affinity_weight.unwrap_or_default(),
                ignore_preferred_terms_of_existing_pods: args.ignore_preferred_terms_of_existing_pods,
            };
        }
        Args::NodeAffinity(args) => {
            to.node_affinity = args.added_affinity.as_ref().map(|a| added(a, tables)).unwrap_or_default();
        }
        Args::NodeResourcesBalancedAllocation(args) => {
            to.node_resources_balanced_allocation =
                NodeResourcesBalancedAllocationArgs { resources: resources(&args.resources) };
        }
        Args::NodeResourcesFit(args) => to.node_resources_fit = fit(args),
        Args::PodTopologySpread(args) => {
            to.pod_topology_spread = PodTopologySpread { defaults: spread(args, tables) };
        }
        Args::DefaultPreemption(args) => {
            let positive = |n: Option<i32>| n.and_then(|n| u32::try_from(n).ok()).unwrap_or_default();
            to.default_preemption = DefaultPreemptionArgs {
                min_candidate_nodes_percentage: positive(args.min_candidate_nodes_percentage),
                min_candidate_nodes_absolute: positive(args.min_candidate_nodes_absolute),
            };
        }
        Args::VolumeBinding(args) => {
            let seconds = args.bind_timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            to.volume_binding.bind_timeout = Duration::from_secs(seconds.unwrap_or_default());
            if let Some(shape) = &args.shape {
                to.volume_binding.shape = shape.iter().map(shape_point).collect();
            }
        }
        // A search for devices is bounded by its steps, so `filterTimeout` has no effect.
        Args::DynamicResources(args) => {
            if let Some(timeout) = args.binding_timeout {
                let nanos = u64::try_from(timeout.0).unwrap_or_default();
                to.dynamic_resources.binding_timeout = Duration::from_nanos(nanos);
            }
        }
        Args::Absent | Args::Unread(_) | Args::Raw(_) => {}
    }
}

fn added(affinity: &NodeAffinity, tables: &mut Tables) -> NodeAffinityArgs {
    let required = affinity.required.as_ref().map(|selector| {
        let terms = selector.node_selector_terms.iter().flatten();
        let terms: Vec<_> = terms.map(NodeSelectorTerm::to_api).collect();
        required_terms(tables, &terms)
    });
    let preferred: Vec<_> = affinity
        .preferred
        .iter()
        .map(|term| api::PreferredSchedulingTerm {
            weight: term.weight,
            preference: term.preference.to_api(),
        })
        .collect();
    let added_preferred =
        (!preferred.is_empty()).then(|| preferred_terms(tables, &preferred).unwrap_or_default());
    NodeAffinityArgs { added_required: required, added_preferred }
}

impl NodeSelectorTerm {
    /// Converts the term into the type used in API objects.
    pub(crate) fn to_api(&self) -> api::NodeSelectorTerm {
        let all = |requirements: &[SelectorRequirement]| {
            requirements
                .iter()
                .map(|requirement| ApiRequirement {
                    key: requirement.key.clone(),
                    operator: requirement.operator.clone(),
                    values: requirement.values.clone(),
                })
                .collect()
        };
        api::NodeSelectorTerm {
            match_expressions: all(&self.match_expressions),
            match_fields: all(&self.match_fields),
        }
    }
}

fn resources(specs: &[ResourceSpec]) -> Vec<CoreResource> {
    specs.iter().map(|spec| CoreResource { name: spec.name.as_str().into(), weight: spec.weight }).collect()
}

fn shape_point(point: &UtilizationShapePoint) -> ShapePoint {
    ShapePoint { utilization: i64::from(point.utilization), score: i64::from(point.score) }
}

fn fit(args: &NodeResourcesFitArgs) -> FitArgs {
    let names = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
    let strategy = args.scoring_strategy.clone().unwrap_or_default();
    FitArgs {
        ignored_resources: names(&args.ignored_resources),
        ignored_resource_groups: names(&args.ignored_resource_groups),
        strategy: match (strategy.kind.as_str(), &strategy.requested_to_capacity_ratio) {
            ("MostAllocated", _) => ScoringStrategy::MostAllocated,
            ("RequestedToCapacityRatio", Some(ratio)) => {
                ScoringStrategy::RequestedToCapacityRatio(ratio.shape.iter().map(shape_point).collect())
            }
            _ => ScoringStrategy::LeastAllocated,
        },
        resources: resources(&strategy.resources),
    }
}

fn spread(args: &PodTopologySpreadArgs, tables: &mut Tables) -> Defaults {
    if args.defaulting_type == "System" {
        return Defaults::System;
    }
    let constraint = |c: &TopologySpreadConstraint| DefaultConstraint {
        max_skew: c.max_skew,
        topology_key: tables.symbol(&c.topology_key),
        when_unsatisfiable: if c.when_unsatisfiable == "DoNotSchedule" {
            WhenUnsatisfiable::DoNotSchedule
        } else {
            WhenUnsatisfiable::ScheduleAnyway
        },
        min_domains: c.min_domains.unwrap_or(1),
        honor_node_affinity: c.node_affinity_policy.as_deref().is_none_or(|policy| policy == "Honor"),
        honor_node_taints: c.node_taints_policy.as_deref() == Some("Honor"),
    };
    Defaults::List(args.default_constraints.iter().map(constraint).collect())
}
