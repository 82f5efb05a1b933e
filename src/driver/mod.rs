//! The one thread that owns the engine: drain what waits, step, carry out, sleep.
//!
//! Events are drained before each step, so a decision sees the newest state there is, and never more than a batch of
//! them, so a flood of events cannot keep pods waiting. Names no Kubernetes types, does no I/O and holds no scheduling
//! state: what it knows beside the engine is which bindings were not answered yet.

mod clock;
mod engine;
mod inbox;
mod observe;
mod pulse;
mod tape;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use supercargo_core::effect::{Effect, PodRef};
use supercargo_core::event::Event;
use supercargo_core::pod::Uid;
use supercargo_core::scheduler::Step;
use supercargo_core::time::Time;
use tokio::sync::oneshot;

pub use clock::Clock;
pub use engine::{Engine, Observer, Outbox};
#[cfg(test)]
pub(crate) use inbox::without_driver;
pub use inbox::{Answers, Change, Convert, Ended, Fill, Inbox, Intake, Item};
pub use observe::Accounts;
pub use pulse::Pulse;
pub use tape::{Tape, Told, Written};

use inbox::{Arrival, Arrivals};

/// Items that may wait for the driver. A watched pod is some kilobytes while it waits, so a full channel holds in the
/// order of one megabyte; at tens of microseconds an item it is some milliseconds of work, enough that neither side waits long.
pub const INBOX_CAPACITY: usize = 512;

/// Events handled between two steps: about as much work as one decision on a large cluster.
const BATCH: usize = 256;

/// The shortest sleep. An engine that asks to be woken at a time that has passed must not keep a core busy.
const NAP_MIN: Duration = Duration::from_millis(1);

/// How the driver thread ended.
#[derive(Debug)]
pub enum End {
    /// It was told to.
    Stopped {
        /// Pods whose bindings were sent and not answered in time.
        unanswered: Vec<PodRef>,
    },
    /// It panicked, with this text. The engine is lost; nothing is decided any more.
    Panicked(String),
}

/// Makes the channel into a driver; whatever sends into it can be built before the driver starts.
pub struct Mailbox<E> {
    inbox: Inbox<E>,
    arrivals: Arrivals<E>,
    tape: Option<Box<dyn Tape>>,
}

impl<E: Engine> Mailbox<E> {
    /// A channel of [`INBOX_CAPACITY`].
    pub fn new() -> Self {
        let (inbox, arrivals) = inbox::channel(INBOX_CAPACITY);
        Self { inbox, arrivals, tape: None }
    }

    /// Has all that goes in and comes out kept, if there is somebody to keep it. To be called before anybody is given a sender.
    #[must_use]
    pub fn taped(mut self, tape: Option<Box<dyn Tape>>) -> Self {
        if tape.as_ref().is_some_and(|tape| tape.wants_text()) {
            self.inbox.set_wants_text();
        }
        self.tape = tape;
        self
    }

    /// A sender into the channel.
    pub fn inbox(&self) -> Inbox<E> {
        self.inbox.clone()
    }

    /// Starts the thread that owns `engine`. How it ended is told once.
    pub fn start(
        self,
        engine: E,
        clock: Clock,
        outbox: impl Outbox,
        observer: impl Observer,
    ) -> std::io::Result<oneshot::Receiver<End>> {
        let Self { arrivals, inbox, tape } = self;
        // The driver must notice when all others are gone, so it keeps no sender of its own.
        drop(inbox);
        let (ended, end) = oneshot::channel();
        std::thread::Builder::new().name("scheduler".to_owned()).spawn(move || {
            let driver = Driver { tape, ..Driver::new(engine, clock, arrivals, outbox, observer) };
            let end = catch_unwind(AssertUnwindSafe(move || driver.run())).unwrap_or_else(|panic| {
                let text = panic_text(panic.as_ref());
                tracing::error!(panic = %text, "the scheduling thread panicked; nothing is scheduled any more");
                End::Panicked(text)
            });
            // Nobody may be waiting for it any more.
            let _ = ended.send(end);
        })?;
        Ok(end)
    }
}

impl<E: Engine> Default for Mailbox<E> {
    fn default() -> Self {
        Self::new()
    }
}

/// The text of a caught panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

struct Driver<E, O, W> {
    engine: E,
    clock: Clock,
    arrivals: Arrivals<E>,
    outbox: O,
    observer: W,
    tape: Option<Box<dyn Tape>>,
    /// Pods with a binding, or a question about one, that was not answered yet.
    unanswered: BTreeMap<Uid, PodRef>,
    /// When to end whatever is unanswered.
    stop_by: Option<Instant>,
    /// All senders are gone.
    closed: bool,
}

impl<E: Engine, O: Outbox, W: Observer> Driver<E, O, W> {
    fn new(engine: E, clock: Clock, arrivals: Arrivals<E>, outbox: O, observer: W) -> Self {
        let unanswered = BTreeMap::new();
        let (tape, stop_by, closed) = (None, None, false);
        Self { engine, clock, arrivals, outbox, observer, tape, unanswered, stop_by, closed }
    }

    fn run(mut self) -> End {
        for credits in self.outbox.credits() {
            self.handle(self.clock.now(), credits);
        }
        loop {
            for _ in 0..BATCH {
                let Some(item) = self.arrivals.take() else { break };
                self.accept(item);
            }
            self.engine.tidy();
            if self.is_done() {
                return End::Stopped { unanswered: self.unanswered.into_values().collect() };
            }
            self.advance();
        }
    }

    /// One step, or a sleep when there is nothing to do.
    fn advance(&mut self) {
        let (began, now) = (Instant::now(), self.clock.now());
        let step = self.engine.step(now, self.observer.probe());
        if let Some(tape) = &mut self.tape {
            tape.stepped(now, matches!(step, Step::Idle { .. }));
        }
        match step {
            Step::Effect(effect) => {
                self.note(&effect);
                self.outbox.submit(effect);
            }
            Step::Notice(notice) => self.observer.notice(&notice),
            Step::Report(report) => {
                self.observer.report(self.clock.now(), &report, began.elapsed());
                if let Some(tape) = &mut self.tape {
                    tape.reported(report);
                }
            }
            // The step itself may have settled what was left.
            Step::Idle { .. } if self.is_done() => {}
            Step::Idle { wake_at } => self.sleep(wake_at),
        }
    }

    fn note(&mut self, effect: &Effect) {
        match effect {
            Effect::Bind { pod, .. } | Effect::BindBy { pod, .. } | Effect::Settle { pod } => {
                self.unanswered.insert(pod.uid.clone(), pod.clone());
            }
            // Whoever takes over finds in the API server what was written of volumes, and who was sent away, and asks extenders
            // anew.
            Effect::WriteVolume(_)
            | Effect::Evict(_)
            | Effect::Patch(_)
            | Effect::Record(_)
            | Effect::Extend(_) => {}
        }
    }

    fn accept(&mut self, item: Item<E>) {
        let now = self.clock.now();
        match item {
            Item::Object(convert, text) => {
                let began = Instant::now();
                self.keep(now, Told::Written(text));
                let event = convert(self.engine.tables());
                self.engine.handle(now, event);
                if let Some(label) = self.engine.event_label() {
                    self.observer.handled(label, began.elapsed());
                }
            }
            Item::Answer(events) => {
                for event in events {
                    if let Event::BindFinished { uid, .. } | Event::Settled { uid, .. } = &event {
                        self.unanswered.remove(uid);
                    }
                    self.observer.answer(&event);
                    self.handle(now, event);
                }
            }
            Item::Inspect(look) => look(&self.engine),
            Item::Change(change, text) => {
                self.keep(now, Told::Written(text));
                change(&mut self.engine, now);
            }
            Item::Stop { within } => self.stop(within),
        }
    }

    fn keep(&mut self, at: Time, what: Told<'_>) {
        if let Some(tape) = &mut self.tape {
            tape.told(at, what);
        }
    }

    fn handle(&mut self, now: Time, event: Event) {
        self.keep(now, Told::Event(&event));
        self.engine.handle(now, event);
    }

    fn stop(&mut self, within: Duration) {
        self.handle(self.clock.now(), Event::Halt);
        let by = Instant::now() + within;
        self.stop_by = Some(self.stop_by.map_or(by, |earlier| earlier.min(by)));
    }

    /// Whether to end: told to, and everything that was decided is answered and told of, or the time is up.
    fn is_done(&self) -> bool {
        let late = |by| Instant::now() >= by;
        let settled = || self.unanswered.is_empty() && self.engine.is_settled();
        self.closed || self.stop_by.is_some_and(|by| late(by) || settled())
    }

    fn sleep(&mut self, wake_at: Option<Time>) {
        let wake = wake_at.map(|at| Instant::now() + self.clock.until(at).max(NAP_MIN));
        let until = [wake, self.stop_by].into_iter().flatten().min();
        match self.arrivals.wait(until) {
            Arrival::Item(item) => self.accept(item),
            Arrival::Late => {}
            Arrival::Closed => {
                // Without a watch and without answers there is nothing left to do.
                self.closed = true;
                self.stop(Duration::ZERO);
            }
        }
    }
}

#[cfg(test)]
mod tests;
