//! Property test: two engines that differ only in their hash seeds produce identical output.

mod support;

use proptest::prelude::*;
use std::sync::Arc;
use supercargo_core::collections::hash::HashSeed;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::effect::Effect;
use supercargo_core::model::event::{BindOutcome, Event, EvictOutcome, ObjectKey};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::QueueConfig;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use support::{arrival, begin};

const NODES: [&str; 5] = [
    "zone=z1 cpu=4 pods=5",
    "zone=z2 cpu=2 label:disk=ssd",
    "zone=z3 cpu=4 taint=gpu:NoSchedule",
    "zone=z1 cpu=1",
    "cpu=8 unschedulable",
];
const PODS: [&str; 14] = [
    "cpu=1 label:app=web",
    "cpu=1 label:app=db priority=5",
    "cpu=3 priority=9",
    "cpu=9",
    "cpu=1 port=80",
    "cpu=1 label:app=web anti=host/app=web",
    "cpu=1 label:app=web affinity=zone/app=web",
    "cpu=1 label:app=db spread=zone/1/DoNotSchedule/app=db",
    "cpu=1 tolerate=gpu",
    "cpu=1 select:disk=ssd",
    "cpu=1 claim=c",
    "cpu=2 ns=other label:app=web",
    "cpu=1 require=zone:in:z1 priority=3",
    "cpu=1 label:odd=yes",
];
const STORAGE: [&str; 4] =
    ["class fast", "pv v class=fast", "pvc c class=fast", "pvc c class=fast bound=v version=2"];

#[derive(Clone, Copy, Debug)]
enum Change {
    Node(usize, usize),
    Pod(usize, usize),
    Placed(usize, usize, usize),
    Storage(usize),
    Gone(usize),
    NodeGone(usize),
    Later,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (0..6usize, 0..NODES.len()).prop_map(|(at, what)| Change::Node(at, what)),
        9 => (0..30usize, 0..PODS.len()).prop_map(|(at, what)| Change::Pod(at, what)),
        3 => (30..40usize, 0..PODS.len(), 0..6usize).prop_map(|(at, what, on)| Change::Placed(at, what, on)),
        1 => (0..STORAGE.len()).prop_map(Change::Storage),
        3 => (0..40usize).prop_map(Change::Gone),
        1 => (0..6usize).prop_map(Change::NodeGone),
        2 => Just(Change::Later),
    ]
}

/// Returns everything that an engine with these tables does for the changes.
fn run(changes: &[Change], tables: Tables) -> Vec<String> {
    let mut now = Time::from_secs(100);
    let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
    let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
    let mut scheduler = Scheduler::with_tables(config, tables, now);
    begin(&mut scheduler, now, 10_000);
    let mut log = Vec::new();
    for change in changes {
        let line = match *change {
            Change::Node(at, what) => format!("node n{at} {}", NODES[what]),
            Change::Pod(at, what) => format!("pod p{at} {}", PODS[what]),
            Change::Placed(at, what, on) => format!("pod p{at} {} on=n{on}", PODS[what]),
            Change::Storage(what) => STORAGE[what].to_owned(),
            Change::Gone(_) | Change::NodeGone(_) | Change::Later => String::new(),
        };
        match *change {
            Change::Gone(at) => {
                scheduler.handle(now, Event::Gone(ObjectKey::Pod(format!("p{at}").as_str().into())));
            }
            Change::NodeGone(at) => {
                let name = scheduler.tables().symbol(&format!("n{at}"));
                scheduler.handle(now, Event::Gone(ObjectKey::Node(name)));
            }
            Change::Later => now = now + std::time::Duration::from_secs(7),
            _ => {
                let event = arrival(scheduler.tables(), &line);
                scheduler.handle(now, event);
            }
        }
        settle(&mut scheduler, now, &mut log);
        scheduler.collect_ids();
    }
    let pending = scheduler.pending().map(|pending| format!("{:?} {:?}", pending.pod().uid, pending.at));
    log.extend(pending.collect::<Vec<_>>());
    let groups = scheduler.stats().queue;
    log.push(format!("{:?} {:?} {}", groups.pending, groups.incoming, groups.groups));
    log
}

/// Runs until idle. Every second binding is rejected, and all victims are deleted.
fn settle(scheduler: &mut Scheduler, now: Time, log: &mut Vec<String>) {
    loop {
        let step = scheduler.step(now, &mut NoProbe);
        log.push(format!("{step:?}"));
        match step {
            Step::Idle { .. } => return,
            Step::Effect(Effect::Bind { pod, .. }) => {
                let outcome = match log.len() % 4 {
                    0 => BindOutcome::Refused { message: "no".to_owned() },
                    1 => BindOutcome::Unknown { message: "lost".to_owned() },
                    _ => BindOutcome::Accepted,
                };
                scheduler.handle(now, Event::BindFinished { uid: Arc::clone(&pod.uid), outcome });
            }
            Step::Effect(Effect::Evict(eviction)) => {
                let uid = Arc::clone(&eviction.pod.uid);
                scheduler.handle(now, Event::EvictFinished { uid, outcome: EvictOutcome::Deleted });
            }
            Step::Effect(_) | Step::Report(_) | Step::GroupReport(_) | Step::Notice(_) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn hash_seed_changes_no_effect_and_no_report(
        changes in prop::collection::vec(change(), 1..120),
        seeds in any::<[u64; 2]>(),
    ) {
        let unseeded = run(&changes, Tables::new());
        for seed in seeds {
            prop_assert_eq!(&unseeded, &run(&changes, Tables::seeded(HashSeed(seed))));
        }
    }
}
