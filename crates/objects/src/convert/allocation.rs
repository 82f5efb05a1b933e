//! The API's JSON of a claim's allocation.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use supercargo_core::model::device::{
    AllocatedConfig, AllocatedDevice, Allocation, AllocationMode, DeviceToleration, Request, RequestKind,
    ResourceClaim, SelectorRequirement, SelectorTerm,
};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::time::Time;
use supercargo_core::model::volume::Reservation;

/// Returns `status.allocation` of a claim as JSON.
///
/// Numbers in configurations lose the digits that f64 does not hold; [`ApiAllocation`] writes all.
pub fn allocation_json(allocation: &Allocation) -> Value {
    serde_json::to_value(ApiAllocation { allocation, allocated_at: allocation.allocated_at })
        .expect("texts, numbers and valid JSON can be written")
}

/// Returns the claims that a decision allocates, in the form of recorded decisions: `claim`, `allocation`, and for a
/// claim for extended resources `requests` and `requestMappings`. Ids of shares read `random`.
pub fn claims_json(tables: &Tables, reservations: &[Reservation]) -> Vec<Value> {
    let key = |claim: &ResourceClaim| format!("{}/{}", tables.text(claim.namespace), tables.text(claim.name));
    let entry = |claim: &ResourceClaim, allocation: &Allocation| {
        let mut allocation = allocation_json(allocation);
        let results = allocation.pointer_mut("/devices/results").and_then(Value::as_array_mut);
        for result in results.into_iter().flatten() {
            if let Some(share) = result.get_mut("shareID") {
                *share = "random".into();
            }
        }
        json!({ "claim": key(claim), "allocation": allocation })
    };
    let of = |reservation: &Reservation| match reservation {
        Reservation::Allocate { claim, allocation } => Some(entry(claim, allocation)),
        Reservation::Create { claim, allocation, mappings } => {
            let mut entry = entry(claim, allocation);
            let requests: Vec<Value> =
                claim.spec.requests.iter().filter_map(|it| made_request(tables, it)).collect();
            let mappings: Vec<Value> = mappings
                .iter()
                .map(|it| {
                    json!({
                        "containerName": it.container,
                        "resourceName": tables.text(it.resource),
                        "requestName": &*it.request,
                    })
                })
                .collect();
            if !requests.is_empty() {
                entry["requests"] = requests.into();
                entry["requestMappings"] = mappings.into();
            }
            Some(entry)
        }
        Reservation::Bind { .. } | Reservation::Provision { .. } | Reservation::Share { .. } => None,
    };
    reservations.iter().filter_map(of).collect()
}

/// Returns a request of a claim for extended resources.
fn made_request(tables: &Tables, request: &Request) -> Option<Value> {
    let RequestKind::Exactly(exactly) = &request.kind else { return None };
    let AllocationMode::ExactCount(count) = exactly.mode else { return None };
    let exactly = json!({
        "deviceClassName": tables.text(exactly.class),
        "allocationMode": "ExactCount",
        "count": count,
    });
    Some(json!({ "name": &*request.name, "exactly": exactly }))
}

/// `status.allocation` of a claim, to be written.
#[derive(Clone, Copy, Debug)]
pub struct ApiAllocation<'a> {
    /// The allocation.
    pub allocation: &'a Allocation,
    /// `allocationTimestamp`; whole seconds are written.
    pub allocated_at: Option<Time>,
}

impl Serialize for ApiAllocation<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        if let Some(at) = self.allocated_at {
            map.serialize_entry("allocationTimestamp", &timestamp(at))?;
        }
        map.serialize_entry("devices", &Devices(self.allocation))?;
        if let Some(terms) = &self.allocation.node_selector {
            let terms: Vec<Value> = terms.iter().map(term).collect();
            map.serialize_entry("nodeSelector", &json!({ "nodeSelectorTerms": terms }))?;
        }
        map.end()
    }
}

/// Formats a time as the API does, in whole seconds.
fn timestamp(at: Time) -> String {
    let seconds = i64::try_from(at.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
}

struct Devices<'a>(&'a Allocation);

impl Serialize for Devices<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        if !self.0.results.is_empty() {
            map.serialize_entry("results", &self.0.results.iter().map(result).collect::<Vec<_>>())?;
        }
        if !self.0.config.is_empty() {
            map.serialize_entry("config", &self.0.config.iter().map(Config).collect::<Vec<_>>())?;
        }
        map.end()
    }
}

fn result(result: &AllocatedDevice) -> Value {
    let mut written = json!({
        "request": *result.request,
        "driver": *result.device.pool.driver,
        "pool": *result.device.pool.name,
        "device": *result.device.device,
    });
    if result.admin_access {
        written["adminAccess"] = true.into();
    }
    if !result.tolerations.is_empty() {
        written["tolerations"] = result.tolerations.iter().map(toleration).collect();
    }
    if let Some(share) = &result.share {
        written["shareID"] = json!(**share);
    }
    if !result.consumed.is_empty() {
        let amounts =
            result.consumed.iter().map(|(name, amount)| (name.to_string(), amount.to_string().into()));
        written["consumedCapacity"] = Value::Object(amounts.collect());
    }
    let lists = [
        ("bindingConditions", &result.binding_conditions),
        ("bindingFailureConditions", &result.binding_failure_conditions),
    ];
    for (field, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        written[field] = list.iter().map(|text| Value::from(&**text)).collect();
    }
    written
}

fn toleration(toleration: &DeviceToleration) -> Value {
    let DeviceToleration { key, operator, value, effect, seconds } = toleration;
    let mut written = json!({});
    let texts = [("key", key), ("operator", operator), ("value", value), ("effect", effect)];
    for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        written[field] = json!(**text);
    }
    if let Some(seconds) = seconds {
        written["tolerationSeconds"] = (*seconds).into();
    }
    written
}

struct Config<'a>(&'a AllocatedConfig);

impl Serialize for Config<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("source", if self.0.is_from_class { "FromClass" } else { "FromClaim" })?;
        if !self.0.requests.is_empty() {
            map.serialize_entry("requests", &self.0.requests.iter().map(|name| &**name).collect::<Vec<_>>())?;
        }
        let parameters: BTreeMap<&str, &RawValue> =
            serde_json::from_str(&self.0.parameters).map_err(serde::ser::Error::custom)?;
        for (field, value) in parameters {
            map.serialize_entry(field, value)?;
        }
        map.end()
    }
}

fn term(term: &SelectorTerm) -> Value {
    let mut written = json!({});
    let lists = [("matchExpressions", &term.expressions), ("matchFields", &term.fields)];
    for (field, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        written[field] = list.iter().map(requirement).collect();
    }
    written
}

fn requirement(requirement: &SelectorRequirement) -> Value {
    let mut written = json!({"key": *requirement.key, "operator": *requirement.operator});
    if !requirement.values.is_empty() {
        written["values"] = requirement.values.iter().map(|value| Value::from(&**value)).collect();
    }
    written
}
