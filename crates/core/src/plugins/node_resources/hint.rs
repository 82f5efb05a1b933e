//! Queueing hints of NodeResourcesFit.
//!
//! Upstream: `isSchedulableAfterPodEvent`, `isSchedulableAfterNodeChange` and
//! `isSchedulableAfterDeviceClassEvent` of `pkg/scheduler/framework/plugins/noderesources/fit.go`.

use super::fit::Demand;
use crate::framework::{ClusterEvent, Hint, NodeAction, PodAction};
use crate::model::device::DeviceClass;
use crate::model::intern::Symbol;
use crate::model::node::NodeInfo;
use crate::model::pod::PodInfo;
use crate::model::resources::Resources;

pub(super) fn hint(event: &ClusterEvent<'_>, pod: &PodInfo, demand: &Demand) -> Hint {
    match event {
        // A removed pod always frees something, at least its place among the node's pods.
        ClusterEvent::AssignedPod { action: PodAction::Delete, .. }
        | ClusterEvent::OwnPod { action: PodAction::UpdateScaleDown, .. }
        | ClusterEvent::UnschedulableTimeout => Hint::Queue,
        ClusterEvent::AssignedPod { action: PodAction::UpdateScaleDown, old: Some(old), new: Some(new) } => {
            let wanted = &pod.resources.placed;
            Hint::queue_if(gives_back(wanted, &old.resources.placed, &new.resources.placed))
        }
        ClusterEvent::Node {
            action: NodeAction::Add | NodeAction::UpdateAllocatable,
            old,
            new: Some(new),
        } => {
            // Upstream lets ignored resources keep the pod unschedulable here; supercargo requeues it.
            let fits = demand.fits_empty(&new.allocatable, new.allocatable_pods);
            Hint::queue_if(fits && old.is_none_or(|old| has_grown(demand, old, new)))
        }
        ClusterEvent::DeviceClass { old, new } => Hint::queue_if(comes_to_serve(pod, *old, new)),
        _ => Hint::Skip,
    }
}

/// Whether a new or changed DeviceClass serves a resource that the pod requests.
fn comes_to_serve(pod: &PodInfo, old: Option<&DeviceClass>, new: &DeviceClass) -> bool {
    let asks = |name: Symbol| pod.resources.request.scalar(name).is_some();
    match old {
        Some(old) => old.explicit != new.explicit && new.explicit.is_some_and(asks),
        None => asks(new.implicit) || new.explicit.is_some_and(asks),
    }
}

/// Whether a resource in `wanted` is less in `after` than in `before`.
fn gives_back(wanted: &Resources, before: &Resources, after: &Resources) -> bool {
    let scalar = |resources: &Resources, name| resources.scalar(name).unwrap_or(0);
    let shrank = |wanted: i64, before: i64, after: i64| wanted != 0 && before > after;
    shrank(wanted.cpu_milli, before.cpu_milli, after.cpu_milli)
        || shrank(wanted.memory, before.memory, after.memory)
        || shrank(wanted.ephemeral_storage, before.ephemeral_storage, after.ephemeral_storage)
        || wanted.scalar.iter().any(|&(name, w)| shrank(w, scalar(before, name), scalar(after, name)))
}

/// Whether the node can hold more pods, or has more of a requested resource.
fn has_grown(demand: &Demand, old: &NodeInfo, new: &NodeInfo) -> bool {
    let (before, after) = (&old.allocatable, &new.allocatable);
    let grew = |wanted: i64, before: i64, after: i64| wanted > 0 && after > before;
    new.allocatable_pods > old.allocatable_pods
        || grew(demand.cpu_milli, before.cpu_milli, after.cpu_milli)
        || grew(demand.memory, before.memory, after.memory)
        || grew(demand.ephemeral_storage, before.ephemeral_storage, after.ephemeral_storage)
        || demand.scalar.iter().any(|need| {
            let amount = |r: &Resources| r.scalar(need.name).unwrap_or(0);
            grew(need.wanted, amount(before), amount(after)) || need.is_delegated(after)
        })
}
