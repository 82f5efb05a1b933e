//! Plugins that compare resource requests with allocatable: NodeResourcesFit and
//! NodeResourcesBalancedAllocation.
//!
//! [`crate::model::resources::PodResources`] holds the sum of requests that each of them reads. Resources that only
//! DeviceClasses serve are left to DynamicResources, and scored by the number of matching devices. Upstream:
//! `pkg/scheduler/framework/plugins/noderesources`.

mod allocation;
mod balanced_allocation;
mod fit;
mod hint;
mod placement;
mod simd_block;

pub use allocation::{ResourceSpec, ScoringStrategy};
pub use balanced_allocation::{NodeResourcesBalancedAllocation, NodeResourcesBalancedAllocationArgs};
pub use fit::{NodeResourcesFit, NodeResourcesFitArgs};
pub use placement::PlacementUtilization;
