//! Answers that are not the API server's: nothing definite follows from any of them, whatever was asked and whatever the status line says.

use super::*;
use supercargo_core::effect::{Eviction, VolumeChange};

/// Status lines as proxies write them, and as the API server does.
const CODES: [u16; 18] =
    [200, 201, 202, 203, 300, 302, 400, 401, 403, 404, 405, 409, 410, 413, 422, 429, 500, 503];

/// What is asked, by effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Bind,
    Settle,
    /// The condition of a victim.
    Mark,
    /// The deletion of a victim, and the look that follows.
    Delete,
    Patch,
    Volume,
    Claim,
    Record,
}

impl Verb {
    const ALL: [Self; 8] = [
        Self::Bind,
        Self::Settle,
        Self::Mark,
        Self::Delete,
        Self::Patch,
        Self::Volume,
        Self::Claim,
        Self::Record,
    ];

    fn effect(self) -> Effect {
        let (pod, node) = (pod(), "n1".to_owned());
        let write = |change| Effect::WriteVolume(VolumeWrite { write: 3, pod: super::pod(), change });
        match self {
            Self::Bind => Effect::Bind { pod, node },
            Self::Settle => Effect::Settle { pod },
            Self::Mark => Effect::Evict(super::evict::eviction()),
            Self::Delete => Effect::Evict(Eviction { condition: None, pod }),
            Self::Patch => Effect::Patch(unscheduled("why", None)),
            Self::Volume => write(super::volumes::bind(true)),
            Self::Claim => write(VolumeChange::SelectNode {
                namespace: "default".to_owned(),
                name: "c".to_owned(),
                version: "5".to_owned(),
                node,
            }),
            Self::Record => Effect::Record(failed("no")),
        }
    }

    /// How many requests are sent where every answer is foreign: those that may be repeated are.
    fn tries(self) -> usize {
        match self {
            Self::Bind | Self::Settle | Self::Volume | Self::Claim => 1,
            Self::Delete => 2,
            Self::Mark | Self::Patch => 4,
            Self::Record => 12,
        }
    }

    /// Asserts that nothing definite was learned.
    fn is_open(self, events: &[Event], fixture: &Fixture, why: &str) {
        let open = match &events[0] {
            Event::BindFinished { outcome, .. } => matches!(outcome, BindOutcome::Unknown { .. }),
            Event::Settled { found, .. } => *found == Found::NoAnswer,
            Event::EvictFinished { outcome, .. } => matches!(outcome, EvictOutcome::Failed { .. }),
            Event::VolumeWritten { outcome, .. } => matches!(outcome, WriteOutcome::Unknown { .. }),
            // Patches and events come to nothing the engine hears of.
            Event::Credits { .. } => true,
            other => panic!("{other:?}"),
        };
        assert!(open, "{self:?} after {why}: {:?}", events[0]);
        assert_eq!(fixture.asked().len(), self.tries(), "{self:?} after {why}");
    }
}

/// The bodies of answers of `code` that are not the API server's about what was asked.
fn bodies(code: u16) -> Vec<String> {
    let failure = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound",
        "message": "pods \"plain0\" not found", "code": code,
        "details": { "name": "plain0", "kind": "pods" },
    });
    let with = |key: &str, value: Value| {
        let mut changed = failure.clone();
        changed[key] = value;
        changed.to_string()
    };
    let mut bodies: Vec<String> =
        ["", " ", "<html><body>404 page not found</body></html>", "null", "[]", "{}", "\"\"", "k8s\0"]
            .map(str::to_owned)
            .into();
    bodies.extend([
        with("kind", json!("Pod")),
        with("kind", Value::Null),
        with("apiVersion", json!("v2")),
        with("code", json!(code + 1)),
        with("code", Value::Null),
        with("status", json!("Unknown")),
        with("details", json!({ "name": "another", "kind": "pods" })),
        json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [] }).to_string(),
        json!({ "error": "not found", "code": code }).to_string(),
        failure.to_string()[..60].to_owned(),
    ]);
    if (200..300).contains(&code) {
        // A failure under the status line of a success, and objects of other names, namespaces and kinds.
        bodies.push(failure.to_string());
        let mut object = shown("u1", None, Some("2026-11-20T19:18:14Z"));
        bodies.push({
            object["metadata"]["name"] = json!("another");
            object.to_string()
        });
        object = shown("u1", Some("n1"), None);
        object["metadata"]["namespace"] = json!("elsewhere");
        bodies.push(object.to_string());
        object = shown("u1", Some("n1"), None);
        object["kind"] = json!("Node");
        bodies.push(object.to_string());
        object = shown("u1", Some("n1"), None);
        object["metadata"] = json!({ "namespace": "default", "name": "plain0" });
        bodies.push(object.to_string());
    } else {
        // A success under the status line of a failure.
        bodies.push(
            json!({ "kind": "Status", "apiVersion": "v1", "status": "Success", "code": code }).to_string(),
        );
        bodies.push(shown("u1", Some("n1"), None).to_string());
    }
    bodies
}

#[tokio::test(start_paused = true)]
async fn no_foreign_answer_yields_a_definite_outcome() {
    for verb in Verb::ALL {
        for code in CODES {
            for body in bodies(code) {
                let mut fixture = Fixture::new((0..12).map(|_| Reply::Body(code, body.clone())));
                fixture.dispatcher.submit(verb.effect());
                let events = fixture.answer().await;
                verb.is_open(&events, &fixture, &format!("{code} with {body:?}"));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_true_answer_that_breaks_off_yields_no_definite_outcome() {
    for verb in Verb::ALL {
        // What is true differs from request to request; the first one's is cut, and stays what it is.
        let mut fixture = Fixture::new([Reply::Done, Reply::Done]);
        fixture.dispatcher.submit(verb.effect());
        fixture.answer().await;
        let (code, done) = fixture.asked()[0].carried_out();
        let gone = fixture.asked()[0].not_found();
        for (code, body) in [(code, done.to_string()), (404, gone.to_string())] {
            for length in (0..body.len()).step_by(7).chain([body.len() - 1]) {
                let cut = || Reply::Body(code, body[..length].to_owned());
                let mut fixture = Fixture::new((0..12).map(|_| cut()));
                fixture.dispatcher.submit(verb.effect());
                let events = fixture.answer().await;
                verb.is_open(&events, &fixture, &format!("{code}, {length} bytes of {body}"));
            }
        }
    }
}

/// The proxy of the fault that this came from: it lets the binding hang, and answers the question with a page of its own.
#[tokio::test(start_paused = true)]
async fn a_proxys_404_does_not_make_a_pod_gone() {
    let mut fixture = Fixture::new([Reply::Silence, Reply::Text(404, "<html>404 Not Found</html>")]);
    assert!(matches!(fixture.bind().await, BindOutcome::Unknown { .. }));
    assert_eq!(fixture.settle().await, Found::NoAnswer);
}

#[tokio::test(start_paused = true)]
async fn the_true_answer_after_foreign_ones_counts() {
    let page = || Reply::Text(404, "<html>");
    let mut fixture = Fixture::new([page(), page(), Reply::Done, Reply::Done]);
    fixture.dispatcher.submit(Verb::Mark.effect());
    let events = fixture.answer().await;
    assert!(matches!(events[0], Event::EvictFinished { outcome: EvictOutcome::Deleted, .. }), "{events:?}");
    assert_eq!(fixture.methods(), ["PATCH", "PATCH", "PATCH", "DELETE"]);
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_api_server_has_refused_although_it_sends_no_status_object() {
    for text in [
        "Too many requests, please try again later.\n",
        "The apiserver is shutting down, please try again later.\n",
    ] {
        let mut fixture = Fixture::new([Reply::Text(429, text)]);
        assert!(matches!(fixture.bind().await, BindOutcome::Refused { .. }), "{text}");
    }
    let mut fixture = Fixture::new([Reply::Text(429, "slow down")]);
    assert!(matches!(fixture.bind().await, BindOutcome::Unknown { .. }), "that is somebody else's");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_done_when_the_api_server_says_so_in_either_way() {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": { "name": "plain0", "kind": "pods", "uid": "u1" },
    });
    for reply in [Reply::Done, Reply::Json(200, status)] {
        let mut fixture = Fixture::new([reply]);
        fixture.dispatcher.submit(Verb::Delete.effect());
        let events = fixture.answer().await;
        assert!(
            matches!(events[0], Event::EvictFinished { outcome: EvictOutcome::Deleted, .. }),
            "{events:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_endless_length_is_foreign() {
    let endless = "x".repeat(9 << 20);
    let mut fixture = Fixture::new([Reply::Body(200, endless.clone()), Reply::Body(403, endless)]);
    assert_eq!(fixture.settle().await, Found::NoAnswer);
    let BindOutcome::Unknown { message } = fixture.bind().await else { panic!("it says nothing") };
    assert!(message.len() < 4_096, "{} bytes of it are quoted", message.len());
}
