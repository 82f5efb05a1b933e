//! Go's `sort.Slice`, step by step, so that ties and inconsistent comparisons give upstream's order.
//!
//! Go's algorithm is pattern-defeating quicksort (`sort/zsortfunc.go`), with insertion sort for up to twelve
//! items.

const BY_INSERTION_MAX: usize = 12;

/// Sorts `items` in the steps of Go's `sort.Slice`.
pub(super) fn sort_as_go<T>(items: &mut [T], comes_first: impl FnMut(&T, &T) -> bool) {
    let len = items.len();
    Sort { items, comes_first }.quick(0, len, (usize::BITS - len.leading_zeros()) as usize);
}

struct Sort<'s, T, F> {
    items: &'s mut [T],
    comes_first: F,
}

/// The pattern found in a range while choosing a pivot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    Unknown,
    Increasing,
    Decreasing,
}

/// Ranges are half-open: from `from` to before `to`.
impl<T, F: FnMut(&T, &T) -> bool> Sort<'_, T, F> {
    fn less(&mut self, a: usize, b: usize) -> bool {
        (self.comes_first)(&self.items[a], &self.items[b])
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.items.swap(a, b);
    }

    fn quick(&mut self, mut from: usize, mut to: usize, mut bad_pivots_left: usize) {
        let (mut balanced, mut was_partitioned) = (true, true);
        loop {
            let len = to - from;
            if len <= BY_INSERTION_MAX {
                return self.insertion(from, to);
            }
            if bad_pivots_left == 0 {
                return self.heap(from, to);
            }
            if !balanced {
                self.break_patterns(from, to);
                bad_pivots_left -= 1;
            }
            let (mut pivot, mut pattern) = self.choose_pivot(from, to);
            if pattern == Pattern::Decreasing {
                self.items[from..to].reverse();
                pivot = (to - 1) - (pivot - from);
                pattern = Pattern::Increasing;
            }
            if balanced && was_partitioned && pattern == Pattern::Increasing && self.nearly_sorted(from, to) {
                return;
            }
            if from > 0 && !self.less(from - 1, pivot) {
                from = self.partition_equal(from, to, pivot);
                continue;
            }
            let middle;
            (middle, was_partitioned) = self.partition(from, to, pivot);
            let (left, right) = (middle - from, to - middle);
            balanced = left.min(right) >= len / 8;
            if left < right {
                self.quick(from, middle, bad_pivots_left);
                from = middle + 1;
            } else {
                self.quick(middle + 1, to, bad_pivots_left);
                to = middle;
            }
        }
    }

    fn insertion(&mut self, from: usize, to: usize) {
        for at in from + 1..to {
            let mut item = at;
            while item > from && self.less(item, item - 1) {
                self.swap(item, item - 1);
                item -= 1;
            }
        }
    }

    fn heap(&mut self, from: usize, to: usize) {
        let len = to - from;
        for root in (0..=(len - 1) / 2).rev() {
            self.sift_down(root, len, from);
        }
        for end in (0..len).rev() {
            self.swap(from, from + end);
            self.sift_down(0, end, from);
        }
    }

    fn sift_down(&mut self, mut root: usize, end: usize, first: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            if child + 1 < end && self.less(first + child, first + child + 1) {
                child += 1;
            }
            if !self.less(first + root, first + child) {
                return;
            }
            self.swap(first + root, first + child);
            root = child;
        }
    }

    /// Partitions a range; returns the pivot's final position and whether no item had to move.
    fn partition(&mut self, from: usize, to: usize, pivot: usize) -> (usize, bool) {
        self.swap(from, pivot);
        let (mut low, mut high) = (from + 1, to - 1);
        let mut untouched = true;
        loop {
            while low <= high && self.less(low, from) {
                low += 1;
            }
            while low <= high && !self.less(high, from) {
                high -= 1;
            }
            if low > high {
                break;
            }
            self.swap(low, high);
            low += 1;
            high -= 1;
            untouched = false;
        }
        self.swap(high, from);
        (high, untouched)
    }

    /// Partitions a range without items before the pivot: moves equal items to the left and returns their
    /// end.
    fn partition_equal(&mut self, from: usize, to: usize, pivot: usize) -> usize {
        self.swap(from, pivot);
        let (mut low, mut high) = (from + 1, to - 1);
        loop {
            while low <= high && !self.less(from, low) {
                low += 1;
            }
            while low <= high && self.less(from, high) {
                high -= 1;
            }
            if low > high {
                return low;
            }
            self.swap(low, high);
            low += 1;
            high -= 1;
        }
    }

    /// Sorts a range that needs few moves; returns false if it gave up.
    fn nearly_sorted(&mut self, from: usize, to: usize) -> bool {
        const MOVES_MAX: usize = 5;
        const WORTH_MOVING: usize = 50;
        let mut at = from + 1;
        for _ in 0..MOVES_MAX {
            while at < to && !self.less(at, at - 1) {
                at += 1;
            }
            if at == to {
                return true;
            }
            if to - from < WORTH_MOVING {
                return false;
            }
            self.swap(at, at - 1);
            if at - from >= 2 {
                // As in Go, this does not stop at `from`.
                let mut item = at - 1;
                while item >= 1 && self.less(item, item - 1) {
                    self.swap(item, item - 1);
                    item -= 1;
                }
            }
            if to - at >= 2 {
                let mut item = at + 1;
                while item < to && self.less(item, item - 1) {
                    self.swap(item, item - 1);
                    item += 1;
                }
            }
        }
        false
    }

    /// Scatters three items to break patterns, deterministically for each length.
    fn break_patterns(&mut self, from: usize, to: usize) {
        let len = to - from;
        let mut random = len as u64;
        let mask = (1usize << (usize::BITS - len.leading_zeros())) - 1;
        let middle = from + len / 4 * 2;
        for at in middle - 1..=middle + 1 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let other = random as usize & mask;
            self.swap(at, from + if other >= len { other - len } else { other });
        }
    }

    fn choose_pivot(&mut self, from: usize, to: usize) -> (usize, Pattern) {
        const WORTH_NINE: usize = 50;
        const SWAPS_MAX: usize = 4 * 3;
        let len = to - from;
        let [mut low, mut middle, mut high] = [1, 2, 3].map(|quarter| from + len / 4 * quarter);
        let mut swaps = 0;
        if len >= WORTH_NINE {
            for at in [&mut low, &mut middle, &mut high] {
                *at = self.median([*at - 1, *at, *at + 1], &mut swaps);
            }
        }
        let pivot = self.median([low, middle, high], &mut swaps);
        let pattern = match swaps {
            0 => Pattern::Increasing,
            SWAPS_MAX => Pattern::Decreasing,
            _ => Pattern::Unknown,
        };
        (pivot, pattern)
    }

    fn median(&mut self, mut at: [usize; 3], swaps: &mut usize) -> usize {
        for (a, b) in [(0, 1), (1, 2), (0, 1)] {
            if self.less(at[b], at[a]) {
                at.swap(a, b);
                *swaps += 1;
            }
        }
        at[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of the item at `at` of a list of `len`: keys below `kinds`, in one of five shapes.
    fn key(shape: u64, at: u64, len: u64, kinds: u64, random: u64) -> u64 {
        match shape {
            1 => at % kinds,
            2 => (len - at) % kinds,
            3 if !at.is_multiple_of(17) => at % kinds,
            4 => at * at % kinds,
            _ => random % kinds,
        }
    }

    /// The table was written by a Go program that sorts these very lists.
    #[test]
    fn sort_result_equals_go() {
        let table = include_str!("../../tests/tables/go-sort.txt");
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            let [len, kinds, shape] = [0, 1, 2].map(|at| words[at].parse::<u64>().unwrap());
            let equal_comes_first = words[3] == "true";
            let mut random = len * 1_000_003 + kinds * 31 + shape;
            let mut items: Vec<(u64, u64)> = Vec::new();
            for at in 0..len {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                items.push((key(shape, at, len, kinds, random >> 33), at));
            }
            sort_as_go(&mut items, |a, b| if a.0 == b.0 { equal_comes_first } else { a.0 < b.0 });
            let hash = items.iter().fold(14_695_981_039_346_656_037u64, |hash, (_, was)| {
                (hash ^ was).wrapping_mul(1_099_511_628_211)
            });
            assert_eq!(format!("{hash:016x}"), words[4], "{line}");
        }
    }
}
