//! The binding of a pod: one POST, whose answer is taken for no more than it says.
//!
//! Upstream: `pkg/scheduler/framework/plugins/defaultbinder`. Ours differs where an answer is lost: that is not a
//! refusal. It does not decide what follows.

use k8s_openapi::api::core::v1::{Binding, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use supercargo_core::effect::PodRef;
use supercargo_core::event::{BindOutcome, Found};

use super::Limits;
use super::answer::{Subject, Success};
use super::request::{Answer, Call, JSON, Outcome, Transport};

/// Binds `pod` to `node`.
pub(super) async fn bind(transport: &Transport, limits: &Limits, pod: &PodRef, node: &str) -> BindOutcome {
    let call = call(limits, pod, node);
    judge(transport.send(&call, limits.bind_deadline, limits.patience).await, node)
}

fn call(limits: &Limits, pod: &PodRef, node: &str) -> Call {
    let binding = Binding {
        metadata: ObjectMeta {
            namespace: Some(pod.namespace.clone()),
            name: Some(pod.name.clone()),
            // A pod that was made anew under this name is not the one that was decided about.
            uid: Some(pod.uid.to_string()),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    Call {
        method: http::Method::POST,
        path: format!("/api/v1/namespaces/{}/pods/{}/binding", pod.namespace, pod.name),
        // The server gives up when we do, so that a binding of unknown outcome is not carried out much later.
        query: Some(format!("timeout={}s", limits.bind_deadline.as_secs().max(1))),
        content_type: JSON,
        body: serde_json::to_vec(&binding).expect("a Binding is plain data").into(),
        subject: Subject { success: Success::Status, ..Subject::pod(&pod.namespace, &pod.name) },
    }
}

fn judge(Outcome { answer, earlier_unknown }: Outcome, node: &str) -> BindOutcome {
    match answer {
        Answer::Done(_) => BindOutcome::Accepted,
        Answer::Status { code: 409, message, .. } => match assigned_node(&message) {
            // An earlier request of ours got there, and its answer did not get back.
            Some(assigned) if assigned == node => BindOutcome::Accepted,
            // Whoever bound it: to say that it is not scheduled would be untrue.
            Some(assigned) => BindOutcome::Moot(Found::Bound(assigned.to_owned())),
            None => refused(message, earlier_unknown),
        },
        Answer::Status { is_gone: true, .. } => BindOutcome::Moot(Found::Gone),
        Answer::Status { code: 408 | 500.., message, .. }
        | Answer::Lost(message)
        | Answer::Foreign(message) => BindOutcome::Unknown { message },
        Answer::Status { message, .. } | Answer::NotSent(message) => refused(message, earlier_unknown),
    }
}

/// A refusal says nothing about an earlier try that may have been carried out.
fn refused(message: String, earlier_unknown: bool) -> BindOutcome {
    if earlier_unknown { BindOutcome::Unknown { message } } else { BindOutcome::Refused { message } }
}

/// The node named by a conflict (`pkg/registry/core/pod/storage/storage.go#assignPod`).
fn assigned_node(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once(" is already assigned to node \"")?;
    Some(rest.split_once('"')?.0)
}
