//! Results that the members of a group share in a placement.
//!
//! Every answer equals that of the full evaluation in the same state. Builds with assertions compare every one.

use super::super::attempt::{Choice, Decided};
use super::super::budget::Size;
use super::super::quarantine::panic_text;
use super::super::{Scheduler, profile_named};
use super::cycle::{Attempt, Mode, RunState};
use super::member::Scope;
use crate::cache::Cache;
use crate::cache::slice::step_limit::StepLimit;
use crate::cycle::{NoProbe, Probe, Unschedulable};
use crate::incremental::{GroupEvaluations, PlacementResults, State};
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::model::rng::Purpose;
use crate::model::signature::Signature;
use crate::model::time::Time;
use crate::plugins::dynamic_resources;
use crate::queue::QueuedPod;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The members that were assumed in one placement, and the results of their evaluations there.
pub(super) struct SharedRun<'a> {
    evaluations: &'a GroupEvaluations,
    /// By evaluation; `None` until it is used.
    results: Vec<Option<PlacementResults>>,
    /// The nodes of the assumed members.
    nodes: Vec<NodeIdx>,
    /// The members that only count in the columns of their nodes.
    counted: Vec<Arc<PodInfo>>,
}

impl<'a> SharedRun<'a> {
    pub(super) fn new(evaluations: &'a GroupEvaluations) -> Self {
        let results = (0..evaluations.len()).map(|_| None).collect();
        Self { evaluations, results, nodes: Vec::new(), counted: Vec::new() }
    }

    /// Records a member that is assumed on a node. Returns whether its requests were added to the node's columns: that
    /// is enough if no plugin that reads other pods judges any member.
    pub(super) fn assume(&mut self, pod: &Arc<PodInfo>, node: NodeIdx, cache: &mut Cache) -> bool {
        self.nodes.push(node);
        let is_counted = self.evaluations.are_sole();
        if is_counted {
            cache.count_requests(node, pod, 1);
            self.counted.push(Arc::clone(pod));
        }
        is_counted
    }

    /// Removes the assumed members after the first `kept`, with their requests.
    pub(super) fn roll_back_to(&mut self, kept: usize, cache: &mut Cache) {
        while self.nodes.len() > kept
            && let Some(node) = self.nodes.pop()
        {
            if let Some(pod) = self.counted.pop() {
                cache.count_requests(node, &pod, -1);
            }
        }
    }

    /// Returns the position of the node evaluation of the member at this position, if nothing else judges it.
    pub(super) fn sole_evaluation(&self, at: usize) -> Option<usize> {
        self.evaluations.are_sole().then(|| self.evaluations.of_member(at))
    }

    /// Returns the number of assumed members.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
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

    /// Evaluates all nodes for each kind of member, if decisions in placements may use that.
    pub(super) fn group_evaluations(&mut self, attempt: &Attempt) -> Option<GroupEvaluations> {
        self.cache.refresh();
        if !self.shares_results() || !self.snapshot().nodes_with_nominations().is_empty() {
            return None;
        }
        let is_usual = |pod: &PodInfo| {
            !matches!(self.size_of(pod), Size::TooLarge(_))
                && !self.extender_calls.concerns(pod)
                && !dynamic_resources::concerns(pod, self.snapshot())
                && self.cache.nomination(&pod.uid).is_none()
                && self.cache.placed(&pod.uid).is_none()
        };
        if !attempt.members.iter().all(|queued| is_usual(&queued.pod)) {
            return None;
        }
        let pods: Vec<_> = attempt.members.iter().map(|queued| self.as_nominated(&queued.pod)).collect();
        let framework = &profile_named(&self.profiles, pods.first()?.scheduler_name)?.framework;
        let evaluate = AssertUnwindSafe(|| GroupEvaluations::new(framework, &pods, self.snapshot()));
        catch_unwind(evaluate).unwrap_or(None)
    }

    /// Decides about a member in a placement from results that are known already. Returns `None` if the full evaluation
    /// must decide.
    pub(super) fn decide_from_shared(
        &mut self,
        now: Time,
        state: &mut RunState<'_>,
        queued: &QueuedPod,
        probe: &mut dyn Probe,
    ) -> Option<Decided> {
        let within = state.within.filter(|_| state.shares)?;
        let sole = state.sole_evaluation();
        let decided = match state.rejections.find(self.state_version(), &queued.pod, sole) {
            Some(found) if self.is_like_others(&queued.pod) => Decided::Nowhere(found.clone()),
            _ => {
                let pod = self.as_nominated(&queued.pod);
                let (at, is_sole) = (state.at, sole.is_some());
                let is_repeated = !is_sole && state.is_repeated(&queued.pod);
                let limit = state.limit;
                let decide = AssertUnwindSafe(|| match &mut state.shared {
                    Some(shared) if is_sole || !is_repeated => {
                        self.choose_from_shared(at, shared, within, &pod, queued.attempts)
                    }
                    _ if is_repeated => {
                        self.choose_from_cached((within, limit), &pod, queued.attempts, probe)
                    }
                    _ => None,
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
            let scope = Scope {
                within: Some(within),
                preempts: state.mode == Mode::WithPostFilters,
                is_comparable: false,
                limit: state.limit,
                is_brief: state.is_brief,
            };
            self.assert_full_equals(now, scope, queued, &decided);
        }
        Some(decided)
    }

    /// Keeps the rejection of a member for those like it.
    pub(super) fn keep_rejection(&self, state: &mut RunState<'_>, queued: &QueuedPod, decided: &Decided) {
        if let Decided::Nowhere(found) = decided
            && state.within.is_some()
            && state.shares
            && self.is_like_others(&queued.pod)
        {
            let sole = state.sole_evaluation();
            state.rejections.add(self.state_version(), &queued.pod, sole, found);
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
        let evaluations = shared.evaluations;
        let of = evaluations.of_member(at);
        let results = shared.results[of].get_or_insert_with(|| evaluations.results_in(of, within));
        let draw = |ties| self.seed.draw(Purpose::TieBreak, &pod.uid, u64::from(attempt), ties);
        let snapshot = self.cache.snapshot(&self.tables);
        let framework = &profile_named(&self.profiles, pod.scheduler_name)?.framework;
        let chosen = evaluations.choose(at, results, (framework, pod, snapshot), &shared.nodes, draw)?;
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
        (within, limit): (&NodeSet, Option<&StepLimit>),
        pod: &Arc<PodInfo>,
        attempt: u32,
        probe: &mut dyn Probe,
    ) -> Option<Choice> {
        let whole = self.cache.snapshot(&self.tables);
        let snapshot = limit.map_or(whole, |limit| whole.with_step_limit(limit));
        let framework = &profile_named(&self.profiles, pod.scheduler_name)?.framework;
        let scope = (snapshot, Some(within));
        let mut cached = framework.decide_cached_within(&mut self.decisions, pod, scope, probe)?;
        let node = cached.choose(self.seed, pod, attempt);
        let reservations = cached.reserve(snapshot, node)?;
        let (evaluated, feasible) = (cached.candidates_in(within), cached.len());
        Some(Choice { node, evaluated, feasible, score: cached.total(node), reservations })
    }

    /// Compares a result with that of the full evaluation.
    fn assert_full_equals(&mut self, now: Time, scope: Scope<'_>, queued: &QueuedPod, decided: &Decided) {
        let full = self.decide_in(now, queued, scope, &mut NoProbe);
        if scope.limit.is_some_and(StepLimit::is_exceeded) {
            // The next slice compares.
            return;
        }
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
