//! DeviceClasses by name, and the class that serves each extended resource.
//!
//! Upstream: `dynamic-resource-allocation/deviceclass/extendedresourcecache`.

use crate::model::device::DeviceClass;
use crate::model::intern::{Symbol, Tables, trace_ids};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All DeviceClasses by name. A cluster has few of them.
#[derive(Debug, Default)]
pub struct DeviceClasses {
    by_name: BTreeMap<Symbol, Arc<DeviceClass>>,
    /// The name of the class that serves each extended resource.
    serving: BTreeMap<Symbol, Symbol>,
    changes: u64,
}

impl DeviceClasses {
    /// Adds or replaces a class and returns its previous state.
    pub fn set(
        &mut self,
        tables: &Tables,
        name: Symbol,
        class: &Arc<DeviceClass>,
    ) -> Option<Arc<DeviceClass>> {
        let old = self.by_name.insert(name, Arc::clone(class));
        if old.as_ref() != Some(class) {
            self.changes += 1;
            self.serve_by(tables, name, class, old.as_deref());
        }
        old
    }

    /// Enters the resources of a new or changed class.
    ///
    /// If two classes name one resource, the newer class serves it; if both are equally old, the one with the smaller
    /// name does. As upstream, nothing of the other class is entered, not even its implicit name. If it was updated,
    /// its older entries remain.
    fn serve_by(&mut self, tables: &Tables, name: Symbol, class: &DeviceClass, old: Option<&DeviceClass>) {
        let rival = class.explicit.and_then(|resource| self.serving.get(&resource)).copied();
        if let Some(rival) = rival {
            let other = self.by_name.get(&rival).and_then(|rival| rival.created);
            // If a class is updated, upstream compares it with its own older entry, which has the same age and name.
            let is_newer = if rival == name { false } else { class.created > other };
            let is_older = rival != name && class.created < other;
            if is_older || (!is_newer && tables.text(name) >= tables.text(rival)) {
                return;
            }
        }
        if let Some(old) = old {
            self.serving.remove(&old.implicit);
            old.explicit.map(|resource| self.serving.remove(&resource));
        }
        class.explicit.map(|resource| self.serving.insert(resource, name));
        self.serving.insert(class.implicit, name);
    }

    /// Removes a class. Another class with the same resource does not serve it until it changes.
    pub fn remove(&mut self, name: Symbol) {
        let Some(old) = self.by_name.remove(&name) else { return };
        self.changes += 1;
        self.serving.remove(&old.implicit);
        old.explicit.map(|resource| self.serving.remove(&resource));
    }

    /// Returns a number that grows with every change.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns a class.
    pub fn get(&self, name: Symbol) -> Option<&Arc<DeviceClass>> {
        self.by_name.get(&name)
    }

    /// Returns the class that serves an extended resource, and its name.
    pub fn serving(&self, resource: Symbol) -> Option<(Symbol, &Arc<DeviceClass>)> {
        let name = *self.serving.get(&resource)?;
        Some((name, self.by_name.get(&name)?))
    }

    /// Whether any class serves the resource.
    pub fn serve(&self, resource: Symbol) -> bool {
        self.serving.contains_key(&resource)
    }

    /// Returns the names of all classes in ascending order.
    pub fn names(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.by_name.keys().copied()
    }
}

trace_ids!(DeviceClasses { by_name, serving } but not { changes });
