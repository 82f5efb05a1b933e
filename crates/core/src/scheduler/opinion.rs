//! A second opinion: what another configuration would have decided, asked beside each decision, right before what came of it counts.
//! It has no say in anything.
//!
//! Decisions that extenders were asked about get none: what they would have said to other questions nobody knows.

use super::failure::Unschedulable;
use super::{Profile, Scheduler, profile_named};
use crate::effect::PodRef;
use crate::framework::CycleError;
use crate::intern::Symbol;
use crate::node::NodeIdx;
use crate::pod::Uid;
use crate::queue::QueuedPod;
use crate::report::Preemption;
use crate::shadow::{Choice, Comparison, Judge};
use crate::time::Time;
use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Those who give a second opinion, and what they gave.
pub(super) struct Second {
    profiles: Vec<(Symbol, Profile)>,
    formed: VecDeque<Opinion>,
}

/// What another configuration would have made of one decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// The pod.
    pub pod: PodRef,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// The node that was chosen; `None` where there was none.
    pub chosen: Option<String>,
    /// What would have been chosen.
    pub otherwise: Otherwise,
    /// Whom the decision sends away to make room, and where.
    pub room: Preemption,
    /// Whom the other configuration would have sent away. It is asked where it finds no node.
    pub other_room: Preemption,
}

impl Opinion {
    /// Whether the same pods are sent away from the same node by both, or none by either.
    pub fn is_room_the_same(&self) -> bool {
        let of = |room: &Preemption| match room {
            Preemption::Nominated { node, victims, .. } => {
                let victims: BTreeSet<Uid> = victims.iter().map(|victim| Uid::clone(&victim.uid)).collect();
                Some((node.clone(), victims))
            }
            Preemption::NotTried | Preemption::InVain => None,
        };
        of(&self.room) == of(&self.other_room)
    }
}

/// What a decision came to, before it counts.
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

/// How another configuration would have decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// The same node, or none either; whether the same pods are sent away then is another question.
    Same,
    /// It has no profile of the pod's `schedulerName`.
    NotOurs,
    /// The decision fails, with this text.
    Failed(String),
    /// Another node, or none, or one where there was none. "Ours" is the other configuration, "theirs" what was chosen.
    Differs(Comparison),
}

impl Scheduler {
    /// From now on asks these profiles, too.
    pub fn ask_beside(&mut self, profiles: Vec<Profile>) {
        let tables = &mut self.tables;
        let profiles = profiles.into_iter().map(|profile| (tables.symbol(&profile.name), profile)).collect();
        self.second = Some(Box::new(Second { profiles, formed: VecDeque::new() }));
    }

    /// The oldest opinion that was not taken yet.
    pub fn take_opinion(&mut self) -> Option<Opinion> {
        self.second.as_mut()?.formed.pop_front()
    }

    /// Asks for one about a decision that is made and does not count yet. `start` is where the walk over the nodes began.
    pub(super) fn second_opinion(&mut self, now: Time, queued: &QueuedPod, start: usize, chosen: Chosen<'_>) {
        let Some(mut second) = self.second.take() else { return };
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
        let otherwise = match profile_named(&second.profiles, pod.scheduler_name) {
            None => Otherwise::NotOurs,
            Some(profile) => {
                let judge =
                    Judge { framework: &profile.framework, seed: self.seed, attempt: queued.attempts };
                let found = catch_unwind(AssertUnwindSafe(|| {
                    judge.otherwise(now, &pod, &choice, snapshot, &mut walk)
                }));
                match found {
                    Ok(Ok(other)) => {
                        other_room = other.room;
                        other.comparison.map_or(Otherwise::Same, Otherwise::Differs)
                    }
                    Ok(Err(CycleError(text))) => Otherwise::Failed(text),
                    Err(panic) => Otherwise::Failed(super::quarantine::panic_text(panic.as_ref())),
                }
            }
        };
        let chosen = name.map(|name| self.tables.text(name).to_owned());
        let (pod, attempt) = (self.pod_ref(&queued.pod), queued.attempts);
        second.formed.push_back(Opinion { pod, attempt, chosen, otherwise, room, other_room });
        self.second = Some(second);
        walk.return_to(end);
        self.walk = walk;
    }
}

impl Second {
    /// The names of its profiles.
    pub(super) fn names(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.profiles.iter().map(|(name, _)| *name)
    }
}
