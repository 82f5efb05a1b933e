//! A small test world: builders of nodes and pods, a cache, and the cluster language of tables (see `table.rs`).
//!
//! It is independent of plugins, which each test supplies.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of this")]

pub(crate) mod devices;
pub(crate) mod extenders;
pub(crate) mod groups;
pub(crate) mod language;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod racks;
pub(crate) mod run;
pub(crate) mod storage;
pub(crate) mod table;

pub(crate) use node::NodeBuilder;
pub(crate) use pod::PodBuilder;
pub(crate) use run::Plugins;

use std::sync::Arc;
use supercargo_core::cache::{Cache, PodState, Snapshot};
use supercargo_core::model::effect::Lane;
use supercargo_core::model::event::{Event, Kind};
use supercargo_core::model::intern::{Symbol, Tables};
use supercargo_core::model::node::{NodeIdx, NodeInfo};
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::time::Time;
use supercargo_core::scheduler::Scheduler;

/// Creates empty, complete lists, and grants this number of credits for each lane.
pub(crate) fn begin(scheduler: &mut Scheduler, now: Time, credits: usize) {
    for kind in Kind::ALL {
        scheduler.handle(now, Event::ListBegan(kind));
        scheduler.handle(now, Event::ListEnded(kind));
    }
    for lane in Lane::ALL {
        scheduler.handle(now, Event::Credits { lane, count: credits });
    }
}

/// Parses a node, a pod or a storage object in the cluster language, as an event.
pub(crate) fn arrival(tables: &mut Tables, line: &str) -> Event {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[0] {
        "node" => Event::NodeApplied(Box::new(Arc::unwrap_or_clone(language::node(tables, &words[1..])))),
        "pod" => Event::PodApplied(Box::new(Arc::unwrap_or_clone(language::pod(tables, &words[1..])))),
        _ => Event::StorageApplied(storage::object(tables, line).expect("a line about storage")),
    }
}

/// The tables, a cache, and the nodes in order of addition.
#[derive(Default)]
pub(crate) struct TestCluster {
    pub(crate) tables: Tables,
    pub(crate) cache: Cache,
    pub(crate) nodes: Vec<Symbol>,
}

impl TestCluster {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Builds a node, to be completed with [`TestCluster::add_node`].
    pub(crate) fn node(&mut self, name: &str) -> NodeBuilder<'_> {
        NodeBuilder::new(&mut self.tables, name)
    }

    /// Builds a pod, to be completed with `build`.
    pub(crate) fn pod(&mut self, name: &str) -> PodBuilder<'_> {
        PodBuilder::new(&mut self.tables, name)
    }

    /// Parses a node in the cluster language: `node_from("a zone=z1 cpu=4")`.
    pub(crate) fn node_from(&mut self, words: &str) -> Arc<NodeInfo> {
        let words: Vec<&str> = words.split_whitespace().collect();
        language::node(&mut self.tables, &words)
    }

    /// Parses a pod in the cluster language: `pod_from("p label:app=web cpu=1")`.
    pub(crate) fn pod_from(&mut self, words: &str) -> Arc<PodInfo> {
        let words: Vec<&str> = words.split_whitespace().collect();
        language::pod(&mut self.tables, &words)
    }

    /// Adds or replaces a node.
    pub(crate) fn add_node(&mut self, node: &Arc<NodeInfo>) {
        if !self.nodes.contains(&node.name) {
            self.nodes.push(node.name);
        }
        self.cache.apply_node(node);
    }

    /// Places a pod on its `node_name`.
    pub(crate) fn place(&mut self, pod: &Arc<PodInfo>) {
        let node = pod.node_name.expect("a placed pod needs on=<node>");
        self.cache.place(pod, node, PodState::Added);
    }

    /// Returns the plugins' view of the cluster. Images are as of the last `cache.refresh()`.
    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        self.cache.snapshot(&self.tables)
    }

    /// Returns the slot of a node.
    pub(crate) fn idx(&self, name: &str) -> NodeIdx {
        let name = self.tables.find(name).expect("the node's name is known");
        self.snapshot().find_node(name).expect("the node exists")
    }
}
