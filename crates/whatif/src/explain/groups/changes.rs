//! Finds fixes for a group that does not start. Each is verified by a new decision on the whole group.

use super::{GroupExplanation, GroupVerdict, Members, are_alike, decide, minimum};
use crate::explain::answer::Change;
use crate::explain::changes::{self, Case, NEW_NODE};
use crate::explain::edit::Edit;
use crate::explain::fit::copy;
use crate::explain::format::count;
use crate::explain::place::Place;
use crate::explain::suggest::Vocabulary;
use std::collections::BTreeSet;
use std::sync::Arc;
use supercargo_core::model::group::{DisruptionMode, GroupApi, GroupKey, GroupPolicy, PodGroup};
use supercargo_core::model::group_options::GroupOptions;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::report::group::GroupOutcome;
use supercargo_core::scheduler::GroupDecision;

/// Maximum number of decisions about members in all trials of a group. In a cluster of 5,000 nodes each takes about a
/// millisecond.
const MEMBER_DECISIONS_MAX: usize = 4_000;
/// Minimum number of trials, however large the group is.
const TRIALS_MIN: usize = 4;
/// Maximum number of nodes that are added.
const NEW_NODES_MAX: usize = 64;
/// Maximum number of members that are added.
const NEW_MEMBERS_MAX: usize = 256;
/// Maximum number of node names per change.
const EXAMPLES_MAX: usize = 3;

/// Returns the verified changes, smallest first: those of the PodGroup and its members, then those that the reasons of
/// nodes suggest.
pub(super) fn find(
    place: &mut Place<'_>,
    key: GroupKey,
    members: &Members,
    answer: &GroupExplanation,
    cases: Vec<(Arc<PodInfo>, Case)>,
) -> Vec<Change> {
    let asked = Asked { key, members, answer };
    match answer.verdict {
        GroupVerdict::NoGroup => return asked.create_group(place).into_iter().collect(),
        GroupVerdict::TooFewMembers => {
            let found = [asked.add_members(place), asked.lower_min_count(place)];
            return found.into_iter().flatten().collect();
        }
        GroupVerdict::Failed | GroupVerdict::GivenUp | GroupVerdict::Started | GroupVerdict::StartsNow => {
            return Vec::new();
        }
        GroupVerdict::WaitsForPreemption | GroupVerdict::Blocked | GroupVerdict::NeverFits => {}
    }
    let mut found: Vec<Change> = asked.ungate(place).into_iter().collect();
    found.extend(asked.by_reasons(place, cases));
    found.extend(asked.drop_topology(place));
    found.extend(asked.lower_min_count(place));
    found
}

/// The group that is asked about.
#[derive(Clone, Copy)]
struct Asked<'a> {
    key: GroupKey,
    members: &'a Members,
    answer: &'a GroupExplanation,
}

impl Asked<'_> {
    /// Returns the nodes of the members, sorted, if the group starts with these pods.
    fn starts(self, place: &mut Place<'_>, waiting: &[Arc<PodInfo>]) -> Option<Vec<String>> {
        let decided = decide(place, self.key, waiting, false);
        (decided.outcome == GroupOutcome::Scheduled && !decided.nodes.is_empty())
            .then(|| nodes_of(place, &decided))
    }

    /// As [`Self::starts`], with another PodGroup.
    fn starts_as(self, place: &mut Place<'_>, group: PodGroup) -> Option<Vec<String>> {
        let old = place.trial.replace_group(self.key, Some(group));
        let starts = place.reverted(|place| self.starts(place, &self.members.waiting));
        place.trial.replace_group(self.key, old);
        starts
    }

    fn group(self, place: &Place<'_>) -> Option<PodGroup> {
        place.snapshot().lookups().group(self.key).cloned()
    }

    fn create_group(self, place: &mut Place<'_>) -> Option<Change> {
        let min_count = self.members.len();
        let policy = GroupPolicy::Gang(min_count);
        let group = PodGroup {
            key: self.key,
            api: GroupApi::V1Beta1,
            uid: "supercargo-new-group".into(),
            generation: 1,
            policy,
            topology: None,
            disruption: DisruptionMode::default(),
            priority: self.members.waiting.first()?.priority,
            options: Ok(GroupOptions::default()),
            scheduled: None,
        };
        let nodes = self.starts_as(place, group)?;
        let name = place.tables().text(self.key.name);
        let text = format!("create the PodGroup {name}; with minCount: {min_count} it starts");
        Some(change("CreatePodGroup", text, None, nodes))
    }

    fn add_members(self, place: &mut Place<'_>) -> Option<Change> {
        let known = self.members.len();
        let missing = minimum(self.answer).checked_sub(known).filter(|&it| it <= NEW_MEMBERS_MAX)?;
        let like = self.members.waiting.first().or(self.members.bound.first().map(|(pod, _)| pod))?;
        let nodes = place.reverted(|place| {
            let mut waiting = self.members.waiting.clone();
            for number in 0..missing {
                waiting.push(Arc::new(copy(place, like, number, known)));
            }
            self.starts(place, &waiting)
        })?;
        let text =
            format!("create {} like {}", count(missing, "more member"), place.snapshot().pod_key(like));
        Some(change("AddMembers", text, None, nodes))
    }

    fn lower_min_count(self, place: &mut Place<'_>) -> Option<Change> {
        let to = match self.answer.verdict {
            GroupVerdict::TooFewMembers => self.members.bound.len() + self.members.waiting.len(),
            _ => self.answer.bound + self.answer.fits,
        };
        let group = self.group(place)?;
        if to == 0 || group.policy == GroupPolicy::Basic || to >= minimum(self.answer) {
            return None;
        }
        let nodes = self.starts_as(place, PodGroup { policy: GroupPolicy::Gang(to), ..group.clone() })?;
        let (name, namespace) = (place.tables().text(self.key.name), place.tables().text(self.key.namespace));
        let how = match group.api {
            GroupApi::V1Alpha2 => {
                "delete the PodGroup and create it again: v1alpha2 cannot change minCount".to_owned()
            }
            GroupApi::V1Beta1 => format!(
                "kubectl patch podgroup {name} --namespace {namespace} --type merge \
                 --patch '{{\"spec\":{{\"schedulingPolicy\":{{\"gang\":{{\"minCount\":{to}}}}}}}}}'"
            ),
        };
        Some(change("LowerMinCount", format!("lower minCount to {to}"), Some(how), nodes))
    }

    fn drop_topology(self, place: &mut Place<'_>) -> Option<Change> {
        let key = self.answer.topology_key.as_ref()?;
        let group = PodGroup { topology: None, ..self.group(place)? };
        let nodes = self.starts_as(place, group)?;
        let how = "delete the PodGroup and create it again without schedulingConstraints".to_owned();
        let text = format!("allow nodes with different values of {key}");
        Some(change("DropTopologyConstraint", text, Some(how), nodes))
    }

    fn ungate(self, place: &mut Place<'_>) -> Option<Change> {
        let gated = &self.members.gated;
        if gated.is_empty() {
            return None;
        }
        let free = gated.iter().map(|pod| {
            let mut free = PodInfo::clone(pod);
            free.gates = Box::default();
            Arc::new(free)
        });
        let waiting: Vec<Arc<PodInfo>> = self.members.waiting.iter().cloned().chain(free).collect();
        let nodes = place.reverted(|place| self.starts(place, &waiting))?;
        let text = format!("remove the scheduling gates of {}", count(gated.len(), "member"));
        Some(change("RemoveSchedulingGates", text, None, nodes))
    }

    /// Returns the changes that the reasons of nodes suggest for the first members that lack a node.
    fn by_reasons(self, place: &mut Place<'_>, cases: Vec<(Arc<PodInfo>, Case)>) -> Vec<Change> {
        let Some((pod, _)) = cases.first() else { return Vec::new() };
        let pod = Arc::clone(pod);
        let cases: Vec<Case> =
            cases.into_iter().filter(|(of, _)| of.uid == pod.uid).map(|(_, case)| case).collect();
        let nodes = Vocabulary::of_nodes(place.snapshot());
        let pods = Vocabulary::of_pods(place.snapshot(), place.pending);
        let mut guesses = changes::guesses(place, &pod, &cases, None, (&nodes, &pods));
        let is_member = |pod: &PodInfo| pod.group_key() == Some(self.key);
        guesses.retain(|edits| {
            !edits.iter().any(
                |edit| matches!(edit, Edit::Remove { pods, .. } if pods.iter().any(|pod| is_member(pod))),
            )
        });
        let work = self.members.waiting.len().max(1) * self.answer.domain_count.max(1);
        let trials = (MEMBER_DECISIONS_MAX / work).max(TRIALS_MIN);
        let like = guesses.iter().find_map(|edits| match edits.as_slice() {
            [Edit::NodeLike { like, .. }] => Some(*like),
            _ => None,
        });
        let mut found =
            changes::verified(place, guesses, trials, |place, edits| self.try_out(place, &pod, edits));
        if !found.iter().any(|change| change.codes == ["AddNode"]) {
            found.extend(like.and_then(|like| self.add_nodes(place, &pod, like)));
        }
        found
    }

    /// Returns the nodes of the members if the group starts with these changes of the cluster, and of the members that
    /// equal the pod; empty otherwise.
    fn try_out(self, place: &mut Place<'_>, pod: &PodInfo, edits: &[Edit]) -> Vec<String> {
        let nodes = place.reverted(|place| {
            let changed = |member: &Arc<PodInfo>| {
                if !are_alike(member, pod) {
                    return Arc::clone(member);
                }
                let mut changed = PodInfo::clone(member);
                edits.iter().for_each(|edit| edit.on_pod(&mut changed));
                Arc::new(changed)
            };
            let waiting: Vec<Arc<PodInfo>> = self.members.waiting.iter().map(changed).collect();
            edits.iter().for_each(|edit| place.make(pod, edit));
            self.starts(place, &waiting)
        });
        nodes.unwrap_or_default()
    }

    /// Returns the smallest number of equal nodes with which the group starts.
    fn add_nodes(self, place: &mut Place<'_>, pod: &PodInfo, like: NodeIdx) -> Option<Change> {
        let added = |number: usize| -> Vec<Edit> {
            let node = |at| Edit::NodeLike { like, name: format!("{NEW_NODE}-{at}") };
            (1..=number).map(node).collect()
        };
        let (mut low, mut high) = (1, self.answer.lacks.min(NEW_NODES_MAX));
        let mut nodes = self.try_out(place, pod, &added(high));
        if nodes.is_empty() {
            return None;
        }
        while low < high {
            let middle = low.midpoint(high);
            let tried = self.try_out(place, pod, &added(middle));
            match tried.is_empty() {
                true => low = middle + 1,
                false => (high, nodes) = (middle, tried),
            }
        }
        let text = format!("add {} like {}", count(high, "node"), place.name(like));
        nodes.retain(|name| !name.starts_with(NEW_NODE));
        let mut change = change("AddNode", text, None, nodes);
        change.fits_on += high;
        Some(change)
    }
}

fn change(code: &'static str, text: String, how: Option<String>, nodes: Vec<String>) -> Change {
    Change {
        codes: vec![code],
        text,
        how,
        needs_new_pod: false,
        fits_on: nodes.len(),
        examples: nodes.into_iter().take(EXAMPLES_MAX).collect(),
    }
}

/// Returns the names of the nodes that members use, sorted.
fn nodes_of(place: &Place<'_>, decided: &GroupDecision) -> Vec<String> {
    let names: BTreeSet<&str> = decided.nodes.iter().map(|(_, node)| place.tables().text(*node)).collect();
    names.into_iter().map(str::to_owned).collect()
}
