//! VolumeZone rejects nodes outside the zones and regions in the labels of the pod's bound volumes.
//!
//! VolumeBinding handles the node affinity of volumes. Claims of generic ephemeral volumes are ignored.
//! Upstream: `pkg/scheduler/framework/plugins/volumezone/volume_zone.go`.

use crate::cache::{NodeView, Snapshot};
use crate::framework::{
    ClusterEvent, CycleError, DependsOn, EventSet, FilterPlugin, FilterRule, Hint, NodeAction, PluginName,
    Prepared, Reads, Rejection, Verdict,
};
use crate::model::intern::{Labels, Symbol, known};
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::model::volume::{BindingMode, ClaimInfo, PodVolume, StorageKind, StorageObject};

const NAME: PluginName = "VolumeZone";
const NO_ZONE: &str = "node(s) had no available volume zone";
const KEYS: [Symbol; 4] = [known::BETA_ZONE, known::BETA_REGION, known::ZONE, known::REGION];

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct VolumeZone;

/// The allowed node values for each volume label.
type Topology = Vec<(Symbol, Box<[Symbol]>)>;

struct Filter {
    topology: Topology,
}

impl FilterPlugin for VolumeZone {
    fn name(&self) -> PluginName {
        NAME
    }

    fn reads(&self) -> Reads {
        Reads::Volumes
    }

    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        match topology(pod, snapshot) {
            Err(rejection) => Prepared::Rejected(rejection),
            Ok(topology) if topology.is_empty() => Prepared::Skip,
            Ok(topology) => Prepared::Run { rule: Box::new(Filter { topology }), only: None },
        }
    }

    fn without_pre_filter(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<Box<dyn FilterRule>> {
        Some(match topology(pod, snapshot) {
            Err(rejection) => Box::new(RejectsAll(rejection)),
            Ok(topology) => Box::new(Filter { topology }),
        })
    }

    fn events(&self) -> EventSet {
        EventSet::NEW_NODE
            | EventSet::node(NodeAction::UpdateLabel)
            | EventSet::storage(StorageKind::PersistentVolume)
            | EventSet::storage(StorageKind::PersistentVolumeClaim)
            | EventSet::storage(StorageKind::StorageClass)
    }

    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, _snapshot: Snapshot<'_>) -> Hint {
        use StorageObject::{Claim, Class, Volume};
        match event {
            ClusterEvent::Node { action: NodeAction::Add | NodeAction::UpdateLabel, .. }
            | ClusterEvent::Storage { old: None, new: Some(Volume(_)) }
            | ClusterEvent::UnschedulableTimeout => Hint::Queue,
            ClusterEvent::Storage { old: Some(Volume(old)), new: Some(Volume(new)) } => {
                Hint::queue_if(old.topology != new.topology)
            }
            ClusterEvent::Storage { new: Some(Claim(claim)), .. } => Hint::queue_if(names(pod, claim)),
            ClusterEvent::Storage { old: None, new: Some(Class(class)) } => {
                Hint::queue_if(class.binding_mode == Some(BindingMode::WaitForFirstConsumer))
            }
            _ => Hint::Skip,
        }
    }
}

fn names(pod: &PodInfo, claim: &ClaimInfo) -> bool {
    let mut named = pod.volumes.iter().filter_map(PodVolume::named_claim);
    pod.namespace == claim.namespace && named.any(|name| name == claim.name)
}

/// The zones and regions of the pod's bound volumes.
fn topology(pod: &PodInfo, snapshot: Snapshot<'_>) -> Result<Topology, Rejection> {
    let (objects, mut topology) = (snapshot.volumes(), Topology::new());
    for name in pod.volumes.iter().filter_map(PodVolume::named_claim) {
        if name == known::EMPTY {
            return Err(Rejection::unresolvable("PersistentVolumeClaim had no name"));
        }
        let Some(claim) = objects.claim(pod.namespace, name) else {
            let text = format!("persistentvolumeclaim \"{}\" not found", snapshot.text(name));
            return Err(Rejection::unresolvable(text));
        };
        let Some(volume) = claim.volume else {
            is_delayed(claim, snapshot)?;
            continue;
        };
        let Some(found) = objects.volume(volume) else {
            let text = format!("persistentvolume \"{}\" not found", snapshot.text(volume));
            return Err(Rejection::unresolvable(text));
        };
        topology.extend_from_slice(&found.topology);
    }
    Ok(topology)
}

/// Succeeds if an unbound claim waits for the pod's node; otherwise returns the rejection.
fn is_delayed(claim: &ClaimInfo, snapshot: Snapshot<'_>) -> Result<(), Rejection> {
    if claim.class == known::EMPTY {
        let text = "PersistentVolumeClaim had no pv name and storageClass name";
        return Err(Rejection::unresolvable(text));
    }
    let name = snapshot.text(claim.class);
    let Some(class) = snapshot.volumes().class(claim.class) else {
        let text = format!("storageclass.storage.k8s.io \"{name}\" not found");
        return Err(Rejection::unresolvable(text));
    };
    match class.binding_mode {
        Some(BindingMode::WaitForFirstConsumer) => Ok(()),
        Some(BindingMode::Immediate) => Err(Rejection::unresolvable("PersistentVolume had no name")),
        None => {
            let text = format!("VolumeBindingMode not set for StorageClass \"{name}\"");
            Err(Rejection::unresolvable(text))
        }
    }
}

impl Filter {
    fn holds(&self, labels: Labels<'_>) -> bool {
        // A node without zone labels belongs to a cluster without zones.
        KEYS.iter().all(|&key| labels.get(key).is_none())
            || self.topology.iter().all(|(key, values)| {
                let value = labels.get(*key).or_else(|| labels.get(present_key(*key)));
                value.is_some_and(|value| values.contains(&value))
            })
    }
}

/// Returns the present key that replaces a deprecated one; present keys map to themselves.
fn present_key(key: Symbol) -> Symbol {
    match key {
        known::BETA_ZONE => known::ZONE,
        known::BETA_REGION => known::REGION,
        other => other,
    }
}

impl FilterRule for Filter {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        feasible.retain(|node| self.holds(snapshot.node_labels(node)));
        Ok(())
    }

    fn is_safe(&self, _snapshot: Snapshot<'_>) -> bool {
        true
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        if self.holds(node.labels()) {
            return Verdict::Fits;
        }
        Verdict::Rejected(Rejection::unresolvable(NO_ZONE))
    }
}

/// The rule of a pod that PreFilter would reject, if PreFilter is disabled: it rejects every node.
struct RejectsAll(Rejection);

impl FilterRule for RejectsAll {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn check(&self, _node: &NodeView<'_>) -> Verdict {
        Verdict::Rejected(self.0.clone())
    }
}
