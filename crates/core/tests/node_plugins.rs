//! Plugins that evaluate each node alone: tables, hints and property tests.

#[path = "node_plugins/shared_devices.rs"]
mod shared_devices;
mod support;

#[path = "node_plugins/hints.rs"]
mod hints;
#[path = "node_plugins/laws.rs"]
mod laws;

use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::PreferredNodeTerm;
use supercargo_core::plugins::dynamic_resources::DynamicResources;
use supercargo_core::plugins::image_locality::ImageLocality;
use supercargo_core::plugins::node_affinity::{NodeAffinity, NodeAffinityArgs};
use supercargo_core::plugins::node_name::NodeName;
use supercargo_core::plugins::node_ports::NodePorts;
use supercargo_core::plugins::node_resources::{
    NodeResourcesBalancedAllocation, NodeResourcesBalancedAllocationArgs, NodeResourcesFit,
    NodeResourcesFitArgs, ResourceSpec, ScoringStrategy,
};
use supercargo_core::plugins::node_unschedulable::NodeUnschedulable;
use supercargo_core::plugins::shape::ShapePoint;
use supercargo_core::plugins::taint_toleration::TaintToleration;
use support::{Plugins, TestCluster, language, table};

/// Parses `Name`, `filter:Name` or `score:Name`, each with arguments in parentheses joined by `+`.
fn plugins(word: &str, tables: &mut Tables, to: &mut Plugins) {
    let (point, word) =
        word.split_once(':').filter(|(p, _)| ["filter", "score"].contains(p)).unwrap_or(("", word));
    let (name, args) = word.trim_end_matches(')').split_once('(').unwrap_or((word, ""));
    let args: Vec<&str> = args.split('+').filter(|arg| !arg.is_empty()).collect();
    let (filter, score) = (point != "score", point != "filter");
    match name {
        "NodeUnschedulable" => to.filter(NodeUnschedulable),
        "NodeName" => to.filter(NodeName),
        "NodePorts" => to.filter(NodePorts),
        "DynamicResources" => to.filter(DynamicResources::default()),
        "ImageLocality" => to.score(ImageLocality),
        "TaintToleration" => both(TaintToleration, filter, score, to),
        "NodeAffinity" => both(NodeAffinity::new(affinity_args(&args, tables)), filter, score, to),
        "NodeResourcesFit" => both(NodeResourcesFit::new(fit_args(&args)), filter, score, to),
        "NodeResourcesBalancedAllocation" => {
            let mut chosen = NodeResourcesBalancedAllocationArgs::default();
            if !args.is_empty() {
                chosen.resources = args.iter().map(|arg| resource(arg, 1)).collect();
            }
            to.score(NodeResourcesBalancedAllocation::new(chosen));
        }
        other => panic!("no plugin {other:?} here"),
    }
}

fn both<P>(plugin: P, filter: bool, score: bool, to: &mut Plugins)
where
    P: supercargo_core::framework::FilterPlugin + supercargo_core::framework::ScorePlugin + Clone + 'static,
{
    if filter {
        to.filter(plugin.clone());
    }
    if score {
        to.score(plugin);
    }
}

fn affinity_args(args: &[&str], tables: &mut Tables) -> NodeAffinityArgs {
    let (mut required, mut preferred) = (Vec::new(), Vec::new());
    for arg in args {
        match arg.split_once('=').expect("require=term or prefer=weight/term") {
            ("require", term) => required.push(language::node_term(tables, term)),
            ("prefer", term) => {
                let (weight, term) = term.split_once('/').expect("prefer=weight/term");
                let term = language::node_term(tables, term);
                preferred.push(PreferredNodeTerm { weight: weight.parse().expect("a weight"), term });
            }
            _ => panic!("NodeAffinity has no argument {arg:?}"),
        }
    }
    let added_required = (!required.is_empty()).then(|| required.into());
    let added_preferred = (!preferred.is_empty()).then(|| preferred.into());
    NodeAffinityArgs { added_required, added_preferred }
}

fn fit_args(args: &[&str]) -> NodeResourcesFitArgs {
    let mut chosen = NodeResourcesFitArgs::default();
    let mut resources = Vec::new();
    for arg in args {
        match arg.split_once('=').unwrap_or((arg, "")) {
            ("LeastAllocated", _) => chosen.strategy = ScoringStrategy::LeastAllocated,
            ("MostAllocated", _) => chosen.strategy = ScoringStrategy::MostAllocated,
            ("RequestedToCapacityRatio", points) => {
                let points = points.split(',').map(|point| {
                    let (utilization, score) = point.split_once(':').expect("utilization:score");
                    let [utilization, score] = [utilization, score].map(|n| n.parse().expect("a number"));
                    ShapePoint { utilization, score }
                });
                chosen.strategy = ScoringStrategy::RequestedToCapacityRatio(points.collect());
            }
            ("ignore", name) => chosen.ignored_resources.push(name.into()),
            ("ignore-group", name) => chosen.ignored_resource_groups.push(name.into()),
            ("none", _) => chosen.resources.clear(),
            (name, weight) => resources.push(resource(name, weight.parse().expect("a weight"))),
        }
    }
    if !resources.is_empty() {
        chosen.resources = resources;
    }
    chosen
}

fn resource(name: &str, weight: i64) -> ResourceSpec {
    ResourceSpec { name: name.into(), weight }
}

#[test]
fn node_resources_fit_filters_as_upstream() {
    table::check_file("node_resources_fit.txt", &plugins);
}

#[test]
fn node_resources_fit_scores_as_upstream() {
    table::check_file("node_resources_score.txt", &plugins);
}

#[test]
fn resource_of_a_device_class_is_rejected_by_dynamic_resources() {
    table::check_file("dynamic-resources.txt", &plugins);
}

#[test]
fn balanced_allocation_scores_as_upstream() {
    table::check_file("balanced_allocation.txt", &plugins);
}

#[test]
fn image_locality_scores_as_upstream() {
    table::check_file("image_locality.txt", &plugins);
}

#[test]
fn node_affinity_judges_as_upstream() {
    table::check_file("node_affinity.txt", &plugins);
}

#[test]
fn taints_cordons_and_names_judge_as_upstream() {
    table::check_file("taints.txt", &plugins);
}

#[test]
fn node_ports_filters_as_upstream() {
    table::check_file("node_ports.txt", &plugins);
}

#[test]
fn cluster_language_equals_the_builders() {
    let mut cluster = TestCluster::new();
    let parsed = cluster.node_from("a zone=z1 cpu=4 mem=8Gi res:example.com/gpu=2 taint=k=v:NoSchedule");
    let built = cluster
        .node("a")
        .zone("z1")
        .cpu(4000)
        .memory(8 << 30)
        .scalar("example.com/gpu", 2)
        .taint("k", "v", supercargo_core::model::node::TaintEffect::NoSchedule)
        .build();
    assert_eq!(parsed, built);
    let parsed = cluster.pod_from("p label:app=web cpu=500m port=UDP/10.0.0.1:53 select:zone=z1");
    let built = cluster
        .pod("p")
        .label("app", "web")
        .cpu(500)
        .port("UDP", "10.0.0.1", 53)
        .select("topology.kubernetes.io/zone", "z1")
        .build();
    assert_eq!(parsed, built);
}

#[test]
fn unchanged_node_keeps_its_earlier_image_count() {
    let mut cluster = TestCluster::new();
    let score = |cluster: &mut TestCluster| {
        let pod = cluster.pod_from("x image=i:latest");
        let mut chosen = Plugins::default();
        chosen.score(ImageLocality);
        support::run::decide(cluster, &chosen, &pod)
    };
    for name in ["a", "b"] {
        let node = cluster.node_from(&format!("{name} image=i:latest@1000Mi"));
        cluster.add_node(&node);
        cluster.cache.refresh();
    }
    assert!(score(&mut cluster).ends_with("ImageLocality: a 48 b 100\n"), "a still counts itself alone");
    let touch = cluster.pod_from("p on=a");
    cluster.place(&touch);
    cluster.cache.refresh();
    assert!(score(&mut cluster).ends_with("ImageLocality: a 100 b 100\n"));
}
