//! Devices in the engine's model: DeviceClasses, ResourceSlices and ResourceClaims of `resource.k8s.io/v1`.
//!
//! Names that are compared with labels or with other objects are ids; all other texts are shared strings. Fields that
//! decisions only copy, such as opaque configurations, are kept as JSON text.

mod pod_claim;
mod trace;

pub use pod_claim::{ContainerMapping, ContainerRequest, PodClaim, PodClaimSource, planned_uid};

use crate::model::intern::{Labels, Symbol, Tables};
use crate::model::pod::Uid;
use crate::model::quantity::Amount;
use crate::model::selector::NodeSelectorTerm;
use crate::model::time::Time;
use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;

/// The largest number of devices that a claim can get (`AllocationResultsMaxSize`).
pub const RESULTS_MAX: usize = 32;

/// A compiled CEL expression that selects devices.
pub trait Expression: Debug + Send + Sync {
    /// Returns the expression's text.
    fn text(&self) -> &str;

    /// Evaluates the expression for a device.
    ///
    /// # Errors
    /// Upstream's message, from `CEL compile error: ` or `CEL runtime error: ` on.
    fn matches(&self, facts: &Facts) -> Result<bool, Arc<str>>;

    /// Does the same as if the device could not be shared.
    ///
    /// # Errors
    /// As [`Self::matches`].
    fn matches_unshared(&self, facts: &Facts) -> Result<bool, Arc<str>> {
        self.matches(facts)
    }

    /// Returns the full names of all attributes that the expression can read; `None` if they cannot be listed. Besides
    /// these it may read the driver, the capacities, and whether the device can be shared.
    fn reads(&self) -> Option<&[Arc<str>]> {
        None
    }
}

/// A selector of a class or request. Two are equal if their texts are.
#[derive(Clone, Debug)]
pub struct DeviceSelector(pub Arc<dyn Expression>);

impl PartialEq for DeviceSelector {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.text() == other.0.text()
    }
}

impl Eq for DeviceSelector {}

/// The facts of a device that expressions read, in the form that the expressions need.
#[derive(Clone, Debug)]
pub struct Facts(pub Arc<dyn Any + Send + Sync>);

/// A DeviceClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceClass {
    /// `deviceclass.resource.kubernetes.io/<name>`, the extended resource that every class serves.
    pub implicit: Symbol,
    /// `spec.extendedResourceName`.
    pub explicit: Option<Symbol>,
    /// `metadata.creationTimestamp`.
    pub created: Option<Time>,
    /// `spec.selectors`; `None` for one without `cel`.
    pub selectors: Box<[Option<DeviceSelector>]>,
    /// `spec.config`: the JSON of each entry.
    pub config: Box<[Arc<str>]>,
}

/// A ResourceSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceSlice {
    /// `metadata.name`.
    pub name: Symbol,
    /// The pool: `spec.driver` and `spec.pool.name`.
    pub pool: PoolId,
    /// `spec.pool.generation`.
    pub generation: i64,
    /// `spec.pool.resourceSliceCount`.
    pub slices: i64,
    /// The nodes that can use the devices.
    pub reach: Reach,
    /// `spec.devices`, in order.
    pub devices: Box<[Device]>,
    /// `spec.sharedCounters`.
    pub counters: Box<[CounterSet]>,
}

/// A pool: the driver and the pool's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId {
    /// `spec.driver`.
    pub driver: Arc<str>,
    /// `spec.pool.name`.
    pub name: Arc<str>,
}

/// The nodes that can use a slice or a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// No field is set: no node.
    Nothing,
    /// `nodeName`.
    Node(Symbol),
    /// `allNodes`.
    AllNodes,
    /// `nodeSelector`.
    Selector(NodeSelector),
    /// `perDeviceNodeSelection`: each device has its own.
    PerDevice,
}

impl Reach {
    /// Whether a node can use it.
    ///
    /// # Errors
    /// Upstream's text, if the node selector cannot be parsed.
    pub fn matches(&self, tables: &Tables, name: Symbol, labels: Labels<'_>) -> Result<bool, Arc<str>> {
        match self {
            Self::Nothing | Self::PerDevice => Ok(false),
            Self::Node(node) => Ok(*node == name),
            Self::AllNodes => Ok(true),
            Self::Selector(selector) => selector.matches(tables, name, labels),
        }
    }
}

/// A node selector of an API object, parsed, and as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSelector {
    /// The parsed terms, or the text of the parser's error.
    pub parsed: Result<Box<[NodeSelectorTerm]>, Arc<str>>,
    /// The terms as written.
    pub terms: Box<[SelectorTerm]>,
}

impl NodeSelector {
    /// Whether a node matches one of the terms.
    ///
    /// # Errors
    /// The parser's text.
    pub fn matches(&self, tables: &Tables, name: Symbol, labels: Labels<'_>) -> Result<bool, Arc<str>> {
        let terms = self.parsed.as_ref().map_err(Arc::clone)?;
        Ok(terms.iter().any(|term| term.matches(tables, name, labels)))
    }

    /// Whether each term excludes a node by its name. Unlike labels, names never change.
    pub fn excludes_by_name(&self, node: Symbol) -> bool {
        let excludes = |term: &NodeSelectorTerm| {
            let mut names = term.demands.iter().flat_map(|demands| demands.names.iter());
            names.any(|&(wanted, differs)| (wanted == node) == differs)
        };
        self.parsed.as_ref().is_ok_and(|terms| terms.iter().all(excludes))
    }
}

/// A term of a node selector, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectorTerm {
    /// `matchExpressions`.
    pub expressions: Vec<SelectorRequirement>,
    /// `matchFields`.
    pub fields: Vec<SelectorRequirement>,
}

/// A requirement of a node selector term, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorRequirement {
    /// `key`.
    pub key: Arc<str>,
    /// `operator`.
    pub operator: Arc<str>,
    /// `values`.
    pub values: Box<[Arc<str>]>,
}

/// A set of counters that the devices of a pool share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSet {
    /// `name`.
    pub name: Arc<str>,
    /// `counters`, sorted by name.
    pub counters: Box<[(Arc<str>, Amount)]>,
}

/// A device of a ResourceSlice.
#[derive(Clone, Debug)]
pub struct Device {
    /// `name`.
    pub name: Arc<str>,
    /// `attributes`, sorted by name as written.
    pub attributes: Box<[(Arc<str>, Attribute)]>,
    /// `capacity`, sorted by name as written.
    pub capacity: Box<[(Arc<str>, DeviceCapacity)]>,
    /// `consumesCounters`: the amounts that an allocation takes from the sets.
    pub consumes: Box<[CounterSet]>,
    /// The nodes that can use the device, if the slice has `perDeviceNodeSelection`.
    pub reach: Reach,
    /// `taints`.
    pub taints: Box<[DeviceTaint]>,
    /// `bindsToNode`.
    pub binds_to_node: bool,
    /// `bindingConditions`; `None` if absent.
    pub binding_conditions: Option<Box<[Arc<str>]>>,
    /// `bindingFailureConditions`.
    pub binding_failure_conditions: Box<[Arc<str>]>,
    /// `allowMultipleAllocations`.
    pub is_shareable: bool,
    /// What expressions read.
    pub facts: Facts,
}

impl PartialEq for Device {
    /// Compares everything but the facts, which follow from the other fields.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.attributes == other.attributes
            && self.capacity == other.capacity
            && self.consumes == other.consumes
            && self.reach == other.reach
            && self.taints == other.taints
            && self.binds_to_node == other.binds_to_node
            && self.binding_conditions == other.binding_conditions
            && self.binding_failure_conditions == other.binding_failure_conditions
            && self.is_shareable == other.is_shareable
    }
}

impl Eq for Device {}

impl Device {
    /// Returns an attribute by its full name `domain/id`: the attribute of exactly this name, or, in the driver's own
    /// domain, the one named by the id alone.
    pub fn attribute(&self, driver: &str, name: &str) -> Option<&Attribute> {
        let find = |name: &str| {
            let at = self.attributes.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
            Some(&self.attributes[at].1)
        };
        find(name).or_else(|| {
            let (domain, id) = name.split_once('/')?;
            find(id).filter(|_| domain == driver)
        })
    }
}

/// A value of a device's attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// `string`.
    Text(Arc<str>),
    /// `int`.
    Int(i64),
    /// `bool`.
    Bool(bool),
    /// `version`; compared as text.
    Version(Arc<str>),
    /// A value of another type, such as a list.
    Other,
}

/// A capacity of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCapacity {
    /// `value`.
    pub value: Amount,
    /// `requestPolicy`.
    pub policy: Option<RequestPolicy>,
}

/// What of a capacity can be requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestPolicy {
    /// `default`.
    pub default: Option<Amount>,
    /// `validValues`; `None` if absent.
    pub values: Option<Box<[Amount]>>,
    /// `validRange`.
    pub range: Option<ValidRange>,
}

/// The valid range of a request for capacity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidRange {
    /// `min`.
    pub min: Option<Amount>,
    /// `max`.
    pub max: Option<Amount>,
    /// `step`.
    pub step: Option<Amount>,
}

/// A taint of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceTaint {
    /// `key`.
    pub key: Arc<str>,
    /// `value`.
    pub value: Arc<str>,
    /// `effect`.
    pub effect: Arc<str>,
}

impl DeviceTaint {
    /// Whether the taint keeps requests that do not tolerate it from the device.
    pub fn repels(&self) -> bool {
        matches!(&*self.effect, "NoSchedule" | "NoExecute")
    }
}

/// A toleration of device taints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceToleration {
    /// `key`; empty tolerates every key.
    pub key: Arc<str>,
    /// `operator`; empty is `Equal`.
    pub operator: Arc<str>,
    /// `value`.
    pub value: Arc<str>,
    /// `effect`; empty tolerates every effect.
    pub effect: Arc<str>,
    /// `tolerationSeconds`.
    pub seconds: Option<i64>,
}

impl DeviceToleration {
    /// Whether this tolerates a taint (upstream `resourceclaim#ToleratesTaint`).
    pub fn tolerates(&self, taint: &DeviceTaint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match &*self.operator {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                _ => false,
            }
    }
}

/// A ResourceClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceClaim {
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// `metadata.name`.
    pub name: Symbol,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`; assumptions about older versions are void.
    pub resource_version: Box<str>,
    /// The controlling owner: its name and uid.
    pub controller: Option<(Arc<str>, Uid)>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether the scheduler made it for extended resources: the annotation
    /// `resource.kubernetes.io/extended-resource-claim` is `true`.
    pub is_for_extended_resources: bool,
    /// Whether it has the finalizer `resource.kubernetes.io/delete-protection`.
    pub is_protected: bool,
    /// `spec`.
    pub spec: Arc<ClaimSpec>,
    /// `status.allocation`.
    pub allocation: Option<Arc<Allocation>>,
    /// `status.allocation.nodeSelector`: the nodes that can use the devices. `None` for all.
    pub nodes: Option<NodeSelector>,
    /// The uids in `status.reservedFor`, in order.
    pub reserved_for: Box<[Uid]>,
    /// `status.devices`, as far as binding conditions read it.
    pub devices: Box<[DeviceStatus]>,
}

/// `spec.devices` of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimSpec {
    /// `requests`.
    pub requests: Box<[Request]>,
    /// `constraints`.
    pub constraints: Box<[Constraint]>,
    /// `config`.
    pub config: Box<[ClaimConfig]>,
}

/// A request of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `name`.
    pub name: Arc<str>,
    /// What is requested.
    pub kind: RequestKind,
}

/// The kinds of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// `exactly`.
    Exactly(DeviceRequest),
    /// `firstAvailable`: alternatives in order of preference.
    FirstAvailable(Box<[DeviceRequest]>),
    /// Neither.
    Unknown,
}

/// `exactly`, or one alternative of `firstAvailable`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRequest {
    /// The name of the alternative, or of the request.
    pub name: Arc<str>,
    /// `deviceClassName`; may be the empty text.
    pub class: Symbol,
    /// `selectors`; `None` for one without `cel`.
    pub selectors: Box<[Option<DeviceSelector>]>,
    /// `allocationMode` and `count`.
    pub mode: AllocationMode,
    /// `adminAccess`.
    pub admin_access: bool,
    /// `tolerations`.
    pub tolerations: Arc<[DeviceToleration]>,
    /// Whether `capacity` is given, even without `requests`.
    pub has_capacity: bool,
    /// `capacity.requests`, sorted by name.
    pub capacity: Box<[(Arc<str>, Amount)]>,
}

/// How many devices are requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllocationMode {
    /// `ExactCount` devices.
    ExactCount(i64),
    /// `All` that match.
    All,
    /// A mode unknown upstream.
    Unknown(Arc<str>),
}

/// A constraint on the devices of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// The requests in scope; empty for all.
    pub requests: Box<[Arc<str>]>,
    /// The condition.
    pub kind: ConstraintKind,
}

/// The kinds of constraints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstraintKind {
    /// `matchAttribute`: all have the same value of it.
    Match(Arc<str>),
    /// `distinctAttribute`: all have different values of it.
    Distinct(Arc<str>),
    /// Neither.
    Unknown,
}

/// A configuration in a claim's spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimConfig {
    /// `requests`; empty for all.
    pub requests: Box<[Arc<str>]>,
    /// The JSON of the other fields.
    pub parameters: Arc<str>,
}

/// `status.allocation` of a claim. Holds no ids, so that it can be written by another thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// `devices.results`.
    pub results: Vec<AllocatedDevice>,
    /// `devices.config`.
    pub config: Vec<AllocatedConfig>,
    /// The terms of `nodeSelector`.
    pub node_selector: Option<Box<[SelectorTerm]>>,
    /// `allocationTimestamp`.
    pub allocated_at: Option<Time>,
}

/// A device of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedDevice {
    /// `request`: a request, or `request/alternative`.
    pub request: Arc<str>,
    /// The device.
    pub device: DeviceId,
    /// `adminAccess`.
    pub admin_access: bool,
    /// `tolerations`.
    pub tolerations: Arc<[DeviceToleration]>,
    /// `shareID`.
    pub share: Option<Arc<str>>,
    /// `consumedCapacity`, sorted by name.
    pub consumed: Box<[(Arc<str>, Amount)]>,
    /// `bindingConditions`.
    pub binding_conditions: Box<[Arc<str>]>,
    /// `bindingFailureConditions`.
    pub binding_failure_conditions: Box<[Arc<str>]>,
}

impl AllocatedDevice {
    /// Returns a device that a request gets whole, without tolerations and conditions.
    pub fn whole(request: &str, device: DeviceId) -> Self {
        Self {
            request: request.into(),
            device,
            admin_access: false,
            tolerations: [].into(),
            share: None,
            consumed: [].into(),
            binding_conditions: [].into(),
            binding_failure_conditions: [].into(),
        }
    }
}

/// The identity of a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// The driver and the pool.
    pub pool: PoolId,
    /// The device's name.
    pub device: Arc<str>,
}

impl fmt::Display for DeviceId {
    /// Writes `driver/pool/device`, as upstream.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.pool.driver, self.pool.name, self.device)
    }
}

/// A configuration of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedConfig {
    /// `source`: whether it is the class's, not the claim's.
    pub is_from_class: bool,
    /// `requests`.
    pub requests: Vec<Arc<str>>,
    /// The JSON of the other fields.
    pub parameters: Arc<str>,
}

/// An entry of `status.devices`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStatus {
    /// The device.
    pub device: DeviceId,
    /// `conditions`.
    pub conditions: Box<[DeviceCondition]>,
}

/// A condition of an allocated device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCondition {
    /// `type`.
    pub kind: Arc<str>,
    /// Whether `status` is `True`.
    pub is_true: bool,
    /// `reason`.
    pub reason: Arc<str>,
    /// `message`.
    pub message: Arc<str>,
}
