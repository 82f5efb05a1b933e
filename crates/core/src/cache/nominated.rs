//! Nominated pods: pending pods for which preemption makes room on a node (upstream
//! `pkg/scheduler/backend/queue/nominator.go`).

use crate::collections::hash::{FixedMap, IdMap};
use crate::model::intern::Symbol;
use crate::model::intern::{Marks, TraceIds};
use crate::model::pod::{PodInfo, Uid};
use std::sync::Arc;

#[derive(Default)]
pub(super) struct Nominated {
    by_node: IdMap<Symbol, Vec<Arc<PodInfo>>>,
    node_of: FixedMap<Uid, Symbol>,
}

impl Nominated {
    pub(super) fn set(&mut self, pod: &Arc<PodInfo>, node: Option<Symbol>) {
        self.remove(&pod.uid);
        if let Some(node) = node {
            self.by_node.entry(node).or_default().push(Arc::clone(pod));
            self.node_of.insert(Arc::clone(&pod.uid), node);
        }
    }

    pub(super) fn remove(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let node = self.node_of.remove(uid)?;
        let pods = self.by_node.get_mut(&node)?;
        let pod = pods.iter().position(|pod| *pod.uid == *uid).map(|at| pods.remove(at));
        if pods.is_empty() {
            self.by_node.remove(&node);
        }
        pod
    }

    /// Returns a nominated pod and the name of its node.
    pub(super) fn get(&self, uid: &str) -> Option<(&Arc<PodInfo>, Symbol)> {
        let node = self.node_of(uid)?;
        Some((self.on(node).iter().find(|pod| *pod.uid == *uid)?, node))
    }

    pub(super) fn node_of(&self, uid: &str) -> Option<Symbol> {
        self.node_of.get(uid).copied()
    }

    pub(super) fn on(&self, node: Symbol) -> &[Arc<PodInfo>] {
        self.by_node.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Returns all nominated pods by node, and in order of nomination.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<PodInfo>, Symbol)> {
        let mut nodes: Vec<Symbol> = self.nodes().collect();
        nodes.sort_unstable();
        nodes.into_iter().flat_map(|node| self.on(node).iter().map(move |pod| (pod, node)))
    }

    pub(super) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.node_of.keys()
    }

    pub(super) fn len(&self) -> usize {
        self.node_of.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.node_of.is_empty()
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.by_node.keys().copied()
    }
}

impl TraceIds for Nominated {
    fn mark(&self, marks: &mut Marks) {
        let Self { by_node, node_of } = self;
        by_node.mark(marks);
        node_of.values().for_each(|node| node.mark(marks));
    }
}
