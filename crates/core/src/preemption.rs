//! DefaultPreemption: finds the node and the lower-priority pods whose eviction makes a pod feasible.
//!
//! It only decides: it evicts no pods, nominates no pods and calls no extenders. Answers of extenders are
//! part of its input. Upstream: `pkg/scheduler/framework/preemption/preemption.go`,
//! `pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`.

mod again;
mod budgets;
mod choice;
mod dry_run;
mod importance;
mod sort;
mod units;

use crate::framework::dry_runs::DryRuns;
use crate::framework::histogram::Histogram;
use crate::framework::post_filter::{
    Candidate, Draws, ExtenderCandidates, PostFilterPlugin, PostFiltered, Unplaced,
};
use crate::framework::{CycleError, PluginName};
use crate::model::extender::{self, ExtenderCandidate};
use crate::model::pod::Uid;
use crate::model::rng::Purpose;
pub(crate) use budgets::BudgetCharges;
use dry_run::{DryRunOutcome, Ports};
pub(crate) use importance::started as starts;
use std::collections::BTreeSet;
use units::GroupVictims;

/// Upstream's name of the plugin.
pub const NAME: PluginName = "DefaultPreemption";

const NEVER: &str = "not eligible due to preemptionPolicy=Never.";
const VICTIM_TERMINATING: &str = "not eligible due to a terminating pod on the nominated node.";
const NO_GROUP: &str = "pod group for pod not found";
const BY_PLACEMENT: &str = "not eligible due to placement-based pod group scheduling limitation";
const BY_GROUP: &str = "not eligible due to workload aware preemption enabled";
const NO_CANDIDATE: &str = "no candidate node for preemption";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// `DefaultPreemptionArgs`: the number of candidates at which the search stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultPreemptionArgs {
    /// `minCandidateNodesPercentage`: the percentage of nodes on which preemption may help.
    pub min_candidate_nodes_percentage: u32,
    /// `minCandidateNodesAbsolute`: the minimum number of candidates.
    pub min_candidate_nodes_absolute: u32,
}

impl Default for DefaultPreemptionArgs {
    fn default() -> Self {
        Self { min_candidate_nodes_percentage: 10, min_candidate_nodes_absolute: 100 }
    }
}

impl DefaultPreemptionArgs {
    /// The number of candidates that suffices if preemption may help on `nodes` nodes.
    fn enough(&self, nodes: usize) -> usize {
        let share = nodes.saturating_mul(self.min_candidate_nodes_percentage as usize) / 100;
        share.max(self.min_candidate_nodes_absolute as usize).min(nodes)
    }
}

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultPreemption {
    args: DefaultPreemptionArgs,
}

impl DefaultPreemption {
    /// Creates the plugin with arguments.
    pub fn new(args: DefaultPreemptionArgs) -> Self {
        Self { args }
    }

    /// Dry-runs preemption node by node from a randomly drawn one, until there are enough candidates and one
    /// of them violates no disruption budget.
    fn try_nodes<'a>(&self, unplaced: &Unplaced<'a>, ports: Ports) -> Trials<'a> {
        let nodes = unplaced.curable.len();
        let mut runs = Trials::new(self.args.enough(nodes));
        if nodes == 0 {
            return runs;
        }
        let groups = GroupVictims::of(unplaced.snapshot);
        if finds_nobody(unplaced, &groups) {
            runs.reasons.add_times(dry_run::NO_VICTIMS.into(), nodes);
            runs.hopeless = nodes;
            return runs;
        }
        for node in unplaced.curable.iter_from_nth(first(unplaced, nodes)) {
            runs.add(dry_run::try_node(unplaced, &groups, node, ports));
            if runs.are_enough() {
                break;
            }
        }
        runs
    }

    fn find<'a>(&self, unplaced: &Unplaced<'a>, ports: Ports) -> PostFiltered<'a> {
        if let Some(reason) = limited_by_group(unplaced) {
            return nothing(reason, false, BTreeSet::new());
        }
        if let Some(reason) = ineligible(unplaced) {
            return nothing(reason, false, BTreeSet::new());
        }
        if let ExtenderCandidates::Answered { rooms, changed } = unplaced.rooms {
            return match rooms {
                Ok(rooms) => best_accepted(unplaced, rooms, changed, ports),
                Err(why) => PostFiltered::Failed(CycleError(format!("preemption: {why}"))),
            };
        }
        let runs = self.try_nodes(unplaced, ports);
        let Trials { harmless, violating, .. } = runs;
        if !harmless.is_empty() || !violating.is_empty() {
            let candidates = harmless.into_iter().chain(violating).collect();
            return PostFiltered::Found(match unplaced.rooms {
                ExtenderCandidates::All => candidates,
                ExtenderCandidates::Free | ExtenderCandidates::Answered { .. } => {
                    choice::best(candidates, unplaced.now)
                }
            });
        }
        if let Some(error) = aggregate(&runs.errors) {
            return PostFiltered::Failed(CycleError(format!("preemption: {error}")));
        }
        in_vain(unplaced, runs.reasons, runs.hopeless, runs.preemption_blockers)
    }
}

impl PostFilterPlugin for DefaultPreemption {
    fn name(&self) -> PluginName {
        NAME
    }

    fn post_filter<'a>(&self, unplaced: &Unplaced<'a>) -> PostFiltered<'a> {
        self.find(unplaced, Ports::AsUpstream)
    }

    fn holds<'a>(&self, unplaced: &Unplaced<'a>, candidate: &Candidate<'a>) -> bool {
        // The two dry runs differ only for a pod that requests a host port.
        unplaced.pod.ports.is_empty() || dry_run::still_helps(unplaced, candidate, Ports::Counted)
    }

    fn post_filter_to_hold<'a>(&self, unplaced: &Unplaced<'a>) -> PostFiltered<'a> {
        self.find(unplaced, Ports::Counted)
    }

    fn post_filter_again<'a>(&self, unplaced: &Unplaced<'a>, known: &mut DryRuns) -> PostFiltered<'a> {
        if limited_by_group(unplaced).is_some() {
            return self.post_filter(unplaced);
        }
        self.again(unplaced, known).unwrap_or_else(|| self.post_filter(unplaced))
    }
}

/// Whether no pod has a priority low enough to be preempted, which is common: no dry run is needed.
fn finds_nobody(unplaced: &Unplaced<'_>, groups: &GroupVictims<'_>) -> bool {
    groups.lowest_priority().is_none_or(|lowest| unplaced.pod.priority <= lowest)
}

/// Draws the node at which the search begins.
fn first(unplaced: &Unplaced<'_>, nodes: usize) -> usize {
    let Draws { seed, attempt } = unplaced.draws;
    seed.draw(Purpose::PreemptionStart, &unplaced.pod.uid, u64::from(attempt), nodes)
}

/// Returns the result without candidates: counts these reasons; preemption could not have helped on the other
/// nodes.
fn in_vain<'a>(
    unplaced: &Unplaced<'_>,
    mut reasons: Histogram,
    hopeless: usize,
    preemption_blockers: BTreeSet<PluginName>,
) -> PostFiltered<'a> {
    let all = unplaced.snapshot.node_count();
    reasons.add_times(NOT_HELPFUL.into(), all - hopeless);
    nothing(&reasons.message(all), true, preemption_blockers)
}

/// Returns the best candidate that extenders left. If state `changed` since the dry runs, candidates that no
/// longer hold are dropped.
fn best_accepted<'a>(
    unplaced: &Unplaced<'a>,
    rooms: &[ExtenderCandidate],
    changed: bool,
    ports: Ports,
) -> PostFiltered<'a> {
    let snapshot = unplaced.snapshot;
    let candidate = |room: &ExtenderCandidate| {
        let node = snapshot.find_node(room.node)?;
        let on_node = |uid: &Uid| snapshot.pods_on(node).find(|pod| pod.uid == *uid);
        // Only a member of a group may be on another node.
        let member = |uid: &Uid| snapshot.placed(uid).filter(|pod| pod.group.is_some());
        let victim = |uid: &Uid| on_node(uid).or_else(|| member(uid));
        let victims: Option<Vec<_>> = room.victims.iter().map(victim).collect();
        Some(Candidate { node, victims: victims?, violations: room.violations })
    };
    let mut candidates: Vec<Candidate<'a>> = rooms.iter().filter_map(candidate).collect();
    let is_to_be_tried = changed || ports == Ports::Counted;
    candidates.retain(|candidate| !is_to_be_tried || dry_run::still_helps(unplaced, candidate, ports));
    if candidates.is_empty() {
        return nothing(NO_CANDIDATE, false, [extender::NAME].into());
    }
    PostFiltered::Found(choice::best(candidates, unplaced.now))
}

fn nothing<'a>(
    reason: &str,
    clear_nomination: bool,
    preemption_blockers: BTreeSet<PluginName>,
) -> PostFiltered<'a> {
    let reason = format!("preemption: {reason}");
    PostFiltered::Nothing { reason, clear_nomination, preemption_blockers, deallocated: None }
}

/// Returns why the pod may not preempt (upstream `PodEligibleToPreemptOthers`).
///
/// A pod with terminating victims waits for them, unless its nominated node became unresolvable.
fn ineligible(unplaced: &Unplaced<'_>) -> Option<&'static str> {
    let (pod, snapshot) = (unplaced.pod, unplaced.snapshot);
    if pod.never_preempts {
        return Some(NEVER);
    }
    let node = pod.nominated_node.and_then(|name| snapshot.find_node(name))?;
    let (mut pods, groups) = (snapshot.pods_on(node), GroupVictims::of(snapshot));
    let waits = unplaced.curable.contains(node)
        && pods.any(|other| other.deleting && other.preempted && groups.priority(other) < pod.priority);
    waits.then_some(VICTIM_TERMINATING)
}

/// Returns why a member of a group may not preempt by itself (upstream `DefaultPreemption.PostFilter`).
fn limited_by_group(unplaced: &Unplaced<'_>) -> Option<&'static str> {
    let key = unplaced.pod.group_key()?;
    let gates = unplaced.snapshot.rules().groups;
    if gates.topology {
        match unplaced.snapshot.lookups().group(key) {
            None => return Some(NO_GROUP),
            Some(group) if group.topology.is_some() => return Some(BY_PLACEMENT),
            Some(_) => {}
        }
    }
    gates.preemption.then_some(BY_GROUP)
}

/// Joins distinct errors to one text (upstream `apimachinery/pkg/util/errors#Aggregate`).
fn aggregate(errors: &[String]) -> Option<String> {
    let mut distinct: Vec<&str> = Vec::new();
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        more => Some(format!("[{}]", more.join(", "))),
    }
}

/// The results of the dry runs so far.
struct Trials<'a> {
    enough: usize,
    /// Candidates that violate no disruption budget. Both lists are limited to the sufficient number.
    harmless: Vec<Candidate<'a>>,
    violating: Vec<Candidate<'a>>,
    reasons: Histogram,
    /// Number of nodes that are no candidates.
    hopeless: usize,
    preemption_blockers: BTreeSet<PluginName>,
    errors: Vec<String>,
}

impl<'a> Trials<'a> {
    fn new(enough: usize) -> Self {
        Self {
            enough,
            harmless: Vec::new(),
            violating: Vec::new(),
            reasons: Histogram::default(),
            hopeless: 0,
            preemption_blockers: BTreeSet::new(),
            errors: Vec::new(),
        }
    }

    fn add(&mut self, tried: DryRunOutcome<'a>) {
        match tried {
            DryRunOutcome::Candidate(candidate) => {
                let list = if candidate.violations == 0 { &mut self.harmless } else { &mut self.violating };
                if list.len() < self.enough {
                    list.push(candidate);
                }
            }
            DryRunOutcome::Hopeless(reasons, plugin) => {
                self.reasons.add(&reasons);
                self.preemption_blockers.extend(plugin);
                self.hopeless += 1;
            }
            DryRunOutcome::Failed(CycleError(text)) => {
                self.errors.push(text);
                self.hopeless += 1;
            }
        }
    }

    fn are_enough(&self) -> bool {
        !self.harmless.is_empty() && self.harmless.len() + self.violating.len() >= self.enough
    }
}
