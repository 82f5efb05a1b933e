//! Preemption for a pod identical to earlier ones: reuses the cached dry runs of unchanged nodes.
//!
//! Only the chosen node's dry run is repeated, for its victims. Unusual cases return `None` and take the full
//! path.

use super::choice::{self, Least};
use super::dry_run::{self, DryRunOutcome, Ports};
use super::units::GroupVictims;
use super::{DefaultPreemption, finds_nobody, first, in_vain, ineligible};
use crate::framework::dry_runs::{DryRun, DryRuns};
use crate::framework::histogram::Histogram;
use crate::framework::post_filter::{Candidate, ExtenderCandidates, PostFiltered, Unplaced};
use crate::model::node::NodeIdx;
use crate::model::pod::PodInfo;
use crate::model::rng::Purpose;
use crate::model::time::Time;
use std::collections::BTreeSet;

impl DefaultPreemption {
    /// Returns the result of [`post_filter`](crate::framework::post_filter::PostFilterPlugin::post_filter),
    /// with only the candidate that the tie-break draws. `None` means that the full search is needed.
    pub(super) fn again<'a>(&self, unplaced: &Unplaced<'a>, known: &mut DryRuns) -> Option<PostFiltered<'a>> {
        if !matches!(unplaced.rooms, ExtenderCandidates::Free) || ineligible(unplaced).is_some() {
            return None;
        }
        let (curable, groups) = (unplaced.curable.len(), GroupVictims::of(unplaced.snapshot));
        if curable == 0 || finds_nobody(unplaced, &groups) {
            return None;
        }
        known.as_of(unplaced.snapshot.lookups().budget_changes(), groups.are_judged());
        let tied = self.walk(unplaced, &groups, known, curable)?;
        if tied.is_empty() {
            return Some(nowhere(unplaced, known));
        }
        let draws = unplaced.draws;
        let attempt = u64::from(draws.attempt);
        let at = draws.seed.draw(Purpose::PreemptionTie, &unplaced.pod.uid, attempt, tied.len());
        let DryRunOutcome::Candidate(chosen) =
            dry_run::try_node(unplaced, &groups, tied[at], Ports::AsUpstream)
        else {
            return None;
        };
        Some(PostFiltered::Found(vec![chosen]))
    }

    /// Returns the best nodes among a sufficient number of candidates; empty if there is no candidate.
    fn walk<'a>(
        &self,
        unplaced: &Unplaced<'a>,
        groups: &GroupVictims<'a>,
        known: &mut DryRuns,
        curable: usize,
    ) -> Option<Vec<NodeIdx>> {
        let enough = self.args.enough(curable);
        let (mut harmless, mut violating, mut least) = (0, 0, Least::new());
        for node in unplaced.curable.iter_from_nth(first(unplaced, curable)) {
            if groups.concern(node) {
                // It depends on groups and their members on other nodes.
                known.forget(node);
            }
            let harm = match known.on(node) {
                DryRun::Hopeless(_) => continue,
                DryRun::Candidate(harm) => harm,
                DryRun::Unknown => match find_out(unplaced, groups, known, node)? {
                    DryRun::Candidate(harm) => harm,
                    DryRun::Hopeless(_) | DryRun::Unknown => continue,
                },
            };
            let count = if harm.violations == 0 { &mut harmless } else { &mut violating };
            if *count < enough {
                *count += 1;
                least.meets(&harm, node, unplaced.now);
            }
            if harmless > 0 && harmless + violating >= enough {
                break;
            }
        }
        Some(least.tied)
    }
}

/// Runs the dry run on a node and caches the result if it does not depend on the time.
fn find_out<'a>(
    unplaced: &Unplaced<'a>,
    groups: &GroupVictims<'a>,
    known: &mut DryRuns,
    node: NodeIdx,
) -> Option<DryRun> {
    match dry_run::try_node(unplaced, groups, node, Ports::AsUpstream) {
        DryRunOutcome::Candidate(candidate) => {
            let harm = choice::harm(&candidate, unplaced.now);
            if is_timeless(&candidate, unplaced) {
                known.set_candidate(node, harm);
            }
            Some(DryRun::Candidate(harm))
        }
        DryRunOutcome::Hopeless(reasons, plugin) => {
            known.set_hopeless(node, (reasons, plugin)).map(DryRun::Hopeless)
        }
        DryRunOutcome::Failed(_) => None,
    }
}

/// Whether the dry run has the same result at any later time: no pod on the node has a start time in the future.
fn is_timeless(candidate: &Candidate<'_>, unplaced: &Unplaced<'_>) -> bool {
    let has_started = |pod: &PodInfo, now: Time| pod.start_time.is_none_or(|start| start < now);
    unplaced.snapshot.pods_on(candidate.node).all(|pod| has_started(pod, unplaced.now))
}

/// Returns the result without candidates, from the cached reasons of all nodes.
fn nowhere<'a>(unplaced: &Unplaced<'_>, known: &DryRuns) -> PostFiltered<'a> {
    let mut nodes_by_hindrance: Vec<usize> = Vec::new();
    for node in unplaced.curable.iter() {
        if let DryRun::Hopeless(at) = known.on(node) {
            let at = usize::from(at);
            nodes_by_hindrance.resize(nodes_by_hindrance.len().max(at + 1), 0);
            nodes_by_hindrance[at] += 1;
        }
    }
    let (mut reasons, mut preemption_blockers) = (Histogram::default(), BTreeSet::new());
    for (at, &nodes) in (0..).zip(&nodes_by_hindrance).filter(|(_, nodes)| **nodes > 0) {
        let (texts, plugin) = known.hindrance(at);
        texts.iter().for_each(|text| reasons.add_times(text.clone(), nodes));
        preemption_blockers.extend(*plugin);
    }
    in_vain(unplaced, reasons, nodes_by_hindrance.iter().sum(), preemption_blockers)
}
