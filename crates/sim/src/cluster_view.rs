//! Views of the cluster for the reference: the scheduler's inputs and decisions, or the server's state.

use crate::devices::{DeviceClaim, DeviceKind, Slice, TPU};
use crate::drivers::has_devices;
use crate::objects::{Node, Pod};
use crate::process::{Decided, Process};
use crate::reference::{Devices, ReferenceCluster, Storage};
use crate::sim::Sim;
use crate::storage::csi_node;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::cache::Devices as KnownDevices;
use supercargo_core::model::device::{Allocation, DeviceId, ResourceClaim, ResourceSlice};
use supercargo_core::model::intern::{LabelSetId, Symbol, Tables};
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_core::model::volume::Reservation;

/// Claims, slices, and the resource that devices serve as extended resources.
pub(crate) struct DeviceObjects {
    claims: Vec<Arc<ResourceClaim>>,
    slices: Vec<Arc<ResourceSlice>>,
    served: (Symbol, &'static str),
}

impl DeviceObjects {
    fn of(
        tables: &mut Tables,
        claims: &BTreeMap<String, Arc<DeviceClaim>>,
        slices: &BTreeMap<String, Arc<Slice>>,
    ) -> Self {
        Self {
            claims: claims.values().map(|claim| Arc::new(claim.info(tables))).collect(),
            slices: slices.values().map(|slice| Arc::new(slice.info(tables))).collect(),
            served: (tables.symbol(TPU), DeviceKind::Whole.name()),
        }
    }
}

fn devices_of(
    objects: &DeviceObjects,
    in_flight: Vec<(Uid, Arc<Allocation>)>,
    avoided: BTreeMap<Uid, BTreeSet<DeviceId>>,
    keep_claims: BTreeMap<Uid, Uid>,
) -> Arc<Devices> {
    Arc::new(Devices {
        claims: objects.claims.clone(),
        slices: objects.slices.clone(),
        in_flight,
        avoided,
        keep_claims,
        served: Some(objects.served),
    })
}

fn kept_claims(devices: &KnownDevices) -> BTreeMap<Uid, Uid> {
    let claim = |pod: &Uid| Some((Arc::clone(pod), Arc::clone(&devices.settled(pod)?.uid)));
    devices.all_settled().filter_map(claim).collect()
}

/// A view of the cluster, with ids of one scheduler process's tables.
pub(crate) struct ClusterView {
    nodes: Vec<Arc<NodeInfo>>,
    /// Pods and the names of their nodes.
    pods: Vec<(Arc<PodInfo>, Symbol)>,
    namespaces: Vec<(Symbol, LabelSetId)>,
    storage: Arc<Storage>,
    devices: Arc<Devices>,
}

impl ClusterView {
    pub(crate) fn world<'a>(&'a self, tables: &'a Tables) -> ReferenceCluster<'a> {
        let nodes = self.nodes.iter().map(|node| &**node).collect();
        let pods = self.pods.iter().map(|(pod, node)| (&**pod, *node));
        ReferenceCluster::new(tables, nodes, pods, self.namespaces.clone())
            .with_storage(Arc::clone(&self.storage))
            .with_devices(Arc::clone(&self.devices))
    }

    fn fill(
        process: &mut Process,
        nodes: &[Arc<Node>],
        pods: &[(Arc<Pod>, String)],
        namespaces: &[(&'static str, &'static str)],
        storage: Arc<Storage>,
        devices: Arc<Devices>,
    ) -> Self {
        let pods = pods.iter().map(|(pod, node)| {
            let info = process.info(pod);
            (info, process.scheduler.tables().symbol(node))
        });
        let pods = pods.collect();
        let nodes = nodes.iter().map(|node| process.node_info(node)).collect();
        let tables = process.scheduler.tables();
        let labels = |&(name, team): &(&str, &str)| {
            let pair = (tables.symbol("team"), tables.symbol(team));
            (tables.symbol(name), tables.label_set(vec![pair]))
        };
        Self { nodes, pods, namespaces: namespaces.iter().map(labels).collect(), storage, devices }
    }
}

impl Process {
    /// Returns the scheduler's view for a decision about this pod: its inputs, and its decisions since.
    pub(crate) fn scheduler_view(&mut self, uid: &str) -> ClusterView {
        let storage = self.storage_for(uid);
        let devices = self.devices_for(uid);
        let nodes: Vec<_> = self.nodes.values().cloned().collect();
        let placed =
            self.pods.values().filter_map(|pod| Some((Arc::clone(pod), self.counts_on(pod)?.to_owned())));
        let placed: Vec<_> = placed.collect();
        let namespaces: Vec<_> = self.namespaces.iter().map(|(&name, &team)| (name, team)).collect();
        ClusterView::fill(self, &nodes, &placed, &namespaces, storage, devices)
    }

    /// Returns claims and volumes for a decision about this pod, including the assumed state of other pods'
    /// claims and volumes.
    pub(crate) fn storage_for(&self, uid: &str) -> Arc<Storage> {
        if self.pods.get(uid).is_none_or(|pod| pod.claims.is_empty()) {
            return Arc::default();
        }
        Arc::new(Storage::seen_by(self.scheduler.snapshot(), uid))
    }

    /// Returns claims and devices for a decision about this pod, including what is allocated for other pods and not
    /// written yet.
    pub(crate) fn devices_for(&mut self, uid: &str) -> Arc<Devices> {
        self.devices_among(&mut None, uid)
    }

    /// As [`Self::devices_for`], with these objects, which it makes if there are none.
    pub(crate) fn devices_among(&mut self, objects: &mut Option<DeviceObjects>, uid: &str) -> Arc<Devices> {
        if self.pods.get(uid).is_none_or(|pod| !pod.needs_devices()) {
            return Arc::default();
        }
        let objects = objects.get_or_insert_with(|| {
            DeviceObjects::of(self.scheduler.tables(), &self.device_claims, &self.slices)
        });
        let snapshot = self.scheduler.snapshot();
        let own: BTreeSet<Uid> = snapshot
            .volumes()
            .reservations_of(uid)
            .iter()
            .filter_map(|reservation| match reservation {
                Reservation::Allocate { claim, .. } | Reservation::Create { claim, .. } => {
                    Some(Arc::clone(&claim.uid))
                }
                _ => None,
            })
            .collect();
        let in_flight = snapshot.devices().all_in_flight().filter(|(claim, _)| !own.contains(*claim));
        let in_flight = in_flight.map(|(claim, allocation)| (Arc::clone(claim), Arc::clone(allocation)));
        let in_flight = in_flight.collect();
        let keep_claims = kept_claims(snapshot.devices());
        devices_of(objects, in_flight, self.avoided.clone(), keep_claims)
    }

    /// Returns the pods whose evaluation is suspended, for extenders or between slices.
    pub(crate) fn suspended_evaluations(&self) -> impl Iterator<Item = &PodInfo> {
        self.scheduler.waiting_for_extenders().chain(self.scheduler.pods_in_slices())
    }

    /// Returns the node on which a pod counts: its own, or that of its decision.
    pub(crate) fn counts_on<'a>(&'a self, pod: &'a Pod) -> Option<&'a str> {
        let decided = || {
            let decided = self.decided.get(&pod.uid)?;
            let asks = || self.suspended_evaluations().any(|other| *other.uid == *pod.uid);
            let waits =
                (self.scheduler.queue().contains(&pod.uid) || asks()) && !self.taken_back.contains(&pod.uid);
            (!waits).then_some(decided.node.as_str())
        };
        pod.node.as_deref().or_else(decided)
    }
}

impl Sim {
    /// Returns the server's state plus the bindings on their way to it, limited to the pods for which `counts`
    /// returns true.
    pub(crate) fn server_view(&mut self, counts: impl Fn(&Process, &Pod) -> bool) -> ClusterView {
        self.server_view_with(counts, |_| false)
    }

    /// As [`Self::server_view`], with the decided pods of which `starts` returns true, unless their decision was
    /// reverted: their bindings may be sent later.
    pub(crate) fn server_view_with(
        &mut self,
        counts: impl Fn(&Process, &Pod) -> bool,
        starts: impl Fn(&Pod) -> bool,
    ) -> ClusterView {
        let process = &mut self.process;
        let mut placed = Vec::new();
        let pre_binds = process.scheduler.waiting_for_volumes();
        let pre_binds: BTreeSet<_> = pre_binds.map(|(queued, ..)| queued.pod.uid.to_string()).collect();
        for pod in self.server.pods.values().filter(|pod| counts(process, pod)) {
            // Other decisions counted the pods whose volumes are being written, or that wait for their group after it.
            let is_on_its_way = |decided: &&Decided| {
                let stands = || process.counts_on(pod).is_some();
                let waits = || starts(pod) || process.pre_bound.contains(&pod.uid);
                decided.released.is_some() || pre_binds.contains(&pod.uid) || waits() && stands()
            };
            let released = || process.decided.get(&pod.uid).filter(is_on_its_way);
            if let Some(node) = &pod.node {
                placed.push((Arc::clone(pod), node.clone()));
            } else if let Some(decided) = released() {
                // The next decisions counted the version of the pod that the scheduler knew.
                let known = process.pods.get(&pod.uid).unwrap_or(pod);
                placed.push((Arc::clone(known), decided.node.clone()));
            }
        }
        let nodes: Vec<_> = self.server.nodes.values().cloned().collect();
        let namespaces: Vec<_> = self.server.namespaces.iter().map(|(&name, &team)| (name, team)).collect();
        let known = process.scheduler.snapshot().devices();
        let keep_claims = kept_claims(known);
        let lingering =
            known.all_lingering().map(|(uid, sent)| (Arc::clone(uid), Arc::clone(sent))).collect();
        let tables = process.scheduler.tables();
        let storage = Storage {
            claims: self.server.claims.values().map(|it| Arc::new(it.info(tables))).collect(),
            volumes: self.server.volumes.values().map(|it| Arc::new(it.info(tables))).collect(),
            classes: self.server.classes.iter().map(|(it, zone)| Arc::new(it.info(*zone, tables))).collect(),
            csi_nodes: {
                let csi_nodes = self.server.csi_nodes.iter();
                csi_nodes.map(|(node, &limit)| Arc::new(csi_node(tables, node, limit))).collect()
            },
        };
        let devices = if has_devices(self.seed) {
            let objects = DeviceObjects::of(tables, &self.server.device_claims, &self.server.slices);
            devices_of(&objects, lingering, BTreeMap::new(), keep_claims)
        } else {
            Arc::default()
        };
        ClusterView::fill(process, &nodes, &placed, &namespaces, Arc::new(storage), devices)
    }
}
