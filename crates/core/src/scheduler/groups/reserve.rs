//! Reservations: the oldest waiting group that asks for one keeps the nodes where its members fit.
//!
//! The members that fit are nominated to their nodes, so pods of the same or a lower priority leave that room free, and
//! use all other room. Each attempt finds nodes for more members, until the group starts. Only one group has a
//! reservation at a time, so no two groups each hold what the other needs. Upstream reserves nothing.

use super::super::Scheduler;
use super::super::failure::Failure;
use super::cycle::Verdict;
use super::ledger::Standing;
use super::progress::Stage;
use super::start::minimum;
use super::submit::Fate;
use crate::cycle::Nominate;
use crate::model::group::{GroupKey, GroupPolicy, PodGroup};
use crate::model::intern::Symbol;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::queue::QueuedPod;
use std::sync::Arc;

impl Scheduler {
    /// Whether the group that is tried keeps the nodes that its members find: it asks for that, and waits longest of
    /// those that do.
    pub(super) fn reserves(&self, key: GroupKey) -> bool {
        self.may_reserve(key) && self.first_to_reserve(Some(key)) == Some(key)
    }

    /// Whether the group asks for a reservation, still has to start, has enough members for that, and too few of them
    /// have a node.
    pub(super) fn may_reserve(&self, key: GroupKey) -> bool {
        let lacks_nodes = |min| {
            let scheduled = self.scheduled_members(key).map(|(pod, _)| pod);
            self.scheduled(key) < min || self.role_shortage(key, scheduled).is_some()
        };
        self.asks_to_wait(key).is_some_and(lacks_nodes)
    }

    /// Returns the number of members that a group needs which asks for a reservation, still has to start, and has
    /// enough members for that.
    fn asks_to_wait(&self, key: GroupKey) -> Option<usize> {
        let group = self.cache.lookups().group(key)?;
        self.options_of(group).filter(|options| options.reserves)?;
        // Bindings that were sent may all be refused.
        let is_sent = self.groups.progress(key).stage == Stage::Sent;
        let policy = if is_sent { Some(group.policy) } else { self.current_policy(key) };
        let Some(GroupPolicy::Gang(min)) = policy else { return None };
        let is_complete = self.known(key) >= min
            && (!self.group_rules().queues_groups || self.groups.number(key, Standing::Gated) == 0);
        (is_complete && !self.groups.limits.is_given_up(key)).then_some(min)
    }

    /// Whether enough members can be tried: gates of their own, such as a missing claim, may hold them.
    fn has_enough_to_try(&self, key: GroupKey) -> bool {
        let min = self.cache.lookups().group(key).map_or(0, |group| minimum(group.policy));
        let can_be_tried = |uid: &&Uid| {
            let is_free = |queued: &QueuedPod| queued.gate.is_none();
            self.cache.placed(uid).is_some_and(|(pod, ..)| !pod.deleting)
                || self.queue.get(uid).is_some_and(is_free)
        };
        self.groups.members(key).filter(can_be_tried).take(min).count() == min
    }

    /// Returns the group that waits longest of those that may reserve and can be tried. One that could not start anyway
    /// when it was tried last is only among them while it is tried. Otherwise it could keep others from a reservation
    /// for ever.
    fn first_to_reserve(&self, tried: Option<GroupKey>) -> Option<GroupKey> {
        let waiting = self.groups.waiting();
        let asking = waiting.filter(|&(key, _)| {
            let is_passed_over = || self.groups.passed_over.contains(&key) || !self.has_enough_to_try(key);
            if tried == Some(key) {
                self.asks_to_wait(key).is_some()
            } else {
                self.may_reserve(key) && !is_passed_over()
            }
        });
        let by_age = asking
            .min_by_key(|&(key, since)| (since, self.tables.text(key.namespace), self.tables.text(key.name)));
        by_age.map(|(key, _)| key)
    }

    /// Notes whether a group that may reserve could not start anyway: it is refused, fails, or does not fit on empty
    /// nodes.
    pub(super) fn note_passed_over(&mut self, now: Time, key: GroupKey, is_passed_over: bool) {
        if !is_passed_over {
            self.groups.passed_over.remove(&key);
        } else if self.groups.passed_over.insert(key) {
            self.pass_on_reservation(now);
        }
    }

    /// Notes whether the group keeps nodes after its cycle. If another one kept nodes, those are free now, and the
    /// group is tried again: no two groups keep a part of what the other needs.
    pub(super) fn note_reservation(&mut self, now: Time, key: GroupKey, verdict: &Verdict, reserves: bool) {
        match verdict {
            Verdict::Unschedulable(_) if reserves => self.reserve(now, key),
            // The members are nominated to the nodes of its victims.
            Verdict::Waiting(_) => _ = self.groups.reserving.remove(&key),
            // Its start failed in this cycle, and its members keep their nodes.
            Verdict::Scheduled if self.may_reserve(key) => {}
            _ if self.groups.reserving.contains(&key) => self.free_reserved(now, key),
            _ => {}
        }
    }

    fn reserve(&mut self, now: Time, key: GroupKey) {
        self.groups.reserving.insert(key);
        let others: Vec<GroupKey> = self.groups.reserving.iter().copied().filter(|it| *it != key).collect();
        for other in &others {
            self.free_reserved(now, *other);
        }
        if !others.is_empty() {
            self.requeue_members(now, key);
        }
    }

    /// Frees the nodes that a group keeps if it may not be tried any more, and lets the next one try.
    pub(super) fn check_reservation(&mut self, now: Time, key: GroupKey) {
        if self.groups.reserving.contains(&key) && !self.may_reserve(key) {
            self.free_reserved(now, key);
            self.pass_on_reservation(now);
        }
    }

    fn free_reserved(&mut self, now: Time, key: GroupKey) {
        self.groups.reserving.remove(&key);
        for uid in self.pending_members(key) {
            let is_nominated = self.cache.nomination(&uid).is_some();
            if let Some(queued) = self.queue.get(&uid).filter(|_| is_nominated) {
                self.end_nomination(now, &Arc::clone(&queued.pod));
            }
        }
    }

    /// Whether a member that fails after its decision keeps its node, because its group has a reservation until it
    /// starts. No other group keeps nodes then.
    pub(in crate::scheduler) fn keeps_node_after_failure(&mut self, now: Time, pod: &PodInfo) -> bool {
        pod.group_key().is_some_and(|key| self.may_reserve(key) && self.keeps_nodes_after_failure(now, key))
    }

    /// As [`Self::keeps_node_after_failure`], for all members of a group that still have nodes.
    pub(super) fn keeps_nodes_after_failure(&mut self, now: Time, key: GroupKey) -> bool {
        let keeps = self.asks_to_wait(key).is_some() && self.first_to_reserve(Some(key)) == Some(key);
        if keeps {
            self.reserve(now, key);
        }
        keeps
    }

    /// Handles a decision that is reverted: the pod has the nomination back that it had before.
    pub(in crate::scheduler) fn nomination_restored(&mut self, pod: &PodInfo) {
        let is_nominated = self.cache.nomination(&pod.uid).is_some();
        if let Some(key) = pod.group_key().filter(|&key| is_nominated && self.may_reserve(key)) {
            self.groups.reserving.insert(key);
        }
    }

    /// Takes over the reservations of the leader before: the nominations of waiting members whose groups ask for a
    /// reservation. A group that lacks members keeps no nodes. Nominations to nodes of victims are no reservations.
    pub(in crate::scheduler) fn adopt_reservations(&mut self, now: Time) {
        if !self.leading || self.is_list_awaited() {
            return;
        }
        let asks = |group: &&PodGroup| self.options_of(group).is_some_and(|options| options.reserves);
        let asking: Vec<GroupKey> = self.cache.lookups().groups().filter(asks).map(|it| it.key).collect();
        for key in asking {
            let members = self.pending_members(key);
            let mut nominated = members.iter().filter_map(|uid| self.cache.nomination(uid)).peekable();
            let runs = self.current_policy(key) == Some(GroupPolicy::Basic);
            let awaits_victims = |node| self.may_reserve(key) && self.has_terminating_pod(node);
            if runs || nominated.peek().is_none() || nominated.any(awaits_victims) {
                continue;
            }
            self.groups.reserving.insert(key);
            self.check_reservation(now, key);
        }
    }

    /// Forgets all reservations, which the next leader takes over.
    pub(in crate::scheduler) fn drop_reservations(&mut self) {
        self.groups.reserving.clear();
    }

    fn has_terminating_pod(&self, node: Symbol) -> bool {
        let snapshot = self.snapshot();
        snapshot.find_node(node).is_some_and(|node| snapshot.pods_on(node).any(|pod| pod.deleting))
    }

    /// Lets the next group that asks for a reservation try again, after one started or ended.
    pub(super) fn pass_on_reservation(&mut self, now: Time) {
        if let Some(next) = self.first_to_reserve(None) {
            self.requeue_members(now, next);
        }
    }
}

/// Keeps the node of a member that fits in a group that cannot start.
pub(super) fn keep_node(fate: &mut Fate, node: Symbol) {
    if let Fate::Fails(Failure::Member { nominate, .. }) = fate {
        *nominate = Nominate::To { node, victims: Vec::new() };
    }
}
