//! Devices and requests with nothing special, for struct updates.

use std::sync::Arc;
use supercargo_core::model::device::{AllocationMode, Device, DeviceRequest, Facts, Reach};
use supercargo_core::model::intern::Symbol;

/// Returns a device without attributes, capacity, counters, taints or conditions, on the nodes of its slice.
pub(crate) fn device(name: &str) -> Device {
    Device {
        name: name.into(),
        attributes: [].into(),
        capacity: [].into(),
        consumes: [].into(),
        reach: Reach::Nothing,
        taints: [].into(),
        binds_to_node: false,
        binding_conditions: None,
        binding_failure_conditions: [].into(),
        is_shareable: false,
        facts: Facts(Arc::new(())),
    }
}

/// Returns a request for one device of a class.
pub(crate) fn request(name: &str, class: Symbol) -> DeviceRequest {
    DeviceRequest {
        name: name.into(),
        class,
        selectors: [].into(),
        mode: AllocationMode::ExactCount(1),
        admin_access: false,
        tolerations: [].into(),
        has_capacity: false,
        capacity: [].into(),
    }
}
