//! Matching of affinity terms: those of the incoming pod, and those of existing pods.
//!
//! The two directions differ upstream. The `namespaceSelector` of an incoming pod is resolved to the names of
//! the namespaces that it selects now. From 1.34 to 1.36 it is then also matched against a namespace without
//! labels, so a selector that only excludes labels selects every namespace. Upstream:
//! `kube-scheduler/framework/types.go#AffinityTerm`,
//! `interpodaffinity/plugin.go#mergeAffinityTermNamespacesIfNotEmpty`.

use crate::cache::Snapshot;
use crate::model::intern::{LabelSetId, Labels, Symbol};
use crate::model::pod::{Parsed, PodAffinity, PodAffinityTerm, PodFacets, PodInfo, WeightedPodAffinityTerm};
use crate::model::selector::Selector;

/// A term of the incoming pod.
pub(super) struct IncomingTerm {
    /// Namespaces by name, sorted.
    namespaces: Box<[Symbol]>,
    any_namespace: bool,
    selector: Selector,
    pub(super) topology_key: Symbol,
}

impl IncomingTerm {
    /// Resolves the term's namespace selector to the present namespaces.
    pub(super) fn new(term: &PodAffinityTerm, snapshot: Snapshot<'_>) -> Self {
        let tables = snapshot.tables();
        let selects = |labels: Labels<'_>| term.namespace_selector.matches(tables, labels);
        let any_namespace = if snapshot.rules().keeps_namespace_selector {
            selects(Labels::default())
        } else {
            term.namespace_selector.is_empty()
        };
        let mut namespaces = term.namespaces.to_vec();
        if !any_namespace && term.namespace_selector != Selector::Nothing {
            let selected =
                snapshot.lookups().namespaces().filter(|&(_, labels)| selects(tables.labels(labels)));
            namespaces.extend(selected.map(|(name, _)| name));
        }
        namespaces.sort_unstable();
        Self {
            namespaces: namespaces.into(),
            any_namespace,
            selector: term.selector.clone(),
            topology_key: term.topology_key,
        }
    }

    /// Returns the term's label selector.
    pub(super) fn selector(&self) -> &Selector {
        &self.selector
    }

    /// Whether the term matches `pod`.
    pub(super) fn matches(&self, snapshot: Snapshot<'_>, pod: PodFacets<'_>) -> bool {
        (self.any_namespace || self.namespaces.binary_search(&pod.namespace).is_ok())
            && self.selector.matches(snapshot.tables(), snapshot.labels(pod.labels))
    }
}

/// Resolves all terms of the incoming pod's list.
pub(super) fn incoming(list: &[PodAffinityTerm], snapshot: Snapshot<'_>) -> Vec<IncomingTerm> {
    list.iter().map(|term| IncomingTerm::new(term, snapshot)).collect()
}

/// Whether there are terms and all match `pod`.
pub(super) fn all_match(terms: &[IncomingTerm], snapshot: Snapshot<'_>, pod: PodFacets<'_>) -> bool {
    !terms.is_empty() && matching(terms, snapshot, pod) == terms.len()
}

/// Counts the terms that match `pod` before the first that does not.
pub(super) fn matching(terms: &[IncomingTerm], snapshot: Snapshot<'_>, pod: PodFacets<'_>) -> usize {
    terms.iter().take_while(|term| term.matches(snapshot, pod)).count()
}

/// Number of comparisons needed to match these terms.
pub(super) fn work(terms: &[IncomingTerm]) -> u64 {
    terms.iter().map(|term| term.selector.work()).sum()
}

/// The incoming pod, as the terms of existing pods are matched against it.
#[derive(Clone, Copy)]
pub(super) struct Incoming {
    namespace: Symbol,
    /// The labels of its namespace; empty if unknown.
    namespace_labels: Option<LabelSetId>,
    labels: LabelSetId,
}

impl Incoming {
    pub(super) fn new(pod: &PodInfo, snapshot: Snapshot<'_>) -> Self {
        Self {
            namespace: pod.namespace,
            namespace_labels: snapshot.lookups().namespace(pod.namespace),
            labels: pod.labels,
        }
    }

    /// Whether an existing pod's term matches the incoming pod.
    pub(super) fn is_meant_by(self, term: &PodAffinityTerm, snapshot: Snapshot<'_>) -> bool {
        let tables = snapshot.tables();
        let namespace = self.namespace_labels.map(|id| tables.labels(id)).unwrap_or_default();
        (term.namespaces.contains(&self.namespace) || term.namespace_selector.matches(tables, namespace))
            && term.selector.matches(tables, tables.labels(self.labels))
    }
}

/// Returns an existing pod's list of terms; a malformed term invalidates its whole list.
pub(super) fn existing<'a, T>(
    pod: PodFacets<'a>,
    list: impl FnOnce(&'a PodAffinity) -> &'a Parsed<T>,
) -> &'a [T] {
    pod.affinity.and_then(|a| list(a).as_deref().ok()).unwrap_or_default()
}

/// Returns the parse errors of the pod's lists as upstream's `NewPodInfo` words them; `None` if there are
/// none.
pub(super) fn parse_error(pod: &PodInfo) -> Option<String> {
    fn broken<T>(name: &str, list: &Parsed<T>) -> Option<String> {
        list.as_ref().err().map(|error| format!("{name}: {error}"))
    }
    let affinity = pod.pod_affinity.as_ref()?;
    let errors: Vec<String> = [
        broken("requiredAffinityTerms", &affinity.required_affinity),
        broken("requiredAntiAffinityTerms", &affinity.required_anti_affinity),
        broken("preferredAffinityTerms", &affinity.preferred_affinity),
        broken("preferredAntiAffinityTerms", &affinity.preferred_anti_affinity),
    ]
    .into_iter()
    .flatten()
    .collect();
    match errors.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

/// Whether the pod has preferred terms, valid or not.
pub(super) fn has_preferences(pod: &PodInfo) -> bool {
    let has_terms = |list: &Parsed<WeightedPodAffinityTerm>| list.as_ref().map_or(true, |l| !l.is_empty());
    let affinity = pod.pod_affinity.as_ref();
    affinity.is_some_and(|a| has_terms(&a.preferred_affinity) || has_terms(&a.preferred_anti_affinity))
}
