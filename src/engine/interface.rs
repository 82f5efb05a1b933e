//! The driver's interfaces: the engine it drives, the runner of effects, and the observer of reports.

use std::time::Duration;

use supercargo_core::cycle::Probe;
use supercargo_core::model::effect::Effect;
use supercargo_core::model::event::Event;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::time::Time;
use supercargo_core::report::group::GroupReport;
use supercargo_core::report::{Notice, Report};
use supercargo_core::scheduler::{Scheduler, Step};

/// The engine as the driver uses it. Tests substitute a small one.
pub trait Engine: Send + 'static {
    /// Returns the intern tables used to convert incoming objects.
    fn tables(&mut self) -> &mut Tables;

    /// Applies one event to the state.
    fn handle(&mut self, now: Time, event: Event);

    /// Returns upstream's metric label of the last event, or `None` if it did not concern pending pods.
    fn event_label(&self) -> Option<&'static str>;

    /// Does one unit of work.
    fn step(&mut self, now: Time, probe: &mut dyn Probe) -> Step;

    /// Reports whether all decisions have been sent and answered.
    fn is_settled(&self) -> bool;

    /// Runs a slice of garbage collection of interned ids. Call it only while no id is held outside the engine.
    fn collect_ids(&mut self);
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

    fn collect_ids(&mut self) {
        Self::collect_ids(self);
    }
}

/// Carries out effects. It never blocks: the engine submits only against credits it was granted.
pub trait EffectRunner: Send + 'static {
    /// Returns the initial credits, as events.
    fn credits(&self) -> Vec<Event>;

    /// Accepts an effect. Its outcome and its credit come back through the channel.
    fn submit(&mut self, effect: Effect);
}

/// Records metrics and logs of what the engine does.
pub trait Observer: Send + 'static {
    /// Returns the probe that times a decision's steps; requested before each step.
    fn probe(&mut self) -> &mut dyn Probe;

    /// Records a report: the end of an attempt or binding. `took` is the duration of the step that produced it.
    fn report(&mut self, now: Time, report: &Report, took: Duration);

    /// Records the end of a group's cycle. The reports about its members follow. `took` is the duration of the step.
    fn group(&mut self, now: Time, report: &GroupReport, took: Duration);

    /// Records a notice for the operator.
    fn notice(&mut self, notice: &Notice);

    /// Records a handled event with its metric label and duration.
    fn handled(&mut self, label: &'static str, took: Duration);

    /// Records the outcome of an effect.
    fn answer(&mut self, event: &Event);
}
