//! The hard constraints: no domain may have more than `maxSkew` matching pods above the emptiest one.
//!
//! Upstream: `podtopologyspread/filtering.go`. Its two "critical paths" are the minimum over the domains, as long as
//! pods come and go on one node only, which is all an overlay can say.

use super::constraints::{Constraint, Inclusion, counted, has_all_keys};
use super::counts::{DomainCounts, Outlook};
use crate::cache::{NodeView, Snapshot};
use crate::framework::{CycleError, DependsOn, Fact, FilterRule, Rejection, Verdict};
use crate::hash::IdMap;
use crate::intern::{Labels, Symbol};
use crate::node_set::NodeSet;
use crate::pod::PodInfo;
use crate::slice::KindRole;

const OVER_SKEW: &str = "node(s) didn't match pod topology spread constraints";
const MISSING_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

/// The rule of a pod with hard constraints.
pub(super) struct SpreadFilter {
    namespace: Symbol,
    constraints: Vec<Constraint>,
    inclusion: Inclusion,
    /// Per constraint.
    counts: Vec<DomainCounts>,
    /// Per constraint, 1 if the pod itself will count.
    itself: Vec<i64>,
}

impl SpreadFilter {
    /// Counts all nodes that have the keys of all constraints.
    pub(super) fn new(pod: &PodInfo, snapshot: Snapshot<'_>, constraints: Vec<Constraint>) -> Self {
        let tables = snapshot.tables();
        let inclusion = Inclusion::new(pod, &constraints);
        let mut with_keys = snapshot.nodes().iter().map(|node| snapshot.node_labels(node));
        // Where no node has all keys, none passes, whatever is counted.
        let pods = if with_keys.any(|labels| has_all_keys(&constraints, labels)) {
            counted(snapshot, &constraints, pod.namespace, KindRole::HardConstraints)
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

    /// Whether a domain has room for the pod in the constraint at `at`.
    fn has_room(&self, at: usize, outlook: Outlook) -> bool {
        has_room(&self.constraints[at], self.itself[at], outlook)
    }

    /// By how much the pods of the view's overlay change the count of its node's domain, per constraint; `None` for
    /// not at all.
    ///
    /// Unlike the counting of pods that are there, this takes terminating pods and an empty selector at their word:
    /// upstream's AddPod and RemovePod do.
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

/// Whether a domain has room for a pod, which counts for `itself` there.
pub(super) fn has_room(constraint: &Constraint, itself: i64, outlook: Outlook) -> bool {
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
