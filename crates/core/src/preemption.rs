//! DefaultPreemption's algorithm: which node could take a pod if less important pods went, and which pods those are.
//!
//! Only decides: it evicts nobody and nominates nobody, and asks no extender: what extenders say comes with the pod.
//! Upstream: `pkg/scheduler/framework/preemption/preemption.go`,
//! `pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`.

mod again;
mod budgets;
mod choice;
mod dry_run;
mod importance;
mod sort;

use crate::extender::{self, Room};
use crate::framework::dry_runs::DryRuns;
use crate::framework::histogram::Histogram;
use crate::framework::post_filter::{Candidate, Draws, PostFilterPlugin, PostFiltered, Rooms, Unplaced};
use crate::framework::{CycleError, PluginName};
use crate::pod::Uid;
use crate::rng::Purpose;
use dry_run::{Ports, Tried};
use std::collections::BTreeSet;

/// Upstream's name of the plugin.
pub const NAME: PluginName = "DefaultPreemption";

const NEVER: &str = "not eligible due to preemptionPolicy=Never.";
const VICTIM_TERMINATING: &str = "not eligible due to a terminating pod on the nominated node.";
const NO_CANDIDATE: &str = "no candidate node for preemption";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// `DefaultPreemptionArgs`: how many candidates make a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultPreemptionArgs {
    /// `minCandidateNodesPercentage`: this share of the nodes on which preemption may help.
    pub min_candidate_nodes_percentage: u32,
    /// `minCandidateNodesAbsolute`: at least this many of them.
    pub min_candidate_nodes_absolute: u32,
}

impl Default for DefaultPreemptionArgs {
    fn default() -> Self {
        Self { min_candidate_nodes_percentage: 10, min_candidate_nodes_absolute: 100 }
    }
}

impl DefaultPreemptionArgs {
    /// How many candidates are enough where preemption may help on `nodes` nodes.
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
    /// The plugin with arguments.
    pub fn new(args: DefaultPreemptionArgs) -> Self {
        Self { args }
    }

    /// Thinks away the less important pods of one node after the other, from a drawn one on, until there are enough
    /// candidates and one of them breaks no disruption budget.
    fn try_nodes<'a>(&self, unplaced: &Unplaced<'a>, ports: Ports) -> Trials<'a> {
        let nodes = unplaced.curable.len();
        let mut runs = Trials::new(self.args.enough(nodes));
        if nodes == 0 {
            return runs;
        }
        if finds_nobody(unplaced) {
            runs.reasons.add_times(dry_run::NO_VICTIMS.into(), nodes);
            runs.hopeless = nodes;
            return runs;
        }
        for node in unplaced.curable.iter_from_nth(first(unplaced, nodes)) {
            runs.add(dry_run::try_node(unplaced, node, ports));
            if runs.are_enough() {
                break;
            }
        }
        runs
    }

    fn find<'a>(&self, unplaced: &Unplaced<'a>, ports: Ports) -> PostFiltered<'a> {
        if let Some(reason) = ineligible(unplaced) {
            return nothing(reason, false, BTreeSet::new());
        }
        if let Rooms::Said { rooms, changed } = unplaced.rooms {
            return match rooms {
                Ok(rooms) => said(unplaced, rooms, changed, ports),
                Err(why) => PostFiltered::Failed(CycleError(format!("preemption: {why}"))),
            };
        }
        let runs = self.try_nodes(unplaced, ports);
        let Trials { harmless, violating, .. } = runs;
        if !harmless.is_empty() || !violating.is_empty() {
            let candidates = harmless.into_iter().chain(violating).collect();
            return PostFiltered::Found(match unplaced.rooms {
                Rooms::All => candidates,
                Rooms::Free | Rooms::Said { .. } => choice::best(candidates, unplaced.now),
            });
        }
        if let Some(error) = aggregate(&runs.errors) {
            return PostFiltered::Failed(CycleError(format!("preemption: {error}")));
        }
        in_vain(unplaced, runs.reasons, runs.hopeless, runs.hindered_by)
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
        // The two dry runs differ only for a pod that wants a host port.
        unplaced.pod.ports.is_empty() || dry_run::still_helps(unplaced, candidate, Ports::Counted)
    }

    fn post_filter_to_hold<'a>(&self, unplaced: &Unplaced<'a>) -> PostFiltered<'a> {
        self.find(unplaced, Ports::Counted)
    }

    fn post_filter_again<'a>(&self, unplaced: &Unplaced<'a>, known: &mut DryRuns) -> PostFiltered<'a> {
        self.again(unplaced, known).unwrap_or_else(|| self.post_filter(unplaced))
    }
}

/// Whether all pods have a priority for which the pod sends nobody away, which is common: there is nobody to look for.
fn finds_nobody(unplaced: &Unplaced<'_>) -> bool {
    unplaced.snapshot.lowest_priority().is_none_or(|lowest| unplaced.pod.priority <= lowest)
}

/// At which of so many nodes the search begins.
fn first(unplaced: &Unplaced<'_>, nodes: usize) -> usize {
    let Draws { seed, attempt } = unplaced.draws;
    seed.draw(Purpose::PreemptionStart, &unplaced.pod.uid, u64::from(attempt), nodes)
}

/// No node is a candidate: so many are none for these reasons, and preemption could not have helped on the others.
fn in_vain<'a>(
    unplaced: &Unplaced<'_>,
    mut reasons: Histogram,
    hopeless: usize,
    hindered_by: BTreeSet<PluginName>,
) -> PostFiltered<'a> {
    let all = unplaced.snapshot.nodes().len();
    reasons.add_times(NOT_HELPFUL.into(), all - hopeless);
    nothing(&reasons.message(all), true, hindered_by)
}

/// The best of what extenders left. What changed since the dry runs may have made a room too small; that one is none then.
fn said<'a>(unplaced: &Unplaced<'a>, rooms: &[Room], changed: bool, ports: Ports) -> PostFiltered<'a> {
    let snapshot = unplaced.snapshot;
    let candidate = |room: &Room| {
        let node = snapshot.find_node(room.node)?;
        let on_node = |uid: &Uid| snapshot.pods_on(node).find(|pod| pod.uid == *uid);
        let victims: Option<Vec<_>> = room.victims.iter().map(on_node).collect();
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

fn nothing<'a>(reason: &str, clear_nomination: bool, hindered_by: BTreeSet<PluginName>) -> PostFiltered<'a> {
    PostFiltered::Nothing { reason: format!("preemption: {reason}"), clear_nomination, hindered_by }
}

/// Why the pod may not preempt (upstream `PodEligibleToPreemptOthers`). A pod whose victims are on their way out waits
/// for them, unless nothing can help on its nominated node any more.
fn ineligible(unplaced: &Unplaced<'_>) -> Option<&'static str> {
    let (pod, snapshot) = (unplaced.pod, unplaced.snapshot);
    if pod.never_preempts {
        return Some(NEVER);
    }
    let node = pod.nominated_node.and_then(|name| snapshot.find_node(name))?;
    let mut pods = snapshot.pods_on(node);
    let waits = unplaced.curable.contains(node)
        && pods.any(|other| other.priority < pod.priority && other.deleting && other.preempted);
    waits.then_some(VICTIM_TERMINATING)
}

/// Several errors as one text, each once (upstream `apimachinery/pkg/util/errors#Aggregate`).
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

/// What the dry runs came to so far.
struct Trials<'a> {
    enough: usize,
    /// Candidates that break no disruption budget. Neither list takes more than are enough.
    harmless: Vec<Candidate<'a>>,
    violating: Vec<Candidate<'a>>,
    reasons: Histogram,
    /// Nodes that are no candidates.
    hopeless: usize,
    hindered_by: BTreeSet<PluginName>,
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
            hindered_by: BTreeSet::new(),
            errors: Vec::new(),
        }
    }

    fn add(&mut self, tried: Tried<'a>) {
        match tried {
            Tried::Candidate(candidate) => {
                let list = if candidate.violations == 0 { &mut self.harmless } else { &mut self.violating };
                if list.len() < self.enough {
                    list.push(candidate);
                }
            }
            Tried::Hopeless(reasons, plugin) => {
                self.reasons.add(&reasons);
                self.hindered_by.extend(plugin);
                self.hopeless += 1;
            }
            Tried::Failed(CycleError(text)) => {
                self.errors.push(text);
                self.hopeless += 1;
            }
        }
    }

    fn are_enough(&self) -> bool {
        !self.harmless.is_empty() && self.harmless.len() + self.violating.len() >= self.enough
    }
}
