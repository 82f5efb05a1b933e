//! Tests of the scheduling queue, rule by rule. Property tests are in `laws.rs`.

mod conditional_pop;
mod groups;
mod laws;
mod next_attempt;
mod suspended;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::framework::{ClusterEvent, Hint, NodeAction, PluginName, PodAction};
use supercargo_core::model::emulation::VersionRules;
use supercargo_core::model::intern::{Symbol, Tables, known};
use supercargo_core::model::pod::{PodInfo, PodTemplate};
use supercargo_core::model::selector::RequiredNodeAffinity;
use supercargo_core::model::time::Time;
use supercargo_core::queue::{QueueConfig, QueuedPod, SchedulingQueue, SubQueue};

const FIT: PluginName = "NodeResourcesFit";
const TAINTS: PluginName = "TaintToleration";
const GATES: PluginName = "SchedulingGates";
const PROFILE: Symbol = known::EMPTY;
const NODE_ADD: ClusterEvent<'_> = ClusterEvent::Node { action: NodeAction::Add, old: None, new: None };
const NODE_TAINT: ClusterEvent<'_> =
    ClusterEvent::Node { action: NodeAction::UpdateTaint, old: None, new: None };

/// The start time: a whole second.
const START: u64 = 1_000_000;

fn at(seconds: f64) -> Time {
    Time::from_secs(START) + Duration::from_millis((seconds * 1000.0).round() as u64)
}

fn pod(uid: &str, priority: i32) -> Arc<PodInfo> {
    Arc::new(PodInfo {
        uid: uid.into(),
        name: uid.into(),
        resource_version: "1".into(),
        generation: 1,
        labels: Tables::new().label_set(Vec::new()),
        deleting: false,
        node_name: None,
        nominated_node: None,
        start_time: None,
        preempted: false,
        node_affinity: RequiredNodeAffinity::default().into(),
        volumes: [].into(),
        claims: [].into(),
        scheduled: None,
        group: None,
        template: PodTemplate { priority, ..PodTemplate::plain(known::EMPTY, PROFILE) }.into(),
    })
}

fn newer(pod: &Arc<PodInfo>) -> Arc<PodInfo> {
    Arc::new(PodInfo { resource_version: "2".into(), ..(**pod).clone() })
}

fn queue() -> SchedulingQueue {
    SchedulingQueue::new(QueueConfig::default(), at(0.0))
}

fn rejected_by(plugins: &[PluginName]) -> BTreeSet<PluginName> {
    plugins.iter().copied().collect()
}

/// Adds a pod that is rejected at the same time.
fn reject_new(queue: &mut SchedulingQueue, now: Time, uid: &str, priority: i32, plugins: &[PluginName]) {
    queue.add(now, pod(uid, priority), None);
    let popped = pop(queue, now, uid);
    queue.return_unschedulable(now, popped, rejected_by(plugins), None);
}

/// Pops, and checks the pod.
fn pop(queue: &mut SchedulingQueue, now: Time, uid: &str) -> QueuedPod {
    let popped = queue.pop(now).expect("a pod waits");
    assert_eq!(&*popped.pod.uid, uid);
    popped
}

fn place(queue: &SchedulingQueue, uid: &str) -> Option<SubQueue> {
    queue.waiting().find(|(_, queued)| &*queued.pod.uid == uid).map(|(place, _)| place)
}

fn incoming(queue: &SchedulingQueue, place: SubQueue, event: &'static str) -> u64 {
    queue.stats().incoming.get(&(place, event)).copied().unwrap_or(0)
}

fn unschedulable_count(queue: &SchedulingQueue, plugin: PluginName) -> Option<usize> {
    queue.stats().unschedulable.get(&(plugin, PROFILE)).copied()
}

fn move_all(queue: &mut SchedulingQueue, now: Time, event: &ClusterEvent<'_>, hint: Hint) {
    queue.move_all(now, event, &|_| true, &mut |_, _| hint);
}

fn own<'a>(action: PodAction, old: &'a PodInfo, new: &'a PodInfo) -> ClusterEvent<'a> {
    ClusterEvent::OwnPod { action, old, new }
}

#[test]
fn pods_are_ordered_by_priority_and_then_by_time() {
    let mut queue = queue();
    queue.add(at(0.0), pod("low", -5), None);
    queue.add(at(1.0), pod("first", 0), None);
    queue.add(at(2.0), pod("second", 0), None);
    queue.add(at(3.0), pod("high", 7), None);
    let order: Vec<String> =
        std::iter::from_fn(|| queue.pop(at(3.0))).map(|queued| queued.pod.uid.to_string()).collect();
    assert_eq!(order, ["high", "first", "second", "low"]);
}

#[test]
fn pods_with_equal_times_keep_insertion_order() {
    let mut queue = queue();
    for uid in ["c", "a", "b"] {
        queue.add(at(0.0), pod(uid, 0), None);
    }
    for uid in ["c", "a", "b"] {
        pop(&mut queue, at(0.0), uid);
    }
}

#[test]
fn new_pod_is_active_and_counted_as_added() {
    let mut queue = queue();
    queue.add(at(0.5), pod("p", 0), None);
    assert_eq!(place(&queue, "p"), Some(SubQueue::Active));
    assert_eq!(incoming(&queue, SubQueue::Active, "UnschedulablePodAdd"), 1);
    let popped = pop(&mut queue, at(0.7), "p");
    assert_eq!((popped.attempts, popped.timestamp, popped.initial_attempt), (1, at(0.5), Some(at(0.5))));
    assert!(queue.is_empty());
}

#[test]
fn pod_added_again_gets_a_new_record() {
    let mut queue = queue();
    reject_new(&mut queue, at(0.0), "p", 0, &[FIT]);
    queue.add(at(1.0), pod("p", 0), None);
    assert_eq!(queue.len(), 1);
    assert_eq!(unschedulable_count(&queue, FIT), Some(0));
    let popped = pop(&mut queue, at(1.0), "p");
    assert_eq!((popped.attempts, popped.unschedulable_count), (1, 0));
}

#[test]
fn rejected_pod_waits_for_an_event() {
    let mut queue = queue();
    reject_new(&mut queue, at(0.0), "p", 0, &[FIT, TAINTS]);
    assert_eq!(place(&queue, "p"), Some(SubQueue::Unschedulable));
    assert_eq!(incoming(&queue, SubQueue::Unschedulable, "ScheduleAttemptFailure"), 1);
    assert_eq!((unschedulable_count(&queue, FIT), unschedulable_count(&queue, TAINTS)), (Some(1), Some(1)));
    assert!(queue.pop(at(100.0)).is_none());
}

#[test]
fn only_rejecting_plugins_are_called_oldest_pod_first() {
    let mut queue = queue();
    reject_new(&mut queue, at(0.0), "b", 0, &[FIT]);
    reject_new(&mut queue, at(0.0), "a", 9, &[TAINTS, FIT]);
    let mut asked = Vec::new();
    queue.move_all(at(1.0), &NODE_ADD, &|_| true, &mut |plugin, pod| {
        asked.push((plugin, pod.name.to_string()));
        Hint::Skip
    });
    assert_eq!(asked, [(FIT, "b".into()), (FIT, "a".into()), (TAINTS, "a".into())]);
}

#[test]
fn one_plugin_that_returns_queue_is_enough() {
    let mut queue = queue();
    reject_new(&mut queue, at(0.0), "both", 0, &[FIT, TAINTS]);
    reject_new(&mut queue, at(0.0), "fit", 0, &[FIT]);
    queue.move_all(at(30.0), &NODE_TAINT, &|_| true, &mut |plugin, _| Hint::queue_if(plugin == TAINTS));
    assert_eq!(place(&queue, "both"), Some(SubQueue::Active));
    assert_eq!(place(&queue, "fit"), Some(SubQueue::Unschedulable));
    assert_eq!(incoming(&queue, SubQueue::Active, "NodeUpdateNodeTaint"), 1);
}

#[test]
fn requeued_pod_serves_the_rest_of_its_backoff() {
    let mut queue = queue();
    reject_new(&mut queue, at(0.2), "p", 0, &[FIT]);
    move_all(&mut queue, at(0.3), &NODE_ADD, Hint::Queue);
    assert_eq!(place(&queue, "p"), Some(SubQueue::Backoff));
    assert_eq!(incoming(&queue, SubQueue::Backoff, "NodeAdd"), 1);
    queue.tick(at(1.999));
    assert_eq!(place(&queue, "p"), Some(SubQueue::Backoff));
    queue.tick(at(2.0));
    assert_eq!(place(&queue, "p"), Some(SubQueue::Active));
    assert_eq!(incoming(&queue, SubQueue::Active, "BackoffComplete"), 1);
}

/// The first failure is at t = 0.2, and each attempt fails as soon as it is made.
#[test]
fn retries_are_at_whole_seconds_up_to_eleven_seconds_apart() {
    let expected = [2.0, 5.0, 10.0, 19.0, 30.0, 41.0].map(at);
    let mut errors = queue();
    errors.add(at(0.2), pod("p", 0), None);
    let mut rejections = queue();
    rejections.add(at(0.2), pod("p", 0), None);
    let mut now = at(0.2);
    for attempt in expected {
        let popped = pop(&mut errors, now, "p");
        errors.return_error(now, popped);
        assert_eq!(errors.next_wakeup(now), Some(attempt), "after an error");

        let popped = pop(&mut rejections, now, "p");
        rejections.return_unschedulable(now, popped, rejected_by(&[FIT]), None);
        move_all(&mut rejections, now, &NODE_ADD, Hint::Queue);
        assert_eq!(rejections.next_wakeup(now), Some(attempt), "after a rejection");
        now = attempt;
    }
}

/// Returns the waits after each failure in a row, at whole seconds: the backoff plus one second.
fn backoffs(initial: u64, max: u64, failures: usize) -> Vec<u64> {
    let (initial_backoff, max_backoff) = (Duration::from_secs(initial), Duration::from_secs(max));
    let config = QueueConfig { initial_backoff, max_backoff, ..QueueConfig::default() };
    let mut now = at(0.0);
    let mut queue = SchedulingQueue::new(config, now);
    queue.add(now, pod("p", 0), None);
    let mut waits = Vec::new();
    for _ in 0..failures {
        let popped = pop(&mut queue, now, "p");
        queue.return_error(now, popped);
        let wakeup = queue.next_wakeup(now).unwrap_or(now);
        waits.push(wakeup.since(now).as_secs().saturating_sub(1));
        now = wakeup;
    }
    waits
}

#[test]
fn backoff_doubles_up_to_its_limit() {
    assert_eq!(backoffs(1, 10, 6), [1, 2, 4, 8, 10, 10]);
    assert_eq!(backoffs(3, 10, 4), [3, 6, 10, 10]);
    assert_eq!(backoffs(20, 10, 2), [10, 10]);
    assert_eq!(backoffs(1, 1, 3), [1, 1, 1]);
    assert!(backoffs(1, 10, 100).ends_with(&[10, 10, 10]));
}

#[test]
fn limit_of_zero_disables_backoff() {
    assert_eq!(backoffs(1, 0, 4), [0, 0, 0, 0]);
}

#[test]
fn rejection_resets_the_error_count() {
    let mut queue = queue();
    queue.add(at(0.0), pod("p", 0), None);
    let popped = pop(&mut queue, at(0.0), "p");
    queue.return_error(at(0.0), popped);
    let popped = pop(&mut queue, at(10.0), "p");
    queue.return_error(at(10.0), popped);
    let popped = pop(&mut queue, at(20.0), "p");
    assert_eq!((popped.unschedulable_count, popped.consecutive_errors), (0, 2));
    queue.return_unschedulable(at(20.0), popped, rejected_by(&[FIT]), None);
    move_all(&mut queue, at(30.0), &NODE_ADD, Hint::Queue);
    let popped = pop(&mut queue, at(30.0), "p");
    assert_eq!((popped.unschedulable_count, popped.consecutive_errors, popped.attempts), (1, 0, 4));
    queue.return_error(at(30.0), popped);
    assert_eq!(queue.next_wakeup(at(30.0)), Some(at(32.0)), "the first error after a rejection");
    let popped = pop(&mut queue, at(32.0), "p");
    assert_eq!((popped.unschedulable_count, popped.consecutive_errors), (1, 1));
}

#[test]
fn failure_without_rejecting_plugin_is_an_error() {
    let mut queue = queue();
    queue.add(at(0.0), pod("p", 0), None);
    let popped = pop(&mut queue, at(0.0), "p");
    queue.return_unschedulable(at(0.0), popped, BTreeSet::new(), None);
    assert_eq!(place(&queue, "p"), Some(SubQueue::Backoff));
    assert_eq!(queue.get("p").unwrap().consecutive_errors, 1);
    assert_eq!(incoming(&queue, SubQueue::Backoff, "ScheduleAttemptFailure"), 1);
}

#[test]
fn idle_queue_pops_the_pod_whose_backoff_ends_first() {
    let mut queue = queue();
    reject_new(&mut queue, at(1.0), "late", 9, &[FIT]);
    let retried = {
        move_all(&mut queue, at(3.0), &NODE_ADD, Hint::Queue);
        pop(&mut queue, at(3.0), "late")
    };
    queue.return_unschedulable(at(3.0), retried, rejected_by(&[FIT]), None);
    reject_new(&mut queue, at(3.5), "early", 0, &[FIT]);
    move_all(&mut queue, at(3.6), &NODE_ADD, Hint::Queue);
    assert_eq!(
        (place(&queue, "late"), place(&queue, "early")),
        (Some(SubQueue::Backoff), Some(SubQueue::Backoff))
    );
    pop(&mut queue, at(3.6), "early");
    pop(&mut queue, at(3.6), "late");
    assert_eq!(incoming(&queue, SubQueue::Active, "PopFromBackoffQ"), 2);
}

#[test]
fn backoffs_ending_in_the_same_second_are_ordered_by_priority() {
    let mut queue = queue();
    reject_new(&mut queue, at(0.1), "low", 0, &[FIT]);
    reject_new(&mut queue, at(0.9), "high", 9, &[FIT]);
    move_all(&mut queue, at(0.9), &NODE_ADD, Hint::Queue);
    pop(&mut queue, at(0.9), "high");
    pop(&mut queue, at(0.9), "low");
}

/// Attempts are not in order of priority if only one backoff has ended.
#[test]
fn active_pods_are_popped_before_pods_in_backoff() {
    let mut queue = queue();
    reject_new(&mut queue, at(0.0), "low", 0, &[FIT]);
    reject_new(&mut queue, at(3.0), "high", 9, &[FIT]);
    move_all(&mut queue, at(3.1), &NODE_ADD, Hint::Queue);
    pop(&mut queue, at(3.1), "low");
    pop(&mut queue, at(3.1), "high");
}

#[test]
fn pod_that_failed_with_an_error_serves_its_whole_backoff() {
    let mut queue = queue();
    queue.add(at(0.2), pod("p", 0), None);
    let popped = pop(&mut queue, at(0.2), "p");
    queue.return_error(at(0.2), popped);
    queue.move_all(at(0.3), &NODE_ADD, &|_| true, &mut |_, _| unreachable!("no event helps after an error"));
    assert!(queue.pop(at(1.999)).is_none());
    assert_eq!(incoming(&queue, SubQueue::Active, "PopFromBackoffQ"), 0);
    pop(&mut queue, at(2.0), "p");
}

#[test]
fn pod_to_be_decided_again_keeps_its_position_and_attempts() {
    let mut queue = queue();
    queue.add(at(0.0), pod("first", 0), None);
    queue.add(at(1.0), pod("second", 0), None);
    let popped = pop(&mut queue, at(2.0), "first");
    queue.activate(at(3.0), popped, None);
    let popped = pop(&mut queue, at(3.0), "first");
    assert_eq!((popped.attempts, popped.unschedulable_count, popped.consecutive_errors), (2, 0, 0));
    assert_eq!(popped.timestamp, at(0.0));
    assert_eq!(incoming(&queue, SubQueue::Active, "ForceActivate"), 1);
}

#[test]
fn cancelled_decision_of_a_gated_pod_leads_to_the_gated_queue() {
    let mut queue = queue();
    queue.add(at(0.0), pod("p", 0), None);
    let popped = pop(&mut queue, at(2.0), "p");
    queue.activate(at(3.0), popped, Some(GATES));
    assert_eq!(place(&queue, "p"), Some(SubQueue::Gated));
    assert_eq!(unschedulable_count(&queue, GATES), Some(1));
    assert!(queue.pop(at(1000.0)).is_none());
    let skip = &mut |_: &ClusterEvent<'_>, _, _: &PodInfo| Hint::Skip;
    queue.update(at(1000.0), pod("p", 0), None, &[], skip);
    assert_eq!(pop(&mut queue, at(1000.0), "p").attempts, 2);
}

#[test]
fn pod_recreated_during_its_attempt_keeps_the_new_record() {
    let mut queue = queue();
    queue.add(at(0.0), pod("p", 0), None);
    for give_back in 0..3 {
        let popped = pop(&mut queue, at(1.0), "p");
        queue.add(at(1.0), pod("p", 0), None);
        match give_back {
            0 => queue.return_unschedulable(at(2.0), popped, rejected_by(&[FIT]), None),
            1 => queue.return_error(at(2.0), popped),
            _ => queue.activate(at(2.0), popped, None),
        }
        assert_eq!((queue.len(), place(&queue, "p")), (1, Some(SubQueue::Active)));
        assert_eq!(queue.get("p").unwrap().attempts, 0);
        assert_eq!(unschedulable_count(&queue, FIT), None);
    }
}

#[test]
fn unschedulable_gauge_counts_until_the_next_attempt_or_deletion() {
    let mut queue = queue();
    for (priority, uid) in ["tried", "unschedulable", "backoff"].into_iter().enumerate() {
        reject_new(&mut queue, at(0.0), uid, priority as i32, &[FIT]);
    }
    assert_eq!(unschedulable_count(&queue, FIT), Some(3));
    queue.move_all(at(30.0), &NODE_ADD, &|_| true, &mut |_, pod| Hint::queue_if(&*pod.uid == "tried"));
    assert_eq!(unschedulable_count(&queue, FIT), Some(3));
    assert!(pop(&mut queue, at(30.0), "tried").rejectors.is_empty());
    assert_eq!(unschedulable_count(&queue, FIT), Some(2));
    assert!(queue.remove("unschedulable"));
    move_all(&mut queue, at(30.0), &NODE_ADD, Hint::Queue);
    assert!(queue.remove("backoff"));
    assert!(!queue.remove("backoff"));
    assert_eq!(unschedulable_count(&queue, FIT), Some(0), "the series stays");
    assert!(queue.is_empty());
}

#[test]
fn gated_pod_is_not_evaluated_for_events() {
    let mut queue = queue();
    queue.add(at(0.0), pod("p", 0), Some(GATES));
    assert_eq!(place(&queue, "p"), Some(SubQueue::Gated));
    assert_eq!(incoming(&queue, SubQueue::Unschedulable, "UnschedulablePodAdd"), 1);
    assert_eq!(unschedulable_count(&queue, GATES), Some(1));
    queue.move_all(at(1.0), &NODE_ADD, &|_| true, &mut |_, _| unreachable!("no event looks at a gated pod"));
    move_all(&mut queue, at(1.0), &ClusterEvent::UnschedulableTimeout, Hint::Queue);
    assert_eq!(queue.next_wakeup(at(1.0)), None);
    assert!(queue.pop(at(1000.0)).is_none());
    assert_eq!(place(&queue, "p"), Some(SubQueue::Gated));
}

#[test]
fn removing_the_last_gate_queues_the_pod_and_restarts_its_time() {
    let mut queue = queue();
    let gated = pod("p", 0);
    queue.add(at(0.0), Arc::clone(&gated), Some(GATES));
    let never =
        &mut |_: &ClusterEvent<'_>, _, _: &PodInfo| unreachable!("a gate is not a plugin's rejection");

    let one_left = newer(&gated);
    let events = [own(PodAction::Update, &gated, &one_left)];
    queue.update(at(10.0), Arc::clone(&one_left), Some(GATES), &events, never);
    assert_eq!(place(&queue, "p"), Some(SubQueue::Gated));
    assert_eq!(queue.get("p").unwrap().pod.resource_version, "2".into());

    let free = newer(&one_left);
    let events = [PodAction::UpdateLabel, PodAction::UpdateGatesEliminated].map(|a| own(a, &one_left, &free));
    queue.update(at(20.0), Arc::clone(&free), None, &events, never);
    assert_eq!(place(&queue, "p"), Some(SubQueue::Active));
    assert_eq!(incoming(&queue, SubQueue::Active, "UnschedulablePodUpdatePodSchedulingGatesEliminated"), 1);
    let popped = pop(&mut queue, at(20.0), "p");
    assert_eq!((popped.attempts, popped.initial_attempt, popped.gate), (1, Some(at(20.0)), None));
    assert_eq!(unschedulable_count(&queue, GATES), Some(0));
}

#[test]
fn pod_that_becomes_gated_leaves_every_queue() {
    let mut queue = queue();
    reject_new(&mut queue, at(0.0), "unschedulable", 0, &[FIT]);
    queue.add(at(0.0), pod("active", 0), None);
    let skip = &mut |_: &ClusterEvent<'_>, _, _: &PodInfo| Hint::Skip;
    for uid in ["unschedulable", "active"] {
        queue.update(at(1.0), pod(uid, 0), Some(GATES), &[], skip);
    }
    assert!(queue.pop(at(1000.0)).is_none());
    let stats = queue.stats();
    assert_eq!((stats.pending[&SubQueue::Gated], stats.pending[&SubQueue::Unschedulable]), (2, 0));
    assert_eq!((unschedulable_count(&queue, GATES), unschedulable_count(&queue, FIT)), (Some(2), Some(1)));
    queue.update(at(1001.0), pod("unschedulable", 0), None, &[], skip);
    assert_eq!(incoming(&queue, SubQueue::Active, "UnschedulablePodUpdate"), 1);
}

#[test]
fn rejected_pod_may_return_gated() {
    let mut queue = queue();
    queue.add(at(0.0), pod("p", 0), None);
    let popped = pop(&mut queue, at(0.0), "p");
    queue.return_unschedulable(at(0.0), popped, rejected_by(&[FIT]), Some("DefaultPreemption"));
    assert_eq!(place(&queue, "p"), Some(SubQueue::Gated));
    assert_eq!(
        (unschedulable_count(&queue, FIT), unschedulable_count(&queue, "DefaultPreemption")),
        (Some(1), Some(1))
    );
    assert_eq!(queue.get("p").unwrap().unschedulable_count, 1);
}

#[test]
fn own_update_requeues_a_pod_if_a_rejecting_plugin_agrees() {
    let mut queue = queue();
    reject_new(&mut queue, at(0.0), "p", 0, &[TAINTS]);
    let (old, new) = (pod("p", 0), newer(&pod("p", 0)));
    let mut asked = Vec::new();
    let actions = [PodAction::UpdateLabel, PodAction::UpdateToleration, PodAction::UpdateScaleDown];
    let events = actions.map(|action| own(action, &old, &new));
    queue.update(at(30.0), Arc::clone(&new), None, &events, &mut |event, plugin, pod| {
        assert_eq!(pod.resource_version, "2".into());
        let label = event.label(VersionRules::default());
        asked.push((label, plugin));
        Hint::queue_if(label == "UnschedulablePodUpdatePodToleration")
    });
    assert_eq!(
        asked,
        [("UnschedulablePodUpdatePodLabel", TAINTS), ("UnschedulablePodUpdatePodToleration", TAINTS)]
    );
    assert_eq!(incoming(&queue, SubQueue::Active, "UnschedulablePodUpdatePodToleration"), 1);
    assert_eq!(place(&queue, "p"), Some(SubQueue::Active));
}

#[test]
fn irrelevant_update_changes_only_the_object() {
    let mut queue = queue();
    reject_new(&mut queue, at(0.0), "unschedulable", 0, &[FIT]);
    reject_new(&mut queue, at(0.0), "backoff", 0, &[TAINTS]);
    queue.move_all(at(0.5), &NODE_ADD, &|_| true, &mut |plugin, _| Hint::queue_if(plugin == TAINTS));
    queue.add(at(0.5), pod("active", 0), None);
    let before = queue.stats();
    for uid in ["unschedulable", "backoff", "active"] {
        let (old, new) = (pod(uid, 0), newer(&pod(uid, 0)));
        let events = [own(PodAction::Update, &old, &new)];
        queue.update(at(1.2), Arc::clone(&new), None, &events, &mut |_, _, _| Hint::Skip);
        assert_eq!(queue.get(uid).unwrap().pod.resource_version, "2".into());
    }
    assert_eq!(queue.stats(), before);
    assert_eq!(queue.get("active").unwrap().timestamp, at(0.5));
    assert_eq!(queue.next_wakeup(at(1.2)), Some(at(2.0)), "the backoff ends when it would have");
}

#[test]
fn update_of_an_unknown_pod_adds_it() {
    let mut queue = queue();
    queue.update(at(0.0), pod("p", 0), None, &[], &mut |_, _, _| Hint::Skip);
    queue.update(at(0.0), pod("q", 0), Some(GATES), &[], &mut |_, _, _| Hint::Skip);
    assert_eq!((place(&queue, "p"), place(&queue, "q")), (Some(SubQueue::Active), Some(SubQueue::Gated)));
    assert_eq!(incoming(&queue, SubQueue::Active, "UnschedulablePodUpdate"), 1);
    assert_eq!(incoming(&queue, SubQueue::Unschedulable, "UnschedulablePodUpdate"), 1);
}

/// Returns when a pod rejected at `failed` is requeued, without any event.
fn flushed_at(queue: &mut SchedulingQueue, failed: Time) -> Time {
    let mut now = failed;
    while place(queue, "p") == Some(SubQueue::Unschedulable) {
        let wakeup = queue.next_wakeup(now).expect("an unschedulable pod has a wake-up");
        assert!(wakeup > now, "time advances");
        now = wakeup;
        queue.tick(now);
    }
    now
}

#[test]
fn flush_requeues_at_the_half_minute_after_five_minutes() {
    for (failed, flushed) in [(0.0, 330.0), (7.3, 330.0), (29.9, 330.0), (30.1, 360.0), (1007.0, 1320.0)] {
        let mut queue = queue();
        queue.tick(at(failed));
        reject_new(&mut queue, at(failed), "p", 0, &[FIT]);
        assert_eq!(flushed_at(&mut queue, at(failed)), at(flushed), "failed at {failed}");
        assert_eq!(incoming(&queue, SubQueue::Active, "UnschedulableTimeout"), 1);
        assert!(pop(&mut queue, at(flushed), "p").was_flushed);
    }
}

/// First after 5:23, then after 5:00 each. Every wake-up is slightly late, as timers are.
#[test]
fn pod_that_fails_every_flush_is_retried_every_five_minutes() {
    let late = Duration::from_micros(100);
    let mut queue = queue();
    let mut failed = at(7.0);
    reject_new(&mut queue, failed, "p", 0, &[FIT]);
    let mut waits = Vec::new();
    for _ in 0..4 {
        let mut now = failed;
        while place(&queue, "p") == Some(SubQueue::Unschedulable) {
            now = queue.next_wakeup(now).unwrap() + late;
            queue.tick(now);
        }
        let popped = pop(&mut queue, now, "p");
        queue.return_unschedulable(now, popped, rejected_by(&[FIT]), None);
        waits.push(now.since(failed).as_secs());
        failed = now;
    }
    assert_eq!(waits, [323, 300, 300, 300]);
}

#[test]
fn flush_mark_lasts_until_an_attempt_fails() {
    let mut queue = queue();
    reject_new(&mut queue, at(0.0), "p", 0, &[FIT]);
    let popped = pop(&mut queue, at(330.0), "p");
    queue.activate(at(330.0), popped, None);
    let popped = pop(&mut queue, at(330.0), "p");
    assert!(popped.was_flushed, "a decision to be repeated is not a failure");
    queue.return_unschedulable(at(330.0), popped, rejected_by(&[FIT]), None);
    move_all(&mut queue, at(340.0), &NODE_ADD, Hint::Queue);
    assert!(!pop(&mut queue, at(340.0), "p").was_flushed, "an event woke it");
}

#[test]
fn flushed_pod_serves_a_longer_backoff() {
    let (initial_backoff, max_backoff) = (Duration::from_secs(600), Duration::from_secs(600));
    let config = QueueConfig { initial_backoff, max_backoff, ..QueueConfig::default() };
    let mut queue = SchedulingQueue::new(config, at(0.0));
    reject_new(&mut queue, at(1.0), "p", 0, &[FIT]);
    queue.tick(at(330.0));
    assert_eq!(place(&queue, "p"), Some(SubQueue::Backoff));
    assert_eq!(incoming(&queue, SubQueue::Backoff, "UnschedulableTimeout"), 1);
    assert_eq!(queue.next_wakeup(at(330.0)), Some(at(602.0)));
}
