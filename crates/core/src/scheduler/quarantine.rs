//! The quarantine of poison objects, and of pods whose decisions panic repeatedly.
//!
//! A panic while an object is processed may leave cache and queue inconsistent. Both are rebuilt from their records
//! without that object, which is excluded for a while. A second panic during the rebuild ends the process, because no
//! consistent state remains.

use super::Scheduler;
use super::departure::Departure;
use crate::collections::hash::FixedMap;
use crate::framework::PluginName;
use crate::model::effect::Severity;
use crate::model::event::{Event, ObjectKey};
use crate::model::intern::{Marks, TraceIds};
use crate::model::pod::{PodInfo, Uid};
use crate::model::signature::Signature;
use crate::model::time::Time;
use crate::report::Notice;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// How long an object is excluded. After that its next update is processed.
const QUARANTINE: Duration = Duration::from_secs(300);
/// The maximum number of excluded objects. The oldest is released for a new one.
const OBJECTS_MAX: usize = 1_024;
/// The number of panics after which a pod is excluded until it changes.
pub(super) const PANICS_MAX: u32 = 3;
/// The plugin name that gates such a pod, also in `scheduler_unschedulable_pods`.
pub(super) const GATE: PluginName = "Quarantine";

/// The excluded objects and pods.
#[derive(Default)]
pub(super) struct Quarantine {
    /// The excluded objects in order of arrival, each with the end of its exclusion.
    objects: Vec<(ObjectKey, Time)>,
    /// The pods whose decisions panicked too often, with their signatures at that time.
    crashers: FixedMap<Uid, Signature>,
    poisoned: u64,
    /// Panics in decisions, queueing hints and comparisons so far.
    pub(super) panics: u64,
}

impl Quarantine {
    fn holds(&self, key: &ObjectKey, now: Time) -> bool {
        self.objects.iter().any(|(held, until)| held == key && now < *until)
    }

    fn release(&mut self, key: &ObjectKey) {
        self.objects.retain(|(held, _)| held != key);
    }

    fn take_in(&mut self, key: ObjectKey, now: Time) {
        self.release(&key);
        if self.objects.len() == OBJECTS_MAX {
            self.objects.remove(0);
        }
        self.objects.push((key, now + QUARANTINE));
        self.poisoned += 1;
    }

    /// Excludes a pod until it changes.
    pub(super) fn hold(&mut self, pod: &Arc<PodInfo>) {
        self.crashers.insert(Arc::clone(&pod.uid), Signature::of(pod));
    }

    /// Returns the gate of an excluded pod, while its signature is unchanged.
    pub(super) fn gate(&self, pod: &PodInfo) -> Option<PluginName> {
        self.crashers.get(&pod.uid).filter(|held| held.is_of(pod)).map(|_| GATE)
    }

    /// Returns the number of excluded pods.
    pub(super) fn crashers(&self) -> usize {
        self.crashers.len()
    }

    /// Handles a pod that left: it was deleted, or belongs to another scheduler.
    pub(super) fn pod_left(&mut self, uid: &str) {
        self.crashers.remove(uid);
    }

    /// Returns the number of poison objects so far.
    pub(super) fn poisoned(&self) -> u64 {
        self.poisoned
    }
}

/// Returns the message of a caught panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

impl Scheduler {
    /// Processes an object event, and quarantines the object if this panics.
    pub(super) fn object_with_care(&mut self, now: Time, event: Event) {
        let (key, pod) = match event {
            Event::PodApplied(pod) => {
                let pod = Arc::new(*pod);
                (ObjectKey::Pod(Arc::clone(&pod.uid)), Ok(pod))
            }
            other => (other.key(), Err(other)),
        };
        if !self.quarantine.objects.is_empty() && self.quarantine.holds(&key, now) {
            self.lists.see(&key);
            if matches!(pod, Err(Event::Gone(_) | Event::NotAdmitted { .. })) {
                self.quarantine.release(&key);
            }
            return;
        }
        let known = pod.as_ref().ok().map(Arc::clone);
        let taken = catch_unwind(AssertUnwindSafe(|| match pod {
            Ok(pod) => self.listed_pod(now, &pod),
            Err(event) => self.object(now, event),
        }));
        if let Err(panic) = taken {
            self.keep_out(now, key, known, &panic_text(panic.as_ref()));
        }
    }

    fn keep_out(&mut self, now: Time, key: ObjectKey, pod: Option<Arc<PodInfo>>, why: &str) {
        let text = format!("it makes the engine panic and is excluded: {why}");
        self.notices
            .push_back(Notice { object: key.describe(&self.tables, pod.as_deref()), text: text.clone() });
        self.rebuild(now, &key);
        self.quarantine.take_in(key, now);
        if let Some(pod) = pod.filter(|pod| !pod.is_assigned() && self.is_ours(pod)) {
            self.record(&pod, Severity::Warning, "FailedScheduling", "Scheduling", text);
        }
    }

    /// Rebuilds cache and queue from their records without this object.
    fn rebuild(&mut self, now: Time, without: &ObjectKey) {
        let cache = std::mem::take(&mut self.cache);
        self.cache = cache.rebuilt(without);
        // Cached decisions refer to the versions of the old cache.
        self.decisions.clear();
        self.tables.forget_marks();
        let uid = if let ObjectKey::Pod(uid) = without { Some(uid) } else { None };
        self.queue.rebuild(now, uid.map(|uid| &**uid));
        self.bindings.recheck_all();
        match without {
            ObjectKey::Pod(uid) => self.pod_left(now, uid, &Departure::Quarantined),
            ObjectKey::Node(name) => self.node_left(now, *name),
            _ => {}
        }
    }
}

impl TraceIds for Quarantine {
    fn mark(&self, marks: &mut Marks) {
        let Self { objects, crashers, poisoned: _, panics: _ } = self;
        objects.iter().for_each(|(key, _)| key.mark(marks));
        crashers.values().for_each(|signature| signature.mark(marks));
    }
}

#[cfg(test)]
mod recovery;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cycle::{Framework, NoProbe};
    use crate::model::effect::Lane;
    use crate::model::event::Kind;
    use crate::model::extender::{Extender, ExtenderId};
    use crate::model::intern::{Symbol, Tables};
    use crate::model::node::NodeInfo;
    use crate::model::pod::PodTemplate;
    use crate::model::resources::{PodResources, Resources};
    use crate::model::rng::Seed;
    use crate::model::selector::RequiredNodeAffinity;
    use crate::queue::QueueConfig;
    use crate::scheduler::{Config, Profile, Step};

    /// A place at which to panic.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in crate::scheduler) enum PanicPoint {
        /// While the pod is added, with the queue half changed.
        TakingIn,
        /// During the decision.
        Deciding,
    }

    impl PanicPoint {
        /// Panics if this trap is set and the pod is named `poison`.
        pub(in crate::scheduler) fn spring(self, set: Option<Self>, pod: &PodInfo) {
            assert!(set != Some(self) || &*pod.name != "poison", "a trap at {self:?}");
        }
    }

    pub(crate) fn pod(tables: &mut Tables, name: &str, cpu_milli: i64, on: Option<&str>) -> Box<PodInfo> {
        let request = Resources { cpu_milli, ..Resources::default() };
        Box::new(PodInfo {
            uid: name.into(),
            name: name.into(),
            resource_version: "1".into(),
            generation: 1,
            labels: tables.label_set(Vec::new()),
            deleting: false,
            node_name: on.map(|node| tables.symbol(node)),
            nominated_node: None,
            start_time: None,
            preempted: false,
            node_affinity: RequiredNodeAffinity::default().into(),
            claims: [].into(),
            volumes: [].into(),
            scheduled: None,
            group: None,
            template: PodTemplate {
                resources: PodResources {
                    request: request.clone(),
                    placed: request,
                    ..PodResources::default()
                },
                ..PodTemplate::plain(tables.symbol("default"), tables.symbol("default-scheduler"))
            }
            .into(),
        })
    }

    pub(crate) fn node(tables: &mut Tables, name: &str) -> Box<NodeInfo> {
        Box::new(NodeInfo {
            name: tables.symbol(name),
            labels: tables.label_set(Vec::new()),
            taints: tables.taint_set(Vec::new()),
            unschedulable: false,
            allocatable: Resources { cpu_milli: 4_000, ..Resources::default() },
            allocatable_pods: 110,
            images: [].into(),
            declared_features: [].into(),
        })
    }

    pub(in crate::scheduler) struct World {
        pub(in crate::scheduler) scheduler: Scheduler,
        pub(in crate::scheduler) now: Time,
    }

    impl World {
        pub(in crate::scheduler) fn new() -> Self {
            let now = Time::from_secs(100);
            let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
            let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
            let mut world = Self { scheduler: Scheduler::new(config, now), now };
            for kind in Kind::ALL {
                world.handle(Event::ListBegan(kind));
                world.handle(Event::ListEnded(kind));
            }
            world.handle(Event::Credits { lane: Lane::Bind, count: 9 });
            let a = node(world.scheduler.tables(), "a");
            world.handle(Event::NodeApplied(a));
            world
        }

        pub(in crate::scheduler) fn handle(&mut self, event: Event) {
            self.scheduler.handle(self.now, event);
        }

        pub(in crate::scheduler) fn pod(&mut self, name: &str, cpu_milli: i64, on: Option<&str>) {
            let pod = pod(self.scheduler.tables(), name, cpu_milli, on);
            self.handle(Event::PodApplied(pod));
        }

        /// Runs until idle, and returns all reports, notices and effects as text.
        pub(in crate::scheduler) fn run(&mut self) -> Vec<String> {
            let mut log = Vec::new();
            loop {
                match self.scheduler.step(self.now, &mut NoProbe) {
                    Step::Idle { .. } => return log,
                    Step::GroupReport(_) => {}
                    Step::Notice(notice) => log.push(format!("{}: {}", notice.object, notice.text)),
                    Step::Report(report) => log.push(format!("{}: {:?}", report.pod.name, report.outcome)),
                    Step::Effect(effect) => log.push(format!("{effect:?}")),
                }
            }
        }

        fn name(&mut self, name: &str) -> Symbol {
            self.scheduler.tables().symbol(name)
        }
    }

    #[test]
    fn object_that_panics_is_quarantined_and_others_are_processed() {
        let mut world = World::new();
        world.pod("first", 3_000, Some("a"));
        world.pod("large", 9_000, None);
        world.run();
        world.scheduler.panic_point = Some(PanicPoint::TakingIn);
        world.pod("poison", 500, None);
        world.pod("poison", 500, None);
        world.scheduler.panic_point = None;
        let log = world.run();
        assert_eq!(log.len(), 1, "{log:?}");
        assert!(log[0].starts_with("Pod default/poison: "), "{log:?}");
        assert_eq!(world.scheduler.stats().poisoned, 1);
        assert!(!world.scheduler.queue().contains("poison"));
        assert!(world.scheduler.queue().contains("large"), "who waited still waits");
        world.pod("small", 1_000, None);
        let log = world.run();
        assert!(log.iter().any(|line| line.starts_with("small: Placed")), "{log:?}");
        world.pod("other", 1_000, None);
        let log = world.run();
        assert!(log.iter().any(|line| line.contains("Insufficient cpu")), "all pods still count: {log:?}");
    }

    #[test]
    fn only_a_pending_pod_of_ours_gets_an_event_about_its_quarantine() {
        let mut world = World::new();
        world.handle(Event::Credits { lane: Lane::Record, count: 9 });
        world.scheduler.panic_point = Some(PanicPoint::TakingIn);
        let events = |log: Vec<String>| log.iter().filter(|line| line.contains("FailedScheduling")).count();
        world.pod("poison", 500, None);
        assert_eq!(events(world.run()), 1);
        for (scheduler_name, on) in [("other-scheduler", None), ("default-scheduler", Some("a"))] {
            let tables = world.scheduler.tables();
            let mut poison = pod(tables, "poison", 500, on);
            poison.template.scheduler_name = tables.symbol(scheduler_name);
            let why = "a trap";
            world.scheduler.keep_out(world.now, ObjectKey::Pod("poison".into()), Some(poison.into()), why);
            let log = world.run();
            assert_eq!((log.len(), events(log)), (1, 0), "{scheduler_name} on {on:?}: only the notice");
        }
    }

    #[test]
    fn binding_of_a_quarantined_pod_is_dropped_unless_it_was_sent() {
        for is_sent in [false, true] {
            let mut world = World::new();
            world.pod("p", 500, None);
            assert!(world.scheduler.attempt(world.now, &mut NoProbe));
            if is_sent {
                world.run();
            }
            world.scheduler.rebuild(world.now, &ObjectKey::Pod("p".into()));
            assert_eq!(world.scheduler.bindings.contains("p"), is_sent);
            assert!(world.run().iter().all(|line| !line.contains("Bind")), "nothing is sent");
        }
    }

    /// Returns a world in which a pod waits for the end of its victim.
    fn preempting() -> World {
        let mut world = World::new();
        world.pod("victim", 3_500, Some("a"));
        let mut preemptor = pod(world.scheduler.tables(), "preemptor", 3_000, None);
        preemptor.template.priority = 8;
        world.handle(Event::PodApplied(preemptor));
        world.run();
        world
    }

    #[test]
    fn quarantine_of_a_preemptor_or_of_its_node_ends_the_preemption() {
        let running = |world: &World| {
            let held = world.scheduler.held();
            held.into_iter().find(|(name, _)| *name == "preemptions").map(|(_, count)| count)
        };
        for is_node in [false, true] {
            let mut world = preempting();
            assert_eq!(running(&world), Some(1));
            let node = world.name("a");
            let key = if is_node { ObjectKey::Node(node) } else { ObjectKey::Pod("preemptor".into()) };
            world.scheduler.keep_out(world.now, key, None, "a trap");
            assert_eq!(running(&world), Some(0), "the node: {is_node}");
            assert_eq!(world.scheduler.queue().contains("preemptor"), is_node);
        }
    }

    #[test]
    fn nominations_outlive_the_quarantine_of_another_pod() {
        let mut world = preempting();
        world.pod("other", 9_000, None);
        world.scheduler.keep_out(world.now, ObjectKey::Pod("other".into()), None, "a trap");
        assert_eq!(world.scheduler.snapshot().nodes_with_nominations().len(), 1);
    }

    /// A new node with the id of an excluded one would be excluded.
    #[test]
    fn excluded_node_keeps_its_id() {
        let mut world = World::new();
        let excluded = ObjectKey::Node(world.name("poison"));
        world.scheduler.keep_out(world.now, excluded, None, "a trap");
        world.name("unreferenced");
        while world.scheduler.collect_ids_by(usize::MAX) == 0 {}
        for name in ["b", "c", "d"] {
            let node = node(world.scheduler.tables(), name);
            world.handle(Event::NodeApplied(node));
        }
        assert_eq!(world.scheduler.snapshot().node_count(), 4);
    }

    #[test]
    fn quarantine_ends_on_a_change_after_five_minutes_or_on_recreation() {
        let mut world = World::new();
        world.scheduler.panic_point = Some(PanicPoint::TakingIn);
        world.pod("poison", 500, None);
        world.scheduler.panic_point = None;
        world.run();
        world.pod("poison", 500, None);
        assert!(!world.scheduler.queue().contains("poison"));
        world.now = world.now + QUARANTINE;
        world.pod("poison", 500, None);
        assert!(world.scheduler.queue().contains("poison"));
        world.scheduler.panic_point = Some(PanicPoint::TakingIn);
        world.pod("poison", 500, Some("a"));
        world.scheduler.panic_point = None;
        world.handle(Event::Gone(ObjectKey::Pod("poison".into())));
        world.pod("poison", 500, None);
        assert!(world.scheduler.queue().contains("poison"));
    }

    #[test]
    fn decision_with_extenders_that_panics_fails_its_attempt() {
        let mut world = World::new();
        let extender = Extender {
            id: ExtenderId(0),
            url: "http://one".into(),
            filters: true,
            prioritizes: false,
            preempts: false,
            binds: false,
            weight: 1,
            ignorable: false,
            managed: [].into(),
        };
        world.scheduler.set_extenders(vec![extender]);
        world.scheduler.panic_point = Some(PanicPoint::Deciding);
        world.pod("poison", 500, None);
        let mut steps = (0..9).map(|_| world.scheduler.step(world.now, &mut NoProbe));
        let report = steps.find_map(|step| if let Step::Report(report) = step { Some(report) } else { None });
        let outcome = format!("{:?}", report.expect("the attempt ends").outcome);
        assert!(outcome.contains("the decision panicked"), "{outcome}");
    }

    #[test]
    fn pod_with_three_panicked_decisions_is_excluded_until_it_changes() {
        let mut world = World::new();
        world.scheduler.panic_point = Some(PanicPoint::Deciding);
        world.pod("poison", 500, None);
        let mut log = world.run();
        for _ in 0..60 {
            world.now = world.now + Duration::from_secs(10);
            log.extend(world.run());
        }
        let attempts = log.iter().filter(|line| line.contains("the decision panicked")).count();
        assert_eq!(attempts, 3, "{log:?}");
        assert!(log[2].contains("waits until it changes"), "{log:?}");
        assert!(world.scheduler.held().contains(&("pods held back", 1)));
        world.scheduler.panic_point = None;
        let mut same = pod(world.scheduler.tables(), "poison", 500, None);
        same.resource_version = "2".into();
        world.handle(Event::PodApplied(same));
        assert!(world.run().is_empty(), "another version of the same is no change");
        let mut changed = pod(world.scheduler.tables(), "poison", 500, None);
        changed.labels = {
            let pair = (world.name("app"), world.name("web"));
            world.scheduler.tables().label_set(vec![pair])
        };
        world.handle(Event::PodApplied(changed));
        let log = world.run();
        assert!(log[0].starts_with("poison: Placed"), "{log:?}");
        assert_eq!(world.scheduler.stats().panics, 3);
    }

    #[test]
    fn deleted_pod_is_not_held_back_any_more() {
        let mut world = World::new();
        world.scheduler.panic_point = Some(PanicPoint::Deciding);
        world.pod("poison", 500, None);
        for _ in 0..60 {
            world.run();
            world.now = world.now + Duration::from_secs(10);
        }
        assert!(world.scheduler.held().contains(&("pods held back", 1)));
        world.handle(Event::Gone(ObjectKey::Pod("poison".into())));
        assert!(world.scheduler.held().contains(&("pods held back", 0)));
    }
}
