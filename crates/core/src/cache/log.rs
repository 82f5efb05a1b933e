//! A bounded change log with a clock. Readers that cache state read the changes since their last update. The
//! entries' type is generic.

use std::collections::VecDeque;

/// The last `MAX` changes. A reader that missed older ones must start over.
pub(super) struct Log<T, const MAX: usize> {
    clock: u64,
    /// In order, newest last.
    entries: VecDeque<T>,
}

impl<T, const MAX: usize> Default for Log<T, MAX> {
    fn default() -> Self {
        Self { clock: 0, entries: VecDeque::new() }
    }
}

impl<T: Copy, const MAX: usize> Log<T, MAX> {
    /// Creates an empty log with a later clock. A reader of `self` that continues with the new log has to start
    /// over.
    pub(super) fn successor(&self) -> Self {
        Self { clock: self.clock + 1, entries: VecDeque::new() }
    }

    /// Returns the number of changes so far.
    pub(super) fn clock(&self) -> u64 {
        self.clock
    }

    pub(super) fn push(&mut self, entry: T) {
        self.clock += 1;
        if self.entries.len() == MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// Returns the changes after the clock showed `since`, in order. Returns `None` if some of them were
    /// dropped or the clock never showed `since`.
    pub(super) fn since(&self, since: u64) -> Option<impl Iterator<Item = T> + '_> {
        let count = usize::try_from(self.clock.checked_sub(since)?).ok()?;
        let first = self.entries.len().checked_sub(count)?;
        Some(self.entries.range(first..).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(log: &Log<u32, 3>, since: u64) -> Option<Vec<u32>> {
        log.since(since).map(Iterator::collect)
    }

    #[test]
    fn reader_learns_all_changes_or_that_it_must_start_over() {
        let mut log = Log::default();
        assert_eq!(since(&log, 0), Some(vec![]));
        (10..15).for_each(|entry| log.push(entry));
        assert_eq!(log.clock(), 5);
        assert_eq!((since(&log, 5), since(&log, 4)), (Some(vec![]), Some(vec![14])));
        assert_eq!((since(&log, 2), since(&log, 1)), (Some(vec![12, 13, 14]), None));
        assert_eq!(since(&log, 6), None, "it never showed that");
        let mut next = log.successor();
        assert_eq!(since(&next, 5), None);
        next.push(99);
        assert_eq!((since(&next, 5), since(&next, 6)), (None, Some(vec![99])));
    }
}
