//! Extenders: what they are asked, and the bindings they carry out.
//!
//! A binding by an extender is a write, so the lease has to cover it; what else extenders are asked changes nothing. Knows
//! neither what is asked nor what an answer means.

use std::sync::Arc;
use std::time::Instant;

use supercargo_core::effect::{ExtenderCall, PodRef, Question};
use supercargo_core::event::{BindOutcome, Found};
use supercargo_core::extender::Answer;

use super::Shared;
use super::request::Uncovered;
use super::settle::settle;
use crate::extender::{Client, Extenders, Failed};

/// What is said of an extender that is configured no more.
pub(super) const UNKNOWN: &str = "the extender is not configured any more";

/// Asks an extender.
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
            tracing::warn!(%pod, verb, error, withheld, "an extender failed");
        }
    }
    answer
}

/// Has an extender bind a pod. After an answer that it failed, the API server is asked: it may have bound before it did.
pub(super) async fn bind(shared: &Shared, client: &Client, pod: &PodRef, node: &str) -> BindOutcome {
    let Shared { transport, limits, unanswered, metrics, .. } = shared;
    let began = Instant::now();
    let answer = transport.covered(client.timeout(), |limit| client.bind(pod, node, limit)).await;
    // What the lease does not cover is no call.
    if !matches!(answer, Err(Uncovered::NotSent(_))) {
        metrics.extender_called("bind", matches!(answer, Ok(Ok(()))), began.elapsed());
    }
    match answer {
        Ok(Ok(())) => BindOutcome::Accepted,
        Ok(Err(Failed::NotSent(message))) | Err(Uncovered::NotSent(message)) => {
            BindOutcome::Refused { message }
        }
        Ok(Err(Failed::Lost(message))) | Err(Uncovered::Lost(message)) => BindOutcome::Unknown { message },
        Ok(Err(Failed::Answered(message))) => match settle(transport, limits, pod, unanswered).await {
            Found::Unbound => BindOutcome::Refused { message },
            Found::NoAnswer => BindOutcome::Unknown { message },
            found @ (Found::Bound(_) | Found::Gone) => BindOutcome::Moot(found),
        },
    }
}
