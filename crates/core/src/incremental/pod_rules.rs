//! The rules of one pod's volumes and ResourceClaims. Each decision prepares them again.

use super::device_results::{DeviceResults, Results};
use super::signature_state::Fallback;
use crate::cache::{NodeView, Snapshot};
use crate::cycle::{EnabledRule, Framework, in_order_of_reserve};
use crate::framework::{FilterRule, Prepared, Reads, ScoreRule, Verdict};
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

/// The rules of one pod that are not cached.
#[derive(Default)]
pub(super) struct Rules {
    /// In the order of PreFilter.
    all: Vec<EnabledRule>,
    /// The index in `all` of the rule that allocates devices.
    devices: Option<usize>,
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
            if rule.as_device_rule(snapshot).is_some() {
                rules.devices = Some(rules.all.len());
            } else if enabled.plugin.reads() != Reads::Volumes || !rule.is_safe(snapshot) {
                // The full evaluation skips these rules on nodes that an earlier filter rejected. That changes nothing
                // if they are safe.
                return Err(Fallback);
            }
            rules.all.push(enabled.with(rule).ok_or(Fallback)?);
        }
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
        self.all.iter().map(|it| &it.rule)
    }

    /// Returns the rules in the order in which they reserve.
    pub(super) fn reserving(&self) -> impl Iterator<Item = &Box<dyn FilterRule>> {
        in_order_of_reserve(&self.all).into_iter().map(|it| &it.rule)
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
        for (at, EnabledRule { rule, .. }) in self.all.iter().enumerate() {
            if self.devices != Some(at) {
                rule.filter(snapshot, &mut passing).map_err(|_| Fallback)?;
            }
        }
        let results = match self.devices {
            None => None,
            Some(at) => {
                let rule = self.all[at].rule.as_device_rule(snapshot).ok_or(Fallback)?;
                // The full evaluation fails if the search for devices fails on a node that only later filters reject.
                let judged = if self.is_last(at, filters_end) { &passing } else { snapshot.nodes() };
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

    /// Whether no filter that can reject nodes comes after this one.
    fn is_last(&self, at: usize, filters_end: usize) -> bool {
        let position = self.all[at].filter;
        filters_end <= position && self.all.iter().all(|it| it.filter <= position)
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
