//! Things that are each for the nodes with certain labels, found by a node's labels.
//!
//! Storage of nodes themselves comes as one volume, or one capacity, a node: to try all of them on all nodes would take the
//! square of the cluster.

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
