//! Queueing hints of PodTopologySpread: events that may make a pod rejected by a hard constraint schedulable.
//!
//! Upstream: `podtopologyspread/plugin.go#isSchedulableAfter*`. Two more events requeue the pod here. A label that is
//! not a topology key may change whether the inclusion policies count a node, which changes the minimum. And a pod
//! stops counting when it starts terminating, not only when it is deleted.

use super::PodTopologySpread;
use super::constraints::{Constraint, Inclusion, has_all_keys};
use crate::cache::Snapshot;
use crate::framework::{ClusterEvent, Hint, NodeAction, PodAction};
use crate::model::node::NodeInfo;
use crate::model::pod::{PodInfo, WhenUnsatisfiable};

impl PodTopologySpread {
    pub(super) fn hint_of(&self, event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint {
        let worth = |judge: &dyn Fn(&[Constraint]) -> bool| {
            let constraints = self.constraints(pod, snapshot, WhenUnsatisfiable::DoNotSchedule);
            // An update may have fixed constraints that could not be parsed.
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
            | ClusterEvent::Nominated { .. }
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

/// Whether the pod has started terminating.
fn begins_to_go(old: Option<&PodInfo>, new: Option<&PodInfo>) -> bool {
    old.is_some_and(|pod| !pod.deleting) && new.is_some_and(|pod| pod.deleting)
}

/// Whether an added or deleted pod matches a constraint, or a changed pod starts or stops counting.
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

/// Whether an added or deleted node has all topology keys, or a changed node has other domains, taints or inclusion.
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
