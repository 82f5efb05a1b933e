//! Interface for recording the engine's inputs and reports, in order and with their times.
//!
//! Called on the scheduling thread, so implementations must never block. `src/engine/recording` implements it.

use supercargo_apiserver::watch::Written;
use supercargo_core::model::event::Event;
use supercargo_core::model::time::Time;
use supercargo_core::report::Report;

/// An input of the engine.
pub enum Input<'a> {
    /// An object, a list marker or a change of the engine itself.
    Written(Written),
    /// An effect's outcome, a change of leadership or the request to halt.
    Event(&'a Event),
}

/// Records the engine's inputs and reports.
pub trait InputRecorder: Send + 'static {
    /// Reports whether objects must come with their JSON text.
    fn wants_text(&self) -> bool;

    /// Records an input.
    fn received(&mut self, at: Time, what: Input<'_>);

    /// Records a step of the engine; `is_idle` if it had no work.
    fn stepped(&mut self, at: Time, is_idle: bool);

    /// Records a report of the preceding step.
    fn reported(&mut self, report: Box<Report>);
}
