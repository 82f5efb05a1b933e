//! NodePorts keeps pods off nodes where a host port they want is taken.
//!
//! Ports of one pod are not held against each other. Upstream: `pkg/scheduler/framework/plugins/nodeports/node_ports.go`,
//! `kube-scheduler/framework/types.go#HostPortInfo`.

use crate::cache::{NodeView, Snapshot};
use crate::framework::{
    ClusterEvent, CycleError, DependsOn, EventSet, Fact, FilterPlugin, FilterRule, Hint, NodeAction,
    PluginName, PodAction, Prepared, Reads, Rejection, Verdict,
};
use crate::intern::known;
use crate::node_set::NodeSet;
use crate::pod::{HostPort, PodInfo};

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodePorts;

impl FilterPlugin for NodePorts {
    fn name(&self) -> PluginName {
        "NodePorts"
    }

    fn reads(&self) -> Reads {
        Reads::Pod
    }

    fn prepare(&self, pod: &PodInfo, _snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        if pod.ports.is_empty() {
            return Prepared::Skip;
        }
        Prepared::Run { rule: Box::new(Rule { wanted: pod.ports.clone() }), only: None }
    }

    fn events(&self) -> EventSet {
        EventSet::NEW_NODE | EventSet::assigned_pod(PodAction::Delete)
    }

    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, _snapshot: Snapshot<'_>) -> Hint {
        match event {
            ClusterEvent::AssignedPod { action: PodAction::Delete, old: Some(gone), .. } => {
                Hint::queue_if(any_conflict(&pod.ports, gone.ports.iter().copied()))
            }
            // Taint changes come with new nodes: upstream adds them to every plugin that waits for those.
            ClusterEvent::Node { action: NodeAction::Add | NodeAction::UpdateTaint, .. }
            | ClusterEvent::UnschedulableTimeout => Hint::Queue,
            _ => Hint::Skip,
        }
    }
}

/// The wildcard address takes a port on all addresses; `::` is no wildcard to upstream.
fn conflicts(wanted: &HostPort, used: &HostPort) -> bool {
    (wanted.port, wanted.protocol) == (used.port, used.protocol)
        && (wanted.address == known::ANY_ADDRESS
            || used.address == known::ANY_ADDRESS
            || wanted.address == used.address)
}

fn any_conflict(wanted: &[HostPort], mut used: impl Iterator<Item = HostPort>) -> bool {
    used.any(|used| wanted.iter().any(|wanted| conflicts(wanted, &used)))
}

struct Rule {
    wanted: Box<[HostPort]>,
}

impl FilterRule for Rule {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeUsage
    }

    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        feasible.retain(|node| {
            let used = snapshot.host_ports(node).iter().map(|&(port, _)| port);
            !any_conflict(&self.wanted, used)
        });
        Ok(())
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        if any_conflict(&self.wanted, node.host_ports().into_iter()) {
            let reason = "node(s) didn't have free ports for the requested pod ports";
            return Verdict::Rejected(Rejection::unschedulable(reason));
        }
        Verdict::Fits
    }

    fn facts(&self, node: &NodeView<'_>) -> Vec<Fact> {
        let used = node.host_ports();
        let is_taken = |wanted: &&HostPort| used.iter().any(|used| conflicts(wanted, used));
        self.wanted.iter().filter(is_taken).map(|&port| Fact::Port(port)).collect()
    }
}
