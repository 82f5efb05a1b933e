//! The simulated API server: its objects and the operations on them.
//!
//! It also records which changes did not come from the scheduler under test. Checks use this to find out
//! whether a change occurred that the scheduler could not know.

use crate::devices::{DeviceClaim, DeviceKind, Slice};
use crate::groups::Group;
use crate::objects::{Node, Pod};
use crate::storage::{Claim, Class, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::model::event::Kind;

mod devices;
mod groups;
mod storage;

pub(crate) use devices::DeviceWork;
pub(crate) use storage::Work;

/// A change as a watch delivers it.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    ListBegan,
    /// The list is complete as of this version.
    ListEnded(u64),
    /// A bookmark: only the version advances.
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
    /// A class and the only zone for which it provisions volumes.
    Class(Class, Option<&'static str>),
    /// The CSINode of a node with its volume limit.
    CsiNode(String, Option<i32>),
    CsiNodeGone(String),
    DeviceClass(DeviceKind),
    DeviceClaim(Arc<DeviceClaim>),
    /// A claim of devices by its key.
    DeviceClaimGone(String),
    Slice(Arc<Slice>),
    SliceGone(String),
    Group(Arc<Group>),
    /// A group by its key.
    GroupGone(String),
}

impl Change {
    /// Returns the key of the object among those of its kind; `None` for list marks and bookmarks.
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
            | Self::CsiNodeGone(name)
            | Self::DeviceClaimGone(name)
            | Self::SliceGone(name)
            | Self::GroupGone(name) => Some(name.clone()),
            Self::Namespace(name, _) | Self::Service(name) => Some((*name).to_owned()),
            Self::Class(class, _) => Some(class.name().to_owned()),
            Self::DeviceClass(kind) => Some(kind.name().to_owned()),
            Self::DeviceClaim(claim) => Some(claim.key()),
            Self::Slice(slice) => Some(slice.name.clone()),
            Self::Group(group) => Some(group.key()),
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
                | Self::DeviceClaimGone(_)
                | Self::SliceGone(_)
                | Self::GroupGone(_)
        )
    }
}

/// The author of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The scheduler under test.
    Scheduler,
    /// Anyone else.
    Others,
}

/// The versions of the last changes by others. Equal stamps mean that nothing changed in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) pods: u64,
    pub(crate) nodes: u64,
    pub(crate) namespaces: u64,
    pub(crate) claims: u64,
    pub(crate) volumes: u64,
    pub(crate) classes: u64,
    pub(crate) csi_nodes: u64,
    /// The version of the pod that the stamp is about.
    pub(crate) own: u64,
    /// The number of bindings rejected by a fault or given up. Decisions that counted such a pod rest on a
    /// false assumption.
    pub(crate) refusals: u64,
}

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) pods: BTreeMap<String, Arc<Pod>>,
    pub(crate) nodes: BTreeMap<String, Arc<Node>>,
    pub(crate) namespaces: BTreeMap<&'static str, &'static str>,
    pub(crate) services: Vec<&'static str>,
    /// By claim key.
    pub(crate) claims: BTreeMap<String, Arc<Claim>>,
    pub(crate) volumes: BTreeMap<String, Arc<Volume>>,
    /// Classes with the only zone for which each provisions volumes.
    pub(crate) classes: BTreeMap<Class, Option<&'static str>>,
    /// Volume limits by node.
    pub(crate) csi_nodes: BTreeMap<String, Option<i32>>,
    /// ResourceClaims by key.
    pub(crate) device_claims: BTreeMap<String, Arc<DeviceClaim>>,
    /// ResourceSlices by name.
    pub(crate) slices: BTreeMap<String, Arc<Slice>>,
    /// PodGroups by key.
    pub(crate) groups: BTreeMap<String, Arc<Group>>,
    /// The keys of groups of which a member was ever bound, by any client.
    pub(crate) ever_bound: BTreeSet<String>,
    has_device_classes: bool,
    version: u64,
    whole: Stamp,
    by_node: BTreeMap<String, Stamp>,
    by_pod: BTreeMap<String, u64>,
    /// Pending pods that others have changed.
    changed_by_others: BTreeSet<String>,
    /// All changes of each kind with their versions, for resumed watches and lists of older states.
    history: BTreeMap<Kind, Vec<(u64, Change)>>,
    /// Changes not yet passed to the watches.
    news: Vec<(Kind, Change, u64)>,
}

impl Server {
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Takes the changes since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<(Kind, Change, u64)> {
        std::mem::take(&mut self.news)
    }

    fn publish(&mut self, kind: Kind, change: Change) {
        self.history.entry(kind).or_default().push((self.version, change.clone()));
        self.news.push((kind, change, self.version));
    }

    /// Returns the version of the last change of a kind.
    pub(crate) fn last_change(&self, kind: Kind) -> u64 {
        self.history.get(&kind).and_then(|all| all.last()).map_or(0, |&(version, _)| version)
    }

    /// Returns the changes of a kind after a version.
    pub(crate) fn since(&self, kind: Kind, version: u64) -> Vec<(u64, Change)> {
        let all = self.history.get(&kind).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|(at, _)| *at <= version);
        all[first..].to_vec()
    }

    /// Returns all objects of a kind at an earlier version.
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

    /// Returns all objects of a kind.
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
            | Kind::VolumeAttachment => Vec::new(),
            Kind::PodGroup => self.groups.values().cloned().map(Change::Group).collect(),
            Kind::DeviceClass if self.has_device_classes => {
                DeviceKind::ALL.into_iter().map(Change::DeviceClass).collect()
            }
            Kind::DeviceClass => Vec::new(),
            Kind::ResourceClaim => self.device_claims.values().cloned().map(Change::DeviceClaim).collect(),
            Kind::ResourceSlice => self.slices.values().cloned().map(Change::Slice).collect(),
        }
    }

    /// Returns the last changes by others of everything that rules between pods read.
    pub(crate) fn whole_stamp(&self) -> Stamp {
        self.whole
    }

    /// Returns the last changes by others of a node, its pods, and a pod that is to be bound there.
    pub(crate) fn node_stamp(&self, node: &str, uid: &str) -> Stamp {
        let own = self.by_pod.get(uid).copied().unwrap_or_default();
        Stamp { own, ..self.by_node.get(node).copied().unwrap_or_default() }
    }

    /// Adds or replaces a pod.
    pub(crate) fn put_pod(&mut self, mut pod: Pod, by: By) {
        self.version += 1;
        pod.version = self.version;
        if by == By::Others {
            let is_new = !self.pods.contains_key(&pod.uid);
            self.note_pod(pod.node.as_deref(), is_new);
            if !is_new && pod.node.is_none() {
                self.changed_by_others.insert(pod.uid.clone());
            }
        } else if pod.node.is_some() && self.changed_by_others.remove(&pod.uid) {
            // The pod may request more than the scheduler knew when it decided.
            self.note_pod(pod.node.as_deref(), false);
        }
        if by == By::Others {
            self.by_pod.insert(pod.uid.clone(), self.version);
        }
        let bound = pod.group_key().filter(|_| pod.node.is_some());
        self.ever_bound.extend(bound);
        let pod = Arc::new(pod);
        self.pods.insert(pod.uid.clone(), Arc::clone(&pod));
        self.publish(Kind::Pod, Change::Pod(pod));
    }

    /// Removes a deleted or terminated pod. A watch of non-terminated pods reports both as a deletion.
    pub(crate) fn remove_pod(&mut self, uid: &str) {
        let Some(pod) = self.pods.remove(uid) else { return };
        self.by_pod.remove(uid);
        self.changed_by_others.remove(uid);
        self.version += 1;
        self.note_pod(pod.node.as_deref(), false);
        self.publish(Kind::Pod, Change::PodGone(pod.uid.clone()));
    }

    /// Records that the scheduler now knows of a change by others to a pod whose binding is on its way to a
    /// node.
    pub(crate) fn note_known_change(&mut self, uid: &str, node: &str) {
        if self.changed_by_others.contains(uid) {
            self.by_node.entry(node.to_owned()).or_default().pods = self.version;
        }
    }

    fn note_pod(&mut self, node: Option<&str>, is_new: bool) {
        match node {
            Some(node) => self.by_node.entry(node.to_owned()).or_default().pods = self.version,
            // The pod is undecided and it is on no node, so no decision depends on it.
            None if is_new => return,
            None => {}
        }
        self.whole.pods = self.version;
    }

    /// Notes the bindings so far as changes by others.
    pub(crate) fn note_bindings(&mut self) {
        for pod in self.pods.values() {
            if let Some(node) = &pod.node {
                let of_node = self.by_node.entry(node.clone()).or_default();
                of_node.pods = of_node.pods.max(pod.version);
                self.whole.pods = self.whole.pods.max(pod.version);
            }
        }
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

    /// Rejects a Binding regardless of the objects.
    pub(crate) fn refuse(&mut self, uid: &str) -> Result<(), String> {
        self.whole.refusals += 1;
        Err(format!("pods \"{uid}\" is forbidden: not now"))
    }

    /// Records that the scheduler learned of a rejection or gave up a binding. Its earlier decisions may have
    /// counted that pod.
    pub(crate) fn count_refusal(&mut self) {
        self.whole.refusals += 1;
    }

    /// Handles the POST of a Binding. Like a real API server, it does not check whether the node exists.
    pub(crate) fn bind(
        &mut self,
        uid: &str,
        node: &str,
        by: By,
        incarnation: Option<u32>,
    ) -> Result<(), String> {
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
            bound_by: incarnation,
            nominated: None,
            condition: None,
            ..Pod::clone(pod)
        };
        self.put_pod(bound, by);
        Ok(())
    }
}
