//! A cluster in which hypothetical changes are tried: apply them, schedule again, revert them.

use crate::explain::device_claims::{crowded, publish, without_devices};
use crate::explain::edit::{Edit, set};
use std::sync::Arc;
use supercargo_core::cache::Snapshot;
use supercargo_core::cycle::{Decision, Feasible, Framework, NoProbe, Options};
use supercargo_core::framework::CycleError;
use supercargo_core::model::intern::{Symbol, Tables, known};
use supercargo_core::model::node::{NodeIdx, NodeInfo};
use supercargo_core::model::node_set::NodeSet;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::selector::{Operator, Selector};
use supercargo_core::model::volume::{ClaimInfo, PersistentVolumeInfo, StorageObject};
use supercargo_core::scheduler::{Trial, TrialDecision, TrialOptions};

/// Name prefix of hypothetical volumes.
const NEW_VOLUME: &str = "supercargo-new-volume";

/// A cluster to ask about.
pub struct Place<'a> {
    /// The cluster. Its content is the same after each call.
    pub trial: &'a mut Trial,
    /// The pending pods of this cluster.
    pub pending: &'a [Arc<PodInfo>],
}

/// Returns a copy of a node with another name, and that name as its hostname label.
pub(crate) fn node_like(trial: &mut Trial, like: NodeInfo, name: &str) -> NodeInfo {
    let hostname = trial.tables_mut().symbol("kubernetes.io/hostname");
    let name = trial.tables_mut().symbol(name);
    let pairs = trial.tables().labels(like.labels).iter();
    let pairs = pairs.map(|(key, value)| (key, if key == hostname { name } else { value })).collect();
    let labels = trial.tables_mut().label_set(pairs);
    NodeInfo { name, labels, ..like }
}

impl Place<'_> {
    /// Returns a snapshot of the cluster.
    pub fn snapshot(&self) -> Snapshot<'_> {
        self.trial.snapshot()
    }

    /// Returns the intern tables.
    pub fn tables(&self) -> &Tables {
        self.trial.tables()
    }

    /// Returns the profile that decides about the pod.
    pub fn framework(&self, pod: &PodInfo) -> &Framework {
        self.trial.framework(pod)
    }

    /// Returns a node's name.
    pub fn name(&self, node: NodeIdx) -> String {
        let snapshot = self.snapshot();
        snapshot.text(snapshot.node_info(node).name).to_owned()
    }

    /// Returns the names of a set of nodes, sorted.
    pub fn names(&self, nodes: &NodeSet) -> Vec<String> {
        let mut names: Vec<String> = nodes.iter().map(|node| self.name(node)).collect();
        names.sort_unstable();
        names
    }

    /// Decides about a pod in the current cluster; its own nomination is ignored.
    pub fn decide(&mut self, pod: &PodInfo) -> Result<Decision, CycleError> {
        self.trial.refreshed();
        let options = Options { always_score: false, ignore_own_nomination: true, walk: None, within: None };
        self.framework(pod).decide(pod, self.snapshot(), options, &mut NoProbe)
    }

    fn feasible(&mut self, pod: &PodInfo) -> Option<Feasible> {
        match self.decide(pod) {
            Ok(Decision::Feasible(feasible)) => Some(feasible),
            Ok(Decision::Infeasible(_)) | Err(_) => None,
        }
    }

    /// Applies these changes, decides about the pod, and reverts them. Returns the sorted names of the feasible
    /// nodes; empty if there is none.
    pub fn try_out(&mut self, pod: &PodInfo, edits: &[Edit]) -> Vec<String> {
        let mut changed = pod.clone();
        let mark = self.trial.mark();
        for edit in edits {
            edit.on_pod(&mut changed);
            self.make(pod, edit);
        }
        let fits = self.feasible(&changed).map(|feasible| self.names(feasible.filtered.feasible()));
        self.trial.roll_back_to(mark);
        fits.unwrap_or_default()
    }

    /// Makes a change for a pod, except to the pod itself.
    pub(super) fn make(&mut self, pod: &PodInfo, edit: &Edit) {
        match edit {
            // Anti-affinity works in both directions, so it is relaxed for all pods of the owner.
            Edit::AvoidSoftly { .. } => {
                for (sibling, node) in self.placed_siblings(pod) {
                    let mut changed = PodInfo::clone(&sibling);
                    edit.on_pod(&mut changed);
                    self.trial.place_pod(&Arc::new(changed), node);
                }
            }
            Edit::Remove { pods, .. } => {
                for pod in pods {
                    self.trial.remove_pod(&pod.uid);
                }
            }
            Edit::NodeLike { like, name } => {
                let like = NodeInfo::clone(self.snapshot().node_info(*like));
                let new = Arc::new(node_like(self.trial, like, name));
                self.trial.set_node(&new);
            }
            Edit::BiggerNode { like, name, with } => {
                let mut like = NodeInfo::clone(self.snapshot().node_info(*like));
                with.iter().for_each(|&(of, to)| set(&mut like.allocatable, of, to));
                let new = Arc::new(node_like(self.trial, like, name));
                self.trial.set_node(&new);
            }
            Edit::Claims(edit) => {
                for claim in &edit.claims {
                    self.trial.set_storage(StorageObject::ResourceClaim(Arc::clone(claim)));
                }
            }
            Edit::CreateVolume { claim } => {
                let made = Arc::new(self.volume_for(claim));
                self.trial.set_storage(StorageObject::Volume(made));
            }
            _ => {
                let Some(node) = edit.node() else { return };
                let mut node = NodeInfo::clone(self.snapshot().node_info(node));
                edit.on_node(&mut node, self.trial.tables_mut());
                self.trial.set_node(&Arc::new(node));
            }
        }
    }

    /// Returns the pods on nodes with the same owner as the pod, each with its node's name.
    pub fn placed_siblings(&self, pod: &PodInfo) -> Vec<(Arc<PodInfo>, Symbol)> {
        let is_sibling = |other: &&PodInfo| {
            pod.owner.is_some() && other.namespace == pod.namespace && other.owner == pod.owner
        };
        let snapshot = self.snapshot();
        let of = |node| {
            let name = snapshot.node_info(node).name;
            let siblings = snapshot.pods_on(node).filter(is_sibling);
            siblings.map(move |other| (Arc::new(other.clone()), name))
        };
        snapshot.nodes().iter().flat_map(of).collect()
    }

    /// Returns a volume that matches the claim and is reachable from every node.
    fn volume_for(&mut self, claim: &ClaimInfo) -> PersistentVolumeInfo {
        let name = format!("{NEW_VOLUME}-{}", self.tables().text(claim.name));
        let labels = match &claim.selector {
            Some(Ok(Selector::All(list))) => list
                .iter()
                .filter_map(|of| match &of.operator {
                    Operator::In(values) => Some((of.key, *values.first()?)),
                    Operator::Exists => Some((of.key, known::EMPTY)),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        };
        PersistentVolumeInfo {
            name: self.trial.tables_mut().symbol(&name),
            resource_version: "1".into(),
            labels: self.trial.tables_mut().label_set(labels),
            topology: Box::default(),
            deleting: false,
            bound_by_controller: false,
            class: claim.class,
            claim: None,
            capacity: claim.request.unwrap_or_default(),
            access_modes: claim.access_modes.clone(),
            mode: claim.mode,
            attributes_class: claim.attributes_class,
            node_affinity: None,
            csi: None,
            in_tree: None,
            available: true,
        }
    }

    /// Removes all pods from their nodes, frees all devices, calls `ask`, and restores them.
    pub fn when_empty<R>(&mut self, ask: impl FnOnce(&mut Self) -> R) -> R {
        let uids = self.trial.placed_pods().map(|(pod, _)| Arc::clone(&pod.uid)).collect::<Vec<_>>();
        self.reverted(|place| {
            for uid in &uids {
                place.trial.remove_pod(uid);
            }
            let allocated = place.snapshot().devices().claims().filter(|claim| claim.allocation.is_some());
            let free: Vec<_> = allocated.map(|claim| Arc::new(without_devices(claim))).collect();
            for claim in free {
                place.trial.set_storage(StorageObject::ResourceClaim(claim));
            }
            place.trial.refreshed();
            ask(place)
        })
    }

    /// Removes one pod from its node, calls `ask`, and restores the pod.
    pub fn without<R>(&mut self, uid: &str, ask: impl FnOnce(&mut Self) -> R) -> R {
        self.reverted(|place| {
            place.trial.remove_pod(uid);
            place.trial.refreshed();
            ask(place)
        })
    }

    /// Calls `ask` and reverts its changes.
    pub fn reverted<R>(&mut self, ask: impl FnOnce(&mut Self) -> R) -> R {
        let mark = self.trial.mark();
        let answer = ask(self);
        self.trial.roll_back_to(mark);
        self.trial.refreshed();
        answer
    }

    /// Decides about a pod and assumes it on its node with its volumes; `None` if no node is feasible.
    pub fn settle(&mut self, pod: &Arc<PodInfo>) -> Option<NodeIdx> {
        let options = TrialOptions { uses_caches: true, preempts: false, is_comparable: false };
        if crowded(self.trial, pod).is_some() {
            return None;
        }
        match self.trial.decide(pod, options, &mut NoProbe) {
            TrialDecision::Placed { node, .. } => {
                publish(self.trial, pod);
                self.snapshot().find_node(node)
            }
            TrialDecision::Unplaced { .. } | TrialDecision::Failed(_) => None,
        }
    }

    /// Schedules pods one after another, each counting for the next, and reverts them all. Returns the number of pods
    /// that fit nowhere.
    pub fn left_over(&mut self, pods: &[Arc<PodInfo>]) -> usize {
        self.reverted(|place| pods.iter().filter(|pod| place.settle(pod).is_none()).count())
    }
}
