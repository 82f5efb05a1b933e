//! Score normalization shared by several plugins.
//!
//! Upstream: `pkg/scheduler/framework/plugins/helper/normalize_score.go`.

use crate::framework::MAX_NODE_SCORE;

/// Scales scores so that the highest becomes 100; `reverse` then inverts them.
///
/// If no score is above zero, scores stay as they are, or become 100 if reversed.
pub fn default_normalize_score(scores: &mut [i64], reverse: bool) {
    let highest = scores.iter().copied().max().unwrap_or(0).max(0);
    if highest == 0 {
        if reverse {
            scores.fill(MAX_NODE_SCORE);
        }
        return;
    }
    for score in scores {
        let scaled = percent(*score, highest);
        *score = if reverse { MAX_NODE_SCORE - scaled } else { scaled };
    }
}

/// Below this limit floats represent whole numbers exactly.
const EXACT: i64 = 1 << 53;

/// Returns `100 * part / whole`, truncated towards zero, even if the product overflows.
pub(super) fn percent(part: i64, whole: i64) -> i64 {
    if (0..EXACT / MAX_NODE_SCORE).contains(&part) && (1..EXACT).contains(&whole) {
        // A non-integer quotient is at least 1/whole below the next integer, more than its rounding error. A float
        // division takes a fraction of the time of an integer one.
        return ((part * MAX_NODE_SCORE) as f64 / whole as f64) as i64;
    }
    match part.checked_mul(MAX_NODE_SCORE) {
        Some(product) => product / whole,
        None => {
            let quotient = i128::from(part) * i128::from(MAX_NODE_SCORE) / i128::from(whole);
            quotient.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalized_percentage_equals_integer_division() {
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 11
        };
        let check = |part: i64, whole: i64| {
            let exact = i128::from(part) * 100 / i128::from(whole);
            assert_eq!(i128::from(percent(part, whole)), exact, "{part} of {whole}");
        };
        for _ in 0..200_000 {
            let whole = (next() >> (next() % 53)) as i64 + 1;
            let part = (next() >> (next() % 53)) as i64;
            check(part, whole);
            // Quotients just below the next integer.
            let hundredth = whole / 100;
            (0..3).for_each(|off| check((hundredth * (part % 101) - off).max(0), whole));
            check((part % whole).max(1) - 1, whole);
        }
        for whole in [1, 2, 3, 99, 100, EXACT - 1, EXACT, EXACT + 1, EXACT / 100, i64::MAX / 100, -7] {
            for part in [0, 1, whole / 2, whole - 1, whole, whole + 1, EXACT / 100 - 1, EXACT / 100, -5] {
                check(part, whole);
            }
        }
    }

    fn normalized<const N: usize>(mut scores: [i64; N], reverse: bool) -> [i64; N] {
        default_normalize_score(&mut scores, reverse);
        scores
    }

    #[test]
    fn highest_score_becomes_100_and_others_proportional() {
        assert_eq!(normalized([2, 11, 4], false), [18, 100, 36]);
        assert_eq!(normalized([2, 3, 5], false), [40, 60, 100]);
        assert_eq!(normalized([7, 7], false), [100, 100]);
    }

    #[test]
    fn reversed_highest_score_becomes_0() {
        assert_eq!(normalized([0, 1, 2], true), [100, 50, 0]);
        assert_eq!(normalized([3, 3], true), [0, 0]);
    }

    #[test]
    fn all_zero_scores_stay_0_or_become_100_if_reversed() {
        assert_eq!(normalized([0, 0], false), [0, 0]);
        assert_eq!(normalized([0, 0], true), [100, 100]);
        assert_eq!(normalized([], true), []);
    }

    #[test]
    fn product_beyond_the_integer_range_normalizes() {
        assert_eq!(percent(i64::MAX / 2, i64::MAX), 49);
        assert_eq!(percent(i64::MAX, i64::MAX), 100);
    }
}
