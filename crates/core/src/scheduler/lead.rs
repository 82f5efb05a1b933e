//! Gain and loss of leadership. Without leadership the engine decides nothing and sends nothing.
//!
//! The election is outside the engine. Upstream's process exits when it loses the lease. supercargo may exit as well,
//! but the safety of writes does not depend on it.

use super::Scheduler;
use crate::model::time::Time;
use crate::switches::mutation::{self, Mutation};

impl Scheduler {
    /// Gains or loses leadership.
    ///
    /// On loss, everything that was not sent is dropped: bindings, PreBind, extender calls and evictions. Their pods
    /// return to the queue for the next leader. What was sent is completed when its result arrives, or on the next
    /// gain.
    pub(super) fn lead(&mut self, now: Time, leading: bool) {
        self.leading = leading;
        if leading {
            // What gated pods had to give up may have been dropped.
            self.queue.look_at_all_claims();
            self.groups_led(now);
        }
        if leading || mutation::is_on(Mutation::LeadershipIgnored) {
            return;
        }
        for uid in self.drop_preemptions() {
            self.queue.unblock(now, &uid);
            self.queue.requeue_now(now, &uid);
        }
        let dropped = self.outbox.claim_writes();
        for queued in self.end_all_pre_binds(now).into_iter().chain(self.end_all_suspended()) {
            self.activate(now, queued);
        }
        for uid in self.bindings.unsent() {
            self.outbox.drop_bind(&uid);
            self.revert_unsent(now, &uid);
        }
        self.drop_starts();
        self.drop_conditions();
        self.drop_reservations();
        for (pod, claim) in dropped {
            self.claim_write_dropped(now, &claim, &pod);
        }
    }
}
