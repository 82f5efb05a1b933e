//! The Lease object: read, made, and written over in the version that was read. Upstream:
//! `client-go/tools/leaderelection/resourcelock/leaselock.go`. It does not know what a lease is good for.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Method, Request};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::core::Status;
use serde::Serialize;

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
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// No answer came, or none that makes sense.
    #[error("no answer from the API server: {0}")]
    Lost(String),
}

impl Trouble {
    /// Whether a right is missing.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 403)
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
            Err(Trouble::Refused(status)) if status.code == 404 => Ok(None),
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
        self.ask(Method::POST, None, Some(&Lease { metadata, spec: Some(spec) })).await
    }

    /// Writes over it; refused where it is of another version than `lease`.
    pub(super) async fn update(&self, lease: &Lease) -> Result<Lease, Trouble> {
        self.ask(Method::PUT, Some(&self.name), Some(lease)).await
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
        if let Err(error) = self.send::<Event>(Method::POST, &path, Some(&event)).await {
            tracing::debug!(%error, "an event about the lease could not be written");
        }
    }

    async fn ask(&self, method: Method, name: Option<&str>, body: Option<&Lease>) -> Result<Lease, Trouble> {
        let name = name.map(|name| format!("/{name}")).unwrap_or_default();
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases{name}", self.namespace);
        self.send(method, &path, body).await
    }

    async fn send<K: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> Result<K, Trouble> {
        let body = body.map(|body| serde_json::to_vec(body).expect("an object is plain data"));
        // The server gives up when we do.
        let uri = format!("{path}?timeout={}ms", self.timeout.as_millis().max(1));
        let request = Request::builder().method(method).uri(uri).header(CONTENT_TYPE, "application/json");
        let request =
            request.body(body.unwrap_or_default()).map_err(|error| Trouble::Lost(error.to_string()))?;
        match tokio::time::timeout(self.timeout, self.client.request::<K>(request)).await {
            Ok(Ok(object)) => Ok(object),
            Ok(Err(kube::Error::Api(status))) => Err(Trouble::Refused(status)),
            Ok(Err(error)) => Err(Trouble::Lost(error.to_string())),
            Err(_) => Err(Trouble::Lost(format!("nothing came within {:?}", self.timeout))),
        }
    }
}
