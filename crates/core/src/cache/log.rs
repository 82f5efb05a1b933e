//! The last changes of something, one a tick of a clock, so that a cache of decisions learns what happened since it was brought up to date.
//! Does not know what changes.

use std::collections::VecDeque;

/// The last `MAX` changes. A reader that missed more starts over.
pub(super) struct Log<T, const MAX: usize> {
    clock: u64,
    /// The newest at the end.
    entries: VecDeque<T>,
}

impl<T, const MAX: usize> Default for Log<T, MAX> {
    fn default() -> Self {
        Self { clock: 0, entries: VecDeque::new() }
    }
}

impl<T: Copy, const MAX: usize> Log<T, MAX> {
    /// An empty log with a later clock: a reader of `self` that goes on reading the new one is told to start over.
    pub(super) fn successor(&self) -> Self {
        Self { clock: self.clock + 1, entries: VecDeque::new() }
    }

    /// The number of changes so far.
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

    /// The changes since the clock showed `since`, in order; `None` if some of them are forgotten, or if it never showed that.
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
