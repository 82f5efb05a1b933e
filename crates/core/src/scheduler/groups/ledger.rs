//! The members of groups that the scheduler knows, and what was written about groups.
//!
//! It makes no decisions. The cache knows which pods have a node. Upstream:
//! `pkg/scheduler/backend/cache/podgroupstate.go`.

use super::condition::SentConditions;
use super::progress::{Progress, Stage};
use super::start::Start;
use super::time_limit::TimeLimits;
use crate::cache::Cache;
use crate::collections::hash::FixedMap;
use crate::model::group::GroupKey;
use crate::model::intern::{Marks, TraceIds};
use crate::model::pod::Uid;
use crate::model::time::Time;
use crate::plugins::topology_placement::KnownDomains;
use crate::report::group::GroupReport;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Whether a member counts for `minCount`, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has a node or can be tried, and counts for `minCount`.
    Counts,
    /// It has no node, has scheduling gates, and is not terminating.
    Gated,
    /// It is terminating.
    Terminating,
}

/// What is known about a member: its standing, and when it was created.
type Member = (Standing, Time);

/// The members of a group by uid, the numbers of two standings, and the state of the group.
#[derive(Default)]
struct Members {
    all: BTreeMap<Uid, Member>,
    counting: usize,
    gated: usize,
    /// The numbers of members by the time of their creation, without terminating ones.
    ages: BTreeMap<Time, usize>,
    /// Whether scattered resources kept the group from starting in its last cycle.
    is_fragmented: bool,
}

impl Members {
    /// Sets what is known about a member, and returns what was known before.
    fn set(&mut self, uid: &Uid, (standing, created): Member) -> Option<Member> {
        let before = self.all.insert(Arc::clone(uid), (standing, created));
        self.counting += usize::from(standing == Standing::Counts);
        self.gated += usize::from(standing == Standing::Gated);
        if standing != Standing::Terminating {
            *self.ages.entry(created).or_default() += 1;
        }
        self.uncount(before);
        before
    }

    fn remove(&mut self, uid: &str) -> Option<Member> {
        let before = self.all.remove(uid);
        self.uncount(before);
        before
    }

    fn uncount(&mut self, before: Option<Member>) {
        let Some((standing, created)) = before else { return };
        self.counting -= usize::from(standing == Standing::Counts);
        self.gated -= usize::from(standing == Standing::Gated);
        if standing != Standing::Terminating
            && let Entry::Occupied(mut number) = self.ages.entry(created)
        {
            *number.get_mut() -= 1;
            if *number.get() == 0 {
                number.remove();
            }
        }
    }
}

/// What became of a member that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It is new.
    New,
    /// It was known, and counts from now on.
    Counts,
    /// It does not count any more.
    CountsNoMore,
    /// It had scheduling gates, and is terminating now.
    GatedNoMore,
    /// Nothing changed.
    Known,
}

/// What was known about a member before a trial gave it a node.
pub(in crate::scheduler) struct MemberBefore {
    key: GroupKey,
    uid: Uid,
    /// `None` if it was unknown.
    member: Option<Member>,
}

/// The members of all groups, and the conditions that were sent.
#[derive(Default)]
pub(in crate::scheduler) struct Groups {
    /// The members that the scheduler knows: pending pods of its profiles, and bound pods of any scheduler.
    members: BTreeMap<GroupKey, Members>,
    of_pod: FixedMap<Uid, GroupKey>,
    /// How far the groups have come. A group that ended is kept while its PodGroup exists.
    progress: BTreeMap<GroupKey, Progress>,
    /// The conditions that were sent.
    pub(super) sent: SentConditions,
    pub(in crate::scheduler) reports: VecDeque<GroupReport>,
    /// Whether reports name the members that have a node in each placement.
    pub(super) reports_members: bool,
    /// The victims of the last cycle that chose some, until the group starts or its last member leaves.
    victims: BTreeMap<GroupKey, Vec<Uid>>,
    /// The groups of which chosen members are in PreBind.
    pub(super) starts: BTreeMap<GroupKey, Start>,
    /// The members of starts whose first Binding was sent that are still to be bound.
    pub(super) rests: BTreeMap<GroupKey, BTreeSet<Uid>>,
    /// The number of pods that had left PreBind when the starts were looked at last; `None` if they must be looked at.
    pub(super) starts_as_of: Option<u64>,
    /// The time limits of groups.
    pub(super) limits: TimeLimits,
    /// The groups that keep the nodes of their members while they wait.
    pub(super) reserving: BTreeSet<GroupKey>,
    /// The groups that ask for a reservation, but could not start anyway when they were tried last.
    pub(super) passed_over: BTreeSet<GroupKey>,
    /// The topology domains that a group required last.
    pub(super) domains: KnownDomains,
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

    /// Returns the sizes of what is kept about waiting groups, by name.
    pub(in crate::scheduler) fn held(&self) -> Vec<(&'static str, usize)> {
        let mut held = vec![
            ("groups that keep nodes", self.reserving.len()),
            ("groups without a reservation", self.passed_over.len()),
            ("groups with victims", self.victims.len()),
            ("groups with members", self.members.len()),
            ("groups with progress", self.progress.len()),
            ("groups of which a rest is to be bound", self.rests.len()),
            ("conditions of groups", self.sent.len()),
        ];
        held.extend(self.limits.held());
        held
    }

    /// Returns the number of groups that wait for PreBind of a member.
    pub(in crate::scheduler) fn starts(&self) -> usize {
        self.starts.len()
    }

    /// Returns the uids of the members of all groups, in arbitrary order.
    pub(in crate::scheduler) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.of_pod.keys()
    }

    /// Adds a member, or notes its standing.
    pub(super) fn add(&mut self, key: GroupKey, uid: &Uid, standing: Standing, created: Time) -> Seen {
        self.of_pod.insert(Arc::clone(uid), key);
        let members = self.members.entry(key).or_default();
        if standing == Standing::Gated && matches!(members.all.get(uid), Some((Standing::Counts, _))) {
            // A pod cannot become gated again, so this is an older state.
            return Seen::Known;
        }
        let before = members.set(uid, (standing, created)).map(|(standing, _)| standing);
        match (before, standing) {
            (None, _) => Seen::New,
            (Some(Standing::Counts), Standing::Counts) => Seen::Known,
            (Some(_), Standing::Counts) => Seen::Counts,
            (Some(Standing::Counts), _) => Seen::CountsNoMore,
            (Some(Standing::Gated), Standing::Terminating) => Seen::GatedNoMore,
            (Some(_), _) => Seen::Known,
        }
    }

    /// Adds a member that counts. Returns what [`Self::restore`] undoes it with, if it did not count before.
    pub(super) fn count_in(&mut self, key: GroupKey, uid: &Uid, created: Time) -> Option<MemberBefore> {
        let member = self.members.get(&key).and_then(|members| members.all.get(uid)).copied();
        let seen = self.add(key, uid, Standing::Counts, created);
        (seen != Seen::Known).then(|| MemberBefore { key, uid: Arc::clone(uid), member })
    }

    /// Undoes [`Self::count_in`].
    pub(super) fn restore(&mut self, MemberBefore { key, uid, member }: MemberBefore) {
        match member {
            Some(member) => _ = self.members.entry(key).or_default().set(&uid, member),
            None => _ = self.remove(&uid),
        }
    }

    /// Removes a member. Returns its group and its standing.
    pub(super) fn remove(&mut self, uid: &str) -> Option<(GroupKey, Option<Standing>)> {
        let key = self.of_pod.remove(uid)?;
        let mut standing = None;
        if let Some(members) = self.members.get_mut(&key) {
            standing = members.remove(uid).map(|(standing, _)| standing);
            if members.all.is_empty() {
                self.members.remove(&key);
                self.victims.remove(&key);
                self.reserving.remove(&key);
                self.passed_over.remove(&key);
            }
        }
        Some((key, standing))
    }

    /// Returns the group of a member.
    pub(super) fn of(&self, uid: &str) -> Option<GroupKey> {
        self.of_pod.get(uid).copied()
    }

    /// Returns the members of a group, by uid.
    pub(in crate::scheduler) fn members(&self, key: GroupKey) -> impl Iterator<Item = &Uid> {
        self.members.get(&key).into_iter().flat_map(|members| members.all.keys())
    }

    /// Returns the number of members with this standing.
    pub(super) fn number(&self, key: GroupKey, standing: Standing) -> usize {
        let members = self.members.get(&key);
        members.map_or(0, |members| match standing {
            Standing::Counts => members.counting,
            Standing::Gated => members.gated,
            Standing::Terminating => members.all.len() - members.counting - members.gated,
        })
    }

    /// Returns the groups that pods name.
    pub(in crate::scheduler) fn keys(&self) -> impl Iterator<Item = GroupKey> {
        self.members.keys().copied()
    }

    /// Returns the number of all members of a group.
    pub(in crate::scheduler) fn known(&self, key: GroupKey) -> usize {
        self.members.get(&key).map_or(0, |members| members.all.len())
    }

    /// Replaces the victims that a group waits for.
    pub(super) fn set_victims(&mut self, key: GroupKey, victims: &[Uid]) {
        if victims.is_empty() {
            self.victims.remove(&key);
        } else {
            self.victims.insert(key, victims.to_vec());
        }
    }

    /// Records whether scattered resources keep a group from starting.
    pub(super) fn set_fragmented(&mut self, key: GroupKey, is_fragmented: bool) {
        if let Some(members) = self.members.get_mut(&key) {
            members.is_fragmented = is_fragmented;
        }
    }

    /// Whether scattered resources kept the group from starting in its last cycle.
    pub(in crate::scheduler) fn is_fragmented(&self, key: GroupKey) -> bool {
        self.members.get(&key).is_some_and(|members| members.is_fragmented)
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

    /// Returns how far the group has come.
    pub(super) fn progress(&self, key: GroupKey) -> Progress {
        self.progress.get(&key).copied().unwrap_or_default()
    }

    pub(super) fn progress_mut(&mut self, key: GroupKey) -> &mut Progress {
        self.progress.entry(key).or_default()
    }

    /// Forgets how far the groups have come that have not started.
    pub(super) fn forget_unstarted(&mut self) {
        let has_yet_to_start = |progress: &&mut Progress| !progress.has_started();
        let unstarted = self.progress.values_mut().filter(has_yet_to_start);
        unstarted.for_each(|progress| progress.stage = Stage::Unknown);
    }

    /// Forgets what is known about the condition of a PodGroup that does not exist any more.
    pub(super) fn forget_condition(&mut self, key: GroupKey, uid: &str) {
        self.sent.forget(uid);
        if let Some(progress) = self.progress.get_mut(&key) {
            (progress.corrected_at, progress.has_failed) = (None, false);
        }
    }

    pub(super) fn forget_progress(&mut self, key: GroupKey) {
        self.progress.remove(&key);
        self.rests.remove(&key);
    }

    /// Whether a member of a start is still to be bound after the first one.
    pub(super) fn is_of_rest(&self, key: GroupKey, uid: &str) -> bool {
        self.rests.get(&key).is_some_and(|rest| rest.contains(uid))
    }

    /// Notes that the Binding of a member was sent, or another client bound it.
    pub(in crate::scheduler) fn leaves_rest(&mut self, key: GroupKey, uid: &str) {
        if let Some(rest) = self.rests.get_mut(&key) {
            rest.remove(uid);
            if rest.is_empty() {
                self.rests.remove(&key);
            }
        }
    }

    /// Returns since when the group waits: its oldest member was created, or the last that was bound left. Terminating
    /// ones do not count.
    pub(super) fn since(&self, key: GroupKey) -> Option<Time> {
        let created = *self.members.get(&key)?.ages.keys().next()?;
        Some(self.progress(key).ran_until.map_or(created, |at| created.max(at)))
    }

    /// Returns the groups with members that are not terminating, and since when they wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (GroupKey, Time)> + '_ {
        self.members.keys().filter_map(|key| Some((*key, self.since(*key)?)))
    }
}

impl TraceIds for Groups {
    fn mark(&self, marks: &mut Marks) {
        let Self {
            members,
            of_pod: _,
            progress,
            sent,
            reports: _,
            reports_members: _,
            victims,
            starts,
            rests,
            starts_as_of: _,
            limits,
            reserving,
            passed_over,
            domains: _,
        } = self;
        limits.mark(marks);
        sent.mark(marks);
        members
            .keys()
            .chain(victims.keys())
            .chain(progress.keys())
            .chain(starts.keys())
            .chain(rests.keys())
            .chain(reserving)
            .chain(passed_over)
            .for_each(|key| key.mark(marks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Tables;

    const CREATED: Time = Time::from_secs(100);

    fn without_members() -> (Groups, GroupKey) {
        let name = Tables::new().symbol("g");
        (Groups::default(), GroupKey { namespace: name, name })
    }

    #[test]
    fn numbers_follow_the_standing_of_members() {
        let (mut groups, key) = without_members();
        let numbers = |groups: &Groups| {
            [Standing::Counts, Standing::Gated, Standing::Terminating].map(|it| groups.number(key, it))
        };
        assert_eq!(groups.add(key, &"p".into(), Standing::Gated, CREATED), Seen::New);
        assert_eq!(groups.add(key, &"q".into(), Standing::Counts, CREATED), Seen::New);
        assert_eq!((numbers(&groups), groups.known(key)), ([1, 1, 0], 2));
        assert_eq!(groups.add(key, &"p".into(), Standing::Counts, CREATED), Seen::Counts);
        assert_eq!(groups.add(key, &"p".into(), Standing::Counts, CREATED), Seen::Known);
        assert_eq!(groups.add(key, &"q".into(), Standing::Terminating, CREATED), Seen::CountsNoMore);
        assert_eq!((numbers(&groups), groups.known(key)), ([1, 0, 1], 2));
        assert_eq!(groups.remove("q"), Some((key, Some(Standing::Terminating))));
        assert_eq!((numbers(&groups), groups.known(key)), ([1, 0, 0], 1));
        assert_eq!(groups.remove("p"), Some((key, Some(Standing::Counts))));
        assert_eq!((numbers(&groups), groups.known(key)), ([0, 0, 0], 0));
    }

    #[test]
    fn older_state_does_not_gate_a_member_again_and_a_terminating_one_may_lose_its_gates() {
        let (mut groups, key) = without_members();
        groups.add(key, &"p".into(), Standing::Counts, CREATED);
        assert_eq!(groups.add(key, &"p".into(), Standing::Gated, CREATED), Seen::Known);
        groups.add(key, &"q".into(), Standing::Gated, CREATED);
        assert_eq!([Standing::Counts, Standing::Gated].map(|it| groups.number(key, it)), [1, 1]);
        assert_eq!(groups.add(key, &"q".into(), Standing::Terminating, CREATED), Seen::GatedNoMore);
        assert_eq!(groups.number(key, Standing::Gated), 0);
    }

    #[test]
    fn member_that_counts_in_a_trial_has_its_standing_back_afterwards() {
        let (mut groups, key) = without_members();
        groups.add(key, &"gated".into(), Standing::Gated, CREATED);
        groups.add(key, &"placed".into(), Standing::Counts, CREATED);
        let before: Vec<_> = ["gated", "placed", "new"]
            .iter()
            .flat_map(|&uid| groups.count_in(key, &uid.into(), CREATED))
            .collect();
        assert_eq!((before.len(), groups.number(key, Standing::Counts)), (2, 3));
        before.into_iter().rev().for_each(|before| groups.restore(before));
        let numbers = [Standing::Counts, Standing::Gated].map(|it| groups.number(key, it));
        assert_eq!((numbers, groups.known(key)), ([1, 1], 2));
    }

    #[test]
    fn sizes_are_the_numbers_of_members_and_starts() {
        let (mut groups, key) = without_members();
        assert_eq!((groups.len(), groups.starts()), (0, 0));
        ["p", "q", "r"].iter().for_each(|&uid| _ = groups.add(key, &uid.into(), Standing::Counts, CREATED));
        groups.starts.entry(key).or_default();
        assert_eq!((groups.len(), groups.starts()), (3, 1));
    }
}
