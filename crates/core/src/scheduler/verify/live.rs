//! Compares live signatures with full evaluations of the cluster as it is, one after the other, so that each is compared within a
//! known interval: when there is nothing else to do, and where that does not suffice, on credit.

use super::super::attempt::candidates;
use super::super::{Scheduler, Step, profile_named, refused};
use super::{Compared, Mode, Nodes, Verify};
use crate::framework::post_filter::Draws;
use crate::incremental::LiveSignature;
use crate::pod::PodInfo;
use crate::report::Notice;
use crate::scheduler::quarantine::panic_text;
use crate::time::Time;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The time between two comparisons without anything else to do: at 8,192 signatures a round takes 82 s, and an idle scheduler wakes a hundred
/// times a second at most, in rounds alone.
const PAUSE: Duration = Duration::from_millis(10);
/// After a comparison that took longer than a pause, nothing is compared for so many times that long: a fifth of idle time at most.
const REST: u32 = 4;
/// Rounds in an interval. A signature made right after its turn in one round has its next turn in the next.
const ROUNDS: u32 = 2;

/// What comparisons cost, and how far they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// What the scheduler's work took so far, comparisons included, idle time not.
    pub busy: Duration,
    /// What of it calls took that made comparisons.
    pub comparing: Duration,
    /// Of all live signatures, since when the one is unchecked of which that is longest; `None` where none is to be checked.
    pub unchecked_since: Option<Time>,
    /// Whether cached decisions are used.
    pub is_trusting: bool,
}

/// One turn of each live signature.
#[derive(Debug)]
pub(super) struct Round {
    interval: Duration,
    began: Time,
    cursor: usize,
    is_over: bool,
    /// Nothing is compared in idle time before.
    not_before: Time,
    /// When the last call, which had nothing else to do, began to compare.
    idle_since: Option<Time>,
}

impl Round {
    fn new(now: Time, interval: Duration) -> Self {
        Self { interval, began: now, cursor: 0, is_over: true, not_before: now, idle_since: None }
    }

    /// The scheduler is called. If the last call compared something, that took no longer than since then.
    pub(super) fn called(&mut self, now: Time) {
        if let Some(since) = self.idle_since.take() {
            // The caller waited meanwhile if the comparison was short.
            let beyond = now.since(since).saturating_sub(2 * PAUSE);
            self.not_before = (since + PAUSE).max(now + beyond * REST);
        }
    }

    fn next(&self) -> Time {
        self.began + self.interval / ROUNDS
    }

    /// Whether there may be signatures whose turn is to come, now that it may be time for another round.
    fn is_on(&mut self, now: Time) -> bool {
        if self.is_over && now >= self.next() {
            (self.began, self.cursor, self.is_over) = (now, 0, false);
        }
        !self.is_over
    }
}

impl Verify {
    /// Whether idle time did not suffice for the round: it takes half of its time already.
    pub(super) fn is_late(&mut self, now: Time) -> bool {
        let Some(round) = &mut self.round else { return false };
        round.is_on(now) && now.since(round.began) >= round.interval / ROUNDS / 2
    }
}

impl Scheduler {
    /// From now on compares each live signature with a full evaluation once in such an interval: in idle time, and within 2 % of the busy
    /// time, which otherwise goes to decisions about pods, unless [`Self::verify_decisions`] says how many of those are compared.
    pub fn verify_within(&mut self, now: Time, interval: Duration) {
        if self.verify.mode == Mode::Off {
            self.verify.mode = Mode::Budget;
        }
        self.verify.round = Some(Round::new(now, interval));
    }

    /// Compares the next live signature that was neither made nor compared since `began`, whatever that costs; whether there was one. The
    /// cursor begins at 0, and `began` is not later than `now`. For tests and simulations, which have the time.
    pub fn verify_one(&mut self, now: Time, cursor: &mut usize, began: Time) -> bool {
        self.decisions.tick(now);
        self.decides_from_caches() && self.verify_next(now, cursor, began)
    }

    /// There is nothing to do before `wake_at`: a live signature may have its turn.
    pub(in crate::scheduler) fn rest(&mut self, now: Time, wake_at: Option<Time>) -> Step {
        let next = self.verify_at_rest(now);
        if let Some(notice) = self.notices.pop_front() {
            return Step::Notice(notice);
        }
        self.verify.credit.waits();
        Step::Idle { wake_at: [wake_at, next].into_iter().flatten().min() }
    }

    /// When to come back for the next turn.
    fn verify_at_rest(&mut self, now: Time) -> Option<Time> {
        if !self.may_verify() || self.decisions.has_none() {
            return None;
        }
        let round = self.verify.round.as_mut()?;
        if !round.is_on(now) {
            return Some(round.next());
        }
        if now < round.not_before {
            return Some(round.not_before);
        }
        let was_one = self.verify_in_round(now);
        let round = self.verify.round.as_mut()?;
        if was_one {
            round.idle_since = Some(now);
        }
        let soon = now + PAUSE;
        Some(if was_one { soon } else { round.next().max(soon) })
    }

    /// A pod was decided: a live signature has its turn as well where idle time does not suffice and credit is left.
    pub(in crate::scheduler) fn verify_when_late(&mut self, now: Time) {
        let verify = &mut self.verify;
        let may = verify.credit.is_left() && !verify.credit.has_verified() && verify.is_late(now);
        if may && self.may_verify() && self.verify_in_round(now) {
            self.verify.credit.verifies();
        }
    }

    /// Whether decisions are made, and from caches.
    fn decides_from_caches(&self) -> bool {
        let decides = self.leading && !self.halted && self.lists.awaited().next().is_none();
        decides && self.verify.is_trusting
    }

    /// Whether there are rounds, and something to compare in them.
    fn may_verify(&self) -> bool {
        self.verify.round.is_some() && self.decides_from_caches()
    }

    /// Compares the next live signature of the round; whether there was one.
    fn verify_in_round(&mut self, now: Time) -> bool {
        let Some(Round { mut cursor, began, .. }) = self.verify.round else { return false };
        let was_one = self.verify_next(now, &mut cursor, began);
        if let Some(round) = &mut self.verify.round {
            (round.cursor, round.is_over) = (cursor, !was_one);
        }
        was_one
    }

    /// Compares the next live signature that was not compared since `began`; whether there was one.
    fn verify_next(&mut self, now: Time, cursor: &mut usize, began: Time) -> bool {
        let Some((live, pod)) = self.decisions.next_unchecked(cursor, began) else { return false };
        self.cache.preview();
        match catch_unwind(AssertUnwindSafe(|| self.compare(now, live, &pod))) {
            Ok(None) => {}
            Ok(Some(verdict)) => {
                if let Err(difference) = self.verify.judged(verdict) {
                    self.differed(&pod, &difference);
                }
            }
            Err(panic) => {
                self.panics += 1;
                self.decisions.clear();
                let object = format!("Pod {}", self.snapshot().pod_key(&pod));
                let text = format!(
                    "checking the cached decision for pods like it panicked: {}; all cached decisions were evicted",
                    panic_text(panic.as_ref())
                );
                self.notices.push_back(Notice { object, text });
            }
        }
        true
    }

    /// Whether what is cached of a signature equals a full evaluation; `None` where no decision would be made from it.
    fn compare(&mut self, now: Time, live: LiveSignature, pod: &Arc<PodInfo>) -> Option<Result<(), String>> {
        let Self { cache, tables, profiles, decisions, verify, seed, .. } = self;
        let (snapshot, seed) = (cache.snapshot(tables), *seed);
        let framework = &profile_named(profiles, pod.scheduler_name)?.framework;
        match live {
            LiveSignature::Decision { index } => {
                let mut quick = framework.redecide(decisions, index, pod, snapshot)?;
                let evaluated = candidates(framework, pod, snapshot);
                let nodes = Nodes::Turn(verify.same);
                let compared = Compared { framework, pod, quick: &mut quick, seed, evaluated, nodes };
                Some(compared.verdict(snapshot))
            }
            LiveSignature::Refusal { at } => {
                let draws = (Draws { seed, attempt: 1 }, now);
                let then = refused::conclusion(framework, draws);
                let cached = framework.reject_again(decisions, at, pod, snapshot, draws, then)?;
                Some(refused::verdict(framework, pod, snapshot, draws, &cached))
            }
        }
    }

    /// What comparisons cost, and how far they are. Looks at each live signature.
    pub(in crate::scheduler) fn verification(&self) -> Verification {
        Verification {
            busy: self.verify.credit.busy,
            comparing: self.verify.credit.comparing,
            unchecked_since: self.decisions.oldest_check().filter(|_| self.may_verify()),
            is_trusting: self.verify.is_trusting,
        }
    }
}
