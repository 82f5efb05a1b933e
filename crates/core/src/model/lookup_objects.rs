//! Services and PodDisruptionBudgets, as far as decisions read them.

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

trace_ids!(Service { selector });
trace_ids!(DisruptionBudget { selector } but not { disruptions_allowed, disrupted_pods });
