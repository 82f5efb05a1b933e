//! Evaluation in slices: the partial results of one pod's evaluation, and the remaining work of the current
//! slice.
//!
//! A pod may carry thousands of terms, and each is compared with each pod class or node. Such an evaluation
//! runs several times from the start. Each run keeps its results for single nodes and pod classes, and ends by
//! unwinding when the slice's work is used up. The next run looks these results up and gets further.
//!
//! A result depends on the pod, on one node object or pod class, and on lookups: affinity on namespaces, default
//! spreading on Services and controllers. It is dropped when one of these changes. Results that depend on the
//! whole cluster are computed in each run.

pub mod step_limit;

use crate::cache::node_sums::{NodeColumns, NodeSums};
use crate::cache::{CLASS_LOOKUP_STEPS, NodeChange, PodClass, PodClassId, Snapshot};
use crate::collections::hash::{IdMap, IdSet};
use crate::model::intern::{LabelSetId, Symbol};
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::switches::mutation::{self, Mutation};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use step_limit::{SEARCH_STEP_WORK, Searches, change_searches};

/// The payload of the unwinding that ends a slice.
pub(crate) struct SliceEnded;

/// The purpose of a result about a pod class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodClassRole {
    /// InterPodAffinity's filter.
    RequiredTerms,
    /// InterPodAffinity's score.
    PreferredTerms,
    /// PodTopologySpread's filter.
    HardConstraints,
    /// PodTopologySpread's score.
    SoftConstraints,
}

/// The purpose of a result about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeRole {
    /// Whether the node fulfils the pod's required node affinity.
    RequiredAffinity,
    /// The weights of the preferred node affinity terms that the node matches.
    PreferredAffinity,
    /// Whether the pod tolerates the node's taints.
    Tolerated,
    /// The number of PreferNoSchedule taints that the pod does not tolerate.
    Disliked,
}

/// The pod classes that concern a role. A pass over those with affinity costs nothing for the others.
#[derive(Clone, Copy)]
pub(crate) enum Concerned<'a> {
    All,
    These(&'a dyn Fn(&PodClass) -> bool),
    /// The classes for which this holds, among those with pod affinity or anti-affinity.
    WithAffinity(&'a dyn Fn(&PodClass) -> bool),
}

impl Concerned<'_> {
    fn is(&self, class: &PodClass) -> bool {
        match self {
            Self::All => true,
            Self::These(is) | Self::WithAffinity(is) => is(class),
        }
    }
}

const POD_CLASS_ROLES: usize = 4;
const NODE_ROLES: usize = 4;

/// The contributions of a pod class: an index whose meaning depends on the role, a topology key, and an amount.
/// Classes with equal contributions share them.
pub(crate) type Contribution = Arc<[(u32, Symbol, i64)]>;

/// After changes dropped this many results per pod class or sums per node, one slice computes the rest, so that the
/// evaluation ends.
const DROPPED_MAX: u64 = 3;

#[derive(Debug, Default)]
struct PodClassResults {
    /// The classes below this id are evaluated.
    next: PodClassId,
    /// Classes below `next` that must be evaluated again.
    again: BTreeSet<PodClassId>,
    /// The classes with a contribution, and its index.
    found: BTreeMap<PodClassId, usize>,
    contributions: Vec<Contribution>,
    indexes: IdMap<Contribution, usize>,
    /// The number of evaluated classes.
    evaluated: u64,
    sums: NodeSums,
}

impl PodClassResults {
    /// Drops all results. Returns their number.
    fn restart(&mut self) -> u64 {
        std::mem::take(self).evaluated
    }

    fn put(&mut self, id: PodClassId, list: &[(u32, Symbol, i64)]) {
        let next = self.contributions.len();
        let index = *self.indexes.entry(list.into()).or_insert(next);
        if index == next {
            self.contributions.push(list.into());
        }
        self.found.insert(id, index);
    }

    /// Drops the result of a class. Returns whether there was one.
    fn forget(&mut self, id: PodClassId) -> bool {
        let is_evaluated = id < self.next && self.again.insert(id);
        if is_evaluated {
            self.found.remove(&id);
        }
        is_evaluated
    }
}

/// The label keys of nodes. Contributions omit topology keys that no node has: a pod may name thousands.
#[derive(Debug, Default)]
struct NodeKeys {
    known: IdSet<Symbol>,
    left_out: IdSet<Symbol>,
}

impl NodeKeys {
    /// Whether a node has the key; notes the key if not.
    fn has(&mut self, key: Symbol) -> bool {
        let is_known = self.known.contains(&key);
        if !is_known {
            self.left_out.insert(key);
        }
        is_known
    }

    /// Adds the keys of nodes. Returns `false` if contributions omit one of them.
    fn add(&mut self, snapshot: Snapshot<'_>, nodes: impl Iterator<Item = NodeIdx>) -> bool {
        for node in nodes {
            self.known.extend(snapshot.node_labels(node).iter().map(|(key, _)| key));
        }
        self.left_out.is_disjoint(&self.known)
    }
}

/// The state for which results are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StateVersion {
    /// The snapshot's clock.
    clock: u64,
    namespace_changes: u64,
    /// Changes of namespaces, Services and controllers.
    lookup_changes: u64,
    /// The number of garbage collections of ids.
    rounds: u64,
}

/// The results of an evaluation so far.
///
/// It is not a gc root: the pod, or a pod of the class, holds the topology keys. Ids of pod classes are never
/// reused.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    pod_classes: [PodClassResults; POD_CLASS_ROLES],
    nodes: IdMap<NodeIdx, [Option<i64>; NODE_ROLES]>,
    keys: NodeKeys,
    /// Terms that plugins prepared from the pod and the namespaces.
    prepared: [Option<Arc<dyn Any + Send + Sync>>; POD_CLASS_ROLES],
    /// The progress of searches for devices, of a type that their plugin knows. The plugin drops what is outdated.
    searches: Option<Searches>,
    /// The namespaces for which results are valid.
    namespaces: BTreeMap<Symbol, LabelSetId>,
    seen: Option<StateVersion>,
    /// The number of results of pod classes that changes dropped.
    dropped: u64,
    /// The number of sums of nodes that changes dropped.
    dropped_sums: u64,
    /// The number of results ever computed.
    results: u64,
    /// The number of evaluations that ended.
    evaluations: u64,
}

impl Partial {
    /// Drops results that changes since the last run invalidate.
    pub(crate) fn bring_up_to_date(&mut self, pod: &PodInfo, snapshot: Snapshot<'_>) {
        let lookups = snapshot.lookups();
        let now = StateVersion {
            clock: snapshot.clock(),
            namespace_changes: lookups.namespace_changes(),
            lookup_changes: lookups.changes(),
            rounds: snapshot.tables().rounds(),
        };
        let Some(before) = self.seen.replace(now) else {
            self.namespaces = lookups.namespaces().collect();
            self.keys.add(snapshot, snapshot.nodes().iter());
            return;
        };
        // Default constraints are derived from Services and controllers.
        if before.lookup_changes != now.lookup_changes && pod.spread.is_empty() {
            for role in [PodClassRole::HardConstraints, PodClassRole::SoftConstraints] {
                self.dropped += self.pod_classes[role as usize].restart();
            }
        }
        if before.namespace_changes != now.namespace_changes {
            self.follow_namespaces(pod, snapshot, before.rounds == now.rounds);
        }
        if !mutation::is_on(Mutation::SliceResultsNotDropped) {
            self.follow_nodes(snapshot, before.clock);
        }
    }

    /// Drops results that depend on changed namespaces. Equal ids mean equal labels only if `ids_hold`.
    fn follow_namespaces(&mut self, pod: &PodInfo, snapshot: Snapshot<'_>, ids_hold: bool) {
        let now: BTreeMap<_, _> = snapshot.lookups().namespaces().collect();
        let before = std::mem::replace(&mut self.namespaces, now);
        let now = &self.namespaces;
        let names: BTreeSet<Symbol> = before.keys().chain(now.keys()).copied().collect();
        let changed: Vec<Symbol> =
            names.into_iter().filter(|name| before.get(name) != now.get(name)).collect();
        self.prepared = Default::default();
        for role in [PodClassRole::RequiredTerms, PodClassRole::PreferredTerms] {
            let results = &mut self.pod_classes[role as usize];
            // The terms of other pods may select the pod's own namespace.
            if !ids_hold || changed.contains(&pod.namespace) {
                self.dropped += results.restart();
                continue;
            }
            for &name in &changed {
                let ids = snapshot.pod_class_ids_in(name);
                let forgotten = ids.map(|id| u64::from(results.forget(id))).sum::<u64>();
                self.dropped += forgotten;
                if forgotten > 0 {
                    self.dropped_sums += results.sums.clear();
                }
            }
        }
    }

    /// Drops results that depend on changed node objects.
    fn follow_nodes(&mut self, snapshot: Snapshot<'_>, since: u64) {
        let are_all_known = match snapshot.node_changes_since(since) {
            None => {
                self.nodes.clear();
                self.keys.add(snapshot, snapshot.nodes().iter())
            }
            Some(touched) => {
                let objects =
                    touched.filter(|(_, change)| *change == NodeChange::Object).map(|(node, _)| node);
                let objects: NodeSet = objects.collect();
                objects.iter().for_each(|node| _ = self.nodes.remove(&node));
                self.keys.add(snapshot, objects.iter().filter(|&node| snapshot.nodes().contains(node)))
            }
        };
        if !are_all_known {
            self.keys.left_out.clear();
            for role in [PodClassRole::RequiredTerms, PodClassRole::PreferredTerms] {
                self.dropped += self.pod_classes[role as usize].restart();
            }
        }
    }

    /// Resets the numbers of dropped results at the end of an evaluation. The results stay for identical pods.
    pub(crate) fn end(&mut self) {
        (self.dropped, self.dropped_sums) = (0, 0);
        self.evaluations += 1;
    }

    /// Returns the number of results ever computed. It grows as long as slices make progress.
    pub(crate) fn results(&self) -> u64 {
        self.results
    }
}

/// One slice of an evaluation.
pub(crate) struct Slice {
    /// All work, in units of one comparison or lookup.
    work: u64,
    /// Remaining work.
    left: Cell<u64>,
    partial: RefCell<Partial>,
}

impl Slice {
    /// Creates a slice of `work` units that continues from these results.
    pub(crate) fn new(work: u64, partial: Partial) -> Self {
        Self { work, left: Cell::new(work), partial: RefCell::new(partial) }
    }

    /// Returns the results.
    pub(crate) fn into_partial(self) -> Partial {
        self.partial.into_inner()
    }

    /// Runs an evaluation in this slice. Returns `None` if the slice ends before the evaluation does.
    pub(crate) fn unless_ended<T>(&self, evaluate: impl FnOnce() -> T) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(evaluate)) {
            Ok(evaluated) => Some(evaluated),
            Err(payload) if payload.is::<SliceEnded>() => None,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Returns the number of steps that all searches for devices may make in this slice.
    pub(crate) fn all_search_steps(&self) -> u64 {
        self.work / SEARCH_STEP_WORK
    }

    /// Returns the number of steps that a search for devices may still make in this slice.
    pub(crate) fn search_steps(&self) -> u64 {
        (self.left.get() / SEARCH_STEP_WORK).max(1)
    }

    /// Counts steps of a search for devices.
    pub(crate) fn spend_on_search(&self, steps: u64) {
        self.spend(steps.saturating_mul(SEARCH_STEP_WORK));
        self.partial.borrow_mut().results += steps;
    }

    /// Calls `change` with the progress of searches for devices, and the number of the evaluation among those that
    /// share it.
    pub(crate) fn with_searches<T: Any + Default + Send + Sync, R>(
        &self,
        change: impl FnOnce(&mut T, u64) -> R,
    ) -> R {
        let Partial { searches, evaluations, .. } = &mut *self.partial.borrow_mut();
        change_searches(searches, |searches| change(searches, *evaluations))
    }

    /// Ends the slice if its work is used up. Where unwinding is not possible, a slice never ends.
    pub(crate) fn go_on(&self) {
        if self.left.get() == 0 && cfg!(panic = "unwind") {
            resume_unwind(Box::new(SliceEnded));
        }
    }

    fn spend(&self, work: u64) {
        self.left.set(self.left.get().saturating_sub(work.max(1)));
    }

    /// Returns the result for a node, computing it at the given cost if it is unknown.
    pub(crate) fn of_node(
        &self,
        role: NodeRole,
        node: NodeIdx,
        work: impl FnOnce() -> u64,
        compute: impl FnOnce() -> i64,
    ) -> i64 {
        let known = self.partial.borrow().nodes.get(&node).and_then(|results| results[role as usize]);
        if let Some(known) = known {
            return known;
        }
        self.go_on();
        let result = compute();
        self.spend(work());
        let mut partial = self.partial.borrow_mut();
        partial.results += 1;
        partial.nodes.entry(node).or_default()[role as usize] = Some(result);
        result
    }

    /// Computes the contributions of the pod classes that are not evaluated yet and that concern the role.
    /// `compute` appends to the list and returns its cost.
    pub(crate) fn evaluate_pod_classes(
        &self,
        role: PodClassRole,
        snapshot: Snapshot<'_>,
        concerned: Concerned<'_>,
        compute: impl Fn(&PodClass, &mut Vec<(u32, Symbol, i64)>) -> u64,
    ) {
        let (from, again, may_end) = {
            let Partial { pod_classes, dropped, .. } = &*self.partial.borrow();
            let results = &pod_classes[role as usize];
            let may_end = *dropped <= DROPPED_MAX * snapshot.pod_class_count() as u64;
            (results.next, results.again.clone(), may_end)
        };
        // Constraints count nodes without their key, too.
        let needs_key = matches!(role, PodClassRole::RequiredTerms | PodClassRole::PreferredTerms);
        let mut list = Vec::new();
        let mut look_at = |id: PodClassId, class: &PodClass| {
            list.clear();
            if concerned.is(class) {
                if may_end {
                    self.go_on();
                }
                let work = compute(class, &mut list);
                // If this slice must finish the evaluation, its work is left to the parts that follow.
                if may_end {
                    self.spend(work);
                }
            }
            let mut partial = self.partial.borrow_mut();
            partial.results += 1;
            let Partial { pod_classes, keys, .. } = &mut *partial;
            list.retain(|&(_, key, _)| !needs_key || keys.has(key));
            let results = &mut pod_classes[role as usize];
            results.evaluated += 1;
            if !list.is_empty() {
                list.sort_unstable();
                results.put(id, &list);
            }
            if !results.again.remove(&id) {
                results.next = id.next();
            }
        };
        for id in again {
            snapshot.pod_class(id).into_iter().for_each(|class| look_at(id, class));
        }
        if matches!(concerned, Concerned::WithAffinity(_)) {
            snapshot.pod_classes_with_affinity_since(from).for_each(|(id, class)| look_at(id, class));
        } else {
            let pod_classes = snapshot.pod_classes_since(from);
            pod_classes.filter(|(_, class)| concerned.is(class)).for_each(|(id, class)| look_at(id, class));
        }
        let results = &mut self.partial.borrow_mut().pod_classes[role as usize];
        results.again.clear();
        results.next = snapshot.next_pod_class();
    }

    /// Returns the distinct contributions, at the indexes that [`Self::each_pod_class`] reports.
    pub(crate) fn contributions(&self, role: PodClassRole) -> Vec<Contribution> {
        self.partial.borrow().pod_classes[role as usize].contributions.clone()
    }

    /// Sums the contributions by node, and returns what `read` makes of the sums. Returns `None` if there are too many
    /// columns. Requires a preceding [`Self::evaluate_pod_classes`].
    pub(crate) fn by_node<T>(
        &self,
        role: PodClassRole,
        snapshot: Snapshot<'_>,
        read: impl FnOnce(&NodeColumns) -> T,
    ) -> Option<T> {
        let Partial { pod_classes, results, dropped, dropped_sums, .. } = &mut *self.partial.borrow_mut();
        let PodClassResults { found, contributions, sums, .. } = &mut pod_classes[role as usize];
        if contributions.is_empty() {
            return Some(read(&NodeColumns::new()));
        }
        if !sums.make_room(contributions, snapshot.slots()) {
            return None;
        }
        *dropped_sums += sums.follow(snapshot, found);
        let may_end = *dropped <= DROPPED_MAX * snapshot.pod_class_count() as u64
            && *dropped_sums <= DROPPED_MAX * snapshot.slots() as u64;
        for node in (0..snapshot.slots() as u32).map(NodeIdx) {
            if sums.has(node) {
                continue;
            }
            if may_end {
                self.go_on();
            }
            let work = sums.sum(snapshot, node, found);
            if may_end {
                self.spend(work);
            }
            *results += 1;
        }
        Some(read(&sums.columns))
    }

    /// Calls `each` with every pod class that contributes, and the index of its contributions. Requires a
    /// preceding [`Self::evaluate_pod_classes`].
    pub(crate) fn each_pod_class<'a>(
        &self,
        role: PodClassRole,
        snapshot: Snapshot<'a>,
        mut each: impl FnMut(&'a PodClass, usize),
    ) {
        let found = &mut self.partial.borrow_mut().pod_classes[role as usize].found;
        let Some((&first, _)) = found.first_key_value() else { return };
        if found.len() < snapshot.pod_class_count() / CLASS_LOOKUP_STEPS {
            found.retain(|&id, index| {
                let class = snapshot.pod_class(id);
                class.into_iter().for_each(|class| each(class, *index));
                class.is_some()
            });
            return;
        }
        let mut pod_classes = snapshot.pod_classes_since(first).peekable();
        found.retain(|&id, index| {
            while pod_classes.next_if(|(other, _)| *other < id).is_some() {}
            let class = pod_classes.next_if(|(other, _)| *other == id);
            class.into_iter().for_each(|(_, class)| each(class, *index));
            class.is_some()
        });
    }

    /// Returns the contributions of the class of a pod on a node, or `None` if they are unknown.
    pub(crate) fn of_pod_class(&self, role: PodClassRole, id: PodClassId) -> Option<Contribution> {
        let partial = self.partial.borrow();
        let results = &partial.pod_classes[role as usize];
        let is_known = id < results.next && !results.again.contains(&id);
        is_known.then(|| {
            let index = results.found.get(&id);
            index.map_or_else(|| [].into(), |&index| Arc::clone(&results.contributions[index]))
        })
    }

    /// Returns what a plugin prepares for the role, computed once for all slices.
    pub(crate) fn prepared<T: Send + Sync + 'static>(
        &self,
        role: PodClassRole,
        prepare: impl FnOnce() -> T,
    ) -> Arc<T> {
        let known = self.partial.borrow().prepared[role as usize].clone();
        if let Some(Ok(known)) = known.map(Arc::downcast) {
            return known;
        }
        let prepared = Arc::new(prepare());
        self.partial.borrow_mut().prepared[role as usize] = Some(Arc::<T>::clone(&prepared));
        prepared
    }
}

/// The state of one pod's evaluation in slices.
#[derive(Debug, Default)]
pub struct Evaluation {
    partial: Partial,
}

impl Evaluation {
    /// Evaluates a slice of `work` units (one comparison or lookup each) for the pod against the current state of
    /// the cluster. Returns `None` if the evaluation needs another slice.
    pub fn go_on<T>(
        &mut self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        work: u64,
        evaluate: impl FnOnce(Snapshot<'_>) -> T,
    ) -> Option<T> {
        self.partial.bring_up_to_date(pod, snapshot);
        let slice = Slice::new(work, std::mem::take(&mut self.partial));
        let evaluated = slice.unless_ended(|| evaluate(snapshot.in_slice(&slice)));
        self.partial = slice.into_partial();
        evaluated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evaluates this many nodes at 10 units each. Returns the number of computed results.
    fn computed(partial: &mut Partial, nodes: u32, work: u64) -> (Option<i64>, u32) {
        let slice = Slice::new(work, std::mem::take(partial));
        let count = Cell::new(0);
        let compute = |node| {
            count.set(count.get() + 1);
            i64::from(node)
        };
        let of = |node| slice.of_node(NodeRole::Tolerated, NodeIdx(node), || 10, || compute(node));
        let sum = slice.unless_ended(|| (0..nodes).map(of).sum());
        *partial = slice.into_partial();
        (sum, count.get())
    }

    #[test]
    fn slice_computes_as_much_as_its_work_allows_and_the_next_goes_on() {
        let mut partial = Partial::default();
        assert_eq!(computed(&mut partial, 10, 40), (None, 4));
        assert_eq!(computed(&mut partial, 10, 45), (None, 5), "the last one may exceed the work by its own");
        assert_eq!(computed(&mut partial, 10, 1), (Some(45), 1));
        assert_eq!(computed(&mut partial, 10, 0), (Some(45), 0), "all results are known");
    }
}
