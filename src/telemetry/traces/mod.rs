//! OpenTelemetry spans of scheduling attempts, built from the engine's reports after the fact.
//!
//! Decisions are not instrumented for spans. The scheduling thread puts spans into a bounded queue and never waits;
//! spans that do not fit are dropped and counted. The feature `otlp` adds the exporter; without it, `--otlp-endpoint`
//! is rejected.

#[cfg(feature = "otlp")]
mod export;

use crate::telemetry::metrics::{AttemptResult, ExtensionPoint, Metrics, TraceSpans};
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;
use supercargo_core::model::time::Time;
use supercargo_core::report::{Outcome, Preemption, Report};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Capacity of the span queue: about four hundred attempts.
const WAITING_MAX: usize = 2_048;
/// Maximum number of bindings in progress whose decision's end is remembered. If one is forgotten, its binding's span
/// starts with the attempt.
const DECIDED_MAX: usize = 4_096;

/// One span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// ID of the attempt, shared by all its spans.
    pub trace: u128,
    /// ID of this span.
    pub id: u64,
    /// ID of the parent span; `None` for the attempt itself.
    pub parent: Option<u64>,
    /// The operation.
    pub name: &'static str,
    /// Start time.
    pub began: Time,
    /// End time.
    pub ended: Time,
    /// Attributes, named by OpenTelemetry's semantic conventions where these have a name.
    pub attributes: Vec<(&'static str, Value)>,
    /// The error, if the operation failed.
    pub error: Option<String>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// One timed extension point of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// The extension point.
    pub point: ExtensionPoint,
    /// Time from its start to the report.
    pub ago: Duration,
    /// Duration.
    pub took: Duration,
}

/// Builds spans from reports and queues them for export.
#[derive(Debug)]
pub struct Tracer {
    queue: mpsc::Sender<Span>,
    spans: TraceSpans,
    /// Random keys per process, so that different attempts of different processes get different trace IDs.
    seeds: [RandomState; 2],
    decided: BTreeMap<Box<str>, Time>,
}

impl Tracer {
    /// Creates a tracer and the receiver of its spans.
    pub fn new(metrics: &Metrics) -> (Self, mpsc::Receiver<Span>) {
        let (queue, spans) = mpsc::channel(WAITING_MAX);
        let (seeds, decided) = ([RandomState::new(), RandomState::new()], BTreeMap::new());
        (Self { queue, spans: metrics.trace_spans(), seeds, decided }, spans)
    }

    /// Queues the spans of a report that arrived at `now`, with the extension points that ran for it.
    pub fn report(&mut self, now: Time, report: &Report, stretches: &[Phase]) {
        for span in self.spans_of(now, report, stretches) {
            if self.queue.try_send(span).is_err() {
                self.spans.dropped(1);
            }
        }
    }

    /// Returns the spans that end with a report. The attempt's own span ends with its last report, its parts' spans
    /// as they end.
    fn spans_of(&mut self, now: Time, report: &Report, stretches: &[Phase]) -> Vec<Span> {
        let attempt = Attempt { seeds: &self.seeds, report, now };
        let uid = &*report.pod.uid;
        let decided = self.decided.get(uid).copied();
        let mut spans = Vec::new();
        match &report.outcome {
            Outcome::Placed { .. } => {
                attempt.decision(stretches, &mut spans);
                self.decided(uid, now);
            }
            Outcome::PreBound { succeeded, took, .. } => {
                let mut span = attempt.part("PreBind", decided.unwrap_or(before(now, *took)));
                span.error = (!succeeded).then(|| "the pod's volumes could not be bound".to_owned());
                spans.push(span);
                self.decided(uid, now);
            }
            Outcome::Bound { .. } | Outcome::BindFailed { .. } => {
                let (mut span, whole) =
                    (attempt.part("Bind", decided.unwrap_or(report.began)), attempt.whole());
                span.error.clone_from(&whole.error);
                spans.extend([span, whole]);
                self.decided.remove(uid);
            }
            Outcome::Unschedulable { .. } | Outcome::Error { .. } => {
                attempt.decision(stretches, &mut spans);
                spans.push(attempt.whole());
            }
            Outcome::PreemptionEnded { node, error } => {
                let mut span = attempt.part("Preemption", report.began);
                span.attributes.push(("k8s.node.name", node.as_str().into()));
                span.error.clone_from(error);
                spans.push(span);
            }
            Outcome::Skipped => {}
        }
        spans
    }

    fn decided(&mut self, uid: &str, at: Time) {
        if self.decided.len() >= DECIDED_MAX && !self.decided.contains_key(uid) {
            self.decided.pop_first();
        }
        self.decided.insert(uid.into(), at);
    }
}

fn before(now: Time, this_long: Duration) -> Time {
    Time::from_nanos(now.as_nanos().saturating_sub(u64::try_from(this_long.as_nanos()).unwrap_or(u64::MAX)))
}

/// A report and its time of arrival.
struct Attempt<'a> {
    seeds: &'a [RandomState; 2],
    report: &'a Report,
    now: Time,
}

/// Name key of the attempt's own span, distinct from all its parts.
const WHOLE: &str = "";

impl Attempt<'_> {
    /// Returns two IDs that are the same for all reports of an attempt. The first is never 0.
    fn ids(&self, part: &str, at: usize) -> (u64, u64) {
        let [first, second] = self.seeds;
        let what = (&*self.report.pod.uid, self.report.attempt, part, at);
        (first.hash_one(what).max(1), second.hash_one(what))
    }

    fn span(&self, (part, at): (&'static str, usize), began: Time, ended: Time) -> Span {
        let (high, low) = self.ids(WHOLE, usize::MAX);
        let whole = self.ids(WHOLE, 0).0;
        let is_whole = part == WHOLE;
        Span {
            trace: u128::from(high) << 64 | u128::from(low),
            id: if is_whole { whole } else { self.ids(part, at).0 },
            parent: (!is_whole).then_some(whole),
            name: if is_whole { "scheduling attempt" } else { part },
            began,
            ended: ended.max(began),
            attributes: Vec::new(),
            error: None,
        }
    }

    /// Returns the span of a part of the attempt that ends now.
    fn part(&self, name: &'static str, began: Time) -> Span {
        self.span((name, 0), began, self.now)
    }

    /// Adds the spans of the decision and of its extension points.
    fn decision(&self, stretches: &[Phase], spans: &mut Vec<Span>) {
        let decision = self.part("decision", self.report.began);
        for (at, stretch) in stretches.iter().enumerate() {
            let began = before(self.now, stretch.ago);
            // An earlier start belongs to an attempt that had no report.
            if began >= self.report.began {
                let mut span = self.span((stretch.point.as_str(), at), began, began + stretch.took);
                span.parent = Some(decision.id);
                spans.push(span);
            }
        }
        spans.push(decision);
    }

    /// Returns the span of the attempt from its start to now.
    fn whole(&self) -> Span {
        let report = self.report;
        let mut span = self.span((WHOLE, 0), report.began, self.now);
        let mut say = |name, value| span.attributes.push((name, value));
        say("k8s.namespace.name", report.pod.namespace.as_str().into());
        say("k8s.pod.name", report.pod.name.as_str().into());
        say("k8s.pod.uid", (&*report.pod.uid).into());
        say("scheduler.profile", report.profile.as_str().into());
        say("scheduler.attempt", Value::Number(report.attempt.into()));
        let (result, looked) = match &report.outcome {
            Outcome::Bound { evaluated, feasible, .. } => {
                (AttemptResult::Scheduled, Some((*evaluated, *feasible)))
            }
            Outcome::Unschedulable { evaluated, .. } => (AttemptResult::Unschedulable, Some((*evaluated, 0))),
            _ => (AttemptResult::Error, None),
        };
        say("scheduler.result", result.as_str().into());
        if let Some((evaluated, feasible)) = looked {
            say("scheduler.evaluated_nodes", evaluated.into());
            say("scheduler.feasible_nodes", feasible.into());
        }
        match &report.outcome {
            Outcome::Bound { node, .. } => say("k8s.node.name", node.as_str().into()),
            Outcome::Unschedulable { message, rejectors, preemption, .. } => {
                say("scheduler.message", message.as_str().into());
                say("scheduler.rejected_by", rejectors.join(",").as_str().into());
                if let Preemption::Nominated { node, victims, .. } = preemption {
                    say("scheduler.nominated_node", node.as_str().into());
                    say("scheduler.victims", victims.len().into());
                }
            }
            Outcome::Error { message } | Outcome::BindFailed { message } => {
                span.error = Some(message.clone());
            }
            _ => {}
        }
        span
    }
}

/// The exporter task, or nothing without `--otlp-endpoint`.
#[derive(Debug, Default)]
pub struct Sending(Option<JoinHandle<()>>);

impl Sending {
    /// Waits up to `within` until all queued spans are exported. All tracers must be dropped before.
    pub async fn end(self, within: Duration) {
        let Some(mut task) = self.0 else { return };
        if tokio::time::timeout(within, &mut task).await.is_err() {
            tracing::warn!("stopping before all spans were exported to the collector");
            task.abort();
        }
    }
}

/// Starts exporting spans to the collector of `--otlp-endpoint`. Must be called within a Tokio runtime.
///
/// # Errors
/// If the endpoint is not a URL or the exporter cannot be built. The message is shown with the flag's name.
#[cfg(feature = "otlp")]
pub fn start(endpoint: &str, host: &str, metrics: &Metrics) -> Result<(Tracer, Sending), String> {
    let exporter = export::Exporter::new(endpoint, host, metrics)?;
    let (tracer, spans) = Tracer::new(metrics);
    Ok((tracer, Sending(Some(tokio::spawn(exporter.run(spans))))))
}

/// Rejects `--otlp-endpoint`, because this build lacks the feature `otlp`.
///
/// # Errors
/// Always.
#[cfg(not(feature = "otlp"))]
pub fn start(_: &str, _: &str, _: &Metrics) -> Result<(Tracer, Sending), String> {
    Err("this program was built without the feature otlp; build it with `cargo build --release --features otlp`"
        .to_owned())
}

#[cfg(test)]
mod tests;
