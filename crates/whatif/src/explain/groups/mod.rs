//! Explains why a pod group starts or waits: its members, the topology domain that comes closest, the members that fit
//! nowhere, and verified fixes.
//!
//! The engine decides on the group as a cycle of the scheduler does; nothing is decided here.

mod answer;
mod changes;

pub use answer::{Domain, GroupExplanation, GroupVerdict, Short};

use crate::explain::answer::API_VERSION;
use crate::explain::changes::Case;
use crate::explain::device_claims::publish;
use crate::explain::format::count;
use crate::explain::place::Place;
use crate::explain::{Explanation, Group, ReasonCode, Rejections, Verdict, groups, rejections};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::cycle::NoProbe;
use supercargo_core::model::group::{GroupKey, GroupPolicy, PodGroup};
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_core::plugins::scheduling_gates;
use supercargo_core::report::group::GroupOutcome;
use supercargo_core::scheduler::{GroupDecision, TrialDecision, TrialOptions};

/// `kind` of the explanation.
const KIND: &str = "PodGroupExplanation";
/// Maximum number of topology domains that are listed.
const DOMAINS_MAX: usize = 10;
/// Maximum number of different members that are explained. Each costs one evaluation of every node.
const SHORT_MAX: usize = 10;
/// Maximum number of names of equal members.
const EXAMPLES_MAX: usize = 3;

/// The members of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    pub(crate) bound: Vec<(Arc<PodInfo>, Symbol)>,
    /// Those that the scheduler tries, in the order of the input.
    pub(crate) waiting: Vec<Arc<PodInfo>>,
    pub(crate) gated: Vec<Arc<PodInfo>>,
    deleting: usize,
}

impl Members {
    /// Returns the members of a group.
    pub(crate) fn of(place: &Place<'_>, key: GroupKey) -> Self {
        let is_member = |pod: &PodInfo| pod.group_key() == Some(key);
        let placed = place.trial.placed_pods().filter(|(pod, _)| is_member(pod));
        let counts_all = place.snapshot().copies_defects();
        let (placed, terminating): (Vec<_>, Vec<_>) =
            placed.partition(|(pod, _)| counts_all || !pod.deleting);
        let mut bound: Vec<(Arc<PodInfo>, Symbol)> =
            placed.into_iter().map(|(pod, node)| (Arc::clone(pod), node)).collect();
        bound.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        let mut members = Self { bound, deleting: terminating.len(), ..Self::default() };
        for pod in place.pending.iter().filter(|pod| is_member(pod)) {
            let gate = || place.framework(pod).gate(pod, place.snapshot());
            if pod.deleting {
                members.deleting += 1;
            } else if gate() == Some(scheduling_gates::NAME) {
                members.gated.push(Arc::clone(pod));
            } else {
                members.waiting.push(Arc::clone(pod));
            }
        }
        members
    }

    /// Returns the number of all members.
    pub(crate) fn len(&self) -> usize {
        self.bound.len() + self.waiting.len() + self.gated.len() + self.deleting
    }
}

/// The explanation of a group, with what was decided about each member.
pub struct ExplainedGroup {
    /// The explanation.
    pub explanation: GroupExplanation,
    decided: GroupDecision,
}

impl ExplainedGroup {
    /// Words the state of a pod without a node that is a member of the group: it waits if the group does not start.
    pub fn apply_to(&self, pod: &PodInfo, answer: &mut Explanation) {
        let is_tried = [Verdict::FitsNow, Verdict::Blocked, Verdict::NeverFits, Verdict::WaitsForPreemption];
        if !is_tried.contains(&answer.verdict) {
            return;
        }
        let own = self.decided.members.iter().find(|(member, _)| member.uid == pod.uid);
        let is_placed = matches!(own, Some((_, TrialDecision::Placed { .. })));
        match own {
            Some((_, TrialDecision::Unplaced { event, .. })) => answer.event = Some(event.clone()),
            Some((_, TrialDecision::Failed(text))) => answer.event = Some(text.clone()),
            _ => {}
        }
        let GroupExplanation { group, summary, .. } = &self.explanation;
        if answer.verdict != Verdict::FitsNow {
            answer.summary = format!("{}. It is a member of {group}: {summary}", answer.summary);
        } else if !is_placed {
            answer.verdict = Verdict::WaitsForGroup;
            let nodes = count(answer.fits_on, "node");
            answer.summary =
                format!("it waits for its group {group}: {summary}. Alone, the pod would fit on {nodes}");
        }
    }
}

/// Decides on the members that wait, and assumes those of a group that starts.
pub(crate) fn decide(
    place: &mut Place<'_>,
    key: GroupKey,
    waiting: &[Arc<PodInfo>],
    preempts: bool,
) -> GroupDecision {
    let options = TrialOptions { uses_caches: true, preempts, is_comparable: false };
    place.trial.decide_group(key, waiting, options, &mut NoProbe)
}

/// Decides on members together, and assumes those of a group that starts on their nodes, which it returns.
pub(crate) fn settle(place: &mut Place<'_>, key: GroupKey, pods: &[Arc<PodInfo>]) -> BTreeMap<Uid, NodeIdx> {
    let decided = decide(place, key, pods, false);
    let mut nodes = BTreeMap::new();
    for (pod, decision) in decided.members {
        if let TrialDecision::Placed { node, .. } = decision {
            publish(place.trial, &pod);
            nodes.extend(place.snapshot().find_node(node).map(|node| (Arc::clone(&pod.uid), node)));
        }
    }
    nodes
}

/// Explains a group. The cache is the same afterwards.
pub fn explain_group(place: &mut Place<'_>, key: GroupKey) -> ExplainedGroup {
    place.trial.refreshed();
    let group = place.snapshot().lookups().group(key).cloned();
    let members = Members::of(place, key);
    let decided = place.reverted(|place| decide(place, key, &members.waiting, true));
    let mut answer = blank(place, key, group.as_ref(), &members);
    domains(&decided, &mut answer);
    answer.status.clone_from(&decided.status);
    answer.fits = answer.domains.first().map_or(decided.nodes.len(), |domain| domain.fits);
    answer.lacks = lacks(&answer, answer.fits);
    answer.victims = victims(place, &decided);
    let replaces = answer.was_scheduled && !place.snapshot().copies_defects();
    answer.verdict = verdict(&members, &decided, &answer, replaces);
    let given_up = group.as_ref().filter(|_| !place.snapshot().copies_defects()).and_then(|it| it.given_up());
    if let Some(message) = given_up.filter(|_| answer.verdict != GroupVerdict::Started) {
        (answer.verdict, answer.status) = (GroupVerdict::GivenUp, message.to_owned());
    }
    let cases = match answer.verdict {
        GroupVerdict::NoGroup
        | GroupVerdict::TooFewMembers
        | GroupVerdict::Failed
        | GroupVerdict::GivenUp => Vec::new(),
        _ => short(place, &members, &decided, &mut answer),
    };
    let least = minimum(&answer);
    let may_never_fit = answer.verdict == GroupVerdict::Blocked
        && decided.outcome == GroupOutcome::Unschedulable
        && (answer.topology_key.is_none() || answer.domain_count > 0)
        && !may_pass(&answer)
        && answer.bound + answer.waiting + answer.gated >= least;
    let fits_at_most = if may_never_fit { fits_when_empty(place, key, &members) } else { least };
    if fits_at_most < least {
        answer.verdict = GroupVerdict::NeverFits;
    }
    summarize(&mut answer, fits_at_most);
    if !answer.verdict.is_well() {
        answer.changes = changes::find(place, key, &members, &answer, cases);
    }
    ExplainedGroup { explanation: answer, decided }
}

fn blank(place: &Place<'_>, key: GroupKey, group: Option<&PodGroup>, members: &Members) -> GroupExplanation {
    let tables = place.tables();
    let min_count = group.and_then(|group| match group.policy {
        GroupPolicy::Gang(min) => Some(min),
        GroupPolicy::Basic => None,
    });
    let key_of = |group: &PodGroup| group.topology.as_ref()?.first().copied();
    GroupExplanation {
        api_version: API_VERSION,
        kind: KIND,
        group: format!("{}/{}", tables.text(key.namespace), tables.text(key.name)),
        verdict: GroupVerdict::Blocked,
        summary: String::new(),
        policy: group.map(|_| if min_count.is_some() { "Gang" } else { "Basic" }),
        min_count,
        was_scheduled: group.and_then(|group| group.scheduled.as_ref()).is_some_and(|shown| shown.is_true),
        members: members.len(),
        bound: members.bound.len(),
        waiting: members.waiting.len(),
        gated: members.gated.len(),
        deleting: members.deleting,
        fits: 0,
        lacks: 0,
        topology_key: group
            .and_then(key_of)
            .filter(|_| tables.rules().groups.topology)
            .map(|key| tables.text(key).to_owned()),
        domains: Vec::new(),
        domain_count: 0,
        closest: None,
        short: Vec::new(),
        victims: Vec::new(),
        status: String::new(),
        changes: Vec::new(),
    }
}

/// Returns the number of members that must have a node together.
fn minimum(of: &GroupExplanation) -> usize {
    of.min_count.unwrap_or(1)
}

fn lacks(of: &GroupExplanation, fits: usize) -> usize {
    minimum(of).saturating_sub(of.bound + fits)
}

fn domains(decided: &GroupDecision, answer: &mut GroupExplanation) {
    let domain = |at: &supercargo_core::report::group::PlacementReport| Domain {
        name: at.name.clone(),
        nodes: at.nodes,
        fits: at.members.len(),
        lacks: lacks(answer, at.members.len()),
    };
    let mut domains: Vec<Domain> = decided.placements.iter().map(domain).collect();
    // The domain that the scheduler chooses comes first.
    let is_other = |of: &Domain| Some(&of.name) != decided.chosen.as_ref();
    domains.sort_by(|a, b| {
        (is_other(a), Reverse(a.fits), &a.name).cmp(&(is_other(b), Reverse(b.fits), &b.name))
    });
    answer.domain_count = domains.len();
    answer.closest = domains.first().map(|domain| domain.name.clone());
    domains.truncate(DOMAINS_MAX);
    answer.domains = domains;
}

fn victims(place: &Place<'_>, decided: &GroupDecision) -> Vec<String> {
    let placed = decided.victims.iter().filter_map(|uid| place.trial.placement(uid));
    let mut names: Vec<String> = placed.map(|(pod, _)| place.snapshot().pod_key(pod)).collect();
    names.sort_unstable();
    names
}

/// Returns the state of a group; `Blocked` also if it may never fit. A group that `replaces` members one by one needs
/// no others for that.
fn verdict(
    members: &Members,
    decided: &GroupDecision,
    answer: &GroupExplanation,
    replaces: bool,
) -> GroupVerdict {
    if answer.policy.is_none() {
        return GroupVerdict::NoGroup;
    }
    let minimum = minimum(answer);
    if members.bound.len() >= minimum {
        return GroupVerdict::Started;
    }
    let is_replacement = replaces && !members.bound.is_empty() && !members.waiting.is_empty();
    if members.len() < minimum && !is_replacement {
        return GroupVerdict::TooFewMembers;
    }
    if members.waiting.is_empty() {
        return GroupVerdict::Blocked;
    }
    match decided.outcome {
        GroupOutcome::Scheduled => GroupVerdict::StartsNow,
        GroupOutcome::WaitingForPreemption => GroupVerdict::WaitsForPreemption,
        GroupOutcome::Error | GroupOutcome::Refused => GroupVerdict::Failed,
        GroupOutcome::Unschedulable => GroupVerdict::Blocked,
    }
}

/// Returns whether members lack something that does not depend on the size of the cluster, and that may still come.
fn may_pass(of: &GroupExplanation) -> bool {
    let may_come = |reason: &Group| {
        let codes = [ReasonCode::ClaimNotReady, ReasonCode::VolumeUnavailable, ReasonCode::PodAffinityUnmet];
        codes.contains(&reason.code)
    };
    of.short.iter().any(|short| short.reasons.iter().any(may_come))
}

/// Returns how many members, gated ones included, fit together in an empty cluster: at least `minCount` if the group
/// can start there.
pub(crate) fn fits_when_empty(place: &mut Place<'_>, key: GroupKey, members: &Members) -> usize {
    let free = |pod: &Arc<PodInfo>| {
        let mut free = PodInfo { node_name: None, nominated_node: None, ..PodInfo::clone(pod) };
        free.gates = Box::default();
        Arc::new(free)
    };
    let bound = members.bound.iter().map(|(pod, _)| pod);
    let all: Vec<Arc<PodInfo>> = bound.chain(&members.waiting).chain(&members.gated).map(free).collect();
    place.when_empty(|place| most(&decide(place, key, &all, false)))
}

/// Returns the number of members that have a node, in the placement with most of them.
pub(crate) fn most(decided: &GroupDecision) -> usize {
    let in_placements = decided.placements.iter().map(|at| at.members.len());
    in_placements.max().unwrap_or(decided.nodes.len())
}

/// Returns the nodes of the members that fit in the closest domain.
fn nodes_of(
    place: &Place<'_>,
    members: &Members,
    decided: &GroupDecision,
    of: &GroupExplanation,
) -> BTreeMap<Uid, Symbol> {
    let at = decided.placements.iter().find(|at| Some(&at.name) == of.closest.as_ref());
    let Some(at) = at else { return decided.nodes.iter().cloned().collect() };
    let find = |name: &str| members.waiting.iter().find(|pod| &*pod.name == name);
    let node = |(pod, node): &(supercargo_core::model::effect::PodRef, String)| {
        Some((Arc::clone(&find(&pod.name)?.uid), place.tables().find(node)?))
    };
    at.members.iter().filter_map(node).collect()
}

/// Describes the members that are unschedulable once the others are placed. Returns the nodes that reject each of
/// them.
fn short(
    place: &mut Place<'_>,
    members: &Members,
    decided: &GroupDecision,
    answer: &mut GroupExplanation,
) -> Vec<(Arc<PodInfo>, Case)> {
    let nodes = nodes_of(place, members, decided, answer);
    let (placed, left): (Vec<_>, Vec<_>) =
        members.waiting.iter().cloned().partition(|pod| nodes.contains_key(&pod.uid));
    let mut kinds: Vec<Vec<Arc<PodInfo>>> = Vec::new();
    for pod in left {
        match kinds.iter_mut().find(|kind| are_alike(&kind[0], &pod)) {
            Some(kind) => kind.push(pod),
            None => kinds.push(vec![pod]),
        }
    }
    kinds.truncate(SHORT_MAX);
    let domain = answer.topology_key.clone().zip(answer.closest.clone());
    place.reverted(|place| {
        members.waiting.iter().for_each(|pod| place.trial.nominate(pod, None));
        for pod in &placed {
            place.trial.place_pod(pod, nodes[&pod.uid]);
        }
        place.trial.refreshed();
        let mut all = Vec::new();
        for kind in &kinds {
            let (reasons, cases) = reasons_in(place, &kind[0], domain.as_ref());
            if reasons.is_empty() {
                continue;
            }
            answer.short.push(Short {
                members: kind.len(),
                examples: kind.iter().take(EXAMPLES_MAX).map(|pod| place.snapshot().pod_key(pod)).collect(),
                reasons,
            });
            all.extend(cases.into_iter().map(|case| (Arc::clone(&kind[0]), case)));
        }
        all
    })
}

/// Returns why a pod fits on no node of the domain, and these nodes.
fn reasons_in(
    place: &Place<'_>,
    pod: &PodInfo,
    domain: Option<&(String, String)>,
) -> (Vec<Group>, Vec<Case>) {
    let mut cases = match rejections(place, pod) {
        Rejections::BeforeNodes(reasons) => return (reasons, Vec::new()),
        Rejections::OfNodes(cases) => cases,
    };
    if let Some((key, value)) = domain {
        let (key, value) = (place.tables().find(key), place.tables().find(value));
        cases.retain(|case| key.is_some_and(|key| place.snapshot().node_labels(case.node).get(key) == value));
    }
    (groups(place, &cases), cases)
}

/// Returns whether two members have the same scheduling requirements. Labels may differ, as by the index of a pod in
/// its Job.
fn are_alike(a: &PodInfo, b: &PodInfo) -> bool {
    a.template == b.template
        && a.node_affinity == b.node_affinity
        && a.volumes == b.volumes
        && a.claims == b.claims
}

/// Words the state. `fits_at_most` members fit in an empty cluster, if that is too few.
fn summarize(answer: &mut GroupExplanation, fits_at_most: usize) {
    let least = minimum(answer);
    let all = count(answer.members, "member");
    let have = |members: usize| if members == 1 { "has" } else { "have" };
    answer.summary = match answer.verdict {
        GroupVerdict::NoGroup => {
            format!("the PodGroup does not exist, and {all} {} until it is created", waits(answer.members))
        }
        GroupVerdict::TooFewMembers => {
            format!("it has {all} of at least {least}; {} must be created", more(least - answer.members))
        }
        GroupVerdict::Started if answer.bound == answer.members => {
            format!("all {all} {} a node", have(answer.members))
        }
        GroupVerdict::Started => {
            let of = count(answer.bound, "member");
            let rest = format!("of {} without one {} {} now", answer.waiting, answer.fits, fit(answer.fits));
            format!("{of} of at least {least} {} a node; {rest}", have(answer.bound))
        }
        GroupVerdict::StartsNow => format!(
            "{} of at least {least} {} now{}. If they stay pending, the scheduler has not processed them yet",
            count(answer.fits + answer.bound, "member"),
            fit(answer.fits + answer.bound),
            place_of(answer)
        ),
        GroupVerdict::WaitsForPreemption => format!(
            "it starts once {} {} gone; the scheduler preempts and waits for termination",
            count(answer.victims.len(), "lower-priority pod"),
            if answer.victims.len() == 1 { "is" } else { "are" }
        ),
        GroupVerdict::NeverFits => {
            let one = if answer.topology_key.is_some() { " in one topology domain" } else { "" };
            let members = count(fits_at_most, "member");
            format!("even in an empty cluster, only {members} of at least {least} {}{one}", fit(fits_at_most))
        }
        GroupVerdict::Failed | GroupVerdict::GivenUp => answer.status.clone(),
        GroupVerdict::Blocked => blocked(answer, least),
    };
    if answer.was_scheduled && answer.bound < least {
        let left = format!("it was scheduled once, and {} {} a node now", answer.bound, have(answer.bound));
        answer.summary = format!("{}; {left}", answer.summary);
    }
}

fn blocked(answer: &GroupExplanation, least: usize) -> String {
    let may = answer.bound + answer.waiting;
    let gated = answer.gated + answer.deleting;
    if may < least && gated > 0 {
        let not = format!(
            "{} {} gated or being deleted",
            count(gated, "member"),
            if gated == 1 { "is" } else { "are" }
        );
        return format!("{not}, so only {may} of at least {least} may be scheduled");
    }
    if let (Some(key), None) = (&answer.topology_key, &answer.closest) {
        return format!("no node has the label {key}, which the group requires");
    }
    let together = answer.fits + answer.bound;
    format!(
        "{} of at least {least} {} now{}; {} must fit",
        count(together, "member"),
        fit(together),
        place_of(answer),
        more(answer.lacks)
    )
}

fn place_of(of: &GroupExplanation) -> String {
    let (Some(key), Some(name)) = (&of.topology_key, &of.closest) else { return String::new() };
    match (of.verdict, of.domain_count) {
        (GroupVerdict::StartsNow, _) | (_, 1) => format!(" in {key}={name}"),
        (_, domains) => format!(" in {key}={name}, the closest of {domains} domains"),
    }
}

fn more(members: usize) -> String {
    format!("{members} more")
}

fn fit(members: usize) -> &'static str {
    if members == 1 { "fits" } else { "fit" }
}

fn waits(members: usize) -> &'static str {
    if members == 1 { "waits" } else { "wait" }
}
