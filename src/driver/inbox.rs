//! The one channel into the driver thread. Order holds inside it, and nowhere else.
//!
//! It is bounded: who sends waits for room, so a burst of watch events slows the watches down and nothing else. Knows no
//! Kubernetes types: what comes in needs at most the engine's tables to become an event.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use supercargo_core::event::Event;
use supercargo_core::intern::Tables;
use supercargo_core::time::Time;
use tokio::sync::{mpsc, oneshot};

use super::tape::Written;

/// Turns a decoded object into an event, on the driver thread, where the tables are.
pub type Convert = Box<dyn FnOnce(&mut Tables) -> Event + Send>;

/// Changes the engine, which is told the time.
pub type Change<E> = Box<dyn FnOnce(&mut E, Time) + Send>;

/// What the driver thread is told.
pub enum Item<E> {
    /// An object, or a mark of its list, and the same in writing for whoever keeps it.
    Object(Convert, Written),
    /// An effect was carried out, or given up: what came of it, if it is to be answered, and one credit of its lane.
    Answer(Vec<Event>),
    /// Looks at the engine between two decisions.
    Inspect(Box<dyn FnOnce(&E) + Send>),
    /// Changes the engine between two decisions, and in writing how.
    Change(Change<E>, Written),
    /// Nothing more is decided; what is in flight has this long to be answered.
    Stop {
        /// How long.
        within: Duration,
    },
}

/// How full a bounded channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Items that wait.
    pub length: usize,
    /// Items that may wait.
    pub capacity: usize,
}

/// The sending end of the channel.
pub struct Inbox<E> {
    sender: mpsc::Sender<Item<E>>,
    wants_text: bool,
}

impl<E> Clone for Inbox<E> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), wants_text: self.wants_text }
    }
}

/// The driver thread has ended: nobody reads what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheduling thread has ended")]
pub struct Ended;

impl<E> Inbox<E> {
    /// Sends an item, once there is room for it.
    pub async fn send(&self, item: Item<E>) -> Result<(), Ended> {
        self.sender.send(item).await.map_err(|_| Ended)
    }

    /// Whether somebody keeps what comes in, so that it has to come written as well.
    pub fn wants_text(&self) -> bool {
        self.wants_text
    }

    pub(super) fn set_wants_text(&mut self) {
        self.wants_text = true;
    }

    /// Asks the engine something; it answers between two decisions.
    pub async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&E) -> R + Send + 'static,
    ) -> Result<R, Ended> {
        let (answer, answered) = oneshot::channel();
        let inspect = move |engine: &E| {
            // Who asked may have given up waiting.
            let _ = answer.send(question(engine));
        };
        self.send(Item::Inspect(Box::new(inspect))).await?;
        answered.await.map_err(|_| Ended)
    }

    /// Has the engine changed between two decisions, and waits until it is. `text` is asked where somebody keeps what comes in.
    pub async fn change<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut E, Time) -> R + Send + 'static,
        text: impl FnOnce() -> Box<str>,
    ) -> Result<R, Ended> {
        let (answer, answered) = oneshot::channel();
        let change = move |engine: &mut E, now: Time| {
            // Who asked may have given up waiting.
            let _ = answer.send(change(engine, now));
        };
        self.send(Item::Change(Box::new(change), self.wants_text.then(text))).await?;
        answered.await.map_err(|_| Ended)
    }

    /// How full the channel is.
    pub fn fill(&self) -> Fill {
        let capacity = self.sender.max_capacity();
        Fill { length: capacity - self.sender.capacity(), capacity }
    }
}

/// Where the cluster's objects go. Hides the engine's type from the watches: there is one for each kind, and not one for each engine besides.
pub trait Intake: Send + Sync {
    /// As [`Inbox::wants_text`].
    fn wants_text(&self) -> bool;
    /// Hands over an object, or a mark of its list. Waits for room.
    fn take(&self, convert: Convert, text: Written) -> BoxFuture<'_, Result<(), Ended>>;
}

impl<E> Intake for Inbox<E> {
    fn wants_text(&self) -> bool {
        self.wants_text
    }

    fn take(&self, convert: Convert, text: Written) -> BoxFuture<'_, Result<(), Ended>> {
        Box::pin(self.send(Item::Object(convert, text)))
    }
}

/// Where answers to effects go. Hides the engine's type from those who carry out effects.
pub trait Answers: Send + Sync {
    /// Hands over the events an effect came to. Waits for room; after the driver's end, does nothing.
    fn answer(&self, events: Vec<Event>) -> BoxFuture<'_, ()>;
}

impl<E> Answers for Inbox<E> {
    fn answer(&self, events: Vec<Event>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // An answer that comes after the end has no one left to care about it.
            let _ = self.send(Item::Answer(events)).await;
        })
    }
}

/// The receiving end, read by one thread without a runtime.
pub(super) struct Arrivals<E> {
    receiver: mpsc::Receiver<Item<E>>,
}

/// What came of waiting.
pub(super) enum Arrival<E> {
    /// An item.
    Item(Item<E>),
    /// The time is up.
    Late,
    /// Everyone who could send is gone.
    Closed,
}

/// A channel whose items a test reads itself, instead of a driver.
#[cfg(test)]
pub(crate) fn without_driver<E>(capacity: usize) -> (Inbox<E>, mpsc::Receiver<Item<E>>) {
    let (sender, receiver) = mpsc::channel(capacity);
    (Inbox { sender, wants_text: false }, receiver)
}

/// A channel of this capacity.
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
    /// The next item, if one is there.
    pub(super) fn take(&mut self) -> Option<Item<E>> {
        self.receiver.try_recv().ok()
    }

    /// Sleeps until an item comes or `until`; for ever without it.
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
