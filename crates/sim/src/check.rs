//! The invariants: states that must never occur, and states that must be reached in the end.
//!
//! They are judged by the inputs of the scheduler, the server's state and [`crate::reference`], never by the
//! engine's own rules.

use crate::agenda::Request;
use crate::evictions;
use crate::objects::Pod;
use crate::process::Process;
use crate::reference;
use crate::sim::Sim;
use std::sync::Arc;
use supercargo_core::model::effect::PodRef;
use supercargo_core::model::event::Kind;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::report::{Outcome, Preemption, Report};

mod devices;
mod end;
mod groups;
mod rest;
mod state;
mod storage;

pub(crate) use state::check_kept;

pub(crate) const CACHED_EQUALS_FULL: &str = "a cached decision equals a full evaluation";

/// A broken invariant.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) invariant: &'static str,
    pub(crate) detail: String,
}

pub(crate) fn broken(invariant: &'static str, detail: String) -> Broken {
    Broken { invariant, detail }
}

impl Sim {
    // --- effects and reports

    /// Checks a binding that leaves the scheduler.
    pub(crate) fn check_bind(&self, pod: &PodRef, node: &str) -> Result<(), Broken> {
        let uid = &*pod.uid;
        let because = |why: &str| {
            Err(broken("a binding is sent only for a pending, decided pod", format!("{uid}: {why}")))
        };
        let Some(seen) = self.process.pods.get(uid) else { return because("deleted") };
        if !seen.ours {
            return because("another scheduler's pod");
        }
        if seen.gated {
            return because("gated");
        }
        if seen.deleting {
            return because("terminating");
        }
        if let Some(there) = &seen.node {
            return because(&format!("bound to {there}"));
        }
        let Some(decided) = self.process.decided.get(uid) else { return because("no decision") };
        if decided.node != node || decided.in_flight {
            let detail = format!("{uid} is sent to {node}, and was sent to {}", decided.node);
            return Err(broken("one binding of a pod is in flight, to the decided node", detail));
        }
        let other =
            |r: &&Request| r.incarnation == self.process.incarnation && r.uid == uid && r.node != node;
        // A deleted or bound pod cannot be bound. Its watch may be late.
        let can_be_bound = self.server.pods.get(uid).is_some_and(|pod| pod.node.is_none() && !pod.deleting);
        if let Some(request) = self.in_air.values().find(other).filter(|_| can_be_bound) {
            let detail = format!("{uid} is sent to {node} while {} may still get it", request.node);
            return Err(broken("no second node while the outcome of the first binding is unknown", detail));
        }
        Ok(())
    }

    /// Checks that the scheduler sends no patch or event about gated pods and pods of other schedulers.
    pub(crate) fn check_may_report(&self, pod: &PodRef) -> Result<(), Broken> {
        match self.process.pods.get(&*pod.uid) {
            // After a list of an older state, a pod may show a gate again that was already removed.
            Some(seen)
                if !seen.ours || seen.gated && !self.process.reset_by_stale_list.contains(&*pod.uid) =>
            {
                Err(broken("no report concerns a gated or another scheduler's pod", pod.uid.to_string()))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check_report(&mut self, report: &Report) -> Result<(), Broken> {
        let uid = &*report.pod.uid;
        if matches!(report.outcome, Outcome::Placed { .. } | Outcome::Unschedulable { .. }) {
            self.check_turn(uid)?;
        }
        match &report.outcome {
            Outcome::Placed { node, nodes, feasible, .. } => {
                self.check_placed(uid, node, *nodes, *feasible)?;
                self.check_passed(uid, node)?;
                self.check_rescued(report)?;
                self.check_storm(uid)?;
                self.note_placed(uid, node);
            }
            Outcome::Unschedulable { message, preemption, .. } => {
                if let Preemption::Nominated { victims, .. } = preemption {
                    self.process.taken_back = victims.iter().map(|victim| victim.uid.to_string()).collect();
                }
                // Members were checked with their group.
                if self.process.pods.get(uid).is_none_or(|pod| pod.group.is_none()) {
                    self.check_infeasible_everywhere(uid)?;
                }
                self.process.taken_back.clear();
                if let Preemption::Nominated { node, victims, .. } = preemption {
                    self.process.nominated.insert(uid.to_owned());
                    self.check_victims(uid, node, victims)?;
                }
                // A repeated decision whose earlier binding was never sent.
                self.forget_decision(uid);
                self.note_failure(uid, message);
            }
            Outcome::BindFailed { message } => {
                self.check_not_taken_back(uid, message)?;
                self.server.count_refusal();
                self.process.decided.remove(uid);
                self.note_failure(uid, message);
                self.check_failed(uid)?;
            }
            // An extender that is not ignorable failed, a pod has a claim of another pod, or its group is gone.
            Outcome::Error { message }
                if self.is_managed(uid)
                    || self.is_of_foreign_claim(uid, message)
                    || self.fails_with_its_group(uid) =>
            {
                self.forget_decision(uid);
                self.note_failure(uid, message);
            }
            Outcome::Error { message } => {
                return Err(broken("no attempt fails with an error", format!("{uid}: {message}")));
            }
            Outcome::PreemptionEnded { .. } => {}
            Outcome::Skipped => {
                if !self.process.pods.get(uid).is_some_and(|pod| pod.deleting) {
                    return Err(broken("only terminating pods are skipped", uid.to_owned()));
                }
                self.forget_decision(uid);
            }
            Outcome::PreBound { succeeded, .. } => {
                if self.process.pods.get(uid).is_some_and(|pod| pod.deleting && pod.node.is_none()) {
                    self.forget_decision(uid);
                } else if *succeeded {
                    self.process.pre_bound.insert(uid.to_owned());
                }
            }
            Outcome::Bound { node, .. } => self.check_bound_to(uid, node)?,
        }
        Ok(())
    }

    fn check_bound_to(&mut self, uid: &str, node: &str) -> Result<(), Broken> {
        if self.server.pods.get(uid).is_some_and(|pod| pod.node.as_deref() != Some(node)) {
            return Err(broken("a pod reported as bound is bound", format!("{uid} on {node}")));
        }
        // The watch may have shown an earlier Binding long before its answer.
        let is_of_this_start = self.process.decided.get(uid).is_some_and(|it| it.released.is_some());
        let pod = self.process.pods.get(uid).filter(|_| is_of_this_start);
        self.process.bound_since_chosen.extend(pod.and_then(|pod| pod.group_key()));
        Ok(())
    }

    /// Checks that all victims have lower priority, and that the node has room for the pod without them. Rules
    /// between pods are not checked here, since upstream approximates them.
    fn check_victims(&mut self, uid: &str, node: &str, victims: &[PodRef]) -> Result<(), Broken> {
        let pod = self.seen_info(uid)?;
        for victim in victims {
            self.check_victim((uid, pod.priority), &victim.uid, victims)?;
        }
        // If two pods use a host port, the dry run frees it with one of them, as upstream does.
        if !pod.ports.is_empty() {
            return Ok(());
        }
        let view = self.process.scheduler_view(uid);
        let name = self.process.scheduler.tables().symbol(node);
        let goes = |other: &PodInfo| victims.iter().any(|victim| victim.uid == other.uid);
        let tables = self.process.scheduler.tables();
        match view.world(tables).without(uid).without_on(name, goes).local_rejection_reason(&pod, name) {
            Some(why) => {
                let detail = format!("{uid} on {node} without {victims:?}: {why}");
                Err(broken("the node is feasible without the victims", detail))
            }
            None => Ok(()),
        }
    }

    fn note_failure(&mut self, uid: &str, message: &str) {
        self.process.verdicts.remove(uid);
        let out_of_date = !self.watches.know(Kind::Pod, 0);
        let reported = self.process.reported.entry(uid.to_owned()).or_default();
        reported.failure = Some(message.to_owned());
        reported.out_of_date = out_of_date;
    }

    fn seen_info(&mut self, uid: &str) -> Result<Arc<PodInfo>, Broken> {
        let Some(pod) = self.process.pods.get(uid).cloned() else {
            return Err(broken("only known pods are decided", uid.to_owned()));
        };
        Ok(self.process.info(&pod))
    }

    /// Checks that no pod is decided again and again without a backoff.
    fn check_storm(&mut self, uid: &str) -> Result<(), Broken> {
        const MOST: u32 = 50;
        let second = self.now.as_nanos() / 1_000_000_000;
        let decided = self.process.decided_in.entry(uid.to_owned()).or_default();
        *decided = if decided.0 == second { (second, decided.1 + 1) } else { (second, 1) };
        if decided.1 > MOST {
            let detail = format!("{uid}: more than {MOST} times");
            return Err(broken("a pod is decided only a few times within a second", detail));
        }
        Ok(())
    }

    /// Checks that the chosen node is feasible by the reference in the scheduler's view of the cluster, and
    /// that the number of feasible nodes is correct.
    fn check_placed(&mut self, uid: &str, node: &str, nodes: usize, feasible: usize) -> Result<(), Broken> {
        let pod = self.seen_info(uid)?;
        if let Some(there) = self.process.decided.get(uid).filter(|d| d.released.is_some()) {
            let detail = format!("{uid} to {node}, with one to {} not settled", there.node);
            return Err(broken("no decision while an earlier one is in flight", detail));
        }
        if pod.group.is_some() {
            // Members were checked with their group, and may have been decided in another order.
            return Ok(());
        }
        let view = self.process.scheduler_view(uid);
        let snapshot = self.process.scheduler.snapshot();
        let world = || view.world(snapshot.tables());
        let able = evictions::feasible_at_least(world, snapshot, &pod);
        if !able.iter().any(|&name| snapshot.text(name) == node) {
            let name = snapshot.tables().find(node);
            let why = name
                .and_then(|name| evictions::rejection_reason(world, snapshot, &pod, name))
                .unwrap_or_default();
            let detail = format!("{uid} on {node}: {why}");
            return Err(broken("the decided node is feasible", detail));
        }
        // A nominated pod may be evaluated on its node alone.
        let alone = feasible == 1 && self.process.nominated.contains(uid);
        // An extender may reject some of them.
        let alone = alone || self.is_managed(uid) && (1..=able.len()).contains(&feasible);
        let expected = evictions::feasible(world, snapshot, &pod).len()..=able.len();
        if nodes != self.process.nodes.len() || !expected.contains(&feasible) && !alone {
            let detail = format!("{uid}: {feasible} of {nodes} nodes, expected {expected:?}");
            return Err(broken("the feasible nodes equal the reference's", detail));
        }
        Ok(())
    }

    /// Checks that no node is feasible by the reference.
    fn check_infeasible_everywhere(&mut self, uid: &str) -> Result<(), Broken> {
        // The extender may have rejected the feasible nodes.
        if self.is_managed(uid) {
            return Ok(());
        }
        let pod = self.seen_info(uid)?;
        // The volumes and devices reserved for a victim have been released in the meantime.
        let decided = |victim: &&String| self.process.decided.contains_key(*victim);
        let victims = self.process.taken_back.iter().filter(decided);
        let mut victims = victims.filter_map(|victim| self.process.pods.get(victim));
        let (needs_volumes, needs_devices) = self
            .process
            .pods
            .get(uid)
            .map_or((false, false), |pod| (!pod.claims.is_empty(), pod.needs_devices()));
        let frees = |victim: &Arc<Pod>| {
            needs_volumes && !victim.claims.is_empty() || needs_devices && victim.needs_devices()
        };
        if victims.any(frees) {
            return Ok(());
        }
        let view = self.process.scheduler_view(uid);
        let snapshot = self.process.scheduler.snapshot();
        match evictions::feasible(|| view.world(snapshot.tables()), snapshot, &pod).first() {
            Some(&node) => {
                let detail = format!("{uid} fits on {}", snapshot.text(node));
                Err(broken("a pod reported as unschedulable is unschedulable", detail))
            }
            None => Ok(()),
        }
    }

    /// Checks that a binding, when it is first sent, breaks no rule of its node in the scheduler's current
    /// view.
    pub(crate) fn check_release(&mut self, uid: &str, node: &str) -> Result<(), Broken> {
        if self.process.decided.get(uid).is_none_or(|decided| decided.released.is_some()) {
            return Ok(());
        }
        let pod = self.seen_info(uid)?;
        self.check_claims(uid)?;
        self.check_bound_devices(uid, node)?;
        let was_pre_bound = self.process.pre_bound.remove(uid);
        let view = self.process.scheduler_view(uid);
        let tables = self.process.scheduler.tables();
        let name = tables.symbol(node);
        let world = view.world(tables).without(uid);
        // For pods with PreBind, the recheck includes the claims.
        let by_claims = || if was_pre_bound { world.storage_rejection_reason(&pod, name) } else { None };
        match world.local_rejection_reason(&pod, name).or_else(by_claims) {
            Some(why) => {
                let detail = format!("{uid} to {node}: {why}");
                Err(broken("a binding is sent only to a node that is still feasible", detail))
            }
            None => Ok(()),
        }
    }

    /// Checks that the five-minute flush helped no pod. A pod that an unconfirmed pod would help is exempt,
    /// since the confirmation would requeue it.
    fn check_rescued(&mut self, report: &Report) -> Result<(), Broken> {
        if !report.rescued_by_flush || self.is_managed(&report.pod.uid) {
            return Ok(());
        }
        // A repeated decision was checked at its first placement.
        if self.process.decided.contains_key(&*report.pod.uid) {
            return Ok(());
        }
        let pod = self.seen_info(&report.pod.uid)?;
        let assumed = self.process.scheduler.stats().cache.assumed_pods;
        let helped_by_pods = reference::may_be_helped_by_pods(&pod) || reference::may_share_volumes(&pod);
        if assumed > 1 && helped_by_pods {
            return Ok(());
        }
        // An event between the flush and the attempt may have helped, and would have requeued the pod, too.
        if self.process.flushed.contains(&*report.pod.uid) {
            return Ok(());
        }
        // A pod whose nomination ended or moved since the flush may have helped as well.
        let now = self.process.nominations();
        if self.process.held_places.iter().any(|place| !now.contains(place)) {
            return Ok(());
        }
        Err(broken("the flush places no pod", report.pod.uid.to_string()))
    }

    /// Checks that a binding reported as failed was not carried out and cannot be any more.
    fn check_failed(&self, uid: &str) -> Result<(), Broken> {
        if self.process.reset_by_stale_list.contains(uid) {
            // After a list of an older state, the scheduler no longer knew that the pod was bound.
            return Ok(());
        }
        let incarnation = self.process.incarnation;
        let ours = self.server.pods.get(uid).filter(|pod| pod.bound_by == Some(incarnation));
        if let Some(node) = ours.and_then(|pod| pod.node.as_ref()) {
            let detail = format!("{uid} is on {node} by our own hand");
            return Err(broken("a binding reported as failed was not carried out", detail));
        }
        let exists = self.server.pods.contains_key(uid);
        match self.in_air.values().find(|r| exists && r.incarnation == incarnation && r.uid == uid) {
            Some(request) => {
                let detail = format!("{uid} may still get to {}", request.node);
                Err(broken("a binding is abandoned only if it can no longer be carried out", detail))
            }
            None => Ok(()),
        }
    }

    // --- the server's state

    /// Checks a binding that the server accepts: it must break no rule if nothing changed between the
    /// scheduler's state and the write.
    pub(crate) fn check_bound(&mut self, request: &Request) -> Result<(), Broken> {
        let unchanged = request.decided_on.is_some_and(|stamp| stamp == self.server.whole_stamp());
        let node_unchanged = request
            .released_on
            .is_some_and(|stamp| stamp == self.server.node_stamp(&request.node, &request.uid));
        if !unchanged && !node_unchanged {
            return Ok(());
        }
        self.server_checks[usize::from(unchanged)] += 1;
        let Some(own) = self.process.numbers.get(&request.uid).copied() else {
            // A list of an older state omitted the pod, and the scheduler dropped what it knew about it.
            return Ok(());
        };
        // Later decisions account for this pod, not the other way round. Members of a group are decided in any order,
        // so all that start count.
        let group = self.server.pods.get(&request.uid).and_then(|pod| pod.group_key());
        let is_of_group = |pod: &Pod| group.is_some() && pod.group_key() == group;
        let counts = |process: &Process, pod: &Pod| {
            let of_this_life = pod.bound_by.is_none_or(|incarnation| incarnation == process.incarnation);
            let number = process.numbers.get(&pod.uid);
            is_of_group(pod) || !(of_this_life && number.is_some_and(|&number| number > own))
        };
        let view = self.server_view_with(counts, is_of_group);
        let Some(pod) = self.server.pods.get(&request.uid).map(|pod| self.process.info(pod)) else {
            return Err(broken("a bound pod exists", request.uid.clone()));
        };
        let tables = self.process.scheduler.tables();
        let node = tables.symbol(&request.node);
        let world = view.world(tables).without(&request.uid);
        let rejection_reason = if unchanged {
            world.rejection_reason(&pod, node)
        } else {
            world.local_rejection_reason(&pod, node)
        };
        match rejection_reason {
            Some(why) => Err(broken(
                "a binding violates no rule in the server's state",
                format!("{} on {}: {why}", request.uid, request.node),
            )),
            None => Ok(()),
        }
    }
}
