//! Compares answers from memory with fresh ones while the engine runs, and stops to believe in its memory once they differ.
//!
//! What is remembered equals what a fresh look gives: laws, recorded answers of the real scheduler and the simulation show it.
//! This is for who wants to see it of a cluster of their own. Both read the same columns, so each node that fits is looked at by itself
//! as well. Beyond that it proves nothing of the plain path itself; that is the shadow's work.

use super::Scheduler;
use super::failure::Unschedulable;
use crate::cache::Snapshot;
use crate::cycle::{Decision, Framework, NoProbe, Options, Quick};
use crate::framework::CycleError;
use crate::pod::PodInfo;
use crate::queue::QueuedPod;
use crate::report::Notice;
use crate::rng::Seed;
use crate::time::Time;
use std::num::NonZeroU32;

/// Which answers are compared, and what came of it.
pub(super) struct Verify {
    mode: Mode,
    /// So many answers are believed before the next is compared.
    believed: u32,
    same: u64,
    differing: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// None.
    Off,
    /// All of them; one that differs is a panic. What builds with assertions do.
    Strict,
    /// One of so many.
    Sampled(NonZeroU32),
    /// One differed: nothing that is remembered is used any more.
    Distrust,
}

impl Default for Verify {
    fn default() -> Self {
        let mode = if cfg!(debug_assertions) { Mode::Strict } else { Mode::Off };
        Self { mode, believed: 0, same: 0, differing: 0 }
    }
}

impl Verify {
    /// Whether what is remembered may be used.
    pub(super) fn is_trusting(&self) -> bool {
        self.mode != Mode::Distrust
    }

    /// Nothing that is remembered is used until [`Self::resume`].
    pub(super) fn suspend(&mut self) -> Mode {
        std::mem::replace(&mut self.mode, Mode::Distrust)
    }

    /// As it was.
    pub(super) fn resume(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// How many answers were compared: those that were the same, and those that were not.
    pub(super) fn compared(&self) -> [u64; 2] {
        [self.same, self.differing]
    }

    /// Whether this answer is to be compared.
    pub(super) fn is_due(&mut self) -> bool {
        match self.mode {
            Mode::Off | Mode::Distrust => false,
            Mode::Strict => true,
            Mode::Sampled(every) => {
                self.believed += 1;
                let is_due = self.believed >= every.get();
                self.believed = if is_due { 0 } else { self.believed };
                is_due
            }
        }
    }

    /// An answer was compared, and may be given, or what differs is this.
    pub(super) fn judged(&mut self, verdict: Result<(), String>) -> Result<(), String> {
        let Err(told) = &verdict else {
            self.same += 1;
            return verdict;
        };
        assert!(self.mode != Mode::Strict, "{told}");
        self.differing += 1;
        self.mode = Mode::Distrust;
        verdict
    }
}

impl Scheduler {
    /// From now on compares one of so many answers from memory with a fresh look; none for `None`. Where one differs, the fresh one is
    /// taken, a notice tells of it, and nothing remembered is used from there on.
    pub fn verify_decisions(&mut self, every: Option<NonZeroU32>) {
        self.verify.mode = every.map_or(Mode::Off, Mode::Sampled);
        self.verify.believed = 0;
    }

    /// From now on nothing that is remembered is used: each pod is decided about by a look at every node. For who wants to know what memory
    /// saves.
    pub fn decide_afresh(&mut self) {
        self.verify.mode = Mode::Distrust;
        self.memory.clear();
        self.shapes.clear();
    }

    /// An answer from memory was wrong.
    pub(super) fn distrust(&mut self, pod: &PodInfo, told: &str) {
        self.memory.clear();
        self.shapes.clear();
        let object = format!("Pod {}", self.snapshot().pod_key(pod));
        let text = format!(
            "what was remembered of pods like it is not what a fresh look shows ({told}); the pod was decided about afresh, and \
             nothing remembered is used until the next start"
        );
        self.notices.push_back(Notice { object, text });
    }

    /// Whether no node can take the pod, as is remembered of one like it.
    pub(super) fn holds_true(&mut self, now: Time, queued: &QueuedPod, remembered: &Unschedulable) -> bool {
        if !self.verify.is_due() {
            return true;
        }
        let same = self.still_holds(now, queued, remembered);
        let verdict = if same { Ok(()) } else { Err(format!("remembered is: {}", remembered.message)) };
        match self.verify.judged(verdict) {
            Ok(()) => true,
            Err(told) => {
                self.distrust(&queued.pod, &told);
                false
            }
        }
    }
}

/// What a quick decision is, and a plain one would be.
pub(super) struct Compared<'a, 'b> {
    pub(super) framework: &'a Framework,
    pub(super) pod: &'a PodInfo,
    pub(super) quick: &'a mut Quick<'b>,
    pub(super) seed: Seed,
    /// How many nodes the quick one says it came to a verdict on.
    pub(super) evaluated: usize,
}

impl Compared<'_, '_> {
    /// Whether they are the same; else what differs.
    pub(super) fn verdict(self, snapshot: Snapshot<'_>) -> Result<(), String> {
        let Self { framework, pod, quick, seed, evaluated } = self;
        let plain = framework.decide(pod, snapshot, Options::default(), &mut NoProbe);
        let seen = match &plain {
            Ok(Decision::Feasible(feasible)) => Some(feasible.filtered.evaluated(snapshot)),
            _ => None,
        };
        if quick.is_what(&plain, seed, pod) && seen == Some(evaluated) {
            return stands_one_by_one(&plain, snapshot);
        }
        let node = |slot| snapshot.text(snapshot.node_info(slot).name).to_owned();
        let remembered = format!(
            "{} of {} nodes fit, {} is best",
            quick.len(),
            evaluated,
            node(quick.choose(seed, pod, 1))
        );
        Err(match plain {
            Ok(Decision::Feasible(feasible)) => format!(
                "remembered is: {remembered}; a fresh look: {} of {} fit, {} is best",
                feasible.filtered.feasible().len(),
                seen.unwrap_or_default(),
                node(feasible.choose(seed, pod, 1))
            ),
            Ok(Decision::Infeasible(_)) => format!("remembered is: {remembered}; a fresh look: none fits"),
            Err(CycleError(text)) => format!("remembered is: {remembered}; a fresh look: {text}"),
        })
    }
}

/// Whether each node that passed in columns, as both sorts of decision judge nodes, passes by itself as well.
fn stands_one_by_one(plain: &Result<Decision, CycleError>, snapshot: Snapshot<'_>) -> Result<(), String> {
    let Ok(Decision::Feasible(feasible)) = plain else { return Ok(()) };
    let mut nodes = feasible.filtered.feasible().iter();
    let refuted = nodes.find_map(|node| {
        let verdict = feasible.filtered.first_rejector(&snapshot.node(node));
        let told = match verdict {
            Ok(None) => return None,
            Ok(Some((plugin, rejection))) => format!("{plugin} says {}", rejection.message()),
            Err(CycleError(text)) => text,
        };
        let name = snapshot.text(snapshot.node_info(node).name);
        Some(format!("{name} is among the nodes that fit; looked at by itself, {told}"))
    });
    refuted.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, ObjectKey};
    use crate::mutation::{Mutation, with};
    use crate::scheduler::quarantine::tests::World;

    /// A pod that takes 3 of 4 CPUs, and one like it, which has no place. Only a fresh look knows.
    fn one_too_many(every: Option<u32>) -> (World, Vec<String>) {
        let mut world = World::new();
        world.scheduler.verify_decisions(every.and_then(NonZeroU32::new));
        let told = with(Some(Mutation::ShapesStand), || {
            world.pod("first", 3_000, None);
            world.run();
            world.pod("second", 3_000, None);
            world.run()
        });
        (world, told)
    }

    #[test]
    fn an_answer_from_memory_that_is_wrong_is_not_given_where_answers_are_verified() {
        let (_, told) = one_too_many(None);
        assert!(told[0].starts_with("second: Placed"), "the mistake is one: {told:?}");
        let (mut world, told) = one_too_many(Some(1));
        assert_eq!(
            told[0],
            "Pod default/second: what was remembered of pods like it is not what a fresh look shows (remembered is: 1 of 1 nodes \
             fit, a is best; a fresh look: none fits); the pod was decided about afresh, and nothing remembered is used until the \
             next start"
        );
        assert!(told.iter().any(|line| line.contains("Insufficient cpu")), "{told:?}");
        assert_eq!(world.scheduler.stats().verified, [1, 1]);
        let before = world.scheduler.stats().quick;
        world.pod("third", 500, None);
        assert!(world.run()[0].starts_with("third: Placed"));
        assert_eq!(world.scheduler.stats().quick, before, "nothing remembered is used");
    }

    /// Fresh decisions read the same columns: that these are wrong only the nodes themselves tell.
    #[test]
    fn columns_that_say_something_else_than_the_node_are_told_of() {
        let mut world = World::new();
        world.scheduler.verify_decisions(NonZeroU32::new(1));
        let told = with(Some(Mutation::ColumnStands), || {
            world.pod("first", 3_000, Some("a"));
            world.pod("second", 3_000, None);
            world.run()
        });
        assert!(told[0].contains("(a is among the nodes that fit; looked at by itself, "), "{told:?}");
        assert!(told[0].contains(" says Insufficient cpu)"), "{told:?}");
        assert_eq!(world.scheduler.stats().verified, [0, 1]);
    }

    #[test]
    fn one_of_so_many_answers_is_verified() {
        let mut world = World::new();
        world.scheduler.verify_decisions(NonZeroU32::new(3));
        for number in 0..8 {
            world.pod(&format!("p{number}"), 100, None);
            world.run();
        }
        assert_eq!(world.scheduler.stats().verified, [2, 0]);
        assert_eq!(world.scheduler.stats().quick, 8);
    }

    #[test]
    fn what_is_remembered_of_pods_that_fit_nowhere_is_verified_too() {
        let mut world = World::new();
        world.scheduler.verify_decisions(NonZeroU32::new(1));
        world.pod("large", 9_000, None);
        world.pod("larger", 9_000, None);
        world.run();
        assert_eq!((world.scheduler.stats().recalled, world.scheduler.stats().verified), (1, [1, 0]));
        with(Some(Mutation::MemoryStays), || {
            world.pod("middle", 4_000, Some("a"));
            world.pod("wide", 4_000, None);
            world.run();
            world.handle(Event::Gone(ObjectKey::Pod("middle".into())));
            world.pod("twin", 4_000, None);
            let told = world.run();
            assert!(told[0].starts_with("Pod default/twin: what was remembered"), "{told:?}");
            assert!(told.iter().any(|line| line.starts_with("twin: Placed")), "{told:?}");
        });
        assert_eq!(world.scheduler.stats().verified[1], 1);
    }
}
