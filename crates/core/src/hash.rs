//! Maps whose layout is the same in every run. Strings are hashed with SipHash, small ids with one multiplication.
//!
//! Iteration order of these maps is a function of what was inserted, never of the process. It is still no order a
//! decision may depend on: sort, or use a `BTreeMap`, where order shows.

#![allow(
    clippy::disallowed_types,
    reason = "the one place that names std's maps, with hashers that are fixed"
)]

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// A map with string or composite keys.
pub type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
/// A set with string or composite keys.
pub type FixedSet<K> = HashSet<K, BuildHasherDefault<DefaultHasher>>;
/// A map keyed by a few interned ids or other numbers that users do not choose.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;
/// A set of interned ids.
pub type IdSet<K> = HashSet<K, BuildHasherDefault<IdHasher>>;

/// The hash of a key as a [`FixedMap`] has it.
pub(crate) fn fixed_hash(key: &(impl Hash + ?Sized)) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(key)
}

/// A key that knows its hash, for an [`IdMap`]: when the map grows, keys are not read again, however many there are.
#[derive(Clone, Debug)]
pub(crate) struct Hashed<K> {
    key: K,
    hash: u64,
}

impl<K: Hash> Hashed<K> {
    /// The key with its hash as a [`FixedMap`] has it.
    pub(crate) fn of(key: K) -> Self {
        let hash = fixed_hash(&key);
        Self { key, hash }
    }

    /// The key.
    pub(crate) fn key(&self) -> &K {
        &self.key
    }

    /// The hash.
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

/// Hashes interned ids: they are dense and not chosen by users, so one multiplication spreads them well enough.
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
