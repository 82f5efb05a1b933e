//! Paths from a variable to what an expression reads of it, and the sizes that the API sets for devices.

use std::cell::RefCell;
use std::rc::Rc;

/// Attributes and capacities of a device, together (`ResourceSliceMaxAttributesAndCapacitiesPerDevice`).
const ENTRIES: u64 = 32;
/// Length of a domain (`DeviceMaxDomainLength`), an id (`DeviceMaxIDLength`), the value of an attribute
/// (`DeviceAttributeMaxValueLength`), the name of a driver (`DriverNameMaxLength`).
const DOMAIN: u64 = 63;
const ID: u64 = 32;
const VALUE: u64 = 64;
const DRIVER: u64 = 63;

/// A path. Two paths that continue the same one may share its storage, as slices do in Go: the step added last is then
/// a step of both. Upstream's estimates depend on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Path<'a> {
    steps: Rc<RefCell<Vec<&'a str>>>,
    length: usize,
    capacity: usize,
}

impl<'a> Path<'a> {
    /// The path to a variable.
    pub(super) fn root(name: &'a str) -> Self {
        Self { steps: Rc::new(RefCell::new(vec![name])), length: 1, capacity: 1 }
    }

    /// This path and one more step.
    pub(super) fn then(&self, step: &'a str) -> Self {
        let length = self.length + 1;
        if length <= self.capacity {
            let mut steps = self.steps.borrow_mut();
            match steps.get_mut(self.length) {
                Some(place) => *place = step,
                None => steps.push(step),
            }
            return Self { steps: Rc::clone(&self.steps), length, capacity: self.capacity };
        }
        let mut steps = self.steps.borrow()[..self.length].to_vec();
        steps.push(step);
        Self { steps: Rc::new(RefCell::new(steps)), length, capacity: (2 * self.capacity).max(1) }
    }

    /// Whether it starts at the hidden variable of a macro.
    pub(super) fn is_below_accumulator(&self) -> bool {
        self.length > 0 && matches!(self.steps.borrow()[0], "__result__" | "@result")
    }

    /// The largest size of what the path leads to, if it starts at the device.
    pub(super) fn size_in_device(&self) -> Option<u64> {
        let steps = self.steps.borrow();
        let (root, steps) = steps[..self.length].split_first()?;
        if *root != "device" {
            return None;
        }
        let mut place = Place::Device;
        for step in steps {
            place = place.at(step)?;
        }
        Some(place.size())
    }
}

/// A part of the declared type of the variable `device`.
#[derive(Clone, Copy)]
enum Place {
    Device,
    Driver,
    AllowMultipleAllocations,
    Domains { attributes: bool },
    Domain,
    Ids { attributes: bool },
    Id,
    Attribute,
    Quantity,
}

impl Place {
    fn at(self, step: &str) -> Option<Self> {
        Some(match (self, step) {
            (Self::Domains { attributes }, "@items" | "@values") => Self::Ids { attributes },
            (Self::Ids { attributes: true }, "@items" | "@values") => Self::Attribute,
            (Self::Ids { attributes: false }, "@items" | "@values") => Self::Quantity,
            (Self::Domains { .. }, "@keys") => Self::Domain,
            (Self::Ids { .. }, "@keys") => Self::Id,
            (_, "@items" | "@values" | "@keys") => return None,
            (Self::Device, "driver") => Self::Driver,
            (Self::Device, "allowMultipleAllocations") => Self::AllowMultipleAllocations,
            (Self::Device, "attributes") => Self::Domains { attributes: true },
            (Self::Device, "capacity") => Self::Domains { attributes: false },
            (Self::Ids { attributes: true }, _) => Self::Attribute,
            _ => return None,
        })
    }

    fn size(self) -> u64 {
        match self {
            Self::Driver => DRIVER,
            Self::AllowMultipleAllocations => 1,
            Self::Domains { .. } | Self::Ids { .. } => ENTRIES,
            Self::Domain => DOMAIN,
            Self::Id => ID,
            Self::Attribute => VALUE,
            // Their declarations set no size.
            Self::Device | Self::Quantity => 0,
        }
    }
}
