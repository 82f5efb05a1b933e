//! Estimates how many new nodes pods need, by arithmetic on their requests alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::resources::Resources;

/// Maximum number of nodes that are looked at in one packing besides the one with the most room: about 3 ms. Beyond it,
/// a pod counts as one that no node takes.
const LOOKS_MAX: usize = 500_000;

/// What a new node has for pods.
pub(super) struct EmptyNode {
    free: Resources,
    pods: i64,
}

impl EmptyNode {
    /// Creates it from a template's node and the requests of the DaemonSet pods that the node gets.
    pub(super) fn of<'a>(info: &NodeInfo, daemons: impl Iterator<Item = &'a Resources>) -> Self {
        let (mut free, mut pods) = (info.allocatable.clone(), info.allocatable_pods);
        for request in daemons {
            free.subtract(request);
            pods -= 1;
        }
        Self { free, pods }
    }

    /// Returns how many such nodes take pods with these requests, in their order, if each goes to the node with the
    /// most room; at least 1. Pods for which such a node is too small do not count.
    pub(super) fn needed(&self, requests: &[&Resources]) -> usize {
        let fits = |request: &&&Resources| self.pods > 0 && takes(&self.free, request);
        let requests: Vec<&Resources> = requests.iter().filter(fits).copied().collect();
        let (mut least, mut enough) = (self.least(&requests), requests.len());
        while least < enough {
            let count = least + (enough - least) / 2;
            if self.take_all(count, &requests) {
                enough = count;
            } else {
                least = count + 1;
            }
        }
        enough.max(1)
    }

    /// Returns how many nodes have the sum of the requests.
    fn least(&self, requests: &[&Resources]) -> usize {
        let mut sum = Resources::default();
        requests.iter().for_each(|request| sum.add(request));
        // A resource that the nodes lack does not tell how many there must be.
        let of = |amount: i64, each: i64| match each {
            ..=0 => 0,
            each => u64::try_from(amount).unwrap_or(0).div_ceil(each.unsigned_abs()),
        };
        let scalar = sum.scalar.iter().map(|&(name, amount)| of(amount, self.free.scalar(name).unwrap_or(0)));
        let pods = i64::try_from(requests.len()).unwrap_or(i64::MAX);
        let parts = [
            of(sum.cpu_milli, self.free.cpu_milli),
            of(sum.memory, self.free.memory),
            of(sum.ephemeral_storage, self.free.ephemeral_storage),
            of(pods, self.pods),
        ];
        let most = parts.into_iter().chain(scalar).max().unwrap_or(0);
        usize::try_from(most).unwrap_or(usize::MAX).min(requests.len())
    }

    fn take_all(&self, count: usize, requests: &[&Resources]) -> bool {
        let room = || Room { taken: (0, 0), free: self.free.clone(), pods: self.pods };
        let mut nodes: Vec<Room> = (0..count).map(|_| room()).collect();
        let mut by_room: BinaryHeap<Reverse<((u64, u64), usize)>> =
            (0..count).map(|at| Reverse(((0, 0), at))).collect();
        let mut looks = LOOKS_MAX;
        requests.iter().all(|request| {
            // A node that took a pod although others have more room is in the heap with its old share.
            while let Some(mut roomiest) = by_room.peek_mut()
                && let Reverse((taken, at)) = &mut *roomiest
                && *taken != nodes[*at].taken
            {
                *taken = nodes[*at].taken;
            }
            let roomiest = by_room.peek().map(|&Reverse((_, at))| at);
            let others = || {
                looks = looks.checked_sub(count)?;
                (0..count).filter(|&at| nodes[at].takes(request)).min_by_key(|&at| nodes[at].taken)
            };
            let Some(at) = roomiest.filter(|&at| nodes[at].takes(request)).or_else(others) else {
                return false;
            };
            nodes[at].take(request, &self.free);
            true
        })
    }
}

/// What a node has left.
struct Room {
    /// The shares of its CPU and memory that are taken, in millionths, and the number of pods.
    taken: (u64, u64),
    free: Resources,
    pods: i64,
}

impl Room {
    fn takes(&self, request: &Resources) -> bool {
        self.pods > 0 && takes(&self.free, request)
    }

    fn take(&mut self, request: &Resources, all: &Resources) {
        self.taken.0 += share(request.cpu_milli, all.cpu_milli) + share(request.memory, all.memory);
        self.taken.1 += 1;
        self.free.subtract(request);
        self.pods -= 1;
    }
}

fn takes(free: &Resources, request: &Resources) -> bool {
    request.cpu_milli <= free.cpu_milli
        && request.memory <= free.memory
        && request.ephemeral_storage <= free.ephemeral_storage
        && request.scalar.iter().all(|&(name, amount)| amount <= free.scalar(name).unwrap_or(0))
}

/// Returns which part of `all` the amount is, in millionths.
fn share(amount: i64, all: i64) -> u64 {
    u64::try_from(i128::from(amount) * 1_000_000 / i128::from(all.max(1))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(cpu_milli: i64) -> Resources {
        Resources { cpu_milli, ..Resources::default() }
    }

    fn needed(node: i64, pods: i64, requests: &[i64]) -> usize {
        let requests: Vec<Resources> = requests.iter().map(|&milli| cpu(milli)).collect();
        EmptyNode { free: cpu(node), pods }.needed(&requests.iter().collect::<Vec<_>>())
    }

    #[test]
    fn nodes_take_whole_pods() {
        assert_eq!(needed(8_000, 110, &[1_500; 1_000]), 200);
        assert_eq!(needed(8_000, 110, &[3_000, 3_000, 5_000, 5_000]), 2);
        // Two nodes have the sum, but the first three pods leave too little for the last one even on three.
        assert_eq!(needed(8_000, 110, &[3_000, 3_000, 3_000, 6_000]), 4);
        assert_eq!(needed(8_000, 110, &[6_000, 3_000, 3_000, 3_000]), 3);
        assert_eq!(needed(8_000, 2, &[0; 5]), 3);
    }

    #[test]
    fn packing_ends_after_a_number_of_looks() {
        let node = EmptyNode { free: Resources { ephemeral_storage: 1, ..cpu(8_000) }, pods: 8 };
        let nothing = Resources::default();
        assert_eq!(node.needed(&[&nothing; 8_000]), 1_000);
        // The nodes with the most room have no storage left, so that the last pods look at all others.
        let (storage, some) = (Resources { ephemeral_storage: 1, ..Resources::default() }, cpu(1_000));
        let pods = |last| [vec![&storage; 100], vec![&some; 1_900], vec![&storage; last]].concat();
        assert!(node.take_all(2_000, &pods(LOOKS_MAX / 2_000)));
        assert!(!node.take_all(2_000, &pods(LOOKS_MAX / 2_000 + 1)));
    }

    #[test]
    fn pods_that_no_node_takes_do_not_count() {
        assert_eq!(needed(8_000, 110, &[9_000; 5]), 1);
        assert_eq!(needed(8_000, 110, &[9_000, 8_000, 8_000]), 2);
        assert_eq!(needed(8_000, 0, &[1]), 1);
        assert_eq!(needed(8_000, 110, &[]), 1);
    }
}
