//! Garbage collection of ids, so that a cluster with ever new labels does not grow the tables without bound.
//!
//! It runs in slices, so that no decision waits for all of it. See [`crate::model::intern`] for how ids in use are
//! found.

use super::Scheduler;
use crate::model::intern::{Marks, TraceIds, WorkBudget};
use crate::switches::mutation::{self, Mutation};
use std::mem::take;

/// The work limit of one slice. Marking a pod costs 1, which takes about 300 ns if the processor's caches miss.
const PIECE: usize = 192;

impl Scheduler {
    /// Runs one slice of garbage collection, if it is running or the tables have grown enough since the last one.
    ///
    /// Returns the number of freed ids after the last slice, otherwise 0. The caller must hold no ids: between the
    /// conversion of an object and its event, the caller holds the object's ids.
    pub fn collect_ids(&mut self) -> usize {
        self.collect_ids_and_others(|_| {})
    }

    /// As [`Self::collect_ids`], with a callback that marks ids held outside the scheduler.
    pub(crate) fn collect_ids_and_others(&mut self, others: impl FnOnce(&mut Marks)) -> usize {
        if self.tables.is_collecting() || self.tables.have_grown() { self.piece(PIECE, others) } else { 0 }
    }

    /// As [`Self::collect_ids`], but starts without a growth threshold. `work` limits the slice; marking a pod costs 1.
    pub fn collect_ids_by(&mut self, work: usize) -> usize {
        self.piece(work, |_| {})
    }

    /// Clears all caches of decisions and frees all unused ids at once.
    pub fn collect_all_ids(&mut self) {
        self.decisions.clear();
        self.slices.clear();
        self.tables.forget_marks();
        let was_on = self.tables.is_collecting();
        for _ in 0..=usize::from(was_on) {
            self.piece(usize::MAX, |_| {});
            while self.tables.is_collecting() {
                self.piece(usize::MAX, |_| {});
            }
        }
    }

    fn piece(&mut self, work: usize, others: impl FnOnce(&mut Marks)) -> usize {
        if mutation::is_on(Mutation::IdsNeverFreed) {
            return 0;
        }
        let mut work = WorkBudget::new(work);
        let Self { tables, cache, queue, audit, decisions, .. } = self;
        if !tables.is_collecting() {
            tables.begin_collection();
            cache.begin_collection();
            queue.begin_collection();
            audit.begin_collection();
            decisions.begin_collection();
        }
        let Some(marks) = tables.marks() else { return tables.sweep(&mut work).unwrap_or(0) };
        let are_marked = cache.mark_some(marks, &mut work)
            && (mutation::is_on(Mutation::PendingPodsNotMarked)
                || queue.mark_some(marks, &mut work) && audit.mark_some(marks, &mut work))
            && decisions.mark_some(marks, &mut work);
        if are_marked {
            self.end_marking(others);
        }
        0
    }

    /// Marks all remaining roots at once, since they hold few ids.
    fn end_marking(&mut self, others: impl FnOnce(&mut Marks)) {
        let mut marks = take(self.tables.marks().expect("not all is marked yet"));
        self.cache.mark_rest(&mut marks);
        self.queue.mark_rest(&mut marks);
        self.audit.end_collection();
        self.decisions.end_collection(&mut marks);
        self.slices.end_collection();
        self.mark_others(&mut marks);
        others(&mut marks);
        #[cfg(debug_assertions)]
        {
            let mut all = Marks::default();
            self.mark(&mut all);
            assert!(marks.have_all(&all), "every gc root marked its ids");
        }
        self.tables.all_is_marked(marks);
    }

    /// Marks the roots other than cache, queue, audit and decision cache.
    fn mark_others(&self, marks: &mut Marks) {
        let Self {
            profiles,
            lists,
            volume_bindings,
            bindings,
            extender_calls,
            slices,
            preemptions,
            groups,
            conditions,
            walk,
            quarantine,
            alternatives,
            cache: _,
            queue: _,
            audit: _,
            decisions: _,
            // Hold no ids.
            tables: _,
            seed: _,
            verify: _,
            outbox: _,
            reports: _,
            notices: _,
            halted: _,
            leading: _,
            is_comparable: _,
            shown_nominations,
            kubelet_rejections: _,
            requeues: _,
            #[cfg(test)]
                panic_point: _,
        } = self;
        // The plugins' own ids are pinned.
        profiles.iter().for_each(|(name, _)| name.mark(marks));
        alternatives.iter().flat_map(|alternatives| alternatives.names()).for_each(|name| name.mark(marks));
        lists.mark(marks);
        volume_bindings.mark(marks);
        bindings.mark(marks);
        extender_calls.mark(marks);
        slices.mark(marks);
        preemptions.mark(marks);
        groups.mark(marks);
        shown_nominations.values().for_each(|node| node.mark(marks));
        conditions.mark(marks);
        walk.mark(marks);
        quarantine.mark(marks);
    }
}

/// Marks everything at once, to check the slices in debug builds.
#[cfg(debug_assertions)]
impl TraceIds for Scheduler {
    fn mark(&self, marks: &mut Marks) {
        self.cache.mark(marks);
        self.queue.mark(marks);
        self.audit.mark(marks);
        self.decisions.mark_all(marks);
        self.mark_others(marks);
    }
}

#[cfg(test)]
mod tests {
    use crate::cycle::NoProbe;
    use crate::incremental::DecisionCache;
    use crate::model::effect::Lane;
    use crate::model::event::{BindOutcome, BindingState, Event};
    use crate::model::pod::PodInfo;
    use crate::model::selector::{NodeSelectorTerm, RequiredNodeAffinity, TermDemands};
    use crate::queue::SubQueue;
    use crate::scheduler::Step;
    use crate::scheduler::quarantine::tests::{World, pod};
    use crate::switches::mutation::{self, Mutation};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    /// Returns a pod with a label that no other object has.
    fn labelled(world: &mut World, name: &str) -> Box<PodInfo> {
        let tables = world.scheduler.tables();
        let mut pod = pod(tables, name, 100, None);
        let pair = (tables.symbol("app"), tables.symbol("own"));
        pod.labels = tables.label_set(vec![pair]);
        pod
    }

    /// Runs a whole collection, and returns whether the label of [`labelled`] has its id then.
    fn keeps_own(world: &mut World) -> bool {
        world.scheduler.tables().symbol("unreferenced");
        while world.scheduler.collect_ids_by(usize::MAX) == 0 {}
        world.scheduler.tables().find("own").is_some()
    }

    /// Whether builds with assertions notice this fault in a collection.
    fn is_noticed(fault: Mutation, mut collect: impl FnMut() -> bool) -> bool {
        mutation::with(Some(fault), || catch_unwind(AssertUnwindSafe(&mut collect)).is_err())
    }

    /// It is not audited any more.
    #[test]
    fn terminating_pod_in_the_queue_keeps_its_ids() {
        let mut world = World::new();
        let mut pod = labelled(&mut world, "p");
        pod.deleting = true;
        world.handle(Event::PodApplied(pod));
        assert!(world.scheduler.queue().contains("p"));
        assert!(keeps_own(&mut world));
        assert!(is_noticed(Mutation::PendingPodsNotMarked, || keeps_own(&mut world)));
    }

    /// Only the audit knows it until the watch shows its deletion.
    #[test]
    fn pod_that_the_api_server_reports_as_gone_keeps_its_ids() {
        let mut world = World::new();
        let pod = labelled(&mut world, "p");
        world.handle(Event::PodApplied(pod));
        world.run();
        let outcome = BindOutcome::NotNeeded(BindingState::Gone);
        world.handle(Event::BindFinished { uid: "p".into(), outcome });
        world.run();
        // The second collection drops its signature from the decision cache.
        assert!(keeps_own(&mut world) && keeps_own(&mut world));
        assert!(is_noticed(Mutation::MovedObjectsNotMarked, || keeps_own(&mut world)));
    }

    /// Moves a pending pod from an unmarked to a marked place, and returns whether its unique label survives.
    fn keeps_its_label() -> bool {
        let mut world = World::new();
        let tables = world.scheduler.tables();
        tables.symbol("unreferenced");
        let mut large = pod(tables, "large", 9_000, None);
        let pair = (tables.symbol("app"), tables.symbol("large's own"));
        large.labels = tables.label_set(vec![pair]);
        large.template.priority = 7;
        world.handle(Event::PodApplied(large));
        while !matches!(world.scheduler.step(world.now, &mut NoProbe), Step::Idle { .. }) {}
        let small = pod(world.scheduler.tables(), "small", 1, None);
        world.now = world.now + Duration::from_secs(60);
        world.handle(Event::PodApplied(small));
        // Enough for one node (as much as four pods) and the active queue, but not for the unschedulable pods.
        world.scheduler.collect_ids_by(4);
        world.scheduler.collect_ids_by(1);
        let snapshot = world.scheduler.snapshot();
        let node = snapshot.nodes().iter().next().expect("there is one");
        let mut grown = snapshot.node_info(node).clone();
        grown.allocatable.cpu_milli = 10_000;
        world.handle(Event::NodeApplied(Box::new(grown)));
        let active = world.scheduler.queue().stats().pending[&SubQueue::Active];
        assert_eq!(active, 2, "large is to be tried next, before small");
        while world.scheduler.collect_ids_by(1) == 0 {}
        world.scheduler.tables().find("large's own").is_some()
    }

    #[test]
    fn pod_moved_during_gc_keeps_its_ids() {
        assert!(keeps_its_label());
        let keeps_it = mutation::with(Some(Mutation::MovedObjectsNotMarked), || {
            catch_unwind(AssertUnwindSafe(keeps_its_label)).unwrap_or(false)
        });
        assert!(!keeps_it, "what moves has to be looked at again");
    }

    /// In a cache without room, every signature with a state exceeds the limit. Pods that name their node have none.
    #[test]
    fn signature_over_the_limit_is_evicted_for_the_next_one_even_after_a_collection() {
        let mut world = World::new();
        world.scheduler.decisions = DecisionCache::with_bytes_max(0);
        world.handle(Event::Credits { lane: Lane::Bind, count: 99 });
        let pinned = |world: &mut World, name: String, cpu_milli: i64| {
            let tables = world.scheduler.tables();
            let mut pinned = pod(tables, &name, cpu_milli, None);
            let name = tables.symbol("a");
            let demands = TermDemands { labels: [].into(), names: [(name, false)].into() };
            let term = NodeSelectorTerm { demands: Some(demands), pinned_names: Some([name].into()) };
            let affinity = RequiredNodeAffinity { node_selector: None, terms: Some([term].into()) };
            pinned.node_affinity = affinity.into();
            world.handle(Event::PodApplied(pinned));
            world.run();
        };
        let free = |world: &mut World, name: &str, cpu_milli: i64| {
            world.pod(name, cpu_milli, None);
            world.run();
            (world.scheduler.decisions.signatures(), world.scheduler.decisions.bytes())
        };
        (0..40).for_each(|number| pinned(&mut world, format!("old-{number}"), number));
        // Each decision evicts the signature over the limit and at most eight others.
        free(&mut world, "first", 100);
        let (signatures, bytes) = free(&mut world, "second", 101);
        assert_eq!(signatures, 40 - 8 - 8 + 1);
        // The collection evicts half of the pinned pods' signatures.
        (16..28).for_each(|number| pinned(&mut world, format!("new-{number}"), number));
        free(&mut world, "second-again", 101);
        world.scheduler.tables().symbol("unreferenced");
        while world.scheduler.collect_ids_by(usize::MAX) == 0 {}
        assert_eq!(world.scheduler.decisions.signatures(), 12 + 1);
        assert_eq!(free(&mut world, "third", 102), (12 - 8 + 1, bytes));
    }
}
