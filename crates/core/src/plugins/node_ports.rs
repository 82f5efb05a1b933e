//! NodePorts rejects nodes on which a requested host port is in use.
//!
//! Ports within one pod do not conflict. Upstream: `pkg/scheduler/framework/plugins/nodeports/node_ports.go`,
//! `kube-scheduler/framework/types.go#HostPortInfo`.

use crate::cache::{NodeView, Snapshot};
use crate::framework::{
    ClusterEvent, CycleError, DependsOn, EventSet, Fact, FilterRule, Hint, NodeAction, NodeFilterPlugin,
    PluginName, PodAction, Prepared, Rejection, Verdict,
};
use crate::model::intern::{Symbol, known};
use crate::model::node_pod::NodePod;
use crate::model::node_set::NodeSet;
use crate::model::pod::{HostPort, PodInfo};

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodePorts;

impl NodeFilterPlugin for NodePorts {
    fn name(&self) -> PluginName {
        "NodePorts"
    }

    fn prepare(&self, pod: NodePod<'_>, _snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        if pod.ports().is_empty() {
            return Prepared::Skip;
        }
        Prepared::Run { rule: Box::new(Rule::new(pod.ports())), only: None }
    }

    fn events(&self) -> EventSet {
        EventSet::NEW_NODE | EventSet::assigned_pod(PodAction::Delete)
    }

    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, _snapshot: Snapshot<'_>) -> Hint {
        match event {
            ClusterEvent::AssignedPod { action: PodAction::Delete, old: Some(gone), .. } => {
                let wanted = Wanted::new(&pod.ports);
                Hint::queue_if(gone.ports.iter().any(|used| wanted.conflicts(used)))
            }
            ClusterEvent::Node { action: NodeAction::Add, .. } | ClusterEvent::UnschedulableTimeout => {
                Hint::Queue
            }
            _ => Hint::Skip,
        }
    }
}

/// Whether two uses of host ports conflict. The wildcard address conflicts with all addresses; upstream does
/// not treat `::` as a wildcard.
fn conflicts(wanted: &HostPort, used: &HostPort) -> bool {
    (wanted.port, wanted.protocol) == (used.port, used.protocol)
        && (wanted.address == known::ANY_ADDRESS
            || used.address == known::ANY_ADDRESS
            || wanted.address == used.address)
}

/// Host ports sorted by port, protocol and address. A pod may request tens of thousands; each used port is
/// looked up in O(log n).
struct Wanted(Vec<(i32, Symbol, Symbol)>);

impl Wanted {
    fn new(ports: &[HostPort]) -> Self {
        let mut sorted: Vec<_> = ports.iter().map(|it| (it.port, it.protocol, it.address)).collect();
        sorted.sort_unstable();
        Self(sorted)
    }

    /// Whether one of them conflicts with a use.
    fn conflicts(&self, used: &HostPort) -> bool {
        let of_port = |&(port, protocol, _): &(i32, Symbol, Symbol)| (port, protocol);
        let from = self.0.partition_point(|wanted| of_port(wanted) < (used.port, used.protocol));
        let has = |address| self.0[from..].binary_search(&(used.port, used.protocol, address)).is_ok();
        let is_wanted = self.0.get(from).is_some_and(|wanted| of_port(wanted) == (used.port, used.protocol));
        is_wanted && (used.address == known::ANY_ADDRESS || has(known::ANY_ADDRESS) || has(used.address))
    }
}

struct Rule {
    ports: Box<[HostPort]>,
    wanted: Wanted,
}

impl Rule {
    fn new(ports: &[HostPort]) -> Self {
        Self { ports: ports.into(), wanted: Wanted::new(ports) }
    }
}

impl FilterRule for Rule {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeUsage
    }

    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        feasible.retain(|node| {
            let mut used = snapshot.host_ports(node).iter();
            !used.any(|(port, _)| self.wanted.conflicts(port))
        });
        Ok(())
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        if node.host_ports().iter().any(|used| self.wanted.conflicts(used)) {
            let reason = "node(s) didn't have free ports for the requested pod ports";
            return Verdict::Rejected(Rejection::unschedulable(reason));
        }
        Verdict::Fits
    }

    fn facts(&self, node: &NodeView<'_>) -> Vec<Fact> {
        let used = node.host_ports();
        let is_taken = |wanted: &&HostPort| used.iter().any(|used| conflicts(wanted, used));
        self.ports.iter().filter(is_taken).map(|&port| Fact::Port(port)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Tables;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn port_lookup_equals_pairwise_comparison(
            wanted in prop::collection::vec((0usize..4, 0usize..2, 1i32..4), 0..12),
            used in (0usize..4, 0usize..2, 1i32..4),
        ) {
            let mut tables = Tables::new();
            let addresses = ["0.0.0.0", "::", "10.0.0.1", "127.0.0.1"].map(|text| tables.symbol(text));
            let protocols = ["TCP", "UDP"].map(|text| tables.symbol(text));
            let port = |(address, protocol, port): (usize, usize, i32)| HostPort {
                address: addresses[address],
                protocol: protocols[protocol],
                port,
            };
            let wanted: Vec<HostPort> = wanted.into_iter().map(port).collect();
            let used = port(used);
            let expected = wanted.iter().any(|wanted| conflicts(wanted, &used));
            prop_assert_eq!(Wanted::new(&wanted).conflicts(&used), expected);
        }
    }
}
