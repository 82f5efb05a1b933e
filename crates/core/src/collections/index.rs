//! A hash index into a list: it stores positions, and the list stores the keys.
//!
//! A cell takes 8 bytes; a map with text keys takes three times as much. It uses linear probing with
//! backward-shift deletion, so there are no tombstones.

/// The position of an empty cell.
const EMPTY: u32 = u32::MAX;
/// Minimum number of cells of a non-empty index.
const CELLS_MIN: usize = 8;

/// Positions of entries in a list, by their hashes.
#[derive(Default)]
pub(crate) struct Index {
    /// A power of two of cells, or none; at most three quarters are occupied.
    cells: Vec<Cell>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Cell {
    /// The part of the hash that selects the cell.
    hash: u32,
    at: u32,
}

impl Index {
    /// Returns the position of the entry with this hash for which `is_it` is true.
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.cell(hash, is_it).map(|cell| self.cells[cell].at)
    }

    fn cell(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<usize> {
        let hash = part(hash);
        let mut cell = self.home(hash)?;
        loop {
            let Cell { hash: other, at } = self.cells[cell];
            if at == EMPTY {
                return None;
            }
            if other == hash && is_it(at) {
                return Some(cell);
            }
            cell = self.next(cell);
        }
    }

    /// Adds the position of an entry that is not yet in the index.
    pub(crate) fn insert(&mut self, hash: u64, at: u32) {
        assert!(at != EMPTY, "fewer than 2^32 places");
        if (self.len + 1) * 4 > self.cells.len() * 3 {
            self.grow();
        }
        self.put(Cell { hash: part(hash), at });
        self.len += 1;
    }

    fn put(&mut self, new: Cell) {
        let mut cell = self.home(new.hash).expect("there is room after growing");
        while self.cells[cell].at != EMPTY {
            cell = self.next(cell);
        }
        self.cells[cell] = new;
    }

    fn grow(&mut self) {
        let count = (self.cells.len() * 2).max(CELLS_MIN);
        let before = std::mem::replace(&mut self.cells, vec![Cell { hash: 0, at: EMPTY }; count]);
        before.into_iter().filter(|cell| cell.at != EMPTY).for_each(|cell| self.put(cell));
    }

    /// Removes the position of the entry with this hash for which `is_it` is true, and returns it.
    pub(crate) fn remove(&mut self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut hole = self.cell(hash, is_it)?;
        let removed = self.cells[hole].at;
        self.len -= 1;
        // Shift each following entry back unless that would move it before its home cell.
        let mut cell = self.next(hole);
        while self.cells[cell].at != EMPTY {
            let home = self.home(self.cells[cell].hash).expect("there are cells");
            let (from_home, from_hole) = (self.distance(home, cell), self.distance(hole, cell));
            if from_home >= from_hole {
                self.cells[hole] = self.cells[cell];
                hole = cell;
            }
            cell = self.next(cell);
        }
        self.cells[hole].at = EMPTY;
        Some(removed)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn home(&self, hash: u32) -> Option<usize> {
        self.cells.len().checked_sub(1).map(|mask| hash as usize & mask)
    }

    fn next(&self, cell: usize) -> usize {
        (cell + 1) & (self.cells.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.cells.len() - 1)
    }
}

fn part(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rng::{Purpose, Seed};
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry;

    /// A hash whose lower bits collide often.
    fn hash(thing: u64) -> u64 {
        (thing % 7) << 32 | (thing % 3) << 60
    }

    #[test]
    fn index_lookup_equals_a_map() {
        let (mut index, mut map, mut list) = (Index::default(), BTreeMap::new(), Vec::new());
        for turn in 0..20_000u64 {
            let thing = Seed(turn).draw(Purpose::PreemptionTie, "", turn, 40) as u64;
            let is_it = |at: u32| list[at as usize] == thing;
            assert_eq!(index.find(hash(thing), is_it), map.get(&thing).copied());
            match map.entry(thing) {
                Entry::Occupied(known) if turn % 2 == 0 => {
                    assert_eq!(index.remove(hash(thing), is_it), Some(known.remove()));
                }
                Entry::Occupied(_) => {}
                Entry::Vacant(unknown) => {
                    let at = u32::try_from(list.len()).unwrap();
                    list.push(thing);
                    index.insert(hash(thing), at);
                    unknown.insert(at);
                }
            }
            assert_eq!(index.len(), map.len());
        }
        assert!(index.cells.len() <= 64, "{} cells for at most 40 things", index.cells.len());
    }

    #[test]
    fn empty_index_finds_nothing() {
        let mut index = Index::default();
        assert_eq!(index.find(0, |_| true), None);
        assert_eq!(index.remove(0, |_| true), None);
    }
}
