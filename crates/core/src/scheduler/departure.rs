//! What happens when a pod leaves: the one ordered list.
//!
//! A pod leaves when the scheduler no longer schedules it, for one of the reasons in [`Departure`]. A terminating pod
//! has not left: it keeps its node and its state until it is deleted.

use super::Scheduler;
use crate::framework::{ClusterEvent, PodAction, pending_pod_label};
use crate::model::intern::Symbol;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::switches::mutation::{self, Mutation};
use std::sync::Arc;

/// Why a pod leaves.
pub(super) enum Departure<'a> {
    /// It was deleted, has terminated, is missing from a list, or was rejected by its kubelet.
    Deleted,
    /// The watch shows it on this node.
    Bound(&'a PodInfo, Symbol),
    /// No profile selects it any more, and its decision was reverted.
    NotOurs(&'a Arc<PodInfo>),
    /// It made the engine panic, and cache and queue were rebuilt without it. The pod still exists: a binding that was
    /// sent and the sent condition remain.
    Quarantined,
}

impl Scheduler {
    /// Ends the scheduling of a pod. Every owner of state about pods has its place in this list.
    pub(super) fn pod_left(&mut self, now: Time, uid: &Uid, why: &Departure<'_>) {
        let exists_unseen = matches!(why, Departure::Quarantined);
        // What is known about the pod.
        self.audit.forget(uid);
        if !exists_unseen {
            if !mutation::is_on(Mutation::DeletedPodStateKept) {
                self.conditions.pod_left(uid);
            }
            self.outbox.cancel_patch(uid);
            self.quarantine.pod_left(uid);
        }
        // Steps between the decision and the binding: extender calls, PreBind, and the binding itself.
        if !mutation::is_on(Mutation::DeletedPodStaysSuspended) {
            self.extender_calls.end(uid, &mut self.outbox);
        }
        match *why {
            Departure::Bound(_, node) => self.binding_confirmed(now, uid, node),
            Departure::Deleted | Departure::NotOurs(_) | Departure::Quarantined => {
                self.end_pre_bind(uid);
            }
        }
        match why {
            Departure::Deleted => self.bindings.pod_left(uid, &mut self.outbox),
            Departure::Quarantined => _ = self.bindings.cancel_unsent(uid, &mut self.outbox),
            Departure::Bound(..) | Departure::NotOurs(_) => {}
        }
        if self.queue.remove(uid) && matches!(why, Departure::Deleted) {
            self.note_event_label(pending_pod_label(PodAction::Delete, self.tables.rules()));
        }
        self.member_left(now, uid, why);
        self.cache.forget_failed_devices(uid);
        self.reservations_left(now, uid, why);
        // What the pod reserves: volumes, the room that its victims make, a nomination, and its node.
        if let Departure::Deleted = why {
            self.give_back_volumes(now, uid);
        }
        self.preemptor_left(now, uid);
        match *why {
            Departure::Deleted => self.leave_node(now, uid),
            Departure::Bound(pod, node) => self.nomination_fulfilled(now, pod, node),
            // It counts like the nomination of any foreign pod, as the API server shows it.
            Departure::NotOurs(pod) => {
                self.nominate(now, pod, pod.nominated_node.filter(|_| !pod.deleting));
            }
            Departure::Quarantined => self.victim_left(now, uid),
        }
    }

    /// Forgets which reservations the pod gave up. One that is bound while it is in PreBind reserves them again.
    fn reservations_left(&mut self, now: Time, uid: &Uid, why: &Departure<'_>) {
        if let Departure::Bound(..) = why {
            let kept = self.outbox.cancel_claims(uid);
            for claim in &kept {
                self.cache.reservation_written(claim, uid);
            }
            if !kept.is_empty() {
                self.pre_bind_looks_again(now, uid);
            }
        }
        if !self.volume_bindings.contains(uid) {
            self.cache.forget_given_up(uid);
        }
    }

    /// Removes a pod from its node or its nomination, and requeues pods that this may help.
    fn leave_node(&mut self, now: Time, uid: &Uid) {
        let nominated = self.cache.forget_nomination(uid);
        let freed = self.cache.remove_pod(uid).map(|(pod, node, _)| (pod, node));
        self.victim_left(now, uid);
        if let Some((pod, node)) = freed {
            let event = ClusterEvent::AssignedPod { action: PodAction::Delete, old: Some(&pod), new: None };
            self.requeue_on(now, &event);
            self.room_left(now, node);
        } else if let Some(pod) = nominated {
            self.nomination_released(now, &pod);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::cycle::NoProbe;
    use crate::model::effect::Lane;
    use crate::model::event::{BindOutcome, Event, Kind, ObjectKey};
    use crate::scheduler::quarantine::tests::{World, pod};
    use std::time::Duration;

    /// Pods in all places: a victim with its preemptor, an unschedulable pod with a patch, and a sent binding.
    const PODS: [&str; 4] = ["victim", "preemptor", "large", "sent"];

    fn arrive(world: &mut World, name: &str, cpu_milli: i64, priority: i32) {
        let mut pod = pod(world.scheduler.tables(), name, cpu_milli, None);
        pod.template.priority = priority;
        world.handle(Event::PodApplied(pod));
    }

    fn world() -> World {
        let mut world = World::new();
        world.handle(Event::Credits { lane: Lane::Evict, count: 1 });
        world.pod("victim", 3_500, Some("a"));
        arrive(&mut world, "preemptor", 3_000, 8);
        world.pod("large", 9_000, None);
        world.run();
        // A nominated pod of lower priority does not count for it.
        arrive(&mut world, "sent", 100, 9);
        assert!(world.scheduler.attempt(world.now, &mut NoProbe));
        world
    }

    /// Returns what is still known about pods, apart from Events about them and the nodes.
    fn known(world: &World) -> Vec<(&'static str, usize)> {
        let is_about_pods = |name: &str| !name.contains("node") && name != "outgoing records";
        let held = world.scheduler.held().into_iter();
        held.filter(|&(name, count)| count > 0 && is_about_pods(name)).collect()
    }

    #[test]
    fn deleted_pods_leave_no_state_in_any_owner() {
        let mut world = world();
        let names: Vec<_> = known(&world).into_iter().map(|(name, _)| name).collect();
        for owner in [
            "queue",
            "pending pods shown",
            "bindings",
            "sent conditions",
            "preemptions",
            "evictions",
            "outgoing patches",
            "assumed pods",
        ] {
            assert!(names.contains(&owner), "{owner} is empty: {names:?}");
        }
        for uid in PODS {
            world.handle(Event::Gone(ObjectKey::Pod(uid.into())));
        }
        world.run();
        // The answer of a sent eviction is awaited, so that the pod is not evicted twice.
        world.handle(Event::EvictFinished {
            uid: "victim".into(),
            outcome: crate::model::event::EvictOutcome::Deleted,
        });
        world.run();
        assert_eq!(known(&world), []);
    }

    #[test]
    fn bound_pods_leave_only_their_place_on_the_node() {
        let mut world = world();
        world.handle(Event::Gone(ObjectKey::Pod("victim".into())));
        for uid in &PODS[1..] {
            world.pod(uid, 100, Some("a"));
        }
        world.handle(Event::EvictFinished {
            uid: "victim".into(),
            outcome: crate::model::event::EvictOutcome::Deleted,
        });
        world.run();
        let names: Vec<_> = known(&world).into_iter().map(|(name, _)| name).collect();
        for owner in
            ["queue", "pending pods shown", "bindings", "sent conditions", "preemptions", "evictions"]
        {
            assert!(!names.contains(&owner), "{owner}: {names:?}");
        }
        assert_eq!(world.scheduler.stats().cache.pods, 3);
    }

    /// It is in no queue, but its condition was sent.
    #[test]
    fn terminating_pod_that_a_list_omits_leaves_no_state() {
        let mut world = World::new();
        world.handle(Event::Credits { lane: Lane::Status, count: 9 });
        world.pod("p", 500, None);
        world.run();
        let outcome = BindOutcome::Refused { message: "no".to_owned() };
        world.handle(Event::BindFinished { uid: "p".into(), outcome });
        world.run();
        let mut deleting = pod(world.scheduler.tables(), "p", 500, None);
        deleting.deleting = true;
        world.handle(Event::PodApplied(deleting));
        world.now = world.now + Duration::from_secs(10);
        world.run();
        assert_eq!(known(&world), [("sent conditions", 1)]);
        world.handle(Event::ListBegan(Kind::Pod));
        world.handle(Event::ListEnded(Kind::Pod));
        assert_eq!(known(&world), []);
    }
}
