//! NodeName rejects all nodes but the one in the pod's `spec.nodeName`.
//!
//! From 1.37 on, it narrows the search to this node in PreFilter. Upstream:
//! `pkg/scheduler/framework/plugins/nodename/node_name.go`.

use crate::cache::{NodeView, Snapshot};
use crate::framework::{
    ClusterEvent, CycleError, DependsOn, EventSet, FilterRule, Hint, NodeAction, NodeFilterPlugin,
    PluginName, Prepared, Rejection, Verdict,
};
use crate::model::intern::Symbol;
use crate::model::node_pod::NodePod;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeName;

impl NodeFilterPlugin for NodeName {
    fn name(&self) -> PluginName {
        "NodeName"
    }

    fn prepare(&self, pod: NodePod<'_>, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        let Some(name) = *pod.node_name() else { return Prepared::Skip };
        let only = snapshot.rules().node_name_narrows.then(|| Vec::from_iter(snapshot.find_node(name)));
        Prepared::Run { rule: Box::new(Rule { name }), only }
    }

    fn events(&self) -> EventSet {
        EventSet::NEW_NODE
    }

    fn hint(&self, event: &ClusterEvent<'_>, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Hint {
        // Upstream does not compare the name.
        Hint::queue_if(matches!(
            event,
            ClusterEvent::Node { action: NodeAction::Add, .. } | ClusterEvent::UnschedulableTimeout
        ))
    }
}

struct Rule {
    name: Symbol,
}

impl FilterRule for Rule {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeSpec
    }

    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        let named = snapshot.find_node(self.name);
        feasible.retain(|node| Some(node) == named);
        Ok(())
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        if node.name() == self.name {
            return Verdict::Fits;
        }
        Verdict::Rejected(Rejection::unresolvable("node(s) didn't match the requested node name"))
    }
}
