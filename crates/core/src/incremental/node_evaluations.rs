//! All node evaluations, with a count of the signature states that use each. An unused evaluation is removed.

use super::node_evaluation::NodeEvaluation;
use super::signature_state::Fallback;
use crate::cache::Snapshot;
use crate::collections::hash::{Hashed, IdMap};
use crate::cycle::Framework;
use crate::model::intern::{MarkWorklist, Marks, TraceIds, WorkBudget};
use crate::model::pod::PodInfo;
use crate::model::signature::NodeSignature;
use std::sync::Arc;

#[derive(Default)]
pub(super) struct NodeEvaluations {
    indices: IdMap<Hashed<NodeSignature>, usize>,
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    unmarked: MarkWorklist,
    /// Number of evaluations created so far; also the source of their unique numbers.
    made: u64,
}

/// A reference to a node evaluation, for a new signature state.
pub(super) struct EvaluationRef<'a> {
    /// Its index in `entries`.
    pub(super) index: usize,
    pub(super) evaluation: &'a NodeEvaluation,
    /// Unique over the lifetime of the cache.
    pub(super) number: u64,
    /// Whether other signature states use it.
    pub(super) is_shared: bool,
}

struct Entry {
    signature: Hashed<NodeSignature>,
    number: u64,
    evaluation: NodeEvaluation,
    /// Number of signature states that use it.
    users: usize,
    bytes: usize,
}

impl NodeEvaluations {
    /// Returns the evaluation at an index.
    pub(super) fn at(&self, index: usize) -> EvaluationRef<'_> {
        let Entry { number, ref evaluation, users, .. } =
            *self.entries[index].as_ref().expect("the evaluation exists");
        EvaluationRef { index, evaluation, number, is_shared: users > 0 }
    }

    /// Returns the evaluation at an index for changes.
    pub(super) fn at_mut(&mut self, index: usize) -> &mut NodeEvaluation {
        &mut self.entries[index].as_mut().expect("the evaluation exists").evaluation
    }

    /// Updates the evaluation at an index.
    ///
    /// # Errors
    ///
    /// Returns [`Fallback`] if it must be recomputed.
    pub(super) fn update(
        &mut self,
        index: usize,
        snapshot: Snapshot<'_>,
    ) -> Result<&NodeEvaluation, Fallback> {
        let evaluation = self.at_mut(index);
        evaluation.catch_up(snapshot)?;
        Ok(evaluation)
    }

    /// Returns the index of the up-to-date evaluation for a pod, which is computed if necessary.
    pub(super) fn of(
        &mut self,
        framework: &Framework,
        pod: &Arc<PodInfo>,
        snapshot: Snapshot<'_>,
    ) -> Result<usize, Fallback> {
        let signature = Hashed::of(NodeSignature::of(pod), snapshot.tables().hashing());
        if let Some(&index) = self.indices.get(&signature)
            && self.update(index, snapshot).is_ok()
        {
            return Ok(index);
        }
        // An evaluation that cannot be updated remains until the signature states that use it have noticed.
        let evaluation = NodeEvaluation::new(framework, pod, snapshot)?;
        self.made += 1;
        let (number, bytes) = (self.made, evaluation.bytes());
        let entry = Entry { signature: signature.clone(), number, bytes, evaluation, users: 0 };
        let index = self.free.pop().unwrap_or(self.entries.len());
        if index == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[index] = Some(entry);
        self.unmarked.put(index);
        self.indices.insert(signature, index);
        Ok(index)
    }

    /// Adds a user; returns the bytes that this adds to the cache.
    pub(super) fn add_user(&mut self, index: usize) -> usize {
        let entry = self.entries[index].as_mut().expect("the evaluation exists");
        entry.users += 1;
        if entry.users == 1 { entry.bytes } else { 0 }
    }

    /// Removes a user; returns the bytes that this frees. Without users the evaluation is removed.
    pub(super) fn remove_user(&mut self, index: usize) -> usize {
        let entry = self.entries[index].as_mut().expect("the evaluation exists");
        entry.users -= 1;
        let bytes = if entry.users == 0 { entry.bytes } else { 0 };
        self.remove_unused(index);
        bytes
    }

    /// Starts a garbage collection: all evaluations are unmarked.
    pub(super) fn begin_collection(&mut self) {
        self.unmarked.begin(self.entries.len());
    }

    /// Marks the ids of some signatures, within the limits of `work`. Returns whether all are done.
    pub(super) fn mark_some(&mut self, marks: &mut Marks, work: &mut WorkBudget) -> bool {
        let Self { unmarked, entries, .. } = self;
        unmarked.walk(work, |index| {
            let entry = entries.get(index).and_then(Option::as_ref);
            entry.map_or(0, |entry| {
                entry.signature.mark(marks);
                1
            })
        })
    }

    /// Ends a garbage collection.
    pub(super) fn end_collection(&mut self) {
        self.unmarked.end();
    }

    /// Marks all evaluations.
    #[cfg(debug_assertions)]
    pub(super) fn mark_all(&self, marks: &mut Marks) {
        self.entries.iter().flatten().for_each(|entry| entry.signature.mark(marks));
    }

    /// Returns the number of evaluations.
    pub(super) fn len(&self) -> usize {
        self.entries.iter().flatten().count()
    }

    /// Removes the evaluation at an index if no signature state uses it.
    pub(super) fn remove_unused(&mut self, index: usize) {
        if let Some(gone) = self.entries[index].take_if(|entry| entry.users == 0) {
            // A newer evaluation of the same signature may have replaced it in `indices`.
            if self.indices.get(&gone.signature) == Some(&index) {
                self.indices.remove(&gone.signature);
            }
            self.free.push(index);
        }
    }
}
