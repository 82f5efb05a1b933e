//! Defaults of `spec.resources`, the pod-level resources.
//!
//! Upstream: `pkg/apis/core/v1/defaults.go#defaultPodRequests`, `component-helpers/resource/helpers.go`.

use crate::load::files::text_at;
use crate::prepare::complete::pod::CONTAINERS;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use supercargo_objects::convert::quantity::Quantity;

const HUGEPAGES: &str = "hugepages-";

type Amounts = BTreeMap<String, Quantity>;

/// Sets missing pod-level requests to the sum over the containers, else to the pod-level limits.
///
/// Pod-level resources support cpu, memory and huge pages.
pub(super) fn default_requests(spec: &mut Map<String, Value>) {
    let (limits, requests) = (pod_level(spec, "limits"), pod_level(spec, "requests"));
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    let mut new_limits = limits;
    for (name, amount) in aggregate(spec, "limits") {
        if name.starts_with(HUGEPAGES) && !requests.contains_key(&name) {
            new_limits.entry(name).or_insert_with(|| written(amount));
        }
    }
    let mut new_requests = requests;
    if !new_limits.is_empty() {
        for (name, amount) in aggregate(spec, "requests") {
            if matches!(name.as_str(), "cpu" | "memory") {
                new_requests.entry(name).or_insert_with(|| written(amount));
            }
        }
        for (name, amount) in &new_limits {
            if matches!(name.as_str(), "cpu" | "memory") || name.starts_with(HUGEPAGES) {
                new_requests.entry(name).or_insert_with(|| amount.clone());
            }
        }
    }
    let Some(resources) = spec.get_mut("resources").and_then(Value::as_object_mut) else { return };
    for (field, amounts) in [("limits", new_limits), ("requests", new_requests)] {
        if !amounts.is_empty() {
            resources.insert(field.to_owned(), Value::Object(amounts));
        }
    }
}

fn pod_level(spec: &Map<String, Value>, field: &str) -> Map<String, Value> {
    let resources = spec.get("resources").and_then(|resources| resources.get(field));
    resources.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Returns the highest total of all containers at any time: regular containers and sidecars, or an init container
/// with the sidecars started before it. Invalid quantities are skipped; loading the pod reports them.
fn aggregate(spec: &Map<String, Value>, field: &str) -> Amounts {
    let of = |list: &str| spec.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
    let [regular, init] = CONTAINERS.map(of);
    let mut total = Amounts::new();
    for container in &regular {
        add(&mut total, &amounts(container, field));
    }
    let (mut sidecars, mut highest) = (Amounts::new(), Amounts::new());
    for container in &init {
        let mut own = amounts(container, field);
        if text_at(container, "/restartPolicy") == "Always" {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            own = sidecars.clone();
        } else {
            add(&mut own, &sidecars);
        }
        raise(&mut highest, own);
    }
    raise(&mut total, highest);
    total
}

fn amounts(container: &Value, field: &str) -> Amounts {
    let list =
        container.get("resources").and_then(|resources| resources.get(field)).and_then(Value::as_object);
    let read = |(name, amount): (&String, &Value)| {
        let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        Some((name.clone(), Quantity::parse(text.trim()).ok()?))
    };
    list.into_iter().flatten().filter_map(read).collect()
}

fn add(amounts: &mut Amounts, more: &Amounts) {
    for (name, &amount) in more {
        let sum = amounts.get(name).map_or(amount, |so_far| so_far.plus(amount));
        amounts.insert(name.clone(), sum);
    }
}

fn raise(amounts: &mut Amounts, to: Amounts) {
    for (name, amount) in to {
        if amounts.get(&name).is_none_or(|so_far| amount.compare(*so_far) == Ordering::Greater) {
            amounts.insert(name, amount);
        }
    }
}

/// Formats a quantity in thousandths, to which the API server rounds, or in units if thousandths overflow.
fn written(amount: Quantity) -> Value {
    match amount.clamped_milli_value() {
        i64::MAX | i64::MIN => amount.clamped_value().to_string().into(),
        milli => format!("{milli}m").into(),
    }
}
