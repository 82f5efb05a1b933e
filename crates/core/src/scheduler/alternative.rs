//! Comparison with an alternative configuration: its decision for each attempt, made just before the real decision
//! takes effect.
//!
//! It never affects the real decision. Decisions with extenders are not compared, since their answers to other
//! requests are unknown.

use super::{Profile, Scheduler, profile_named};
use crate::compare::{Choice, Comparison, Judge};
use crate::cycle::Unschedulable;
use crate::framework::CycleError;
use crate::model::effect::PodRef;
use crate::model::intern::Symbol;
use crate::model::node::NodeIdx;
use crate::model::pod::Uid;
use crate::model::time::Time;
use crate::queue::QueuedPod;
use crate::report::Preemption;
use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The alternative profiles and their results.
pub(super) struct AlternativeProfiles {
    profiles: Vec<(Symbol, Profile)>,
    formed: VecDeque<Alternative>,
}

/// The decision of the alternative configuration for one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// The pod.
    pub pod: PodRef,
    /// The number of the attempt, starting at 1.
    pub attempt: u32,
    /// The chosen node; `None` if there was none.
    pub chosen: Option<String>,
    /// The alternative decision.
    pub otherwise: AlternativeOutcome,
    /// The real result of preemption.
    pub room: Preemption,
    /// The alternative result of preemption. It runs if the alternative configuration finds no node.
    pub other_room: Preemption,
}

impl Alternative {
    /// Whether both evict the same victims from the same node, or both evict none.
    pub fn is_room_the_same(&self) -> bool {
        let of = |room: &Preemption| match room {
            Preemption::Nominated { node, victims, .. } => {
                let victims: BTreeSet<Uid> = victims.iter().map(|victim| Uid::clone(&victim.uid)).collect();
                Some((node.clone(), victims))
            }
            Preemption::NotTried | Preemption::NoCandidate => None,
        };
        of(&self.room) == of(&self.other_room)
    }
}

/// The result of the real decision, before it takes effect.
#[derive(Clone, Copy)]
pub(super) enum Chosen<'a> {
    Node(NodeIdx),
    Nowhere { message: &'a str, room: &'a Preemption },
}

impl<'a> Chosen<'a> {
    pub(super) fn of(found: &'a Unschedulable) -> Self {
        Self::Nowhere { message: &found.message, room: &found.preemption }
    }
}

/// The decision of the alternative configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlternativeOutcome {
    /// The same node, or no node in both. Preemption may still differ.
    Same,
    /// The alternative configuration has no profile for the pod's `schedulerName`.
    NotOurs,
    /// The decision failed with this error.
    Failed(String),
    /// Another node, or a node in only one of both. "Ours" is the alternative configuration, "theirs" the real
    /// decision.
    Differs(Comparison),
}

impl Scheduler {
    /// Sets the profiles of the alternative configuration.
    pub fn set_alternative(&mut self, profiles: Vec<Profile>) {
        let tables = &mut self.tables;
        let profiles = profiles.into_iter().map(|profile| (tables.symbol(&profile.name), profile)).collect();
        self.alternatives = Some(Box::new(AlternativeProfiles { profiles, formed: VecDeque::new() }));
    }

    /// Takes the oldest result that was not taken yet.
    pub fn take_alternative(&mut self) -> Option<Alternative> {
        self.alternatives.as_mut()?.formed.pop_front()
    }

    /// Evaluates the alternative configuration for a decision that has not taken effect. `start` is where the real
    /// search of nodes began.
    pub(super) fn evaluate_alternative(
        &mut self,
        now: Time,
        queued: &QueuedPod,
        start: usize,
        chosen: Chosen<'_>,
    ) {
        let Some(mut alternatives) = self.alternatives.take() else { return };
        let mut walk = std::mem::take(&mut self.walk);
        let end = walk.start();
        walk.return_to(start);
        let snapshot = self.cache.snapshot(&self.tables);
        let pod = self.as_nominated(&queued.pod);
        let (name, choice, room) = match chosen {
            Chosen::Node(node) => {
                let name = snapshot.node_info(node).name;
                (Some(name), Choice::Node(name), Preemption::NotTried)
            }
            Chosen::Nowhere { message, room } => {
                (None, Choice::None { message: message.to_owned() }, room.clone())
            }
        };
        let mut other_room = Preemption::NotTried;
        let otherwise = match profile_named(&alternatives.profiles, pod.scheduler_name) {
            None => AlternativeOutcome::NotOurs,
            Some(profile) => {
                let judge =
                    Judge { framework: &profile.framework, seed: self.seed, attempt: queued.attempts };
                let found = catch_unwind(AssertUnwindSafe(|| {
                    judge.otherwise(now, &pod, &choice, snapshot, &mut walk)
                }));
                match found {
                    Ok(Ok(other)) => {
                        other_room = other.room;
                        other.comparison.map_or(AlternativeOutcome::Same, AlternativeOutcome::Differs)
                    }
                    Ok(Err(CycleError(text))) => AlternativeOutcome::Failed(text),
                    Err(panic) => AlternativeOutcome::Failed(super::quarantine::panic_text(panic.as_ref())),
                }
            }
        };
        let chosen = name.map(|name| self.tables.text(name).to_owned());
        let (pod, attempt) = (self.pod_ref(&queued.pod), queued.attempts);
        alternatives.formed.push_back(Alternative { pod, attempt, chosen, otherwise, room, other_room });
        self.alternatives = Some(alternatives);
        walk.return_to(end);
        self.walk = walk;
    }
}

impl AlternativeProfiles {
    /// Returns the names of its profiles.
    pub(super) fn names(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.profiles.iter().map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::Framework;
    use crate::model::event::Event;
    use crate::registry::Plan;
    use crate::scheduler::quarantine::tests::{World, node};

    fn pod_ref(name: &str) -> PodRef {
        PodRef { namespace: "default".to_owned(), name: name.to_owned(), uid: name.into() }
    }

    fn room(node: &str, victims: &[&str]) -> Preemption {
        let victims = victims.iter().map(|name| pod_ref(name)).collect();
        Preemption::Nominated { node: node.to_owned(), victims, evictions: 1 }
    }

    fn profile_without(name: &str) -> Profile {
        let mut plan = Plan::default();
        plan.points.values_mut().for_each(|plugins| plugins.retain(|plugin| *plugin != name));
        Profile { name: "default-scheduler".to_owned(), framework: Framework::new(&plan) }
    }

    #[test]
    fn preemptions_are_the_same_if_node_and_set_of_victims_are() {
        let is_same = |room: Preemption, other_room: Preemption| {
            let (pod, otherwise) = (pod_ref("p"), AlternativeOutcome::Same);
            Alternative { pod, attempt: 1, chosen: None, otherwise, room, other_room }.is_room_the_same()
        };
        assert!(is_same(room("a", &["x", "y"]), room("a", &["y", "x"])));
        assert!(is_same(Preemption::NotTried, Preemption::NoCandidate));
        assert!(!is_same(room("a", &["x"]), room("b", &["x"])));
        assert!(!is_same(room("a", &["x"]), room("a", &["x", "y"])));
        assert!(!is_same(room("a", &["x"]), Preemption::NoCandidate));
    }

    #[test]
    fn alternative_decision_of_each_attempt_is_taken_once_in_order() {
        let mut world = World::new();
        assert_eq!(world.scheduler.take_alternative(), None);
        world.scheduler.set_alternative(vec![profile_without("NodeResourcesFit")]);
        world.pod("small", 500, None);
        world.run();
        world.pod("large", 9_000, None);
        let log = world.run();
        assert!(log.iter().any(|line| line.contains("large: Unschedulable")), "{log:?}");
        let same = world.scheduler.take_alternative().expect("a decision was made");
        assert_eq!(
            (&*same.pod.name, same.chosen.as_deref(), same.otherwise),
            ("small", Some("a"), AlternativeOutcome::Same)
        );
        let differs = world.scheduler.take_alternative().expect("a second decision was made");
        assert_eq!((&*differs.pod.name, differs.chosen), ("large", None));
        assert!(matches!(differs.otherwise, AlternativeOutcome::Differs(_)), "{:?}", differs.otherwise);
        assert_eq!(world.scheduler.take_alternative(), None);
    }

    #[test]
    fn names_of_alternative_profiles_survive_garbage_collection() {
        let mut world = World::new();
        let profile = Profile { name: "other-scheduler".to_owned(), ..profile_without("NodeResourcesFit") };
        world.scheduler.set_alternative(vec![profile]);
        world.scheduler.collect_all_ids();
        world.scheduler.tables().symbol("another string");
        let alternatives = world.scheduler.alternatives.as_ref().expect("they were set");
        assert_eq!(world.scheduler.tables.text(alternatives.profiles[0].0), "other-scheduler");
    }

    #[test]
    fn alternative_that_chooses_another_node_differs() {
        let mut world = World::new();
        let mut cordoned = node(world.scheduler.tables(), "a");
        cordoned.unschedulable = true;
        world.handle(Event::NodeApplied(cordoned));
        let b = node(world.scheduler.tables(), "b");
        world.handle(Event::NodeApplied(b));
        world.pod("placed", 4_000, Some("b"));
        world.scheduler.profiles[0].1 = profile_without("NodeResourcesFit");
        world.scheduler.set_alternative(vec![profile_without("NodeUnschedulable")]);
        world.pod("p", 500, None);
        world.run();
        let alternative = world.scheduler.take_alternative().expect("a decision was made");
        assert_eq!(alternative.chosen.as_deref(), Some("b"));
        let AlternativeOutcome::Differs(comparison) = alternative.otherwise else {
            panic!("it differs: {:?}", alternative.otherwise)
        };
        assert_eq!(comparison.ours.map(|ours| ours.node).as_deref(), Some("a"));
    }
}
