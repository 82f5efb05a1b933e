//! An index of storage objects by a node label that they require.
//!
//! Local storage has one volume or capacity per node; trying all of them on all nodes would be quadratic.

use crate::collections::hash::IdMap;
use crate::model::intern::{Labels, Symbol};
use crate::model::selector::{Operator, Requirement};

/// Indexes into a list of objects, by a label value that the object requires of a node.
#[derive(Default)]
pub(super) struct ByLabel {
    /// Objects that do not require a certain value of a label.
    others: Vec<usize>,
    by_value: IdMap<(Symbol, Symbol), Vec<usize>>,
    keys: Vec<Symbol>,
}

impl ByLabel {
    /// Adds the next object, which requires `demands` of its node; `None` if its requirements are more complex.
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

    /// Returns the first index that fits, among the objects that nodes with these labels may satisfy. `fits` must
    /// check all requirements.
    pub(super) fn first(&self, labels: Labels<'_>, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let pinned = self.keys.iter().filter_map(|&key| self.by_value.get(&(key, labels.get(key)?)));
        let lists = std::iter::once(&self.others).chain(pinned);
        lists.filter_map(|list| list.iter().copied().find(|&at| fits(at))).min()
    }
}
