//! The extender API in JSON (upstream: `kube-scheduler/extender/v1/types.go`), with Go's field names, which
//! Go reads case-insensitively.
//!
//! Pods and nodes are sent as the API server wrote them. Responses are decoded only as far as the engine
//! needs.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use supercargo_core::model::extender::{CandidateAnswer, FilterAnswer};

/// `ExtenderArgs`, for `filter` and `prioritize`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Args<'a> {
    pub(super) pod: &'a RawValue,
    /// Set without `nodeCacheCapable`.
    pub(super) nodes: Option<NodeList<'a>>,
    /// Set with `nodeCacheCapable`.
    pub(super) node_names: Option<&'a [String]>,
}

/// A `NodeList` without type information, as Go writes it.
#[derive(Serialize)]
pub(super) struct NodeList<'a> {
    pub(super) metadata: Empty,
    pub(super) items: Vec<&'a RawValue>,
}

/// The empty object `{}`.
#[derive(Serialize)]
pub(super) struct Empty {}

/// `ExtenderPreemptionArgs`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PreemptionArgs<'a> {
    pub(super) pod: &'a RawValue,
    /// Set without `nodeCacheCapable`.
    pub(super) node_name_to_victims: Option<BTreeMap<&'a str, Victims<&'a RawValue>>>,
    /// Set with `nodeCacheCapable`.
    pub(super) node_name_to_meta_victims: Option<BTreeMap<&'a str, Victims<MetaPod<'a>>>>,
}

/// `Victims` and `MetaVictims`.
#[derive(Serialize)]
pub(super) struct Victims<P> {
    #[serde(rename = "Pods")]
    pub(super) pods: Vec<P>,
    #[serde(rename = "NumPDBViolations")]
    pub(super) violations: usize,
}

/// `MetaPod`.
#[derive(Serialize)]
pub(super) struct MetaPod<'a> {
    #[serde(rename = "UID")]
    pub(super) uid: &'a str,
}

/// `ExtenderBindingArgs`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct BindingArgs<'a> {
    pub(super) pod_name: &'a str,
    pub(super) pod_namespace: &'a str,
    #[serde(rename = "PodUID")]
    pub(super) pod_uid: &'a str,
    pub(super) node: &'a str,
}

/// Returns the first JSON value of a response, as Go's decoder does.
fn first_value(body: &[u8]) -> Result<Value, String> {
    match serde_json::Deserializer::from_slice(body).into_iter::<Value>().next() {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) if error.is_eof() => Err("unexpected EOF".to_owned()),
        Some(Err(error)) => Err(format!("the response is not JSON: {error}")),
        None => Err("EOF".to_owned()),
    }
}

/// Returns the fields of an object; null counts as an empty one.
fn object(value: Value, what: &str) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        other => Err(wrong(what, "an object", &other)),
    }
}

fn list(value: Value, what: &str) -> Result<Vec<Value>, String> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Null => Ok(Vec::new()),
        other => Err(wrong(what, "an array", &other)),
    }
}

fn text(value: Value, what: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Null => Ok(String::new()),
        other => Err(wrong(what, "a string", &other)),
    }
}

fn number(value: &Value, what: &str) -> Result<i64, String> {
    match value {
        Value::Null => Ok(0),
        other => other.as_i64().ok_or_else(|| wrong(what, "an integer", other)),
    }
}

fn wrong(what: &str, wanted: &str, found: &Value) -> String {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    format!("the response's {what} is {found}; expected {wanted}")
}

/// Removes and returns a field, matching its name case-insensitively; null if missing.
fn take(fields: &mut Map<String, Value>, name: &str) -> Value {
    let exact = fields.remove(name);
    let key = || fields.keys().find(|key| key.eq_ignore_ascii_case(name)).cloned();
    match exact {
        Some(value) => value,
        None => key().and_then(|key| fields.remove(&key)).unwrap_or(Value::Null),
    }
}

/// Returns the `Error` field as an error unless it is empty.
fn reported_error(fields: &mut Map<String, Value>) -> Result<(), String> {
    let error = text(take(fields, "Error"), "Error")?;
    if error.is_empty() { Ok(()) } else { Err(error) }
}

/// Decodes an `ExtenderFilterResult`. An extender with `nodeCacheCapable` may return names or nodes. Without it,
/// names are ignored. A response with neither passes no node.
pub(super) fn filter_result(body: &[u8], caches_nodes: bool) -> Result<FilterAnswer, String> {
    let mut fields = object(first_value(body)?, "filter result")?;
    reported_error(&mut fields)?;
    let names = Some(take(&mut fields, "NodeNames")).filter(|names| caches_nodes && !names.is_null());
    let passed = match names {
        Some(names) => list(names, "NodeNames")?
            .into_iter()
            .map(|name| text(name, "NodeNames"))
            .collect::<Result<_, _>>()?,
        None => {
            let mut nodes = object(take(&mut fields, "Nodes"), "Nodes")?;
            let items = list(take(&mut nodes, "items"), "Nodes")?.into_iter();
            items.map(node_name).collect::<Result<_, _>>()?
        }
    };
    let mut reasons = |name: &str| {
        let reasons = object(take(&mut fields, name), name)?.into_iter();
        reasons.map(|(node, why)| Ok((node, text(why, name)?))).collect::<Result<Vec<_>, String>>()
    };
    Ok(FilterAnswer {
        passed,
        failed: reasons("FailedNodes")?,
        unresolvable: reasons("FailedAndUnresolvableNodes")?,
    })
}

fn node_name(node: Value) -> Result<String, String> {
    let mut node = object(node, "Nodes")?;
    let mut metadata = object(take(&mut node, "metadata"), "Nodes")?;
    text(take(&mut metadata, "name"), "Nodes")
}

/// Decodes a `HostPriorityList`.
pub(super) fn priorities(body: &[u8]) -> Result<Vec<(String, i64)>, String> {
    let entry = |entry: Value| {
        let mut entry = object(entry, "list of priorities")?;
        let host = text(take(&mut entry, "Host"), "Host")?;
        Ok((host, number(&take(&mut entry, "Score"), "Score")?))
    };
    list(first_value(body)?, "list of priorities")?.into_iter().map(entry).collect()
}

/// Decodes an `ExtenderPreemptionResult`.
pub(super) fn preemption_result(body: &[u8]) -> Result<Vec<CandidateAnswer>, String> {
    const WHAT: &str = "NodeNameToMetaVictims";
    let mut fields = object(first_value(body)?, "preemption result")?;
    let room = |(node, victims): (String, Value)| {
        let mut victims = object(victims, WHAT)?;
        let violations = number(&take(&mut victims, "NumPDBViolations"), "NumPDBViolations")?;
        let pods = list(take(&mut victims, "Pods"), "Pods")?.into_iter();
        let uid = |pod: Value| text(take(&mut object(pod, "Pods")?, "UID"), "UID");
        Ok(CandidateAnswer { node, victims: pods.map(uid).collect::<Result<_, String>>()?, violations })
    };
    object(take(&mut fields, WHAT), WHAT)?.into_iter().map(room).collect()
}

/// Decodes an `ExtenderBindingResult`.
pub(super) fn binding_result(body: &[u8]) -> Result<(), String> {
    reported_error(&mut object(first_value(body)?, "binding result")?)
}
