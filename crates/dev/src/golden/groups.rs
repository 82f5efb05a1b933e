//! Plays recorded scenarios of pod groups through the whole engine, one cycle at a time, and formats what happens as
//! the recordings do.
//!
//! The engine's effects are carried out at once on the scenario's objects: a fake API server without delays.

use super::group_changes::{DELETED_AT, Edit, Key, bind, edits, key};
use super::world::object;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use supercargo_config::{Effective, Flags, Settings};
use supercargo_core::cycle::NoProbe;
use supercargo_core::model::effect::{Effect, GroupPatch, Lane, Nomination, PodRef, StatusPatch};
use supercargo_core::model::emulation::{Compat, EmulatedVersion, GroupGates};
use supercargo_core::model::event::{BindOutcome, Event, EvictOutcome, Kind, ObjectKey};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::plugins::gang_scheduling::Permit;
use supercargo_core::plugins::scheduling_gates;
use supercargo_core::queue::{QueueConfig, SubQueue};
use supercargo_core::report::group::{GroupOutcome, GroupReport, MemberReport, PlacementReport};
use supercargo_core::report::{Outcome, Preemption, Report};
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use supercargo_objects::api::Object;
use supercargo_objects::convert::Watched as _;
use supercargo_objects::of_any_kind;

/// A recorded scenario and what kube-scheduler did in each step.
#[derive(Deserialize)]
pub struct GroupVector {
    /// What happens in the cluster.
    pub scenario: GroupScenario,
    /// What kube-scheduler did.
    pub steps: Vec<Value>,
}

/// A cluster, and what happens in it step by step.
#[derive(Deserialize)]
pub struct GroupScenario {
    /// The name.
    pub name: String,
    /// The version of kube-scheduler that was recorded; 1.36 if it is left out.
    pub version: Option<String>,
    /// The feature gates that are on.
    pub gates: Vec<String>,
    /// A KubeSchedulerConfiguration.
    pub config: Option<Value>,
    /// The objects at the start.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// The steps.
    pub steps: Vec<ScenarioStep>,
}

/// One step of a scenario.
#[derive(Deserialize)]
pub struct ScenarioStep {
    /// Changes, each seen by the scheduler before the next.
    #[serde(default, rename = "do")]
    pub changes: Vec<Map<String, Value>>,
    /// Whether 15 seconds pass after the changes.
    #[serde(default)]
    pub retry: bool,
}

/// A time later than all times in the scenarios.
const START: Time = Time::from_secs(4_000_000_000);
/// The time between two changes: far less than any backoff.
const TICK: Duration = Duration::from_micros(1);
const RETRY: Duration = Duration::from_secs(15);

/// The engine and the objects of a scenario.
struct World {
    scheduler: Scheduler,
    objects: BTreeMap<Key, Value>,
    now: Time,
    version: u64,
    cycles: Vec<Value>,
    has_groups: bool,
    emulated: EmulatedVersion,
    stopwatch: Option<Stopwatch>,
}

/// The time that the scheduler takes.
struct Stopwatch {
    clock: fn() -> Duration,
    spent: Duration,
}

/// The cost of a step.
#[derive(Clone, Copy, Debug)]
pub struct StepCost {
    /// The time of the scheduler's cycles, without events and writes.
    pub spent: Duration,
    /// The number of cycles.
    pub cycles: usize,
    /// The number of pods that have a node afterwards.
    pub bound: usize,
}

/// Plays a scenario and returns what happened in each step.
pub fn play(scenario: &GroupScenario, compat: Compat) -> Vec<Value> {
    let mut world = World::new(scenario, compat);
    world.scheduler.set_comparable();
    world.scheduler.report_members_of_placements();
    scenario.steps.iter().map(|step| world.step(step)).collect()
}

/// Plays a scenario as a cluster's scheduler would, and returns the cost of each step by the clock.
pub fn time(scenario: &GroupScenario, compat: Compat, clock: fn() -> Duration) -> Vec<StepCost> {
    let mut world = World::new(scenario, compat);
    let mut cost = |step| {
        world.stopwatch = Some(Stopwatch { clock, spent: Duration::ZERO });
        let answer = world.step(step);
        let bound = answer["bound"].as_object().map_or(0, Map::len);
        let spent = world.stopwatch.take().map_or(Duration::ZERO, |it| it.spent);
        StepCost { spent, cycles: answer["cycles"].as_array().map_or(0, Vec::len), bound }
    };
    scenario.steps.iter().map(&mut cost).collect()
}

/// Returns how a step differs from the recorded one.
pub fn differences(expected: &Value, got: &Value) -> Vec<String> {
    let mut found = Vec::new();
    diff("", expected, got, &mut found);
    found
}

fn diff(at: &str, expected: &Value, got: &Value, found: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            let mut keys: Vec<&String> = expected.keys().chain(got.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or(Value::Null);
                diff(&format!("{at} / {key}"), &of(expected), &of(got), found);
            }
        }
        (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
            for (number, (expected, got)) in expected.iter().zip(got).enumerate() {
                diff(&format!("{at} / {number}"), expected, got, found);
            }
        }
        _ if expected == got => {}
        _ => found.push(format!("{at}: expected {expected}, got {got}")),
    }
}

impl World {
    fn new(scenario: &GroupScenario, compat: Compat) -> Self {
        let mut gates = GroupGates::OFF;
        for gate in &scenario.gates {
            assert!(gates.set(gate, true), "{}: the gate {gate} is not known", scenario.name);
        }
        let mut tables = Tables::new();
        tables.set_group_gates(gates);
        let emulated = scenario.version.as_deref().map_or(Ok(EmulatedVersion::V1_36), str::parse);
        let emulated = emulated.expect("the version is known");
        tables.emulate(emulated);
        tables.set_compat(compat);
        let profiles = profiles(scenario.config.as_ref(), (emulated, gates), &mut tables);
        let config = Config { seed: Seed(1), profiles, queue: QueueConfig::default() };
        let scheduler = Scheduler::with_tables(config, tables, START);
        let mut world = Self {
            scheduler,
            objects: BTreeMap::new(),
            now: START,
            version: 0,
            cycles: Vec::new(),
            has_groups: gates.workloads,
            emulated,
            stopwatch: None,
        };
        for lane in Lane::ALL {
            world.handle(Event::Credits { lane, count: usize::MAX / 2 });
        }
        let kinds = || Kind::watched(true);
        kinds().for_each(|kind| world.handle(Event::ListBegan(kind)));
        for object in &scenario.objects {
            world.put(object.clone());
        }
        kinds().for_each(|kind| world.handle(Event::ListEnded(kind)));
        world
    }

    fn handle(&mut self, event: Event) {
        self.scheduler.handle(self.now, event);
    }

    /// Adds or replaces an object, which the scheduler then sees.
    fn put(&mut self, mut value: Value) {
        self.version += 1;
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        let tables = self.scheduler.tables();
        let event = of_any_kind!(&object(&value), it => it.applied(tables));
        self.objects.insert(key(&value), value);
        self.handle(event.expect("no vector has a malformed object"));
    }

    /// Removes an object, which the scheduler then sees.
    fn remove(&mut self, key: &Key) {
        let value = self.objects.remove(key).unwrap_or_else(|| panic!("{key:?} does not exist"));
        let tables = self.scheduler.tables();
        let event = match object(&value) {
            Object::Pod(pod) => Event::Gone(pod.key(tables)),
            other => of_any_kind!(&other, it => it.gone(tables)),
        };
        self.handle(event);
    }

    fn step(&mut self, step: &ScenarioStep) -> Value {
        for change in &step.changes {
            self.now = self.now + TICK;
            self.change(change);
        }
        if step.retry {
            self.now = self.now + RETRY;
        }
        self.cycles.clear();
        self.run();
        self.answer()
    }

    fn change(&mut self, change: &Map<String, Value>) {
        for (what, value) in change {
            for edit in edits(what, value, &self.objects) {
                match edit {
                    Edit::Put(value) => self.put(value),
                    Edit::Remove(key) => self.remove(&key),
                }
            }
        }
    }

    /// Lets the scheduler work until it is idle, and carries out what it asks for.
    fn run(&mut self) {
        loop {
            let began = self.stopwatch.as_ref().map(|it| (it.clock)());
            let step = self.scheduler.step(self.now, &mut NoProbe);
            if let (Some(stopwatch), Some(began)) = (&mut self.stopwatch, began) {
                stopwatch.spent += (stopwatch.clock)().saturating_sub(began);
            }
            match step {
                Step::Idle { .. } => return,
                Step::Effect(effect) => self.carry_out(effect),
                Step::GroupReport(report) => self.cycles.push(self.group_cycle(&report)),
                Step::Report(report) => self.note(&report),
                Step::Notice(notice) => panic!("{}: {}", notice.object, notice.text),
            }
        }
    }

    /// Notes the cycle of a pod that names no group.
    fn note(&mut self, report: &Report) {
        let key = ("Pod".to_owned(), report.pod.namespace.clone(), report.pod.name.clone());
        let in_group = |pod: &Value| !pod["spec"]["schedulingGroup"].is_null();
        if self.has_groups && self.objects.get(&key).is_some_and(in_group) {
            return;
        }
        let mut member = json!({ "pod": format!("{}/{}", report.pod.namespace, report.pod.name) });
        let result = match &report.outcome {
            Outcome::Placed { node, .. } => {
                member["node"] = node.as_str().into();
                member["code"] = "Success".into();
                "scheduled"
            }
            Outcome::Unschedulable { message, preemption, .. } => {
                member["code"] = "Unschedulable".into();
                member["message"] = message.as_str().into();
                if let Preemption::Nominated { node, .. } = preemption {
                    member["node"] = node.as_str().into();
                    member["preempt"] = true.into();
                }
                "unschedulable"
            }
            Outcome::Error { message } => {
                member["code"] = "Error".into();
                member["message"] = message.as_str().into();
                "error"
            }
            _ => return,
        };
        self.cycles.push(json!({ "kind": "pod", "result": result, "members": [member] }));
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Bind { pod, node } => {
                self.handle(Event::BindFinished { uid: pod.uid.clone(), outcome: BindOutcome::Accepted });
                let mut bound = self.pod(&pod.namespace, &pod.name);
                bind(&mut bound, node.into());
                self.put(bound);
            }
            Effect::Evict(eviction) => {
                let victim = eviction.pod;
                let mut pod = self.pod(&victim.namespace, &victim.name);
                pod["metadata"]["deletionTimestamp"] = DELETED_AT.into();
                let condition = json!({
                    "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                });
                pod["status"]["conditions"] = json!([condition]);
                self.handle(Event::EvictFinished { uid: victim.uid, outcome: EvictOutcome::Deleted });
                self.put(pod);
                let cycle = self.cycles.last_mut().expect("victims belong to a cycle");
                // The report of a group names its victims, one of them repeatedly if several members chose it.
                if cycle["kind"] == "group" {
                    return;
                }
                let victims = cycle.as_object_mut().expect("a cycle is an object").entry("victims");
                let victims = victims.or_insert_with(|| json!([])).as_array_mut().expect("a list");
                victims.push(format!("{}/{}", victim.namespace, victim.name).into());
                victims.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
            }
            Effect::Patch(patch) => self.patch(&patch),
            Effect::PatchGroup(patch) => self.patch_group(&patch),
            Effect::Record(_) => {}
            other => panic!("no scenario needs {other:?}"),
        }
    }

    fn pod(&self, namespace: &str, name: &str) -> Value {
        self.objects[&("Pod".to_owned(), namespace.to_owned(), name.to_owned())].clone()
    }

    fn patch(&mut self, patch: &StatusPatch) {
        let mut pod = self.pod(&patch.pod.namespace, &patch.pod.name);
        if let Some(condition) = &patch.condition {
            pod["status"]["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": condition.reason, "message": condition.message,
            }]);
        }
        match &patch.nomination {
            Nomination::Keep => {}
            Nomination::Clear => pod["status"]["nominatedNodeName"] = Value::Null,
            Nomination::Set(node) => pod["status"]["nominatedNodeName"] = node.as_str().into(),
        }
        self.put(pod);
    }

    fn patch_group(&mut self, patch: &GroupPatch) {
        let key = ("PodGroup".to_owned(), patch.namespace.clone(), patch.name.clone());
        let mut group = self.objects[&key].clone();
        let condition = &patch.condition;
        group["status"]["conditions"] = json!([{
            "type": patch.api.condition_type(),
            "status": if condition.is_true { "True" } else { "False" },
            "reason": &*condition.reason,
            "message": &*condition.message,
            "observedGeneration": condition.observed_generation,
        }]);
        self.put(group);
    }

    /// Describes what happened, and the state of the cluster.
    fn answer(&mut self) -> Value {
        let mut answer = Map::new();
        answer.insert("cycles".to_owned(), std::mem::take(&mut self.cycles).into());
        let (mut bound, mut pending, mut groups) = (Map::new(), Map::new(), Map::new());
        let objects: Vec<(Key, Value)> = self.objects.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        for ((kind, namespace, name), object) in &objects {
            let id = format!("{namespace}/{name}");
            match kind.as_str() {
                "Pod" => match object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
                    Some(node) => {
                        let is_leaving = !object["metadata"]["deletionTimestamp"].is_null();
                        let suffix = if is_leaving { " (terminating)" } else { "" };
                        bound.insert(id, format!("{node}{suffix}").into());
                    }
                    None => drop(pending.insert(id, self.pending(object))),
                },
                "PodGroup" => {
                    let condition = &object["status"]["conditions"][0];
                    if !condition.is_null() {
                        let mut shown =
                            json!({ "status": condition["status"], "reason": condition["reason"] });
                        if condition["message"] != "" {
                            shown["message"] = condition["message"].clone();
                        }
                        if self.queues_groups() {
                            shown["type"] = condition["type"].clone();
                        }
                        groups.insert(id, shown);
                    }
                }
                _ => {}
            }
        }
        for (field, map) in [("bound", bound), ("pending", pending), ("groups", groups)] {
            if !map.is_empty() {
                answer.insert(field.to_owned(), map.into());
            }
        }
        answer.into()
    }

    /// Whether groups are entries of the recorded queue.
    fn queues_groups(&self) -> bool {
        self.emulated >= EmulatedVersion::V1_37
    }

    /// Whether the pod names a group that does not exist.
    fn lacks_group(&self, pod: &Value) -> bool {
        let name = pod["spec"]["schedulingGroup"]["podGroupName"].as_str();
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        self.has_groups
            && name.is_some_and(|name| {
                !self.objects.contains_key(&("PodGroup".to_owned(), namespace.to_owned(), name.to_owned()))
            })
    }

    fn group_cycle(&self, report: &GroupReport) -> Value {
        let mut cycle = group_cycle(report);
        if report.outcome == GroupOutcome::Refused && self.queues_groups() {
            cycle["kind"] = "group".into();
            cycle["group"] = format!("{}/{}", report.namespace, report.name).into();
            cycle["status"] = report.status.as_str().into();
        }
        cycle
    }

    fn pending(&mut self, pod: &Value) -> Value {
        let mut shown = json!({});
        let Object::Pod(of) = object(pod) else { panic!("a pod is one") };
        let ObjectKey::Pod(uid) = of.key(self.scheduler.tables()) else { panic!("a pod has a uid") };
        let place = self.scheduler.queue().sub_queue_of(&uid);
        shown["queue"] = place.map_or("none", |(place, _)| place.as_str()).into();
        if self.queues_groups() && place.is_some() && self.lacks_group(pod) {
            shown["queue"] = "incomplete".into();
        } else if let Some((SubQueue::Gated, queued)) = place {
            shown["plugin"] = queued.gate.into();
            let by_gates = || {
                let tables = self.scheduler.snapshot().tables();
                scheduling_gates::pre_enqueue(&queued.pod, tables).map(|rejection| rejection.message())
            };
            let text = by_gates().or_else(|| self.scheduler.gang_gate(&queued.pod));
            shown["gate"] = text.into();
        }
        if let Some(node) = pod["status"]["nominatedNodeName"].as_str() {
            shown["nominated"] = node.into();
        }
        shown
    }
}

fn profiles(
    config: Option<&Value>,
    (version, groups): (EmulatedVersion, GroupGates),
    tables: &mut Tables,
) -> Vec<Profile> {
    let config = config.cloned().unwrap_or_else(|| {
        json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{ "schedulerName": "default-scheduler" }],
        })
    });
    let flags = Flags {
        emulated_version: version,
        groups,
        allow_second_default_scheduler: true,
        ..Flags::without_election()
    };
    let effective = Effective::parse(Path::new("scenario.config"), &config.to_string(), &flags);
    let settings = effective.and_then(|effective| Settings::of(&effective));
    let settings = settings.unwrap_or_else(|error| panic!("{error}"));
    let profiles = settings.profiles.iter();
    profiles.map(|it| Profile { name: it.name.clone(), framework: it.framework(tables) }).collect()
}

fn group_cycle(report: &GroupReport) -> Value {
    let members: Vec<Value> = report.members.iter().map(member).collect();
    let result = match report.outcome {
        GroupOutcome::Refused => {
            return json!({ "kind": "pod", "result": "error", "members": members });
        }
        GroupOutcome::Scheduled => "scheduled",
        GroupOutcome::Unschedulable => "unschedulable",
        GroupOutcome::WaitingForPreemption => "waiting",
        GroupOutcome::Error => "error",
    };
    let mut cycle = json!({
        "kind": "group",
        "group": format!("{}/{}", report.namespace, report.name),
        "result": result,
        "members": members,
    });
    if !report.status.is_empty() {
        cycle["status"] = report.status.as_str().into();
    }
    if !report.placements.is_empty() {
        cycle["placements"] = report.placements.iter().map(placement).collect();
    }
    if let Some(chosen) = &report.chosen {
        cycle["chosen"] = chosen.as_str().into();
    }
    if !report.victims.is_empty() {
        let name = |pod: &PodRef| format!("{}/{}", pod.namespace, pod.name);
        let mut victims: Vec<String> = report.victims.iter().map(name).collect();
        victims.sort();
        cycle["victims"] = victims.into();
    }
    if let Some(preemption) = &report.preemption {
        cycle["preemption"] = preemption.as_str().into();
    }
    cycle
}

fn member(report: &MemberReport) -> Value {
    let mut shown = json!({
        "pod": format!("{}/{}", report.pod.namespace, report.pod.name),
        "code": report.code,
    });
    if let Some(node) = &report.node {
        shown["node"] = node.as_str().into();
    }
    if let Some(message) = &report.message {
        shown["message"] = message.as_str().into();
    }
    // The recordings leave out the success of a member that preempts.
    if let Some(permit) = report.permit.filter(|permit| !report.preempts || *permit == Permit::Wait) {
        shown["permit"] = permit.as_str().into();
    }
    if report.preempts {
        shown["preempt"] = true.into();
    }
    shown
}

fn placement(report: &PlacementReport) -> Value {
    let mut shown = json!({ "name": report.name, "nodes": report.nodes, "code": report.code });
    if !report.status.is_empty() {
        shown["status"] = report.status.as_str().into();
    }
    if !report.members.is_empty() {
        let pods = report.members.iter();
        let pods =
            pods.map(|(pod, node)| (format!("{}/{}", pod.namespace, pod.name), Value::from(node.as_str())));
        shown["pods"] = Value::Object(pods.collect());
    }
    if let Some(total) = report.total() {
        let scores = report.scores.iter().map(|(plugin, score)| ((*plugin).to_owned(), Value::from(*score)));
        shown["scores"] = Value::Object(scores.collect());
        shown["total"] = total.into();
    }
    shown
}
