//! What the engine keeps and reports about groups.

mod support;

use std::collections::BTreeMap;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::effect::Effect;
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::event::{BindOutcome, Event, Kind, ObjectKey};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::{QueueConfig, SubQueue};
use supercargo_core::scheduler::{Config, GroupEntries, Profile, Scheduler, Step};
use support::{arrival, begin, groups};

const NOW: Time = Time::from_secs(100);

struct World {
    scheduler: Scheduler,
    now: Time,
}

impl World {
    fn new() -> Self {
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
        let mut scheduler = Scheduler::new(config, NOW);
        begin(&mut scheduler, NOW, 1_000);
        groups::act(&mut scheduler, NOW, "gates", &["GenericWorkload", "GangScheduling"]);
        Self { scheduler, now: NOW }
    }

    /// Handles an object in the cluster language.
    fn apply(&mut self, line: &str) {
        match line.strip_prefix("group ") {
            Some(words) => {
                let words: Vec<&str> = words.split(' ').collect();
                groups::act(&mut self.scheduler, self.now, "group", &words);
            }
            None => {
                let event = arrival(self.scheduler.tables(), line);
                self.scheduler.handle(self.now, event);
            }
        }
    }

    fn gone(&mut self, pod: &str) {
        self.scheduler.handle(self.now, Event::Gone(ObjectKey::Pod(pod.into())));
    }

    fn group_gone(&mut self, name: &str) {
        let key = groups::group(self.scheduler.tables(), &[name]).key;
        self.scheduler.handle(self.now, Event::Gone(ObjectKey::PodGroup(key)));
    }

    /// Runs until idle, and accepts bindings. Returns the time at which the engine is to be called again.
    fn run(&mut self) -> Option<Time> {
        loop {
            match self.scheduler.step(self.now, &mut NoProbe) {
                Step::Effect(Effect::Bind { pod, .. }) => {
                    let outcome = BindOutcome::Accepted;
                    self.scheduler.handle(self.now, Event::BindFinished { uid: pod.uid, outcome });
                }
                Step::Idle { wake_at } => return wake_at,
                _ => {}
            }
        }
    }

    /// Returns what is kept about groups, without what is not.
    fn held(&self) -> Vec<(&'static str, usize)> {
        let held = self.scheduler.held().into_iter();
        held.filter(|(name, count)| name.contains("group") && *count > 0).collect()
    }
}

#[test]
fn groups_that_run_with_too_few_members_are_counted() {
    let mut world = World::new();
    world.apply("node a cpu=9 pods=20");
    let below = |world: &mut World| {
        world.run();
        world.scheduler.stats().groups.below_min_count
    };
    for line in [
        "group waits min=2",
        "pod w1 cpu=1 group=waits",
        "group exact min=2",
        "pod e1 cpu=1 group=exact on=a",
        "pod e2 cpu=1 group=exact on=a",
        "group more min=1",
        "pod m1 cpu=1 group=more on=a",
        "pod m2 cpu=1 group=more on=a",
    ] {
        world.apply(line);
    }
    assert_eq!(below(&mut world), 0, "one has not started, and two have enough members");
    world.gone("e1");
    assert_eq!(below(&mut world), 1);
    world.apply("group third min=2");
    world.apply("pod t1 cpu=1 group=third on=a");
    world.apply("pod t2 cpu=1 group=third on=a");
    world.run();
    world.gone("t1");
    assert_eq!(below(&mut world), 2);
}

#[test]
fn nothing_is_kept_about_a_group_without_members_and_podgroup() {
    let mut world = World::new();
    world.apply("node a cpu=2");
    world.apply("node b cpu=2");
    world.apply("pod old cpu=2 on=b");
    for line in [
        "group first min=2 start-within=1m reserve=true",
        "group runs min=1",
        "group late min=2 start-within=1s",
    ] {
        world.apply(line);
    }
    for line in [
        "pod p cpu=2 group=first created=100",
        "pod q cpu=2 group=first created=100",
        "pod r cpu=0 group=runs created=100",
        "pod s cpu=2 group=late created=90",
        "pod t cpu=2 group=late created=90",
    ] {
        world.apply(line);
    }
    world.run();
    let expected = [
        ("members of groups", 5),
        ("groups that keep nodes", 1),
        ("groups with members", 3),
        ("groups with progress", 1),
        ("conditions of groups", 3),
        ("time limits of groups", 1),
        ("groups given up", 1),
    ];
    assert_eq!(world.held(), expected);
    ["p", "q", "r", "s", "t"].into_iter().for_each(|pod| world.gone(pod));
    world.run();
    // The conditions may still be sent again, and the PodGroup may get members.
    assert_eq!(world.held(), [("groups with progress", 1), ("conditions of groups", 3)]);
    ["first", "runs", "late"].into_iter().for_each(|group| world.group_gone(group));
    world.run();
    assert_eq!(world.held(), []);
}

/// The last member may leave before or after the PodGroup.
#[test]
fn a_group_that_ran_is_forgotten_with_its_last_member_after_its_podgroup() {
    let mut world = World::new();
    world.apply("node a cpu=2");
    world.apply("group g min=1");
    world.apply("pod p cpu=1 group=g");
    world.run();
    world.apply("pod p cpu=1 group=g on=a");
    world.group_gone("g");
    world.run();
    assert_eq!(
        world.held(),
        [("members of groups", 1), ("groups with members", 1), ("groups with progress", 1)]
    );
    world.gone("p");
    world.run();
    assert_eq!(world.held(), []);
}

#[test]
fn engine_asks_to_be_called_when_a_condition_that_was_sent_counts_as_lost() {
    let mut world = World::new();
    world.apply("node a cpu=2");
    world.apply("group g min=1");
    world.apply("pod p cpu=1 group=g");
    world.run();
    assert_eq!(world.run(), Some(Time::from_secs(110)), "the watch has not shown it");
    world.apply("group g min=1 scheduled");
    assert_eq!(world.run(), None);
}

#[test]
fn kinds_are_awaited_until_their_first_list_is_complete() {
    let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
    let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
    let mut scheduler = Scheduler::new(config, NOW);
    assert!(scheduler.profiles().map(|profile| profile.name.as_str()).eq(["default-scheduler"]));
    let mut left: Vec<Kind> = Kind::watched(false).collect();
    while let Some(kind) = left.pop() {
        scheduler.handle(NOW, Event::ListBegan(kind));
        assert!(scheduler.awaited_kinds().any(|awaited| awaited == kind));
        scheduler.handle(NOW, Event::ListEnded(kind));
        assert!(scheduler.awaited_kinds().eq(left.iter().copied()));
    }
    assert!(scheduler.awaited_kinds().next().is_none());
}

#[test]
fn groups_are_counted_as_entries_of_the_queue_from_1_37_on() {
    let world = |version: EmulatedVersion, gates: &[&str]| {
        let mut world = World::new();
        world.scheduler.tables().emulate(version);
        groups::act(&mut world.scheduler, world.now, "gates", gates);
        world
    };
    let entries = |world: &World| world.scheduler.stats().groups.entries;
    let mut queues_groups = world(EmulatedVersion::V1_37, &["GenericWorkload"]);
    queues_groups.apply("group g min=2");
    queues_groups.apply("pod p cpu=1 group=g");
    queues_groups.run();
    let gated = BTreeMap::from([(SubQueue::Gated, 1)]);
    let expected = GroupEntries { groups: gated.clone(), members: gated, incomplete: 0 };
    assert_eq!(entries(&queues_groups), Some(expected));
    assert_eq!(entries(&world(EmulatedVersion::V1_37, &[])), None);
    assert_eq!(entries(&world(EmulatedVersion::V1_36, &["GenericWorkload"])), None);
}

#[test]
fn terminating_member_that_a_list_omits_is_forgotten() {
    let mut world = World::new();
    world.apply("group g min=2");
    world.apply("pod p cpu=1 group=g deleting");
    world.run();
    assert!(world.held().contains(&("members of groups", 1)), "{:?}", world.held());
    world.scheduler.handle(world.now, Event::ListBegan(Kind::Pod));
    world.scheduler.handle(world.now, Event::ListEnded(Kind::Pod));
    world.run();
    assert_eq!(world.held(), []);
}

#[test]
fn engine_asks_to_be_called_when_the_time_of_a_group_ends() {
    let mut world = World::new();
    world.apply("group g min=2 start-within=1m");
    world.apply("pod p cpu=1 group=g created=100");
    assert_eq!(world.run(), Some(Time::from_secs(160)));
    world.now = Time::from_secs(160);
    world.run();
    assert!(world.held().contains(&("groups given up", 1)), "{:?}", world.held());
}
