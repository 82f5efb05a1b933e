//! The clusters and pods that are timed, as API objects: each depends on its number and the sizes alone, so that the real
//! kube-scheduler can be given the very same ones.
//!
//! The first seven are those of `oracle time`, field by field; W1 to W17 follow what users of kube-scheduler complain about.
//! What happens meanwhile is a [`Course`]; `engine` carries it out.
#![allow(dead_code, unused_imports, reason = "every target that includes this tree uses its own part of it")]

mod by_need;
mod by_oracle;
pub(crate) mod objects;
mod storage;

pub(crate) use objects::node_name;
pub(crate) use storage::provisioned;

use serde_json::{Value, json};

/// How large a cluster is, and how much is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    /// Pods that run already.
    pub(crate) existing: usize,
    /// Pods that are decided about.
    pub(crate) pods: usize,
    /// How many different amounts of cpu the pods ask for, in turn.
    pub(crate) signatures: usize,
    /// Pods that wait and find no room, or are gated.
    pub(crate) waiting: usize,
}

/// What happens while decisions are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// Pods come, and go where they are sent.
    Arrivals,
    /// Before each pod comes one that runs already goes: a rolling update.
    Replaced,
    /// Pods find no room until less important ones have been sent away.
    Preempting,
    /// Pods wait for room that never comes while nodes report ten times per pod that arrives.
    Storm,
    /// Pods that come go at once when they are bound, while others are gated.
    Gone,
    /// Claims get their volumes as soon as their pods have nodes.
    Provisioning,
    /// Pods that run already report fifty times per pod that arrives.
    Reports,
    /// Every 20 pods, a node goes, one comes, and one moves to another zone.
    NodeChurn,
    /// The engine starts, and what counts is when the first pod has its node.
    Start,
}

/// A cluster, its pods, and what happens to them.
pub(crate) struct Workload {
    pub(crate) id: &'static str,
    pub(crate) about: &'static str,
    /// The sizes when none are given.
    pub(crate) size: Size,
    pub(crate) course: Course,
    /// What there is beside nodes and pods.
    pub(crate) beside: fn(&Size) -> Vec<Value>,
    pub(crate) node: fn(usize, &Size) -> Value,
    /// A pod that runs already, by its number; without it, one like those that come, on the nodes in turn.
    pub(crate) existing: Option<fn(usize, &Size) -> Value>,
    /// A pod that waits and is not decided about in the end.
    pub(crate) waiting: fn(usize, &Size) -> Value,
    /// A pod that is decided about; its number goes on from those that run already.
    pub(crate) pod: fn(usize, &Size) -> Value,
}

impl Workload {
    /// All of them, in the order of their ids.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = by_oracle::all();
        all.extend(by_need::all());
        all
    }

    pub(crate) fn named(id: &str) -> Option<Self> {
        Self::all().into_iter().find(|workload| workload.id.eq_ignore_ascii_case(id))
    }

    /// Whether the real kube-scheduler's decisions about the same pods can be timed and compared: pods come one after the
    /// other, and nothing else happens.
    pub(crate) fn has_peer(&self) -> bool {
        self.course == Course::Arrivals
    }

    /// Whether its decisions can be compared with the real kube-scheduler's: preemption's can, one by one.
    pub(crate) fn is_comparable(&self) -> bool {
        self.has_peer() || self.course == Course::Preempting
    }

    /// The cluster before the first decision.
    pub(crate) fn cluster(&self, size: Size) -> impl Iterator<Item = Value> + '_ {
        let beside = (self.beside)(&size).into_iter();
        let nodes = (0..size.nodes).map(move |number| (self.node)(number, &size));
        let existing = (0..size.existing).map(move |number| self.running(number, &size));
        beside.chain(nodes).chain(existing)
    }

    pub(crate) fn running(&self, number: usize, size: &Size) -> Value {
        match self.existing {
            Some(existing) => existing(number, size),
            None => objects::running((self.pod)(number, size), number, size.nodes),
        }
    }

    /// The pods that are decided about.
    pub(crate) fn pods(&self, size: Size) -> impl Iterator<Item = Value> + '_ {
        (size.existing..size.existing + size.pods).map(move |number| (self.pod)(number, &size))
    }

    /// The sizes of a test: large enough that every rule has something to say, and no more.
    pub(crate) fn tiny(&self) -> Size {
        let size = self.shrunk(60, 30);
        Size { pods: (self.size.pods * size.nodes / self.size.nodes).clamp(1, 30), ..size }
    }

    /// The workload on so many nodes at most, as full as it is by itself, and with so many pods.
    pub(crate) fn shrunk(&self, nodes: usize, pods: usize) -> Size {
        let own = self.size;
        let nodes = own.nodes.min(nodes);
        Size {
            nodes,
            existing: own.existing * nodes / own.nodes,
            pods: own.pods.min(pods),
            signatures: own.signatures,
            waiting: own.waiting.min(12),
        }
    }

    /// Cluster and pods in the form of the recorded decisions.
    pub(crate) fn scenario(&self, size: Size) -> Value {
        let objects: Vec<_> = self.cluster(size).collect();
        let pods: Vec<_> = self.pods(size).collect();
        json!({"name": self.id, "kind": "workload", "objects": objects, "pods": pods})
    }
}
