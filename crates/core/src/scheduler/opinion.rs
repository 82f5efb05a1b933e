//! A second opinion: what another configuration would have decided, asked beside each decision, right before what came of it counts.
//! It has no say in anything.
//!
//! Decisions that extenders were asked about get none: what they would have said to other questions nobody knows.

use super::{Profile, Scheduler, profile_named};
use crate::effect::PodRef;
use crate::framework::CycleError;
use crate::intern::Symbol;
use crate::node::NodeIdx;
use crate::queue::QueuedPod;
use crate::shadow::{Choice, Comparison, Judge};
use std::collections::VecDeque;
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
}

/// How another configuration would have decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// The same.
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
    pub(super) fn second_opinion(&mut self, queued: &QueuedPod, start: usize, chosen: Result<NodeIdx, &str>) {
        let Some(mut second) = self.second.take() else { return };
        let mut walk = std::mem::take(&mut self.walk);
        let end = walk.start();
        walk.return_to(start);
        let snapshot = self.cache.snapshot(&self.tables);
        let pod = self.as_nominated(&queued.pod);
        let name = chosen.ok().map(|node| snapshot.node_info(node).name);
        let choice = match chosen {
            Ok(node) => Choice::Node(snapshot.node_info(node).name),
            Err(message) => Choice::None { message: message.to_owned() },
        };
        let otherwise = match profile_named(&second.profiles, pod.scheduler_name) {
            None => Otherwise::NotOurs,
            Some(profile) => {
                let judge =
                    Judge { framework: &profile.framework, seed: self.seed, attempt: queued.attempts };
                let found =
                    catch_unwind(AssertUnwindSafe(|| judge.otherwise(&pod, &choice, snapshot, &mut walk)));
                match found {
                    Ok(Ok(None)) => Otherwise::Same,
                    Ok(Ok(Some(comparison))) => Otherwise::Differs(comparison),
                    Ok(Err(CycleError(text))) => Otherwise::Failed(text),
                    Err(panic) => Otherwise::Failed(super::quarantine::panic_text(panic.as_ref())),
                }
            }
        };
        let chosen = name.map(|name| self.tables.text(name).to_owned());
        let (pod, attempt) = (self.pod_ref(&queued.pod), queued.attempts);
        second.formed.push_back(Opinion { pod, attempt, chosen, otherwise });
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
