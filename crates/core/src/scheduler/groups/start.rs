//! The start of a group: its Bindings are sent once all members that were chosen together have passed PreBind.
//!
//! If so many of them failed that fewer than `minCount` are left, none is bound. Upstream binds each member on its own,
//! as `--compat=upstream` does.

use super::super::Scheduler;
use super::super::failure::Failure;
use super::super::outbox::Outgoing;
use crate::model::group::{GroupKey, GroupPolicy, PodGroup};
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Members of a group that start together, until all have passed PreBind.
#[derive(Default)]
pub(super) struct Start {
    /// All members that were chosen.
    members: Vec<Uid>,
    /// Those that were in PreBind when they were looked at last.
    pre_binding: Vec<Uid>,
    /// Those whose Bindings are held back.
    ready: BTreeSet<Uid>,
    /// The number of members that must have a node.
    min: usize,
}

impl Scheduler {
    /// Holds back the Bindings of members that are assumed from now on, if the group needs a number of members.
    pub(super) fn begin_start(&mut self, key: GroupKey, group: Option<&PodGroup>) {
        if self.tables.copies_defects() {
            return;
        }
        let min = match group.map(|group| group.policy) {
            Some(GroupPolicy::Gang(min)) => min,
            Some(GroupPolicy::Basic) | None => 0,
        };
        if min > 0 {
            let start = self.groups.starts.entry(key).or_default();
            start.min = start.min.max(min);
        }
    }

    /// Adds the members that were chosen in this cycle, and queues their Bindings if none of them is in PreBind.
    pub(super) fn add_to_start(&mut self, now: Time, key: GroupKey, members: &[Uid]) {
        if let Some(start) = self.groups.starts.get_mut(&key) {
            start.members.extend_from_slice(members);
            let pre_binding = members.iter().filter(|uid| self.volume_bindings.contains(uid));
            start.pre_binding.extend(pre_binding.cloned());
            self.complete_starts(now);
        }
    }

    /// Puts the Binding of a pod into the outbox, or holds it back until the pod's group has passed PreBind.
    pub(in crate::scheduler) fn queue_bind(&mut self, pod: &PodInfo) {
        let start = pod.group_key().and_then(|key| self.groups.starts.get_mut(&key));
        match start {
            Some(start) => drop(start.ready.insert(Arc::clone(&pod.uid))),
            None => self.outbox.push_bind(Outgoing::Bind(Arc::clone(&pod.uid))),
        }
    }

    /// Forgets all starts, because what was not sent is dropped.
    pub(in crate::scheduler) fn drop_starts(&mut self) {
        self.groups.starts.clear();
    }

    /// Completes the starts whose members have all left PreBind. Returns whether there were any.
    ///
    /// It is called at each step, and looks at the starts only if a pod left PreBind since.
    pub(in crate::scheduler) fn starts_go_on(&mut self, now: Time) -> bool {
        let ended = self.volume_bindings.ended();
        if self.groups.starts.is_empty() || self.groups.starts_as_of == ended {
            return false;
        }
        self.groups.starts_as_of = ended;
        self.complete_starts(now)
    }

    fn complete_starts(&mut self, now: Time) -> bool {
        let in_pre_bind = &self.volume_bindings;
        let complete = |start: &mut Start| {
            while start.pre_binding.pop_if(|uid| !in_pre_bind.contains(uid)).is_some() {}
            start.pre_binding.is_empty()
        };
        let starts = self.groups.starts.iter_mut();
        let complete: Vec<GroupKey> =
            starts.filter_map(|(key, start)| complete(start).then_some(*key)).collect();
        for key in &complete {
            if let Some(start) = self.groups.starts.remove(key) {
                self.complete_start(now, *key, start);
            }
        }
        !complete.is_empty()
    }

    fn complete_start(&mut self, now: Time, key: GroupKey, mut start: Start) {
        let mut ready: Vec<Uid> = start.members.iter().filter_map(|uid| start.ready.take(uid)).collect();
        ready.extend(start.ready);
        ready.retain(|uid| self.bindings.is_unsent(uid));
        self.recheck_members(now, &ready);
        ready.retain(|uid| self.bindings.is_unsent(uid));
        let is_lost = |uid: &Uid| self.cache.placed(uid).is_none();
        let left = self.scheduled(key);
        let is_enough = left >= start.min && !self.lacks_role(key);
        let starts = is_enough || !start.members.iter().any(is_lost);
        for uid in ready {
            let taken_back = if starts { None } else { self.bindings.cancel_unsent(&uid, &mut self.outbox) };
            let Some(binding) = taken_back else {
                if self.bindings.is_unsent(&uid) {
                    self.outbox.push_bind(Outgoing::Bind(uid));
                }
                continue;
            };
            let (queued, began) = binding.into_attempt();
            self.free(now, &uid);
            let text = format!("{left} of at least {} members of the pod group passed PreBind", start.min);
            self.fail(now, queued, began, Failure::Binding(text));
        }
    }
}
