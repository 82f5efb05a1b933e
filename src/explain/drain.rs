//! What would become of nodes' pods if the nodes were drained: cordoned, and all their pods decided about anew.
//!
//! All of them go at once, the most important first. Whether a drain would evict them is judged apart from whether they have a place: by
//! the rules of `kubectl drain` and of the eviction API (upstream `k8s.io/kubectl/pkg/drain/filters.go`,
//! `pkg/registry/core/pod/storage/eviction.go`), as far as budgets and pods say now. A budget counts over all nodes that are drained.

use super::answer::{API_VERSION, Group};
use super::claims::with_new_ephemeral_claims;
use super::edit::Edit;
use super::place::Place;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::cycle::Shapes;
use supercargo_core::intern::Symbol;
use supercargo_core::node::NodeInfo;
use supercargo_core::pod::PodInfo;

/// `kind` of the answer.
const KIND: &str = "DrainCheck";
/// Pods without a place whose reasons are told; of one workload they are the same.
const EXPLAINED_MAX: usize = 50;

/// What a drain would come to.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainCheck {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// `DrainCheck`.
    pub kind: &'static str,
    /// The node; of several their names, separated by commas.
    pub node: String,
    /// The nodes.
    pub nodes: Vec<String>,
    /// The pods that would go, in the order they are decided about.
    pub pods: Vec<Moved>,
    /// How many of them would have no place.
    pub without_place: usize,
    /// Whether a drain would evict them all, wherever they go then.
    pub will_drain: bool,
    /// What keeps a drain from evicting pods.
    pub obstacles: Vec<Obstacle>,
    /// Pods that a drain leaves where they are, and why.
    pub stay: BTreeMap<String, &'static str>,
    /// Budgets that allow fewer of their pods to go at once than are here.
    pub budgets: Vec<Budget>,
}

/// A pod that would go.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moved {
    /// `namespace/name`.
    pub pod: String,
    /// The node it is on.
    pub from: String,
    /// Where it would go; null where it would have no place.
    pub to: Option<String>,
    /// Whether nobody would make it anew.
    pub is_unmanaged: bool,
    /// Why it would have no place.
    pub reasons: Vec<Group>,
}

/// Something that keeps a drain from evicting pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Obstacle {
    /// What it is.
    pub code: ObstacleCode,
    /// The pods, `namespace/name`.
    pub pods: Vec<String>,
    /// What is in the way, for people.
    pub text: String,
    /// The flag of `kubectl drain` that takes it out of the way.
    pub accepted_by: Option<&'static str>,
}

/// The sorts of obstacles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ObstacleCode {
    /// No controller would make the pod anew.
    Unmanaged,
    /// The pod has data in an emptyDir, which go with it.
    EmptyDir,
    /// A disruption budget allows no eviction now.
    DisruptionBudget,
    /// Several disruption budgets protect the pod: the API server refuses to evict it.
    SeveralBudgets,
}

/// What whoever drains accepts: flags of `kubectl drain`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accepted {
    /// `--force`: pods without a controller go for good.
    pub force: bool,
    /// `--delete-emptydir-data`.
    pub empty_dir_data: bool,
    /// `--disable-eviction`: pods are deleted, whatever budgets say.
    pub no_eviction: bool,
}

/// A budget that would make a drain wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// `namespace/name`.
    pub budget: String,
    /// How many of its pods may go now.
    pub allowed: i32,
    /// How many of them are on the nodes.
    pub pods: usize,
}

/// A pod on one of the nodes.
#[derive(Clone, Debug)]
pub struct Leaving {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Why a drain leaves it where it is.
    pub stays: Option<&'static str>,
    /// Whether no controller makes it anew.
    pub is_unmanaged: bool,
    /// Whether it has an emptyDir volume.
    pub has_empty_dir: bool,
}

fn key(place: &Place<'_>, pod: &PodInfo) -> String {
    place.snapshot().pod_key(pod)
}

/// Drains the nodes of these names, which exist, hypothetically.
pub fn drain_check(
    place: &mut Place<'_>,
    nodes: &[String],
    pods: &[Leaving],
    accepted: Accepted,
) -> DrainCheck {
    let stay = pods.iter().filter_map(|of| Some((key(place, &of.pod), of.stays?))).collect();
    let mut going: Vec<&Leaving> = pods.iter().filter(|of| of.stays.is_none()).collect();
    going.sort_by_key(|of| (Reverse(of.pod.priority), key(place, &of.pod)));
    let protected = Protected::of(place, &going);
    let obstacles = obstacles(place, &going, &protected, accepted);
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
        budgets: if accepted.no_eviction { Vec::new() } else { protected.too_few() },
    };
    let before: Vec<Arc<NodeInfo>> = nodes.iter().filter_map(|name| close(place, name)).collect();
    move_away(place, &going, &mut answer);
    for node in before {
        place.cache.apply_node(&node);
    }
    answer
}

/// Takes the pods off their nodes, decides about each anew, and puts all back.
fn move_away(place: &mut Place<'_>, going: &[&Leaving], answer: &mut DrainCheck) {
    let gone: Vec<_> = going.iter().filter_map(|of| place.cache.remove_pod(&of.pod.uid)).collect();
    let mut shapes = Shapes::default();
    let (mut placed, mut claims) = (Vec::new(), Vec::new());
    for of in going {
        let anew =
            PodInfo { node_name: None, nominated_node: None, start_time: None, ..PodInfo::clone(&of.pod) };
        let (anew, made) = with_new_ephemeral_claims(place.tables, place.cache, anew);
        claims.extend(made);
        let anew = Arc::new(anew);
        let node = place.settle(&mut shapes, &anew);
        let to = node.map(|node| place.name(node));
        placed.extend(node.map(|_| Arc::clone(&anew.uid)));
        answer.without_place += usize::from(to.is_none());
        let reasons = if to.is_none() && answer.without_place <= EXPLAINED_MAX {
            super::short_reasons(place, &anew)
        } else {
            Vec::new()
        };
        let from = of.pod.node_name.map_or_else(String::new, |node| place.tables.text(node).to_owned());
        let pod = key(place, &anew);
        answer.pods.push(Moved { pod, from, to, is_unmanaged: of.is_unmanaged, reasons });
    }
    for uid in placed {
        place.cache.remove_pod(&uid);
    }
    for claim in claims {
        place.cache.volumes_mut().remove(claim);
    }
    for (pod, node, state) in &gone {
        place.cache.place(pod, *node, *state);
    }
}

/// Closes the node as `kubectl cordon` and its controller do; what it was.
fn close(place: &mut Place<'_>, name: &str) -> Option<Arc<NodeInfo>> {
    let node = place.tables.find(name).and_then(|name| place.snapshot().find_node(name))?;
    let before = NodeInfo::clone(place.snapshot().node_info(node));
    let mut after = before.clone();
    Edit::Cordon { node }.on_node(&mut after, place.tables);
    place.cache.apply_node(&Arc::new(after));
    Some(Arc::new(before))
}

/// The budgets of the pods that go, each with how many evictions it allows and which pods it protects, as numbers of the list.
struct Protected(BTreeMap<String, (i32, Vec<usize>)>);

impl Protected {
    /// An empty selector protects all pods of its namespace here, unlike in preemption.
    fn of(place: &Place<'_>, going: &[&Leaving]) -> Self {
        let (tables, lookups) = (&*place.tables, place.cache.lookups());
        let mut namespaces: Vec<Symbol> = going.iter().map(|of| of.pod.namespace).collect();
        namespaces.sort_unstable_by_key(|&namespace| tables.text(namespace));
        namespaces.dedup();
        let mut all = BTreeMap::new();
        for namespace in namespaces {
            let names = lookups.disruption_budget_keys().filter(|&(of, _)| of == namespace);
            for ((_, name), budget) in names.zip(lookups.disruption_budgets(namespace)) {
                let is_protected = |of: &&Leaving| {
                    // A pod that is being deleted is evicted already.
                    !of.pod.deleting
                        && of.pod.namespace == namespace
                        && budget.selector.matches(tables, tables.labels(of.pod.labels))
                };
                let pods = (0..going.len()).filter(|&at| is_protected(&going[at])).collect();
                let budget_key = format!("{}/{}", tables.text(namespace), tables.text(name));
                all.insert(budget_key, (budget.disruptions_allowed.max(0), pods));
            }
        }
        Self(all)
    }

    /// Those that protect more of the pods than may go now.
    fn too_few(&self) -> Vec<Budget> {
        let all = self.0.iter().map(|(budget, (allowed, pods))| Budget {
            budget: budget.clone(),
            allowed: *allowed,
            pods: pods.len(),
        });
        all.filter(|it| it.pods > usize::try_from(it.allowed).unwrap_or_default()).collect()
    }
}

/// What keeps a drain from evicting the pods.
fn obstacles(
    place: &Place<'_>,
    going: &[&Leaving],
    protected: &Protected,
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
        let text = "no controller would make it anew: it would be gone for good".to_owned();
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
    let mut budgets_of: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (budget, (allowed, pods)) in &protected.0 {
        pods.iter().for_each(|&at| budgets_of.entry(at).or_default().push(budget));
        if *allowed == 0 {
            let pods = pods.iter().map(|&at| keys[at].clone()).collect();
            let text = format!("the disruption budget {budget} allows no eviction now");
            add(ObstacleCode::DisruptionBudget, pods, text, Some("--disable-eviction"));
        }
    }
    for (at, budgets) in budgets_of.into_iter().filter(|(_, budgets)| budgets.len() > 1) {
        let text =
            format!("several disruption budgets protect it, so it cannot be evicted: {}", budgets.join(", "));
        add(ObstacleCode::SeveralBudgets, vec![keys[at].clone()], text, Some("--disable-eviction"));
    }
    all
}
