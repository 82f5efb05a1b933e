//! Randomness as a function of a seed and of what is decided, so that a run can be repeated bit for bit.
//!
//! There is no generator with state: every draw names its purpose and its subject, so a new kind of draw
//! does not shift the old ones.

/// The seed all draws of a scheduler derive from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

/// What a draw is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Which of several nodes with the highest total wins.
    TieBreak,
    /// On which node preemption begins to look for candidates.
    PreemptionStart,
    /// Which of several candidates of least harm is preempted on.
    PreemptionTie,
}

impl Seed {
    /// An even draw from `0..bound` for `subject`, for example a pod's uid and its number of attempts.
    ///
    /// # Panics
    /// When `bound` is zero: there is nothing to draw from.
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
