//! Preemption by a group as a whole: victims anywhere in the cluster, chosen so that the group can start.
//!
//! Upstream: `pkg/scheduler/framework/preemption/podgrouppreemption.go`.

use super::super::Scheduler;
use super::cycle::{Attempt, MemberResult, Mode, Run, Verdict};
use crate::cache::UndoLog;
use crate::cycle::{Nominate, Probe};
use crate::framework::Code;
use crate::model::group::{DisruptionMode, GroupKey, PodGroup};
use crate::model::intern::Symbol;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::preemption::{self, BudgetCharges, starts};
use crate::switches::mutation::{self, Mutation};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const NEVER: &str = "not eligible due to preemptionPolicy=Never.";
const NO_VICTIMS: &str = "No preemption victims found for incoming preemptor";
const HAS_CONSTRAINTS: &str =
    "workload aware preemption is not supported for pod groups with scheduling constraints";
const NOT_ENABLED: &str =
    "default preemption plugin is not registered, workload aware preemption is disabled";

/// The answer of preemption by a group.
pub(super) enum Preempted {
    /// It did not run.
    NotTried,
    /// The group can start once these pods are gone, most important first.
    Victims(Vec<Uid>),
    /// Victims of an earlier cycle are terminating.
    Ongoing,
    /// The run without potential victims failed with this error.
    Failed(String),
    /// No victims help, with a status code and its text.
    NoHelp(Code, String),
}

impl Preempted {
    /// Returns the answer as upstream's status prints it.
    pub(super) fn report(&self) -> Option<String> {
        match self {
            Self::NotTried => None,
            Self::Victims(_) => Some("Success".to_owned()),
            Self::Ongoing => Some("Success: ongoing preemption on nominated nodes".to_owned()),
            Self::Failed(text) => Some(format!("Error: {text}")),
            Self::NoHelp(code, text) => Some(format!("{}: {text}", code.as_str())),
        }
    }

    /// Returns the victims.
    pub(super) fn victims(&self) -> &[Uid] {
        match self {
            Self::Victims(victims) => victims,
            Self::NotTried | Self::Ongoing | Self::Failed(_) | Self::NoHelp(..) => &[],
        }
    }
}

/// Pods that are evicted together: a single pod, or all members of a group.
pub(super) struct Unit {
    priority: i32,
    pub(super) pods: Vec<(Arc<PodInfo>, Symbol)>,
    is_of_group: bool,
    /// The earliest start of its pods; with upstream's defects of 1.36, the start of the pod that was seen first.
    started: Time,
}

impl Scheduler {
    /// Decides on a group and, with PostFilter plugins, looks for its victims. All that this assumes is undone.
    pub(super) fn decide_with_victims(
        &mut self,
        now: Time,
        attempt: &Attempt,
        mode: Mode,
        probe: &mut dyn Probe,
    ) -> (Run, Preempted) {
        self.cache.hold_images(true);
        let mut run = self.decide_group(now, attempt, mode, probe);
        let preempted = match mode {
            Mode::WithPostFilters => self.preempt_as_group(now, attempt, &mut run, probe),
            Mode::WithoutPostFilters => Preempted::NotTried,
        };
        self.cache.hold_images(false);
        (run, preempted)
    }

    /// Looks for victims of a group that cannot start, and changes its verdict accordingly.
    fn preempt_as_group(
        &mut self,
        now: Time,
        attempt: &Attempt,
        run: &mut Run,
        probe: &mut dyn Probe,
    ) -> Preempted {
        if self.group_rules().asks_feasibility {
            return self.post_filter_group(now, attempt, run, probe);
        }
        let Verdict::Unschedulable(text) = &run.verdict else { return Preempted::NotTried };
        if !self.tables.rules().groups.preemption {
            return Preempted::NotTried;
        }
        let text = text.clone();
        let (preempted, tried) = self.find_victims(now, attempt, probe);
        match &preempted {
            Preempted::NotTried | Preempted::Failed(_) => {}
            Preempted::Victims(_) => {
                run.verdict = Verdict::Waiting(text);
                nominate(&mut run.tried, tried);
            }
            Preempted::Ongoing => {
                run.verdict = Verdict::Waiting(text);
                keep_nominations(&mut run.tried);
            }
            Preempted::NoHelp(_, why) => {
                run.verdict = Verdict::Unschedulable(format!("{text}, {why}"));
            }
        }
        preempted
    }

    /// Also returns what was found for the members without potential victims, if they are nominated to these nodes.
    pub(super) fn find_victims(
        &mut self,
        now: Time,
        attempt: &Attempt,
        probe: &mut dyn Probe,
    ) -> (Preempted, Vec<MemberResult>) {
        let no_help = |text: &str| (Preempted::NoHelp(Code::Unschedulable, text.to_owned()), Vec::new());
        let has_plugin = |profile: &super::super::Profile| {
            profile.framework.post_filters.iter().any(|plugin| plugin.name() == preemption::NAME)
        };
        let by_one_run = self.group_rules().preempts_by_one_run;
        if !self.profile_of(&attempt.members[0].pod).is_some_and(has_plugin) {
            return if by_one_run { (Preempted::NotTried, Vec::new()) } else { no_help(NOT_ENABLED) };
        }
        let Some(group) = &attempt.group else { return (Preempted::NotTried, Vec::new()) };
        let is_limited = self.tables.copies_defects() && !by_one_run;
        if is_limited && group.topology.as_ref().is_some_and(|keys| !keys.is_empty()) {
            return no_help(HAS_CONSTRAINTS);
        }
        if attempt.members.iter().any(|queued| queued.pod.never_preempts) {
            return no_help(NEVER);
        }
        let waits = by_one_run && self.awaits_nominated_nodes(attempt, group.priority);
        let is_known =
            !self.tables.copies_defects() && self.groups.has_terminating_victims(attempt.key, &self.cache);
        if waits || is_known {
            return (Preempted::Ongoing, Vec::new());
        }
        let mut units = self.units(now);
        units.retain(|unit| unit.priority < group.priority);
        if units.is_empty() {
            let code = Code::UnschedulableAndUnresolvable;
            return (Preempted::NoHelp(code, NO_VICTIMS.to_owned()), Vec::new());
        }
        let is_local = !is_limited && self.are_judged_by_nodes_alone(attempt);
        let mut log = UndoLog::default();
        units.iter().for_each(|unit| self.take_off(&mut log, unit));
        let mut run = self.run_group(now, attempt, Mode::WithoutPostFilters, probe);
        if by_one_run {
            run.require_any();
        }
        let preempted = match run.verdict {
            Verdict::Scheduled if is_limited => {
                let starts = |scheduler: &mut Self, _: &Unit| {
                    let run = scheduler.run_group(now, attempt, Mode::WithoutPostFilters, probe);
                    run.verdict == Verdict::Scheduled
                };
                (Preempted::Victims(self.reprieve(units, &mut log, starts)), Vec::new())
            }
            Verdict::Scheduled => {
                let placed = self.placed(attempt, &run.tried, &mut log);
                let stay = |scheduler: &mut Self, unit: &Unit| {
                    !attempt.is_interrupted()
                        && scheduler.members_stay(now, attempt, (&placed, is_local), unit, probe)
                };
                (Preempted::Victims(self.reprieve(units, &mut log, stay)), run.tried)
            }
            Verdict::Failed(text) if by_one_run => (Preempted::Failed(text), Vec::new()),
            Verdict::Unschedulable(text) | Verdict::Waiting(text) | Verdict::Failed(text) => no_help(&text),
        };
        log.roll_back_to(&mut self.cache, 0);
        preempted
    }

    /// Puts units back one by one: those first whose eviction violates a disruption budget, then more important ones
    /// first. A unit stays if the group still `fits` beside it. Returns the pods of the others, the victims.
    fn reprieve(
        &mut self,
        mut units: Vec<Unit>,
        log: &mut UndoLog,
        mut fits: impl FnMut(&mut Self, &Unit) -> bool,
    ) -> Vec<Uid> {
        units.sort_by(|a, b| a.rank().cmp(&b.rank()).then_with(|| self.name_of(a).cmp(&self.name_of(b))));
        let mut charges = BudgetCharges::default();
        let snapshot = self.snapshot();
        let violates: Vec<bool> = units
            .iter()
            .map(|unit| unit.pods.iter().any(|(pod, _)| charges.violates(pod, snapshot)))
            .collect();
        let mut order: Vec<usize> = (0..units.len()).collect();
        order.sort_by_key(|&at| !violates[at]);
        let mut is_victim = vec![false; units.len()];
        for at in order {
            let unit = &units[at];
            for (pod, _) in &unit.pods {
                log.put_back(&mut self.cache, &pod.uid);
            }
            if !fits(self, unit) {
                self.take_off(log, &units[at]);
                is_victim[at] = true;
            }
        }
        let victims = units.iter().zip(is_victim).filter(|(_, is_victim)| *is_victim);
        victims.flat_map(|(unit, _)| unit.pods.iter().map(|(pod, _)| Arc::clone(&pod.uid))).collect()
    }

    fn name_of(&self, unit: &Unit) -> Option<String> {
        unit.pods.first().map(|(pod, _)| self.snapshot().pod_key(pod))
    }

    fn take_off(&mut self, log: &mut UndoLog, unit: &Unit) {
        for (pod, _) in &unit.pods {
            log.remove(&mut self.cache, &pod.uid);
        }
    }

    /// Returns the pods on nodes as units of eviction, but none with a pod whose reservations could not be restored.
    fn units(&self, now: Time) -> Vec<Unit> {
        let judges_by_group = self.group_rules().preempts_by_one_run || !self.tables.copies_defects();
        let snapshot = self.snapshot();
        let (mut units, mut of_group): (Vec<Unit>, BTreeMap<GroupKey, usize>) = Default::default();
        let mut spared: BTreeSet<GroupKey> = BTreeSet::new();
        for node in self.walk.in_order(snapshot) {
            let name = snapshot.node_info(node).name;
            for pod in snapshot.pods_on(node) {
                let Some((pod, ..)) = self.cache.placed(&pod.uid) else { continue };
                let group = pod.group_key().and_then(|key| snapshot.lookups().group(key));
                let is_whole = |group: &&PodGroup| {
                    group.disruption == DisruptionMode::All
                        && !mutation::is_on(Mutation::WholeGroupEvictedInPart)
                };
                let together = group.filter(is_whole);
                // What it reserved could not be restored exactly.
                if !self.cache.volumes().reservations_of(&pod.uid).is_empty() {
                    spared.extend(together.map(|group| group.key));
                    continue;
                }
                if let Some(group) = together
                    && let Some(&at) = of_group.get(&group.key)
                {
                    units[at].pods.push((Arc::clone(pod), name));
                    if judges_by_group {
                        units[at].started = units[at].started.min(starts(pod, now));
                    }
                    continue;
                }
                if let Some(group) = together {
                    of_group.insert(group.key, units.len());
                }
                units.push(Unit {
                    priority: if judges_by_group { group } else { together }
                        .map_or(pod.priority, |group| group.priority),
                    pods: vec![(Arc::clone(pod), name)],
                    is_of_group: pod.group.is_some(),
                    started: starts(pod, now),
                });
            }
        }
        units.retain(|unit| unit.pods[0].0.group_key().is_none_or(|key| !spared.contains(&key)));
        units
    }

    /// Ends the preemption of a group that has no members any more.
    pub(super) fn group_preemption_left(&mut self, now: Time, key: GroupKey) {
        if let Some(group) = self.cache.lookups().group(key) {
            let uid = Arc::clone(&group.uid);
            self.preemptor_left(now, &uid);
        }
    }
}

/// Nominates the members to the nodes where they fit without the victims.
fn nominate(members: &mut [MemberResult], without: Vec<MemberResult>) {
    for (member, without) in members.iter_mut().zip(without) {
        match (&mut *member, without.node()) {
            (MemberResult::Fits { node, .. }, Some(to)) => *node = to,
            (MemberResult::Rejected(found), Some(to)) => {
                found.nominate = Nominate::To { node: to, victims: Vec::new() };
            }
            // It fits now, but not beside the others that take the victims' places.
            (MemberResult::Fits { .. }, None) => *member = without,
            (MemberResult::Rejected(_), None)
            | (MemberResult::Preempts { .. } | MemberResult::Failed(_), _) => {}
        }
    }
}

/// Leaves the nominations of members that do not fit yet as they are.
fn keep_nominations(members: &mut [MemberResult]) {
    for member in members {
        if let MemberResult::Rejected(found) = member {
            found.nominate = Nominate::Keep;
        }
    }
}

impl Unit {
    /// Returns the sort key: more important units come first.
    fn rank(&self) -> (Reverse<i32>, bool, Reverse<usize>, Time) {
        let size = if self.is_of_group { self.pods.len() } else { 0 };
        (Reverse(self.priority), !self.is_of_group, Reverse(size), self.started)
    }
}
