//! Pods blocked after an attempt, as DefaultPreemption blocks preemptors until their victims terminate.

use super::*;

const PREEMPTION: PluginName = "DefaultPreemption";

/// Creates a queue with a pod that was rejected once, and is blocked.
fn queue_with_suspended_pod() -> SchedulingQueue {
    let mut queue = queue();
    reject_new(&mut queue, at(0.0), "p", 0, &[FIT]);
    queue.block(&"p".into(), PREEMPTION);
    queue
}

#[test]
fn event_gates_a_suspended_pod() {
    let mut queue = queue_with_suspended_pod();
    assert_eq!(place(&queue, "p"), Some(SubQueue::Unschedulable));
    move_all(&mut queue, at(5.0), &NODE_ADD, Hint::Queue);
    assert_eq!(place(&queue, "p"), Some(SubQueue::Gated));
    assert_eq!(
        (unschedulable_count(&queue, FIT), unschedulable_count(&queue, PREEMPTION)),
        (Some(1), Some(1))
    );
    assert!(queue.pop(at(5.0)).is_none());
}

#[test]
fn released_pod_is_queued_if_an_event_matched_meanwhile() {
    let mut queue = queue_with_suspended_pod();
    move_all(&mut queue, at(5.0), &NODE_ADD, Hint::Queue);
    queue.unblock(at(6.0), "p");
    assert_eq!(place(&queue, "p"), Some(SubQueue::Active));
    assert_eq!(
        (unschedulable_count(&queue, FIT), unschedulable_count(&queue, PREEMPTION)),
        (Some(1), Some(0))
    );
    assert_eq!(pop(&mut queue, at(6.0), "p").attempts, 2);
    assert_eq!(unschedulable_count(&queue, FIT), Some(0));
}

#[test]
fn released_pod_without_event_stays_unschedulable() {
    let mut queue = queue_with_suspended_pod();
    queue.unblock(at(5.0), "p");
    assert_eq!(place(&queue, "p"), Some(SubQueue::Unschedulable));
    move_all(&mut queue, at(5.0), &NODE_ADD, Hint::Queue);
    assert_eq!(place(&queue, "p"), Some(SubQueue::Active));
}

#[test]
fn flush_and_update_do_not_queue_a_suspended_pod() {
    let mut flushed = queue_with_suspended_pod();
    flushed.tick(at(400.0));
    assert_eq!(place(&flushed, "p"), Some(SubQueue::Gated));
    let mut changed = queue_with_suspended_pod();
    let (old, new) = (pod("p", 0), newer(&pod("p", 0)));
    let events = [own(PodAction::UpdateToleration, &old, &new)];
    changed.update(at(5.0), Arc::clone(&new), None, &events, &mut |_, _, _| Hint::Queue);
    assert_eq!(place(&changed, "p"), Some(SubQueue::Gated));
    changed.update(at(6.0), newer(&new), None, &[], &mut |_, _, _| Hint::Skip);
    assert_eq!(place(&changed, "p"), Some(SubQueue::Gated));
}

#[test]
fn scheduling_gate_outlasts_the_suspension() {
    let mut queue = queue();
    queue.add(at(0.0), pod("p", 0), Some(GATES));
    queue.block(&"p".into(), PREEMPTION);
    queue.unblock(at(1.0), "p");
    assert_eq!(place(&queue, "p"), Some(SubQueue::Gated));
}

#[test]
fn roused_pod_is_queued_at_once() {
    let mut queue = queue_with_suspended_pod();
    queue.unblock(at(5.0), "p");
    queue.requeue_now(at(5.0), "p");
    assert_eq!(place(&queue, "p"), Some(SubQueue::Active));
    queue.requeue_now(at(5.0), "p");
    queue.requeue_now(at(5.0), "unknown");
    assert_eq!(queue.len(), 1);
}

#[test]
fn released_pod_with_error_serves_a_growing_backoff() {
    let mut queue = queue_with_suspended_pod();
    for (now, end) in [(5.0, 7.0), (7.0, 10.0), (10.0, 15.0)] {
        queue.requeue_after_backoff(at(now), "p");
        assert_eq!(place(&queue, "p"), Some(SubQueue::Backoff));
        assert_eq!(queue.next_wakeup(at(now)), Some(at(end)));
        assert!(queue.pop(at(end - 0.1)).is_none(), "the pod is not popped early");
        let popped = pop(&mut queue, at(end), "p");
        queue.return_unschedulable(at(end), popped, rejected_by(&[FIT]), None);
        queue.block(&"p".into(), PREEMPTION);
    }
}
