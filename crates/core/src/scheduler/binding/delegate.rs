//! Bindings that an extender carries out in place of the API server (`bindVerb`).
//!
//! Upstream: `pkg/scheduler/schedule_one.go#extendersBinding`. Ours differs where the extender's word and the API server's are not
//! the same: the API server is right.

use super::{Doubt, Outgoing, Phase};
use crate::effect::Effect;
use crate::event::BindOutcome;
use crate::extender::Extender;
use crate::intern::Symbol;
use crate::pod::PodInfo;
use crate::scheduler::Scheduler;
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// How long the watch has to show what an extender says that it bound, before the API server is asked.
const DELEGATE_PAUSE: Duration = Duration::from_secs(2);

/// An extender that carries out a binding.
#[derive(Clone, Debug)]
pub(super) struct Delegate {
    url: Box<str>,
    ignorable: bool,
}

impl Scheduler {
    /// The binding as it leaves: to the extender that binds such pods, or to the API server.
    pub(super) fn sent_to(&self, pod: &PodInfo, node: Symbol, is_ours: bool) -> (Option<Delegate>, Effect) {
        let (pod_ref, node) = (self.pod_ref(pod), self.tables.text(node).to_owned());
        match self.binder(pod).filter(|_| !is_ours) {
            None => (None, Effect::Bind { pod: pod_ref, node }),
            Some(Extender { id, url, ignorable, .. }) => (
                Some(Delegate { url: url.clone(), ignorable: *ignorable }),
                Effect::BindBy { extender: *id, pod: pod_ref, node },
            ),
        }
    }

    /// An extender answered a binding, or failed to; whether that is all there is to do about it.
    pub(super) fn delegate_answered(&mut self, now: Time, uid: &str, outcome: &BindOutcome) -> bool {
        let binding = self.bindings.known(uid);
        let Some(by) = binding.by.clone().filter(|_| !binding.abandoned) else { return false };
        match outcome {
            BindOutcome::Accepted => self.delegated(now, uid, &by),
            BindOutcome::Refused { .. } if by.ignorable => self.post_instead(uid),
            BindOutcome::Unknown { .. } if by.ignorable => {
                // Whether it was carried out or not: from now on it is ours to post, to the same node.
                binding.is_ours = true;
                return false;
            }
            BindOutcome::Refused { .. } | BindOutcome::Moot(_) | BindOutcome::Unknown { .. } => return false,
        }
        true
    }

    /// An extender says that it bound the pod. Its word is believed when the watch shows it: until then the pod holds its
    /// room, and the API server is asked. Upstream takes the word, and waits for ever where it is not true.
    fn delegated(&mut self, now: Time, uid: &str, by: &Delegate) {
        let binding = self.bindings.known(uid);
        if let Some(node) = binding.confirmed_on {
            return self.settled_on(uid, node);
        }
        let message =
            format!("extender {:?} says that it bound the pod, and the API server does not show it", by.url);
        let last_lost = binding.released;
        let doubt = binding.doubt.get_or_insert_with(|| Doubt::new(now, last_lost, String::new()));
        (doubt.last_lost, doubt.message) = (last_lost, message);
        self.bindings.enter(uid, Phase::Unknown { ask_at: now + DELEGATE_PAUSE });
    }

    /// The extender that was to bind the pod failed, and need not answer.
    fn post_instead(&mut self, uid: &str) {
        let binding = self.bindings.known(uid);
        binding.is_ours = true;
        let pod = Arc::clone(&binding.queued.pod);
        self.bindings.enter(uid, Phase::Waiting);
        let uid = Arc::clone(&pod.uid);
        self.outbox.push_bind(Outgoing::Bind(uid));
    }
}
