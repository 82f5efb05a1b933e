//! The Lease object: read, made, and written over in the version that was read. Upstream:
//! `client-go/tools/leaderelection/resourcelock/leaselock.go`. It does not know what a lease is good for.

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::client::Body;
use serde::Serialize;

use crate::dispatch::answer::{Failure, Subject, Success, Verdict};

/// Above what a Lease or an Event can be; what is longer is neither.
const ANSWER_MAX: usize = 1 << 20;

/// Whose lease, and where it is.
#[derive(Clone)]
pub struct Lock {
    /// The client; its own retries must be off.
    pub client: kube::Client,
    /// The lease's namespace.
    pub namespace: String,
    /// The lease's name.
    pub name: String,
    /// Who we are in it: `<host>_<uuid>`.
    pub identity: String,
    /// The reporting controller of events about it: the first profile's name, as upstream has it.
    pub component: String,
    /// How long a request may take.
    pub timeout: Duration,
}

/// Why a request about the lease came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// The API server refused it.
    #[error("{message}")]
    Refused { code: u16, is_gone: bool, message: String },
    /// No answer came, or none of the API server's about the lease.
    #[error("no answer from the API server: {0}")]
    Lost(String),
}

impl Trouble {
    /// Whether a right is missing.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: 403, .. })
    }
}

impl Lock {
    /// The lease in words: `namespace/name`.
    pub(super) fn describe(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The lease, if there is one.
    pub(super) async fn get(&self) -> Result<Option<Lease>, Trouble> {
        match self.ask(Method::GET, Some(&self.name), None).await {
            Err(Trouble::Refused { is_gone: true, .. }) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Makes it.
    pub(super) async fn create(&self, spec: LeaseSpec) -> Result<Lease, Trouble> {
        let metadata = ObjectMeta {
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            ..ObjectMeta::default()
        };
        self.write(Method::POST, None, &Lease { metadata, spec: Some(spec) }).await
    }

    /// Writes over it; refused where it is of another version than `lease`.
    pub(super) async fn update(&self, lease: &Lease) -> Result<Lease, Trouble> {
        self.write(Method::PUT, Some(&self.name), lease).await
    }

    /// Says in an event about the lease what became of us. As with every event, nobody depends on it.
    pub(super) async fn tell(&self, lease: Lease, what: &str) {
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
            tracing::debug!(%error, "an event about the lease could not be written");
        }
    }

    /// Writes the lease. What comes back has to be what was written.
    async fn write(&self, method: Method, name: Option<&str>, lease: &Lease) -> Result<Lease, Trouble> {
        let holder = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
        let written = self.ask(method, name, Some(lease)).await?;
        if holder(&written) != holder(lease) {
            return Err(Trouble::Lost("the answer names another holder than was written".to_owned()));
        }
        Ok(written)
    }

    async fn ask(&self, method: Method, name: Option<&str>, body: Option<&Lease>) -> Result<Lease, Trouble> {
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
    ) -> Result<K, Trouble> {
        let body = body.map(|body| serde_json::to_vec(body).expect("an object is plain data"));
        // The server gives up when we do.
        let uri = format!("{path}?timeout={}ms", self.timeout.as_millis().max(1));
        let json = "application/json";
        let request =
            Request::builder().method(method).uri(uri).header(ACCEPT, json).header(CONTENT_TYPE, json);
        let request = request.body(Body::from(body.unwrap_or_default())).map_err(lost)?;
        let exchange = async {
            let response = self.client.send(request).await.map_err(lost)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await.map_err(lost)?;
            Ok((status, body.to_bytes()))
        };
        let (status, body) = tokio::time::timeout(self.timeout, exchange)
            .await
            .map_err(|_| Trouble::Lost(format!("nothing came within {:?}", self.timeout)))??;
        match subject.judge(status, &body) {
            Verdict::Done => serde_json::from_slice(&body).map_err(lost),
            Verdict::Failed(Failure { is_gone, message, reason }) => {
                let message = if message.is_empty() { reason } else { message };
                Err(Trouble::Refused { code: status.as_u16(), is_gone, message })
            }
            Verdict::Foreign(why) => {
                Err(Trouble::Lost(format!("the answer of status {} is not its own: {why}", status.as_u16())))
            }
        }
    }
}

fn lost(error: impl std::fmt::Display) -> Trouble {
    Trouble::Lost(error.to_string())
}
