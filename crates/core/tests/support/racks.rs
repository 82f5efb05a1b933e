//! Generated racks: their number and sizes lie around all limits at which the engine changes its data structures.

use proptest::prelude::*;

/// The number of values of the topology key. Limits of the engine: 16 node classes by block, blocks of 64 slots, 64
/// domains listed by name, 128 domains weighed by a score.
const VALUES: [usize; 13] = [1, 2, 3, 15, 16, 17, 63, 64, 65, 66, 128, 129, 200];
/// The number of initially empty racks. Nodes may move there.
const EMPTY: usize = 2;
/// The number of nodes that are initially in no rack.
const OUTSIDE: usize = 3;

/// A distribution of nodes over racks.
#[derive(Clone, Debug)]
pub(crate) struct Racks {
    /// The number of racks with nodes.
    values: usize,
    /// The sizes of the first racks, which are repeated.
    sizes: [usize; 4],
    /// Whether the nodes of a rack have distant slots.
    is_scattered: bool,
}

pub(crate) fn racks() -> impl Strategy<Value = Racks> {
    let size = prop::sample::select(vec![1_usize, 2, 2, 3, 12]);
    (prop::sample::select(VALUES.to_vec()), prop::array::uniform4(size), any::<bool>()).prop_map(
        |(values, sizes, is_scattered)| {
            // With many racks, few nodes in each, because a full evaluation visits all nodes.
            let most = (150 / values).max(2);
            Racks { values, sizes: sizes.map(|size| size.min(most)), is_scattered }
        },
    )
}

impl Racks {
    /// Returns the rack of each node.
    pub(crate) fn of_nodes(&self) -> Vec<Option<usize>> {
        let sizes = self.sizes.iter().cycle();
        let racks = (0..self.values).zip(sizes).flat_map(|(rack, &size)| (0..size).map(move |_| Some(rack)));
        let racks: Vec<_> = racks.chain([None; OUTSIDE]).collect();
        // The step is coprime to all numbers of nodes that occur here.
        let step = if self.is_scattered { 7_919 } else { 1 };
        (0..racks.len()).map(|at| racks[at * step % racks.len()]).collect()
    }

    /// Returns a rack with or without nodes, or `None`.
    pub(crate) fn pick(&self, number: usize) -> Option<usize> {
        (!number.is_multiple_of(8)).then_some(number % (self.values + EMPTY))
    }
}
