//! Lists: the kinds with a complete first list, running lists, and objects missing from a list.

use super::Scheduler;
use crate::collections::hash::{FixedSet, IdSet};
use crate::model::event::{Kind, ObjectKey};
use crate::model::intern::Symbol;
use crate::model::intern::{Marks, TraceIds, trace_ids};
use crate::model::pod::{ControllerKind, Uid};
use crate::model::time::Time;
use crate::switches::mutation::{self, Mutation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The objects that a running list has contained so far.
#[derive(Default)]
struct ListedObjects {
    /// `None` if no pod was known when the list began. Then every pod known at the end was in the list.
    pods: Option<FixedSet<Uid>>,
    named: IdSet<(Option<Symbol>, Symbol)>,
}

/// The state of all lists.
#[derive(Default)]
pub(super) struct Lists {
    complete: BTreeSet<Kind>,
    running: BTreeMap<Kind, ListedObjects>,
}

/// Returns the kind, namespace and name of a key.
fn parts(key: &ObjectKey) -> (Kind, Option<Symbol>, Option<Symbol>) {
    match *key {
        ObjectKey::Pod(_) => (Kind::Pod, None, None),
        ObjectKey::Node(name) => (Kind::Node, None, Some(name)),
        ObjectKey::Namespace(name) => (Kind::Namespace, None, Some(name)),
        ObjectKey::Service(namespace, name) => (Kind::Service, Some(namespace), Some(name)),
        ObjectKey::Controller(kind, namespace, name) => {
            (Kind::of_controller(kind), Some(namespace), Some(name))
        }
        ObjectKey::DisruptionBudget(namespace, name) => {
            (Kind::PodDisruptionBudget, Some(namespace), Some(name))
        }
        ObjectKey::DeviceClass(name) => (Kind::DeviceClass, None, Some(name)),
        ObjectKey::PodGroup(key) => (Kind::PodGroup, Some(key.namespace), Some(key.name)),
        ObjectKey::Storage(key) => (Kind::of_storage(key.kind), key.namespace, Some(key.name)),
    }
}

impl Lists {
    pub(super) fn begin(&mut self, kind: Kind, knows_pods: bool) {
        self.running.insert(
            kind,
            ListedObjects { pods: knows_pods.then(FixedSet::default), ..ListedObjects::default() },
        );
    }

    pub(super) fn end(&mut self, kind: Kind) {
        self.running.remove(&kind);
        self.complete.insert(kind);
    }

    /// Records that the running list of this kind, if any, contains the object.
    pub(super) fn see(&mut self, key: &ObjectKey) {
        let (kind, namespace, name) = parts(key);
        let Some(seen) = self.running.get_mut(&kind) else { return };
        match (key, name) {
            (ObjectKey::Pod(uid), _) => {
                if let Some(pods) = &mut seen.pods {
                    pods.insert(Arc::clone(uid));
                }
            }
            (_, Some(name)) => {
                seen.named.insert((namespace, name));
            }
            (_, None) => {}
        }
    }

    /// Returns the kinds whose first list is not complete.
    pub(super) fn awaited(&self, has_groups: bool) -> impl Iterator<Item = Kind> + '_ {
        Kind::watched(has_groups).filter(|kind| !self.complete.contains(kind))
    }

    fn names(&self, key: &ObjectKey) -> bool {
        let (kind, namespace, name) = parts(key);
        let seen = self.running.get(&kind);
        seen.zip(name).is_none_or(|(seen, name)| seen.named.contains(&(namespace, name)))
    }

    fn names_pod(&self, uid: &Uid) -> bool {
        let seen = self.running.get(&Kind::Pod).and_then(|seen| seen.pods.as_ref());
        seen.is_none_or(|pods| pods.contains(uid))
    }
}

impl Scheduler {
    /// Returns the known objects of `kind` that the ending list does not contain, in a deterministic order.
    fn unlisted(&self, kind: Kind) -> Vec<ObjectKey> {
        let lookups = self.cache.lookups();
        let controllers = |kind: ControllerKind| {
            lookups
                .controller_keys(kind)
                .map(move |(ns, name)| ObjectKey::Controller(kind, ns, name))
                .collect()
        };
        let mut known: Vec<ObjectKey> = match kind {
            Kind::Pod => return self.unlisted_pods().into_iter().map(ObjectKey::Pod).collect(),
            Kind::Node => self.cache.node_names().map(ObjectKey::Node).collect(),
            Kind::Namespace => {
                let mut names: Vec<_> = lookups.namespaces().map(|(name, _)| name).collect();
                names.sort_unstable();
                names.into_iter().map(ObjectKey::Namespace).collect()
            }
            Kind::Service => {
                let mut keys: Vec<_> = lookups.service_keys().collect();
                keys.sort_unstable();
                keys.into_iter().map(|(namespace, name)| ObjectKey::Service(namespace, name)).collect()
            }
            Kind::PodDisruptionBudget => {
                let mut keys: Vec<_> = lookups.disruption_budget_keys().collect();
                keys.sort_unstable();
                keys.into_iter()
                    .map(|(namespace, name)| ObjectKey::DisruptionBudget(namespace, name))
                    .collect()
            }
            Kind::PodGroup => lookups.group_keys().map(ObjectKey::PodGroup).collect(),
            Kind::DeviceClass => lookups.device_classes().names().map(ObjectKey::DeviceClass).collect(),
            Kind::ReplicationController => controllers(ControllerKind::ReplicationController),
            Kind::ReplicaSet => controllers(ControllerKind::ReplicaSet),
            Kind::StatefulSet => controllers(ControllerKind::StatefulSet),
            Kind::PersistentVolume
            | Kind::PersistentVolumeClaim
            | Kind::StorageClass
            | Kind::CsiNode
            | Kind::CsiDriver
            | Kind::CsiStorageCapacity
            | Kind::VolumeAttachment
            | Kind::ResourceClaim
            | Kind::ResourceSlice => {
                let mut keys = kind.storage().map(|kind| self.cache.volumes().keys(kind)).unwrap_or_default();
                keys.sort_unstable();
                keys.into_iter().map(ObjectKey::Storage).collect()
            }
        };
        known.retain(|key| !self.lists.names(key));
        known
    }

    pub(super) fn list_began(&mut self, kind: Kind) {
        let knows_pods = self.known_pods().next().is_some();
        self.lists.begin(kind, knows_pods);
    }

    /// Removes the objects that the ending list does not contain. A pod with an open binding is queried first.
    pub(super) fn list_ended(&mut self, now: Time, kind: Kind) {
        for key in self.unlisted(kind) {
            let needs_query = match &key {
                ObjectKey::Pod(uid) => self.bindings.needs_query(now, uid, &mut self.outbox),
                _ => false,
            };
            if !needs_query && !mutation::is_on(Mutation::RelistRemovesNothing) {
                self.gone(now, &key);
            }
        }
        let was_awaited = self.is_list_awaited();
        self.lists.end(kind);
        if was_awaited && !self.is_list_awaited() {
            self.correct_conditions(now);
            self.adopt_reservations(now);
        }
    }

    /// Whether the first list of a kind is not complete.
    pub(super) fn is_list_awaited(&self) -> bool {
        self.lists.awaited(self.tables.rules().groups.workloads).next().is_some()
    }

    fn unlisted_pods(&self) -> BTreeSet<Uid> {
        self.known_pods().filter(|uid| !self.lists.names_pod(uid)).cloned().collect()
    }

    /// Returns the uids of all pods with any state in the engine, in arbitrary order and with duplicates. Preemptors
    /// are in the queue, and their victims on nodes.
    fn known_pods(&self) -> impl Iterator<Item = &Uid> {
        let waiting = self.queue.waiting().map(|(_, queued)| &queued.pod.uid);
        // A terminating pod is in no queue, but there may still be state for it.
        let with_condition = self.conditions.uids();
        let placed = self.cache.placed_uids();
        placed
            .chain(waiting)
            // Includes pods reported as missing, which are in no other place.
            .chain(self.audit.uids())
            .chain(self.bindings.iter().map(|(uid, _)| uid))
            .chain(with_condition)
            .chain(self.cache.nominated_uids())
            .chain(self.extender_calls.uids())
            .chain(self.groups.uids())
    }
}

trace_ids!(ListedObjects { named } but not { pods });

impl TraceIds for Lists {
    fn mark(&self, marks: &mut Marks) {
        let Self { running, complete: _ } = self;
        running.values().for_each(|seen| seen.mark(marks));
    }
}
