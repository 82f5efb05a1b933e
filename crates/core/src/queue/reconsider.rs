//! The queue under new rules: other backoffs, other gates, other profiles.

use super::backoff::BackoffPolicy;
use super::{SchedulingQueue, Slot, label};
use crate::framework::PluginName;
use crate::pod::{PodInfo, Uid};
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// What becomes of a waiting pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconsidered {
    /// It is nobody's here any more.
    LetGo,
    /// It waits behind this gate, or for its turn.
    Stays(Option<PluginName>),
}

impl SchedulingQueue {
    /// Takes up other backoffs, and asks of every waiting pod what becomes of it: whatever a pod waited for was found under
    /// other rules, so it is to be tried again, as soon as its backoff allows. Gives the pods that were let go.
    pub fn reconsider(
        &mut self,
        now: Time,
        initial_backoff: Duration,
        max_backoff: Duration,
        becomes: &mut dyn FnMut(&PodInfo) -> Reconsidered,
    ) -> Vec<Arc<PodInfo>> {
        self.active.forget_lines();
        self.backoff_policy = BackoffPolicy { initial: initial_backoff, max: max_backoff };
        let mut uids: Vec<(u64, Uid)> =
            self.waiting().map(|(_, queued)| (queued.sequence, Arc::clone(&queued.pod.uid))).collect();
        uids.sort_unstable();
        let mut let_go = Vec::new();
        for (_, uid) in uids {
            let Some((slot, mut queued)) = self.take(&uid) else { continue };
            self.counters.unblame(&queued);
            queued.absolve();
            queued.gate = None;
            match becomes(&queued.pod) {
                Reconsidered::LetGo => {
                    self.held.remove(&uid);
                    let_go.push(queued.pod);
                }
                Reconsidered::Stays(Some(gate)) => {
                    queued.gate = Some(gate);
                    queued.rejectors.insert(gate);
                    self.counters.blame(&queued);
                    match slot {
                        Slot::Gated(_) => self.put_gated(queued),
                        _ => self.hold(queued, label::RECONFIGURED),
                    }
                }
                Reconsidered::Stays(None) => match slot {
                    Slot::Active(_) => self.put_active(now, queued),
                    _ => self.requeue(now, queued, label::RECONFIGURED),
                },
            }
        }
        let_go
    }
}
