//! Which images are on how many nodes (upstream `pkg/scheduler/backend/cache/cache.go`, `imageStates`).

use crate::hash::IdMap;
use crate::intern::Symbol;
use crate::intern::holds_ids;
use crate::node::NodeInfo;

/// An image as one node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageState {
    /// Its size in bytes, as the first node reported it that had it.
    pub size: i64,
    /// On how many nodes it was when this node last changed.
    pub nodes: usize,
}

#[derive(Default)]
pub(super) struct Images {
    states: IdMap<Symbol, ImageState>,
}

impl Images {
    pub(super) fn replace(&mut self, old: Option<&NodeInfo>, new: Option<&NodeInfo>) {
        let images = |node: Option<&NodeInfo>| distinct(node.map_or(&[], |node| &node.images));
        // Names that stay are counted up before they are counted down, so that their first size survives.
        for (name, size) in images(new) {
            self.states.entry(name).or_insert(ImageState { size, nodes: 0 }).nodes += 1;
        }
        for (name, _) in images(old) {
            if let Some(state) = self.states.get_mut(&name) {
                state.nodes -= 1;
                if state.nodes == 0 {
                    self.states.remove(&name);
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    /// The node's images by name, each as the node sees it.
    pub(super) fn view(&self, node: &NodeInfo) -> Vec<(Symbol, ImageState)> {
        let images = distinct(&node.images).into_iter();
        images.filter_map(|(name, _)| self.states.get(&name).map(|&state| (name, state))).collect()
    }
}

/// Images by name, each name once: the first entry with that name. Takes O(n log n).
fn distinct<K: Ord + Copy>(images: &[(K, i64)]) -> Vec<(K, i64)> {
    let mut images = images.to_vec();
    // A stable sort: entries of one name keep their order.
    images.sort_by_key(|&(name, _)| name);
    images.dedup_by_key(|image| image.0);
    images
}

holds_ids!(Images { states });

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::cmp::Ordering;

    thread_local! {
        static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts how often it is compared.
    #[derive(Clone, Copy, Debug)]
    struct Counted(usize);

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for Counted {}

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARED.set(COMPARED.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    #[test]
    fn of_entries_with_one_name_the_first_counts() {
        assert_eq!(distinct(&[(3, 30), (1, 10), (3, 31), (2, 20), (1, 11)]), [(1, 10), (2, 20), (3, 30)]);
    }

    /// A comparison of each with all before it would take fifty million.
    #[test]
    fn ten_thousand_images_are_compared_some_ten_times_each() {
        const COUNT: usize = 10_000;
        let images: Vec<_> = (0..COUNT).map(|at| (Counted(at * 7_919 % COUNT), 1)).collect();
        assert_eq!(distinct(&images).len(), COUNT);
        let compared = COMPARED.get();
        assert!(compared <= 20 * COUNT, "{compared} comparisons for {COUNT} images");
    }
}
