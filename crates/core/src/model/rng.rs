//! Deterministic random draws: a pure function of the seed, the purpose and the subject.
//!
//! There is no generator with state, so a new kind of draw does not shift existing ones.

/// The seed of all random draws of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

/// The purpose of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The choice among several nodes with the highest total.
    TieBreak,
    /// The node at which preemption starts its search for candidates.
    PreemptionStart,
    /// The choice among several candidates of equal rank.
    PreemptionTie,
    /// The choice among several claims that can be freed.
    Deallocation,
}

impl Seed {
    /// Draws a uniform number from `0..bound` for `subject`, for example a pod's uid and its attempt number.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn draw(self, purpose: Purpose, subject: &str, attempt: u64, bound: usize) -> usize {
        assert!(bound > 0, "a draw needs at least one choice");
        let mut state = self.0 ^ (purpose as u64 + 1).wrapping_mul(0xa076_1d64_78bd_642f) ^ mix(attempt);
        for chunk in subject.as_bytes().chunks(8) {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            state = mix(state ^ u64::from_le_bytes(word));
        }
        let wide = u128::from(mix(state)) * bound as u128;
        (wide >> 64) as usize
    }
}

/// The finalizer of SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_depends_on_seed_and_subject_and_stays_in_bounds() {
        let draws: Vec<usize> =
            (0..64).map(|i| Seed(7).draw(Purpose::TieBreak, &format!("pod-{i}"), 1, 5)).collect();
        assert!(draws.iter().all(|&d| d < 5));
        assert!((0..5).all(|d| draws.contains(&d)), "64 draws from 5 reach each: {draws:?}");
        let again: Vec<usize> =
            (0..64).map(|i| Seed(7).draw(Purpose::TieBreak, &format!("pod-{i}"), 1, 5)).collect();
        assert_eq!(draws, again);
    }
}
