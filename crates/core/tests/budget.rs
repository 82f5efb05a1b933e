//! One attempt may be only so much work.

mod support;

use std::sync::Arc;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::event::{Event, Kind};
use supercargo_core::queue::{Place, QueueConfig};
use supercargo_core::report::Outcome;
use supercargo_core::rng::Seed;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use supercargo_core::time::Time;
use support::World;

/// The outcome of the first attempt for a pod with so many affinity terms on so many nodes.
fn attempt(terms: usize, nodes: usize) -> (Outcome, Option<Place>) {
    let now = Time::from_secs(100);
    let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
    let (queue, seed) = (QueueConfig::default(), Seed(1));
    let mut scheduler = Scheduler::new(Config { seed, profiles: vec![profile], queue }, now);
    for kind in Kind::ALL {
        scheduler.handle(now, Event::ListBegan(kind));
        scheduler.handle(now, Event::ListEnded(kind));
    }
    let mut world = World::new();
    std::mem::swap(&mut world.tables, scheduler.tables());
    let nodes: Vec<_> = (0..nodes).map(|at| world.node_from(&format!("n{at} cpu=4"))).collect();
    let words = format!("p cpu=1{}", " anti=host/app=web".repeat(terms));
    let pod = world.pod_from(&words);
    std::mem::swap(&mut world.tables, scheduler.tables());
    for node in nodes {
        scheduler.handle(now, Event::NodeApplied(Box::new(Arc::unwrap_or_clone(node))));
    }
    scheduler.handle(now, Event::PodApplied(Box::new(Arc::unwrap_or_clone(pod))));
    let Step::Report(report) = scheduler.step(now, &mut NoProbe) else { panic!("the pod is tried") };
    let place = scheduler.queue().waiting().next().map(|(place, _)| place);
    (report.outcome, place)
}

#[test]
fn a_pod_that_is_too_much_work_backs_off_and_says_so() {
    let (outcome, place) = attempt(10_001, 5_000);
    let Outcome::Error { message } = outcome else { panic!("{outcome:?}") };
    assert_eq!(
        message,
        "the pod's 10001 affinity terms and topology spread constraints, each weighed on 5000 nodes, are more than one \
         attempt may weigh (50005000 of at most 50000000): give it fewer"
    );
    assert_eq!(place, Some(Place::Backoff));
}

#[test]
fn a_pod_of_a_hundred_terms_is_work_like_any_other() {
    let (outcome, _) = attempt(100, 1_000);
    assert!(matches!(outcome, Outcome::Placed { .. }), "{outcome:?}");
}
