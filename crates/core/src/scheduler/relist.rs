//! Lists: what came in whole, what is being listed anew, and what a list no longer names.

use super::Scheduler;
use crate::event::{Kind, ObjectKey};
use crate::hash::{FixedSet, IdSet};
use crate::intern::Symbol;
use crate::intern::{HoldsIds, Marks, holds_ids};
use crate::pod::{ControllerKind, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The objects one list has named so far.
#[derive(Default)]
struct Seen {
    pods: FixedSet<Uid>,
    named: IdSet<(Option<Symbol>, Symbol)>,
}

/// The state of all lists.
#[derive(Default)]
pub(super) struct Lists {
    complete: BTreeSet<Kind>,
    running: BTreeMap<Kind, Seen>,
}

/// The kind of the object a key names, and its namespace and name.
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
        ObjectKey::Storage(key) => (Kind::of_storage(key.kind), key.namespace, Some(key.name)),
    }
}

impl Lists {
    pub(super) fn begin(&mut self, kind: Kind) {
        self.running.insert(kind, Seen::default());
    }

    pub(super) fn end(&mut self, kind: Kind) {
        self.running.remove(&kind);
        self.complete.insert(kind);
    }

    /// Notes that the list of the key's kind, if one is running, names the object.
    pub(super) fn see(&mut self, key: &ObjectKey) {
        let (kind, namespace, name) = parts(key);
        let Some(seen) = self.running.get_mut(&kind) else { return };
        match (key, name) {
            (ObjectKey::Pod(uid), _) => {
                seen.pods.insert(Arc::clone(uid));
            }
            (_, Some(name)) => {
                seen.named.insert((namespace, name));
            }
            (_, None) => {}
        }
    }

    /// Kinds whose first list is not complete.
    pub(super) fn awaited(&self) -> impl Iterator<Item = Kind> + '_ {
        Kind::ALL.into_iter().filter(|kind| !self.complete.contains(kind))
    }

    fn names(&self, key: &ObjectKey) -> bool {
        let (kind, namespace, name) = parts(key);
        let Some(seen) = self.running.get(&kind) else { return true };
        match (key, name) {
            (ObjectKey::Pod(uid), _) => seen.pods.contains(uid),
            (_, Some(name)) => seen.named.contains(&(namespace, name)),
            (_, None) => true,
        }
    }
}

impl Scheduler {
    /// The known objects of `kind` that the list that ends now did not name, in an order that is the same in every run.
    pub(super) fn unlisted(&self, kind: Kind) -> Vec<ObjectKey> {
        let lookups = self.cache.lookups();
        let controllers = |kind: ControllerKind| {
            lookups
                .controller_keys(kind)
                .map(move |(ns, name)| ObjectKey::Controller(kind, ns, name))
                .collect()
        };
        let mut known: Vec<ObjectKey> = match kind {
            Kind::Pod => self.known_pods().into_iter().map(ObjectKey::Pod).collect(),
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
            | Kind::VolumeAttachment => {
                let mut keys = kind.storage().map(|kind| self.cache.volumes().keys(kind)).unwrap_or_default();
                keys.sort_unstable();
                keys.into_iter().map(ObjectKey::Storage).collect()
            }
        };
        known.retain(|key| !self.lists.names(key));
        known
    }

    fn known_pods(&self) -> BTreeSet<Uid> {
        let placed = self.cache.placed_uids().map(Uid::from);
        let waiting = self.queue.waiting().map(|(_, queued)| Arc::clone(&queued.pod.uid));
        // A pod that is being deleted waits nowhere, and something may still be kept for it.
        let told = self.sent_conditions.keys().cloned();
        let nominated = self.cache.nominated_uids().cloned();
        placed
            .chain(waiting)
            .chain(self.bindings.keys().cloned())
            .chain(told)
            .chain(nominated)
            .chain(self.preemptions.uids().cloned())
            .chain(self.extending.uids().cloned())
            .collect()
    }
}

holds_ids!(Seen { named } but not { pods });

impl HoldsIds for Lists {
    fn mark(&self, marks: &mut Marks) {
        let Self { running, complete: _ } = self;
        running.values().for_each(|seen| seen.mark(marks));
    }
}
