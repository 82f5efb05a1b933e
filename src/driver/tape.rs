//! Who keeps what the engine is told and what it comes to, in that order and with the times it was given.
//!
//! Called on the scheduling thread: whatever it does delays decisions, so it hands on and never waits. Keeps nothing here.

use supercargo_core::event::Event;
use supercargo_core::report::Report;
use supercargo_core::time::Time;

/// What comes in, written as a member of a JSON object: `"applied":{...}`. There only where a tape asks for it.
pub type Written = Option<Box<str>>;

/// Something the engine is told.
pub enum Told<'a> {
    /// An object, a mark of its list, or a change of the engine itself.
    Written(Written),
    /// What became of an effect, who leads, that the end is near.
    Event(&'a Event),
}

/// Keeps what goes into the engine and what comes of it.
pub trait Tape: Send + 'static {
    /// Whether objects have to come written.
    fn wants_text(&self) -> bool;

    /// The engine is told something.
    fn told(&mut self, at: Time, what: Told<'_>);

    /// The engine did a piece of work, or had none.
    fn stepped(&mut self, at: Time, is_idle: bool);

    /// That work was the end of an attempt, or of a binding.
    fn reported(&mut self, report: Box<Report>);
}
