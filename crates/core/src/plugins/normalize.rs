//! The normalization that several score plugins share.
//!
//! Upstream: `pkg/scheduler/framework/plugins/helper/normalize_score.go`.

use crate::framework::MAX_NODE_SCORE;

/// Scales scores so that the highest becomes 100; `reverse` then makes the lowest the best.
///
/// Where no score is above zero nothing can be scaled: reversed, every node gets 100, else scores stay as they are.
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

/// `100 * part / whole`, cut towards zero, also where the product leaves the range.
pub(super) fn percent(part: i64, whole: i64) -> i64 {
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

    fn normalized<const N: usize>(mut scores: [i64; N], reverse: bool) -> [i64; N] {
        default_normalize_score(&mut scores, reverse);
        scores
    }

    #[test]
    fn the_highest_score_becomes_100_and_the_others_their_share() {
        assert_eq!(normalized([2, 11, 4], false), [18, 100, 36]);
        assert_eq!(normalized([2, 3, 5], false), [40, 60, 100]);
        assert_eq!(normalized([7, 7], false), [100, 100]);
    }

    #[test]
    fn reversed_the_highest_becomes_0() {
        assert_eq!(normalized([0, 1, 2], true), [100, 50, 0]);
        assert_eq!(normalized([3, 3], true), [0, 0]);
    }

    #[test]
    fn all_zero_stays_zero_or_becomes_100_reversed() {
        assert_eq!(normalized([0, 0], false), [0, 0]);
        assert_eq!(normalized([0, 0], true), [100, 100]);
        assert_eq!(normalized([], true), []);
    }

    #[test]
    fn a_product_beyond_the_range_is_still_a_share() {
        assert_eq!(percent(i64::MAX / 2, i64::MAX), 49);
        assert_eq!(percent(i64::MAX, i64::MAX), 100);
    }
}
