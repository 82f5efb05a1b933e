//! What preemption by a pod evicts together: a single pod, or all members of a group whose disruption mode is `all`.
//!
//! From 1.37 on, and by default in every version, members are judged by the priority of their group. Without the gate
//! WorkloadAwarePreemption, and in a cluster without groups, each pod stands for itself.
//!
//! Upstream: `pkg/scheduler/framework/preemption/types.go`, `util.go` of 1.37.

use super::sort::sort_as_go;
use crate::cache::Snapshot;
use crate::model::group::{DisruptionMode, GroupKey, PodGroup};
use crate::model::node::NodeIdx;
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// How groups limit what preemption by a pod may evict.
pub(super) struct GroupVictims<'a> {
    snapshot: Snapshot<'a>,
    is_on: bool,
    /// The pods on nodes by group; found when the first group that is evicted as a whole is met.
    members: OnceCell<BTreeMap<GroupKey, Vec<&'a PodInfo>>>,
}

/// Pods that are evicted together.
pub(super) struct Unit<'a> {
    pub(super) priority: i32,
    is_of_group: bool,
    /// The pods on the node of the dry run.
    pub(super) here: Vec<&'a PodInfo>,
    /// All pods.
    pub(super) pods: Vec<&'a PodInfo>,
    /// The earliest start. Pods that have not started follow in the order in which they were read.
    started: (Time, usize),
}

impl<'a> GroupVictims<'a> {
    /// Returns the limits in a snapshot.
    pub(super) fn of(snapshot: Snapshot<'a>) -> Self {
        let rules = snapshot.rules();
        let judges = rules.group_rules.preempts_by_one_run || !snapshot.copies_defects();
        let is_on = judges && rules.groups.preemption && snapshot.lookups().groups().next().is_some();
        Self { snapshot, is_on, members: OnceCell::new() }
    }

    /// Whether members are judged by their groups at all.
    pub(super) fn are_judged(&self) -> bool {
        self.is_on
    }

    /// Whether members of groups are on the node, so that its dry run depends on more than its pods.
    pub(super) fn concern(&self, node: NodeIdx) -> bool {
        self.is_on && self.snapshot.pods_on(node).any(|pod| pod.group.is_some())
    }

    /// Returns a priority that no pod on a node is below; `None` if there are no pods.
    pub(super) fn lowest_priority(&self) -> Option<i32> {
        let lowest = self.snapshot.lowest_priority()?;
        let of_groups = || self.snapshot.lookups().groups().map(|group| group.priority).min();
        let of_groups = if self.is_on { of_groups() } else { None };
        Some(of_groups.map_or(lowest, |of_groups| of_groups.min(lowest)))
    }

    /// Returns the priority by which a pod is judged as a victim.
    pub(super) fn priority(&self, pod: &PodInfo) -> i32 {
        self.group(pod).map_or(pod.priority, |group| group.priority)
    }

    fn group(&self, pod: &PodInfo) -> Option<&'a PodGroup> {
        let key = pod.group_key().filter(|_| self.is_on)?;
        self.snapshot.lookups().group(key)
    }

    /// Returns the units with pods on a node, in the node's order.
    pub(super) fn units_on(&self, node: NodeIdx, now: Time) -> Vec<Unit<'a>> {
        let (mut units, mut whole): (Vec<Unit<'a>>, BTreeMap<GroupKey, usize>) = Default::default();
        for (at, pod) in self.snapshot.pods_on(node).enumerate() {
            let group = self.group(pod);
            let together = group.filter(|group| group.disruption == DisruptionMode::All);
            let known = together.and_then(|group| whole.get(&group.key));
            if let Some(&known) = known {
                units[known].here.push(pod);
                continue;
            }
            let pods = match together {
                Some(group) => {
                    whole.insert(group.key, units.len());
                    self.members_of(group.key)
                }
                None => vec![pod],
            };
            let started = |pod: &&PodInfo| pod.start_time.map_or((now, at + 1), |start| (start, 0));
            units.push(Unit {
                priority: self.priority(pod),
                is_of_group: pod.group.is_some(),
                here: vec![pod],
                started: pods.iter().map(started).min().unwrap_or((now, at + 1)),
                pods,
            });
        }
        units
    }

    fn members_of(&self, key: GroupKey) -> Vec<&'a PodInfo> {
        let members = self.members.get_or_init(|| {
            let mut members: BTreeMap<GroupKey, Vec<&PodInfo>> = BTreeMap::new();
            let pods = self.snapshot.nodes().iter().flat_map(|node| self.snapshot.pods_on(node));
            for pod in pods {
                if let Some(key) = pod.group_key() {
                    members.entry(key).or_default().push(pod);
                }
            }
            members
        });
        members.get(&key).cloned().unwrap_or_default()
    }
}

impl Unit<'_> {
    /// Whether all pods are on the node of the dry run.
    pub(super) fn is_local(&self) -> bool {
        self.here.len() == self.pods.len()
    }

    /// Whether this unit is more important than another one: priority, members of groups, number of pods, start.
    fn is_before(&self, other: &Self) -> bool {
        let rank = |unit: &Self| (unit.priority, unit.is_of_group, unit.pods.len());
        let (own, others) = (rank(self), rank(other));
        own > others || own == others && self.started < other.started
    }
}

/// Sorts units by importance, highest first. Units of equal importance end in upstream's order.
pub(super) fn sort(units: &mut [Unit<'_>]) {
    sort_as_go(units, |a, b| a.is_before(b));
}
