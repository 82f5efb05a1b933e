//! Golden vectors: what the real kube-scheduler said of small clusters, and that we say the same in every field.
//!
//! Vectors are in `golden/`, one JSON object a line; `golden/README.md` tells what they hold and which are left out.
//! Objects come in through the types and conversions that production uses. What preemption does is not compared here.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use supercargo::api::{Object, Pod};
use supercargo::convert::{self, lookups};
use supercargo_core::cache::{Cache, PodState, Snapshot};
use supercargo_core::cycle::{Decision, Feasible, Filtered, Framework, NoProbe, Options};
use supercargo_core::framework::CycleError;
use supercargo_core::intern::{Symbol, Tables};
use supercargo_core::pod::{ControllerKind, PodInfo};

/// How many vectors there are, so that none is lost unseen.
const VECTORS: usize = 126 + 122;

/// Kinds that stand in vectors and have no part in what is compared here.
const WITHOUT_PART: &[&str] = &["PodDisruptionBudget"];

#[derive(Deserialize)]
struct Vector {
    scenario: Scenario,
    decisions: Vec<Value>,
}

#[derive(Deserialize)]
struct Scenario {
    name: String,
    objects: Vec<Value>,
    pods: Vec<Value>,
}

#[test]
fn every_decision_is_the_one_kube_scheduler_made_in_every_field() {
    let vectors = vectors();
    assert_eq!(vectors.len(), VECTORS, "the number of vectors");
    let mut decisions = 0;
    let mut mismatches = Vec::new();
    for vector in vectors {
        assert_eq!(vector.scenario.pods.len(), vector.decisions.len(), "{}", vector.scenario.name);
        decisions += vector.decisions.len();
        compare_vector(&vector, &mut mismatches);
    }
    println!("{VECTORS} vectors, {decisions} decisions");
    let shown: Vec<_> = mismatches.iter().take(100).map(String::as_str).collect();
    assert!(
        mismatches.is_empty(),
        "{} mismatches, the first of them:\n{}",
        mismatches.len(),
        shown.join("\n")
    );
}

fn vectors() -> Vec<Vector> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(&folder)
        .expect("the folder is here")
        .map(|entry| entry.expect("it can be listed").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "jsonl")).collect();
    files.sort();
    let text: String =
        files.iter().map(|path| std::fs::read_to_string(path).expect("a vector is text")).collect();
    text.lines().map(|line| serde_json::from_str(line).expect("a line is a vector")).collect()
}

fn compare_vector(vector: &Vector, mismatches: &mut Vec<String>) {
    let mut world = World::new(&vector.scenario);
    for (pod, expected) in vector.scenario.pods.iter().zip(&vector.decisions) {
        let got = world.decide(pod);
        let mut differences = Vec::new();
        diff("", &comparable(expected), &got, &mut differences);
        let place = format!("{} {}", vector.scenario.name, expected["pod"].as_str().unwrap_or("?"));
        mismatches.extend(differences.into_iter().map(|difference| format!("{place}{difference}")));
        // Where the choice differs, each side would go on from another cluster.
        if expected.get("selected") != got.get("selected") {
            mismatches.push(format!("{place}: the rest of the vector is not compared"));
            return;
        }
    }
}

/// The recorded decision without what is not compared: preemption, and the plugin that scores nothing without claims.
fn comparable(expected: &Value) -> Value {
    let mut expected = expected.clone();
    let fields = expected.as_object_mut().expect("a decision is an object");
    fields.remove("preemption");
    for scores in
        fields.get_mut("scores").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
    {
        let unscored = scores.as_object_mut().expect("scores are by plugin").remove("DynamicResources");
        assert!(unscored.is_none_or(|score| score == 0), "no vector here has a claim");
    }
    expected
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

/// A cluster and the default plugins.
struct World {
    tables: Tables,
    cache: Cache,
    framework: Framework,
}

impl World {
    fn new(scenario: &Scenario) -> Self {
        let mut world =
            Self { tables: Tables::new(), cache: Cache::default(), framework: Framework::default() };
        for object in &scenario.objects {
            match Object::from_value(object.clone()) {
                Ok(object) => world.apply(&object),
                Err(other) => assert!(WITHOUT_PART.contains(&other.kind.as_str()), "{other}"),
            }
        }
        // The pods to place are in the cluster too, pending, from the beginning.
        for pod in &scenario.pods {
            let pod = Arc::new(world.pod(&decode(pod)));
            world.cache.nominate(&pod, pod.nominated_node);
        }
        world
    }

    fn apply(&mut self, object: &Object) {
        let Self { tables, cache, .. } = self;
        match object {
            Object::Node(node) => {
                cache.apply_node(&Arc::new(
                    convert::node(tables, node).expect("no vector has a malformed object"),
                ));
            }
            Object::Pod(pod) if pod.has_ended() => {}
            Object::Pod(pod) => {
                let pod = Arc::new(self.pod(pod));
                match pod.node_name {
                    Some(node) => self.cache.place(&pod, node, PodState::Added),
                    None => self.cache.nominate(&pod, pod.nominated_node),
                }
            }
            Object::Namespace(namespace) => {
                let (name, labels) =
                    convert::namespace(tables, namespace).expect("no vector has a malformed object");
                cache.lookups_mut().set_namespace(name, labels);
            }
            Object::Service(service) => {
                let selector = lookups::service(tables, service).expect("no vector has a malformed object");
                let (namespace, name) = (tables.symbol(service.namespace()), tables.symbol(service.name()));
                cache.lookups_mut().set_service(namespace, name, selector);
            }
            Object::ReplicationController(object) => {
                let demands = lookups::replication_controller(tables, object)
                    .expect("no vector has a malformed object");
                let (namespace, name) = (tables.symbol(object.namespace()), tables.symbol(object.name()));
                let kind = ControllerKind::ReplicationController;
                cache.lookups_mut().set_controller(kind, namespace, name, demands);
            }
            Object::ReplicaSet(object) => {
                let demands = lookups::replica_set(tables, object).expect("no vector has a malformed object");
                let (namespace, name) = (tables.symbol(object.namespace()), tables.symbol(object.name()));
                cache.lookups_mut().set_controller(ControllerKind::ReplicaSet, namespace, name, demands);
            }
            Object::StatefulSet(object) => {
                let demands =
                    lookups::stateful_set(tables, object).expect("no vector has a malformed object");
                let (namespace, name) = (tables.symbol(object.namespace()), tables.symbol(object.name()));
                cache.lookups_mut().set_controller(ControllerKind::StatefulSet, namespace, name, demands);
            }
        }
    }

    fn pod(&mut self, pod: &Pod) -> PodInfo {
        convert::pod(&mut self.tables, pod).expect("no vector has a malformed object")
    }

    /// Decides on a pod, counts it where it goes, and tells all of it in the form of the vectors.
    fn decide(&mut self, pod: &Value) -> Value {
        let pod = Arc::new(self.pod(&decode(pod)));
        self.cache.refresh();
        let snapshot = self.cache.snapshot(&self.tables);
        let options = Options { always_score: true, ignore_own_nomination: true };
        let decision = self.framework.decide(&pod, snapshot, options, &mut NoProbe);
        let mut told = json!({ "pod": snapshot.pod_key(&pod) });
        let fields = told.as_object_mut().expect("it was made an object");
        let mut selected = None;
        match decision {
            Err(CycleError(text)) => tell_error(fields, &text),
            Ok(Decision::Infeasible(filtered)) => {
                tell_filters(fields, &filtered, snapshot);
                fields.insert("message".into(), filtered.diagnose(snapshot).message.into());
            }
            Ok(Decision::Feasible(feasible)) => {
                tell_filters(fields, &feasible.filtered, snapshot);
                selected = Some(tell_scores(fields, &feasible, snapshot));
            }
        }
        if let Some(node) = selected {
            self.cache.place(&pod, node, PodState::Assumed);
        }
        told
    }
}

fn decode(pod: &Value) -> Pod {
    serde_json::from_value(pod.clone()).expect("any JSON is read")
}

/// An error of a plugin's PreFilter has the plugin's own entry; one of a Filter has only its text.
fn tell_error(fields: &mut Map<String, Value>, text: &str) {
    if let Some((plugin, _)) =
        text.strip_prefix("running PreFilter plugin \"").and_then(|t| t.split_once('"'))
    {
        let entry = json!({ "plugin": plugin, "code": "Error", "reasons": [text] });
        fields.insert("preFilter".into(), entry);
    }
    fields.insert("message".into(), text.into());
}

fn tell_filters(fields: &mut Map<String, Value>, filtered: &Filtered, snapshot: Snapshot<'_>) {
    let rejection = |plugin: &str, code: &str, reasons: &[supercargo_core::framework::Reason]| {
        let mut reasons: Vec<_> = reasons.iter().map(AsRef::<str>::as_ref).collect();
        reasons.sort_unstable();
        json!({ "plugin": plugin, "code": code, "reasons": reasons })
    };
    if let Some((plugin, status)) = filtered.prefilter_rejection() {
        fields.insert("preFilter".into(), rejection(plugin, status.code.as_str(), &status.reasons));
        return;
    }
    let verdicts = filtered.verdicts(snapshot);
    let rejected: Map<_, _> = verdicts
        .iter()
        .map(|verdict| {
            let name = snapshot.text(snapshot.node_info(verdict.node).name).to_owned();
            (name, rejection(verdict.plugin, verdict.code.as_str(), &verdict.reasons))
        })
        .collect();
    if !rejected.is_empty() {
        fields.insert("rejected".into(), rejected.into());
    }
    let mut feasible: Vec<_> =
        filtered.feasible().iter().map(|node| snapshot.text(snapshot.node_info(node).name)).collect();
    feasible.sort_unstable();
    if !feasible.is_empty() {
        fields.insert("feasible".into(), feasible.into());
    }
}

/// Tells scores, totals and the choice; the choice: of the best nodes the one with the smallest name.
fn tell_scores(fields: &mut Map<String, Value>, feasible: &Feasible, snapshot: Snapshot<'_>) -> Symbol {
    let all = feasible.scores.as_ref().expect("scores were asked for");
    let name = |node| snapshot.node_info(node).name;
    let (mut scores, mut totals) = (Map::new(), Map::new());
    for (at, node) in feasible.filtered.feasible().iter().enumerate() {
        let by_plugin: Map<_, _> = all
            .plugins
            .iter()
            .map(|plugin| (plugin.plugin.to_owned(), (plugin.normalized[at] * plugin.weight).into()))
            .collect();
        scores.insert(snapshot.text(name(node)).to_owned(), by_plugin.into());
        totals.insert(snapshot.text(name(node)).to_owned(), all.totals[at].into());
    }
    fields.insert("scores".into(), scores.into());
    fields.insert("totals".into(), totals.into());
    let winners = feasible.winners().into_iter().map(name);
    let selected = winners.min_by_key(|&name| snapshot.text(name)).expect("a feasible pod has a best node");
    fields.insert("selected".into(), snapshot.text(selected).into());
    selected
}
