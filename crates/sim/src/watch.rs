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
    last_due: Time,
    /// The version up to which the scheduler knows this kind.
    pub(crate) delivered: u64,
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
        if version > 0 {
            self.delivered = version;
        }
        Some(change)
    }

    /// Loses all that is on its way.
    pub(crate) fn disconnect(&mut self) {
        self.connection += 1;
        self.connected = false;
        self.on_the_way.clear();
    }

    /// A scheduler that is new knows nothing.
    pub(crate) fn forget(&mut self) {
        self.disconnect();
        self.delivered = 0;
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

    pub(crate) fn delivered(&self, kind: Kind) -> u64 {
        self.0[&kind].delivered
    }
}
