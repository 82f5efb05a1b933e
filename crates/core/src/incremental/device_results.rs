//! What the devices of each node give to pods with equal requests for devices. Updated from the change logs of nodes
//! and of devices.
//!
//! The search for devices is the most expensive part of a decision. Its result for a node is kept until the node's
//! object, its devices or their allocation change.

use super::equal_nodes::EqualNodes;
use super::signature_state::Fallback;
use crate::cache::{DeviceClocks, DeviceVerdicts, Judgement, Snapshot};
use crate::collections::hash::Hashed;
use crate::framework::{DeviceRequests, DeviceRule};
use crate::model::intern::{Marks, TraceIds};
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::switches::ablation::{self, Layer};
use std::sync::Arc;

/// Maximum number of different requests. The least recently used are evicted. With scores of 20,000 nodes, each takes
/// 160 kB.
const REQUESTS_MAX: usize = 256;

/// The results for all requests.
#[derive(Default)]
pub(super) struct DeviceResults {
    entries: Vec<Entry>,
    equal_nodes: EqualNodes,
    /// The number of uses so far.
    uses: u64,
    /// The results that the latest decision used.
    latest: Option<Arc<DeviceVerdicts>>,
}

struct Entry {
    requests: Hashed<DeviceRequests>,
    /// The number of its last use.
    used: u64,
    clocks: DeviceClocks,
    results: Results,
}

/// The results for one kind of request.
#[derive(Default)]
pub(super) struct Results {
    /// The nodes that were judged.
    judged: NodeSet,
    /// Those of them whose devices satisfy the requests.
    fitting: NodeSet,
    /// All results by node.
    verdicts: Arc<DeviceVerdicts>,
    /// Whether any raw score is not 0.
    has_scores: bool,
    /// The results by the number of a node in a table of equal nodes, and the table's id.
    by_number: (u64, Vec<Option<Judgement>>),
}

impl Results {
    /// Returns the judged nodes whose devices satisfy the requests.
    pub(super) fn fitting(&self) -> &NodeSet {
        &self.fitting
    }

    /// Returns the raw score of a node that fits.
    pub(super) fn score(&self, node: NodeIdx) -> i64 {
        self.verdicts.of(node).and_then(Result::ok).unwrap_or(0)
    }

    /// Whether every raw score is 0.
    pub(super) fn are_all_zero(&self) -> bool {
        !self.has_scores
    }

    fn forget(&mut self, node: NodeIdx) {
        self.judged.remove(node);
        self.fitting.remove(node);
        Arc::make_mut(&mut self.verdicts).set(node, None);
    }

    /// Judges those of `nodes` that were not judged yet.
    fn judge(
        &mut self,
        rule: &dyn DeviceRule,
        snapshot: Snapshot<'_>,
        nodes: &NodeSet,
        equal_nodes: &mut EqualNodes,
    ) -> Result<(), Fallback> {
        let mut unknown = nodes.clone();
        unknown.subtract(&self.judged);
        if unknown.is_empty() {
            return Ok(());
        }
        let mut table = equal_nodes.of(rule, snapshot);
        for node in unknown.iter() {
            let number =
                table.as_mut().and_then(|table| Some((table.id(), table.number(rule, snapshot, node)?)));
            let judgement = self.judge_one(rule, snapshot, node, number)?;
            self.judged.insert(node);
            Arc::make_mut(&mut self.verdicts).set(node, Some(judgement));
            let Ok(score) = judgement else { continue };
            self.fitting.insert(node);
            self.has_scores |= score != 0;
        }
        Ok(())
    }
}

impl Results {
    /// Judges a node, or one with equal devices.
    fn judge_one(
        &mut self,
        rule: &dyn DeviceRule,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
        number: Option<(u64, u32)>,
    ) -> Result<Judgement, Fallback> {
        let judge = || rule.judge(&snapshot.node(node)).map_err(|_| Fallback);
        let Some((table, number)) = number else { return judge() };
        let (of_table, known) = &mut self.by_number;
        if *of_table != table {
            (*of_table, *known) = (table, Vec::new());
        }
        let at = number as usize;
        if let Some(&Some(judgement)) = known.get(at) {
            return Ok(judgement);
        }
        let judgement = judge()?;
        known.resize(known.len().max(at + 1), None);
        known[at] = Some(judgement);
        Ok(judgement)
    }
}

impl Entry {
    /// Forgets the results of nodes that changed since the last update.
    fn catch_up(&mut self, snapshot: Snapshot<'_>) {
        match self.clocks.catch_up(snapshot) {
            None => self.results = Results::default(),
            Some(changed) => changed.iter().for_each(|node| self.results.forget(node)),
        }
    }
}

impl DeviceResults {
    /// Forgets which results the latest decision used.
    pub(super) fn begin_decision(&mut self) {
        self.latest = None;
    }

    /// Returns the results that the latest decision used.
    pub(super) fn latest(&self) -> Option<&Arc<DeviceVerdicts>> {
        self.latest.as_ref()
    }

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
        entry.results.judge(rule, snapshot, nodes, &mut self.equal_nodes)?;
        self.latest = Some(Arc::clone(&entry.results.verdicts));
        Ok(&entry.results)
    }

    /// Adds an entry, in the place of the least recently used one if there are too many. Returns its index.
    fn add(&mut self, requests: Hashed<DeviceRequests>, snapshot: Snapshot<'_>) -> usize {
        let (clocks, results) = (DeviceClocks::of(snapshot), Results::default());
        let entry = Entry { requests, used: 0, clocks, results };
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
        self.equal_nodes.clear();
        self.latest = None;
    }

    /// Marks the ids of all requests. They are few.
    pub(super) fn mark(&self, marks: &mut Marks) {
        self.entries.iter().for_each(|entry| entry.requests.key().mark(marks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::{Tables, WorkBudget};

    /// A new resource with the id of another one would get the results of that one.
    #[test]
    fn cached_requests_keep_their_ids() {
        let mut tables = Tables::new();
        let resources = ["example.com/gpu"].map(|name| tables.symbol(name)).into();
        tables.symbol("example.com/unused");
        let requests = DeviceRequests { resources, ..DeviceRequests::default() };
        let requests = Hashed::of(requests, tables.hashing());
        let (clocks, results) = (DeviceClocks::default(), Results::default());
        let entries = vec![Entry { requests, used: 0, clocks, results }];
        let known = DeviceResults { entries, ..DeviceResults::default() };
        tables.begin_collection();
        let mut marks = Marks::default();
        known.mark(&mut marks);
        tables.all_is_marked(marks);
        while tables.sweep(&mut WorkBudget::new(1_000)).is_none() {}
        let is_held = ["example.com/gpu", "example.com/unused"].map(|name| tables.find(name).is_some());
        assert_eq!(is_held, [true, false]);
    }
}
