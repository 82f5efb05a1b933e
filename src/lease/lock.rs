//! API access to the Lease object: read, create, and update with optimistic locking.
//!
//! Upstream: `client-go/tools/leaderelection/resourcelock/leaselock.go`. The election itself is in
//! [`super::Elector`].

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request};
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::client::Body;
use serde::Serialize;

use supercargo_apiserver::answer::{Classification, Failure, Subject, Success};
use supercargo_apiserver::client::user_agent;
use supercargo_apiserver::retry::retry_after;

/// Largest response accepted, in bytes. Well above any real Lease or Event.
const ANSWER_MAX: usize = 1 << 20;

/// The lease to contend for, and our identity in it.
#[derive(Clone)]
pub struct Lock {
    /// The client; its own retries must be disabled.
    pub client: kube::Client,
    /// The lease's namespace.
    pub namespace: String,
    /// The lease's name.
    pub name: String,
    /// Our holder identity: `<host>_<uuid>`.
    pub identity: String,
    /// Reporting controller of the lease's events: the first profile's name, as upstream.
    pub component: String,
    /// Time limit of one request.
    pub timeout: Duration,
}

/// Why a request about the lease failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    /// The API server refused it.
    #[error("{message}")]
    Refused { code: u16, is_gone: bool, message: String },
    /// The API server, or a proxy in front of it, asked for a pause with `Retry-After`.
    #[error("the API server answered with status {code} and asked to wait {after:?}")]
    Later { code: u16, after: Duration },
    /// No response came, or it was not the API server's response about the lease.
    #[error("no answer from the API server: {0}")]
    Lost(String),
}

impl LockError {
    /// Whether RBAC denied the request.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: 403, .. })
    }
}

impl Lock {
    /// The lease as `namespace/name`.
    pub(super) fn describe(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Reads the lease; `None` if it does not exist.
    pub(super) async fn get(&self) -> Result<Option<Lease>, LockError> {
        match self.ask(Method::GET, Some(&self.name), None).await {
            Err(LockError::Refused { is_gone: true, .. }) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Creates the lease.
    pub(super) async fn create(&self, spec: LeaseSpec) -> Result<Lease, LockError> {
        let metadata = ObjectMeta {
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            ..ObjectMeta::default()
        };
        self.write(Method::POST, None, &Lease { metadata, spec: Some(spec) }).await
    }

    /// Updates the lease; the API server answers 409 if its version differs from `lease`'s.
    pub(super) async fn update(&self, lease: &Lease) -> Result<Lease, LockError> {
        self.write(Method::PUT, Some(&self.name), lease).await
    }

    /// Writes an event about our leadership. Best effort, like every event.
    pub(super) async fn record_event(&self, lease: Lease, what: &str) {
        let now = Timestamp::now();
        let event = Event {
            metadata: ObjectMeta {
                namespace: Some(self.namespace.clone()),
                name: Some(format!("{}.{:x}", self.name, now.as_nanosecond())),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(self.component.clone()),
            reporting_instance: Some(self.identity.clone()),
            action: Some("LeaderElection".to_owned()),
            reason: Some("LeaderElection".to_owned()),
            type_: Some("Normal".to_owned()),
            note: Some(format!("{} {what}", self.identity)),
            regarding: Some(ObjectReference {
                api_version: Some("coordination.k8s.io/v1".to_owned()),
                kind: Some("Lease".to_owned()),
                namespace: Some(self.namespace.clone()),
                name: Some(self.name.clone()),
                uid: lease.metadata.uid,
                resource_version: lease.metadata.resource_version,
                ..ObjectReference::default()
            }),
            ..Event::default()
        };
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.namespace);
        let name = event.metadata.name.clone().unwrap_or_default();
        let subject = self.subject(("events.k8s.io/v1", "Event", "events"), name);
        if let Err(error) = self.send::<Event>(Method::POST, &path, Some(&event), &subject).await {
            tracing::debug!(%error, "failed to write an event about the lease");
        }
    }

    /// Writes the lease, and checks that the returned holder is the one written.
    async fn write(&self, method: Method, name: Option<&str>, lease: &Lease) -> Result<Lease, LockError> {
        let holder = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
        let written = self.ask(method, name, Some(lease)).await?;
        if holder(&written) != holder(lease) {
            return Err(LockError::Lost(
                "the response names a different holder than the one written".to_owned(),
            ));
        }
        Ok(written)
    }

    async fn ask(
        &self,
        method: Method,
        name: Option<&str>,
        body: Option<&Lease>,
    ) -> Result<Lease, LockError> {
        let name = name.map(|name| format!("/{name}")).unwrap_or_default();
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases{name}", self.namespace);
        let subject = self.subject(("coordination.k8s.io/v1", "Lease", "leases"), self.name.clone());
        self.send(method, &path, body, &subject).await
    }

    fn subject(
        &self,
        (api_version, kind, resource): (&'static str, &'static str, &'static str),
        name: String,
    ) -> Subject {
        let namespace = self.namespace.clone();
        Subject { api_version, kind, resource, namespace, name, uid: None, success: Success::Object }
    }

    async fn send<K: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
        subject: &Subject,
    ) -> Result<K, LockError> {
        let body = body.map(|body| serde_json::to_vec(body).expect("an object is plain data"));
        // Ask the server to give up when we do.
        let uri = format!("{path}?timeout={}ms", self.timeout.as_millis().max(1));
        let json = "application/json";
        let request = Request::builder().method(method).uri(uri).header(ACCEPT, json);
        let request = request.header(CONTENT_TYPE, json).header(USER_AGENT, user_agent("leader-election"));
        let request = request.body(Body::from(body.unwrap_or_default())).map_err(lost)?;
        let exchange = async {
            let response = self.client.send(request).await.map_err(lost)?;
            let (status, later) = (response.status(), retry_after(&response));
            let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await.map_err(lost)?;
            Ok((status, later, body.to_bytes()))
        };
        let (status, later, body) = tokio::time::timeout(self.timeout, exchange)
            .await
            .map_err(|_| LockError::Lost(format!("no response within {:?}", self.timeout)))??;
        if let Some(after) = later {
            return Err(LockError::Later { code: status.as_u16(), after });
        }
        match subject.judge(status, &body) {
            Classification::Done => serde_json::from_slice(&body).map_err(lost),
            Classification::Failed(Failure { is_gone, message, reason }) => {
                let message = if message.is_empty() { reason } else { message };
                Err(LockError::Refused { code: status.as_u16(), is_gone, message })
            }
            Classification::Foreign(why) => Err(LockError::Lost(format!(
                "response with status {} is not from the API server: {why}",
                status.as_u16()
            ))),
        }
    }
}

fn lost(error: impl std::fmt::Display) -> LockError {
    LockError::Lost(error.to_string())
}
