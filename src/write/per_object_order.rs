//! Orders writes about one object: they are sent one after the other, in order of submission.
//!
//! Otherwise a slow status patch could land after a later binding and report a bound pod as unscheduled.
//! Writes about different objects are independent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Queues of writes, by object.
#[derive(Clone, Debug, Default)]
pub(super) struct PerObjectOrder {
    lines: Arc<Mutex<HashMap<Arc<str>, Line>>>,
}

#[derive(Debug)]
struct Line {
    /// Number of the last turn handed out.
    last: u64,
    /// Closes when the last turn is dropped.
    ended: oneshot::Receiver<()>,
}

/// A place in the queue of one object; dropping it lets the next one proceed. Drop it only after
/// [`Turn::come`].
#[derive(Debug)]
pub(super) struct Turn {
    turns: PerObjectOrder,
    key: Arc<str>,
    number: u64,
    before: Option<oneshot::Receiver<()>>,
    _end: oneshot::Sender<()>,
}

impl PerObjectOrder {
    /// Returns the next place in the queue of `key`.
    pub(super) fn queue(&self, key: &Arc<str>) -> Turn {
        let (end, ended) = oneshot::channel();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let number = lines.get(key).map_or(0, |line| line.last) + 1;
        let before = lines.insert(Arc::clone(key), Line { last: number, ended }).map(|line| line.ended);
        Turn { turns: self.clone(), key: Arc::clone(key), number, before, _end: end }
    }

    /// Whether no turn was queued after `number`.
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
    /// Waits until all earlier turns have ended.
    pub(super) async fn wait(&mut self) {
        if let Some(before) = self.before.take() {
            // A turn ends by dropping its sender, which is reported as an error here.
            let _ = before.await;
        }
    }

    /// Returns its number in the queue.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether a later turn is queued.
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
    async fn writes_about_one_object_keep_their_order_and_leave_no_state() {
        let turns = PerObjectOrder::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let (mut first, mut second, mut other) = (turns.queue(&a), turns.queue(&a), turns.queue(&b));
        first.wait().await;
        other.wait().await;
        assert!(first.is_overtaken() && !second.is_overtaken());
        {
            let mut waits = std::pin::pin!(second.wait());
            assert!(poll!(&mut waits).is_pending());
            drop(first);
            waits.await;
        }
        drop(second);
        drop(other);
        assert_eq!(turns.len(), 0);
    }
}
