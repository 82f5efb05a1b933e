//! Marks the ids that volumes and their objects hold.

use super::*;
use crate::model::intern::{Marks, TraceIds, holds_no_ids, trace_ids};

trace_ids!(PodVolume { source } but not { name });

impl TraceIds for VolumeSource {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Claim(name) | Self::Ephemeral(name) | Self::Csi(name) => name.mark(marks),
            Self::Disk(disk) => disk.mark(marks),
        }
    }
}

trace_ids!(InlineDisk { exclusive, migratable });
trace_ids!(MigratableDisk { driver } but not { plugin, handle });

impl TraceIds for ExclusiveDisk {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Gce { name, read_only: _ } => name.mark(marks),
            Self::Ebs { id } => id.mark(marks),
            Self::Iscsi { iqn, read_only: _ } => iqn.mark(marks),
            Self::Rbd { monitors, pool, image, read_only: _ } => {
                monitors.mark(marks);
                pool.mark(marks);
                image.mark(marks);
            }
        }
    }
}

trace_ids!(VolumeNodeAffinity { terms });
trace_ids!(ClaimRef { namespace, name } but not { uid });
trace_ids!(CsiVolume { driver } but not { handle });
trace_ids!(InTreeVolume { migrated } but not { plugin });
trace_ids!(MigratedVolume { volume, node_affinity });
trace_ids!(PersistentVolumeInfo {
    name, labels, topology, class, claim, access_modes, mode, attributes_class, node_affinity, csi, in_tree
} but not { resource_version, deleting, bound_by_controller, capacity, available });
trace_ids!(ClaimInfo {
    namespace, name, class, volume, selected_node, access_modes, selector, mode, attributes_class
} but not {
    uid, resource_version, controller, deleting, lost, bind_completed, annotated, request
});
trace_ids!(StorageClassInfo { name, provisioner, in_tree, allowed_topologies } but not { binding_mode });
trace_ids!(CsiNodeInfo { name, limits } but not { migrated_plugins });
trace_ids!(CsiDriverInfo { name } but not { storage_capacity, prevents_scheduling_if_missing });
trace_ids!(CsiStorageCapacityInfo { namespace, name, class, topology } but not { limit, capacity });
trace_ids!(VolumeAttachmentInfo { name, node, attacher, volume });
trace_ids!(StorageKey { namespace, name } but not { kind });

impl TraceIds for Reservation {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Bind { volume, claim, by_controller: _ } => {
                volume.mark(marks);
                claim.mark(marks);
            }
            Self::Provision { namespace, name, node } => {
                namespace.mark(marks);
                name.mark(marks);
                node.mark(marks);
            }
            Self::Allocate { claim, allocation } => {
                claim.mark(marks);
                allocation.mark(marks);
            }
            Self::Share { claim } => claim.mark(marks),
            Self::Create { claim, allocation, mappings } => {
                claim.mark(marks);
                allocation.mark(marks);
                mappings.mark(marks);
            }
        }
    }
}

holds_no_ids!(InTreePlugin);
