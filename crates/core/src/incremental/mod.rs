//! Cached decisions: pods of equal signature cost only what changed since the last of them was decided.
//!
//! A `NodeEvaluation` holds the results of filters and scores that judge each node alone; pods that differ only in volumes
//! and in what affinity and spreading read share it. A `SignatureState` adds the counts of pods by topology domain and the
//! classes of nodes that see equal counts. A cached decision equals the full evaluation ([`Framework::decide`]); where the
//! cache cannot answer, the full evaluation decides. README.md in this folder explains the layers and their invariants.

mod base_partition;
mod block_max;
mod domain_counter;
mod domain_map;
mod gc_roots;
mod infeasible_cache;
mod node_classes;
mod node_evaluation;
mod node_evaluations;
mod score_table;
mod signature_state;
mod topology_counts;
mod topology_index;
mod two_queue;
mod verify;

use crate::cache::Snapshot;
use crate::cycle::{Decision, Framework, Probe};
use crate::framework::CycleError;
use crate::hash::{Hashed, Keyed};
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use crate::pod::PodInfo;
use crate::rng::{Purpose, Seed};
use crate::signature::VolumelessSignature;
use crate::time::Time;
use crate::volume::Reservation;
use base_partition::BasePartitions;
use infeasible_cache::InfeasibleCache;
use node_evaluation::NodeEvaluation;
use node_evaluations::NodeEvaluations;
use signature_state::{Rules, SignatureState};
use std::fmt;
use std::sync::Arc;
use topology_index::TopologyIndex;
use two_queue::{Segment, TwoQueue};
pub(crate) use verify::LiveSignature;

/// Bytes that all signatures together take at most, but for the one made last.
const BYTES_MAX: usize = 256 << 20;
/// Signatures remembered at most, but for the one made last.
const SIGNATURES_MAX: usize = 8_192;
/// Probation have this part of the room, and of the signatures when those are as many as may be.
const PROBATION_SHARE: usize = 4;
/// How many have their turn to go when something is made: so many go at most, and the one made last before.
const EVICTIONS_MAX: usize = 8;

/// Cached is remembered of the pods of all profiles: a pod's profile is part of its signature.
pub struct DecisionCache {
    hashing: Keyed,
    signatures: TwoQueue<Cached>,
    evaluations: NodeEvaluations,
    /// The bytes that signatures take, with the trunks that they grow from.
    bytes: usize,
    bytes_max: usize,
    /// Cached was made last, if there is no room for it beside the others: it goes when something else is made.
    oversized: Option<usize>,
    topology_index: TopologyIndex,
    base_partitions: BasePartitions,
    infeasible: InfeasibleCache,
    /// The time of what is made or compared now.
    now: Time,
    answers: u64,
    made: u64,
    evictions: u64,
}

impl Default for DecisionCache {
    fn default() -> Self {
        Self::with_bytes_max(BYTES_MAX)
    }
}

enum Cached {
    /// It was never met.
    Unseen,
    /// Its decisions are none of ours as long as the same nodes exist.
    Uncacheable {
        era: u64,
    },
    State(Box<SignatureState>),
}

/// Cached was found for a pod, equal to what [`Framework::decide`] finds.
pub struct CachedDecision<'a> {
    state: &'a mut SignatureState,
    evaluation: &'a mut NodeEvaluation,
    /// Cached only this pod is held to.
    rules: Rules,
}

impl CachedDecision<'_> {
    /// How many nodes can take the pod; at least one.
    pub fn len(&self) -> usize {
        self.state.feasible()
    }

    /// Whether no node can: never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The nodes that can take the pod.
    pub fn feasible(&self) -> NodeSet {
        self.state.scored(self.evaluation).map(|(node, _)| node).collect()
    }

    /// The total of each feasible node, in slot order; `None` where a single node made scoring needless.
    pub fn totals(&self) -> Option<Vec<i64>> {
        (self.len() > 1).then(|| self.state.scored(self.evaluation).map(|(_, total)| total).collect())
    }

    /// The node chosen, as [`Feasible::choose`](crate::cycle::Feasible::choose) would.
    pub fn choose(&mut self, seed: Seed, pod: &PodInfo, attempt: u32) -> NodeIdx {
        self.state
            .best(self.evaluation, |ties| seed.draw(Purpose::TieBreak, &pod.uid, u64::from(attempt), ties))
    }

    /// The total of a feasible node; `None` where a single node made scoring needless.
    pub fn total(&self, node: NodeIdx) -> Option<i64> {
        (self.len() > 1).then(|| self.state.total(self.evaluation, node))
    }

    /// Cached the pod needs on a feasible node beside its place there; `None` where the node will not do after all, and
    /// [`Framework::decide`] is to be asked.
    pub fn reserve(&self, snapshot: Snapshot<'_>, node: NodeIdx) -> Option<Vec<Reservation>> {
        if !self.state.stands(node) {
            debug_assert!(false, "what is cached of {node:?} is not what is counted for it");
            return None;
        }
        let mut all = Vec::new();
        for rule in &self.rules {
            all.append(&mut rule.reserve(&snapshot.node(node)).ok()?);
        }
        Some(all)
    }

    /// Whether the plain path found the same, and chooses the same in any of three attempts.
    pub fn equals(&mut self, plain: &Result<Decision, CycleError>, seed: Seed, pod: &PodInfo) -> bool {
        let Ok(Decision::Feasible(plain)) = plain else { return false };
        let totals = plain.scores.as_ref().map(|scores| &scores.totals);
        let chosen = self.choose(seed, pod, 1);
        plain.best() == self.total(chosen)
            && *plain.filtered.feasible() == self.feasible()
            && totals == self.totals().as_ref()
            && (1..=3).all(|attempt| plain.choose(seed, pod, attempt) == self.choose(seed, pod, attempt))
    }
}

impl fmt::Debug for CachedDecision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedDecision")
            .field("feasible", &self.feasible())
            .field("totals", &self.totals())
            .finish()
    }
}

impl DecisionCache {
    /// Cached is remembered takes so many bytes at most, but for the signature that was met last.
    pub fn with_bytes_max(bytes_max: usize) -> Self {
        Self {
            hashing: Keyed::default(),
            signatures: TwoQueue::default(),
            evaluations: NodeEvaluations::default(),
            bytes: 0,
            bytes_max,
            oversized: None,
            topology_index: TopologyIndex::default(),
            base_partitions: BasePartitions::default(),
            infeasible: InfeasibleCache::default(),
            now: Time::default(),
            answers: 0,
            made: 0,
            evictions: 0,
        }
    }

    /// Signatures are hashed so. To be told while nothing is remembered.
    #[must_use]
    pub(crate) fn hashed_by(self, hashing: &Keyed) -> Self {
        Self { hashing: hashing.clone(), ..self }
    }

    /// How many decisions came from here.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// How often it was found out about a signature, for the first time or anew.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// How many signatures had to go, to make room for others.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// How many signatures are remembered.
    pub fn signatures(&self) -> usize {
        self.signatures.len()
    }

    /// How many of them differ in what nodes are to them by themselves.
    pub fn node_signatures(&self) -> usize {
        self.evaluations.len()
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets everything, for what was held may be half changed, or was found by other plugins.
    pub fn clear(&mut self) {
        let is_in_round = self.signatures.is_in_round();
        (self.signatures, self.evaluations) = (TwoQueue::default(), NodeEvaluations::default());
        if is_in_round {
            self.begin_round();
        }
        (self.bytes, self.oversized) = (0, None);
        self.topology_index.clear();
        self.base_partitions.clear();
        self.infeasible.clear();
    }
}

impl DecisionCache {
    /// Where stands what is known of a signature.
    fn index_of(&mut self, signature: VolumelessSignature) -> usize {
        let signature = Hashed::of(signature, &self.hashing);
        self.signatures.touch(&signature).unwrap_or_else(|| self.signatures.add(signature, Cached::Unseen))
    }

    /// Whether what is known of a signature is up to date by now.
    fn is_fresh(&mut self, index: usize, snapshot: Snapshot<'_>) -> bool {
        let Cached::State(state) = self.signatures.at(index) else { return false };
        let evaluation = self.evaluations.fresh(state.evaluation(), snapshot);
        evaluation.is_ok_and(|evaluation| state.catch_up(evaluation, snapshot).is_ok())
    }

    /// Finds out about a signature, and lets others go as far as there is no room for all.
    fn make(&mut self, framework: &Framework, pod: &Arc<PodInfo>, snapshot: Snapshot<'_>, index: usize) {
        if let Some(oversized) = self.oversized.take_if(|oversized| *oversized != index) {
            let evicted = self.signatures.evict(oversized);
            self.release(&evicted);
        }
        let Self { signatures, evaluations, topology_index, base_partitions, bytes, now, .. } = self;
        let made = evaluations.of(framework, pod, snapshot).and_then(|root| {
            let state = SignatureState::new(
                framework,
                pod,
                snapshot,
                (topology_index, base_partitions),
                &evaluations.at(root),
            );
            if state.is_err() {
                evaluations.tidy(root);
            }
            state
        });
        let made = match made {
            Ok(mut state) => {
                state.checked = *now;
                Cached::State(Box::new(state))
            }
            Err(_) => Cached::Uncacheable { era: snapshot.era() },
        };
        // Held before another is let go, so that its trunk stays.
        let held = made.held(evaluations);
        *bytes += held;
        *bytes -= signatures.replace(index, made, held).released(evaluations);
        self.made += 1;
        self.evict_others(index);
    }

    /// Some have their turn to go, but for what was made just now.
    fn evict_others(&mut self, index: usize) {
        for _ in 0..EVICTIONS_MAX {
            let Some(segment) = self.next() else { break };
            if let Some(evicted) = self.signatures.evict_next(segment, index) {
                self.release(&evicted);
            }
        }
        self.oversized = self.is_full().then_some(index);
    }

    /// A signature went.
    fn release(&mut self, evicted: &Cached) {
        self.bytes -= evicted.released(&mut self.evaluations);
        self.evictions += 1;
    }

    /// Whether there is no room for all.
    fn is_full(&self) -> bool {
        self.bytes > self.bytes_max || self.signatures.len() > SIGNATURES_MAX
    }

    /// Of which ring one is to go, if any.
    fn next(&self) -> Option<Segment> {
        let (all, on_probation) = (self.signatures.len(), self.signatures.len_of(Segment::Probation));
        let are_too_large = self.signatures.probation_weight() > self.bytes_max / PROBATION_SHARE;
        let are_too_many = all > SIGNATURES_MAX && on_probation > SIGNATURES_MAX / PROBATION_SHARE;
        if on_probation > 1 && (are_too_large || are_too_many) {
            return Some(Segment::Probation);
        }
        self.is_full().then_some(if on_probation == all { Segment::Probation } else { Segment::Protected })
    }
}

impl Cached {
    /// It is remembered; the bytes that this adds to all that is.
    fn held(&self, evaluations: &mut NodeEvaluations) -> usize {
        let Self::State(state) = self else { return 0 };
        state.bytes() + evaluations.hold(state.evaluation())
    }

    /// It no longer is; the bytes that this takes from all that is.
    fn released(&self, evaluations: &mut NodeEvaluations) -> usize {
        let Self::State(state) = self else { return 0 };
        state.bytes() + evaluations.release(state.evaluation())
    }
}

impl Framework {
    /// Decides where `pod` can go and how good each place is, from what is remembered of its signature; `None` where
    /// [`Self::decide`] is to be asked.
    pub fn decide_cached<'a>(
        &self,
        decisions: &'a mut DecisionCache,
        pod: &Arc<PodInfo>,
        snapshot: Snapshot<'_>,
        probe: &mut dyn Probe,
    ) -> Option<CachedDecision<'a>> {
        // A walk looks at other nodes each time, and is never answered from here.
        if self.sampling.is_some() || pod.nominated_node.is_some() {
            return None;
        }
        let index = decisions.index_of(VolumelessSignature::of(pod));
        if matches!(*decisions.signatures.at(index), Cached::Uncacheable { era } if era == snapshot.era()) {
            return None;
        }
        if !decisions.is_fresh(index, snapshot) {
            decisions.make(self, pod, snapshot, index);
        }
        let DecisionCache { signatures, evaluations, answers, .. } = decisions;
        let Cached::State(state) = signatures.at(index) else { return None };
        let evaluation = evaluations.at_mut(state.evaluation());
        let rules = state.decide(self, evaluation, pod, snapshot, probe).ok()?;
        *answers += 1;
        Some(CachedDecision { state, evaluation, rules })
    }
}
