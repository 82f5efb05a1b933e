//! Requeues pods after a change of the configuration: of backoffs, gates or profiles.

use super::backoff::BackoffPolicy;
use super::{SchedulingQueue, Slot, label};
use crate::framework::PluginName;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// The decision about a pending pod under the new configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueDecision {
    /// No profile has its scheduler name any more, so it leaves the queue.
    Leaves,
    /// It stays in the queue: gated by this plugin, or to be retried.
    Stays(Option<PluginName>),
}

impl SchedulingQueue {
    /// Sets new backoffs and decides for each pending pod whether it stays. Returns the pods that leave the queue.
    ///
    /// The rejections of all pods were found under the old configuration. So every pod that stays without a gate is
    /// retried as soon as its backoff allows.
    pub fn reconsider(
        &mut self,
        now: Time,
        initial_backoff: Duration,
        max_backoff: Duration,
        becomes: &mut dyn FnMut(&PodInfo) -> QueueDecision,
    ) -> Vec<Arc<PodInfo>> {
        self.active.forget_lines();
        self.backoff_policy = BackoffPolicy { initial: initial_backoff, max: max_backoff };
        let mut uids: Vec<(u64, Uid)> =
            self.waiting().map(|(_, queued)| (queued.sequence, Arc::clone(&queued.pod.uid))).collect();
        uids.sort_unstable();
        let mut removed = Vec::new();
        for (_, uid) in uids {
            let Some((slot, mut queued)) = self.take(&uid) else { continue };
            self.counters.uncount_rejectors(&queued);
            queued.clear_rejectors();
            queued.gate = None;
            match becomes(&queued.pod) {
                QueueDecision::Leaves => {
                    self.blocked.remove(&uid);
                    removed.push(queued.pod);
                }
                QueueDecision::Stays(Some(gate)) => {
                    queued.gate = Some(gate);
                    queued.rejectors.insert(gate);
                    self.counters.count_rejectors(&queued);
                    match slot {
                        Slot::Gated(_) => self.insert_gated(queued),
                        _ => self.hold(queued, label::RECONFIGURED),
                    }
                }
                QueueDecision::Stays(None) => match slot {
                    Slot::Active(_) => self.insert_active(now, queued),
                    _ => self.requeue(now, queued, label::RECONFIGURED),
                },
            }
        }
        removed
    }
}
