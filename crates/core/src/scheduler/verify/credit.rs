//! The time budget of comparisons: a share of the scheduling thread's other busy time.
//!
//! The engine has no clock. Every call passes the time, and a recording contains these times. The time between two
//! calls is the cost of the first, including the caller's work for it, unless the engine was idle. So a replay
//! computes the same budget.

use crate::model::time::Time;
use std::time::Duration;

/// Comparisons may take 1/50 (2 %) of the time of other work.
const SHARE: u32 = 50;
/// The maximum credit in nanoseconds. It keeps a burst of comparisons as short as some decisions in a large cluster.
const CREDIT_MAX: i64 = 20_000_000;
/// The maximum duration of a call. A longer gap means that the process was suspended.
const CALL_MAX: Duration = Duration::from_secs(10);

/// What the time between two calls is spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Spending {
    #[default]
    Waiting,
    Working,
    /// A comparison, and the rest of its call.
    Comparing,
}

/// The credit for comparisons.
#[derive(Debug, Default)]
pub(super) struct Credit {
    last: Time,
    spending: Spending,
    /// The remaining credit in nanoseconds; negative after a comparison that took longer than the credit.
    left: i64,
    /// The total busy time, including comparisons.
    pub(super) busy: Duration,
    /// The busy time of comparisons.
    pub(super) comparing: Duration,
}

impl Credit {
    /// Begins a call, which ends the previous one.
    pub(super) fn called(&mut self, now: Time) {
        let took = now.since(self.last).min(CALL_MAX);
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).expect("ten seconds at most");
        match self.spending {
            Spending::Waiting => {}
            Spending::Working => {
                self.busy += took;
                self.left = self.left.saturating_add(nanos(took / SHARE)).min(CREDIT_MAX);
            }
            Spending::Comparing => {
                self.busy += took;
                self.comparing += took;
                self.left = self.left.saturating_sub(nanos(took));
            }
        }
        (self.last, self.spending) = (now, Spending::Working);
    }

    /// Whether a comparison may begin.
    pub(super) fn is_left(&self) -> bool {
        self.left > 0
    }

    /// Marks this call as one with a comparison.
    pub(super) fn verifies(&mut self) {
        self.spending = Spending::Comparing;
    }

    /// Whether this call made a comparison.
    pub(super) fn has_verified(&self) -> bool {
        self.spending == Spending::Comparing
    }

    /// Marks the time until the next call as idle.
    pub(super) fn waits(&mut self) {
        self.spending = Spending::Waiting;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn verification_takes_two_percent_of_working_time() {
        let (mut credit, mut now) = (Credit::default(), Time::from_secs(100));
        let (mut work, mut comparisons) = (Duration::ZERO, Duration::ZERO);
        for call in 0..10_000_u32 {
            credit.called(now);
            let took = if credit.is_left() {
                credit.verifies();
                comparisons += 3 * MS;
                3 * MS
            } else if call % 7 == 0 {
                credit.waits();
                now = now + 50 * MS;
                continue;
            } else {
                work += MS / 5;
                MS / 5
            };
            now = now + took;
        }
        credit.called(now);
        assert!(comparisons <= work / SHARE + 3 * MS, "{comparisons:?} of {work:?}");
        assert!(comparisons + 3 * MS >= work / SHARE, "{comparisons:?} of {work:?}: the budget is used");
        assert_eq!((credit.busy, credit.comparing), (work + comparisons, comparisons));
    }

    #[test]
    fn idle_time_earns_no_credit_and_a_long_gap_is_capped() {
        let mut credit = Credit::default();
        credit.called(Time::from_secs(100));
        credit.waits();
        credit.called(Time::from_secs(200));
        assert!(!credit.is_left());
        credit.called(Time::from_secs(100_000));
        assert_eq!((credit.left, credit.busy), (CREDIT_MAX, CALL_MAX));
        credit.verifies();
        credit.called(Time::from_secs(200_000));
        assert_eq!(credit.left, CREDIT_MAX - 10_000_000_000, "the debt is bounded, too");
    }

    #[test]
    fn comparison_is_noted_until_its_call_ends() {
        let mut credit = Credit::default();
        credit.called(Time::from_secs(100));
        assert!(!credit.has_verified());
        credit.verifies();
        assert!(credit.has_verified());
        credit.called(Time::from_secs(101));
        assert!(!credit.has_verified());
    }
}
