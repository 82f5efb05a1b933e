//! Scoring and filtering of two resources for 64 nodes at once, with SIMD on floats that hold whole numbers.
//!
//! It does not know pods. Callers handle amounts that floats cannot represent exactly.

use crate::framework::MAX_NODE_SCORE;

/// How many nodes.
pub(super) const WIDTH: usize = 64;
/// From so many nodes on it is less work to take as many as there are lanes.
pub(super) const PAY_FROM: usize = 20;
/// Stands for a node that is left out: one that lacks a resource.
pub(super) const NONE: i64 = -2;
/// Amounts below this stay whole numbers when they are taken a hundred times.
const AMOUNT_BITS: u32 = 46;
/// Weights below this keep a mean exact.
const WEIGHT_MAX: i64 = 1 << 20;
/// Amounts below this can be taken from each other twice.
const DIFFERENCE_BITS: u32 = 61;
/// From here on floats are whole numbers.
const ONLY_WHOLE: f64 = (1_u64 << 52) as f64;

/// One resource of the nodes of a block.
pub(super) struct Lanes {
    allocatable: [f64; WIDTH],
    used: [f64; WIDTH],
    request: f64,
    weight: f64,
}

/// Room for a block of two resources, and what is made of them.
pub(super) struct Room {
    pub(super) first: Lanes,
    pub(super) second: Lanes,
    pub(super) scores: [i64; WIDTH],
}

impl Default for Room {
    fn default() -> Self {
        Self { first: Lanes::default(), second: Lanes::default(), scores: [NONE; WIDTH] }
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Self { allocatable: [0.0; WIDTH], used: [0.0; WIDTH], request: 0.0, weight: 0.0 }
    }
}

/// One resource of a node, as [`Share`](super::allocation::Share) is.
pub(super) struct Part {
    pub(super) allocatable: f64,
    pub(super) used: f64,
    pub(super) requested: f64,
    pub(super) weight: f64,
}

impl Lanes {
    /// Takes the amounts over; whether they can be reckoned with.
    #[inline(always)]
    pub(super) fn fill(
        &mut self,
        allocatable: &[i64; WIDTH],
        used: &[i64; WIDTH],
        request: i64,
        weight: i64,
    ) -> bool {
        // A sign is a high bit as well.
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
    /// How much of a hundred parts would be free.
    #[inline(always)]
    pub(super) fn free_percent(&self) -> f64 {
        let free = self.allocatable - self.requested;
        self.percent(if free < 0.0 { 0.0 } else { free })
    }

    /// How much of a hundred parts would be taken.
    #[inline(always)]
    pub(super) fn taken_percent(&self) -> f64 {
        let all = self.allocatable;
        self.percent(if self.requested > all { all } else { self.requested })
    }

    /// Cut to a whole number. A quotient that is none is further below the next one than it is rounded.
    #[inline(always)]
    fn percent(&self, part: f64) -> f64 {
        whole(part * MAX_NODE_SCORE as f64 / self.allocatable)
    }
}

/// A number from 0 on as a float, if it is none of the largest; the processor has no instruction for several at once.
#[inline(always)]
fn float(number: i64) -> f64 {
    f64::from_bits(number as u64 | ONLY_WHOLE.to_bits()) - ONLY_WHOLE
}

/// The whole part of a number from 0 on that is none of the largest.
#[inline(always)]
pub(super) fn whole(number: f64) -> f64 {
    let nearest = (number + ONLY_WHOLE) - ONLY_WHOLE;
    if nearest > number { nearest - 1.0 } else { nearest }
}

/// The mean of two scores by the weights of their resources, cut to a whole number.
#[derive(Clone, Copy)]
pub(super) struct Mean {
    /// The part of one that each weight is.
    parts: f64,
}

impl Mean {
    /// By these weights.
    pub(super) fn new(first: i64, second: i64) -> Self {
        Self { parts: 1.0 / (first + second) as f64 }
    }

    #[inline(always)]
    pub(super) fn of(self, a: &Part, b: &Part, score: impl Fn(&Part) -> f64) -> f64 {
        let sum = score(a) * a.weight + score(b) * b.weight;
        // Half a part more than there is and less than the next whole number takes: far more than is lost by not dividing.
        whole((sum + 0.5) * self.parts)
    }
}

/// What `score`, which gives whole numbers from 0 on, makes of each node; [`NONE`] for those that lack a resource.
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

/// What is left of a resource on each node, as far as it is needed: below 0 where something is short.
pub(super) struct Left {
    left: [i64; WIDTH],
    /// All bits of all amounts.
    bits: u64,
}

impl Left {
    /// Nothing is needed.
    pub(super) fn new() -> Self {
        Self { left: [0; WIDTH], bits: 0 }
    }

    /// So much of it is needed.
    #[inline(always)]
    pub(super) fn need(&mut self, wanted: i64, allocatable: &[i64; WIDTH], taken: &[i64; WIDTH]) {
        let mut bits = wanted as u64;
        for lane in 0..WIDTH {
            bits |= (allocatable[lane] | taken[lane]) as u64;
            // A sign that is there stays.
            self.left[lane] |= allocatable[lane].wrapping_sub(taken[lane]).wrapping_sub(wanted);
        }
        self.bits |= bits;
    }

    /// A bit for each node on which nothing is short; `None` where there are amounts that cannot be reckoned with so.
    #[inline(always)]
    pub(super) fn nodes(&self) -> Option<u64> {
        let mut short = [0; WIDTH];
        short.iter_mut().zip(&self.left).for_each(|(short, left)| *short = (*left as u64 >> 63) as u8);
        // Moves the lowest bit of each of eight bytes into the highest byte.
        let gathered = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        let (bytes, _) = short.as_chunks();
        let short = bytes.iter().rev().fold(0, |nodes, bytes| nodes << 8 | gathered(bytes));
        (self.bits >> DIFFERENCE_BITS == 0).then_some(!short)
    }
}
