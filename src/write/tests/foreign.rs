//! Foreign responses: none of them yields a definite outcome, whatever the request and the status line.

use super::*;
use supercargo_core::model::effect::{Eviction, VolumeChange};

/// Status codes that proxies and the API server use.
const CODES: [u16; 18] =
    [200, 201, 202, 203, 300, 302, 400, 401, 403, 404, 405, 409, 410, 413, 422, 429, 500, 503];

/// Requests, by effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Bind,
    Settle,
    /// The DisruptionTarget condition of a victim.
    Mark,
    /// The deletion of a victim, and the read that follows.
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
            Self::Settle => Effect::QueryBinding { pod },
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

    /// Returns the number of requests if every response is foreign; idempotent requests are retried.
    fn tries(self) -> usize {
        match self {
            Self::Bind | Self::Settle | Self::Volume | Self::Claim => 1,
            Self::Delete => 2,
            Self::Mark | Self::Patch => 4,
            Self::Record => 12,
        }
    }

    /// Asserts that the outcome is not definite.
    fn is_open(self, events: &[Event], fixture: &Fixture, why: &str) {
        let open = match &events[0] {
            Event::BindFinished { outcome, .. } => matches!(outcome, BindOutcome::Unknown { .. }),
            Event::BindingQueried { found, .. } => *found == BindingState::NoAnswer,
            Event::EvictFinished { outcome, .. } => matches!(outcome, EvictOutcome::Failed { .. }),
            Event::VolumeWritten { outcome, .. } => matches!(outcome, WriteOutcome::Unknown { .. }),
            // Patches and events report no outcome to the engine.
            Event::Credits { .. } => true,
            other => panic!("{other:?}"),
        };
        assert!(open, "{self:?} after {why}: {:?}", events[0]);
        assert_eq!(fixture.asked().len(), self.tries(), "{self:?} after {why}");
    }
}

/// Returns bodies with status `code` that are not the API server's response to the request.
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
        // A failure under a success status line, and objects of other names, namespaces and kinds.
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
        // A success under a failure status line.
        bodies.push(
            json!({ "kind": "Status", "apiVersion": "v1", "status": "Success", "code": code }).to_string(),
        );
        bodies.push(shown("u1", Some("n1"), None).to_string());
    }
    bodies
}

#[tokio::test(start_paused = true)]
async fn foreign_response_never_yields_a_definite_outcome() {
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
async fn truncated_response_yields_no_definite_outcome() {
    for verb in Verb::ALL {
        // The true response differs per request; only the first one's is truncated.
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

/// Regression test: a proxy lets the binding hang and answers the read with a page of its own.
#[tokio::test(start_paused = true)]
async fn proxy_404_does_not_mark_a_pod_as_deleted() {
    let mut fixture = Fixture::new([Reply::Silence, Reply::Text(404, "<html>404 Not Found</html>")]);
    assert!(matches!(fixture.bind().await, BindOutcome::Unknown { .. }));
    assert_eq!(fixture.query_binding().await, BindingState::NoAnswer);
}

/// Returns a failure with status 404 whose details name an object.
fn absent(details: &Value, message: &str) -> Reply {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "NotFound", "code": 404, "details": details,
    });
    Reply::Json(404, body)
}

/// Regression test: a gateway answers with a Status that names neither the object nor its namespace.
#[tokio::test(start_paused = true)]
async fn status_404_that_does_not_name_the_object_yields_no_definite_outcome() {
    let all_details = [
        Value::Null,
        json!({}),
        json!({ "name": "plain0" }),
        json!({ "kind": "pods" }),
        json!({ "name": "", "kind": "pods" }),
        json!({ "name": "default" }),
        json!({ "name": "elsewhere", "kind": "namespaces" }),
        json!({ "name": "plain0", "group": "metrics.k8s.io", "kind": "pods" }),
        json!({ "name": "plain0", "kind": "services" }),
    ];
    for verb in Verb::ALL {
        for details in &all_details {
            let reply = || absent(details, "the server could not find the requested resource");
            let mut fixture = Fixture::new((0..12).map(|_| reply()));
            fixture.dispatcher.submit(verb.effect());
            let events = fixture.answer().await;
            verb.is_open(&events, &fixture, &format!("404 with details {details}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn status_404_that_names_the_object_or_its_namespace_is_definite() {
    let message = "namespaces \"default\" not found";
    let mut fixture = Fixture::new([absent(&json!({ "name": "default", "kind": "namespaces" }), message)]);
    assert_eq!(fixture.bind().await, refused(message));
    let mut fixture = Fixture::new([absent(&json!({ "name": "plain0", "kind": "pods" }), "gone")]);
    assert_eq!(fixture.bind().await, BindOutcome::NotNeeded(BindingState::Gone));
    let message = "persistentvolumes \"v\" not found";
    let mut fixture = Fixture::new([absent(&json!({ "name": "v", "kind": "persistentvolumes" }), message)]);
    fixture.dispatcher.submit(Verb::Volume.effect());
    let events = fixture.answer().await;
    let Event::VolumeWritten { outcome, .. } = &events[0] else { panic!("{events:?}") };
    assert_eq!(*outcome, WriteOutcome::Refused { message: message.to_owned() });
}

#[tokio::test(start_paused = true)]
async fn genuine_response_after_foreign_ones_counts() {
    let page = || Reply::Text(404, "<html>");
    let mut fixture = Fixture::new([page(), page(), Reply::Done, Reply::Done]);
    fixture.dispatcher.submit(Verb::Mark.effect());
    let events = fixture.answer().await;
    assert!(matches!(events[0], Event::EvictFinished { outcome: EvictOutcome::Deleted, .. }), "{events:?}");
    assert_eq!(fixture.methods(), ["PATCH", "PATCH", "PATCH", "DELETE"]);
}

#[tokio::test(start_paused = true)]
async fn overload_response_without_a_status_object_is_a_refusal() {
    for text in [
        "Too many requests, please try again later.\n",
        "The apiserver is shutting down, please try again later.\n",
    ] {
        let mut fixture = Fixture::new([Reply::Text(429, text)]);
        assert!(matches!(fixture.bind().await, BindOutcome::Refused { .. }), "{text}");
    }
    let mut fixture = Fixture::new([Reply::Text(429, "slow down")]);
    assert!(matches!(fixture.bind().await, BindOutcome::Unknown { .. }), "not the API server's text");
}

#[tokio::test(start_paused = true)]
async fn deletion_is_confirmed_by_a_status_or_by_the_object() {
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
async fn oversized_response_is_foreign() {
    let endless = "x".repeat(9 << 20);
    let mut fixture = Fixture::new([Reply::Body(200, endless.clone()), Reply::Body(403, endless)]);
    assert_eq!(fixture.query_binding().await, BindingState::NoAnswer);
    let BindOutcome::Unknown { message } = fixture.bind().await else { panic!("no definite outcome") };
    assert!(message.len() < 4_096, "{} bytes of it are quoted", message.len());
}
