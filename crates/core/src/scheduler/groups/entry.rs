//! A group as one entry of the queue, as from 1.37 on: its members share gate and backoff.
//!
//! Each member keeps its own record in the queue. These methods keep the records of a group in the same place.
//!
//! Upstream: `pkg/scheduler/backend/queue/scheduling_queue.go` of 1.37.

use super::super::Scheduler;
use super::cycle::Verdict;
use super::ledger::Standing;
use super::submit::condition;
use crate::framework::PluginName;
use crate::model::emulation::GroupRules;
use crate::model::group::GroupKey;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::plugins::scheduling_gates;
use crate::queue::{QueuedPod, SubQueue};

impl Scheduler {
    /// Returns the rules by which groups are decided.
    pub(super) fn group_rules(&self) -> GroupRules {
        self.tables.rules().group_rules
    }

    /// Whether decisions are compared with recordings in which updates of pods do not reach the queue.
    pub(in crate::scheduler) fn shows_late(&self) -> bool {
        self.is_comparable && !self.tables.rules().group_rules.queues_groups
    }

    /// Returns the members in the order in which they are tried: that of [`Self::in_order`], or in 1.37 with
    /// `--compat=upstream` that of [`QueuedPod::rank_in_group`].
    pub(super) fn in_turn(&self, key: GroupKey, mut members: Vec<QueuedPod>) -> Vec<QueuedPod> {
        if !self.group_rules().queues_groups || !self.tables.copies_defects() {
            return self.in_order(key, members);
        }
        members.sort_by_key(QueuedPod::rank_in_group);
        members
    }

    /// Returns why the group is refused, whatever its members are: an annotation is invalid, or it is part of a
    /// composite group. Upstream checks neither.
    pub(super) fn refusal(&self, key: GroupKey) -> Option<String> {
        let group = self.cache.lookups().group(key).filter(|_| !self.tables.copies_defects())?;
        group.options.as_ref().err().map(|text| text.clone().into())
    }

    /// Returns why the group itself is refused, or the error if members differ from each other, or from the group,
    /// in what must be equal. Members with a node count, too.
    pub(super) fn mismatch(&self, key: GroupKey, members: &[QueuedPod]) -> Option<String> {
        if let Some(text) = self.refusal(key) {
            return Some(text);
        }
        if !self.group_rules().requires_equal_members {
            return self.names_differ(members);
        }
        let first = &members.first()?.pod;
        let priority = self.cache.lookups().group(key)?.priority;
        let policy = |pod: &PodInfo| if pod.never_preempts { "Never" } else { "PreemptLowerPriority" };
        let differs = |pod: &PodInfo| {
            if pod.scheduler_name != first.scheduler_name {
                let [first, other] =
                    [first.scheduler_name, pod.scheduler_name].map(|name| self.tables.text(name));
                return Some(format!(
                    "all pods in a single pod group should have the same .spec.schedulerName set, got: {other:?} and \
                     {first:?}"
                ));
            }
            if pod.priority != priority {
                return Some(format!(
                    "all pods in a single pod group should have the same priority as the pod group's priority, got {} \
                     and {priority}",
                    pod.priority
                ));
            }
            (policy(pod) != policy(first)).then(|| {
                format!(
                    "all pods in a single pod group should have the same preemption policy, got {} and {}",
                    policy(pod),
                    policy(first)
                )
            })
        };
        let placed = || self.groups.members(key).filter_map(|uid| self.cache.placed(uid));
        let pending = members.iter().find_map(|queued| differs(&queued.pod));
        pending.or_else(|| placed().find_map(|(pod, ..)| differs(pod)))
    }

    /// Writes an error that prevented a cycle into the group's condition.
    pub(super) fn note_failure(&mut self, now: Time, key: GroupKey, text: &str) {
        if let Some(generation) = self.cache.lookups().group(key).map(|group| group.generation) {
            self.set_condition(now, key, condition(&Verdict::Failed(text.to_owned()), generation));
        }
    }

    /// Returns the gate of another member that keeps the whole group out of the active queue.
    pub(super) fn gate_of_others(&self, pod: &PodInfo) -> Option<PluginName> {
        if !self.group_rules().queues_groups {
            return None;
        }
        let gated = self.groups.number(pod.group_key()?, Standing::Gated);
        let is_gated = pod.node_name.is_none() && !pod.gates.is_empty();
        (gated > usize::from(is_gated)).then_some(scheduling_gates::NAME)
    }

    /// Aligns the queue entries of a group after `uid` joined it: gated members are held back, and `uid` waits out the
    /// backoff of the others.
    pub(super) fn join_entry(&mut self, now: Time, key: GroupKey, uid: &Uid) {
        self.hold_back_members(key, false);
        let others: Vec<Uid> = self.groups.members(key).filter(|other| *other != uid).cloned().collect();
        let waits = |other: &&Uid| matches!(self.queue.sub_queue_of(other), Some((SubQueue::Backoff, _)));
        if let Some(other) = others.iter().find(waits) {
            self.queue.follow(now, uid, other);
        }
    }

    /// Gates all members that PreEnqueue rejects now. With `anew`, their backoff starts over.
    pub(super) fn hold_back_members(&mut self, key: GroupKey, anew: bool) {
        let members: Vec<Uid> = self.groups.members(key).cloned().collect();
        for uid in members {
            let gate = self.queue.get(&uid).and_then(|queued| self.gate(&queued.pod));
            if let Some(gate) = gate {
                self.queue.hold_back(&uid, gate, anew);
            }
        }
    }
}
