//! The plugins that weigh what pods ask for against what nodes have: NodeResourcesFit and
//! NodeResourcesBalancedAllocation.
//!
//! Which sum of a pod each of them reads is laid out in [`crate::resources::PodResources`]. What DeviceClasses
//! serve and a node has not is left to DynamicResources, and counts for no score. Upstream: `pkg/scheduler/framework/plugins/noderesources`.

mod allocation;
mod balanced_allocation;
mod fit;
mod hint;
mod lanes;

pub use allocation::{ResourceSpec, ScoringStrategy, ShapePoint};
pub use balanced_allocation::{NodeResourcesBalancedAllocation, NodeResourcesBalancedAllocationArgs};
pub use fit::{NodeResourcesFit, NodeResourcesFitArgs};
