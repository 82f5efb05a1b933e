//! Evaluation in slices: the partial results of one pod's evaluation, and the remaining work of the current
//! slice.
//!
//! A pod may carry thousands of terms, and each is compared with each pod class or node. Such an evaluation
//! runs several times from the start. Each run keeps its results for single nodes and pod classes, and ends by
//! unwinding when the slice's work is used up. The next run looks these results up and gets further.
//!
//! A result depends on the pod, on one node object or pod class, and on the lookups (namespaces, Services,
//! controllers). It is dropped when one of these changes. Results that depend on the whole cluster are computed
//! in each run.

use crate::cache::{Kind, KindId, Snapshot, Touch};
use crate::hash::IdMap;
use crate::intern::Symbol;
use crate::mutation::{self, Mutation};
use crate::node::NodeIdx;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The payload of the unwinding that ends a slice.
pub(crate) struct SliceEnded;

/// The purpose of a result about a pod class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KindRole {
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

const KIND_ROLES: usize = 4;
const NODE_ROLES: usize = 4;

/// The contributions of a pod class: an index whose meaning depends on the role, a topology key, and an amount.
pub(crate) type Contribution = Box<[(u32, Symbol, i64)]>;

#[derive(Debug, Default)]
struct KindResults {
    /// The classes below this id are evaluated.
    next: KindId,
    /// The classes with a contribution.
    found: BTreeMap<KindId, Contribution>,
}

/// The results of an evaluation so far.
///
/// It is not a gc root: the pod, or a pod of the class, holds the topology keys. Ids of pod classes are never
/// reused.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    kinds: [KindResults; KIND_ROLES],
    nodes: IdMap<NodeIdx, [Option<i64>; NODE_ROLES]>,
    /// The clock of the snapshot and the number of lookup changes for which the results are valid.
    seen: Option<(u64, u64)>,
    /// The number of results ever computed.
    results: u64,
}

impl Partial {
    /// Drops results that changes since the last run invalidate. Returns `false` if all were dropped.
    pub(crate) fn bring_up_to_date(&mut self, snapshot: Snapshot<'_>) -> bool {
        let now = (snapshot.clock(), snapshot.lookups().changes());
        let Some((clock, lookups)) = self.seen.replace(now) else { return true };
        if lookups != now.1 {
            *self = Self { seen: Some(now), results: self.results, ..Self::default() };
            return false;
        }
        match snapshot.touched_since(clock) {
            _ if mutation::is_on(Mutation::ResultsStand) => {}
            None => self.nodes.clear(),
            Some(touched) => {
                for (node, _) in touched.filter(|(_, touch)| *touch == Touch::Object) {
                    self.nodes.remove(&node);
                }
            }
        }
        true
    }

    /// Returns the number of results ever computed. It grows as long as slices make progress.
    pub(crate) fn results(&self) -> u64 {
        self.results
    }
}

/// One slice of an evaluation.
pub(crate) struct Slice {
    /// Remaining work in units of one comparison or lookup.
    left: Cell<u64>,
    partial: RefCell<Partial>,
}

impl Slice {
    /// Creates a slice of `work` units that continues from these results.
    pub(crate) fn new(work: u64, partial: Partial) -> Self {
        Self { left: Cell::new(work), partial: RefCell::new(partial) }
    }

    /// Returns the results.
    pub(crate) fn into_partial(self) -> Partial {
        self.partial.into_inner()
    }

    /// Ends the slice if its work is used up. Where unwinding is not possible, a slice never ends.
    fn go_on(&self) {
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
    pub(crate) fn look_at_kinds(
        &self,
        role: KindRole,
        snapshot: Snapshot<'_>,
        concerns: impl Fn(&Kind) -> bool,
        compute: impl Fn(&Kind, &mut Vec<(u32, Symbol, i64)>) -> u64,
    ) {
        let from = self.partial.borrow().kinds[role as usize].next;
        let mut list = Vec::new();
        for (id, kind) in snapshot.kinds_since(from) {
            if !concerns(kind) {
                continue;
            }
            self.go_on();
            list.clear();
            let work = compute(kind, &mut list);
            self.spend(work);
            let mut partial = self.partial.borrow_mut();
            partial.results += 1;
            let results = &mut partial.kinds[role as usize];
            results.next = id.next();
            if !list.is_empty() {
                results.found.insert(id, list.as_slice().into());
            }
        }
        self.partial.borrow_mut().kinds[role as usize].next = snapshot.next_kind();
    }

    /// Calls `each` with every pod class that contributes, and its contributions. Requires a preceding
    /// [`Self::look_at_kinds`].
    pub(crate) fn each_kind<'a>(
        &self,
        role: KindRole,
        snapshot: Snapshot<'a>,
        mut each: impl FnMut(&'a Kind, &[(u32, Symbol, i64)]),
    ) {
        let mut partial = self.partial.borrow_mut();
        partial.kinds[role as usize].found.retain(|&id, contribution| {
            let kind = snapshot.kind(id);
            if let Some(kind) = kind {
                each(kind, contribution);
            }
            kind.is_some()
        });
    }

    /// Returns the contributions of the class of a pod on a node, or `None` if they are unknown.
    pub(crate) fn of_kind(&self, role: KindRole, id: KindId) -> Option<Contribution> {
        let partial = self.partial.borrow();
        let results = &partial.kinds[role as usize];
        (id < results.next).then(|| results.found.get(&id).cloned().unwrap_or_default())
    }
}

/// The state of one pod's evaluation in slices.
#[derive(Debug, Default)]
pub struct Evaluation {
    partial: Partial,
}

impl Evaluation {
    /// Evaluates a slice of `work` units (one comparison or lookup each) against the current state of the
    /// cluster. Returns `None` if the evaluation needs another slice.
    pub fn go_on<T>(
        &mut self,
        snapshot: Snapshot<'_>,
        work: u64,
        evaluate: impl FnOnce(Snapshot<'_>) -> T,
    ) -> Option<T> {
        self.partial.bring_up_to_date(snapshot);
        let slice = Slice::new(work, std::mem::take(&mut self.partial));
        let evaluated = catch_unwind(AssertUnwindSafe(|| evaluate(snapshot.in_slice(&slice))));
        self.partial = slice.into_partial();
        match evaluated {
            Ok(evaluated) => Some(evaluated),
            Err(payload) if payload.is::<SliceEnded>() => None,
            Err(panic) => resume_unwind(panic),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::intern::Tables;

    /// Evaluates this many nodes at 10 units each. Returns the number of computed results.
    fn computed(evaluation: &mut Evaluation, nodes: u32, work: u64) -> (Option<i64>, u32) {
        let (cache, tables) = (Cache::default(), Tables::new());
        let count = Cell::new(0);
        let sum = evaluation.go_on(cache.snapshot(&tables), work, |snapshot| {
            let slice = snapshot.slice().expect("it is a slice");
            let of = |node| {
                slice.of_node(
                    NodeRole::Tolerated,
                    NodeIdx(node),
                    || 10,
                    || {
                        count.set(count.get() + 1);
                        i64::from(node)
                    },
                )
            };
            (0..nodes).map(of).sum()
        });
        (sum, count.get())
    }

    #[test]
    fn slice_computes_as_much_as_its_work_allows_and_the_next_goes_on() {
        let mut evaluation = Evaluation::default();
        assert_eq!(computed(&mut evaluation, 10, 40), (None, 4));
        assert_eq!(
            computed(&mut evaluation, 10, 45),
            (None, 5),
            "the last one may exceed the work by its own"
        );
        assert_eq!(computed(&mut evaluation, 10, 1), (Some(45), 1));
        assert_eq!(computed(&mut evaluation, 10, 0), (Some(45), 0), "all results are known");
    }
}
