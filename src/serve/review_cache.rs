//! A cache of review results with a lifetime, which merges concurrent queries for the same key.
//!
//! Errors go to all waiting callers and are not cached. The caller supplies the current time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::time::Instant;

use super::ReviewError;

type Asking<V> = Shared<BoxFuture<'static, Result<V, ReviewError>>>;

enum Slot<V> {
    Pending(Asking<V>),
    Known { answer: V, until: Instant },
}

/// Results by query; at most `capacity` entries.
pub(super) struct ReviewCache<K, V> {
    lifetime: Box<dyn Fn(&V) -> Duration + Send + Sync>,
    capacity: usize,
    slots: Mutex<HashMap<K, Slot<V>>>,
}

impl<K, V> ReviewCache<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Returns an empty cache. A result lives for its `lifetime` from the start of its query.
    pub(super) fn new(
        lifetime: impl Fn(&V) -> Duration + Send + Sync + 'static,
        capacity: usize,
    ) -> Arc<Self> {
        Arc::new(Self { lifetime: Box::new(lifetime), capacity, slots: Mutex::default() })
    }

    /// Returns the cached result, joins a query in flight, or starts one with `ask`. A started query runs to
    /// its end even if its caller is dropped.
    pub(super) async fn get(
        self: &Arc<Self>,
        now: Instant,
        question: K,
        ask: impl FnOnce(K) -> BoxFuture<'static, Result<V, ReviewError>>,
    ) -> Result<V, ReviewError> {
        let asking = {
            let mut slots = self.lock();
            match slots.get(&question) {
                Some(Slot::Known { answer, until }) if *until > now => return Ok(answer.clone()),
                Some(Slot::Pending(asking)) => asking.clone(),
                Some(Slot::Known { .. }) | None => {
                    if !make_room(&mut slots, self.capacity, now) {
                        return Err(ReviewError::Overloaded);
                    }
                    let asking = self.clone().ask(now, question.clone(), ask(question.clone()));
                    slots.insert(question, Slot::Pending(asking.clone()));
                    asking
                }
            }
        };
        asking.await
    }

    /// Runs the query in a task. The caller holds the lock until the slot is inserted, so the task cannot
    /// fill it too early.
    fn ask(
        self: Arc<Self>,
        now: Instant,
        question: K,
        ask: BoxFuture<'static, Result<V, ReviewError>>,
    ) -> Asking<V> {
        let task = tokio::spawn(async move {
            let outcome = AssertUnwindSafe(ask).catch_unwind().await.unwrap_or(Err(ReviewError::Interrupted));
            let mut slots = self.lock();
            if let Entry::Occupied(mut slot) = slots.entry(question) {
                match &outcome {
                    Ok(answer) => {
                        let until = now + (self.lifetime)(answer);
                        slot.insert(Slot::Known { answer: answer.clone(), until });
                    }
                    Err(_) => {
                        slot.remove();
                    }
                }
            }
            drop(slots);
            outcome
        });
        task.map(|joined| joined.unwrap_or(Err(ReviewError::Interrupted))).boxed().shared()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Slot<V>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes room for one entry by dropping expired entries, or else the one that expires first. Returns `false`
/// if all entries are queries in flight.
fn make_room<K: Clone + Eq + Hash, V>(
    slots: &mut HashMap<K, Slot<V>>,
    capacity: usize,
    now: Instant,
) -> bool {
    if slots.len() < capacity {
        return true;
    }
    slots.retain(|_, slot| match slot {
        Slot::Pending(_) => true,
        Slot::Known { until, .. } => *until > now,
    });
    if slots.len() < capacity {
        return true;
    }
    let known = slots.iter().filter_map(|(question, slot)| match slot {
        Slot::Known { until, .. } => Some((*until, question)),
        Slot::Pending(_) => None,
    });
    let Some(stalest) = known.min_by_key(|(until, _)| *until).map(|(_, question)| question.clone()) else {
        return false;
    };
    slots.remove(&stalest);
    true
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Notify;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(10);

    struct Desk {
        answers: Arc<ReviewCache<String, u32>>,
        asked: Arc<AtomicU32>,
        start: Instant,
    }

    impl Desk {
        fn new(capacity: usize) -> Self {
            let answers = ReviewCache::new(|_: &u32| LIFETIME, capacity);
            Self { answers, asked: Arc::default(), start: Instant::now() }
        }

        async fn at(
            &self,
            seconds: u64,
            question: &str,
            outcome: Result<u32, ReviewError>,
        ) -> Result<u32, String> {
            let asked = self.asked.clone();
            let ask = |_| {
                async move {
                    asked.fetch_add(1, Ordering::Relaxed);
                    outcome
                }
                .boxed()
            };
            let now = self.start + Duration::from_secs(seconds);
            self.answers.get(now, question.to_owned(), ask).await.map_err(|error| error.to_string())
        }

        fn asked(&self) -> u32 {
            self.asked.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn result_is_cached_for_its_lifetime() {
        let desk = Desk::new(8);
        assert_eq!(desk.at(0, "a", Ok(1)).await, Ok(1));
        assert_eq!(desk.at(9, "a", Ok(2)).await, Ok(1));
        assert_eq!(desk.at(9, "b", Ok(3)).await, Ok(3));
        assert_eq!(desk.asked(), 2);
        assert_eq!(desk.at(10, "a", Ok(2)).await, Ok(2));
        assert_eq!(desk.asked(), 3);
    }

    #[tokio::test]
    async fn error_is_not_cached() {
        let desk = Desk::new(8);
        assert!(desk.at(0, "a", Err(ReviewError::Interrupted)).await.is_err());
        assert_eq!(desk.at(0, "a", Ok(1)).await, Ok(1));
        assert_eq!(desk.asked(), 2);
    }

    #[tokio::test]
    async fn panicking_query_is_an_error_and_is_not_cached() {
        let desk = Desk::new(8);
        let now = desk.start;
        let panics = desk.answers.get(now, "a".to_owned(), |_| async { panic!("on purpose") }.boxed()).await;
        assert!(matches!(panics, Err(ReviewError::Interrupted)));
        assert_eq!(desk.at(0, "a", Ok(1)).await, Ok(1));
    }

    #[tokio::test]
    async fn concurrent_callers_share_one_query_even_if_the_first_is_dropped() {
        let desk = Desk::new(8);
        let (gate, asked) = (Arc::new(Notify::new()), desk.asked.clone());
        let slow = |_| {
            let (gate, asked) = (gate.clone(), asked.clone());
            async move {
                asked.fetch_add(1, Ordering::Relaxed);
                gate.notified().await;
                Ok(7)
            }
            .boxed()
        };
        let mut first = Box::pin(desk.answers.get(desk.start, "a".to_owned(), slow));
        assert!(futures::poll!(&mut first).is_pending());
        let mut second = Box::pin(desk.answers.get(desk.start, "a".to_owned(), slow));
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        gate.notify_one();
        assert_eq!(second.await.ok(), Some(7));
        assert_eq!(desk.asked(), 1);
    }

    #[tokio::test]
    async fn full_cache_evicts_expired_then_oldest_entries() {
        let desk = Desk::new(2);
        for (second, question) in ["a", "b", "c"].iter().enumerate() {
            let _ = desk.at(second as u64, question, Ok(0)).await;
        }
        assert_eq!(desk.answers.lock().len(), 2);
        assert_eq!(desk.at(3, "c", Ok(1)).await, Ok(0), "the newest entry stays");
        assert_eq!(desk.at(3, "a", Ok(1)).await, Ok(1), "the oldest entry was evicted");
        let _ = desk.at(60, "d", Ok(0)).await;
        assert_eq!(desk.answers.lock().len(), 1, "expired entries are evicted first");
    }

    #[tokio::test]
    async fn queries_beyond_the_capacity_are_rejected() {
        let desk = Desk::new(1);
        let never = |_| futures::future::pending().boxed();
        let mut first = Box::pin(desk.answers.get(desk.start, "a".to_owned(), never));
        assert!(futures::poll!(&mut first).is_pending());
        let turned_away = desk.answers.get(desk.start, "b".to_owned(), never).await;
        assert!(matches!(turned_away, Err(ReviewError::Overloaded)));
    }
}
