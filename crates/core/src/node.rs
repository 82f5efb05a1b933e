//! Nodes as the engine sees them: ids and numbers.

use crate::intern::{LabelSetId, Symbol, TaintSetId};
use crate::pod::Toleration;
use crate::resources::Resources;

/// The slot of a node in the cache's columns.
///
/// A slot is given to another node only after its node and all pods counted on it are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIdx(pub u32);

impl NodeIdx {
    /// The slot as an index into a column.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A node object, reduced to what a decision reads.
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
    /// Names of `status.images` with their sizes in bytes; an image with several names stands here under each.
    pub images: Box<[(Symbol, i64)]>,
    /// `status.declaredFeatures`, as listed.
    pub declared_features: Box<[Symbol]>,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaintEffect {
    /// New pods stay away.
    NoSchedule,
    /// New pods rather stay away.
    PreferNoSchedule,
    /// New pods stay away, running ones leave.
    NoExecute,
    /// A text upstream does not know; it keeps nothing away and equals only itself.
    Other(Symbol),
}

/// A taint of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    /// The taint's key.
    pub key: Symbol,
    /// The taint's value; the empty text when it has none.
    pub value: Symbol,
    /// What it does.
    pub effect: TaintEffect,
}

impl Taint {
    /// Whether the taint keeps a new pod away unless it is tolerated.
    pub fn repels(&self) -> bool {
        matches!(self.effect, TaintEffect::NoSchedule | TaintEffect::NoExecute)
    }

    /// Whether one of `tolerations` tolerates this.
    pub fn is_tolerated_by(&self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|t| t.tolerates(self))
    }
}
