//! Pod groups: the members of a group are decided in one cycle, and start together or not at all.
//!
//! Each member has its own record in the queue. When one is popped, all others that may be tried come along, so a group
//! is one entry in effect. The cycle decides on the members one after the other, each assumed in the cache for the
//! next one, and undoes all of it. Then the result of the whole group is carried out.
//!
//! Upstream: `pkg/scheduler/schedule_one_podgroup.go`, `pkg/scheduler/framework/plugins/gangscheduling`.

mod capacity;
mod condition;
mod cycle;
mod entry;
mod feasibility;
mod ledger;
mod member;
mod path;
mod placements;
mod preempt;
mod preferred;
mod progress;
mod reprieve;
mod reserve;
mod roles;
mod search;
mod shared;
mod slices;
mod snapshot_gaps;
mod start;
mod submit;
mod time_limit;
mod trial;

use ledger::{Seen, Standing};

pub(super) use ledger::{Groups, MemberBefore};
pub(super) use member::Scope;
pub(super) use start::QueuedStart;
pub(super) use trial::{GroupTried, MemberTried};

use super::Scheduler;
use super::departure::Departure;
use crate::framework::extension_point::ExtensionPoint;
use crate::framework::{ClusterEvent, Hint, PluginName};
use crate::model::group::{GroupKey, GroupPolicy, PodGroup};
use crate::model::group_options::{GroupOptions, Replacements, START_WITHIN};
use crate::model::intern::Symbol;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::plugins::gang_scheduling;
use crate::preemption;
use crate::switches::mutation::{self, Mutation};
use std::sync::Arc;

impl Scheduler {
    /// Lets decisions be compared with recorded ones of kube-scheduler: the first name wins among equal nodes,
    /// candidates and placements, nominations reach the queue as late as there, and a pod in backoff is not tried
    /// early.
    pub fn set_comparable(&mut self) {
        self.is_comparable = true;
        self.queue.keep_backoffs();
        self.verify.suspend();
    }

    /// Names in reports the members that have a node in each placement, which costs more than the decision itself.
    pub fn report_members_of_placements(&mut self) {
        self.groups.reports_members = true;
    }

    /// Returns why GangScheduling gates the pod, if it does.
    pub fn gang_gate(&self, pod: &PodInfo) -> Option<String> {
        let key = pod.group_key()?;
        let framework = &self.profile_of(pod)?.framework;
        if !framework.runs(ExtensionPoint::PreEnqueue, gang_scheduling::NAME) {
            return None;
        }
        if self.groups.limits.is_given_up(key) {
            return Some(format!("the pod group did not start in time; see annotation {START_WITHIN}"));
        }
        gang_scheduling::pre_enqueue(self.current_policy(key), self.tables.text(key.name), self.known(key))
    }

    /// As [`Self::gang_gate`], for the queue.
    pub(super) fn group_gate(&self, pod: &PodInfo) -> Option<PluginName> {
        self.gang_gate(pod).map(|_| gang_scheduling::NAME).or_else(|| self.gate_of_others(pod))
    }

    /// Counts a pod as a member of its group. Returns the group if the member is new. By default also if it counts from
    /// now on: a pod counts for `minCount` if it can be tried or has a node, and is not terminating.
    pub(super) fn member_seen(&mut self, now: Time, pod: &Arc<PodInfo>) -> Option<GroupKey> {
        let key = pod.group_key()?;
        if pod.node_name.is_none() && !self.is_ours(pod) {
            return None;
        }
        let is_gated = pod.node_name.is_none() && !pod.gates.is_empty();
        let standing = if is_gated && (!pod.deleting || self.tables.copies_defects()) {
            Standing::Gated
        } else if pod.deleting {
            Standing::Terminating
        } else {
            Standing::Counts
        };
        let since = self.groups.since(key);
        let seen = self.groups.add(key, &pod.uid, standing, created(pod));
        self.age_changed(now, key, since);
        match seen {
            Seen::New => Some(key),
            Seen::Counts => Some(key).filter(|_| !self.tables.copies_defects()),
            Seen::CountsNoMore => {
                self.others_may_start(now, key);
                None
            }
            Seen::GatedNoMore => {
                self.gated_member_left(now, key);
                None
            }
            Seen::Known => None,
        }
    }

    /// Counts a pod that gets a node in a trial as a member of its group. Returns what undoes that, if it changed
    /// anything.
    pub(super) fn member_placed(&mut self, pod: &PodInfo) -> Option<MemberBefore> {
        self.groups.count_in(pod.group_key()?, &pod.uid, created(pod))
    }

    /// Undoes [`Self::member_placed`].
    pub(super) fn restore_member(&mut self, before: MemberBefore) {
        self.groups.restore(before);
    }

    /// Returns the number of members that count for `minCount` before they are tried.
    pub(super) fn known(&self, key: GroupKey) -> usize {
        if self.tables.copies_defects() {
            self.groups.known(key)
        } else {
            self.groups.number(key, Standing::Counts)
        }
    }

    /// Returns the members that have a node. By default, terminating ones count for nothing.
    pub(super) fn scheduled_members(
        &self,
        key: GroupKey,
    ) -> impl Iterator<Item = (&Arc<PodInfo>, Symbol)> + '_ {
        let counts_all = self.tables.copies_defects();
        let placed = self.groups.members(key).filter_map(|uid| self.cache.placed(uid));
        placed.map(|(pod, node, _)| (pod, node)).filter(move |(pod, _)| counts_all || !pod.deleting)
    }

    /// Returns the number of [`Self::scheduled_members`].
    pub(super) fn scheduled(&self, key: GroupKey) -> usize {
        if self.tables.copies_defects() {
            self.scheduled_members(key).count()
        } else {
            self.cache.members_of(key)
        }
    }

    /// Returns a group as it is decided now, by [`Self::current_policy`].
    fn current_group(&self, key: GroupKey) -> Option<PodGroup> {
        let policy = self.current_policy(key)?;
        Some(PodGroup { policy, ..self.cache.lookups().group(key)?.clone() })
    }

    /// Returns the policy by which a group is decided now. By default, a group that has started and still has a member
    /// with a node takes replacements one by one.
    fn current_policy(&self, key: GroupKey) -> Option<GroupPolicy> {
        let group = self.cache.lookups().group(key)?;
        let options = self.options_of(group);
        let is_one_by_one = options.is_some_and(|it| it.replacements == Replacements::OneByOne);
        let runs = is_one_by_one && self.scheduled(key) > 0 && self.has_started(group);
        Some(if runs { GroupPolicy::Basic } else { group.policy })
    }

    /// Returns what the group's annotations ask for; `None` if one is invalid. Upstream knows none of them.
    fn options_of<'a>(&self, group: &'a PodGroup) -> Option<&'a GroupOptions> {
        group.options.as_ref().ok().filter(|_| !self.tables.copies_defects())
    }

    /// Handles a pod that leaves: it is no member any more, unless it was bound.
    pub(super) fn member_left(&mut self, now: Time, uid: &str, why: &Departure<'_>) {
        if let Departure::Bound(pod, _) = why {
            pod.group_key().inspect(|key| self.groups.leaves_rest(*key, uid));
            return;
        }
        if self.groups.is_empty() {
            return;
        }
        let since = self.groups.of(uid).and_then(|key| self.groups.since(key));
        let was_placed = self.cache.placed(uid).is_some();
        let Some((key, standing)) = self.groups.remove(uid) else { return };
        // The cache was rebuilt without a quarantined pod.
        let was_bound = was_placed || self.groups.is_of_rest(key, uid);
        if self.groups.known(key) == 0 {
            self.forget_limit(key);
            if was_bound {
                self.note_ended(now, key);
            }
            self.forget_progress(key);
            self.group_preemption_left(now, key);
            self.pass_on_reservation(now);
        } else {
            if was_bound {
                self.note_ended(now, key);
            }
            self.age_changed(now, key, since);
            self.others_may_start(now, key);
            if standing == Some(Standing::Gated) {
                self.gated_member_left(now, key);
            }
        }
    }

    /// Handles a member whose scheduling gates kept the others out of the queue.
    fn gated_member_left(&mut self, now: Time, key: GroupKey) {
        if self.group_rules().queues_groups {
            self.release_members(now, key);
            self.hold_back_members(key, false);
        }
    }

    /// Handles a member that left. The others are tried without it: it may have come before them, or kept them in its
    /// topology domain. Upstream tries them after their backoff.
    fn others_may_start(&mut self, now: Time, key: GroupKey) {
        if !self.tables.copies_defects() {
            self.requeue_members(now, key);
            self.check_reservation(now, key);
        }
    }

    /// Handles new labels of a member, which may name its role or rank.
    pub(super) fn member_relabeled(&mut self, now: Time, old: &PodInfo, pod: &PodInfo) {
        if let Some(key) = pod.group_key().filter(|_| old.labels != pod.labels) {
            self.others_may_start(now, key);
            self.look_at_starts();
        }
    }

    /// Whether the group requires a topology domain.
    fn is_constrained(&self, key: GroupKey) -> bool {
        let keys = self.cache.lookups().group(key).and_then(|group| group.topology.as_ref());
        self.tables.rules().groups.topology && keys.is_some_and(|keys| !keys.is_empty())
    }

    /// Releases the members that GangScheduling gates and that may be tried now, in the order in which they came. Those
    /// that another plugin gates now wait for that plugin.
    pub(super) fn release_members(&mut self, now: Time, key: GroupKey) {
        if mutation::is_on(Mutation::GatedMembersNotReleased) {
            return;
        }
        let queues_groups = self.group_rules().queues_groups;
        let is_gated = |uid: &&Uid| {
            let gate = self.queue.get(uid).and_then(|queued| queued.gate);
            gate == Some(gang_scheduling::NAME) || queues_groups && gate.is_some()
        };
        let gated: Vec<Uid> = self.groups.members(key).filter(is_gated).cloned().collect();
        let first = gated.first().and_then(|uid| self.queue.get(uid));
        if first.is_some_and(|first| self.gang_gate(&first.pod).is_some()) {
            // It holds for all of them.
            return;
        }
        let mut free = Vec::new();
        for uid in gated {
            match self.queue.get(&uid).and_then(|queued| self.gate(&queued.pod)) {
                None => free.push(uid),
                Some(gate) => self.queue.hold_back(&uid, gate, false),
            }
        }
        self.queue.release_gated(now, &free);
    }

    /// Hides the nominations of all members of the pod's group, and returns them.
    pub(super) fn hide_members_nominations(&mut self, pod: &PodInfo) -> Vec<(Arc<PodInfo>, Symbol)> {
        let Some(key) = pod.group_key() else { return Vec::new() };
        let hide = |uid: &Uid| {
            let node = self.cache.nomination(uid)?;
            Some((self.cache.forget_nomination(uid)?, node))
        };
        self.groups.members(key).filter_map(hide).collect()
    }

    /// Lets a new member wait if its group waits for victims.
    pub(super) fn join_preemption(&mut self, key: GroupKey, uid: &Uid) {
        if let Some(group) = self.cache.lookups().group(key)
            && self.preemptions.join(&group.uid, uid)
        {
            self.queue.block(uid, preemption::NAME);
        }
    }

    /// Handles a new member: others may be tried now.
    pub(super) fn member_joined(&mut self, now: Time, key: GroupKey, uid: &Uid) {
        self.release_members(now, key);
        if !self.tables.copies_defects() {
            self.requeue_members(now, key);
        }
        if self.group_rules().queues_groups {
            self.join_entry(now, key, uid);
        }
        self.check_reservation(now, key);
        self.look_at_starts();
    }

    /// Handles a member that another scheduler bound: fewer of the others have to start together.
    pub(super) fn member_bound_by_others(&mut self, now: Time, key: GroupKey) {
        if !self.tables.copies_defects() {
            self.release_members(now, key);
            self.requeue_members(now, key);
            self.check_reservation(now, key);
            self.look_at_starts();
        }
    }

    /// Handles a new node or a new label: groups that require a topology domain may find another placement.
    pub(super) fn placements_changed(&mut self, now: Time) {
        if self.groups.is_empty() {
            return;
        }
        let keys = self.cache.lookups().group_keys();
        let constrained: Vec<GroupKey> = keys.filter(|&key| self.is_constrained(key)).collect();
        for key in constrained {
            self.requeue_members(now, key);
        }
    }

    /// Handles a PodGroup that was added or changed.
    pub(super) fn group_applied(&mut self, now: Time, group: PodGroup) {
        let (key, priority, policy) = (group.key, group.priority, group.policy);
        let options = group.options.clone();
        if self.cache.lookups().group(key).is_some_and(|old| old.uid != group.uid) {
            // It was recreated, and the watch or list shows only the result.
            self.group_gone(now, key);
        }
        self.queue.set_group_priority(key, self.group_rules().queues_groups.then_some(priority));
        let before = self.current_policy(key);
        if group.scheduled.is_none() && self.tables.copies_defects() {
            self.groups.sent.forget(&group.uid);
        }
        self.groups.sent.shown(&group.uid, group.scheduled.as_ref());
        let disruption = group.disruption;
        let old = self.cache.lookups_mut().set_group(group);
        if old.as_ref().is_none_or(|old| (old.disruption, old.priority) != (disruption, priority)) {
            self.eviction_changed(now, key, old.as_ref().map_or(priority, |old| old.priority.min(priority)));
        }
        let is_mutable = !self.tables.copies_defects() || self.group_rules().queues_groups;
        // The condition matters, too: a group that was scheduled once may take replacements one by one.
        let is_changed = before != self.current_policy(key);
        let differs = |old: PodGroup| is_changed || old.options != options;
        if old.as_ref().is_none_or(|old| old.options != options) {
            self.take_up(key);
        }
        if old.as_ref().is_some_and(|old| old.policy != policy || old.options != options) {
            self.end_rest(now, key);
        }
        self.check_sent(now, key, false);
        self.check_started(now, key);
        self.correct_condition(now, key, !self.is_list_awaited());
        if old.is_none_or(|old| is_mutable && differs(old)) {
            self.release_members(now, key);
            self.requeue_members(now, key);
        }
        self.check_reservation(now, key);
        self.look_at_starts();
    }

    /// Requeues the pods that may preempt members of a group, which are evicted in another way now: as a whole, one by
    /// one, or at another priority. Neither priority of the group is below `lowest`. Upstream does not requeue them.
    fn eviction_changed(&mut self, now: Time, key: GroupKey, lowest: i32) {
        if self.tables.copies_defects() {
            return;
        }
        let priorities = self.scheduled_members(key).map(|(pod, _)| pod.priority);
        let Some(lowest) = priorities.min().map(|priority| priority.min(lowest)) else { return };
        let wakes = &mut |_, pod: &PodInfo| if pod.priority > lowest { Hint::Queue } else { Hint::Skip };
        self.requeues.note();
        self.queue.move_all(now, &ClusterEvent::Other, &|_| true, wakes);
    }

    /// Ranks groups in the queue by the rules of another version.
    pub(super) fn rank_groups(&mut self) {
        let is_ranked = self.group_rules().queues_groups;
        for group in self.cache.lookups().groups() {
            self.queue.set_group_priority(group.key, is_ranked.then_some(group.priority));
        }
    }

    /// Handles the deletion of a PodGroup. Members that are gated stay so, and others are tried in vain.
    pub(super) fn group_gone(&mut self, now: Time, key: GroupKey) {
        if let Some(group) = self.cache.lookups_mut().remove_group(key) {
            self.eviction_changed(now, key, group.priority);
            self.preemptor_left(now, &group.uid);
            self.groups.forget_condition(key, &group.uid);
            self.forget_progress(key);
            self.end_rest(now, key);
            self.outbox.cancel_group_patch(&group.uid);
            self.take_up(key);
            self.check_reservation(now, key);
            self.pass_on_reservation(now);
            self.queue.set_group_priority(key, None);
        }
        if self.group_rules().queues_groups {
            self.hold_back_members(key, true);
        }
    }

    /// Returns the members that are in the queue.
    pub(super) fn pending_members(&self, key: GroupKey) -> Vec<Uid> {
        self.groups.members(key).filter(|uid| self.queue.contains(uid)).cloned().collect()
    }

    /// Requeues the members that wait for an event.
    fn requeue_members(&mut self, now: Time, key: GroupKey) {
        let members: Vec<Uid> = self.groups.members(key).cloned().collect();
        for uid in members {
            self.queue.requeue_now(now, &uid);
        }
    }
}

/// Returns when the member was created.
fn created(pod: &PodInfo) -> Time {
    pod.group.as_ref().map_or(Time::from_nanos(0), |membership| membership.created)
}
