//! The scheduling thread, which owns the engine: it drains events, steps the engine, submits effects and sleeps.
//!
//! Events are drained before each step, so a decision sees the newest state. At most a batch is drained at a time,
//! so a flood of events cannot starve pending pods. The driver does no I/O and knows no Kubernetes types. Its only
//! state beside the engine is the set of unanswered bindings.

mod clock;
mod heartbeat;
mod inbox;
mod interface;
mod observe;
mod recorder;
pub mod recording;
pub mod reload;
pub mod shadow;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use supercargo_core::model::effect::{Effect, PodRef};
use supercargo_core::model::event::Event;
use supercargo_core::model::pod::Uid;
use supercargo_core::model::time::Time;
use supercargo_core::scheduler::Step;
use tokio::sync::oneshot;

pub use clock::Clock;
pub use heartbeat::Heartbeat;
#[cfg(test)]
pub(crate) use inbox::without_driver;
pub use inbox::{Answers, Change, Fill, Inbox, Item};
pub use interface::{EffectRunner, Engine, Observer};
pub use observe::Accounts;
pub use recorder::{Input, InputRecorder};
pub(crate) use supercargo_core::scheduler::panic_text;

use inbox::{Arrival, Arrivals};

/// Capacity of the driver's channel. A queued pod takes some kilobytes, so a full channel holds about one megabyte.
/// At tens of microseconds an item, that is some milliseconds of work, so neither side waits long.
pub const INBOX_CAPACITY: usize = 512;

/// Maximum number of events handled between two steps: about the work of one decision on a large cluster.
const BATCH: usize = 256;

/// The shortest sleep, so that an engine with a wake-up time in the past cannot keep a core busy.
const NAP_MIN: Duration = Duration::from_millis(1);

/// How the driver thread ended.
#[derive(Debug)]
pub enum End {
    /// It was stopped on request.
    Stopped {
        /// Pods whose bindings were sent and not answered in time.
        unanswered: Vec<PodRef>,
    },
    /// It panicked with this message. The engine is lost, so scheduling has stopped.
    Panicked(String),
}

/// Creates the driver's channel, so that senders can be built before the driver starts.
pub struct Mailbox<E> {
    inbox: Inbox<E>,
    arrivals: Arrivals<E>,
    recorder: Option<Box<dyn InputRecorder>>,
}

impl<E: Engine> Mailbox<E> {
    /// Creates a channel of [`INBOX_CAPACITY`].
    pub fn new() -> Self {
        let (inbox, arrivals) = inbox::channel(INBOX_CAPACITY);
        Self { inbox, arrivals, recorder: None }
    }

    /// Records all inputs and reports on `recorder`, if there is one. Call it before any sender is handed out.
    #[must_use]
    pub fn taped(mut self, recorder: Option<Box<dyn InputRecorder>>) -> Self {
        if recorder.as_ref().is_some_and(|recorder| recorder.wants_text()) {
            self.inbox.set_wants_text();
        }
        self.recorder = recorder;
        self
    }

    /// Returns a new sender.
    pub fn inbox(&self) -> Inbox<E> {
        self.inbox.clone()
    }

    /// Starts the thread that owns `engine`. The receiver yields how the thread ended.
    pub fn start(
        self,
        engine: E,
        clock: Clock,
        effects: impl EffectRunner,
        observer: impl Observer,
    ) -> std::io::Result<oneshot::Receiver<End>> {
        let Self { arrivals, inbox, recorder } = self;
        // The driver keeps no sender of its own, so that it notices when all others are gone.
        drop(inbox);
        let (ended, end) = oneshot::channel();
        std::thread::Builder::new().name("scheduler".to_owned()).spawn(move || {
            let driver = Driver { recorder, ..Driver::new(engine, clock, arrivals, effects, observer) };
            let end = catch_unwind(AssertUnwindSafe(move || driver.run())).unwrap_or_else(|panic| {
                let text = panic_text(panic.as_ref());
                tracing::error!(panic = %text, "scheduling thread panicked; scheduling has stopped");
                End::Panicked(text)
            });
            // The receiver may be gone.
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

struct Driver<E, O, W> {
    engine: E,
    clock: Clock,
    arrivals: Arrivals<E>,
    effects: O,
    observer: W,
    recorder: Option<Box<dyn InputRecorder>>,
    /// Pods with an unanswered binding, or an unanswered query about one.
    unanswered: BTreeMap<Uid, PodRef>,
    /// Deadline after which the driver ends even if bindings are unanswered.
    stop_by: Option<Instant>,
    /// Whether all senders are gone.
    closed: bool,
}

impl<E: Engine, O: EffectRunner, W: Observer> Driver<E, O, W> {
    fn new(engine: E, clock: Clock, arrivals: Arrivals<E>, effects: O, observer: W) -> Self {
        let unanswered = BTreeMap::new();
        let (recorder, stop_by, closed) = (None, None, false);
        Self { engine, clock, arrivals, effects, observer, recorder, unanswered, stop_by, closed }
    }

    fn run(mut self) -> End {
        for credits in self.effects.credits() {
            self.handle(self.clock.now(), credits);
        }
        loop {
            for _ in 0..BATCH {
                let Some(item) = self.arrivals.take() else { break };
                self.accept(item);
            }
            self.engine.collect_ids();
            if self.is_done() {
                return End::Stopped { unanswered: self.unanswered.into_values().collect() };
            }
            self.advance();
        }
    }

    /// Steps the engine once, or sleeps if it is idle.
    fn advance(&mut self) {
        let (began, now) = (Instant::now(), self.clock.now());
        let step = self.engine.step(now, self.observer.probe());
        if let Some(recorder) = &mut self.recorder {
            recorder.stepped(now, matches!(step, Step::Idle { .. }));
        }
        match step {
            Step::Effect(effect) => {
                self.note(&effect);
                self.effects.submit(effect);
            }
            Step::Notice(notice) => self.observer.notice(&notice),
            Step::GroupReport(report) => self.observer.group(self.clock.now(), &report, began.elapsed()),
            Step::Report(report) => {
                self.observer.report(self.clock.now(), &report, began.elapsed());
                if let Some(recorder) = &mut self.recorder {
                    recorder.reported(report);
                }
            }
            // The step itself may have settled the last binding.
            Step::Idle { .. } if self.is_done() => {}
            Step::Idle { wake_at } => self.sleep(wake_at),
        }
    }

    fn note(&mut self, effect: &Effect) {
        match effect {
            Effect::Bind { pod, .. } | Effect::BindBy { pod, .. } | Effect::QueryBinding { pod } => {
                self.unanswered.insert(pod.uid.clone(), pod.clone());
            }
            // A new leader reads volume writes and evictions from the API server and calls extenders again.
            Effect::WriteVolume(_)
            | Effect::Evict(_)
            | Effect::Patch(_)
            | Effect::PatchGroup(_)
            | Effect::Record(_)
            | Effect::Extend(_) => {}
        }
    }

    fn accept(&mut self, item: Item<E>) {
        let now = self.clock.now();
        match item {
            Item::Object(convert, text) => {
                let began = Instant::now();
                self.keep(now, Input::Written(text));
                let event = convert(self.engine.tables());
                self.engine.handle(now, event);
                if let Some(label) = self.engine.event_label() {
                    self.observer.handled(label, began.elapsed());
                }
            }
            Item::Answer(events) => {
                for event in events {
                    if let Event::BindFinished { uid, .. } | Event::BindingQueried { uid, .. } = &event {
                        self.unanswered.remove(uid);
                    }
                    self.observer.answer(&event);
                    self.handle(now, event);
                }
            }
            Item::Inspect(look) => look(&self.engine),
            Item::Change(change, text) => {
                self.keep(now, Input::Written(text));
                change(&mut self.engine, now);
            }
            Item::Stop { within } => self.stop(within),
        }
    }

    fn keep(&mut self, at: Time, what: Input<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.received(at, what);
        }
    }

    fn handle(&mut self, now: Time, event: Event) {
        self.keep(now, Input::Event(&event));
        self.engine.handle(now, event);
    }

    fn stop(&mut self, within: Duration) {
        self.handle(self.clock.now(), Event::Halt);
        let by = Instant::now() + within;
        self.stop_by = Some(self.stop_by.map_or(by, |earlier| earlier.min(by)));
    }

    /// Reports whether to end: stop was requested, and everything is answered and reported or the deadline has passed.
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
                // Without watches and answers, there is nothing left to do.
                self.closed = true;
                self.stop(Duration::ZERO);
            }
        }
    }
}

#[cfg(test)]
mod tests;
