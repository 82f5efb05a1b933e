//! DeviceClasses, as far as they serve extended resources that no device plugin of a node provides.
//!
//! The device selectors of a class are not read, since this version does not allocate devices.

use crate::model::intern::Symbol;
use crate::model::intern::trace_ids;
use crate::model::lookup_objects::DeviceClass;
use std::collections::BTreeMap;

/// All DeviceClasses by name. A cluster has few of them.
#[derive(Debug, Default)]
pub struct DeviceClasses {
    by_name: BTreeMap<Symbol, DeviceClass>,
    changes: u64,
}

impl DeviceClasses {
    /// Adds or replaces a class and returns its previous state.
    pub fn set(&mut self, name: Symbol, class: DeviceClass) -> Option<DeviceClass> {
        let old = self.by_name.insert(name, class);
        self.changes += u64::from(old != Some(class));
        old
    }

    /// Removes a class.
    pub fn remove(&mut self, name: Symbol) {
        self.changes += u64::from(self.by_name.remove(&name).is_some());
    }

    /// Returns a number that grows with every change.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether any class serves the resource.
    ///
    /// Of two classes that name one resource, upstream takes the newer and may lose the other's implicit name.
    /// Here, each class serves the resources it names.
    pub fn serve(&self, resource: Symbol) -> bool {
        self.by_name.values().any(|class| class.serves(resource))
    }

    /// Returns the names of all classes in ascending order.
    pub fn names(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.by_name.keys().copied()
    }
}

trace_ids!(DeviceClasses { by_name } but not { changes });
