//! The members of groups that the scheduler knows, and what was written about groups.
//!
//! It decides nothing. Which pods have a node is the cache's knowledge. Upstream:
//! `pkg/scheduler/backend/cache/podgroupstate.go`.

use crate::cache::Cache;
use crate::collections::hash::FixedMap;
use crate::model::group::{GroupCondition, GroupKey};
use crate::model::intern::{Marks, TraceIds};
use crate::model::pod::Uid;
use crate::report::group::GroupReport;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The members of all groups, and the conditions that were sent.
#[derive(Default)]
pub(in crate::scheduler) struct Groups {
    /// The members that the scheduler knows: pending pods of its profiles, and bound pods of any scheduler.
    members: BTreeMap<GroupKey, BTreeSet<Uid>>,
    of_pod: FixedMap<Uid, GroupKey>,
    /// The condition that was sent last, by uid of the group, until the watch shows it.
    sent: FixedMap<Uid, GroupCondition>,
    pub(in crate::scheduler) reports: VecDeque<GroupReport>,
    /// The victims of the last cycle that chose some, until the group starts or its last member leaves.
    victims: BTreeMap<GroupKey, Vec<Uid>>,
}

impl Groups {
    /// Whether no pod names a group.
    pub(in crate::scheduler) fn is_empty(&self) -> bool {
        self.of_pod.is_empty()
    }

    /// Returns the number of members of all groups.
    pub(in crate::scheduler) fn len(&self) -> usize {
        self.of_pod.len()
    }

    /// Returns the uids of the members of all groups, in arbitrary order.
    pub(in crate::scheduler) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.of_pod.keys()
    }

    /// Adds a member, and returns whether it is new.
    pub(super) fn add(&mut self, key: GroupKey, uid: &Uid) -> bool {
        self.of_pod.insert(Arc::clone(uid), key);
        self.members.entry(key).or_default().insert(Arc::clone(uid))
    }

    /// Removes a member and returns its group.
    pub(super) fn remove(&mut self, uid: &str) -> Option<GroupKey> {
        let key = self.of_pod.remove(uid)?;
        if let Some(members) = self.members.get_mut(&key) {
            members.remove(uid);
            if members.is_empty() {
                self.members.remove(&key);
                self.victims.remove(&key);
            }
        }
        Some(key)
    }

    /// Returns the members of a group, by uid.
    pub(in crate::scheduler) fn members(&self, key: GroupKey) -> impl Iterator<Item = &Uid> {
        self.members.get(&key).into_iter().flatten()
    }

    /// Returns the groups that pods name.
    pub(in crate::scheduler) fn keys(&self) -> impl Iterator<Item = GroupKey> {
        self.members.keys().copied()
    }

    /// Returns the number of all members of a group.
    pub(in crate::scheduler) fn known(&self, key: GroupKey) -> usize {
        self.members.get(&key).map_or(0, BTreeSet::len)
    }

    /// Returns the number of members that are bound or assumed.
    pub(in crate::scheduler) fn scheduled(&self, key: GroupKey, cache: &Cache) -> usize {
        self.members(key).filter(|uid| cache.placed(uid).is_some()).count()
    }

    /// Replaces the victims that a group waits for.
    pub(super) fn set_victims(&mut self, key: GroupKey, victims: &[Uid]) {
        if victims.is_empty() {
            self.victims.remove(&key);
        } else {
            self.victims.insert(key, victims.to_vec());
        }
    }

    /// Whether victims of the group are not gone yet.
    pub(super) fn awaits_victims(&self, key: GroupKey, cache: &Cache) -> bool {
        self.victims.get(&key).is_some_and(|victims| victims.iter().any(|uid| cache.placed(uid).is_some()))
    }

    /// Whether victims of the group are terminating.
    pub(super) fn has_terminating_victims(&self, key: GroupKey, cache: &Cache) -> bool {
        let is_terminating = |uid: &Uid| cache.placed(uid).is_some_and(|(pod, ..)| pod.deleting);
        self.victims.get(&key).is_some_and(|victims| victims.iter().any(is_terminating))
    }

    /// Returns the condition that was sent last for a group, if the watch does not show it yet.
    pub(in crate::scheduler) fn sent(&self, uid: &str) -> Option<&GroupCondition> {
        self.sent.get(uid)
    }

    /// Records a condition that is sent.
    pub(super) fn send(&mut self, uid: &Uid, condition: GroupCondition) {
        self.sent.insert(Arc::clone(uid), condition);
    }

    /// Handles a condition that the watch shows, or the deletion of the group.
    pub(super) fn shown(&mut self, uid: &str, condition: Option<&GroupCondition>) {
        if condition.is_none() || self.sent.get(uid) == condition {
            self.sent.remove(uid);
        }
    }
}

impl TraceIds for Groups {
    fn mark(&self, marks: &mut Marks) {
        let Self { members, of_pod: _, sent: _, reports: _, victims } = self;
        members.keys().chain(victims.keys()).for_each(|key| key.mark(marks));
    }
}
