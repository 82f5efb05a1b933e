//! Writes what a pod's volumes need before binding: a volume's `spec.claimRef` or a claim's selected-node
//! annotation. Writes of ResourceClaims are in `claims`.
//!
//! Upstream (`volumebinding/binder.go#bindAPIUpdate`) replaces the whole object it has cached. Ours is a
//! merge patch with the resourceVersion: the API server refuses it for any other version, and fields we do
//! not decode survive. Sends once; the engine decides about retries.

use bytes::Bytes;
use serde_json::{Value, json};
use supercargo_core::model::effect::{ClaimName, VolumeChange, VolumeWrite};
use supercargo_core::model::event::WriteOutcome;

use crate::telemetry::metrics::Metrics;
use crate::write::Limits;
use crate::write::claims::{NewClaim, Writer};
use crate::write::request::{Answer, Call, MERGE, Outcome, Transport};
use supercargo_apiserver::answer::{Subject, Success};
use supercargo_objects::api::meta::annotation;

/// Carries out one write.
pub(super) async fn write(
    transport: &Transport,
    limits: &Limits,
    metrics: &Metrics,
    write: &VolumeWrite,
) -> WriteOutcome {
    let claims = Writer { transport, limits, metrics, pod: &write.pod };
    let call = match &write.change {
        VolumeChange::Bind { volume, version, claim, by_controller } => {
            bind(limits, volume, version, claim, *by_controller)
        }
        VolumeChange::SelectNode { namespace, name, version, node } => {
            select_node(limits, [namespace, name], version, node)
        }
        VolumeChange::Reserve { claim, add_finalizer, allocation, stamps } => {
            return claims.reserve(claim, *add_finalizer, allocation.as_deref(), *stamps).await;
        }
        VolumeChange::Create { namespace, requests, allocation, mappings } => {
            return claims.create(NewClaim { namespace, requests, allocation, mappings }).await;
        }
        VolumeChange::Unreserve { claim } => return claims.unreserve(claim).await,
        VolumeChange::Deallocate { claim } => return claims.deallocate(claim).await,
        VolumeChange::Delete { claim } => return claims.delete(claim).await,
    };
    match judge(transport.send(&call, limits.deadline, limits.patience).await) {
        Ok(_) => WriteOutcome::Done,
        Err(outcome) => outcome,
    }
}

/// Returns the patch that sets a volume's `spec.claimRef`.
fn bind(limits: &Limits, volume: &str, version: &str, claim: &ClaimName, by_controller: bool) -> Call {
    let reference = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": *claim.uid,
        "resourceVersion": claim.version,
    });
    let mut body = json!({ "metadata": { "resourceVersion": version }, "spec": { "claimRef": reference } });
    if by_controller {
        annotate(&mut body, annotation::BOUND_BY_CONTROLLER, "yes");
    }
    let path = format!("/api/v1/persistentvolumes/{volume}");
    patch(limits, path, ["PersistentVolume", "persistentvolumes"], ["", volume], &body)
}

/// Returns the patch that sets a claim's selected-node annotation.
fn select_node(limits: &Limits, [namespace, name]: [&str; 2], version: &str, node: &str) -> Call {
    let mut body = json!({ "metadata": { "resourceVersion": version } });
    annotate(&mut body, annotation::SELECTED_NODE, node);
    let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
    patch(limits, path, ["PersistentVolumeClaim", "persistentvolumeclaims"], [namespace, name], &body)
}

fn patch(
    limits: &Limits,
    path: String,
    [kind, resource]: [&'static str; 2],
    [namespace, name]: [&str; 2],
    body: &Value,
) -> Call {
    Call {
        method: http::Method::PATCH,
        path,
        // Ask the server to give up when we do.
        query: Some(format!("timeout={}s", limits.deadline.as_secs().max(1))),
        content_type: MERGE,
        body: body.to_string().into_bytes().into(),
        subject: Subject {
            api_version: "v1",
            kind,
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: None,
            success: Success::Object,
        },
    }
}

fn annotate(body: &mut Value, key: &str, value: &str) {
    body["metadata"]["annotations"] = json!({ key: value });
}

/// Returns the answer's body, or why the write failed.
///
/// # Errors
/// The outcome, which is never [`WriteOutcome::Done`].
pub(super) fn judge(Outcome { answer, earlier_unknown }: Outcome) -> Result<Bytes, WriteOutcome> {
    Err(match answer {
        Answer::Done(body) => return Ok(body),
        Answer::Status { code: 408 | 500.., message, .. }
        | Answer::Lost(message)
        | Answer::Foreign(message) => WriteOutcome::Unknown { message },
        // An earlier try may have been carried out.
        Answer::Status { message, .. } | Answer::NotSent(message) | Answer::ConnectionRefused(message)
            if earlier_unknown =>
        {
            WriteOutcome::Unknown { message }
        }
        Answer::Status { message, .. } | Answer::NotSent(message) | Answer::ConnectionRefused(message) => {
            WriteOutcome::Refused { message }
        }
    })
}
