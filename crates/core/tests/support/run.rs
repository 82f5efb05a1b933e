//! Runs plugins for one pod as a scheduling cycle does, and formats the results.

use super::TestCluster;
use std::fmt::Write;
use supercargo_core::cache::Snapshot;
use supercargo_core::framework::{FilterPlugin, FilterRule, Prepared, ScorePlugin, ScoreRule, Verdict};
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::node_set::NodeSet;
use supercargo_core::model::pod::PodInfo;

/// The plugins of a test, in order.
#[derive(Default)]
pub(crate) struct Plugins {
    pub(crate) filters: Vec<Box<dyn FilterPlugin>>,
    pub(crate) scores: Vec<Box<dyn ScorePlugin>>,
}

impl Plugins {
    pub(crate) fn filter(&mut self, plugin: impl FilterPlugin + 'static) {
        self.filters.push(Box::new(plugin));
    }

    pub(crate) fn score(&mut self, plugin: impl ScorePlugin + 'static) {
        self.scores.push(Box::new(plugin));
    }
}

/// Returns the results for `pod`: one line per node in order of addition, then one line per score plugin.
///
/// Also checks properties of all plugins: the set of feasible nodes equals the individual verdicts, and normalized
/// scores are in 0..=100.
pub(crate) fn decide(cluster: &TestCluster, plugins: &Plugins, pod: &PodInfo) -> String {
    let snapshot = cluster.snapshot();
    let mut text = String::new();
    let (rules, only) = match prepare_filters(plugins, pod, snapshot, &mut text) {
        Some(prepared) => prepared,
        None => return text,
    };
    let mut feasible = snapshot.nodes().clone();
    for &name in &cluster.nodes {
        let Some(idx) = snapshot.find_node(name) else { continue };
        let _ = write!(text, "{}: ", snapshot.text(name));
        if let Some((by, only)) = &only
            && !only.contains(idx)
        {
            feasible.remove(idx);
            let _ = writeln!(text, "{by} narrowed the search to others");
            continue;
        }
        let verdicts = rules.iter().map(|(name, rule)| (*name, rule.check(&snapshot.node(idx))));
        match verdicts.into_iter().find(|(_, verdict)| *verdict != Verdict::Fits) {
            None => text.push_str("fits\n"),
            Some((plugin, verdict)) => {
                feasible.remove(idx);
                describe(&mut text, plugin, &verdict);
            }
        }
    }
    sets_equal_verdicts(snapshot, &rules);
    score(cluster, plugins, pod, &feasible, &mut text);
    text
}

type FilterRules = Vec<(&'static str, Box<dyn FilterRule>)>;

/// Runs PreFilter, and returns the rules and the remaining nodes; `None` if PreFilter ended the cycle.
fn prepare_filters(
    plugins: &Plugins,
    pod: &PodInfo,
    snapshot: Snapshot<'_>,
    text: &mut String,
) -> Option<(FilterRules, Option<(&'static str, NodeSet)>)> {
    let (mut rules, mut only, mut skips) = (Vec::new(), None::<(&'static str, NodeSet)>, Vec::new());
    for plugin in &plugins.filters {
        match plugin.prepare(pod, snapshot) {
            Prepared::Skip => skips.push(plugin.name()),
            Prepared::Rejected(rejection) => {
                describe(text, plugin.name(), &Verdict::Rejected(rejection));
                return None;
            }
            Prepared::Failed(error) => {
                describe(text, plugin.name(), &Verdict::Failed(error));
                return None;
            }
            Prepared::Run { rule, only: narrowed } => {
                rules.push((plugin.name(), rule));
                if let Some(narrowed) = narrowed {
                    assert!(
                        narrowed.is_sorted_by(|a, b| a < b),
                        "{} names nodes once, in slot order",
                        plugin.name()
                    );
                    let mut set: NodeSet = narrowed.into_iter().collect();
                    if let Some((_, so_far)) = &only {
                        set.intersect(so_far);
                    }
                    only = Some((plugin.name(), set));
                }
            }
        }
    }
    if !skips.is_empty() {
        let _ = writeln!(text, "skip filter: {}", skips.join(" "));
    }
    Some((rules, only))
}

/// Returns the rules of the plugins that do not skip the pod.
pub(crate) fn rules(
    cluster: &TestCluster,
    plugins: &Plugins,
    pod: &PodInfo,
) -> Vec<(&'static str, Box<dyn FilterRule>)> {
    let prepared =
        plugins.filters.iter().map(|plugin| (plugin.name(), plugin.prepare(pod, cluster.snapshot())));
    prepared
        .filter_map(|(name, prepared)| match prepared {
            Prepared::Run { rule, .. } => Some((name, rule)),
            Prepared::Skip | Prepared::Rejected(_) | Prepared::Failed(_) => None,
        })
        .collect()
}

/// Checks for each rule that the evaluation of the set equals the individual verdicts.
pub(crate) fn sets_equal_verdicts(snapshot: Snapshot<'_>, rules: &[(&'static str, Box<dyn FilterRule>)]) {
    for (plugin, rule) in rules {
        let verdicts: Vec<(NodeIdx, Verdict)> =
            snapshot.nodes().iter().map(|idx| (idx, rule.check(&snapshot.node(idx)))).collect();
        let mut set = snapshot.nodes().clone();
        let outcome = rule.filter(snapshot, &mut set);
        if verdicts.iter().any(|(_, verdict)| matches!(verdict, Verdict::Failed(_))) {
            assert!(outcome.is_err(), "{plugin} fails on a node and not on the set");
            continue;
        }
        assert_eq!(outcome, Ok(()), "{plugin} fails on the set and on no node");
        let fits: NodeSet =
            verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Fits).map(|&(idx, _)| idx).collect();
        let nodes = |set: &NodeSet| set.iter().collect::<Vec<_>>();
        assert_eq!(nodes(&set), nodes(&fits), "{plugin}: the set against the verdicts");
    }
}

fn describe(text: &mut String, plugin: &str, verdict: &Verdict) {
    let _ = match verdict {
        Verdict::Fits => writeln!(text, "fits"),
        Verdict::Rejected(r) => writeln!(text, "{plugin} {}: {}", r.code.as_str(), r.message()),
        Verdict::Failed(error) => writeln!(text, "{plugin} error: {}", error.0),
    };
}

fn score(cluster: &TestCluster, plugins: &Plugins, pod: &PodInfo, feasible: &NodeSet, text: &mut String) {
    if feasible.is_empty() {
        return;
    }
    let snapshot = cluster.snapshot();
    for plugin in &plugins.scores {
        let name = plugin.name();
        let rule = match plugin.prepare(pod, snapshot, feasible) {
            Prepared::Run { rule, .. } => rule,
            Prepared::Skip => {
                let _ = writeln!(text, "skip score: {name}");
                continue;
            }
            Prepared::Rejected(rejection) => {
                let _ = writeln!(text, "{name} score rejects: {}", rejection.message());
                continue;
            }
            Prepared::Failed(error) => {
                let _ = writeln!(text, "{name} score error: {}", error.0);
                continue;
            }
        };
        let _ = write!(text, "{name}:");
        match scores(snapshot, &*rule, feasible) {
            Err(error) => text.push_str(&format!(" error: {error}")),
            Ok((raw, normalized)) => {
                let cells: Vec<(NodeIdx, i64, i64)> =
                    feasible.iter().zip(raw).zip(normalized).map(|((n, r), s)| (n, r, s)).collect();
                for &node in &cluster.nodes {
                    let idx = snapshot.find_node(node);
                    if let Some(&(_, raw, score)) = cells.iter().find(|&&(at, ..)| Some(at) == idx) {
                        let _ = write!(text, " {} {score}", snapshot.text(node));
                        if cells.iter().any(|&(_, raw, score)| raw != score) {
                            let _ = write!(text, " ({raw})");
                        }
                    }
                }
            }
        }
        text.push('\n');
    }
}

/// Returns raw and normalized scores of the feasible nodes, in the order of the set.
pub(crate) fn scores(
    snapshot: Snapshot<'_>,
    rule: &dyn ScoreRule,
    feasible: &NodeSet,
) -> Result<(Vec<i64>, Vec<i64>), String> {
    let mut raw = vec![i64::MIN; feasible.len()];
    rule.score(snapshot, feasible, &mut raw).map_err(|error| error.0)?;
    assert!(!raw.contains(&i64::MIN), "each feasible node has a score");
    let mut normalized = raw.clone();
    rule.normalize(snapshot, feasible, &mut normalized);
    assert!(normalized.iter().all(|s| (0..=100).contains(s)), "scores lie in 0..=100: {normalized:?}");
    Ok((raw, normalized))
}
