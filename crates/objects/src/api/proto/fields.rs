//! The decoded fields of each message, by their numbers in upstream's `generated.proto`.

use super::wire::{Fill, text};
use super::{Flaw, Message, Value, each, merge};
use crate::api::Ignored;
use crate::api::apps::LabelSelected;
use crate::api::core::{
    Affinity, ClaimVolume, Container, ContainerImage, ContainerPort, ContainerRestartRule, ContainerStatus,
    ImageVolume, MapSelector, NodeAffinity, NodeSelector, NodeSelectorTerm, NodeSpec, NodeStatus,
    PodAffinity, PodAffinityTerm, PodCondition, PodResourceClaim, PodResourceClaimStatus, PodSpec, PodStatus,
    PreferredSchedulingTerm, Requests, SchedulingGate, SchedulingGroup, StatusRequests, Taint, Toleration,
    TopologySpreadConstraint, Volume, WeightedPodAffinityTerm,
};
use crate::api::meta::{
    LabelSelector, Metadata, Owner, PROTECTION, QuantityText, SelectorRequirement, annotation,
};
use crate::api::policy::{PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use crate::api::resource::{
    AllocatedDeviceStatus, AllocationResult, CapacityRequestPolicy, CapacityRequestPolicyRange,
    CapacityRequirements, CelDeviceSelector, Counter, CounterSet, Device, DeviceAllocationConfiguration,
    DeviceAllocationResult, DeviceAttribute, DeviceCapacity, DeviceClaim, DeviceClaimConfiguration,
    DeviceClassConfiguration, DeviceClassSpec, DeviceCondition, DeviceConstraint, DeviceCounterConsumption,
    DeviceRequest, DeviceRequestAllocationResult, DeviceSelector, DeviceSubRequest, DeviceTaint,
    DeviceToleration, ExactDeviceRequest, OpaqueDeviceConfiguration, RawJson, ResourceClaimConsumerReference,
    ResourceClaimSpec, ResourceClaimStatus, ResourcePool, ResourceSliceSpec,
};
use crate::api::scheduling::{
    DisruptionMode, GangPolicy, GroupCondition, PodGroupSpecV1Alpha2, PodGroupSpecV1Beta1, PodGroupStatus,
    SchedulingConstraints, SchedulingPolicy, TopologyConstraint,
};
use crate::api::storage::{
    AzureDisk, CsiDriverSpec, CsiNodeDriver, CsiNodeSpec, CsiSource, CsiStorageCapacityFields, CsiVolume,
    GceDisk, Iscsi, ObjectReference, PersistentVolumeClaimSpec, PersistentVolumeSpec, Phase, Rbd,
    StorageClassFields, TopologySelectorLabelRequirement, TopologySelectorTerm, VolumeAttachmentSource,
    VolumeAttachmentSpec, VolumeId, VolumeNodeAffinity, VolumeNodeResources,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Implements [`Message`]: maps field numbers to fields. `; N in { ... }` maps a nested message whose fields JSON
/// inlines.
macro_rules! message {
    ($type:ty { $($number:literal => $field:ident),* $(; $outer:literal in { $($inner:literal => $inlined:ident),* })? }) => {
        impl Message for $type {
            #[inline]
            fn field(&mut self, number: u32, value: Value<'_>) -> Result<(), Flaw> {
                match number {
                    $($number => self.$field.fill(value).map_err(|flaw| flaw.within(stringify!($field))),)*
                    $($outer => each(value.bytes()?, |number, value| match number {
                        $($inner => self.$inlined.fill(value).map_err(|flaw| flaw.within(stringify!($inlined))),)*
                        _ => Ok(()),
                    }),)?
                    _ => Ok(()),
                }
            }
        }

        impl Fill for $type {
            fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw> {
                merge(self, value)
            }
        }
    };
}

message!(LabelSelector { 1 => match_labels, 2 => match_expressions });
message!(SelectorRequirement { 1 => key, 2 => operator, 3 => values });
message!(Owner { 1 => kind, 3 => name, 4 => uid, 5 => api_version, 6 => controller });

message!(PodSpec {
    1 => volumes,
    2 => containers,
    7 => node_selector,
    10 => node_name,
    11 => host_network,
    18 => affinity,
    19 => scheduler_name,
    20 => init_containers,
    22 => tolerations,
    25 => priority,
    31 => preemption_policy,
    32 => overhead,
    33 => topology_spread_constraints,
    37 => host_users,
    38 => scheduling_gates,
    39 => resource_claims,
    40 => resources,
    43 => scheduling_group
});
message!(SchedulingGroup { 1 => pod_group_name });
message!(Container {
    1 => name,
    2 => image,
    6 => ports,
    8 => resources,
    24 => restart_policy,
    25 => restart_policy_rules
});
message!(Requests { 1 => limits, 2 => requests });
message!(ContainerPort { 2 => host_port, 4 => protocol, 5 => host_ip });
message!(SchedulingGate { 1 => name });
message!(ContainerRestartRule { 1 => action });
message!(PodResourceClaim { 1 => name, 3 => resource_claim_name, 4 => resource_claim_template_name });
message!(PodResourceClaimStatus { 1 => name, 2 => resource_claim_name });
message!(Volume {
    1 => name;
    2 in {
        3 => gce_persistent_disk,
        4 => aws_elastic_block_store,
        8 => iscsi,
        10 => persistent_volume_claim,
        11 => rbd,
        13 => cinder,
        18 => azure_file,
        20 => vsphere_volume,
        22 => azure_disk,
        24 => portworx_volume,
        28 => csi,
        29 => ephemeral,
        30 => image
    }
});
message!(ClaimVolume { 1 => claim_name });
message!(ImageVolume { 1 => reference });
message!(Toleration { 1 => key, 2 => operator, 3 => value, 4 => effect });
message!(Affinity { 1 => node_affinity, 2 => pod_affinity, 3 => pod_anti_affinity });
message!(NodeAffinity { 1 => required, 2 => preferred });
message!(NodeSelector { 1 => node_selector_terms });
message!(NodeSelectorTerm { 1 => match_expressions, 2 => match_fields });
message!(PreferredSchedulingTerm { 1 => weight, 2 => preference });
message!(PodAffinity { 1 => required, 2 => preferred });
message!(PodAffinityTerm {
    1 => label_selector,
    2 => namespaces,
    3 => topology_key,
    4 => namespace_selector
});
message!(WeightedPodAffinityTerm { 1 => weight, 2 => pod_affinity_term });
message!(TopologySpreadConstraint {
    1 => max_skew,
    2 => topology_key,
    3 => when_unsatisfiable,
    4 => label_selector,
    5 => min_domains,
    6 => node_affinity_policy,
    7 => node_taints_policy,
    8 => match_label_keys
});
message!(PodStatus {
    1 => phase,
    2 => conditions,
    3 => message,
    4 => reason,
    7 => start_time,
    8 => container_statuses,
    10 => init_container_statuses,
    11 => nominated_node_name,
    15 => resource_claim_statuses,
    19 => allocated_resources,
    20 => resources
});
message!(StatusRequests { 2 => requests });
message!(ContainerStatus { 1 => name, 10 => allocated_resources, 11 => resources });

message!(NodeSpec { 4 => unschedulable, 5 => taints });
message!(Taint { 1 => key, 2 => value, 3 => effect });
message!(NodeStatus { 2 => allocatable, 8 => images, 14 => declared_features });
message!(ContainerImage { 1 => names, 2 => size_bytes });

// Service and ReplicationController.
message!(MapSelector { 2 => selector });
// ReplicaSet and StatefulSet.
message!(LabelSelected { 2 => selector });
message!(PodDisruptionBudgetSpec { 2 => selector });
message!(PodDisruptionBudgetStatus { 2 => disrupted_pods, 3 => disruptions_allowed });

// Devices.
message!(DeviceClassSpec { 1 => selectors, 2 => config, 4 => extended_resource_name });
message!(DeviceSelector { 1 => cel });
message!(CelDeviceSelector { 1 => expression });
message!(DeviceClassConfiguration { ; 1 in { 1 => opaque } });
message!(OpaqueDeviceConfiguration { 1 => driver, 2 => parameters });
message!(ResourceSliceSpec {
    1 => driver,
    2 => pool,
    3 => node_name,
    4 => node_selector,
    5 => all_nodes,
    6 => devices,
    7 => per_device_node_selection,
    8 => shared_counters
});
message!(ResourcePool { 1 => name, 2 => generation, 3 => resource_slice_count });
message!(CounterSet { 1 => name, 2 => counters });
message!(Counter { 1 => value });
message!(Device {
    1 => name,
    2 => attributes,
    3 => capacity,
    4 => consumes_counters,
    5 => node_name,
    6 => node_selector,
    7 => all_nodes,
    8 => taints,
    9 => binds_to_node,
    10 => binding_conditions,
    11 => binding_failure_conditions,
    12 => allow_multiple_allocations
});
message!(DeviceAttribute {
    2 => int,
    3 => bool,
    4 => string,
    5 => version,
    6 => ints,
    7 => bools,
    8 => strings,
    9 => versions
});
message!(DeviceCapacity { 1 => value, 2 => request_policy });
message!(CapacityRequestPolicy { 1 => default, 3 => valid_values, 4 => valid_range });
message!(CapacityRequestPolicyRange { 1 => min, 2 => max, 3 => step });
message!(DeviceCounterConsumption { 1 => counter_set, 2 => counters });
message!(DeviceTaint { 1 => key, 2 => value, 3 => effect });
message!(DeviceToleration { 1 => key, 2 => operator, 3 => value, 4 => effect, 5 => toleration_seconds });
message!(ResourceClaimSpec { 1 => devices });
message!(DeviceClaim { 1 => requests, 2 => constraints, 3 => config });
message!(DeviceRequest { 1 => name, 2 => exactly, 3 => first_available });
message!(ExactDeviceRequest {
    1 => device_class_name,
    2 => selectors,
    3 => allocation_mode,
    4 => count,
    5 => admin_access,
    6 => tolerations,
    7 => capacity
});
message!(DeviceSubRequest {
    1 => name,
    2 => device_class_name,
    3 => selectors,
    4 => allocation_mode,
    5 => count,
    6 => tolerations,
    7 => capacity
});
message!(CapacityRequirements { 1 => requests });
message!(DeviceConstraint { 1 => requests, 2 => match_attribute, 3 => distinct_attribute });
message!(DeviceClaimConfiguration { 1 => requests; 2 in { 1 => opaque } });
message!(ResourceClaimStatus { 1 => allocation, 2 => reserved_for, 4 => devices });
message!(AllocationResult { 1 => devices, 3 => node_selector, 5 => allocation_timestamp });
message!(DeviceAllocationResult { 1 => results, 2 => config });
message!(DeviceRequestAllocationResult {
    1 => request,
    2 => driver,
    3 => pool,
    4 => device,
    5 => admin_access,
    6 => tolerations,
    7 => binding_conditions,
    8 => binding_failure_conditions,
    9 => share_id,
    10 => consumed_capacity
});
message!(DeviceAllocationConfiguration { 1 => source, 2 => requests; 3 in { 1 => opaque } });
message!(ResourceClaimConsumerReference { 5 => uid });
message!(AllocatedDeviceStatus { 1 => driver, 2 => pool, 3 => device, 4 => conditions });
message!(DeviceCondition { 1 => kind, 2 => status, 5 => reason, 6 => message });

// Volumes and claims.
message!(Phase { 1 => phase });
message!(PersistentVolumeSpec {
    1 => capacity,
    3 => access_modes,
    4 => claim_ref,
    6 => storage_class_name,
    8 => volume_mode,
    9 => node_affinity,
    10 => volume_attributes_class_name;
    2 in {
        1 => gce_persistent_disk,
        2 => aws_elastic_block_store,
        8 => cinder,
        13 => azure_file,
        14 => vsphere_volume,
        16 => azure_disk,
        18 => portworx_volume,
        22 => csi
    }
});
message!(ObjectReference { 2 => namespace, 3 => name, 4 => uid });
message!(VolumeNodeAffinity { 1 => required });
message!(CsiSource { 1 => driver, 2 => volume_handle });
message!(CsiVolume { 1 => driver });
message!(GceDisk { 1 => pd_name, 4 => read_only });
message!(VolumeId { 1 => volume_id });
message!(AzureDisk { 2 => disk_uri, 6 => kind });
message!(Iscsi { 2 => iqn, 6 => read_only });
message!(Rbd { 1 => monitors, 2 => image, 4 => pool, 8 => read_only });
message!(PersistentVolumeClaimSpec {
    1 => access_modes,
    2 => resources,
    3 => volume_name,
    4 => selector,
    5 => storage_class_name,
    6 => volume_mode,
    9 => volume_attributes_class_name
});
message!(StorageClassFields { 2 => provisioner, 7 => volume_binding_mode, 8 => allowed_topologies });
message!(TopologySelectorTerm { 1 => match_label_expressions });
message!(TopologySelectorLabelRequirement { 1 => key, 2 => values });
message!(CsiNodeSpec { 1 => drivers });
message!(CsiNodeDriver { 1 => name, 4 => allocatable });
message!(VolumeNodeResources { 1 => count });
message!(CsiDriverSpec { 4 => storage_capacity, 11 => prevent_pod_scheduling_if_missing });
message!(CsiStorageCapacityFields {
    2 => node_topology,
    3 => storage_class_name,
    4 => capacity,
    5 => maximum_volume_size
});
message!(VolumeAttachmentSpec { 1 => attacher, 2 => source, 3 => node_name });
message!(VolumeAttachmentSource { 1 => persistent_volume_name });

message!(PodGroupSpecV1Alpha2 {
    2 => scheduling_policy,
    3 => scheduling_constraints,
    5 => disruption_mode,
    7 => priority
});
message!(PodGroupSpecV1Beta1 {
    1 => parent_composite_pod_group_name,
    3 => scheduling_policy,
    4 => scheduling_constraints,
    6 => disruption_mode,
    8 => priority
});
message!(DisruptionMode { 1 => single, 2 => all });
message!(SchedulingPolicy { 1 => basic, 2 => gang });
message!(GangPolicy { 1 => min_count });
message!(SchedulingConstraints { 1 => topology });
message!(TopologyConstraint { 1 => key });
message!(PodGroupStatus { 1 => conditions });
message!(GroupCondition { 1 => kind, 2 => status, 3 => observed_generation, 5 => reason, 6 => message });

impl Message for Metadata {
    fn field(&mut self, number: u32, value: Value<'_>) -> Result<(), Flaw> {
        let (field, taken) = match number {
            1 => ("name", self.name.fill(value)),
            3 => ("namespace", self.namespace.fill(value)),
            5 => ("uid", self.uid.fill(value)),
            6 => ("resource_version", self.resource_version.fill(value)),
            7 => ("generation", self.generation.fill(value)),
            8 => ("creation_timestamp", self.creation_timestamp.fill(value)),
            9 => ("deletion_timestamp", self.deletion_timestamp.fill(value)),
            11 => ("labels", self.labels.fill(value)),
            12 => ("annotations", self.annotation(value)),
            13 => ("owner_references", self.owner_references.fill(value)),
            14 => {
                ("finalizers", value.bytes().map(|name| self.is_protected |= name == PROTECTION.as_bytes()))
            }
            _ => return Ok(()),
        };
        taken.map_err(|flaw| flaw.within(field))
    }
}

impl Metadata {
    /// Keeps an annotation in use. For any annotation, the map becomes `Some`.
    fn annotation(&mut self, entry: Value<'_>) -> Result<(), Flaw> {
        let (mut key, mut content) = (&[][..], &[][..]);
        each(entry.bytes()?, |number, value| {
            match number {
                1 => key = value.bytes()?,
                2 => content = value.bytes()?,
                _ => {}
            }
            Ok(())
        })?;
        let annotations = self.annotations.get_or_insert_default();
        if let Some(known) = annotation::ALL.into_iter().find(|known| known.as_bytes() == key) {
            annotations.insert(known.to_owned(), text(content));
        }
        Ok(())
    }

    /// Removes empty fields: upstream writes them in protobuf and omits them in JSON.
    pub(super) fn without_empty(mut self) -> Self {
        for text in [&mut self.name, &mut self.namespace, &mut self.uid, &mut self.resource_version] {
            text.take_if(|text| text.is_empty());
        }
        self.generation.take_if(|generation| *generation == 0);
        self
    }
}

impl Message for Ignored {
    #[inline]
    fn field(&mut self, _: u32, _: Value<'_>) -> Result<(), Flaw> {
        Ok(())
    }
}

impl Fill for Ignored {
    fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw> {
        value.bytes().map(|_| ())
    }
}

impl Fill for QuantityText {
    fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw> {
        *self = Self::read(value)?;
        Ok(())
    }

    fn read(value: Value<'_>) -> Result<Self, Flaw> {
        let mut written = None;
        each(value.bytes()?, |number, value| {
            if number == 1 {
                written = Some(text(value.bytes()?));
            }
            Ok(())
        })?;
        Ok(written.map_or_else(Self::default, |text| Self(text.trim().into())))
    }
}

impl Fill for RawJson {
    fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw> {
        each(value.bytes()?, |number, value| {
            if number == 1 {
                *self = Self::parse(&text(value.bytes()?)).ok_or_else(|| Flaw::new("invalid JSON"))?;
            }
            Ok(())
        })
    }
}

/// Go's zero time, the beginning of year 1, which means no time.
const NO_TIME: i64 = -62_135_596_800;

/// Decodes a time. Fractions of a second are dropped, as upstream does (`meta/v1/time_proto.go`).
fn time(value: Value<'_>) -> Result<Option<Timestamp>, Flaw> {
    let bytes = value.bytes()?;
    let mut seconds = 0_i64;
    each(bytes, |number, value| if number == 1 { seconds.fill(value) } else { Ok(()) })?;
    if bytes.is_empty() || seconds == NO_TIME {
        return Ok(None);
    }
    Timestamp::from_second(seconds).map(Some).map_err(|_| Flaw::new("a time is out of range"))
}

impl Fill for Option<Time> {
    fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw> {
        *self = time(value)?.map(Time);
        Ok(())
    }
}

impl Message for PodCondition {
    fn field(&mut self, number: u32, value: Value<'_>) -> Result<(), Flaw> {
        let (field, taken) = match number {
            1 => ("type", self.kind.fill(value)),
            2 => ("status", self.status.fill(value)),
            4 => {
                // Formatted as in JSON.
                let written = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
                let taken = time(value).map(|at| self.last_transition_time = written(at));
                ("last_transition_time", taken)
            }
            5 => ("reason", self.reason.fill(value)),
            6 => ("message", self.message.fill(value)),
            _ => return Ok(()),
        };
        taken.map_err(|flaw| flaw.within(field))
    }
}

impl Fill for PodCondition {
    fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw> {
        merge(self, value)
    }
}
