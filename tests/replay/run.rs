//! Runs and records a scheduler with its real driver, engine and writer, against a simulated API server that
//! also gives wrong answers.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use supercargo::engine::recording::{Journal, Ring, Sink, SinkOptions, WhenFull};
use supercargo::engine::{Accounts, Clock, EffectRunner, End, Inbox, Item, Mailbox};
use supercargo::telemetry::metrics::{Metrics, Record};
use supercargo_config::{Effective, Flags, Settings};
use supercargo_core::model::effect::{Effect, Lane, PodRef};
use supercargo_core::model::event::{BindOutcome, BindingState, Event, EvictOutcome, Kind};
use supercargo_core::model::rng::Seed;
use supercargo_core::scheduler::Scheduler;
use supercargo_objects::api::{Node, Pod, ToJson};
use supercargo_objects::convert::Watched;
use supercargo_objects::input_text;
use supercargo_whatif::recording::header::Header;
use supercargo_whatif::recording::header::Mode;
use tokio::sync::mpsc;

/// Number of pods created at a time.
const BATCH: usize = 50;

/// Result of a run.
pub(crate) struct Run {
    /// Numbers of pods that were bound, rejected, and looked up.
    pub(crate) bound: usize,
    pub(crate) refused: usize,
    pub(crate) asked_about: usize,
    pub(crate) evicted: usize,
    /// Final answer of `/debug/decisions`.
    pub(crate) shown: Value,
}

struct Out(mpsc::UnboundedSender<Effect>);

impl EffectRunner for Out {
    fn credits(&self) -> Vec<Event> {
        Lane::ALL.map(|lane| Event::Credits { lane, count: 8 }).into()
    }

    fn submit(&mut self, effect: Effect) {
        // The server is gone when the run ends.
        let _ = self.0.send(effect);
    }
}

/// Schedules `pods` pods on `nodes` nodes and records the run.
pub(crate) async fn recorded(to: &Path, nodes: usize, pods: usize) -> Run {
    let effective = Effective::without_file(&Flags::without_election()).expect("the defaults are valid");
    let settings = Settings::of(&effective).expect("the defaults can be taken");
    let (metrics, clock) = (Arc::new(Metrics::new()), Clock::start());
    let wait = Duration::from_secs(300);
    let beginning = Header::new(Mode::Scheduler, clock.now(), Seed(7), (&effective, &settings), wait);
    let options = SinkOptions {
        path: to.to_owned(),
        bytes_max: u64::MAX,
        when_full: WhenFull::Ends,
        header: Some(beginning.to_line()),
    };
    let (sink, writer) =
        Sink::open(options, metrics.record_lines(Record::Input)).expect("the file can be made");
    let ring = Arc::new(Ring::new(100, 1 << 20));
    let journal = Journal::default().with_ring(Arc::clone(&ring)).with_recording(sink, beginning.began());
    let mailbox = Mailbox::<Scheduler>::new().taped(Some(Box::new(journal)));
    let inbox = mailbox.inbox();
    let engine = beginning.engine(&settings, |_| Vec::new());
    let (effect, effects) = mpsc::unbounded_channel();
    let accounts = Accounts::new(Arc::clone(&metrics), ["supercargo"]);
    let end = mailbox.start(engine, clock, Out(effect), accounts).expect("a thread starts");

    let mut server = Server::new(inbox.clone(), effects);
    server.lists(nodes).await;
    let mut number = 0;
    while number < pods {
        // Pods of high priority come last, so that some must preempt others.
        let batch = number..(number + BATCH).min(pods);
        let (high, low): (Vec<_>, Vec<_>) = batch.partition(|number| is_of_high_priority(*number));
        for numbers in [low, high] {
            server.come(numbers).await;
            server.until_all_are_decided().await;
        }
        number += BATCH;
        server.change(number, nodes).await;
    }
    inbox.send(Item::Stop { within: Duration::from_secs(5) }).await.expect("it runs");
    let Ok(End::Stopped { .. }) = end.await else { panic!("the scheduling thread has to stop well") };
    writer.join().expect("the writer ends well");
    let Server { bound, refused, asked_about, evicted, .. } = server;
    let shown = serde_json::from_str(&ring.to_json()).expect("it is JSON");
    Run { bound, refused, asked_about, evicted, shown }
}

struct Server {
    inbox: Inbox<Scheduler>,
    effects: mpsc::UnboundedReceiver<Effect>,
    pods: BTreeMap<String, Value>,
    undecided: BTreeSet<String>,
    binds: usize,
    bound: usize,
    refused: usize,
    asked_about: usize,
    evicted: usize,
}

impl Server {
    fn new(inbox: Inbox<Scheduler>, effects: mpsc::UnboundedReceiver<Effect>) -> Self {
        let (pods, undecided) = Default::default();
        Self { inbox, effects, pods, undecided, binds: 0, bound: 0, refused: 0, asked_about: 0, evicted: 0 }
    }

    async fn lists(&self, nodes: usize) {
        for kind in Kind::ALL {
            let began =
                Item::Object(Box::new(move |_| Event::ListBegan(kind)), Some(input_text::list_began(kind)));
            self.inbox.send(began).await.expect("it runs");
            if kind == Kind::Node {
                for number in 0..nodes {
                    self.node(number, false).await;
                }
            }
            let ended =
                Item::Object(Box::new(move |_| Event::ListEnded(kind)), Some(input_text::list_ended(kind)));
            self.inbox.send(ended).await.expect("it runs");
        }
    }

    async fn node(&self, number: usize, is_cordoned: bool) {
        let zone = format!("z{}", number % 3);
        let node: Node = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("n{number}"), "uid": format!("node-{number}"), "labels": {"topology.kubernetes.io/zone": zone}},
            "spec": {"unschedulable": is_cordoned},
            "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "30"}},
        }))
        .expect("it is a node");
        self.applied(node).await;
    }

    async fn applied<K: Watched + ToJson + Send + 'static>(&self, object: K) {
        let text = input_text::applied(&object);
        let convert = Box::new(move |tables: &mut _| object.applied(tables).expect("it is well formed"));
        self.inbox.send(Item::Object(convert, Some(text))).await.expect("it runs");
    }

    async fn gone(&mut self, uid: &str) {
        let Some(pod) = self.pods.remove(uid) else { return };
        self.undecided.remove(uid);
        let pod: Pod = serde_json::from_value(pod).expect("it is a pod");
        let text = input_text::gone(&pod);
        self.inbox
            .send(Item::Object(Box::new(move |tables| pod.gone(tables)), Some(text)))
            .await
            .expect("it runs");
    }

    async fn come(&mut self, numbers: Vec<usize>) {
        for number in numbers {
            let pod = pod(number);
            let uid = pod["metadata"]["uid"].as_str().expect("it has one").to_owned();
            self.pods.insert(uid.clone(), pod.clone());
            self.undecided.insert(uid);
            self.applied(serde_json::from_value::<Pod>(pod).expect("it is a pod")).await;
        }
    }

    /// Deletes pods, cordons a node and uncordons another.
    async fn change(&mut self, number: usize, nodes: usize) {
        let bound = |pod: &Value| pod["spec"]["nodeName"].is_string();
        let leave: Vec<String> = self
            .pods
            .iter()
            .enumerate()
            .filter(|(at, (_, pod))| at % 3 > 0 || !bound(pod))
            .map(|(_, (uid, _))| uid.clone())
            .collect();
        for uid in leave {
            self.gone(&uid).await;
        }
        self.node(number / BATCH % nodes, true).await;
        self.node((number / BATCH + nodes - 2) % nodes, false).await;
    }

    async fn until_all_are_decided(&mut self) {
        while !self.undecided.is_empty() {
            let effect = self.effects.recv().await.expect("it runs");
            self.answer(effect).await;
        }
    }

    async fn answer(&mut self, effect: Effect) {
        let lane = effect.lane();
        let credit = Event::Credits { lane, count: 1 };
        match effect {
            Effect::Bind { pod, node } => {
                let uid = Arc::clone(&pod.uid);
                let outcome = self.bind(&pod);
                let is_bound = outcome == BindOutcome::Accepted;
                self.inbox
                    .send(Item::Answer(vec![Event::BindFinished { uid, outcome }, credit]))
                    .await
                    .expect("it runs");
                if is_bound {
                    self.bound(&pod, &node).await;
                }
            }
            Effect::QueryBinding { pod } => {
                self.asked_about += 1;
                let settled = Event::BindingQueried { uid: pod.uid, found: BindingState::Unbound };
                self.inbox.send(Item::Answer(vec![settled, credit])).await.expect("it runs");
            }
            Effect::Evict(eviction) => {
                self.evicted += 1;
                let uid = eviction.pod.uid;
                let answer = Event::EvictFinished { uid: Arc::clone(&uid), outcome: EvictOutcome::Deleted };
                self.inbox.send(Item::Answer(vec![answer, credit])).await.expect("it runs");
                self.gone(&uid).await;
            }
            Effect::Patch(patch) => {
                if patch.condition.is_some() {
                    self.undecided.remove(&*patch.pod.uid);
                }
                self.inbox.send(Item::Answer(vec![credit])).await.expect("it runs");
            }
            _ => self.inbox.send(Item::Answer(vec![credit])).await.expect("it runs"),
        }
    }

    /// Rejects some bindings, and does not answer others.
    fn bind(&mut self, pod: &PodRef) -> BindOutcome {
        self.binds += 1;
        if !self.pods.contains_key(&*pod.uid) {
            return BindOutcome::NotNeeded(BindingState::Gone);
        }
        if self.binds.is_multiple_of(53) {
            self.refused += 1;
            return BindOutcome::Refused { message: "the server is in a mood".to_owned() };
        }
        if self.binds.is_multiple_of(97) {
            return BindOutcome::Unknown { message: "no answer".to_owned() };
        }
        BindOutcome::Accepted
    }

    async fn bound(&mut self, pod: &PodRef, node: &str) {
        self.undecided.remove(&*pod.uid);
        self.bound += 1;
        let Some(object) = self.pods.get_mut(&*pod.uid) else { return };
        object["spec"]["nodeName"] = node.into();
        let object: Pod = serde_json::from_value(object.clone()).expect("it is a pod");
        self.applied(object).await;
    }
}

/// Returns whether the pod with this number has a high priority, and needs most of a node.
fn is_of_high_priority(number: usize) -> bool {
    number % 11 == 10
}

/// Returns a pod of one of several kinds. It contains a text that must not be recorded.
fn pod(number: usize) -> Value {
    let app = format!("app-{}", number % 7);
    let selector = json!({"matchLabels": {"app": app}});
    let mut spec = json!({
        "schedulerName": "supercargo",
        "containers": [{
            "name": "c", "image": "i",
            "env": [{"name": "PASSWORD", "value": "not-to-be-recorded"}],
            "resources": {"requests": {"cpu": format!("{}m", 100 + number % 5 * 100), "memory": "64Mi"}},
        }],
    });
    match number % 11 {
        0..=4 => {}
        5 | 6 => {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector,
            }]);
        }
        7 | 8 => {
            spec["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "podAffinityTerm": {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": selector}},
            ]}});
        }
        9 => spec["nodeSelector"] = json!({"disk": "of-which-there-is-none"}),
        _ => {
            spec["priority"] = json!(1000);
            spec["containers"][0]["resources"]["requests"]["cpu"] = json!("3500m");
        }
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("p{number}"), "namespace": "default", "uid": format!("uid-{number}"), "labels": {"app": app},
            "annotations": {"note": "not-to-be-recorded"}},
        "spec": spec,
    })
}
