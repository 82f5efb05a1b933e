//! The rules of one pod's volumes and ResourceClaims. Each decision prepares them again.

use super::device_results::{DeviceResults, Results};
use super::signature_state::Fallback;
use crate::cache::{NodeView, Snapshot};
use crate::cycle::Framework;
use crate::framework::{FilterRule, Prepared, Reads, ScoreRule, Verdict};
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

/// The rules of one pod that are not cached.
#[derive(Default)]
pub(super) struct Rules {
    all: Vec<Box<dyn FilterRule>>,
    /// The indices in `all`, in the order of Reserve.
    reserve_order: Vec<usize>,
    /// The index in `all` of the rule that allocates devices, and its position at Filter.
    devices: Option<(usize, usize)>,
    /// The scores of devices, with their weights.
    scores: Vec<(i64, Box<dyn ScoreRule>)>,
}

impl Rules {
    /// Prepares the rules of the plugins at these indices of filters and scores.
    ///
    /// Only rules that read nothing but volumes, and the one that allocates devices, are allowed. All other plugins
    /// must skip the pod; otherwise the full evaluation decides.
    pub(super) fn prepare(
        framework: &Framework,
        (filters, scores): (&[usize], &[usize]),
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Result<Self, Fallback> {
        let mut rules = Self::default();
        let mut reserves_at: Vec<(usize, usize)> = Vec::new();
        for enabled in filters.iter().map(|&at| &framework.filters[at]) {
            let rule = if enabled.pre_filter {
                match enabled.plugin.prepare(pod, snapshot) {
                    Prepared::Skip => None,
                    Prepared::Run { rule, only: None } => Some(rule),
                    _ => return Err(Fallback),
                }
            } else {
                enabled.unprepared(|| enabled.plugin.without_pre_filter(pod, snapshot))
            };
            let Some(rule) = rule else { continue };
            let position = enabled.filter.ok_or(Fallback)?.rank;
            if rule.as_device_rule(snapshot).is_some() {
                rules.devices = Some((rules.all.len(), position));
            } else if enabled.plugin.reads() != Reads::Volumes || !rule.is_safe(snapshot) {
                // The full evaluation skips these rules on nodes that an earlier filter rejected. That changes nothing
                // if they are safe.
                return Err(Fallback);
            }
            reserves_at.push((enabled.reserves_at(), position));
            rules.all.push(rule);
        }
        rules.reserve_order = (0..rules.all.len()).collect();
        rules.reserve_order.sort_by_key(|&at| reserves_at[at]);
        for enabled in scores.iter().map(|&at| &framework.scores[at]) {
            match enabled.plugin.prepare(pod, snapshot, snapshot.nodes()) {
                Prepared::Skip => {}
                Prepared::Run { rule, only: None }
                    if rule.scores_devices() && rules.devices.is_some() && enabled.score.is_some() =>
                {
                    rules.scores.push((enabled.weight, rule));
                }
                _ => return Err(Fallback),
            }
        }
        Ok(rules)
    }

    /// Returns the rules for a check of single nodes.
    pub(super) fn all(&self) -> impl Iterator<Item = &Box<dyn FilterRule>> {
        self.all.iter()
    }

    /// Returns the rules in the order in which they reserve.
    pub(super) fn reserving(&self) -> impl Iterator<Item = &Box<dyn FilterRule>> {
        self.reserve_order.iter().map(|&at| &self.all[at])
    }

    /// Returns the scores of devices, with their weights.
    pub(super) fn scores(&self) -> &[(i64, Box<dyn ScoreRule>)] {
        &self.scores
    }

    /// Whether there are no rules.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns those of `nodes` that the rules reject, and the results of devices. `filters_end` is the position at
    /// Filter after all filters that selected `nodes`.
    pub(super) fn excluded<'d>(
        &self,
        device_results: &'d mut DeviceResults,
        snapshot: Snapshot<'_>,
        nodes: NodeSet,
        filters_end: usize,
    ) -> Result<(NodeSet, Option<&'d Results>), Fallback> {
        let (mut passing, mut excluded) = (nodes.clone(), nodes);
        for (at, rule) in self.all.iter().enumerate() {
            if self.devices.is_none_or(|(devices, _)| at != devices) {
                rule.filter(snapshot, &mut passing).map_err(|_| Fallback)?;
            }
        }
        let results = match self.devices {
            None => None,
            Some((at, position)) => {
                let rule = self.all[at].as_device_rule(snapshot).ok_or(Fallback)?;
                // The full evaluation fails if the search for devices fails on a node that only later filters reject.
                let judged =
                    if self.is_last(at, position, filters_end) { &passing } else { snapshot.nodes() };
                let results = match rule.requests() {
                    requests if requests.is_empty() => None,
                    requests => Some(device_results.of(requests, rule, snapshot, judged)?),
                };
                results.into_iter().for_each(|results| passing.intersect(results.fitting()));
                if rule.has_allocated_claims() {
                    passing.retain(|node| rule.has_reachable_claims(&snapshot.node(node)));
                }
                results
            }
        };
        excluded.subtract(&passing);
        Ok((excluded, results))
    }

    /// Whether no filter that can reject nodes comes after the one that allocates devices.
    fn is_last(&self, at: usize, position: usize, filters_end: usize) -> bool {
        at + 1 == self.all.len() && filters_end <= position
    }
}

/// Whether the node passes all `rules` as shown by `view`.
pub(super) fn all_pass<'r>(
    rules: impl Iterator<Item = &'r Box<dyn FilterRule>>,
    view: &NodeView<'_>,
) -> Result<bool, Fallback> {
    for rule in rules {
        match rule.check(view) {
            Verdict::Fits => {}
            Verdict::Rejected(_) => return Ok(false),
            Verdict::Failed(_) => return Err(Fallback),
        }
    }
    Ok(true)
}
