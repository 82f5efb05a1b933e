//! SchedulingGates keeps pods with `spec.schedulingGates` out of the queue.
//!
//! Upstream: `pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go`.

use crate::framework::{ClusterEvent, Hint, PluginName, PodAction, Rejection};
use crate::model::intern::Tables;
use crate::model::pod::PodInfo;

/// The plugin's name.
pub const NAME: PluginName = "SchedulingGates";

/// PreEnqueue: returns why the pod is gated, if it is.
pub fn pre_enqueue(pod: &PodInfo, tables: &Tables) -> Option<Rejection> {
    if pod.gates.is_empty() {
        return None;
    }
    let gates: Vec<&str> = pod.gates.iter().map(|&gate| tables.text(gate)).collect();
    Some(Rejection::unresolvable(format!("waiting for scheduling gates: [{}]", gates.join(" "))))
}

/// QueueingHint: the pod's own last gate must be removed.
pub fn hint(event: &ClusterEvent<'_>) -> Hint {
    Hint::queue_if(matches!(
        event,
        ClusterEvent::OwnPod { action: PodAction::UpdateGatesEliminated, .. }
            | ClusterEvent::UnschedulableTimeout
    ))
}
