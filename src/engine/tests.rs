//! Tests of the driver with a scripted engine.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use supercargo_core::cycle::{NoProbe, Probe};
use supercargo_core::model::effect::{Effect, Lane, PodRef};
use supercargo_core::model::event::{BindOutcome, Event, Kind};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::time::Time;
use supercargo_core::report::group::GroupReport;
use supercargo_core::report::{Notice, Outcome, Report};
use tokio::sync::{mpsc, oneshot};

use super::*;
use supercargo_apiserver::watch::Ended;

type Log = Arc<Mutex<Vec<String>>>;

/// Plays scripted steps and logs its inputs.
struct Scripted {
    tables: Tables,
    steps: VecDeque<Step>,
    halted: bool,
    log: Log,
}

impl Engine for Scripted {
    fn tables(&mut self) -> &mut Tables {
        &mut self.tables
    }

    fn handle(&mut self, _now: Time, event: Event) {
        assert!(
            !matches!(event, Event::ListEnded(Kind::Namespace)),
            "the scripted engine panics on a namespace list"
        );
        match event {
            Event::Halt => {
                self.halted = true;
                // After a halt, no further effects are released.
                self.steps.retain(|step| matches!(step, Step::Report(_)));
            }
            Event::BindFinished { .. } if self.halted => self.steps.push_back(skipped()),
            _ => {}
        }
        self.log.lock().unwrap().push(match event {
            Event::Credits { lane, count } => format!("{count} credits of {}", lane.as_str()),
            Event::ListBegan(kind) => format!("list of {}", kind.as_str()),
            Event::BindFinished { uid, .. } => format!("bound {uid}"),
            other => format!("{other:?}"),
        });
    }

    fn event_label(&self) -> Option<&'static str> {
        None
    }

    fn step(&mut self, _now: Time, _probe: &mut dyn Probe) -> Step {
        let step = self.steps.pop_front().unwrap_or(Step::Idle { wake_at: None });
        self.log.lock().unwrap().push(
            match step {
                Step::Effect(_) => "effect",
                Step::Report(_) => "report",
                Step::GroupReport(_) => "group",
                Step::Notice(_) => "notice",
                Step::Idle { .. } => "idle",
            }
            .to_owned(),
        );
        step
    }

    fn is_settled(&self) -> bool {
        self.steps.is_empty()
    }

    fn collect_ids(&mut self) {}
}

struct EffectSink(mpsc::UnboundedSender<Effect>);

impl EffectRunner for EffectSink {
    fn credits(&self) -> Vec<Event> {
        vec![Event::Credits { lane: Lane::Bind, count: 2 }]
    }

    fn submit(&mut self, effect: Effect) {
        self.0.send(effect).expect("the test listens");
    }
}

struct Input(mpsc::UnboundedSender<Report>, NoProbe);

impl Observer for Input {
    fn probe(&mut self) -> &mut dyn Probe {
        &mut self.1
    }

    fn report(&mut self, _now: Time, report: &Report, _took: Duration) {
        self.0.send(report.clone()).expect("the test listens");
    }

    fn group(&mut self, _now: Time, _report: &GroupReport, _took: Duration) {}

    fn notice(&mut self, _notice: &Notice) {}

    fn handled(&mut self, _label: &'static str, _took: Duration) {}

    fn answer(&mut self, _event: &Event) {}
}

struct Fixture {
    inbox: Inbox<Scripted>,
    mailbox: Option<Mailbox<Scripted>>,
    log: Log,
    effects: mpsc::UnboundedReceiver<Effect>,
    reports: mpsc::UnboundedReceiver<Report>,
    taken: Option<(EffectSink, Input)>,
}

impl Fixture {
    fn new() -> Self {
        let mailbox = Mailbox::new();
        let (effect, effects) = mpsc::unbounded_channel();
        let (report, reports) = mpsc::unbounded_channel();
        Self {
            inbox: mailbox.inbox(),
            mailbox: Some(mailbox),
            log: Log::default(),
            effects,
            reports,
            taken: Some((EffectSink(effect), Input(report, NoProbe))),
        }
    }

    fn start(&mut self, steps: Vec<Step>) -> oneshot::Receiver<End> {
        let engine = Scripted {
            tables: Tables::new(),
            steps: steps.into(),
            halted: false,
            log: Arc::clone(&self.log),
        };
        let (effects, observer) = self.taken.take().expect("started once");
        let mailbox = self.mailbox.take().expect("started once");
        mailbox.start(engine, Clock::start(), effects, observer).expect("a thread starts")
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    async fn list_began(&self, kind: Kind) {
        self.inbox
            .send(Item::Object(Box::new(move |_| Event::ListBegan(kind)), None))
            .await
            .expect("the driver lives");
    }
}

fn pod() -> PodRef {
    PodRef { namespace: "default".to_owned(), name: "a".to_owned(), uid: "u1".into() }
}

fn bind() -> Step {
    Step::Effect(Effect::Bind { pod: pod(), node: "n1".to_owned() })
}

fn answered() -> Item<Scripted> {
    Item::Answer(vec![
        Event::BindFinished { uid: pod().uid, outcome: BindOutcome::Accepted },
        Event::Credits { lane: Lane::Bind, count: 1 },
    ])
}

fn skipped() -> Step {
    Step::Report(Box::new(Report {
        pod: pod(),
        profile: "p".to_owned(),
        attempt: 1,
        first_queued: Time::default(),
        began: Time::default(),
        rescued_by_flush: false,
        outcome: Outcome::Skipped,
    }))
}

#[tokio::test]
async fn queued_events_are_handled_in_order_before_next_step() {
    let mut fixture = Fixture::new();
    fixture.list_began(Kind::Node).await;
    fixture.list_began(Kind::Pod).await;
    let _end = fixture.start(vec![bind()]);
    fixture.effects.recv().await.expect("the effect leaves");
    assert_eq!(fixture.log()[..4], ["2 credits of bind", "list of Node", "list of Pod", "effect"]);
}

#[tokio::test]
async fn answer_delivers_outcome_before_credit() {
    let mut fixture = Fixture::new();
    let _end = fixture.start(vec![bind()]);
    fixture.effects.recv().await.expect("the effect leaves");
    fixture.inbox.send(answered()).await.unwrap();
    fixture.inbox.ask(|_| ()).await.unwrap();
    let log = fixture.log();
    let at = log.iter().position(|line| line == "bound u1").expect("the answer is handled");
    assert_eq!(log[at + 1], "1 credits of bind");
}

#[tokio::test]
async fn driver_wakes_at_the_requested_time() {
    let mut fixture = Fixture::new();
    let soon = Clock::start().now() + Duration::from_millis(5);
    let _end = fixture.start(vec![Step::Idle { wake_at: Some(soon) }, skipped()]);
    assert_eq!(fixture.reports.recv().await.expect("a report").outcome, Outcome::Skipped);
}

#[tokio::test]
async fn question_runs_on_the_engine() {
    let mut fixture = Fixture::new();
    let _end = fixture.start(vec![]);
    let left = fixture.inbox.ask(|engine: &Scripted| engine.steps.len()).await;
    assert_eq!(left, Ok(0));
}

#[tokio::test]
async fn stop_waits_for_binding_in_flight() {
    let mut fixture = Fixture::new();
    let mut end = fixture.start(vec![bind(), Step::Idle { wake_at: None }, bind()]);
    fixture.effects.recv().await.expect("the effect leaves");
    fixture.inbox.send(Item::Stop { within: Duration::from_secs(600) }).await.unwrap();
    fixture.inbox.ask(|_| ()).await.expect("the driver still answers");
    assert!(end.try_recv().is_err(), "the binding is not answered yet");
    fixture.inbox.send(answered()).await.unwrap();
    let End::Stopped { unanswered } = end.await.unwrap() else { panic!("stopped on request") };
    assert_eq!(unanswered, []);
    assert!(fixture.effects.try_recv().is_err(), "nothing more is released");
    assert!(fixture.reports.try_recv().is_ok(), "the report of the answered binding arrives");
}

#[tokio::test]
async fn stop_past_deadline_names_unanswered_bindings() {
    let mut fixture = Fixture::new();
    let end = fixture.start(vec![bind()]);
    fixture.effects.recv().await.expect("the effect leaves");
    fixture.inbox.send(Item::Stop { within: Duration::ZERO }).await.unwrap();
    let End::Stopped { unanswered } = end.await.unwrap() else { panic!("stopped on request") };
    assert_eq!(unanswered, [pod()]);
    assert_eq!(fixture.inbox.ask(|_| ()).await, Err(Ended));
}

#[tokio::test]
async fn driver_ends_when_all_senders_are_gone() {
    let mut fixture = Fixture::new();
    let end = fixture.start(vec![]);
    drop(fixture.inbox);
    assert!(matches!(end.await.unwrap(), End::Stopped { .. }));
}

#[tokio::test]
async fn panic_is_returned_with_its_message() {
    let mut fixture = Fixture::new();
    let end = fixture.start(vec![]);
    fixture.inbox.send(Item::Object(Box::new(|_| Event::ListEnded(Kind::Namespace)), None)).await.unwrap();
    let End::Panicked(text) = end.await.unwrap() else { panic!("the engine panicked") };
    assert!(text.contains("scripted engine panics"), "{text}");
}

#[tokio::test]
async fn full_channel_blocks_senders() {
    let fixture = Fixture::new();
    for _ in 0..INBOX_CAPACITY {
        fixture.list_began(Kind::Pod).await;
    }
    assert_eq!(fixture.inbox.fill(), Fill { length: INBOX_CAPACITY, capacity: INBOX_CAPACITY });
    let mut more = std::pin::pin!(fixture.list_began(Kind::Pod));
    assert!(futures::poll!(&mut more).is_pending());
}
