//! Binds a pod: one POST to its `binding` subresource.
//!
//! Upstream: `pkg/scheduler/framework/plugins/defaultbinder`. Unlike upstream, a lost response is an unknown
//! outcome and not a failure. The engine decides what follows.

use k8s_openapi::api::core::v1::{Binding, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use supercargo_core::model::effect::PodRef;
use supercargo_core::model::event::{BindOutcome, BindingState};

use crate::write::Limits;
use crate::write::request::{Answer, Call, JSON, Outcome, Transport};
use crate::write::status::{FIRST_PAUSE, TRIES_MAX};
use supercargo_apiserver::answer::{Subject, Success};
use supercargo_apiserver::retry::jittered;

/// Binds `pod` to `node`.
pub(super) async fn bind(transport: &Transport, limits: &Limits, pod: &PodRef, node: &str) -> BindOutcome {
    let call = call(limits, pod, node);
    let (mut pause, mut earlier_unknown) = (FIRST_PAUSE, false);
    for tried in 1.. {
        let mut outcome = transport.send(&call, limits.bind_deadline, limits.patience).await;
        outcome.earlier_unknown |= earlier_unknown;
        // It was not sent, so it can be sent again. After any other failure the engine decides.
        if tried == TRIES_MAX || !matches!(outcome.answer, Answer::ConnectionRefused(_)) {
            return judge(outcome, node);
        }
        earlier_unknown = outcome.earlier_unknown;
        tokio::time::sleep(jittered(pause, 0.1)).await;
        pause *= 5;
    }
    unreachable!("the loop counts to its limit")
}

fn call(limits: &Limits, pod: &PodRef, node: &str) -> Call {
    let binding = Binding {
        metadata: ObjectMeta {
            namespace: Some(pod.namespace.clone()),
            name: Some(pod.name.clone()),
            // The uid prevents the Binding from applying to a new pod of the same name.
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
        // Ask the server to give up when we do, so that a binding of unknown outcome does not take effect
        // much later.
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
            // An earlier request of ours succeeded, and its response was lost.
            Some(assigned) if assigned == node => BindOutcome::Accepted,
            // Another client bound the pod, so it must not be reported as unschedulable.
            Some(assigned) => BindOutcome::NotNeeded(BindingState::Bound(assigned.to_owned())),
            None => refused(message, earlier_unknown),
        },
        Answer::Status { is_gone: true, .. } => BindOutcome::NotNeeded(BindingState::Gone),
        Answer::Status { code: 408 | 500.., message, .. }
        | Answer::Lost(message)
        | Answer::Foreign(message) => BindOutcome::Unknown { message },
        Answer::Status { message, .. } | Answer::NotSent(message) | Answer::ConnectionRefused(message) => {
            refused(message, earlier_unknown)
        }
    }
}

/// Turns a refusal into an unknown outcome if an earlier try may have been carried out.
fn refused(message: String, earlier_unknown: bool) -> BindOutcome {
    if earlier_unknown { BindOutcome::Unknown { message } } else { BindOutcome::Refused { message } }
}

/// Returns the node that a conflict names (`pkg/registry/core/pod/storage/storage.go#assignPod`).
fn assigned_node(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once(" is already assigned to node \"")?;
    Some(rest.split_once('"')?.0)
}
