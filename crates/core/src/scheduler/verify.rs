//! Verification of cached decisions: comparison with full evaluations while the engine runs.
//!
//! A signature whose decision differs is evicted; after [`DIFFERENCES_MAX`] differences the caches are disabled.
//! Property tests, golden vectors and the simulation show that cached decisions equal full evaluations. Verification
//! checks it in the actual cluster: for decisions about pods ([`Verify::is_due`]), and for live signatures in turn
//! (`live`). Both evaluations read the same columns, so feasible nodes are also evaluated individually. The full
//! evaluation itself is not verified here; shadow mode does that.
//!
//! No comparison affects a decision: it draws no random numbers, and changes neither orders nor caches.

mod credit;
mod live;
#[cfg(test)]
mod tests;

pub use live::Verification;

use super::Scheduler;
use crate::cache::Snapshot;
use crate::cache::slice::step_limit::StepLimit;
use crate::cycle::{Decision, Feasible, Framework, NoProbe, Options, Unschedulable};
use crate::framework::CycleError;
use crate::incremental::CachedDecision;
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::model::rng::Seed;
use crate::model::time::Time;
use crate::queue::QueuedPod;
use crate::report::Notice;
use credit::Credit;
use live::Round;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The number of differences after which the caches are disabled until the next start. One may be a rare case of one
/// signature; three mean that the caches cannot be trusted.
pub const DIFFERENCES_MAX: u64 = 3;

/// The number of feasible nodes that one comparison evaluates individually if comparisons have a budget. This costs a
/// tenth of a full evaluation of 5,000 nodes. The next comparison takes the next nodes.
const NODES_ONE_BY_ONE: usize = 64;

/// The state of verification: which cached decisions are compared, and the results.
pub(super) struct Verify {
    mode: Mode,
    is_trusting: bool,
    /// Cached decisions since the last comparison.
    unchecked: u32,
    same: u64,
    differing: u64,
    credit: Credit,
    round: Option<Round>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Decisions about pods are not compared.
    Off,
    /// Every cached decision is compared, and a difference panics. Default of builds with debug assertions.
    Strict,
    /// Every Nth cached decision is compared.
    Sampled(NonZeroU32),
    /// Cached decisions are compared while there is [`Credit`].
    Budget,
}

/// The feasible nodes that are evaluated individually.
#[derive(Clone, Copy)]
pub(super) enum Nodes {
    All,
    /// [`NODES_ONE_BY_ONE`] nodes, selected by this running number.
    Turn(u64),
}

impl Nodes {
    /// Returns those of the feasible nodes that are evaluated individually.
    fn among(self, feasible: &[NodeIdx]) -> &[NodeIdx] {
        match self {
            Self::All => feasible,
            Self::Turn(turn) => {
                let turns = feasible.len().div_ceil(NODES_ONE_BY_ONE).max(1);
                feasible.chunks(NODES_ONE_BY_ONE).nth((turn % turns as u64) as usize).unwrap_or_default()
            }
        }
    }
}

impl Default for Verify {
    fn default() -> Self {
        let mode = if cfg!(debug_assertions) { Mode::Strict } else { Mode::Off };
        Self {
            mode,
            is_trusting: true,
            unchecked: 0,
            same: 0,
            differing: 0,
            credit: Credit::default(),
            round: None,
        }
    }
}

impl Verify {
    /// Whether cached decisions may be used.
    pub(super) fn is_trusting(&self) -> bool {
        self.is_trusting
    }

    /// Disables cached decisions until [`Self::resume`]. Returns whether they were enabled.
    pub(super) fn suspend(&mut self) -> bool {
        std::mem::replace(&mut self.is_trusting, false)
    }

    /// Reverts [`Self::suspend`].
    pub(super) fn resume(&mut self, was_trusting: bool) {
        self.is_trusting = was_trusting;
    }

    /// Returns the number of equal and of different decisions.
    pub(super) fn compared(&self) -> [u64; 2] {
        [self.same, self.differing]
    }

    /// Notes a call of the scheduler, which ends the previous one and gives its duration.
    pub(super) fn called(&mut self, now: Time) {
        self.credit.called(now);
        if let Some(round) = &mut self.round {
            round.called(now);
        }
    }

    /// Whether a decision about a pod is to be compared.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let is_due = self.is_trusting
            && match self.mode {
                Mode::Off => false,
                Mode::Strict => true,
                Mode::Sampled(every) => {
                    self.unchecked += 1;
                    self.unchecked >= every.get()
                }
                Mode::Budget => self.credit.is_left() && !self.is_late(now),
            };
        if is_due {
            self.unchecked = 0;
            self.credit.verifies();
        }
        is_due
    }

    /// Returns the nodes that a comparison evaluates individually.
    pub(super) fn nodes(&self) -> Nodes {
        match self.mode {
            Mode::Strict | Mode::Sampled(_) => Nodes::All,
            Mode::Off | Mode::Budget => Nodes::Turn(self.same),
        }
    }

    /// Returns the snapshot for a comparison. A group's limit knows the results of long searches for devices. Other
    /// comparisons have a limit of their own, unless each must be made to its end.
    pub(super) fn snapshot_to_compare<'s>(
        &self,
        (decided, limit): (Snapshot<'s>, &StepLimit),
        whole: Snapshot<'s>,
        comparing: &'s StepLimit,
    ) -> Snapshot<'s> {
        match limit.keeps_searches() {
            true => decided,
            false if self.mode == Mode::Strict => whole,
            false => whole.with_step_limit(comparing),
        }
    }

    /// Makes a comparison within the limits of the decision and of the comparison, and counts its result. There is
    /// none if one of them is exceeded.
    pub(super) fn judged_within(
        &mut self,
        limits: [Option<&StepLimit>; 2],
        verdict: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let is_void = || limits.iter().flatten().any(|limit| limit.is_exceeded());
        let verdict = if is_void() { None } else { Some(verdict()) };
        verdict.filter(|_| !is_void()).map_or(Ok(()), |verdict| self.judged(verdict))
    }

    /// Counts the result of a comparison, and disables the caches after too many differences.
    pub(super) fn judged(&mut self, verdict: Result<(), String>) -> Result<(), String> {
        let Err(difference) = &verdict else {
            self.same += 1;
            return verdict;
        };
        assert!(self.mode != Mode::Strict, "{difference}");
        self.differing += 1;
        if self.differing >= DIFFERENCES_MAX {
            self.is_trusting = false;
        }
        verdict
    }
}

impl Scheduler {
    /// Compares every Nth cached decision about a pod with a full evaluation; `None` compares none.
    ///
    /// If they differ, the full evaluation is used, the signature is evicted, and a notice is sent. After
    /// [`DIFFERENCES_MAX`] differences the caches are disabled.
    pub fn verify_decisions(&mut self, every: Option<NonZeroU32>) {
        self.verify.mode = every.map_or(Mode::Off, Mode::Sampled);
        self.verify.unchecked = 0;
    }

    /// Disables all caches, so that each pod gets a full evaluation. Used to measure what the caches save.
    pub fn decide_afresh(&mut self) {
        self.verify.is_trusting = false;
        self.decisions.clear();
    }

    /// Handles a cached decision that differs from the full evaluation.
    pub(super) fn differed(&mut self, pod: &Arc<PodInfo>, difference: &str) {
        let consequence = if self.verify.is_trusting {
            self.decisions.evict(pod);
            "all signatures with its node evaluation were evicted".to_owned()
        } else {
            self.decisions.clear();
            let differing = self.verify.differing;
            format!("after {differing} differences no cached decision is used until the next start")
        };
        let object = format!("Pod {}", self.snapshot().pod_key(pod));
        let text = format!(
            "the cached decision for pods like it differs from a full evaluation ({difference}); the full evaluation counts, and \
             {consequence}"
        );
        self.notices.push_back(Notice { object, text });
    }

    /// Whether a cached result for an unschedulable pod may be used. Compares it with a full evaluation if that is
    /// due.
    pub(super) fn holds_true(&mut self, now: Time, queued: &QueuedPod, cached: &Unschedulable) -> bool {
        if !self.verify.is_due(now) {
            return true;
        }
        let same = self.still_holds(now, queued, cached);
        let verdict = if same { Ok(()) } else { Err(format!("cached: {}", cached.message)) };
        match self.verify.judged(verdict) {
            Ok(()) => true,
            Err(difference) => {
                self.differed(&queued.pod, &difference);
                false
            }
        }
    }
}

/// A cached decision, with the inputs of the full evaluation.
pub(super) struct Compared<'a, 'b> {
    pub(super) framework: &'a Framework,
    pub(super) pod: &'a PodInfo,
    pub(super) cached: &'a mut CachedDecision<'b>,
    pub(super) seed: Seed,
    /// The number of nodes with a verdict according to the cached decision.
    pub(super) evaluated: usize,
    pub(super) nodes: Nodes,
}

impl Compared<'_, '_> {
    /// Compares feasible nodes, scores and the chosen node.
    ///
    /// # Errors
    /// Describes the difference.
    pub(super) fn verdict(self, snapshot: Snapshot<'_>) -> Result<(), String> {
        let Self { framework, pod, cached, seed, evaluated, nodes } = self;
        let full = framework.decide(pod, snapshot, Options::default(), &mut NoProbe);
        let seen = match &full {
            Ok(Decision::Feasible(feasible)) => Some(feasible.filtered.evaluated(snapshot)),
            _ => None,
        };
        if cached.equals(&full, seed, pod) && seen == Some(evaluated) {
            return stands_one_by_one(&full, snapshot, nodes);
        }
        let node = |slot| snapshot.text(snapshot.node_info(slot).name).to_owned();
        let summary = format!(
            "cached: {} of {} nodes fit, {} is best",
            cached.len(),
            evaluated,
            node(cached.choose(seed, pod, 1))
        );
        Err(match full {
            Ok(Decision::Feasible(feasible)) => format!(
                "{summary}; full: {} of {} fit, {} is best{}",
                feasible.filtered.feasible().len(),
                seen.unwrap_or_default(),
                node(feasible.choose(seed, pod, 1)),
                odd_one(cached, &feasible).map_or(String::new(), |(at, [cached, full])| {
                    format!("; {} has {cached} and {full}", node(at))
                })
            ),
            Ok(Decision::Infeasible(_)) => format!("{summary}; full: none fits"),
            Err(CycleError(text)) => format!("{summary}; full: {text}"),
        })
    }
}

/// Returns the first node whose feasibility or score differs, with a description of both results.
fn odd_one(cached: &CachedDecision<'_>, full: &Feasible) -> Option<(NodeIdx, [String; 2])> {
    let by_node = |nodes: &NodeSet, totals: Option<&Vec<i64>>| -> BTreeMap<NodeIdx, Option<i64>> {
        nodes.iter().enumerate().map(|(at, node)| (node, totals.map(|totals| totals[at]))).collect()
    };
    let cached = by_node(&cached.feasible(), cached.totals().as_ref());
    let full = by_node(full.filtered.feasible(), full.scores.as_ref().map(|scores| &scores.totals));
    let describe = |score: Option<&Option<i64>>| match score {
        None => "no place".to_owned(),
        Some(None) => "a place".to_owned(),
        Some(Some(score)) => format!("score {score}"),
    };
    let odd = cached.keys().chain(full.keys()).find(|&node| cached.get(node) != full.get(node))?;
    Some((*odd, [describe(cached.get(odd)), describe(full.get(odd))]))
}

/// Checks that nodes that pass in the columns, which both evaluations read, also pass individually.
fn stands_one_by_one(
    full: &Result<Decision, CycleError>,
    snapshot: Snapshot<'_>,
    nodes: Nodes,
) -> Result<(), String> {
    let Ok(Decision::Feasible(feasible)) = full else { return Ok(()) };
    let passing: Vec<NodeIdx> = feasible.filtered.feasible().iter().collect();
    let judged = nodes.among(&passing);
    let refuted = judged.iter().find_map(|&node| {
        let verdict = feasible.filtered.first_rejector(&snapshot.node(node));
        let reason = match verdict {
            Ok(None) => return None,
            Ok(Some((plugin, rejection))) => format!("{plugin} says {}", rejection.message()),
            Err(CycleError(text)) => text,
        };
        let name = snapshot.text(snapshot.node_info(node).name);
        Some(format!("{name} is among the nodes that fit; judged by itself, {reason}"))
    });
    refuted.map_or(Ok(()), Err)
}
