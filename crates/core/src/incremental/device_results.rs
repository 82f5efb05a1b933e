//! What the devices of each node give to pods with equal requests for devices. Updated from the change logs of nodes
//! and of devices.
//!
//! The search for devices is the most expensive part of a decision. Its result for a node is kept until the node's
//! object, its devices or their allocation change.

use super::signature_state::Fallback;
use crate::cache::{DeviceChange, NodeChange, Snapshot};
use crate::collections::hash::Hashed;
use crate::framework::{DeviceRequests, DeviceRule};
use crate::model::intern::{Marks, TraceIds};
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::switches::ablation::{self, Layer};

/// Maximum number of different requests. The least recently used are evicted. With scores of 20,000 nodes, each takes
/// 160 kB.
const REQUESTS_MAX: usize = 256;

/// The results for all requests.
#[derive(Default)]
pub(super) struct DeviceResults {
    entries: Vec<Entry>,
    /// The number of uses so far.
    uses: u64,
}

struct Entry {
    requests: Hashed<DeviceRequests>,
    /// The number of its last use.
    used: u64,
    era: u64,
    /// The clocks of the nodes and of the devices at the last update.
    clocks: (u64, u64),
    results: Results,
}

/// The results for one kind of request.
#[derive(Default)]
pub(super) struct Results {
    /// The nodes that were judged.
    judged: NodeSet,
    /// Those of them whose devices satisfy the requests.
    fitting: NodeSet,
    /// The raw score by slot; slots after the last score above 0 may be missing.
    scores: Vec<i64>,
}

impl Results {
    /// Returns the judged nodes whose devices satisfy the requests.
    pub(super) fn fitting(&self) -> &NodeSet {
        &self.fitting
    }

    /// Returns the raw score of a node that fits.
    pub(super) fn score(&self, node: NodeIdx) -> i64 {
        self.scores.get(node.index()).copied().unwrap_or(0)
    }

    /// Whether every raw score is 0.
    pub(super) fn are_all_zero(&self) -> bool {
        self.scores.is_empty()
    }

    fn forget(&mut self, node: NodeIdx) {
        self.judged.remove(node);
        self.fitting.remove(node);
        if let Some(score) = self.scores.get_mut(node.index()) {
            *score = 0;
        }
    }

    /// Judges those of `nodes` that were not judged yet.
    fn judge(
        &mut self,
        rule: &dyn DeviceRule,
        snapshot: Snapshot<'_>,
        nodes: &NodeSet,
    ) -> Result<(), Fallback> {
        let mut unknown = nodes.clone();
        unknown.subtract(&self.judged);
        for node in unknown.iter() {
            let score = rule.judge(&snapshot.node(node)).map_err(|_| Fallback)?;
            self.judged.insert(node);
            let Some(score) = score else { continue };
            self.fitting.insert(node);
            if score != 0 {
                let slots = self.scores.len().max(node.index() + 1);
                self.scores.resize(slots, 0);
                self.scores[node.index()] = score;
            }
        }
        Ok(())
    }
}

impl Entry {
    /// Forgets the results of nodes that changed since the last update.
    fn catch_up(&mut self, snapshot: Snapshot<'_>) {
        let (nodes, devices) = self.clocks;
        let clocks = (snapshot.clock(), snapshot.devices().clock());
        if self.era == snapshot.era() && self.clocks == clocks {
            return;
        }
        let is_updated = self.era == snapshot.era()
            && self.forget_nodes(snapshot, nodes).is_some()
            && self.forget_devices(snapshot, devices).is_some();
        if !is_updated {
            self.results = Results::default();
        }
        (self.era, self.clocks) = (snapshot.era(), clocks);
    }

    fn forget_nodes(&mut self, snapshot: Snapshot<'_>, since: u64) -> Option<()> {
        let changes = snapshot.node_changes_since(since)?;
        for (node, _) in changes.filter(|(_, change)| *change == NodeChange::Object) {
            self.results.forget(node);
        }
        Some(())
    }

    /// Returns `None` if devices changed that any node may be able to use.
    fn forget_devices(&mut self, snapshot: Snapshot<'_>, since: u64) -> Option<()> {
        for change in snapshot.devices().changes_since(since)? {
            match change {
                DeviceChange::AllNodes => return None,
                DeviceChange::Node(name) => {
                    snapshot.find_node(name).into_iter().for_each(|node| self.results.forget(node));
                }
            }
        }
        Some(())
    }
}

impl DeviceResults {
    /// Returns the results of at least these nodes.
    ///
    /// # Errors
    /// If a decision for such a pod may fail.
    pub(super) fn of(
        &mut self,
        requests: DeviceRequests,
        rule: &dyn DeviceRule,
        snapshot: Snapshot<'_>,
        nodes: &NodeSet,
    ) -> Result<&Results, Fallback> {
        let requests = Hashed::of(requests, snapshot.tables().hashing());
        let known = self.entries.iter().position(|entry| entry.requests == requests);
        let at = known.filter(|_| !ablation::is_off(Layer::DeviceResults));
        let at = at.unwrap_or_else(|| self.add(requests, snapshot));
        self.uses += 1;
        let entry = &mut self.entries[at];
        entry.used = self.uses;
        entry.catch_up(snapshot);
        entry.results.judge(rule, snapshot, nodes)?;
        Ok(&entry.results)
    }

    /// Adds an entry, in the place of the least recently used one if there are too many. Returns its index.
    fn add(&mut self, requests: Hashed<DeviceRequests>, snapshot: Snapshot<'_>) -> usize {
        let clocks = (snapshot.clock(), snapshot.devices().clock());
        let results = Results::default();
        let entry = Entry { requests, used: 0, era: snapshot.era(), clocks, results };
        let oldest = (0..self.entries.len()).min_by_key(|&at| self.entries[at].used);
        match oldest.filter(|_| self.entries.len() == REQUESTS_MAX) {
            Some(oldest) => {
                self.entries[oldest] = entry;
                oldest
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        }
    }

    /// Removes everything.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Marks the ids of all requests. They are few.
    pub(super) fn mark(&self, marks: &mut Marks) {
        self.entries.iter().for_each(|entry| entry.requests.key().mark(marks));
    }
}
