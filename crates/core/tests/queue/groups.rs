//! The cost of an event for groups of identical unschedulable pods.

use super::{FIT, NODE_ADD, TAINTS, at, move_all, place, pop, queue, reject_new};
use supercargo_core::framework::Hint;
use supercargo_core::queue::SubQueue;

#[test]
fn identical_waiting_pods_share_one_hint_call_and_requeue_oldest_first() {
    let mut queue = queue();
    for number in 0..50 {
        reject_new(&mut queue, at(0.0), &format!("p{number}"), 0, &[FIT]);
    }
    reject_new(&mut queue, at(0.0), "other", 0, &[FIT, TAINTS]);
    assert_eq!((queue.len(), queue.stats().groups), (51, 2));
    let mut asked = Vec::new();
    queue.move_all(at(30.0), &NODE_ADD, &|_| true, &mut |plugin, pod| {
        asked.push((plugin, pod.name.to_string()));
        Hint::queue_if(&*pod.name == "p0")
    });
    assert_eq!(asked, [(FIT, "p0".into()), (FIT, "other".into()), (TAINTS, "other".into())]);
    assert_eq!(
        (place(&queue, "p49"), place(&queue, "other")),
        (Some(SubQueue::Active), Some(SubQueue::Unschedulable))
    );
    assert_eq!(queue.stats().groups, 1);
    for number in 0..50 {
        pop(&mut queue, at(30.0), &format!("p{number}"));
    }
}

#[test]
fn unregistered_plugin_is_not_called_for_any_number_of_pods() {
    let mut queue = queue();
    for priority in 0..50 {
        reject_new(&mut queue, at(0.0), &format!("p{priority}"), priority, &[FIT]);
    }
    assert_eq!(queue.stats().groups, 50);
    queue.move_all(at(1.0), &NODE_ADD, &|plugin| plugin != FIT, &mut |_, _| {
        unreachable!("no plugin is called")
    });
}

#[test]
fn group_lasts_until_its_last_pod_leaves() {
    let mut queue = queue();
    reject_new(&mut queue, at(0.0), "first", 0, &[FIT]);
    reject_new(&mut queue, at(0.0), "second", 0, &[FIT]);
    assert!(queue.remove("first"));
    assert_eq!(queue.stats().groups, 1);
    move_all(&mut queue, at(30.0), &NODE_ADD, Hint::Queue);
    assert_eq!(place(&queue, "second"), Some(SubQueue::Active));
    assert_eq!(queue.stats().groups, 0);
}
