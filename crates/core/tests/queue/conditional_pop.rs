//! Conditional popping: the order, and the number of evaluated pods.

use super::{at, pod, queue};
use std::cell::Cell;

#[test]
fn first_eligible_pod_is_popped() {
    let mut queue = queue();
    for (uid, priority) in [("a", 5), ("x1", 4), ("b", 3), ("x2", 2), ("c", 1)] {
        queue.add(at(0.0), pod(uid, priority), None);
    }
    let asks = |pod: &supercargo_core::model::pod::PodInfo| pod.uid.starts_with('x');
    let mut pop = |may: &dyn Fn(i32, bool) -> bool| {
        let popped = queue.pop_that(at(0.0), asks, |pod, asks| may(pod.priority, asks))?;
        Some(popped.pod.uid.to_string())
    };
    assert_eq!(pop(&|_, asks| asks), Some("x1".into()));
    assert_eq!(pop(&|priority, asks| !asks && priority >= 4), Some("a".into()));
    assert_eq!(pop(&|priority, asks| !asks && priority >= 4), None);
    assert_eq!(pop(&|_, _| true), Some("b".into()));
    assert_eq!(pop(&|_, asks| asks), Some("x2".into()));
    assert_eq!(pop(&|_, asks| asks), None);
    assert_eq!(queue.pop(at(0.0)).map(|popped| popped.pod.uid.to_string()), Some("c".into()));
    queue.add(at(0.0), pod("x3", 9), None);
    let popped = queue.pop_that(at(0.0), asks, |_, asks| asks);
    assert_eq!(popped.map(|popped| popped.pod.uid.to_string()), Some("x3".into()));
}

/// A scan of the blocked pods would evaluate two million pods.
#[test]
fn ineligible_pods_are_checked_once() {
    let mut queue = queue();
    for number in 0..2_000 {
        queue.add(at(0.0), pod(&format!("x{number}"), 9), None);
    }
    for number in 0..1_000 {
        queue.add(at(0.0), pod(&format!("p{number}"), 0), None);
    }
    let asked = Cell::new(0);
    for _ in 0..1_000 {
        let class_of = |pod: &supercargo_core::model::pod::PodInfo| {
            asked.set(asked.get() + 1);
            pod.uid.starts_with('x')
        };
        let may_go = |_: &supercargo_core::model::pod::PodInfo, asks: bool| {
            asked.set(asked.get() + 1);
            !asks
        };
        let popped = queue.pop_that(at(0.0), class_of, may_go).expect("a pod is eligible");
        assert!(popped.pod.uid.starts_with('p'));
    }
    assert!(asked.get() <= 3_000 + 2 * 1_000, "{} questions", asked.get());
}
