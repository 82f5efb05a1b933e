//! Decisions remembered by what the pods have in common: a pod of a signature that was decided about before costs what
//! changed since, and one pass over dense numbers.
//!
//! A [`Trunk`] keeps what each filter and score that judges nodes one by one says of each node; all pods share it that differ
//! only in what ties them to other pods. A [`Shape`](shape::Shape) keeps, of one signature, the sums of pods by topology domain
//! that affinity and spreading follow from. Both are patched for the nodes touched since. Scores that look at all feasible nodes are
//! worked out once for all nodes that are the same to them. Wherever
//! anything is out of the ordinary (an error, a rejection, no node left, a nomination of its own) there is no answer from
//! here, and the plain path decides: it is what this must equal.

mod base_partition;
mod block_max;
mod domain_counter;
mod domain_map;
mod gc_roots;
mod infeasible_cache;
mod node_classes;
mod node_evaluation;
mod node_evaluations;
mod score_table;
mod signature_state;
mod topology_counts;
mod topology_index;
mod two_queue;
mod verify;

use crate::cache::Snapshot;
use crate::cycle::{Decision, Framework, Probe};
use crate::framework::CycleError;
use crate::hash::{Hashed, Keyed};
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use crate::pod::PodInfo;
use crate::rng::{Purpose, Seed};
use crate::signature::ShapeSignature;
use crate::time::Time;
use crate::volume::Reservation;
use base_partition::Stems;
use infeasible_cache::Refusals;
use node_evaluation::Trunk;
use node_evaluations::Trunks;
use signature_state::{Rules, Shape};
use std::fmt;
use std::sync::Arc;
use topology_index::Atlas;
use two_queue::{Known, Ring};
pub(crate) use verify::Live;

/// Bytes that all signatures together take at most, but for the one made last.
const ROOM: usize = 256 << 20;
/// Signatures remembered at most, but for the one made last.
const SIGNATURES: usize = 8_192;
/// Newcomers have this part of the room, and of the signatures when those are as many as may be.
const NEWCOMERS: usize = 4;
/// How many have their turn to go when something is made: so many go at most, and the one made last before.
const TURNS: usize = 8;

/// What is remembered of the pods of all profiles: a pod's profile is part of its signature.
pub struct Shapes {
    hashing: Keyed,
    known: Known<What>,
    trunks: Trunks,
    /// The bytes that signatures take, with the trunks that they grow from.
    bytes: usize,
    room: usize,
    /// What was made last, if there is no room for it beside the others: it goes when something else is made.
    guest: Option<usize>,
    atlas: Atlas,
    stems: Stems,
    refusals: Refusals,
    /// The time of what is made or compared now.
    now: Time,
    answers: u64,
    made: u64,
    let_go: u64,
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

    /// The node chosen, as [`Feasible::choose`](crate::cycle::Feasible::choose) would.
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
        if !self.shape.stands(node) {
            debug_assert!(false, "what is cached of {node:?} is not what is counted for it");
            return None;
        }
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
        Self {
            hashing: Keyed::default(),
            known: Known::default(),
            trunks: Trunks::default(),
            bytes: 0,
            room,
            guest: None,
            atlas: Atlas::default(),
            stems: Stems::default(),
            refusals: Refusals::default(),
            now: Time::default(),
            answers: 0,
            made: 0,
            let_go: 0,
        }
    }

    /// Signatures are hashed so. To be told while nothing is remembered.
    #[must_use]
    pub(crate) fn hashed_by(self, hashing: &Keyed) -> Self {
        Self { hashing: hashing.clone(), ..self }
    }

    /// How many decisions came from here.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// How often it was found out about a signature, for the first time or anew.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// How many signatures had to go, to make room for others.
    pub fn let_go(&self) -> u64 {
        self.let_go
    }

    /// How many signatures are remembered.
    pub fn signatures(&self) -> usize {
        self.known.len()
    }

    /// How many of them differ in what nodes are to them by themselves.
    pub fn node_signatures(&self) -> usize {
        self.trunks.len()
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets everything, for what was held may be half changed, or was found by other plugins.
    pub fn clear(&mut self) {
        let is_in_round = self.known.is_in_round();
        (self.known, self.trunks) = (Known::default(), Trunks::default());
        if is_in_round {
            self.begin_round();
        }
        (self.bytes, self.guest) = (0, None);
        self.atlas.clear();
        self.stems.clear();
        self.refusals.clear();
    }
}

impl Shapes {
    /// Where stands what is known of a signature.
    fn place_of(&mut self, signature: ShapeSignature) -> usize {
        let signature = Hashed::of(signature, &self.hashing);
        self.known.meet(&signature).unwrap_or_else(|| self.known.add(signature, What::Nothing))
    }

    /// Whether what is known of a signature is up to date by now.
    fn is_fresh(&mut self, place: usize, snapshot: Snapshot<'_>) -> bool {
        let What::Shape(shape) = self.known.at(place) else { return false };
        let trunk = self.trunks.fresh(shape.trunk(), snapshot);
        trunk.is_ok_and(|trunk| shape.catch_up(trunk, snapshot).is_ok())
    }

    /// Finds out about a signature, and lets others go as far as there is no room for all.
    fn make(&mut self, framework: &Framework, pod: &Arc<PodInfo>, snapshot: Snapshot<'_>, place: usize) {
        if let Some(guest) = self.guest.take_if(|guest| *guest != place) {
            let gone = self.known.let_go(guest);
            self.release(&gone);
        }
        let Self { known, trunks, atlas, stems, bytes, now, .. } = self;
        let made = trunks.of(framework, pod, snapshot).and_then(|root| {
            let shape = Shape::new(framework, pod, snapshot, (atlas, stems), &trunks.at(root));
            if shape.is_err() {
                trunks.tidy(root);
            }
            shape
        });
        let made = match made {
            Ok(mut shape) => {
                shape.checked = *now;
                What::Shape(Box::new(shape))
            }
            Err(_) => What::Never { era: snapshot.era() },
        };
        // Held before another is let go, so that its trunk stays.
        let held = made.held(trunks);
        *bytes += held;
        *bytes -= known.replace(place, made, held).released(trunks);
        self.made += 1;
        self.make_room_beside(place);
    }

    /// Some have their turn to go, but for what was made just now.
    fn make_room_beside(&mut self, place: usize) {
        for _ in 0..TURNS {
            let Some(ring) = self.next() else { break };
            if let Some(gone) = self.known.turn(ring, place) {
                self.release(&gone);
            }
        }
        self.guest = self.is_full().then_some(place);
    }

    /// A signature went.
    fn release(&mut self, gone: &What) {
        self.bytes -= gone.released(&mut self.trunks);
        self.let_go += 1;
    }

    /// Whether there is no room for all.
    fn is_full(&self) -> bool {
        self.bytes > self.room || self.known.len() > SIGNATURES
    }

    /// Of which ring one is to go, if any.
    fn next(&self) -> Option<Ring> {
        let (all, newcomers) = (self.known.len(), self.known.len_of(Ring::Newcomers));
        let are_too_large = self.known.newcomers_weigh() > self.room / NEWCOMERS;
        let are_too_many = all > SIGNATURES && newcomers > SIGNATURES / NEWCOMERS;
        if newcomers > 1 && (are_too_large || are_too_many) {
            return Some(Ring::Newcomers);
        }
        self.is_full().then_some(if newcomers == all { Ring::Newcomers } else { Ring::Proven })
    }
}

impl What {
    /// It is remembered; the bytes that this adds to all that is.
    fn held(&self, trunks: &mut Trunks) -> usize {
        let Self::Shape(shape) = self else { return 0 };
        shape.bytes() + trunks.hold(shape.trunk())
    }

    /// It no longer is; the bytes that this takes from all that is.
    fn released(&self, trunks: &mut Trunks) -> usize {
        let Self::Shape(shape) = self else { return 0 };
        shape.bytes() + trunks.release(shape.trunk())
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
        if matches!(*shapes.known.at(place), What::Never { era } if era == snapshot.era()) {
            return None;
        }
        if !shapes.is_fresh(place, snapshot) {
            shapes.make(self, pod, snapshot, place);
        }
        let Shapes { known, trunks, answers, .. } = shapes;
        let What::Shape(shape) = known.at(place) else { return None };
        let trunk = trunks.at_mut(shape.trunk());
        let rules = shape.decide(self, trunk, pod, snapshot, probe).ok()?;
        *answers += 1;
        Some(Quick { shape, trunk, rules })
    }
}
