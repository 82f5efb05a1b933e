//! Hard constraints: a domain may have at most `maxSkew` matching pods more than the domain with the fewest.
//!
//! Upstream (`podtopologyspread/filtering.go`) tracks two `criticalPaths` instead of all domains. They give the same
//! minimum, because an overlay changes pods on one node only.

use super::constraints::{Constraint, Inclusion, counted, has_all_keys};
use super::counts::{DomainCounts, DomainView};
use crate::cache::slice::PodClassRole;
use crate::cache::{NodeView, Snapshot};
use crate::collections::hash::IdMap;
use crate::framework::{CycleError, DependsOn, Fact, FilterRule, Rejection, Verdict};
use crate::model::intern::{Labels, Symbol};
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

const OVER_SKEW: &str = "node(s) didn't match pod topology spread constraints";
const MISSING_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

/// The rule of a pod with hard constraints.
pub(super) struct SpreadFilter {
    namespace: Symbol,
    constraints: Vec<Constraint>,
    inclusion: Inclusion,
    /// One entry per constraint.
    counts: Vec<DomainCounts>,
    /// For each constraint, 1 if the pod matches the constraint's selector, otherwise 0.
    itself: Vec<i64>,
}

impl SpreadFilter {
    /// Counts the pods on all nodes that have the keys of all constraints.
    pub(super) fn new(pod: &PodInfo, snapshot: Snapshot<'_>, constraints: Vec<Constraint>) -> Self {
        let tables = snapshot.tables();
        let inclusion = Inclusion::new(pod, &constraints);
        let mut with_keys = snapshot.nodes().iter().map(|node| snapshot.node_labels(node));
        // If no node has all keys, none passes, whatever the counts are.
        let pods = if with_keys.any(|labels| has_all_keys(&constraints, labels)) {
            counted(snapshot, &constraints, pod.namespace, PodClassRole::HardConstraints)
        } else {
            Vec::new()
        };
        let mut sums = vec![IdMap::<Symbol, i64>::default(); constraints.len()];
        for idx in snapshot.nodes().iter() {
            let labels = snapshot.node_labels(idx);
            if !has_all_keys(&constraints, labels) {
                continue;
            }
            let included = inclusion.of(snapshot, idx);
            for ((constraint, pods), sums) in constraints.iter().zip(&pods).zip(&mut sums) {
                if included.includes(constraint)
                    && let Some(domain) = labels.get(constraint.topology_key)
                {
                    *sums.entry(domain).or_default() += pods[idx.index()];
                }
            }
        }
        let counts = sums.into_iter().map(DomainCounts::new).collect();
        let labels = tables.labels(pod.labels);
        let itself = constraints.iter().map(|c| i64::from(c.selector.matches(tables, labels))).collect();
        Self { namespace: pod.namespace, constraints, inclusion, counts, itself }
    }

    /// Whether a domain can take the pod under the constraint at index `at`.
    fn has_room(&self, at: usize, outlook: DomainView) -> bool {
        has_room(&self.constraints[at], self.itself[at], outlook)
    }

    /// Returns by how much the overlay's pods change the count of the node's domain, for each constraint;
    /// `None` if unchanged.
    ///
    /// Like upstream's AddPod and RemovePod, and unlike the initial count, this includes terminating pods, and
    /// an empty selector matches every pod.
    fn overlaid(&self, node: &NodeView<'_>, labels: Labels<'_>) -> Option<Vec<i64>> {
        if node.added().is_empty() && node.removed().is_empty() || !has_all_keys(&self.constraints, labels) {
            return None;
        }
        let tables = node.snapshot().tables();
        let included = self.inclusion.of(node.snapshot(), node.idx());
        let change = |constraint: &Constraint| {
            if !included.includes(constraint) {
                return 0;
            }
            let matching = |pods: &[&PodInfo]| {
                let counts = |pod: &&&PodInfo| {
                    pod.namespace == self.namespace
                        && constraint.selector.matches(tables, tables.labels(pod.labels))
                };
                pods.iter().filter(counts).count() as i64
            };
            matching(node.added()) - matching(node.removed())
        };
        Some(self.constraints.iter().map(change).collect())
    }
}

/// Whether a domain can take a pod that adds `itself` to its count.
pub(super) fn has_room(constraint: &Constraint, itself: i64, outlook: DomainView) -> bool {
    let lowest =
        if (outlook.domains as i64) < i64::from(constraint.min_domains) { 0 } else { outlook.lowest };
    outlook.here + itself - lowest <= i64::from(constraint.max_skew)
}

impl FilterRule for SpreadFilter {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        feasible.retain(|idx| {
            let labels = snapshot.node_labels(idx);
            self.constraints.iter().enumerate().all(|(at, constraint)| {
                let domain = labels.get(constraint.topology_key);
                domain.is_some_and(|domain| self.has_room(at, self.counts[at].outlook(domain)))
            })
        });
        Ok(())
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        let labels = node.labels();
        let overlaid = self.overlaid(node, labels);
        for (at, constraint) in self.constraints.iter().enumerate() {
            let Some(domain) = labels.get(constraint.topology_key) else {
                return Verdict::Rejected(Rejection::unresolvable(MISSING_LABEL));
            };
            let change = overlaid.as_ref().map_or(0, |changes| changes[at]);
            if !self.has_room(at, self.counts[at].outlook_after(domain, change)) {
                return Verdict::Rejected(Rejection::unschedulable(OVER_SKEW));
            }
        }
        Verdict::Fits
    }

    fn facts(&self, node: &NodeView<'_>) -> Vec<Fact> {
        let labels = node.labels();
        let overlaid = self.overlaid(node, labels);
        let each = self.constraints.iter().enumerate().filter_map(|(at, constraint)| {
            let key = constraint.topology_key;
            let Some(domain) = labels.get(key) else { return Some(Fact::NoKey(key)) };
            let change = overlaid.as_ref().map_or(0, |changes| changes[at]);
            let outlook = self.counts[at].outlook_after(domain, change);
            let is_short = (outlook.domains as i64) < i64::from(constraint.min_domains);
            (!self.has_room(at, outlook)).then(|| Fact::Skew {
                key,
                domain,
                here: outlook.here,
                itself: self.itself[at],
                lowest: if is_short { 0 } else { outlook.lowest },
                max_skew: constraint.max_skew,
                domains: outlook.domains,
                selector: constraint.selector.clone(),
            })
        });
        each.collect()
    }
}
