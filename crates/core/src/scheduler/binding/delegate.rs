//! Bindings that an extender carries out instead of the API server (`bindVerb`).
//!
//! Upstream: `pkg/scheduler/schedule_one.go#extendersBinding`. Unlike upstream, the API server is authoritative if
//! the extender's answer contradicts it.

use super::{Outgoing, Phase, UnknownOutcome};
use crate::effect::Effect;
use crate::event::BindOutcome;
use crate::extender::Extender;
use crate::intern::Symbol;
use crate::pod::PodInfo;
use crate::scheduler::Scheduler;
use crate::time::Time;
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

impl Scheduler {
    /// Returns the effect for a binding, and the extender that carries it out, if any.
    pub(super) fn binding_effect(
        &self,
        pod: &PodInfo,
        node: Symbol,
        is_ours: bool,
    ) -> (Option<Delegate>, Effect) {
        let (pod_ref, node) = (self.pod_ref(pod), self.tables.text(node).to_owned());
        match self.binder(pod).filter(|_| !is_ours) {
            None => (None, Effect::Bind { pod: pod_ref, node }),
            Some(Extender { id, url, ignorable, .. }) => (
                Some(Delegate { url: url.clone(), ignorable: *ignorable }),
                Effect::BindBy { extender: *id, pod: pod_ref, node },
            ),
        }
    }

    /// Handles an extender's answer to a binding. Returns true if nothing else is to be done.
    pub(super) fn delegate_answered(&mut self, now: Time, uid: &str, outcome: &BindOutcome) -> bool {
        let binding = self.bindings.known(uid);
        let Some(by) = binding.by.clone().filter(|_| !binding.abandoned) else { return false };
        match outcome {
            BindOutcome::Accepted => self.delegated(now, uid, &by),
            BindOutcome::Refused { .. } if by.ignorable => self.post_instead(uid),
            BindOutcome::Unknown { .. } if by.ignorable => {
                // Whether or not it was carried out: the engine now posts the binding itself, to the same node.
                binding.is_ours = true;
                return false;
            }
            BindOutcome::Refused { .. } | BindOutcome::NotNeeded(_) | BindOutcome::Unknown { .. } => {
                return false;
            }
        }
        true
    }

    /// Handles an extender's success. Until the watch shows the binding, the pod stays assumed, and the API server is
    /// queried. Upstream trusts the extender, and waits forever if the pod was not bound.
    fn delegated(&mut self, now: Time, uid: &str, by: &Delegate) {
        let binding = self.bindings.known(uid);
        if let Some(node) = binding.confirmed_on {
            return self.bound_on(uid, node);
        }
        let message =
            format!("extender {:?} says that it bound the pod, and the API server does not show it", by.url);
        let last_lost = binding.released;
        let unknown =
            binding.unknown.get_or_insert_with(|| UnknownOutcome::new(now, last_lost, String::new()));
        (unknown.last_lost, unknown.message) = (last_lost, message);
        self.bindings.enter(uid, Phase::Unknown { query_at: now + DELEGATE_PAUSE });
    }

    /// Posts the binding directly after an ignorable extender failed.
    fn post_instead(&mut self, uid: &str) {
        let binding = self.bindings.known(uid);
        binding.is_ours = true;
        let pod = Arc::clone(&binding.queued.pod);
        self.bindings.enter(uid, Phase::Waiting);
        let uid = Arc::clone(&pod.uid);
        self.outbox.push_bind(Outgoing::Bind(uid));
    }
}
