//! Clusters and pods of the benchmarks, as API objects. Each object depends only on its number and the sizes,
//! so that the real kube-scheduler can be given the same ones.
//!
//! The first seven workloads are those of `oracle time`, field by field. W1 to W17 follow complaints of
//! kube-scheduler's users. Those with claims follow scheduler_perf. A [`Activity`] describes the concurrent events,
//! which `engine` generates.
#![allow(dead_code, unused_imports, reason = "every target that includes this tree uses its own part of it")]

mod by_complaint;
mod by_devices;
mod by_oracle;
pub(crate) mod objects;
mod storage;

pub(crate) use by_devices::DRIVER;
pub(crate) use objects::node_name;
pub(crate) use storage::provisioned;

use serde_json::{Value, json};

/// The size of a cluster and of the work on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    /// The number of running pods.
    pub(crate) existing: usize,
    /// The number of pods to schedule.
    pub(crate) pods: usize,
    /// The number of different CPU requests, which the pods use in turn.
    pub(crate) signatures: usize,
    /// The number of pending pods that are unschedulable or gated.
    pub(crate) waiting: usize,
}

/// The events while decisions are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Pods arrive and are bound.
    Arrivals,
    /// Before each pod, a running one is deleted: a rolling update.
    Replaced,
    /// Pods preempt pods of lower priority.
    Preempting,
    /// Unschedulable pods stay pending while nodes send ten updates for each pod that arrives.
    Storm,
    /// Pods are deleted as soon as they are bound, while others are gated.
    Gone,
    /// Claims get their volumes as soon as their pods have nodes.
    Provisioning,
    /// Running pods send fifty status updates for each pod that arrives.
    Reports,
    /// After every 20 pods, one node is deleted, one is added, and one moves to another zone.
    NodeChurn,
    /// The engine starts; the time until the first pod is placed counts.
    Start,
}

/// A benchmark: a cluster, its pods, and concurrent events.
pub(crate) struct Workload {
    pub(crate) id: &'static str,
    pub(crate) about: &'static str,
    /// The default size.
    pub(crate) size: Size,
    pub(crate) activity: Activity,
    /// Returns the objects other than nodes and pods.
    pub(crate) other_objects: fn(&Size) -> Vec<Value>,
    pub(crate) node: fn(usize, &Size) -> Value,
    /// Returns a running pod by its number. Without this function, running pods equal those to schedule, on the
    /// nodes in turn.
    pub(crate) existing: Option<fn(usize, &Size) -> Value>,
    /// Returns a pod that stays pending.
    pub(crate) waiting: fn(usize, &Size) -> Value,
    /// Returns a pod to schedule. Its numbers follow those of running pods.
    pub(crate) pod: fn(usize, &Size) -> Value,
}

impl Workload {
    /// Returns all workloads in the order of their ids.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = by_oracle::all();
        all.extend(by_complaint::all());
        all.extend(by_devices::all());
        all
    }

    pub(crate) fn named(id: &str) -> Option<Self> {
        Self::all().into_iter().find(|workload| workload.id.eq_ignore_ascii_case(id))
    }

    /// Whether the pods need devices.
    pub(crate) fn needs_devices(&self) -> bool {
        by_devices::all().iter().any(|other| other.id == self.id)
    }

    /// Whether the real kube-scheduler's decisions on the same pods can be timed and compared: pods arrive one
    /// after the other, without concurrent events.
    pub(crate) fn has_peer(&self) -> bool {
        self.activity == Activity::Arrivals
    }

    /// Whether the decisions can be compared with the real kube-scheduler's. Those of preemption can, one by
    /// one.
    pub(crate) fn is_comparable(&self) -> bool {
        self.has_peer() || self.activity == Activity::Preempting
    }

    /// Returns the cluster before the first decision.
    pub(crate) fn cluster(&self, size: Size) -> impl Iterator<Item = Value> + '_ {
        let other_objects = (self.other_objects)(&size).into_iter();
        let nodes = (0..size.nodes).map(move |number| (self.node)(number, &size));
        let existing = (0..size.existing).map(move |number| self.running(number, &size));
        other_objects.chain(nodes).chain(existing)
    }

    pub(crate) fn running(&self, number: usize, size: &Size) -> Value {
        match self.existing {
            Some(existing) => existing(number, size),
            None => objects::running((self.pod)(number, size), number, size.nodes),
        }
    }

    /// Returns the pods to schedule.
    pub(crate) fn pods(&self, size: Size) -> impl Iterator<Item = Value> + '_ {
        (size.existing..size.existing + size.pods).map(move |number| (self.pod)(number, &size))
    }

    /// Returns the size for tests: just large enough that every rule has an effect.
    pub(crate) fn tiny(&self) -> Size {
        let size = self.shrunk(60, 30);
        Size { pods: (self.size.pods * size.nodes / self.size.nodes).clamp(1, 30), ..size }
    }

    /// Returns the size with at most this many nodes, the same density, and this many pods.
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

    /// Returns cluster and pods in the format of golden vectors.
    pub(crate) fn scenario(&self, size: Size) -> Value {
        let objects: Vec<_> = self.cluster(size).collect();
        let pods: Vec<_> = self.pods(size).collect();
        json!({"name": self.id, "kind": "workload", "objects": objects, "pods": pods})
    }
}
