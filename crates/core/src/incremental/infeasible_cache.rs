//! The infeasible cache: what is known about pods that no node can take.
//!
//! It has two levels. While nothing at all changes, the whole result of an identical pod is reused (`exact_results`).
//! After a change, the next identical pod evaluates only the nodes that changed, and reuses the dry runs of preemption.
//!
//! The second level serves pods that are rejected only by plugins that judge each node alone. If a node becomes
//! feasible, it gives no answer, and the normal decision follows.

use super::DecisionCache;
use super::exact_results::{ExactResults, State};
use crate::cache::{Facts, Snapshot};
use crate::collections::hash::Hashed;
use crate::cycle::{
    Diagnosis, Filtered, Framework, InfeasibleDecision, NoProbe, NodeRejection, Point, PostFilter, Probe,
    Unschedulable,
};
use crate::framework::dry_runs::DryRuns;
use crate::framework::histogram::Histogram;
use crate::framework::post_filter::Draws;
use crate::framework::{Code, CycleError, PluginName, Rejection};
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::model::signature::NodeSignature;
use crate::model::time::Time;
use crate::switches::ablation::{self, Layer};
use crate::switches::mutation::{self, Mutation};
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum memory of all entries, in bytes. Only the newest entry may exceed it.
const BYTES_MAX: usize = 32 << 20;
/// Maximum number of signatures.
const SIGNATURES_MAX: usize = 64;
/// Number of signatures that were rejected once and are not cached yet. A signature is cached at its second
/// rejection: one rejection is not worth the memory, nor is a sequence of more signatures than the cache holds.
const REJECTED_ONCE_MAX: usize = SIGNATURES_MAX;
/// Maximum number of rejection groups of one signature; beyond it there is no cached answer.
const GROUPS_MAX: usize = 1_024;
/// The group of a slot that has no rejection, or no node.
const NO_GROUP: u16 = u16::MAX;

/// The cached rejections of all signatures.
#[derive(Default)]
pub(super) struct InfeasibleCache {
    /// Least recently used first.
    pub(super) entries: Vec<InfeasibleEntry>,
    /// Hashes of signatures that were rejected once, oldest first.
    rejected_once: VecDeque<u64>,
    /// Whole results, which are valid only while nothing changes.
    pub(super) exact: ExactResults,
}

/// The rejections of one signature.
pub(super) struct InfeasibleEntry {
    pub(super) signature: Hashed<NodeSignature>,
    era: u64,
    /// When it was created, or last compared with a full evaluation by verification.
    pub(super) checked: Time,
    /// The clocks of both change logs at the last update.
    clocks: Option<(u64, u64)>,
    groups: Vec<RejectionGroup>,
    /// By slot: the index in `groups`, or [`NO_GROUP`].
    by_slot: Vec<u16>,
    /// The feasible nodes.
    passing: NodeSet,
    curable: NodeSet,
    runs: DryRuns,
}

/// Nodes with the same rejection.
struct RejectionGroup {
    plugin: PluginName,
    /// The rule's number for the rejection, if the rule numbers its rejections.
    number: Option<u64>,
    rejection: Rejection,
    nodes: usize,
}

impl InfeasibleCache {
    /// Removes everything.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.rejected_once.clear();
        self.exact.clear();
    }

    /// Whether no signature was rejected by single nodes.
    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.rejected_once.is_empty()
    }

    /// Records that a pod of this signature was rejected by all nodes.
    fn record(&mut self, signature: &Hashed<NodeSignature>) {
        let hash = signature.hash_of();
        if self.entries.iter().any(|entry| entry.signature == *signature)
            || self.rejected_once.contains(&hash)
        {
            return;
        }
        if self.rejected_once.len() == REJECTED_ONCE_MAX {
            self.rejected_once.pop_front();
        }
        self.rejected_once.push_back(hash);
    }

    /// Returns the entry of a signature, which is created at its second rejection; `None` before that.
    fn entry(
        &mut self,
        signature: Hashed<NodeSignature>,
        era: u64,
        now: Time,
    ) -> Option<&mut InfeasibleEntry> {
        if let Some(at) = self.entries.iter().position(|entry| entry.signature == signature) {
            let mut entry = self.entries.remove(at);
            if entry.era != era {
                entry = InfeasibleEntry::new(entry.signature, era, now);
            }
            self.entries.push(entry);
        } else {
            self.rejected_once.iter().position(|&hash| hash == signature.hash_of())?;
            self.make_room();
            self.entries.push(InfeasibleEntry::new(signature, era, now));
        }
        self.entries.last_mut()
    }

    fn make_room(&mut self) {
        let bytes = |entries: &[InfeasibleEntry]| entries.iter().map(InfeasibleEntry::bytes).sum::<usize>();
        while self.entries.len() >= SIGNATURES_MAX || bytes(&self.entries) > BYTES_MAX {
            self.entries.remove(0);
        }
    }
}

impl InfeasibleEntry {
    fn new(signature: Hashed<NodeSignature>, era: u64, now: Time) -> Self {
        Self {
            signature,
            era,
            checked: now,
            clocks: None,
            groups: Vec::new(),
            by_slot: Vec::new(),
            passing: NodeSet::new(),
            curable: NodeSet::new(),
            runs: DryRuns::default(),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.by_slot.capacity() * size_of::<u16>()
            + self.groups.capacity() * size_of::<RejectionGroup>()
            + self.runs.bytes()
    }

    /// Evaluates the nodes that changed since the last update. Returns `None` on an error or with too many rejection
    /// groups.
    fn catch_up(&mut self, filtered: &Filtered, pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<()> {
        let clocks = (snapshot.clock(), snapshot.preemption_clock());
        if self.clocks == Some(clocks)
            || mutation::is_on(Mutation::SignatureStatesNotUpdated) && self.clocks.is_some()
        {
            return Some(());
        }
        // `clocks` stays `None` after an early return: the next update starts from an empty entry.
        let touched = self.clocks.take().and_then(|clock| changed_nodes_since(snapshot, clock));
        let touched = touched.unwrap_or_else(|| {
            *self = Self::new(self.signature.clone(), self.era, self.checked);
            snapshot.nodes().clone()
        });
        for node in touched.iter() {
            self.remove_node(node);
            if snapshot.nodes().contains(node) {
                self.evaluate(filtered, pod, snapshot, node).ok()?;
            }
        }
        self.clocks = Some(clocks);
        Some(())
    }

    fn remove_node(&mut self, node: NodeIdx) {
        self.runs.forget(node);
        self.passing.remove(node);
        self.curable.remove(node);
        if let Some(group) = self.by_slot.get_mut(node.index()) {
            let group = std::mem::replace(group, NO_GROUP);
            if let Some(group) = self.groups.get_mut(usize::from(group)) {
                group.nodes -= 1;
            }
        }
    }

    fn evaluate(
        &mut self,
        filtered: &Filtered,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
    ) -> Result<(), CycleError> {
        let has_number =
            |group: &RejectionGroup, plugin, number| group.plugin == plugin && group.number == Some(number);
        let at = match filtered.node_rejection(pod, snapshot, node)? {
            NodeRejection::None => {
                self.passing.insert(node);
                return Ok(());
            }
            NodeRejection::Numbered(plugin, number) => {
                let known = self.groups.iter().position(|group| has_number(group, plugin, number));
                match known {
                    Some(at) => at,
                    None => {
                        let verdict =
                            filtered.first_rejector(&snapshot.showing(Facts::NodeUsage).node(node))?;
                        let Some((plugin, rejection)) = verdict else {
                            return Err(CycleError(format!("{plugin}: verdict number without a rejection")));
                        };
                        self.new_group(RejectionGroup { plugin, number: Some(number), rejection, nodes: 0 })?
                    }
                }
            }
            NodeRejection::Plain(plugin, rejection) => {
                let is_equal =
                    |group: &RejectionGroup| group.plugin == plugin && group.rejection == rejection;
                let known = self.groups.iter().position(is_equal);
                known.map_or_else(
                    || {
                        self.new_group(RejectionGroup {
                            plugin,
                            number: None,
                            rejection: rejection.clone(),
                            nodes: 0,
                        })
                    },
                    Ok,
                )?
            }
        };
        let group = &mut self.groups[at];
        group.nodes += 1;
        if group.rejection.code == Code::Unschedulable {
            self.curable.insert(node);
        }
        if self.by_slot.len() <= node.index() {
            self.by_slot.resize(node.index() + 1, NO_GROUP);
        }
        self.by_slot[node.index()] = u16::try_from(at).expect("at most GROUPS_MAX groups");
        Ok(())
    }

    fn new_group(&mut self, group: RejectionGroup) -> Result<usize, CycleError> {
        if self.groups.len() == GROUPS_MAX {
            return Err(CycleError("too many rejection groups".to_owned()));
        }
        self.groups.push(group);
        Ok(self.groups.len() - 1)
    }

    /// Returns the same diagnosis as [`Filtered::diagnose`].
    fn diagnosis(&self, snapshot: Snapshot<'_>) -> Diagnosis {
        let mut reasons = Histogram::default();
        let groups = || self.groups.iter().filter(|group| group.nodes > 0);
        for group in groups() {
            for reason in &group.rejection.reasons {
                reasons.add_times(reason.clone(), group.nodes);
            }
        }
        Diagnosis {
            rejectors: groups().map(|group| group.plugin).collect(),
            message: reasons.message(snapshot.node_count()),
            curable: self.curable.clone(),
        }
    }
}

/// Returns the nodes in both change logs since the last update; `None` if a log does not reach back far enough.
///
/// The second log has nominations and start times of pods.
fn changed_nodes_since(snapshot: Snapshot<'_>, (clock, other_clock): (u64, u64)) -> Option<NodeSet> {
    let mut touched: NodeSet = snapshot.node_changes_since(clock)?.map(|(node, _)| node).collect();
    for node in snapshot.preemption_changes_since(other_clock)? {
        touched.insert(node);
    }
    Some(touched)
}

impl DecisionCache {
    /// Returns the result for an unschedulable pod with the same signature, if nothing has changed since.
    pub(crate) fn recall(&mut self, state: State, pod: &Arc<PodInfo>) -> Option<Unschedulable> {
        self.infeasible.exact.lookup(state, pod, &self.hashing)
    }

    /// Stores the result for an unschedulable pod.
    pub(crate) fn store(&mut self, state: State, pod: &Arc<PodInfo>, found: &Unschedulable) {
        self.infeasible.exact.store(state, pod, found, &self.hashing);
    }

    /// Returns how many results were reused because nothing had changed.
    pub(crate) fn recalled(&self) -> u64 {
        self.infeasible.exact.hits()
    }
}

impl Framework {
    /// Whether rejections of this pod can be cached.
    fn caches_rejections(&self, pod: &PodInfo) -> bool {
        // Sampling visits other nodes in each attempt.
        self.sampling.is_none()
            && pod.nominated_node.is_none()
            && pod.volumes.is_empty()
            && pod.claims.is_empty()
    }

    /// Records that all nodes rejected a pod, so that the rejection of the next identical pod is cached.
    pub fn note_infeasible(&self, decisions: &mut DecisionCache, pod: &Arc<PodInfo>, filtered: &Filtered) {
        let is_off = ablation::is_off(Layer::InfeasibleCache);
        if !is_off && self.caches_rejections(pod) && self.judges_nodes_alone(filtered) {
            let signature = Hashed::of(NodeSignature::of(pod), &decisions.hashing);
            decisions.infeasible.record(&signature);
        }
    }

    /// Rejects `pod` from the cache and runs PostFilter; calls `then` with the failure and the result.
    ///
    /// Returns `None` if the cache has no answer; the caller then uses [`Self::decide`].
    ///
    /// If several candidates are equally good, the nomination is the one that
    /// [`Nomination::choose`](crate::cycle::Nomination::choose) draws.
    pub fn reject_cached<R>(
        &self,
        decisions: &mut DecisionCache,
        pod: &Arc<PodInfo>,
        snapshot: Snapshot<'_>,
        (draws, now): (Draws, Time),
        probe: &mut dyn Probe,
        then: impl FnOnce(InfeasibleDecision<'_>, &PostFilter<'_>) -> R,
    ) -> Option<R> {
        if !self.caches_rejections(pod) || decisions.infeasible.is_empty() {
            return None;
        }
        let signature = Hashed::of(NodeSignature::of(pod), &decisions.hashing);
        let entry = decisions.infeasible.entry(signature, snapshot.era(), now)?;
        self.reject_from(entry, pod, snapshot, (draws, now), probe, then)
    }

    /// Rejects `pod` from one entry; see [`Self::reject_cached`].
    pub(super) fn reject_from<R>(
        &self,
        entry: &mut InfeasibleEntry,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        (draws, now): (Draws, Time),
        probe: &mut dyn Probe,
        then: impl FnOnce(InfeasibleDecision<'_>, &PostFilter<'_>) -> R,
    ) -> Option<R> {
        let mut filtered = self.prepare(pod, snapshot, &mut NoProbe).ok()?;
        if !self.judges_nodes_alone(&filtered) {
            return None;
        }
        entry.catch_up(&filtered, pod, snapshot)?;
        if !entry.passing.is_empty() {
            return None;
        }
        probe.enter(Point::PreFilter);
        probe.leave(Point::PreFilter, "Success");
        probe.enter(Point::Filter);
        let diagnosis = entry.diagnosis(snapshot);
        filtered.set_rejected(snapshot.nodes().clone());
        probe.leave(Point::Filter, "Unschedulable");
        let failed = InfeasibleDecision { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
        let outcome = self.post_filter_again(failed, (draws, now), &mut entry.runs, probe);
        Some(then(failed, &outcome))
    }

    /// Whether all filters that apply to this pod judge each node alone, and all nodes were filtered.
    fn judges_nodes_alone(&self, filtered: &Filtered) -> bool {
        let reads_pod_and_node = |name: PluginName| {
            let enabled = self.filters.iter().find(|enabled| enabled.plugin.name() == name);
            enabled.is_some_and(|enabled| enabled.plugin.as_node_plugin().is_some())
        };
        filtered.has_all_candidates() && filtered.filter_plugins().all(reads_pod_and_node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Cache, NodeView, PodState};
    use crate::cycle::{Decision, EnabledFilter, Options, Rank};
    use crate::framework::dry_runs::Harm;
    use crate::framework::{
        ClusterEvent, DependsOn, EventSet, FilterRule, Hint, NodeFilterPlugin, Prepared, Verdict,
    };
    use crate::model::intern::Tables;
    use crate::model::node_pod::NodePod;
    use crate::model::rng::Seed;
    use crate::scheduler::{test_node, test_pod};
    use std::cell::Cell;

    thread_local! {
        /// How many nodes were judged on this thread.
        static JUDGED: Cell<usize> = const { Cell::new(0) };
    }

    /// Rejects and counts every node.
    #[derive(Clone, Copy)]
    struct Never;

    impl NodeFilterPlugin for Never {
        fn name(&self) -> PluginName {
            "Never"
        }

        fn prepare(&self, _pod: NodePod<'_>, _snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
            Prepared::Run { rule: Box::new(*self), only: None }
        }

        fn events(&self) -> EventSet {
            EventSet::DEVICE_CLASS
        }

        fn hint(&self, _event: &ClusterEvent<'_>, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Hint {
            Hint::Skip
        }
    }

    impl FilterRule for Never {
        fn depends_on(&self) -> DependsOn {
            DependsOn::NodeUsage
        }

        fn check(&self, _node: &NodeView<'_>) -> Verdict {
            JUDGED.set(JUDGED.get() + 1);
            Verdict::Rejected(Rejection::unresolvable("never"))
        }
    }

    fn never() -> Framework {
        let mut framework = Framework::default();
        framework.filters.push(EnabledFilter {
            plugin: Box::new(Never),
            pre_filter: true,
            filter: Some(Rank { rank: 0, fails: None }),
            reserve: None,
        });
        framework
    }

    /// The cached rejections of a pod that never fits.
    struct Unwanted {
        tables: Tables,
        cache: Cache,
        framework: Framework,
        decisions: DecisionCache,
        pod: Arc<PodInfo>,
    }

    impl Unwanted {
        /// The pod was rejected once.
        fn new() -> Self {
            let (mut tables, cache, framework) = (Tables::new(), Cache::default(), never());
            let pod = Arc::from(test_pod(&mut tables, "p", 1, None));
            let mut world = Self { tables, cache, framework, decisions: DecisionCache::default(), pod };
            ["a", "b", "c"].iter().for_each(|name| world.add_node(name));
            let (framework, snapshot) = (&world.framework, world.cache.snapshot(&world.tables));
            let full = framework.decide(&world.pod, snapshot, Options::default(), &mut NoProbe);
            let Ok(Decision::Infeasible(filtered)) = full else { panic!("every node is rejected") };
            framework.note_infeasible(&mut world.decisions, &world.pod, &filtered);
            world
        }

        fn add_node(&mut self, name: &str) {
            self.cache.apply_node(&Arc::from(test_node(&mut self.tables, name)));
        }

        /// Returns how many nodes are judged for the next such pod.
        fn judged(&mut self) -> usize {
            let before = JUDGED.get();
            let (when, snapshot) =
                ((Draws { seed: Seed(1), attempt: 1 }, Time::default()), self.cache.snapshot(&self.tables));
            let Self { framework, decisions, pod, .. } = self;
            let found = framework.reject_cached(decisions, pod, snapshot, when, &mut NoProbe, |_, _| ());
            assert!(found.is_some());
            JUDGED.get() - before
        }
    }

    #[test]
    fn next_identical_pod_judges_only_nodes_that_changed() {
        let mut world = Unwanted::new();
        assert_eq!(world.judged(), 3, "the second rejection is cached");
        assert_eq!(world.judged(), 0, "nothing changed");
        let other = Arc::from(test_pod(&mut world.tables, "q", 1, Some("b")));
        let [a, b] = ["a", "b"].map(|name| world.tables.symbol(name));
        world.cache.place(&other, b, PodState::Added);
        assert_eq!(world.judged(), 1, "a pod was placed on one node");
        let other = Arc::from(test_pod(&mut world.tables, "r", 1, None));
        world.cache.nominate(&other, Some(a));
        assert_eq!(world.judged(), 1, "a pod was nominated to another");
        assert_eq!(world.judged(), 0);
        world.add_node("d");
        assert_eq!(world.judged(), 4, "an additional node starts a new era");
        assert_eq!(world.judged(), 0);
    }

    fn signatures(count: usize) -> Vec<Hashed<NodeSignature>> {
        let mut tables = Tables::new();
        let mut signature = |cpu| {
            let pod = Arc::from(test_pod(&mut tables, "p", cpu as i64, None));
            Hashed::of(NodeSignature::of(&pod), tables.hashing())
        };
        (0..count).map(&mut signature).collect()
    }

    /// Caches a signature after its second rejection, and returns whether it was known.
    fn is_known(cache: &mut InfeasibleCache, signature: &Hashed<NodeSignature>) -> bool {
        cache.entry(signature.clone(), 0, Time::default()).is_some()
    }

    #[test]
    fn as_many_signatures_as_the_cache_holds_are_known_at_their_second_rejection() {
        let (signatures, mut cache) = (signatures(SIGNATURES_MAX + 1), InfeasibleCache::default());
        let (last, others) = signatures.split_last().expect("there are some");
        others.iter().for_each(|signature| cache.record(signature));
        // One that is rejected again takes no second place.
        (0..SIGNATURES_MAX).for_each(|_| cache.record(&others[7]));
        others.iter().for_each(|signature| assert!(is_known(&mut cache, signature)));
        let mut cache = InfeasibleCache::default();
        signatures.iter().for_each(|signature| cache.record(signature));
        assert!(!is_known(&mut cache, &signatures[0]), "it was rejected too long ago");
        assert!(is_known(&mut cache, &signatures[1]) && is_known(&mut cache, last));
    }

    #[test]
    fn least_recently_used_signature_goes_when_there_are_too_many() {
        let (signatures, mut cache) = (signatures(SIGNATURES_MAX + 2), InfeasibleCache::default());
        for signature in &signatures {
            cache.record(signature);
            assert!(is_known(&mut cache, signature) && is_known(&mut cache, &signatures[0]));
            assert!(cache.entries.len() <= SIGNATURES_MAX, "{}", cache.entries.len());
        }
        let is_cached = |at: usize| cache.entries.iter().any(|entry| entry.signature == signatures[at]);
        assert_eq!([0, 1, 2, 3, SIGNATURES_MAX + 1].map(is_cached), [true, false, false, true, true]);
    }

    #[test]
    fn entries_beyond_the_memory_limit_make_room_for_the_next() {
        let signatures = signatures(3);
        let cached_of = |excess: usize| {
            let mut cache = InfeasibleCache::default();
            signatures.iter().for_each(|signature| cache.record(signature));
            let each = BYTES_MAX / 2 - size_of::<InfeasibleEntry>();
            for (signature, bytes) in signatures.iter().zip([each, each + excess]) {
                let entry = cache.entry(signature.clone(), 0, Time::default()).expect("it was rejected");
                entry.by_slot = Vec::with_capacity(bytes / size_of::<u16>());
            }
            assert!(is_known(&mut cache, &signatures[2]));
            cache.entries.iter().map(|entry| entry.signature == signatures[0]).collect::<Vec<_>>()
        };
        assert_eq!(cached_of(0), [true, false, false], "they are as large as allowed");
        assert_eq!(cached_of(size_of::<u16>()), [false, false], "the oldest went");
        assert_eq!(cached_of(BYTES_MAX), [false], "both went");
    }

    /// The limit of the memory depends on this estimate.
    #[test]
    fn bytes_of_an_entry_grow_with_each_of_its_lists() {
        let mut tables = Tables::new();
        let pod = Arc::from(test_pod(&mut tables, "p", 1, None));
        let signature = Hashed::of(NodeSignature::of(&pod), tables.hashing());
        let mut entry = InfeasibleEntry::new(signature, 0, Time::from_secs(1));
        assert_eq!(entry.bytes(), size_of::<InfeasibleEntry>());
        let mut check_growth = |expected: usize, change: &dyn Fn(&mut InfeasibleEntry)| {
            let before = entry.bytes();
            change(&mut entry);
            assert_eq!(entry.bytes().checked_sub(before), Some(expected));
        };
        let harm =
            Harm { violations: 0, highest_priority: 0, victims: 1, priorities: 1, earliest_start: None };
        let mut runs = DryRuns::default();
        runs.set_candidate(NodeIdx(99), harm);
        check_growth(runs.bytes(), &|entry| entry.runs.set_candidate(NodeIdx(99), harm));
        check_growth(2_000, &|entry| entry.by_slot = vec![NO_GROUP; 1_000]);
        let of_group = size_of::<RejectionGroup>();
        check_growth(100 * of_group, &|entry| entry.groups = Vec::with_capacity(100));
    }
}
