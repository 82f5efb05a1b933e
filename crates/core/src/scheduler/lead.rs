//! Leading, and not: one that does not lead decides nothing and sends nothing.
//!
//! How the lead is won and lost is the shell's business. Upstream's process ends when it loses the lead; ours may as well,
//! but no write depends on that.

use super::Scheduler;
use crate::time::Time;

impl Scheduler {
    /// Takes up the lead, or lays it down: then the bindings that never left are given up, those still waiting for volumes
    /// among them, and their pods wait with the others for whoever leads next. Those that left are settled when their answers come, or when this one leads again.
    pub(super) fn lead(&mut self, now: Time, leading: bool) {
        self.leading = leading;
        if leading {
            return;
        }
        for queued in self.give_up_pre_binds() {
            self.queue.activate(now, queued);
        }
        for uid in self.unsent_bindings() {
            self.outbox.drop_bind(&uid);
            self.give_back(now, &uid);
        }
    }
}
