//! Garbage collection, mark phase: every type that holds ids marks them.
//!
//! An id that is held but not marked would later be assigned to another text. Therefore each implementation
//! names *all* fields of its type, including those without ids. A new field does not compile until it is
//! classified.
//!
//! Reference counts would add a cost to every clone of a pod. Marking instead walks all gc roots each time the
//! tables have grown by half, in slices ([`crate::model::intern::gc`]).

use super::{LabelSetId, Symbol, TaintSetId};
use crate::collections::hash::{FixedMap, Hashed, IdMap, IdSet};
use crate::collections::shared::Shared;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The marked ids of each table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    pub(super) symbols: Bits,
    pub(super) label_sets: Bits,
    pub(super) taint_sets: Bits,
}

/// A set of small numbers, one bit each.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn set(&mut self, at: usize) {
        if self.0.len() <= at / 64 {
            self.0.resize(at / 64 + 1, 0);
        }
        self.0[at / 64] |= 1 << (at % 64);
    }

    /// Whether this set contains all of `others`.
    #[cfg(debug_assertions)]
    fn has_all(&self, others: &Self) -> bool {
        others
            .0
            .iter()
            .zip(self.0.iter().chain(std::iter::repeat(&0)))
            .all(|(others, these)| others & !these == 0)
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}

impl Marks {
    /// Whether all ids in `others` are marked.
    #[cfg(debug_assertions)]
    pub(crate) fn have_all(&self, others: &Self) -> bool {
        self.symbols.has_all(&others.symbols)
            && self.label_sets.has_all(&others.label_sets)
            && self.taint_sets.has_all(&others.taint_sets)
    }
}

/// A type whose values may hold ids.
pub(crate) trait TraceIds {
    /// Marks all ids that the value holds.
    fn mark(&self, marks: &mut Marks);
}

impl TraceIds for Symbol {
    fn mark(&self, marks: &mut Marks) {
        marks.symbols.set(self.index());
    }
}

impl TraceIds for LabelSetId {
    fn mark(&self, marks: &mut Marks) {
        marks.label_sets.set(self.0 as usize);
    }
}

impl TraceIds for TaintSetId {
    fn mark(&self, marks: &mut Marks) {
        marks.taint_sets.set(self.0 as usize);
    }
}

/// Implements [`TraceIds`] for types without ids.
macro_rules! holds_no_ids {
    ($($type:ty),* $(,)?) => {
        $(impl $crate::model::intern::TraceIds for $type {
            fn mark(&self, _: &mut $crate::model::intern::Marks) {}
        })*
    };
}

/// Implements [`TraceIds`] for a struct, given its fields with ids and its fields without.
macro_rules! trace_ids {
    ($type:ty { $($held:ident),* $(,)? } $(but not { $($other:ident),* $(,)? })?) => {
        impl $crate::model::intern::TraceIds for $type {
            fn mark(&self, marks: &mut $crate::model::intern::Marks) {
                let Self { $($held,)* $($($other: _,)*)? } = self;
                $($crate::model::intern::TraceIds::mark($held, marks);)*
            }
        }
    };
}
pub(crate) use {holds_no_ids, trace_ids};

holds_no_ids!(bool, i32, u32, i64, u64, i128, usize, str,);

impl<T: TraceIds + ?Sized> TraceIds for Arc<T> {
    fn mark(&self, marks: &mut Marks) {
        (**self).mark(marks);
    }
}

impl<T: TraceIds> TraceIds for Shared<T> {
    fn mark(&self, marks: &mut Marks) {
        (**self).mark(marks);
    }
}

impl<T: TraceIds + ?Sized> TraceIds for Box<T> {
    fn mark(&self, marks: &mut Marks) {
        (**self).mark(marks);
    }
}

impl<T: TraceIds> TraceIds for [T] {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<T: TraceIds> TraceIds for crate::collections::thin_list::ThinList<T> {
    fn mark(&self, marks: &mut Marks) {
        (**self).mark(marks);
    }
}

impl<T: TraceIds> TraceIds for Vec<T> {
    fn mark(&self, marks: &mut Marks) {
        (**self).mark(marks);
    }
}

impl<T: TraceIds> TraceIds for VecDeque<T> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<T: TraceIds> TraceIds for Option<T> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<T: TraceIds, E> TraceIds for Result<T, E> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<A: TraceIds, B: TraceIds> TraceIds for (A, B) {
    fn mark(&self, marks: &mut Marks) {
        self.0.mark(marks);
        self.1.mark(marks);
    }
}

impl<A: TraceIds, B: TraceIds, C: TraceIds> TraceIds for (A, B, C) {
    fn mark(&self, marks: &mut Marks) {
        self.0.mark(marks);
        self.1.mark(marks);
        self.2.mark(marks);
    }
}

impl<K: TraceIds, V: TraceIds> TraceIds for BTreeMap<K, V> {
    fn mark(&self, marks: &mut Marks) {
        for (key, value) in self {
            key.mark(marks);
            value.mark(marks);
        }
    }
}

impl<T: TraceIds> TraceIds for BTreeSet<T> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<K: TraceIds, V: TraceIds> TraceIds for FixedMap<K, V> {
    fn mark(&self, marks: &mut Marks) {
        for (key, value) in self {
            key.mark(marks);
            value.mark(marks);
        }
    }
}

impl<K: TraceIds, V: TraceIds> TraceIds for IdMap<K, V> {
    fn mark(&self, marks: &mut Marks) {
        for (key, value) in self {
            key.mark(marks);
            value.mark(marks);
        }
    }
}

impl<K: TraceIds> TraceIds for IdSet<K> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|key| key.mark(marks));
    }
}

impl<K: TraceIds + std::hash::Hash> TraceIds for Hashed<K> {
    fn mark(&self, marks: &mut Marks) {
        self.key().mark(marks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_set_in_any_order_and_take_no_more_words_than_they_need() {
        let mut bits = Bits::default();
        [0, 64, 700, 3, 130].into_iter().for_each(|at| bits.set(at));
        let set: Vec<usize> = (0..1_000).filter(|&at| bits.has(at)).collect();
        assert_eq!(set, [0, 3, 64, 130, 700]);
        assert_eq!(bits.0.len(), 700 / 64 + 1);
    }
}
