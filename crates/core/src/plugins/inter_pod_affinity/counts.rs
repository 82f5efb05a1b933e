//! Numbers by pair of topology key and domain: matched terms for the filter, sums of weights for the score.
//!
//! Changing a pair costs the same however many there are, and changes can be thought through without being made: so
//! these numbers can outlive a decision. What counts is the business of those who count.

use crate::cache::Snapshot;
use crate::hash::IdMap;
use crate::intern::Symbol;
use crate::slice::{KindRole, Slice};

/// A topology domain: a node label's key and value.
pub(super) type Domain = (Symbol, Symbol);

/// The number of matched terms in each domain; domains with zero have no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TermCounts {
    counts: IdMap<Domain, i64>,
}

impl TermCounts {
    /// Adds `by` to a domain, or takes it away if negative.
    pub(super) fn change(&mut self, domain: Domain, by: i64) {
        let count = self.counts.entry(domain).or_default();
        *count += by;
        if *count == 0 {
            self.counts.remove(&domain);
        }
    }

    /// The number of a domain.
    pub(super) fn of(&self, domain: Domain) -> i64 {
        self.counts.get(&domain).copied().unwrap_or(0)
    }

    /// Whether no domain has any.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The keys of all domains, each once, sorted.
    pub(super) fn keys(&self) -> Vec<Symbol> {
        let mut keys: Vec<Symbol> = self.counts.keys().map(|&(key, _)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// The largest number of [`Columns`] that are summed by node: 10 MB at 5,000 nodes. Pods with more are summed pod by pod.
const COLUMNS_MAX: usize = 256;

/// What pods contribute to (a number that the role gives meaning to, and a topology key), each with the sums of nodes by slot; `None` where no
/// pod contributes.
pub(super) type Columns = Vec<((u32, Symbol), Vec<Option<i64>>)>;

/// Sums by node what a slice knows of kinds of pods, so that domains are looked up once a node and not once a pod. `None` if there are too
/// many things to contribute to.
pub(super) fn by_node(slice: &Slice, role: KindRole, snapshot: Snapshot<'_>) -> Option<Columns> {
    let slots = snapshot.columns().pods.len();
    let (mut columns, mut places) = (Columns::new(), IdMap::<(u32, Symbol), usize>::default());
    let mut amounts = Vec::new();
    slice.each_kind(role, snapshot, |kind, list| {
        amounts.clear();
        for &(sort, key, times) in list {
            if places.len() > COLUMNS_MAX {
                return;
            }
            let at = *places.entry((sort, key)).or_insert_with(|| {
                columns.push(((sort, key), vec![None; slots]));
                columns.len() - 1
            });
            amounts.push((at, times));
        }
        for (node, pods) in kind.nodes() {
            for &(at, times) in &amounts {
                *columns[at].1[node.index()].get_or_insert(0) += pods * times;
            }
        }
    });
    (places.len() <= COLUMNS_MAX).then_some(columns)
}

/// Calls `each` with what pods contribute to each domain of a node, node by node.
pub(super) fn each_domain(columns: &Columns, snapshot: Snapshot<'_>, mut each: impl FnMut(u32, Domain, i64)) {
    for ((sort, key), sums) in columns {
        for node in snapshot.nodes().iter() {
            if let Some(sum) = sums[node.index()]
                && let Some(value) = snapshot.node_labels(node).get(*key)
            {
                each(*sort, (*key, value), sum);
            }
        }
    }
}

/// Hypothetical changes of [`TermCounts`] by an overlay, at most one per domain.
#[derive(Debug, Default)]
pub(super) struct Changes {
    by: Vec<(Domain, i64)>,
}

impl Changes {
    /// Notes `by` more for a domain.
    pub(super) fn note(&mut self, domain: Domain, by: i64) {
        match self.by.iter_mut().find(|(d, _)| *d == domain) {
            Some((_, so_far)) => *so_far += by,
            None => self.by.push((domain, by)),
        }
    }

    /// The domains with a change.
    pub(super) fn domains(&self) -> impl Iterator<Item = Domain> + '_ {
        self.by.iter().map(|&(domain, _)| domain)
    }

    /// The number of a domain once the changes are made.
    pub(super) fn of(&self, counts: &TermCounts, domain: Domain) -> i64 {
        let by = self.by.iter().find(|(d, _)| *d == domain).map_or(0, |&(_, by)| by);
        counts.of(domain) + by
    }

    /// Whether no domain has any once the changes are made.
    pub(super) fn leave_empty(&self, counts: &TermCounts) -> bool {
        // Each change must end at none, and no domain may be left that has no change.
        let touched = self.by.iter().filter(|&&(domain, _)| counts.of(domain) != 0).count();
        counts.counts.len() == touched && self.by.iter().all(|&(domain, by)| counts.of(domain) + by == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intern::Tables;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn thinking_changes_equals_making_them_and_taking_them_back_leaves_nothing(
            made in prop::collection::vec((0usize..3, 0usize..2, 1i64..3), 0..8),
            thought in prop::collection::vec((0usize..3, 0usize..2, -2i64..3), 0..6),
        ) {
            let mut tables = Tables::new();
            let symbols = ["a", "b", "c"].map(|text| tables.symbol(text));
            let domain = |key: usize, value: usize| (symbols[key], symbols[value]);
            let mut counts = TermCounts::default();
            for (key, value, by) in made {
                counts.change(domain(key, value), by);
            }
            let before = counts.clone();
            let mut changes = Changes::default();
            for &(key, value, by) in &thought {
                changes.note(domain(key, value), by);
                counts.change(domain(key, value), by);
            }
            prop_assert_eq!(changes.leave_empty(&before), counts.is_empty());
            for key in 0..3 {
                for value in 0..2 {
                    prop_assert_eq!(changes.of(&before, domain(key, value)), counts.of(domain(key, value)));
                }
            }
            for (key, value, by) in thought {
                counts.change(domain(key, value), -by);
            }
            prop_assert_eq!(counts, before);
        }
    }
}
