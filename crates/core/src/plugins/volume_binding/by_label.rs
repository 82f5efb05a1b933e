//! An index of storage objects by a node label that they require.
//!
//! Local storage has one volume or capacity per node; trying all of them on all nodes would be quadratic.

use crate::hash::IdMap;
use crate::intern::{Labels, Symbol};
use crate::selector::{Operator, Requirement};

/// Positions in a list, by a label that a node must have for what stands there.
#[derive(Default)]
pub(super) struct ByLabel {
    /// What is not held to one value of a label.
    others: Vec<usize>,
    by_value: IdMap<(Symbol, Symbol), Vec<usize>>,
    keys: Vec<Symbol>,
}

impl ByLabel {
    /// Adds the next position, for nodes that fulfil all of `demands`; `None` where that cannot be said so simply.
    pub(super) fn push(&mut self, at: usize, demands: Option<&[Requirement]>) {
        let pin = demands.into_iter().flatten().find_map(|requirement| match &requirement.operator {
            Operator::In(values) => Some((requirement.key, values)),
            _ => None,
        });
        let Some((key, values)) = pin else { return self.others.push(at) };
        if !self.keys.contains(&key) {
            self.keys.push(key);
        }
        for &value in values.iter() {
            self.by_value.entry((key, value)).or_default().push(at);
        }
    }

    /// The first position that fits, of those a node of these labels may have. What fits is the caller's to say in full.
    pub(super) fn first(&self, labels: Labels<'_>, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let pinned = self.keys.iter().filter_map(|&key| self.by_value.get(&(key, labels.get(key)?)));
        let lists = std::iter::once(&self.others).chain(pinned);
        lists.filter_map(|list| list.iter().copied().find(|&at| fits(at))).min()
    }
}
