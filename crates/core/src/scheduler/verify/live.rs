//! Verification of live signatures in turn, so that each is compared within a known interval.
//!
//! Comparisons run in idle time, and if that is too short, within the time budget.

use super::super::attempt::candidates;
use super::super::{Scheduler, Step, infeasible, profile_named};
use super::{Compared, Mode, Nodes, Verify};
use crate::cache::slice::step_limit::StepLimit;
use crate::framework::post_filter::Draws;
use crate::incremental::LiveSignature;
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use crate::report::Notice;
use crate::scheduler::quarantine::panic_text;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The interval between two comparisons in idle time. With 8,192 signatures a round takes 82 s, and an idle scheduler
/// wakes at most a hundred times a second, only during rounds.
const PAUSE: Duration = Duration::from_millis(10);
/// After a comparison longer than the interval, idle comparisons stop for this multiple of its duration. So they take
/// at most a fifth of idle time.
const REST: u32 = 4;
/// Rounds per interval. A signature cached right after its turn in one round is compared in the next.
const ROUNDS: u32 = 2;

/// Cost and progress of verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// The scheduler's busy time so far, including comparisons.
    pub busy: Duration,
    /// The part of it in calls that made comparisons.
    pub comparing: Duration,
    /// Since when the longest unchecked of all live signatures has not been compared; `None` if there are none to
    /// compare.
    pub unchecked_since: Option<Time>,
    /// Whether cached decisions are used.
    pub is_trusting: bool,
}

/// A round, in which each live signature is compared once.
#[derive(Debug)]
pub(super) struct Round {
    interval: Duration,
    began: Time,
    cursor: usize,
    is_over: bool,
    /// Idle comparisons are not made before this time.
    not_before: Time,
    /// When the last comparison in idle time began.
    idle_since: Option<Time>,
}

impl Round {
    fn new(now: Time, interval: Duration) -> Self {
        Self { interval, began: now, cursor: 0, is_over: true, not_before: now, idle_since: None }
    }

    /// Notes a call of the scheduler, which gives an upper bound for the duration of the last comparison.
    pub(super) fn called(&mut self, now: Time) {
        if let Some(since) = self.idle_since.take() {
            // After a short comparison, part of this time was spent waiting.
            let beyond = now.since(since).saturating_sub(2 * PAUSE);
            self.not_before = (since + PAUSE).max(now + beyond * REST);
        }
    }

    fn next(&self) -> Time {
        self.began + self.interval / ROUNDS
    }

    /// Whether signatures remain in the round. Starts the next round if it is due.
    fn is_on(&mut self, now: Time) -> bool {
        if self.is_over && now >= self.next() {
            (self.began, self.cursor, self.is_over) = (now, 0, false);
        }
        !self.is_over
    }
}

impl Verify {
    /// Whether idle time did not suffice: the round has used half of its time.
    pub(super) fn is_late(&mut self, now: Time) -> bool {
        let Some(round) = &mut self.round else { return false };
        round.is_on(now) && now.since(round.began) >= round.interval / ROUNDS / 2
    }
}

impl Scheduler {
    /// Compares each live signature with a full evaluation once in each interval.
    ///
    /// It uses idle time, and 2 % of the busy time. The busy part also serves comparisons of decisions about pods,
    /// unless [`Self::verify_decisions`] sets their number.
    pub fn verify_within(&mut self, now: Time, interval: Duration) {
        if self.verify.mode == Mode::Off {
            self.verify.mode = Mode::Budget;
        }
        self.verify.round = Some(Round::new(now, interval));
    }

    /// Compares the next live signature that was neither cached nor compared since `began`, at any cost. Returns
    /// whether there was one.
    ///
    /// `cursor` starts at 0, and `began` must not be later than `now`. For tests and simulations.
    pub fn verify_one(&mut self, now: Time, cursor: &mut usize, began: Time) -> bool {
        self.decisions.set_now(now);
        self.decides_from_caches() && self.verify_next(now, cursor, began)
    }

    /// Uses idle time before `wake_at` to compare a live signature.
    pub(in crate::scheduler) fn rest(&mut self, now: Time, wake_at: Option<Time>) -> Step {
        let next = self.verify_at_rest(now);
        if let Some(notice) = self.notices.pop_front() {
            return Step::Notice(notice);
        }
        self.verify.credit.waits();
        Step::Idle { wake_at: [wake_at, next].into_iter().flatten().min() }
    }

    /// Compares a live signature if one is due, and returns when to continue.
    fn verify_at_rest(&mut self, now: Time) -> Option<Time> {
        if !self.may_verify() || self.decisions.is_empty() {
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

    /// Compares a live signature after a decision, if idle time did not suffice and there is credit.
    pub(in crate::scheduler) fn verify_when_late(&mut self, now: Time) {
        let verify = &mut self.verify;
        let may = verify.credit.is_left() && !verify.credit.has_verified() && verify.is_late(now);
        if may && self.may_verify() && self.verify_in_round(now) {
            self.verify.credit.verifies();
        }
    }

    /// Whether this replica decides, and uses caches.
    fn decides_from_caches(&self) -> bool {
        let decides = self.leading && !self.halted && self.awaited_kinds().next().is_none();
        decides && self.verify.is_trusting
    }

    /// Whether rounds are enabled, and there may be something to compare.
    fn may_verify(&self) -> bool {
        self.verify.round.is_some() && self.decides_from_caches()
    }

    /// Compares the next live signature of the round, and returns whether there was one.
    fn verify_in_round(&mut self, now: Time) -> bool {
        let Some(Round { mut cursor, began, .. }) = self.verify.round else { return false };
        let was_one = self.verify_next(now, &mut cursor, began);
        if let Some(round) = &mut self.verify.round {
            (round.cursor, round.is_over) = (cursor, !was_one);
        }
        was_one
    }

    /// Compares the next live signature that was not compared since `began`, and returns whether there was one.
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
                self.quarantine.panics += 1;
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

    /// Compares a cached signature with a full evaluation; `None` if the cache would not be used for it, or if its
    /// searches for devices take longer than one step may.
    fn compare(&mut self, now: Time, live: LiveSignature, pod: &Arc<PodInfo>) -> Option<Result<(), String>> {
        let limit = StepLimit::of_comparison(self.slices.limits().large);
        let Self { cache, tables, profiles, decisions, verify, seed, .. } = self;
        let (snapshot, seed) = (cache.snapshot(tables).with_step_limit(&limit), *seed);
        let framework = &profile_named(profiles, pod.scheduler_name)?.framework;
        let verdict = match live {
            LiveSignature::Decision { index } => {
                let mut cached = framework.redecide(decisions, index, pod, snapshot)?;
                let evaluated = candidates(framework, pod, snapshot);
                let nodes = Nodes::Turn(verify.same);
                let compared = Compared { framework, pod, cached: &mut cached, seed, evaluated, nodes };
                compared.verdict(snapshot)
            }
            LiveSignature::Rejection { at } => {
                let draws = (Draws { seed, attempt: 1 }, now);
                let then = infeasible::conclusion(framework, draws);
                let cached = framework.reject_again(decisions, at, pod, snapshot, draws, then)?;
                infeasible::verdict(framework, pod, snapshot, draws, &cached)
            }
        };
        (!limit.is_exceeded()).then_some(verdict)
    }

    /// Returns cost and progress. Visits every live signature.
    pub(in crate::scheduler) fn verification(&self) -> Verification {
        Verification {
            busy: self.verify.credit.busy,
            comparing: self.verify.credit.comparing,
            unchecked_since: self.decisions.oldest_check().filter(|_| self.may_verify()),
            is_trusting: self.verify.is_trusting,
        }
    }
}
