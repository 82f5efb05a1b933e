//! The single bounded channel into the driver thread.
//!
//! Events keep their order within the channel. Senders wait for room, so a burst of watch events slows down the
//! watches only. The channel knows no Kubernetes types: items need at most the engine's tables to become events.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use supercargo_core::model::event::Event;
use supercargo_core::model::time::Time;
use tokio::sync::{mpsc, oneshot};

use supercargo_apiserver::watch::{Convert, Ended, Intake, Written};

/// Changes the engine; it also gets the current time.
pub type Change<E> = Box<dyn FnOnce(&mut E, Time) + Send>;

/// An input of the driver thread.
pub enum Item<E> {
    /// A watched object or list marker, with its JSON text if inputs are recorded.
    Object(Convert, Written),
    /// The end of an effect: its outcome, if one is expected, and one credit for its lane.
    Answer(Vec<Event>),
    /// Reads the engine between two decisions.
    Inspect(Box<dyn FnOnce(&E) + Send>),
    /// Changes the engine between two decisions, with the JSON text of the change if inputs are recorded.
    Change(Change<E>, Written),
    /// Stops scheduling and waits for in-flight writes.
    Stop {
        /// Maximum time to wait for answers.
        within: Duration,
    },
}

/// Fill level of a bounded channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Queued items.
    pub length: usize,
    /// Maximum number of queued items.
    pub capacity: usize,
}

/// A sender into the channel.
pub struct Inbox<E> {
    sender: mpsc::Sender<Item<E>>,
    wants_text: bool,
}

impl<E> Clone for Inbox<E> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), wants_text: self.wants_text }
    }
}

impl<E> Inbox<E> {
    /// Sends an item, waiting for room.
    pub async fn send(&self, item: Item<E>) -> Result<(), Ended> {
        self.sender.send(item).await.map_err(|_| Ended)
    }

    /// Reports whether inputs are recorded, so that items need their JSON text.
    pub fn wants_text(&self) -> bool {
        self.wants_text
    }

    pub(super) fn set_wants_text(&mut self) {
        self.wants_text = true;
    }

    /// Runs `question` on the engine between two decisions and returns its result.
    pub async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&E) -> R + Send + 'static,
    ) -> Result<R, Ended> {
        let (answer, answered) = oneshot::channel();
        let inspect = move |engine: &E| {
            // The receiver may have stopped waiting.
            let _ = answer.send(question(engine));
        };
        self.send(Item::Inspect(Box::new(inspect))).await?;
        answered.await.map_err(|_| Ended)
    }

    /// Runs `change` on the engine between two decisions and returns its result. `text` is called only if inputs are
    /// recorded.
    pub async fn change<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut E, Time) -> R + Send + 'static,
        text: impl FnOnce() -> Box<str>,
    ) -> Result<R, Ended> {
        let (answer, answered) = oneshot::channel();
        let change = move |engine: &mut E, now: Time| {
            // The receiver may have stopped waiting.
            let _ = answer.send(change(engine, now));
        };
        self.send(Item::Change(Box::new(change), self.wants_text.then(text))).await?;
        answered.await.map_err(|_| Ended)
    }

    /// Returns the channel's fill level.
    pub fn fill(&self) -> Fill {
        let capacity = self.sender.max_capacity();
        Fill { length: capacity - self.sender.capacity(), capacity }
    }
}

impl<E> Intake for Inbox<E> {
    fn wants_text(&self) -> bool {
        self.wants_text
    }

    fn take(&self, convert: Convert, text: Written) -> BoxFuture<'_, Result<(), Ended>> {
        Box::pin(self.send(Item::Object(convert, text)))
    }
}

/// Receives the outcomes of effects. The trait hides the engine's type from the code that carries them out.
pub trait Answers: Send + Sync {
    /// Sends the resulting events of an effect, waiting for room. Does nothing after the driver has ended.
    fn answer(&self, events: Vec<Event>) -> BoxFuture<'_, ()>;
}

impl<E> Answers for Inbox<E> {
    fn answer(&self, events: Vec<Event>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // After the driver's end, outcomes no longer matter.
            let _ = self.send(Item::Answer(events)).await;
        })
    }
}

/// The receiving end, read by a thread without an async runtime.
pub(super) struct Arrivals<E> {
    receiver: mpsc::Receiver<Item<E>>,
}

/// Result of waiting on the channel.
pub(super) enum Arrival<E> {
    /// An item.
    Item(Item<E>),
    /// The timeout passed.
    Late,
    /// All senders are gone.
    Closed,
}

/// A channel for tests that read its items without a driver.
#[cfg(test)]
pub(crate) fn without_driver<E>(capacity: usize) -> (Inbox<E>, mpsc::Receiver<Item<E>>) {
    let (sender, receiver) = mpsc::channel(capacity);
    (Inbox { sender, wants_text: false }, receiver)
}

/// Creates a channel of this capacity.
pub(super) fn channel<E>(capacity: usize) -> (Inbox<E>, Arrivals<E>) {
    let (sender, receiver) = mpsc::channel(capacity);
    (Inbox { sender, wants_text: false }, Arrivals { receiver })
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<E> Arrivals<E> {
    /// Returns the next item without waiting, if any.
    pub(super) fn take(&mut self) -> Option<Item<E>> {
        self.receiver.try_recv().ok()
    }

    /// Sleeps until an item arrives or `until` passes; without `until`, there is no timeout.
    pub(super) fn wait(&mut self, until: Option<Instant>) -> Arrival<E> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match self.receiver.poll_recv(&mut context) {
                Poll::Ready(Some(item)) => return Arrival::Item(item),
                Poll::Ready(None) => return Arrival::Closed,
                Poll::Pending => {}
            }
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(Duration::ZERO) => return Arrival::Late,
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }
}
