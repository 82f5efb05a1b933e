//! Nodes in the engine's model: ids and numbers.

use crate::model::intern::{LabelSetId, Marks, Symbol, TaintSetId, TraceIds, holds_no_ids, trace_ids};
use crate::model::pod::Toleration;
use crate::model::resources::Resources;

/// The slot of a node in the cache's columns.
///
/// A slot is reused only after its node and all pods counted on it are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIdx(pub u32);

impl NodeIdx {
    /// The slot as an index into a column.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A node, reduced to what decisions read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// `metadata.name`.
    pub name: Symbol,
    /// `metadata.labels`.
    pub labels: LabelSetId,
    /// `spec.taints`.
    pub taints: TaintSetId,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `status.allocatable`, without pods.
    pub allocatable: Resources,
    /// `status.allocatable.pods`; 0 when it is absent.
    pub allocatable_pods: i64,
    /// Names from `status.images` with their sizes in bytes; an image with several names has an entry for
    /// each.
    pub images: Box<[(Symbol, i64)]>,
    /// `status.declaredFeatures`, in API order.
    pub declared_features: Box<[Symbol]>,
}

/// The effect of a taint on pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaintEffect {
    /// Filter rejects new pods.
    NoSchedule,
    /// Score disfavors the node for new pods.
    PreferNoSchedule,
    /// Filter rejects new pods; running pods are evicted.
    NoExecute,
    /// An effect unknown upstream; it rejects no pods and equals only itself.
    Other(Symbol),
}

/// A taint of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    /// The taint's key.
    pub key: Symbol,
    /// The taint's value; the empty text when it has none.
    pub value: Symbol,
    /// The effect on pods that do not tolerate the taint.
    pub effect: TaintEffect,
}

impl Taint {
    /// Whether Filter rejects pods that do not tolerate the taint.
    pub fn repels(&self) -> bool {
        matches!(self.effect, TaintEffect::NoSchedule | TaintEffect::NoExecute)
    }

    /// Whether any of `tolerations` tolerates this taint.
    pub fn is_tolerated_by(&self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|t| t.tolerates(self))
    }

    /// Whether the taint keeps a pod with these tolerations off the node. A PreferNoSchedule taint does not.
    pub fn keeps_out(&self, tolerations: &[Toleration]) -> bool {
        self.repels() && !self.is_tolerated_by(tolerations)
    }
}

trace_ids!(NodeInfo { name, labels, taints, allocatable, images, declared_features } but not {
    unschedulable, allocatable_pods
});
trace_ids!(Taint { key, value, effect });

impl TraceIds for TaintEffect {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::NoSchedule | Self::PreferNoSchedule | Self::NoExecute => {}
            Self::Other(name) => name.mark(marks),
        }
    }
}

holds_no_ids!(NodeIdx);
