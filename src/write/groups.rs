//! Patches a PodGroup's status: the condition that says whether the group was scheduled.
//!
//! Upstream: `pkg/scheduler/util/utils.go#PatchPodGroupStatus`. Unlike upstream, the patch carries the group's uid.
//! Writes about one group are sent in order, and one that a newer write follows is dropped.

use super::Limits;
use super::per_object_order::Turn;
use super::request::{Answer, Call, STRATEGIC_MERGE, Transport};
use super::status::{FIRST_PAUSE, TRIES_MAX};
use jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use supercargo_apiserver::Throttle;
use supercargo_apiserver::answer::{Subject, Success};
use supercargo_apiserver::retry::jittered;
use supercargo_core::model::effect::GroupPatch;

/// How long `Retry-After` is obeyed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes the patch when its turn comes.
pub(super) async fn write(
    transport: &Transport,
    limits: &Limits,
    patch: &GroupPatch,
    mut turn: Turn,
    refusals: &Throttle,
) {
    turn.wait().await;
    let mut pause = FIRST_PAUSE;
    for tried in 1..=TRIES_MAX {
        if turn.is_overtaken() {
            return;
        }
        let answer = transport.send(&call(patch, Timestamp::now()), limits.deadline, PATIENCE).await.answer;
        let may_retry = match &answer {
            Answer::Done(_) => return,
            Answer::Status { code, .. } => matches!(code, 409 | 500 | 503),
            Answer::NotSent(_) | Answer::ConnectionRefused(_) | Answer::Foreign(_) => true,
            Answer::Lost(_) => false,
        };
        if tried == TRIES_MAX || !may_retry {
            return give_up(patch, answer, refusals);
        }
        tokio::time::sleep(jittered(pause, 0.1)).await;
        pause *= 5;
    }
}

fn call(patch: &GroupPatch, now: Timestamp) -> Call {
    let GroupPatch { api, namespace, name, uid, condition, is_transition } = patch;
    let mut written = json!({
        "message": &*condition.message,
        "observedGeneration": condition.observed_generation,
        "reason": &*condition.reason,
        "status": if condition.is_true { "True" } else { "False" },
        "type": api.condition_type(),
    });
    if *is_transition {
        written["lastTransitionTime"] = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
    }
    let body = json!({ "metadata": { "uid": **uid }, "status": { "conditions": [written] } });
    Call {
        method: http::Method::PATCH,
        path: format!("/apis/{}/namespaces/{namespace}/podgroups/{name}/status", api.api_version()),
        query: None,
        content_type: STRATEGIC_MERGE,
        body: body.to_string().into_bytes().into(),
        subject: Subject {
            api_version: api.api_version(),
            kind: "PodGroup",
            resource: "podgroups",
            namespace: namespace.clone(),
            name: name.clone(),
            uid: Some(Arc::clone(uid)),
            success: Success::Object,
        },
    }
}

fn give_up(patch: &GroupPatch, answer: Answer, refusals: &Throttle) {
    let group = format_args!("{}/{}", patch.namespace, patch.name).to_string();
    match answer {
        Answer::Done(_) => {}
        Answer::Status { is_gone: true, message, .. } => {
            tracing::debug!(%group, %message, "pod group was deleted before its status was written");
        }
        Answer::Status { code: 403, message, .. } => {
            if let Some(withheld) = refusals.admit() {
                tracing::error!(
                    %group, %message, withheld,
                    "not permitted to update the status of pod groups: grant patch on podgroups/status, as in manifests/"
                );
            }
        }
        Answer::Status { message, .. }
        | Answer::NotSent(message)
        | Answer::ConnectionRefused(message)
        | Answer::Lost(message)
        | Answer::Foreign(message) => {
            tracing::warn!(%group, %message, "error updating pod group");
        }
    }
}
