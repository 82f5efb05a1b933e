//! Pods of ours that a kubelet rejected (`OutOfcpu`, `OutOfpods`, ...).
//!
//! The node had fewer free resources than its known state, usually because another client places pods there as well.
//! Such a pod has terminated, and is not retried.

use super::Scheduler;
use crate::model::effect::Severity;
use crate::model::event::ObjectKey;
use crate::model::pod::Uid;
use crate::model::time::Time;
use crate::report::Notice;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum number of reasons that are counted by name; kubelets have fewer.
const REASONS_MAX: usize = 64;

/// The rejected pods, counted by the kubelet's reason.
#[derive(Default)]
pub(super) struct KubeletRejections {
    by_reason: BTreeMap<String, u64>,
}

impl KubeletRejections {
    fn count(&mut self, reason: &str) {
        let counted = self.by_reason.contains_key(reason);
        let name = if counted || self.by_reason.len() < REASONS_MAX { reason } else { "Other" };
        *self.by_reason.entry(name.to_owned()).or_default() += 1;
    }

    /// Returns the number of rejected pods by reason.
    pub(super) fn by_reason(&self) -> &BTreeMap<String, u64> {
        &self.by_reason
    }
}

impl Scheduler {
    pub(super) fn kubelet_rejected(&mut self, now: Time, uid: &Uid, reason: &str) {
        if let Some((pod, node, _)) = self.cache.placed(uid)
            && self.is_ours(pod)
        {
            let (pod, node) = (Arc::clone(pod), self.tables.text(node).to_owned());
            self.kubelet_rejections.count(reason);
            let text = format!(
                "the kubelet of node {node} did not admit the pod ({reason}): the node had less room than its state and the \
                 pods known to be there showed; does another scheduler place pods on it?"
            );
            let object = ObjectKey::Pod(Uid::clone(uid)).describe(&self.tables, Some(&pod));
            self.notices.push_back(Notice { object, text: text.clone() });
            self.record(&pod, Severity::Warning, "NotAdmitted", "Binding", text);
            if let Some(key) = pod.group_key().filter(|_| self.bindings.was_sent(uid)) {
                // Its Binding was carried out.
                self.check_sent(now, key, true);
            }
        }
        self.gone(now, &ObjectKey::Pod(Uid::clone(uid)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejections_are_counted_by_a_bounded_number_of_reasons() {
        let mut rejections = KubeletRejections::default();
        (0..3).for_each(|_| rejections.count("OutOfcpu"));
        (1..REASONS_MAX).for_each(|number| rejections.count(&format!("reason {number}")));
        assert_eq!(rejections.by_reason().len(), REASONS_MAX);
        for reason in ["one too many", "two too many", "OutOfcpu"] {
            rejections.count(reason);
        }
        let count = |reason: &str| rejections.by_reason().get(reason).copied();
        assert_eq!([count("OutOfcpu"), count("reason 1"), count("reason 63")], [Some(4), Some(1), Some(1)]);
        assert_eq!([count("one too many"), count("two too many"), count("Other")], [None, None, Some(2)]);
    }
}
