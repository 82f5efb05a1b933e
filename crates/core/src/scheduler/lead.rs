//! Leading, and not: one that does not lead decides nothing and sends nothing.
//!
//! How the lead is won and lost is the shell's business. Upstream's process ends when it loses the lead; ours may as well,
//! but no write depends on that.

use super::Scheduler;
use crate::mutation::{self, Mutation};
use crate::time::Time;

impl Scheduler {
    /// Takes up the lead, or lays it down: then what never left is given up, bindings, those still waiting for volumes
    /// among them, what extenders are asked, and evictions, and its pods wait with the others for whoever leads next. What left is settled when the
    /// answers come, or when this one leads again.
    pub(super) fn lead(&mut self, now: Time, leading: bool) {
        self.leading = leading;
        if leading || mutation::is_on(Mutation::LeadIgnored) {
            return;
        }
        for uid in self.drop_preemptions() {
            self.queue.let_go(now, &uid);
            self.queue.rouse(now, &uid);
        }
        for queued in self.give_up_pre_binds(now).into_iter().chain(self.give_up_asking()) {
            self.queue.activate(now, queued);
        }
        for uid in self.unsent_bindings() {
            self.outbox.drop_bind(&uid);
            self.give_back(now, &uid);
        }
    }
}
