//! Decisions remembered by what the pods have in common: a pod of a signature that was decided about before costs what
//! changed since, and one pass over dense numbers.
//!
//! A [`Shape`](shape::Shape) keeps, of one signature, what each filter and score that judges nodes one by one says of each
//! node, and the sums of pods by topology domain that affinity and spreading follow from; all of it is patched for the
//! nodes touched since. Scores that look at all feasible nodes are worked out once for all nodes that are the same to them. Wherever
//! anything is out of the ordinary (an error, a rejection, no node left, a nomination of its own) there is no answer from
//! here, and the plain path decides: it is what this must equal.

mod atlas;
mod classes;
mod leaders;
mod shape;
mod sums;

use super::{Decision, Framework, Probe};
use crate::cache::Snapshot;
use crate::framework::CycleError;
use crate::hash::FixedMap;
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use crate::pod::PodInfo;
use crate::rng::{Purpose, Seed};
use crate::signature::{NodeSignature, Signature};
use atlas::Atlas;
use shape::Shape;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

/// Bytes that all signatures together take at most, but for the one made last.
const ROOM: usize = 256 << 20;
/// Signatures remembered at most.
const SIGNATURES: usize = 8_192;

/// What is remembered of the pods of all profiles: a pod's profile is part of its signature.
pub struct Shapes {
    /// Signatures met of late.
    young: Generation,
    /// Signatures met before; those that are not met again before the young take half of the room are forgotten.
    old: Generation,
    /// Of pods that nodes are the same to, the signature met last.
    kin: FixedMap<NodeSignature, Signature>,
    room: usize,
    atlas: Atlas,
    answers: u64,
}

/// Signatures, and the bytes they take.
#[derive(Default)]
struct Generation {
    /// Where what is known of them stands.
    places: FixedMap<Signature, usize>,
    known: Vec<What>,
    bytes: usize,
}

impl Default for Shapes {
    fn default() -> Self {
        Self::with_room(ROOM)
    }
}

enum What {
    /// It was never met.
    Nothing,
    /// Its decisions are none of ours as long as the same nodes exist.
    Never {
        era: u64,
    },
    Shape(Box<Shape>),
}

/// What was found for a pod, equal to what [`Framework::decide`] finds.
pub struct Quick<'a> {
    shape: &'a mut Shape,
}

impl Quick<'_> {
    /// How many nodes can take the pod; at least one.
    pub fn len(&self) -> usize {
        self.shape.feasible()
    }

    /// Whether no node can: never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The nodes that can take the pod.
    pub fn feasible(&self) -> NodeSet {
        self.shape.scored().map(|(node, _)| node).collect()
    }

    /// The total of each feasible node, in slot order; `None` where a single node made scoring needless.
    pub fn totals(&self) -> Option<Vec<i64>> {
        (self.len() > 1).then(|| self.shape.scored().map(|(_, total)| total).collect())
    }

    /// The node chosen, as [`Feasible::choose`](super::Feasible::choose) would.
    pub fn choose(&mut self, seed: Seed, pod: &PodInfo, attempt: u32) -> NodeIdx {
        self.shape.best(|ties| seed.draw(Purpose::TieBreak, &pod.uid, u64::from(attempt), ties))
    }

    /// The total of a feasible node; `None` where a single node made scoring needless.
    pub fn total(&self, node: NodeIdx) -> Option<i64> {
        (self.len() > 1).then(|| self.shape.total(node))
    }

    /// Whether the plain path found the same, and chooses the same in any of three attempts.
    pub fn is_what(&mut self, plain: &Result<Decision, CycleError>, seed: Seed, pod: &PodInfo) -> bool {
        let Ok(Decision::Feasible(plain)) = plain else { return false };
        let totals = plain.scores.as_ref().map(|scores| &scores.totals);
        let chosen = self.choose(seed, pod, 1);
        plain.best() == self.total(chosen)
            && *plain.filtered.feasible() == self.feasible()
            && totals == self.totals().as_ref()
            && (1..=3).all(|attempt| plain.choose(seed, pod, attempt) == self.choose(seed, pod, attempt))
    }
}

impl fmt::Debug for Quick<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quick").field("feasible", &self.feasible()).field("totals", &self.totals()).finish()
    }
}

impl What {
    fn bytes(&self) -> usize {
        match self {
            Self::Nothing | Self::Never { .. } => 0,
            Self::Shape(shape) => shape.bytes(),
        }
    }
}

impl Shapes {
    /// What is remembered takes so many bytes at most, but for the signature that was met last.
    pub fn with_room(room: usize) -> Self {
        let (young, old) = (Generation::default(), Generation::default());
        Self { young, old, kin: FixedMap::default(), room, atlas: Atlas::default(), answers: 0 }
    }

    /// How many decisions came from here.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// How many signatures are remembered.
    pub fn signatures(&self) -> usize {
        self.young.places.len() + self.old.places.len()
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> usize {
        self.young.bytes + self.old.bytes
    }

    /// Forgets everything, for what was held may be half changed, or was found by other plugins.
    pub fn clear(&mut self) {
        (self.young, self.old) = (Generation::default(), Generation::default());
        self.kin.clear();
        self.atlas.clear();
    }
}

impl Generation {
    fn put(&mut self, place: usize, what: What) {
        self.bytes = self.bytes + what.bytes() - self.known[place].bytes();
        self.known[place] = what;
    }

    fn take(&mut self, signature: &Signature) -> Option<What> {
        let place = self.places.remove(signature)?;
        self.bytes -= self.known[place].bytes();
        Some(std::mem::replace(&mut self.known[place], What::Nothing))
    }

    /// The shape of a signature, brought up to date; it is forgotten where it cannot be.
    fn fresh(&mut self, signature: &Signature, snapshot: Snapshot<'_>) -> Option<&Shape> {
        let place = *self.places.get(signature)?;
        let What::Shape(shape) = &mut self.known[place] else { return None };
        if shape.catch_up(snapshot).is_err() {
            self.put(place, What::Nothing);
        }
        let What::Shape(shape) = &self.known[place] else { return None };
        Some(shape)
    }
}

impl Shapes {
    /// Where among the young stands what is known of a signature.
    fn place_of(&mut self, signature: Signature) -> usize {
        let Self { young, old, room, .. } = self;
        if young.bytes > *room / 2 || young.known.len() > SIGNATURES / 2 {
            *old = std::mem::take(young);
        }
        match young.places.entry(signature) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let known = old.take(entry.key()).unwrap_or(What::Nothing);
                let place = *entry.insert(young.known.len());
                young.bytes += known.bytes();
                young.known.push(known);
                place
            }
        }
    }

    /// Finds out about a signature that stands at a place, from what is known of its kin where there is any.
    fn make(&mut self, framework: &Framework, pod: &Arc<PodInfo>, snapshot: Snapshot<'_>, place: usize) {
        let Self { young, old, kin, atlas, .. } = self;
        let last = kin.get(&NodeSignature::of(pod));
        let last = last.and_then(|last| young.fresh(last, snapshot).or_else(|| old.fresh(last, snapshot)));
        let made = match Shape::new(framework, pod, snapshot, atlas, last) {
            Ok(shape) => What::Shape(Box::new(shape)),
            Err(_) => What::Never { era: snapshot.era() },
        };
        young.put(place, made);
        if kin.len() >= SIGNATURES {
            kin.clear();
        }
        kin.insert(NodeSignature::of(pod), Signature::of(pod));
    }
}

impl Framework {
    /// Decides where `pod` can go and how good each place is, from what is remembered of its signature; `None` where
    /// [`Self::decide`] is to be asked.
    pub fn decide_quickly<'a>(
        &self,
        shapes: &'a mut Shapes,
        pod: &Arc<PodInfo>,
        snapshot: Snapshot<'_>,
        probe: &mut dyn Probe,
    ) -> Option<Quick<'a>> {
        // A walk looks at other nodes each time, and is never answered from here.
        if self.sampling.is_some() || !pod.volumes.is_empty() || pod.nominated_node.is_some() {
            return None;
        }
        let place = shapes.place_of(Signature::of(pod));
        let is_ready = match &mut shapes.young.known[place] {
            What::Never { era } if *era == snapshot.era() => return None,
            What::Shape(shape) => shape.catch_up(snapshot).is_ok(),
            What::Nothing | What::Never { .. } => false,
        };
        if !is_ready {
            shapes.make(self, pod, snapshot, place);
        }
        let Shapes { young, answers, .. } = shapes;
        let What::Shape(shape) = &mut young.known[place] else { return None };
        shape.decide(self, pod, snapshot, probe).ok()?;
        *answers += 1;
        Some(Quick { shape })
    }
}
