//! Watches: each kind's changes in order, late, sometimes twice, and not at all while the connection is down.

use crate::server::Change;
use std::collections::{BTreeMap, VecDeque};
use supercargo_core::event::Kind;
use supercargo_core::time::Time;

/// One kind's stream of changes to the scheduler.
#[derive(Default)]
pub(crate) struct Watch {
    on_the_way: VecDeque<(Change, u64)>,
    /// Counts connections: what was due on an earlier one is lost.
    pub(crate) connection: u32,
    pub(crate) connected: bool,
    /// A list has begun and not ended.
    listing: bool,
    last_due: Time,
    /// The version up to which the scheduler knows this kind. A list of an older state takes it back.
    delivered: u64,
    /// The highest version it ever knew; what it did itself is known only from there on.
    highest: u64,
}

impl Watch {
    /// Puts a change on its way; when it arrives, if it is due at `due` and overtakes none before it.
    pub(crate) fn push(&mut self, change: Change, version: u64, due: Time) -> Time {
        self.last_due = self.last_due.max(due);
        self.on_the_way.push_back((change, version));
        self.last_due
    }

    /// The change that arrives next. A list is known when it is complete, everything else at once.
    pub(crate) fn deliver(&mut self) -> Option<Change> {
        let (change, version) = self.on_the_way.pop_front()?;
        if matches!(change, Change::ListBegan) {
            self.listing = true;
            // With the first object of an older state what was known is not known any more.
            if version > 0 {
                self.delivered = self.delivered.min(version);
            }
            return Some(change);
        }
        if matches!(change, Change::ListEnded(_)) {
            self.listing = false;
        }
        if version > 0 {
            self.delivered = version;
            self.highest = self.highest.max(version);
        }
        Some(change)
    }

    /// Loses all that is on its way.
    pub(crate) fn disconnect(&mut self) {
        self.connection += 1;
        self.connected = false;
        self.on_the_way.clear();
    }

    /// A scheduler that is new knows nothing; what its predecessor did up to `version` it knows from there on.
    pub(crate) fn forget(&mut self, version: u64) {
        self.disconnect();
        self.listing = false;
        self.delivered = 0;
        self.highest = version;
    }

    /// A list has shown an older state: what the scheduler did up to `version` it knows from there on.
    pub(crate) fn went_back(&mut self, version: u64) {
        self.highest = self.highest.max(version);
    }

    /// The version a watch goes on from; nothing where a list is needed.
    pub(crate) fn resumes_from(&self) -> Option<u64> {
        (self.delivered > 0 && !self.listing).then_some(self.delivered)
    }
}

/// The watches of all kinds.
pub(crate) struct Watches(BTreeMap<Kind, Watch>);

impl Default for Watches {
    fn default() -> Self {
        Self(Kind::ALL.into_iter().map(|kind| (kind, Watch::default())).collect())
    }
}

impl Watches {
    pub(crate) fn of(&mut self, kind: Kind) -> &mut Watch {
        self.0.get_mut(&kind).expect("there is a watch of each kind")
    }

    /// Whether the scheduler knows all of a kind up to `version`, and what it did itself.
    pub(crate) fn know(&self, kind: Kind, version: u64) -> bool {
        let watch = &self.0[&kind];
        watch.delivered >= version.max(watch.highest)
    }
}
