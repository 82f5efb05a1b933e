//! Counts by topology domain: matched terms for the filter, sums of weights for the score.
//!
//! Changing a domain takes constant time, and hypothetical changes can be evaluated without applying them. So the
//! counts can be kept across decisions. The callers decide what counts.

use crate::cache::{NodeColumns, Snapshot};
use crate::collections::hash::IdMap;
use crate::model::intern::Symbol;

/// A topology domain: a node label's key and value.
pub(super) type Domain = (Symbol, Symbol);

/// The number of matched terms in each domain; domains with zero have no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TermCounts {
    counts: IdMap<Domain, i64>,
}

impl TermCounts {
    /// Adds `by`, which may be negative, to a domain.
    pub(super) fn change(&mut self, domain: Domain, by: i64) {
        let count = self.counts.entry(domain).or_default();
        *count += by;
        if *count == 0 {
            self.counts.remove(&domain);
        }
    }

    /// Returns the count of a domain.
    pub(super) fn of(&self, domain: Domain) -> i64 {
        self.counts.get(&domain).copied().unwrap_or(0)
    }

    /// Whether all counts are zero.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the distinct topology keys of all domains, sorted.
    pub(super) fn keys(&self) -> Vec<Symbol> {
        let mut keys: Vec<Symbol> = self.counts.keys().map(|&(key, _)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// Calls `each` with the contributions to each domain, node by node.
pub(super) fn each_domain(
    columns: &NodeColumns,
    snapshot: Snapshot<'_>,
    mut each: impl FnMut(u32, Domain, i64),
) {
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
    /// Adds `by` to the change of a domain.
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

    /// Returns the count of a domain after the changes.
    pub(super) fn of(&self, counts: &TermCounts, domain: Domain) -> i64 {
        let by = self.by.iter().find(|(d, _)| *d == domain).map_or(0, |&(_, by)| by);
        counts.of(domain) + by
    }

    /// Whether all counts are zero after the changes.
    pub(super) fn leave_empty(&self, counts: &TermCounts) -> bool {
        // Each changed domain must become zero, and there must be no other domain.
        let touched = self.by.iter().filter(|&&(domain, _)| counts.of(domain) != 0).count();
        counts.counts.len() == touched && self.by.iter().all(|&(domain, by)| counts.of(domain) + by == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Tables;
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
