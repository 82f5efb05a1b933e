//! Watches: they deliver each kind's changes in order, with delays, sometimes twice, and not while
//! disconnected.

use crate::server::Change;
use std::collections::{BTreeMap, VecDeque};
use supercargo_core::model::event::Kind;
use supercargo_core::model::time::Time;

/// The watch of one kind.
#[derive(Default)]
pub(crate) struct Watch {
    on_the_way: VecDeque<(Change, u64)>,
    /// The number of the connection. Deliveries of earlier connections are dropped.
    pub(crate) connection: u32,
    pub(crate) connected: bool,
    /// Whether a list has begun and not ended.
    listing: bool,
    last_due: Time,
    /// The version up to which the scheduler knows this kind. A list of an older state lowers it.
    delivered: u64,
    /// The highest version it ever knew. Only from there on does it know its own writes.
    highest: u64,
}

impl Watch {
    /// Queues a change and returns its arrival time: `due`, but not before earlier changes.
    pub(crate) fn push(&mut self, change: Change, version: u64, due: Time) -> Time {
        self.last_due = self.last_due.max(due);
        self.on_the_way.push_back((change, version));
        self.last_due
    }

    /// Delivers the next change. A list takes effect when it is complete, other changes at once.
    pub(crate) fn deliver(&mut self) -> Option<Change> {
        let (change, version) = self.on_the_way.pop_front()?;
        if matches!(change, Change::ListBegan) {
            self.listing = true;
            // The first object of a stale list invalidates the known state.
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

    /// Drops all undelivered changes.
    pub(crate) fn disconnect(&mut self) {
        self.connection += 1;
        self.connected = false;
        self.on_the_way.clear();
    }

    /// Resets the watch for a new scheduler process, which knows its predecessor's writes up to `version` only
    /// when it reaches that version.
    pub(crate) fn forget(&mut self, version: u64) {
        self.disconnect();
        self.listing = false;
        self.delivered = 0;
        self.highest = version;
    }

    /// Records that a list showed an older state. The scheduler knows its own writes up to `version` only when
    /// it reaches that version.
    pub(crate) fn reset_to(&mut self, version: u64) {
        self.highest = self.highest.max(version);
    }

    /// Returns the version at which a watch can resume, or `None` if a list is necessary.
    pub(crate) fn resumes_from(&self) -> Option<u64> {
        (self.delivered > 0 && !self.listing).then_some(self.delivered)
    }
}

/// The watches of all kinds.
pub(crate) struct Watches(BTreeMap<Kind, Watch>);

impl Default for Watches {
    fn default() -> Self {
        Self(Kind::EVERY.into_iter().map(|kind| (kind, Watch::default())).collect())
    }
}

impl Watches {
    pub(crate) fn of(&mut self, kind: Kind) -> &mut Watch {
        self.0.get_mut(&kind).expect("every kind has a watch")
    }

    /// Whether the scheduler knows all changes of a kind up to `version`, including its own writes.
    pub(crate) fn know(&self, kind: Kind, version: u64) -> bool {
        let watch = &self.0[&kind];
        watch.delivered >= version.max(watch.highest)
    }
}
