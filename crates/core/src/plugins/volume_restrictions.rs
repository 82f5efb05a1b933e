//! VolumeRestrictions separates pods that cannot share a disk on a node, or a claim anywhere.
//!
//! It compares disks specified in pods, and claims with access mode ReadWriteOncePod. Upstream:
//! `pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go`.

use crate::cache::{NodeView, Snapshot};
use crate::framework::{
    ClusterEvent, DependsOn, EventSet, FilterPlugin, FilterRule, Hint, NodeAction, PluginName, PodAction,
    Prepared, Reads, Rejection, Verdict,
};
use crate::model::intern::{Symbol, known};
use crate::model::pod::PodInfo;
use crate::model::volume::{ExclusiveDisk, PodVolume, StorageKind, StorageObject};

const NAME: PluginName = "VolumeRestrictions";
const DISK_IN_USE: &str = "node(s) had no available disk";
const CLAIM_IN_USE: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
     another pod";

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct VolumeRestrictions;

struct Filter {
    disks: Box<[ExclusiveDisk]>,
    /// Names of the pod's claims that at most one pod may use.
    claims: Box<[Symbol]>,
    /// Number of existing uses of those claims.
    conflicts: i64,
}

fn disks(pod: &PodInfo) -> impl Iterator<Item = &ExclusiveDisk> {
    pod.volumes.iter().filter_map(|volume| volume.disk()?.exclusive.as_ref())
}

fn named_claims(pod: &PodInfo) -> impl Iterator<Item = Symbol> + '_ {
    pod.volumes.iter().filter_map(PodVolume::named_claim)
}

impl FilterPlugin for VolumeRestrictions {
    fn name(&self) -> PluginName {
        NAME
    }

    fn reads(&self) -> Reads {
        Reads::Volumes
    }

    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        let mut claims = Vec::new();
        for name in named_claims(pod) {
            let Some(claim) = snapshot.volumes().claim(pod.namespace, name) else {
                let text = format!("persistentvolumeclaim \"{}\" not found", snapshot.text(name));
                return Prepared::Rejected(Rejection::unresolvable(text));
            };
            if claim.access_modes.contains(&known::READ_WRITE_ONCE_POD) && !claims.contains(&name) {
                claims.push(name);
            }
        }
        let conflicts = claims.iter().filter(|&&claim| snapshot.is_claim_used(pod.namespace, claim)).count();
        let disks: Box<[_]> = disks(pod).cloned().collect();
        if disks.is_empty() && conflicts == 0 {
            return Prepared::Skip;
        }
        let rule = Filter { disks, claims: claims.into(), conflicts: conflicts as i64 };
        Prepared::Run { rule: Box::new(rule), only: None }
    }

    fn events(&self) -> EventSet {
        EventSet::NEW_NODE
            | EventSet::node(NodeAction::Delete)
            | EventSet::assigned_pod(PodAction::Delete)
            | EventSet::storage(StorageKind::PersistentVolumeClaim)
    }

    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, _snapshot: Snapshot<'_>) -> Hint {
        match event {
            ClusterEvent::AssignedPod { action: PodAction::Delete, old: Some(gone), .. } => {
                let shared = || disks(pod).any(|new| disks(gone).any(|old| new.conflicts_with(old)));
                let claimed = || named_claims(gone).any(|claim| named_claims(pod).any(|own| own == claim));
                // Upstream does not requeue a pod whose disk a pod of another namespace used.
                Hint::queue_if(shared() || gone.namespace == pod.namespace && claimed())
            }
            // A list may show a recreated claim as a changed one.
            ClusterEvent::Storage { new: Some(StorageObject::Claim(claim)), .. } => Hint::queue_if(
                claim.namespace == pod.namespace && named_claims(pod).any(|name| name == claim.name),
            ),
            // Pods of a deleted node no longer use claims. Upstream requeues only when they are
            // garbage-collected.
            ClusterEvent::Node { action: NodeAction::Delete, .. } => {
                Hint::queue_if(named_claims(pod).next().is_some())
            }
            ClusterEvent::Node { action: NodeAction::Add, .. } | ClusterEvent::UnschedulableTimeout => {
                Hint::Queue
            }
            _ => Hint::Skip,
        }
    }
}

impl Filter {
    /// Counts the uses of the pod's claims by other pods. Like upstream, it compares claim names without
    /// namespaces here.
    fn uses(&self, pods: &[&PodInfo]) -> i64 {
        let claims = pods.iter().flat_map(|pod| named_claims(pod));
        claims.filter(|claim| self.claims.contains(claim)).count() as i64
    }
}

impl FilterRule for Filter {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn is_safe(&self, _snapshot: Snapshot<'_>) -> bool {
        true
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        let in_use =
            |disk: &ExclusiveDisk| node.pods().any(|pod| disks(pod).any(|old| disk.conflicts_with(old)));
        if self.disks.iter().any(in_use) {
            return Verdict::Rejected(Rejection::unschedulable(DISK_IN_USE));
        }
        if self.conflicts + self.uses(node.added()) - self.uses(node.removed()) > 0 {
            return Verdict::Rejected(Rejection::unschedulable(CLAIM_IN_USE));
        }
        Verdict::Fits
    }
}

impl ExclusiveDisk {
    /// Whether two pods on one node conflict: the disk is the same and not both uses are read-only.
    fn conflicts_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gce { name, read_only }, Self::Gce { name: other, read_only: too }) => {
                name == other && !(*read_only && *too)
            }
            (Self::Ebs { id }, Self::Ebs { id: other }) => id == other,
            (Self::Iscsi { iqn, read_only }, Self::Iscsi { iqn: other, read_only: too }) => {
                iqn == other && !(*read_only && *too)
            }
            (
                Self::Rbd { monitors, pool, image, read_only },
                Self::Rbd { monitors: others, pool: other_pool, image: other_image, read_only: too },
            ) => {
                monitors.iter().any(|monitor| others.contains(monitor))
                    && (pool, image) == (other_pool, other_image)
                    && !(*read_only && *too)
            }
            _ => false,
        }
    }
}
