//! Writes what a pod's ResourceClaims need before binding: devices and reservations, and the claim for extended
//! resources.
//!
//! Upstream (`dynamicresources/dynamicresources.go#bindClaim`) replaces the whole claim. Ours are strategic merge
//! patches with uid and resourceVersion, so fields that we do not decode survive. As upstream, a conflict while a
//! claim gets its devices leads to another try with the current claim; all other retries are the engine's. A
//! conflict while an allocated claim is shared is refused, since its devices may be others by now.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use supercargo_core::model::device::Allocation;
use supercargo_core::model::effect::{ClaimName, PodRef};
use supercargo_core::model::event::WriteOutcome;
use supercargo_core::model::time::Time;

use crate::telemetry::metrics::Metrics;
use crate::write::Limits;
use crate::write::request::{Answer, Call, JSON, MERGE, Outcome, STRATEGIC_MERGE, Transport};
use crate::write::volumes::judge;
use supercargo_apiserver::answer::{Subject, Success};
use supercargo_apiserver::retry::jittered;
use supercargo_objects::api::meta::{PROTECTION, annotation};
use supercargo_objects::convert::ApiAllocation;

/// The number of tries on conflicts (`client-go/util/retry/util.go#DefaultRetry`).
const TRIES_MAX: u32 = 5;
/// The pause between them.
const PAUSE: Duration = Duration::from_millis(10);

/// A writer for one pod.
#[derive(Clone, Copy)]
pub(super) struct Writer<'a> {
    pub(super) transport: &'a Transport,
    pub(super) limits: &'a Limits,
    pub(super) metrics: &'a Metrics,
    pub(super) pod: &'a PodRef,
}

/// A new claim for a pod's extended resources.
#[derive(Clone, Copy)]
pub(super) struct NewClaim<'a> {
    pub(super) namespace: &'a str,
    /// Name, class and number of devices.
    pub(super) requests: &'a [(String, String, i64)],
    pub(super) allocation: &'a Allocation,
    /// Container, resource and request.
    pub(super) mappings: &'a [(String, String, String)],
}

/// Why a step failed.
enum Failed {
    /// The claim has another version.
    Conflict(String),
    Other(WriteOutcome),
}

impl Failed {
    fn outcome(self) -> WriteOutcome {
        match self {
            Self::Conflict(message) => WriteOutcome::Refused { message },
            Self::Other(outcome) => outcome,
        }
    }
}

/// What is read of a claim in an answer.
#[derive(Deserialize)]
struct Answered {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    uid: String,
    #[serde(default)]
    resource_version: String,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    finalizers: Vec<String>,
}

#[derive(Default, Deserialize)]
struct Status {
    allocation: Option<serde::de::IgnoredAny>,
}

impl Writer<'_> {
    /// Reserves a claim for the pod, and gives the claim its devices if they are new.
    pub(super) async fn reserve(
        self,
        claim: &ClaimName,
        mut add_finalizer: bool,
        allocation: Option<&Allocation>,
        stamps: bool,
    ) -> WriteOutcome {
        let mut claim = claim.clone();
        for tried in 1.. {
            match self.try_to_reserve(&mut claim, add_finalizer, allocation, stamps).await {
                Ok(()) => return WriteOutcome::Done,
                Err(Failed::Conflict(_)) if tried < TRIES_MAX && allocation.is_some() => {}
                Err(failed) => return failed.outcome(),
            }
            tokio::time::sleep(jittered(PAUSE, 0.1)).await;
            match self.refresh(&mut claim).await {
                Ok(is_protected) => add_finalizer = !is_protected,
                Err(outcome) => return outcome,
            }
        }
        unreachable!("the loop counts to its limit")
    }

    async fn try_to_reserve(
        self,
        claim: &mut ClaimName,
        add_finalizer: bool,
        allocation: Option<&Allocation>,
        stamps: bool,
    ) -> Result<(), Failed> {
        let name = format!("{}/{}", claim.namespace, claim.name);
        if add_finalizer {
            let metadata =
                json!({"uid": *claim.uid, "resourceVersion": claim.version, "finalizers": [PROTECTION]});
            let call = self.patch(claim, "", STRATEGIC_MERGE, json!({ "metadata": metadata }).to_string());
            let answer = self.send(&call, &format!("add finalizer to claim {name}")).await?;
            claim.version = answer.metadata.resource_version;
        }
        let what = if allocation.is_some() { "add allocation and reservation" } else { "add reservation" };
        let call = self.patch(claim, "/status", STRATEGIC_MERGE, self.reservation(claim, allocation, stamps));
        self.send(&call, &format!("{what} to claim {name}")).await.map(drop)
    }

    /// Returns the patch of the claim's status. With `stamps`, it sets a missing `allocationTimestamp`.
    fn reservation(self, claim: &ClaimName, allocation: Option<&Allocation>, stamps: bool) -> String {
        #[derive(Serialize)]
        struct Patch<'a> {
            metadata: Value,
            status: Status<'a>,
        }

        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Status<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            allocation: Option<Devices<'a>>,
            reserved_for: Value,
        }

        #[derive(Serialize)]
        #[serde(untagged)]
        enum Devices<'a> {
            New(ApiAllocation<'a>),
            Stamp {
                #[serde(rename = "allocationTimestamp")]
                at: String,
            },
        }

        let now = Timestamp::now().as_second();
        let at = Time::from_secs(u64::try_from(now).unwrap_or(0));
        let stamp = || Devices::Stamp { at: Timestamp::from_second(now).unwrap_or_default().to_string() };
        let patch = Patch {
            metadata: json!({"uid": *claim.uid, "resourceVersion": claim.version}),
            status: Status {
                allocation: match allocation {
                    Some(allocation) => Some(Devices::New(ApiAllocation {
                        allocation,
                        allocated_at: allocation.allocated_at.or(stamps.then_some(at)),
                    })),
                    None => stamps.then(stamp),
                },
                reserved_for: json!([{"resource": "pods", "name": self.pod.name, "uid": *self.pod.uid}]),
            },
        };
        serde_json::to_string(&patch).expect("texts, numbers and valid JSON can be written")
    }

    /// Reads the claim after a conflict, and returns whether it has the finalizer.
    async fn refresh(self, claim: &mut ClaimName) -> Result<bool, WriteOutcome> {
        let name = format!("{}/{}", claim.namespace, claim.name);
        let refused =
            |why: &str| WriteOutcome::Refused { message: format!("claim {name} got {why} in the meantime") };
        let call = Call {
            method: http::Method::GET,
            body: Bytes::new(),
            ..self.patch(claim, "", JSON, String::new())
        };
        let read = self.send(&call, &format!("get updated claim {name} after conflict")).await;
        // A read changes nothing, so a lost answer leaves no unknown outcome.
        let read = read.map_err(|failed| match failed.outcome() {
            WriteOutcome::Unknown { message } => WriteOutcome::Refused { message },
            outcome => outcome,
        })?;
        if read.metadata.deletion_timestamp.is_some() || *read.metadata.uid != *claim.uid {
            return Err(refused("deleted"));
        }
        if read.status.allocation.is_some() {
            return Err(refused("allocated elsewhere"));
        }
        claim.version = read.metadata.resource_version;
        Ok(read.metadata.finalizers.iter().any(|finalizer| finalizer == PROTECTION))
    }

    /// Makes a claim for the pod's extended resources, names it in the pod's status, and gives it its devices.
    ///
    /// The devices come last, unlike upstream, so that a claim which the watch shows with devices is complete. If a
    /// step fails and nothing depends on the claim, it is deleted again.
    pub(super) async fn create(self, new: NewClaim<'_>) -> WriteOutcome {
        let post = format!("create claim for extended resources {}/<extended-resources>", new.namespace);
        let made = self.send(&self.post(new), &post).await;
        self.metrics.resource_claim_created(made.is_ok());
        let made = match made {
            Ok(Answered { metadata, .. }) => ClaimName {
                namespace: new.namespace.to_owned(),
                name: metadata.name,
                uid: metadata.uid.into(),
                version: metadata.resource_version,
            },
            Err(failed) => return failed.outcome(),
        };
        let call = self.naming(&made, new);
        let named = self.transport.send(&call, self.limits.deadline, self.limits.patience).await;
        if let Err(WriteOutcome::Refused { message } | WriteOutcome::Unknown { message }) = judge(named) {
            let (namespace, name) = (&self.pod.namespace, &self.pod.name);
            self.withdraw(&made).await;
            let message = format!("update pod {namespace}/{name} ExtendedResourceClaimStatus: {message}");
            return WriteOutcome::Refused { message };
        }
        let outcome = self.reserve(&made, false, Some(new.allocation), true).await;
        // If the outcome is unknown, the watch will show it; the pod may be bound with this claim.
        if matches!(outcome, WriteOutcome::Refused { .. }) {
            self.withdraw(&made).await;
        }
        outcome
    }

    fn post(self, new: NewClaim<'_>) -> Call {
        let requests = new.requests.iter().map(|(name, class, count)| {
            let exactly = json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
            json!({"name": name, "exactly": exactly})
        });
        let owner = json!({
            "apiVersion": "v1", "kind": "Pod", "name": self.pod.name, "uid": *self.pod.uid, "controller": true,
        });
        let prefix = format!("{}-extended-resources-", self.pod.name);
        let body = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "generateName": prefix,
                "namespace": new.namespace,
                "annotations": {annotation::EXTENDED_RESOURCE_CLAIM: "true"},
                "ownerReferences": [owner],
                "finalizers": [PROTECTION],
            },
            "spec": {"devices": {"requests": requests.collect::<Value>()}},
        });
        Call {
            method: http::Method::POST,
            path: format!("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims", new.namespace),
            query: Some(self.timeout()),
            content_type: JSON,
            body: body.to_string().into_bytes().into(),
            subject: Subject { success: Success::Generated, ..subject(new.namespace, &prefix) },
        }
    }

    /// Returns the patch of the pod's status that names the claim.
    fn naming(self, made: &ClaimName, new: NewClaim<'_>) -> Call {
        let mappings = new.mappings.iter().map(|(container, resource, request)| {
            json!({"containerName": container, "resourceName": resource, "requestName": request})
        });
        let status = json!({"resourceClaimName": made.name, "requestMappings": mappings.collect::<Value>()});
        let body = json!({
            "metadata": {"uid": *self.pod.uid},
            "status": {"extendedResourceClaimStatus": status},
        });
        let PodRef { namespace, name, uid } = self.pod;
        Call {
            method: http::Method::PATCH,
            path: format!("/api/v1/namespaces/{namespace}/pods/{name}/status"),
            query: Some(self.timeout()),
            content_type: STRATEGIC_MERGE,
            body: body.to_string().into_bytes().into(),
            subject: Subject { uid: Some(uid.clone()), ..Subject::pod(namespace, name) },
        }
    }

    /// Removes the pod from `status.reservedFor`.
    pub(super) async fn unreserve(self, claim: &ClaimName) -> WriteOutcome {
        let removed = json!([{"$patch": "delete", "uid": *self.pod.uid}]);
        let body = json!({"metadata": {"uid": *claim.uid}, "status": {"reservedFor": removed}});
        let call = self.patch(claim, "/status", STRATEGIC_MERGE, body.to_string());
        self.carried_out(&call, &format!("remove reservation from claim {}/{}", claim.namespace, claim.name))
            .await
    }

    /// Clears the claim's status.
    pub(super) async fn deallocate(self, claim: &ClaimName) -> WriteOutcome {
        let metadata = json!({"uid": *claim.uid, "resourceVersion": claim.version});
        let body = json!({"metadata": metadata, "status": {"allocation": null, "reservedFor": null}});
        let call = self.patch(claim, "/status", MERGE, body.to_string());
        self.carried_out(&call, &format!("deallocate claim {}/{}", claim.namespace, claim.name)).await
    }

    /// Deletes a claim for extended resources.
    pub(super) async fn delete(self, claim: &ClaimName) -> WriteOutcome {
        let name = format!("{}/{}", claim.namespace, claim.name);
        let metadata = json!({"uid": *claim.uid, "$deleteFromPrimitiveList/finalizers": [PROTECTION]});
        let body = json!({ "metadata": metadata });
        let unprotect = self.patch(claim, "", STRATEGIC_MERGE, body.to_string());
        let unprotected = self.carried_out(&unprotect, &format!("remove finalizer from claim {name}")).await;
        if unprotected != WriteOutcome::Done {
            return unprotected;
        }
        let options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": *claim.uid}});
        let mut delete = self.patch(claim, "", JSON, options.to_string());
        delete.method = http::Method::DELETE;
        delete.subject.success = Success::ObjectOrStatus;
        self.carried_out(&delete, &format!("delete claim {name}")).await
    }

    /// Deletes a claim that the pod does not use. If this fails, the next decision finds the claim, and deletes it.
    async fn withdraw(self, made: &ClaimName) {
        let outcome = self.delete(made).await;
        if let WriteOutcome::Refused { message } | WriteOutcome::Unknown { message } = outcome {
            tracing::warn!(
                namespace = made.namespace,
                name = made.name,
                error = message,
                "failed to delete a ResourceClaim for extended resources"
            );
        }
    }

    /// Returns a request about a claim. It is a patch, unless the caller replaces the method.
    fn patch(self, claim: &ClaimName, subresource: &str, content_type: &'static str, body: String) -> Call {
        let ClaimName { namespace, name, .. } = claim;
        Call {
            method: http::Method::PATCH,
            path: format!(
                "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}{subresource}"
            ),
            query: Some(self.timeout()),
            content_type,
            body: body.into_bytes().into(),
            subject: subject(namespace, name),
        }
    }

    /// Asks the server to give up when we do.
    fn timeout(self) -> String {
        format!("timeout={}s", self.limits.deadline.as_secs().max(1))
    }

    /// Sends a request whose answer is not read. `what` begins error messages.
    async fn carried_out(self, call: &Call, what: &str) -> WriteOutcome {
        let outcome = self.transport.send(call, self.limits.deadline, self.limits.patience).await;
        judge(outcome).map_or_else(|failed| worded(failed, what), |_| WriteOutcome::Done)
    }

    /// Sends a request and reads the claim in the answer. `what` begins error messages.
    async fn send(self, call: &Call, what: &str) -> Result<Answered, Failed> {
        let outcome = self.transport.send(call, self.limits.deadline, self.limits.patience).await;
        let is_conflict = matches!(
            &outcome,
            Outcome { answer: Answer::Status { code: 409, reason, .. }, earlier_unknown: false } if reason == "Conflict"
        );
        let body = judge(outcome).map_err(|outcome| match outcome {
            WriteOutcome::Done => Failed::Other(outcome),
            WriteOutcome::Refused { message } if is_conflict => {
                Failed::Conflict(format!("{what}: {message}"))
            }
            WriteOutcome::Refused { message } => {
                Failed::Other(WriteOutcome::Refused { message: format!("{what}: {message}") })
            }
            WriteOutcome::Unknown { message } => {
                Failed::Other(WriteOutcome::Unknown { message: format!("{what}: {message}") })
            }
        })?;
        serde_json::from_slice(&body).map_err(|error| {
            Failed::Other(WriteOutcome::Unknown { message: format!("{what}: invalid answer: {error}") })
        })
    }
}

/// Begins the message of a failure with what failed.
fn worded(outcome: WriteOutcome, what: &str) -> WriteOutcome {
    match outcome {
        WriteOutcome::Done => WriteOutcome::Done,
        WriteOutcome::Refused { message } => WriteOutcome::Refused { message: format!("{what}: {message}") },
        WriteOutcome::Unknown { message } => WriteOutcome::Unknown { message: format!("{what}: {message}") },
    }
}

fn subject(namespace: &str, name: &str) -> Subject {
    Subject {
        api_version: "resource.k8s.io/v1",
        kind: "ResourceClaim",
        resource: "resourceclaims",
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: None,
        success: Success::Object,
    }
}
