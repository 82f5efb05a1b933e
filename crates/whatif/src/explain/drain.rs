//! Simulates a drain of nodes: cordons them and schedules all their pods elsewhere, highest priority first.
//!
//! Whether `kubectl drain` would evict the pods is judged separately from whether they fit elsewhere. It follows the
//! rules of `kubectl drain` and of the eviction API (upstream `k8s.io/kubectl/pkg/drain/filters.go`,
//! `pkg/registry/core/pod/storage/eviction.go`), with the current state of budgets and pods. A budget counts over all
//! drained nodes.

use crate::explain::answer::{API_VERSION, Group};
use crate::explain::claims::with_new_ephemeral_claims;
use crate::explain::device_claims::release;
use crate::explain::edit::Edit;
use crate::explain::groups::{self, Members};
use crate::explain::place::Place;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::cache::Snapshot;
use supercargo_core::model::group::{GroupKey, GroupPolicy};
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::{NodeIdx, NodeInfo};
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_core::scheduler::Trial;

/// `kind` of the report.
const KIND: &str = "DrainCheck";
/// Maximum number of pods without a place whose reasons are reported; pods of one workload have the same reasons.
const EXPLAINED_MAX: usize = 50;
/// Maximum number of evicted pods that a budget lists before the eviction API rejects further evictions (upstream
/// `eviction.go#MaxDisruptedPodSize`).
const DISRUPTED_MAX: usize = 2_000;

/// The result of a simulated drain.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainCheck {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// `DrainCheck`.
    pub kind: &'static str,
    /// The names of the nodes, separated by commas.
    pub node: String,
    /// The names of the nodes.
    pub nodes: Vec<String>,
    /// The pods to evict, in scheduling order.
    pub pods: Vec<Moved>,
    /// Number of these pods that fit nowhere.
    pub without_place: usize,
    /// Whether a drain would evict all pods, regardless of where they fit.
    pub will_drain: bool,
    /// What prevents the eviction of pods.
    pub obstacles: Vec<Obstacle>,
    /// Pods that a drain leaves on the nodes, with the reason.
    pub stay: BTreeMap<String, &'static str>,
    /// Budgets that allow fewer evictions now than the drain needs.
    pub budgets: Vec<Budget>,
    /// Pod groups of which the drain leaves fewer members on nodes than their `minCount`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupBelow>,
    /// Paths of the API server that could not be read, so that the answer lacks their objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<&'static str>,
}

/// A pod group that falls below its `minCount`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupBelow {
    /// `namespace/name`.
    pub group: String,
    /// The number of members that must have a node together.
    pub min_count: usize,
    /// Number of members with a node now.
    pub bound: usize,
    /// Number of them that the drain evicts.
    pub evicted: usize,
    /// Number of the evicted members that get a node again.
    pub placed_again: usize,
    /// Whether enough members have a node again, once the evicted ones are recreated.
    pub recovers: bool,
}

/// A pod to evict.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moved {
    /// `namespace/name`.
    pub pod: String,
    /// The current node.
    pub from: String,
    /// The new node; null if the pod is unschedulable.
    pub to: Option<String>,
    /// Whether no controller would recreate the pod.
    pub is_unmanaged: bool,
    /// Why the pod is unschedulable.
    pub reasons: Vec<Group>,
}

/// Something that prevents the eviction of pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Obstacle {
    /// The code of the obstacle.
    pub code: ObstacleCode,
    /// The pods, `namespace/name`.
    pub pods: Vec<String>,
    /// The obstacle in words.
    pub text: String,
    /// The flag of `kubectl drain` that overrides it.
    pub accepted_by: Option<&'static str>,
}

/// The codes of obstacles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ObstacleCode {
    /// No controller would recreate the pod.
    Unmanaged,
    /// The pod has an emptyDir volume, whose data would be lost.
    EmptyDir,
    /// A disruption budget allows no eviction now.
    DisruptionBudget,
    /// Several disruption budgets protect the pod; the API server then rejects its eviction.
    SeveralBudgets,
    /// The disruption budgets could not be read, so one may forbid the eviction.
    BudgetsUnknown,
}

/// The flags of `kubectl drain` in effect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accepted {
    /// `--force`: also evict pods without a controller.
    pub force: bool,
    /// `--delete-emptydir-data`: also evict pods with emptyDir volumes.
    pub empty_dir_data: bool,
    /// `--disable-eviction`: delete pods and ignore disruption budgets.
    pub no_eviction: bool,
}

/// A budget that would delay a drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// `namespace/name`.
    pub budget: String,
    /// Number of evictions it allows now.
    pub allowed: i32,
    /// Number of pods on the nodes whose eviction counts against it.
    pub pods: usize,
}

/// A pod on one of the nodes.
#[derive(Clone, Debug)]
pub struct Leaving {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Why a drain leaves the pod there; `None` if it evicts the pod.
    pub stays: Option<&'static str>,
    /// Whether no controller would recreate the pod.
    pub is_unmanaged: bool,
    /// Whether the pod has an emptyDir volume.
    pub has_empty_dir: bool,
    /// Whether its phase is Pending.
    pub is_pending: bool,
    /// Whether its Ready condition is true.
    pub is_ready: bool,
}

/// The fields of a disruption budget that only the eviction API reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct BudgetState {
    /// `spec.unhealthyPodEvictionPolicy` is `AlwaysAllow`, not `IfHealthyBudget`, which is the default.
    pub always_allows_unready: bool,
    /// `status.currentHealthy`.
    pub current_healthy: i64,
    /// `status.desiredHealthy`.
    pub desired_healthy: i64,
    /// The disruption controller has not processed the current spec: `status.observedGeneration` is lower than
    /// `metadata.generation`.
    pub is_outdated: bool,
}

impl BudgetState {
    /// Returns whether an unready pod is evicted without using up a disruption.
    fn lets_unready_go(self) -> bool {
        let is_healthy = self.current_healthy >= self.desired_healthy && self.desired_healthy > 0;
        self.always_allows_unready || is_healthy
    }
}

/// The state of the budgets by `namespace/name`.
pub type BudgetStates = BTreeMap<String, BudgetState>;

fn key(place: &Place<'_>, pod: &PodInfo) -> String {
    place.snapshot().pod_key(pod)
}

/// Simulates a drain of these nodes, which must exist. The cache is the same afterwards. The state of the budgets is
/// `None` if they could not be read.
pub fn drain_check(
    place: &mut Place<'_>,
    nodes: &[String],
    (pods, states): (&[Leaving], Option<&BudgetStates>),
    accepted: Accepted,
) -> DrainCheck {
    let stay = pods.iter().filter_map(|of| Some((key(place, &of.pod), of.stays?))).collect();
    let mut going: Vec<&Leaving> = pods.iter().filter(|of| of.stays.is_none()).collect();
    going.sort_by_key(|of| (Reverse(of.pod.priority), key(place, &of.pod)));
    let protected = states.map(|states| Protected::of(place.snapshot(), &going, states));
    let obstacles = obstacles(place, &going, protected.as_ref(), accepted);
    let budgets = protected.filter(|_| !accepted.no_eviction);
    let mut answer = DrainCheck {
        api_version: API_VERSION,
        kind: KIND,
        node: nodes.join(","),
        nodes: nodes.to_vec(),
        pods: Vec::with_capacity(going.len()),
        without_place: 0,
        will_drain: obstacles.is_empty(),
        obstacles,
        stay,
        budgets: budgets.as_ref().map(Protected::too_few).unwrap_or_default(),
        groups: groups_below(place, &going),
        unread: Vec::new(),
    };
    place.reverted(|place| {
        nodes.iter().for_each(|name| cordon(place.trial, name));
        move_away(place, &going, &mut answer);
    });
    for (of, _) in going.iter().zip(&answer.pods).filter(|(_, moved)| moved.to.is_some()) {
        let Some(key) = of.pod.group_key() else { continue };
        let name = name_of(place, key);
        if let Some(group) = answer.groups.iter_mut().find(|group| group.group == name) {
            group.placed_again += 1;
            group.recovers = group.bound - group.evicted + group.placed_again >= group.min_count;
        }
    }
    answer
}

/// Removes the pods from their nodes and schedules each again.
fn move_away(place: &mut Place<'_>, going: &[&Leaving], answer: &mut DrainCheck) {
    for of in going {
        place.trial.remove_pod(&of.pod.uid);
        // Pods that share a claim leave together, so its devices are free.
        release(place.trial, &of.pod);
    }
    let anew = going.iter().map(|of| {
        let anew =
            PodInfo { node_name: None, nominated_node: None, start_time: None, ..PodInfo::clone(&of.pod) };
        Arc::new(with_new_ephemeral_claims(place.trial, anew))
    });
    let all: Vec<Arc<PodInfo>> = anew.collect();
    let mut of_groups: BTreeMap<GroupKey, BTreeMap<Uid, NodeIdx>> = BTreeMap::new();
    for (of, pod) in going.iter().zip(&all) {
        let to = match pod.group_key() {
            Some(key) => {
                let nodes = of_groups.entry(key).or_insert_with(|| settle_group(place, key, &all));
                nodes.get(&pod.uid).copied()
            }
            None => place.settle(pod),
        };
        let to = to.map(|node| place.name(node));
        answer.without_place += usize::from(to.is_none());
        let reasons = if to.is_none() && answer.without_place <= EXPLAINED_MAX {
            crate::explain::short_reasons(place, pod)
        } else {
            Vec::new()
        };
        let from = of.pod.node_name.map_or_else(String::new, |node| place.tables().text(node).to_owned());
        let pod = key(place, pod);
        answer.pods.push(Moved { pod, from, to, is_unmanaged: of.is_unmanaged, reasons });
    }
}

/// Decides on the evicted members of a group together, and assumes those that get a node.
fn settle_group(place: &mut Place<'_>, key: GroupKey, pods: &[Arc<PodInfo>]) -> BTreeMap<Uid, NodeIdx> {
    let members = pods.iter().filter(|pod| pod.group_key() == Some(key)).cloned();
    groups::settle(place, key, &members.collect::<Vec<_>>())
}

fn name_of(place: &Place<'_>, key: GroupKey) -> String {
    format!("{}/{}", place.tables().text(key.namespace), place.tables().text(key.name))
}

/// Returns the groups of which too few members stay on nodes.
fn groups_below(place: &Place<'_>, going: &[&Leaving]) -> Vec<GroupBelow> {
    let mut evicted: BTreeMap<GroupKey, usize> = BTreeMap::new();
    for key in going.iter().filter_map(|of| of.pod.group_key()) {
        *evicted.entry(key).or_default() += 1;
    }
    let below = evicted.into_iter().filter_map(|(key, evicted)| {
        let GroupPolicy::Gang(min_count) = place.snapshot().lookups().group(key)?.policy else { return None };
        let bound = Members::of(place, key).bound.len();
        // A group that has not started has nothing to lose.
        let falls = bound >= min_count && bound - evicted < min_count;
        falls.then(|| GroupBelow {
            group: name_of(place, key),
            min_count,
            bound,
            evicted,
            placed_again: 0,
            recovers: false,
        })
    });
    let mut below: Vec<GroupBelow> = below.collect();
    below.sort_by(|a, b| a.group.cmp(&b.group));
    below
}

/// Cordons the node like `kubectl cordon` and the node lifecycle controller.
pub(crate) fn cordon(trial: &mut Trial, name: &str) {
    let node = trial.tables().find(name).and_then(|name| trial.snapshot().find_node(name));
    let Some(node) = node else { return };
    let mut info = NodeInfo::clone(trial.snapshot().node_info(node));
    Edit::Cordon { node }.on_node(&mut info, trial.tables_mut());
    trial.set_node(&Arc::new(info));
}

/// Uncordons the node like `kubectl uncordon` and the node lifecycle controller.
pub(crate) fn uncordon(trial: &mut Trial, name: &str) {
    let node = trial.tables().find(name).and_then(|name| trial.snapshot().find_node(name));
    let Some(node) = node else { return };
    let mut info = NodeInfo::clone(trial.snapshot().node_info(node));
    Edit::Uncordon { node }.on_node(&mut info, trial.tables_mut());
    trial.set_node(&Arc::new(info));
}

/// Returns whether the eviction API asks budgets about the pod. One that has not started or is being deleted is evicted
/// whatever they say.
fn asks_budgets(of: &Leaving) -> bool {
    !of.pod.deleting && !of.is_pending
}

/// The disruption budgets that the eviction API asks about the pods, which are given by their indices.
pub(crate) struct Protected {
    /// Each budget with its allowed evictions, and the pods whose eviction uses one up.
    pub(crate) budgets: BTreeMap<String, (i32, Vec<usize>)>,
    /// The pods with several budgets, which the eviction API does not support.
    pub(crate) several: BTreeMap<usize, Vec<String>>,
}

impl Protected {
    /// Collects the budgets. An empty selector protects all pods of its namespace here, unlike in preemption.
    pub(crate) fn of(snapshot: Snapshot<'_>, going: &[&Leaving], states: &BudgetStates) -> Self {
        let (tables, lookups) = (snapshot.tables(), snapshot.lookups());
        let asks = |at: &usize| asks_budgets(going[*at]);
        let mut namespaces: Vec<Symbol> = going.iter().map(|of| of.pod.namespace).collect();
        namespaces.sort_unstable_by_key(|&namespace| tables.text(namespace));
        namespaces.dedup();
        let mut budgets = BTreeMap::new();
        let mut several: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for namespace in namespaces {
            let names = lookups.disruption_budget_keys().filter(|&(of, _)| of == namespace);
            for ((_, name), budget) in names.zip(lookups.disruption_budgets(namespace)) {
                let is_protected = |at: &usize| {
                    let pod = &going[*at].pod;
                    pod.namespace == namespace && budget.selector.matches(tables, tables.labels(pod.labels))
                };
                let pods: Vec<usize> = (0..going.len()).filter(asks).filter(is_protected).collect();
                let key = format!("{}/{}", tables.text(namespace), tables.text(name));
                pods.iter().for_each(|&at| several.entry(at).or_default().push(key.clone()));
                let is_blocked = states.get(&key).is_some_and(|state| state.is_outdated)
                    || budget.disrupted_pods.len() > DISRUPTED_MAX;
                let allowed = if is_blocked { 0 } else { budget.disruptions_allowed.max(0) };
                budgets.insert(key, (allowed, pods));
            }
        }
        several.retain(|_, budgets| budgets.len() > 1);
        for (key, (_, pods)) in &mut budgets {
            let lets_unready_go = states.get(key).is_some_and(|state| state.lets_unready_go());
            pods.retain(|at| !several.contains_key(at) && (going[*at].is_ready || !lets_unready_go));
        }
        Self { budgets, several }
    }

    /// Returns the budgets that allow fewer evictions than these pods need.
    fn too_few(&self) -> Vec<Budget> {
        let all = self.budgets.iter().map(|(budget, (allowed, pods))| Budget {
            budget: budget.clone(),
            allowed: *allowed,
            pods: pods.len(),
        });
        all.filter(|it| it.pods > usize::try_from(it.allowed).unwrap_or_default()).collect()
    }
}

/// Returns what prevents the eviction of the pods. `protected` is `None` if the budgets could not be read.
fn obstacles(
    place: &Place<'_>,
    going: &[&Leaving],
    protected: Option<&Protected>,
    accepted: Accepted,
) -> Vec<Obstacle> {
    let keys: Vec<String> = going.iter().map(|of| key(place, &of.pod)).collect();
    let named = |is_meant: &dyn Fn(&Leaving) -> bool| -> Vec<String> {
        going.iter().zip(&keys).filter(|(of, _)| is_meant(of)).map(|(_, key)| key.clone()).collect()
    };
    let mut all = Vec::new();
    let mut add = |code, pods: Vec<String>, text: String, accepted_by| {
        if !pods.is_empty() {
            all.push(Obstacle { code, pods, text, accepted_by });
        }
    };
    if !accepted.force {
        let pods = named(&|of| of.is_unmanaged && !of.pod.deleting);
        let text = "no controller would recreate it: it would be lost".to_owned();
        add(ObstacleCode::Unmanaged, pods, text, Some("--force"));
    }
    if !accepted.empty_dir_data {
        let pods = named(&|of| of.has_empty_dir && !of.pod.deleting);
        let text = "it has an emptyDir volume, whose data would be deleted".to_owned();
        add(ObstacleCode::EmptyDir, pods, text, Some("--delete-emptydir-data"));
    }
    if accepted.no_eviction {
        return all;
    }
    let Some(protected) = protected else {
        let text = "a disruption budget may protect it: the budgets could not be read".to_owned();
        add(ObstacleCode::BudgetsUnknown, named(&asks_budgets), text, Some("--disable-eviction"));
        return all;
    };
    for (budget, (allowed, pods)) in &protected.budgets {
        if *allowed == 0 {
            let pods = pods.iter().map(|&at| keys[at].clone()).collect();
            let text = format!("the disruption budget {budget} allows no eviction now");
            add(ObstacleCode::DisruptionBudget, pods, text, Some("--disable-eviction"));
        }
    }
    for (&at, budgets) in &protected.several {
        let text =
            format!("several disruption budgets protect it, so it cannot be evicted: {}", budgets.join(", "));
        add(ObstacleCode::SeveralBudgets, vec![keys[at].clone()], text, Some("--disable-eviction"));
    }
    all
}
