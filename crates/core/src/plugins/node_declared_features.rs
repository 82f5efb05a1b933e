//! NodeDeclaredFeatures rejects nodes whose kubelet lacks features that the pod's spec requires.
//!
//! The required features are determined during conversion. Upstream:
//! `pkg/scheduler/framework/plugins/nodedeclaredfeatures/nodedeclaredfeatures.go`.

use crate::cache::{NodeView, Snapshot};
use crate::framework::{
    ClusterEvent, CycleError, DependsOn, EventSet, FilterRule, Hint, NodeAction, NodeFilterPlugin,
    PluginName, Prepared, Rejection, Verdict,
};
use crate::model::intern::Symbol;
use crate::model::node::NodeInfo;
use crate::model::node_pod::NodePod;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

const NAME: PluginName = "NodeDeclaredFeatures";

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeDeclaredFeatures;

struct Filter {
    required: Box<[Symbol]>,
}

impl Filter {
    fn holds(&self, node: &NodeInfo) -> bool {
        self.required.iter().all(|feature| node.declared_features.contains(feature))
    }
}

impl NodeFilterPlugin for NodeDeclaredFeatures {
    fn name(&self) -> PluginName {
        NAME
    }

    fn prepare(&self, pod: NodePod<'_>, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        // Without its feature gate, the plugin does nothing, even if the configuration enables it.
        if pod.required_features().is_empty() || !snapshot.rules().checks_declared_features {
            return Prepared::Skip;
        }
        Prepared::Run { rule: Box::new(Filter { required: pod.required_features().into() }), only: None }
    }

    fn without_pre_filter(&self, _pod: NodePod<'_>, snapshot: Snapshot<'_>) -> Option<Box<dyn FilterRule>> {
        snapshot.rules().checks_declared_features.then(|| Box::new(Unprepared) as _)
    }

    fn events(&self) -> EventSet {
        EventSet::NEW_NODE | EventSet::node(NodeAction::UpdateDeclaredFeature)
    }

    fn hint(&self, event: &ClusterEvent<'_>, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Hint {
        match event {
            ClusterEvent::Node {
                action: NodeAction::Add | NodeAction::UpdateDeclaredFeature,
                old,
                new: Some(new),
            } => Hint::queue_if(old.is_none_or(|old| old.declared_features != new.declared_features)),
            ClusterEvent::OwnPod { old, new, .. } => {
                Hint::queue_if(old.required_features != new.required_features)
            }
            ClusterEvent::UnschedulableTimeout => Hint::Queue,
            _ => Hint::Skip,
        }
    }
}

/// Filter without PreFilter.
struct Unprepared;

impl Unprepared {
    fn error() -> CycleError {
        CycleError("error reading \"PreFilterNodeDeclaredFeatures\" from cycle-state: not found".to_owned())
    }
}

impl FilterRule for Unprepared {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeSpec
    }

    fn filter(&self, _snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        if feasible.is_empty() { Ok(()) } else { Err(Self::error()) }
    }

    fn check(&self, _node: &NodeView<'_>) -> Verdict {
        Verdict::Failed(Self::error())
    }
}

impl FilterRule for Filter {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeSpec
    }

    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        feasible.retain(|node| self.holds(snapshot.node_info(node)));
        Ok(())
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        if self.holds(node.info()) {
            return Verdict::Fits;
        }
        Verdict::Rejected(Rejection::unresolvable("node(s) didn't match Pod's required features"))
    }
}
