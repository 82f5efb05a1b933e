//! Ids that nobody holds any more are given back, so that a cluster with ever new labels does not make the tables grow.
//!
//! See [`crate::intern`] for how holders are found.

use super::Scheduler;
use crate::intern::{HoldsIds, Marks};
use crate::mutation::{self, Mutation};

impl Scheduler {
    /// Gives back the ids that nobody holds where the tables have grown enough since that was done last; how many were.
    ///
    /// To be called where the caller holds no ids: between a converted object and its event, ids are the caller's.
    pub fn tidy(&mut self) -> usize {
        self.tidy_beside(|_| {})
    }

    /// As [`Self::tidy`], where somebody else in the engine holds ids as well, and marks them.
    pub(crate) fn tidy_beside(&mut self, others: impl FnOnce(&mut Marks)) -> usize {
        if self.tables.have_grown() { self.give_back_but(others) } else { 0 }
    }

    /// As [`Self::tidy`], however much has come since.
    pub fn give_back_ids(&mut self) -> usize {
        self.give_back_but(|_| {})
    }

    fn give_back_but(&mut self, others: impl FnOnce(&mut Marks)) -> usize {
        // They hold ids where no walk comes, and are made anew.
        self.memory.clear();
        self.shapes.clear();
        if mutation::is_on(Mutation::IdsStay) {
            return 0;
        }
        let mut marks = Marks::default();
        self.mark(&mut marks);
        others(&mut marks);
        self.tables.keep(marks)
    }
}

impl HoldsIds for Scheduler {
    fn mark(&self, marks: &mut Marks) {
        let Self {
            cache,
            queue,
            profiles,
            lists,
            pre_binds,
            bindings,
            extending,
            preemptions,
            sent_conditions,
            walk,
            quarantine,
            second,
            // Given back right before.
            memory: _,
            shapes: _,
            // Texts and numbers.
            tables: _,
            seed: _,
            verify: _,
            outbox: _,
            reports: _,
            notices: _,
            halted: _,
            events: _,
            leading: _,
            unknown_binds: _,
            last_looks_failed: _,
            panics: _,
            kubelet_rejections: _,
            event_label: _,
            #[cfg(test)]
                trap: _,
        } = self;
        cache.mark(marks);
        if !mutation::is_on(Mutation::HolderOverlooked) {
            queue.mark(marks);
        }
        // What their plugins were given is pinned.
        profiles.iter().for_each(|(name, _)| name.mark(marks));
        second.iter().flat_map(|second| second.names()).for_each(|name| name.mark(marks));
        lists.mark(marks);
        pre_binds.mark(marks);
        bindings.values().for_each(|binding| binding.mark(marks));
        extending.mark(marks);
        preemptions.mark(marks);
        sent_conditions.values().for_each(|sent| sent.mark(marks));
        walk.mark(marks);
        quarantine.mark(marks);
    }
}
