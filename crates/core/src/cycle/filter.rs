//! PreFilter and Filter of one decision.

use super::enabled_plugin::Fails;
use super::with_extenders::Overruled;
use super::{EnabledFilter, Framework, Point, Probe};
use crate::cache::{NodeView, Overlay, Snapshot};
use crate::framework::{Code, CycleError, DependsOn, FilterRule, PluginName, Prepared, Rejection, Verdict};
use crate::mutation::{self, Mutation};
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use crate::pod::PodInfo;
use crate::volume::Reservation;
use std::collections::BTreeMap;

/// What the filters said of a pod: which nodes are left, and which plugin took out which others.
///
/// Reasons are not stored. [`super::Diagnosis`] asks the rules again, for the nodes it needs them of.
pub struct Filtered {
    rules: Vec<(PluginName, Box<dyn FilterRule>)>,
    prefilter: Option<(PluginName, Rejection)>,
    only: Option<NodeSet>,
    narrowed_by: Vec<PluginName>,
    feasible: NodeSet,
    rejected: Vec<(usize, NodeSet)>,
    /// Verdicts on single nodes: those that pods nominated to them would leave no room on.
    nominated: BTreeMap<NodeIdx, (PluginName, Rejection)>,
    /// The nodes looked at, where not all were.
    walked: NodeSet,
    /// What extenders said of nodes.
    pub(super) overruled: Overruled,
    /// Nodes that are known to reject the pod, of which is told elsewhere why.
    refused_by: NodeSet,
}

/// How a node refuses a pod.
pub(crate) enum Refusing {
    /// Not at all.
    Not,
    /// By this plugin, with the number of its rule's verdict.
    Numbered(PluginName, u64),
    /// By this plugin, so.
    Plain(PluginName, Rejection),
}

impl Framework {
    /// PreFilter: lets every plugin prepare the pod.
    pub(crate) fn prepare(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        probe: &mut dyn Probe,
    ) -> Result<Filtered, CycleError> {
        probe.enter(Point::PreFilter);
        let filtered = self.prepare_all(pod, snapshot, probe);
        let status = match &filtered {
            Err(_) => "Error",
            Ok(Filtered { prefilter: Some((_, rejection)), .. }) => rejection.code.as_str(),
            Ok(_) => "Success",
        };
        probe.leave(Point::PreFilter, status);
        filtered
    }

    fn prepare_all(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        probe: &mut dyn Probe,
    ) -> Result<Filtered, CycleError> {
        let mut filtered = Filtered {
            rules: Vec::new(),
            prefilter: None,
            only: None,
            narrowed_by: Vec::new(),
            feasible: NodeSet::new(),
            rejected: Vec::new(),
            nominated: BTreeMap::new(),
            walked: NodeSet::new(),
            overruled: Overruled::default(),
            refused_by: NodeSet::new(),
        };
        let mut rules = Vec::with_capacity(self.filters.len());
        for seat in &self.filters {
            let name = seat.plugin.name();
            let mut rule = None;
            if !seat.pre_filter {
                rule = unprepared(seat, pod, snapshot);
            } else {
                probe.plugin_begins();
                let prepared = seat.plugin.prepare(pod, snapshot);
                probe.plugin_ended(name, Point::PreFilter, prepared.status(), 1);
                match prepared {
                    Prepared::Skip => {}
                    Prepared::Failed(CycleError(text)) => {
                        return Err(CycleError(format!("running PreFilter plugin \"{name}\": {text}")));
                    }
                    Prepared::Rejected(rejection) => {
                        let stops = rejection.code == Code::UnschedulableAndUnresolvable;
                        filtered.prefilter = Some((name, rejection));
                        if stops {
                            break;
                        }
                    }
                    Prepared::Run { rule: prepared, only } => {
                        rule = Some(prepared);
                        if let Some(only) = only {
                            filtered.narrow(name, only);
                        }
                    }
                }
            }
            rules.extend(seat.filter.zip(rule).map(|(place, rule)| (place.rank, name, rule)));
        }
        rules.sort_by_key(|&(rank, ..)| rank);
        filtered.rules = rules.into_iter().map(|(_, name, rule)| (name, rule)).collect();
        Ok(filtered)
    }
}

/// Upstream's name of what a filter said of all its nodes together.
fn judged_status(judged: &Result<(), CycleError>, all_pass: bool) -> &'static str {
    match judged {
        Err(_) => "Error",
        Ok(()) if all_pass => "Success",
        Ok(()) => "Unschedulable",
    }
}

/// The rule of a plugin whose PreFilter is not run.
pub(crate) fn unprepared(
    seat: &EnabledFilter,
    pod: &PodInfo,
    snapshot: Snapshot<'_>,
) -> Option<Box<dyn FilterRule>> {
    match seat.filter?.fails {
        Some(error) => Some(Box::new(Fails(error.to_owned()))),
        None => seat.plugin.without_pre_filter(pod, snapshot),
    }
}

impl Filtered {
    /// Keeps only the named nodes; none left by several plugins' choices is a rejection (`plugins.md` 2.4).
    fn narrow(&mut self, name: PluginName, only: Vec<NodeIdx>) {
        let mut set: NodeSet = only.into_iter().collect();
        if mutation::is_on(Mutation::NoNodesUnheardOf) {
            assert!(!set.is_empty(), "a share of no nodes");
        }
        self.narrowed_by.push(name);
        if let Some(before) = &self.only {
            set.intersect(before);
            if set.is_empty() && self.prefilter.is_none() {
                let mut names = self.narrowed_by.clone();
                names.sort_unstable();
                let text = format!("node(s) didn't satisfy plugin(s) [{}] simultaneously", names.join(" "));
                self.prefilter = Some((name, Rejection::unresolvable(text)));
            }
        }
        self.only = Some(set);
    }

    /// The plugin that rejected the pod before any node was looked at, and why.
    pub fn prefilter_rejection(&self) -> Option<(PluginName, &Rejection)> {
        self.prefilter.as_ref().map(|(name, rejection)| (*name, rejection))
    }

    /// The plugins that narrowed the nodes in PreFilter.
    pub fn narrowed_by(&self) -> &[PluginName] {
        &self.narrowed_by
    }

    /// The nodes the filters look at.
    pub fn candidates(&self, snapshot: Snapshot<'_>) -> NodeSet {
        let mut nodes = snapshot.nodes().clone();
        if let Some(only) = &self.only {
            nodes.intersect(only);
        }
        nodes
    }

    /// Whether the filters look at all nodes.
    pub(crate) fn looks_at_all(&self) -> bool {
        self.prefilter.is_none() && self.only.is_none()
    }

    /// The plugins whose filters look at nodes, in order.
    pub(crate) fn judges(&self) -> impl Iterator<Item = PluginName> + '_ {
        self.rules.iter().map(|(name, _)| *name)
    }

    /// These nodes were found to reject the pod, in another way than by [`Self::run`].
    pub(crate) fn is_refused_by(&mut self, nodes: NodeSet) {
        self.refused_by = nodes;
    }

    /// How the node refuses the pod, with the pods nominated to it or without them.
    pub(crate) fn refusing(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
    ) -> Result<Refusing, CycleError> {
        if let Some((plugin, rejection)) = self.with_nominated_pods(pod, snapshot, node)? {
            return Ok(Refusing::Plain(plugin, rejection));
        }
        let view = snapshot.node(node);
        for (name, rule) in &self.rules {
            match rule.verdict_number(&view) {
                Some(0) => continue,
                Some(number) => return Ok(Refusing::Numbered(name, number)),
                None => {}
            }
            match rule.check(&view) {
                Verdict::Fits => {}
                Verdict::Rejected(rejection) => return Ok(Refusing::Plain(name, rejection)),
                Verdict::Failed(error) => return Err(filter_error(name, &error)),
            }
        }
        Ok(Refusing::Not)
    }

    /// The nodes that passed all filters.
    pub fn feasible(&self) -> &NodeSet {
        &self.feasible
    }

    /// Of the nodes that passed all filters, these are left.
    pub(super) fn leave(&mut self, nodes: NodeSet) {
        self.feasible = nodes;
    }

    /// Filter: takes out of `candidates` what the rules reject.
    pub(super) fn run(
        &mut self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        candidates: NodeSet,
        probe: &mut dyn Probe,
    ) -> Result<(), CycleError> {
        let all = candidates.clone();
        let ran = self.run_by_plugin(pod, snapshot, candidates, probe);
        ran.map_err(|error| self.first_error(pod, snapshot, &all).unwrap_or(error))
    }

    /// Of errors of several plugins the one of the first node, as upstream looks at all of a node before the next.
    fn first_error(&self, pod: &PodInfo, snapshot: Snapshot<'_>, nodes: &NodeSet) -> Option<CycleError> {
        nodes.iter().find_map(|node| self.judge(pod, snapshot, node).err())
    }

    /// The first plugin that rejects the node with the pods nominated to it or without them, and why.
    pub(crate) fn judge(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
    ) -> Result<Option<(PluginName, Rejection)>, CycleError> {
        match self.with_nominated_pods(pod, snapshot, node)? {
            None => self.first_rejector(&snapshot.node(node)),
            rejected => Ok(rejected),
        }
    }

    /// Keeps what a walk in this order would have found, which ends at the first feasible node beyond `enough`.
    pub(super) fn cut(&mut self, order: &[NodeIdx], enough: usize) {
        let (mut kept, mut found) = (NodeSet::new(), 0);
        self.walked = NodeSet::new();
        for &node in order {
            if self.feasible.contains(node) {
                if found == enough {
                    break;
                }
                found += 1;
                kept.insert(node);
            }
            self.walked.insert(node);
        }
        self.feasible = kept;
        let walked = &self.walked;
        self.rejected.iter_mut().for_each(|(_, nodes)| nodes.intersect(walked));
        self.rejected.retain(|(_, nodes)| !nodes.is_empty());
        self.nominated.retain(|&node, _| walked.contains(node));
    }

    /// The same, node by node: an error counts only if the walk gets to it.
    pub(super) fn walk(
        &mut self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        order: &[NodeIdx],
        enough: usize,
    ) -> Result<(), CycleError> {
        self.rejected.clear();
        self.nominated.clear();
        (self.feasible, self.walked) = (NodeSet::new(), NodeSet::new());
        let mut found = 0;
        for &node in order {
            match self.judge(pod, snapshot, node)? {
                None if found == enough => break,
                None => {
                    found += 1;
                    self.feasible.insert(node);
                }
                Some(verdict) => {
                    self.nominated.insert(node, verdict);
                }
            }
            self.walked.insert(node);
        }
        Ok(())
    }

    /// Counts a node that was looked at before the walk.
    pub(super) fn also_walked(&mut self, node: Option<NodeIdx>) {
        if let Some(node) = node {
            self.walked.insert(node);
        }
    }

    /// How many nodes were looked at on a walk; 0 where there was none.
    pub fn walked(&self) -> usize {
        self.walked.len()
    }

    /// How many nodes there is a verdict on, of a plugin or an extender; upstream's `evaluatedNodes`. Those that PreFilter left out, a
    /// walk did not come to, or an extender dropped without a word are none of them.
    pub fn evaluated(&self, snapshot: Snapshot<'_>) -> usize {
        let mut judged = self.feasible.clone();
        judged.unite(&self.refused_by);
        self.rejected.iter().for_each(|(_, nodes)| judged.unite(nodes));
        for &node in self.nominated.keys() {
            judged.insert(node);
        }
        // An extender may name what is no node.
        let is_judged = |name: &str| {
            let node = snapshot.tables().find(name).and_then(|name| snapshot.find_node(name));
            node.is_some_and(|node| judged.contains(node))
        };
        judged.len() + self.overruled.failed.keys().filter(|name| !is_judged(name)).count()
    }

    fn run_by_plugin(
        &mut self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        mut candidates: NodeSet,
        probe: &mut dyn Probe,
    ) -> Result<(), CycleError> {
        self.rejected.clear();
        self.nominated.clear();
        for node in with_nominations(snapshot, &candidates) {
            if let Some(verdict) = self.with_nominated_pods(pod, snapshot, node)? {
                self.nominated.insert(node, verdict);
            }
        }
        for &node in self.nominated.keys() {
            candidates.remove(node);
        }
        for (at, (name, rule)) in self.rules.iter().enumerate() {
            let before = candidates.clone();
            probe.plugin_begins();
            let judged = rule.filter(snapshot, &mut candidates);
            let (asked, left) = (before.len(), candidates.len());
            probe.plugin_ended(name, Point::Filter, judged_status(&judged, asked == left), asked);
            judged.map_err(|e| filter_error(name, &e))?;
            let mut gone = before;
            gone.subtract(&candidates);
            if !gone.is_empty() {
                self.rejected.push((at, gone));
            }
        }
        self.feasible = candidates;
        Ok(())
    }

    /// Whether the node takes the pod if the pods nominated to it, of the same or higher priority, are there already.
    fn with_nominated_pods(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
    ) -> Result<Option<(PluginName, Rejection)>, CycleError> {
        if mutation::is_on(Mutation::NominatedIgnored) {
            return self.first_rejector(&snapshot.node(node));
        }
        let mut overlay = Overlay::new();
        let nominated = snapshot.nominated_on(node);
        for other in nominated.iter().filter(|n| n.priority >= pod.priority && n.uid != pod.uid) {
            overlay.add(other);
        }
        if overlay.is_empty() {
            return Ok(None);
        }
        self.first_rejector(&snapshot.node(node).with(&overlay))
    }

    /// Whether all rules pass the node that do not judge it by its object alone.
    pub(super) fn passes_but_for_object(&self, node: &NodeView<'_>) -> bool {
        let mut others = self.rules.iter().filter(|(_, rule)| rule.depends_on() != DependsOn::NodeSpec);
        others.all(|(_, rule)| match rule.verdict_number(node) {
            Some(number) => number == 0,
            None => matches!(rule.check(node), Verdict::Fits),
        })
    }

    /// The first plugin that rejects the node, and why.
    pub(crate) fn first_rejector(
        &self,
        node: &NodeView<'_>,
    ) -> Result<Option<(PluginName, Rejection)>, CycleError> {
        for (name, rule) in &self.rules {
            match rule.check(node) {
                Verdict::Fits => {}
                Verdict::Rejected(rejection) => return Ok(Some((name, rejection))),
                Verdict::Failed(error) => return Err(filter_error(name, &error)),
            }
        }
        Ok(None)
    }

    /// Reserve: what the pod needs on `node`, one of the feasible ones, beside its place there.
    ///
    /// # Errors
    /// With the plugin that refuses the node after all, and why.
    pub fn reserve(
        &self,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
    ) -> Result<Vec<Reservation>, (PluginName, Rejection)> {
        let mut all = Vec::new();
        for (name, rule) in &self.rules {
            all.append(&mut rule.reserve(&snapshot.node(node)).map_err(|rejection| (*name, rejection))?);
        }
        Ok(all)
    }

    /// Calls `each` with every rejected node, the plugin that rejected it first, and why.
    pub(super) fn for_each_rejected(
        &self,
        snapshot: Snapshot<'_>,
        mut each: impl FnMut(NodeIdx, PluginName, &Rejection),
    ) {
        for (&node, (name, rejection)) in &self.nominated {
            each(node, name, rejection);
        }
        for (at, nodes) in &self.rejected {
            let (name, rule) = &self.rules[*at];
            let mut known: Vec<(u64, Rejection)> = Vec::new();
            for node in nodes.iter() {
                let view = snapshot.node(node);
                let number = rule.verdict_number(&view);
                if let Some((_, rejection)) = known.iter().find(|(known, _)| number == Some(*known)) {
                    let verdict = || Verdict::Rejected(rejection.clone());
                    debug_assert_eq!(rule.check(&view), verdict(), "{name}: alike by number");
                    each(node, name, rejection);
                    continue;
                }
                match rule.check(&view) {
                    Verdict::Rejected(rejection) => {
                        each(node, name, &rejection);
                        known.extend(number.map(|number| (number, rejection)));
                    }
                    // The two forms of one rule disagree: the set is what was decided, so it is told all the same.
                    Verdict::Fits | Verdict::Failed(_) => {
                        debug_assert!(false, "{name}: filter and check disagree");
                        each(node, name, &Rejection { code: Code::Unschedulable, reasons: Vec::new() });
                    }
                }
            }
        }
    }
}

/// Of some nodes those that pods are nominated to.
fn with_nominations(snapshot: Snapshot<'_>, nodes: &NodeSet) -> Vec<NodeIdx> {
    const FEW: usize = 8;
    let some: Vec<NodeIdx> = nodes.iter().take(FEW + 1).collect();
    let mut found = if some.len() <= FEW { some } else { snapshot.nodes_with_nominations() };
    found.retain(|&node| nodes.contains(node) && !snapshot.nominated_on(node).is_empty());
    found
}

fn filter_error(name: PluginName, CycleError(text): &CycleError) -> CycleError {
    CycleError(format!("running \"{name}\" filter plugin: {text}"))
}
