//! Validates plugin arguments. Upstream: `pkg/scheduler/apis/config/validation/validation_pluginargs.go`,
//! with default feature gates.

use crate::v1::args::{
    Args, DefaultPreemptionArgs, DynamicResourcesArgs, NodeAffinity, NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs, PodTopologySpreadArgs, ResourceSpec, TopologySpreadConstraint,
    UtilizationShapePoint, VolumeBindingArgs,
};
use crate::v1::duration::GoDuration;
use crate::yaml::field::{Json, Problem};
use std::collections::BTreeSet;
use supercargo_core::model::emulation::{EmulatedVersion, VersionRules};
use supercargo_objects::convert::{selectors::term_errors, syntax};

const RATIO: &str = "RequestedToCapacityRatio";

/// Validates the arguments in the field `path`.
///
/// Skips NodeResourcesFit, as upstream does: its arguments are validated when the plugin is created.
pub(crate) fn problems(path: &str, args: &Args, rules: VersionRules, problems: &mut Vec<Problem>) {
    match args {
        Args::DefaultPreemption(args) => preemption(path, args, problems),
        Args::DynamicResources(args) => dynamic_resources(path, args, rules, problems),
        Args::InterPodAffinity(args) => {
            let path = format!("{path}.hardPodAffinityWeight");
            in_range(path, args.hard_pod_affinity_weight.unwrap_or_default(), 100, problems);
        }
        Args::NodeAffinity(args) => {
            let added = args.added_affinity.as_ref();
            problems.extend(added.into_iter().flat_map(|added| affinity(path, added, rules.version)));
        }
        Args::NodeResourcesBalancedAllocation(args) => balanced_allocation(path, args, problems),
        Args::PodTopologySpread(args) => spread(path, args, problems),
        Args::VolumeBinding(args) => volume_binding(path, args, rules, problems),
        Args::NodeResourcesFit(_) | Args::Absent | Args::Unread(_) | Args::Raw(_) => {}
    }
}

fn in_range(path: String, value: i32, most: i32, problems: &mut Vec<Problem>) {
    if !(0..=most).contains(&value) {
        problems.push(Problem::invalid(path, value, &format!("not in valid range [0, {most}]")));
    }
}

fn preemption(path: &str, args: &DefaultPreemptionArgs, problems: &mut Vec<Problem>) {
    let (percentage, absolute) =
        (format!("{path}.minCandidateNodesPercentage"), format!("{path}.minCandidateNodesAbsolute"));
    let percent = args.min_candidate_nodes_percentage.unwrap_or_default();
    let nodes = args.min_candidate_nodes_absolute.unwrap_or_default();
    in_range(percentage.clone(), percent, 100, problems);
    if nodes < 0 {
        problems.push(Problem::invalid(absolute.as_str(), nodes, "not in valid range [0, inf)"));
    }
    if percent == 0 && nodes == 0 {
        let rule = |other: &str| format!("cannot be zero at the same time as {other}");
        problems.push(Problem::invalid(percentage, percent, &rule("minCandidateNodesAbsolute")));
        problems.push(Problem::invalid(absolute, nodes, &rule("minCandidateNodesPercentage")));
    }
}

fn dynamic_resources(
    path: &str,
    args: &DynamicResourcesArgs,
    rules: VersionRules,
    problems: &mut Vec<Problem>,
) {
    let mut at_least = |field: &str, value: Option<GoDuration>, least: GoDuration, rule: &str| {
        if let Some(value) = value.filter(|value| *value < least) {
            problems.push(Problem::invalid(format!("{path}.{field}"), value.to_string().as_str(), rule));
        }
    };
    at_least("filterTimeout", args.filter_timeout, GoDuration(0), "must be zero or positive");
    if rules.waits_for_devices() {
        at_least("bindingTimeout", args.binding_timeout, GoDuration::seconds(1), "must be at least 1 second");
    } else if args.binding_timeout.is_some() {
        let rule = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled";
        problems.push(Problem::forbidden(format!("{path}.bindingTimeout"), rule));
    }
}

fn affinity(path: &str, added: &NodeAffinity, version: EmulatedVersion) -> Vec<Problem> {
    let path = format!("{path}.addedAffinity");
    let mut problems = Vec::new();
    let required = added.required.iter().flat_map(|selector| selector.node_selector_terms.iter().flatten());
    for (at, term) in required.enumerate() {
        let path = format!("{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{at}].");
        problems.extend(term_errors(&term.to_api(), &path, version));
    }
    for (at, weighted) in added.preferred.iter().enumerate().filter(|(_, weighted)| weighted.weight != 0) {
        let path = format!("{path}.preferredDuringSchedulingIgnoredDuringExecution[{at}].");
        problems.extend(term_errors(&weighted.preference.to_api(), &path, version));
    }
    problems
        .into_iter()
        .map(|error| match error.split_once(": ") {
            Some((path, text)) => Problem::new(path, text),
            None => Problem::new("", error),
        })
        .collect()
}

fn balanced_allocation(path: &str, args: &NodeResourcesBalancedAllocationArgs, problems: &mut Vec<Problem>) {
    let mut seen = BTreeSet::new();
    for (at, resource) in args.resources.iter().enumerate() {
        let path = format!("{path}.resources[{at}]");
        if !seen.insert(&resource.name) {
            problems.push(Problem::duplicate(format!("{path}.name"), &resource.name));
        }
        if resource.weight != 1 {
            problems.push(Problem::invalid(format!("{path}.weight"), resource.weight, "must be 1"));
        }
    }
}

fn spread(path: &str, args: &PodTopologySpreadArgs, problems: &mut Vec<Problem>) {
    let (kind_path, kind) = (format!("{path}.defaultingType"), args.defaulting_type.as_str());
    if !["System", "List"].contains(&kind) {
        problems.push(Problem::unsupported(kind_path, kind, &["System", "List"]));
    } else if kind == "System" && !args.default_constraints.is_empty() {
        problems.push(Problem::invalid(kind_path, kind, "when .defaultConstraints are not empty"));
    }
    for (at, constraint) in args.default_constraints.iter().enumerate() {
        let path = format!("{path}.defaultConstraints[{at}]");
        spread_constraint(&path, constraint, problems);
        let (key, when) = (&constraint.topology_key, &constraint.when_unsatisfiable);
        let is_same = |other: &TopologySpreadConstraint| {
            (&other.topology_key, &other.when_unsatisfiable) == (key, when)
        };
        if args.default_constraints[..at].iter().any(is_same) {
            problems.push(Problem::duplicate(path, &format!("{{{key}, {when}}}")));
        }
    }
}

fn spread_constraint(path: &str, constraint: &TopologySpreadConstraint, problems: &mut Vec<Problem>) {
    if constraint.max_skew <= 0 {
        let rule = "not in valid range (0, inf)";
        problems.push(Problem::invalid(format!("{path}.maxSkew"), constraint.max_skew, rule));
    }
    let key = format!("{path}.topologyKey");
    if constraint.topology_key.is_empty() {
        problems.push(Problem::required(key, "can not be empty"));
    } else {
        label_name(&key, &constraint.topology_key, problems);
    }
    let actions = ["DoNotSchedule", "ScheduleAnyway"];
    let (when, path_of_when) = (constraint.when_unsatisfiable.as_str(), format!("{path}.whenUnsatisfiable"));
    if when.is_empty() {
        problems.push(Problem::required(path_of_when, "can not be empty"));
    } else if !actions.contains(&when) {
        problems.push(Problem::unsupported(path_of_when, when, &actions));
    }
    if constraint.label_selector.is_some() {
        let rule = "constraint must not define a selector, as they deduced for each pod";
        problems.push(Problem::forbidden(format!("{path}.labelSelector"), rule));
    }
}

fn label_name(path: &str, name: &str, problems: &mut Vec<Problem>) {
    let wrong = syntax::label_key_errors(name);
    problems.extend(wrong.iter().map(|rule| Problem::invalid(path, name, rule)));
}

fn volume_binding(path: &str, args: &VolumeBindingArgs, rules: VersionRules, problems: &mut Vec<Problem>) {
    let timeout = args.bind_timeout_seconds.unwrap_or_default();
    if timeout < 0 {
        let rule = "invalid BindTimeoutSeconds, should not be a negative value";
        problems.push(Problem::invalid(format!("{path}.bindTimeoutSeconds"), timeout, rule));
    }
    if rules.scores_storage_capacity {
        shape(&format!("{path}.shape"), args.shape.as_deref().unwrap_or_default(), problems);
    } else if let Some(shape) = &args.shape {
        let point = |p: &UtilizationShapePoint| {
            format!("{{\"Utilization\":{},\"Score\":{}}}", p.utilization, p.score)
        };
        let points: Vec<String> = shape.iter().map(point).collect();
        let rule = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring";
        let shown = Json(format!("[{}]", points.join(",")));
        problems.push(Problem::invalid(format!("{path}.shape"), shown, rule));
    }
}

/// Validates the arguments of NodeResourcesFit; paths are relative to the arguments.
pub(crate) fn fit_problems(args: &NodeResourcesFitArgs, rules: VersionRules) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (at, name) in args.ignored_resources.iter().enumerate() {
        label_name(&format!("ignoredResources[{at}]"), name, &mut problems);
    }
    for (at, group) in args.ignored_resource_groups.iter().enumerate() {
        let path = format!("ignoredResourceGroups[{at}]");
        if group.contains('/') {
            let rule = "resource group name can't contain '/'";
            problems.push(Problem::invalid(path.as_str(), group.as_str(), rule));
        }
        label_name(&path, group, &mut problems);
    }
    let Some(strategy) = &args.scoring_strategy else {
        if rules.requires_scoring_strategy {
            problems.push(Problem::required("scoringStrategy", "ScoringStrategy field is required"));
        }
        return problems;
    };
    let kinds = ["LeastAllocated", "MostAllocated", RATIO];
    if !kinds.contains(&strategy.kind.as_str()) {
        problems.push(Problem::unsupported("scoringStrategy.type", &strategy.kind, &kinds));
    }
    weights("scoringStrategy.resources", &strategy.resources, &mut problems);
    let path = "scoringStrategy.requestedToCapacityRatio";
    match &strategy.requested_to_capacity_ratio {
        // Versions without the rule panic.
        None if strategy.kind == RATIO => {
            problems.push(Problem::required(path, "must be specified when type is RequestedToCapacityRatio"));
        }
        Some(ratio) if !rules.requires_scoring_strategy => {
            shape("scoringStrategy.shape", &ratio.shape, &mut problems);
        }
        Some(ratio) if strategy.kind == RATIO => shape(&format!("{path}.shape"), &ratio.shape, &mut problems),
        Some(_) => {
            let rule = "must be nil when type is not RequestedToCapacityRatio";
            problems.push(Problem::forbidden(path, rule));
        }
        None => {}
    }
    problems
}

fn weights(path: &str, resources: &[ResourceSpec], problems: &mut Vec<Problem>) {
    for (at, resource) in resources.iter().enumerate().filter(|(_, r)| !(1..=100).contains(&r.weight)) {
        let rule = format!("resource weight of {} not in valid range (0, 100]", resource.name);
        problems.push(Problem::invalid(format!("{path}[{at}].weight"), resource.weight, &rule));
    }
}

fn shape(path: &str, shape: &[UtilizationShapePoint], problems: &mut Vec<Problem>) {
    if shape.is_empty() {
        problems.push(Problem::required(path, "at least one point must be specified"));
        return;
    }
    let falls = shape.windows(2).position(|pair| pair[0].utilization >= pair[1].utilization);
    if let Some(at) = falls.map(|before| before + 1) {
        let rule = "values must be sorted in increasing order";
        let path = format!("{path}[{at}].utilization");
        problems.push(Problem::invalid(path, shape[at].utilization, rule));
    }
    for (at, point) in shape.iter().enumerate() {
        in_range(format!("{path}[{at}].utilization"), point.utilization, 100, problems);
        in_range(format!("{path}[{at}].score"), point.score, 10, problems);
    }
}
