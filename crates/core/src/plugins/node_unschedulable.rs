//! NodeUnschedulable rejects cordoned nodes, unless the pod tolerates the taint
//! `node.kubernetes.io/unschedulable`.
//!
//! It reads `spec.unschedulable`; TaintToleration handles taints. Upstream:
//! `pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go`.

use crate::cache::{NodeView, Snapshot};
use crate::framework::{
    ClusterEvent, CycleError, DependsOn, EventSet, FilterRule, Hint, NodeAction, NodeFilterPlugin,
    PluginName, PodAction, Prepared, Rejection, Verdict,
};
use crate::model::intern::known;
use crate::model::node::{Taint, TaintEffect};
use crate::model::node_pod::NodePod;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

const CORDON: Taint =
    Taint { key: known::UNSCHEDULABLE, value: known::EMPTY, effect: TaintEffect::NoSchedule };

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeUnschedulable;

impl NodeFilterPlugin for NodeUnschedulable {
    fn name(&self) -> PluginName {
        "NodeUnschedulable"
    }

    fn prepare(&self, pod: NodePod<'_>, _snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        if CORDON.is_tolerated_by(pod.tolerations()) {
            return Prepared::Skip;
        }
        Prepared::Run { rule: Box::new(Rule), only: None }
    }

    fn events(&self) -> EventSet {
        EventSet::TAINTS
    }

    fn hint(&self, event: &ClusterEvent<'_>, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Hint {
        match event {
            ClusterEvent::Node { action: NodeAction::Add | NodeAction::UpdateTaint, old, new: Some(new) } => {
                Hint::queue_if(old.is_none_or(|old| old.unschedulable) && !new.unschedulable)
            }
            ClusterEvent::OwnPod { action: PodAction::UpdateToleration, new, .. } => {
                Hint::queue_if(CORDON.is_tolerated_by(&new.tolerations))
            }
            ClusterEvent::UnschedulableTimeout => Hint::Queue,
            _ => Hint::Skip,
        }
    }
}

struct Rule;

impl FilterRule for Rule {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeSpec
    }

    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        feasible.subtract(snapshot.cordoned_nodes());
        Ok(())
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        if node.info().unschedulable {
            return Verdict::Rejected(Rejection::unresolvable("node(s) were unschedulable"));
        }
        Verdict::Fits
    }
}
