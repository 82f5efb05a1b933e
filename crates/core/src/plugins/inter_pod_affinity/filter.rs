//! The filter for required terms: those of the incoming pod, and the anti-affinity of existing pods against it.
//!
//! Upstream: `interpodaffinity/filtering.go`.

use super::counts::{Changes, Domain, TermCounts, each_domain};
use super::terms::{self, Incoming, IncomingTerm};
use crate::cache::slice::{Concerned, Contribution, PodClassRole, Slice};
use crate::cache::{NodeColumns, NodeView, PodClass, Snapshot};
use crate::collections::hash::IdMap;
use crate::framework::{CycleError, DependsOn, Fact, FilterRule, Rejection, Verdict};
use crate::model::intern::{Labels, Symbol};
use crate::model::node_set::NodeSet;
use crate::model::pod::{PodFacets, PodInfo};
use std::sync::Arc;

const AFFINITY: &str = "node(s) didn't match pod affinity rules";
const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const EXISTING_ANTI_AFFINITY: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// The rule for a pod that has required terms, or that matches the required anti-affinity of other pods.
pub(super) struct AffinityFilter {
    incoming: Incoming,
    terms: Arc<Terms>,
    /// Whether the pod matches all its own affinity terms, so that it may be the first such pod.
    matches_itself: bool,
    counts: PerMatch<TermCounts>,
    /// Topology keys of the domains from which existing pods exclude the incoming pod.
    existing_keys: Vec<Symbol>,
    /// The distinct topology keys of `affinity`. A node is judged by keys, since many terms may share one key.
    affinity_keys: Vec<Symbol>,
    /// The distinct topology keys of the domains from which the pod's own anti-affinity excludes it.
    anti_affinity_keys: Vec<Symbol>,
}

/// The pod's own required terms.
struct Terms {
    affinity: Vec<IncomingTerm>,
    anti_affinity: Vec<IncomingTerm>,
}

impl Terms {
    fn of(pod: &PodInfo, snapshot: Snapshot<'_>) -> Self {
        let incoming = |list| terms::incoming(list, snapshot);
        Self {
            affinity: incoming(terms::existing(pod.into(), |a| &a.required_affinity)),
            anti_affinity: incoming(terms::existing(pod.into(), |a| &a.required_anti_affinity)),
        }
    }
}

/// A value for each kind of match.
#[derive(Default)]
struct PerMatch<T> {
    /// Required anti-affinity terms of existing pods that match the incoming pod.
    existing: T,
    /// The affinity terms of the incoming pod. A pod that matches all of them counts for each.
    affinity: T,
    /// The anti-affinity terms of the incoming pod. A pod counts for each term that it matches.
    anti_affinity: T,
}

/// The kind of a match.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    Existing,
    Affinity,
    AntiAffinity,
}

impl Match {
    /// All kinds. The index is the kind's number.
    const ALL: [Self; 3] = [Self::Existing, Self::Affinity, Self::AntiAffinity];
}

/// Adds the pods of a pod class to the domains of their nodes, by what the class matches.
fn add_pods(
    snapshot: Snapshot<'_>,
    class: &PodClass,
    matched: &[(Match, Symbol, i64)],
    counts: &mut PerMatch<TermCounts>,
) {
    if matched.is_empty() {
        return;
    }
    for (node, pods) in class.nodes().filter(|&(node, _)| snapshot.nodes().contains(node)) {
        let labels = snapshot.node_labels(node);
        for &(sort, key, times) in matched {
            if let Some(value) = labels.get(key) {
                counts.of(sort).change((key, value), pods * times);
            }
        }
    }
}

impl<T> PerMatch<T> {
    fn of(&mut self, sort: Match) -> &mut T {
        match sort {
            Match::Existing => &mut self.existing,
            Match::Affinity => &mut self.affinity,
            Match::AntiAffinity => &mut self.anti_affinity,
        }
    }
}

impl AffinityFilter {
    /// Counts the matched terms on all nodes. Returns `None` if no required term applies to the pod.
    pub(super) fn new(pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<Self> {
        let mut rule = Self::uncounted(pod, snapshot);
        let has_terms = !rule.terms.affinity.is_empty() || !rule.terms.anti_affinity.is_empty();
        let mut counts = PerMatch::<TermCounts>::default();
        if let Some(slice) = snapshot.slice() {
            rule.count_in_slice(snapshot, slice, &mut counts);
        } else if has_terms {
            rule.count(snapshot, snapshot.pod_classes(), &mut counts);
        } else {
            rule.count(snapshot, snapshot.pod_classes_with_required_anti_affinity(), &mut counts);
        }
        if counts.existing.is_empty() && !has_terms {
            return None;
        }
        rule.existing_keys = counts.existing.keys();
        rule.anti_affinity_keys = counts.anti_affinity.keys();
        rule.counts = counts;
        Some(rule)
    }

    /// Prepares the terms without counting.
    pub(super) fn uncounted(pod: &PodInfo, snapshot: Snapshot<'_>) -> Self {
        let prepare = || Terms::of(pod, snapshot);
        let terms = match snapshot.slice() {
            Some(slice) => slice.prepared(PodClassRole::RequiredTerms, prepare),
            None => Arc::new(prepare()),
        };
        let mut affinity_keys: Vec<Symbol> = terms.affinity.iter().map(|term| term.topology_key).collect();
        affinity_keys.sort_unstable();
        affinity_keys.dedup();
        Self {
            incoming: Incoming::new(pod, snapshot),
            matches_itself: terms::all_match(&terms.affinity, snapshot, pod.into()),
            terms,
            counts: PerMatch::default(),
            existing_keys: Vec::new(),
            affinity_keys,
            anti_affinity_keys: Vec::new(),
        }
    }

    /// Returns the pod's own required affinity terms.
    pub(super) fn affinity(&self) -> &[IncomingTerm] {
        &self.terms.affinity
    }

    /// Returns the pod's own required anti-affinity terms.
    pub(super) fn anti_affinity(&self) -> &[IncomingTerm] {
        &self.terms.anti_affinity
    }

    /// Whether the pod matches all its own required affinity terms.
    pub(super) fn matches_itself(&self) -> bool {
        self.matches_itself
    }

    /// Counts the matches of these pod classes on all nodes.
    fn count<'a>(
        &self,
        snapshot: Snapshot<'a>,
        classes: impl Iterator<Item = &'a PodClass>,
        counts: &mut PerMatch<TermCounts>,
    ) {
        let mut matched = Vec::new();
        for class in classes {
            matched.clear();
            self.each_match(snapshot, class.facets(), |sort, key| matched.push((sort, key, 1)));
            add_pods(snapshot, class, &matched, counts);
        }
    }

    /// As [`Self::count`], in a slice of an evaluation.
    fn count_in_slice(&self, snapshot: Snapshot<'_>, slice: &Slice, counts: &mut PerMatch<TermCounts>) {
        let has_terms = !self.terms.affinity.is_empty() || !self.terms.anti_affinity.is_empty();
        let concerned = if has_terms {
            Concerned::All
        } else {
            Concerned::WithAffinity(&PodClass::has_required_anti_affinity)
        };
        let mut times = IdMap::<Symbol, i64>::default();
        self.terms.affinity.iter().for_each(|term| *times.entry(term.topology_key).or_default() += 1);
        slice.evaluate_pod_classes(PodClassRole::RequiredTerms, snapshot, concerned, |class, list| {
            let mut anti = IdMap::<Symbol, i64>::default();
            let mut is_peer = false;
            let work = self.each_match(snapshot, class.facets(), |sort, key| match sort {
                Match::Existing => list.push((sort as u32, key, 1)),
                Match::Affinity => is_peer = true,
                Match::AntiAffinity => *anti.entry(key).or_default() += 1,
            });
            let peers =
                times.iter().filter(|_| is_peer).map(|(&key, &times)| (Match::Affinity as u32, key, times));
            list.extend(
                peers.chain(anti.into_iter().map(|(key, times)| (Match::AntiAffinity as u32, key, times))),
            );
            work
        });
        let count = |sort: u32, domain, sum| counts.of(Match::ALL[sort as usize]).change(domain, sum);
        let by_node = |columns: &NodeColumns| each_domain(columns, snapshot, count);
        if slice.by_node(PodClassRole::RequiredTerms, snapshot, by_node).is_some() {
            return;
        }
        let sorted = |list: &Contribution| -> Vec<_> {
            list.iter().map(|&(sort, key, times)| (Match::ALL[sort as usize], key, times)).collect()
        };
        let matched: Vec<_> = slice.contributions(PodClassRole::RequiredTerms).iter().map(sorted).collect();
        slice.each_pod_class(PodClassRole::RequiredTerms, snapshot, |class, index| {
            add_pods(snapshot, class, &matched[index], counts);
        });
    }

    /// Calls `note` with each match of another pod and the topology key of the term. Terminating pods count like any
    /// other.
    ///
    /// Returns the number of comparisons.
    pub(super) fn each_match(
        &self,
        snapshot: Snapshot<'_>,
        other: PodFacets<'_>,
        mut note: impl FnMut(Match, Symbol),
    ) -> u64 {
        let existing = terms::existing(other, |a| &a.required_anti_affinity);
        for term in existing {
            if self.incoming.is_meant_by(term, snapshot) {
                note(Match::Existing, term.topology_key);
            }
        }
        let matching = terms::matching(&self.terms.affinity, snapshot, other);
        if matching == self.terms.affinity.len() {
            self.terms.affinity.iter().for_each(|term| note(Match::Affinity, term.topology_key));
        }
        for term in self.terms.anti_affinity.iter().filter(|term| term.matches(snapshot, other)) {
            note(Match::AntiAffinity, term.topology_key);
        }
        let of_existing: u64 = existing.iter().map(|term| term.selector.work()).sum();
        of_existing + terms::work(&self.terms.affinity[..matching]) + terms::work(&self.terms.anti_affinity)
    }

    /// As [`Self::each_match`], with the matches that a slice has already found for the other pod's class.
    fn each_known_match(
        &self,
        snapshot: Snapshot<'_>,
        other: &PodInfo,
        mut note: impl FnMut(Match, Symbol, i64),
    ) {
        let known = snapshot
            .slice()
            .and_then(|slice| slice.of_pod_class(PodClassRole::RequiredTerms, snapshot.pod_class_of(other)?));
        match known {
            Some(list) => {
                list.iter().for_each(|&(sort, key, times)| note(Match::ALL[sort as usize], key, times));
            }
            None => {
                self.each_match(snapshot, other.into(), |sort, key| note(sort, key, 1));
            }
        }
    }

    /// Returns the changes by the pods of the view's overlay.
    fn overlaid(&self, node: &NodeView<'_>) -> PerMatch<Changes> {
        let mut changes = PerMatch::<Changes>::default();
        let labels = node.labels();
        for (pods, by) in [(node.added(), 1), (node.removed(), -1)] {
            for other in pods {
                self.each_known_match(node.snapshot(), other, |sort, key, times| {
                    if let Some(value) = labels.get(key) {
                        changes.of(sort).note((key, value), by * times);
                    }
                });
            }
        }
        changes
    }

    /// Judges a node with these labels, with the changes applied.
    fn judge(&self, labels: Labels<'_>, changes: &PerMatch<Changes>) -> Option<Rejection> {
        if !self.is_with_its_peers(labels, &changes.affinity) {
            return Some(Rejection::unresolvable(AFFINITY));
        }
        let hates = |domain: Domain| changes.anti_affinity.of(&self.counts.anti_affinity, domain) > 0;
        let hated =
            self.anti_affinity_keys.iter().filter_map(|&key| labels.get(key).map(|value| (key, value)));
        if hated.chain(changes.anti_affinity.domains()).any(hates) {
            return Some(Rejection::unschedulable(ANTI_AFFINITY));
        }
        let is_hated = |domain: Domain| changes.existing.of(&self.counts.existing, domain) > 0;
        let known = self.existing_keys.iter().filter_map(|&key| labels.get(key).map(|value| (key, value)));
        if known.chain(changes.existing.domains()).any(is_hated) {
            return Some(Rejection::unschedulable(EXISTING_ANTI_AFFINITY));
        }
        None
    }

    /// Whether a node satisfies the pod's required affinity.
    ///
    /// It must have the topology keys of all terms, and a matching pod in each domain. Without a matching pod
    /// anywhere, the first such pod may also be placed: one that matches its own terms.
    fn is_with_its_peers(&self, labels: Labels<'_>, changes: &Changes) -> bool {
        let mut peers_everywhere = true;
        for &key in &self.affinity_keys {
            let Some(value) = labels.get(key) else { return false };
            peers_everywhere &= changes.of(&self.counts.affinity, (key, value)) > 0;
        }
        peers_everywhere || (self.matches_itself && changes.leave_empty(&self.counts.affinity))
    }
}

impl FilterRule for AffinityFilter {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        let unchanged = PerMatch::default();
        feasible.retain(|idx| self.judge(snapshot.node_labels(idx), &unchanged).is_none());
        Ok(())
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        match self.judge(node.labels(), &self.overlaid(node)) {
            Some(rejection) => Verdict::Rejected(rejection),
            None => Verdict::Fits,
        }
    }

    fn facts(&self, node: &NodeView<'_>) -> Vec<Fact> {
        let (labels, changes) = (node.labels(), self.overlaid(node));
        let mut facts = Vec::new();
        if !self.is_with_its_peers(labels, &changes.affinity) {
            for term in &self.terms.affinity {
                let key = term.topology_key;
                match labels.get(key) {
                    None => facts.push(Fact::NoKey(key)),
                    Some(domain) if changes.affinity.of(&self.counts.affinity, (key, domain)) <= 0 => {
                        facts.push(Fact::NoPeer { key, domain, selector: term.selector().clone() });
                    }
                    Some(_) => {}
                }
            }
        }
        for term in &self.terms.anti_affinity {
            let key = term.topology_key;
            let Some(domain) = labels.get(key) else { continue };
            let pods = changes.anti_affinity.of(&self.counts.anti_affinity, (key, domain));
            if pods > 0 {
                facts.push(Fact::Foes { key, domain, pods, selector: term.selector().clone() });
            }
        }
        let known = self.existing_keys.iter().filter_map(|&key| labels.get(key).map(|value| (key, value)));
        let mut domains: Vec<Domain> = known.chain(changes.existing.domains()).collect();
        domains.sort_unstable();
        domains.dedup();
        for (key, domain) in domains {
            let pods = changes.existing.of(&self.counts.existing, (key, domain));
            if pods > 0 {
                facts.push(Fact::FoeOf { key, domain, pods });
            }
        }
        facts
    }
}
