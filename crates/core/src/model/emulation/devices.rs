//! How versions of kube-scheduler differ in the allocation of devices.
//!
//! Upstream: `dynamic-resource-allocation/structured`, of which each version ships up to three allocators. The feature
//! gates in force choose one.

use super::EmulatedVersion::{self, V1_34, V1_35, V1_36, V1_37};

/// The feature gates of devices that can be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceGates {
    /// `DRAAdminAccess`: requests may have `adminAccess`.
    pub admin_access: bool,
    /// `DRAConsumableCapacity`: devices may be shared.
    pub consumable_capacity: bool,
    /// `DRADeviceBindingConditions`: pods wait for conditions of devices. It needs `device_status`, too.
    pub binding_conditions: bool,
    /// `DRAResourceClaimDeviceStatus`: drivers report the status of devices in claims.
    pub device_status: bool,
    /// `DRADeviceTaints`: taints keep claims from devices.
    pub taints: bool,
    /// `DRAExtendedResource`: DeviceClasses serve extended resources.
    pub extended_resources: bool,
    /// `DRAPartitionableDevices`: devices consume shared counters, and have nodes of their own.
    pub partitionable: bool,
    /// `DRAPrioritizedList`: requests may have `firstAvailable`.
    pub prioritized_list: bool,
}

impl DeviceGates {
    /// Names of the gates, as in `--feature-gates`.
    pub const NAMES: [&'static str; 8] = [
        "DRAAdminAccess",
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAPartitionableDevices",
        "DRAPrioritizedList",
        "DRAResourceClaimDeviceStatus",
    ];

    /// Returns the gates of a version at their defaults.
    pub(super) const fn of(version: EmulatedVersion) -> Self {
        let since_1_36 = matches!(version, V1_36 | V1_37);
        Self {
            admin_access: true,
            consumable_capacity: since_1_36,
            binding_conditions: since_1_36,
            device_status: true,
            taints: since_1_36,
            extended_resources: since_1_36,
            partitionable: since_1_36,
            prioritized_list: true,
        }
    }

    /// Sets a gate by its name. Returns false if it is none of these.
    pub fn set(&mut self, name: &str, on: bool) -> bool {
        let gate = match name {
            "DRAAdminAccess" => &mut self.admin_access,
            "DRAConsumableCapacity" => &mut self.consumable_capacity,
            "DRADeviceBindingConditions" => &mut self.binding_conditions,
            "DRADeviceTaints" => &mut self.taints,
            "DRAExtendedResource" => &mut self.extended_resources,
            "DRAPartitionableDevices" => &mut self.partitionable,
            "DRAPrioritizedList" => &mut self.prioritized_list,
            "DRAResourceClaimDeviceStatus" => &mut self.device_status,
            _ => return false,
        };
        *gate = on;
        true
    }

    /// Whether pods wait for binding conditions.
    pub const fn waits(&self) -> bool {
        self.binding_conditions && self.device_status
    }
}

/// How devices are allocated. The comments cite the rows of `docs/versions.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRules {
    /// Row D14: the feature gates.
    pub gates: DeviceGates,
    /// Row D15: whether pools of two drivers with one name have separate counters.
    pub separates_counters: bool,
    /// Row D16: how `distinctAttribute` is checked.
    pub distinct: Distinct,
    /// Row D17: which slices of a pool are looked at.
    pub pools: PoolView,
    /// Row D23: whether the score of a pod with claims allocated earlier and now is an error.
    pub fails_mixed_scores: bool,
    /// Row D25: whether the counters of a pool concern only the nodes that their slice names.
    pub counters_have_nodes: bool,
    /// Row D30: how the devices of an alternative for all devices are found.
    pub alternatives: Alternatives,
    /// Row D31: whether further shares of a device without capacities take its counters again.
    pub charges_counters_per_share: bool,
    /// Row D32: how requested capacity is checked and rounded.
    pub capacity: CapacityRule,
    /// Row D33: whether the error of an expression names the device and advises on missing keys.
    pub explains_expressions: bool,
    /// Row D34: whether the error about too many devices names the request.
    pub names_excess_request: bool,
    /// Row D35: whether a configuration is listed once, without requests if it is for all.
    pub joins_configs: bool,
    /// Row D36: whether requests for capacity are an error. Otherwise they count, or are ignored if the gate is off.
    pub refuses_capacity: bool,
    /// Row D36: whether that error names the alternative instead of the request.
    pub names_alternative: bool,
    /// Row D38: whether an allocation lists the tolerations of the request.
    pub lists_tolerations: bool,
    /// Row D39: whether the error about a claim's owner writes `pod` in small letters.
    pub writes_pod_small: bool,
    /// Row D40: whether an allocation with a device that binds to its node is for this node only.
    pub reads_binds_to_node: bool,
    /// Row D41: whether expressions see that a device can be shared. Otherwise they read that it cannot.
    pub shows_sharing: bool,
    /// Row D42: whether expressions have the function `includes`.
    pub has_includes: bool,
    /// Row D43: which allocation of a claim that a pod names twice counts while it is in flight.
    pub repeated_claims: RepeatedClaims,
    /// Row D44: whether slices with binding conditions come last in their pool, although such devices are not used.
    pub conditions_come_last: bool,
}

/// Which allocation of a claim that a pod names twice counts while it is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatedClaims {
    /// The first.
    First,
    /// The last.
    Last,
}

/// How `distinctAttribute` is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distinct {
    /// It is an unknown kind of constraint, and an error.
    Unknown,
    /// The devices need the attribute. Their values are compared by address, and so are never equal.
    Presence,
    /// The latest device of each request is compared.
    Latest,
    /// All devices are compared.
    All,
}

/// Which slices of a pool are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolView {
    /// Those that the node can use. Incomplete pools offer devices, and an invalid one ends the decision.
    OfNode,
    /// All. Incomplete and invalid pools are passed over.
    Whole,
}

/// How the devices of an alternative (`firstAvailable`) for all devices are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alternatives {
    /// The outcomes of an earlier alternative's selectors are taken for its own, and all devices but the first are
    /// those of the first alternative.
    Mixed,
    /// By their own selectors.
    Separate,
}

/// How requested capacity is checked and rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityRule {
    /// Overflows wrap, and a rounded amount is in binary format. `All` leaves out devices whose capacity is in use.
    Wrapping,
    /// Overflows and negative amounts are errors, and a rounded amount has the format of the step. `All` fails if the
    /// capacity of a device is in use.
    Checked,
}

impl DeviceRules {
    /// Returns the rules of a version with these gates.
    pub(super) const fn of(version: EmulatedVersion, gates: DeviceGates) -> Self {
        let is_latest = matches!(version, V1_37);
        let is_oldest = matches!(version, V1_34);
        Self {
            gates,
            separates_counters: is_latest,
            distinct: match (version, knows_distinct(version, gates)) {
                (_, false) => Distinct::Unknown,
                (V1_34, true) => Distinct::Presence,
                (V1_37, true) => Distinct::All,
                (_, true) => Distinct::Latest,
            },
            pools: if is_oldest { PoolView::OfNode } else { PoolView::Whole },
            fails_mixed_scores: matches!(version, V1_35),
            counters_have_nodes: is_latest,
            alternatives: match version {
                V1_34 | V1_35 => Alternatives::Mixed,
                V1_36 | V1_37 => Alternatives::Separate,
            },
            charges_counters_per_share: !is_latest,
            capacity: if is_latest { CapacityRule::Checked } else { CapacityRule::Wrapping },
            explains_expressions: is_latest,
            names_excess_request: is_latest,
            joins_configs: is_latest,
            // The allocators that know `distinctAttribute` are those that know capacity.
            refuses_capacity: !gates.consumable_capacity && knows_distinct(version, gates),
            names_alternative: !matches!(version, V1_34),
            lists_tolerations: !is_oldest,
            writes_pod_small: matches!(version, V1_34 | V1_35),
            // These came with the allocators that know `distinctAttribute`, too.
            reads_binds_to_node: knows_distinct(version, gates),
            shows_sharing: knows_distinct(version, gates),
            has_includes: matches!(version, V1_36 | V1_37),
            repeated_claims: match version {
                V1_34 | V1_35 => RepeatedClaims::Last,
                V1_36 | V1_37 => RepeatedClaims::First,
            },
            conditions_come_last: is_oldest && knows_distinct(version, gates),
        }
    }
}

/// Whether the allocator that the gates choose knows `distinctAttribute`. The older one does if nothing newer is on.
const fn knows_distinct(version: EmulatedVersion, gates: DeviceGates) -> bool {
    match version {
        V1_34 => gates.consumable_capacity || gates.binding_conditions || gates.device_status,
        V1_35 | V1_36 | V1_37 => gates.consumable_capacity || gates.waits(),
    }
}
