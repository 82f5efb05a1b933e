//! A read-only view of all pods without a node, or with a node that the API server does not show yet.

use super::Scheduler;
use super::binding::Binding;
use super::budget::Size;
use super::extend::SuspendedDecision;
use crate::explain::Findings;
use crate::model::group::{GroupCondition, GroupKey, GroupPolicy, PodGroup};
use crate::model::intern::Symbol;
use crate::model::node::NodeIdx;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::queue::{QueuedPod, SubQueue};
use std::collections::BTreeMap;

/// The stage of a pod on its way to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodLocation {
    /// In the queue.
    Queued(SubQueue),
    /// Its decision waits for extenders.
    Extenders,
    /// It is evaluated in slices, because one evaluation takes too long for one step.
    Evaluation,
    /// It has a node, and its volumes are being bound or provisioned.
    Volumes(Symbol),
    /// It has a node, and its binding is waiting, in flight, or not visible in the watch yet.
    Binding {
        /// The node.
        node: Symbol,
        /// Whether the outcome of the binding is unknown.
        is_outcome_unknown: bool,
    },
}

/// The verdicts of every filter for some of the nodes.
#[derive(Clone, Debug, Default)]
pub struct ExplainedPart {
    /// The verdicts; `None` for a pod that is not explained.
    pub findings: Option<Findings>,
    /// The slot at which to continue; `None` if these were the last nodes.
    pub next: Option<usize>,
}

/// A pending pod and its stage.
#[derive(Clone, Copy, Debug)]
pub struct Pending<'a> {
    /// The queue's record of the pod, which exists in every stage.
    pub queued: &'a QueuedPod,
    /// Its stage.
    pub at: PodLocation,
    /// When the stage began, as far as known.
    pub since: Time,
    /// The latest time of the next attempt without any event; `None` if only an event or the pod's order in the queue
    /// decides.
    pub next_try: Option<Time>,
}

/// Numbers of groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Groups with a member in the queue.
    pub waiting: usize,
    /// Groups that have started, and of which fewer members than `minCount` have a node.
    pub below_min_count: usize,
    /// Groups with a member in the queue whose members fit into the free resources of all nodes together, but could not
    /// start in the last cycle.
    pub fragmented: usize,
    /// The groups that are entries of the queue; `None` before 1.37 and without GenericWorkload.
    pub entries: Option<GroupEntries>,
}

/// The groups that are entries of the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupEntries {
    /// Groups by place.
    pub groups: BTreeMap<SubQueue, usize>,
    /// The members of these groups by place.
    pub members: BTreeMap<SubQueue, usize>,
    /// Gated pods whose PodGroup does not exist.
    pub incomplete: usize,
}

impl GroupEntries {
    /// Counts a group with members in these places. A group is where its first member is.
    fn count(&mut self, exists: bool, places: &[SubQueue]) {
        let Some(first) = places.iter().min() else { return };
        if !exists {
            self.incomplete += places.iter().filter(|&&place| place == SubQueue::Gated).count();
            return;
        }
        *self.groups.entry(*first).or_default() += 1;
        for place in places {
            *self.members.entry(*place).or_default() += 1;
        }
    }
}

/// The state of a group.
#[derive(Clone, Copy, Debug)]
pub struct PendingGroup<'a> {
    /// The PodGroup, if it exists.
    pub group: Option<&'a PodGroup>,
    /// The number of members that the scheduler knows.
    pub known: usize,
    /// The number of members that are bound or assumed.
    pub placed: usize,
    /// The condition that says whether the group was scheduled, as it was sent last.
    pub condition: Option<&'a GroupCondition>,
}

impl Pending<'_> {
    /// The pod.
    pub fn pod(&self) -> &PodInfo {
        &self.queued.pod
    }
}

/// Returns the stage of a suspended decision.
fn aside(waiting: &SuspendedDecision) -> PodLocation {
    if waiting.is_in_slices { PodLocation::Evaluation } else { PodLocation::Extenders }
}

impl Scheduler {
    /// Returns all pending pods, stage by stage.
    pub fn pending(&self) -> impl Iterator<Item = Pending<'_>> {
        let queued = self.queue.waiting().map(|(place, queued)| Pending {
            queued,
            at: PodLocation::Queued(place),
            since: queued.timestamp,
            next_try: self.queue.next_try(place, queued),
        });
        let away = |queued, at, since| Pending { queued, at, since, next_try: None };
        let laid_aside = self
            .extender_calls
            .waiting()
            .map(move |waiting| away(&waiting.queued, aside(waiting), waiting.began));
        let volumes = self
            .volume_bindings
            .iter()
            .map(move |(queued, node, since)| away(queued, PodLocation::Volumes(node), since));
        let bindings: BTreeMap<_, _> = self.bindings.iter().collect();
        let bindings = bindings.into_values().filter_map(Binding::pending);
        let bindings = bindings.map(move |(queued, node, since, is_outcome_unknown)| {
            away(queued, PodLocation::Binding { node, is_outcome_unknown }, since)
        });
        queued.chain(laid_aside).chain(volumes).chain(bindings)
    }

    /// Returns one pending pod.
    pub fn pending_one(&self, uid: &Uid) -> Option<Pending<'_>> {
        let away = |queued, at, since| Pending { queued, at, since, next_try: None };
        if let Some((place, queued)) = self.queue.sub_queue_of(uid) {
            let next_try = self.queue.next_try(place, queued);
            return Some(Pending {
                queued,
                at: PodLocation::Queued(place),
                since: queued.timestamp,
                next_try,
            });
        }
        if let Some(waiting) = self.extender_calls.waiting_pod(uid) {
            return Some(away(&waiting.queued, aside(waiting), waiting.began));
        }
        if let Some((queued, node, since)) = self.volume_bindings.pod(uid) {
            return Some(away(queued, PodLocation::Volumes(node), since));
        }
        let (queued, node, since, is_outcome_unknown) = self.bindings.get(uid)?.pending()?;
        Some(away(queued, PodLocation::Binding { node, is_outcome_unknown }, since))
    }

    /// Returns the state of a group that pods name.
    pub fn pending_group(&self, key: GroupKey) -> PendingGroup<'_> {
        let group = self.cache.lookups().group(key);
        PendingGroup {
            group,
            known: self.known(key),
            placed: self.scheduled(key),
            condition: group.and_then(|group| self.condition_of(group)),
        }
    }

    /// Returns the numbers of groups. Costs one lookup per member.
    pub(super) fn group_stats(&self) -> GroupStats {
        let rules = self.tables.rules();
        let are_entries = rules.groups.workloads && rules.group_rules.queues_groups;
        let mut stats =
            GroupStats { entries: are_entries.then(GroupEntries::default), ..GroupStats::default() };
        for key in self.groups.keys() {
            let members = self.groups.members(key);
            let places: Vec<SubQueue> =
                members.filter_map(|uid| Some(self.queue.sub_queue_of(uid)?.0)).collect();
            stats.waiting += usize::from(!places.is_empty());
            stats.fragmented += usize::from(!places.is_empty() && self.groups.is_fragmented(key));
            let state = self.pending_group(key);
            if let Some(entries) = &mut stats.entries {
                entries.count(state.group.is_some(), &places);
            }
            let min = match state.group.map(|group| group.policy) {
                Some(GroupPolicy::Gang(min)) => min,
                Some(GroupPolicy::Basic) | None => 0,
            };
            let has_started = state.group.is_some_and(|group| self.has_started(group));
            stats.below_min_count += usize::from(has_started && state.placed < min);
        }
        stats
    }

    /// Evaluates every filter for a pending pod on at most `at_most` nodes, starting at slot `from`.
    ///
    /// Returns no verdicts for pods that have a node, and for large pods, whose evaluation would take too long.
    pub fn explain_pending(&self, pending: &Pending<'_>, from: usize, at_most: usize) -> ExplainedPart {
        let has_node = matches!(pending.at, PodLocation::Volumes(_) | PodLocation::Binding { .. });
        // All verdicts for a large pod take as long as its evaluation, which runs in slices.
        let is_large = !matches!(self.size_of(pending.pod()), Size::Usual);
        let Some(profile) = self.profile_of(pending.pod()).filter(|_| !has_node && !is_large) else {
            return ExplainedPart::default();
        };
        let snapshot = self.snapshot();
        let mut rest = snapshot.nodes().iter().skip_while(|node| node.index() < from);
        let part: Vec<NodeIdx> = rest.by_ref().take(at_most).collect();
        let next = rest.next().map(NodeIdx::index);
        let findings = profile.framework.explain_on(pending.pod(), snapshot, part);
        ExplainedPart { findings: Some(findings), next }
    }

    /// Whether this replica is the leader.
    pub fn is_leading(&self) -> bool {
        self.leading
    }
}

#[cfg(test)]
mod tests {
    use super::{GroupEntries, SubQueue};
    use crate::model::event::Event;
    use crate::scheduler::quarantine::tests::{World, node};

    #[test]
    fn unschedulable_pod_is_explained_part_by_part() {
        let mut world = World::new();
        for name in ["b", "c"] {
            let node = node(world.scheduler.tables(), name);
            world.handle(Event::NodeApplied(node));
        }
        world.pod("large", 9_000, None);
        world.run();
        let pending = world.scheduler.pending_one(&"large".into()).expect("it is pending");
        let (mut from, mut parts) = (Some(0), Vec::new());
        while let Some(at) = from {
            let part = world.scheduler.explain_pending(&pending, at, 2);
            let nodes = part.findings.expect("it is explained").nodes;
            assert!(nodes.iter().all(|node| node.objections.len() == 1), "{nodes:?}");
            parts.push(nodes.iter().map(|node| node.node.index()).collect::<Vec<_>>());
            from = part.next.filter(|_| parts.len() < 9);
        }
        assert_eq!(parts, [vec![0, 1], vec![2]]);
    }

    #[test]
    fn pod_with_a_node_is_not_explained() {
        let mut world = World::new();
        world.pod("p", 500, None);
        world.run();
        let pending = world.scheduler.pending_one(&"p".into()).expect("it is pending");
        let part = world.scheduler.explain_pending(&pending, 0, 9);
        assert!(part.findings.is_none() && part.next.is_none(), "{part:?}");
    }

    #[test]
    fn engine_leads_until_it_loses_the_lead() {
        let mut world = World::new();
        assert!(world.scheduler.is_leading());
        world.handle(Event::Leading(false));
        assert!(!world.scheduler.is_leading());
    }

    #[test]
    fn group_counts_where_its_first_member_is_and_without_a_podgroup_as_incomplete() {
        use SubQueue::{Active, Gated, Unschedulable};
        let mut entries = GroupEntries::default();
        entries.count(true, &[]);
        assert_eq!(entries, GroupEntries::default());
        entries.count(true, &[Unschedulable, Active, Unschedulable]);
        entries.count(true, &[Active, Gated]);
        entries.count(true, &[Gated]);
        entries.count(false, &[Gated, Unschedulable, Gated]);
        entries.count(false, &[Gated]);
        let expected = GroupEntries {
            groups: [(Active, 2), (Gated, 1)].into(),
            members: [(Active, 2), (Unschedulable, 2), (Gated, 2)].into(),
            incomplete: 3,
        };
        assert_eq!(entries, expected);
    }
}
