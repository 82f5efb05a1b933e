//! Matching pods by topology domain, and their minimum.
//!
//! A hypothetical change of one domain can be evaluated without being applied. The caller decides what
//! counts.

use crate::collections::hash::IdMap;
use crate::model::intern::Symbol;
use std::collections::BTreeMap;

/// The minimum count if there is no domain, as in the initial state of upstream's critical paths.
pub(super) const NO_DOMAIN: i64 = i32::MAX as i64;

/// Matching pods in each domain of one constraint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DomainCounts {
    pods: IdMap<Symbol, i64>,
    /// The number of domains with each count.
    levels: BTreeMap<i64, usize>,
}

/// The counts that a verdict needs for one domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DomainView {
    /// Matching pods in the domain.
    pub(super) here: i64,
    /// The minimum count over all domains.
    pub(super) lowest: i64,
    /// The number of domains.
    pub(super) domains: usize,
}

impl DomainCounts {
    /// Creates the counts of these domains.
    pub(super) fn new(pods: IdMap<Symbol, i64>) -> Self {
        let mut levels = BTreeMap::new();
        for &count in pods.values() {
            *levels.entry(count).or_default() += 1;
        }
        Self { pods, levels }
    }

    /// Returns the current counts for a domain.
    pub(super) fn outlook(&self, domain: Symbol) -> DomainView {
        DomainView {
            here: self.pods.get(&domain).copied().unwrap_or(0),
            lowest: self.levels.keys().next().copied().unwrap_or(NO_DOMAIN),
            domains: self.pods.len(),
        }
    }

    /// Returns the counts for a domain after a change by `by` pods. An unknown domain is added.
    pub(super) fn outlook_after(&self, domain: Symbol, by: i64) -> DomainView {
        let now = self.outlook(domain);
        if by == 0 {
            return now;
        }
        let here = now.here + by;
        let known = self.pods.contains_key(&domain);
        let others =
            self.levels.iter().find(|&(&level, &domains)| !known || level != now.here || domains > 1);
        let lowest = others.map_or(here, |(&level, _)| level.min(here));
        DomainView { here, lowest, domains: now.domains + usize::from(!known) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Tables;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hypothetical_change_equals_counting_after_it(
            pods in prop::collection::btree_map(0usize..4, -2i64..5, 0..4),
            (last, by) in (0usize..4, -3i64..4),
        ) {
            let mut tables = Tables::new();
            let domains = ["a", "b", "c", "d"].map(|text| tables.symbol(text));
            let counts = |pods: &BTreeMap<usize, i64>| {
                DomainCounts::new(pods.iter().map(|(&at, &count)| (domains[at], count)).collect())
            };
            let naive = |pods: &BTreeMap<usize, i64>| DomainView {
                here: pods.get(&last).copied().unwrap_or(0),
                lowest: pods.values().min().copied().unwrap_or(NO_DOMAIN),
                domains: pods.len(),
            };
            prop_assert_eq!(counts(&pods).outlook(domains[last]), naive(&pods));
            let thought = counts(&pods).outlook_after(domains[last], by);
            let mut after = pods;
            if by != 0 {
                *after.entry(last).or_default() += by;
            }
            prop_assert_eq!(thought, naive(&after));
            prop_assert_eq!(thought, counts(&after).outlook(domains[last]));
        }
    }
}
