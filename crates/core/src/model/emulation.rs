//! Versions of kube-scheduler, and the rules in which they differ.
//!
//! [`EmulatedVersion::rules`] is the only place that compares versions. Conversion and plugins read named rules, once
//! per object or per pod, never in a loop over nodes. `docs/versions.md` describes each rule.

mod devices;
mod groups;

pub use devices::{Alternatives, CapacityRule, DeviceGates, DeviceRules, Distinct, PoolView, RepeatedClaims};
pub use groups::{GroupGates, GroupRules};

use EmulatedVersion::{V1_34, V1_35, V1_36, V1_37};
use std::fmt;
use std::str::FromStr;

/// A minor version of kube-scheduler whose decisions, texts and writes are reproduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EmulatedVersion {
    /// 1.34.
    V1_34,
    /// 1.35.
    V1_35,
    /// 1.36, which most recorded decisions are from.
    #[default]
    V1_36,
    /// 1.37.
    V1_37,
}

impl EmulatedVersion {
    /// All versions, oldest first.
    pub const ALL: [Self; 4] = [Self::V1_34, Self::V1_35, Self::V1_36, Self::V1_37];

    /// The oldest version.
    pub const OLDEST: Self = Self::V1_34;

    /// The newest version.
    pub const NEWEST: Self = Self::V1_37;

    /// Returns the major and minor numbers.
    pub const fn numbers(self) -> (u32, u32) {
        (1, 34 + self as u32)
    }

    /// Returns the version as text, for example `1.36`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1_34 => "1.34",
            Self::V1_35 => "1.35",
            Self::V1_36 => "1.36",
            Self::V1_37 => "1.37",
        }
    }

    /// Returns the rules of this version.
    // long because: one line for each rule
    pub const fn rules(self) -> VersionRules {
        const OF_1_34: VersionRules = VersionRules {
            version: V1_34,
            keeps_namespace_selector: true,
            balance: Balance::After,
            image_volumes: ImageVolumes::Ignored,
            pod_requests: PodRequests::PerContainer,
            reads_pod_level_status: false,
            charges_all_budgets: true,
            orders_unstarted_victims: false,
            describes_label_keys: false,
            scores_storage_capacity: false,
            rejects_missing_csi_drivers: false,
            checks_declared_features: false,
            scores_devices: false,
            devices: DeviceRules::of(V1_34, DeviceGates::of(V1_34)),
            groups: GroupGates::OFF,
            group_rules: GroupRules::of(V1_34),
            finds_migrated_portworx: false,
            node_name_narrows: false,
            reports_no_claims: true,
            reports_victims: false,
            requires_scoring_strategy: false,
            adds_taint_events: true,
            splits_pod_events: false,
            nominates_before_pre_bind: false,
            frees_terminating_pods: false,
            preempts_in_memory: false,
            names_preemptors: true,
        };
        const OF_1_35: VersionRules = VersionRules {
            version: V1_35,
            scores_devices: true,
            devices: DeviceRules::of(V1_35, DeviceGates::of(V1_35)),
            describes_label_keys: true,
            nominates_before_pre_bind: true,
            frees_terminating_pods: true,
            ..OF_1_34
        };
        const OF_1_36: VersionRules = VersionRules {
            version: V1_36,
            balance: Balance::Change,
            devices: DeviceRules::of(V1_36, DeviceGates::of(V1_36)),
            finds_migrated_portworx: true,
            image_volumes: ImageVolumes::InSum,
            reads_pod_level_status: true,
            checks_declared_features: true,
            requires_scoring_strategy: true,
            preempts_in_memory: true,
            names_preemptors: false,
            ..OF_1_35
        };
        const OF_1_37: VersionRules = VersionRules {
            version: V1_37,
            devices: DeviceRules::of(V1_37, DeviceGates::of(V1_37)),
            group_rules: GroupRules::of(V1_37),
            keeps_namespace_selector: false,
            image_volumes: ImageVolumes::InSumAndLimit,
            pod_requests: PodRequests::PerPod,
            charges_all_budgets: false,
            orders_unstarted_victims: true,
            scores_storage_capacity: true,
            rejects_missing_csi_drivers: true,
            node_name_narrows: true,
            reports_no_claims: false,
            reports_victims: true,
            adds_taint_events: false,
            splits_pod_events: true,
            ..OF_1_36
        };
        [OF_1_34, OF_1_35, OF_1_36, OF_1_37][self as usize]
    }
}

impl fmt::Display for EmulatedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What to do where kube-scheduler loses a pod with devices, or breaks a claim's own constraints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// Decide correctly.
    #[default]
    Repaired,
    /// Reproduce the defect.
    Upstream,
}

impl Compat {
    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Repaired => "repaired",
            Self::Upstream => "upstream",
        }
    }
}

impl FromStr for Compat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = [Self::Repaired, Self::Upstream].into_iter().find(|it| it.as_str() == text);
        found.ok_or_else(|| format!("{text:?} is neither \"repaired\" nor \"upstream\""))
    }
}

/// The text is not a version that can be emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownVersion;

impl FromStr for EmulatedVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        Self::ALL.into_iter().find(|version| version.as_str() == text).ok_or(UnknownVersion)
    }
}

/// The rules in which versions differ, at default feature gates. The comments cite the rows of `docs/versions.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRules {
    /// The version that these rules are from.
    pub version: EmulatedVersion,
    /// Row D1: whether the incoming pod's `namespaceSelector` still applies after its namespaces were resolved. It is
    /// then matched against no labels, so that a selector that only excludes labels selects every namespace.
    pub keeps_namespace_selector: bool,
    /// Row D2: what NodeResourcesBalancedAllocation scores.
    pub balance: Balance,
    /// Row D3: how ImageLocality counts image volumes.
    pub image_volumes: ImageVolumes,
    /// Row D4: whether VolumeBinding scores the storage that the pod's volumes leave.
    pub scores_storage_capacity: bool,
    /// Row D5: whether NodeVolumeLimits rejects a node without a CSI driver that asks for it.
    pub rejects_missing_csi_drivers: bool,
    /// Row D6: how the statuses of containers count in a pod's requests.
    pub pod_requests: PodRequests,
    /// Row D8: whether the pod-level status counts in a pod's requests.
    pub reads_pod_level_status: bool,
    /// Row D10: whether a victim that violates a PodDisruptionBudget also uses up its other budgets.
    pub charges_all_budgets: bool,
    /// Row D26: whether potential victims without a start time keep the order in which the node lists them. Otherwise
    /// upstream's clock decides at each comparison.
    pub orders_unstarted_victims: bool,
    /// Row D27: whether errors speak of a label key and of bytes, instead of a qualified name and characters.
    pub describes_label_keys: bool,
    /// Row D11: whether NodeDeclaredFeatures is a default plugin.
    pub checks_declared_features: bool,
    /// Row D13: whether DynamicResources has Score.
    pub scores_devices: bool,
    /// Rows D14 to D17, D23, D25, D29 and D30 to D42: how devices are allocated.
    pub devices: DeviceRules,
    /// The feature gates of pod groups, which are off in every version unless they are set.
    pub groups: GroupGates,
    /// Rows P1 to P4: how groups are decided.
    pub group_rules: GroupRules,
    /// Row D28: whether NodeVolumeLimits takes Portworx as migrated on every node with a CSINode. Otherwise the CSINode
    /// must name it.
    pub finds_migrated_portworx: bool,
    /// Row D20: whether DynamicResources' PostFilter reports that a pod without claims has none to deallocate.
    pub reports_no_claims: bool,
    /// Row D21: whether the message of a preempting pod names the node and the number of victims.
    pub reports_victims: bool,
    /// Row D22: whether NodeName precedes NodeUnschedulable and narrows the search in PreFilter.
    pub node_name_narrows: bool,
    /// Row C1: whether the arguments of NodeResourcesFit require `scoringStrategy`, and `requestedToCapacityRatio` only
    /// with its type.
    pub requires_scoring_strategy: bool,
    /// Row Q1: whether a plugin that registers for new nodes, but not for taints, is registered for all changes of
    /// taints too.
    pub adds_taint_events: bool,
    /// Row Q2: whether the label of an event tells a pending pod's own change from that of another one, and raised
    /// requests are an event.
    pub splits_pod_events: bool,
    /// Row Q3: whether a pod in PreBind that starts terminating frees its node at once, not when it is deleted.
    pub frees_terminating_pods: bool,
    /// Row W1: whether a pod is nominated to its node before PreBind, if that takes time.
    pub nominates_before_pre_bind: bool,
    /// Row W2: whether a victim whose Binding was not sent is preempted without a write.
    pub preempts_in_memory: bool,
    /// Row W3: whether the Event about a victim names the preempting pod as `related`.
    pub names_preemptors: bool,
}

impl VersionRules {
    /// Returns these rules with other feature gates of devices.
    pub const fn with_gates(self, gates: DeviceGates) -> Self {
        Self { devices: DeviceRules::of(self.version, gates), ..self }
    }

    /// Returns these rules with other feature gates of pod groups. Versions without the API of 1.36 keep them off.
    pub const fn with_groups(self, gates: GroupGates) -> Self {
        Self { groups: gates.of(self.version), ..self }
    }

    /// Row D29: whether DeviceClasses serve extended resources.
    pub const fn serves_resources_by_devices(&self) -> bool {
        self.devices.gates.extended_resources
    }

    /// Row D14: whether DynamicResources takes devices with binding conditions, and has the argument `bindingTimeout`.
    pub const fn waits_for_devices(&self) -> bool {
        self.devices.gates.waits()
    }
}

impl Default for VersionRules {
    /// The rules of 1.36.
    fn default() -> Self {
        EmulatedVersion::default().rules()
    }
}

/// What NodeResourcesBalancedAllocation scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// The balance with the pod.
    After,
    /// The change of the balance by the pod.
    Change,
}

/// How ImageLocality counts image volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageVolumes {
    /// Not at all.
    Ignored,
    /// In the amount of image data on the node.
    InSum,
    /// In that amount, and in the limit of what counts.
    InSumAndLimit,
}

/// How the statuses of containers count in a pod's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodRequests {
    /// The largest of spec, allocated and actuated requests of each container, then summed up.
    PerContainer,
    /// Spec, allocated and actuated requests are summed up for the whole pod; the largest sum counts.
    PerPod,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compat_is_read_by_its_name() {
        assert_eq!("repaired".parse(), Ok(Compat::Repaired));
        assert_eq!("upstream".parse(), Ok(Compat::Upstream));
        assert!("".parse::<Compat>().is_err());
    }

    #[test]
    fn version_is_read_as_it_is_written() {
        for version in EmulatedVersion::ALL {
            assert_eq!(version.to_string().parse(), Ok(version));
            assert_eq!(version.rules().version, version);
        }
        assert_eq!(EmulatedVersion::ALL.last(), Some(&EmulatedVersion::NEWEST));
        for text in ["", "1.33", "1.38", "v1.36", "1.36.3", "1.036", " 1.36"] {
            assert_eq!(text.parse::<EmulatedVersion>(), Err(UnknownVersion), "{text:?}");
        }
    }
}
