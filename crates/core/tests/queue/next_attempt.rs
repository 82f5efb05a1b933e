//! The predicted latest time of the next attempt equals the actual time.

use super::*;

fn next_attempt(queue: &SchedulingQueue, uid: &str) -> Option<Time> {
    let (place, queued) = queue.waiting().find(|(_, queued)| &*queued.pod.uid == uid).expect("it waits");
    queue.next_try(place, queued)
}

/// Ticks every half second, as a driver would, until the pod is active.
fn active_at(queue: &mut SchedulingQueue, from: f64, uid: &str) -> Time {
    let mut half_seconds = (from * 2.0) as u32;
    loop {
        let now = at(f64::from(half_seconds) / 2.0);
        queue.tick(now);
        if place(queue, uid) == Some(SubQueue::Active) {
            return now;
        }
        half_seconds += 1;
        assert!(half_seconds < 2_000, "no attempt within 1,000 s");
    }
}

#[test]
fn next_attempt_in_backoff_is_the_end_of_the_backoff() {
    for failed_at in [10.0, 10.5] {
        let mut queue = queue();
        reject_new(&mut queue, at(failed_at), "p", 0, &[FIT]);
        move_all(&mut queue, at(failed_at), &NODE_ADD, Hint::Queue);
        assert_eq!(place(&queue, "p"), Some(SubQueue::Backoff));
        let reported = next_attempt(&queue, "p");
        assert_eq!(Some(active_at(&mut queue, failed_at, "p")), reported);
    }
}

#[test]
fn next_attempt_of_an_unschedulable_pod_is_the_flush() {
    for failed_at in [0.5, 15.0, 29.5, 30.0, 31.0] {
        let mut queue = queue();
        reject_new(&mut queue, at(0.0), "another", 0, &[FIT]);
        (0..=(failed_at * 2.0) as u32).for_each(|half| queue.tick(at(f64::from(half) / 2.0)));
        reject_new(&mut queue, at(failed_at), "p", 0, &[FIT]);
        let reported = next_attempt(&queue, "p");
        assert_eq!(Some(active_at(&mut queue, failed_at, "p")), reported, "failed at {failed_at}");
    }
}

#[test]
fn active_and_gated_pods_have_no_next_attempt_time() {
    let mut queue = queue();
    queue.add(at(0.0), pod("turn", 0), None);
    queue.add(at(0.0), pod("gated", 0), Some(GATES));
    assert_eq!((next_attempt(&queue, "turn"), next_attempt(&queue, "gated")), (None, None));
}
