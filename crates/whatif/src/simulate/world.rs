//! Loads the objects of files into the engine's cache, with the same types and conversions as the scheduler.

use crate::load::files::{Item, Wrong};
use std::sync::Arc;
use supercargo_core::cache::{Cache, PodState, Snapshot};
use supercargo_core::cycle::Walk;
use supercargo_core::event::Event;
use supercargo_core::intern::Tables;
use supercargo_core::pod::PodInfo;
use supercargo_objects::api::{Malformed, Object};
use supercargo_objects::convert::{self, Watched as _};
use supercargo_objects::of_any_kind;

/// The engine's cache and intern tables.
#[derive(Default)]
pub struct World {
    /// The intern tables.
    pub tables: Tables,
    /// The cache.
    pub cache: Cache,
    /// The order in which nodes are visited.
    pub walk: Walk,
}

impl World {
    /// Adds an object of the cluster. A bound pod counts on its node; a nominated pending pod counts there as
    /// nominated and is not scheduled.
    pub fn apply(&mut self, item: Item) -> Result<(), Wrong> {
        // `inventory` has removed all kinds that the engine does not read.
        let Ok(object) = Object::from_value(item.value) else { return Ok(()) };
        let event = event(&object, &mut self.tables).map_err(|malformed| wrong(&malformed))?;
        let cache = &mut self.cache;
        match event {
            Event::PodApplied(pod) => {
                let pod = Arc::new(*pod);
                match pod.node_name {
                    Some(node) => cache.place(&pod, node, PodState::Added),
                    None => cache.nominate(&pod, pod.nominated_node),
                }
            }
            Event::NodeApplied(node) => {
                self.walk.node_applied(&node, &self.tables);
                cache.apply_node(&Arc::new(*node));
            }
            Event::NamespaceApplied { name, labels } => {
                cache.lookups_mut().set_namespace(name, labels);
            }
            Event::ServiceApplied { namespace, name, service } => {
                cache.lookups_mut().set_service(namespace, name, service);
            }
            Event::ControllerApplied { kind, namespace, name, demands } => {
                cache.lookups_mut().set_controller(kind, namespace, name, demands);
            }
            Event::DisruptionBudgetApplied { namespace, name, budget } => {
                cache.lookups_mut().set_disruption_budget(namespace, name, budget);
            }
            Event::DeviceClassApplied { name, class } => {
                cache.lookups_mut().device_classes_mut().set(name, class);
            }
            Event::StorageApplied(object) => drop(cache.volumes_mut().apply(object)),
            // A finished pod.
            Event::Gone(_) | Event::NotAdmitted { .. } => {}
            Event::ListBegan(_)
            | Event::ListEnded(_)
            | Event::Extended { .. }
            | Event::Unreadable(_)
            | Event::BindFinished { .. }
            | Event::BindingQueried { .. }
            | Event::EvictFinished { .. }
            | Event::Halt
            | Event::Leading(_)
            | Event::VolumeWritten { .. }
            | Event::Credits { .. } => unreachable!("an object converts to an event about that object"),
        }
        Ok(())
    }

    /// Refreshes the cache and returns a snapshot.
    pub fn refreshed(&mut self) -> Snapshot<'_> {
        self.cache.refresh();
        self.cache.snapshot(&self.tables)
    }

    /// Converts a pod to schedule; returns it with whether it has finished.
    pub fn pod(&mut self, item: Item) -> Result<(Arc<PodInfo>, bool), Wrong> {
        let pod: supercargo_objects::api::Pod = serde_json::from_value(item.value)
            .expect("any JSON deserializes; malformed pods fail in the conversion");
        let info = Arc::new(convert::pod(&mut self.tables, &pod).map_err(|malformed| wrong(&malformed))?);
        // Pods to schedule are pending in the cluster from the beginning.
        if info.node_name.is_none() {
            self.cache.nominate(&info, info.nominated_node);
        }
        Ok((info, pod.has_ended()))
    }
}

fn event(object: &Object, tables: &mut Tables) -> Result<Event, Malformed> {
    of_any_kind!(object, it => it.applied(tables))
}

/// Converts the error; its reason begins with the path of the field.
fn wrong(malformed: &Malformed) -> Wrong {
    let path = malformed.reason.split_once(": ").map_or("", |(path, _)| path).to_owned();
    Wrong { path, message: malformed.to_string() }
}
