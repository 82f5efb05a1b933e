//! The trunks there are, each as long as a signature grows from it. Knows of signatures only how many do.

use super::node_evaluation::NodeEvaluation;
use super::signature_state::Fallback;
use crate::cache::Snapshot;
use crate::cycle::Framework;
use crate::hash::{Hashed, IdMap};
use crate::intern::{HoldsIds, Marks, Unmarked, Work};
use crate::pod::PodInfo;
use crate::signature::NodeSignature;
use std::sync::Arc;

#[derive(Default)]
pub(super) struct NodeEvaluations {
    indices: IdMap<Hashed<NodeSignature>, usize>,
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    unmarked: Unmarked,
    /// How many were made.
    made: u64,
}

/// A trunk that a signature is about to grow from.
pub(super) struct EvaluationRef<'a> {
    /// Where it stands.
    pub(super) index: usize,
    pub(super) evaluation: &'a NodeEvaluation,
    /// No two ever have the same.
    pub(super) number: u64,
    /// Others grow from it.
    pub(super) is_shared: bool,
}

struct Entry {
    signature: Hashed<NodeSignature>,
    number: u64,
    evaluation: NodeEvaluation,
    /// How many signatures grow from it.
    held: usize,
    bytes: usize,
}

impl NodeEvaluations {
    /// The trunk at a place.
    pub(super) fn at(&self, index: usize) -> EvaluationRef<'_> {
        let Entry { number, ref evaluation, held, .. } =
            *self.entries[index].as_ref().expect("what is held is kept");
        EvaluationRef { index, evaluation, number, is_shared: held > 0 }
    }

    /// The same, to ask for the best.
    pub(super) fn at_mut(&mut self, index: usize) -> &mut NodeEvaluation {
        &mut self.entries[index].as_mut().expect("what is held is kept").evaluation
    }

    /// The same, up to date.
    ///
    /// # Errors
    /// When it has to be made anew.
    pub(super) fn fresh(
        &mut self,
        index: usize,
        snapshot: Snapshot<'_>,
    ) -> Result<&NodeEvaluation, Fallback> {
        let evaluation = self.at_mut(index);
        evaluation.catch_up(snapshot)?;
        Ok(evaluation)
    }

    /// Where the trunk of a pod stands, which is up to date.
    pub(super) fn of(
        &mut self,
        framework: &Framework,
        pod: &Arc<PodInfo>,
        snapshot: Snapshot<'_>,
    ) -> Result<usize, Fallback> {
        let signature = Hashed::of(NodeSignature::of(pod), snapshot.tables().hashing());
        if let Some(&index) = self.indices.get(&signature)
            && self.fresh(index, snapshot).is_ok()
        {
            return Ok(index);
        }
        // One that cannot be brought up to date stays for the signatures that grow from it, which find that out one by one.
        let evaluation = NodeEvaluation::new(framework, pod, snapshot)?;
        self.made += 1;
        let (number, bytes) = (self.made, evaluation.bytes());
        let entries = Entry { signature: signature.clone(), number, bytes, evaluation, held: 0 };
        let index = self.free.pop().unwrap_or(self.entries.len());
        if index == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[index] = Some(entries);
        self.unmarked.put(index);
        self.indices.insert(signature, index);
        Ok(index)
    }

    /// One signature more grows from it; the bytes that this adds to all of them.
    pub(super) fn hold(&mut self, index: usize) -> usize {
        let entries = self.entries[index].as_mut().expect("what is held is kept");
        entries.held += 1;
        if entries.held == 1 { entries.bytes } else { 0 }
    }

    /// One signature less does; the bytes that this takes from all of them. The last one takes the trunk with it.
    pub(super) fn release(&mut self, index: usize) -> usize {
        let entries = self.entries[index].as_mut().expect("what is held is kept");
        entries.held -= 1;
        let bytes = if entries.held == 0 { entries.bytes } else { 0 };
        self.tidy(index);
        bytes
    }

    /// All trunks are to be marked.
    pub(super) fn begin_round(&mut self) {
        self.unmarked.begin(self.entries.len());
    }

    /// Marks some of the trunks that are to be, of the ids of whose signature they are; whether those are all.
    pub(super) fn mark_some(&mut self, marks: &mut Marks, work: &mut Work) -> bool {
        let Self { unmarked, entries, .. } = self;
        unmarked.walk(work, |index| {
            let entries = entries.get(index).and_then(Option::as_ref);
            entries.map_or(0, |entries| {
                entries.signature.mark(marks);
                1
            })
        })
    }

    /// All are marked.
    pub(super) fn end_round(&mut self) {
        self.unmarked.end();
    }

    /// Marks all trunks.
    #[cfg(debug_assertions)]
    pub(super) fn mark_all(&self, marks: &mut Marks) {
        self.entries.iter().flatten().for_each(|entries| entries.signature.mark(marks));
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.iter().flatten().count()
    }

    /// Forgets the trunk at a place if nothing grows from it.
    pub(super) fn tidy(&mut self, index: usize) {
        if let Some(gone) = self.entries[index].take_if(|entries| entries.held == 0) {
            // Another may be in its place by now.
            if self.indices.get(&gone.signature) == Some(&index) {
                self.indices.remove(&gone.signature);
            }
            self.free.push(index);
        }
    }
}
