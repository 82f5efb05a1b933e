//! Pods of ours that a kubelet rejected (`OutOfcpu`, `OutOfpods`, ...).
//!
//! The node had fewer free resources than its known state, usually because another client places pods there as well.
//! Such a pod has terminated, and is not retried.

use super::Scheduler;
use crate::effect::Severity;
use crate::event::ObjectKey;
use crate::pod::Uid;
use crate::report::Notice;
use crate::time::Time;
use std::sync::Arc;

/// The maximum number of reasons that are counted by name; kubelets have fewer.
const REASONS_MAX: usize = 64;

impl Scheduler {
    pub(super) fn kubelet_rejected(&mut self, now: Time, uid: &Uid, reason: &str) {
        if let Some((pod, node, _)) = self.cache.placed(uid)
            && self.is_ours(pod)
        {
            let (pod, node) = (Arc::clone(pod), self.tables.text(node).to_owned());
            let counted = self.kubelet_rejections.contains_key(reason);
            let name = if counted || self.kubelet_rejections.len() < REASONS_MAX { reason } else { "Other" };
            *self.kubelet_rejections.entry(name.to_owned()).or_default() += 1;
            let text = format!(
                "the kubelet of node {node} did not admit the pod ({reason}): the node had less room than its state and the \
                 pods known to be there showed; does another scheduler place pods on it?"
            );
            let object = ObjectKey::Pod(Uid::clone(uid)).describe(&self.tables, Some(&pod));
            self.notices.push_back(Notice { object, text: text.clone() });
            self.record(&pod, Severity::Warning, "NotAdmitted", "Binding", text);
        }
        self.gone(now, &ObjectKey::Pod(Uid::clone(uid)));
    }
}
