//! Decisions with extenders: the answers so far are a transcript, and every new answer repeats the decision.
//!
//! So a waiting decision holds no state but the transcript. Nodes that changed meanwhile are filtered again. The
//! chosen node passes the filters now, and passed the extenders when they were called.
//!
//! Nothing here calls an extender: the result lists the calls to make. Upstream:
//! `pkg/scheduler/schedule_one.go#findNodesThatPassExtenders`, `#prioritizeNodes`,
//! `pkg/scheduler/framework/preemption/preemption.go#callExtenders`.

use super::{Feasible, Filtered, Framework, NoProbe, Options, Point, Probe};
use crate::cache::Snapshot;
use crate::framework::{CycleError, Rejection};
use crate::model::extender::{
    CandidateAnswer, Extender, ExtenderCandidate, ExtenderId, FilterAnswer, SCORE_FACTOR,
};
use crate::model::intern::{Marks, Symbol, Tables, TraceIds, trace_ids};
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::switches::mutation::{self, Mutation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The rejections of one pod's nodes by extenders.
#[derive(Default)]
pub(super) struct ExtenderRejections {
    /// Rejections by node name. The node may not exist.
    pub(super) failed: BTreeMap<String, Rejection>,
    /// Whether extenders rejected nodes that passed the plugins.
    pub(super) dropped: bool,
}

impl ExtenderRejections {
    pub(super) fn contains(&self, node: NodeIdx, snapshot: Snapshot<'_>) -> bool {
        !self.failed.is_empty() && self.failed.contains_key(snapshot.text(snapshot.node_info(node).name))
    }
}

/// A call to make to an extender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtenderRequest {
    /// The extender to call.
    pub extender: ExtenderId,
    /// The request.
    pub kind: RequestKind,
}

/// A request to an extender about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Which of the nodes are feasible.
    Filter {
        /// Whether the request is about the pod's nominated node alone, before all other nodes.
        alone: bool,
        /// The nodes.
        nodes: Vec<Symbol>,
    },
    /// Scores of the nodes.
    Prioritize {
        /// The nodes.
        nodes: Vec<Symbol>,
    },
    /// Which preemption candidates are acceptable.
    Preempt,
}

/// The answer of an extender that filters.
struct FilterVerdict {
    kept: BTreeSet<Symbol>,
    failed: BTreeMap<String, Rejection>,
    asked: BTreeSet<Symbol>,
}

/// The answer of an extender that scores, times its weight.
struct Prioritized {
    asked: BTreeSet<Symbol>,
    scores: BTreeMap<Symbol, i64>,
}

/// The answers of extenders about a pod so far.
#[derive(Default)]
pub struct ExtenderAnswers {
    alone: BTreeMap<ExtenderId, Result<FilterVerdict, String>>,
    all: BTreeMap<ExtenderId, Result<FilterVerdict, String>>,
    /// `None` for an extender that failed; the decision continues without its scores.
    scores: BTreeMap<ExtenderId, Option<Prioritized>>,
    /// The extenders that were called about preemption.
    called_for_preemption: BTreeSet<ExtenderId>,
    /// The candidates that remain after the extenders called so far, or the error that prevents a preemption.
    rooms: Option<Result<Vec<ExtenderCandidate>, String>>,
    /// The start of the sampled search; each repetition starts there again.
    pub(crate) start: Option<usize>,
}

/// The result of a decision, given the answers so far.
pub enum ExtendedDecision {
    /// These calls must be made first; they may run in parallel.
    Call(Vec<ExtenderRequest>),
    /// No extender was called about the remaining nodes; the transcript must start over.
    Stale,
    /// At least one node is feasible.
    Feasible(Feasible),
    /// No node is feasible.
    Infeasible(Filtered),
}

/// The result of the chain of extenders that filter.
enum ChainResult {
    Call(ExtenderRequest),
    /// The remaining nodes, and whether the chain dropped nodes that it was not called about.
    Remaining(NodeSet, bool),
}

impl ExtenderAnswers {
    fn is_empty(&self) -> bool {
        self.alone.is_empty() && self.all.is_empty() && self.scores.is_empty()
    }

    /// Records the answer or error of an extender that filters. A node that was not in the request makes the whole
    /// answer an error.
    pub fn filtered(
        &mut self,
        by: &Extender,
        (alone, nodes): (bool, &[Symbol]),
        answer: Result<FilterAnswer, String>,
        tables: &Tables,
    ) {
        let parsed = answer.and_then(|answer| {
            let asked: BTreeSet<Symbol> = nodes.iter().copied().collect();
            let kept = answer.passed.iter().map(|name| {
                tables.find(name).filter(|node| asked.contains(node)).ok_or_else(|| {
                    let url = &by.url;
                    format!("extender {url:?} claims a filtered node {name:?} which is not found in the input node list")
                })
            });
            let kept = kept.collect::<Result<_, _>>()?;
            let mut failed: BTreeMap<String, Rejection> = BTreeMap::new();
            failed.extend(answer.failed.into_iter().map(|(node, why)| (node, Rejection::unschedulable(why))));
            let unresolvable = answer.unresolvable.into_iter();
            failed.extend(unresolvable.map(|(node, why)| (node, Rejection::unresolvable(why))));
            Ok(FilterVerdict { kept, failed, asked })
        });
        let to = if alone { &mut self.alone } else { &mut self.all };
        to.insert(by.id, parsed);
    }

    /// Records the answer or error of an extender that scores.
    pub fn scored(
        &mut self,
        by: &Extender,
        nodes: &[Symbol],
        answer: Result<Vec<(String, i64)>, String>,
        tables: &Tables,
    ) {
        let parsed = answer.ok().map(|list| {
            let mut scores = BTreeMap::<Symbol, i64>::new();
            for (name, score) in list {
                let Some(node) = tables.find(&name) else { continue };
                let score = score.saturating_mul(by.weight).saturating_mul(SCORE_FACTOR);
                let total = scores.entry(node).or_default();
                *total = total.saturating_add(score);
            }
            Prioritized { asked: nodes.iter().copied().collect(), scores }
        });
        self.scores.insert(by.id, parsed);
    }

    /// Records the answer or error of an extender about preemption.
    pub fn made_room(
        &mut self,
        by: &Extender,
        pod: &PodInfo,
        answer: Result<Vec<CandidateAnswer>, String>,
        snapshot: Snapshot<'_>,
    ) {
        self.called_for_preemption.insert(by.id);
        let before = match &self.rooms {
            Some(Ok(rooms)) => rooms.clone(),
            Some(Err(_)) | None => return,
        };
        let parsed = answer.and_then(|rooms| {
            let known = rooms.into_iter().map(|room| validate_answer(by, pod, room, &before, snapshot));
            known.collect::<Result<Vec<ExtenderCandidate>, String>>()
        });
        match parsed {
            Err(_) if by.ignorable => {}
            Err(why) => self.rooms = Some(Err(why)),
            Ok(mut rooms) => {
                let empty = rooms.iter().find(|room| room.victims.is_empty());
                if let Some(empty) = empty.filter(|_| !by.ignorable) {
                    let node = snapshot.text(empty.node);
                    self.rooms = Some(Err(format!("expected at least one victim pod on node {node:?}")));
                    return;
                }
                rooms.retain(|room| !room.victims.is_empty());
                self.rooms = Some(Ok(rooms));
            }
        }
    }

    /// Returns the candidates that remain after the extenders called so far.
    pub fn rooms(&self) -> Option<&Result<Vec<ExtenderCandidate>, String>> {
        self.rooms.as_ref()
    }

    /// Records the candidates that the plugin found.
    pub fn note_rooms(&mut self, rooms: Vec<ExtenderCandidate>) {
        self.rooms = Some(Ok(rooms));
    }

    /// Returns the extender to call next about preemption.
    pub fn next_for_room(&self, extenders: &[&Extender]) -> Option<ExtenderId> {
        let asks = match &self.rooms {
            None => true,
            Some(Ok(rooms)) => !rooms.is_empty(),
            Some(Err(_)) => false,
        };
        let mut next =
            extenders.iter().filter(|it| it.preempts && !self.called_for_preemption.contains(&it.id));
        next.next().filter(|_| asks).map(|extender| extender.id)
    }

    /// Passes `nodes` through the extenders that filter, in order. Each is called about the nodes that the previous
    /// one kept.
    fn chain(
        &self,
        alone: bool,
        nodes: NodeSet,
        extenders: &[&Extender],
        snapshot: Snapshot<'_>,
        extender_rejections: &mut ExtenderRejections,
    ) -> Result<ChainResult, CycleError> {
        let answers = if alone { &self.alone } else { &self.all };
        let mut remaining = nodes;
        let mut unasked = false;
        for extender in extenders.iter().filter(|extender| extender.filters) {
            if remaining.is_empty() {
                break;
            }
            match answers.get(&extender.id) {
                None => {
                    let nodes = names(&remaining, snapshot);
                    let ask =
                        ExtenderRequest { extender: extender.id, kind: RequestKind::Filter { alone, nodes } };
                    return Ok(ChainResult::Call(ask));
                }
                Some(Err(_)) if extender.ignorable => {}
                Some(Err(why)) => return Err(CycleError(why.clone())),
                Some(Ok(answer)) => {
                    let known = answer.failed.iter().map(|(node, why)| (node.clone(), why.clone()));
                    extender_rejections.failed.extend(known);
                    remaining.retain(|node| {
                        let name = snapshot.node_info(node).name;
                        unasked |= !answer.asked.contains(&name);
                        answer.kept.contains(&name) || mutation::is_on(Mutation::ExtenderRejectionsIgnored)
                    });
                }
            }
        }
        Ok(ChainResult::Remaining(remaining, unasked))
    }

    /// Returns those of `nodes` that all scoring extenders were called about.
    fn scored_all(&self, nodes: &NodeSet, snapshot: Snapshot<'_>) -> NodeSet {
        let mut remaining = nodes.clone();
        for answer in self.scores.values().flatten() {
            remaining.retain(|node| answer.asked.contains(&snapshot.node_info(node).name));
        }
        remaining
    }

    /// Adds the extenders' scores to the totals of `nodes`, in slot order.
    fn add_scores(&self, nodes: &NodeSet, snapshot: Snapshot<'_>, totals: &mut [i64]) {
        for (node, total) in nodes.iter().zip(totals) {
            let name = snapshot.node_info(node).name;
            for answer in self.scores.values().flatten() {
                *total = total.saturating_add(answer.scores.get(&name).copied().unwrap_or(0));
            }
        }
    }
}

trace_ids!(FilterVerdict { kept, asked } but not { failed });
trace_ids!(Prioritized { asked, scores });
trace_ids!(ExtenderRequest { kind } but not { extender });
trace_ids!(ExtenderAnswers { alone, all, scores, rooms } but not { called_for_preemption, start });

impl TraceIds for RequestKind {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Filter { nodes, alone: _ } | Self::Prioritize { nodes } => nodes.mark(marks),
            Self::Preempt => {}
        }
    }
}

/// Checks an extender's answer for one node: it may only name existing pods of lower priority.
///
/// A victim of the request that is gone by now is accepted. It needs no eviction, which the next attempt finds.
fn validate_answer(
    by: &Extender,
    pod: &PodInfo,
    room: CandidateAnswer,
    before: &[ExtenderCandidate],
    snapshot: Snapshot<'_>,
) -> Result<ExtenderCandidate, String> {
    let CandidateAnswer { node: name, victims, violations } = room;
    let symbol = snapshot.tables().find(&name);
    let asked = before.iter().find(|room| Some(room.node) == symbol);
    let node = symbol.and_then(|name| snapshot.find_node(name));
    let Some(node_name) = symbol.filter(|_| node.is_some() || asked.is_some()) else {
        return Err(format!("nodeinfo not found for node name {name:?}"));
    };
    let mut known = Vec::with_capacity(victims.len());
    for uid in victims {
        if let Some(uid) = asked.and_then(|room| room.victims.iter().find(|victim| ***victim == *uid)) {
            known.push(Arc::clone(uid));
            continue;
        }
        let url = &by.url;
        let claim =
            format!("extender: {url} claims to preempt pod (UID: &{{{uid}}}) on node: {name}, but the pod");
        match node.and_then(|node| snapshot.pods_on(node).find(|other| *other.uid == *uid)) {
            None => return Err(format!("{claim} is not found on that node")),
            Some(victim) if victim.priority >= pod.priority => {
                return Err(format!("{claim} is not less important"));
            }
            Some(victim) => known.push(Arc::clone(&victim.uid)),
        }
    }
    Ok(ExtenderCandidate {
        node: node_name,
        victims: known,
        violations: usize::try_from(violations).unwrap_or(0),
    })
}

fn names(nodes: &NodeSet, snapshot: Snapshot<'_>) -> Vec<Symbol> {
    nodes.iter().map(|node| snapshot.node_info(node).name).collect()
}

impl Framework {
    /// Sets whether any extender filters or scores.
    #[must_use]
    pub fn with_extenders(mut self, any: bool) -> Self {
        self.extended = any;
        self
    }

    /// Decides as [`Self::decide`] does, with the answers so far of the extenders that handle the pod.
    ///
    /// # Errors
    ///
    /// If a plugin fails, or an extender that is not ignorable.
    pub fn decide_with(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        options: Options<'_>,
        (extenders, transcript): (&[&Extender], &ExtenderAnswers),
        probe: &mut dyn Probe,
    ) -> Result<ExtendedDecision, CycleError> {
        let mut no_probe = NoProbe;
        // Repetitions are not reported to the probe.
        let filter_probe: &mut dyn Probe = if transcript.is_empty() { &mut *probe } else { &mut no_probe };
        let mut filtered = self.prepare(pod, snapshot, filter_probe)?;
        if filtered.prefilter_rejection().is_some() {
            return Ok(ExtendedDecision::Infeasible(filtered));
        }
        let consulted = (extenders, transcript);
        let chained = self.filter_with(pod, snapshot, options, consulted, &mut filtered, filter_probe)?;
        let (remaining, unasked) = match chained {
            ChainResult::Call(ask) => return Ok(ExtendedDecision::Call(vec![ask])),
            ChainResult::Remaining(remaining, unasked) => (remaining, unasked),
        };
        let scored = transcript.scored_all(&remaining, snapshot);
        if scored.is_empty() && (unasked || !remaining.is_empty()) {
            return Ok(ExtendedDecision::Stale);
        }
        filtered.set_feasible(scored);
        if filtered.feasible().is_empty() {
            return Ok(ExtendedDecision::Infeasible(filtered));
        }
        if filtered.feasible().len() == 1 {
            return Ok(ExtendedDecision::Feasible(Feasible { filtered, scores: None }));
        }
        let score_probe: &mut dyn Probe = if transcript.scores.is_empty() { probe } else { &mut NoProbe };
        let mut scores = self.score(pod, snapshot, filtered.feasible(), score_probe)?;
        let unanswered =
            extenders.iter().filter(|it| it.prioritizes && !transcript.scores.contains_key(&it.id));
        let asks: Vec<ExtenderRequest> = unanswered
            .map(|extender| {
                let nodes = names(filtered.feasible(), snapshot);
                ExtenderRequest { extender: extender.id, kind: RequestKind::Prioritize { nodes } }
            })
            .collect();
        if !asks.is_empty() {
            return Ok(ExtendedDecision::Call(asks));
        }
        transcript.add_scores(filtered.feasible(), snapshot, &mut scores.totals);
        Ok(ExtendedDecision::Feasible(Feasible { filtered, scores: Some(scores) }))
    }

    /// Filters by plugins, then by extenders. The pod's nominated node is tried alone first.
    fn filter_with(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        options: Options<'_>,
        (extenders, transcript): (&[&Extender], &ExtenderAnswers),
        filtered: &mut Filtered,
        probe: &mut dyn Probe,
    ) -> Result<ChainResult, CycleError> {
        let nominated = pod.nominated_node.and_then(|name| snapshot.find_node(name));
        let mut rejected = None;
        if let Some(node) = nominated {
            let ran = filtered.run(pod, snapshot, [node].into_iter().collect(), probe);
            rejected = ran.is_ok().then_some(node);
            if ran.is_ok() && !filtered.feasible().is_empty() {
                let alone = filtered.feasible().clone();
                let extender_rejections = &mut filtered.extender_rejections;
                // If an extender fails for the nominated node, it is called about all nodes.
                match transcript.chain(true, alone, extenders, snapshot, extender_rejections) {
                    Ok(ChainResult::Remaining(remaining, _)) if remaining.is_empty() => {}
                    Ok(chained) => return Ok(chained),
                    Err(_) => {}
                }
            }
        }
        probe.enter(Point::Filter);
        let outcome = self.filter_all(pod, snapshot, options, rejected, filtered, probe);
        let found = outcome.is_ok() && !filtered.feasible().is_empty();
        let status = match &outcome {
            Err(_) => "Error",
            Ok(()) if found => "Success",
            Ok(()) => "Unschedulable",
        };
        probe.leave(Point::Filter, status);
        outcome?;
        let (passed, extender_rejections) = (filtered.feasible().clone(), &mut filtered.extender_rejections);
        let before = passed.len();
        let chained = transcript.chain(false, passed, extenders, snapshot, extender_rejections)?;
        if let ChainResult::Remaining(remaining, _) = &chained {
            extender_rejections.dropped = remaining.len() != before;
        }
        Ok(chained)
    }
}
