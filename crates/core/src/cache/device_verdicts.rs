//! What is known of the devices of nodes before a pod is evaluated in full.

use crate::model::node::NodeIdx;

/// The result of a search for devices: the raw score of the node, or why its devices do not satisfy the requests.
pub type Judgement = Result<i64, &'static str>;

/// The results of searches for one pod's requests, by node. They are exact for the snapshot for which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceVerdicts {
    by_slot: Vec<Option<Judgement>>,
}

impl DeviceVerdicts {
    /// Returns the result for a node, if it is known.
    pub fn of(&self, node: NodeIdx) -> Option<Judgement> {
        *self.by_slot.get(node.index())?
    }

    pub(crate) fn set(&mut self, node: NodeIdx, judgement: Option<Judgement>) {
        if self.by_slot.len() <= node.index() {
            if judgement.is_none() {
                return;
            }
            self.by_slot.resize(node.index() + 1, None);
        }
        self.by_slot[node.index()] = judgement;
    }
}
