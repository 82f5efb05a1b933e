//! Converts DeviceClasses, ResourceSlices and ResourceClaims, and what pods say about claims and extended resources.
//!
//! Upstream: `dynamic-resource-allocation` (`api`, `resourceclaim`),
//! `pkg/scheduler/framework/plugins/dynamicresources`.

use super::expressions::{self, DeviceFacts};
use super::pod::time;
use super::quantity::{Amount, Quantity};
use super::selectors::node_selector;
use super::{controller, uid};
use crate::api::core::{Container, NodeSelectorTerm, PodSpec, PodStatus};
use crate::api::meta::{
    PROTECTION, QuantityText, ResourceList, SelectorRequirement as ApiRequirement, annotation,
};
use crate::api::resource::{self as api, OpaqueDeviceConfiguration};
use crate::api::{DeviceClass as ApiClass, Kind, Malformed, Received, ResourceClaim as ApiClaim};
use crate::api::{ResourceSlice as ApiSlice, core::NodeSelector as ApiNodeSelector};
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::model::device::{
    AllocatedConfig, AllocatedDevice, Allocation, AllocationMode, Attribute, ClaimConfig, ClaimSpec,
    Constraint, ConstraintKind, ContainerRequest, CounterSet, Device, DeviceCapacity, DeviceClass,
    DeviceCondition, DeviceId, DeviceRequest, DeviceSelector, DeviceStatus, DeviceTaint, DeviceToleration,
    NodeSelector, PodClaim, PodClaimSource, PoolId, Reach, Request, RequestKind, RequestPolicy,
    ResourceClaim, ResourceSlice, SelectorRequirement, SelectorTerm, ValidRange,
};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::resources::is_extended_resource;

/// The prefix of the extended resource that a DeviceClass serves by its own name.
const CLASS_RESOURCE: &str = "deviceclass.resource.kubernetes.io/";

/// Amounts by name, sorted.
type Amounts = Box<[(Arc<str>, Amount)]>;

/// Converts a DeviceClass.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn device_class(tables: &mut Tables, class: &ApiClass) -> Result<DeviceClass, Malformed> {
    let spec = &class.content()?.spec;
    let config = spec.config.iter().map(|config| parameters(config.opaque.as_ref()));
    Ok(DeviceClass {
        implicit: tables.symbol(&format!("{CLASS_RESOURCE}{}", class.name())),
        explicit: spec.extended_resource_name.as_deref().map(|name| tables.symbol(name)),
        created: class.metadata.creation_timestamp.as_ref().map(time),
        selectors: selectors(&spec.selectors),
        config: config.collect(),
    })
}

/// Converts a ResourceSlice.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn resource_slice(tables: &mut Tables, slice: &ApiSlice) -> Result<ResourceSlice, Malformed> {
    let spec = &slice.content()?.spec;
    let driver: Arc<str> = spec.driver.as_str().into();
    let per_device = spec.per_device_node_selection == Some(true);
    let reach = reach(tables, spec.node_name.as_deref(), spec.all_nodes, spec.node_selector.as_ref());
    let devices = spec.devices.iter().map(|it| device(tables, &driver, it));
    let devices: Result<_, String> = devices.collect();
    let sets = spec.shared_counters.iter().map(|set| {
        Ok(CounterSet {
            name: set.name.as_str().into(),
            counters: counters("sharedCounters", &set.counters)?,
        })
    });
    let sets: Result<_, String> = sets.collect();
    Ok(ResourceSlice {
        name: tables.symbol(slice.name()),
        pool: PoolId { driver: Arc::clone(&driver), name: spec.pool.name.as_str().into() },
        generation: spec.pool.generation,
        slices: spec.pool.resource_slice_count,
        reach: if reach == Reach::Nothing && per_device { Reach::PerDevice } else { reach },
        devices: devices.map_err(|reason| slice.malformed(reason))?,
        counters: sets.map_err(|reason| slice.malformed(reason))?,
    })
}

/// Returns the nodes that a slice or device names (upstream `incubating#NodeMatches`).
fn reach(
    tables: &mut Tables,
    node: Option<&str>,
    all_nodes: Option<bool>,
    selector: Option<&ApiNodeSelector>,
) -> Reach {
    match (node, selector) {
        (Some(node), _) if !node.is_empty() => Reach::Node(tables.symbol(node)),
        _ if all_nodes == Some(true) => Reach::AllNodes,
        (_, Some(selector)) => {
            let mut read = node_selector(tables, selector);
            let place = || format!("failed to parse node selector {}: ", in_go(selector));
            read.parsed = read.parsed.map_err(|error| format!("{}{error}", place()).into());
            Reach::Selector(read)
        }
        (_, None) => Reach::Nothing,
    }
}

/// Formats a node selector as Go does in errors (`String` in `core/v1/generated.pb.go`).
fn in_go(selector: &ApiNodeSelector) -> String {
    let requirements = |list: &[crate::api::meta::SelectorRequirement]| {
        let each = list.iter().map(|it| {
            let values = it.values.as_deref().unwrap_or_default().join(" ");
            format!("NodeSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", it.key, it.operator)
        });
        each.collect::<String>()
    };
    let terms = selector.node_selector_terms.iter().map(|term| {
        format!(
            "NodeSelectorTerm{{MatchExpressions:[]NodeSelectorRequirement{{{}}},\
             MatchFields:[]NodeSelectorRequirement{{{}}},}},",
            requirements(&term.match_expressions),
            requirements(&term.match_fields)
        )
    });
    format!("&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{}}},}}", terms.collect::<String>())
}

fn device(tables: &mut Tables, driver: &Arc<str>, device: &api::Device) -> Result<Device, String> {
    let named = |reason| format!("spec.devices {:?}: {reason}", device.name);
    let attributes = attributes(device);
    let capacity =
        device.capacity.iter().map(|(name, capacity)| Ok((name.as_str().into(), capacity_of(capacity)?)));
    let capacity: Box<[_]> = capacity.collect::<Result<_, String>>().map_err(named)?;
    let consumes = device.consumes_counters.iter().map(|it| {
        let counters = counters("consumesCounters", &it.counters)?;
        Ok(CounterSet { name: it.counter_set.as_str().into(), counters })
    });
    let is_shareable = device.allow_multiple_allocations == Some(true);
    let facts = DeviceFacts::new(driver, device, &attributes).into();
    Ok(Device {
        name: device.name.as_str().into(),
        consumes: consumes.collect::<Result<_, String>>().map_err(named)?,
        reach: reach(tables, device.node_name.as_deref(), device.all_nodes, device.node_selector.as_ref()),
        taints: device.taints.iter().map(taint).collect(),
        binds_to_node: device.binds_to_node == Some(true),
        binding_conditions: device.binding_conditions.as_deref().map(texts),
        binding_failure_conditions: texts(&device.binding_failure_conditions),
        is_shareable,
        facts,
        attributes,
        capacity,
    })
}

/// Returns a device of a slice as expressions see it.
pub fn expression_device(driver: &str, device: &api::Device) -> supercargo_cel::Device {
    DeviceFacts::new(&driver.into(), device, &attributes(device)).device().clone()
}

fn attributes(device: &api::Device) -> Box<[(Arc<str>, Attribute)]> {
    device.attributes.iter().map(|(name, value)| (name.as_str().into(), attribute(value))).collect()
}

fn attribute(value: &api::DeviceAttribute) -> Attribute {
    match value {
        api::DeviceAttribute { int: Some(number), .. } => Attribute::Int(*number),
        api::DeviceAttribute { bool: Some(flag), .. } => Attribute::Bool(*flag),
        api::DeviceAttribute { string: Some(text), .. } => Attribute::Text(text.as_str().into()),
        api::DeviceAttribute { version: Some(text), .. } => Attribute::Version(text.as_str().into()),
        _ => Attribute::Other,
    }
}

fn capacity_of(capacity: &api::DeviceCapacity) -> Result<DeviceCapacity, String> {
    let optional =
        |text: &Option<QuantityText>| text.as_ref().map(|text| amount("capacity", text)).transpose();
    let policy = capacity.request_policy.as_ref().map(|policy| {
        let values = policy.valid_values.as_ref().map(|values| {
            values.iter().map(|text| amount("validValues", text)).collect::<Result<_, String>>()
        });
        let range = policy.valid_range.as_ref().map(|range| {
            let (min, max) = (optional(&range.min)?, optional(&range.max)?);
            Ok::<_, String>(ValidRange { min, max, step: optional(&range.step)? })
        });
        let (values, range) = (values.transpose()?, range.transpose()?);
        Ok::<_, String>(RequestPolicy { default: optional(&policy.default)?, values, range })
    });
    Ok(DeviceCapacity { value: amount("capacity", &capacity.value)?, policy: policy.transpose()? })
}

fn counters(place: &str, counters: &BTreeMap<String, api::Counter>) -> Result<Amounts, String> {
    counters
        .iter()
        .map(|(name, counter)| Ok((name.as_str().into(), amount(place, &counter.value)?)))
        .collect()
}

fn amounts(place: &str, list: &ResourceList) -> Result<Amounts, String> {
    list.iter().map(|(name, text)| Ok((name.as_str().into(), amount(place, text)?))).collect()
}

fn amount(place: &str, text: &QuantityText) -> Result<Amount, String> {
    Amount::parse(text.as_str()).map_err(|error| format!("{place}: {error}"))
}

fn texts(list: &[String]) -> Box<[Arc<str>]> {
    list.iter().map(|text| text.as_str().into()).collect()
}

fn taint(taint: &api::DeviceTaint) -> DeviceTaint {
    let api::DeviceTaint { key, value, effect } = taint;
    DeviceTaint { key: key.as_str().into(), value: value.as_str().into(), effect: effect.as_str().into() }
}

fn tolerations(list: &[api::DeviceToleration]) -> Arc<[DeviceToleration]> {
    let read = |it: &api::DeviceToleration| DeviceToleration {
        key: it.key.as_str().into(),
        operator: it.operator.as_str().into(),
        value: it.value.as_str().into(),
        effect: it.effect.as_str().into(),
        seconds: it.toleration_seconds,
    };
    list.iter().map(read).collect()
}

fn selectors(list: &[api::DeviceSelector]) -> Box<[Option<DeviceSelector>]> {
    let compiled = |cel: &api::CelDeviceSelector| DeviceSelector(expressions::expression(&cel.expression));
    list.iter().map(|selector| selector.cel.as_ref().map(compiled)).collect()
}

/// Returns the JSON of a `DeviceConfiguration`.
fn parameters(opaque: Option<&OpaqueDeviceConfiguration>) -> Arc<str> {
    let Some(OpaqueDeviceConfiguration { driver, parameters }) = opaque else { return "{}".into() };
    let driver = serde_json::Value::from(driver.as_str());
    format!(r#"{{"opaque":{{"driver":{driver},"parameters":{}}}}}"#, parameters.as_str()).into()
}

/// Converts a ResourceClaim.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn resource_claim(tables: &mut Tables, claim: &ApiClaim) -> Result<ResourceClaim, Malformed> {
    let content = claim.content()?;
    let (meta, status) = (&claim.metadata, &content.status);
    let wrong = |reason: String| claim.malformed(reason);
    let spec = claim_spec(tables, &content.spec.devices).map_err(wrong)?;
    let allocation = status.allocation.as_ref();
    let selector = allocation.and_then(|allocation| allocation.node_selector.as_ref());
    Ok(ResourceClaim {
        namespace: tables.symbol(claim.namespace()),
        name: tables.symbol(claim.name()),
        uid: uid(claim),
        resource_version: meta.resource_version.as_deref().unwrap_or_default().into(),
        controller: controller(meta).map(|owner| (owner.name.as_str().into(), owner.uid.as_str().into())),
        deleting: meta.deletion_timestamp.is_some(),
        is_for_extended_resources: is_for_extended_resources(claim),
        is_protected: meta.finalizers.iter().flatten().any(|finalizer| finalizer == PROTECTION),
        spec: Arc::new(spec),
        allocation: allocation.map(self::allocation).transpose().map_err(wrong)?.map(Arc::new),
        nodes: selector.map(|selector| node_selector(tables, selector)),
        reserved_for: status.reserved_for.iter().map(|consumer| consumer.uid.as_str().into()).collect(),
        devices: status.devices.iter().map(device_status).collect(),
    })
}

fn is_for_extended_resources<K: Kind>(object: &Received<K>) -> bool {
    let annotations = object.metadata.annotations.as_ref();
    annotations
        .and_then(|it| it.get(annotation::EXTENDED_RESOURCE_CLAIM))
        .is_some_and(|value| value == "true")
}

fn claim_spec(tables: &mut Tables, spec: &api::DeviceClaim) -> Result<ClaimSpec, String> {
    let requests = spec.requests.iter().map(|it| request(tables, it)).collect::<Result<_, _>>()?;
    let constraints = spec.constraints.iter().map(|constraint| Constraint {
        requests: texts(&constraint.requests),
        kind: match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(name), _) => ConstraintKind::Match(name.as_str().into()),
            (None, Some(name)) => ConstraintKind::Distinct(name.as_str().into()),
            (None, None) => ConstraintKind::Unknown,
        },
    });
    let config = spec.config.iter().map(|config| ClaimConfig {
        requests: texts(&config.requests),
        parameters: parameters(config.opaque.as_ref()),
    });
    Ok(ClaimSpec { requests, constraints: constraints.collect(), config: config.collect() })
}

fn request(tables: &mut Tables, request: &api::DeviceRequest) -> Result<Request, String> {
    let name: Arc<str> = request.name.as_str().into();
    let wrong = |reason| format!("spec.devices.requests {:?}: {reason}", request.name);
    let capacity = |requirements: Option<&api::CapacityRequirements>| {
        requirements.map(|it| amounts("capacity.requests", &it.requests)).transpose().map_err(wrong)
    };
    let kind = match &request.exactly {
        Some(exact) => RequestKind::Exactly(DeviceRequest {
            name: Arc::clone(&name),
            class: tables.symbol(&exact.device_class_name),
            selectors: selectors(&exact.selectors),
            mode: mode(&exact.allocation_mode, exact.count),
            admin_access: exact.admin_access == Some(true),
            tolerations: tolerations(&exact.tolerations),
            has_capacity: exact.capacity.is_some(),
            capacity: capacity(exact.capacity.as_ref())?.unwrap_or_default(),
        }),
        None if request.first_available.is_empty() => RequestKind::Unknown,
        None => {
            let alternatives = request.first_available.iter().map(|it| {
                Ok(DeviceRequest {
                    name: it.name.as_str().into(),
                    class: tables.symbol(&it.device_class_name),
                    selectors: selectors(&it.selectors),
                    mode: mode(&it.allocation_mode, it.count),
                    admin_access: false,
                    tolerations: tolerations(&it.tolerations),
                    has_capacity: it.capacity.is_some(),
                    capacity: capacity(it.capacity.as_ref())?.unwrap_or_default(),
                })
            });
            RequestKind::FirstAvailable(alternatives.collect::<Result<_, String>>()?)
        }
    };
    Ok(Request { name, kind })
}

fn mode(mode: &str, count: i64) -> AllocationMode {
    match mode {
        "ExactCount" => AllocationMode::ExactCount(count),
        "All" => AllocationMode::All,
        other => AllocationMode::Unknown(other.into()),
    }
}

fn allocation(allocation: &api::AllocationResult) -> Result<Allocation, String> {
    let results = allocation.devices.results.iter().map(|result| {
        Ok(AllocatedDevice {
            request: result.request.as_str().into(),
            device: device_id(&result.driver, &result.pool, &result.device),
            admin_access: result.admin_access == Some(true),
            tolerations: tolerations(&result.tolerations),
            share: result.share_id.as_deref().map(Into::into),
            consumed: amounts("status.allocation.devices.results", &result.consumed_capacity)?,
            binding_conditions: texts(&result.binding_conditions),
            binding_failure_conditions: texts(&result.binding_failure_conditions),
        })
    });
    let config = allocation.devices.config.iter().map(|config| AllocatedConfig {
        is_from_class: config.source == "FromClass",
        requests: config.requests.iter().map(|name| name.as_str().into()).collect(),
        parameters: parameters(config.opaque.as_ref()),
    });
    Ok(Allocation {
        results: results.collect::<Result<_, String>>()?,
        config: config.collect(),
        node_selector: allocation.node_selector.as_ref().map(super::selectors::as_written),
        allocated_at: allocation.allocation_timestamp.as_ref().map(time),
    })
}

fn device_id(driver: &str, pool: &str, device: &str) -> DeviceId {
    DeviceId { pool: PoolId { driver: driver.into(), name: pool.into() }, device: device.into() }
}

/// Returns the nodes that can use the devices of an allocation; `None` for all.
pub fn nodes_of(tables: &mut Tables, allocation: &Allocation) -> Option<NodeSelector> {
    let requirement = |it: &SelectorRequirement| ApiRequirement {
        key: it.key.to_string(),
        operator: it.operator.to_string(),
        values: (!it.values.is_empty()).then(|| it.values.iter().map(ToString::to_string).collect()),
    };
    let term = |term: &SelectorTerm| NodeSelectorTerm {
        match_expressions: term.expressions.iter().map(requirement).collect(),
        match_fields: term.fields.iter().map(requirement).collect(),
    };
    let terms = allocation.node_selector.as_ref()?.iter().map(term).collect();
    Some(node_selector(tables, &ApiNodeSelector { node_selector_terms: terms }))
}

fn device_status(status: &api::AllocatedDeviceStatus) -> DeviceStatus {
    let conditions = status.conditions.iter().map(|condition| DeviceCondition {
        kind: condition.kind.as_str().into(),
        is_true: condition.status == "True",
        reason: condition.reason.as_str().into(),
        message: condition.message.as_str().into(),
    });
    DeviceStatus {
        device: device_id(&status.driver, &status.pool, &status.device),
        conditions: conditions.collect(),
    }
}

/// Converts `spec.resourceClaims` (upstream `resourceclaim#Name`).
pub(super) fn claims_of_pod(tables: &mut Tables, spec: &PodSpec, status: &PodStatus) -> Box<[PodClaim]> {
    let claims = spec.resource_claims.iter().map(|claim| {
        let source = match (&claim.resource_claim_name, &claim.resource_claim_template_name) {
            (Some(name), _) => PodClaimSource::Named(tables.symbol(name)),
            (None, None) => PodClaimSource::Unknown,
            (None, Some(_)) => {
                let entry = status.resource_claim_statuses.iter().find(|entry| entry.name == claim.name);
                match entry.map(|entry| &entry.resource_claim_name) {
                    None => PodClaimSource::NotCreated,
                    Some(None) => PodClaimSource::NotNeeded,
                    Some(Some(name)) => PodClaimSource::Generated(tables.symbol(name)),
                }
            }
        };
        PodClaim { name: claim.name.as_str().into(), source }
    });
    claims.collect()
}

/// Returns the containers' requests for extended resources (upstream
/// `dynamicresources/extendeddynamicresources.go#createRequestsAndMappings`).
pub(super) fn container_requests(tables: &mut Tables, spec: &PodSpec) -> Box<[ContainerRequest]> {
    let init = spec.init_containers.iter().map(|container| (container, !container.is_restartable()));
    let all = init.chain(spec.containers.iter().map(|container| (container, false)));
    let mut found = Vec::new();
    for (index, (container, is_short_lived)) in (0..).zip(all) {
        let Container { name, resources, .. } = container;
        for (position, (resource, text)) in (0..).zip(&resources.requests) {
            let is_extended = is_extended_resource(resource) || resource.starts_with(CLASS_RESOURCE);
            let Some(count) = whole(text).filter(|count| is_extended && *count != 0) else { continue };
            found.push(ContainerRequest {
                container: index,
                name: name.as_str().into(),
                is_short_lived,
                position,
                resource: tables.symbol(resource),
                count,
            });
        }
    }
    found.into()
}

/// Returns a quantity that is a whole number in the range of i64.
fn whole(text: &QuantityText) -> Option<i64> {
    let quantity = Quantity::parse(text.as_str()).ok()?;
    let value = quantity.value();
    quantity.compare(Quantity::whole(value)).is_eq().then_some(value)
}
