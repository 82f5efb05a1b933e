//! The invariants of pod groups.

use super::{Broken, broken};
use crate::devices::PodDevices;
use crate::evictions;
use crate::groups::{Group, checks_minimum, group_gates, group_key, has_groups};
use crate::objects::Pod;
use crate::process::{Decided, emulated_version};
use crate::reference::ReferenceCluster;
use crate::sim::Sim;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::model::effect::PodRef;
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::queue::{QueuedPod, SubQueue};
use supercargo_core::report::group::{GroupOutcome, GroupReport, MemberReport};
use supercargo_core::scheduler::PodLocation;

/// Pods with their nodes.
type Placed = Vec<(Arc<PodInfo>, Symbol)>;

impl Sim {
    /// Checks what a group's cycle decided, before its members are reported.
    pub(crate) fn check_group_report(&mut self, report: &GroupReport) -> Result<(), Broken> {
        let key = key_of(report);
        if !has_groups(self.seed) {
            return Err(broken("no pod names a group", key));
        }
        // Earlier decisions whose bindings were not sent, or were refused, are repeated.
        for member in &report.members {
            let uid = &*member.pod.uid;
            let is_void = |decided: &Decided| decided.released.is_none();
            if self.process.decided.get(uid).is_some_and(is_void) {
                self.forget_decision(uid);
            }
        }
        let group = self.process.groups.get(&key).cloned();
        match report.outcome {
            GroupOutcome::Refused if self.is_mismatched(&key) => Ok(()),
            GroupOutcome::Refused => Err(broken(
                "only a group with unequal members is refused",
                format!("{key}: {}", report.status),
            )),
            GroupOutcome::Error
                if may_fail(group.as_deref()) || self.is_of_foreign_claim("", &report.status) =>
            {
                Ok(())
            }
            GroupOutcome::Error => {
                Err(broken("no attempt fails with an error", format!("{key}: {}", report.status)))
            }
            GroupOutcome::Unschedulable => self.check_rejected(report),
            GroupOutcome::Scheduled => {
                self.check_fits(report)?;
                self.check_start(&key, group.as_deref(), report, starting(report).count())?;
                self.check_rack(&key, group.as_deref(), report)?;
                let min = group.as_ref().and_then(|group| group.min).filter(|_| checks_minimum(self.seed));
                match min.filter(|_| !self.takes_replacements(&key, group.as_deref(), report)) {
                    Some(min) => _ = self.process.starting.insert(key.clone(), min),
                    None => _ = self.process.starting.remove(&key),
                }
                self.process.note_chosen(key, group.map(|group| group.uid.clone()));
                Ok(())
            }
            GroupOutcome::WaitingForPreemption => self.check_group_preemption(&key, group.as_deref(), report),
        }
    }

    /// Checks that enough members have a node once the given number starts.
    fn check_start(
        &self,
        key: &str,
        group: Option<&Group>,
        report: &GroupReport,
        starting: usize,
    ) -> Result<(), Broken> {
        if !checks_minimum(self.seed) {
            return Ok(());
        }
        let Some(group) = group else {
            return Err(broken("only a group that exists starts", key.to_owned()));
        };
        let there = self.others_there(key, report);
        match group.min {
            Some(_) if self.takes_replacements(key, Some(group), report) => Ok(()),
            Some(min) if there + starting < min => {
                let detail = format!("{key}: {there} have a node, {starting} start, of {min}");
                Err(broken("a group starts with enough members or not at all", detail))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of members that have a node, apart from those that a report is about.
    fn others_there(&self, key: &str, report: &GroupReport) -> usize {
        let own: BTreeSet<&str> = report.members.iter().map(|member| &*member.pod.uid).collect();
        self.scheduled_members(key).filter(|pod| !own.contains(&*pod.uid)).count()
    }

    /// Notes which groups run: as many members as they need are bound, by any client, or they were started before
    /// and a member is left. A PodGroup that is created again changes nothing.
    pub(crate) fn note_running_groups(&mut self) {
        let is_left = |key: &String| self.scheduled_members(key).next().is_some();
        let mut running: BTreeSet<String> =
            self.process.started.iter().filter(|key| is_left(key)).cloned().collect();
        for (key, group) in &self.process.groups {
            let min = group.min.unwrap_or(1).max(1);
            if self.scheduled_members(key).filter(|pod| pod.node.is_some()).count() >= min {
                running.insert(key.clone());
            }
        }
        self.process.started = running;
    }

    /// Whether a group takes replacements one by one: it was started, and still has a member.
    fn takes_replacements(&self, key: &str, group: Option<&Group>, report: &GroupReport) -> bool {
        let was_started = |group: &Group| {
            self.process.started.contains(key)
                || group.condition.as_ref().is_some_and(|condition| condition.is_true)
        };
        group.is_some_and(was_started) && self.others_there(key, report) > 0
    }

    /// Checks that a gang is bound as a whole: when its first Binding is sent, enough members have passed PreBind.
    pub(crate) fn check_first_binding(&mut self, uid: &str) -> Result<(), Broken> {
        let Some(key) = self.process.pods.get(uid).and_then(|pod| pod.group_key()) else { return Ok(()) };
        let Some(min) = self.process.starting.remove(&key) else { return self.check_rest(&key, uid) };
        self.note_rest(&key, uid);
        // It may have changed since the decision.
        let min = self.process.groups.get(&key).map_or(min, |group| min.min(group.min.unwrap_or(0)));
        // One that another client bound still reserves its claims.
        let is_in_pre_bind = |pod: &&Arc<Pod>| {
            let pending = self.process.scheduler.pending_one(&pod.uid.as_str().into());
            pod.node.is_none() && pending.is_some_and(|pending| matches!(pending.at, PodLocation::Volumes(_)))
        };
        let (in_pre_bind, passed): (Vec<_>, Vec<_>) = self.scheduled_members(&key).partition(is_in_pre_bind);
        if passed.len() >= min || passed.iter().any(|pod| self.is_bound_or_sent(pod)) {
            return Ok(());
        }
        let detail = format!(
            "{uid} of {key}: {} of {min} passed PreBind, {} are in PreBind",
            passed.len(),
            in_pre_bind.len()
        );
        Err(broken("no gang is bound in part", detail))
    }

    /// Returns the members that count on a node. Terminating ones count for nothing.
    pub(super) fn scheduled_members(&self, key: &str) -> impl Iterator<Item = &Arc<Pod>> + Clone {
        let pods = self.process.pods.values();
        pods.filter(move |pod| {
            !pod.deleting
                && pod.group_key().is_some_and(|own| own == key)
                && self.process.counts_on(pod).is_some()
        })
    }

    /// Whether 1.37 refuses a group, because a member has another priority, or one with a node another scheduler.
    pub(crate) fn is_mismatched(&self, key: &str) -> bool {
        let Some(group) = self.process.groups.get(key) else { return false };
        let differs = |pod: &Arc<Pod>| {
            pod.group_key().is_some_and(|own| own == key)
                && (pod.priority != group.priority || !pod.ours && pod.node.is_some())
        };
        emulated_version(self.seed) >= EmulatedVersion::V1_37 && self.process.pods.values().any(differs)
    }

    /// Whether a pod is only evicted together with pods on other nodes. A pod that more than its node judges takes no
    /// such pods.
    pub(super) fn is_evicted_with_others(&self, pod: &Pod) -> bool {
        let key = pod.group_key().filter(|key| self.process.groups.get(key).is_some_and(|it| it.is_whole));
        let node = self.process.counts_on(pod);
        key.is_some_and(|key| self.scheduled_members(&key).any(|other| self.process.counts_on(other) != node))
    }

    /// Returns the priority by which preemption judges a pod on a node.
    pub(crate) fn victim_priority(&self, pod: &Pod) -> i32 {
        let judges =
            group_gates(self.seed).preemption || emulated_version(self.seed) >= EmulatedVersion::V1_37;
        let group = pod.group_key().and_then(|key| self.process.groups.get(&key)).filter(|_| judges);
        group.map_or(pod.priority, |group| group.priority)
    }

    /// Checks that the members that have a node fit there, one after the other in some order.
    ///
    /// Members that share a claim are left out: as upstream, one may get a volume for it while another binds an
    /// existing one. PreBind of one of them fails then.
    fn check_fits(&mut self, report: &GroupReport) -> Result<(), Broken> {
        if share_claims(starting(report).filter_map(|member| self.process.pods.get(&*member.pod.uid))) {
            return Ok(());
        }
        let mut left: Vec<(&MemberReport, &String)> =
            starting(report).filter_map(|member| Some((member, member.node.as_ref()?))).collect();
        let mut placed: Placed = Vec::new();
        while !left.is_empty() {
            let mut why = None;
            let mut fitting = None;
            for (at, (member, node)) in left.iter().enumerate() {
                match self.rejects_member(member, node, &placed)? {
                    Some(reason) => why = why.or(Some(format!("{} on {node}: {reason}", member.pod.uid))),
                    None => {
                        fitting = Some(at);
                        break;
                    }
                }
            }
            let Some(at) = fitting else {
                let nodes =
                    report.members.iter().map(|it| format!("{} {:?} {}", it.pod.uid, it.node, it.code));
                let detail = format!("{}; {}", why.unwrap_or_default(), nodes.collect::<Vec<_>>().join(", "));
                return Err(broken("the members of a group fit beside each other", detail));
            };
            let (member, node) = left.remove(at);
            let pod = self.seen_info(&member.pod.uid)?;
            placed.push((pod, self.process.scheduler.tables().symbol(node)));
        }
        Ok(())
    }

    /// Returns why a node is infeasible for a member beside others.
    fn rejects_member(
        &mut self,
        member: &MemberReport,
        node: &str,
        placed: &Placed,
    ) -> Result<Option<String>, Broken> {
        let pod = self.seen_info(&member.pod.uid)?;
        let view = self.process.scheduler_view(&member.pod.uid);
        let tables = self.process.scheduler.tables();
        let name = tables.symbol(node);
        let world = beside(view.world(tables).without(&pod.uid), placed);
        Ok(world.rejection_reason(&pod, name))
    }

    /// Checks that the members of a group that cannot start are infeasible beside the members before them that fit.
    fn check_rejected(&mut self, report: &GroupReport) -> Result<(), Broken> {
        let reserves = |group: &Arc<Group>| group.reserves();
        if self.process.groups.get(&key_of(report)).is_some_and(reserves) {
            // After its cycle it may have taken the reservation from a group that kept nodes until then.
            return Ok(());
        }
        let mut placed: Placed = Vec::new();
        // Without a rack in which the group fits, the result is that of any one of them.
        for member in report.members.iter().filter(|_| report.placements.is_empty()) {
            if member.preempts {
                return Ok(());
            }
            let pod = self.seen_info(&member.pod.uid)?;
            if let Some(node) = &member.node {
                let needs_devices = || self.process.pods.get(&*pod.uid).is_some_and(|it| it.needs_devices());
                if !pod.volumes.is_empty() || needs_devices() {
                    // It took volumes or devices from those after it until the end of the cycle.
                    return Ok(());
                }
                placed.push((pod, self.process.scheduler.tables().symbol(node)));
                continue;
            }
            let view = self.process.scheduler_view(&member.pod.uid);
            let snapshot = self.process.scheduler.snapshot();
            let world = || beside(view.world(snapshot.tables()), &placed);
            let feasible = evictions::feasible(world, snapshot, &pod);
            let message = member.message.as_deref().unwrap_or_default();
            // From 1.37 on, members are not tried any more once the group cannot start.
            let was_tried = member.code == "Unschedulable" && message.starts_with("0/");
            if let Some(&node) = feasible.first().filter(|_| was_tried) {
                let detail = format!("{} fits on {}: {message}", pod.uid, snapshot.text(node));
                return Err(broken("a member reported as unschedulable is unschedulable", detail));
            }
        }
        Ok(())
    }

    /// Checks that all members of a group that requires it are in one rack.
    fn check_rack(&self, key: &str, group: Option<&Group>, report: &GroupReport) -> Result<(), Broken> {
        let new = starting(report).filter_map(|member| member.node.as_deref());
        self.check_in_rack(key, group, new)
    }

    /// Checks that the nodes of members and of those that have one are in one rack, if the group requires it.
    fn check_in_rack<'a>(
        &'a self,
        key: &str,
        group: Option<&Group>,
        new: impl Iterator<Item = &'a str>,
    ) -> Result<(), Broken> {
        if !group.is_some_and(|group| group.in_rack) {
            return Ok(());
        }
        let old = self.scheduled_members(key).filter_map(|pod| self.process.counts_on(pod));
        let racks: BTreeSet<_> =
            new.chain(old).map(|node| self.process.nodes.get(node).and_then(|node| node.rack)).collect();
        match racks.len() {
            0 => Ok(()),
            1 if !racks.contains(&None) => Ok(()),
            _ => Err(broken("all members are in one rack", format!("{key}: {racks:?}"))),
        }
    }

    /// Checks that a group that evicts can start once its victims are gone, and that they are less important.
    fn check_group_preemption(
        &mut self,
        key: &str,
        group: Option<&Group>,
        report: &GroupReport,
    ) -> Result<(), Broken> {
        let preempts_alone = report.members.iter().any(|member| member.preempts);
        let (Some(group), false) = (group, report.victims.is_empty() || preempts_alone) else {
            return Ok(());
        };
        for victim in &report.victims {
            self.check_victim_of_group(group, victim, &report.victims)?;
        }
        let nominations: BTreeMap<String, String> =
            self.process.nominations().into_iter().map(|(node, uid)| (uid, node)).collect();
        let mut placed: Placed = Vec::new();
        // An unschedulable member keeps the nomination that it had, and leaves room for new ones all the same.
        let nominated =
            report.members.iter().filter_map(|member| Some((member, nominations.get(&*member.pod.uid)?)));
        let (old, new): (Vec<_>, Vec<_>) = nominated.partition(|(member, node)| {
            self.process.held_places.contains(&((*node).clone(), member.pod.uid.to_string()))
        });
        let newest = new.len();
        for (at, (member, node)) in new.into_iter().chain(old).enumerate() {
            let pod = self.seen_info(&member.pod.uid)?;
            let view = self.process.scheduler_view(&member.pod.uid);
            let name = self.process.scheduler.tables().symbol(node);
            let world = view.world(self.process.scheduler.tables()).without(&pod.uid);
            let world = report.victims.iter().fold(world, |world, victim| world.without(&victim.uid));
            // Victims that are terminating already are not evicted again.
            let world = beside(world.without_on(name, |other| other.deleting), &placed);
            // Rules between pods are judged with the pods that are put back, one after the other.
            if let Some(why) = world.local_rejection_reason(&pod, name) {
                if at >= newest {
                    continue;
                }
                let detail = format!("{} on {node} without {:?}: {why}", pod.uid, report.victims);
                return Err(broken("a group that evicts fits without its victims", detail));
            }
            placed.push((pod, name));
        }
        // A member may keep an earlier nomination.
        let is_new = |&(uid, node): &(&String, &String)| {
            report.members.iter().any(|member| *member.pod.uid == **uid)
                && !self.process.held_places.contains(&(node.clone(), uid.clone()))
        };
        let new = nominations.iter().filter(is_new).map(|(_, node)| node.as_str());
        self.check_in_rack(key, Some(group), new)?;
        self.check_start(key, Some(group), report, placed.len())
    }

    fn check_victim_of_group(&self, group: &Group, victim: &PodRef, all: &[PodRef]) -> Result<(), Broken> {
        self.check_victim((&group.key(), group.priority), &victim.uid, all)
    }

    /// Checks that a victim is less important than the preemptor, and that no group is evicted in part that is
    /// disrupted as a whole.
    pub(crate) fn check_victim(
        &self,
        (preemptor, own_priority): (&str, i32),
        victim: &str,
        all: &[PodRef],
    ) -> Result<(), Broken> {
        let Some(pod) = self.process.pods.get(victim) else {
            return Err(broken("only known pods are victims", victim.to_owned()));
        };
        if self.victim_priority(pod) >= own_priority {
            let detail = format!("{preemptor} over {}", pod.uid);
            return Err(broken("victims have lower priority", detail));
        }
        let of_group = pod.group_key().and_then(|key| self.process.groups.get(&key)).filter(|it| it.is_whole);
        let Some(of_group) = of_group else { return Ok(()) };
        // A pod whose node is gone is about to be deleted.
        let is_there = |other: &Pod| {
            self.process.counts_on(other).is_some_and(|node| self.process.nodes.contains_key(node))
        };
        let is_spared =
            |other: &&Arc<Pod>| is_there(other) && !all.iter().any(|victim| *victim.uid == *other.uid);
        match self.scheduled_members(&of_group.key()).find(is_spared) {
            Some(other) => {
                let detail = format!("{} without {}", pod.uid, other.uid);
                Err(broken("a group that is disrupted as a whole is never evicted in part", detail))
            }
            None => Ok(()),
        }
    }

    /// Whether an attempt may fail because of the pod's group.
    pub(crate) fn fails_with_its_group(&self, uid: &str) -> bool {
        let key = self.process.pods.get(uid).and_then(|pod| pod.group_key());
        key.is_some_and(|key| {
            may_fail(self.process.groups.get(&key).map(|group| &**group)) || self.is_mismatched(&key)
        })
    }

    /// Whether a pod may start without any other pending pod, so that a feasible node is enough for it.
    pub(crate) fn may_start_alone(&self, uid: &str) -> bool {
        let Some(pod) = self.process.pods.get(uid) else { return true };
        let Some(key) = pod.group_key() else { return true };
        let Some(group) = self.process.groups.get(&key).filter(|group| !group.in_rack) else { return false };
        if self.is_mismatched(&key) || self.is_held_by_gate(&key) || self.is_given_up(&key) {
            return false;
        }
        let others = self.scheduled_members(&key).filter(|other| other.uid != uid).count();
        group.min.is_none_or(|min| others + 1 >= min)
    }

    /// Whether another member is tried again soon, which takes the pod along.
    pub(super) fn is_taken_along(&self, pod: &PodInfo) -> bool {
        let key = pod.group_key();
        let is_tried = |&(place, queued): &(SubQueue, &QueuedPod)| {
            matches!(place, SubQueue::Active | SubQueue::Backoff) && queued.pod.group_key() == key
        };
        key.is_some() && self.process.scheduler.queue().waiting().any(|it| is_tried(&it))
    }

    /// Whether the members of a group may be tried: it exists, and enough of them are there.
    pub(super) fn may_be_tried(&self, key: &str) -> bool {
        let Some(group) = self.process.groups.get(key) else { return false };
        let counts = |pod: &&Arc<Pod>| {
            let is_member = pod.group_key().is_some_and(|own| own == key);
            is_member && !pod.deleting && (pod.node.is_some() || pod.ours && !pod.gated)
        };
        let known = self.process.pods.values().filter(counts).count();
        group.min.is_none_or(|min| known >= min) && !self.is_given_up(key)
    }

    /// Whether the engine has given up a group with a time limit.
    pub(super) fn is_given_up(&self, key: &str) -> bool {
        let has_limit = self.process.groups.get(key).is_some_and(|group| group.start_within().is_some());
        let is_member = |pod: &PodInfo| {
            let known = self.process.pods.get(&*pod.uid);
            known.and_then(|pod| pod.group_key()).is_some_and(|own| own == key)
        };
        let scheduler = &self.process.scheduler;
        let mut members = scheduler.queue().waiting().filter(|(_, queued)| is_member(&queued.pod));
        let is_late = |text: String| text.contains("did not start in time");
        has_limit && members.any(|(_, queued)| scheduler.gang_gate(&queued.pod).is_some_and(is_late))
    }

    /// Checks that a group is given up only if none of its members is about to be bound.
    pub(super) fn check_given_up(&self) -> Result<(), Broken> {
        for key in self.process.groups.keys().filter(|key| self.is_given_up(key)) {
            let starts = |pod: &&Arc<Pod>| {
                let decided = self.process.decided.get(&pod.uid);
                pod.node.is_none() && decided.is_some_and(|decided| decided.released.is_none())
            };
            if let Some(pod) = self.scheduled_members(key).find(starts) {
                return Err(broken(
                    "a group that was given up does not start",
                    format!("{} of {key}", pod.uid),
                ));
            }
            let min = self.process.groups.get(key).and_then(|group| group.min).unwrap_or(1).max(1);
            let is_bound = |pod: &&Arc<Pod>| pod.node.is_some() && !pod.deleting;
            let bound = self.scheduled_members(key).filter(is_bound).count();
            if bound >= min {
                let detail = format!("{bound} members of {key} are bound, {min} are needed");
                return Err(broken("a group that runs is not given up", detail));
            }
        }
        Ok(())
    }

    /// Checks that the API server has the conditions that were sent. A lost one is sent again, at growing intervals.
    pub(super) fn check_conditions_of_groups(&mut self) -> Result<(), Broken> {
        const LATE: usize = 4;
        for (key, group) in &self.server.groups {
            let scheduler = &mut self.process.scheduler;
            let of_scheduler = group_key(scheduler.tables(), key);
            let sent = scheduler.pending_group(of_scheduler).condition;
            let is_late = self.lost_group_patches.get(key).is_some_and(|lost| *lost >= LATE);
            if sent != group.condition.as_ref() && !is_late {
                let detail = format!("{key}: {:?} instead of {sent:?}", group.condition);
                return Err(broken("a group's condition is written", detail));
            }
            let says_so = group.condition.as_ref().is_some_and(|condition| condition.is_true);
            let min = group.min.unwrap_or(1).max(1);
            let is_bound = |pod: &&Arc<Pod>| pod.node.is_some() && !pod.deleting;
            let runs = self.scheduled_members(key).filter(is_bound).count() >= min;
            if runs && self.process.chosen.contains(&group.uid) && !says_so && !is_late {
                let detail = format!("{key}: {:?}", group.condition);
                return Err(broken("a group that runs says so", detail));
            }
            let has_begun =
                self.server.ever_bound.contains(key) || self.scheduled_members(key).next().is_some();
            let was_chosen = group.min.is_some() && self.process.chosen_by_leader.contains(&group.uid);
            if says_so && was_chosen && !has_begun && !is_late {
                let detail = format!("{key}: {:?}", group.condition);
                return Err(broken("a group of which no member could be bound says so", detail));
            }
        }
        Ok(())
    }

    /// Whether a pod is in a group that may wait for victims: those that members that have a node wait for, too.
    pub(crate) fn waits_for_members_preemption(&self, uid: &str) -> bool {
        let Some(key) = self.process.pods.get(uid).and_then(|pod| pod.group_key()) else { return false };
        let queue = self.process.scheduler.queue();
        let preempts = |pod: &Arc<Pod>| {
            pod.group_key().is_some_and(|own| own == key) && queue.blocked_by(&pod.uid).is_some()
        };
        let are_victims_left = self.process.evicting.iter().any(|uid| self.process.pods.contains_key(uid));
        are_victims_left || self.process.pods.values().any(preempts)
    }

    /// Whether a member with a scheduling gate keeps the whole group out of the queue, as from 1.37 on.
    pub(super) fn is_held_by_gate(&self, key: &str) -> bool {
        let holds = |pod: &Arc<Pod>| {
            pod.ours && pod.gated && pod.node.is_none() && pod.group_key().is_some_and(|own| own == key)
        };
        emulated_version(self.seed) >= EmulatedVersion::V1_37 && self.process.pods.values().any(holds)
    }

    /// Checks that no group is pending for whose members there is room, if the members are equal and no rule between
    /// pods concerns them. Then the order of the members makes no difference.
    pub(crate) fn check_no_feasible_group_pending(&mut self) -> Result<(), Broken> {
        let groups: Vec<Arc<Group>> = self.server.groups.values().cloned().collect();
        for group in groups.iter().filter(|group| !group.in_rack) {
            let Some(min) = group.min else { continue };
            let key = group.key();
            if self.is_mismatched(&key) || self.is_held_by_gate(&key) || self.is_given_up(&key) {
                continue;
            }
            let scheduled = self.scheduled_members(&key).count();
            let waits = |pod: &&Arc<Pod>| {
                pod.ours
                    && pod.node.is_none()
                    && !pod.gated
                    && !pod.deleting
                    && pod.group_key().as_ref() == Some(&key)
            };
            let pending: Vec<Arc<Pod>> = self.server.pods.values().filter(waits).cloned().collect();
            let needed = min.saturating_sub(scheduled);
            if needed == 0 || pending.len() < needed || !are_alike(&pending) {
                continue;
            }
            // The first of them chooses the volume for all, and so their nodes. This check takes no devices.
            if share_claims(pending.iter()) || needed > 1 && pending.iter().any(|pod| pod.needs_devices()) {
                continue;
            }
            let view = self.server_view(|_, _| true);
            let infos: Vec<Arc<PodInfo>> = pending.iter().map(|pod| self.process.info(pod)).collect();
            let snapshot = self.process.scheduler.snapshot();
            let mut placed: Placed = Vec::new();
            for pod in &infos {
                let world = || beside(view.world(snapshot.tables()), &placed);
                let Some(&node) = evictions::feasible(world, snapshot, pod).first() else { break };
                placed.push((Arc::clone(pod), node));
            }
            if placed.len() >= needed {
                let detail = format!("{key}: {} fit, {needed} are needed", placed.len());
                return Err(broken("no pending group fits", detail));
            }
        }
        Ok(())
    }
}

/// Whether a cycle of the group may fail: the group was deleted, or its members are not in one rack since a node moved.
fn may_fail(group: Option<&Group>) -> bool {
    group.is_none_or(|group| group.in_rack)
}

/// Returns the members that go on to their bindings.
fn starting(report: &GroupReport) -> impl Iterator<Item = &MemberReport> {
    report.members.iter().filter(|member| member.message.is_none())
}

/// Adds pods to a view.
fn beside<'a>(world: ReferenceCluster<'a>, placed: &'a Placed) -> ReferenceCluster<'a> {
    placed.iter().fold(world, |world, (pod, node)| world.with(pod, *node))
}

fn key_of(report: &GroupReport) -> String {
    format!("{}/{}", report.namespace, report.name)
}

/// Whether members share a claim, of a volume or of devices.
fn share_claims<'a>(members: impl Iterator<Item = &'a Arc<Pod>>) -> bool {
    let mut seen = BTreeSet::new();
    let of_devices = |pod: &'a Pod| pod.devices.iter().filter_map(PodDevices::claim).map(|name| (true, name));
    let of_volumes = |pod: &'a Pod| pod.claims.iter().map(|claim| (false, claim));
    let mut claims = members.flat_map(|pod| of_volumes(pod).chain(of_devices(pod)));
    claims.any(|claim| !seen.insert(claim))
}

/// Whether pods are equal in what decides on their nodes, and no rule between pods concerns them.
fn are_alike(pods: &[Arc<Pod>]) -> bool {
    let demands = |pod: &Pod| {
        let choice = format!("{:?} {:?}", pod.node_choice, pod.tolerates);
        (pod.cpu_milli, pod.memory, pod.gpus, pod.priority, choice)
    };
    let is_plain = |pod: &Pod| pod.port.is_none() && pod.spread.is_empty() && pod.affinity.is_none();
    pods.iter().all(|pod| is_plain(pod) && demands(pod) == demands(&pods[0]))
}
