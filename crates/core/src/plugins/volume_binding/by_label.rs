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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Tables;
    use std::cell::Cell;

    #[test]
    fn only_objects_that_require_a_label_of_the_node_are_tried() {
        let mut tables = Tables::new();
        let key = tables.symbol("host");
        let hosts: Vec<Symbol> = (0..100).map(|at| tables.symbol(&format!("n{at}"))).collect();
        let mut index = ByLabel::default();
        for (at, &host) in hosts.iter().enumerate() {
            let requirement = Requirement { key, operator: Operator::In([host].into()) };
            index.push(at, Some(std::slice::from_ref(&requirement)));
        }
        index.push(100, None);
        let labels = tables.label_set(vec![(key, hosts[7])]);
        let tried = Cell::new(0);
        let fits = |at: usize| {
            tried.set(tried.get() + 1);
            at == 7 || at == 100
        };
        assert_eq!(index.first(tables.labels(labels), fits), Some(7));
        assert_eq!(tried.get(), 2, "one for its host, and one for any host");
    }
}
