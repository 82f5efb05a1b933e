//! Questions about a cluster: its nodes, pods and workloads. They change nothing.

use super::{At, Cluster, Record};
use crate::explain::format;
use crate::prepare::owners::Owner;
use serde::Serialize;
use std::collections::BTreeMap;
use supercargo_core::model::intern::Symbol;

/// A node and what its pods request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    /// The node's name.
    pub name: String,
    /// The number of pods on it.
    pub pods: usize,
    /// The number of pods it can hold.
    pub pods_max: i64,
    /// The requested and the allocatable CPU, in millicores.
    pub cpu_milli: (i64, i64),
    /// The requested and the allocatable memory, in bytes.
    pub memory: (i64, i64),
    /// The taints, as `KEY[=VALUE]:EFFECT`.
    pub taints: Vec<String>,
    /// Whether it is cordoned.
    pub is_cordoned: bool,
}

/// An unfinished pod.
#[derive(Clone, Copy, Debug)]
pub struct PodState<'a> {
    /// `namespace/name`.
    pub key: &'a str,
    /// Its node; `None` if it is pending.
    pub node: Option<&'a str>,
    /// Its controller.
    pub owner: Option<&'a Owner>,
    /// The name of its pod group, in the pod's namespace.
    pub group: Option<&'a str>,
}

/// A workload with its unfinished pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadState {
    /// `kind`; a Deployment for the pods of its ReplicaSets.
    pub kind: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The number of pods, without those that are being deleted.
    pub pods: usize,
    /// The number of pending pods among them.
    pub pending: usize,
}

impl Cluster {
    /// Returns the state of a node; `None` if there is no such node.
    pub fn node_state(&self, name: &str) -> Option<NodeState> {
        let snapshot = self.trial().snapshot();
        let node = snapshot.find_node(self.trial().tables().find(name)?)?;
        let (info, requested) = (snapshot.node_info(node), snapshot.requested(node));
        let taints = self.trial().tables().taints(info.taints);
        Some(NodeState {
            name: name.to_owned(),
            pods: snapshot.pods_on(node).count(),
            pods_max: info.allocatable_pods,
            cpu_milli: (requested.cpu_milli, info.allocatable.cpu_milli),
            memory: (requested.memory, info.allocatable.memory),
            taints: taints.iter().map(|taint| format::taint(self.trial().tables(), taint)).collect(),
            is_cordoned: info.unschedulable,
        })
    }

    /// Returns the unfinished pods with their nodes, controllers and groups, by namespace and name.
    pub fn pod_states(&self) -> impl Iterator<Item = PodState<'_>> {
        self.pods.iter().map(|(key, record)| self.state(key, record))
    }

    /// Returns an unfinished pod, given as `namespace/name`.
    pub fn pod_state(&self, pod: &str) -> Option<PodState<'_>> {
        self.pods.get_key_value(pod).map(|(key, record)| self.state(key, record))
    }

    fn state<'a>(&'a self, key: &'a str, record: &'a Record) -> PodState<'a> {
        let tables = self.trial().tables();
        PodState {
            key,
            node: match record.at {
                At::Queue(_) => None,
                At::Node(node) => Some(tables.text(node)),
            },
            owner: record.owned.owner.as_ref(),
            group: record.owned.pod.group_key().map(|group| tables.text(group.name)),
        }
    }

    /// Returns the workloads that own pods, by namespace, kind and name.
    pub fn workloads(&self) -> Vec<WorkloadState> {
        type Key<'a> = (Symbol, &'a Owner);
        // Pods of a workload have similar names, so most of them follow each other.
        let mut runs: Vec<(Key<'_>, (usize, usize))> = Vec::new();
        for record in self.pods.values().filter(|record| !record.owned.pod.deleting) {
            let owner = record.owned.owner.as_ref().filter(|owner| &*owner.kind != "Node");
            let Some(key) = owner.map(|owner| (record.owned.pod.namespace, owner)) else { continue };
            if runs.last().is_none_or(|(last, _)| *last != key) {
                runs.push((key, (0, 0)));
            }
            let (_, (pods, pending)) = runs.last_mut().expect("there is one");
            *pods += 1;
            *pending += usize::from(matches!(record.at, At::Queue(_)));
        }
        let mut counts: BTreeMap<Key<'_>, (usize, usize)> = BTreeMap::new();
        for (key, (pods, pending)) in runs {
            let (all, all_pending) = counts.entry(key).or_default();
            *all += pods;
            *all_pending += pending;
        }
        let mut all: Vec<WorkloadState> = counts
            .into_iter()
            .map(|((namespace, owner), (pods, pending))| WorkloadState {
                kind: owner.kind.to_string(),
                namespace: self.trial().tables().text(namespace).to_owned(),
                name: owner.name.to_string(),
                pods,
                pending,
            })
            .collect();
        all.sort_by(|a, b| (&a.namespace, &a.kind, &a.name).cmp(&(&b.namespace, &b.kind, &b.name)));
        all
    }
}
