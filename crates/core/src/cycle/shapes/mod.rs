//! Decisions remembered by what the pods have in common: a pod of a signature that was decided about before costs what
//! changed since, and one pass over dense numbers.
//!
//! A [`Trunk`] keeps what each filter and score that judges nodes one by one says of each node; all pods share it that differ
//! only in what ties them to other pods. A [`Shape`](shape::Shape) keeps, of one signature, the sums of pods by topology domain
//! that affinity and spreading follow from. Both are patched for the nodes touched since. Scores that look at all feasible nodes are
//! worked out once for all nodes that are the same to them. Wherever
//! anything is out of the ordinary (an error, a rejection, no node left, a nomination of its own) there is no answer from
//! here, and the plain path decides: it is what this must equal.

mod atlas;
mod classes;
mod field;
mod leaders;
mod shape;
mod sums;
mod trunk;
mod trunks;

use super::{Decision, Framework, Probe};
use crate::cache::Snapshot;
use crate::framework::CycleError;
use crate::hash::FixedMap;
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use crate::pod::PodInfo;
use crate::rng::{Purpose, Seed};
use crate::signature::ShapeSignature;
use crate::volume::Reservation;
use atlas::Atlas;
use shape::{Rules, Shape};
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;
use trunk::Trunk;
use trunks::{Age, Trunks};

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
    trunks: Trunks,
    room: usize,
    atlas: Atlas,
    answers: u64,
}

/// Signatures, and the bytes they take with the trunks that they grow from.
#[derive(Default)]
struct Generation {
    /// Where what is known of them stands.
    places: FixedMap<ShapeSignature, usize>,
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
    trunk: &'a mut Trunk,
    /// What only this pod is held to.
    rules: Rules,
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
        self.shape.scored(self.trunk).map(|(node, _)| node).collect()
    }

    /// The total of each feasible node, in slot order; `None` where a single node made scoring needless.
    pub fn totals(&self) -> Option<Vec<i64>> {
        (self.len() > 1).then(|| self.shape.scored(self.trunk).map(|(_, total)| total).collect())
    }

    /// The node chosen, as [`Feasible::choose`](super::Feasible::choose) would.
    pub fn choose(&mut self, seed: Seed, pod: &PodInfo, attempt: u32) -> NodeIdx {
        self.shape.best(self.trunk, |ties| seed.draw(Purpose::TieBreak, &pod.uid, u64::from(attempt), ties))
    }

    /// The total of a feasible node; `None` where a single node made scoring needless.
    pub fn total(&self, node: NodeIdx) -> Option<i64> {
        (self.len() > 1).then(|| self.shape.total(self.trunk, node))
    }

    /// What the pod needs on a feasible node beside its place there; `None` where the node will not do after all, and
    /// [`Framework::decide`] is to be asked.
    pub fn reserve(&self, snapshot: Snapshot<'_>, node: NodeIdx) -> Option<Vec<Reservation>> {
        let mut all = Vec::new();
        for rule in &self.rules {
            all.append(&mut rule.reserve(&snapshot.node(node)).ok()?);
        }
        Some(all)
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

impl Shapes {
    /// What is remembered takes so many bytes at most, but for the signature that was met last.
    pub fn with_room(room: usize) -> Self {
        let (young, old) = (Generation::default(), Generation::default());
        Self { young, old, trunks: Trunks::default(), room, atlas: Atlas::default(), answers: 0 }
    }

    /// How many decisions came from here.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// How many signatures are remembered.
    pub fn signatures(&self) -> usize {
        self.young.places.len() + self.old.places.len()
    }

    /// How many of them differ in what nodes are to them by themselves.
    pub fn node_signatures(&self) -> usize {
        self.trunks.len()
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> usize {
        self.young.bytes + self.old.bytes
    }

    /// Forgets everything, for what was held may be half changed, or was found by other plugins.
    pub fn clear(&mut self) {
        (self.young, self.old) = (Generation::default(), Generation::default());
        self.trunks = Trunks::default();
        self.atlas.clear();
    }
}

impl Shapes {
    /// Where among the young stands what is known of a signature.
    fn place_of(&mut self, signature: ShapeSignature) -> usize {
        let Self { young, old, trunks, room, .. } = self;
        if young.bytes > *room / 2 || young.known.len() > SIGNATURES / 2 {
            *old = std::mem::take(young);
            trunks.turn();
        }
        match young.places.entry(signature) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let place = young.known.len();
                let before = old.places.remove(entry.key());
                entry.insert(place);
                let take = |place: usize| std::mem::replace(&mut old.known[place], What::Nothing);
                let known = before.map_or(What::Nothing, take);
                // Held before it is let go, so that its trunk stays.
                young.bytes += known.held(trunks, Age::Young);
                old.bytes -= known.released(trunks, Age::Old);
                young.known.push(known);
                place
            }
        }
    }

    /// Whether what is known of a young signature is up to date by now.
    fn is_fresh(&mut self, place: usize, snapshot: Snapshot<'_>) -> bool {
        let What::Shape(shape) = &mut self.young.known[place] else { return false };
        let trunk = self.trunks.fresh(shape.trunk(), snapshot);
        trunk.is_ok_and(|trunk| shape.catch_up(trunk, snapshot).is_ok())
    }

    /// Finds out about a young signature.
    fn make(&mut self, framework: &Framework, pod: &Arc<PodInfo>, snapshot: Snapshot<'_>, place: usize) {
        let Self { young, trunks, atlas, .. } = self;
        let made = trunks.of(framework, pod, snapshot).and_then(|root| {
            let trunk = (root, trunks.at(root));
            let shape = Shape::new(framework, pod, snapshot, atlas, trunk);
            if shape.is_err() {
                trunks.tidy(root);
            }
            shape
        });
        let made = match made {
            Ok(shape) => What::Shape(Box::new(shape)),
            Err(_) => What::Never { era: snapshot.era() },
        };
        young.bytes += made.held(trunks, Age::Young);
        let before = std::mem::replace(&mut young.known[place], made);
        young.bytes -= before.released(trunks, Age::Young);
    }
}

impl What {
    /// It is among those of an age; the bytes that this adds to them.
    fn held(&self, trunks: &mut Trunks, age: Age) -> usize {
        let Self::Shape(shape) = self else { return 0 };
        shape.bytes() + trunks.hold(shape.trunk(), age)
    }

    /// It no longer is; the bytes that this takes from them.
    fn released(&self, trunks: &mut Trunks, age: Age) -> usize {
        let Self::Shape(shape) = self else { return 0 };
        shape.bytes() + trunks.release(shape.trunk(), age)
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
        if self.sampling.is_some() || pod.nominated_node.is_some() {
            return None;
        }
        let place = shapes.place_of(ShapeSignature::of(pod));
        if matches!(shapes.young.known[place], What::Never { era } if era == snapshot.era()) {
            return None;
        }
        if !shapes.is_fresh(place, snapshot) {
            shapes.make(self, pod, snapshot, place);
        }
        let Shapes { young, trunks, answers, .. } = shapes;
        let What::Shape(shape) = &mut young.known[place] else { return None };
        let trunk = trunks.at_mut(shape.trunk());
        let rules = shape.decide(self, trunk, pod, snapshot, probe).ok()?;
        *answers += 1;
        Some(Quick { shape, trunk, rules })
    }
}
