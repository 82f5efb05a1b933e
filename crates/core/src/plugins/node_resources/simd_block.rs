//! SIMD scoring and filtering of two resources for 64 nodes at once, on floats that hold whole numbers.
//!
//! The module knows no pods. Amounts that floats cannot represent exactly are handled by the callers.

use crate::framework::MAX_NODE_SCORE;

/// The number of nodes in a block, one per lane.
pub(super) const WIDTH: usize = 64;
/// The number of nodes from which a full block is faster than single evaluations.
pub(super) const PAY_FROM: usize = 20;
/// The score of a node that lacks a resource. The caller computes it separately.
pub(super) const NONE: i64 = -2;
/// Amounts below two to this power are exact in floats when multiplied by 100.
const AMOUNT_BITS: u32 = 46;
/// Weights below this limit keep the weighted mean exact.
const WEIGHT_MAX: i64 = 1 << 20;
/// Amounts below two to this power do not overflow when subtracted twice.
const DIFFERENCE_BITS: u32 = 61;
/// Floats from this value on have no fraction.
const ONLY_WHOLE: f64 = (1_u64 << 52) as f64;

/// The amounts of one resource on the nodes of a block.
pub(super) struct Lanes {
    allocatable: [f64; WIDTH],
    used: [f64; WIDTH],
    request: f64,
    weight: f64,
}

/// Buffers for a block: two resources and the resulting scores.
pub(super) struct Buffers {
    pub(super) first: Lanes,
    pub(super) second: Lanes,
    pub(super) scores: [i64; WIDTH],
}

impl Default for Buffers {
    fn default() -> Self {
        Self { first: Lanes::default(), second: Lanes::default(), scores: [NONE; WIDTH] }
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Self { allocatable: [0.0; WIDTH], used: [0.0; WIDTH], request: 0.0, weight: 0.0 }
    }
}

/// One resource of a node; the float form of [`Share`](super::allocation::Share).
pub(super) struct Part {
    pub(super) allocatable: f64,
    pub(super) used: f64,
    pub(super) requested: f64,
    pub(super) weight: f64,
}

impl Lanes {
    /// Loads the amounts, and returns whether floats represent them exactly.
    #[inline(always)]
    pub(super) fn fill(
        &mut self,
        allocatable: &[i64; WIDTH],
        used: &[i64; WIDTH],
        request: i64,
        weight: i64,
    ) -> bool {
        // Negative amounts have their highest bit set.
        let mut bits = request as u64;
        for lane in 0..WIDTH {
            bits |= (allocatable[lane] | used[lane]) as u64;
            self.allocatable[lane] = float(allocatable[lane]);
            self.used[lane] = float(used[lane]);
        }
        (self.request, self.weight) = (float(request), float(weight));
        bits >> AMOUNT_BITS == 0 && (1..WEIGHT_MAX).contains(&weight)
    }

    #[inline(always)]
    fn part(&self, lane: usize) -> Part {
        let used = self.used[lane];
        let requested = used + self.request;
        Part { allocatable: self.allocatable[lane], used, requested, weight: self.weight }
    }
}

impl Part {
    /// Returns the free percentage with the pod on the node.
    #[inline(always)]
    pub(super) fn free_percent(&self) -> f64 {
        let free = self.allocatable - self.requested;
        self.percent(if free < 0.0 { 0.0 } else { free })
    }

    /// Returns the used percentage with the pod on the node.
    #[inline(always)]
    pub(super) fn taken_percent(&self) -> f64 {
        let all = self.allocatable;
        self.percent(if self.requested > all { all } else { self.requested })
    }

    /// Truncates to a whole number. The distance of a fractional quotient to the next whole number exceeds the
    /// rounding error.
    #[inline(always)]
    fn percent(&self, part: f64) -> f64 {
        whole(part * MAX_NODE_SCORE as f64 / self.allocatable)
    }
}

/// Converts a non-negative number below 2^52 to a float. Processors lack a vector instruction for this.
#[inline(always)]
fn float(number: i64) -> f64 {
    f64::from_bits(number as u64 | ONLY_WHOLE.to_bits()) - ONLY_WHOLE
}

/// Truncates a non-negative number below 2^52.
#[inline(always)]
pub(super) fn whole(number: f64) -> f64 {
    let nearest = (number + ONLY_WHOLE) - ONLY_WHOLE;
    if nearest > number { nearest - 1.0 } else { nearest }
}

/// The weighted mean of two scores, truncated to a whole number.
#[derive(Clone, Copy)]
pub(super) struct Mean {
    /// The reciprocal of the sum of the weights.
    parts: f64,
}

impl Mean {
    /// Creates the mean for these weights.
    pub(super) fn new(first: i64, second: i64) -> Self {
        Self { parts: 1.0 / (first + second) as f64 }
    }

    #[inline(always)]
    pub(super) fn of(self, a: &Part, b: &Part, score: impl Fn(&Part) -> f64) -> f64 {
        let sum = score(a) * a.weight + score(b) * b.weight;
        // The addition of 0.5 stays below the next whole number, and far exceeds the error of multiplying by the
        // reciprocal.
        whole((sum + 0.5) * self.parts)
    }
}

/// Computes the score of each node; [`NONE`] for nodes that lack a resource. `score` must return non-negative whole
/// numbers.
#[inline(always)]
pub(super) fn score(
    first: &Lanes,
    second: &Lanes,
    score: impl Fn(&Part, &Part) -> f64,
    scores: &mut [i64; WIDTH],
) {
    for (lane, cell) in scores.iter_mut().enumerate() {
        let (a, b) = (first.part(lane), second.part(lane));
        let score = score(&a, &b);
        let has_both = (a.allocatable > 0.0) & (b.allocatable > 0.0);
        let score = if has_both { score } else { -1.0 };
        *cell = (score + ONLY_WHOLE).to_bits() as i64 - ONLY_WHOLE.to_bits() as i64;
    }
}

/// The remaining amounts on each node after all requests; negative if a resource is insufficient.
pub(super) struct Remaining {
    remaining: [i64; WIDTH],
    /// The bitwise OR of all amounts.
    bits: u64,
}

impl Remaining {
    /// Creates it without requests.
    pub(super) fn new() -> Self {
        Self { remaining: [0; WIDTH], bits: 0 }
    }

    /// Subtracts a request and the used amount from the allocatable amount.
    #[inline(always)]
    pub(super) fn need(&mut self, wanted: i64, allocatable: &[i64; WIDTH], taken: &[i64; WIDTH]) {
        let mut bits = wanted as u64;
        for lane in 0..WIDTH {
            bits |= (allocatable[lane] | taken[lane]) as u64;
            // A negative sign from an earlier resource is kept.
            self.remaining[lane] |= allocatable[lane].wrapping_sub(taken[lane]).wrapping_sub(wanted);
        }
        self.bits |= bits;
    }

    /// Returns a bit for each node with sufficient resources; `None` if an amount is too large for this arithmetic.
    #[inline(always)]
    pub(super) fn nodes(&self) -> Option<u64> {
        let mut short = [0; WIDTH];
        short
            .iter_mut()
            .zip(&self.remaining)
            .for_each(|(short, remaining)| *short = (*remaining as u64 >> 63) as u8);
        // Moves the lowest bit of each of eight bytes into the highest byte.
        let gathered = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        let (bytes, _) = short.as_chunks();
        let short = bytes.iter().rev().fold(0, |nodes, bytes| nodes << 8 | gathered(bytes));
        (self.bits >> DIFFERENCE_BITS == 0).then_some(!short)
    }
}
