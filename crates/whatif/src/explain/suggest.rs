//! Finds label names in a pod's spec that do not exist in the cluster, and suggests existing ones.

use crate::explain::answer::Hint;
use crate::explain::format::{requirement, some};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_config::yaml::nearest;
use supercargo_core::cache::Snapshot;
use supercargo_core::model::intern::{Labels, Symbol, Tables};
use supercargo_core::model::pod::{PodAffinityTerm, PodInfo, WhenUnsatisfiable};
use supercargo_core::model::selector::{Operator, Requirement, Selector};

/// Values shared by too many labels to suggest a key.
const COMMON: [&str; 3] = ["", "true", "false"];
/// Maximum number of existing values that a hint lists.
const SHOWN: usize = 5;

/// The label keys of nodes or pods, with all their values.
#[derive(Default)]
pub(super) struct Vocabulary {
    values: BTreeMap<Symbol, BTreeSet<Symbol>>,
}

/// The unknown part of a label, with the closest known label.
pub(super) enum Unknown {
    /// No object has the key.
    Key(Option<(Symbol, Option<Symbol>)>),
    /// Objects have the key, but none has this value.
    Value(Option<Symbol>),
}

impl Vocabulary {
    /// Collects the labels of all nodes.
    pub(super) fn of_nodes(snapshot: Snapshot<'_>) -> Self {
        let mut all = Self::default();
        snapshot.nodes().iter().for_each(|node| all.add(snapshot.node_labels(node)));
        all
    }

    /// Collects the labels of all pods, on nodes and pending.
    pub(super) fn of_pods(snapshot: Snapshot<'_>, pending: &[Arc<PodInfo>]) -> Self {
        let mut all = Self::default();
        let waiting = pending.iter().map(|pod| pod.labels);
        let sets: BTreeSet<_> = snapshot.pod_classes().map(|kind| kind.pod().labels).chain(waiting).collect();
        sets.into_iter().for_each(|id| all.add(snapshot.labels(id)));
        all
    }

    fn add(&mut self, labels: Labels<'_>) {
        for (key, value) in labels.iter() {
            self.values.entry(key).or_default().insert(value);
        }
    }

    /// Returns the unknown part of a label, or `None` if the label exists.
    pub(super) fn unknown(&self, tables: &Tables, key: Symbol, value: Option<Symbol>) -> Option<Unknown> {
        let near = |word: Symbol, among: &mut dyn Iterator<Item = Symbol>| {
            let texts: Vec<&str> = among.map(|symbol| tables.text(symbol)).collect();
            nearest(tables.text(word), texts).and_then(|text| tables.find(text))
        };
        let Some(values) = self.values.get(&key) else {
            let meant = near(key, &mut self.values.keys().copied());
            let meant = meant.map(|key| {
                let values = &self.values[&key];
                let value = value.and_then(|value| {
                    values.get(&value).copied().or_else(|| near(value, &mut values.iter().copied()))
                });
                (key, value)
            });
            return Some(Unknown::Key(meant.or_else(|| self.by_value(tables, value?))));
        };
        let value = value.filter(|value| !values.contains(value))?;
        Some(Unknown::Value(near(value, &mut values.iter().copied())))
    }

    /// Returns the key that has this value, if exactly one does.
    fn by_value(&self, tables: &Tables, value: Symbol) -> Option<(Symbol, Option<Symbol>)> {
        if COMMON.contains(&tables.text(value)) {
            return None;
        }
        let mut keys = self.values.iter().filter(|(_, values)| values.contains(&value)).map(|(&key, _)| key);
        let key = keys.next()?;
        keys.next().is_none().then_some((key, Some(value)))
    }

    /// Returns the closest known label, or `None` if the label exists or nothing is close.
    pub(super) fn meant(&self, tables: &Tables, key: Symbol, value: Symbol) -> Option<(Symbol, Symbol)> {
        match self.unknown(tables, key, Some(value))? {
            Unknown::Key(Some((key, Some(value)))) => Some((key, value)),
            Unknown::Value(Some(value)) => Some((key, value)),
            Unknown::Key(_) | Unknown::Value(None) => None,
        }
    }

    /// Returns the requirement that was probably meant, or `None`.
    pub(super) fn meant_by(&self, tables: &Tables, of: &Requirement) -> Option<Requirement> {
        match &of.operator {
            Operator::In(values) => {
                let known = self.values.get(&of.key);
                if values.iter().any(|value| known.is_some_and(|known| known.contains(value))) {
                    return None;
                }
                let (key, value) = values.iter().find_map(|&value| self.meant(tables, of.key, value))?;
                Some(Requirement { key, operator: Operator::In([value].into()) })
            }
            Operator::Exists => {
                let key = self.key_meant(tables, of.key)?;
                Some(Requirement { key, operator: Operator::Exists })
            }
            _ => None,
        }
    }

    /// Returns the closest known key, or `None` if the key exists or none is close.
    pub(super) fn key_meant(&self, tables: &Tables, key: Symbol) -> Option<Symbol> {
        match self.unknown(tables, key, None)? {
            Unknown::Key(Some((key, _))) => Some(key),
            Unknown::Key(None) | Unknown::Value(_) => None,
        }
    }

    /// Returns whether any object has the key.
    pub(super) fn has_key(&self, key: Symbol) -> bool {
        self.values.contains_key(&key)
    }

    fn values_of(&self, tables: &Tables, key: Symbol) -> String {
        let texts: Vec<String> =
            self.values.get(&key).into_iter().flatten().map(|&value| tables.text(value).to_owned()).collect();
        some(&sorted(texts), SHOWN)
    }
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_unstable();
    texts
}

/// Returns hints for all parts of the pod's spec that name unknown labels.
pub(super) fn hints(
    pod: &PodInfo,
    snapshot: Snapshot<'_>,
    nodes: &Vocabulary,
    pods: &Vocabulary,
) -> Vec<Hint> {
    let tables = snapshot.tables();
    let mut hints = Vec::new();
    for &(key, value) in pod.node_affinity.node_selector.iter().flatten() {
        let of = Requirement { key, operator: Operator::In([value].into()) };
        hints.extend(of_requirement("spec.nodeSelector", "node", &of, tables, nodes));
    }
    let terms = pod.node_affinity.terms.iter().flatten().filter_map(|term| term.demands.as_ref());
    for of in terms.flat_map(|demands| &demands.labels) {
        hints.extend(of_requirement("spec.affinity.nodeAffinity", "node", of, tables, nodes));
    }
    for each in pod.spread.iter().filter(|each| each.when_unsatisfiable != WhenUnsatisfiable::Unknown) {
        hints.extend(of_key("spec.topologySpreadConstraints", each.topology_key, tables, nodes));
    }
    if let Some(all) = &pod.pod_affinity {
        let list = |terms: &Result<Box<[PodAffinityTerm]>, Box<str>>| terms.clone().unwrap_or_default();
        for term in list(&all.required_affinity) {
            let field = "spec.affinity.podAffinity";
            hints.extend(of_key(field, term.topology_key, tables, nodes));
            hints.extend(of_selector(field, &term.selector, tables, pods));
        }
        for term in list(&all.required_anti_affinity) {
            let field = "spec.affinity.podAntiAffinity";
            hints.extend(of_key(field, term.topology_key, tables, nodes));
        }
    }
    hints.extend(of_tolerations(pod, snapshot));
    hints.dedup();
    hints
}

fn of_selector(field: &str, selector: &Selector, tables: &Tables, pods: &Vocabulary) -> Vec<Hint> {
    let Selector::All(list) = selector else { return Vec::new() };
    list.iter().filter_map(|of| of_requirement(field, "pod", of, tables, pods)).collect()
}

/// Returns a hint if a label requirement names an unknown key or value.
pub(super) fn of_requirement(
    field: &str,
    whose: &str,
    of: &Requirement,
    tables: &Tables,
    known: &Vocabulary,
) -> Option<Hint> {
    let values: &[Symbol] = match &of.operator {
        Operator::In(values) => values,
        Operator::Exists => &[],
        _ => return None,
    };
    let key = tables.text(of.key);
    let is_there = |&value: &Symbol| known.unknown(tables, of.key, Some(value)).is_none();
    let (code, text) = if !known.has_key(of.key) {
        ("LabelKeyUnknown", format!("no {whose} has a label {key}"))
    } else if !values.is_empty() && !values.iter().any(is_there) {
        let asked = requirement(tables, of);
        let there = known.values_of(tables, of.key);
        ("LabelValueUnknown", format!("no {whose} has {asked}; existing values: {there}"))
    } else {
        return None;
    };
    let meant = known.meant_by(tables, of).map(|meant| requirement(tables, &meant));
    let meant = meant.or_else(|| known.key_meant(tables, of.key).map(|key| tables.text(key).to_owned()));
    Some(Hint { code, field: field.to_owned(), text, did_you_mean: meant })
}

/// Returns a hint if no node has the topology key.
pub(super) fn of_key(field: &str, key: Symbol, tables: &Tables, nodes: &Vocabulary) -> Option<Hint> {
    if nodes.has_key(key) {
        return None;
    }
    Some(Hint {
        code: "TopologyKeyUnknown",
        field: field.to_owned(),
        text: format!("no node has a label {}, which is the topologyKey", tables.text(key)),
        did_you_mean: nodes.key_meant(tables, key).map(|key| tables.text(key).to_owned()),
    })
}

/// Returns hints for tolerations that match no taint but are close to an untolerated one.
pub(super) fn of_tolerations(pod: &PodInfo, snapshot: Snapshot<'_>) -> Vec<Hint> {
    let tables = snapshot.tables();
    let sets: BTreeSet<_> = snapshot.nodes().iter().map(|node| snapshot.node_info(node).taints).collect();
    let taints: Vec<_> = sets.into_iter().flat_map(|set| tables.taints(set)).collect();
    let mut hints = Vec::new();
    for toleration in &pod.tolerations {
        let Some(key) = toleration.key.filter(|_| !taints.iter().any(|taint| toleration.tolerates(taint)))
        else {
            continue;
        };
        let kept_out = taints.iter().filter(|taint| taint.keeps_out(&pod.tolerations));
        let near = kept_out.filter(|taint| {
            taint.key == key || nearest(tables.text(key), [tables.text(taint.key)]).is_some()
        });
        if let Some(taint) = near.min_by_key(|taint| crate::explain::format::taint(tables, taint)) {
            let value = tables.text(toleration.value);
            let written = if value.is_empty() { String::new() } else { format!("={value}") };
            hints.push(Hint {
                code: "TolerationUnused",
                field: "spec.tolerations".to_owned(),
                text: format!(
                    "no node has a taint that the toleration {}{written} matches",
                    tables.text(key)
                ),
                did_you_mean: Some(crate::explain::format::taint(tables, taint)),
            });
        }
    }
    hints
}
