//! Results that the members of a group share in a placement.
//!
//! Every answer equals that of the full evaluation in the same state. Builds with assertions compare every one.

use super::super::attempt::{Choice, Decided};
use super::super::budget::Size;
use super::super::quarantine::panic_text;
use super::super::{Scheduler, profile_named};
use super::cycle::{Attempt, Mode, Trying};
use super::member::Scope;
use crate::cache::Cache;
use crate::cycle::{NoProbe, Probe, Unschedulable};
use crate::incremental::{PlacementResults, State};
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::model::rng::Purpose;
use crate::model::signature::Signature;
use crate::model::time::Time;
use crate::queue::QueuedPod;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The node evaluations of a group whose members are judged by the nodes alone.
///
/// No member has affinity, spreading, volumes, claims or host ports, and no nominated pod reserves room. So a member
/// that is assumed on a node matters only for what it requests there.
pub(super) struct SoleEvaluations {
    /// The indices of the evaluations, each once.
    evaluations: Vec<usize>,
    /// By member in order: a position in `evaluations`.
    of_members: Vec<usize>,
}

impl SoleEvaluations {
    /// Whether one evaluation judges all members.
    pub(super) fn is_one(&self) -> bool {
        self.evaluations.len() == 1
    }
}

/// The members that were assumed in one placement, and the results of their evaluations there.
pub(super) struct SharedRun<'a> {
    sole: &'a SoleEvaluations,
    /// By evaluation; `None` until it is used.
    results: Vec<Option<PlacementResults>>,
    assumed: Vec<(Arc<PodInfo>, NodeIdx)>,
    /// The nodes of `assumed`.
    nodes: Vec<NodeIdx>,
}

impl<'a> SharedRun<'a> {
    pub(super) fn new(sole: &'a SoleEvaluations) -> Self {
        let results = sole.evaluations.iter().map(|_| None).collect();
        Self { sole, results, assumed: Vec::new(), nodes: Vec::new() }
    }

    /// Counts what a member requests on its node.
    pub(super) fn assume(&mut self, pod: &Arc<PodInfo>, node: NodeIdx, cache: &mut Cache) {
        cache.count_requests(node, pod, 1);
        self.assumed.push((Arc::clone(pod), node));
        self.nodes.push(node);
    }

    /// Undoes what the members after the first `kept` count.
    pub(super) fn roll_back_to(&mut self, kept: usize, cache: &mut Cache) {
        for (pod, node) in self.assumed.drain(kept..).rev() {
            cache.count_requests(node, &pod, -1);
        }
        self.nodes.truncate(kept);
    }

    /// Returns the position of the node evaluation of the member at this position.
    pub(super) fn evaluation_of(&self, at: usize) -> Option<usize> {
        self.sole.of_members.get(at).copied()
    }

    /// Returns the number of assumed members.
    pub(super) fn len(&self) -> usize {
        self.assumed.len()
    }
}

/// The rejections of members in one state of the cluster.
#[derive(Default)]
pub(super) struct Rejections {
    state: Option<State>,
    /// By node evaluation if it alone decides, otherwise by signature.
    known: Vec<(Arc<PodInfo>, Option<usize>, Unschedulable)>,
}

impl Rejections {
    fn find(&self, state: State, pod: &Arc<PodInfo>, sole: Option<usize>) -> Option<&Unschedulable> {
        if self.state != Some(state) {
            return None;
        }
        let is_alike = |(other, of, _): &&(Arc<PodInfo>, Option<usize>, _)| match sole {
            Some(_) => *of == sole,
            None => of.is_none() && Signature::of(other).is_of(pod),
        };
        self.known.iter().find(is_alike).map(|(.., found)| found)
    }

    fn add(&mut self, state: State, pod: &Arc<PodInfo>, sole: Option<usize>, found: &Unschedulable) {
        if self.state.replace(state) != Some(state) {
            self.known.clear();
        }
        self.known.push((Arc::clone(pod), sole, found.clone()));
    }
}

impl Scheduler {
    /// Whether decisions in placements may use cached and shared results.
    pub(super) fn shares_results(&self) -> bool {
        !self.is_comparable && !self.tables.copies_defects() && self.verify.is_trusting()
    }

    /// Returns the node evaluations of the group's members, if the nodes alone judge every one of them.
    pub(super) fn sole_evaluations(&mut self, attempt: &Attempt) -> Option<SoleEvaluations> {
        self.cache.refresh();
        if !self.shares_results() || !self.snapshot().nodes_with_nominations().is_empty() {
            return None;
        }
        let evictions = self.decisions.evictions();
        let mut sole = SoleEvaluations { evaluations: Vec::new(), of_members: Vec::new() };
        for queued in &attempt.members {
            let is_usual = !matches!(self.size_of(&queued.pod), Size::TooLarge(_))
                && !self.extender_calls.concerns(&queued.pod)
                && self.cache.nomination(&queued.pod.uid).is_none()
                && self.cache.placed(&queued.pod.uid).is_none();
            if !is_usual {
                return None;
            }
            let pod = self.as_nominated(&queued.pod);
            let snapshot = self.cache.snapshot(&self.tables);
            let framework = &profile_named(&self.profiles, pod.scheduler_name)?.framework;
            let decisions = &mut self.decisions;
            let evaluate = AssertUnwindSafe(|| framework.sole_evaluation(decisions, &pod, snapshot));
            let Ok(evaluation) = catch_unwind(evaluate) else {
                self.decisions.clear();
                return None;
            };
            let evaluation = evaluation?;
            let known = sole.evaluations.iter().position(|&other| other == evaluation);
            sole.of_members.push(known.unwrap_or(sole.evaluations.len()));
            if known.is_none() {
                sole.evaluations.push(evaluation);
            }
        }
        (self.decisions.evictions() == evictions).then_some(sole)
    }

    /// Decides about a member in a placement from results that are known already. Returns `None` if the full evaluation
    /// must decide.
    pub(super) fn decide_from_shared(
        &mut self,
        now: Time,
        trying: &mut Trying<'_>,
        queued: &QueuedPod,
        probe: &mut dyn Probe,
    ) -> Option<Decided> {
        let within = trying.within.filter(|_| trying.shares)?;
        let sole = trying.sole_evaluation();
        let decided = match trying.rejections.find(self.state_version(), &queued.pod, sole) {
            Some(found) if self.is_like_others(&queued.pod) => Decided::Nowhere(found.clone()),
            _ => {
                let pod = self.as_nominated(&queued.pod);
                let decide = AssertUnwindSafe(|| match &mut trying.shared {
                    Some(shared) => self.choose_from_shared(trying.at, shared, within, &pod, queued.attempts),
                    None => self.choose_from_cached(within, &pod, queued.attempts, probe),
                });
                match catch_unwind(decide) {
                    Ok(choice) => Decided::Node(choice?),
                    Err(panic) => {
                        self.decisions.clear();
                        Decided::Panicked(panic_text(panic.as_ref()))
                    }
                }
            }
        };
        if cfg!(debug_assertions) {
            self.assert_full_equals(now, (trying.mode, within), queued, &decided);
        }
        Some(decided)
    }

    /// Keeps the rejection of a member for those like it.
    pub(super) fn keep_rejection(&self, trying: &mut Trying<'_>, queued: &QueuedPod, decided: &Decided) {
        if let Decided::Nowhere(found) = decided
            && trying.within.is_some()
            && trying.shares
            && self.is_like_others(&queued.pod)
        {
            let sole = trying.sole_evaluation();
            trying.rejections.add(self.state_version(), &queued.pod, sole, found);
        }
    }

    fn choose_from_shared(
        &self,
        at: usize,
        shared: &mut SharedRun<'_>,
        within: &NodeSet,
        pod: &PodInfo,
        attempt: u32,
    ) -> Option<Choice> {
        let of = *shared.sole.of_members.get(at)?;
        let evaluation = shared.sole.evaluations[of];
        let results = shared.results[of].get_or_insert_with(|| self.decisions.results_in(evaluation, within));
        let draw = |ties| self.seed.draw(Purpose::TieBreak, &pod.uid, u64::from(attempt), ties);
        let snapshot = self.cache.snapshot(&self.tables);
        let chosen = self.decisions.choose_in(results, snapshot, &shared.nodes, draw)?;
        Some(Choice {
            node: chosen.node,
            evaluated: chosen.evaluated,
            feasible: chosen.feasible,
            score: chosen.score,
            reservations: Vec::new(),
        })
    }

    fn choose_from_cached(
        &mut self,
        within: &NodeSet,
        pod: &Arc<PodInfo>,
        attempt: u32,
        probe: &mut dyn Probe,
    ) -> Option<Choice> {
        let snapshot = self.cache.snapshot(&self.tables);
        let framework = &profile_named(&self.profiles, pod.scheduler_name)?.framework;
        let scope = (snapshot, Some(within));
        let mut quick = framework.decide_cached_within(&mut self.decisions, pod, scope, probe)?;
        let node = quick.choose(self.seed, pod, attempt);
        let reservations = quick.reserve(snapshot, node)?;
        let (evaluated, feasible) = (quick.candidates_in(within), quick.len());
        Some(Choice { node, evaluated, feasible, score: quick.total(node), reservations })
    }

    /// Compares a result with that of the full evaluation.
    fn assert_full_equals(
        &mut self,
        now: Time,
        (mode, within): (Mode, &NodeSet),
        queued: &QueuedPod,
        decided: &Decided,
    ) {
        let preempts = mode == Mode::WithPostFilters;
        let scope = Scope { within: Some(within), preempts, is_comparable: false };
        let full = self.decide_in(now, queued, scope, &mut NoProbe);
        match (decided, &full) {
            (Decided::Node(shared), Decided::Node(full)) => assert_eq!(shared, full, "a shared choice"),
            (Decided::Nowhere(shared), Decided::Nowhere(full)) => assert_eq!(
                (&shared.message, &shared.rejectors, shared.evaluated),
                (&full.message, &full.rejectors, full.evaluated),
                "a shared rejection"
            ),
            (Decided::Panicked(_), _) => {}
            _ => panic!("a shared result differs from the full evaluation"),
        }
    }
}
