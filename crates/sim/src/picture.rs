//! A cluster put together for the reference: what the scheduler was told and decided, or the server's truth.

use crate::objects::{Node, Pod};
use crate::process::Process;
use crate::reference::World;
use crate::sim::Sim;
use std::sync::Arc;
use supercargo_core::intern::{LabelSetId, Symbol, Tables};
use supercargo_core::node::NodeInfo;
use supercargo_core::pod::PodInfo;

/// A cluster, in the ids of one life's tables.
pub(crate) struct Picture {
    nodes: Vec<Arc<NodeInfo>>,
    /// Pods and the names of their nodes.
    pods: Vec<(Arc<PodInfo>, Symbol)>,
    namespaces: Vec<(Symbol, LabelSetId)>,
}

impl Picture {
    pub(crate) fn world<'a>(&'a self, tables: &'a Tables) -> World<'a> {
        let nodes = self.nodes.iter().map(|node| &**node).collect();
        let pods = self.pods.iter().map(|(pod, node)| (&**pod, *node));
        World::new(tables, nodes, pods, self.namespaces.clone())
    }

    fn fill(
        process: &mut Process,
        nodes: &[Arc<Node>],
        pods: &[(Arc<Pod>, String)],
        namespaces: &[(&'static str, &'static str)],
    ) -> Self {
        let pods = pods.iter().map(|(pod, node)| {
            let info = process.info(pod);
            (info, process.scheduler.tables().symbol(node))
        });
        let pods = pods.collect();
        let nodes = nodes.iter().map(|node| process.node_info(node)).collect();
        let tables = process.scheduler.tables();
        let labels = |&(name, team): &(&str, &str)| {
            let pair = (tables.symbol("team"), tables.symbol(team));
            (tables.symbol(name), tables.label_set(vec![pair]))
        };
        Self { nodes, pods, namespaces: namespaces.iter().map(labels).collect() }
    }
}

impl Process {
    /// What this life was told, and what it decided since.
    pub(crate) fn told_of(&mut self) -> Picture {
        let nodes: Vec<_> = self.nodes.values().cloned().collect();
        let placed =
            self.pods.values().filter_map(|pod| Some((Arc::clone(pod), self.counts_on(pod)?.to_owned())));
        let placed: Vec<_> = placed.collect();
        let namespaces: Vec<_> = self.namespaces.iter().map(|(&name, &team)| (name, team)).collect();
        Picture::fill(self, &nodes, &placed, &namespaces)
    }

    /// The node a pod counts on: its own, or the one decided for it.
    pub(crate) fn counts_on<'a>(&'a self, pod: &'a Pod) -> Option<&'a str> {
        let decided = || {
            let decided = self.decided.get(&pod.uid)?;
            (!self.scheduler.queue().contains(&pod.uid)).then_some(decided.node.as_str())
        };
        pod.node.as_deref().or_else(decided)
    }
}

impl Sim {
    /// The server's truth, and what is on its way there, as far as `counts` wants a pod.
    pub(crate) fn truth(&mut self, counts: impl Fn(&Process, &Pod) -> bool) -> Picture {
        let process = &mut self.process;
        let mut placed = Vec::new();
        for pod in self.server.pods.values().filter(|pod| counts(process, pod)) {
            let released = || process.decided.get(&pod.uid).filter(|decided| decided.released.is_some());
            if let Some(node) = &pod.node {
                placed.push((Arc::clone(pod), node.clone()));
            } else if let Some(decided) = released() {
                // It counts as whoever decided about the next one knew it.
                let told = process.pods.get(&pod.uid).unwrap_or(pod);
                placed.push((Arc::clone(told), decided.node.clone()));
            }
        }
        let nodes: Vec<_> = self.server.nodes.values().cloned().collect();
        let namespaces: Vec<_> = self.server.namespaces.iter().map(|(&name, &team)| (name, team)).collect();
        Picture::fill(process, &nodes, &placed, &namespaces)
    }
}
