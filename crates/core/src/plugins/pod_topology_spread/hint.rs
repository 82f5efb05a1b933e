//! Queueing hints of PodTopologySpread: events that may make a pod rejected by a hard constraint schedulable.
//!
//! Upstream's `podtopologyspread/plugin.go#isSchedulableAfter*`, and two cases more, in which upstream lets the pod wait:
//! a node that the inclusion policies let in or out by another label than a topology key also moves the minimum, and a
//! pod ceases to count as soon as it begins to be deleted, not only when it is gone.

use super::PodTopologySpread;
use super::constraints::{Constraint, Inclusion, has_all_keys};
use crate::cache::Snapshot;
use crate::framework::{ClusterEvent, Hint, NodeAction, PodAction};
use crate::node::NodeInfo;
use crate::pod::{PodInfo, WhenUnsatisfiable};

impl PodTopologySpread {
    pub(super) fn hint_of(&self, event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint {
        let worth = |judge: &dyn Fn(&[Constraint]) -> bool| {
            let constraints = self.constraints(pod, snapshot, WhenUnsatisfiable::DoNotSchedule);
            // Constraints that cannot be parsed may be the very thing that is mended.
            Hint::queue_if(constraints.map_or(true, |c| judge(&c)))
        };
        match *event {
            ClusterEvent::AssignedPod { action, old, new } if concerns(action) || begins_to_go(old, new) => {
                if old.into_iter().chain(new).any(|other| other.namespace != pod.namespace) {
                    return Hint::Skip;
                }
                worth(&|constraints| after_pod(constraints, snapshot, old, new))
            }
            ClusterEvent::OwnPod { action, old, new } if concerns(action) => worth(&|constraints| {
                let tolerates_more =
                    old.tolerations != new.tolerations && constraints.iter().any(|c| c.honor_node_taints);
                tolerates_more || after_pod(constraints, snapshot, Some(old), Some(new))
            }),
            ClusterEvent::Node { action, old, new } => match action {
                NodeAction::Add | NodeAction::Delete | NodeAction::UpdateLabel | NodeAction::UpdateTaint => {
                    worth(&|constraints| after_node(constraints, snapshot, pod, old, new))
                }
                NodeAction::UpdateAllocatable | NodeAction::UpdateDeclaredFeature => Hint::Skip,
            },
            ClusterEvent::AssignedPod { .. }
            | ClusterEvent::OwnPod { .. }
            | ClusterEvent::Storage { .. }
            | ClusterEvent::DeviceClass { .. }
            | ClusterEvent::Other => Hint::Skip,
            ClusterEvent::UnschedulableTimeout => Hint::Queue,
        }
    }
}

fn concerns(action: PodAction) -> bool {
    matches!(
        action,
        PodAction::Add | PodAction::Delete | PodAction::UpdateLabel | PodAction::UpdateToleration
    )
}

/// Whether a pod that was not being deleted is now.
fn begins_to_go(old: Option<&PodInfo>, new: Option<&PodInfo>) -> bool {
    old.is_some_and(|pod| !pod.deleting) && new.is_some_and(|pod| pod.deleting)
}

/// Whether a pod that came or went matches a constraint, or one that changed begins or ceases to count.
fn after_pod(
    constraints: &[Constraint],
    snapshot: Snapshot<'_>,
    old: Option<&PodInfo>,
    new: Option<&PodInfo>,
) -> bool {
    let tables = snapshot.tables();
    constraints.iter().any(|constraint| {
        let matches = |pod: &PodInfo| constraint.selector.matches(tables, tables.labels(pod.labels));
        let (was, is) = (old.is_some_and(matches), new.is_some_and(matches));
        was != is || was && begins_to_go(old, new)
    })
}

/// Whether a node came or went that has all keys, or one changed its domains, its taints or whether it is counted.
fn after_node(
    constraints: &[Constraint],
    snapshot: Snapshot<'_>,
    pod: &PodInfo,
    old: Option<&NodeInfo>,
    new: Option<&NodeInfo>,
) -> bool {
    let tables = snapshot.tables();
    let counted = |node: &NodeInfo| has_all_keys(constraints, tables.labels(node.labels));
    let (Some(before), Some(after)) = (old, new) else {
        return old.or(new).is_some_and(counted);
    };
    if counted(before) != counted(after) {
        return true;
    }
    let inclusion = Inclusion::new(pod, constraints);
    let (was, is) = (inclusion.of_info(tables, before), inclusion.of_info(tables, after));
    let moved = |c: &Constraint| {
        let [from, to] = [before, after].map(|node| tables.labels(node.labels).get(c.topology_key));
        from != to || was.includes(c) != is.includes(c)
    };
    counted(after) && (before.taints != after.taints || constraints.iter().any(moved))
}
