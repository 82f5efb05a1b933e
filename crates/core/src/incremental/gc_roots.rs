//! Garbage collection of the decision cache: marks the ids of signatures in use and evicts the others.
//!
//! A signature that was not used during a whole garbage collection is evicted. For the others, the ids of the
//! signature are marked, and that is enough:
//!
//! - Rules hold only ids of their pod, or of the configuration, whose ids are never freed.
//! - Tallies also hold ids of other pods and of nodes: topology keys and values. If no node has such a value, its
//!   count is zero. A node that gets the freed id later is in the change log, so it is counted again.
//! - The infeasible cache is cleared, because rejection reasons name ids. One evaluation fills it again.

use super::DecisionCache;
use crate::model::intern::{Marks, WorkBudget};

/// The work units of one eviction; marking a signature is one unit.
const RELEASE_COST: usize = 16;

impl DecisionCache {
    /// Starts a collection: all signatures are unmarked.
    pub(crate) fn begin_collection(&mut self) {
        self.signatures.begin_collection();
        self.evaluations.begin_collection();
    }

    /// Marks some signatures and evicts unused ones, within the limits of `work`. Returns whether all are done.
    pub(crate) fn mark_some(&mut self, marks: &mut Marks, work: &mut WorkBudget) -> bool {
        while work.is_left() {
            let Some((index, is_used)) = self.signatures.next_unmarked() else {
                return self.evaluations.mark_some(marks, work);
            };
            if is_used {
                self.signatures.mark(index, marks);
                work.spend(1);
            } else {
                self.oversized.take_if(|oversized| *oversized == index);
                let evicted = self.signatures.evict(index);
                self.count_eviction(&evicted);
                work.spend(RELEASE_COST);
            }
        }
        false
    }

    /// Ends a collection: marks what [`Self::mark_some`] left. Unmarked ids get new meanings after this.
    pub(crate) fn end_collection(&mut self, marks: &mut Marks) {
        self.device_results.mark(marks);
        self.signatures.end_collection();
        self.evaluations.end_collection();
        self.infeasible.clear();
    }

    /// Marks all signatures.
    #[cfg(debug_assertions)]
    pub(crate) fn mark_all(&self, marks: &mut Marks) {
        self.signatures.mark_all(marks);
        self.evaluations.mark_all(marks);
        self.device_results.mark(marks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::cycle::{Decision, Framework, NoProbe, Options};
    use crate::framework::post_filter::Draws;
    use crate::model::intern::Tables;
    use crate::model::pod::PodInfo;
    use crate::model::rng::Seed;
    use crate::model::time::Time;
    use crate::scheduler::{test_node, test_pod};
    use std::sync::Arc;

    /// Returns which of two labels keep their ids, after pods with the first of them were decided.
    fn kept_by(mark: impl Fn(&mut DecisionCache, &mut Marks)) -> [bool; 2] {
        let (mut tables, mut cache) = (Tables::new(), Cache::default());
        cache.apply_node(&Arc::from(test_node(&mut tables, "n")));
        let mut pod = test_pod(&mut tables, "p", 1, None);
        let texts = ["of the pod", "of nothing"];
        let [key, _] = texts.map(|text| tables.symbol(text));
        pod.labels = tables.label_set(vec![(key, key)]);
        let (framework, mut decisions, pod) =
            (Framework::default(), DecisionCache::default(), Arc::from(pod));
        // A signature counts as used from its second pod on.
        for _ in 0..2 {
            let snapshot = cache.snapshot(&tables);
            assert!(framework.decide_cached(&mut decisions, &pod, snapshot, &mut NoProbe).is_some());
        }
        tables.begin_collection();
        decisions.begin_collection();
        let mut marks = Marks::default();
        mark(&mut decisions, &mut marks);
        tables.all_is_marked(marks);
        while tables.sweep(&mut WorkBudget::new(1_000)).is_none() {}
        texts.map(|text| tables.find(text).is_some())
    }

    #[test]
    fn cached_signatures_keep_their_ids() {
        let mark_in_steps = |decisions: &mut DecisionCache, marks: &mut Marks| {
            while !decisions.mark_some(marks, &mut WorkBudget::new(1)) {}
            decisions.end_collection(marks);
        };
        assert_eq!(kept_by(mark_in_steps), [true, false]);
        assert_eq!(kept_by(|_, _| ()), [false, false]);
    }

    /// Their reasons hold ids that no one marks.
    #[test]
    fn cached_rejections_end_with_a_collection() {
        let (mut tables, mut cache) = (Tables::new(), Cache::default());
        let node = test_node(&mut tables, "n");
        let pod: Arc<PodInfo> = Arc::from(test_pod(&mut tables, "p", node.allocatable.cpu_milli + 1, None));
        cache.apply_node(&Arc::from(node));
        let (framework, snapshot) = (Framework::default(), cache.snapshot(&tables));
        let full = framework.decide(&pod, snapshot, Options::default(), &mut NoProbe);
        let Ok(Decision::Infeasible(filtered)) = full else { panic!("the pod is too large") };
        let mut decisions = DecisionCache::default();
        framework.note_infeasible(&mut decisions, &pod, &filtered);
        let when = (Draws { seed: Seed(1), attempt: 1 }, Time::default());
        let is_cached = |decisions: &mut DecisionCache| {
            framework.reject_cached(decisions, &pod, snapshot, when, &mut NoProbe, |_, _| ()).is_some()
        };
        assert!(is_cached(&mut decisions));
        decisions.begin_collection();
        assert!(is_cached(&mut decisions));
        decisions.end_collection(&mut Marks::default());
        assert!(!is_cached(&mut decisions));
    }

    /// With it, builds with assertions check what is marked in steps.
    #[cfg(debug_assertions)]
    #[test]
    fn signatures_are_marked_all_at_once_too() {
        assert_eq!(kept_by(|decisions, marks| decisions.mark_all(marks)), [true, false]);
        assert_eq!(kept_by(|decisions, marks| decisions.signatures.mark_all(marks)), [true, false]);
        assert_eq!(kept_by(|decisions, marks| decisions.evaluations.mark_all(marks)), [true, false]);
    }

    /// What is cached after that is not in the lists with which the collection began.
    #[test]
    fn signatures_that_are_cached_after_a_clear_during_a_collection_keep_their_ids() {
        let (mut tables, mut cache) = (Tables::new(), Cache::default());
        cache.apply_node(&Arc::from(test_node(&mut tables, "n")));
        let mut pod = test_pod(&mut tables, "p", 1, None);
        let key = tables.symbol("of the pod");
        pod.labels = tables.label_set(vec![(key, key)]);
        let pod: Arc<PodInfo> = Arc::from(pod);
        let (framework, mut decisions) = (Framework::default(), DecisionCache::default());
        tables.begin_collection();
        decisions.begin_collection();
        decisions.clear();
        // A signature counts as used from its second pod on.
        for _ in 0..2 {
            let snapshot = cache.snapshot(&tables);
            assert!(framework.decide_cached(&mut decisions, &pod, snapshot, &mut NoProbe).is_some());
        }
        let mut marks = Marks::default();
        while !decisions.mark_some(&mut marks, &mut WorkBudget::new(1)) {}
        decisions.end_collection(&mut marks);
        tables.all_is_marked(marks);
        while tables.sweep(&mut WorkBudget::new(1_000)).is_none() {}
        assert!(tables.find("of the pod").is_some());
    }
}
