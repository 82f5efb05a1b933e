//! Evaluation in slices: the partial results of one pod's evaluation, and how much more work the current slice may do.
//!
//! A pod may carry thousands of terms, and each is compared with each distinct pod or node. Its evaluation runs several times from the
//! start. Each run keeps what it finds out about a node or a kind of pods, and ends by unwinding when the slice's work is used up. The next
//! run looks these results up and gets further. A result depends on the pod, on one node object or one kind, and on the lookups
//! (namespaces, Services, controllers). Results are dropped when one of these changes. What depends on the whole cluster is computed in
//! each run.

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

/// What a result about a kind of pods is for.
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

/// What a result about a node is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeRole {
    /// Whether the node fulfils the pod's required node affinity.
    RequiredAffinity,
    /// The weights of the preferred node affinity terms that the node matches.
    PreferredAffinity,
    /// Whether the pod tolerates the node's taints.
    Tolerated,
    /// How many taints of effect PreferNoSchedule the pod does not tolerate.
    Disliked,
}

const KIND_ROLES: usize = 4;
const NODE_ROLES: usize = 4;

/// What a kind of pods contributes: to what (a number that the role gives meaning to, and a topology key), and how much.
pub(crate) type Contribution = Box<[(u32, Symbol, i64)]>;

#[derive(Debug, Default)]
struct KindResults {
    /// The kinds below this number were looked at.
    next: KindId,
    /// The kinds that contribute anything.
    found: BTreeMap<KindId, Contribution>,
}

/// The results of an evaluation so far. Its ids are held by others: topology keys by the pod or by a pod of the kind; and numbers of kinds
/// are never given twice.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    kinds: [KindResults; KIND_ROLES],
    nodes: IdMap<NodeIdx, [Option<i64>; NODE_ROLES]>,
    /// The snapshot's clock and changes of lookups that the results hold for.
    seen: Option<(u64, u64)>,
    /// How many results there ever were.
    results: u64,
}

impl Partial {
    /// Drops what changed since the last run. `false` if all had to go.
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

    /// How many results there ever were: it grows as long as slices get further.
    pub(crate) fn results(&self) -> u64 {
        self.results
    }
}

/// One slice of an evaluation.
pub(crate) struct Slice {
    /// Units of work: a comparison or lookup each.
    left: Cell<u64>,
    partial: RefCell<Partial>,
}

impl Slice {
    /// A slice of this much work that goes on from these results.
    pub(crate) fn new(work: u64, partial: Partial) -> Self {
        Self { left: Cell::new(work), partial: RefCell::new(partial) }
    }

    /// The results.
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

    /// The result for a node: known, or computed now at the cost of so much work.
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

    /// Computes the contributions of the kinds that were not looked at yet and that concern the role. `compute` adds to the list, and returns
    /// the work that took.
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

    /// Calls `each` with every kind that contributes, and what. [`Self::look_at_kinds`] came before.
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

    /// What the kind of a pod that is on a node contributes; `None` if that is not known.
    pub(crate) fn of_kind(&self, role: KindRole, id: KindId) -> Option<Contribution> {
        let partial = self.partial.borrow();
        let results = &partial.kinds[role as usize];
        (id < results.next).then(|| results.found.get(&id).cloned().unwrap_or_default())
    }
}

/// An evaluation of one pod in slices, as far as it is.
#[derive(Debug, Default)]
pub struct Evaluation {
    partial: Partial,
}

impl Evaluation {
    /// Evaluates a slice of `work` units (a comparison or lookup each) against the state of the cluster as it is now. `None` if the
    /// evaluation needs another slice.
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

    /// Asks about so many nodes at 10 units each; how many were computed.
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
