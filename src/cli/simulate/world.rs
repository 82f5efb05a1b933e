//! The cluster of the files in the engine's own cache, by the types and conversions that the scheduler itself uses.

use super::files::{Item, Wrong};
use crate::api::{Malformed, Object, of_any_kind};
use crate::convert::{self, Watched as _};
use std::sync::Arc;
use supercargo_core::cache::{Cache, PodState, Snapshot};
use supercargo_core::cycle::Walk;
use supercargo_core::event::Event;
use supercargo_core::intern::Tables;
use supercargo_core::pod::PodInfo;

/// The engine's cache and tables.
#[derive(Default)]
pub(in crate::cli) struct World {
    pub(in crate::cli) tables: Tables,
    pub(in crate::cli) cache: Cache,
    pub(in crate::cli) walk: Walk,
}

impl World {
    /// Takes an object of the cluster in. A pod counts where it is bound; one that is not counts where it is nominated,
    /// and is not decided.
    pub(in crate::cli) fn apply(&mut self, item: Item) -> Result<(), Wrong> {
        // Which kinds are read was asked before.
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
            // A pod that has ended.
            Event::Gone(_) | Event::NotAdmitted { .. } => {}
            Event::ListBegan(_)
            | Event::ListEnded(_)
            | Event::Extended { .. }
            | Event::Unreadable(_)
            | Event::BindFinished { .. }
            | Event::Settled { .. }
            | Event::EvictFinished { .. }
            | Event::Halt
            | Event::Leading(_)
            | Event::VolumeWritten { .. }
            | Event::Credits { .. } => unreachable!("an object becomes an event about that object"),
        }
        Ok(())
    }

    /// The world as it is now.
    pub(in crate::cli) fn refreshed(&mut self) -> Snapshot<'_> {
        self.cache.refresh();
        self.cache.snapshot(&self.tables)
    }

    /// A pod to decide about, and whether it has ended.
    pub(in crate::cli) fn pod(&mut self, item: Item) -> Result<(Arc<PodInfo>, bool), Wrong> {
        let pod: crate::api::Pod =
            serde_json::from_value(item.value).expect("any JSON is read, and a malformed pod says so later");
        let info = Arc::new(convert::pod(&mut self.tables, &pod).map_err(|malformed| wrong(&malformed))?);
        // The pods to come are in the cluster too, pending, from the beginning.
        if info.node_name.is_none() {
            self.cache.nominate(&info, info.nominated_node);
        }
        Ok((info, pod.has_ended()))
    }
}

fn event(object: &Object, tables: &mut Tables) -> Result<Event, Malformed> {
    of_any_kind!(object, it => it.applied(tables))
}

/// The reason begins with the path of the field.
fn wrong(malformed: &Malformed) -> Wrong {
    let path = malformed.reason.split_once(": ").map_or("", |(path, _)| path).to_owned();
    Wrong { path, message: malformed.to_string() }
}
