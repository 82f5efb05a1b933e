//! The work of searches for devices: the limit of one attempt, and the progress of searches that go on later.

use std::any::Any;
use std::cell::{Cell, RefCell};

/// The work of a step of a search for devices, in units of one comparison or lookup: it takes 50 ns on average.
pub(super) const SEARCH_STEP_WORK: u64 = 8;

/// A search of at most 1/128 of an attempt's steps is short: about 1,500 steps in a slice of a group's cycle. It takes
/// less time to repeat it than to compare its dependencies with those of kept searches.
const SHORT_SEARCHES_DIVISOR: u64 = 128;
/// A search of so many steps for each device that its node sees is short, too: the memory and the comparison of stored
/// progress grow with these devices.
const SHORT_PER_DEVICE: u64 = 4;

thread_local! {
    static SEARCH_STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts a step of a search for devices, in builds with assertions.
pub(crate) fn count_search_step() {
    if cfg!(debug_assertions) {
        SEARCH_STEPS.set(SEARCH_STEPS.get() + 1);
    }
}

/// Calls a function whose steps do not count.
pub(crate) fn uncounted<T>(search: impl FnOnce() -> T) -> T {
    let before = SEARCH_STEPS.get();
    let result = search();
    SEARCH_STEPS.set(before);
    result
}

/// Returns the number of steps that searches for devices have made on this thread; 0 in builds without assertions,
/// which do not count.
pub fn search_steps() -> u64 {
    SEARCH_STEPS.get()
}

/// The progress of searches for devices, of a type that their plugin knows.
pub(crate) type Searches = Box<dyn Any + Send + Sync>;

/// The number of steps that the searches for devices of one attempt may make before it is evaluated in slices.
#[derive(Debug)]
pub(crate) struct StepLimit {
    most: u64,
    spent: Cell<u64>,
    /// The steps that each slice makes again.
    repeated: Cell<u64>,
    is_exceeded: Cell<bool>,
    /// Whether the limit is exceeded by searches that end before they can pause, too. A decision uses their results.
    is_of_comparison: bool,
    /// Whether searches that reach the limit go on in the next slice. Those of a single pod begin anew.
    keeps_searches: bool,
    searches: RefCell<Option<Searches>>,
    has_begun: Cell<bool>,
}

impl StepLimit {
    /// Creates the limit of an attempt of this much work.
    pub(crate) fn of(work: u64) -> Self {
        Self {
            most: work / SEARCH_STEP_WORK,
            spent: Cell::new(0),
            repeated: Cell::new(0),
            is_exceeded: Cell::new(false),
            is_of_comparison: false,
            keeps_searches: false,
            searches: RefCell::new(None),
            has_begun: Cell::new(false),
        }
    }

    /// Creates the limit of a comparison.
    pub(crate) fn of_comparison(work: u64) -> Self {
        Self { is_of_comparison: true, ..Self::of(work) }
    }

    /// Creates the limit of a slice of a group's cycle. Long searches of earlier slices go on.
    pub(crate) fn of_cycle(work: u64, searches: Option<Searches>) -> Self {
        Self { keeps_searches: true, searches: RefCell::new(searches), ..Self::of(work) }
    }

    /// Returns the maximum steps of a search whose progress is not worth keeping, on a node that sees this number of
    /// devices: never more than those of a slice.
    pub(crate) fn short_search(&self, devices: usize) -> u64 {
        let by_devices =
            u64::try_from(devices).map_or(u64::MAX, |devices| devices.saturating_mul(SHORT_PER_DEVICE));
        by_devices.min(self.most).max(self.most / SHORT_SEARCHES_DIVISOR).max(1)
    }

    /// Whether searches that reach the limit go on in the next slice.
    pub(crate) fn keeps_searches(&self) -> bool {
        self.keeps_searches
    }

    /// Takes the progress of the searches.
    pub(crate) fn take_searches(&self) -> Option<Searches> {
        self.searches.take()
    }

    /// Calls `change` with the progress of the searches, and whether this is the first call in this slice.
    pub(crate) fn with_searches<T: Any + Default + Send + Sync, R>(
        &self,
        change: impl FnOnce(&mut T, bool) -> R,
    ) -> R {
        let is_first = !self.has_begun.replace(true);
        change_searches(&mut self.searches.borrow_mut(), |searches| change(searches, is_first))
    }

    /// Returns the number of steps that are left. If a slice makes many steps again, more are left for new ones, so
    /// that all slices together make a small multiple of the steps of one search.
    pub(crate) fn left(&self) -> u64 {
        if self.is_exceeded() {
            return 0;
        }
        self.all().saturating_sub(self.spent.get())
    }

    /// Returns the number of steps that all searches may make.
    pub(crate) fn all(&self) -> u64 {
        self.most.max(self.repeated.get() / 2)
    }

    /// Counts steps of a search.
    pub(crate) fn spend(&self, steps: u64) {
        self.spent.set(self.spent.get().saturating_add(steps));
        if self.is_of_comparison && self.spent.get() > self.most {
            self.exceed();
        }
    }

    /// Counts steps of a search that each slice makes again.
    pub(crate) fn repeat(&self, steps: u64) {
        self.repeated.set(self.repeated.get().saturating_add(steps));
    }

    /// Records that a search needs more steps than are left.
    pub(crate) fn exceed(&self) {
        self.is_exceeded.set(true);
    }

    /// Whether a search needed more steps than were left. The result of the attempt is void then.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.is_exceeded.get()
    }
}

/// Calls `change` with the progress of searches, which is empty before the first one.
pub(super) fn change_searches<T: Any + Default + Send + Sync, R>(
    searches: &mut Option<Searches>,
    change: impl FnOnce(&mut T) -> R,
) -> R {
    let known = searches.take().and_then(|searches| searches.downcast::<T>().ok());
    let mut known = known.unwrap_or_default();
    let result = change(&mut known);
    *searches = Some(known);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_may_make_all_steps_of_its_limit_and_a_decision_more() {
        let (comparison, decision) =
            (StepLimit::of_comparison(100 * SEARCH_STEP_WORK), StepLimit::of(100 * SEARCH_STEP_WORK));
        [60, 40].into_iter().for_each(|steps| comparison.spend(steps));
        assert!(!comparison.is_exceeded());
        comparison.spend(1);
        assert!(comparison.is_exceeded());
        decision.spend(101);
        assert!(!decision.is_exceeded() && decision.left() == 0);
    }

    #[test]
    fn slice_that_makes_many_steps_again_has_half_as_many_for_new_ones() {
        let limit = StepLimit::of_cycle(100 * SEARCH_STEP_WORK, None);
        limit.repeat(150);
        assert_eq!(limit.left(), 100);
        limit.repeat(850);
        assert_eq!(limit.left(), 500);
        limit.spend(120);
        assert_eq!(limit.left(), 380);
    }
}
