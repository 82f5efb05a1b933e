//! The elector against a fake API server with one lease, on Tokio's paused clock.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};

use super::*;
use crate::telemetry::metrics::{Exposition, Metrics};

mod foreign;

const SECOND: Duration = Duration::from_secs(1);
const TERMS: LeaseTerms = LeaseTerms {
    lease_duration: seconds_of(15),
    renew_deadline: seconds_of(10),
    retry_period: seconds_of(2),
};

const fn seconds_of(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// How the fake server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behavior {
    Healthy,
    /// Every connection is refused.
    Unreachable,
    /// Writes are carried out, but their responses are lost.
    LosesResponses,
    /// Requests are never answered.
    Silent,
    Forbidding,
    /// A proxy sends this response to every request.
    Foreign(u16, &'static str),
    /// Responds 429 with this `Retry-After` in seconds.
    Later(u64),
}

/// An API server with one lease.
struct Store {
    behavior: Behavior,
    lease: Option<Value>,
    version: u64,
    asked: Vec<String>,
    events: Vec<Value>,
}

#[derive(Clone)]
struct Server {
    store: Arc<Mutex<Store>>,
}

type Answer = Result<Response<Body>, tower::BoxError>;

impl Server {
    fn new() -> Self {
        let store =
            Store { behavior: Behavior::Healthy, lease: None, version: 0, asked: vec![], events: vec![] };
        Self { store: Arc::new(Mutex::new(store)) }
    }

    fn client(&self) -> kube::Client {
        let server = self.clone();
        kube::Client::new(tower::service_fn(move |request| server.clone().answer(request)), "default")
    }

    async fn answer(self, request: Request<Body>) -> Answer {
        let (head, body) = request.into_parts();
        let body: Value = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap_or(Value::Null);
        let agent = head.headers.get("user-agent").and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        assert!(agent.ends_with("/leader-election"), "{agent}");
        let behavior = self.store.lock().unwrap().behavior;
        match behavior {
            Behavior::Silent => std::future::pending().await,
            Behavior::Unreachable => {
                return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into());
            }
            Behavior::Foreign(code, body) => {
                self.store.lock().unwrap().asked.push(head.method.to_string());
                return Ok(Response::builder().status(code).body(body.as_bytes().to_vec().into())?);
            }
            Behavior::Later(seconds) => {
                self.store.lock().unwrap().asked.push(head.method.to_string());
                return Ok(Response::builder()
                    .status(429)
                    .header("retry-after", seconds)
                    .body(Body::empty())?);
            }
            Behavior::Healthy | Behavior::LosesResponses | Behavior::Forbidding => {}
        }
        let (code, answer) =
            self.store.lock().unwrap().carry_out(head.method.as_str(), head.uri.path(), body);
        if behavior == Behavior::LosesResponses && head.method != "GET" {
            return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into());
        }
        Ok(Response::builder().status(code).body(answer.to_string().into_bytes().into())?)
    }

    fn is(&self, behavior: Behavior) {
        self.store.lock().unwrap().behavior = behavior;
    }

    fn spec(&self) -> Value {
        self.store.lock().unwrap().lease.as_ref().map(|lease| lease["spec"].clone()).unwrap_or_default()
    }

    fn holder(&self) -> String {
        self.spec()["holderIdentity"].as_str().unwrap_or("none").to_owned()
    }

    /// Writes the lease as another replica would.
    fn write(&self, spec: &Value) {
        let mut store = self.store.lock().unwrap();
        let lease = json!({ "metadata": { "name": "lease", "namespace": "there" }, "spec": spec });
        store.put(lease);
    }

    /// Returns the methods requested since the last call.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.store.lock().unwrap().asked)
    }

    fn sent_events(&self) -> Vec<String> {
        let events = self.store.lock().unwrap().events.clone();
        events.iter().map(|event| event["note"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl Store {
    fn carry_out(&mut self, method: &str, path: &str, body: Value) -> (StatusCode, Value) {
        if path == "/apis/events.k8s.io/v1/namespaces/there/events" {
            self.events.push(body.clone());
            let mut event = body;
            event["metadata"]["uid"] = json!("u-event");
            return (StatusCode::CREATED, event);
        }
        self.asked.push(method.to_owned());
        let failure = |code: u16, reason: &str| {
            let details = json!({ "group": "coordination.k8s.io", "kind": "leases", "name": "lease" });
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code,
                "details": details,
            });
            (StatusCode::from_u16(code).expect("a code"), status)
        };
        if self.behavior == Behavior::Forbidding {
            return failure(403, "Forbidden");
        }
        let leases = "/apis/coordination.k8s.io/v1/namespaces/there/leases";
        match (method, self.lease.clone()) {
            ("GET", Some(lease)) => (StatusCode::OK, lease),
            ("GET" | "PUT", None) => failure(404, "NotFound"),
            ("POST", Some(_)) => failure(409, "AlreadyExists"),
            ("POST", None) => {
                assert_eq!(path, leases);
                (StatusCode::CREATED, self.put(body))
            }
            ("PUT", Some(lease)) => {
                assert_eq!(path, format!("{leases}/lease"));
                let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
                assert!(version(&body).is_string(), "a write without a resourceVersion");
                if version(&body) == version(&lease) {
                    (StatusCode::OK, self.put(body))
                } else {
                    failure(409, "Conflict")
                }
            }
            (method, _) => panic!("{method} {path}"),
        }
    }

    fn put(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        lease["metadata"]["uid"] = json!("u-lease");
        (lease["apiVersion"], lease["kind"]) = (json!("coordination.k8s.io/v1"), json!("Lease"));
        self.lease = Some(lease.clone());
        lease
    }
}

struct Engine(mpsc::UnboundedSender<bool>);

impl Answers for Engine {
    fn answer(&self, events: Vec<Event>) -> BoxFuture<'_, ()> {
        for event in events {
            let Event::Leading(leading) = event else { panic!("{event:?}") };
            // The test may have ended already.
            let _ = self.0.send(leading);
        }
        Box::pin(std::future::ready(()))
    }
}

/// A running candidate.
struct Candidate {
    leading: mpsc::UnboundedReceiver<bool>,
    fence: Fence,
    silence: watch::Sender<Duration>,
    /// Seconds of suspend, which the boot clock counts and the runtime's does not.
    slept: Arc<AtomicU64>,
    /// 0: nothing listed; 1: everything up to date; 2: listed once, not up to date.
    known: Arc<AtomicU64>,
    metrics: Arc<Metrics>,
    standing: Standing,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Ended>,
}

impl Candidate {
    fn start(server: &Server, name: &str) -> Self {
        let (heard, leading) = mpsc::unbounded_channel();
        let (silence, heartbeat) = Heartbeat::of_channel();
        let (began, slept) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let sleep = Arc::clone(&slept);
        let clock = BootClock::of(move || began.elapsed() + seconds_of(sleep.load(Ordering::Relaxed)));
        let fence = Fence::with_terms(clock.clone(), &TERMS);
        let metrics = Arc::new(Metrics::new());
        let known = Arc::new(AtomicU64::new(1));
        let (knows, listed) = (Arc::clone(&known), Arc::clone(&known));
        let around = Dependencies {
            clock,
            fence: fence.clone(),
            answers: Arc::new(Engine(heard)),
            known: Arc::new(move || match listed.load(Ordering::Relaxed) {
                0 => Err("not yet listed: Pod".to_owned()),
                _ => Ok(()),
            }),
            catch_up: Arc::new(move || {
                let knows = Arc::clone(&knows);
                Box::new(move || match knows.load(Ordering::Relaxed) {
                    1 => Ok(()),
                    _ => Err("not yet reopened: watch of Pod".to_owned()),
                })
            }),
            heartbeat,
            metrics: metrics.leader(),
        };
        let lock = Lock {
            client: server.client(),
            namespace: "there".to_owned(),
            name: "lease".to_owned(),
            identity: name.to_owned(),
            component: "supercargo".to_owned(),
            timeout: TERMS.renew_deadline / 2,
        };
        let elector = Elector::new(lock, TERMS, around);
        let standing = elector.standing();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(elector.run(async move {
            // Dropping the sender stops it, too.
            let _ = stopped.await;
        }));
        Self { leading, fence, silence, slept, known, metrics, standing, stop, task }
    }

    /// Starts a candidate and waits until it leads.
    async fn leader(server: &Server, name: &str) -> Self {
        let mut candidate = Self::start(server, name);
        assert_eq!(candidate.leading.recv().await, Some(true));
        candidate
    }

    async fn stop(self) {
        self.stop.send(()).expect("it runs");
        assert_eq!(self.task.await.expect("it did not panic"), Ended::Stopped);
    }

    async fn lost(self) -> String {
        match self.task.await.expect("it did not panic") {
            Ended::Lost(why) => why,
            Ended::Stopped => panic!("the election was not stopped"),
        }
    }

    async fn scrape(&self) -> String {
        Exposition::new(Arc::clone(&self.metrics)).render().await
    }
}

/// Lets `duration` pass while all tasks run.
async fn pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}

fn held_by(name: &str, transitions: i32) -> Value {
    json!({ "holderIdentity": name, "leaseDurationSeconds": 15, "leaseTransitions": transitions,
        "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": "2020-01-01T00:00:00.000000Z" })
}

#[tokio::test(start_paused = true)]
async fn missing_lease_is_created_then_renewed_every_retry_period() {
    let server = Server::new();
    let candidate = Candidate::leader(&server, "a").await;
    pass(SECOND).await;
    assert_eq!(server.asked(), ["GET", "POST", "PUT"]);
    let spec = server.spec();
    assert_eq!((&spec["holderIdentity"], &spec["leaseDurationSeconds"]), (&json!("a"), &json!(15)));
    assert_eq!(spec["leaseTransitions"], 0);
    let micros = spec["renewTime"].as_str().expect("a time").len();
    assert_eq!(micros, "2026-11-20T19:20:08.437848Z".len(), "{}", spec["renewTime"]);
    let acquired = spec["acquireTime"].clone();
    pass(10 * SECOND).await;
    assert_eq!(server.asked(), ["PUT"; 5], "optimistic updates, without a read");
    assert_eq!(server.spec()["acquireTime"], acquired);
    assert_eq!(server.sent_events(), ["a became leader"]);
    let scrape = candidate.scrape().await;
    assert!(scrape.contains("leader_election_master_status{name=\"kube-scheduler\"} 1\n"), "{scrape}");
    assert!(scrape.contains("leader_election_slowpath_total{name=\"kube-scheduler\"} 0\n"), "{scrape}");
}

#[tokio::test(start_paused = true)]
async fn standby_takes_over_one_lease_duration_after_the_last_observed_change() {
    let server = Server::new();
    // Its times lie years back: other replicas' clocks are not consulted.
    server.write(&held_by("gone", 4));
    let mut candidate = Candidate::start(&server, "b");
    pass(14 * SECOND).await;
    assert!(candidate.leading.try_recv().is_err() && candidate.fence.pass().is_err());
    assert!(!server.asked().contains(&"PUT".to_owned()));
    pass(6 * SECOND).await;
    assert_eq!(candidate.leading.try_recv(), Ok(true));
    assert_eq!(server.holder(), "b");
    assert_eq!(server.spec()["leaseTransitions"], 5);
    assert!(candidate.fence.pass().is_ok());
}

#[tokio::test(start_paused = true)]
async fn renewed_lease_is_never_taken_over() {
    let server = Server::new();
    let leader = Candidate::leader(&server, "a").await;
    let mut others = [Candidate::start(&server, "b"), Candidate::start(&server, "c")];
    pass(600 * SECOND).await;
    assert_eq!(server.holder(), "a");
    for other in &mut others {
        assert!(other.leading.try_recv().is_err() && other.fence.pass().is_err());
        assert!(!other.standing.leads() && other.standing.check().is_ok());
    }
    assert!(leader.fence.pass().is_ok() && leader.standing.leads());
}

#[tokio::test(start_paused = true)]
async fn stopped_leader_releases_the_lease_for_an_immediate_takeover() {
    let server = Server::new();
    let leader = Candidate::leader(&server, "a").await;
    let mut next = Candidate::start(&server, "b");
    pass(SECOND).await;
    let fence = leader.fence.clone();
    leader.stop().await;
    assert!(fence.pass().is_err(), "nothing is written after the release");
    let spec = server.spec();
    assert_eq!((&spec["holderIdentity"], &spec["leaseDurationSeconds"]), (&json!(""), &json!(1)));
    assert_eq!(spec["leaseTransitions"], 0);
    pass(5 * SECOND).await;
    assert_eq!(next.leading.try_recv(), Ok(true));
    assert_eq!((server.holder().as_str(), &server.spec()["leaseTransitions"]), ("b", &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn stopped_standby_leaves_the_lease_alone() {
    let server = Server::new();
    let _leader = Candidate::leader(&server, "a").await;
    let other = Candidate::start(&server, "b");
    pass(SECOND).await;
    other.stop().await;
    assert_eq!(server.holder(), "a");
}

#[tokio::test(start_paused = true)]
async fn lease_is_released_only_after_the_last_write_in_flight() {
    let server = Server::new();
    let leader = Candidate::leader(&server, "a").await;
    let passage = leader.fence.pass().expect("it leads");
    leader.stop.send(()).expect("it runs");
    pass(3 * SECOND).await;
    assert_eq!(server.holder(), "a", "a write is in flight");
    drop(passage);
    assert_eq!(leader.task.await.expect("it did not panic"), Ended::Stopped);
    assert_eq!(server.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn leader_that_cannot_renew_stops_writing_at_the_deadline_and_loses() {
    for behavior in [Behavior::Unreachable, Behavior::Silent] {
        let server = Server::new();
        let leader = Candidate::leader(&server, "a").await;
        pass(SECOND).await;
        let (began, fence) = (Instant::now(), leader.fence.clone());
        server.is(behavior);
        pass(8 * SECOND).await;
        assert!(fence.pass().is_ok(), "still within the renew deadline");
        pass(2 * SECOND).await;
        assert!(fence.pass().is_err(), "the fence closes without a call");
        let why = leader.lost().await;
        assert!(why.contains("10s"), "{why}");
        let after = began.elapsed();
        assert!((10 * SECOND..14 * SECOND).contains(&after), "{behavior:?}: {after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn leader_that_sees_another_holder_loses_immediately() {
    for (name, why) in [("b", "b holds the lease"), ("", "another replica held the lease in the meantime")] {
        let server = Server::new();
        let leader = Candidate::leader(&server, "a").await;
        pass(SECOND).await;
        server.write(&held_by(name, 1));
        let (began, fence) = (Instant::now(), leader.fence.clone());
        assert_eq!(leader.lost().await, why);
        assert!(began.elapsed() <= 2 * SECOND && fence.pass().is_err());
        assert_eq!(server.holder(), name, "the lease is left unchanged");
    }
}

#[tokio::test(start_paused = true)]
async fn renewal_with_lost_response_does_not_count_and_falls_back_to_a_read() {
    let server = Server::new();
    let leader = Candidate::leader(&server, "a").await;
    pass(SECOND).await;
    server.is(Behavior::LosesResponses);
    pass(8 * SECOND).await;
    server.is(Behavior::Healthy);
    server.asked();
    pass(2 * SECOND).await;
    assert_eq!(server.asked(), ["PUT", "GET", "PUT"], "the lost write changed the version");
    assert!(leader.fence.pass().is_ok() && server.holder() == "a");
    let scrape = leader.scrape().await;
    let slow = scrape.lines().find(|line| line.starts_with("leader_election_slowpath_total"));
    assert!(slow.is_some_and(|line| !line.ends_with(" 0")), "{slow:?}");
}

#[tokio::test(start_paused = true)]
async fn deleted_lease_is_recreated_with_its_last_known_fields() {
    let server = Server::new();
    server.write(&held_by("", 6));
    let leader = Candidate::leader(&server, "a").await;
    pass(SECOND).await;
    let before = server.spec();
    assert_eq!(before["leaseTransitions"], 7);
    server.store.lock().unwrap().lease = None;
    pass(2 * SECOND).await;
    let after = server.spec();
    assert_eq!((&after["leaseTransitions"], &after["acquireTime"]), (&json!(7), &before["acquireTime"]));
    assert!(leader.fence.pass().is_ok());
}

#[tokio::test(start_paused = true)]
async fn takeover_warns_only_when_the_lists_take_long() {
    let page = tempfile::NamedTempFile::new().expect("a scratch file");
    let writer = Arc::new(page.reopen().expect("the same file"));
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
    let _guard = tracing::subscriber::set_default(log);
    let count = |words: &str| {
        let text = std::fs::read_to_string(page.path()).expect("the file is there");
        text.lines().filter(|line| line.contains(words)).count()
    };
    let server = Server::new();
    let mut candidate = Candidate::start(&server, "a");
    candidate.known.store(2, Ordering::Relaxed);
    pass(10 * SECOND).await;
    assert_eq!((count("holding the lease"), count("WARN")), (1, 0));
    pass(60 * SECOND).await;
    assert_eq!((count("holding the lease"), count("WARN")), (2, 1), "a minute is too long");
    candidate.known.store(1, Ordering::Relaxed);
    assert_eq!(candidate.leading.recv().await, Some(true));
}

#[tokio::test(start_paused = true)]
async fn candidate_joins_the_election_only_after_the_initial_lists() {
    let server = Server::new();
    let mut candidate = Candidate::start(&server, "a");
    candidate.known.store(0, Ordering::Relaxed);
    pass(600 * SECOND).await;
    assert_eq!((server.holder().as_str(), server.asked().len()), ("none", 0));
    assert_eq!(candidate.standing.check_lease(), Ok(()), "nothing was attempted");
    candidate.known.store(1, Ordering::Relaxed);
    assert_eq!(candidate.leading.recv().await, Some(true));
}

#[tokio::test(start_paused = true)]
async fn lease_holder_leads_only_once_its_watches_are_up_to_date() {
    let server = Server::new();
    let mut candidate = Candidate::start(&server, "a");
    candidate.known.store(2, Ordering::Relaxed);
    pass(50 * SECOND).await;
    assert!(server.holder() == "a" && candidate.leading.try_recv().is_err());
    candidate.known.store(1, Ordering::Relaxed);
    assert_eq!(candidate.leading.recv().await, Some(true));
}

#[tokio::test(start_paused = true)]
async fn leader_whose_watches_never_start_releases_the_lease_to_another() {
    let server = Server::new();
    let mut blind = Candidate::start(&server, "a");
    blind.known.store(2, Ordering::Relaxed);
    pass(SECOND).await;
    assert_eq!(server.holder(), "a");
    let mut other = Candidate::start(&server, "b");
    pass(BLIND_MAX + 5 * SECOND).await;
    assert_eq!((server.holder().as_str(), other.leading.recv().await), ("b", Some(true)));
    assert!(blind.leading.try_recv().is_err() && blind.fence.pass().is_err() && !blind.standing.leads());
    pass(BLIND_MAX).await;
    assert!(server.holder() == "b" && !blind.task.is_finished(), "it stands by");
}

#[tokio::test(start_paused = true)]
async fn leader_whose_watches_fail_later_releases_the_lease_to_another() {
    let server = Server::new();
    let mut leader = Candidate::leader(&server, "a").await;
    pass(SECOND).await;
    let mut other = Candidate::start(&server, "b");
    leader.known.store(0, Ordering::Relaxed);
    assert_eq!(leader.leading.recv().await, Some(false));
    assert_eq!((other.leading.recv().await, server.holder().as_str()), (Some(true), "b"));
    assert!(leader.fence.pass().is_err() && !leader.standing.leads());
    pass(600 * SECOND).await;
    assert!(server.holder() == "b" && !leader.task.is_finished(), "it stands by");
    other.known.store(0, Ordering::Relaxed);
    assert_eq!(other.leading.recv().await, Some(false));
    leader.known.store(1, Ordering::Relaxed);
    assert_eq!(leader.leading.recv().await, Some(true));
}

#[tokio::test(start_paused = true)]
async fn b18_stuck_engine_releases_the_lease_and_rejoins_once_it_responds() {
    let server = Server::new();
    let mut leader = Candidate::leader(&server, "a").await;
    pass(SECOND).await;
    leader.silence.send_replace(SILENCE_MAX);
    pass(SECOND).await;
    assert_eq!(server.holder(), "", "the lease is released");
    assert!(leader.fence.pass().is_err() && !leader.standing.leads());
    assert_eq!(leader.leading.recv().await, Some(false));
    pass(60 * SECOND).await;
    assert_eq!(server.holder(), "", "a replica that cannot lead does not run");
    leader.silence.send_replace(Duration::ZERO);
    assert_eq!(leader.leading.recv().await, Some(true));
    assert_eq!(server.holder(), "a");
    assert!(leader.fence.pass().is_ok());
}

#[tokio::test(start_paused = true)]
async fn b19_leader_suspended_past_its_lease_writes_nothing_before_renewal() {
    let server = Server::new();
    let leader = Candidate::leader(&server, "a").await;
    pass(SECOND).await;
    // The runtime's timers do not count suspend: the next renewal is one second away.
    leader.slept.store(60, Ordering::Relaxed);
    assert!(leader.fence.pass().is_err());
    assert_eq!(
        leader.standing.check().expect_err("a minute is too long"),
        "failed election to renew leadership on lease lease"
    );
    pass(2 * SECOND).await;
    assert!(leader.fence.pass().is_ok(), "the lease had not been taken");
    leader.slept.store(120, Ordering::Relaxed);
    server.write(&held_by("b", 1));
    pass(2 * SECOND).await;
    assert!(leader.fence.pass().is_err());
    assert_eq!(leader.lost().await, "b holds the lease");
}

#[tokio::test(start_paused = true)]
async fn b22_candidate_without_lease_permissions_leads_only_once_granted() {
    let server = Server::new();
    server.is(Behavior::Forbidding);
    let mut candidate = Candidate::start(&server, "a");
    pass(TERMS.renew_deadline - SECOND).await;
    assert_eq!(candidate.standing.check_lease(), Ok(()), "the renew deadline has not passed");
    pass(120 * SECOND).await;
    assert!(candidate.leading.try_recv().is_err() && candidate.fence.pass().is_err());
    let unready = candidate.standing.check_lease().unwrap_err();
    assert!(unready.starts_with("lease lease could not be read or acquired for 12"), "{unready}");
    server.is(Behavior::Healthy);
    assert_eq!(candidate.leading.recv().await, Some(true));
    assert_eq!(candidate.standing.check_lease(), Ok(()));
}
