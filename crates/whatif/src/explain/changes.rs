//! Finds fixes for a pending pod: candidates derived from the reasons of typical nodes, each verified by a new
//! decision.
//!
//! Only candidates that place the pod are reported.

use crate::explain::PodOwner;
use crate::explain::answer::Change;
use crate::explain::devices;
use crate::explain::edit::Edit;
use crate::explain::format::count;
use crate::explain::place::Place;
use crate::explain::reason::{Found, ReasonCode};
use crate::explain::suggest::Vocabulary;
use crate::explain::volumes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::framework::{Fact, Measure};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::{ControllerKind, PodInfo};
use supercargo_core::model::selector::{Operator, Requirement, Selector};

/// Maximum number of node groups considered, those with the fewest obstacles first.
const SORTS_MAX: usize = 12;
/// Maximum number of decisions per explanation. In a cluster of 5,000 nodes each takes a fraction of a second.
const TRIALS_MAX: usize = 40;
/// Maximum number of reported changes.
const CHANGES_MAX: usize = 8;
/// Maximum number of reported changes with the same codes.
const ALIKE_MAX: usize = 2;
/// Maximum number of pending pods of one owner that are scheduled to count surplus replicas.
const SIBLINGS_MAX: usize = 200;
/// The divisor of the smallest request suggested: at least 1/4 of the original request.
const LEAST_SHARE: i64 = 4;
/// Maximum number of node names per change.
const EXAMPLES_MAX: usize = 3;
/// How to make a change that needs new pods, if their owner is not known.
pub const NEW_PODS: &str = "create the pods again, or make the change in the template of their owner";
/// The name of a hypothetical node.
pub(super) const NEW_NODE: &str = "supercargo-new-node";

/// An infeasible node.
pub(super) struct Case {
    pub node: NodeIdx,
    pub name: String,
    /// Number of plugins that reject the node.
    pub checks: usize,
    pub found: Vec<Found>,
}

impl Case {
    /// Returns whether a single obstacle rejects the pod: one check for one reason. Of several node affinity terms,
    /// only the closest counts.
    pub(super) fn is_single(&self) -> bool {
        self.checks == 1 && needed(&self.found).len() == 1
    }

    /// Returns how much the node lacks, in thousandths of the request for resources; smaller is closer.
    fn lack(&self) -> i128 {
        let lack = |found: &Found| match found.fact {
            Some(Fact::Short { wanted, taken, allocatable, .. }) => {
                let free = i128::from(allocatable) - i128::from(taken);
                (i128::from(wanted) - free) * 1_000 / i128::from(wanted.max(1))
            }
            Some(Fact::Skew { here, lowest, .. }) => i128::from(here - lowest),
            _ => 0,
        };
        self.found.iter().map(lack).sum()
    }
}

/// Returns the verified changes, smallest first.
pub(super) fn find(
    place: &mut Place<'_>,
    pod: &PodInfo,
    cases: &[Case],
    preemption: Option<Edit>,
    known: (&Vocabulary, &Vocabulary),
) -> Vec<Change> {
    let guesses = guesses(place, pod, cases, preemption, known);
    verified(place, guesses, TRIALS_MAX, |place, edits| place.try_out(pod, edits))
}

/// Returns combinations of changes that may help, those of least effort first.
pub(super) fn guesses(
    place: &Place<'_>,
    pod: &PodInfo,
    cases: &[Case],
    preemption: Option<Edit>,
    known: (&Vocabulary, &Vocabulary),
) -> Vec<Vec<Edit>> {
    let mut guesses: Vec<Vec<Edit>> = preemption.into_iter().map(|edit| vec![edit]).collect();
    for case in typical(cases) {
        guesses.extend(guess(place, pod, case, known));
    }
    guesses
        .sort_by_key(|edits| (edits.len(), edits.iter().map(|edit| edit.rank(place.tables())).sum::<u32>()));
    guesses
}

/// Returns the combinations that help: those for which `try_out` returns nodes. At most `trials` are tried.
pub(super) fn verified(
    place: &mut Place<'_>,
    guesses: Vec<Vec<Edit>>,
    trials: usize,
    mut try_out: impl FnMut(&mut Place<'_>, &[Edit]) -> Vec<String>,
) -> Vec<Change> {
    let mut tried = Tried::default();
    let mut changes = Vec::new();
    for edits in guesses {
        if tried.trials == trials.min(TRIALS_MAX) || changes.len() == CHANGES_MAX {
            break;
        }
        if !tried.is_worth_it(&edits) {
            continue;
        }
        let fits = try_out(place, &edits);
        if !fits.is_empty() {
            tried.helped(&edits);
            changes.push(change(place, &edits, fits));
        }
    }
    changes
}

/// The combinations tried so far, and those that helped.
#[derive(Default)]
struct Tried {
    trials: usize,
    seen: BTreeSet<BTreeSet<String>>,
    enough: Vec<Vec<Edit>>,
    alike: BTreeMap<Vec<&'static str>, usize>,
}

impl Tried {
    fn key(edits: &[Edit]) -> BTreeSet<String> {
        edits.iter().map(|edit| format!("{edit:?}")).collect()
    }

    fn codes(edits: &[Edit]) -> Vec<&'static str> {
        edits.iter().map(Edit::code).collect()
    }

    /// Returns whether a combination is new: not tried, not a working one with more changes or larger ones, and not one
    /// of too many alike.
    fn is_worth_it(&mut self, edits: &[Edit]) -> bool {
        let key = Self::key(edits);
        let similar = self.alike.get(&Self::codes(edits)).copied().unwrap_or(0);
        let is_new = similar < ALIKE_MAX
            && !self.enough.iter().any(|enough| is_covered(enough, edits))
            && self.seen.insert(key);
        self.trials += usize::from(is_new);
        is_new
    }

    fn helped(&mut self, edits: &[Edit]) {
        self.enough.push(edits.to_vec());
        *self.alike.entry(Self::codes(edits)).or_default() += 1;
    }
}

/// Returns whether each change of `enough` is among `edits`, as it is or larger. The same number of changes on another
/// node is another choice.
fn is_covered(enough: &[Edit], edits: &[Edit]) -> bool {
    enough.len() < edits.len() && enough.iter().all(|each| edits.iter().any(|edit| each.is_at_most(edit)))
}

fn change(place: &Place<'_>, edits: &[Edit], fits: Vec<String>) -> Change {
    let how: Vec<String> =
        edits.iter().filter_map(|edit| edit.how(place.tables(), |node| place.name(node))).collect();
    let fits: Vec<String> = fits.into_iter().map(new_node).collect();
    Change {
        codes: Tried::codes(edits),
        text: text_of(place, edits),
        how: (!how.is_empty()).then(|| how.join("; ")),
        needs_new_pod: edits.iter().any(Edit::needs_new_pod),
        fits_on: fits.len(),
        examples: fits.into_iter().take(EXAMPLES_MAX).collect(),
    }
}

fn new_node(name: String) -> String {
    if name == NEW_NODE { "the new node".to_owned() } else { name }
}

fn text_of(place: &Place<'_>, edits: &[Edit]) -> String {
    let snapshot = place.snapshot();
    let key = |pod: &PodInfo| snapshot.pod_key(pod);
    let each = edits.iter().map(|edit| edit.text(place.tables(), |node| place.name(node), key));
    each.collect::<Vec<_>>().join(", and ")
}

/// Returns one node per set of reasons, the closest to being feasible; those with the fewest obstacles first.
fn typical(cases: &[Case]) -> Vec<&Case> {
    let mut sorts: BTreeMap<Vec<(ReasonCode, &str, bool)>, &Case> = BTreeMap::new();
    // A full node and a node that is too small need different changes.
    let is_full = |found: &Found| match found.fact {
        Some(Fact::Short { wanted, allocatable, .. }) => wanted <= allocatable,
        _ => false,
    };
    for case in cases {
        let key = case.found.iter().map(|found| (found.code, found.about.as_str(), is_full(found)));
        let mut key: Vec<_> = key.collect();
        key.sort_unstable();
        let best = sorts.entry(key).or_insert(case);
        if (case.lack(), &case.name) < (best.lack(), &best.name) {
            *best = case;
        }
    }
    let mut typical: Vec<&Case> = sorts.into_values().collect();
    typical.sort_by_key(|case| (case.checks, case.found.len(), case.lack(), &case.name));
    typical.truncate(SORTS_MAX);
    typical
}

/// Returns combinations of changes that may make this node, or another one like it, feasible.
fn guess(place: &Place<'_>, pod: &PodInfo, case: &Case, known: (&Vocabulary, &Vocabulary)) -> Vec<Vec<Edit>> {
    let cures_of = |found: &Found| match found.plugin {
        devices::PLUGIN => devices::cures(place, pod, case.node),
        _ => cures(place, case.node, found, known),
    };
    let needs: Vec<Vec<Edit>> = needed(&case.found).into_iter().map(cures_of).collect();
    let mut guesses: Vec<Vec<Edit>> = Vec::new();
    match needs.as_slice() {
        [only] => guesses.extend(only.iter().map(|edit| vec![edit.clone()])),
        several if several.iter().all(|cures| !cures.is_empty()) => {
            guesses.push(several.iter().map(|cures| cures[0].clone()).collect());
            let at_node = |cures: &Vec<Edit>| cures.iter().find(|edit| edit.node().is_some()).cloned();
            // An existing pod may get a toleration, as a node may be changed.
            let by_toleration = |cures: &Vec<Edit>| {
                let toleration = cures.iter().find(|edit| matches!(edit, Edit::Tolerate(_))).cloned();
                toleration.or_else(|| at_node(cures))
            };
            guesses.extend(several.iter().map(by_toleration).collect::<Option<Vec<Edit>>>());
            guesses.extend(several.iter().map(at_node).collect::<Option<Vec<Edit>>>());
        }
        _ => {}
    }
    // An empty node of the same type has the same labels, taints and size.
    let is_of_pods = |found: &Found| match &found.fact {
        Some(Fact::Short { wanted, allocatable, .. }) => wanted <= allocatable,
        Some(Fact::Port(_) | Fact::Skew { .. } | Fact::Foes { .. } | Fact::FoeOf { .. }) => true,
        _ => false,
    };
    if case.found.iter().all(is_of_pods) {
        guesses.push(vec![Edit::NodeLike { like: case.node, name: NEW_NODE.to_owned() }]);
        guesses.extend(one_less(place, pod, case).map(|edit| vec![edit]));
    }
    guesses.extend(bigger_node(place, case).map(|edit| vec![edit]));
    for edits in &mut guesses {
        let mut seen = BTreeSet::new();
        edits.retain(|edit| seen.insert(format!("{edit:?}")));
    }
    guesses
}

/// Returns the addition of a node like this one that is large enough when empty, if only its size rejects the pod.
fn bigger_node(place: &Place<'_>, case: &Case) -> Option<Edit> {
    let mut with = Vec::new();
    for found in &case.found {
        match found.fact {
            Some(Fact::Short { of, wanted, allocatable, .. }) if wanted > allocatable => {
                let grows = of != Measure::Pods && can_grow(place.tables(), of);
                with.push(grows.then_some((of, wanted))?);
            }
            Some(Fact::Short { .. }) => {}
            _ => return None,
        }
    }
    let name = NEW_NODE.to_owned();
    (!with.is_empty()).then_some(Edit::BiggerNode { like: case.node, name, with })
}

/// Returns the obstacles to remove. Node affinity terms are alternatives, so only the one with the fewest obstacles
/// counts.
fn needed(found: &[Found]) -> Vec<&Found> {
    let mut by_term: BTreeMap<(bool, usize), usize> = BTreeMap::new();
    for each in found {
        if let Some(Fact::Term { added, term, .. }) = each.fact {
            *by_term.entry((added, term)).or_default() += 1;
        }
    }
    let best = |of: bool| {
        let of_kind = by_term.iter().filter(|&(&(added, _), _)| added == of);
        of_kind.min_by_key(|&(&(_, term), &unmet)| (unmet, term)).map(|(&(_, term), _)| term)
    };
    let (own, added) = (best(false), best(true));
    let is_needed = |each: &&Found| match each.fact {
        Some(Fact::Term { added: true, term, .. }) => added == Some(term),
        Some(Fact::Term { term, .. }) => own == Some(term),
        _ => true,
    };
    found.iter().filter(is_needed).collect()
}

/// Returns changes that may remove one obstacle, changes of the pod first.
fn cures(
    place: &Place<'_>,
    node: NodeIdx,
    found: &Found,
    (nodes, pods): (&Vocabulary, &Vocabulary),
) -> Vec<Edit> {
    let tables = place.tables();
    let Some(fact) = &found.fact else {
        let is_closed = found.code == ReasonCode::NodeCordoned;
        return is_closed.then_some(Edit::Uncordon { node }).into_iter().collect();
    };
    match fact.clone() {
        Fact::Short { of, wanted, taken, allocatable } => {
            let free = allocatable.saturating_sub(taken);
            let is_enough = of != Measure::Pods && free > 0 && free >= wanted / LEAST_SHARE;
            let ask = is_enough.then_some(Edit::Ask { of, to: free });
            let by = wanted.saturating_sub(free);
            let grow = can_grow(tables, of).then_some(Edit::Grow { node, of, by });
            ask.into_iter().chain(grow).collect()
        }
        // These taints show a node's state; the node controller removes them when the state is fixed.
        Fact::Taint(taint) if tables.text(taint.key).starts_with("node.kubernetes.io/") => Vec::new(),
        Fact::Taint(taint) => vec![Edit::Tolerate(taint), Edit::Untaint { node, taint }],
        Fact::Selector { key, wanted, .. } => {
            let from = (key, wanted);
            let meant = nodes.meant(tables, key, wanted).map(|to| Edit::SelectInstead { from, to });
            let label = Edit::Label { node, key, value: wanted };
            meant.into_iter().chain([label, Edit::SelectLess { from }]).collect()
        }
        Fact::Term { added: true, unmet, .. } => label_for(node, &unmet).into_iter().collect(),
        Fact::Term { term, unmet: from, .. } => {
            let meant = nodes.meant_by(tables, &from);
            let meant = meant.map(|to| Edit::TermInstead { term, from: from.clone(), to });
            meant.into_iter().chain(label_for(node, &from)).chain([Edit::TermLess { term, from }]).collect()
        }
        Fact::Port(_) | Fact::FoeOf { .. } => Vec::new(),
        Fact::Skew { key, here, itself, lowest, .. } => {
            let to = i32::try_from(here + itself - lowest).ok().map(|to| Edit::MaxSkew { key, to });
            [Edit::HonorTaints { key }, Edit::SpreadSoftly { key }].into_iter().chain(to).collect()
        }
        Fact::NoKey(key) => {
            let meant = nodes.key_meant(tables, key).map(|to| Edit::KeyInstead { from: key, to });
            meant.into_iter().chain([Edit::SpreadSoftly { key }]).collect()
        }
        Fact::NoPeer { key, selector, .. } => {
            let meant = requirements(&selector).filter_map(|from| {
                let to = pods.meant_by(tables, from)?;
                Some(Edit::PeerInstead { from: from.clone(), to })
            });
            meant.chain([Edit::JoinSoftly { key, selector: selector.clone() }]).collect()
        }
        Fact::Foes { key, selector, .. } => vec![Edit::AvoidSoftly { key, selector }],
    }
}

/// Returns whether a node's amount of the resource can be increased. Devices are built in.
fn can_grow(tables: &Tables, of: Measure) -> bool {
    match of {
        Measure::Pods | Measure::Cpu | Measure::Memory | Measure::EphemeralStorage => true,
        Measure::Scalar(name) => tables.text(name).starts_with("hugepages-"),
    }
}

/// Returns fixes for claims: the claim that was probably meant, and volumes that no provisioner creates.
pub(super) fn of_claims(place: &mut Place<'_>, pod: &PodInfo) -> Vec<Change> {
    let snapshot = place.snapshot();
    let misspelt = volumes::misspelt(pod, snapshot).map(|(from, to)| vec![Edit::ClaimInstead { from, to }]);
    let create = volumes::to_create(pod, snapshot).into_iter();
    let create: Vec<Edit> = create.map(|claim| Edit::CreateVolume { claim: Arc::new(claim) }).collect();
    let of_devices = devices::misspelt(pod, snapshot).into_iter().map(|edit| vec![edit]);
    let guesses = misspelt.into_iter().chain((!create.is_empty()).then_some(create)).chain(of_devices);
    let tried = guesses.collect::<Vec<_>>().into_iter().filter_map(|edits| {
        let fits = place.try_out(pod, &edits);
        (!fits.is_empty()).then(|| change(place, &edits, fits))
    });
    tried.collect()
}

fn requirements(selector: &Selector) -> impl Iterator<Item = &Requirement> {
    let list = match selector {
        Selector::All(list) => &**list,
        Selector::Nothing => &[],
    };
    list.iter()
}

/// Returns the label that makes a node match a requirement.
fn label_for(node: NodeIdx, of: &Requirement) -> Option<Edit> {
    match &of.operator {
        Operator::In(values) => values.first().map(|&value| Edit::Label { node, key: of.key, value }),
        _ => None,
    }
}

/// Returns the removal of the smallest pod on the node that frees enough.
fn one_less(place: &Place<'_>, pod: &PodInfo, case: &Case) -> Option<Edit> {
    let mut missing = Vec::new();
    for found in &case.found {
        match found.fact {
            Some(Fact::Short { of, wanted, taken, allocatable }) => {
                missing.push((of, wanted.saturating_sub(allocatable.saturating_sub(taken))));
            }
            _ => return None,
        }
    }
    let has = |other: &PodInfo, of: Measure| match of {
        Measure::Pods => 1,
        Measure::Cpu => other.resources.placed.cpu_milli,
        Measure::Memory => other.resources.placed.memory,
        Measure::EphemeralStorage => other.resources.placed.ephemeral_storage,
        Measure::Scalar(name) => other.resources.placed.scalar(name).unwrap_or(0),
    };
    let snapshot = place.snapshot();
    let enough = snapshot.pods_on(case.node).filter(|other| {
        // Do not remove a pod of higher priority.
        other.priority <= pod.priority && missing.iter().all(|&(of, by)| has(other, of) >= by)
    });
    let smallest = enough.min_by_key(|other| {
        let size: Vec<i64> = missing.iter().map(|&(of, _)| has(other, of)).collect();
        (size, snapshot.pod_key(other))
    })?;
    let pods = vec![Arc::new(smallest.clone())];
    Some(Edit::Remove { pods, from: case.node, by_preemption: false })
}

/// Returns the scale-down after which all remaining replicas of the pod's owner fit, if the pod is a surplus replica.
pub(super) fn fewer_replicas(place: &mut Place<'_>, pod: &Arc<PodInfo>) -> Option<Change> {
    let owner = pod.owner?;
    let is_sibling = |other: &&Arc<PodInfo>| {
        other.namespace == pod.namespace
            && other.owner == pod.owner
            && !other.deleting
            && other.gates.is_empty()
    };
    let siblings: Vec<Arc<PodInfo>> = place.pending.iter().filter(is_sibling).cloned().collect();
    if siblings.len() > SIBLINGS_MAX {
        return None;
    }
    let placed = place.placed_siblings(pod).len();
    let left_over = place.left_over(&siblings);
    let stay = placed + siblings.len() - left_over;
    if left_over == 0 || stay == 0 {
        return None;
    }
    let (kind, name) = scaled(place, pod, owner.kind, place.tables().text(owner.name));
    let namespace = place.tables().text(pod.namespace);
    Some(Change {
        codes: vec!["FewerReplicas"],
        text: format!(
            "scale {name} down by {}: {stay} run or fit, {left_over} {}",
            count(left_over as i64, "replica"),
            if left_over == 1 { "does not" } else { "do not" }
        ),
        how: Some(format!("kubectl scale {kind} {name} --namespace {namespace} --replicas={stay}")),
        needs_new_pod: false,
        fits_on: 0,
        examples: Vec::new(),
    })
}

/// Returns how to make the changes that need a new pod, if any of these does.
pub(super) fn new_pod(
    place: &Place<'_>,
    pod: &PodInfo,
    owner: PodOwner<'_>,
    changes: &[Change],
) -> Option<String> {
    if !changes.iter().any(|change| change.needs_new_pod) {
        return None;
    }
    let of_template = |kind: &str, name: &str| match kind {
        // The template of a Job cannot be changed either.
        "job" => format!("create job/{name} again, with the change in its template"),
        _ => format!("make the change in the template of {kind}/{name}"),
    };
    Some(match (owner, pod.owner) {
        (PodOwner::Known(owner), _) => of_template(&owner.kind.to_lowercase(), &owner.name),
        (PodOwner::None, _) => "create the pod again (kubectl replace --force -f FILE)".to_owned(),
        (PodOwner::Unknown, Some(owner)) => {
            let (kind, name) = scaled(place, pod, owner.kind, place.tables().text(owner.name));
            of_template(kind, &name)
        }
        (PodOwner::Unknown, None) => NEW_PODS.to_owned(),
    })
}

/// Returns what a person scales: the Deployment instead of its ReplicaSet.
fn scaled(place: &Place<'_>, pod: &PodInfo, kind: ControllerKind, name: &str) -> (&'static str, String) {
    let tables = place.tables();
    let hash = tables.find("pod-template-hash").and_then(|key| tables.labels(pod.labels).get(key));
    let hash = hash.map(|hash| format!("-{}", tables.text(hash)));
    match (kind, hash.and_then(|hash| name.strip_suffix(hash.as_str()))) {
        (ControllerKind::ReplicaSet, Some(deployment)) => ("deployment", deployment.to_owned()),
        (ControllerKind::ReplicaSet, None) => ("replicaset", name.to_owned()),
        (ControllerKind::StatefulSet, _) => ("statefulset", name.to_owned()),
        (ControllerKind::ReplicationController, _) => ("replicationcontroller", name.to_owned()),
    }
}
