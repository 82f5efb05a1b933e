//! Converts API objects to the engine's types: quantities to numbers, texts to interned ids.
//!
//! Objects are converted as written; the API server has already applied defaults. What upstream's decoder would
//! reject is reported as [`Malformed`]. What upstream accepts and later evaluates (unknown operators, invalid
//! selectors) keeps upstream's result and, where visible, upstream's message.

mod affinity;
pub mod allocation;
mod csi_migration;
pub mod devices;
mod expressions;
mod groups;
pub mod lookups;
pub mod node;
pub mod pod;
pub mod quantity;
pub mod requests;
pub mod selectors;
pub mod syntax;
pub mod volumes;

pub use allocation::{ApiAllocation, allocation_json};
pub use lookups::namespace;
pub use node::node;
pub use pod::pod;

use crate::api::{
    DeviceClass, Kind as ApiKind, Malformed, Namespace, Node, Pod, PodDisruptionBudget, Received, ReplicaSet,
    ReplicationController, Service, StatefulSet,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::sync::Arc;
use supercargo_core::model::event::{Event, Kind, ObjectKey};
use supercargo_core::model::intern::{LabelSetId, Symbol, Tables};
use supercargo_core::model::pod::{ControllerKind, Uid};

/// A kind of object that the engine receives.
pub trait Watched {
    /// The kind.
    const KIND: Kind;

    /// Returns the event that the object was added or updated.
    ///
    /// # Errors
    /// If upstream's decoder would reject the object.
    fn applied(&self, tables: &mut Tables) -> Result<Event, Malformed>;

    /// Returns the event that the object is gone; `self` is its last state.
    fn gone(&self, tables: &mut Tables) -> Event {
        Event::Gone(self.key(tables))
    }

    /// Returns the object's key. Malformed objects have one, too.
    fn key(&self, tables: &mut Tables) -> ObjectKey;
}

impl Watched for Pod {
    const KIND: Kind = Kind::Pod;

    fn applied(&self, tables: &mut Tables) -> Result<Event, Malformed> {
        if self.has_ended() {
            return Ok(self.gone(tables));
        }
        Ok(Event::PodApplied(Box::new(pod(tables, self)?)))
    }

    fn gone(&self, tables: &mut Tables) -> Event {
        match self.kubelets_refusal() {
            Some(reason) => Event::NotAdmitted { uid: uid(self), reason: reason.into() },
            None => Event::Gone(self.key(tables)),
        }
    }

    fn key(&self, _tables: &mut Tables) -> ObjectKey {
        ObjectKey::Pod(uid(self))
    }
}

impl Watched for Node {
    const KIND: Kind = Kind::Node;

    fn applied(&self, tables: &mut Tables) -> Result<Event, Malformed> {
        Ok(Event::NodeApplied(Box::new(node(tables, self)?)))
    }

    fn key(&self, tables: &mut Tables) -> ObjectKey {
        ObjectKey::Node(tables.symbol(self.name()))
    }
}

impl Watched for Namespace {
    const KIND: Kind = Kind::Namespace;

    fn applied(&self, tables: &mut Tables) -> Result<Event, Malformed> {
        let (name, labels) = namespace(tables, self)?;
        Ok(Event::NamespaceApplied { name, labels })
    }

    fn key(&self, tables: &mut Tables) -> ObjectKey {
        ObjectKey::Namespace(tables.symbol(self.name()))
    }
}

impl Watched for Service {
    const KIND: Kind = Kind::Service;

    fn applied(&self, tables: &mut Tables) -> Result<Event, Malformed> {
        let service = lookups::service(tables, self)?;
        let (namespace, name) = (tables.symbol(self.namespace()), tables.symbol(self.name()));
        Ok(Event::ServiceApplied { namespace, name, service })
    }

    fn key(&self, tables: &mut Tables) -> ObjectKey {
        ObjectKey::Service(tables.symbol(self.namespace()), tables.symbol(self.name()))
    }
}

impl Watched for PodDisruptionBudget {
    const KIND: Kind = Kind::PodDisruptionBudget;

    fn applied(&self, tables: &mut Tables) -> Result<Event, Malformed> {
        let budget = lookups::disruption_budget(tables, self)?;
        let (namespace, name) = (tables.symbol(self.namespace()), tables.symbol(self.name()));
        Ok(Event::DisruptionBudgetApplied { namespace, name, budget })
    }

    fn key(&self, tables: &mut Tables) -> ObjectKey {
        ObjectKey::DisruptionBudget(tables.symbol(self.namespace()), tables.symbol(self.name()))
    }
}

impl Watched for DeviceClass {
    const KIND: Kind = Kind::DeviceClass;

    fn applied(&self, tables: &mut Tables) -> Result<Event, Malformed> {
        let class = Arc::new(devices::device_class(tables, self)?);
        Ok(Event::DeviceClassApplied { name: tables.symbol(self.name()), class })
    }

    fn key(&self, tables: &mut Tables) -> ObjectKey {
        ObjectKey::DeviceClass(tables.symbol(self.name()))
    }
}

macro_rules! watched_controllers {
    ($($kind:ident, $demands:path;)*) => {$(
        impl Watched for $kind {
            const KIND: Kind = Kind::$kind;

            fn applied(&self, tables: &mut Tables) -> Result<Event, Malformed> {
                let demands = $demands(tables, self)?;
                let (namespace, name) = (tables.symbol(self.namespace()), tables.symbol(self.name()));
                Ok(Event::ControllerApplied { kind: ControllerKind::$kind, namespace, name, demands })
            }

            fn key(&self, tables: &mut Tables) -> ObjectKey {
                let (namespace, name) = (tables.symbol(self.namespace()), tables.symbol(self.name()));
                ObjectKey::Controller(ControllerKind::$kind, namespace, name)
            }
        }
    )*};
}

watched_controllers! {
    ReplicationController, lookups::replication_controller;
    ReplicaSet, lookups::replica_set;
    StatefulSet, lookups::stateful_set;
}

/// Returns an object's UID. Files may omit it; the key is then `namespace/name`.
fn uid<K: ApiKind>(object: &Received<K>) -> Uid {
    match object.metadata.uid.as_deref() {
        None | Some("") => format!("{}/{}", object.namespace(), object.name()).into(),
        Some(uid) => uid.into(),
    }
}

/// Returns the object's controller.
fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Interns a text; the empty text, which the API treats as absent, becomes `None`.
fn given(tables: &mut Tables, text: &str) -> Option<Symbol> {
    (!text.is_empty()).then(|| tables.symbol(text))
}

fn label_set(tables: &mut Tables, meta: &ObjectMeta) -> LabelSetId {
    let labels = meta.labels.iter().flatten();
    let pairs = labels.map(|(key, value)| (tables.symbol(key), tables.symbol(value))).collect();
    tables.label_set(pairs)
}

#[cfg(test)]
mod tests;
