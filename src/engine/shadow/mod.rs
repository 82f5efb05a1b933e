//! Shadow mode: adapts the comparing engine to the driver, and stores its results. It writes nothing to the API
//! server.
//!
//! There is no dispatcher, no lease and no client in this mode, so the driver could not carry out an effect.

mod results;

pub use results::Results;

use crate::engine::{EffectRunner, Engine, Observer};
use crate::telemetry::metrics::Metrics;
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::cycle::{Framework, NoProbe, Probe};
use supercargo_core::model::effect::Effect;
use supercargo_core::model::event::Event;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::time::Time;
use supercargo_core::report::group::GroupReport;
use supercargo_core::report::{Notice, Report};
use supercargo_core::scheduler::Step;
use supercargo_core::shadow::{self, Shadow};

/// Number of results per step before the driver handles new events. A result that must be
/// tried in other orders of arrival takes about two dozen decisions.
const AT_ONCE: usize = 16;

/// The engine of shadow mode, as the driver uses it.
pub struct Judging {
    shadow: Shadow,
    book: Arc<Results>,
    metrics: Arc<Metrics>,
    /// When the current profile came into use.
    since: Time,
}

impl Judging {
    /// Wraps `shadow`; its results go to the book and the metrics.
    pub fn new(shadow: Shadow, book: Arc<Results>, metrics: Arc<Metrics>) -> Self {
        Self { shadow, book, metrics, since: Time::default() }
    }

    /// Compares with another profile from now on, and clears the book. Decisions that arrived earlier count in the
    /// metrics only.
    pub fn judge_by(&mut self, now: Time, framework: impl FnOnce(&mut Tables) -> Framework) {
        let framework = framework(self.shadow.tables());
        self.shadow.judge_by(framework);
        self.since = now;
        self.book.clear();
    }

    /// Returns the sizes of the engine's collections by name.
    pub fn held(&self) -> Vec<(&'static str, usize)> {
        self.shadow.held()
    }
}

impl Engine for Judging {
    fn tables(&mut self) -> &mut Tables {
        self.shadow.tables()
    }

    fn handle(&mut self, now: Time, event: Event) {
        self.shadow.handle(now, event);
    }

    fn event_label(&self) -> Option<&'static str> {
        None
    }

    fn step(&mut self, now: Time, _probe: &mut dyn Probe) -> Step {
        for _ in 0..AT_ONCE {
            match self.shadow.step(now) {
                shadow::Step::Judged(judgement) => {
                    self.metrics.shadow_judged(judgement.agreement, judgement.regret);
                    if judgement.at >= self.since {
                        self.book.judged(&judgement, now);
                    }
                }
                shadow::Step::Unjudged(pod, why) => {
                    let pod = format!("{}/{}", pod.namespace, pod.name);
                    tracing::debug!(%pod, why = why.as_str(), "decision not compared");
                    self.metrics.shadow_unjudged(why);
                    self.book.unjudged(why);
                }
                shadow::Step::Notice(notice) => return Step::Notice(notice),
                shadow::Step::Idle { wake_at } => return Step::Idle { wake_at },
            }
        }
        // Continue after the driver has handled new events.
        Step::Idle { wake_at: Some(now) }
    }

    fn is_settled(&self) -> bool {
        true
    }

    fn collect_ids(&mut self) {
        self.shadow.collect_ids();
    }
}

/// A runner for an engine without effects.
pub struct Nowhere;

impl EffectRunner for Nowhere {
    fn credits(&self) -> Vec<Event> {
        Vec::new()
    }

    fn submit(&mut self, effect: Effect) {
        unreachable!("a shadow produced an effect: {effect:?}");
    }
}

/// Logs notices and ignores all other observations.
pub struct Listening(NoProbe);

impl Default for Listening {
    fn default() -> Self {
        Self(NoProbe)
    }
}

impl Observer for Listening {
    fn probe(&mut self) -> &mut dyn Probe {
        &mut self.0
    }

    fn report(&mut self, _now: Time, _report: &Report, _took: Duration) {}

    fn group(&mut self, _now: Time, _report: &GroupReport, _took: Duration) {}

    fn notice(&mut self, notice: &Notice) {
        tracing::warn!(object = %notice.object, "{}", notice.text);
    }

    fn handled(&mut self, _label: &'static str, _took: Duration) {}

    fn answer(&mut self, _event: &Event) {}
}

#[cfg(test)]
mod tests;
