//! Sizes of texts, lists and maps: what is known of them before an evaluation.

/// Bounds of a size: characters of a text, elements of a list, entries of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

/// Whether entries are those of a list or of a map.
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

/// What a variable of a macro stands for.
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

    /// The start of a union over so many sizes.
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

    /// The cost of a traversal at so many units for each element.
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

/// Multiplies and rounds up, with upstream's rounding of large numbers. The conversion saturates.
pub(super) fn scaled(amount: u64, factor: f64) -> u64 {
    (amount as f64 * factor).ceil() as u64
}
