//! Paths from a variable to the value that an expression reads, and the maximum sizes that the API sets for
//! devices.

use std::cell::RefCell;
use std::rc::Rc;

/// Maximum number of attributes and capacities of a device, together
/// (`ResourceSliceMaxAttributesAndCapacitiesPerDevice` in `k8s.io/api/resource/v1/types.go`).
const ENTRIES: u64 = 32;
/// Maximum lengths of a domain (`DeviceMaxDomainLength`), an id (`DeviceMaxIDLength`), the value of an
/// attribute (`DeviceAttributeMaxValueLength`) and the name of a driver (`DriverNameMaxLength`), in the same
/// file.
const DOMAIN: u64 = 63;
const ID: u64 = 32;
const VALUE: u64 = 64;
const DRIVER: u64 = 63;

/// A path. Two paths that extend the same path may share its storage, as slices do in Go. The step added last
/// then replaces that of the other. Upstream's estimates depend on this.
#[derive(Clone, Debug, Default)]
pub(super) struct Path<'a> {
    steps: Rc<RefCell<Vec<&'a str>>>,
    length: usize,
    capacity: usize,
}

impl<'a> Path<'a> {
    /// Creates the path to a variable.
    pub(super) fn root(name: &'a str) -> Self {
        Self { steps: Rc::new(RefCell::new(vec![name])), length: 1, capacity: 1 }
    }

    /// Returns this path, extended by one step.
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

    /// Returns whether the path starts at the accumulator of a comprehension.
    pub(super) fn is_below_accumulator(&self) -> bool {
        self.length > 0 && matches!(self.steps.borrow()[0], "__result__" | "@result")
    }

    /// Returns the maximum size of the value at this path, if the path starts at the device.
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
            // The declarations of these parts set no size.
            Self::Device | Self::Quantity => 0,
        }
    }
}
