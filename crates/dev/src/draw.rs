//! Random draws for generated scenarios: a seed and a number yield the same scenario on every machine.

/// A SplitMix64-like generator, sufficient for varying inputs.
pub struct Draw(u64);

impl Draw {
    /// Returns the generator of scenario `number` in the run with this seed.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut draw = Self(seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        draw.next();
        Self(draw.next() ^ number)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Returns a uniform draw from `0..bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "a draw needs at least one choice");
        let bound = u64::try_from(bound).expect("a usize fits");
        usize::try_from(self.next() % bound).expect("it is below a usize")
    }

    /// Returns a uniform draw from `least..=most`.
    pub fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    /// Returns true with this probability in percent.
    pub fn percent(&mut self, of_hundred: usize) -> bool {
        self.below(100) < of_hundred
    }

    /// Returns one of the choices.
    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// Returns one of the choices, with a probability proportional to its weight.
    pub fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let mut left = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for &(weight, choice) in choices {
            if left < weight {
                return choice;
            }
            left -= weight;
        }
        unreachable!("the weights add up to more than was drawn")
    }

    /// Returns `count` values from `make`.
    pub fn list<T>(&mut self, count: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..count).map(|_| make(self)).collect()
    }
}
