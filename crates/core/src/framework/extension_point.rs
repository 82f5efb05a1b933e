//! The extension points of upstream's framework.

/// An extension point, in the order in which upstream fills them
/// (`framework/runtime/framework.go#getExtensionPoints`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtensionPoint {
    /// Prepares a pod.
    PreFilter,
    /// Rejects infeasible nodes.
    Filter,
    /// Searches for candidates if no node is feasible.
    PostFilter,
    /// Reserves what a pod will use besides its node.
    Reserve,
    /// Prepares scoring.
    PreScore,
    /// Scores feasible nodes.
    Score,
    /// Works between the decision and the binding.
    PreBind,
    /// Binds the pod.
    Bind,
    /// Runs after a pod was bound.
    PostBind,
    /// Delays or rejects a binding.
    Permit,
    /// Keeps a pod out of the active queue.
    PreEnqueue,
    /// Orders the queue.
    QueueSort,
    /// Proposes placements of groups of pods.
    PlacementGenerate,
    /// Scores placements of groups of pods.
    PlacementScore,
}

impl ExtensionPoint {
    /// All points.
    pub const ALL: [Self; 14] = [
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::Reserve,
        Self::PreScore,
        Self::Score,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
        Self::Permit,
        Self::PreEnqueue,
        Self::QueueSort,
        Self::PlacementGenerate,
        Self::PlacementScore,
    ];

    /// Upstream's name of the point.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreFilter => "PreFilter",
            Self::Filter => "Filter",
            Self::PostFilter => "PostFilter",
            Self::Reserve => "Reserve",
            Self::PreScore => "PreScore",
            Self::Score => "Score",
            Self::PreBind => "PreBind",
            Self::Bind => "Bind",
            Self::PostBind => "PostBind",
            Self::Permit => "Permit",
            Self::PreEnqueue => "PreEnqueue",
            Self::QueueSort => "QueueSort",
            Self::PlacementGenerate => "PlacementGenerate",
            Self::PlacementScore => "PlacementScore",
        }
    }
}
