//! The ids that what is remembered of signatures holds: a signature that was not met again for a whole round goes, of the others the pods
//! that stand for them are marked.
//!
//! That is enough. What rules hold is their pod's, or the configuration's, which is pinned. What tallies hold of other pods and of nodes
//! (topology keys and their values) nobody sees any more once no node has it: the sum stands at zero, and whoever gets such an id anew
//! comes with a node that is touched. What is known of refusals goes as a whole: reasons name ids, and it is found out again by one pod.

use super::Shapes;
use crate::intern::{Marks, Work};

/// What it costs to let a signature go, beside marking a pod.
const RELEASE_COST: usize = 16;

impl Shapes {
    /// All signatures are to be marked, or to go.
    pub(crate) fn begin_round(&mut self) {
        self.known.begin_round();
        self.trunks.begin_round();
    }

    /// Marks some of the signatures that are to be, and lets some go that were not needed; whether those are all.
    pub(crate) fn mark_some(&mut self, marks: &mut Marks, work: &mut Work) -> bool {
        while work.is_left() {
            let Some((place, is_used)) = self.known.next_unmarked() else {
                return self.trunks.mark_some(marks, work);
            };
            if is_used {
                self.known.mark(place, marks);
                work.spend(1);
            } else {
                self.guest.take_if(|guest| *guest == place);
                let gone = self.known.let_go(place);
                self.release(&gone);
                work.spend(RELEASE_COST);
            }
        }
        false
    }

    /// All is marked; what is not will mean something else.
    pub(crate) fn end_round(&mut self) {
        self.known.end_round();
        self.trunks.end_round();
        self.refusals.clear();
    }

    /// Marks all signatures.
    #[cfg(debug_assertions)]
    pub(crate) fn mark_all(&self, marks: &mut Marks) {
        self.known.mark_all(marks);
        self.trunks.mark_all(marks);
    }
}
