//! Where nodes are to a counter, and what is in each of its domains: the same for all signatures that count on every node. Says nothing about
//! pods.

use super::topology_index::{NOWHERE, Places};
use crate::cache::Snapshot;
use crate::framework::tally::Domains;
use crate::node::NodeIdx;

/// A node, to a counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seat {
    /// [`NOWHERE`] where it has none.
    pub(super) domain: u32,
    /// Whether its pods count.
    pub(super) counts: bool,
}

impl Seat {
    pub(super) const NONE: Self = Self { domain: NOWHERE, counts: false };
}

/// How many nodes a domain has, and how many of them count.
#[derive(Clone, Copy, Default)]
pub(super) struct Room {
    pub(super) nodes: u32,
    pub(super) counting: u32,
}

/// All nodes and domains.
#[derive(Clone, Default)]
pub(super) struct Layout {
    /// By slot.
    pub(super) seats: Vec<Seat>,
    /// By domain.
    pub(super) rooms: Vec<Room>,
}

impl Layout {
    /// That of all nodes as they are; `counts` says which do.
    pub(super) fn of(
        snapshot: Snapshot<'_>,
        places: &Places,
        domains: Domains,
        counts: impl Fn(NodeIdx) -> bool,
    ) -> Self {
        let slots = snapshot.columns().pods.len();
        let rooms = match domains {
            Domains::Nodes => slots,
            Domains::Values => places.len(),
        };
        let (mut seats, mut rooms) = (vec![Seat::NONE; slots], vec![Room::default(); rooms]);
        for node in snapshot.nodes().iter() {
            let domain = match (places.domain(node), domains) {
                (NOWHERE, _) => NOWHERE,
                (_, Domains::Nodes) => node.0,
                (domain, Domains::Values) => domain,
            };
            let counts = counts(node);
            seats[node.index()] = Seat { domain, counts };
            if let Some(room) = rooms.get_mut(domain as usize) {
                room.nodes += 1;
                room.counting += u32::from(counts);
            }
        }
        Self { seats, rooms }
    }

    /// The heap it takes.
    pub(super) fn bytes(&self) -> usize {
        self.seats.capacity() * size_of::<Seat>() + self.rooms.capacity() * size_of::<Room>()
    }

    /// Room for so many slots.
    pub(super) fn resize(&mut self, slots: usize) {
        self.seats.resize(slots.max(self.seats.len()), Seat::NONE);
    }

    /// A node has another seat.
    pub(super) fn reseat(&mut self, node: NodeIdx, to: Seat) {
        let from = std::mem::replace(&mut self.seats[node.index()], to);
        if let Some(room) = self.rooms.get_mut(from.domain as usize) {
            room.nodes -= 1;
            room.counting -= u32::from(from.counts);
        }
        if to.domain != NOWHERE {
            let at = to.domain as usize;
            self.rooms.resize((at + 1).max(self.rooms.len()), Room::default());
            self.rooms[at].nodes += 1;
            self.rooms[at].counting += u32::from(to.counts);
        }
    }

    /// How many nodes a domain has.
    pub(super) fn nodes_in(&self, domain: u32) -> u32 {
        self.rooms[domain as usize].nodes
    }
}
