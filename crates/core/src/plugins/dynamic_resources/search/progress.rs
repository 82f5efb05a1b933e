//! Searches that pause. Those of a pod that is evaluated in slices continue in the next slice; for a group's members,
//! see `members`. Other searches end once their attempt has made too many steps for one decision.
//!
//! What a search has found out follows from the devices that it has chosen so far, which [`Checkpoint`] holds. To go
//! on, a new search chooses them again. If the inputs changed in between, it starts from the beginning.

use super::members::of_member;
use super::{At, Chosen, Found, Frame, Obstacle, Path, STEPS_MAX, Search, Solution, Undo, Wanted};
use crate::cache::slice::Slice;
use crate::cache::slice::step_limit::StepLimit;
use crate::cache::{DeviceClocks, Snapshot};
use crate::collections::hash::IdMap;
use crate::model::device::{ClaimSpec, DeviceId};
use crate::model::node::NodeIdx;
use crate::plugins::dynamic_resources::constraints::{Latest, RequestName};
use crate::plugins::dynamic_resources::pools::{Place, Pools};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Restarts after changes before a slice makes more steps. From then on, each restart doubles them, so that the
/// searches end in a cluster whose devices change all the time.
const RESTARTS: u32 = 3;
/// A slice makes at most the steps of the two longest searches, in about 10 s. Longer slices could cost the leader its
/// lease.
const LONGEST_SLICE: u64 = 2 * STEPS_MAX;
/// As many as [`LONGEST_SLICE`] allows to a single pod with the default limits.
const DOUBLINGS_MAX: u32 = 12;
/// An attempt with slices of the greatest length fails after changes have voided as many steps as this number of them
/// make.
const LOST_SLICES_MAX: u64 = 4;

/// The restarts of an attempt's searches after changes. The methods take the steps that all searches of a slice may
/// make, before they are doubled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restarts {
    number: u32,
    /// The steps of results that changes voided since slices have the greatest length.
    lost: u64,
}

impl Restarts {
    /// Counts a restart.
    pub(super) fn add(&mut self) {
        self.number += 1;
    }

    /// Counts the steps of voided results.
    pub(super) fn lose(&mut self, lost: u64, steps: u64) {
        if self.wanted_doublings() >= doublings_max(steps) {
            self.lost = self.lost.saturating_add(lost);
        }
    }

    /// Returns how often the steps of a slice are doubled.
    ///
    /// # Errors
    /// [`Obstacle::TooLong`] if changes voided too many steps.
    pub(super) fn doublings(self, steps: u64) -> Result<u32, Obstacle> {
        let most = doublings_max(steps);
        if self.lost > steps.max(1).saturating_mul(LOST_SLICES_MAX << most) {
            return Err(Obstacle::TooLong);
        }
        Ok(self.wanted_doublings().min(most))
    }

    fn wanted_doublings(self) -> u32 {
        self.number.saturating_sub(RESTARTS)
    }
}

fn doublings_max(steps: u64) -> u32 {
    LONGEST_SLICE.checked_div(steps).and_then(u64::checked_ilog2).unwrap_or(0).min(DOUBLINGS_MAX)
}

/// The progress of a pod's searches.
#[derive(Debug, Default)]
struct Searches {
    clocks: DeviceClocks,
    /// The number of garbage collections of ids, after which an id may have another meaning.
    rounds: u64,
    /// By node; with different requests if extended resources are left to devices.
    by_node: IdMap<NodeIdx, Vec<Kept>>,
    /// Of the evaluation with this number.
    restarts: Restarts,
    evaluation: u64,
}

/// The progress of one search.
#[derive(Debug)]
struct Kept {
    inputs: Inputs,
    state: State,
}

/// The claims of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inputs(Vec<(Arc<ClaimSpec>, Option<BTreeSet<DeviceId>>)>);

#[derive(Clone, Debug)]
pub(super) enum State {
    Paused(Checkpoint),
    Solved(Checkpoint),
    /// There is no solution.
    Unsolvable {
        why: Obstacle,
        steps: u64,
    },
}

impl State {
    /// Returns the steps that the search made.
    pub(super) fn steps(&self) -> u64 {
        match *self {
            Self::Paused(ref at) | Self::Solved(ref at) => at.steps,
            Self::Unsolvable { steps, .. } => steps,
        }
    }
}

/// The choices of a search so far.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    path: Path,
    pub(super) steps: u64,
    /// The pools whose counters are compared.
    pools_of_counters: Vec<usize>,
    /// By claim and constraint, what does not follow from the path.
    histories: Vec<Vec<Option<Latest>>>,
}

/// Searches devices for the claims on a node.
pub(in crate::plugins::dynamic_resources) fn search<'a>(
    place: Place<'a>,
    claims: &'a [Wanted<'a>],
    pools: &'a Pools<'a>,
    copies_defects: bool,
) -> Result<Solution<'a>, Obstacle> {
    let mut search = Search::new(place, claims, pools, copies_defects);
    if let Some(slice) = place.snapshot.slice() {
        return in_slice(search, slice);
    }
    let limit = place.snapshot.step_limit();
    if let Some(limit) = limit.filter(|limit| limit.keeps_searches()) {
        return of_member(search, limit);
    }
    if limit.is_some_and(StepLimit::is_exceeded) {
        return Err(Obstacle::TooLong);
    }
    search.prepare().map_err(Obstacle::Error)?;
    search.pause_at = limit.map_or(u64::MAX, |limit| limit.left());
    let mut path = search.begin()?;
    let has_ended = search.go_on(&mut path)?;
    match limit {
        Some(limit) if !has_ended => {
            limit.exceed();
            return Err(Obstacle::TooLong);
        }
        Some(limit) => limit.spend(search.steps),
        None => {}
    }
    search.result(&path)
}

/// Goes on with the pod's search on the node, until it or the slice ends.
fn in_slice<'a>(mut search: Search<'a>, slice: &Slice) -> Result<Solution<'a>, Obstacle> {
    let (snapshot, node) = (search.place.snapshot, search.place.node);
    let inputs = search.inputs();
    let known = slice.with_searches(|searches: &mut Searches, evaluation| {
        searches.catch_up(snapshot, evaluation, slice.all_search_steps());
        searches.of(node, &inputs)
    });
    let known = match known {
        Some(State::Unsolvable { why, .. }) => return Err(why),
        Some(State::Solved(checkpoint)) => {
            search.prepare().map_err(Obstacle::Error)?;
            let path = search.return_to(checkpoint);
            return search.result(&path);
        }
        Some(State::Paused(checkpoint)) => Some(checkpoint),
        None => None,
    };
    slice.go_on();
    search.prepare().map_err(Obstacle::Error)?;
    let mut counted = known.as_ref().map_or(0, |checkpoint| checkpoint.steps);
    let mut path = match known {
        Some(checkpoint) => search.return_to(checkpoint),
        None => search.begin()?,
    };
    loop {
        let restarts = slice.with_searches(|searches: &mut Searches, _| searches.restarts);
        let doublings = restarts.doublings(slice.all_search_steps())?;
        search.pause_at = counted.saturating_add(slice.search_steps() << doublings);
        let has_ended = search.go_on(&mut path)?;
        slice.spend_on_search((search.steps - counted) >> doublings);
        counted = search.steps;
        let state = search.state(&path, has_ended);
        slice.with_searches(|searches: &mut Searches, _| searches.keep(node, &inputs, state));
        if has_ended {
            return search.result(&path);
        }
        slice.go_on();
    }
}

impl Searches {
    /// Returns the progress of the search on a node; `None` if it has not begun, or if its inputs changed.
    fn of(&self, node: NodeIdx, inputs: &Inputs) -> Option<State> {
        let kept = self.by_node.get(&node)?.iter().find(|kept| kept.inputs == *inputs)?;
        Some(kept.state.clone())
    }

    fn keep(&mut self, node: NodeIdx, inputs: &Inputs, state: State) {
        let of_node = self.by_node.entry(node).or_default();
        match of_node.iter_mut().find(|kept| kept.inputs == *inputs) {
            Some(kept) => kept.state = state,
            None => of_node.push(Kept { inputs: Inputs(inputs.0.clone()), state }),
        }
    }

    /// Drops the progress on nodes whose devices changed. All searches of the slice may make these steps.
    fn catch_up(&mut self, snapshot: Snapshot<'_>, evaluation: u64, steps: u64) {
        let rounds = snapshot.tables().rounds();
        let changed = self.clocks.catch_up(snapshot).filter(|_| self.rounds == rounds);
        self.rounds = rounds;
        let dropped: Vec<Vec<Kept>> = match changed {
            None => std::mem::take(&mut self.by_node).into_values().collect(),
            Some(changed) => changed.iter().filter_map(|node| self.by_node.remove(&node)).collect(),
        };
        if self.evaluation != evaluation {
            (self.restarts, self.evaluation) = (Restarts::default(), evaluation);
        } else if !dropped.is_empty() {
            self.restarts.lose(dropped.iter().flatten().map(|kept| kept.state.steps()).sum(), steps);
            self.restarts.add();
        }
    }
}

impl<'a> Search<'a> {
    pub(super) fn inputs(&self) -> Inputs {
        let inputs = self.claims.iter().map(|it| (Arc::clone(it.spec), it.avoided.cloned()));
        Inputs(inputs.collect())
    }

    /// Returns what the search has found out.
    pub(super) fn state(&self, path: &Path, has_ended: bool) -> State {
        match (has_ended, &path.found) {
            (false, _) => State::Paused(self.checkpoint(path)),
            (true, Found::Yes) => State::Solved(self.checkpoint(path)),
            (true, _) => State::Unsolvable { why: self.unsolvable(), steps: self.steps },
        }
    }

    fn checkpoint(&self, path: &Path) -> Checkpoint {
        let histories =
            self.constraints.iter().map(|of_claim| of_claim.iter().map(|it| it.history()).collect());
        Checkpoint {
            path: path.clone(),
            steps: self.steps,
            pools_of_counters: self.pools_of_counters(),
            histories: histories.collect(),
        }
    }

    /// Chooses again what a search had chosen. This search has chosen nothing yet.
    pub(super) fn return_to(&mut self, checkpoint: Checkpoint) -> Path {
        let Checkpoint { path, steps, pools_of_counters, histories } = checkpoint;
        pools_of_counters.into_iter().for_each(|pool| self.use_counters_of(pool));
        for frame in &path.stack {
            match frame {
                Frame::All { at, undo } | Frame::Exact { at, undo, .. } => self.choose_again(*at, undo),
                Frame::Claim | Frame::Alternative { .. } => {}
            }
        }
        for (constraint, history) in self.constraints.iter_mut().flatten().zip(histories.iter().flatten()) {
            history.iter().for_each(|history| constraint.return_to(history));
        }
        self.steps = steps;
        path
    }

    fn choose_again(&mut self, at: At, undo: &Undo) {
        let prepared = &self.prepared[at.claim][at.request][at.alternative];
        let (request, parent, candidate) = (prepared.request, prepared.parent, undo.candidate);
        if undo.counters_taken {
            self.add_counters(candidate);
        }
        let name = RequestName::of(request, parent);
        for constraint in &mut self.constraints[at.claim] {
            constraint.add(name, &self.pools.candidates[candidate]);
        }
        if let Some((consumed, _)) = &undo.consumed {
            self.consume(candidate, consumed);
        }
        if undo.is_marked {
            self.taken_by[candidate].push(at.claim);
        }
        self.solution.chosen[at.claim].push(Chosen { candidate, parent, request });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_a_slice_are_doubled_up_to_those_of_two_searches() {
        let cases =
            [(50, 12), (37_500, 12), (187_500, 10), (LONGEST_SLICE / 2, 1), (LONGEST_SLICE, 0), (0, 0)];
        for (steps, most) in cases {
            let after = |number: u32| Restarts { number, lost: 0 }.doublings(steps).ok();
            assert!(steps << most <= LONGEST_SLICE);
            assert_eq!([after(0), after(RESTARTS), after(RESTARTS + 1)], [0, 0, most.min(1)].map(Some));
            assert_eq!([after(RESTARTS + most), after(u32::MAX)], [Some(most); 2]);
        }
    }

    #[test]
    fn attempt_fails_after_changes_voided_too_many_steps_of_the_longest_slices() {
        for (steps, most) in
            [(50, 4 * (50 << 12)), (187_500, 4 * (187_500 << 10)), (0, 4), (u64::MAX, u64::MAX)]
        {
            let mut restarts = Restarts { number: RESTARTS + doublings_max(steps), lost: 0 };
            restarts.lose(most, steps);
            assert!(restarts.doublings(steps).is_ok(), "{most} steps were lost");
            restarts.lose(1, steps);
            assert_eq!(restarts.doublings(steps).is_ok(), most == u64::MAX);
        }
    }

    #[test]
    fn steps_that_shorter_slices_lost_do_not_count() {
        let mut restarts = Restarts::default();
        for _ in 0..RESTARTS + DOUBLINGS_MAX {
            restarts.lose(LONGEST_SLICE, 50);
            restarts.add();
        }
        assert_eq!(restarts.doublings(50).ok(), Some(DOUBLINGS_MAX));
        restarts.lose(LONGEST_SLICE, 50);
        assert_eq!(restarts.doublings(50).ok(), None);
    }
}
