//! Compares our decisions with those recorded in a vector.

use crate::golden::changes::Change;
use crate::golden::world::World;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use supercargo_core::model::emulation::EmulatedVersion;

#[derive(Deserialize)]
pub struct Vector {
    pub scenario: Scenario,
    pub decisions: Vec<Value>,
}

#[derive(Deserialize)]
pub struct Scenario {
    pub name: String,
    pub config: Option<Value>,
    /// The version of kube-scheduler that decides; 1.36 if absent.
    #[serde(rename = "emulatedVersion", default, deserialize_with = "version")]
    pub emulated_version: EmulatedVersion,
    pub objects: Vec<Value>,
    pub pods: Vec<Value>,
    /// Other versions of objects, to which they change and back before each decision. Only the fuzzer draws them.
    #[serde(default)]
    pub detour: Vec<Value>,
    /// Changes of slices, classes and claims between the decisions.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// Whether what a decision allocates is written to the claims before the next decision.
    #[serde(default)]
    pub writes: bool,
}

fn version<'de, D: Deserializer<'de>>(from: D) -> Result<EmulatedVersion, D::Error> {
    let name = String::deserialize(from)?;
    let known = EmulatedVersion::ALL.into_iter().find(|known| known.as_str() == name);
    known.ok_or_else(|| D::Error::custom(format!("no version {name}")))
}

/// Decides on the pods of a vector and appends all differences from the recording.
pub fn compare_vector(vector: &Vector, mismatches: &mut Vec<String>) {
    compare_in(World::new(&vector.scenario), vector, mismatches);
}

/// Does the same in a world of one's own.
pub fn compare_in(mut world: World, vector: &Vector, mismatches: &mut Vec<String>) {
    for (pod, expected) in vector.scenario.pods.iter().zip(&vector.decisions) {
        let got = world.decide(pod);
        let reordered = reorders_pods(&vector.scenario);
        // The vectors of 1.36 list every plugin that scores, also with 0. For other versions, an absent score is 0.
        let differences = if vector.scenario.emulated_version == EmulatedVersion::V1_36 {
            differences(expected, &got, reordered)
        } else {
            differences(&without_zeros(expected), &without_zeros(&got), reordered)
        };
        let place = format!("{} {}", vector.scenario.name, expected["pod"].as_str().unwrap_or("?"));
        mismatches.extend(differences.into_iter().map(|difference| format!("{place}{difference}")));
        // After a different choice, the clusters differ, so later decisions cannot be compared.
        if expected.get("selected") != got.get("selected") {
            mismatches.push(format!("{place}: the rest of the vector was not compared"));
            return;
        }
    }
}

/// Returns the differences of a decision from the recorded one. With `reorders_pods`, pods of the cluster changed
/// before it, so that victims and broken volumes are compared less closely.
pub fn differences(expected: &Value, got: &Value, reorders_pods: bool) -> Vec<String> {
    let mut differences = Vec::new();
    let (expected_way, mut expected_rest) = apart(expected);
    let (got_way, mut got_rest) = apart(got);
    ignore_prose(&mut expected_rest);
    ignore_prose(&mut got_rest);
    accept_any_message(&mut expected_rest, &got_rest);
    if reorders_pods {
        accept_any_volume(&mut expected_rest, &got_rest);
    }
    diff("", &expected_rest, &got_rest, &mut differences);
    diff_post_filter(&expected_way, &got_way, reorders_pods, &mut differences);
    differences
}

/// Accepts an error of NodeVolumeLimits about any volume. It names the first broken one of the pods on a node.
fn accept_any_volume(expected: &mut Value, got: &Value) {
    let is_of_volume = |decision: &Value| {
        let message = decision["message"].as_str();
        message.is_some_and(|text| text.starts_with("running \"NodeVolumeLimits\" filter plugin: "))
    };
    if is_of_volume(expected) && is_of_volume(got) {
        expected["message"] = got["message"].clone();
    }
}

/// Returns a decision without scores of 0.
pub fn without_zeros(decision: &Value) -> Value {
    let mut decision = decision.clone();
    for scores in decision["scores"].as_object_mut().into_iter().flat_map(|nodes| nodes.values_mut()) {
        let scores = scores.as_object_mut().expect("scores of a node by plugin");
        scores.retain(|_, score| *score != 0);
    }
    decision
}

/// Result of PostFilter.
#[derive(Default)]
struct PostFilter {
    /// What it adds to the message, possibly nothing; `None` in vectors that do not record it.
    text: Option<Value>,
    preemption: Value,
}

/// Splits a decision into the result of PostFilter and the rest.
fn apart(decision: &Value) -> (PostFilter, Value) {
    let mut rest = decision.clone();
    let fields = rest.as_object_mut().expect("a decision is an object");
    let preemption = fields.remove("preemption").unwrap_or_default();
    (PostFilter { text: fields.remove("postFilter"), preemption }, rest)
}

/// What stands before the text of the CEL compiler, which is not compared.
const COMPILE_ERROR: &str = "CEL compile error: ";

/// How an error of a dry run begins.
const FILTER_ERROR: &str = "running \"DynamicResources\" filter plugin: ";

/// Returns the errors of dry runs in order, up to what the CEL compiler says.
fn parts(text: &Value) -> Vec<&str> {
    let text = text.as_str().unwrap_or_default();
    let text = &text[..text.find(COMPILE_ERROR).unwrap_or(text.len())];
    let mut parts: Vec<&str> = text.split(", ").map(plain_part).collect();
    parts.sort_unstable();
    parts
}

/// Returns one of several errors without its brackets.
fn plain_part(part: &str) -> &str {
    part.strip_prefix("preemption: ").unwrap_or(part).trim_matches(['[', ']'])
}

/// Cuts off what the CEL compiler says.
fn ignore_prose(decision: &mut Value) {
    let cut = |text: &mut Value| {
        let end = text.as_str().and_then(|text| Some(text.find(COMPILE_ERROR)? + COMPILE_ERROR.len()));
        if let (Some(end), Some(known)) = (end, text.as_str()) {
            *text = known[..end].into();
        }
    };
    cut(&mut decision["message"]);
    decision["messages"].as_array_mut().into_iter().flatten().for_each(cut);
}

/// Takes ours of the messages, if nodes fail with different errors.
fn accept_any_message(expected: &mut Value, got: &Value) {
    let fields = expected.as_object_mut().expect("a decision is an object");
    let messages = fields.remove("messages").unwrap_or_default();
    if messages.as_array().is_some_and(|messages| messages.contains(&got["message"])) {
        fields.insert("message".into(), got["message"].clone());
    }
}

/// Whether the detour takes pods off their nodes. They return to the end of a node's list, and the order of the list
/// decides between equally important victims, here and upstream.
fn reorders_pods(scenario: &Scenario) -> bool {
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    let mut changed = scenario.detour.iter().filter(|other| other["kind"] == "Pod");
    changed.any(|other| scenario.objects.iter().any(|own| uid(own) == uid(other)))
}

fn placement(node: &str) -> String {
    format!("found a potential placement for pod on node {node}, ")
}

/// Upstream picks any of several equally good nodes, and a vector records those seen in some runs. Each of them must
/// be one of ours, with the same victims unless pods were `reordered`. If none is recorded, we must have none.
fn diff_post_filter(expected: &PostFilter, got: &PostFilter, reordered: bool, differences: &mut Vec<String>) {
    let empty = Value::from("");
    let among_ours = match (&expected.preemption, &got.preemption) {
        (Value::Object(_), Value::Object(_)) if reordered => true,
        (Value::Object(expected), Value::Object(got)) => {
            expected.iter().all(|(node, victims)| got.get(node) == Some(victims))
        }
        (expected, got) => expected == got,
    };
    if !among_ours {
        let (expected, got) = (&expected.preemption, &got.preemption);
        differences.push(format!(" / preemption: expected {expected}, got any of {got}"));
    }
    // The text names the node. If several are equally good, any of them is right.
    let any_of_ours = |text: &Value| {
        let nodes = got.preemption.as_object().into_iter().flat_map(Map::keys);
        let among: Vec<String> = nodes.map(|node| placement(node)).collect();
        let rest = |text: &Value| {
            let text = text.as_str()?;
            let start = among.iter().find(|start| text.contains(*start))?;
            let rest = text.replacen(start, "", 1);
            Some(if reordered { rest.replace(|digit: char| digit.is_ascii_digit(), "") } else { rest })
        };
        (reordered || among.len() > 1)
            && rest(text).is_some()
            && rest(text) == got.text.as_ref().and_then(rest)
    };
    if let Some(text) = expected.text.as_ref().filter(|text| !any_of_ours(text)) {
        let got = got.text.as_ref().unwrap_or(&empty);
        // Dry runs start at a random node, so their errors are in any order.
        let is_error = text.as_str().is_some_and(|text| text.contains(FILTER_ERROR));
        if !is_error || parts(text) != parts(got) {
            diff(" / postFilter", text, got, differences);
        }
    }
}

fn diff(path: &str, expected: &Value, got: &Value, differences: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(e), Value::Object(g)) => {
            let keys: BTreeSet<_> = e.keys().chain(g.keys()).collect();
            for key in keys {
                let of = |side: &Map<String, Value>| side.get(key).cloned().unwrap_or(Value::Null);
                diff(&format!("{path} / {key}"), &of(e), &of(g), differences);
            }
        }
        _ if expected != got => differences.push(format!("{path}: expected {expected}, got {got}")),
        _ => {}
    }
}
