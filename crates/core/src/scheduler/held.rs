//! How much the engine holds, collection by collection, for tests of leaks. Decides nothing.

use super::Scheduler;

impl Scheduler {
    /// What the engine's collections hold about pods and nodes, by name. In a cluster without pods and nodes all are empty.
    ///
    /// Not among them: the tables of ids, of which [`Tables::sizes`](crate::intern::Tables::sizes) tells, and what is remembered of
    /// pods that no node can take, which has a bound.
    pub fn held(&self) -> Vec<(&'static str, usize)> {
        let [bind, volume, evict, status, record, extend] = self.outbox.waiting();
        let mut held = vec![
            ("queue", self.queue.len()),
            ("pending pods shown", self.audit.len()),
            ("bindings", self.bindings.len()),
            ("sent conditions", self.sent_conditions.len()),
            ("reports", self.reports.len()),
            ("notices", self.notices.len()),
            ("pods waiting for volumes", self.pre_binds.len()),
            ("pods held back", self.quarantine.crashers()),
            ("outgoing bindings", bind),
            ("outgoing volumes", volume),
            ("outgoing evictions", evict),
            ("outgoing patches", status),
            ("preemptions", self.preemptions.running()),
            ("evictions", self.preemptions.evictions()),
            ("outgoing records", record),
            ("outgoing questions", extend),
            ("pods waiting for extenders", self.extending.len()),
            ("questions to extenders", self.extending.open_calls()),
        ];
        held.extend(self.cache.held());
        held
    }
}
