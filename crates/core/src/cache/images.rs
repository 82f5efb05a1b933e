//! The images on nodes and the number of nodes that have each (upstream `pkg/scheduler/backend/cache/cache.go`,
//! `imageStates`).

use crate::collections::hash::IdMap;
use crate::model::intern::Symbol;
use crate::model::intern::trace_ids;
use crate::model::node::NodeInfo;

/// An image, as of the last refresh of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageState {
    /// The size in bytes, as reported by the first node that had the image.
    pub size: i64,
    /// The number of nodes with the image when this node was last refreshed.
    pub nodes: usize,
}

#[derive(Default)]
pub(super) struct Images {
    states: IdMap<Symbol, ImageState>,
}

impl Images {
    pub(super) fn replace(&mut self, old: Option<&NodeInfo>, new: Option<&NodeInfo>) {
        let images = |node: Option<&NodeInfo>| distinct(node.map_or(&[], |node| &node.images));
        // New names are counted before old ones are removed, so that a name in both keeps its first size.
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

    /// Returns the node's images in ascending order of their names, with their current states.
    pub(super) fn view(&self, node: &NodeInfo) -> Vec<(Symbol, ImageState)> {
        let images = distinct(&node.images).into_iter();
        images.filter_map(|(name, _)| self.states.get(&name).map(|&state| (name, state))).collect()
    }
}

/// Returns images in ascending order of their names. Of several entries with one name, the first counts. Takes
/// O(n log n).
fn distinct<K: Ord + Copy>(images: &[(K, i64)]) -> Vec<(K, i64)> {
    let mut images = images.to_vec();
    // The sort is stable: entries with one name keep their order.
    images.sort_by_key(|&(name, _)| name);
    images.dedup_by_key(|image| image.0);
    images
}

trace_ids!(Images { states });

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::cmp::Ordering;

    thread_local! {
        static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    /// A key that counts its comparisons.
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
    fn first_image_entry_of_a_name_counts() {
        assert_eq!(distinct(&[(3, 30), (1, 10), (3, 31), (2, 20), (1, 11)]), [(1, 10), (2, 20), (3, 30)]);
    }

    /// Comparing each entry with all earlier ones would take fifty million comparisons.
    #[test]
    fn images_are_compared_a_logarithmic_number_of_times() {
        const COUNT: usize = 10_000;
        let images: Vec<_> = (0..COUNT).map(|at| (Counted(at * 7_919 % COUNT), 1)).collect();
        assert_eq!(distinct(&images).len(), COUNT);
        let compared = COMPARED.get();
        assert!(compared <= 20 * COUNT, "{compared} comparisons for {COUNT} images");
    }
}
