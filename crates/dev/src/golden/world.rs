//! Builds a scenario's cluster in the engine and formats decisions as vectors.
//!
//! Objects pass through the same types and conversions as in production.

use crate::golden::changes::{self, Change};
use crate::golden::compare::Scenario;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use supercargo_config::{Effective, Flags, Settings};
use supercargo_core::cache::{Cache, PodState, Snapshot};
use supercargo_core::cycle::{
    Decision, Feasible, Filtered, Framework, InfeasibleDecision, NoProbe, Nomination, Options, PostFilter,
};
use supercargo_core::framework::CycleError;
use supercargo_core::framework::post_filter::{Deallocated, Draws};
use supercargo_core::incremental::DecisionCache;
use supercargo_core::model::device::ResourceClaim;
use supercargo_core::model::emulation::{Compat, EmulatedVersion};
use supercargo_core::model::event::Event;
use supercargo_core::model::intern::{Symbol, Tables};
use supercargo_core::model::pod::{ControllerKind, PodInfo};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::model::volume::{StorageKey, StorageKind};
use supercargo_core::registry::Plan;
use supercargo_objects::api::{Object, Pod};
use supercargo_objects::convert::allocation::claims_json;
use supercargo_objects::convert::{self, Watched, lookups};

/// A fixed seed: vectors are small, so no compared field depends on random draws.
const DRAWS: Draws = Draws { seed: Seed(1), attempt: 1 };

/// The name of the default profile.
const DEFAULT: &str = "default-scheduler";

/// A time later than any start time in a vector, and earlier than the time of allocations that are not timed out.
const NOW: Time = Time::from_secs(4_000_000_000);

/// A cluster and the profiles that decide about it.
pub struct World {
    pub(super) tables: Tables,
    pub(super) cache: Cache,
    /// Profiles by scheduler name.
    profiles: Vec<(Symbol, Framework)>,
    /// Cached decisions on the pods so far.
    decisions: DecisionCache,
    /// Other versions of objects, each with the scenario's version if there is one.
    detour: Vec<(Other, Option<Object>)>,
    /// Changes of objects between decisions.
    pub(super) changes: Vec<Change>,
    /// The number of decisions so far.
    pub(super) decided: usize,
    /// Whether what a decision allocates is written to the claims. Otherwise it stays in flight.
    writes: bool,
    /// The claims by `namespace/name`, as written.
    pub(super) claims: BTreeMap<String, Value>,
}

/// A change that a detour makes and takes back.
enum Other {
    Version(Object),
    /// The node of this name is deleted.
    NoNode(String),
}

impl Other {
    fn of(value: &Value) -> Self {
        match value["deleted"].as_bool() {
            Some(true) => Self::NoNode(value["metadata"]["name"].as_str().unwrap_or_default().to_owned()),
            _ => Self::Version(object(value)),
        }
    }
}

impl World {
    /// Builds the cluster before the first decision. Recorded decisions have upstream's defects, and so have these.
    pub fn new(scenario: &Scenario) -> Self {
        Self::with(scenario, Compat::Upstream)
    }

    /// Builds the cluster before the first decision, with upstream's defects or without.
    pub fn with(scenario: &Scenario, compat: Compat) -> Self {
        let mut tables = Tables::new();
        let version = scenario.emulated_version;
        tables.emulate(version);
        tables.set_compat(compat);
        let profiles = match &scenario.config {
            Some(config) => profiles(config, version, &mut tables),
            None => vec![(tables.symbol(DEFAULT), Framework::new(&Plan::of(version.rules())))],
        };
        let mut world = Self {
            tables,
            cache: Cache::default(),
            profiles,
            decisions: DecisionCache::default(),
            detour: Vec::new(),
            changes: scenario.changes.clone(),
            decided: 0,
            writes: scenario.writes,
            claims: BTreeMap::new(),
        };
        // The resource-claim controller reads templates; the scheduler does not.
        for value in scenario.objects.iter().filter(|value| value["kind"] != "ResourceClaimTemplate") {
            world.apply(&object(value));
            if value["kind"] == "ResourceClaim" {
                world.claims.insert(changes::key(value), value.clone());
            }
        }
        let key = |object: &Value| {
            let of = |field: &str| object["metadata"][field].clone();
            (object["kind"].clone(), of("namespace"), of("name"))
        };
        world.detour = scenario
            .detour
            .iter()
            .map(|other| {
                let own = scenario.objects.iter().find(|own| key(own) == key(other));
                (Other::of(other), own.map(object))
            })
            .collect();
        // The pods to place are in the cluster as pending pods from the start.
        for pod in &scenario.pods {
            let pod = Arc::new(world.pod(&decode(pod)));
            world.cache.nominate(&pod, pod.nominated_node);
        }
        world
    }

    // long because: one arm for each kind of object
    pub(super) fn apply(&mut self, object: &Object) {
        let Self { tables, cache, .. } = self;
        match object {
            Object::Node(node) => {
                cache.apply_node(&Arc::new(
                    convert::node(tables, node).expect("no vector has a malformed object"),
                ));
            }
            Object::Pod(pod) if pod.has_ended() => self.remove_pod(pod),
            Object::Pod(pod) => {
                let pod = Arc::new(self.pod(pod));
                match pod.node_name {
                    Some(node) => self.cache.place(&pod, node, PodState::Added),
                    None => {
                        self.cache.remove_pod(&pod.uid);
                        self.cache.nominate(&pod, pod.nominated_node);
                    }
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
            Object::PodDisruptionBudget(object) => {
                let budget = lookups::disruption_budget(tables, object);
                let budget = budget.expect("no vector has a malformed object");
                let (namespace, name) = (tables.symbol(object.namespace()), tables.symbol(object.name()));
                cache.lookups_mut().set_disruption_budget(namespace, name, budget);
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
            Object::PersistentVolume(object) => self.apply_storage(object.as_ref()),
            Object::PersistentVolumeClaim(object) => self.apply_storage(object.as_ref()),
            Object::StorageClass(object) => self.apply_storage(object.as_ref()),
            Object::CsiNode(object) => self.apply_storage(object.as_ref()),
            Object::CsiDriver(object) => self.apply_storage(object.as_ref()),
            Object::CsiStorageCapacity(object) => self.apply_storage(object.as_ref()),
            Object::VolumeAttachment(object) => self.apply_storage(object.as_ref()),
            Object::DeviceClass(object) => {
                let event = object.applied(tables).expect("no vector has a malformed object");
                let Event::DeviceClassApplied { name, class } = event else {
                    panic!("a class is applied as one")
                };
                cache.set_device_class(tables, name, &class);
            }
            Object::ResourceClaim(object) => self.apply_storage(object.as_ref()),
            Object::ResourceSlice(object) => self.apply_storage(object.as_ref()),
            Object::PodGroupV1Alpha2(_) | Object::PodGroupV1Beta1(_) => {
                panic!("groups are compared by `golden::groups`")
            }
        }
    }

    /// Changes the objects of the detour and changes them back, and decides on the pod after each change. The cached
    /// decisions must follow.
    fn make_detour(&mut self, pod: &Arc<PodInfo>) {
        let mut detour = std::mem::take(&mut self.detour);
        self.check_cached(pod);
        for (other, _) in &detour {
            match other {
                Other::Version(other) => self.apply(other),
                Other::NoNode(name) => self.remove_node(name),
            }
            self.check_cached(pod);
        }
        for (other, own) in detour.iter().rev() {
            match (own, other) {
                (Some(own), _) => self.apply(own),
                (None, Other::Version(Object::Pod(other))) => self.remove_pod(other),
                (None, Other::Version(Object::Node(other))) => self.remove_node(other.name()),
                (None, Other::Version(Object::ResourceSlice(other))) => {
                    let name = self.tables.symbol(other.name());
                    let kind = StorageKind::ResourceSlice;
                    self.cache.volumes_mut().remove(StorageKey { kind, namespace: None, name });
                }
                (None, _) => {}
            }
            self.check_cached(pod);
        }
        // A placed pod assumes volumes, and an older version of an object would undo that.
        detour.retain(|(other, _)| !matches!(other, Other::Version(other) if is_of_storage(other)));
        self.detour = detour;
    }

    /// Leaves a slice out of later detours, because it changes for good.
    pub(super) fn forget_detours(&mut self, changed: &Value) {
        self.detour.retain(|(other, _)| match other {
            Other::Version(Object::ResourceSlice(other)) => changed["metadata"]["name"] != *other.name(),
            _ => true,
        });
    }

    fn remove_node(&mut self, name: &str) {
        let name = self.tables.symbol(name);
        self.cache.remove_node(name);
    }

    fn remove_pod(&mut self, pod: &Pod) {
        let pod = self.pod(pod);
        self.cache.remove_pod(&pod.uid);
        self.cache.forget_nomination(&pod.uid);
    }

    /// Checks that cached decisions on the pod equal full evaluations in the present state.
    fn check_cached(&mut self, pod: &Arc<PodInfo>) {
        self.cache.refresh();
        let snapshot = self.cache.snapshot(&self.tables);
        if snapshot.nodes().is_empty() {
            return;
        }
        let framework = profile(&self.profiles, snapshot, pod.scheduler_name);
        both_ways(framework, &mut self.decisions, pod, snapshot);
        let options = Options { always_score: true, ignore_own_nomination: true, walk: None, within: None };
        if let Ok(Decision::Infeasible(filtered)) = framework.decide(pod, snapshot, options, &mut NoProbe) {
            let diagnosis = filtered.diagnose(snapshot);
            let failed = InfeasibleDecision { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
            let outcome = framework.post_filter(failed, DRAWS, NOW, &mut NoProbe);
            refused_again(framework, &mut self.decisions, pod, failed, &outcome);
        }
    }

    fn apply_storage(&mut self, object: &impl Watched) {
        let event = object.applied(&mut self.tables).expect("no vector has a malformed object");
        let Event::StorageApplied(object) = event else { panic!("an object of storage is applied as one") };
        self.cache.volumes_mut().apply(object);
    }

    fn pod(&mut self, pod: &Pod) -> PodInfo {
        convert::pod(&mut self.tables, pod).expect("no vector has a malformed object")
    }

    /// Decides on a pod, binds it in the cluster, and returns the decision in the form of vectors.
    pub fn decide(&mut self, pod: &Value) -> Value {
        let written = pod;
        self.make_changes();
        let pod = Arc::new(self.pod(&decode(pod)));
        if !self.detour.is_empty() {
            self.make_detour(&pod);
        }
        self.cache.set_now(NOW);
        self.cache.refresh();
        let snapshot = self.cache.snapshot(&self.tables);
        if snapshot.nodes().is_empty() {
            // The engine's loop reports this before deciding.
            return json!({ "pod": snapshot.pod_key(&pod), "message": "no nodes available to schedule pods" });
        }
        let options = Options { always_score: true, ignore_own_nomination: true, walk: None, within: None };
        let framework = profile(&self.profiles, snapshot, pod.scheduler_name);
        both_ways(framework, &mut self.decisions, &pod, snapshot);
        let decision = framework.decide(&pod, snapshot, options, &mut NoProbe);
        let mut entry = json!({ "pod": snapshot.pod_key(&pod) });
        let fields = entry.as_object_mut().expect("it was made an object");
        let mut selected = None;
        match decision {
            Err(CycleError(text)) => tell_error(fields, &text),
            Ok(Decision::Infeasible(filtered)) => {
                tell_filters(fields, &filtered, snapshot);
                let diagnosis = filtered.diagnose(snapshot);
                fields.insert("message".into(), diagnosis.message.as_str().into());
                let failed =
                    InfeasibleDecision { pod: &pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
                let outcome = framework.post_filter(failed, DRAWS, NOW, &mut NoProbe);
                refused_again(framework, &mut self.decisions, &pod, failed, &outcome);
                tell_post_filter(fields, &outcome, snapshot);
            }
            Ok(Decision::Feasible(feasible)) => {
                tell_filters(fields, &feasible.filtered, snapshot);
                let node = tell_scores(fields, &feasible, snapshot);
                let slot = snapshot.find_node(node).expect("a node that was chosen exists");
                let reserved = feasible.filtered.reserve(snapshot, slot);
                let reserved = reserved.expect("no plugin refuses what its filter let pass");
                let claims = claims_json(snapshot.tables(), &reserved);
                if !claims.is_empty() {
                    fields.insert("claims".into(), claims.into());
                }
                selected = Some((node, reserved));
            }
        }
        if let Some((node, reserved)) = selected {
            self.cache.place(&pod, node, PodState::Assumed);
            let reserved = if self.writes { self.write(written, reserved) } else { reserved };
            self.cache.assume_volumes(&self.tables, &pod.uid, reserved);
        }
        entry
    }
}

/// Checks that an identical pod, answered from the infeasible cache, gets the same diagnosis and victims: first by what
/// was cached before earlier changes of the cluster, then by this diagnosis.
fn refused_again(
    framework: &Framework,
    decisions: &mut DecisionCache,
    pod: &Arc<PodInfo>,
    failed: InfeasibleDecision<'_>,
    outcome: &PostFilter<'_>,
) {
    let tell = |failed: InfeasibleDecision<'_>, outcome: &PostFilter<'_>| {
        let seen = (failed.filtered.evaluated(failed.snapshot), failed.filtered.walked());
        let chosen = outcome.nomination.choose(pod, DRAWS).map(|candidate| format!("{candidate:?}"));
        (seen, failed.diagnosis.clone(), outcome.message.clone(), outcome.preemption_blockers.clone(), chosen)
    };
    let plain = tell(failed, outcome);
    for is_noted in [false, true, true] {
        if is_noted {
            framework.note_infeasible(decisions, pod, failed.filtered);
        }
        let again =
            framework.reject_cached(decisions, pod, failed.snapshot, (DRAWS, NOW), &mut NoProbe, tell);
        assert!(
            again.is_none_or(|again| again == plain),
            "{}: the infeasible cache answers differently",
            pod.name
        );
    }
}

/// Checks that a cached decision on a known signature equals the full evaluation.
fn both_ways(
    framework: &Framework,
    decisions: &mut DecisionCache,
    pod: &Arc<PodInfo>,
    snapshot: Snapshot<'_>,
) {
    let plain = framework.decide(pod, snapshot, Options::default(), &mut NoProbe);
    for _ in 0..2 {
        if let Some(mut quick) = framework.decide_cached(decisions, pod, snapshot, &mut NoProbe) {
            let equals = quick.equals(&plain, DRAWS.seed, pod);
            assert!(equals, "{}: the cached decision is {quick:?}", snapshot.pod_key(pod));
        }
    }
}

/// Returns the profile of this name, or the default profile, or the first.
fn profile<'a>(profiles: &'a [(Symbol, Framework)], snapshot: Snapshot<'_>, name: Symbol) -> &'a Framework {
    let named = |wanted: &str| profiles.iter().find(|(profile, _)| snapshot.text(*profile) == wanted);
    let found = named(snapshot.text(name)).or_else(|| named(DEFAULT)).or(profiles.first());
    &found.expect("a configuration has a profile").1
}

/// Returns a configuration's profiles.
fn profiles(
    configuration: &Value,
    version: EmulatedVersion,
    tables: &mut Tables,
) -> Vec<(Symbol, Framework)> {
    let flags = Flags { emulated_version: version, ..Flags::without_election() };
    let effective = Effective::parse(Path::new("scenario.config"), &configuration.to_string(), &flags);
    let settings = effective.and_then(|effective| Settings::of(&effective));
    let settings = settings.unwrap_or_else(|error| panic!("{error}"));
    settings
        .profiles
        .iter()
        .map(|profile| {
            let name = tables.symbol(&profile.name);
            (name, profile.framework(tables))
        })
        .collect()
}

fn is_of_storage(object: &Object) -> bool {
    matches!(
        object,
        Object::PersistentVolume(_)
            | Object::PersistentVolumeClaim(_)
            | Object::StorageClass(_)
            | Object::CsiNode(_)
            | Object::CsiDriver(_)
            | Object::CsiStorageCapacity(_)
            | Object::VolumeAttachment(_)
            | Object::ResourceClaim(_)
    )
}

pub(super) fn object(value: &Value) -> Object {
    Object::from_value(value.clone()).unwrap_or_else(|other| panic!("{other}"))
}

fn decode(pod: &Value) -> Pod {
    serde_json::from_value(pod.clone()).expect("any JSON is read")
}

/// Formats an error: that of a plugin's PreFilter has the plugin's entry, that of a Filter has only its text.
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

/// Formats what PostFilter adds to the message, and every node that may be nominated, with the victims to be deleted
/// (those not terminating already, except in 1.34).
fn tell_post_filter(fields: &mut Map<String, Value>, outcome: &PostFilter<'_>, snapshot: Snapshot<'_>) {
    if let Some(Deallocated { candidates, deletes, .. }) = &outcome.deallocated {
        let key =
            |it: &Arc<ResourceClaim>| format!("{}/{}", snapshot.text(it.namespace), snapshot.text(it.name));
        let mut keys: Vec<String> = candidates.iter().map(key).collect();
        keys.sort_unstable();
        fields.insert(if *deletes { "deletes" } else { "deallocates" }.into(), keys.into());
    }
    if let Some(text) = &outcome.message {
        fields.insert("postFilter".into(), text.as_str().into());
    }
    let Nomination::To(candidates) = &outcome.nomination else { return };
    let by_node = candidates.iter().map(|candidate| {
        let deletes_all = snapshot.rules().version == EmulatedVersion::V1_34;
        let victims = candidate.victims.iter().filter(|victim| deletes_all || !victim.deleting);
        let mut victims: Vec<String> = victims.map(|victim| snapshot.pod_key(victim)).collect();
        victims.sort_unstable();
        (snapshot.text(snapshot.node_info(candidate.node).name).to_owned(), victims.into())
    });
    fields.insert("preemption".into(), by_node.collect::<Map<_, _>>().into());
}

/// Formats scores, totals and the choice: the best node with the smallest name, which is returned.
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
