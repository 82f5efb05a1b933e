//! ResourceClaims, ResourceSlices and DeviceClasses of the simulated API server, and their conversion to the engine's
//! model.
//!
//! There are three kinds of devices, each with a class: whole ones, some of which must be reported as ready; ones whose
//! capacity pods share; and parts of a card, which share its counter.

use crate::storage::claim_key;
use std::sync::Arc;
use supercargo_core::model::device::{
    AllocatedDevice, Allocation, AllocationMode, Attribute, ClaimSpec, CounterSet, Device, DeviceCapacity,
    DeviceClass, DeviceCondition, DeviceId, DeviceRequest, DeviceSelector, DeviceStatus, DeviceTaint,
    Expression, Facts, NodeSelector, PoolId, Reach, Request, RequestKind, ResourceClaim, ResourceSlice,
    SelectorRequirement, SelectorTerm,
};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::quantity::{Amount, Format};
use supercargo_core::model::selector::{NodeSelectorTerm, Operator, Requirement, TermDemands};
use supercargo_core::model::volume::{StorageKey, StorageKind};

/// The driver of all devices.
pub(crate) const DRIVER: &str = "card.example.com";
/// The extended resource that the class of whole devices serves.
pub(crate) const TPU: &str = "example.com/tpu";
/// The capacity of a shared device, and the counter of a card.
pub(crate) const UNITS: i64 = 4;
/// The name of the capacity and of the counter.
pub(crate) const AMOUNT: &str = "units";
/// The pod's namespaced prefix of nodes in `nodeSelector`.
const NODE_NAME: &str = "metadata.name";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A kind of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DeviceKind {
    /// A pod has it alone.
    Whole,
    /// Pods share its capacity.
    Shared,
    /// A part of a card.
    Part,
}

impl DeviceKind {
    pub(crate) const ALL: [Self; 3] = [Self::Whole, Self::Shared, Self::Part];

    /// Returns the name of the class, which is also the value of the devices' attribute `kind`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Shared => "shared",
            Self::Part => "part",
        }
    }

    /// Returns the kind's class.
    pub(crate) fn class(self, tables: &mut Tables) -> DeviceClass {
        DeviceClass {
            implicit: tables.symbol(&format!("deviceclass.resource.kubernetes.io/{}", self.name())),
            explicit: (self == Self::Whole).then(|| tables.symbol(TPU)),
            created: None,
            selectors: [Some(DeviceSelector(Arc::new(IsOfKind(self))))].into(),
            config: [].into(),
        }
    }
}

/// An expression that selects a kind of devices.
#[derive(Debug)]
struct IsOfKind(DeviceKind);

impl Expression for IsOfKind {
    fn text(&self) -> &str {
        self.0.name()
    }

    fn matches(&self, facts: &Facts) -> Result<bool, Arc<str>> {
        Ok(facts.0.downcast_ref::<DeviceKind>() == Some(&self.0))
    }
}

/// A device of a slice.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) kind: DeviceKind,
    /// Whether it must be reported as ready.
    pub(crate) waits: bool,
    pub(crate) tainted: bool,
}

/// Returns the units of the card that a part takes, which its name says.
pub(crate) fn units_of(device: &str) -> i64 {
    device.strip_prefix('p').and_then(|rest| rest[..1].parse().ok()).unwrap_or(0)
}

/// A ResourceSlice.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) name: String,
    pub(crate) version: u64,
    pub(crate) pool: String,
    pub(crate) generation: i64,
    /// The number of slices of the pool.
    pub(crate) slices: i64,
    /// The node whose devices these are, or the zone.
    pub(crate) node: Option<String>,
    pub(crate) zone: Option<&'static str>,
    pub(crate) devices: Vec<Part>,
    /// Whether it has the card's counter instead of devices.
    pub(crate) has_counter: bool,
}

fn whole(value: i64) -> Amount {
    Amount::whole(value, Format::DecimalSi)
}

fn counter(units: i64) -> CounterSet {
    CounterSet { name: "card".into(), counters: [(AMOUNT.into(), whole(units))].into() }
}

impl Slice {
    pub(crate) fn info(&self, tables: &mut Tables) -> ResourceSlice {
        let device = |part: &Part| Device {
            name: part.name.as_str().into(),
            attributes: [("kind".into(), Attribute::Text(part.kind.name().into()))].into(),
            capacity: if part.kind == DeviceKind::Shared {
                [(AMOUNT.into(), DeviceCapacity { value: whole(UNITS), policy: None })].into()
            } else {
                [].into()
            },
            consumes: match part.kind {
                DeviceKind::Part => [counter(units_of(&part.name))].into(),
                DeviceKind::Whole | DeviceKind::Shared => [].into(),
            },
            reach: Reach::Nothing,
            taints: if part.tainted { [taint()].into() } else { [].into() },
            binds_to_node: false,
            binding_conditions: part.waits.then(|| ["ready".into()].into()),
            binding_failure_conditions: if part.waits { ["broken".into()].into() } else { [].into() },
            is_shareable: part.kind == DeviceKind::Shared,
            facts: Facts(Arc::new(part.kind)),
        };
        ResourceSlice {
            name: tables.symbol(&self.name),
            pool: pool(&self.pool),
            generation: self.generation,
            slices: self.slices,
            reach: match (&self.node, self.zone) {
                (Some(node), _) => Reach::Node(tables.symbol(node)),
                (None, Some(zone)) => {
                    let term = SelectorTerm { expressions: vec![is_in(ZONE, zone)], fields: Vec::new() };
                    Reach::Selector(node_selector(tables, &[term]))
                }
                (None, None) => Reach::AllNodes,
            },
            devices: self.devices.iter().map(device).collect(),
            counters: if self.has_counter { [counter(UNITS)].into() } else { [].into() },
        }
    }
}

fn taint() -> DeviceTaint {
    DeviceTaint { key: "broken".into(), value: "".into(), effect: "NoSchedule".into() }
}

pub(crate) fn pool(name: &str) -> PoolId {
    PoolId { driver: DRIVER.into(), name: name.into() }
}

fn is_in(key: &str, value: &str) -> SelectorRequirement {
    SelectorRequirement { key: key.into(), operator: "In".into(), values: [value.into()].into() }
}

/// Parses a node selector: `In` requirements on labels, and the name of one node.
fn node_selector(tables: &mut Tables, terms: &[SelectorTerm]) -> NodeSelector {
    let mut parsed = Vec::new();
    for term in terms {
        let mut labels = Vec::new();
        for it in &term.expressions {
            let values: Box<[_]> = it.values.iter().map(|value| tables.symbol(value)).collect();
            labels.push(Requirement { key: tables.symbol(&it.key), operator: Operator::In(values.into()) });
        }
        let names: Vec<_> = term.fields.iter().map(|it| (tables.symbol(&it.values[0]), false)).collect();
        let demands = TermDemands { labels: labels.into(), names: names.into() };
        parsed.push(NodeSelectorTerm { demands: Some(demands), pinned_names: None });
    }
    NodeSelector { parsed: Ok(parsed.into()), terms: terms.into() }
}

/// What a claim requests: devices of a kind, or units of one shared device.
pub(crate) type Wanted = (DeviceKind, i64);

/// A ResourceClaim.
#[derive(Clone, Debug)]
pub(crate) struct DeviceClaim {
    pub(crate) uid: String,
    pub(crate) namespace: &'static str,
    pub(crate) name: String,
    pub(crate) version: u64,
    /// The name and uid of the pod for which it was made.
    pub(crate) owner: Option<(String, String)>,
    /// Whether the scheduler made it, for extended resources.
    pub(crate) is_made: bool,
    pub(crate) deleting: bool,
    pub(crate) protected: bool,
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) allocation: Option<Arc<Allocation>>,
    pub(crate) reserved_for: Vec<String>,
    /// Whether the driver reported the devices as ready, or as broken.
    pub(crate) ready: Option<bool>,
}

impl DeviceClaim {
    pub(crate) fn key(&self) -> String {
        claim_key(self.namespace, &self.name)
    }

    pub(crate) fn results(&self) -> impl Iterator<Item = &AllocatedDevice> {
        self.allocation.iter().flat_map(|allocation| &allocation.results)
    }

    /// Whether the driver must report on its devices.
    pub(crate) fn needs_report(&self) -> bool {
        self.ready.is_none() && self.results().any(|result| !result.binding_conditions.is_empty())
    }

    /// Whether a pod may be bound with its devices.
    pub(crate) fn is_ready(&self) -> bool {
        self.allocation.is_some() && !self.needs_report() && self.ready != Some(false)
    }

    /// Takes the devices away.
    pub(crate) fn freed(&self) -> Self {
        Self { allocation: None, reserved_for: Vec::new(), ready: None, ..self.clone() }
    }

    /// Whether the devices can be used on a node, which has this zone.
    pub(crate) fn reaches(&self, node: &str, zone: Option<&str>) -> bool {
        let terms = self.allocation.as_ref().and_then(|allocation| allocation.node_selector.as_deref());
        terms.is_none_or(|terms| {
            terms.iter().any(|term| {
                term.fields.iter().all(|it| it.values.iter().any(|value| **value == *node))
                    && term.expressions.iter().all(|it| it.values.iter().any(|value| Some(&**value) == zone))
            })
        })
    }

    /// Whether the devices are those of other nodes, whatever their labels.
    pub(crate) fn excludes_by_name(&self, node: &str) -> bool {
        let terms = self.allocation.as_ref().and_then(|allocation| allocation.node_selector.as_deref());
        let is_other = |term: &SelectorTerm| {
            term.fields.iter().any(|it| !it.values.iter().any(|value| **value == *node))
        };
        terms.is_some_and(|terms| terms.iter().all(is_other))
    }

    pub(crate) fn info(&self, tables: &mut Tables) -> ResourceClaim {
        let request = |(at, &(kind, amount)): (usize, &Wanted), tables: &mut Tables| {
            let name: Arc<str> = format!("r{at}").into();
            let is_shared = kind == DeviceKind::Shared;
            let request = DeviceRequest {
                name: Arc::clone(&name),
                class: tables.symbol(kind.name()),
                selectors: [].into(),
                mode: AllocationMode::ExactCount(if is_shared { 1 } else { amount }),
                admin_access: false,
                tolerations: [].into(),
                has_capacity: is_shared,
                capacity: if is_shared { [(AMOUNT.into(), whole(amount))].into() } else { [].into() },
            };
            Request { name, kind: RequestKind::Exactly(request) }
        };
        let requests = self.wanted.iter().enumerate().map(|it| request(it, tables)).collect();
        let condition = |is_ready: bool, result: &AllocatedDevice| DeviceStatus {
            device: result.device.clone(),
            conditions: [DeviceCondition {
                kind: if is_ready { "ready" } else { "broken" }.into(),
                is_true: true,
                reason: "Report".into(),
                message: "".into(),
            }]
            .into(),
        };
        let devices = self.ready.iter().flat_map(|ready| self.results().map(|it| condition(*ready, it)));
        let terms = self.allocation.as_ref().and_then(|allocation| allocation.node_selector.clone());
        ResourceClaim {
            namespace: tables.symbol(self.namespace),
            name: tables.symbol(&self.name),
            uid: self.uid.as_str().into(),
            resource_version: self.version.to_string().into(),
            controller: self.owner.as_ref().map(|(name, uid)| (name.as_str().into(), uid.as_str().into())),
            deleting: self.deleting,
            is_for_extended_resources: self.is_made,
            is_protected: self.protected,
            spec: ClaimSpec { requests, ..ClaimSpec::default() }.into(),
            allocation: self.allocation.clone(),
            nodes: terms.map(|terms| node_selector(tables, &terms)),
            reserved_for: self.reserved_for.iter().map(|uid| uid.as_str().into()).collect(),
            devices: devices.collect(),
        }
    }
}

/// Returns an allocation by another scheduler: a device of its own on a node.
pub(crate) fn foreign_allocation(claim: &str, node: &str) -> Arc<Allocation> {
    let device = DeviceId { pool: pool(&format!("{node}-foreign")), device: claim.into() };
    let result = AllocatedDevice::whole("r0", device);
    let term = SelectorTerm { expressions: Vec::new(), fields: vec![is_in(NODE_NAME, node)] };
    Arc::new(Allocation {
        results: vec![result],
        node_selector: Some([term].into()),
        ..Allocation::default()
    })
}

/// Returns a claim's key in the engine.
pub(crate) fn device_claim_id(tables: &mut Tables, key: &str) -> StorageKey {
    let (namespace, name) = key.split_once('/').expect("a claim's key has its namespace");
    let (namespace, name) = (Some(tables.symbol(namespace)), tables.symbol(name));
    StorageKey { kind: StorageKind::ResourceClaim, namespace, name }
}

/// Returns a slice's key in the engine.
pub(crate) fn slice_id(tables: &mut Tables, name: &str) -> StorageKey {
    StorageKey { kind: StorageKind::ResourceSlice, namespace: None, name: tables.symbol(name) }
}

/// An entry of a pod's `spec.resourceClaims`.
#[derive(Clone, Debug)]
pub(crate) enum PodDevices {
    /// A claim by name.
    Named(String),
    /// A claim of a template, and its name if it was made.
    Template(Option<String>),
}

impl PodDevices {
    pub(crate) fn claim(&self) -> Option<&String> {
        match self {
            Self::Named(name) => Some(name),
            Self::Template(made) => made.as_ref(),
        }
    }
}
