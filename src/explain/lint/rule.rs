//! The rules by name, and how grave what they find is. The names are in scripts: they are added to, not changed (docs/lint.md).

use serde::Serialize;

/// How grave a finding is; the gravest is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// A pod can never be scheduled as things are written.
    Error,
    /// Something is written that does not do what it says, or will be in the way.
    Warning,
    /// Something is written that does nothing here.
    Info,
}

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[allow(missing_docs, reason = "each is explained in docs/lint.md")]
pub enum Rule {
    NodeSelectorMatchesNothing,
    TaintsKeepAllAway,
    RequestTooLarge,
    AffinityMatchesNoPod,
    AntiAffinityTooWide,
    SpreadCannotBeMet,
    TopologyKeyUnknown,
    PriorityClassMissing,
    ClaimMissing,
    StorageClassMissing,
    AntiAffinityBlocksRollout,
    AntiAffinityMatchesNoPod,
    SpreadMatchesNoPod,
    SpreadIgnoresOwnPods,
    BudgetSelectsNoPod,
    SchedulerNameMisspelt,
    NodeTermMatchesNothing,
    PreferenceMatchesNothing,
    TolerationMatchesNoTaint,
}

impl Rule {
    /// All rules, in the order of the documentation.
    pub const ALL: [Self; 19] = [
        Self::NodeSelectorMatchesNothing,
        Self::TaintsKeepAllAway,
        Self::RequestTooLarge,
        Self::AffinityMatchesNoPod,
        Self::AntiAffinityTooWide,
        Self::SpreadCannotBeMet,
        Self::TopologyKeyUnknown,
        Self::PriorityClassMissing,
        Self::ClaimMissing,
        Self::StorageClassMissing,
        Self::AntiAffinityBlocksRollout,
        Self::AntiAffinityMatchesNoPod,
        Self::SpreadMatchesNoPod,
        Self::SpreadIgnoresOwnPods,
        Self::BudgetSelectsNoPod,
        Self::SchedulerNameMisspelt,
        Self::NodeTermMatchesNothing,
        Self::PreferenceMatchesNothing,
        Self::TolerationMatchesNoTaint,
    ];

    /// How grave what it finds usually is.
    pub fn severity(self) -> Severity {
        match self {
            Self::NodeSelectorMatchesNothing
            | Self::TaintsKeepAllAway
            | Self::RequestTooLarge
            | Self::AffinityMatchesNoPod
            | Self::AntiAffinityTooWide
            | Self::SpreadCannotBeMet
            | Self::TopologyKeyUnknown
            | Self::PriorityClassMissing
            | Self::ClaimMissing
            | Self::StorageClassMissing => Severity::Error,
            Self::AntiAffinityBlocksRollout
            | Self::AntiAffinityMatchesNoPod
            | Self::SpreadMatchesNoPod
            | Self::SpreadIgnoresOwnPods
            | Self::BudgetSelectsNoPod
            | Self::SchedulerNameMisspelt => Severity::Warning,
            Self::NodeTermMatchesNothing
            | Self::PreferenceMatchesNothing
            | Self::TolerationMatchesNoTaint => Severity::Info,
        }
    }
}
