//! Nodes in racks: how many racks there are and how many nodes each has, drawn around every number at which the engine changes how it
//! tells nodes apart. Says nothing of pods.

use proptest::prelude::*;

/// How many values the topology key has. The engine's numbers: 16 classes of nodes by block, blocks of 64 slots, 64 domains told
/// apart by name, 128 domains that a score weighs.
const VALUES: [usize; 13] = [1, 2, 3, 15, 16, 17, 63, 64, 65, 66, 128, 129, 200];
/// Racks that no node is in from the outset; nodes may move there.
const EMPTY: usize = 2;
/// Nodes that are in no rack from the outset.
const OUTSIDE: usize = 3;

/// A way to put nodes into racks.
#[derive(Clone, Debug)]
pub(crate) struct Racks {
    /// How many racks have nodes.
    values: usize,
    /// How many nodes the first racks have; it goes on so.
    sizes: [usize; 4],
    /// Nodes of a rack are far from each other.
    is_scattered: bool,
}

pub(crate) fn racks() -> impl Strategy<Value = Racks> {
    let size = prop::sample::select(vec![1_usize, 2, 2, 3, 12]);
    (prop::sample::select(VALUES.to_vec()), prop::array::uniform4(size), any::<bool>()).prop_map(
        |(values, sizes, is_scattered)| {
            // With many racks, few nodes in each: a decision made afresh looks at all of them.
            let most = (150 / values).max(2);
            Racks { values, sizes: sizes.map(|size| size.min(most)), is_scattered }
        },
    )
}

impl Racks {
    /// By node, its rack.
    pub(crate) fn of_nodes(&self) -> Vec<Option<usize>> {
        let sizes = self.sizes.iter().cycle();
        let racks = (0..self.values).zip(sizes).flat_map(|(rack, &size)| (0..size).map(move |_| Some(rack)));
        let racks: Vec<_> = racks.chain([None; OUTSIDE]).collect();
        // The step shares no divisor with any number of nodes drawn here.
        let step = if self.is_scattered { 7_919 } else { 1 };
        (0..racks.len()).map(|at| racks[at * step % racks.len()]).collect()
    }

    /// A rack, of those with and without nodes, or none.
    pub(crate) fn pick(&self, number: usize) -> Option<usize> {
        (!number.is_multiple_of(8)).then_some(number % (self.values + EMPTY))
    }
}
