//! The search for devices: the first combination of devices, in the order of the pools, that satisfies all requests of
//! all claims.
//!
//! The order of the search is part of the result, and so is which device an expression is evaluated for, since an
//! expression that fails ends the decision. The search keeps its own stack: its depth grows with the number of
//! requested devices. Upstream: `allocator_incubating.go#Allocate` and `#allocateOne`.

mod counters;
mod equality;
mod judge;
mod members;
mod preparation;
mod progress;

use super::capacity;
use super::constraints::{RequestName, Tracked};
use super::pools::{Candidate, Place, Pools};
use crate::cache::DeviceUsage;
use crate::cache::slice::step_limit::count_search_step;
use crate::model::device::{
    ClaimSpec, Device, DeviceClass, DeviceId, DeviceRequest, DeviceTaint, RESULTS_MAX,
};
use crate::model::emulation::{Alternatives, DeviceRules, PoolView};
use crate::model::quantity::{Amount, Quantity};
use counters::Available;
pub(super) use counters::available_counters;
pub(super) use judge::Judge;
use preparation::is_match;
pub(super) use progress::search;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The number of steps after which a search ends without a result: a step enters a position, or looks at a device for
/// it. Upstream's search looks at the same devices in the same order, and ends after 10 seconds. In 10 seconds of CPU
/// time it made 32 to 43 million such steps (1.36.3, searches without a solution, 10 and 31 devices; `allocateOne`
/// times the devices that it looks at), so a machine of twice the speed stays below.
const STEPS_MAX: u64 = 100_000_000;

/// A claim to be allocated.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// `namespace/name`.
    pub(super) name: &'a str,
    pub(super) spec: &'a Arc<ClaimSpec>,
    /// Devices that the claim must not get.
    pub(super) avoided: Option<&'a BTreeSet<DeviceId>>,
}

/// Why a search ended without devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// There is no solution on this node; this is the reason.
    NotHere(&'static str),
    /// The decision fails with this error.
    Error(String),
    /// The search took too many steps.
    TooLong,
}

/// A device chosen for a request.
#[derive(Clone)]
pub(super) struct Chosen<'a> {
    /// The position of the device in [`Pools::candidates`].
    pub(super) candidate: usize,
    pub(super) parent: Option<&'a str>,
    pub(super) request: &'a DeviceRequest,
}

/// The devices chosen for the claims.
pub(super) struct Solution<'a> {
    /// The devices of each claim, in order of choice.
    pub(super) chosen: Vec<Vec<Chosen<'a>>>,
    /// The position of the chosen alternative of each request of each claim; 0 for a request without alternatives.
    pub(super) alternatives: Vec<Vec<usize>>,
}

/// The data of a request or of one alternative.
struct Prepared<'a> {
    request: &'a DeviceRequest,
    /// The name of the request that this is an alternative of.
    parent: Option<&'a str>,
    class: &'a DeviceClass,
    class_name: &'a str,
    count: usize,
    /// All devices that match, for `All`.
    all: Option<Vec<usize>>,
    /// Whether each candidate matches: the selectors and the node.
    matches: Vec<Option<bool>>,
}

/// The position of a device to be chosen.
#[derive(Clone, Copy, Debug)]
struct At {
    claim: usize,
    request: usize,
    alternative: usize,
    device: usize,
    /// Whether the alternative was chosen already.
    is_alternative: bool,
}

/// The result of a part of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Yes,
    No,
    /// The claim would get more devices than it can have.
    TooMany,
}

/// Amounts of capacities by name.
type Amounts = Box<[(Arc<str>, Amount)]>;

/// What undoes the choice of a device.
#[derive(Clone, Debug)]
struct Undo {
    candidate: usize,
    counters_taken: bool,
    /// The amounts consumed, and whether other shares in this search had consumed some before.
    consumed: Option<(Amounts, bool)>,
    is_marked: bool,
}

/// A part of the search that waits for the result of the next part.
#[derive(Clone, Debug)]
enum Frame {
    /// The end of a claim.
    Claim,
    /// An alternative of a request.
    Alternative { at: At, all_too_many: bool },
    /// A device of a request for all devices.
    All { at: At, undo: Undo },
    /// A device of a request for a number of devices. `next` is the candidate after it, and `failed` are devices that
    /// were tried in its place.
    Exact { at: At, undo: Undo, next: usize, failed: Vec<usize> },
}

/// A search on one node.
pub(super) struct Search<'a> {
    place: Place<'a>,
    claims: &'a [Wanted<'a>],
    pools: &'a Pools<'a>,
    rules: DeviceRules,
    copies_defects: bool,
    /// Whether pools of one name have common counters.
    joins_counters: bool,
    /// By claim, request and alternative.
    prepared: Vec<Vec<Vec<Prepared<'a>>>>,
    constraints: Vec<Vec<Tracked<'a>>>,
    solution: Solution<'a>,
    /// The claims for which each candidate is chosen.
    taken_by: Vec<Vec<usize>>,
    /// The amounts of capacities that this search consumes, by candidate.
    consuming: Vec<Option<BTreeMap<Arc<str>, Quantity>>>,
    /// Counters of a pool that are left, and those that this search consumes.
    available: BTreeMap<usize, Available<'a>>,
    taken_counters: BTreeMap<usize, BTreeMap<(&'a str, &'a str), Quantity>>,
    skips_equals: bool,
    steps: u64,
    /// The number of steps after which the search pauses.
    pause_at: u64,
}

/// The place that a search has reached.
#[derive(Clone, Debug)]
struct Path {
    stack: Vec<Frame>,
    /// The result of the part after the last frame.
    found: Found,
}

impl<'a> Search<'a> {
    /// Returns a search that has chosen nothing yet.
    fn new(place: Place<'a>, claims: &'a [Wanted<'a>], pools: &'a Pools<'a>, copies_defects: bool) -> Self {
        let rules = place.snapshot.rules().devices;
        Self {
            place,
            claims,
            pools,
            rules,
            copies_defects,
            joins_counters: copies_defects && !rules.separates_counters,
            prepared: Vec::with_capacity(claims.len()),
            constraints: Vec::with_capacity(claims.len()),
            solution: Solution { chosen: vec![Vec::new(); claims.len()], alternatives: Vec::new() },
            taken_by: vec![Vec::new(); pools.candidates.len()],
            consuming: vec![None; pools.candidates.len()],
            available: BTreeMap::new(),
            taken_counters: BTreeMap::new(),
            skips_equals: true,
            steps: 0,
            pause_at: u64::MAX,
        }
    }

    /// Begins the search.
    fn begin(&mut self) -> Result<Path, Obstacle> {
        let mut stack = Vec::new();
        let first = At { claim: 0, request: 0, alternative: 0, device: 0, is_alternative: false };
        let found = self.descend(&mut stack, first, 0)?;
        Ok(Path { stack, found })
    }

    /// Goes on to the end, which returns true, or to the next pause.
    fn go_on(&mut self, path: &mut Path) -> Result<bool, Obstacle> {
        while path.found != Found::Yes {
            let may_go_on = |_: &mut Frame| self.steps < self.pause_at;
            let Some(frame) = path.stack.pop_if(may_go_on) else { return Ok(path.stack.is_empty()) };
            path.found = self.after(frame, &mut path.stack, path.found.clone())?;
        }
        Ok(true)
    }

    /// Goes on after the result of the part that follows a frame.
    fn after(&mut self, frame: Frame, stack: &mut Vec<Frame>, found: Found) -> Result<Found, Obstacle> {
        match frame {
            Frame::Claim => Ok(Found::No),
            Frame::Alternative { at, all_too_many } => {
                self.after_alternative(stack, at, all_too_many, &found)
            }
            Frame::All { at, undo } => {
                self.give_back(at, &undo);
                Ok(found)
            }
            Frame::Exact { at, undo, next, mut failed } => {
                self.give_back(at, &undo);
                if found == Found::TooMany {
                    return Ok(Found::TooMany);
                }
                failed.push(undo.candidate);
                self.try_devices(stack, at, next, failed)
            }
        }
    }

    /// Returns the result of a path that has ended.
    fn result(mut self, path: &Path) -> Result<Solution<'a>, Obstacle> {
        if path.found == Found::Yes {
            for frame in &path.stack {
                if let Frame::Alternative { at, .. } = frame {
                    self.solution.alternatives[at.claim][at.request] = at.alternative;
                }
            }
            return Ok(self.solution);
        }
        Err(self.unsolvable())
    }

    /// Returns the obstacle on a node without a solution.
    fn unsolvable(&self) -> Obstacle {
        Obstacle::NotHere(match self.rules.pools == PoolView::Whole && self.pools.has_invalid() {
            true => "invalid resource pools were encountered",
            false => "cannot allocate all claims",
        })
    }

    /// Goes on after one alternative of a request.
    fn after_alternative(
        &mut self,
        stack: &mut Vec<Frame>,
        at: At,
        all_too_many: bool,
        found: &Found,
    ) -> Result<Found, Obstacle> {
        let all_too_many = all_too_many && *found == Found::TooMany;
        let next = At { alternative: at.alternative + 1, ..at };
        if next.alternative >= self.prepared[at.claim][at.request].len() {
            return Ok(if all_too_many { Found::TooMany } else { Found::No });
        }
        stack.push(Frame::Alternative { at: next, all_too_many });
        self.descend(stack, At { is_alternative: true, ..next }, 0)
    }

    /// Searches from `at` until the first result, and pushes the frames that wait for it.
    fn descend(&mut self, stack: &mut Vec<Frame>, mut at: At, mut start: usize) -> Result<Found, Obstacle> {
        loop {
            self.step()?;
            let Some(of_claim) = self.prepared.get(at.claim) else { return Ok(Found::Yes) };
            if at.request >= of_claim.len() {
                stack.push(Frame::Claim);
                at = At { claim: at.claim + 1, request: 0, alternative: 0, device: 0, is_alternative: false };
                start = 0;
                continue;
            }
            let Some(prepared) = of_claim[at.request].get(at.alternative) else {
                // A request of an unknown kind, which is refused before.
                return Ok(Found::No);
            };
            if !at.is_alternative && prepared.parent.is_some() {
                at.alternative = 0;
                stack.push(Frame::Alternative { at, all_too_many: true });
                at.is_alternative = true;
                start = 0;
                continue;
            }
            if prepared.all.as_ref().is_some_and(Vec::is_empty) {
                return Ok(Found::No);
            }
            if at.device >= prepared.count {
                at = At {
                    claim: at.claim,
                    request: at.request + 1,
                    alternative: 0,
                    device: 0,
                    is_alternative: false,
                };
                start = 0;
                continue;
            }
            let chosen = self.solution.chosen[at.claim].len();
            if chosen + prepared.count - at.device > RESULTS_MAX {
                return Ok(Found::TooMany);
            }
            let Some(all) = &prepared.all else { return self.try_devices(stack, at, start, Vec::new()) };
            let candidate = all[at.device];
            let Some(undo) = self.take(at, candidate, true)? else { return Ok(Found::No) };
            stack.push(Frame::All { at, undo });
            at.device += 1;
            if self.copies_defects && self.rules.alternatives == Alternatives::Mixed {
                at.alternative = 0;
            }
        }
    }

    /// Tries the candidates from `start` on for one device of a request. Devices that equal one of `failed` are left
    /// out: they would fail for the same reason.
    fn try_devices(
        &mut self,
        stack: &mut Vec<Frame>,
        at: At,
        start: usize,
        failed: Vec<usize>,
    ) -> Result<Found, Obstacle> {
        let (end, invalid) = match &self.pools.invalid {
            Some((end, why)) => (*end, Some(why)),
            None => (self.pools.candidates.len(), None),
        };
        for candidate in start..end {
            self.step()?;
            let prepared = &self.prepared[at.claim][at.request][at.alternative];
            let request = prepared.request;
            if self.is_in_use(candidate, request.admin_access, at.claim) {
                continue;
            }
            if !self.matches(at, candidate)? || !self.has_capacity(at, request, candidate)? {
                continue;
            }
            if failed.iter().any(|&other| self.are_equal(other, candidate)) {
                continue;
            }
            let Some(undo) = self.take(at, candidate, false)? else { continue };
            stack.push(Frame::Exact { at, undo, next: candidate + 1, failed });
            return self.descend(stack, At { device: at.device + 1, ..at }, candidate + 1);
        }
        match invalid {
            Some(why) => Err(Obstacle::Error(why.clone())),
            None => Ok(Found::No),
        }
    }

    fn step(&mut self) -> Result<(), Obstacle> {
        self.steps += 1;
        count_search_step();
        if self.steps > STEPS_MAX { Err(Obstacle::TooLong) } else { Ok(()) }
    }

    /// Whether the claim must not get the device.
    fn is_avoided(&self, candidate: usize, claim: usize) -> bool {
        let avoided = self.claims[claim].avoided;
        avoided.is_some_and(|avoided| avoided.contains(&self.pools.candidates[candidate].id()))
    }

    /// Whether a device is used by another allocation, or in this search.
    fn is_in_use(&self, candidate: usize, with_admin_access: bool, claim: usize) -> bool {
        let taken_by = &self.taken_by[candidate];
        let device = &self.pools.candidates[candidate];
        if self.is_avoided(candidate, claim) {
            return true;
        }
        if with_admin_access {
            return taken_by.contains(&claim);
        }
        let is_whole = !self.rules.gates.consumable_capacity;
        !taken_by.is_empty() || device.is_dedicated() || is_whole && device.usage.is_some()
    }

    /// Whether a device satisfies the selectors of class and request, and its own node selection.
    fn matches(&mut self, at: At, candidate: usize) -> Result<bool, Obstacle> {
        let prepared = &mut self.prepared[at.claim][at.request][at.alternative];
        if let Some(known) = prepared.matches[candidate] {
            return Ok(known);
        }
        let claim = self.claims[at.claim].name;
        let is_match = is_match(self.place, claim, prepared, &self.pools.candidates[candidate]);
        let is_match = is_match.map_err(Obstacle::Error)?;
        prepared.matches[candidate] = Some(is_match);
        Ok(is_match)
    }

    /// Whether the device has the capacities that a request consumes, beside what other shares consume.
    ///
    /// # Errors
    /// If an amount cannot be represented.
    fn has_capacity(&self, at: At, request: &DeviceRequest, candidate: usize) -> Result<bool, Obstacle> {
        let claim = self.claims[at.claim].name;
        let device = || self.pools.candidates[candidate].id().to_string();
        let in_use = |name: &str| self.in_use(candidate, name);
        self.suffices(claim, request, candidate, in_use, device).map_err(Obstacle::Error)
    }

    /// Returns the amount of a capacity that other shares of the device consume.
    fn in_use(&self, candidate: usize, name: &str) -> Quantity {
        let now = self.consuming[candidate].as_ref().and_then(|consumed| consumed.get(name)).copied();
        let before = self.pools.candidates[candidate].usage.and_then(|usage| usage.consumed(name));
        before.unwrap_or_default().plus(now.unwrap_or_default())
    }

    /// Whether the device has the capacities that a request consumes, given the amounts in use.
    fn suffices(
        &self,
        claim: &str,
        request: &DeviceRequest,
        candidate: usize,
        in_use: impl Fn(&str) -> Quantity,
        name: impl Fn() -> String,
    ) -> Result<bool, String> {
        let device = self.pools.candidates[candidate].device;
        let has_none = device.capacity.is_empty() && request.capacity.is_empty();
        if has_none || !self.rules.gates.consumable_capacity {
            return Ok(true);
        }
        capacity::suffices(request, device, self.rules.capacity, in_use).map_err(|why| {
            let device = name();
            format!("claim {claim}, request {}: checking capacity for device {device}: {why}", request.name)
        })
    }

    /// Whether several claims can have the device.
    fn is_shareable(&self, device: &Device) -> bool {
        device.is_shareable && self.rules.gates.consumable_capacity
    }

    /// Chooses a device, unless counters, taints or constraints forbid it.
    ///
    /// # Errors
    /// If a device that must be chosen violates a constraint.
    fn take(&mut self, at: At, candidate: usize, must: bool) -> Result<Option<Undo>, Obstacle> {
        let prepared = &self.prepared[at.claim][at.request][at.alternative];
        let (request, parent) = (prepared.request, prepared.parent);
        let Candidate { device, .. } = &self.pools.candidates[candidate];
        let is_held = if request.admin_access {
            !self.is_shareable(device) && self.is_in_use(candidate, true, at.claim)
        } else {
            self.is_in_use(candidate, false, at.claim)
        };
        if is_held {
            return Ok(None);
        }
        if !self.rules.gates.partitionable && !device.consumes.is_empty() {
            return Ok(None);
        }
        let is_shared = self.is_shareable(device) && self.is_partly_consumed(candidate);
        let mut undo = Undo { candidate, counters_taken: false, consumed: None, is_marked: false };
        if !is_shared && !device.consumes.is_empty() {
            if !self.take_counters(candidate) {
                return Ok(None);
            }
            undo.counters_taken = true;
        }
        if self.rules.gates.taints && untolerated(device, request).is_some() {
            self.give_back_counters(&undo);
            return Ok(None);
        }
        let name = RequestName::of(request, parent);
        let refused = self.constraints[at.claim]
            .iter_mut()
            .position(|constraint| !constraint.add(name, &self.pools.candidates[candidate]));
        if let Some(refused) = refused {
            let added = &mut self.constraints[at.claim][..refused];
            added.iter_mut().rev().for_each(|constraint| constraint.remove(name));
            self.give_back_counters(&undo);
            return if must { Err(Obstacle::Error(self.broken_constraint(at, candidate))) } else { Ok(None) };
        }
        if !self.has_capacity(at, request, candidate)? {
            self.constraints[at.claim].iter_mut().rev().for_each(|constraint| constraint.remove(name));
            self.give_back_counters(&undo);
            return Ok(None);
        }
        if self.is_shareable(device) {
            let consumed = capacity::all_consumed(request, device, self.rules.capacity);
            let had_shares = self.consume(candidate, &consumed);
            undo.consumed = Some((consumed, had_shares));
        } else {
            self.taken_by[candidate].push(at.claim);
            undo.is_marked = true;
        }
        self.solution.chosen[at.claim].push(Chosen { candidate, parent, request });
        Ok(Some(undo))
    }

    fn broken_constraint(&self, at: At, candidate: usize) -> String {
        format!(
            "claim {}, request {}: cannot add device {} because a claim constraint would not be satisfied",
            self.claims[at.claim].name,
            self.prepared[at.claim][at.request][at.alternative].request.name,
            self.pools.candidates[candidate].id()
        )
    }

    /// Takes a share of a device. Returns whether this search had taken shares of it before.
    fn consume(&mut self, candidate: usize, consumed: &Amounts) -> bool {
        let had_shares = self.consuming[candidate].is_some();
        let sums = self.consuming[candidate].get_or_insert_default();
        for (name, amount) in consumed {
            let sum = sums.entry(Arc::clone(name)).or_default();
            *sum = sum.plus(amount.quantity);
        }
        had_shares
    }

    /// Gives back a device.
    fn give_back(&mut self, at: At, undo: &Undo) {
        let Some(Chosen { parent, request, .. }) = self.solution.chosen[at.claim].pop() else { return };
        if let Some((consumed, had_shares)) = &undo.consumed {
            let sums = &mut self.consuming[undo.candidate];
            if !*had_shares {
                *sums = None;
            } else if let Some(sums) = sums {
                for (name, amount) in consumed {
                    if let Some(sum) = sums.get_mut(name) {
                        *sum = sum.minus(amount.quantity);
                    }
                }
            }
        }
        if undo.is_marked {
            self.taken_by[undo.candidate].retain(|claim| *claim != at.claim);
        }
        let name = RequestName::of(request, parent);
        self.constraints[at.claim].iter_mut().rev().for_each(|constraint| constraint.remove(name));
        self.give_back_counters(undo);
    }

    /// Whether shares of a device have taken its counters.
    fn is_partly_consumed(&self, candidate: usize) -> bool {
        let usage = self.pools.candidates[candidate].usage;
        // Some versions do not see shares that consume no capacity.
        let is_charged = match self.rules.charges_counters_per_share {
            true => usage.is_some_and(DeviceUsage::has_consumed_capacity),
            false => usage.is_some_and(DeviceUsage::is_shared),
        };
        self.consuming[candidate].is_some() || is_charged
    }
}

/// Returns the first taint that keeps the request from the device.
fn untolerated<'a>(device: &'a Device, request: &DeviceRequest) -> Option<&'a DeviceTaint> {
    let is_tolerated = |taint| request.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    device.taints.iter().find(|taint| taint.repels() && !is_tolerated(taint))
}
