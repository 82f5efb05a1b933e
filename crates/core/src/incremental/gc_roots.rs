//! The ids that what is remembered of signatures holds: a signature that was not met again for a whole round goes, of the others the pods
//! that stand for them are marked.
//!
//! That is enough. Cached rules hold is their pod's, or the configuration's, which is pinned. Cached tallies hold of other pods and of nodes
//! (topology keys and their values) nobody sees any more once no node has it: the sum stands at zero, and whoever gets such an id anew
//! comes with a node that is touched. Cached is known of refusals goes as a whole: reasons name ids, and it is found out again by one pod.

use super::DecisionCache;
use crate::intern::{Marks, Work};

/// Cached it costs to let a signature go, beside marking a pod.
const RELEASE_COST: usize = 16;

impl DecisionCache {
    /// All signatures are to be marked, or to go.
    pub(crate) fn begin_round(&mut self) {
        self.signatures.begin_round();
        self.evaluations.begin_round();
    }

    /// Marks some of the signatures that are to be, and lets some go that were not needed; whether those are all.
    pub(crate) fn mark_some(&mut self, marks: &mut Marks, work: &mut Work) -> bool {
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
                self.release(&evicted);
                work.spend(RELEASE_COST);
            }
        }
        false
    }

    /// All is marked; what is not will mean something else.
    pub(crate) fn end_round(&mut self) {
        self.signatures.end_round();
        self.evaluations.end_round();
        self.infeasible.clear();
    }

    /// Marks all signatures.
    #[cfg(debug_assertions)]
    pub(crate) fn mark_all(&self, marks: &mut Marks) {
        self.signatures.mark_all(marks);
        self.evaluations.mark_all(marks);
    }
}
