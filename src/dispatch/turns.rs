//! Writes about one object go out one after the other, in the order in which they were submitted.
//!
//! Without this a slow status patch could land after the binding that came later, and a bound pod would be told that it
//! is not scheduled. Writes about different objects do not wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Whose turn it is, per object.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    lines: Arc<Mutex<HashMap<Arc<str>, Line>>>,
}

#[derive(Debug)]
struct Line {
    /// The number of the last turn handed out.
    last: u64,
    /// Ends when the last turn does.
    ended: oneshot::Receiver<()>,
}

/// A place in the line of one object; it ends when dropped, which is to be after it came.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    key: Arc<str>,
    number: u64,
    before: Option<oneshot::Receiver<()>>,
    _end: oneshot::Sender<()>,
}

impl Turns {
    /// The next place in the line of `key`.
    pub(super) fn queue(&self, key: &Arc<str>) -> Turn {
        let (end, ended) = oneshot::channel();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let number = lines.get(key).map_or(0, |line| line.last) + 1;
        let before = lines.insert(Arc::clone(key), Line { last: number, ended }).map(|line| line.ended);
        Turn { turns: self.clone(), key: Arc::clone(key), number, before, _end: end }
    }

    /// Whether nobody has come after this turn.
    pub(super) fn is_last(&self, key: &str, number: u64) -> bool {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.get(key).is_some_and(|line| line.last == number)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.lines.lock().unwrap().len()
    }
}

impl Turn {
    /// Waits until everyone before has ended.
    pub(super) async fn come(&mut self) {
        if let Some(before) = self.before.take() {
            // It ends by being dropped, which is all there is to hear.
            let _ = before.await;
        }
    }

    /// Its number in the line.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether someone waits behind this turn.
    pub(super) fn is_overtaken(&self) -> bool {
        !self.turns.is_last(&self.key, self.number)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut lines = self.turns.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.get(&self.key).is_some_and(|line| line.last == self.number) {
            lines.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn turns_of_one_object_come_in_order_and_leave_nothing_behind() {
        let turns = Turns::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let (mut first, mut second, mut other) = (turns.queue(&a), turns.queue(&a), turns.queue(&b));
        first.come().await;
        other.come().await;
        assert!(first.is_overtaken() && !second.is_overtaken());
        {
            let mut waits = std::pin::pin!(second.come());
            assert!(poll!(&mut waits).is_pending());
            drop(first);
            waits.await;
        }
        drop(second);
        drop(other);
        assert_eq!(turns.len(), 0);
    }
}
