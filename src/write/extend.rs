//! Calls extenders: the verbs filter, prioritize and preempt, and bindings that they carry out.
//!
//! A binding by an extender is a write, so the lease must cover it. The other calls change nothing and need no lease.
//! The engine builds the calls and interprets the answers.

use std::sync::Arc;
use std::time::Instant;

use supercargo_core::model::effect::{ExtenderCall, PodRef, Question};
use supercargo_core::model::event::{BindOutcome, BindingState};
use supercargo_core::model::extender::Answer;

use crate::extenders::{Client, Extenders, Failed};
use crate::write::Shared;
use crate::write::query::query_binding;
use crate::write::request::Uncovered;

/// Error for an extender that was removed from the configuration.
pub(super) const UNKNOWN: &str = "the extender is no longer configured";

/// Sends one query to an extender.
pub(super) async fn ask(
    shared: &Shared,
    client: Option<Arc<Client>>,
    extenders: &Extenders,
    call: &ExtenderCall,
) -> Result<Answer, String> {
    let Some(client) = client else { return Err(UNKNOWN.to_owned()) };
    let verb = match call.question {
        Question::Filter { .. } => "filter",
        Question::Prioritize { .. } => "prioritize",
        Question::Preempt { .. } => "preempt",
    };
    let began = Instant::now();
    let answer = client.ask(&call.pod, &call.question, extenders.objects()).await.map_err(Failed::into_text);
    shared.metrics.extender_called(verb, answer.is_ok(), began.elapsed());
    if let Err(error) = &answer {
        let pod = format!("{}/{}", call.pod.namespace, call.pod.name);
        if let Some(withheld) = shared.failed_extenders.admit() {
            tracing::warn!(%pod, verb, error, withheld, "extender call failed");
        }
    }
    answer
}

/// Lets an extender bind a pod. If the extender reports a failure, reads the pod from the API server: the
/// extender may have bound it first.
pub(super) async fn bind(shared: &Shared, client: &Client, pod: &PodRef, node: &str) -> BindOutcome {
    let Shared { transport, limits, unanswered, metrics, .. } = shared;
    let began = Instant::now();
    let answer = transport.covered(client.timeout(), |limit| client.bind(pod, node, limit)).await;
    // A write rejected by the fence was never sent, so it is not counted as a call.
    if !matches!(answer, Err(Uncovered::NotSent(_))) {
        metrics.extender_called("bind", matches!(answer, Ok(Ok(()))), began.elapsed());
    }
    match answer {
        Ok(Ok(())) => BindOutcome::Accepted,
        Ok(Err(Failed::NotSent(message))) | Err(Uncovered::NotSent(message)) => {
            BindOutcome::Refused { message }
        }
        Ok(Err(Failed::Lost(message))) | Err(Uncovered::Lost(message)) => BindOutcome::Unknown { message },
        Ok(Err(Failed::Answered(message))) => match query_binding(transport, limits, pod, unanswered).await {
            BindingState::Unbound => BindOutcome::Refused { message },
            BindingState::NoAnswer => BindOutcome::Unknown { message },
            found @ (BindingState::Bound(_) | BindingState::Gone) => BindOutcome::NotNeeded(found),
        },
    }
}
