//! Services, PodDisruptionBudgets and DeviceClasses, as far as decisions read them.

use crate::model::intern::{Symbol, trace_ids};
use crate::model::selector::Selector;

/// A Service, as far as default spreading reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// `spec.selector`; `None` if absent.
    pub selector: Option<Box<[(Symbol, Symbol)]>>,
}

/// A PodDisruptionBudget, as far as preemption reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptionBudget {
    /// `spec.selector`; [`Selector::Nothing`] if it is absent or invalid. An empty selector (`{}`) is kept as
    /// it is and protects no pod (upstream `pkg/scheduler/framework/preemption/preemption.go`).
    pub selector: Selector,
    /// `status.disruptionsAllowed`.
    pub disruptions_allowed: i32,
    /// The pod names in `status.disruptedPods`, sorted. `disruptionsAllowed` already accounts for their
    /// eviction.
    pub disrupted_pods: Box<[Box<str>]>,
}

/// The extended resources that a DeviceClass serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceClass {
    /// `deviceclass.resource.kubernetes.io/<name>`, which every class serves.
    pub implicit: Symbol,
    /// `spec.extendedResourceName`.
    pub explicit: Option<Symbol>,
}

impl DeviceClass {
    /// Whether the class serves the resource.
    pub fn serves(&self, resource: Symbol) -> bool {
        self.implicit == resource || self.explicit == Some(resource)
    }
}

trace_ids!(Service { selector });
trace_ids!(DisruptionBudget { selector } but not { disruptions_allowed, disrupted_pods });
trace_ids!(DeviceClass { implicit, explicit });
