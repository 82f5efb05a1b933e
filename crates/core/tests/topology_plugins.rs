//! Plugins that evaluate nodes by their pods and domains: tables, overlays, hints and property tests.

mod support;

#[path = "topology_plugins/exhaustive.rs"]
mod clusters;
#[path = "topology_plugins/errors.rs"]
mod errors;
#[path = "topology_plugins/hints.rs"]
mod hints;
#[path = "topology_plugins/laws.rs"]
mod laws;
#[path = "topology_plugins/overlays.rs"]
mod overlays;

use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::WhenUnsatisfiable;
use supercargo_core::plugins::inter_pod_affinity::InterPodAffinity;
use supercargo_core::plugins::pod_topology_spread::{DefaultConstraint, Defaults, PodTopologySpread};
use support::{Plugins, language, table};

/// Parses `Name`, `filter:Name` or `score:Name`, each with arguments in parentheses joined by `+`.
fn plugins(word: &str, tables: &mut Tables, to: &mut Plugins) {
    let points = ["filter", "score"];
    let (point, word) = word.split_once(':').filter(|(p, _)| points.contains(p)).unwrap_or(("", word));
    let (name, args) = word.trim_end_matches(')').split_once('(').unwrap_or((word, ""));
    let args: Vec<&str> = args.split('+').filter(|arg| !arg.is_empty()).collect();
    match name {
        "PodTopologySpread" => {
            let plugin = spread(&args, tables);
            if point != "score" {
                to.filter(plugin.clone());
            }
            if point != "filter" {
                to.score(plugin);
            }
        }
        "InterPodAffinity" => {
            let plugin = affinity(&args);
            if point != "score" {
                to.filter(plugin);
            }
            if point != "filter" {
                to.score(plugin);
            }
        }
        other => panic!("no plugin {other:?} here"),
    }
}

/// Parses constraints as `topology/maxSkew/whenUnsatisfiable`; without any, uses the system's defaults.
fn spread(args: &[&str], tables: &mut Tables) -> PodTopologySpread {
    let constraint = |arg: &&str| {
        let parts: Vec<&str> = arg.split('/').collect();
        let [topology, skew, when] = parts[..] else {
            panic!("topology/maxSkew/whenUnsatisfiable, not {arg:?}")
        };
        DefaultConstraint {
            max_skew: skew.parse().expect("maxSkew is a number"),
            topology_key: tables.symbol(language::label_key(topology)),
            when_unsatisfiable: match when {
                "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
                "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
                other => panic!("no whenUnsatisfiable: {other:?}"),
            },
            min_domains: 1,
            honor_node_affinity: true,
            honor_node_taints: false,
        }
    };
    if args.is_empty() {
        return PodTopologySpread::default();
    }
    PodTopologySpread { defaults: Defaults::List(args.iter().map(constraint).collect()) }
}

fn affinity(args: &[&str]) -> InterPodAffinity {
    let mut plugin = InterPodAffinity::default();
    for arg in args {
        match arg.split_once('=').unwrap_or((arg, "")) {
            ("hard", weight) => plugin.hard_pod_affinity_weight = weight.parse().expect("a weight"),
            ("ignore", _) => plugin.ignore_preferred_terms_of_existing_pods = true,
            _ => panic!("InterPodAffinity has no argument {arg:?}"),
        }
    }
    plugin
}

#[test]
fn spreading_filters_as_upstream() {
    table::check_file("spread-filter.txt", &plugins);
}

#[test]
fn spreading_scores_as_upstream() {
    table::check_file("spread-score.txt", &plugins);
}

#[test]
fn affinity_filters_as_upstream() {
    table::check_file("affinity-filter.txt", &plugins);
}

#[test]
fn affinity_scores_as_upstream() {
    table::check_file("affinity-score.txt", &plugins);
}
