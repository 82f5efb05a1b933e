//! Sizes of strings, lists and maps, as far as they are known before an evaluation.

/// Bounds of a size, in characters of a string, elements of a list or entries of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

/// Whether entries belong to a list or a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    List,
    Map,
}

/// The sizes of the entries of a list or map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries {
    pub(super) container: Container,
    pub(super) key: Size,
    pub(super) value: Size,
}

/// The part of an entry that a comprehension variable stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum ByKind {
    Key,
    Value,
    /// The element of a list, or the key of a map.
    Single,
}

impl Size {
    pub(super) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(super) fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    /// Returns the start value for a union of `count` sizes.
    pub(super) fn none_of(count: usize) -> Self {
        Self { min: if count == 0 { 0 } else { u64::MAX }, max: 0 }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Returns the cost of a traversal with `factor` units for each element.
    pub(super) fn cost(self, factor: f64) -> u64 {
        scaled(self.max, factor)
    }
}

impl Entries {
    pub(super) fn union(self, other: Self) -> Self {
        Self {
            container: self.container,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

/// Multiplies as floating-point numbers and rounds up, as upstream does. The conversion saturates.
pub(super) fn scaled(amount: u64, factor: f64) -> u64 {
    (amount as f64 * factor).ceil() as u64
}
