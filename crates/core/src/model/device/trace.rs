//! Marks the ids that devices, claims and classes hold.

use super::*;
use crate::model::intern::{Marks, TraceIds, holds_no_ids, trace_ids};

trace_ids!(DeviceClass { implicit, explicit } but not { created, selectors, config });
trace_ids!(ResourceSlice { name, reach, devices } but not { pool, generation, slices, counters });
trace_ids!(Device { reach } but not {
    name, attributes, capacity, consumes, taints, binds_to_node, binding_conditions, binding_failure_conditions,
    is_shareable, facts
});

impl TraceIds for Reach {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Nothing | Self::AllNodes | Self::PerDevice => {}
            Self::Node(name) => name.mark(marks),
            Self::Selector(selector) => selector.mark(marks),
        }
    }
}

impl TraceIds for NodeSelector {
    fn mark(&self, marks: &mut Marks) {
        if let Ok(terms) = &self.parsed {
            terms.mark(marks);
        }
    }
}

trace_ids!(ResourceClaim { namespace, name, spec, nodes } but not {
    uid, resource_version, controller, deleting, is_for_extended_resources, is_protected, allocation, reserved_for,
    devices
});
trace_ids!(ClaimSpec { requests } but not { constraints, config });
trace_ids!(Request { kind } but not { name });

impl TraceIds for RequestKind {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Exactly(request) => request.mark(marks),
            Self::FirstAvailable(requests) => requests.mark(marks),
            Self::Unknown => {}
        }
    }
}

trace_ids!(DeviceRequest { class } but not { name, selectors, mode, admin_access, tolerations, has_capacity, capacity });
trace_ids!(PodClaim { source } but not { name });

impl TraceIds for PodClaimSource {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Named(name) | Self::Generated(name) => name.mark(marks),
            Self::NotNeeded | Self::NotCreated | Self::Unknown => {}
        }
    }
}

trace_ids!(ContainerRequest { resource } but not { container, name, is_short_lived, position, count });

trace_ids!(ContainerMapping { resource } but not { container, request });

holds_no_ids!(DeviceId, Allocation);
