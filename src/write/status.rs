//! Patches a pod's status: the PodScheduled=False condition and `nominatedNodeName`.
//!
//! Upstream: `pkg/scheduler/util/utils.go#PatchPodStatus`. Unlike upstream, the patch carries the pod's uid,
//! so it never applies to a new pod of the same name. It is dropped when a newer write about the pod is
//! queued.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use supercargo_core::model::effect::{Nomination, StatusPatch, Unscheduled};

use crate::write::Limits;
use crate::write::merged_patches::Place;
use crate::write::request::{Answer, Call, STRATEGIC_MERGE, Transport};
use supercargo_apiserver::Throttle;
use supercargo_apiserver::answer::Subject;
use supercargo_apiserver::retry::jittered;

/// Upstream's maximum number of tries.
pub(super) const TRIES_MAX: u32 = 4;
/// Upstream's first pause between tries; each further pause is five times the previous one.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// How long `Retry-After` is obeyed. Short, since the pod's binding may be queued behind the patch.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes the patch of `place` when its turn comes.
pub(super) async fn write(transport: &Transport, limits: &Limits, mut place: Place, refusals: &Throttle) {
    place.turn.wait().await;
    let mut patch = place.begin();
    let mut pause = FIRST_PAUSE;
    for tried in 1..=TRIES_MAX {
        let Some(kept) = place.leave(patch) else { return };
        patch = kept;
        // A queued binding makes the patch obsolete, but only this patch can clear a nomination.
        if place.turn.is_overtaken() && patch.nomination != Nomination::Clear {
            return;
        }
        let call = call(&patch, Timestamp::now());
        let answer = transport.send(&call, limits.deadline, PATIENCE).await.answer;
        if matches!(answer, Answer::Done(_)) {
            return;
        }
        if tried == TRIES_MAX || !may_retry(&answer) {
            return give_up(&patch, answer, refusals);
        }
        tokio::time::sleep(jittered(pause, 0.1)).await;
        pause *= 5;
    }
}

fn call(patch: &StatusPatch, now: Timestamp) -> Call {
    let pod = &patch.pod;
    let mut status = json!({});
    if let Some(unscheduled) = &patch.condition {
        status["conditions"] = json!([condition(unscheduled, now)]);
    }
    match &patch.nomination {
        Nomination::Keep => {}
        Nomination::Clear => status["nominatedNodeName"] = Value::Null,
        Nomination::Set(node) => status["nominatedNodeName"] = json!(node),
    }
    let body = json!({ "metadata": { "uid": *pod.uid }, "status": status });
    Call {
        method: http::Method::PATCH,
        path: format!("/api/v1/namespaces/{}/pods/{}/status", pod.namespace, pod.name),
        query: None,
        content_type: STRATEGIC_MERGE,
        body: body.to_string().into_bytes().into(),
        subject: Subject { uid: Some(pod.uid.clone()), ..Subject::pod(&pod.namespace, &pod.name) },
    }
}

fn condition(unscheduled: &Unscheduled, now: Timestamp) -> Value {
    let since = unscheduled.since.clone().unwrap_or_else(|| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let mut condition = json!({
        "lastProbeTime": null,
        "lastTransitionTime": since,
        "message": unscheduled.message,
        "reason": unscheduled.reason,
        "status": "False",
        "type": "PodScheduled",
    });
    if unscheduled.observed_generation != 0 {
        condition["observedGeneration"] = unscheduled.observed_generation.into();
    }
    condition
}

fn may_retry(answer: &Answer) -> bool {
    match answer {
        // The name now belongs to another pod.
        Answer::Status { message, .. } if is_another_pod(message) => false,
        Answer::Status { code, .. } => matches!(code, 409 | 500 | 503),
        // The patch is idempotent.
        Answer::NotSent(_) | Answer::ConnectionRefused(_) | Answer::Foreign(_) => true,
        Answer::Done(_) | Answer::Lost(_) => false,
    }
}

/// Whether an error says that the name now belongs to another pod. A patch meets an immutable uid
/// (`apimachinery/pkg/api/validation`), the storage layer a failed precondition
/// (`apiserver/pkg/storage/interfaces.go`).
pub(super) fn is_another_pod(message: &str) -> bool {
    message.contains("metadata.uid: Invalid value") || message.contains("UID in precondition")
}

fn give_up(patch: &StatusPatch, answer: Answer, refusals: &Throttle) {
    let pod = format_args!("{}/{}", patch.pod.namespace, patch.pod.name).to_string();
    match answer {
        Answer::Done(_) => {}
        Answer::Status { is_gone: true, message, .. } => {
            tracing::debug!(%pod, %message, "pod was deleted before its status was written");
        }
        Answer::Status { message, .. } if is_another_pod(&message) => {
            tracing::debug!(%pod, %message, "another pod now has this name");
        }
        Answer::Status { code: 403, message, .. } => {
            if let Some(withheld) = refusals.admit() {
                tracing::error!(
                    %pod, %message, withheld,
                    "not permitted to update pod status: grant patch on pods/status, as in manifests/"
                );
            }
        }
        Answer::Status { message, .. }
        | Answer::NotSent(message)
        | Answer::ConnectionRefused(message)
        | Answer::Lost(message)
        | Answer::Foreign(message) => {
            let nomination = &patch.nomination;
            tracing::warn!(%pod, %message, ?nomination, "error updating pod");
        }
    }
}
