//! Evicts a victim of preemption: sets its DisruptionTarget condition, which tells its owner why, then
//! deletes it.
//!
//! Upstream: `pkg/scheduler/framework/preemption/executor.go`, `pkg/scheduler/util/utils.go#DeletePod`.
//! Unlike upstream, both requests carry the pod's uid, so neither applies to a new pod of the same name. If
//! the response to the deletion is lost, the pod is read instead of deleted again. The engine decides what
//! follows.

use bytes::Bytes;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Preconditions};
use serde::Deserialize;
use serde_json::json;
use supercargo_core::model::effect::{Disruption, Eviction, PodRef};
use supercargo_core::model::event::EvictOutcome;

use crate::write::Limits;
use crate::write::request::{Answer, Call, JSON, STRATEGIC_MERGE, Transport};
use crate::write::status::is_another_pod;
use supercargo_apiserver::Throttle;
use supercargo_apiserver::answer::{Subject, Success};
use supercargo_apiserver::retry::jittered;

/// Upstream's maximum number of tries for the condition.
const TRIES_MAX: u32 = 4;
/// Upstream's first pause between tries; each further pause is five times the previous one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Outcome of one request of an eviction.
enum Step {
    Done,
    /// No pod has this uid.
    Gone,
    Failed(String),
    /// The request may have been carried out.
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
            Answer::Status { message, .. }
            | Answer::NotSent(message)
            | Answer::ConnectionRefused(message) => Self::Failed(message),
        }
    }
}

/// Evicts one pod.
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
        log_refusal(&eviction.pod, message, refusals);
    }
    outcome
}

/// Sets the condition. The patch is idempotent, so it is retried even if the last try may have succeeded.
async fn mark(transport: &Transport, limits: &Limits, pod: &PodRef, disruption: &Disruption) -> Step {
    let call = mark_call(pod, disruption, Timestamp::now());
    let mut pause = FIRST_PAUSE;
    for tried in 1.. {
        let answer = transport.send(&call, limits.deadline, limits.patience).await.answer;
        let again = match &answer {
            Answer::Status { code: 409, message, .. } => !is_another_pod(message),
            Answer::Status { code: 500.., .. }
            | Answer::NotSent(_)
            | Answer::ConnectionRefused(_)
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
        // An earlier try of the same request may have deleted the pod.
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
        // Ask the server to give up when we do.
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

/// Whether the API server shows the pod as terminating or has no such pod.
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

fn log_refusal(pod: &PodRef, message: &str, refusals: &Throttle) {
    let Some(withheld) = refusals.admit() else { return };
    let pod = format_args!("{}/{}", pod.namespace, pod.name).to_string();
    if message.contains("is forbidden") {
        tracing::error!(
            %pod, %message, withheld,
            "not permitted to evict victim: grant delete on pods and patch on pods/status, as in manifests/"
        );
    } else {
        tracing::warn!(%pod, %message, withheld, "failed to evict victim");
    }
}
