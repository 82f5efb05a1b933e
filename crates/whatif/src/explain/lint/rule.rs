//! The rules and their severities (docs/lint.md). Scripts use the names: rules may be added but not renamed.

use serde::Serialize;

/// The severity of a finding; the most severe sorts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// A pod can never be scheduled as written.
    Error,
    /// A setting does not do what it says, or will cause a problem.
    Warning,
    /// A setting has no effect in this cluster.
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
    ResourceClaimMissing,
    ClaimTemplateMissing,
    DeviceClassMissing,
    DeviceSelectorInvalid,
    DeviceSelectorTooExpensive,
    DeviceSelectorMatchesNothing,
    DeviceRequestTooLarge,
    PodGroupMissing,
    PodGroupTooFewMembers,
    PodGroupNeverFits,
    PodGroupSchedulersDiffer,
    AntiAffinityBlocksRollout,
    AntiAffinityMatchesNoPod,
    SpreadMatchesNoPod,
    SpreadIgnoresOwnPods,
    BudgetSelectsNoPod,
    SchedulerNameMisspelt,
    DeviceClassSelectsNothing,
    DeprecatedVersion,
    PodGroupPrioritiesDiffer,
    PodGroupNamedByNoPod,
    NodeTermMatchesNothing,
    PreferenceMatchesNothing,
    TolerationMatchesNoTaint,
}

impl Rule {
    /// All rules, in the order of the documentation.
    pub const ALL: [Self; 34] = [
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
        Self::ResourceClaimMissing,
        Self::ClaimTemplateMissing,
        Self::DeviceClassMissing,
        Self::DeviceSelectorInvalid,
        Self::DeviceSelectorTooExpensive,
        Self::DeviceSelectorMatchesNothing,
        Self::DeviceRequestTooLarge,
        Self::PodGroupMissing,
        Self::PodGroupTooFewMembers,
        Self::PodGroupNeverFits,
        Self::PodGroupSchedulersDiffer,
        Self::AntiAffinityBlocksRollout,
        Self::AntiAffinityMatchesNoPod,
        Self::SpreadMatchesNoPod,
        Self::SpreadIgnoresOwnPods,
        Self::BudgetSelectsNoPod,
        Self::SchedulerNameMisspelt,
        Self::DeviceClassSelectsNothing,
        Self::DeprecatedVersion,
        Self::PodGroupPrioritiesDiffer,
        Self::PodGroupNamedByNoPod,
        Self::NodeTermMatchesNothing,
        Self::PreferenceMatchesNothing,
        Self::TolerationMatchesNoTaint,
    ];

    /// Returns the default severity of the rule's findings.
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
            | Self::StorageClassMissing
            | Self::ResourceClaimMissing
            | Self::ClaimTemplateMissing
            | Self::DeviceClassMissing
            | Self::DeviceSelectorInvalid
            | Self::DeviceSelectorTooExpensive
            | Self::DeviceSelectorMatchesNothing
            | Self::DeviceRequestTooLarge
            | Self::PodGroupMissing
            | Self::PodGroupTooFewMembers
            | Self::PodGroupNeverFits
            | Self::PodGroupSchedulersDiffer => Severity::Error,
            Self::AntiAffinityBlocksRollout
            | Self::AntiAffinityMatchesNoPod
            | Self::SpreadMatchesNoPod
            | Self::SpreadIgnoresOwnPods
            | Self::BudgetSelectsNoPod
            | Self::SchedulerNameMisspelt
            | Self::DeviceClassSelectsNothing
            | Self::DeprecatedVersion
            | Self::PodGroupPrioritiesDiffer
            | Self::PodGroupNamedByNoPod => Severity::Warning,
            Self::NodeTermMatchesNothing
            | Self::PreferenceMatchesNothing
            | Self::TolerationMatchesNoTaint => Severity::Info,
        }
    }
}
