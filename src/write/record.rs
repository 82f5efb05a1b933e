//! Writes Kubernetes events (`events.k8s.io/v1`) as upstream's recorder does. Best effort: a lost event loses
//! only the message.
//!
//! Upstream: `client-go/tools/events`. Unlike upstream, a note is not a format string, so percent signs are
//! kept.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use serde_json::json;
use supercargo_core::model::effect::EventRecord;

use crate::write::per_object_order::{PerObjectOrder, Turn};
use crate::write::request::{Answer, Call, JSON, STRATEGIC_MERGE, Transport};
use crate::write::series::{Book, FINISH, REFRESH, Write};
use crate::write::{LOG_INTERVAL, Limits};
use supercargo_apiserver::Throttle;
use supercargo_apiserver::answer::{Subject, Success};
use supercargo_apiserver::retry::jittered;

/// Upstream's maximum number of tries while the API server is unreachable.
const TRIES_MAX: u32 = 12;
/// Upstream's pause between tries; up to a quarter is added.
const PAUSE: Duration = Duration::from_secs(10);

/// Writes events.
pub(super) struct EventRecorder {
    transport: Transport,
    limits: Limits,
    book: Mutex<Book>,
    /// Orders the writes about one event.
    turns: PerObjectOrder,
    refusals: Throttle,
}

/// A write with its place in the queue of its event.
pub(super) struct Queued {
    write: Write,
    turn: Turn,
}

impl EventRecorder {
    pub(super) fn new(transport: Transport, limits: Limits, host: &str) -> Self {
        Self {
            transport,
            limits,
            book: Mutex::new(Book::new(host)),
            turns: PerObjectOrder::default(),
            refusals: Throttle::new(LOG_INTERVAL),
        }
    }

    /// Records an occurrence and returns the writes it causes. Call in order of occurrence.
    pub(super) fn note(&self, record: &EventRecord) -> Vec<Queued> {
        let (write, pushed_out) = self.book().note(record, Timestamp::now());
        [write, pushed_out].into_iter().flatten().map(|write| self.queue(write)).collect()
    }

    /// Writes one event.
    pub(super) async fn write(&self, Queued { write, mut turn }: Queued) {
        turn.wait().await;
        match write {
            Write::Create(event) => self.persist(&event, false).await,
            Write::Series(event) => self.persist(&event, true).await,
        }
    }

    /// Ends silent series and writes the counts of active ones, forever.
    pub(super) async fn keep(self: Arc<Self>) {
        let (mut finish, mut refresh) = (tokio::time::interval(FINISH), tokio::time::interval(REFRESH));
        loop {
            let writes = tokio::select! {
                _ = finish.tick() => self.book().finish(Timestamp::now()),
                _ = refresh.tick() => self.book().refresh(),
            };
            for write in writes {
                let queued = self.queue(write);
                self.write(queued).await;
            }
        }
    }

    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, write: Write) -> Queued {
        let (Write::Create(event) | Write::Series(event)) = &write;
        let name = event.metadata.name.as_deref().unwrap_or_default();
        let turn = self.turns.queue(&name.into());
        Queued { write, turn }
    }

    async fn persist(&self, event: &Event, series: bool) {
        for tried in 1..=TRIES_MAX {
            let answer = self.send(event, series).await;
            let message = match answer {
                Answer::Done(_) => return,
                // The series' event was deleted and created again between our two requests.
                Answer::Status { code: 409, ref reason, message, .. }
                    if series && reason == "AlreadyExists" =>
                {
                    message
                }
                Answer::Status { code, message, .. } => return self.refused(event, code, &message),
                // The write is idempotent.
                Answer::NotSent(message)
                | Answer::ConnectionRefused(message)
                | Answer::Lost(message)
                | Answer::Foreign(message) => message,
            };
            if tried < TRIES_MAX {
                tracing::debug!(%message, "unable to write event; retrying");
                tokio::time::sleep(jittered(PAUSE, 0.25)).await;
            } else if let Some(withheld) = self.refusals.admit() {
                tracing::warn!(%message, withheld, "unable to write event; dropping it");
            }
        }
    }

    async fn send(&self, event: &Event, series: bool) -> Answer {
        let (deadline, patience) = (self.limits.deadline, self.limits.patience);
        if series {
            let answer = self.transport.send(&patch(event), deadline, patience).await.answer;
            // The event may have expired.
            if !matches!(answer, Answer::Status { is_gone: true, .. }) {
                return answer;
            }
        }
        self.transport.send(&create(event), deadline, patience).await.answer
    }

    fn refused(&self, event: &Event, code: u16, message: &str) {
        let terminating = code == 403 && message.contains("is being terminated");
        if code == 404 || code == 409 || terminating {
            tracing::debug!(%message, "API server does not accept the event");
            return;
        }
        let Some(withheld) = self.refusals.admit() else { return };
        let pod =
            event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref()).unwrap_or_default();
        if code == 403 {
            tracing::error!(
                %pod, %message, withheld,
                "not permitted to write events: grant create and patch on events (events.k8s.io), as in manifests/"
            );
        } else {
            tracing::warn!(%pod, %message, withheld, "API server rejected event");
        }
    }
}

fn path(event: &Event) -> String {
    let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
    format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events")
}

fn subject(event: &Event) -> Subject {
    Subject {
        api_version: "events.k8s.io/v1",
        kind: "Event",
        resource: "events",
        namespace: event.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        name: event.metadata.name.clone().unwrap_or_default(),
        uid: None,
        success: Success::Object,
    }
}

fn create(event: &Event) -> Call {
    Call {
        method: http::Method::POST,
        path: path(event),
        query: None,
        content_type: JSON,
        body: serde_json::to_vec(event).expect("an Event is plain data").into(),
        subject: subject(event),
    }
}

fn patch(event: &Event) -> Call {
    let name = event.metadata.name.as_deref().unwrap_or_default();
    Call {
        method: http::Method::PATCH,
        path: format!("{}/{name}", path(event)),
        query: None,
        content_type: STRATEGIC_MERGE,
        body: json!({ "series": event.series }).to_string().into_bytes().into(),
        subject: subject(event),
    }
}
