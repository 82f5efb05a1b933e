//! Sizes of the engine's collections, for tests of leaks.

use super::Scheduler;

impl Scheduler {
    /// Returns the sizes of all collections that hold pods or nodes, by name. All are zero in a cluster without pods
    /// and nodes.
    ///
    /// Not included: the tables of ids (see [`Tables::sizes`](crate::model::intern::Tables::sizes)), and the infeasible
    /// cache, which has a fixed limit.
    pub fn held(&self) -> Vec<(&'static str, usize)> {
        let [bind, volume, evict, status, record, extend] = self.outbox.waiting();
        let mut held = vec![
            ("queue", self.queue.len()),
            ("pending pods shown", self.audit.len()),
            ("bindings", self.bindings.len()),
            ("sent conditions", self.conditions.len()),
            ("reports", self.reports.len()),
            ("notices", self.notices.len()),
            ("pods waiting for volumes", self.volume_bindings.len()),
            ("pods held back", self.quarantine.crashers()),
            ("outgoing bindings", bind),
            ("outgoing volumes", volume),
            ("outgoing evictions", evict),
            ("outgoing patches", status),
            ("preemptions", self.preemptions.running()),
            ("evictions", self.preemptions.evictions()),
            ("members of groups", self.groups.len()),
            ("starts of groups", self.groups.starts()),
            ("outgoing records", record),
            ("outgoing questions", extend),
            ("pods waiting for extenders", self.extender_calls.len()),
            ("questions to extenders", self.extender_calls.open_calls()),
        ];
        held.extend(self.groups.held());
        held.extend(self.cache.held());
        held
    }
}
