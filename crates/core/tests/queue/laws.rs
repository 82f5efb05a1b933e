//! Invariants of the queue after any sequence of operations. Single operations are tested in `main.rs`.

use super::{FIT, GATES, NODE_ADD, PROFILE, TAINTS, at, pod, rejected_by};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::framework::{ClusterEvent, Hint, PluginName, PodAction};
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::time::Time;
use supercargo_core::queue::{QueueConfig, QueuedPod, SchedulingQueue, SubQueue};

/// Few pods and priorities, so that operations hit the same pod and ranks tie.
const PODS: u8 = 7;

/// The operations. Numbers are taken modulo the number of choices.
#[derive(Clone, Debug)]
enum Op {
    Add { pod: u8, gated: bool },
    Update { pod: u8, gated: bool, helps: bool },
    Remove { pod: u8 },
    Pop,
    Reject { held: usize, by: u8, gated: bool },
    Fail { held: usize },
    Activate { held: usize, gated: bool },
    Schedule { held: usize },
    Move { wakes: PluginName },
    Wait { millis: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let millis = prop_oneof![0..300_u64, Just(1000), 0..3000_u64, 0..400_000_u64];
    prop_oneof![
        4 => (0..PODS, prop::bool::weighted(0.2)).prop_map(|(pod, gated)| Op::Add { pod, gated }),
        2 => (0..PODS, prop::bool::weighted(0.2), any::<bool>())
            .prop_map(|(pod, gated, helps)| Op::Update { pod, gated, helps }),
        1 => (0..PODS).prop_map(|pod| Op::Remove { pod }),
        6 => Just(Op::Pop),
        4 => (any::<usize>(), 0..4_u8, prop::bool::weighted(0.1))
            .prop_map(|(held, by, gated)| Op::Reject { held, by, gated }),
        2 => any::<usize>().prop_map(|held| Op::Fail { held }),
        1 => (any::<usize>(), prop::bool::weighted(0.2))
            .prop_map(|(held, gated)| Op::Activate { held, gated }),
        1 => any::<usize>().prop_map(|held| Op::Schedule { held }),
        3 => prop_oneof![Just(FIT), Just(TAINTS)].prop_map(|wakes| Op::Move { wakes }),
        4 => millis.prop_map(|millis| Op::Wait { millis }),
    ]
}

fn uid(number: u8) -> String {
    format!("p{number}")
}

/// The queue with its expected contents.
struct QueueModel {
    queue: SchedulingQueue,
    now: Time,
    /// Uids of the pods in the queue.
    inside: BTreeSet<String>,
    /// Pods that the caller has popped.
    held: Vec<QueuedPod>,
}

impl QueueModel {
    fn new() -> Self {
        let now = at(0.25);
        let queue = SchedulingQueue::new(QueueConfig::default(), now);
        Self { queue, now, inside: BTreeSet::new(), held: Vec::new() }
    }

    fn apply(&mut self, op: &Op) {
        let now = self.now;
        match *op {
            Op::Add { pod: number, gated } => {
                self.queue.add(now, numbered(number), gated.then_some(GATES));
                self.inside.insert(uid(number));
            }
            Op::Update { pod: number, gated, helps } => {
                let new = numbered(number);
                let action = PodAction::UpdateLabel;
                let events = [ClusterEvent::OwnPod { action, old: &new, new: &new }];
                let wakes = &mut |_: &ClusterEvent<'_>, _, _: &PodInfo| Hint::queue_if(helps);
                self.queue.update(now, numbered(number), gated.then_some(GATES), &events, wakes);
                self.inside.insert(uid(number));
            }
            Op::Remove { pod: number } => {
                assert_eq!(self.queue.remove(&uid(number)), self.inside.remove(&uid(number)));
            }
            Op::Pop => self.pop(),
            Op::Reject { held, by, gated } => {
                let Some(pod) = self.give_back(held) else { return };
                let plugins = [FIT, TAINTS].iter().enumerate().filter(|(bit, _)| by & (1 << bit) != 0);
                let plugins: Vec<PluginName> = plugins.map(|(_, plugin)| *plugin).collect();
                let gate = gated.then_some(GATES);
                self.queue.return_unschedulable(now, pod, rejected_by(&plugins), gate);
            }
            Op::Fail { held } => {
                let Some(pod) = self.give_back(held) else { return };
                self.queue.return_error(now, pod);
            }
            Op::Activate { held, gated } => {
                let Some(pod) = self.give_back(held) else { return };
                self.queue.activate(now, pod, gated.then_some(GATES));
            }
            Op::Schedule { held } => {
                if !self.held.is_empty() {
                    self.held.swap_remove(held % self.held.len());
                }
            }
            Op::Move { wakes } => {
                self.queue
                    .move_all(now, &NODE_ADD, &|_| true, &mut |plugin, _| Hint::queue_if(plugin == wakes));
            }
            Op::Wait { millis } => {
                self.now = now + Duration::from_millis(millis);
                self.queue.tick(self.now);
            }
        }
    }

    fn give_back(&mut self, held: usize) -> Option<QueuedPod> {
        if self.held.is_empty() {
            return None;
        }
        let pod = self.held.swap_remove(held % self.held.len());
        self.inside.insert(pod.pod.uid.to_string());
        Some(pod)
    }

    /// Pops a pod, and checks that no other pod should have been first.
    fn pop(&mut self) {
        self.queue.tick(self.now);
        let at_place = |wanted| self.queue.waiting().filter(move |(place, _)| *place == wanted);
        let first_active = at_place(SubQueue::Active).map(|(_, pod)| rank(pod)).min();
        let first_early = at_place(SubQueue::Backoff)
            .filter(|(_, pod)| pod.consecutive_errors == 0)
            .map(|(_, pod)| (expiry(pod), rank(pod)))
            .min();
        let Some(popped) = self.queue.pop(self.now) else {
            assert_eq!((first_active, first_early), (None, None), "what can be tried is given out");
            return;
        };
        match (first_active, first_early) {
            (Some(first), _) => assert_eq!(rank(&popped), first),
            (None, first) => assert_eq!(Some((expiry(&popped), rank(&popped))), first),
        }
        assert_eq!(popped.gate, None, "a gated pod is never popped");
        if popped.consecutive_errors > 0 {
            let expired = expiry(&popped).is_some_and(|expiry| expiry < self.now.truncate_to_second());
            assert!(expired, "an error's backoff is served");
        }
        assert!(popped.initial_attempt.is_some_and(|first| first <= self.now));
        assert!(self.inside.remove(&*popped.pod.uid), "no pod is popped twice");
        self.held.push(popped);
    }

    fn check(&self) {
        let waiting: Vec<(SubQueue, &QueuedPod)> = self.queue.waiting().collect();
        let uids: BTreeSet<String> = waiting.iter().map(|(_, pod)| pod.pod.uid.to_string()).collect();
        assert_eq!(uids.len(), waiting.len(), "each pod is in one place");
        assert_eq!(uids, self.inside, "every added and not removed pod is in the queue");
        assert_eq!(self.queue.len(), uids.len());
        let active = waiting.iter().filter(|(place, _)| *place == SubQueue::Active);
        assert!(active.map(|(_, pod)| rank(pod)).is_sorted(), "the active queue is in order");

        let mut unschedulable_count = BTreeMap::new();
        for (place, pod) in &waiting {
            let found = self.queue.get(&pod.pod.uid).expect("a waiting pod is found");
            assert!(std::ptr::eq(found, *pod), "and its place is known");
            assert_eq!(*place == SubQueue::Gated, pod.gate.is_some());
            assert!(*place != SubQueue::Unschedulable || !pod.rejectors.is_empty(), "someone can wake it");
            for plugin in &pod.rejectors {
                *unschedulable_count.entry((*plugin, PROFILE)).or_insert(0) += 1;
            }
        }
        let mut stats = self.queue.stats();
        stats.unschedulable.retain(|_, count| *count > 0);
        assert_eq!(stats.unschedulable, unschedulable_count);
        let unschedulable = waiting.iter().filter(|(place, _)| *place == SubQueue::Unschedulable);
        let alike: BTreeSet<_> = unschedulable.map(|(_, pod)| (pod.pod.priority, &pod.rejectors)).collect();
        assert_eq!(stats.groups, alike.len(), "pods that wait for the same are one group");
        for place in SubQueue::ALL {
            assert_eq!(stats.pending[&place], waiting.iter().filter(|(at, _)| *at == place).count());
        }
        self.check_due();
    }

    /// Checks that no pod is overdue, and that every pod that waits for a time has a future wake-up.
    fn check_due(&self) {
        let wakeup = self.queue.next_wakeup(self.now);
        for (place, pod) in self.queue.waiting() {
            match place {
                SubQueue::Backoff => {
                    let end = expiry(pod).expect("only a failure backs off") + Duration::from_secs(1);
                    assert!(end > self.now && wakeup.is_some_and(|wakeup| wakeup <= end));
                }
                SubQueue::Unschedulable => {
                    assert!(self.now.since(pod.timestamp) <= Duration::from_secs(330));
                    assert!(wakeup.is_some_and(|wakeup| wakeup.since(self.now) <= Duration::from_secs(30)));
                }
                SubQueue::Active | SubQueue::Gated => {}
            }
        }
    }

    /// Returns all pods with their places, in order.
    fn layout(&self) -> Vec<(SubQueue, String)> {
        self.queue.waiting().map(|(place, pod)| (place, pod.pod.uid.to_string())).collect()
    }
}

fn numbered(number: u8) -> Arc<PodInfo> {
    pod(&uid(number), i32::from(number % 3) - 1)
}

/// The order of PrioritySort: the lowest is first.
fn rank(pod: &QueuedPod) -> (i64, Time) {
    (-i64::from(pod.pod.priority), pod.timestamp)
}

/// Returns the second in which a backoff of 1, 2, 4, 8, 10, 10, … seconds expires.
fn expiry(pod: &QueuedPod) -> Option<Time> {
    let errors = pod.consecutive_errors;
    let failures = if errors > 0 { errors } else { pod.unschedulable_count };
    let seconds = [1, 2, 4, 8].get(failures.checked_sub(1)? as usize).copied().unwrap_or(10);
    Some((pod.timestamp + Duration::from_secs(seconds)).truncate_to_second())
}

proptest! {
    #[test]
    fn no_pod_is_lost_or_popped_out_of_order(ops in prop::collection::vec(op(), 1..120)) {
        let mut cluster = QueueModel::new();
        for op in &ops {
            cluster.apply(op);
            cluster.check();
        }
    }

    #[test]
    fn queue_changes_at_the_next_wakeup_and_not_before(
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut cluster = QueueModel::new();
        for op in &ops {
            cluster.apply(op);
        }
        for _ in 0..8 {
            let Some(wakeup) = cluster.queue.next_wakeup(cluster.now) else { break };
            prop_assert!(wakeup > cluster.now, "a wake-up that is over keeps the driver spinning");
            let before = cluster.layout();
            cluster.queue.tick(Time::from_nanos(wakeup.as_nanos() - 1));
            prop_assert_eq!(&cluster.layout(), &before);
            cluster.now = wakeup;
            cluster.queue.tick(wakeup);
            let moved = cluster.layout() != before;
            prop_assert!(moved || cluster.queue.next_wakeup(wakeup) != Some(wakeup));
            cluster.check();
        }
    }

    #[test]
    fn same_operations_give_the_same_order(ops in prop::collection::vec(op(), 1..60)) {
        let mut clusters = [QueueModel::new(), QueueModel::new()];
        for op in &ops {
            for cluster in &mut clusters {
                cluster.apply(op);
            }
            prop_assert_eq!(clusters[0].layout(), clusters[1].layout());
            prop_assert_eq!(clusters[0].queue.stats(), clusters[1].queue.stats());
        }
    }

    #[test]
    fn every_ungated_pod_is_popped_eventually(ops in prop::collection::vec(op(), 1..60)) {
        let mut cluster = QueueModel::new();
        for op in &ops {
            cluster.apply(op);
        }
        let gated = cluster.queue.stats().pending[&SubQueue::Gated];
        let deadline = cluster.now + Duration::from_secs(330);
        while let Some(wakeup) = cluster.queue.next_wakeup(cluster.now)
            && wakeup <= deadline
        {
            cluster.now = wakeup;
            cluster.queue.tick(wakeup);
        }
        while cluster.queue.pop(cluster.now).is_some() {}
        prop_assert_eq!(cluster.queue.len(), gated);
    }
}
