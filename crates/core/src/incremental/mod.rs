//! Cached decisions: pods of equal signature cost only what changed since the last of them was decided.
//!
//! A `NodeEvaluation` holds the results of filters and scores that judge each node alone; pods that differ only in
//! volumes, affinity and spreading share it. A `SignatureState` adds the counts of pods by topology domain and the
//! classes of nodes with equal counts.
//!
//! A cached decision equals the full evaluation ([`Framework::decide`]). If the cache cannot answer, the full
//! evaluation decides. README.md in this folder explains the layers and their invariants.

mod base_partition;
mod block_max;
mod device_results;
mod domain_counter;
mod domain_map;
mod equal_nodes;
mod exact_results;
mod gc_roots;
mod infeasible_cache;
mod node_classes;
mod node_evaluation;
mod node_evaluations;
mod placement_results;
mod pod_rules;
mod score_table;
mod signature_state;
mod topology_counts;
mod topology_index;
mod two_queue;
mod verify;

use crate::cache::{DeviceVerdicts, Snapshot};
use crate::collections::hash::{Hashed, Keyed};
use crate::cycle::{Decision, Framework, Probe};
use crate::framework::CycleError;
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::model::rng::{Purpose, Seed};
use crate::model::signature::VolumelessSignature;
use crate::model::time::Time;
use crate::model::volume::Reservation;
use crate::switches::ablation::{self, Layer};
use base_partition::BasePartitions;
use device_results::DeviceResults;
pub(crate) use exact_results::State;
use infeasible_cache::InfeasibleCache;
use node_evaluation::NodeEvaluation;
use node_evaluations::NodeEvaluations;
pub(crate) use placement_results::{GroupEvaluations, PlacementResults};
use pod_rules::Rules;
use signature_state::SignatureState;
use std::fmt;
use std::sync::Arc;
use topology_index::TopologyIndex;
use two_queue::{Segment, TwoQueue};
pub(crate) use verify::LiveSignature;

/// Maximum memory of all cached signatures, in bytes. Only the newest signature may exceed it (see `oversized`).
const BYTES_MAX: usize = 256 << 20;
/// Maximum number of cached signatures. Only the newest signature may exceed it (see `oversized`).
const SIGNATURES_MAX: usize = 8_192;
/// The probation segment gets this fraction (1/4) of the bytes, and of the signatures if their number is at its
/// limit.
const PROBATION_SHARE: usize = 4;
/// Maximum evictions for each insertion, apart from the previous oversized signature. Bounds the time of one
/// decision.
const EVICTIONS_MAX: usize = 8;

/// The cached decisions of all profiles. A pod's profile is part of its signature.
pub struct DecisionCache {
    hashing: Keyed,
    signatures: TwoQueue<Cached>,
    evaluations: NodeEvaluations,
    /// Bytes of all signature states and of the node evaluations that they use.
    bytes: usize,
    bytes_max: usize,
    /// The newest signature, if the cache exceeds its limit with it. The next insertion evicts it.
    oversized: Option<usize>,
    topology_index: TopologyIndex,
    base_partitions: BasePartitions,
    device_results: DeviceResults,
    infeasible: InfeasibleCache,
    /// The time that new and compared signatures get as their last check.
    now: Time,
    hits: u64,
    computed: u64,
    evictions: u64,
}

impl Default for DecisionCache {
    fn default() -> Self {
        Self::with_bytes_max(BYTES_MAX)
    }
}

enum Cached {
    /// No state was computed yet.
    Unseen,
    /// Pods of this signature use the full evaluation until a new era: a node is added or deleted, or a DeviceClass
    /// changes.
    Uncacheable {
        era: u64,
    },
    State(Box<SignatureState>),
}

/// A cached decision for a pod with at least one feasible node. It equals the decision of [`Framework::decide`].
pub struct CachedDecision<'a> {
    state: &'a mut SignatureState,
    evaluation: &'a mut NodeEvaluation,
    /// The rules of this pod's volumes and claims. They are not cached.
    rules: Rules,
}

impl CachedDecision<'_> {
    /// Returns the number of feasible nodes; at least one.
    pub fn len(&self) -> usize {
        self.state.feasible()
    }

    /// Returns `false`: a cached decision has at least one feasible node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the feasible nodes.
    pub fn feasible(&self) -> NodeSet {
        self.state.scored(self.evaluation).map(|(node, _)| node).collect()
    }

    /// Returns the total of each feasible node in slot order; `None` if only one node is feasible, which skips
    /// scoring.
    pub fn totals(&self) -> Option<Vec<i64>> {
        (self.len() > 1).then(|| self.state.scored(self.evaluation).map(|(_, total)| total).collect())
    }

    /// Chooses a node among those with the highest total, as [`Feasible::choose`](crate::cycle::Feasible::choose)
    /// does.
    pub fn choose(&mut self, seed: Seed, pod: &PodInfo, attempt: u32) -> NodeIdx {
        self.state
            .best(self.evaluation, |ties| seed.draw(Purpose::TieBreak, &pod.uid, u64::from(attempt), ties))
    }

    /// Returns the nodes with the highest total, in slot order.
    pub(crate) fn best_nodes(&mut self) -> Vec<NodeIdx> {
        let mut ties = 0;
        let first = self.state.best(self.evaluation, |tied| {
            ties = tied;
            0
        });
        if ties == 1 {
            return vec![first];
        }
        let best = self.state.total(self.evaluation, first);
        let scored = self.state.scored(self.evaluation);
        scored.filter(|&(_, total)| total == best).map(|(node, _)| node).collect()
    }

    /// Returns the number of nodes of `within` that a full evaluation filters.
    pub(crate) fn candidates_in(&self, within: &NodeSet) -> usize {
        self.evaluation.candidates_in(within)
    }

    /// Returns the total of a feasible node; `None` if only one node is feasible, which skips scoring.
    pub fn total(&self, node: NodeIdx) -> Option<i64> {
        (self.len() > 1).then(|| self.state.total(self.evaluation, node))
    }

    /// Returns what the pod reserves on a feasible node besides its requests.
    ///
    /// Returns `None` if a rule fails to reserve or if the node's cached class is stale. The caller then uses
    /// [`Framework::decide`].
    pub fn reserve(&self, snapshot: Snapshot<'_>, node: NodeIdx) -> Option<Vec<Reservation>> {
        if !self.state.is_class_current(node) {
            debug_assert!(false, "the cached class of {node:?} does not match its topology counts");
            return None;
        }
        let mut all = Vec::new();
        for rule in self.rules.reserving() {
            all.append(&mut rule.reserve(&snapshot.node(node)).ok()?);
        }
        Some(all)
    }

    /// Whether a full evaluation gives the same feasible nodes and totals, and the same choices in three attempts.
    pub fn equals(&mut self, full: &Result<Decision, CycleError>, seed: Seed, pod: &PodInfo) -> bool {
        let Ok(Decision::Feasible(full)) = full else { return false };
        let totals = full.scores.as_ref().map(|scores| &scores.totals);
        let chosen = self.choose(seed, pod, 1);
        full.best() == self.total(chosen)
            && *full.filtered.feasible() == self.feasible()
            && totals == self.totals().as_ref()
            && (1..=3).all(|attempt| full.choose(seed, pod, attempt) == self.choose(seed, pod, attempt))
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
    /// Creates a cache with a memory limit in bytes. Only the newest signature may exceed it.
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
            device_results: DeviceResults::default(),
            infeasible: InfeasibleCache::default(),
            now: Time::default(),
            hits: 0,
            computed: 0,
            evictions: 0,
        }
    }

    /// Sets the keyed hash of signatures. Call this only while the cache is empty.
    #[must_use]
    pub(crate) fn hashed_by(self, hashing: &Keyed) -> Self {
        Self { hashing: hashing.clone(), ..self }
    }

    /// Returns the results of searches for devices that the latest call of [`Framework::decide_cached`] used, if any.
    /// If it had no answer, they hold for the full evaluation of the same pod in the same snapshot.
    pub fn device_verdicts(&self) -> Option<Arc<DeviceVerdicts>> {
        self.device_results.latest().cloned()
    }

    /// Returns the number of cached decisions so far.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Returns how many signature states were computed so far, including repetitions.
    pub fn computed(&self) -> u64 {
        self.computed
    }

    /// Returns how many signatures were evicted so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Returns the number of cached signatures.
    pub fn signatures(&self) -> usize {
        self.signatures.len()
    }

    /// Returns the number of node evaluations.
    pub fn node_signatures(&self) -> usize {
        self.evaluations.len()
    }

    /// Returns the memory of all signatures, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes everything, for example after a panic or when the plugins change.
    pub fn clear(&mut self) {
        let is_collecting = self.signatures.is_collecting();
        (self.signatures, self.evaluations) = (TwoQueue::default(), NodeEvaluations::default());
        if is_collecting {
            self.begin_collection();
        }
        (self.bytes, self.oversized) = (0, None);
        self.topology_index.clear();
        self.base_partitions.clear();
        self.device_results.clear();
        self.infeasible.clear();
    }
}

impl DecisionCache {
    /// Returns the index of a signature, which is added if it is new. Counts as use.
    fn index_of(&mut self, signature: VolumelessSignature) -> usize {
        let signature = Hashed::of(signature, &self.hashing);
        self.signatures.touch(&signature).unwrap_or_else(|| self.signatures.add(signature, Cached::Unseen))
    }

    /// Updates a signature's cached state; whether that succeeded.
    fn refresh(&mut self, index: usize, snapshot: Snapshot<'_>) -> bool {
        let Cached::State(state) = self.signatures.get_mut(index) else { return false };
        let evaluation = self.evaluations.update(state.evaluation(), snapshot);
        evaluation.is_ok_and(|evaluation| state.catch_up(evaluation, snapshot).is_ok())
    }

    /// Computes the state of a signature, then evicts others if the cache exceeds its limits.
    fn compute(&mut self, framework: &Framework, pod: &Arc<PodInfo>, snapshot: Snapshot<'_>, index: usize) {
        if let Some(oversized) = self.oversized.take_if(|oversized| *oversized != index) {
            let evicted = self.signatures.evict(oversized);
            self.count_eviction(&evicted);
        }
        let Self { signatures, evaluations, topology_index, base_partitions, bytes, now, .. } = self;
        let cached = evaluations.of(framework, pod, snapshot).and_then(|evaluation| {
            let state = SignatureState::new(
                framework,
                pod,
                snapshot,
                (topology_index, base_partitions),
                &evaluations.at(evaluation),
            );
            if state.is_err() {
                evaluations.remove_unused(evaluation);
            }
            state
        });
        let cached = match cached {
            Ok(mut state) => {
                state.checked = *now;
                Cached::State(Box::new(state))
            }
            Err(_) => Cached::Uncacheable { era: snapshot.era() },
        };
        // Counted before others are evicted, so that its node evaluation stays.
        let added = cached.acquire(evaluations);
        *bytes += added;
        *bytes -= signatures.replace(index, cached, added).release(evaluations);
        self.computed += 1;
        self.evict_others(index);
    }

    /// Evicts signatures until the cache fits its limits, at most [`EVICTIONS_MAX`]; never the one at `index`.
    fn evict_others(&mut self, index: usize) {
        for _ in 0..EVICTIONS_MAX {
            let Some(segment) = self.next_segment() else { break };
            if let Some(evicted) = self.signatures.evict_next(segment, index) {
                self.count_eviction(&evicted);
            }
        }
        self.oversized = self.is_full().then_some(index);
    }

    /// Updates the counters after an eviction.
    fn count_eviction(&mut self, evicted: &Cached) {
        self.bytes -= evicted.release(&mut self.evaluations);
        self.evictions += 1;
    }

    /// Whether the cache exceeds a limit.
    fn is_full(&self) -> bool {
        self.bytes > self.bytes_max || self.signatures.len() > SIGNATURES_MAX
    }

    /// Returns the segment from which to evict next, if an eviction is due.
    fn next_segment(&self) -> Option<Segment> {
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
    /// Adds a reference to its node evaluation; returns the bytes that this adds to the cache.
    fn acquire(&self, evaluations: &mut NodeEvaluations) -> usize {
        let Self::State(state) = self else { return 0 };
        state.bytes() + evaluations.add_user(state.evaluation())
    }

    /// Removes a reference to its node evaluation; returns the bytes that this frees.
    fn release(&self, evaluations: &mut NodeEvaluations) -> usize {
        let Self::State(state) = self else { return 0 };
        state.bytes() + evaluations.remove_user(state.evaluation())
    }
}

impl Framework {
    /// Decides `pod` from cached state, updated from the change log.
    ///
    /// Returns `None` if the cache cannot answer; the caller then uses [`Self::decide`].
    pub fn decide_cached<'a>(
        &self,
        decisions: &'a mut DecisionCache,
        pod: &Arc<PodInfo>,
        snapshot: Snapshot<'_>,
        probe: &mut dyn Probe,
    ) -> Option<CachedDecision<'a>> {
        self.decide_cached_within(decisions, pod, (snapshot, None), probe)
    }

    /// As [`Self::decide_cached`], restricted to the nodes of `within`: a placement of the pod's group. Filters still
    /// see the whole cluster.
    pub fn decide_cached_within<'a>(
        &self,
        decisions: &'a mut DecisionCache,
        pod: &Arc<PodInfo>,
        (snapshot, within): (Snapshot<'_>, Option<&NodeSet>),
        probe: &mut dyn Probe,
    ) -> Option<CachedDecision<'a>> {
        decisions.device_results.begin_decision();
        let index = self.current_state(decisions, pod, snapshot)?;
        let DecisionCache { signatures, evaluations, device_results, hits, .. } = decisions;
        let Cached::State(state) = signatures.get_mut(index) else { return None };
        let evaluation = evaluations.at_mut(state.evaluation());
        let devices = (&*evaluation, device_results);
        let rules = state.decide(self, devices, pod, (snapshot, within), probe).ok()?;
        *hits += 1;
        Some(CachedDecision { state, evaluation, rules })
    }

    /// Updates or computes the state of a pod's signature, and returns its index. Returns `None` if decisions about
    /// the pod are not cached.
    fn current_state(
        &self,
        decisions: &mut DecisionCache,
        pod: &Arc<PodInfo>,
        snapshot: Snapshot<'_>,
    ) -> Option<usize> {
        // Sampling visits other nodes in each attempt, so its decisions are not cached.
        if self.sampling.is_some() || pod.nominated_node.is_some() || ablation::is_off(Layer::Cache) {
            return None;
        }
        let index = decisions.index_of(VolumelessSignature::of(pod));
        if matches!(*decisions.signatures.get_mut(index), Cached::Uncacheable { era } if era == snapshot.era())
        {
            return None;
        }
        if !decisions.refresh(index, snapshot) {
            decisions.compute(self, pod, snapshot, index);
        }
        Some(index)
    }
}
