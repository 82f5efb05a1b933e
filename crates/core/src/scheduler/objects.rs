//! Handling of watched objects: updates cache and queue, and requeues pods that a change may help.
//!
//! Upstream: `pkg/scheduler/eventhandlers.go`.

use super::Scheduler;
use super::departure::Departure;
use super::requeue::{hint, node_actions, pod_actions};
use crate::cache::PodState;
use crate::framework::{ClusterEvent, Hint, NodeAction, PluginName, PodAction, pending_pod_label};
use crate::model::device::ResourceClaim;
use crate::model::event::{Event, ObjectKey};
use crate::model::node::NodeInfo;
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use crate::model::volume::{StorageKey, StorageObject};
use crate::queue::QueuedPod;
use crate::switches::mutation::{self, Mutation};
use std::sync::Arc;

impl Scheduler {
    pub(super) fn object(&mut self, now: Time, event: Event) {
        match event {
            Event::PodApplied(pod) => self.listed_pod(now, &Arc::new(*pod)),
            Event::NodeApplied(node) => {
                self.lists.see(&ObjectKey::Node(node.name));
                self.node_applied(now, &Arc::new(*node));
            }
            Event::NamespaceApplied { name, labels } => {
                self.lists.see(&ObjectKey::Namespace(name));
                if self.cache.lookups_mut().set_namespace(name, labels) != Some(labels) {
                    self.requeue_on(now, &ClusterEvent::Other);
                }
            }
            Event::ServiceApplied { namespace, name, service } => {
                self.lists.see(&ObjectKey::Service(namespace, name));
                self.cache.lookups_mut().set_service(namespace, name, service);
            }
            Event::ControllerApplied { kind, namespace, name, demands } => {
                self.lists.see(&ObjectKey::Controller(kind, namespace, name));
                self.cache.lookups_mut().set_controller(kind, namespace, name, demands);
            }
            Event::DisruptionBudgetApplied { namespace, name, budget } => {
                self.lists.see(&ObjectKey::DisruptionBudget(namespace, name));
                self.cache.lookups_mut().set_disruption_budget(namespace, name, budget);
            }
            Event::DeviceClassApplied { name, class } => {
                self.lists.see(&ObjectKey::DeviceClass(name));
                let old = self.cache.set_device_class(&self.tables, name, &class);
                if old.as_ref() != Some(&class) {
                    self.requeue_on(now, &ClusterEvent::DeviceClass { old: old.as_deref(), new: &class });
                }
            }
            Event::PodGroupApplied(group) => {
                self.lists.see(&ObjectKey::PodGroup(group.key));
                self.group_applied(now, *group);
            }
            Event::StorageApplied(object) => {
                self.lists.see(&ObjectKey::Storage(object.key()));
                self.storage_applied(now, &object);
            }
            Event::Unreadable(key) => self.lists.see(&key),
            Event::Gone(key) => self.gone(now, &key),
            Event::NotAdmitted { uid, reason } => self.kubelet_rejected(now, &uid, &reason),
            Event::ListBegan(_)
            | Event::ListEnded(_)
            | Event::BindFinished { .. }
            | Event::BindingQueried { .. }
            | Event::VolumeWritten { .. }
            | Event::EvictFinished { .. }
            | Event::Extended { .. }
            | Event::Halt
            | Event::Leading(_)
            | Event::Credits { .. } => unreachable!("answers and lists are handled before objects"),
        }
    }

    pub(super) fn listed_pod(&mut self, now: Time, pod: &Arc<PodInfo>) {
        self.lists.see(&ObjectKey::Pod(Arc::clone(&pod.uid)));
        self.pod_applied(now, pod);
    }

    pub(super) fn gone(&mut self, now: Time, key: &ObjectKey) {
        let lookups = self.cache.lookups_mut();
        match *key {
            ObjectKey::Pod(ref uid) => self.pod_left(now, uid, &Departure::Deleted),
            ObjectKey::Node(name) => self.node_gone(now, name),
            ObjectKey::Namespace(name) => {
                lookups.remove_namespace(name);
                // Terms with a namespace selector concern fewer pods now.
                self.requeue_on(now, &ClusterEvent::Other);
            }
            ObjectKey::Service(namespace, name) => lookups.remove_service(namespace, name),
            ObjectKey::Controller(kind, namespace, name) => lookups.remove_controller(kind, namespace, name),
            ObjectKey::DisruptionBudget(namespace, name) => lookups.remove_disruption_budget(namespace, name),
            ObjectKey::PodGroup(key) => self.group_gone(now, key),
            ObjectKey::DeviceClass(name) => lookups.device_classes_mut().remove(name),
            ObjectKey::Storage(key) => self.storage_gone(now, key),
        }
    }

    fn storage_applied(&mut self, now: Time, object: &StorageObject) {
        let hidden = self.hidden_allocation(object.key());
        let old = self.cache.volumes_mut().apply(object.clone());
        self.hidden_allocation_ended(now, hidden);
        if old.as_ref() != Some(object) {
            self.requeue_on(now, &ClusterEvent::Storage { old: old.as_ref(), new: Some(object) });
            if let StorageObject::ResourceClaim(claim) = object {
                self.release_gated(now, old.as_ref(), claim);
                let old = old.as_ref().and_then(StorageObject::as_resource_claim);
                self.claim_shown(now, old.map(|old| &**old), claim);
            }
        }
        self.pre_bind_storage(now, old.as_ref(), Some(object));
    }

    /// Releases the pods that waited for this claim to exist, or for its owner. Those that another plugin gates now
    /// wait for that plugin.
    fn release_gated(&mut self, now: Time, old: Option<&StorageObject>, claim: &Arc<ResourceClaim>) {
        if let Some(StorageObject::ResourceClaim(old)) = old {
            let identity =
                |claim: &ResourceClaim| (claim.uid.clone(), claim.controller.clone(), claim.deleting);
            if identity(old) == identity(claim) {
                return;
            }
        }
        let gated = self.queue.gated_by_claim(claim.namespace, claim.name);
        let gated = gated.filter(|it| it.gate != self.queue.blocked_by(&it.pod.uid));
        let pods: Vec<Arc<PodInfo>> = gated.map(|it| Arc::clone(&it.pod)).collect();
        let object = StorageObject::ResourceClaim(Arc::clone(claim));
        let event = ClusterEvent::Storage { old, new: Some(&object) };
        for pod in pods {
            match self.gate(&pod) {
                None => self.queue.update(now, pod, None, &[event], &mut |_, _, _| Hint::Queue),
                Some(gate) => self.queue.hold_back(&pod.uid, gate, false),
            }
        }
    }

    fn storage_gone(&mut self, now: Time, key: StorageKey) {
        let hidden = self.hidden_allocation(key);
        let old = self.cache.volumes_mut().remove(key);
        self.hidden_allocation_ended(now, hidden);
        if old.is_some() {
            self.requeue_on(now, &ClusterEvent::Storage { old: old.as_ref(), new: None });
        }
        self.pre_bind_storage(now, old.as_ref(), None);
    }

    fn node_applied(&mut self, now: Time, node: &Arc<NodeInfo>) {
        let known = self.cache.find_slot(node.name).filter(|&idx| self.snapshot().nodes().contains(idx));
        if known.is_some_and(|idx| self.snapshot().node_info(idx) == node.as_ref()) {
            return;
        }
        let old = self.cache.apply_node(node);
        self.walk.node_applied(node, &self.tables);
        let actions = match &old {
            None => vec![NodeAction::Add],
            Some(old) => node_actions(old, node),
        };
        for action in actions {
            let event = ClusterEvent::Node { action, old: old.as_deref(), new: Some(node) };
            self.requeue_on(now, &event);
            if matches!(action, NodeAction::Add | NodeAction::UpdateLabel) {
                self.placements_changed(now);
            }
        }
    }

    fn node_gone(&mut self, now: Time, name: crate::model::intern::Symbol) {
        self.walk.node_gone(name);
        if let Some(old) = self.cache.remove_node(name) {
            self.node_left(now, name);
            self.requeue_on(
                now,
                &ClusterEvent::Node { action: NodeAction::Delete, old: Some(&old), new: None },
            );
            self.pre_bind_node_gone(now, name);
        }
    }

    fn pod_applied(&mut self, now: Time, pod: &Arc<PodInfo>) {
        let joined = self.member_seen(now, pod);
        let before = self.cache.placed(&pod.uid).map(|(_, on, state)| (on, state));
        let is_bound_by_others = pod.node_name.is_some() && before.is_none();
        let is_where_assumed = matches!(before, Some((on, PodState::Assumed)) if pod.node_name == Some(on));
        let shows_binding = is_where_assumed && self.bindings.contains(&pod.uid);
        if let Some(key) = joined.filter(|_| pod.node_name.is_none()) {
            self.join_preemption(key, &pod.uid);
        }
        match pod.node_name {
            Some(node) => self.assigned_pod(now, pod, node),
            None if self.is_ours(pod) => self.pending_pod(now, pod),
            None => self.other_schedulers_pod(now, pod),
        }
        self.pod_shown(pod);
        if let Some(key) = joined {
            self.member_joined(now, key, &pod.uid);
        } else if is_bound_by_others && let Some(key) = pod.group_key() {
            self.member_bound_by_others(now, key);
        }
        if let Some(key) = pod.group_key().filter(|_| pod.node_name.is_some()) {
            if pod.deleting {
                if shows_binding {
                    self.check_sent(now, key, true);
                }
                self.note_ended(now, key);
            } else {
                self.note_bound(now, key, shows_binding);
            }
        }
        if pod.deleting {
            self.preemptor_left(now, &pod.uid);
            self.victim_left(now, &pod.uid);
        }
    }

    fn assigned_pod(&mut self, now: Time, pod: &Arc<PodInfo>, node: crate::model::intern::Symbol) {
        let known = self.cache.placed(&pod.uid).map(|(old, on, state)| (Arc::clone(old), on, state));
        match &known {
            Some((old, _, PodState::Added)) if old.is_same_to_others(pod) => {
                self.cache.replace_unchanged(pod);
                return;
            }
            // Another client bound it elsewhere, so the resources on the assumed node are free.
            Some((_, on, PodState::Assumed)) if *on != node => {
                self.free_from(now, &pod.uid, true);
            }
            Some(_) | None => {}
        }
        self.cache.place(pod, node, PodState::Added);
        match known {
            Some((old, _, PodState::Added)) => {
                self.member_relabeled(now, &old, pod);
                for action in pod_actions(&old, pod, self.tables.rules()) {
                    let event = ClusterEvent::AssignedPod { action, old: Some(&old), new: Some(pod) };
                    self.requeue_on(now, &event);
                }
            }
            None | Some((_, _, PodState::Assumed)) => {
                // A list may show in one step that the pod was bound and has shrunk since.
                let meanwhile = known.filter(|(_, on, _)| *on == node);
                self.pod_left(now, &pod.uid, &Departure::Bound(pod, node));
                self.delete_surplus_claims(&pod.uid);
                let event = ClusterEvent::AssignedPod { action: PodAction::Add, old: None, new: Some(pod) };
                self.requeue_on(now, &event);
                if let Some((old, _, _)) = meanwhile {
                    self.member_relabeled(now, &old, pod);
                    let particular = |action: &PodAction| *action != PodAction::Update;
                    for action in pod_actions(&old, pod, self.tables.rules()).into_iter().filter(particular) {
                        let event = ClusterEvent::AssignedPod { action, old: Some(&old), new: Some(pod) };
                        self.requeue_on(now, &event);
                    }
                }
            }
        }
    }

    /// Handles a pod of ours without a node.
    pub(super) fn pending_pod(&mut self, now: Time, pod: &Arc<PodInfo>) {
        match self.cache.placed(&pod.uid).map(|(_, _, state)| state) {
            Some(PodState::Added) if mutation::is_on(Mutation::OlderPodVersionApplied) => {
                self.cache.remove_pod(&pod.uid);
                self.queue_pod(now, pod);
            }
            // A bound pod never becomes unbound, so this is an older state.
            Some(PodState::Added) => {}
            Some(PodState::Assumed) => self.binding_updated(now, pod),
            None if self.extender_calls.contains(&pod.uid) => self.suspended_updated(now, pod),
            None if self.bindings.contains(&pod.uid) => self.binding_updated(now, pod),
            None => self.queue_pod(now, pod),
        }
    }

    fn queue_pod(&mut self, now: Time, pod: &Arc<PodInfo>) {
        #[cfg(test)]
        super::quarantine::tests::PanicPoint::TakingIn.spring(self.panic_point, pod);
        let gate = self.gate(pod);
        let Some(old) = self.queue.get(&pod.uid).map(|queued| Arc::clone(&queued.pod)) else {
            self.note_event_label(pending_pod_label(PodAction::Add, self.tables.rules()));
            self.queue.add(now, Arc::clone(pod), gate);
            self.nomination_shown(now, None, pod);
            return;
        };
        if old == *pod {
            return;
        }
        self.note_event_label(pending_pod_label(PodAction::Update, self.tables.rules()));
        let snapshot = self.cache.snapshot(&self.tables);
        let (profiles, panics) = (&self.profiles, &mut self.quarantine.panics);
        let events: Vec<ClusterEvent<'_>> = pod_actions(&old, pod, self.tables.rules())
            .into_iter()
            .map(|action| ClusterEvent::OwnPod { action, old: &old, new: pod })
            .collect();
        self.queue.update(now, Arc::clone(pod), gate, &events, &mut |event, plugin, pod| {
            hint(profiles, plugin, event, pod, snapshot).unwrap_or_else(|| {
                *panics += 1;
                Hint::Queue
            })
        });
        self.nomination_shown(now, Some(&old), pod);
        self.member_relabeled(now, &old, pod);
    }

    /// Requeues a pod whose decision was cancelled, for an attempt without a backoff. Its latest version may be gated.
    pub(super) fn activate(&mut self, now: Time, queued: QueuedPod) {
        let gate = self.gate(&queued.pod);
        self.queue.activate(now, queued, gate);
    }

    /// Decides again on a pod whose decision was reverted.
    pub(super) fn decide_again(&mut self, now: Time, queued: QueuedPod) {
        let gate = self.gate(&queued.pod);
        self.queue.return_reverted(now, queued, gate);
    }

    /// Runs PreEnqueue: returns the plugin that keeps the pod out of the active queue.
    pub(super) fn gate(&self, pod: &PodInfo) -> Option<PluginName> {
        let gate = || self.profile_of(pod)?.framework.gate(pod, self.snapshot());
        let gate = || gate().or_else(|| self.group_gate(pod));
        let gate = self.quarantine.gate(pod).or_else(gate);
        gate.filter(|_| !mutation::is_on(Mutation::SchedulingGatesIgnored))
    }
}
