//! Evaluates whether a ResourceQuota admits one more pod of a spec.
//!
//! Upstream: `pkg/quota/v1/evaluator/core/pods.go`. Covers cpu, memory and the number of pods.

use crate::commands::doctor::facts::text;
use serde_json::Value;
use std::cmp::Ordering;
use supercargo_objects::convert::quantity::Quantity;

/// Returns whether a quota's scopes include pods of this spec.
pub(super) fn is_about(quota: &Value, spec: &Value) -> bool {
    let scopes = quota["spec"]["scopes"].as_array().into_iter().flatten();
    let of_selector = quota["spec"]["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten();
    scopes.filter_map(Value::as_str).all(|scope| meets(scope, "Exists", &[], spec))
        && of_selector.into_iter().all(|it| {
            let values: Vec<&str> =
                it["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            meets(text(it, "/scopeName"), text(it, "/operator"), &values, spec)
        })
}

fn meets(scope: &str, operator: &str, values: &[&str], spec: &Value) -> bool {
    let is_best_effort = || {
        containers(spec)
            .all(|it| it["resources"]["requests"].is_null() && it["resources"]["limits"].is_null())
    };
    let is_terminating = || spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    match scope {
        "BestEffort" => is_best_effort(),
        "NotBestEffort" => !is_best_effort(),
        "Terminating" => is_terminating(),
        "NotTerminating" => !is_terminating(),
        "PriorityClass" => {
            let class = text(spec, "/priorityClassName");
            match operator {
                "In" => !class.is_empty() && values.contains(&class),
                "NotIn" => class.is_empty() || !values.contains(&class),
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        // CrossNamespacePodAffinity never applies to supercargo's pods; unknown scopes are assumed not to.
        _ => false,
    }
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    spec["containers"].as_array().into_iter().flatten()
}

/// Returns the field (`requests` or `limits`) and the name under which a container sets a quota's resource.
fn container_field(resource: &str) -> Option<(&'static str, &'static str)> {
    match resource {
        "cpu" | "requests.cpu" => Some(("requests", "cpu")),
        "memory" | "requests.memory" => Some(("requests", "memory")),
        "limits.cpu" => Some(("limits", "cpu")),
        "limits.memory" => Some(("limits", "memory")),
        _ => None,
    }
}

/// Returns the amount a container sets. As on the API server, a limit is the default of a missing request.
fn amount<'v>(container: &'v Value, (of, name): (&str, &str)) -> Option<&'v Value> {
    let resources = &container["resources"];
    let field = |of: &str| resources[of].get(name).filter(|amount| !amount.is_null());
    field(of).or_else(|| field("limits").filter(|_| of == "requests"))
}

fn hard(quota: &Value) -> impl Iterator<Item = (&String, &Value)> {
    quota["spec"]["hard"].as_object().into_iter().flatten()
}

/// Returns the resources that the quota limits and a container does not set.
pub(super) fn unsaid<'v>(quota: &'v Value, spec: &'v Value) -> impl Iterator<Item = &'v str> {
    hard(quota).map(|(resource, _)| resource.as_str()).filter(|resource| {
        container_field(resource)
            .is_some_and(|where_| containers(spec).any(|it| amount(it, where_).is_none()))
    })
}

/// Returns a text for each resource of which the quota has too little left for one more pod.
pub(super) fn exhausted<'v>(quota: &'v Value, spec: &'v Value) -> impl Iterator<Item = String> + 'v {
    hard(quota).filter_map(|(resource, hard)| {
        let more = match (resource.as_str(), container_field(resource)) {
            ("pods" | "count/pods", _) => Quantity::whole(1),
            (_, Some(of)) => containers(spec)
                .filter_map(|it| quantity(amount(it, of)?))
                .fold(Quantity::default(), Quantity::plus),
            _ => return None,
        };
        let used = &quota["status"]["used"][resource];
        let after = quantity(used).unwrap_or_default().plus(more);
        let is_too_much = after.compare(quantity(hard)?) == Ordering::Greater;
        let used = used.as_str().unwrap_or("0");
        is_too_much.then(|| format!("{used} of {} {resource} are used", hard.as_str().unwrap_or_default()))
    })
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}
