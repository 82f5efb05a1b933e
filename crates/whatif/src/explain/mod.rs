//! Explains why a pod is on its node or pending: every filter on every node, grouped and worded, with verified fixes.
//!
//! Works on a cluster in the engine's cache, from any source. It calls no API server, and reverts the changes it
//! tries out. Callers format the answer.

mod answer;
mod cel;
mod changes;
pub mod claims;
mod counted;
mod describe;
pub mod device_claims;
mod devices;
mod drain;
mod edit;
mod fit;
pub mod format;
mod groups;
pub mod lint;
mod place;
mod reason;
mod scores;
mod suggest;
#[cfg(test)]
mod tests;
mod volumes;

pub use answer::{
    API_VERSION, ByNode, Change, Explanation, Group, Hint, KIND, NearMiss, NodeScores, OfNode, PluginScore,
    Preemption, Rejection, Scores, Verdict,
};
pub use cel::{CheckedDevice, Checker, ExpressionCheck};
pub use changes::NEW_PODS;
pub use counted::{Counted, Tally};
pub use drain::{
    Accepted, Budget, BudgetState, BudgetStates, DrainCheck, GroupBelow, Leaving, Moved, Obstacle,
    ObstacleCode, drain_check,
};
pub(crate) use drain::{Protected, cordon, uncordon};
pub use fit::{FitCheck, GroupFit, OnNode, PreemptingFit, fit};
pub use groups::{Domain, ExplainedGroup, GroupExplanation, GroupVerdict, Short, explain_group};
pub use place::Place;
pub(crate) use place::node_like;
pub use reason::ReasonCode;
pub use scores::SCORES_MAX;

use crate::load::owner::Owner;
use changes::Case;
use devices::Holders;
use edit::Edit;
use reason::{Found, of_objection};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use suggest::Vocabulary;
use supercargo_core::cycle::{Decision, InfeasibleDecision, Nomination};
use supercargo_core::explain::{Findings, NodeFindings, Objection};
use supercargo_core::framework::Fact;
use supercargo_core::framework::post_filter::{Draws, ExtenderCandidates};
use supercargo_core::model::intern::{Symbol, Tables, known};
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;

/// Maximum number of nodes with a single obstacle that are listed.
pub const NEAR_MISSES_MAX: usize = 10;
/// Maximum number of node names per reason.
const EXAMPLES_MAX: usize = 5;
/// The taint of control plane nodes.
const CONTROL_PLANE_TAINT: &str = "node-role.kubernetes.io/control-plane";
/// A fixed seed, so that the same question has the same answer.
const SEED: Seed = Seed(0);
const ATTEMPT: u32 = 1;
/// The time of decisions. Preemption assumes that a pod without a start time starts now; the answer must not depend
/// on the clock.
const NOW: Time = Time::from_nanos(u64::MAX);
const NO_NODES: &str = "no nodes available to schedule pods";

/// The codes of [`Change`]s, in the order of the documentation (docs/explain.md).
pub const CHANGE_CODES: [&str; 33] = [
    "CorrectClaim",
    "CorrectDeviceClass",
    "CorrectNodeLabel",
    "CorrectPodLabel",
    "CorrectTopologyKey",
    "Uncordon",
    "AddToleration",
    "RemoveTaint",
    "LabelNode",
    "DropNodeLabel",
    "LowerRequest",
    "GrowNode",
    "Preempt",
    "RemovePod",
    "FewerReplicas",
    "CreateVolume",
    "TolerateDeviceTaint",
    "RequestFewerDevices",
    "LowerDeviceCapacity",
    "FreeDevices",
    "DropDeviceConstraint",
    "DropDeviceSelector",
    "AddNode",
    "SoftenAntiAffinity",
    "SoftenAffinity",
    "SoftenSpread",
    "RaiseMaxSkew",
    "HonorTaints",
    "CreatePodGroup",
    "AddMembers",
    "RemoveSchedulingGates",
    "DropTopologyConstraint",
    "LowerMinCount",
];

/// Code of the [`Hint`] about a `schedulerName` that no profile serves.
pub const SCHEDULER_NAME_UNKNOWN: &str = "SchedulerNameUnknown";

/// The controller that owns a pod.
#[derive(Clone, Copy, Debug, Default)]
pub enum PodOwner<'a> {
    /// Not known, except for the controllers that scheduling reads.
    #[default]
    Unknown,
    /// None.
    None,
    /// This one.
    Known(&'a Owner),
}

impl<'a> From<Option<&'a Owner>> for PodOwner<'a> {
    fn from(owner: Option<&'a Owner>) -> Self {
        owner.map_or(Self::None, Self::Known)
    }
}

/// What to explain about a pod.
#[derive(Clone, Copy, Debug, Default)]
pub struct Question<'a> {
    /// Whether the pod has finished.
    pub has_ended: bool,
    /// Whether this configuration has a profile with the pod's `schedulerName`.
    pub is_ours: bool,
    /// The name of a profile that was probably meant, if there is none with the pod's `schedulerName`.
    pub meant: Option<&'a str>,
    /// The controller that owns the pod.
    pub owner: PodOwner<'a>,
    /// Whether to include the score table.
    pub scores: bool,
    /// Whether to include the results for each node.
    pub by_node: bool,
}

/// Explains a pod. The cache is the same afterwards.
pub fn explain(place: &mut Place<'_>, pod: &Arc<PodInfo>, question: Question<'_>) -> Explanation {
    let mut answer = blank(place, pod);
    if question.has_ended {
        answer.verdict = Verdict::Ended;
        answer.summary = "the pod has finished; its resources are free".to_owned();
    } else if answer.node.is_some() {
        bound(place, pod, question, &mut answer);
    } else if pod.deleting {
        answer.verdict = Verdict::Deleting;
        answer.summary = "the pod is being deleted and was never scheduled".to_owned();
    } else {
        pending(place, pod, question, &mut answer);
    }
    answer
}

fn blank(place: &Place<'_>, pod: &PodInfo) -> Explanation {
    let snapshot = place.snapshot();
    Explanation {
        api_version: API_VERSION,
        kind: KIND,
        pod: snapshot.pod_key(pod),
        verdict: Verdict::Blocked,
        summary: String::new(),
        node: pod.node_name.map(|node| snapshot.text(node).to_owned()),
        nodes: snapshot.nodes().len(),
        fits_on: 0,
        before_nodes: Vec::new(),
        reasons: Vec::new(),
        near_misses: Vec::new(),
        near_miss_count: 0,
        hints: Vec::new(),
        changes: Vec::new(),
        new_pod: None,
        event: None,
        group: None,
        preemption: None,
        by_node: None,
        scores: None,
    }
}

/// Explains a pod with a node: why the other nodes are infeasible and, if requested, the scores, both as if the pod
/// had no node.
fn bound(place: &mut Place<'_>, pod: &Arc<PodInfo>, question: Question<'_>, answer: &mut Explanation) {
    answer.verdict = Verdict::Bound;
    let node = answer.node.clone().unwrap_or_default();
    let is_known = pod.node_name.is_some_and(|node| place.snapshot().find_node(node).is_some());
    let unknown = if is_known { "" } else { ", which is not a known node" };
    answer.summary = format!("the pod is on {node}{unknown}");
    let free = PodInfo { node_name: None, nominated_node: None, ..PodInfo::clone(pod) };
    place.without(&pod.uid, |place| {
        let findings = place.framework(&free).explain(&free, place.snapshot());
        answer.fits_on = findings.feasible();
        describe_nodes(place, &free, &findings, question, answer);
        if question.scores {
            answer.scores = scores::table(place, &free, Some(&node));
        }
    });
}

fn pending(place: &mut Place<'_>, pod: &Arc<PodInfo>, question: Question<'_>, answer: &mut Explanation) {
    place.trial.refreshed();
    let nodes = Vocabulary::of_nodes(place.snapshot());
    let pods = Vocabulary::of_pods(place.snapshot(), place.pending);
    answer.hints = suggest::hints(pod, place.snapshot(), &nodes, &pods);
    if place.snapshot().nodes().is_empty() {
        answer.summary = "the cluster has no nodes".to_owned();
        answer.event = Some(NO_NODES.to_owned());
    } else {
        let findings = place.framework(pod).explain(pod, place.snapshot());
        answer.fits_on = findings.feasible();
        let cases = describe_nodes(place, pod, &findings, question, answer);
        if answer.fits_on > 0 {
            answer.verdict = Verdict::FitsNow;
            answer.summary = match devices::too_many_users(pod, place.snapshot()) {
                Some(crowded) => format!("{}. But {crowded}", fits_now(answer)),
                None => fits_now(answer),
            };
            if question.scores {
                answer.scores = scores::table(place, pod, None);
            }
        } else {
            let preemption = why_not(place, pod, &findings, answer);
            answer.changes = changes::of_claims(place, pod);
            answer.changes.extend(changes::find(place, pod, &cases, preemption, (&nodes, &pods)));
            answer.changes.extend(changes::fewer_replicas(place, pod));
            answer.new_pod = changes::new_pod(place, pod, question.owner, &answer.changes);
        }
    }
    if !pod.gates.is_empty() {
        gated(place, pod, answer);
    } else if !question.is_ours {
        let name = place.tables().text(pod.scheduler_name);
        let why = match question.meant {
            Some(meant) => format!(
                "no profile serves the schedulerName \"{name}\": did you mean \"{meant}\"? If not, another scheduler is responsible"
            ),
            None => format!("its schedulerName is {name}, so another scheduler is responsible"),
        };
        let hint = question.meant.map(|meant| Hint {
            code: SCHEDULER_NAME_UNKNOWN,
            field: "spec.schedulerName".to_owned(),
            text: format!("no profile serves \"{name}\""),
            did_you_mean: Some(meant.to_owned()),
        });
        answer.hints.splice(0..0, hint);
        answer.summary = format!("{why}. With this configuration: {}", answer.summary);
        answer.verdict = Verdict::NotOurs;
    }
}

fn fits_now(answer: &Explanation) -> String {
    let (fits, nodes) = (answer.fits_on, format::count(answer.nodes as i64, "node"));
    format!(
        "the pod fits on {fits} of {nodes} now. If it stays pending, the scheduler has not processed it yet, or no \
         scheduler with its schedulerName is running"
    )
}

fn gated(place: &Place<'_>, pod: &PodInfo, answer: &mut Explanation) {
    let gates: Vec<&str> = pod.gates.iter().map(|&gate| place.tables().text(gate)).collect();
    let (noun, verb) = if gates.len() == 1 { ("gate", "is") } else { ("gates", "are") };
    answer.summary = format!(
        "it is not scheduled until its scheduling {noun} {verb} removed: {}. Without {}: {}",
        gates.join(", "),
        if gates.len() == 1 { "it" } else { "them" },
        answer.summary
    );
    answer.verdict = Verdict::Gated;
}

/// Fills in verdict, summary and event for a pod that fits on no node; returns the preemption that would help, if
/// any.
fn why_not(
    place: &mut Place<'_>,
    pod: &Arc<PodInfo>,
    findings: &Findings,
    answer: &mut Explanation,
) -> Option<Edit> {
    let preemption = ask_preemption(place, pod, answer);
    let nominated = pod.nominated_node.filter(|&node| place.snapshot().find_node(node).is_some());
    if let Some(node) = nominated.filter(|_| findings.before.is_empty()) {
        let node = place.tables().text(node);
        answer.verdict = Verdict::WaitsForPreemption;
        answer.summary =
            format!("it is nominated to {node} and waits until the preempted pods there terminate");
    } else if let Some(room) = &answer.preemption {
        answer.verdict = Verdict::WaitsForPreemption;
        let (pods, node) = (format::count(room.victims.len() as i64, "lower-priority pod"), &room.node);
        let are = if room.victims.len() == 1 { "is" } else { "are" };
        answer.summary = format!(
            "it fits on {node} once {pods} there {are} gone; the scheduler preempts and waits for termination"
        );
    } else if never_fits(place, pod, findings) {
        answer.verdict = Verdict::NeverFits;
        answer.summary = "unschedulable on every node, even in an empty cluster".to_owned();
    } else {
        answer.verdict = Verdict::Blocked;
        let nodes = format::count(answer.nodes as i64, "node");
        let is_without_volume =
            |of: &NodeFindings| of.objections.iter().any(|no| volumes::may_come(&no.reasons));
        let without_volume = answer.reasons.iter().find(|group| group.code == ReasonCode::VolumeUnavailable);
        answer.summary = match (answer.before_nodes.first(), without_volume) {
            (Some(said), _) => {
                format!("rejected before node evaluation: {}", said.text)
            }
            (None, Some(group)) if findings.nodes.iter().all(is_without_volume) => {
                format!("none of {nodes} has a volume for it: {}", group.text)
            }
            _ => format!("none of {nodes} is feasible now, but one would be if it were empty"),
        };
    }
    preemption
}

/// Returns whether every node has an obstacle that does not depend on other pods.
///
/// Not counted are the pod's own required pod affinity, and claims that may still be bound or get a volume.
fn never_fits(place: &mut Place<'_>, pod: &PodInfo, findings: &Findings) -> bool {
    if findings.before.iter().any(|said| said.plugin != "NodeAffinity") {
        return false;
    }
    let of_node = |findings: &Findings| {
        let stays = |no: &Objection| no.plugin != "InterPodAffinity" && !volumes::may_come(&no.reasons);
        findings.nodes.iter().all(|node| node.objections.iter().any(stays))
    };
    // An empty cluster has no more obstacles than the current one, so the cheap check comes first.
    of_node(findings)
        && place.when_empty(|place| of_node(&place.framework(pod).explain(pod, place.snapshot())))
}

fn ask_preemption(place: &mut Place<'_>, pod: &Arc<PodInfo>, answer: &mut Explanation) -> Option<Edit> {
    let (event, room) = find_room(place, pod);
    answer.event = event;
    let (node, victims) = room?;
    answer.preemption = Some(Preemption { node: place.name(node), victims: named_victims(place, &victims) });
    Some(Edit::Remove { pods: victims, from: node, by_preemption: true })
}

/// Returns `namespace/name` of victims, sorted.
fn named_victims(place: &Place<'_>, victims: &[Arc<PodInfo>]) -> Vec<String> {
    let snapshot = place.snapshot();
    let mut names: Vec<String> = victims.iter().map(|victim| snapshot.pod_key(victim)).collect();
    names.sort_unstable();
    names
}

/// A node, and the pods there that the scheduler would preempt.
type Room = (NodeIdx, Vec<Arc<PodInfo>>);

/// Returns the message of the FailedScheduling event of a pod that fits on no node, and the node and victims that the
/// scheduler would preempt for it, if any.
fn find_room(place: &mut Place<'_>, pod: &Arc<PodInfo>) -> (Option<String>, Option<Room>) {
    let decided = match place.decide(pod) {
        Ok(decided) => decided,
        Err(error) => return (Some(error.0), None),
    };
    let Decision::Infeasible(filtered) = decided else { return (None, None) };
    let snapshot = place.snapshot();
    let diagnosis = filtered.diagnose(snapshot);
    let failed = InfeasibleDecision { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
    let draws = Draws { seed: SEED, attempt: ATTEMPT };
    let outcome = place.framework(pod).find_room(
        failed,
        (draws, NOW),
        ExtenderCandidates::Free,
        &mut supercargo_core::cycle::NoProbe,
    );
    let event = Some(outcome.complete(&diagnosis.message));
    let Nomination::To(candidates) = &outcome.nomination else { return (event, None) };
    let name = |node| snapshot.text(snapshot.node_info(node).name);
    let best = candidates.iter().min_by_key(|candidate| name(candidate.node));
    let room = best.map(|best| {
        let victims = best.victims.iter().map(|&victim| Arc::new(victim.clone()));
        (best.node, victims.collect())
    });
    (event, room)
}

/// Returns why a pod is pending: reason codes with their texts.
pub fn why(place: &Place<'_>, pod: &PodInfo) -> Vec<(ReasonCode, String)> {
    short_reasons(place, pod).into_iter().map(|group| (group.code, group.text)).collect()
}

/// Returns the grouped reasons of an unschedulable pod: those before node evaluation, else those of the nodes.
fn short_reasons(place: &Place<'_>, pod: &PodInfo) -> Vec<Group> {
    match rejections(place, pod) {
        Rejections::BeforeNodes(reasons) => reasons,
        Rejections::OfNodes(cases) => groups(place, &cases),
    }
}

/// Why a pod is unschedulable.
enum Rejections {
    /// The reasons that apply before any node is evaluated.
    BeforeNodes(Vec<Group>),
    /// The infeasible nodes, by name.
    OfNodes(Vec<Case>),
}

fn rejections(place: &Place<'_>, pod: &PodInfo) -> Rejections {
    let findings = place.framework(pod).explain(pod, place.snapshot());
    let nodes = findings.nodes.len();
    let before: Vec<Group> = before_nodes(place, pod, &findings)
        .into_iter()
        .map(|found| Group {
            code: found.code,
            plugin: found.plugin,
            nodes,
            alone_on: 0,
            text: found.words,
            examples: Vec::new(),
            preemption_may_help: found.preemption_may_help,
        })
        .collect();
    if !before.is_empty() {
        return Rejections::BeforeNodes(before);
    }
    let holders = Holders::of(place, pod);
    let mut cases: Vec<Case> = findings.nodes.iter().map(|of| case(place, pod, of, &holders)).collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases.retain(|case| case.checks > 0);
    Rejections::OfNodes(cases)
}

/// Returns the rejections before node evaluation. Several plugins look up claims; only the first finding is kept.
fn before_nodes(place: &Place<'_>, pod: &PodInfo, findings: &Findings) -> Vec<Found> {
    let mut before: Vec<Found> =
        findings.before.iter().flat_map(|said| of_objection(said, place.tables())).collect();
    let mut has_claim = false;
    before.retain(|found| {
        let is_again = has_claim && found.code == ReasonCode::ClaimNotReady;
        has_claim |= found.code == ReasonCode::ClaimNotReady;
        !is_again
    });
    for found in &mut before {
        volumes::describe(found, pod, place.snapshot());
        devices::describe_before(found, pod, place.snapshot());
    }
    before
}

/// Fills in the reasons of nodes; returns the infeasible nodes.
fn describe_nodes(
    place: &Place<'_>,
    pod: &PodInfo,
    findings: &Findings,
    question: Question<'_>,
    answer: &mut Explanation,
) -> Vec<Case> {
    let before = before_nodes(place, pod, findings).into_iter();
    answer.before_nodes =
        before.map(|found| Rejection { code: found.code, plugin: found.plugin, text: found.words }).collect();
    let holders = Holders::of(place, pod);
    let mut cases: Vec<Case> = findings.nodes.iter().map(|of| case(place, pod, of, &holders)).collect();
    if answer.before_nodes.iter().any(|said| said.code == ReasonCode::ClaimNotReady) {
        // A claim that is missing everywhere is not an obstacle of a node.
        for case in &mut cases {
            case.found.retain(|found| found.code != ReasonCode::ClaimNotReady);
            case.checks = obstacles(&case.found);
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    if question.by_node {
        answer.by_node = Some(cases.iter().map(|case| by_node(place, case)).collect());
    }
    cases.retain(|case| case.checks > 0);
    answer.reasons = groups(place, &cases);
    let near = cases.iter().filter(|case| case.is_single());
    answer.near_miss_count = near.clone().count();
    answer.near_misses = near.take(NEAR_MISSES_MAX).map(|case| near_miss(place, case)).collect();
    cases
}

fn case(place: &Place<'_>, pod: &PodInfo, of: &NodeFindings, holders: &Holders) -> Case {
    let mut found = found_on(of, place.tables());
    for found in &mut found {
        volumes::describe(found, pod, place.snapshot());
        devices::describe(found, pod, of.node, place.snapshot(), holders);
    }
    Case { node: of.node, name: place.name(of.node), checks: obstacles(&found), found }
}

/// Returns the number of plugins that reject the node.
fn obstacles(found: &[Found]) -> usize {
    found.iter().map(|found| found.plugin).collect::<BTreeSet<_>>().len()
}

/// Returns the distinct reasons of a node.
fn found_on(of: &NodeFindings, tables: &Tables) -> Vec<Found> {
    let mut found: Vec<Found> = of.objections.iter().flat_map(|no| of_objection(no, tables)).collect();
    // The cordon and its taint are one obstacle with one fix.
    if found.iter().any(|found| found.code == ReasonCode::NodeCordoned) {
        found.retain(
            |found| !matches!(found.fact, Some(Fact::Taint(taint)) if taint.key == known::UNSCHEDULABLE),
        );
    }
    // Mutual anti-affinity of two pods is one obstacle.
    let avoided: Vec<Symbol> = found
        .iter()
        .filter_map(|found| match found.fact {
            Some(Fact::Foes { key, .. }) => Some(key),
            _ => None,
        })
        .collect();
    found.retain(|found| !matches!(found.fact, Some(Fact::FoeOf { key, .. }) if avoided.contains(&key)));
    found
}

fn by_node(place: &Place<'_>, case: &Case) -> ByNode {
    let reasons = case.found.iter().map(|found| OfNode {
        code: found.code,
        plugin: found.plugin,
        text: describe::of_node(found, place.tables()),
        because_nominated: found.because_nominated,
    });
    ByNode { node: case.name.clone(), reasons: reasons.collect() }
}

fn near_miss(place: &Place<'_>, case: &Case) -> NearMiss {
    let texts: Vec<String> =
        case.found.iter().map(|found| describe::of_node(found, place.tables())).collect();
    let codes = case.found.iter().map(|found| found.code).collect();
    NearMiss { node: case.name.clone(), codes, text: texts.join("; ") }
}

/// Groups the reasons, those of most nodes first.
fn groups(place: &Place<'_>, cases: &[Case]) -> Vec<Group> {
    let mut by_reason: BTreeMap<(ReasonCode, &str), Vec<(&Case, &Found)>> = BTreeMap::new();
    for case in cases {
        for found in &case.found {
            by_reason.entry((found.code, &found.about)).or_default().push((case, found));
        }
    }
    let group = |((code, _), of): ((ReasonCode, &str), Vec<(&Case, &Found)>)| {
        let findings: Vec<(&str, &Found)> =
            of.iter().map(|(case, found)| (case.name.as_str(), *found)).collect();
        Group {
            code,
            plugin: of[0].1.plugin,
            nodes: of.len(),
            alone_on: of.iter().filter(|(case, _)| case.checks == 1 && case.found.len() == 1).count(),
            text: describe::of_group(&findings, place.tables()),
            examples: of.iter().take(EXAMPLES_MAX).map(|(case, _)| case.name.clone()).collect(),
            preemption_may_help: of.iter().any(|(_, found)| found.preemption_may_help),
        }
    };
    let mut groups: Vec<Group> = by_reason.into_iter().map(group).collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.nodes), group.code));
    groups
}
