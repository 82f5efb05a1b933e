//! Shadow mode in the shell: the engine that judges, on the driver's thread, and the book of what it said. Sends nothing.
//!
//! There is no dispatcher here, no lease and no client: what the thread is given to carry effects out with has no way to.

mod book;
mod report;

pub use book::Book;
pub use report::{Cell, Disagreement, Node, PodName, ShadowReport, Side};

use crate::driver::{Engine, Observer, Outbox};
use crate::metrics::Metrics;
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::cycle::{Framework, NoProbe, Probe};
use supercargo_core::effect::Effect;
use supercargo_core::event::Event;
use supercargo_core::intern::Tables;
use supercargo_core::report::{Notice, Report};
use supercargo_core::scheduler::Step;
use supercargo_core::shadow::{self, Shadow};
use supercargo_core::time::Time;

/// Where a shadow shows its report.
pub const PAGE: &str = "/debug/shadow";

/// Judgements entered between two looks at what has come. One that has to try other orders takes some dozen decisions.
const AT_ONCE: usize = 16;

/// Shadow mode's engine, as the driver sees it.
pub struct Judging {
    shadow: Shadow,
    book: Arc<Book>,
    metrics: Arc<Metrics>,
    /// Since when it judges by what it judges by now.
    since: Time,
}

impl Judging {
    /// What `shadow` says goes into the book and the metrics.
    pub fn new(shadow: Shadow, book: Arc<Book>, metrics: Arc<Metrics>) -> Self {
        Self { shadow, book, metrics, since: Time::default() }
    }

    /// From now on judges by another framework, made with its tables, and begins the book anew: of decisions that arrived before, the metrics alone are told.
    pub fn judge_by(&mut self, now: Time, framework: impl FnOnce(&mut Tables) -> Framework) {
        let framework = framework(self.shadow.tables());
        self.shadow.judge_by(framework);
        self.since = now;
        self.book.begin_anew();
    }

    /// What it holds, by name.
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
                    tracing::debug!(%pod, why = why.as_str(), "not judged");
                    self.metrics.shadow_unjudged(why);
                    self.book.unjudged(why);
                }
                shadow::Step::Notice(notice) => return Step::Notice(notice),
                shadow::Step::Idle { wake_at } => return Step::Idle { wake_at },
            }
        }
        // The next ones, once what has come meanwhile is taken in.
        Step::Idle { wake_at: Some(now) }
    }

    fn is_settled(&self) -> bool {
        true
    }

    fn tidy(&mut self) {
        self.shadow.tidy();
    }
}

/// Takes effects nowhere: a shadow has none.
pub struct Nowhere;

impl Outbox for Nowhere {
    fn credits(&self) -> Vec<Event> {
        Vec::new()
    }

    fn submit(&mut self, effect: Effect) {
        unreachable!("a shadow has no effects, and this is one: {effect:?}");
    }
}

/// Tells of what a person must know of.
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

    fn notice(&mut self, notice: &Notice) {
        tracing::warn!(object = %notice.object, "{}", notice.text);
    }

    fn handled(&mut self, _label: &'static str, _took: Duration) {}

    fn answer(&mut self, _event: &Event) {}
}

#[cfg(test)]
mod tests;
