//! TopologyPlacementGenerator divides the nodes into the domains among which a group must choose one.
//!
//! Upstream: `pkg/scheduler/framework/plugins/topologyaware/topology_placement.go`.

use crate::cache::{NodeChange, Snapshot};
use crate::collections::hash::IdMap;
use crate::framework::placement::Placement;
use crate::framework::{CycleError, PluginName};
use crate::model::intern::Symbol;
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The plugin's name.
pub const NAME: PluginName = "TopologyPlacementGenerator";

/// The domains of the node label that a group required last, as long as no node object changes.
#[derive(Default)]
pub struct KnownDomains {
    /// Not kept as an id in use: if no node has the label any more, there are no domains, and its id may name another.
    key: Option<Symbol>,
    clock: u64,
    placements: Arc<[Placement]>,
}

impl KnownDomains {
    /// Returns the placements of a group by the values of a node label, by name. `scheduled` are the members that have
    /// a node, each with the name of that node: the group stays in their domain.
    ///
    /// # Errors
    /// If the scheduled members are in no domain, or in several.
    pub fn placements<'a>(
        &mut self,
        key: Symbol,
        scheduled: impl Iterator<Item = (&'a PodInfo, Symbol)>,
        snapshot: Snapshot<'_>,
    ) -> Result<Arc<[Placement]>, CycleError> {
        let domain = domain_of(key, scheduled, snapshot).map_err(|text| {
            CycleError(format!("cannot determine domain for already scheduled pods: {text}"))
        })?;
        let all = self.of(key, snapshot);
        Ok(match domain {
            None => Arc::clone(all),
            Some(domain) => all.iter().filter(|placement| placement.name == domain).cloned().collect(),
        })
    }

    fn of(&mut self, key: Symbol, snapshot: Snapshot<'_>) -> &Arc<[Placement]> {
        let is_current = self.key == Some(key)
            && snapshot
                .node_changes_since(self.clock)
                .is_some_and(|mut changes| changes.all(|(_, change)| change != NodeChange::Object));
        let all = || {
            let placement = |(name, nodes): (&str, NodeSet)| Placement { name: name.to_owned(), nodes };
            domains(key, snapshot.nodes().iter(), snapshot).into_iter().map(placement).collect()
        };
        if !is_current {
            self.placements = all();
        }
        debug_assert_eq!(self.placements, all(), "known domains");
        (self.key, self.clock) = (Some(key), snapshot.clock());
        &self.placements
    }
}

/// Divides nodes by the values of a label. Those without it are in no domain.
pub fn domains<'a>(
    key: Symbol,
    nodes: impl Iterator<Item = NodeIdx>,
    snapshot: Snapshot<'a>,
) -> BTreeMap<&'a str, NodeSet> {
    let mut domains: IdMap<Symbol, NodeSet> = IdMap::default();
    for node in nodes {
        if let Some(value) = snapshot.node_labels(node).get(key) {
            domains.entry(value).or_default().insert(node);
        }
    }
    domains.into_iter().map(|(value, nodes)| (snapshot.text(value), nodes)).collect()
}

fn value<'a>(key: Symbol, node: NodeIdx, snapshot: Snapshot<'a>) -> Option<&'a str> {
    snapshot.node_labels(node).get(key).map(|value| snapshot.text(value))
}

/// Returns the domain of the scheduled members; `None` if there are none.
fn domain_of<'a, 's>(
    key: Symbol,
    scheduled: impl Iterator<Item = (&'a PodInfo, Symbol)>,
    snapshot: Snapshot<'s>,
) -> Result<Option<&'s str>, String> {
    let mut domain: Option<&str> = None;
    for (pod, name) in scheduled {
        let Some(node) = snapshot.find_node(name) else {
            let name = snapshot.text(name);
            let pod = snapshot.pod_key(pod);
            return Err(format!("getting node for pod {pod}: nodeinfo not found for node name \"{name}\""));
        };
        let Some(value) = value(key, node, snapshot) else {
            return Err(format!("no topology domain found for pod {}", snapshot.pod_key(pod)));
        };
        if let Some(other) = domain.filter(|&other| other != value && !other.is_empty()) {
            return Err(format!("more than 1 domain found for pod group: {other}, {value}"));
        }
        domain = Some(value);
    }
    Ok(domain)
}
