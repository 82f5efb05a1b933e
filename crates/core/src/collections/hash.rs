//! Hash maps with the same layout in every run. Strings are hashed with SipHash, small ids with one
//! multiplication.
//!
//! The iteration order of a [`FixedMap`] and of an [`IdMap`] depends only on the insertions, never on the
//! process. Nevertheless, no decision may depend on it: sort, or use a `BTreeMap`, where order matters.
//!
//! Keys that users choose, mainly names and labels, are hashed with a seed ([`Keyed`]). Otherwise a user could
//! choose texts that collide. The seed is an input and does not affect decisions.

#![allow(
    clippy::disallowed_types,
    reason = "the one place that names std's maps, with hashers that are fixed"
)]

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// The seed for hashes of keys that users choose. It affects the layout in memory, but no decision, effect or
/// report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSeed(pub u64);

/// A seeded SipHash function. The default has no seed and equals that of a [`FixedMap`].
#[derive(Clone, Debug, Default)]
pub struct Keyed(DefaultHasher);

impl Keyed {
    /// Creates a hash function with this seed.
    pub fn with(seed: HashSeed) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(seed.0);
        Self(hasher)
    }
}

impl BuildHasher for Keyed {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        self.0.clone()
    }
}

/// A map with string or composite keys that users choose. It is never iterated, since its order depends on the
/// seed.
pub(crate) type KeyedMap<K, V> = HashMap<K, V, Keyed>;
/// A map with string or composite keys that users do not choose, for example uids, which the API server
/// generates.
pub type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
/// A set of keys as in a [`FixedMap`].
pub type FixedSet<K> = HashSet<K, BuildHasherDefault<DefaultHasher>>;
/// A map keyed by a few interned ids or other numbers that users do not choose.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;
/// A set of interned ids.
pub type IdSet<K> = HashSet<K, BuildHasherDefault<IdHasher>>;

/// Returns the hash of a key as in a [`FixedMap`].
pub(crate) fn fixed_hash(key: &(impl Hash + ?Sized)) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(key)
}

/// A key with its hash, for an [`IdMap`]. When the map grows, it does not hash the keys again, however large
/// they are.
#[derive(Clone, Debug)]
pub(crate) struct Hashed<K> {
    key: K,
    hash: u64,
}

impl<K: Hash> Hashed<K> {
    /// Hashes a key. Keys that are compared must use the same hash function.
    pub(crate) fn of(key: K, hashing: &Keyed) -> Self {
        let mut hasher = Gathering::into(hashing.build_hasher());
        key.hash(&mut hasher);
        Self { key, hash: hasher.finish() }
    }

    /// Returns the key.
    pub(crate) fn key(&self) -> &K {
        &self.key
    }

    /// Returns the hash.
    pub(crate) fn hash_of(&self) -> u64 {
        self.hash
    }
}

impl<K: PartialEq> PartialEq for Hashed<K> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.key == other.key
    }
}

impl<K: Eq> Eq for Hashed<K> {}

impl<K> Hash for Hashed<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// The number of bytes that are gathered before they are hashed.
const GATHERED_MAX: usize = 256;

/// Gathers many short values before they are hashed, with the same hash: SipHash takes most of its time for the start
/// and end of each.
struct Gathering {
    hasher: DefaultHasher,
    bytes: [u8; GATHERED_MAX],
    len: usize,
}

impl Gathering {
    fn into(hasher: DefaultHasher) -> Self {
        Self { hasher, bytes: [0; GATHERED_MAX], len: 0 }
    }
}

impl Hasher for Gathering {
    fn finish(&self) -> u64 {
        let mut hasher = self.hasher.clone();
        hasher.write(&self.bytes[..self.len]);
        hasher.finish()
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        if bytes.len() > GATHERED_MAX - self.len {
            self.hasher.write(&self.bytes[..self.len]);
            self.len = 0;
            if bytes.len() > GATHERED_MAX {
                return self.hasher.write(bytes);
            }
        }
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// A hasher for interned ids. Ids are dense and users do not choose them, so one multiplication spreads them
/// well.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|&word| self.write_u64(u64::from_ne_bytes(word)));
        rest.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(26) ^ value).wrapping_mul(SPREAD);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const BUCKETS: u64 = 1_024;

    #[test]
    fn gathered_values_have_the_hash_of_single_ones() {
        let hashing = Keyed::with(HashSeed(5));
        for count in [0, 1, 31, 32, 33, 100, 700] {
            let numbers: Vec<(u8, u64, u32)> = (0..count).map(|at| (at as u8, at << 33, at as u32)).collect();
            let key = (numbers, "text".repeat(count as usize), count);
            assert_eq!(Hashed::of(&key, &hashing).hash_of(), hashing.hash_one(&key), "{count}");
        }
    }

    fn bucket(hashing: &Keyed, text: &str) -> u64 {
        hashing.hash_one(text) % BUCKETS
    }

    /// Without a seed, texts of one bucket can be found by trial. A seed spreads these texts like any others.
    #[test]
    fn seed_spreads_texts_chosen_to_collide() {
        let unseeded = Keyed::default();
        let texts = (0..).map(|number| format!("label-{number}"));
        let chosen: Vec<String> = texts.filter(|text| bucket(&unseeded, text) == 7).take(200).collect();
        for seed in [0, 1, u64::MAX] {
            let seeded = Keyed::with(HashSeed(seed));
            let buckets: BTreeSet<u64> = chosen.iter().map(|text| bucket(&seeded, text)).collect();
            // Of 200 uniform draws from 1,024, about 182 are expected to be distinct.
            assert!(buckets.len() > 150, "{} buckets of seed {seed}", buckets.len());
        }
    }

    #[test]
    fn hashing_without_a_seed_equals_fixed_maps() {
        assert_eq!(Keyed::default().hash_one("web"), fixed_hash("web"));
    }

    /// Node classes are found by lists of numbers.
    #[test]
    fn hash_of_a_list_of_ids_depends_on_each_and_on_their_order() {
        let hash = |numbers: [i64; 2]| BuildHasherDefault::<IdHasher>::default().hash_one(numbers.as_slice());
        let hashes: BTreeSet<u64> = [[1, 2], [2, 1], [1, 3], [3, 2]].map(hash).into();
        assert_eq!(hashes.len(), 4);
    }
}
