//! A cluster in which hypothetical changes are tried: apply them, schedule again, revert them.

use crate::explain::edit::Edit;
use std::sync::Arc;
use supercargo_core::cache::{Cache, PodState, Snapshot};
use supercargo_core::cycle::{Decision, Feasible, Framework, NoProbe, Options};
use supercargo_core::framework::CycleError;
use supercargo_core::incremental::DecisionCache;
use supercargo_core::intern::{Symbol, Tables, known};
use supercargo_core::node::{NodeIdx, NodeInfo};
use supercargo_core::node_set::NodeSet;
use supercargo_core::pod::PodInfo;
use supercargo_core::selector::{Operator, Selector};
use supercargo_core::volume::{
    ClaimInfo, PersistentVolumeInfo, Reservation, StorageKey, StorageKind, StorageObject,
};

/// Name prefix of hypothetical volumes.
const NEW_VOLUME: &str = "supercargo-new-volume";

/// A cluster in the engine's cache, with the profile to evaluate.
pub struct Place<'a> {
    /// The intern tables.
    pub tables: &'a mut Tables,
    /// The cluster. Its content is the same after each call.
    pub cache: &'a mut Cache,
    /// The profile.
    pub framework: &'a Framework,
    /// The pending pods of this cluster.
    pub pending: &'a [Arc<PodInfo>],
}

impl Place<'_> {
    /// Returns a snapshot of the cluster.
    pub fn snapshot(&self) -> Snapshot<'_> {
        self.cache.snapshot(self.tables)
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
        self.cache.refresh();
        let options = Options { always_score: false, ignore_own_nomination: true, walk: None };
        self.framework.decide(pod, self.snapshot(), options, &mut NoProbe)
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
        let mut undo = Undo::default();
        for edit in edits {
            edit.on_pod(&mut changed);
            self.make(pod, edit, &mut undo);
        }
        let fits = self.feasible(&changed).map(|feasible| self.names(feasible.filtered.feasible()));
        self.take_back(undo);
        fits.unwrap_or_default()
    }

    fn make(&mut self, pod: &PodInfo, edit: &Edit, undo: &mut Undo) {
        match edit {
            // Anti-affinity works in both directions, so it is relaxed for all pods of the owner.
            Edit::AvoidSoftly { .. } => {
                for (sibling, node) in self.placed_siblings(pod) {
                    let mut changed = PodInfo::clone(&sibling);
                    edit.on_pod(&mut changed);
                    self.cache.place(&Arc::new(changed), node, PodState::Added);
                    undo.pods.push((sibling, node, PodState::Added));
                }
            }
            Edit::Remove { pods, .. } => {
                let gone = pods.iter().filter_map(|pod| self.cache.remove_pod(&pod.uid));
                undo.pods.extend(gone);
            }
            Edit::NodeLike { like, name } => {
                let like = NodeInfo::clone(self.snapshot().node_info(*like));
                let new = Arc::new(self.named(like, name));
                self.cache.apply_node(&new);
                undo.new_nodes.push(new.name);
            }
            Edit::CreateVolume { claim } => {
                let made = Arc::new(self.volume_for(claim));
                undo.new_volumes.push(made.name);
                self.cache.volumes_mut().apply(StorageObject::Volume(made));
            }
            _ => {
                let Some(node) = edit.node() else { return };
                let before = NodeInfo::clone(self.snapshot().node_info(node));
                let mut after = before.clone();
                edit.on_node(&mut after, self.tables);
                self.cache.apply_node(&Arc::new(after));
                undo.nodes.push(Arc::new(before));
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

    /// Returns a copy of a node with another name and hostname label.
    fn named(&mut self, like: NodeInfo, name: &str) -> NodeInfo {
        let hostname = self.tables.symbol("kubernetes.io/hostname");
        let name = self.tables.symbol(name);
        let pairs = self.tables.labels(like.labels).iter();
        let pairs = pairs.map(|(key, value)| (key, if key == hostname { name } else { value })).collect();
        let labels = self.tables.label_set(pairs);
        NodeInfo { name, labels, ..like }
    }

    /// Returns a volume that matches the claim and is reachable from every node.
    fn volume_for(&mut self, claim: &ClaimInfo) -> PersistentVolumeInfo {
        let name = format!("{NEW_VOLUME}-{}", self.tables.text(claim.name));
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
            name: self.tables.symbol(&name),
            resource_version: "1".into(),
            labels: self.tables.label_set(labels),
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

    fn take_back(&mut self, undo: Undo) {
        for name in undo.new_volumes {
            let key = StorageKey { kind: StorageKind::PersistentVolume, namespace: None, name };
            self.cache.volumes_mut().remove(key);
        }
        for node in undo.new_nodes {
            self.cache.remove_node(node);
        }
        for node in undo.nodes.iter().rev() {
            self.cache.apply_node(node);
        }
        for (pod, node, state) in undo.pods.iter().rev() {
            self.cache.place(pod, *node, *state);
        }
    }

    /// Removes all pods from their nodes, calls `ask`, and restores the pods.
    pub fn when_empty<R>(&mut self, ask: impl FnOnce(&mut Self) -> R) -> R {
        let uids: Vec<String> = self.cache.placed_uids().map(|uid| uid.to_string()).collect();
        let pods = uids.iter().filter_map(|uid| self.cache.remove_pod(uid)).collect();
        self.cache.refresh();
        let answer = ask(self);
        self.take_back(Undo { pods, ..Undo::default() });
        self.cache.refresh();
        answer
    }

    /// Removes one pod from its node, calls `ask`, and restores the pod.
    pub fn without<R>(&mut self, uid: &str, ask: impl FnOnce(&mut Self) -> R) -> R {
        let pods = self.cache.remove_pod(uid).into_iter().collect();
        self.cache.refresh();
        let answer = ask(self);
        self.take_back(Undo { pods, ..Undo::default() });
        answer
    }

    /// Decides about a pod and assumes it on its node with its volumes; `None` if no node is feasible. Removing the
    /// pod from the cache also releases the volumes.
    pub fn settle(&mut self, decisions: &mut DecisionCache, pod: &Arc<PodInfo>) -> Option<NodeIdx> {
        let (node, reservations) = self.choose(decisions, pod)?;
        let name = self.snapshot().node_info(node).name;
        self.cache.place(pod, name, PodState::Assumed);
        self.cache.assume_volumes(&pod.uid, reservations);
        Some(node)
    }

    /// Returns the chosen node and the volumes to reserve there, from a cached decision if possible.
    fn choose(
        &mut self,
        decisions: &mut DecisionCache,
        pod: &Arc<PodInfo>,
    ) -> Option<(NodeIdx, Vec<Reservation>)> {
        self.cache.refresh();
        let snapshot = self.cache.snapshot(self.tables);
        if let Some(mut quick) = self.framework.decide_cached(decisions, pod, snapshot, &mut NoProbe) {
            let node = quick.choose(crate::explain::SEED, pod, crate::explain::ATTEMPT);
            if let Some(reservations) = quick.reserve(snapshot, node) {
                return Some((node, reservations));
            }
        }
        let feasible = self.feasible(pod)?;
        let node = feasible.choose(crate::explain::SEED, pod, crate::explain::ATTEMPT);
        let reservations = feasible.filtered.reserve(self.snapshot(), node).ok()?;
        Some((node, reservations))
    }

    /// Schedules pods one after another, each counting for the next, and reverts them all. Returns the pods that fit
    /// nowhere.
    pub fn place_all(&mut self, pods: &[Arc<PodInfo>]) -> Vec<Arc<PodInfo>> {
        let mut decisions = DecisionCache::default();
        let (mut placed, mut left_over) = (Vec::new(), Vec::new());
        for pod in pods {
            match self.settle(&mut decisions, pod) {
                Some(_) => placed.push(pod),
                None => left_over.push(Arc::clone(pod)),
            }
        }
        for pod in placed {
            self.cache.remove_pod(&pod.uid);
        }
        left_over
    }
}

/// What to restore after a trial.
#[derive(Default)]
struct Undo {
    new_volumes: Vec<Symbol>,
    nodes: Vec<Arc<NodeInfo>>,
    new_nodes: Vec<Symbol>,
    pods: Vec<(Arc<PodInfo>, Symbol, PodState)>,
}
