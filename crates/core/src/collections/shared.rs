//! Interned values with copy-on-write: equal values are stored once, and a write makes a copy.

use crate::collections::hash::Keyed;
use crate::collections::uniques::Uniques;
use std::fmt;
use std::hash::Hash;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

/// A shared value. A write copies it first.
#[derive(PartialEq, Eq, Hash)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// Whether both refer to the same allocation. Equal values may have different ones.
    pub fn is_same(one: &Self, other: &Self) -> bool {
        Arc::ptr_eq(&one.0, &other.0)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

/// The interned values of one type.
pub(crate) struct Pool<T>(Uniques<Arc<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Uniques::default())
    }
}

impl<T> Pool<T> {
    /// Creates an empty pool with this hash function.
    pub(crate) fn hashed_by(hashing: Keyed) -> Self {
        Self(Uniques::hashed_by(hashing))
    }
}

impl<T: Eq + Hash> Pool<T> {
    /// Returns the shared copy of an equal value, adding the value if there is none.
    pub(crate) fn share(&mut self, value: T) -> Shared<T> {
        let hash = self.0.hash(&value);
        let known = self.0.find(hash, |known| **known == value);
        let at = known.unwrap_or_else(|| self.0.add(hash, Arc::new(value)));
        Shared(Arc::clone(self.0.get(at)))
    }

    /// Frees the values in a range of indexes that only the pool holds. Returns the number of indexes visited.
    pub(crate) fn sweep_range(&mut self, places: Range<usize>) -> usize {
        self.0.sweep_range(places, |_, value| Arc::strong_count(value) > 1)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_one_copy_while_referenced() {
        let mut pool = Pool::default();
        let (one, other) = (pool.share("a".to_owned()), pool.share("a".to_owned()));
        assert!(Shared::is_same(&one, &other));
        assert_eq!(pool.sweep_range(0..8), 1);
        assert_eq!(pool.len(), 1);
        drop((one, other));
        assert_eq!(pool.sweep_range(1..8), 0);
        assert_eq!(pool.len(), 1, "the entry was not visited");
        pool.sweep_range(0..8);
        assert_eq!(pool.len(), 0);
    }

    #[test]
    fn write_to_a_shared_value_copies_it() {
        let mut pool = Pool::default();
        let (one, mut other) = (pool.share(1), pool.share(1));
        *other = 2;
        assert_eq!((*one, *other, *pool.share(1)), (1, 2, 1));
    }
}
