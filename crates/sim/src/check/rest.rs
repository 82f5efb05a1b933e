//! Checks of the members of a gang that are bound after the first one.

use super::{Broken, broken};
use crate::objects::Pod;
use crate::sim::Sim;
use std::sync::Arc;

impl Sim {
    /// Checks that the rest of a group is bound, too, once a member was bound, unless one of the rest was lost.
    /// One that was in PreBind may come too late.
    pub(super) fn check_not_taken_back(&self, uid: &str, message: &str) -> Result<(), Broken> {
        let pod = self.process.pods.get(uid).filter(|pod| !pod.has_claims());
        let key = pod.and_then(|pod| pod.group_key());
        let begun = key.filter(|key| {
            let rest = self.process.rests.get(key);
            self.process.bound_since_chosen.contains(key)
                && rest.is_some_and(|rest| rest.iter().all(|uid| self.process.decided.contains_key(uid)))
        });
        match begun.filter(|_| message.contains("of the pod group can still be bound")) {
            Some(key) => {
                Err(broken("the rest of a group is bound, too", format!("{uid} of {key}: {message}")))
            }
            None => Ok(()),
        }
    }

    /// Notes the members that are still to be bound after the first one.
    pub(super) fn note_rest(&mut self, key: &str, first: &str) {
        let unsent =
            self.scheduled_members(key).filter(|pod| pod.uid != first && !self.is_bound_or_sent(pod));
        let rest = unsent.map(|pod| pod.uid.clone()).collect();
        self.process.rests.insert(key.to_owned(), rest);
    }

    /// Checks that the rest of a gang of which no member is left that was bound before is bound only as a whole.
    pub(super) fn check_rest(&mut self, key: &str, uid: &str) -> Result<(), Broken> {
        let Some(rest) = self.process.rests.get_mut(key) else { return Ok(()) };
        rest.remove(uid);
        let Some(rest) = self.process.rests.get(key) else { return Ok(()) };
        let min = self.process.groups.get(key).and_then(|group| group.min).unwrap_or(0);
        let mut members = self.scheduled_members(key);
        if members.clone().count() >= min || members.any(|pod| self.is_bound_or_sent(pod)) {
            return Ok(());
        }
        match rest.iter().find(|other| !self.process.decided.contains_key(*other)) {
            Some(other) => {
                let detail = format!("{uid} of {key} is sent without {other}, and fewer than {min} are left");
                Err(broken("the rest of a gang is bound as a whole", detail))
            }
            None => Ok(()),
        }
    }

    /// Whether a member is bound, or its Binding was sent.
    pub(super) fn is_bound_or_sent(&self, pod: &Arc<Pod>) -> bool {
        let decided = self.process.decided.get(&pod.uid);
        pod.node.is_some() || decided.is_some_and(|decided| decided.released.is_some())
    }
}
