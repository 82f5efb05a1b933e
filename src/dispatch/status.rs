//! The condition PodScheduled=False and the node a pod is nominated to, patched into a pod's status.
//!
//! Upstream: `pkg/scheduler/util/utils.go#PatchPodStatus`. Ours names the pod's uid, so that it cannot land on a pod made
//! anew under the same name, and is dropped when something newer about the pod waits to be written.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use supercargo_core::effect::{Nomination, StatusPatch, Unscheduled};

use super::Limits;
use super::answer::Subject;
use super::pause::{Throttle, jittered};
use super::request::{Answer, Call, STRATEGIC_MERGE, Transport};
use super::waiting::Place;

/// As often as upstream tries.
const TRIES_MAX: u32 = 4;
/// Upstream's first pause; each is five times the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// How long to obey a server that asks to come back later. Short, since the pod's binding may wait behind this.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes the patch of `place` when its turn has come.
pub(super) async fn write(transport: &Transport, limits: &Limits, mut place: Place, refusals: &Throttle) {
    place.turn.come().await;
    let mut patch = place.begin();
    let mut pause = FIRST_PAUSE;
    for tried in 1..=TRIES_MAX {
        let Some(kept) = place.leave(patch) else { return };
        patch = kept;
        // A binding makes it moot; but what is to be taken away nothing else says.
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
        // The name is another pod's by now, and will not be ours again.
        Answer::Status { message, .. } if is_another_pod(message) => false,
        Answer::Status { code, .. } => matches!(code, 409 | 500 | 503),
        // To write it twice does no harm.
        Answer::NotSent(_) | Answer::Foreign(_) => true,
        Answer::Done(_) | Answer::Lost(_) => false,
    }
}

/// Whether a refusal says that the name belongs to another pod by now: a uid is immutable to the one who patches
/// (`apimachinery/pkg/api/validation`), and a precondition to the one who stores (`apiserver/pkg/storage/interfaces.go`).
pub(super) fn is_another_pod(message: &str) -> bool {
    message.contains("metadata.uid: Invalid value") || message.contains("UID in precondition")
}

fn give_up(patch: &StatusPatch, answer: Answer, refusals: &Throttle) {
    let pod = format_args!("{}/{}", patch.pod.namespace, patch.pod.name).to_string();
    match answer {
        Answer::Done(_) => {}
        Answer::Status { is_gone: true, message, .. } => {
            tracing::debug!(%pod, %message, "the pod went before its status could be written");
        }
        Answer::Status { message, .. } if is_another_pod(&message) => {
            tracing::debug!(%pod, %message, "another pod has the name by now");
        }
        Answer::Status { code: 403, message, .. } => {
            if let Some(withheld) = refusals.admit() {
                tracing::error!(
                    %pod, %message, withheld,
                    "may not write the status of a pod: grant patch on pods/status, as manifests/ does"
                );
            }
        }
        Answer::Status { message, .. }
        | Answer::NotSent(message)
        | Answer::Lost(message)
        | Answer::Foreign(message) => {
            let nomination = &patch.nomination;
            tracing::warn!(%pod, %message, ?nomination, "error updating pod");
        }
    }
}
