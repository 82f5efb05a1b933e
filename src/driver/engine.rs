//! What the driver needs of the engine, of the one who carries out effects, and of the one who keeps the accounts.

use std::time::Duration;

use supercargo_core::cycle::Probe;
use supercargo_core::effect::Effect;
use supercargo_core::event::Event;
use supercargo_core::intern::Tables;
use supercargo_core::report::{Notice, Report};
use supercargo_core::scheduler::{Scheduler, Step};
use supercargo_core::time::Time;

/// The engine, as the driver sees it. Tests put something smaller in its place.
pub trait Engine: Send + 'static {
    /// The tables that objects are converted with on their way in.
    fn tables(&mut self) -> &mut Tables;

    /// Brings the state up to date with one event.
    fn handle(&mut self, now: Time, event: Event);

    /// What the last event was to waiting pods, as upstream's metrics label it; nothing where it was nothing to them.
    fn event_label(&self) -> Option<&'static str>;

    /// Does one piece of work.
    fn step(&mut self, now: Time, probe: &mut dyn Probe) -> Step;

    /// Whether nothing that was decided is still on its way out or unanswered.
    fn is_settled(&self) -> bool;

    /// Gives back what is held for nothing, now and then. Called where nobody else holds ids.
    fn tidy(&mut self);
}

impl Engine for Scheduler {
    fn tables(&mut self) -> &mut Tables {
        Self::tables(self)
    }

    fn handle(&mut self, now: Time, event: Event) {
        Self::handle(self, now, event);
    }

    fn event_label(&self) -> Option<&'static str> {
        Self::event_label(self)
    }

    fn step(&mut self, now: Time, probe: &mut dyn Probe) -> Step {
        Self::step(self, now, probe)
    }

    fn is_settled(&self) -> bool {
        Self::is_settled(self)
    }

    fn tidy(&mut self) {
        Self::tidy(self);
    }
}

/// Carries out effects. Never waits: the credits it granted are its room.
pub trait Outbox: Send + 'static {
    /// The credits it grants at the start, as events.
    fn credits(&self) -> Vec<Event>;

    /// Takes an effect. Its answer, and its credit, come through the channel.
    fn submit(&mut self, effect: Effect);
}

/// Keeps the accounts of what the engine does.
pub trait Observer: Send + 'static {
    /// Told where a decision's time goes; asked for before each step.
    fn probe(&mut self) -> &mut dyn Probe;

    /// An attempt, or a binding, came to an end. `took` is how long the step took that tells of it.
    fn report(&mut self, now: Time, report: &Report, took: Duration);

    /// Something happened that a person must know of.
    fn notice(&mut self, notice: &Notice);

    /// An event of this label was handled, and this long it took.
    fn handled(&mut self, label: &'static str, took: Duration);

    /// An effect was answered.
    fn answer(&mut self, event: &Event);
}
