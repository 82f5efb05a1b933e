//! Bindings that an extender carries out instead of the API server (`bindVerb`).
//!
//! Upstream: `pkg/scheduler/schedule_one.go#extendersBinding`. Unlike upstream, the API server is authoritative if
//! the extender's answer contradicts it.

use super::ledger::{Bindings, Phase, UnknownOutcome};
use super::transitions::Next;
use crate::model::effect::{Effect, PodRef};
use crate::model::event::BindOutcome;
use crate::model::extender::Extender;
use crate::model::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// How long after an extender's success the watch may take to show the binding, before the API server is queried.
const DELEGATE_PAUSE: Duration = Duration::from_secs(2);

/// An extender that carries out a binding.
#[derive(Clone, Debug)]
pub(super) struct Delegate {
    url: Box<str>,
    ignorable: bool,
}

/// Returns the request for a binding, and the extender that carries it out, if any.
pub(super) fn request(binder: Option<&Extender>, pod: PodRef, node: String) -> (Option<Delegate>, Effect) {
    match binder {
        None => (None, Effect::Bind { pod, node }),
        Some(Extender { id, url, ignorable, .. }) => (
            Some(Delegate { url: url.clone(), ignorable: *ignorable }),
            Effect::BindBy { extender: *id, pod, node },
        ),
    }
}

impl Bindings {
    /// Handles an extender's answer to a binding; `None` if it counts like an answer of the API server.
    pub(super) fn delegate_answered(&mut self, now: Time, uid: &str, outcome: &BindOutcome) -> Option<Next> {
        let binding = self.known(uid);
        let by = binding.by.clone().filter(|_| !binding.abandoned)?;
        match outcome {
            BindOutcome::Accepted => Some(self.delegated(now, uid, &by)),
            BindOutcome::Refused { .. } if by.ignorable => Some(self.post_instead(uid)),
            BindOutcome::Unknown { .. } if by.ignorable => {
                // Whether or not it was carried out: the engine now posts the binding itself, to the same node.
                binding.is_ours = true;
                None
            }
            BindOutcome::Refused { .. } | BindOutcome::NotNeeded(_) | BindOutcome::Unknown { .. } => None,
        }
    }

    /// Handles an extender's success. Until the watch shows the binding, the pod stays assumed, and the API server is
    /// queried. Upstream trusts the extender, and waits forever if the pod was not bound.
    fn delegated(&mut self, now: Time, uid: &str, by: &Delegate) -> Next {
        let binding = self.known(uid);
        if let Some(node) = binding.confirmed_on {
            return self.bound_on(uid, node);
        }
        let message =
            format!("extender {:?} says that it bound the pod, and the API server does not show it", by.url);
        let last_lost_sent_at = binding.released;
        let unknown =
            binding.unknown.get_or_insert_with(|| UnknownOutcome::new(now, last_lost_sent_at, String::new()));
        (unknown.last_lost_sent_at, unknown.message) = (last_lost_sent_at, message);
        self.enter(uid, Phase::Unknown { query_at: now + DELEGATE_PAUSE });
        Next::Nothing
    }

    /// Posts the binding directly after an ignorable extender failed.
    fn post_instead(&mut self, uid: &str) -> Next {
        let binding = self.known(uid);
        binding.is_ours = true;
        let uid = Arc::clone(&binding.queued.pod.uid);
        self.enter(&uid, Phase::Waiting);
        Next::Resend(uid)
    }
}
