//! Tests of spans built from reports. `tests/otlp.rs` tests what a collector receives.

use super::*;
use supercargo_core::model::effect::PodRef;

fn report(uid: &str, attempt: u32, outcome: Outcome) -> Report {
    Report {
        pod: PodRef { namespace: "default".to_owned(), name: "web".to_owned(), uid: uid.into() },
        profile: "supercargo".to_owned(),
        attempt,
        first_queued: Time::from_secs(5),
        began: Time::from_secs(10),
        rescued_by_flush: false,
        outcome,
    }
}

fn node() -> String {
    "n1".to_owned()
}

fn placed() -> Outcome {
    Outcome::Placed { node: node(), nodes: 3, feasible: 2, score: None }
}

fn bound() -> Outcome {
    Outcome::Bound { node: node(), evaluated: 3, feasible: 2 }
}

/// Feeds reports one second apart.
struct TestTracer {
    tracer: Tracer,
    now: Time,
    _out: mpsc::Receiver<Span>,
}

impl TestTracer {
    fn new() -> Self {
        let (tracer, out) = Tracer::new(&Metrics::new());
        Self { tracer, now: Time::from_secs(10), _out: out }
    }

    fn spans(&mut self, report: &Report, stretches: &[Phase]) -> Vec<Span> {
        self.now = self.now + Duration::from_secs(1);
        self.tracer.spans_of(self.now, report, stretches)
    }
}

/// Returns name, start and end of each span, in seconds.
fn times(spans: &[Span]) -> Vec<(&'static str, u64, u64)> {
    let seconds = |time: Time| time.as_nanos() / 1_000_000_000;
    spans.iter().map(|span| (span.name, seconds(span.began), seconds(span.ended))).collect()
}

fn attribute(span: &Span, name: &str) -> Option<Value> {
    span.attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
}

#[test]
fn attempt_spans_form_a_tree_with_the_root_last() {
    let mut tracer = TestTracer::new();
    let stretch =
        |point, ago| Phase { point, ago: Duration::from_millis(ago), took: Duration::from_millis(10) };
    // The first stretch ran before this attempt began.
    let stretches = [
        stretch(ExtensionPoint::Filter, 1_001),
        stretch(ExtensionPoint::Filter, 900),
        stretch(ExtensionPoint::Score, 800),
    ];
    let mut spans = tracer.spans(&report("u1", 1, placed()), &stretches);
    assert_eq!(times(&spans), [("Filter", 10, 10), ("Score", 10, 10), ("decision", 10, 11)]);
    let volumes =
        Outcome::PreBound { succeeded: true, failed: None, took: Duration::from_secs(1), devices: None };
    spans.extend(tracer.spans(&report("u1", 1, volumes), &[]));
    spans.extend(tracer.spans(&report("u1", 1, bound()), &[]));
    assert_eq!(times(&spans)[3..], [("PreBind", 11, 12), ("Bind", 12, 13), ("scheduling attempt", 10, 13)]);

    let [filter, score, decision, pre_bind, bind, whole] = &spans[..] else { panic!("{spans:?}") };
    assert!(spans.iter().all(|span| span.trace == whole.trace && span.error.is_none()));
    assert_eq!([filter.parent, score.parent], [Some(decision.id); 2]);
    assert_eq!([decision.parent, pre_bind.parent, bind.parent], [Some(whole.id); 3]);
    assert_eq!(whole.parent, None);
    let ids: std::collections::BTreeSet<u64> = spans.iter().map(|span| span.id).collect();
    assert_eq!(ids.len(), spans.len());
    let expected = [
        ("k8s.namespace.name", "default".into()),
        ("k8s.pod.name", "web".into()),
        ("k8s.pod.uid", "u1".into()),
        ("scheduler.profile", "supercargo".into()),
        ("scheduler.attempt", Value::Number(1)),
        ("scheduler.result", "scheduled".into()),
        ("scheduler.evaluated_nodes", Value::Number(3)),
        ("scheduler.feasible_nodes", Value::Number(2)),
        ("k8s.node.name", "n1".into()),
    ];
    assert_eq!(whole.attributes, expected);
    assert!(tracer.tracer.decided.is_empty());
}

#[test]
fn unschedulable_attempt_has_reason_and_its_evictions_share_the_trace() {
    let mut tracer = TestTracer::new();
    let victim = report("u2", 1, placed()).pod;
    let nowhere = Outcome::Unschedulable {
        message: "0/3 nodes are available".to_owned(),
        rejectors: vec!["NodeAffinity", "NodePorts"],
        evaluated: 3,
        preemption: Preemption::Nominated { node: node(), victims: vec![victim], evictions: 1 },
    };
    let spans = tracer.spans(&report("u1", 4, nowhere), &[]);
    assert_eq!(times(&spans), [("decision", 10, 11), ("scheduling attempt", 10, 11)]);
    let whole = &spans[1];
    for (name, value) in [
        ("scheduler.result", "unschedulable".into()),
        ("scheduler.evaluated_nodes", Value::Number(3)),
        ("scheduler.feasible_nodes", Value::Number(0)),
        ("scheduler.message", "0/3 nodes are available".into()),
        ("scheduler.rejected_by", "NodeAffinity,NodePorts".into()),
        ("scheduler.nominated_node", "n1".into()),
        ("scheduler.victims", Value::Number(1)),
    ] {
        assert_eq!(attribute(whole, name), Some(value), "{name}");
    }
    assert_eq!(whole.error, None, "an unschedulable pod is not an error");

    let ended = Outcome::PreemptionEnded { node: node(), error: Some("no".to_owned()) };
    let spans = tracer.spans(&report("u1", 4, ended), &[]);
    assert_eq!(times(&spans), [("Preemption", 10, 12)]);
    assert_eq!((spans[0].trace, spans[0].parent), (whole.trace, Some(whole.id)));
    assert_eq!(spans[0].error.as_deref(), Some("no"));
}

#[test]
fn failed_attempt_has_error_status_and_message() {
    let mut tracer = TestTracer::new();
    let failed = |message: &str| message.to_owned();
    let spans = tracer.spans(&report("u1", 1, Outcome::Error { message: failed("no") }), &[]);
    assert_eq!(spans[1].error.as_deref(), Some("no"));
    assert_eq!(attribute(&spans[1], "scheduler.result"), Some("error".into()));
    tracer.spans(&report("u1", 2, placed()), &[]);
    let spans = tracer.spans(&report("u1", 2, Outcome::BindFailed { message: failed("refused") }), &[]);
    assert_eq!(times(&spans), [("Bind", 12, 13), ("scheduling attempt", 10, 13)]);
    assert!(spans.iter().all(|span| span.error.as_deref() == Some("refused")));
    assert!(tracer.spans(&report("u1", 3, Outcome::Skipped), &[]).is_empty());
}

#[test]
fn each_attempt_has_its_own_trace() {
    let mut tracer = TestTracer::new();
    let mut trace = |uid, attempt| {
        let spans = tracer.spans(&report(uid, attempt, Outcome::Error { message: String::new() }), &[]);
        spans[0].trace
    };
    let traces = [trace("u1", 1), trace("u1", 2), trace("u2", 1)];
    assert_eq!(trace("u1", 1), traces[0]);
    assert!(traces[0] != traces[1] && traces[0] != traces[2] && traces[1] != traces[2]);
    let mut others = TestTracer::new();
    let spans = others.spans(&report("u1", 1, Outcome::Error { message: String::new() }), &[]);
    assert_ne!(spans[0].trace, traces[0], "another process uses other trace IDs");
}

#[test]
fn memory_for_unreported_bindings_is_bounded() {
    let mut tracer = TestTracer::new();
    for number in 0..=DECIDED_MAX {
        tracer.spans(&report(&format!("u{number}"), 1, placed()), &[]);
    }
    assert_eq!(tracer.tracer.decided.len(), DECIDED_MAX);
}

#[tokio::test]
async fn spans_beyond_queue_capacity_are_dropped_and_counted() {
    let metrics = std::sync::Arc::new(Metrics::new());
    let (mut tracer, _out) = Tracer::new(&metrics);
    // Nothing drains the queue, so waiting for room would hang.
    for attempt in 0..WAITING_MAX as u32 {
        tracer.report(
            Time::from_secs(11),
            &report("u1", attempt, Outcome::Error { message: String::new() }),
            &[],
        );
    }
    let text = crate::telemetry::metrics::Exposition::new(metrics).render().await;
    // Two spans per attempt.
    let line = format!("supercargo_trace_spans_total{{result=\"dropped\"}} {WAITING_MAX}");
    assert!(text.lines().any(|shown| shown == line), "{line} is missing from\n{text}");
}
