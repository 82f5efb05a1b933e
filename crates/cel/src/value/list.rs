//! Lists: flat ones, and concatenations that share their parts.

use std::sync::Arc;

use super::Value;

/// A list. Concatenating two lists does not copy them.
#[derive(Clone, Debug)]
pub struct List(Arc<Parts>);

#[derive(Clone, Debug)]
enum Parts {
    Flat(Vec<Value>),
    Joined { left: List, right: List, len: u64 },
}

impl List {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Self(Arc::new(Parts::Flat(values)))
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        match &*self.0 {
            Parts::Flat(values) => values.len() as u64,
            Parts::Joined { len, .. } => *len,
        }
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the element at a position, counted from 0.
    pub fn get(&self, index: u64) -> Option<&Value> {
        let (mut list, mut index) = (self, index);
        loop {
            match &*list.0 {
                Parts::Flat(values) => return values.get(usize::try_from(index).ok()?),
                Parts::Joined { left, right, .. } => {
                    if index < left.len() {
                        list = left;
                    } else {
                        index -= left.len();
                        list = right;
                    }
                }
            }
        }
    }

    /// Iterates over the elements in order.
    pub fn iter(&self) -> impl Iterator<Item = &Value> {
        Iter { pending: vec![self], current: [].iter() }
    }

    pub(crate) fn join(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let len = self.len().saturating_add(other.len());
        Self(Arc::new(Parts::Joined { left: self, right: other, len }))
    }

    /// Returns whether the list is a concatenation.
    pub(crate) fn is_joined(&self) -> bool {
        matches!(*self.0, Parts::Joined { .. })
    }

    /// Appends elements to a flat list, in place if it has no other owner. Does nothing to a concatenation.
    pub(crate) fn extend(&mut self, values: &Self) {
        if let Parts::Flat(own) = Arc::make_mut(&mut self.0) {
            own.extend(values.iter().cloned());
        }
    }
}

struct Iter<'l> {
    pending: Vec<&'l List>,
    current: std::slice::Iter<'l, Value>,
}

impl<'l> Iterator for Iter<'l> {
    type Item = &'l Value;

    fn next(&mut self) -> Option<&'l Value> {
        loop {
            if let Some(value) = self.current.next() {
                return Some(value);
            }
            match &*self.pending.pop()?.0 {
                Parts::Flat(values) => self.current = values.iter(),
                Parts::Joined { left, right, .. } => {
                    self.pending.push(right);
                    self.pending.push(left);
                }
            }
        }
    }
}
