//! Writes what a pod's volumes need before binding: a volume's `spec.claimRef` or a claim's selected-node
//! annotation.
//!
//! Upstream (`volumebinding/binder.go#bindAPIUpdate`) replaces the whole object it has cached. Ours is a
//! merge patch with the resourceVersion: the API server refuses it for any other version, and fields we do
//! not decode survive. Sends once; the engine decides about retries.

use serde_json::{Value, json};
use supercargo_core::model::effect::{VolumeChange, VolumeWrite};
use supercargo_core::model::event::WriteOutcome;

use crate::write::Limits;
use crate::write::request::{Answer, Call, MERGE, Outcome, Transport};
use supercargo_apiserver::answer::{Subject, Success};
use supercargo_objects::api::meta::annotation;

/// Carries out one write.
pub(super) async fn write(transport: &Transport, limits: &Limits, write: &VolumeWrite) -> WriteOutcome {
    let call = call(limits, &write.change);
    judge(transport.send(&call, limits.deadline, limits.patience).await)
}

fn call(limits: &Limits, change: &VolumeChange) -> Call {
    let (path, named, body) = match change {
        VolumeChange::Bind { volume, version, claim, by_controller } => {
            let reference = json!({
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": *claim.uid,
                "resourceVersion": claim.version,
            });
            let mut body =
                json!({ "metadata": { "resourceVersion": version }, "spec": { "claimRef": reference } });
            if *by_controller {
                annotate(&mut body, annotation::BOUND_BY_CONTROLLER, "yes");
            }
            let named = ("PersistentVolume", "persistentvolumes", "", volume);
            (format!("/api/v1/persistentvolumes/{volume}"), named, body)
        }
        VolumeChange::SelectNode { namespace, name, version, node } => {
            let mut body = json!({ "metadata": { "resourceVersion": version } });
            annotate(&mut body, annotation::SELECTED_NODE, node);
            let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
            (path, ("PersistentVolumeClaim", "persistentvolumeclaims", &**namespace, name), body)
        }
    };
    let (kind, resource, namespace, name) = named;
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
            name: name.clone(),
            uid: None,
            success: Success::Object,
        },
    }
}

fn annotate(body: &mut Value, key: &str, value: &str) {
    body["metadata"]["annotations"] = json!({ key: value });
}

fn judge(Outcome { answer, earlier_unknown }: Outcome) -> WriteOutcome {
    match answer {
        Answer::Done(_) => WriteOutcome::Done,
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
    }
}
