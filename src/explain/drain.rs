//! What would become of a node's pods if it were drained: closed, and all its pods decided about anew.
//!
//! All of them go at once, the most important first; budgets that would make the drain wait are counted, and not waited for.

use super::answer::{API_VERSION, Group};
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
    /// The node.
    pub node: String,
    /// The pods that would go, in the order they are decided about.
    pub pods: Vec<Moved>,
    /// How many of them would have no place.
    pub without_place: usize,
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
    /// Where it would go; null where it would have no place.
    pub to: Option<String>,
    /// Whether nobody would make it anew.
    pub is_unmanaged: bool,
    /// Why it would have no place.
    pub reasons: Vec<Group>,
}

/// A budget that would make a drain wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// `namespace/name`.
    pub budget: String,
    /// How many of its pods may go now.
    pub allowed: i32,
    /// How many of them are on the node.
    pub pods: usize,
}

/// A pod on the node.
#[derive(Clone, Debug)]
pub struct Leaving {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Why a drain leaves it where it is.
    pub stays: Option<&'static str>,
    /// Whether no controller makes it anew.
    pub is_unmanaged: bool,
}

/// Drains the node named `name`, which exists, in mind.
pub fn drain_check(place: &mut Place<'_>, name: &str, pods: &[Leaving]) -> DrainCheck {
    let key = |place: &Place<'_>, pod: &PodInfo| place.snapshot().pod_key(pod);
    let stay = pods.iter().filter_map(|of| Some((key(place, &of.pod), of.stays?))).collect();
    let mut going: Vec<&Leaving> = pods.iter().filter(|of| of.stays.is_none()).collect();
    going.sort_by_key(|of| (Reverse(of.pod.priority), key(place, &of.pod)));
    let mut answer = DrainCheck {
        api_version: API_VERSION,
        kind: KIND,
        node: name.to_owned(),
        pods: Vec::with_capacity(going.len()),
        without_place: 0,
        stay,
        budgets: budgets(place, &going),
    };
    let before = close(place, name);
    let gone: Vec<_> = going.iter().filter_map(|of| place.cache.remove_pod(&of.pod.uid)).collect();
    let mut shapes = Shapes::default();
    let mut placed = Vec::new();
    for of in going {
        let anew =
            PodInfo { node_name: None, nominated_node: None, start_time: None, ..PodInfo::clone(&of.pod) };
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
        answer.pods.push(Moved { pod: key(place, &anew), to, is_unmanaged: of.is_unmanaged, reasons });
    }
    for uid in placed {
        place.cache.remove_pod(&uid);
    }
    for (pod, node, state) in &gone {
        place.cache.place(pod, *node, *state);
    }
    if let Some(before) = before {
        place.cache.apply_node(&before);
    }
    answer
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

/// The budgets that protect more of these pods than may go.
fn budgets(place: &Place<'_>, going: &[&Leaving]) -> Vec<Budget> {
    let (tables, lookups) = (&*place.tables, place.cache.lookups());
    let mut namespaces: Vec<Symbol> = going.iter().map(|of| of.pod.namespace).collect();
    namespaces.sort_unstable_by_key(|&namespace| tables.text(namespace));
    namespaces.dedup();
    let mut budgets = Vec::new();
    for namespace in namespaces {
        let names = lookups.disruption_budget_keys().filter(|&(of, _)| of == namespace).map(|(_, name)| name);
        for (name, budget) in names.zip(lookups.disruption_budgets(namespace)) {
            let is_meant = |of: &&&Leaving| {
                of.pod.namespace == namespace
                    && !budget.selector.is_empty()
                    && budget.selector.matches(tables, tables.labels(of.pod.labels))
            };
            let pods = going.iter().filter(is_meant).count();
            let allowed = budget.disruptions_allowed.max(0);
            if pods > usize::try_from(allowed).unwrap_or_default() {
                let budget = format!("{}/{}", tables.text(namespace), tables.text(name));
                budgets.push(Budget { budget, allowed, pods });
            }
        }
    }
    budgets
}
