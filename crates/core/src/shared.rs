//! Values that many hold and few change: equal ones are kept once, and who changes one gets a copy.

use crate::hash::FixedSet;
use std::fmt;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value held in common with others, until it is written to.
#[derive(PartialEq, Eq, Hash)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// Whether both are the very same; where they are not, they may still be equal.
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

/// The values of one type that are held somewhere.
pub(crate) struct Pool<T>(FixedSet<Arc<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(FixedSet::default())
    }
}

impl<T: Eq + Hash> Pool<T> {
    /// The value that is held already, if there is an equal one.
    pub(crate) fn share(&mut self, value: T) -> Shared<T> {
        if let Some(known) = self.0.get(&value) {
            return Shared(Arc::clone(known));
        }
        let value = Arc::new(value);
        self.0.insert(Arc::clone(&value));
        Shared(value)
    }

    /// Lets go of what nobody else holds.
    pub(crate) fn keep(&mut self) {
        self.0.retain(|value| Arc::strong_count(value) > 1);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_kept_once_as_long_as_somebody_holds_them() {
        let mut pool = Pool::default();
        let (one, other) = (pool.share("a".to_owned()), pool.share("a".to_owned()));
        assert!(Shared::is_same(&one, &other));
        pool.keep();
        assert_eq!(pool.len(), 1);
        drop((one, other));
        pool.keep();
        assert_eq!(pool.len(), 0);
    }

    #[test]
    fn who_writes_gets_a_copy() {
        let mut pool = Pool::default();
        let (one, mut other) = (pool.share(1), pool.share(1));
        *other = 2;
        assert_eq!((*one, *other, *pool.share(1)), (1, 2, 1));
    }
}
