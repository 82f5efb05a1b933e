//! The score table: the scores of all feasible nodes by plugin, and which plugins made the difference.

use crate::explain::answer::{NodeScores, PluginScore, Scores};
use crate::explain::format::{count, some};
use crate::explain::place::Place;
use std::cmp::Reverse;
use supercargo_core::cycle::Decision;
use supercargo_core::model::pod::PodInfo;

/// Maximum number of nodes in the table, plus the pod's own node. Enough to see how close the decision was; a table
/// of 5,000 nodes and a dozen plugins is unreadable.
pub const SCORES_MAX: usize = 20;
/// What the scores of a pod with a node are.
const NOTE: &str = "scores of the present state of the cluster, as if the pod had no node; not of the moment when it was placed";
/// Maximum number of plugins named as the difference.
const DECIDED_BY_MAX: usize = 3;
/// Maximum number of nodes with the second-highest score that are named.
const SECONDS_MAX: usize = 3;

/// Returns the table for a pod without a node in the cache, or `None` if no node is feasible. `its_node` is the node
/// it ran on.
pub(super) fn table(place: &mut Place<'_>, pod: &PodInfo, its_node: Option<&str>) -> Option<Scores> {
    let Ok(Decision::Feasible(decided)) = place.decide(pod) else { return None };
    let feasible = decided.filtered.feasible().clone();
    let scores = place.framework(pod).explain_scores(pod, place.snapshot(), &feasible).ok()?;
    let mut nodes: Vec<NodeScores> = Vec::with_capacity(feasible.len());
    for (at, node) in feasible.iter().enumerate() {
        let plugins = scores.plugins.iter().map(|of| PluginScore {
            plugin: of.plugin,
            raw: of.raw[at],
            normalized: of.normalized[at],
            weight: of.weight,
            weighted: of.normalized[at] * of.weight,
        });
        let plugins = plugins.collect();
        nodes.push(NodeScores { node: place.name(node), total: scores.totals[at], plugins });
    }
    nodes.sort_by(|a, b| (Reverse(a.total), &a.node).cmp(&(Reverse(b.total), &b.node)));
    Some(summed_up(nodes, its_node))
}

fn summed_up(mut nodes: Vec<NodeScores>, its_node: Option<&str>) -> Scores {
    let best = nodes.first().map_or(0, |node| node.total);
    let winners: Vec<String> =
        nodes.iter().take_while(|node| node.total == best).map(|node| node.node.clone()).collect();
    let runner_up = nodes.get(winners.len());
    let margin = runner_up.map(|node| best - node.total);
    let decided_by = decided_by(&nodes, &winners, its_node);
    let all = nodes.len();
    let its_own = its_node.and_then(|name| nodes.iter().position(|node| node.node == name));
    let its_own = its_own.filter(|&at| at >= SCORES_MAX).map(|at| nodes.swap_remove(at));
    nodes.truncate(SCORES_MAX);
    nodes.extend(its_own);
    let note = its_node.map(|_| NOTE);
    Scores { left_out: all - nodes.len(), nodes, winners, margin, decided_by, note }
}

fn decided_by(nodes: &[NodeScores], winners: &[String], its_node: Option<&str>) -> String {
    let Some(best) = nodes.first() else { return String::new() };
    // Of several best nodes, the pod's own is the one to compare.
    let own = nodes[..winners.len()].iter().find(|node| its_node == Some(node.node.as_str()));
    let first = own.unwrap_or(best);
    let lot = match winners.len() {
        1 => String::new(),
        several => {
            let with = own.map(|own| format!(", {} among them", own.node)).unwrap_or_default();
            let nodes = count(several as i64, "node");
            format!("{nodes} have the highest score{with}, and one of them is chosen at random; ")
        }
    };
    let why = match nodes.get(winners.len()) {
        None if nodes.len() == 1 => "no other node is feasible".to_owned(),
        None => "no node scores lower".to_owned(),
        Some(next) => {
            let seconds = nodes[winners.len()..].iter().take_while(|node| node.total == next.total);
            let seconds: Vec<&NodeScores> = seconds.collect();
            let names: Vec<String> = seconds.iter().map(|node| node.node.clone()).collect();
            let by = differences(first, next);
            let differs = seconds.iter().any(|second| differences(first, second) != by);
            let which = if differs { format!(" (compared with {})", next.node) } else { String::new() };
            format!("{} over {}: {by}{which}", first.node, among(&names))
        }
    };
    let own = its_node.filter(|name| !winners.iter().any(|winner| winner == name));
    let own = own.map(|name| match nodes.iter().find(|node| node.node == name) {
        Some(here) => format!(
            ". Scheduled now, the pod would not go to {name} but to {}, whose score is {} higher; the cluster may have \
             changed since the pod was placed",
            some(winners, DECIDED_BY_MAX),
            best.total - here.total
        ),
        None => format!(
            ". Scheduled now, {name} would not be feasible: the pod or the cluster has changed since the pod was placed"
        ),
    });
    format!("{lot}{why}{}", own.unwrap_or_default())
}

/// Lists nodes: `a`, `a and b`, `a, b and c`, or `a, b, c and 2 others`.
fn among(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] if names.len() <= SECONDS_MAX => format!("{} and {last}", first.join(", ")),
        _ => {
            let others = count(names.len() - SECONDS_MAX, "other");
            format!("{} and {others}", names[..SECONDS_MAX].join(", "))
        }
    }
}

/// Lists the plugins that favor `a` or `b`, with the difference of their weighted scores, largest first.
fn differences(a: &NodeScores, b: &NodeScores) -> String {
    let pairs = a.plugins.iter().zip(&b.plugins);
    let mut by_plugin: Vec<(i64, &str)> =
        pairs.map(|(a, b)| (a.weighted - b.weighted, a.plugin)).filter(|&(by, _)| by != 0).collect();
    by_plugin.sort_by_key(|&(by, plugin)| (Reverse(by.abs()), plugin));
    let each: Vec<String> = by_plugin.iter().map(|(by, plugin)| format!("{plugin} {by:+}")).collect();
    some(&each, DECIDED_BY_MAX)
}

#[cfg(test)]
mod tests {
    //! What decides between nodes, in words.

    use super::*;

    fn node(name: &str, total: i64) -> NodeScores {
        let plugin = "NodeResourcesFit";
        let score = PluginScore { plugin, raw: total, normalized: total, weight: 1, weighted: total };
        NodeScores { node: name.to_owned(), total, plugins: vec![score] }
    }

    #[test]
    fn tied_node_of_a_placed_pod_is_the_one_that_is_compared() {
        let nodes = || vec![node("a", 9), node("b", 9), node("c", 7)];
        let placed = summed_up(nodes(), Some("b"));
        assert_eq!(
            placed.decided_by,
            "2 nodes have the highest score, b among them, and one of them is chosen at random; b over c: NodeResourcesFit +2"
        );
        assert_eq!(placed.note, Some(NOTE));
        let pending = summed_up(nodes(), None);
        assert_eq!(
            pending.decided_by,
            "2 nodes have the highest score, and one of them is chosen at random; a over c: NodeResourcesFit +2"
        );
        assert_eq!(pending.note, None);
    }

    #[test]
    fn all_nodes_that_share_second_place_are_named_up_to_three() {
        let decided_by = |seconds: &[&str]| {
            let seconds = seconds.iter().map(|name| node(name, 7));
            summed_up([node("a", 9)].into_iter().chain(seconds).chain([node("z", 1)]).collect(), None)
                .decided_by
        };
        assert_eq!(decided_by(&["b"]), "a over b: NodeResourcesFit +2");
        assert_eq!(decided_by(&["b", "c"]), "a over b and c: NodeResourcesFit +2");
        assert_eq!(decided_by(&["b", "c", "d"]), "a over b, c and d: NodeResourcesFit +2");
        assert_eq!(decided_by(&["b", "c", "d", "e"]), "a over b, c, d and 1 other: NodeResourcesFit +2");
    }

    #[test]
    fn different_reasons_of_tied_nodes_name_the_node_they_are_about() {
        let mut other = node("c", 7);
        let mut best = node("a", 9);
        best.plugins[0].weighted = 8;
        other.plugins[0].weighted = 6;
        let mut second = node("b", 7);
        second.plugins[0].weighted = 5;
        let scores = summed_up(vec![best, second, other], None);
        assert_eq!(scores.decided_by, "a over b and c: NodeResourcesFit +3 (compared with b)");
    }

    #[test]
    fn placed_pod_whose_node_would_lose_now_is_told_so() {
        let scores = summed_up(vec![node("a", 9), node("b", 7)], Some("b"));
        assert!(
            scores.decided_by.contains("Scheduled now, the pod would not go to b but to a"),
            "{scores:?}"
        );
    }
}
