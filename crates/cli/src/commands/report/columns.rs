//! Builds the columns of a report from the engine's cache: nodes, pods and their requests, in each state.

use crate::commands::report::model::{ABSENT, ELSEWHERE, Nodes, Owner, Pods, Resource, Unit, WAITS};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::cache::Snapshot;
use supercargo_core::model::intern::{Symbol, Tables};
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_core::model::resources::Resources;
use supercargo_core::scheduler::Trial;
use supercargo_whatif::explain::format;
use supercargo_whatif::prepare::owners::Owner as Maker;

/// Zone label, and its name before Kubernetes 1.17.
const ZONES: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];
/// Prefix of the column of a DeviceClass: the extended resource that every class serves.
const CLASS: &str = "deviceclass.resource.kubernetes.io/";
/// Maximum number of extended resources, and of DeviceClasses, with a column.
const SCALARS_MAX: usize = 12;

/// Resources that have a column.
pub(super) struct Counted {
    pub resources: Vec<Resource>,
    scalars: Vec<Symbol>,
    /// DeviceClasses, whose devices are counted on each node.
    classes: Vec<Symbol>,
    has_disk: bool,
}

impl Counted {
    /// Returns the resources that at least one node offers.
    pub(super) fn of(snapshot: Snapshot<'_>) -> Self {
        let nodes = || snapshot.nodes().iter().map(|idx| snapshot.node_info(idx));
        let has_disk = nodes().any(|node| node.allocatable.ephemeral_storage > 0);
        let offered = nodes().flat_map(|node| &node.allocatable.scalar).filter(|(_, amount)| *amount > 0);
        let offered: BTreeMap<&str, Symbol> = offered.map(|&(name, _)| (snapshot.text(name), name)).collect();
        let scalars: Vec<Symbol> = offered.values().copied().take(SCALARS_MAX).collect();
        let resource = |name: &str, unit| Resource { name: name.to_owned(), unit };
        let mut resources = vec![resource("cpu", Unit::Milli), resource("memory", Unit::Bytes)];
        resources.extend(has_disk.then(|| resource("ephemeral-storage", Unit::Bytes)));
        resources.push(resource("pods", Unit::One));
        resources.extend(scalars.iter().map(|&name| resource(snapshot.text(name), Unit::One)));
        let has_devices = snapshot.devices().slices().any(|slice| !slice.devices.is_empty());
        let classes = snapshot.device_classes().names().filter(|_| has_devices);
        let mut classes: Vec<Symbol> = classes.collect();
        classes.sort_by_key(|&name| snapshot.text(name));
        classes.truncate(SCALARS_MAX);
        let class = |&name: &Symbol| resource(&format!("{CLASS}{}", snapshot.text(name)), Unit::One);
        resources.extend(classes.iter().map(class));
        Self { resources, scalars, classes, has_disk }
    }

    /// Returns the devices of each class that a node can use, and those of them that are allocated.
    fn devices(&self, snapshot: Snapshot<'_>, node: NodeIdx) -> (Vec<i64>, Vec<i64>) {
        let count = |&name: &Symbol| {
            let class = snapshot.device_classes().get(name);
            class.map_or((0, 0), |class| snapshot.count_devices(node, class))
        };
        self.classes.iter().map(count).unzip()
    }

    fn amounts(&self, of: &Resources, pods: i64) -> Vec<i64> {
        let mut amounts = vec![of.cpu_milli, of.memory];
        amounts.extend(self.has_disk.then_some(of.ephemeral_storage));
        amounts.push(pods);
        amounts.extend(self.scalars.iter().map(|&name| of.scalar(name).unwrap_or(0)));
        amounts
    }

    /// Returns the nodes of the current state, by name.
    pub(super) fn nodes(&self, snapshot: Snapshot<'_>) -> Register {
        let keys = ZONES.map(|key| snapshot.tables().find(key));
        let record = |idx| {
            let (node, tables) = (snapshot.node_info(idx), snapshot.tables());
            let zone = keys.iter().flatten().find_map(|&key| snapshot.node_labels(idx).get(key));
            let taints = tables.taints(node.taints).iter();
            let (devices, allocated) = self.devices(snapshot, idx);
            let mut allocatable = self.amounts(&node.allocatable, node.allocatable_pods);
            allocatable.extend(devices);
            let mut requested = self.amounts(snapshot.requested(idx), snapshot.pods_on(idx).count() as i64);
            requested.extend(allocated);
            let record = Record {
                zone: zone.map_or_else(String::new, |zone| tables.text(zone).to_owned()),
                taints: taints.map(|taint| format::taint(tables, taint)).collect(),
                is_closed: node.unschedulable,
                allocatable,
                requested,
            };
            (tables.text(node.name).to_owned(), record)
        };
        snapshot.nodes().iter().map(record).collect()
    }
}

/// Nodes of one state, by name.
pub(super) type Register = BTreeMap<String, Record>;

/// A node in one state.
pub(super) struct Record {
    zone: String,
    taints: Vec<String>,
    is_closed: bool,
    /// Amount for each resource, as in `requested`.
    allocatable: Vec<i64>,
    requested: Vec<i64>,
}

/// Index of each node of any state, in the order of names.
#[derive(Default)]
pub(super) struct Order(BTreeMap<String, u32>);

impl Order {
    pub(super) fn of<'n>(names: impl Iterator<Item = &'n String>) -> Self {
        let names: BTreeSet<&String> = names.collect();
        Self(names.into_iter().cloned().zip(0..).collect())
    }

    /// Returns the index of a node.
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.0.get(name).copied()
    }
}

/// Returns the nodes of all states in columns, and the zones. Labels and taints are those of the last state
/// with the node.
pub(super) fn nodes(counted: &Counted, order: &Order, states: &[Register]) -> (Nodes, Vec<String>) {
    let zones: BTreeSet<&str> =
        states.iter().flat_map(BTreeMap::values).map(|node| node.zone.as_str()).collect();
    let zones: Vec<&str> = zones.into_iter().collect();
    let mut taints = Numbers::default();
    let columns = vec![Vec::with_capacity(order.0.len()); counted.resources.len()];
    let mut nodes = Nodes {
        allocatable: columns.clone(),
        requested: vec![columns; states.len()],
        absent: vec![Vec::new(); states.len()],
        ..Nodes::default()
    };
    for (name, &number) in &order.0 {
        let Some(node) = states.iter().rev().find_map(|state| state.get(name)) else { continue };
        nodes.name.push(name.clone());
        nodes.zone.push(zones.binary_search(&node.zone.as_str()).map_or(0, |at| at as u32));
        nodes.cordoned.extend(node.is_closed.then_some(number));
        nodes.taints.push(node.taints.iter().map(|taint| taints.of(taint.clone())).collect());
        for (column, &amount) in nodes.allocatable.iter_mut().zip(&node.allocatable) {
            column.push(amount);
        }
        for (at, state) in states.iter().enumerate() {
            let here = state.get(name);
            nodes.absent[at].extend(here.is_none().then_some(number));
            for (resource, column) in nodes.requested[at].iter_mut().enumerate() {
                column.push(here.map_or(0, |node| node.requested[resource]));
            }
        }
    }
    nodes.taint_names = taints.into_list();
    (nodes, zones.into_iter().map(str::to_owned).collect())
}

/// Assigns indexes to values, in the order they first occur.
pub(super) struct Numbers<T> {
    numbers: BTreeMap<T, u32>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new() }
    }
}

impl<T: Ord> Numbers<T> {
    pub(super) fn of(&mut self, thing: T) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(thing).or_insert(next)
    }

    pub(super) fn into_list(self) -> Vec<T> {
        let mut list: Vec<(T, u32)> = self.numbers.into_iter().collect();
        list.sort_unstable_by_key(|&(_, number)| number);
        list.into_iter().map(|(thing, _)| thing).collect()
    }
}

/// Owner of each pod, by uid.
pub(super) type Makers = BTreeMap<Uid, Maker>;

/// Pods of one state, by uid, with the name of their node.
pub(super) type PodsByUid = BTreeMap<Uid, (Arc<PodInfo>, Option<Symbol>)>;

/// Returns all pods of a cluster, including pending ones.
pub(super) fn pods_by_uid(trial: &Trial, waiting: &[Arc<PodInfo>]) -> PodsByUid {
    let placed = trial.placed_pods();
    let placed = placed.map(|(pod, node)| (Arc::clone(&pod.uid), (Arc::clone(pod), Some(node))));
    let mut pods: PodsByUid = placed.collect();
    for pod in waiting {
        pods.entry(Arc::clone(&pod.uid)).or_insert_with(|| (Arc::clone(pod), None));
    }
    pods
}

/// Pods of all states in columns.
#[derive(Default)]
pub(super) struct People {
    pub pods: Pods,
    pub namespaces: Vec<String>,
    pub owners: Vec<Owner>,
    pub requests: Vec<Vec<i64>>,
    numbers: BTreeMap<Uid, u32>,
}

impl People {
    /// Sorts the pods of all states by namespace and name, and builds the columns.
    pub(super) fn of(
        counted: &Counted,
        order: &Order,
        tables: &Tables,
        states: &[PodsByUid],
        makers: &Makers,
    ) -> Self {
        let mut all: BTreeMap<(&str, &str, &str), &Arc<PodInfo>> = BTreeMap::new();
        for (pod, _) in states.iter().flat_map(BTreeMap::values) {
            all.entry((tables.text(pod.namespace), &pod.name, &pod.uid)).or_insert(pod);
        }
        let namespaces: BTreeSet<&str> = all.keys().map(|&(namespace, ..)| namespace).collect();
        let mut people =
            Self { namespaces: namespaces.into_iter().map(str::to_owned).collect(), ..Self::default() };
        let mut requests = Numbers::default();
        let owners: Vec<Option<Owner>> =
            all.values().map(|pod| people.owner_of(pod, makers, tables)).collect();
        let known: BTreeSet<&Owner> = owners.iter().flatten().collect();
        people.owners = known.into_iter().cloned().collect();
        people.pods.node = vec![Vec::with_capacity(all.len()); states.len()];
        for ((pod, owner), number) in all.values().zip(&owners).zip(0..) {
            let owner = owner.as_ref().and_then(|owner| people.owners.binary_search(owner).ok());
            let pods = &mut people.pods;
            pods.name.push(pod.name.to_string());
            pods.namespace.push(number_of(&people.namespaces, tables.text(pod.namespace)));
            pods.owner.push(owner.map_or(-1, |at| at as i32));
            pods.priority.push(pod.priority);
            let mut amounts = counted.amounts(&pod.resources.placed, 1);
            // Devices are allocated to claims, which pods may share.
            amounts.resize(counted.resources.len(), 0);
            pods.request.push(requests.of(amounts));
            for (nodes, owners) in pods.node.iter_mut().zip(states) {
                nodes.push(match owners.get(&pod.uid) {
                    None => ABSENT,
                    Some((_, None)) => WAITS,
                    Some((_, Some(node))) => {
                        order.number(tables.text(*node)).map_or(ELSEWHERE, |at| at as i32)
                    }
                });
            }
            people.numbers.insert(Arc::clone(&pod.uid), number);
        }
        people.requests = requests.into_list();
        people
    }

    fn owner_of(&self, pod: &PodInfo, makers: &Makers, tables: &Tables) -> Option<Owner> {
        let maker = makers.get(&pod.uid)?;
        let namespace = number_of(&self.namespaces, tables.text(pod.namespace));
        Some(Owner { namespace, kind: maker.kind.to_string(), name: maker.name.to_string() })
    }

    /// Returns the index of a pod.
    pub(super) fn number(&self, uid: &str) -> Option<u32> {
        self.numbers.get(uid).copied()
    }
}

fn number_of(sorted: &[String], text: &str) -> u32 {
    sorted.binary_search_by(|other| other.as_str().cmp(text)).map_or(0, |at| at as u32)
}
