//! Reservations: the oldest waiting group that asks for one keeps the nodes where its members fit.
//!
//! The members that fit are nominated to their nodes, so pods of the same or a lower priority leave that room free, and
//! use all other room. Each attempt finds nodes for more members, until the group starts. Only one group has a
//! reservation at a time, so no two groups each hold what the other needs. Upstream reserves nothing.

use super::super::Scheduler;
use super::super::failure::Failure;
use super::submit::Fate;
use crate::cycle::Nominate;
use crate::model::group::{GroupKey, GroupPolicy, PodGroup};
use crate::model::intern::Symbol;
use crate::model::time::Time;

impl Scheduler {
    /// Whether the group keeps the nodes that its members find: it asks for that, and waits longest of those that do.
    pub(super) fn reserves(&self, key: GroupKey) -> bool {
        self.asks_for_reservation(key) && self.first_to_reserve() == Some(key)
    }

    /// Whether the group asks for a reservation and still has to start.
    fn asks_for_reservation(&self, key: GroupKey) -> bool {
        let asks = |group: &PodGroup| self.options_of(group).is_some_and(|options| options.reserves);
        self.cache.lookups().group(key).is_some_and(asks)
            && matches!(self.current_policy(key), Some(GroupPolicy::Gang(min)) if self.scheduled(key) < min)
            && !self.groups.limits.is_given_up(key)
    }

    /// Returns the group that waits longest of those that ask for a reservation.
    fn first_to_reserve(&self) -> Option<GroupKey> {
        let waiting = self.groups.limits.oldest_members();
        let asking = waiting.filter(|&(key, _)| self.asks_for_reservation(key));
        let by_age = asking
            .min_by_key(|&(key, since)| (since, self.tables.text(key.namespace), self.tables.text(key.name)));
        by_age.map(|(key, _)| key)
    }

    /// Lets the next group that asks for a reservation try again, after one started or ended.
    pub(super) fn pass_on_reservation(&mut self, now: Time) {
        if let Some(next) = self.first_to_reserve() {
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
