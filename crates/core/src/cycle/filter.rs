//! PreFilter and Filter of a decision.

use super::with_extenders::ExtenderRejections;
use super::{EnabledRule, Framework, Point, Probe, in_order_of_reserve};
use crate::cache::{Facts, NodeView, Overlay, Snapshot};
use crate::framework::{Code, CycleError, DependsOn, PluginName, Prepared, Rejection, Verdict};
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::model::volume::Reservation;
use crate::switches::mutation::{self, Mutation};
use std::collections::BTreeMap;

/// The results of PreFilter and Filter for one pod: feasible nodes, and rejected nodes by plugin.
///
/// Reasons are not stored. [`super::Diagnosis`] computes them again where they are needed.
pub struct Filtered {
    /// In the order of Filter.
    rules: Vec<EnabledRule>,
    prefilter: Option<(PluginName, Rejection)>,
    restricted_to: Option<NodeSet>,
    /// The placement that the decision is restricted to.
    within: Option<NodeSet>,
    narrowed_by: Vec<PluginName>,
    feasible: NodeSet,
    rejected: Vec<(usize, NodeSet)>,
    /// Verdicts on single nodes: rejections with the pods that are nominated to the node, and all verdicts of a
    /// sampled search.
    single_verdicts: BTreeMap<NodeIdx, (PluginName, Rejection)>,
    /// The nodes that a sampled search reached.
    walked: NodeSet,
    /// The rejections by extenders.
    pub(super) extender_rejections: ExtenderRejections,
    /// Nodes that the infeasible cache knows to reject the pod; it also has the reasons.
    rejected_elsewhere: NodeSet,
}

/// Why a node rejects a pod.
pub(crate) enum NodeRejection {
    /// It does not.
    None,
    /// By this plugin, with the number of its rule's verdict.
    Numbered(PluginName, u64),
    /// By this plugin, with this rejection.
    Plain(PluginName, Rejection),
}

impl Framework {
    /// Runs PreFilter of all plugins.
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
            rules: Vec::with_capacity(self.filters.len()),
            prefilter: None,
            restricted_to: None,
            within: None,
            narrowed_by: Vec::new(),
            feasible: NodeSet::new(),
            rejected: Vec::new(),
            single_verdicts: BTreeMap::new(),
            walked: NodeSet::new(),
            extender_rejections: ExtenderRejections::default(),
            rejected_elsewhere: NodeSet::new(),
        };
        for enabled in &self.filters {
            let name = enabled.plugin.name();
            let mut rule = None;
            if !enabled.pre_filter {
                rule = enabled.unprepared(|| enabled.plugin.without_pre_filter(pod, snapshot));
            } else {
                probe.plugin_begins();
                let prepared = enabled.plugin.prepare(pod, snapshot);
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
                            filtered.restrict(name, only);
                        }
                    }
                }
            }
            filtered.rules.extend(rule.and_then(|rule| enabled.with(rule)));
        }
        filtered.rules.sort_by_key(|rule| rule.filter);
        Ok(filtered)
    }
}

/// Returns upstream's name for the result of a filter over all nodes.
fn filter_status(judged: &Result<(), CycleError>, all_pass: bool) -> &'static str {
    match judged {
        Err(_) => "Error",
        Ok(()) if all_pass => "Success",
        Ok(()) => "Unschedulable",
    }
}

impl Filtered {
    /// Restricts the candidates to the named nodes.
    ///
    /// If the restrictions of several plugins have no node in common, the pod is rejected.
    fn restrict(&mut self, name: PluginName, only: Vec<NodeIdx>) {
        let mut set: NodeSet = only.into_iter().collect();
        if mutation::is_on(Mutation::NodeCountAssumedPositive) {
            assert!(!set.is_empty(), "a plugin restricts the candidates to no node");
        }
        self.narrowed_by.push(name);
        if let Some(before) = &self.restricted_to {
            set.intersect(before);
            if set.is_empty() && self.prefilter.is_none() {
                let mut names = self.narrowed_by.clone();
                names.sort_unstable();
                let text = format!("node(s) didn't satisfy plugin(s) [{}] simultaneously", names.join(" "));
                self.prefilter = Some((name, Rejection::unresolvable(text)));
            }
        }
        self.restricted_to = Some(set);
    }

    /// Restricts the decision to a placement.
    pub(super) fn place_within(&mut self, nodes: Option<&NodeSet>) {
        self.within = nodes.cloned();
    }

    /// Returns the nodes that messages count: all nodes, or those of the placement.
    pub(super) fn all_nodes<'a>(&'a self, snapshot: Snapshot<'a>) -> &'a NodeSet {
        self.within.as_ref().unwrap_or_else(|| snapshot.nodes())
    }

    /// Returns the plugin that rejected the pod in PreFilter, and its rejection.
    pub fn prefilter_rejection(&self) -> Option<(PluginName, &Rejection)> {
        self.prefilter.as_ref().map(|(name, rejection)| (*name, rejection))
    }

    /// Returns the plugins that restricted the candidates in PreFilter.
    pub fn narrowed_by(&self) -> &[PluginName] {
        &self.narrowed_by
    }

    /// Returns the nodes that Filter evaluates.
    pub fn candidates(&self, snapshot: Snapshot<'_>) -> NodeSet {
        let mut nodes = self.all_nodes(snapshot).clone();
        if let Some(only) = &self.restricted_to {
            nodes.intersect(only);
        }
        nodes
    }

    /// Whether Filter evaluates all nodes.
    pub(crate) fn has_all_candidates(&self) -> bool {
        self.prefilter.is_none() && self.restricted_to.is_none() && self.within.is_none()
    }

    /// Whether each node is judged by the node object and the pods on that node alone.
    pub(crate) fn judges_nodes_alone(&self) -> bool {
        self.prefilter.is_none() && self.rules.iter().all(|it| it.rule.depends_on() != DependsOn::Cluster)
    }

    /// Returns how many such pods fit on the node if it has no others, at most.
    pub(crate) fn most_on_empty(&self, snapshot: Snapshot<'_>, node: NodeIdx) -> usize {
        self.rules.iter().map(|it| it.rule.most_on_empty(snapshot, node)).min().unwrap_or(usize::MAX)
    }

    /// Returns the plugins that have a filter rule for this pod, in order.
    pub(crate) fn filter_plugins(&self) -> impl Iterator<Item = PluginName> + '_ {
        self.rules.iter().map(|it| it.name)
    }

    /// Records nodes that reject the pod, found by other means than [`Self::run`].
    pub(crate) fn set_rejected(&mut self, nodes: NodeSet) {
        self.rejected_elsewhere = nodes;
    }

    /// Returns why the node rejects the pod, with or without the pods nominated to it.
    pub(crate) fn node_rejection(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
    ) -> Result<NodeRejection, CycleError> {
        if let Some((plugin, rejection)) = self.rejection_with_nominated_pods(pod, snapshot, node)? {
            return Ok(NodeRejection::Plain(plugin, rejection));
        }
        // Only rules that judge each node alone are asked here: the result is cached until the node changes.
        let view = snapshot.showing(Facts::NodeUsage).node(node);
        for EnabledRule { name, rule, .. } in &self.rules {
            match rule.verdict_number(&view) {
                Some(0) => continue,
                Some(number) => return Ok(NodeRejection::Numbered(name, number)),
                None => {}
            }
            match rule.check(&view) {
                Verdict::Fits => {}
                Verdict::Rejected(rejection) => return Ok(NodeRejection::Plain(name, rejection)),
                Verdict::Failed(error) => return Err(filter_error(name, &error)),
            }
        }
        Ok(NodeRejection::None)
    }

    /// Returns the feasible nodes.
    pub fn feasible(&self) -> &NodeSet {
        &self.feasible
    }

    /// Replaces the feasible nodes by a subset.
    pub(super) fn set_feasible(&mut self, nodes: NodeSet) {
        self.feasible = nodes;
    }

    /// Runs Filter on `candidates`.
    pub(super) fn run(
        &mut self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        candidates: NodeSet,
        probe: &mut dyn Probe,
    ) -> Result<(), CycleError> {
        let all = candidates.clone();
        let outcome = self.run_by_plugin(pod, snapshot, candidates, probe);
        outcome.map_err(|error| self.first_error(pod, snapshot, &all).unwrap_or(error))
    }

    /// Returns the error of the first node with an error. Upstream evaluates node by node, so it reports this one.
    fn first_error(&self, pod: &PodInfo, snapshot: Snapshot<'_>, nodes: &NodeSet) -> Option<CycleError> {
        nodes.iter().find_map(|node| self.judge(pod, snapshot, node).err())
    }

    /// Returns the first plugin that rejects the node, with or without the pods nominated to it, and its rejection.
    pub(crate) fn judge(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
    ) -> Result<Option<(PluginName, Rejection)>, CycleError> {
        match self.rejection_with_nominated_pods(pod, snapshot, node)? {
            None => self.first_rejector(&snapshot.node(node)),
            rejected => Ok(rejected),
        }
    }

    /// Reduces the results to those of a sampled search in this order. The search ends at the first feasible node
    /// after `enough` others.
    pub(super) fn truncate(&mut self, order: &[NodeIdx], enough: usize) {
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
        self.single_verdicts.retain(|&node, _| walked.contains(node));
    }

    /// Runs a sampled search node by node. An error counts only if the search reaches its node.
    pub(super) fn walk(
        &mut self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        order: &[NodeIdx],
        enough: usize,
    ) -> Result<(), CycleError> {
        self.rejected.clear();
        self.single_verdicts.clear();
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
                    self.single_verdicts.insert(node, verdict);
                }
            }
            self.walked.insert(node);
        }
        Ok(())
    }

    /// Adds a node that was evaluated before the sampled search.
    pub(super) fn add_walked(&mut self, node: Option<NodeIdx>) {
        if let Some(node) = node {
            self.walked.insert(node);
        }
    }

    /// Returns the number of nodes that a sampled search reached; 0 without sampling.
    pub fn walked(&self) -> usize {
        self.walked.len()
    }

    /// Returns the number of nodes with a verdict of a plugin or extender (upstream `evaluatedNodes`).
    ///
    /// It excludes nodes that PreFilter removed, that a sampled search did not reach, or that an extender dropped
    /// without a reason.
    pub fn evaluated(&self, snapshot: Snapshot<'_>) -> usize {
        let mut judged = self.feasible.clone();
        judged.unite(&self.rejected_elsewhere);
        self.rejected.iter().for_each(|(_, nodes)| judged.unite(nodes));
        for &node in self.single_verdicts.keys() {
            judged.insert(node);
        }
        // An extender may name a node that does not exist.
        let is_judged = |name: &str| {
            let node = snapshot.tables().find(name).and_then(|name| snapshot.find_node(name));
            node.is_some_and(|node| judged.contains(node))
        };
        judged.len() + self.extender_rejections.failed.keys().filter(|name| !is_judged(name)).count()
    }

    fn run_by_plugin(
        &mut self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        mut candidates: NodeSet,
        probe: &mut dyn Probe,
    ) -> Result<(), CycleError> {
        self.rejected.clear();
        self.single_verdicts.clear();
        for node in with_nominations(snapshot, &candidates) {
            if let Some(verdict) = self.rejection_with_nominated_pods(pod, snapshot, node)? {
                self.single_verdicts.insert(node, verdict);
            }
        }
        for &node in self.single_verdicts.keys() {
            candidates.remove(node);
        }
        for (at, EnabledRule { name, rule, .. }) in self.rules.iter().enumerate() {
            let before = candidates.clone();
            probe.plugin_begins();
            let judged = rule.filter(snapshot, &mut candidates);
            let (evaluated_nodes, passing_nodes) = (before.len(), candidates.len());
            probe.plugin_ended(
                name,
                Point::Filter,
                filter_status(&judged, evaluated_nodes == passing_nodes),
                evaluated_nodes,
            );
            judged.map_err(|e| filter_error(name, &e))?;
            let mut rejected = before;
            rejected.subtract(&candidates);
            if !rejected.is_empty() {
                self.rejected.push((at, rejected));
            }
        }
        self.feasible = candidates;
        Ok(())
    }

    /// Filters the node with the pods that are nominated to it and have the same or a higher priority.
    ///
    /// Returns the rejection; `None` if the node passes or has no such pods.
    fn rejection_with_nominated_pods(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
    ) -> Result<Option<(PluginName, Rejection)>, CycleError> {
        if mutation::is_on(Mutation::NominatedPodsIgnored) {
            return self.first_rejector(&snapshot.node(node));
        }
        let nominated = snapshot.nominated_on(node);
        if nominated.is_empty() {
            return Ok(None);
        }
        let mut overlay = Overlay::new();
        for other in nominated.iter().filter(|n| n.priority >= pod.priority && n.uid != pod.uid) {
            overlay.add(other);
        }
        if overlay.is_empty() {
            return Ok(None);
        }
        self.first_rejector(&snapshot.node(node).with(&overlay))
    }

    /// Whether the node passes all rules that read more than the node object.
    pub(super) fn passes_usage_rules(&self, node: &NodeView<'_>) -> bool {
        let mut others = self.rules.iter().filter(|it| it.rule.depends_on() != DependsOn::NodeSpec);
        others.all(|EnabledRule { rule, .. }| match rule.verdict_number(node) {
            Some(number) => number == 0,
            None => matches!(rule.check(node), Verdict::Fits),
        })
    }

    /// Returns the first plugin that rejects the node, and its rejection.
    pub(crate) fn first_rejector(
        &self,
        node: &NodeView<'_>,
    ) -> Result<Option<(PluginName, Rejection)>, CycleError> {
        for EnabledRule { name, rule, .. } in &self.rules {
            match rule.check(node) {
                Verdict::Fits => {}
                Verdict::Rejected(rejection) => return Ok(Some((name, rejection))),
                Verdict::Failed(error) => return Err(filter_error(name, &error)),
            }
        }
        Ok(None)
    }

    /// Reserve: returns what the pod reserves on the feasible `node` besides its requests.
    ///
    /// # Errors
    ///
    /// Returns the plugin that cannot reserve, and its rejection.
    pub fn reserve(
        &self,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
    ) -> Result<Vec<Reservation>, (PluginName, Rejection)> {
        let mut all = Vec::new();
        for EnabledRule { name, rule, .. } in in_order_of_reserve(&self.rules) {
            all.append(&mut rule.reserve(&snapshot.node(node)).map_err(|rejection| (*name, rejection))?);
        }
        Ok(all)
    }

    /// Calls `each` with every rejected node, the first plugin that rejected it, and the rejection.
    pub(super) fn for_each_rejected(
        &self,
        snapshot: Snapshot<'_>,
        mut each: impl FnMut(NodeIdx, PluginName, &Rejection),
    ) {
        // The filters stayed within the limit of steps; `check` repeats no more than theirs.
        let snapshot = snapshot.for_repeated_searches();
        for (&node, (name, rejection)) in &self.single_verdicts {
            each(node, name, rejection);
        }
        for (at, nodes) in &self.rejected {
            let EnabledRule { name, rule, .. } = &self.rules[*at];
            let mut known: Vec<(u64, Rejection)> = Vec::new();
            for node in nodes.iter() {
                let view = snapshot.node(node);
                let number = rule.verdict_number(&view);
                if let Some((_, rejection)) = known.iter().find(|(known, _)| number == Some(*known)) {
                    let verdict = || Verdict::Rejected(rejection.clone());
                    debug_assert_eq!(
                        rule.check(&view),
                        verdict(),
                        "{name}: equal verdict numbers with different verdicts"
                    );
                    each(node, name, rejection);
                    continue;
                }
                match rule.check(&view) {
                    Verdict::Rejected(rejection) => {
                        each(node, name, &rejection);
                        known.extend(number.map(|number| (number, rejection)));
                    }
                    // The rule's `filter` and `check` disagree. The decision used `filter`, so the rejection is
                    // reported.
                    Verdict::Fits | Verdict::Failed(_) => {
                        debug_assert!(false, "{name}: filter and check disagree");
                        each(node, name, &Rejection { code: Code::Unschedulable, reasons: Vec::new() });
                    }
                }
            }
        }
    }
}

/// Returns those of `nodes` that have nominated pods.
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
