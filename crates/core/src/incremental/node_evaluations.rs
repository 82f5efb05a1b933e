//! The trunks there are, each as long as a signature grows from it. Knows of signatures only how many do.

use super::node_evaluation::Trunk;
use super::signature_state::Extraordinary;
use crate::cache::Snapshot;
use crate::cycle::Framework;
use crate::hash::{Hashed, IdMap};
use crate::intern::{HoldsIds, Marks, Unmarked, Work};
use crate::pod::PodInfo;
use crate::signature::NodeSignature;
use std::sync::Arc;

#[derive(Default)]
pub(super) struct Trunks {
    places: IdMap<Hashed<NodeSignature>, usize>,
    kept: Vec<Option<Kept>>,
    free: Vec<usize>,
    unmarked: Unmarked,
    /// How many were made.
    made: u64,
}

/// A trunk that a signature is about to grow from.
pub(super) struct Root<'a> {
    /// Where it stands.
    pub(super) place: usize,
    pub(super) trunk: &'a Trunk,
    /// No two ever have the same.
    pub(super) number: u64,
    /// Others grow from it.
    pub(super) is_shared: bool,
}

struct Kept {
    signature: Hashed<NodeSignature>,
    number: u64,
    trunk: Trunk,
    /// How many signatures grow from it.
    held: usize,
    bytes: usize,
}

impl Trunks {
    /// The trunk at a place.
    pub(super) fn at(&self, place: usize) -> Root<'_> {
        let Kept { number, ref trunk, held, .. } = *self.kept[place].as_ref().expect("what is held is kept");
        Root { place, trunk, number, is_shared: held > 0 }
    }

    /// The same, to ask for the best.
    pub(super) fn at_mut(&mut self, place: usize) -> &mut Trunk {
        &mut self.kept[place].as_mut().expect("what is held is kept").trunk
    }

    /// The same, up to date.
    ///
    /// # Errors
    /// When it has to be made anew.
    pub(super) fn fresh(&mut self, place: usize, snapshot: Snapshot<'_>) -> Result<&Trunk, Extraordinary> {
        let trunk = self.at_mut(place);
        trunk.catch_up(snapshot)?;
        Ok(trunk)
    }

    /// Where the trunk of a pod stands, which is up to date.
    pub(super) fn of(
        &mut self,
        framework: &Framework,
        pod: &Arc<PodInfo>,
        snapshot: Snapshot<'_>,
    ) -> Result<usize, Extraordinary> {
        let signature = Hashed::of(NodeSignature::of(pod), snapshot.tables().hashing());
        if let Some(&place) = self.places.get(&signature)
            && self.fresh(place, snapshot).is_ok()
        {
            return Ok(place);
        }
        // One that cannot be brought up to date stays for the signatures that grow from it, which find that out one by one.
        let trunk = Trunk::new(framework, pod, snapshot)?;
        self.made += 1;
        let (number, bytes) = (self.made, trunk.bytes());
        let kept = Kept { signature: signature.clone(), number, bytes, trunk, held: 0 };
        let place = self.free.pop().unwrap_or(self.kept.len());
        if place == self.kept.len() {
            self.kept.push(None);
        }
        self.kept[place] = Some(kept);
        self.unmarked.put(place);
        self.places.insert(signature, place);
        Ok(place)
    }

    /// One signature more grows from it; the bytes that this adds to all of them.
    pub(super) fn hold(&mut self, place: usize) -> usize {
        let kept = self.kept[place].as_mut().expect("what is held is kept");
        kept.held += 1;
        if kept.held == 1 { kept.bytes } else { 0 }
    }

    /// One signature less does; the bytes that this takes from all of them. The last one takes the trunk with it.
    pub(super) fn release(&mut self, place: usize) -> usize {
        let kept = self.kept[place].as_mut().expect("what is held is kept");
        kept.held -= 1;
        let bytes = if kept.held == 0 { kept.bytes } else { 0 };
        self.tidy(place);
        bytes
    }

    /// All trunks are to be marked.
    pub(super) fn begin_round(&mut self) {
        self.unmarked.begin(self.kept.len());
    }

    /// Marks some of the trunks that are to be, of the ids of whose signature they are; whether those are all.
    pub(super) fn mark_some(&mut self, marks: &mut Marks, work: &mut Work) -> bool {
        let Self { unmarked, kept, .. } = self;
        unmarked.walk(work, |place| {
            let kept = kept.get(place).and_then(Option::as_ref);
            kept.map_or(0, |kept| {
                kept.signature.mark(marks);
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
        self.kept.iter().flatten().for_each(|kept| kept.signature.mark(marks));
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.kept.iter().flatten().count()
    }

    /// Forgets the trunk at a place if nothing grows from it.
    pub(super) fn tidy(&mut self, place: usize) {
        if let Some(gone) = self.kept[place].take_if(|kept| kept.held == 0) {
            // Another may be in its place by now.
            if self.places.get(&gone.signature) == Some(&place) {
                self.places.remove(&gone.signature);
            }
            self.free.push(place);
        }
    }
}
