//! The whole state of a cluster as text, for comparison.

use super::Cluster;
use std::collections::BTreeMap;
use supercargo_core::cache::Snapshot;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::volume::StorageKind;

/// The state of a cluster. Two dumps of one [`Cluster`] are equal if and only if no later decision can differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    /// The nodes by name.
    pub nodes: BTreeMap<String, NodeDump>,
    /// The pending pods in the order of their arrival.
    pub queue: Vec<String>,
    /// Claims, volumes and allocations by kind and key, each as it is assumed.
    pub storage: BTreeMap<String, String>,
    /// The pod groups.
    pub groups: BTreeMap<String, String>,
    /// The labels of the namespaces.
    pub namespaces: BTreeMap<String, String>,
}

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDump {
    /// The object's fields that decisions read, and its image counts.
    pub object: String,
    /// The pods on it, in the engine's order, each with its fields.
    pub pods: Vec<String>,
    /// What they request, and their host ports.
    pub requested: String,
    /// The pods that are nominated to it, by key.
    pub nominated: Vec<String>,
}

impl NodeDump {
    fn of(snapshot: Snapshot<'_>, node: NodeIdx) -> Self {
        let info = snapshot.node_info(node);
        let images: Vec<_> = info.images.iter().map(|&(name, _)| snapshot.image(node, name)).collect();
        let labels: Vec<_> = snapshot.node_labels(node).iter().collect();
        let mut requested = snapshot.requested(node).clone();
        // As upstream, a resource that no pod requests any more stays with zero, which no decision reads.
        requested.scalar = requested.scalar.iter().copied().filter(|&(_, amount)| amount != 0).collect();
        let mut nominated: Vec<String> =
            snapshot.nominated_on(node).iter().map(|pod| snapshot.pod_key(pod)).collect();
        nominated.sort_unstable();
        Self {
            object: format!("{info:?} {labels:?} {images:?}"),
            pods: snapshot.pods_on(node).map(|pod| format!("{} {pod:?}", snapshot.pod_key(pod))).collect(),
            requested: format!("{requested:?} {:?}", snapshot.host_ports(node)),
            nominated,
        }
    }
}

impl Cluster {
    /// Returns the whole state. It costs as much as the cluster is large: it is meant for tests.
    pub fn dump(&self) -> Dump {
        let snapshot = self.trial().snapshot();
        let name = |node: NodeIdx| snapshot.text(snapshot.node_info(node).name).to_owned();
        let lookups = snapshot.lookups();
        let groups = lookups.group_keys().map(|key| {
            let names = format!("{}/{}", snapshot.text(key.namespace), snapshot.text(key.name));
            (names, format!("{:?}", lookups.group(key)))
        });
        let namespaces = lookups.namespaces().map(|(name, labels)| {
            let labels: Vec<_> = snapshot.labels(labels).iter().collect();
            (snapshot.text(name).to_owned(), format!("{labels:?}"))
        });
        Dump {
            nodes: snapshot.nodes().iter().map(|node| (name(node), NodeDump::of(snapshot, node))).collect(),
            queue: self.pending().map(str::to_owned).collect(),
            storage: storage(snapshot),
            groups: groups.collect(),
            namespaces: namespaces.collect(),
        }
    }
}

fn storage(snapshot: Snapshot<'_>) -> BTreeMap<String, String> {
    let volumes = snapshot.volumes();
    let mut all = BTreeMap::new();
    for key in volumes.keys(StorageKind::PersistentVolume) {
        let object = format!("{:?} {:?}", volumes.volume(key.name), volumes.assumed_volume(key.name));
        all.insert(format!("PersistentVolume {}", snapshot.text(key.name)), object);
    }
    for key in volumes.keys(StorageKind::PersistentVolumeClaim) {
        let namespace = key.namespace.expect("a claim is in a namespace");
        let (shown, assumed) =
            (volumes.claim(namespace, key.name), volumes.assumed_claim(namespace, key.name));
        let name = format!("{}/{}", snapshot.text(namespace), snapshot.text(key.name));
        all.insert(format!("PersistentVolumeClaim {name}"), format!("{shown:?} {assumed:?}"));
    }
    for claim in volumes.devices().claims() {
        let name = format!("{}/{}", snapshot.text(claim.namespace), snapshot.text(claim.name));
        all.insert(format!("ResourceClaim {name}"), format!("{claim:?}"));
    }
    for (claim, allocation) in volumes.devices().all_in_flight() {
        all.insert(format!("allocation in flight of {claim}"), format!("{allocation:?}"));
    }
    all
}
