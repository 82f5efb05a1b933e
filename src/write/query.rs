//! Determines the outcome of a binding whose response was lost: one GET of the pod. The engine decides when
//! to ask again.

use bytes::Bytes;
use serde::Deserialize;
use supercargo_core::model::effect::PodRef;
use supercargo_core::model::event::BindingState;

use crate::write::Limits;
use crate::write::request::{Answer, Call, JSON, Transport};
use supercargo_apiserver::Throttle;
use supercargo_apiserver::answer::Subject;

#[derive(Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
}

/// Returns where the API server has `pod`.
pub(super) async fn query_binding(
    transport: &Transport,
    limits: &Limits,
    pod: &PodRef,
    failures: &Throttle,
) -> BindingState {
    let call = Call {
        method: http::Method::GET,
        path: format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name),
        query: None,
        content_type: JSON,
        body: Bytes::new(),
        subject: Subject::pod(&pod.namespace, &pod.name),
    };
    match transport.send(&call, limits.bind_deadline, limits.patience).await.answer {
        Answer::Done(body) => match serde_json::from_slice(&body) {
            Ok(found) => where_it_is(found, pod),
            Err(error) => unanswered(pod, &error.to_string(), failures),
        },
        Answer::Status { is_gone: true, .. } => BindingState::Gone,
        Answer::Status { message, .. }
        | Answer::NotSent(message)
        | Answer::ConnectionRefused(message)
        | Answer::Lost(message)
        | Answer::Foreign(message) => unanswered(pod, &message, failures),
    }
}

fn where_it_is(found: Pod, asked: &PodRef) -> BindingState {
    if *found.metadata.uid != *asked.uid {
        return BindingState::Gone;
    }
    match found.spec.node_name.filter(|node| !node.is_empty()) {
        Some(node) => BindingState::Bound(node),
        None => BindingState::Unbound,
    }
}

fn unanswered(pod: &PodRef, why: &str, failures: &Throttle) -> BindingState {
    if let Some(withheld) = failures.admit() {
        let pod = format_args!("{}/{}", pod.namespace, pod.name).to_string();
        tracing::warn!(
            %pod, %why, withheld,
            "cannot determine the outcome of a binding whose response was lost; keeping its resources reserved and retrying"
        );
    }
    BindingState::NoAnswer
}
