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
