//! The simulated API server's truth: what there is, and what may be done to it.
//!
//! It also keeps a book of the changes that did not come from the scheduler under test, so that a check can tell
//! whether anything changed that the scheduler could not know of.

use crate::objects::{Node, Pod};
use crate::storage::{Claim, Class, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::event::Kind;

mod storage;

pub(crate) use storage::Work;

/// A change as a watch tells it.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    ListBegan,
    /// The list is complete as of this version.
    ListEnded(u64),
    /// Nothing but that the watch has come so far.
    Bookmark,
    Pod(Arc<Pod>),
    PodGone(String),
    Node(Arc<Node>),
    NodeGone(String),
    /// A namespace and the value of its label `team`.
    Namespace(&'static str, &'static str),
    /// The Service that selects an app.
    Service(&'static str),
    Claim(Arc<Claim>),
    /// A claim by its key.
    ClaimGone(String),
    Volume(Arc<Volume>),
    VolumeGone(String),
    /// A class and the only zone it makes volumes for.
    Class(Class, Option<&'static str>),
    /// The CSINode of a node, with the number of volumes that can be attached there.
    CsiNode(String, Option<i32>),
    CsiNodeGone(String),
}

impl Change {
    /// Which object of its kind it is about; nothing for the marks of a list.
    pub(crate) fn key(&self) -> Option<String> {
        match self {
            Self::ListBegan | Self::ListEnded(_) | Self::Bookmark => None,
            Self::Pod(pod) => Some(pod.uid.clone()),
            Self::Node(node) => Some(node.name.clone()),
            Self::Claim(claim) => Some(claim.key()),
            Self::Volume(volume) => Some(volume.name.clone()),
            Self::PodGone(name)
            | Self::NodeGone(name)
            | Self::ClaimGone(name)
            | Self::VolumeGone(name)
            | Self::CsiNode(name, _)
            | Self::CsiNodeGone(name) => Some(name.clone()),
            Self::Namespace(name, _) | Self::Service(name) => Some((*name).to_owned()),
            Self::Class(class, _) => Some(class.name().to_owned()),
        }
    }

    fn is_end(&self) -> bool {
        matches!(
            self,
            Self::PodGone(_)
                | Self::NodeGone(_)
                | Self::ClaimGone(_)
                | Self::VolumeGone(_)
                | Self::CsiNodeGone(_)
        )
    }
}

/// Who changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The scheduler that runs now.
    Scheduler,
    /// Anybody else.
    World,
}

/// The versions of the last changes by others; equal stamps mean that nothing changed in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) pods: u64,
    pub(crate) nodes: u64,
    pub(crate) namespaces: u64,
    pub(crate) claims: u64,
    pub(crate) volumes: u64,
    pub(crate) classes: u64,
    pub(crate) csi_nodes: u64,
    /// Of the pod that is asked about itself.
    pub(crate) own: u64,
    /// How many bindings were refused for no reason, or given up: decisions that were built on one of them stand on nothing.
    pub(crate) refusals: u64,
}

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) pods: BTreeMap<String, Arc<Pod>>,
    pub(crate) nodes: BTreeMap<String, Arc<Node>>,
    pub(crate) namespaces: BTreeMap<&'static str, &'static str>,
    pub(crate) services: Vec<&'static str>,
    /// By key.
    pub(crate) claims: BTreeMap<String, Arc<Claim>>,
    pub(crate) volumes: BTreeMap<String, Arc<Volume>>,
    /// The classes, each with the only zone it makes volumes for.
    pub(crate) classes: BTreeMap<Class, Option<&'static str>>,
    /// By node, how many volumes can be attached there.
    pub(crate) csi_nodes: BTreeMap<String, Option<i32>>,
    version: u64,
    whole: Stamp,
    by_node: BTreeMap<String, Stamp>,
    by_pod: BTreeMap<String, u64>,
    /// Waiting pods that others have changed.
    reshaped: BTreeSet<String>,
    /// All changes of each kind, with their versions: what a watch is resumed from, and an older state is listed from.
    history: BTreeMap<Kind, Vec<(u64, Change)>>,
    /// Changes the watches have not taken up yet.
    news: Vec<(Kind, Change, u64)>,
}

impl Server {
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The changes since the last call.
    pub(crate) fn take_news(&mut self) -> Vec<(Kind, Change, u64)> {
        std::mem::take(&mut self.news)
    }

    fn publish(&mut self, kind: Kind, change: Change) {
        self.history.entry(kind).or_default().push((self.version, change.clone()));
        self.news.push((kind, change, self.version));
    }

    /// The version of the last change of a kind.
    pub(crate) fn last_change(&self, kind: Kind) -> u64 {
        self.history.get(&kind).and_then(|all| all.last()).map_or(0, |&(version, _)| version)
    }

    /// The changes of a kind after a version.
    pub(crate) fn since(&self, kind: Kind, version: u64) -> Vec<(u64, Change)> {
        let all = self.history.get(&kind).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|(at, _)| *at <= version);
        all[first..].to_vec()
    }

    /// All objects of a kind as they were at an earlier version.
    pub(crate) fn list_at(&self, kind: Kind, version: u64) -> Vec<Change> {
        let Some(all) = self.history.get(&kind) else { return self.list(kind) };
        let mut objects: BTreeMap<String, &Change> = BTreeMap::new();
        for (_, change) in all.iter().take_while(|(at, _)| *at <= version) {
            let Some(key) = change.key() else { continue };
            if change.is_end() {
                objects.remove(&key);
            } else {
                objects.insert(key, change);
            }
        }
        objects.into_values().cloned().collect()
    }

    /// All objects of a kind, as a list names them.
    pub(crate) fn list(&self, kind: Kind) -> Vec<Change> {
        match kind {
            Kind::Pod => self.pods.values().map(|pod| Change::Pod(Arc::clone(pod))).collect(),
            Kind::Node => self.nodes.values().map(|node| Change::Node(Arc::clone(node))).collect(),
            Kind::Namespace => {
                self.namespaces.iter().map(|(&name, &team)| Change::Namespace(name, team)).collect()
            }
            Kind::Service => self.services.iter().map(|&app| Change::Service(app)).collect(),
            Kind::PersistentVolume => self.volumes.values().cloned().map(Change::Volume).collect(),
            Kind::PersistentVolumeClaim => self.claims.values().cloned().map(Change::Claim).collect(),
            Kind::StorageClass => {
                self.classes.iter().map(|(&class, &zone)| Change::Class(class, zone)).collect()
            }
            Kind::CsiNode => {
                self.csi_nodes.iter().map(|(name, &limit)| Change::CsiNode(name.clone(), limit)).collect()
            }
            Kind::ReplicationController
            | Kind::ReplicaSet
            | Kind::StatefulSet
            | Kind::PodDisruptionBudget
            | Kind::CsiDriver
            | Kind::CsiStorageCapacity
            | Kind::VolumeAttachment
            | Kind::DeviceClass => Vec::new(),
        }
    }

    /// The last changes by others of anything that rules between pods read.
    pub(crate) fn whole_stamp(&self) -> Stamp {
        self.whole
    }

    /// The last changes by others of a node and what is on it, and of a pod that is to go there.
    pub(crate) fn node_stamp(&self, node: &str, uid: &str) -> Stamp {
        let own = self.by_pod.get(uid).copied().unwrap_or_default();
        Stamp { own, ..self.by_node.get(node).copied().unwrap_or_default() }
    }

    /// Adds a pod, or replaces it.
    pub(crate) fn put_pod(&mut self, mut pod: Pod, by: By) {
        self.version += 1;
        pod.version = self.version;
        if by == By::World {
            let is_new = !self.pods.contains_key(&pod.uid);
            self.note_pod(pod.node.as_deref(), is_new);
            if !is_new && pod.node.is_none() {
                self.reshaped.insert(pod.uid.clone());
            }
        } else if pod.node.is_some() && self.reshaped.remove(&pod.uid) {
            // It may take more than whoever decided knew.
            self.note_pod(pod.node.as_deref(), false);
        }
        if by == By::World {
            self.by_pod.insert(pod.uid.clone(), self.version);
        }
        let pod = Arc::new(pod);
        self.pods.insert(pod.uid.clone(), Arc::clone(&pod));
        self.publish(Kind::Pod, Change::Pod(pod));
    }

    /// Removes a pod, or takes note that it has ended, which a watch of pods that have not tells the same way.
    pub(crate) fn remove_pod(&mut self, uid: &str) {
        let Some(pod) = self.pods.remove(uid) else { return };
        self.by_pod.remove(uid);
        self.reshaped.remove(uid);
        self.version += 1;
        self.note_pod(pod.node.as_deref(), false);
        self.publish(Kind::Pod, Change::PodGone(pod.uid.clone()));
    }

    /// Takes note that it is now known of a pod on its way to a node that others have changed it.
    pub(crate) fn note_on_the_way(&mut self, uid: &str, node: &str) {
        if self.reshaped.contains(uid) {
            self.by_node.entry(node.to_owned()).or_default().pods = self.version;
        }
    }

    fn note_pod(&mut self, node: Option<&str>, is_new: bool) {
        match node {
            Some(node) => self.by_node.entry(node.to_owned()).or_default().pods = self.version,
            // Nobody has decided about it yet, and it is on no node: it concerns nobody.
            None if is_new => return,
            None => {}
        }
        self.whole.pods = self.version;
    }

    pub(crate) fn put_node(&mut self, mut node: Node) {
        self.version += 1;
        node.version = self.version;
        self.note_node(&node.name);
        let node = Arc::new(node);
        self.nodes.insert(node.name.clone(), Arc::clone(&node));
        self.publish(Kind::Node, Change::Node(node));
    }

    pub(crate) fn remove_node(&mut self, name: &str) {
        if self.nodes.remove(name).is_some() {
            self.version += 1;
            self.note_node(name);
            self.publish(Kind::Node, Change::NodeGone(name.to_owned()));
        }
    }

    fn note_node(&mut self, name: &str) {
        self.whole.nodes = self.version;
        self.by_node.entry(name.to_owned()).or_default().nodes = self.version;
    }

    pub(crate) fn put_namespace(&mut self, name: &'static str, team: &'static str) {
        self.version += 1;
        self.whole.namespaces = self.version;
        self.namespaces.insert(name, team);
        self.publish(Kind::Namespace, Change::Namespace(name, team));
    }

    /// Refuses a Binding for no reason that the objects give.
    pub(crate) fn refuse(&mut self, uid: &str) -> Result<(), String> {
        self.whole.refusals += 1;
        Err(format!("pods \"{uid}\" is forbidden: not now"))
    }

    /// The scheduler is told of a refusal, or gives up by itself: what it decided up to now may stand on the pod that was
    /// refused.
    pub(crate) fn refusal_told(&mut self) {
        self.whole.refusals += 1;
    }

    /// POST of a Binding. Whether the node exists is not asked, as a real API server does not ask it.
    pub(crate) fn bind(&mut self, uid: &str, node: &str, by: By, life: Option<u32>) -> Result<(), String> {
        let Some(pod) = self.pods.get(uid) else {
            return Err(format!("pods \"{uid}\" not found"));
        };
        let conflict =
            |text: String| Err(format!("Operation cannot be fulfilled on pods/binding \"{uid}\": {text}"));
        if pod.deleting {
            return conflict(format!("pod {uid} is being deleted, cannot be assigned to a host"));
        }
        if let Some(there) = &pod.node {
            return conflict(format!("pod {uid} is already assigned to node \"{there}\""));
        }
        if pod.gated {
            return conflict(format!("pod {uid} has non-empty .spec.schedulingGates"));
        }
        let bound = Pod {
            node: Some(node.to_owned()),
            bound_by: life,
            nominated: None,
            condition: None,
            ..Pod::clone(pod)
        };
        self.put_pod(bound, by);
        Ok(())
    }
}
