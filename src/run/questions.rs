//! Rate limit for queries to the engine over HTTP: one at a time, and a small share of the engine's time.
//!
//! Without it, a client that queries in a loop could occupy nearly all of the scheduling thread.

use crate::engine::Inbox;
use std::sync::Arc;
use std::time::Instant;
use supercargo_core::scheduler::Scheduler;
use tokio::sync::Semaphore;

/// After a query, the engine gets this many times the query's duration for itself.
const REST: u32 = 9;

/// Admits one query at a time.
#[derive(Clone)]
pub(super) struct Questions {
    inbox: Inbox<Scheduler>,
    turn: Arc<Semaphore>,
}

impl Questions {
    pub(super) fn new(inbox: Inbox<Scheduler>) -> Self {
        Self { inbox, turn: Arc::new(Semaphore::new(1)) }
    }

    /// Runs a query between two decisions, once it is its turn. `None` if the engine has ended.
    pub(super) async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&Scheduler) -> R + Send + 'static,
    ) -> Option<R> {
        let turn = Arc::clone(&self.turn).acquire_owned().await.ok()?;
        let (inbox, (sender, receiver)) = (self.inbox.clone(), tokio::sync::oneshot::channel());
        // A task of its own: if the caller leaves, the permit is still held until the query has ended.
        tokio::spawn(async move {
            let timed = move |engine: &Scheduler| {
                let began = Instant::now();
                (question(engine), began.elapsed())
            };
            if let Ok((answer, took)) = inbox.ask(timed).await {
                let _ = sender.send(answer);
                tokio::time::sleep(took * REST).await;
            }
            drop(turn);
        });
        receiver.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Item, without_driver};
    use std::time::Duration;
    use supercargo_core::model::rng::Seed;
    use supercargo_core::model::time::Time;
    use supercargo_core::queue::QueueConfig;
    use supercargo_core::scheduler::Config;
    use tokio::sync::mpsc::Receiver;

    fn engine() -> Scheduler {
        let config = Config { seed: Seed(1), profiles: Vec::new(), queue: QueueConfig::default() };
        Scheduler::new(config, Time::from_secs(0))
    }

    async fn asked(items: &mut Receiver<Item<Scheduler>>) -> Box<dyn FnOnce(&Scheduler) + Send> {
        match items.recv().await {
            Some(Item::Inspect(look)) => look,
            _ => panic!("expected a query"),
        }
    }

    /// A query that occupies the engine for this long.
    fn slow(it_takes: Duration) -> impl FnOnce(&Scheduler) + Send {
        move |_| {
            let began = Instant::now();
            while began.elapsed() < it_takes {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn engine_rests_nine_times_the_duration_of_each_query() {
        let (inbox, mut items) = without_driver(8);
        let questions = Questions::new(inbox);
        let (first, second) = (questions.clone(), questions);
        let first = tokio::spawn(async move { first.ask(slow(Duration::from_millis(3))).await });
        let look = asked(&mut items).await;
        let answered = tokio::time::Instant::now();
        look(&engine());
        assert_eq!(first.await.expect("it does not panic"), Some(()));
        assert_eq!(answered.elapsed(), Duration::ZERO, "the answer is returned without delay");
        tokio::spawn(async move { second.ask(|_: &Scheduler| ()).await });
        let _look = asked(&mut items).await;
        assert!(answered.elapsed() >= Duration::from_millis(27), "{:?}", answered.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_query_still_counts_against_the_limit() {
        let (inbox, mut items) = without_driver(8);
        let questions = Questions::new(inbox);
        let leaves = questions.clone();
        let leaves = tokio::spawn(async move { leaves.ask(|_: &Scheduler| ()).await });
        let look = asked(&mut items).await;
        leaves.abort();
        assert!(leaves.await.is_err());
        let next = tokio::spawn(async move { questions.ask(|_: &Scheduler| 7).await });
        // Let all other tasks run first.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(items.try_recv().is_err(), "the first query is still in flight");
        look(&engine());
        asked(&mut items).await(&engine());
        assert_eq!(next.await.expect("it does not panic"), Some(7));
    }
}
