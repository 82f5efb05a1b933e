//! How many matching pods each domain of a topology has, and the smallest of these numbers.
//!
//! Changing one domain costs the same however many there are, and a change can be thought through without being made:
//! so these counts can outlive a decision. What counts, and what does not, is the business of those who count.

use crate::hash::IdMap;
use crate::intern::Symbol;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

/// What stands for the smallest count where there is no domain; upstream's critical paths start so.
const NO_DOMAIN: i64 = i32::MAX as i64;

/// Matching pods per domain of one constraint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DomainCounts {
    pods: IdMap<Symbol, i64>,
    /// How many domains have each count.
    levels: BTreeMap<i64, usize>,
}

/// What a verdict asks of the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outlook {
    /// Matching pods in the domain asked for.
    pub(super) here: i64,
    /// The smallest count of any domain.
    pub(super) lowest: i64,
    /// How many domains there are.
    pub(super) domains: usize,
}

impl DomainCounts {
    /// The counts of these domains.
    pub(super) fn new(pods: IdMap<Symbol, i64>) -> Self {
        let mut levels = BTreeMap::new();
        for &count in pods.values() {
            *levels.entry(count).or_default() += 1;
        }
        Self { pods, levels }
    }

    #[cfg(test)]
    /// Adds `by` pods to a domain, or takes them away if negative. A domain not seen before is one from now on, even
    /// with 0 pods.
    pub(super) fn change(&mut self, domain: Symbol, by: i64) {
        let count = match self.pods.entry(domain) {
            Entry::Vacant(new) => *new.insert(by),
            Entry::Occupied(_) if by == 0 => return,
            Entry::Occupied(mut known) => {
                let before = *known.get();
                if self.levels.get(&before) == Some(&1) {
                    self.levels.remove(&before);
                } else if let Some(domains) = self.levels.get_mut(&before) {
                    *domains -= 1;
                }
                known.insert(before + by);
                before + by
            }
        };
        *self.levels.entry(count).or_default() += 1;
    }

    /// How things stand for a domain.
    pub(super) fn outlook(&self, domain: Symbol) -> Outlook {
        Outlook {
            here: self.pods.get(&domain).copied().unwrap_or(0),
            lowest: self.levels.keys().next().copied().unwrap_or(NO_DOMAIN),
            domains: self.pods.len(),
        }
    }

    /// How things would stand for a domain after [`Self::change`] of it by `by`.
    pub(super) fn outlook_after(&self, domain: Symbol, by: i64) -> Outlook {
        let now = self.outlook(domain);
        if by == 0 {
            return now;
        }
        let here = now.here + by;
        let known = self.pods.contains_key(&domain);
        let others =
            self.levels.iter().find(|&(&level, &domains)| !known || level != now.here || domains > 1);
        let lowest = others.map_or(here, |(&level, _)| level.min(here));
        Outlook { here, lowest, domains: now.domains + usize::from(!known) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intern::Tables;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_equal_a_recount_and_thinking_a_change_equals_making_it(
            changes in prop::collection::vec((0usize..4, -2i64..3), 0..24),
            (last, by) in (0usize..4, -3i64..4),
        ) {
            let mut tables = Tables::new();
            let domains = ["a", "b", "c", "d"].map(|text| tables.symbol(text));
            let mut counts = DomainCounts::default();
            let mut naive: [Option<i64>; 4] = [None; 4];
            for (at, by) in changes {
                counts.change(domains[at], by);
                naive[at] = Some(naive[at].unwrap_or(0) + by);
            }
            let outlook = |naive: &[Option<i64>; 4]| Outlook {
                here: naive[last].unwrap_or(0),
                lowest: naive.iter().flatten().min().copied().unwrap_or(NO_DOMAIN),
                domains: naive.iter().flatten().count(),
            };
            prop_assert_eq!(counts.outlook(domains[last]), outlook(&naive));
            let thought = counts.outlook_after(domains[last], by);
            let before = (naive[last].is_some(), counts.clone());
            if by != 0 {
                counts.change(domains[last], by);
                naive[last] = Some(naive[last].unwrap_or(0) + by);
                prop_assert_eq!(thought, counts.outlook(domains[last]));
                prop_assert_eq!(thought, outlook(&naive));
                counts.change(domains[last], -by);
            }
            prop_assert!(!before.0 || counts == before.1, "a change taken back leaves nothing");
        }
    }
}
