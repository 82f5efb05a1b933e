//! Panics of plugins in queueing hints and comparisons are counted, and cost only a retry or the cached results.

use crate::cache::{NodeView, Snapshot};
use crate::cycle::{EnabledFilter, Rank};
use crate::framework::{
    ClusterEvent, DependsOn, EventSet, FilterRule, Hint, NodeFilterPlugin, PluginName, Prepared, Rejection,
    Verdict,
};
use crate::model::device::DeviceClass;
use crate::model::event::Event;
use crate::model::node_pod::NodePod;
use crate::model::pod::PodInfo;
use crate::queue::SubQueue;
use crate::scheduler::quarantine::tests::{World, pod};
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static BEHAVIOR: Cell<Behavior> = const { Cell::new(Behavior::Accepts) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Behavior {
    Accepts,
    Rejects,
    Panics,
}

/// A filter that accepts, rejects or panics as [`BEHAVIOR`] says.
struct Scripted;

impl NodeFilterPlugin for Scripted {
    fn name(&self) -> PluginName {
        "Scripted"
    }

    fn prepare(&self, _pod: NodePod<'_>, _snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        assert!(BEHAVIOR.get() != Behavior::Panics, "as the test asks");
        Prepared::Run { rule: Box::new(Self), only: None }
    }

    fn events(&self) -> EventSet {
        EventSet::DEVICE_CLASS
    }

    fn hint(&self, _event: &ClusterEvent<'_>, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Hint {
        assert!(BEHAVIOR.get() != Behavior::Panics, "as the test asks");
        Hint::Skip
    }
}

impl FilterRule for Scripted {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeSpec
    }

    fn check(&self, _node: &NodeView<'_>) -> Verdict {
        match BEHAVIOR.get() {
            Behavior::Rejects => Verdict::Rejected(Rejection::unschedulable("as the test asks")),
            Behavior::Accepts | Behavior::Panics => Verdict::Fits,
        }
    }
}

fn world() -> World {
    let mut world = World::new();
    world.scheduler.profiles[0].1.framework.filters.push(EnabledFilter {
        plugin: Box::new(Scripted),
        pre_filter: true,
        filter: Some(Rank { rank: 0, fails: None }),
        reserve: None,
    });
    world.scheduler.verify_decisions(None);
    world
}

fn world_with_rejected_pod() -> World {
    BEHAVIOR.set(Behavior::Rejects);
    let mut world = world();
    world.pod("p", 100, None);
    world.run();
    world
}

#[test]
fn comparison_that_panics_evicts_all_cached_decisions() {
    BEHAVIOR.set(Behavior::Accepts);
    let mut world = world();
    world.pod("p", 100, None);
    world.run();
    world.now = world.now + Duration::from_secs(1);
    BEHAVIOR.set(Behavior::Panics);
    let (mut cursor, now) = (0, world.now);
    assert!(world.scheduler.verify_one(now, &mut cursor, now));
    let log = world.run();
    assert!(
        log[0].contains("checking the cached decision for pods like it panicked: as the test asks"),
        "{log:?}"
    );
    assert_eq!((world.scheduler.stats().panics, world.scheduler.stats().verified), (1, [0, 0]));
    assert!(world.scheduler.decisions.is_empty());
}

#[test]
fn hint_that_panics_requeues_the_updated_pod() {
    let mut world = world_with_rejected_pod();
    let place = |world: &World| world.scheduler.queue().sub_queue_of("p").map(|(place, _)| place);
    assert_eq!(place(&world), Some(SubQueue::Unschedulable));
    let update = |world: &mut World, key: &str| {
        let mut changed = pod(world.scheduler.tables(), "p", 100, None);
        let key = world.scheduler.tables().symbol(key);
        changed.labels = world.scheduler.tables().label_set(vec![(key, key)]);
        world.handle(Event::PodApplied(changed));
    };
    update(&mut world, "x");
    assert_eq!((place(&world), world.scheduler.stats().panics), (Some(SubQueue::Unschedulable), 0));
    BEHAVIOR.set(Behavior::Panics);
    update(&mut world, "y");
    assert_eq!((place(&world), world.scheduler.stats().panics), (Some(SubQueue::Backoff), 1));
}

#[test]
fn hint_that_panics_requeues_the_rejected_pod_on_an_event() {
    let mut world = world_with_rejected_pod();
    let apply_class = |world: &mut World, name: &str| {
        let name = world.scheduler.tables().symbol(name);
        let class = DeviceClass {
            implicit: name,
            explicit: None,
            created: None,
            selectors: [].into(),
            config: [].into(),
        };
        world.handle(Event::DeviceClassApplied { name, class: class.into() });
        let place = world.scheduler.queue().sub_queue_of("p").map(|(place, _)| place);
        (place, world.scheduler.stats().panics)
    };
    assert_eq!(apply_class(&mut world, "x"), (Some(SubQueue::Unschedulable), 0));
    BEHAVIOR.set(Behavior::Panics);
    assert_eq!(apply_class(&mut world, "y"), (Some(SubQueue::Backoff), 1));
}
