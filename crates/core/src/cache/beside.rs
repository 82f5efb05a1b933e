//! Which nodes changed in what only preemption and nominated pods make of them: who is nominated to them, and when their pods started.
//!
//! What is on a node, and its object, is not written down here: that is `nodes`, whose log is read by every decision.

use crate::node::NodeIdx;
use std::collections::VecDeque;

/// Changes that are remembered. Who has seen fewer since begins anew.
const LOG_MAX: usize = 16_384;

/// The nodes that changed so last.
#[derive(Default)]
pub(super) struct Beside {
    clock: u64,
    /// One entry a tick of the clock, the newest at the end.
    log: VecDeque<NodeIdx>,
}

impl Beside {
    /// The time by the clock that ticks with every change.
    pub(super) fn clock(&self) -> u64 {
        self.clock
    }

    pub(super) fn touch(&mut self, node: NodeIdx) {
        self.clock += 1;
        if self.log.len() == LOG_MAX {
            self.log.pop_front();
        }
        self.log.push_back(node);
    }

    /// The nodes that changed after the clock stood at `since`; `None` where that is too long ago.
    pub(super) fn touched_since(&self, since: u64) -> Option<impl Iterator<Item = NodeIdx> + '_> {
        let count = usize::try_from(self.clock - since).ok().filter(|&count| count <= self.log.len())?;
        Some(self.log.range(self.log.len() - count..).copied())
    }
}
