//! DeviceClasses, as far as they serve extended resources that no device plugin of a node does.
//!
//! Which devices a class selects is not read: they are not allocated here.

use crate::intern::Symbol;
use crate::intern::holds_ids;
use std::collections::BTreeMap;

/// The extended resources a DeviceClass serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceClass {
    /// `deviceclass.resource.kubernetes.io/<name>`, which every class serves.
    pub implicit: Symbol,
    /// `spec.extendedResourceName`.
    pub explicit: Option<Symbol>,
}

impl DeviceClass {
    /// Whether it serves the resource.
    pub fn serves(&self, resource: Symbol) -> bool {
        self.implicit == resource || self.explicit == Some(resource)
    }
}

/// All DeviceClasses by name. There are few.
#[derive(Debug, Default)]
pub struct DeviceClasses {
    by_name: BTreeMap<Symbol, DeviceClass>,
    changes: u64,
}

impl DeviceClasses {
    /// Adds or replaces a class; what it was.
    pub fn set(&mut self, name: Symbol, class: DeviceClass) -> Option<DeviceClass> {
        let old = self.by_name.insert(name, class);
        self.changes += u64::from(old != Some(class));
        old
    }

    /// Forgets a class.
    pub fn remove(&mut self, name: Symbol) {
        self.changes += u64::from(self.by_name.remove(&name).is_some());
    }

    /// A number that grows with every change.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether any class serves the resource. Of two classes that name one resource upstream takes the newer, and may lose
    /// the other's implicit name; here each serves what it names.
    pub fn serve(&self, resource: Symbol) -> bool {
        self.by_name.values().any(|class| class.serves(resource))
    }

    /// The names of all classes, ascending.
    pub fn names(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.by_name.keys().copied()
    }
}

holds_ids!(DeviceClasses { by_name } but not { changes });
