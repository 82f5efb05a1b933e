//! The outcome for the scheduled pods: totals, and table rows that group pods with the same outcome.

use crate::commands::simulate::what_if::WhatIf;
use crate::screen::Screen;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_whatif::explain::format::count;
use supercargo_whatif::simulate::decision::Decision;

/// Number of nodes that a row lists by name.
const NODES_NAMED: usize = 3;
/// Number of rows in the default table format.
const ROWS_SHOWN: usize = 40;

/// A number of pods, and how many of them have a node at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Share {
    pub pods: usize,
    pub placed: usize,
}

/// The outcome for all scheduled pods, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    /// Pods whose node was removed.
    pub lost_node: Share,
    /// Pods that did not exist before.
    pub new: Share,
    /// Pods that were pending before.
    pub pending: Share,
    /// Number of preemption victims, whether evicted or only reported.
    pub victims: usize,
    /// Whether the victims were evicted in the simulation, instead of only reported.
    #[serde(skip)]
    pub is_applied: bool,
}

/// The state of a pod before the changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Was {
    On(String),
    New,
    Pending,
}

/// The key by which pods with the same outcome are grouped.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    is_placed: bool,
    was: Was,
    what: String,
    why: String,
}

/// Collects the outcome while pods are scheduled.
pub(super) struct Noting {
    outcome: Outcome,
    victims: BTreeSet<String>,
    pending: BTreeSet<Uid>,
    /// The owner of each pod, as `Kind namespace/name`.
    owners: BTreeMap<Uid, String>,
    rows: Vec<Row>,
    /// The row index of each pod.
    at: BTreeMap<Uid, usize>,
}

/// A scheduled pod.
struct Row {
    uid: Uid,
    was: Was,
    pod: String,
    node: Option<String>,
    why: String,
}

impl Noting {
    /// Creates the collector; call before the first decision.
    pub(super) fn of(what_if: &WhatIf) -> Self {
        let tables = what_if.tables();
        let owner = |(pod, owner): &(Arc<PodInfo>, Option<supercargo_whatif::prepare::owners::Owner>)| {
            let owner = owner.as_ref()?;
            let namespace = tables.text(pod.namespace);
            Some((Arc::clone(&pod.uid), format!("{} {namespace}/{}", owner.kind, owner.name)))
        };
        Self {
            outcome: Outcome { is_applied: what_if.decider.applies_preemption(), ..Outcome::default() },
            victims: BTreeSet::new(),
            pending: what_if.retried.clone(),
            owners: what_if.population.iter().filter_map(owner).collect(),
            rows: Vec::new(),
            at: BTreeMap::new(),
        }
    }

    /// Records a decision; `from` is the removed node of the pod.
    pub(super) fn add(&mut self, pod: &PodInfo, from: Option<&String>, decision: &Decision, why: String) {
        let was = match from {
            Some(node) => Was::On(node.clone()),
            None if self.pending.contains(&pod.uid) => Was::Pending,
            None => Was::New,
        };
        self.victims.extend(decision.preemption.iter().flat_map(|it| it.victims.iter().cloned()));
        let (uid, node) = (Arc::clone(&pod.uid), decision.node.clone());
        self.at.insert(Arc::clone(&uid), self.rows.len());
        self.rows.push(Row { uid, was, pod: decision.pod.clone(), node, why });
    }

    /// Records that a pod placed earlier was evicted.
    pub(super) fn evicted(&mut self, victim: &Uid) {
        if let Some(row) = self.at.get(victim).map(|&at| &mut self.rows[at]) {
            row.node = None;
            "It was placed, then evicted for a pod of higher priority.".clone_into(&mut row.why);
        }
    }

    /// Returns the totals.
    pub(super) fn outcome(&self) -> Outcome {
        let mut outcome = Outcome { victims: self.victims.len(), ..self.outcome.clone() };
        for Row { was, node, .. } in &self.rows {
            let share = match was {
                Was::On(_) => &mut outcome.lost_node,
                Was::New => &mut outcome.new,
                Was::Pending => &mut outcome.pending,
            };
            share.pods += 1;
            share.placed += usize::from(node.is_some());
        }
        outcome
    }

    /// Writes a table of the changed pods, pods without a node first, with one row per group.
    pub(super) fn print(&self, screen: &mut Screen) {
        let mut groups: BTreeMap<Alike, (Vec<&str>, BTreeMap<&str, usize>)> = BTreeMap::new();
        for Row { uid, was, pod, node, why } in &self.rows {
            if *was == Was::Pending && node.is_none() {
                continue;
            }
            let alike = Alike {
                is_placed: node.is_some(),
                was: was.clone(),
                what: self.owners.get(uid).unwrap_or(pod).clone(),
                why: why.clone(),
            };
            let (pods, nodes) = groups.entry(alike).or_default();
            pods.push(pod);
            *nodes.entry(node.as_deref().unwrap_or("<none>")).or_default() += 1;
        }
        if groups.is_empty() {
            return;
        }
        let head = ["PODS", "OBJECT", "FROM", "TO", "MESSAGE"].map(str::to_owned).to_vec();
        let more = groups.len().saturating_sub(ROWS_SHOWN);
        let rows = groups.into_iter().take(ROWS_SHOWN).map(|(alike, (pods, nodes))| {
            let was = match alike.was {
                Was::On(node) => node,
                Was::New => "<new>".to_owned(),
                Was::Pending => "<pending>".to_owned(),
            };
            let what = if let [pod] = pods[..] { pod.to_owned() } else { alike.what };
            vec![pods.len().to_string(), what, was, named(&nodes), alike.why]
        });
        let rows: Vec<Vec<String>> = [head].into_iter().chain(rows).collect();
        screen.table(&[0], &rows);
        if more > 0 {
            screen.line(&format!("  and {} (-o wide shows every pod)", count(more, "more row")));
        }
    }
}

/// Lists nodes with their number of pods, highest number first.
fn named(nodes: &BTreeMap<&str, usize>) -> String {
    if let [(node, _)] = nodes.iter().collect::<Vec<_>>()[..] {
        return (*node).to_owned();
    }
    let mut all: Vec<(&str, usize)> = nodes.iter().map(|(node, pods)| (*node, *pods)).collect();
    all.sort_by_key(|&(node, pods)| (std::cmp::Reverse(pods), node));
    let shown: Vec<String> =
        all.iter().take(NODES_NAMED).map(|(node, pods)| format!("{node} ({pods})")).collect();
    let more = all.len().saturating_sub(NODES_NAMED);
    let more = if more > 0 { format!(" and {}", count(more, "more node")) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

impl Outcome {
    /// Returns a one-line summary.
    pub(crate) fn line(&self) -> String {
        let mut parts = Vec::new();
        let Share { pods: all, placed } = self.lost_node;
        if all > 0 {
            let fit = if all == placed {
                format!("{} elsewhere", if all == 1 { "it fits" } else { "all fit" })
            } else {
                format!("{placed} fit elsewhere, {} no longer fit", all - placed)
            };
            let node = if all == 1 { "its node" } else { "their nodes" };
            parts.push(format!("{} lost {node}: {fit}", count(all, "pod")));
        }
        let Share { pods: all, placed } = self.new;
        if all > 0 {
            parts.push(format!("{placed} of {} fit", count(all, "new pod")));
        }
        let Share { pods: all, placed } = self.pending;
        if placed > 0 {
            parts.push(format!("{placed} of {} now fit", count(all, "pending pod")));
        } else if all > 0 {
            parts.push(format!("{} still pending", count(all, "pod")));
        }
        if self.victims > 0 {
            let would = if self.is_applied { "" } else { "would be " };
            parts.push(format!("{} {would}preempted", count(self.victims, "pod")));
        }
        if parts.is_empty() { "no pod is affected".to_owned() } else { parts.join("; ") }
    }
}
