//! Ablation: layers of the cached path that a benchmark switches off one by one, to measure what each saves.
//!
//! Decisions stay the same. Without the feature `ablation` every check is false at compile time.

/// A layer of the cached path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// All cached decisions: every pod is evaluated in full.
    Cache,
    /// Updates of cached evaluations from the change log: after a change, a signature is computed again.
    Updates,
    /// Base partitions: a new signature classifies every node.
    BasePartitions,
    /// Topology index: each signature looks up every node's domain.
    TopologyIndex,
    /// Node classes by domain: nodes are always classified by count.
    DomainClasses,
    /// Best node per block: every decision passes over all nodes.
    BlockMaxima,
    /// Cached rejections and preemption dry runs by node.
    InfeasibleCache,
    /// Cached answers for unschedulable signatures while nothing changes.
    Unschedulable,
    /// Results of nodes for pods with equal requests for devices.
    DeviceResults,
    /// Wide SIMD registers.
    Simd,
}

impl Layer {
    /// All layers.
    pub const ALL: [Self; 10] = [
        Self::Cache,
        Self::Updates,
        Self::BasePartitions,
        Self::TopologyIndex,
        Self::DomainClasses,
        Self::BlockMaxima,
        Self::InfeasibleCache,
        Self::Unschedulable,
        Self::DeviceResults,
        Self::Simd,
    ];

    /// Returns the layer as tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cache => "all cached decisions",
            Self::Updates => "updates from the change log",
            Self::BasePartitions => "base partitions",
            Self::TopologyIndex => "topology index",
            Self::DomainClasses => "node classes by domain",
            Self::BlockMaxima => "best node per block",
            Self::InfeasibleCache => "infeasible cache",
            Self::Unschedulable => "unschedulable signatures",
            Self::DeviceResults => "device results",
            Self::Simd => "wide SIMD registers",
        }
    }
}

/// Whether a layer is switched off.
#[cfg(not(feature = "ablation"))]
#[inline(always)]
pub(crate) const fn is_off(_layer: Layer) -> bool {
    false
}

#[cfg(feature = "ablation")]
pub use switch::switch_off;

#[cfg(feature = "ablation")]
pub(crate) use switch::is_off;

#[cfg(feature = "ablation")]
mod switch {
    use super::Layer;
    use std::cell::Cell;

    thread_local! {
        static OFF: Cell<Option<Layer>> = const { Cell::new(None) };
    }

    #[inline(always)]
    pub(crate) fn is_off(layer: Layer) -> bool {
        OFF.get() == Some(layer)
    }

    /// Switches a layer off for the engines that this thread runs.
    pub fn switch_off(layer: Option<Layer>) {
        OFF.set(layer);
    }
}
