//! The placements of a group that requires a topology domain: each is tried, and the best of those that fit is used.
//!
//! Upstream: `pkg/scheduler/schedule_one_podgroup.go#podGroupSchedulingPlacementAlgorithm`.

use super::super::{Scheduler, profile_named};
use super::cycle::{Attempt, MemberResult, Mode, Run, RunScope, Verdict};
use crate::cycle::Probe;
use crate::framework::extension_point::ExtensionPoint;
use crate::framework::placement::{Placement, Proposal};
use crate::framework::{CycleError, MAX_NODE_SCORE, PluginName};
use crate::incremental::GroupEvaluations;
use crate::model::effect::PodRef;
use crate::model::intern::Symbol;
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use crate::plugins::topology_placement;
use crate::report::group::PlacementReport;
use std::sync::Arc;

impl Scheduler {
    /// Decides on the members of a group in their order, in each of its placements if it has any.
    pub(super) fn run_group(
        &mut self,
        now: Time,
        attempt: &Attempt,
        mode: Mode,
        probe: &mut dyn Probe,
    ) -> Run {
        if !self.tables.rules().groups.topology {
            return self.run_members(now, attempt, RunScope::default(), mode, probe);
        }
        let placements = match self.placements_of(attempt) {
            Ok(placements) => placements,
            Err(CycleError(text)) => return Run::ended(Verdict::Failed(text)),
        };
        if placements.is_empty() {
            return Run::ended(Verdict::Unschedulable("no feasible placements found".to_owned()));
        }
        let evaluations = if placements.len() > 1 { self.group_evaluations(attempt) } else { None };
        let is_brief = placements.len() > 1 && self.may_be_brief(attempt);
        let evaluations = evaluations.as_ref();
        let mut reports = Vec::with_capacity(placements.len());
        let mut fitting: Vec<(usize, Run)> = Vec::new();
        let (mut first, mut text): (Option<(usize, Run)>, Option<String>) = (None, None);
        for (at, placement) in placements.iter().enumerate() {
            let run = self.run_in(now, attempt, (placement, evaluations, is_brief), mode, probe);
            reports.push(self.placement_report(attempt, placement, &run));
            match &run.verdict {
                Verdict::Failed(_) => {
                    let scope = (placement, evaluations, is_brief);
                    let run = self.with_reasons(now, attempt, run, scope, mode, probe);
                    return Run { placements: reported(attempt, reports), ..run };
                }
                Verdict::Scheduled | Verdict::Waiting(_) => fitting.push((at, run)),
                Verdict::Unschedulable(own) => {
                    text.get_or_insert_with(|| own.clone());
                    // A reservation keeps the nodes of the placement where most members fit.
                    let is_better = |(_, first): &(_, Run)| attempt.reserves && run.placed() > first.placed();
                    if first.as_ref().is_none_or(is_better) {
                        first = Some((at, run));
                    }
                }
            }
        }
        let best = match self.best_placement(attempt, &placements, &fitting, &mut reports) {
            Ok(best) => best,
            Err(CycleError(text)) => {
                let failed = Run::ended(Verdict::Failed(text));
                return Run { placements: reported(attempt, reports), ..failed };
            }
        };
        let (at, run) = match (best, first) {
            (Some(best), _) => fitting.swap_remove(best),
            (None, Some(first)) => first,
            (None, None) => unreachable!("each placement fits or does not"),
        };
        let scope = (&placements[at], evaluations, is_brief);
        let mut run = self.with_reasons(now, attempt, run, scope, mode, probe);
        let chosen = best.map(|_| placements[at].name.clone());
        if best.is_none() {
            let text = self.no_placement_fits(placements.len(), text.as_deref().unwrap_or_default());
            run.verdict = Verdict::Unschedulable(text);
        }
        run.placements = reported(attempt, reports);
        run.chosen = chosen.filter(|_| !run.placements.is_empty());
        run
    }

    /// Decides on the members in one placement.
    fn run_in(
        &mut self,
        now: Time,
        attempt: &Attempt,
        (placement, evaluations, is_brief): (&Placement, Option<&GroupEvaluations>, bool),
        mode: Mode,
        probe: &mut dyn Probe,
    ) -> Run {
        let is_all = placement.nodes.len() == self.snapshot().node_count();
        let within = (!is_all).then_some(&placement.nodes);
        let scope = RunScope { within, evaluations, is_brief, ..RunScope::default() };
        self.run_members(now, attempt, scope, mode, probe)
    }

    /// Makes a brief run again if it left out the reasons of rejections.
    fn with_reasons(
        &mut self,
        now: Time,
        attempt: &Attempt,
        run: Run,
        (placement, evaluations, is_brief): (&Placement, Option<&GroupEvaluations>, bool),
        mode: Mode,
        probe: &mut dyn Probe,
    ) -> Run {
        if !is_brief || !run.has_rejections() {
            return run;
        }
        let full = self.run_in(now, attempt, (placement, evaluations, false), mode, probe);
        debug_assert!(run.has_nodes_of(&full) || attempt.is_interrupted(), "a brief run has other nodes");
        full
    }

    /// Whether runs in placements may leave out why members are rejected. The run that counts is then made again. It
    /// starts at another node, which only matters if not all nodes are evaluated.
    fn may_be_brief(&self, attempt: &Attempt) -> bool {
        let profile = profile_named(&self.profiles, attempt.members[0].pod.scheduler_name);
        self.shares_results() && profile.is_some_and(|it| it.framework.sampling.is_none())
    }

    /// Returns the placements of a group: one with all nodes if it requires no topology domain.
    pub(super) fn placements_of(&mut self, attempt: &Attempt) -> Result<Arc<[Placement]>, CycleError> {
        let runs = |profile: &super::super::Profile| {
            profile.framework.runs(ExtensionPoint::PlacementGenerate, topology_placement::NAME)
        };
        let name = attempt.members[0].pod.scheduler_name;
        if !profile_named(&self.profiles, name).is_some_and(runs) {
            return Ok(self.whole_cluster());
        }
        let Some(group) = &attempt.group else {
            let name = self.tables.text(attempt.key.name);
            return Err(CycleError(format!("podgroup.scheduling.k8s.io \"{name}\" not found")));
        };
        let Some(&key) = group.topology.as_ref().and_then(|keys| keys.first()) else {
            return Ok(self.whole_cluster());
        };
        let members = self.scheduled_members(attempt.key);
        let mut scheduled: Vec<(Arc<PodInfo>, Symbol)> =
            members.map(|(pod, node)| (Arc::clone(pod), node)).collect();
        scheduled.sort_by(|(pod, _), (other, _)| pod.name.cmp(&other.name));
        let scheduled = scheduled.iter().map(|(pod, node)| (&**pod, *node));
        self.groups.domains.placements(key, scheduled, self.cache.snapshot(&self.tables))
    }

    /// Returns the only placement of a group without a topology domain: all nodes.
    pub(super) fn whole_cluster(&self) -> Arc<[Placement]> {
        Arc::new([Placement { name: String::new(), nodes: self.snapshot().nodes().clone() }])
    }

    /// Returns the position in `fitting` of the placement with the highest total, the first by name among equal ones.
    /// Adds the scores to the reports if several placements fit.
    pub(super) fn best_placement(
        &self,
        attempt: &Attempt,
        placements: &[Placement],
        fitting: &[(usize, Run)],
        reports: &mut [PlacementReport],
    ) -> Result<Option<usize>, CycleError> {
        if fitting.len() < 2 {
            return Ok((!fitting.is_empty()).then_some(0));
        }
        let proposals: Vec<_> = fitting.iter().map(|(at, run)| (&placements[*at], run)).collect();
        let scores = self.placement_scores(attempt, &proposals)?;
        let total = |at: usize| scores.iter().map(|(_, scores)| scores[at]).sum::<i64>();
        for (at, (of, _)) in fitting.iter().enumerate() {
            reports[*of].scores = scores.iter().map(|(name, scores)| (*name, scores[at])).collect();
        }
        let mut best = 0;
        for at in 1..fitting.len() {
            if total(at) > total(best) {
                best = at;
            }
        }
        Ok(Some(best))
    }

    /// Returns the weighted scores of each plugin, in the order of the placements.
    fn placement_scores(
        &self,
        attempt: &Attempt,
        placements: &[(&Placement, &Run)],
    ) -> Result<Vec<(PluginName, Vec<i64>)>, CycleError> {
        let name = attempt.members[0].pod.scheduler_name;
        let Some(profile) = profile_named(&self.profiles, name) else { return Ok(Vec::new()) };
        let scheduled = self.scheduled(attempt.key);
        let mut all = Vec::new();
        for enabled in &profile.framework.placement_scores {
            let plugin = enabled.plugin.name();
            let score = |(placement, run): &(&Placement, &Run)| {
                let members: Vec<&PodInfo> = with_nodes(attempt, run).map(|(pod, _)| pod).collect();
                let proposal = Proposal { nodes: &placement.nodes, scheduled, members: &members };
                enabled.plugin.score(&proposal, self.snapshot())
            };
            let mut scores: Vec<i64> = placements.iter().map(score).collect();
            enabled.plugin.normalize(&mut scores).map_err(|CycleError(text)| {
                CycleError(format!(
                    "running NormalizePlacementScore on PlacementScore plugins: plugin \"{plugin}\" failed with: {text}"
                ))
            })?;
            if let Some(score) = scores.iter().find(|score| !(0..=MAX_NODE_SCORE).contains(*score)) {
                return Err(CycleError(format!(
                    "applying score defaultWeights on PlacementScore plugins: plugin \"{plugin}\" returns an invalid \
                     score {score}, it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
                )));
            }
            scores.iter_mut().for_each(|score| *score *= enabled.weight);
            all.push((plugin, scores));
        }
        Ok(all)
    }

    pub(super) fn placement_report(
        &self,
        attempt: &Attempt,
        placement: &Placement,
        run: &Run,
    ) -> PlacementReport {
        let member = |(pod, node): (&PodInfo, Symbol)| -> (PodRef, String) {
            (self.pod_ref(pod), self.tables.text(node).to_owned())
        };
        PlacementReport {
            name: placement.name.clone(),
            nodes: placement.nodes.len(),
            code: run.verdict.code(),
            status: run.verdict.text().to_owned(),
            placed: run.placed(),
            members: with_nodes(attempt, run).filter(|_| self.groups.reports_members).map(member).collect(),
            scores: Vec::new(),
        }
    }
}

/// Returns the members that would get a node.
fn with_nodes<'a>(
    attempt: &'a Attempt,
    run: &'a Run,
) -> impl Iterator<Item = (&'a PodInfo, Symbol)> + use<'a> {
    let pairs = attempt.members.iter().zip(&run.tried);
    pairs.filter_map(|(queued, tried): (_, &MemberResult)| Some((&*queued.pod, tried.node()?)))
}

/// Returns the reports if the group requires a topology domain; otherwise its only placement is not worth one.
fn reported(attempt: &Attempt, reports: Vec<PlacementReport>) -> Vec<PlacementReport> {
    let keys = attempt.group.as_ref().and_then(|group| group.topology.as_ref());
    if keys.is_some_and(|keys| !keys.is_empty()) { reports } else { Vec::new() }
}
