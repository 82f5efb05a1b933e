//! The invariants of a settled cluster, and of an empty one.

use super::{Broken, broken};
use crate::evictions;
use crate::extenders;
use crate::groups::has_groups;
use crate::objects::Pod;
use crate::process::{Decided, Process};
use crate::reference;
use crate::sim::Sim;
use std::collections::BTreeSet;
use std::sync::Arc;
use supercargo_core::model::event::Kind;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::queue::SubQueue;

impl Sim {
    /// Checks the state some time after the faults have stopped.
    pub(crate) fn check_end(&mut self) -> Result<(), Broken> {
        self.check_drained()?;
        self.check_reported()?;
        self.check_accounted()?;
        self.check_conditions_of_groups()?;
        self.check_places()?;
        self.check_cache()?;
        self.check_hints()?;
        self.check_devices_at_end()?;
        self.check_no_feasible_pod_pending()?;
        self.check_no_feasible_group_pending()
    }

    fn check_drained(&self) -> Result<(), Broken> {
        let process = &self.process;
        if process.scheduler.awaited_kinds().next().is_some() {
            return Err(broken("lists complete", "a kind is not listed yet".to_owned()));
        }
        // A decision is cancelled without a report, and the pod may be gated then.
        let gated: BTreeSet<&str> = process
            .scheduler
            .queue()
            .waiting()
            .filter_map(|(place, queued)| (place == SubQueue::Gated).then_some(&*queued.pod.uid))
            .collect();
        let is_open =
            |(uid, decided): (&String, &Decided)| decided.released.is_some() || !gated.contains(&**uid);
        if !process.scheduler.is_settled() || process.decided.iter().any(is_open) {
            let detail = format!("{:?}; decided {:?}", process.scheduler.stats(), process.decided);
            return Err(broken("bindings and effects drain", detail));
        }
        let late = Kind::watched(has_groups(self.seed))
            .find(|&kind| !self.watches.know(kind, self.server.last_change(kind)));
        match late {
            Some(kind) => Err(broken("watches catch up", format!("{kind:?}"))),
            None => Ok(()),
        }
    }

    fn check_reported(&self) -> Result<(), Broken> {
        let process = &self.process;
        let records_dropped = process.scheduler.stats().dropped_records > 0;
        let is_reported =
            |pod: &&Arc<Pod>| pod.ours && !pod.gated && !pod.deleting && !process.is_held(&pod.uid);
        for pod in self.server.pods.values().filter(is_reported) {
            let reported = process.reported.get(&pod.uid).cloned().unwrap_or_default();
            let condition = pod.condition.as_ref().map(|(_, message)| message);
            let wrong = if pod.node.is_some() {
                let is_ours = pod.bound_by == Some(process.incarnation)
                    && !process.reset_by_stale_list.contains(&pod.uid);
                is_ours && reported.scheduled_records != 1 && !records_dropped
            } else {
                let excused = self.lost_patches.contains(&pod.uid)
                    || process.reset_by_stale_list.contains(&pod.uid)
                    || reported.out_of_date;
                let condition_differs = condition != reported.failure.as_ref() && !excused;
                let silent = reported.failed_records == 0 && !records_dropped;
                silent || reported.failure.is_none() || condition_differs
            };
            if wrong {
                let detail = format!("{}: on {:?}, {:?}, {reported:?}", pod.uid, pod.node, pod.condition);
                return Err(broken("every pod has its event, and a pending pod its condition", detail));
            }
        }
        Ok(())
    }

    fn check_accounted(&self) -> Result<(), Broken> {
        let waiting = |pod: &&Arc<Pod>| pod.ours && pod.node.is_none() && !pod.deleting;
        let pending = self.server.pods.values().filter(waiting).count();
        let queue = self.process.scheduler.queue();
        let queued = queue.waiting().filter(|(_, queued)| !queued.pod.deleting).count();
        if pending != queued {
            let detail = format!("{pending} pods are pending, {queued} are queued");
            return Err(broken("the queue accounts for every pending pod", detail));
        }
        Ok(())
    }

    /// Checks that no pending pod has a feasible node in the server's state, with nominated pods counted, and
    /// that preemption would not help it.
    fn check_no_feasible_pod_pending(&mut self) -> Result<(), Broken> {
        let view = self.server_view(|_, _| true);
        let fails = |pod: &Pod| {
            let message = self.process.reported.get(&pod.uid).and_then(|reported| reported.failure.as_ref());
            message.is_some_and(|message| self.is_of_foreign_claim(&pod.uid, message))
        };
        let waits =
            |pod: &&Arc<Pod>| pod.ours && pod.node.is_none() && !pod.gated && !pod.deleting && !fails(pod);
        let waiting = self.server.pods.values().filter(waits).filter(|pod| self.may_start_alone(&pod.uid));
        let waiting: Vec<_> = waiting.cloned().collect();
        let infos: Vec<_> = waiting.iter().map(|pod| self.process.info(pod)).collect();
        let snapshot = self.process.scheduler.snapshot();
        let world = || view.world(snapshot.tables());
        for pod in &infos {
            if let Some(&node) = evictions::feasible(world, snapshot, pod).first() {
                let places = self.process.scheduler.queue().waiting().filter(|(_, it)| it.pod.uid == pod.uid);
                let places: Vec<_> =
                    places.map(|(place, it)| (place, it.gate, it.rejectors.clone())).collect();
                let detail = format!("{} fits on {}; it waits in {places:?}", pod.uid, snapshot.text(node));
                return Err(broken("no pending pod has a feasible node", detail));
            }
            // Pods with rules between pods are skipped, since removing lower-priority pods may also make nodes
            // infeasible for them.
            if reference::may_be_helped_by_pods(pod) || pod.group.is_some() {
                continue;
            }
            let is_lesser = |known: &Arc<Pod>| {
                self.victim_priority(known) < pod.priority && !self.is_evicted_with_others(known)
            };
            let lesser = |other: &PodInfo| {
                !other.deleting && self.process.pods.get(&*other.uid).is_some_and(is_lesser)
            };
            let makes_room = |&&name: &&Symbol| {
                evictions::rejection_reason(|| world().without_on(name, lesser), snapshot, pod, name)
                    .is_none()
            };
            if let Some(&node) = world().node_names().iter().find(makes_room) {
                let detail =
                    format!("{} fits on {} without the lesser pods there", pod.uid, snapshot.text(node));
                return Err(broken("no pending pod could be placed by preemption", detail));
            }
        }
        Ok(())
    }

    /// Checks the engine when all pods and nodes are deleted. It must hold nothing about them, and its tables
    /// must be as large as those of a new engine that received only the current state.
    pub(crate) fn check_empty(&mut self) -> Result<(), Broken> {
        let scheduler = &self.process.scheduler;
        let rest: Vec<_> = scheduler.held().into_iter().filter(|&(_, count)| count > 0).collect();
        if !rest.is_empty() {
            return Err(broken("an empty cluster leaves no state", format!("{rest:?}")));
        }
        if scheduler.snapshot().devices().all_lingering().next().is_some() {
            // Claims that a list left out hold ids until their time limit.
            return Ok(());
        }
        let mut fresh = Process::new(self.seed, 0, self.now);
        if self.extended {
            extenders::install(self.seed, &mut fresh.scheduler);
        }
        for kind in Kind::watched(has_groups(self.seed)) {
            self.server.list(kind).iter().try_for_each(|change| fresh.deliver(self.now, kind, change))?;
        }
        let [here, there] = [&mut self.process, &mut fresh].map(|process| {
            process.collect_ids();
            process.scheduler.tables().sizes()
        });
        if here == there {
            return Ok(());
        }
        Err(broken("an empty cluster leaves no ids", format!("{here:?} instead of {there:?}")))
    }
}
