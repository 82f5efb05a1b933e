//! The one stream of random numbers a simulation draws from. Not for the engine: it has draws of its own.

/// SplitMix64: every seed gives a full period, and the whole state is one number.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(bound);
        (wide >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of a hundred draws.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`, of which there is at least one.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// One of the choices, each as likely as its weight says.
    pub(crate) fn weighted<T: Copy>(&mut self, choices: &[(u64, T)]) -> T {
        let mut rest = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for &(weight, choice) in choices {
            if rest < weight {
                return choice;
            }
            rest -= weight;
        }
        unreachable!("a draw below the sum of the weights falls on one of them")
    }
}
