//! The eviction of a pod that makes room: first the condition DisruptionTarget, so that whoever owns the pod knows why,
//! then its deletion.
//!
//! Upstream: `pkg/scheduler/framework/preemption/executor.go`, `pkg/scheduler/util/utils.go#DeletePod`. Ours names the
//! pod's uid in both, so that neither can meet a pod made anew under the same name, and where the answer to the deletion
//! is lost it looks, and does not send another. It does not decide what follows.

use bytes::Bytes;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Preconditions};
use serde::Deserialize;
use serde_json::json;
use supercargo_core::effect::{Disruption, Eviction, PodRef};
use supercargo_core::event::EvictOutcome;

use super::Limits;
use super::answer::{Subject, Success};
use super::pause::{Throttle, jittered};
use super::request::{Answer, Call, JSON, STRATEGIC_MERGE, Transport};
use super::status::is_another_pod;

/// As often as upstream tries to write the condition.
const TRIES_MAX: u32 = 4;
/// Upstream's first pause; each is five times the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// What a step of an eviction came to.
enum Step {
    Done,
    /// There is no pod of that uid.
    Gone,
    Failed(String),
    /// It may have been carried out.
    Unknown(String),
}

impl Step {
    fn of(answer: Answer) -> Self {
        match answer {
            Answer::Done(_) => Self::Done,
            Answer::Status { is_gone: true, .. } => Self::Gone,
            Answer::Status { message, .. } if is_another_pod(&message) => Self::Gone,
            Answer::Status { code: 408 | 500.., message, .. }
            | Answer::Lost(message)
            | Answer::Foreign(message) => Self::Unknown(message),
            Answer::Status { message, .. } | Answer::NotSent(message) => Self::Failed(message),
        }
    }
}

/// Sends a pod away.
pub(super) async fn evict(
    transport: &Transport,
    limits: &Limits,
    eviction: &Eviction,
    refusals: &Throttle,
) -> EvictOutcome {
    let outcome = match &eviction.condition {
        Some(disruption) => match mark(transport, limits, &eviction.pod, disruption).await {
            Step::Done => delete(transport, limits, &eviction.pod).await,
            Step::Gone => EvictOutcome::Gone,
            Step::Failed(message) | Step::Unknown(message) => EvictOutcome::Failed { message },
        },
        None => delete(transport, limits, &eviction.pod).await,
    };
    if let EvictOutcome::Failed { message } = &outcome {
        tell(&eviction.pod, message, refusals);
    }
    outcome
}

/// Sets the condition. To set it twice does no harm, so it is also tried again where the first may have worked.
async fn mark(transport: &Transport, limits: &Limits, pod: &PodRef, disruption: &Disruption) -> Step {
    let call = mark_call(pod, disruption, Timestamp::now());
    let mut pause = FIRST_PAUSE;
    for tried in 1.. {
        let answer = transport.send(&call, limits.deadline, limits.patience).await.answer;
        let again = match &answer {
            Answer::Status { code: 409, message, .. } => !is_another_pod(message),
            Answer::Status { code: 500.., .. }
            | Answer::NotSent(_)
            | Answer::Lost(_)
            | Answer::Foreign(_) => true,
            Answer::Done(_) | Answer::Status { .. } => false,
        };
        if !again || tried == TRIES_MAX {
            return Step::of(answer);
        }
        tokio::time::sleep(jittered(pause, 0.1)).await;
        pause *= 5;
    }
    unreachable!("the loop counts to its limit")
}

fn mark_call(pod: &PodRef, disruption: &Disruption, now: Timestamp) -> Call {
    let mut condition = json!({
        "lastProbeTime": null,
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "message": disruption.message,
        "reason": "PreemptionByScheduler",
        "status": "True",
        "type": "DisruptionTarget",
    });
    if disruption.observed_generation != 0 {
        condition["observedGeneration"] = disruption.observed_generation.into();
    }
    let body = json!({ "metadata": { "uid": *pod.uid }, "status": { "conditions": [condition] } });
    Call {
        method: http::Method::PATCH,
        path: format!("{}/status", path(pod)),
        query: None,
        content_type: STRATEGIC_MERGE,
        body: body.to_string().into_bytes().into(),
        subject: Subject { uid: Some(pod.uid.clone()), ..Subject::pod(&pod.namespace, &pod.name) },
    }
}

async fn delete(transport: &Transport, limits: &Limits, pod: &PodRef) -> EvictOutcome {
    let sent = transport.send(&delete_call(limits, pod), limits.deadline, limits.patience).await;
    match Step::of(sent.answer) {
        Step::Done => EvictOutcome::Deleted,
        // An earlier try of the same request may have been what removed it.
        Step::Gone if sent.earlier_unknown => EvictOutcome::Deleted,
        Step::Gone => EvictOutcome::Gone,
        Step::Failed(message) if !sent.earlier_unknown => EvictOutcome::Failed { message },
        Step::Failed(message) | Step::Unknown(message) => {
            if is_going(transport, limits, pod).await {
                EvictOutcome::Deleted
            } else {
                EvictOutcome::Failed { message }
            }
        }
    }
}

fn delete_call(limits: &Limits, pod: &PodRef) -> Call {
    let options = DeleteOptions {
        api_version: Some("v1".to_owned()),
        kind: Some("DeleteOptions".to_owned()),
        preconditions: Some(Preconditions { uid: Some(pod.uid.to_string()), ..Preconditions::default() }),
        ..DeleteOptions::default()
    };
    Call {
        method: http::Method::DELETE,
        path: path(pod),
        // The server gives up when we do.
        query: Some(format!("timeout={}s", limits.deadline.as_secs().max(1))),
        content_type: JSON,
        body: serde_json::to_vec(&options).expect("DeleteOptions are plain data").into(),
        subject: Subject {
            uid: Some(pod.uid.clone()),
            success: Success::ObjectOrStatus,
            ..Subject::pod(&pod.namespace, &pod.name)
        },
    }
}

#[derive(Deserialize)]
struct Pod {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    deletion_timestamp: Option<String>,
}

/// Whether the API server has the pod as one that is being deleted, or not at all.
async fn is_going(transport: &Transport, limits: &Limits, pod: &PodRef) -> bool {
    let call = Call {
        method: http::Method::GET,
        path: path(pod),
        query: None,
        content_type: JSON,
        body: Bytes::new(),
        subject: Subject::pod(&pod.namespace, &pod.name),
    };
    match transport.send(&call, limits.deadline, limits.patience).await.answer {
        Answer::Done(body) => serde_json::from_slice::<Pod>(&body).is_ok_and(|found| {
            *found.metadata.uid != *pod.uid || found.metadata.deletion_timestamp.is_some()
        }),
        answer => matches!(answer, Answer::Status { is_gone: true, .. }),
    }
}

fn path(pod: &PodRef) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

fn tell(pod: &PodRef, message: &str, refusals: &Throttle) {
    let Some(withheld) = refusals.admit() else { return };
    let pod = format_args!("{}/{}", pod.namespace, pod.name).to_string();
    if message.contains("is forbidden") {
        tracing::error!(
            %pod, %message, withheld,
            "may not send a pod away that a more important one is to replace: grant delete on pods and patch on pods/status, as manifests/ does"
        );
    } else {
        tracing::warn!(%pod, %message, withheld, "could not send a pod away that a more important one is to replace");
    }
}
