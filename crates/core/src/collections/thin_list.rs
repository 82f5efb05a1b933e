//! A list of one pointer, for fields that are empty in most objects.

use std::ops::{Deref, DerefMut};

/// A list of fixed length in 8 bytes instead of the 16 of a boxed slice. An empty one allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ThinList<T>(Option<Box<Box<[T]>>>);

impl<T> Default for ThinList<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Deref for ThinList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |list| list)
    }
}

impl<T> DerefMut for ThinList<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.as_mut().map_or(&mut [], |list| list)
    }
}

impl<T> From<Box<[T]>> for ThinList<T> {
    fn from(list: Box<[T]>) -> Self {
        Self((!list.is_empty()).then(|| Box::new(list)))
    }
}

impl<T> From<Vec<T>> for ThinList<T> {
    fn from(list: Vec<T>) -> Self {
        list.into_boxed_slice().into()
    }
}

impl<T, const N: usize> From<[T; N]> for ThinList<T> {
    fn from(list: [T; N]) -> Self {
        Vec::from(list).into()
    }
}

impl<T> FromIterator<T> for ThinList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        items.into_iter().collect::<Vec<T>>().into()
    }
}

impl<'a, T> IntoIterator for &'a ThinList<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_small_and_equal_by_content() {
        assert_eq!(size_of::<ThinList<String>>(), size_of::<usize>());
        let list: ThinList<u32> = [1, 2].into();
        assert_eq!(list, [1, 2].into_iter().collect());
        assert_eq!(&*list, [1, 2]);
        assert_eq!(ThinList::<u32>::default(), Vec::new().into());
        assert_ne!(list, ThinList::default());
    }
}
