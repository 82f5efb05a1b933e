//! Long searches of a group's members, which go on in the next slice of the group's cycle.
//!
//! Each slice decides on all members from the beginning. What earlier members take changes the devices of later ones,
//! and is undone at the end of the slice. So progress is stored with everything that the search depends on, and a later
//! slice that reaches the same search continues it.

use super::progress::{Inputs, Restarts, State};
use super::{Chosen, Obstacle, Path, Search, Solution};
use crate::cache::slice::step_limit::{StepLimit, uncounted};
use crate::cache::{NodeChange, Snapshot};
use crate::collections::hash::IdMap;
use crate::framework::PoolDevices;
use crate::model::device::{DeviceClass, PoolId};
use crate::model::node::NodeIdx;
use crate::plugins::dynamic_resources::compared::of_pool;
use crate::plugins::dynamic_resources::pools::{Pool, PoolState};

/// The progress of the long searches of a group's members.
#[derive(Debug, Default)]
struct MemberSearches {
    /// The number of garbage collections of ids, after which an id may have another meaning.
    rounds: u64,
    /// The clock of node objects.
    clock: u64,
    by_node: IdMap<NodeIdx, Vec<Kept>>,
    /// One for each slice that dropped a paused search, because a change voided it or kept the cycle from reaching it,
    /// or searches that were too many.
    restarts: Restarts,
}

/// The progress of one search.
#[derive(Debug)]
struct Kept {
    dependencies: Dependencies,
    state: State,
    /// Whether this slice has come to it; before the slice begins, the last one.
    is_used: bool,
}

/// What a search depends on, besides the node's object.
#[derive(Debug, PartialEq, Eq)]
struct Dependencies {
    inputs: Inputs,
    /// Of each request and alternative.
    classes: Vec<DeviceClass>,
    pools: Vec<(PoolId, PoolState, PoolDevices)>,
    invalid: Option<(usize, String)>,
}

/// The most ended searches that are kept on a node although the last slice did not come to them, because their results
/// were cached. What a later member takes voids cached results, and the next slice comes to these searches again. If
/// there are more, most of them are of devices that have changed since.
const UNUSED_MAX: usize = 16;

/// Longer searches are not compared with one without pauses.
const COMPARED_MAX: u64 = 100_000;

/// What two results of equal searches have in common: the candidates of each claim, and the chosen alternatives.
type Summary<'a> = Result<(Vec<Vec<usize>>, &'a [Vec<usize>]), &'a Obstacle>;

fn summary<'a>(result: &'a Result<Solution<'_>, Obstacle>) -> Summary<'a> {
    let of_claim = |chosen: &Vec<Chosen<'_>>| chosen.iter().map(|it| it.candidate).collect();
    result.as_ref().map(|it| (it.chosen.iter().map(of_claim).collect(), &*it.alternatives))
}

/// Searches devices for a member of a group.
///
/// # Errors
/// [`Obstacle::TooLong`] if the slice has no steps left, which `limit` then reports, or if the node needs too many.
/// [`Obstacle::NotHere`] without a solution, and [`Obstacle::Error`] if the decision must fail.
pub(super) fn of_member<'a>(mut search: Search<'a>, limit: &StepLimit) -> Result<Solution<'a>, Obstacle> {
    if limit.is_exceeded() {
        return Err(Obstacle::TooLong);
    }
    search.prepare().map_err(Obstacle::Error)?;
    search.pause_at = limit.short_search(search.pools.candidates.len());
    let mut path = search.begin()?;
    let is_short = search.go_on(&mut path)?;
    limit.repeat(search.steps);
    if is_short {
        return search.result(&path);
    }
    let (snapshot, node) = (search.place.snapshot, search.place.node);
    let dependencies = search.dependencies();
    let (known, restarts) = limit.with_searches(|searches: &mut MemberSearches, is_first| {
        if is_first {
            searches.begin_slice(snapshot, limit.all());
        }
        (searches.of(node, &dependencies), searches.restarts)
    });
    let left = limit.left();
    match known {
        Some(State::Unsolvable { why, .. }) => return Err(why),
        Some(State::Solved(checkpoint)) => {
            let mut search = search.anew()?;
            let path = search.return_to(checkpoint);
            return search.checked_result(&path);
        }
        _ if left == 0 => {
            limit.exceed();
            return Err(Obstacle::TooLong);
        }
        Some(State::Paused(checkpoint)) => {
            search = search.anew()?;
            path = search.return_to(checkpoint);
        }
        None => {}
    }
    let doublings = restarts.doublings(limit.all())?;
    let before = search.steps;
    search.pause_at = before.saturating_add(left << doublings);
    let has_ended = search.go_on(&mut path)?;
    limit.spend((search.steps - before) >> doublings);
    let state = search.state(&path, has_ended);
    limit.with_searches(|searches: &mut MemberSearches, _| searches.keep(node, dependencies, state));
    if has_ended {
        return search.checked_result(&path);
    }
    limit.exceed();
    Err(Obstacle::TooLong)
}

impl MemberSearches {
    /// Drops what depends on node objects that changed, paused searches that the last slice did not use, and ended
    /// ones if their node has too many. All searches of the slice may make `all_steps`.
    fn begin_slice(&mut self, snapshot: Snapshot<'_>, all_steps: u64) {
        let (rounds, clock) = (snapshot.tables().rounds(), snapshot.clock());
        let (known, steps) = (self.paused(), self.steps());
        match snapshot.node_changes_since(self.clock).filter(|_| self.rounds == rounds) {
            None => self.by_node.clear(),
            Some(changes) => {
                let objects = changes.filter(|(_, change)| *change == NodeChange::Object);
                objects.for_each(|(node, _)| _ = self.by_node.remove(&node));
            }
        }
        (self.rounds, self.clock) = (rounds, clock);
        let mut has_dropped = false;
        self.by_node.retain(|_, of_node| {
            let keeps_unused = of_node.iter().filter(|kept| !kept.is_used).count() <= UNUSED_MAX;
            has_dropped |= !keeps_unused;
            of_node.retain_mut(|kept| {
                std::mem::take(&mut kept.is_used) || keeps_unused && !matches!(kept.state, State::Paused(_))
            });
            !of_node.is_empty()
        });
        self.restarts.lose(steps - self.steps(), all_steps);
        if has_dropped || self.paused() < known {
            self.restarts.add();
        }
    }

    /// Returns the number of searches that are paused.
    fn paused(&self) -> usize {
        self.by_node.values().flatten().filter(|kept| matches!(kept.state, State::Paused(_))).count()
    }

    /// Returns the steps of all searches.
    fn steps(&self) -> u64 {
        self.by_node.values().flatten().map(|kept| kept.state.steps()).sum()
    }

    fn of(&mut self, node: NodeIdx, dependencies: &Dependencies) -> Option<State> {
        let kept = self.by_node.get_mut(&node)?.iter_mut().find(|kept| kept.dependencies == *dependencies)?;
        kept.is_used = true;
        Some(kept.state.clone())
    }

    fn keep(&mut self, node: NodeIdx, dependencies: Dependencies, state: State) {
        let of_node = self.by_node.entry(node).or_default();
        of_node.retain(|kept| kept.dependencies != dependencies);
        of_node.push(Kept { dependencies, state, is_used: true });
    }
}

impl<'a> Search<'a> {
    /// Returns the result. In builds with assertions, it is compared with that of a search without pauses.
    fn checked_result(self, path: &Path) -> Result<Solution<'a>, Obstacle> {
        if !cfg!(debug_assertions) || self.steps > COMPARED_MAX {
            return self.result(path);
        }
        let whole = uncounted(|| {
            let mut search = self.anew()?;
            let mut path = search.begin()?;
            search.go_on(&mut path)?;
            search.result(&path)
        });
        let result = self.result(path);
        assert_eq!(summary(&result), summary(&whole), "a search with pauses ends as one without");
        result
    }

    /// Returns a new, prepared search for the same claims on the same node.
    fn anew(&self) -> Result<Self, Obstacle> {
        let mut search = Search::new(self.place, self.claims, self.pools, self.copies_defects);
        search.prepare().map_err(Obstacle::Error)?;
        Ok(search)
    }

    fn dependencies(&self) -> Dependencies {
        let pool = |pool: &Pool<'a>| (pool.id.clone(), pool.state, of_pool(self.place, self.pools, pool));
        Dependencies {
            inputs: self.inputs(),
            classes: self.prepared.iter().flatten().flatten().map(|it| it.class.clone()).collect(),
            pools: self.pools.pools.iter().map(pool).collect(),
            invalid: self.pools.invalid.clone(),
        }
    }
}
