//! Describes a pending pod.

use crate::pending::report::{PendingGroup, PendingPod, moment};
use supercargo_core::model::group::{GroupCondition, GroupKey, GroupPolicy};
use supercargo_core::queue::SubQueue;
use supercargo_core::scheduler::{Pending, PodLocation, Scheduler};

/// Plugin that gates pods with non-empty `spec.schedulingGates`.
const SCHEDULING_GATES: &str = "SchedulingGates";
/// Plugin that gates pods until their preemption victims are deleted.
const PREEMPTION: &str = "DefaultPreemption";
/// Plugin that gates pods until their PodGroup and enough members exist.
const GANG_SCHEDULING: &str = "GangScheduling";

/// Returns the name of a place. For places of the queue it equals the label `queue` of
/// `scheduler_pending_pods`.
pub(super) fn place(at: PodLocation) -> &'static str {
    match at {
        PodLocation::Queued(place) => place.as_str(),
        PodLocation::Extenders => "extenders",
        PodLocation::Evaluation => "evaluation",
        PodLocation::Volumes(_) => "volumes",
        PodLocation::Binding { .. } => "binding",
    }
}

/// Returns the description of a group.
pub(super) fn describe_group(engine: &Scheduler, key: GroupKey) -> PendingGroup {
    let (snapshot, state) = (engine.snapshot(), engine.pending_group(key));
    let min_count = match state.group.map(|group| group.policy) {
        Some(GroupPolicy::Gang(min)) => Some(min),
        Some(GroupPolicy::Basic) | None => None,
    };
    let of_condition = |text: fn(&GroupCondition) -> &str| state.condition.map_or("", text).to_owned();
    PendingGroup {
        namespace: snapshot.text(key.namespace).to_owned(),
        name: snapshot.text(key.name).to_owned(),
        exists: state.group.is_some(),
        min_count,
        members: state.known,
        placed: state.placed,
        scheduled: state.condition.is_some_and(|condition| condition.is_true),
        reason: of_condition(|condition| &condition.reason),
        message: of_condition(|condition| &condition.message),
    }
}

/// Returns the description of a pod.
pub(super) fn describe(engine: &Scheduler, pending: &Pending<'_>) -> PendingPod {
    let (snapshot, pod, queued) = (engine.snapshot(), pending.pod(), pending.queued);
    let text = |symbol| snapshot.text(symbol).to_owned();
    let node = match pending.at {
        PodLocation::Volumes(node) | PodLocation::Binding { node, .. } => Some(text(node)),
        PodLocation::Queued(_) | PodLocation::Extenders | PodLocation::Evaluation => None,
    };
    let mut of = PendingPod {
        namespace: text(pod.namespace),
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
        labels: snapshot.labels(pod.labels).iter().map(|(key, value)| (text(key), text(value))).collect(),
        scheduler_name: text(pod.scheduler_name),
        priority: pod.priority,
        group: pod.group_key().map(|key| text(key.name)),
        place: place(pending.at).to_owned(),
        waits_for: String::new(),
        plugins: queued.rejectors.iter().map(|&plugin| plugin.to_owned()).collect(),
        hindered_by: queued.preemption_blockers.iter().map(|&plugin| plugin.to_owned()).collect(),
        gates: pod.gates.iter().map(|&gate| text(gate)).collect(),
        node,
        nominated_node: pod.nominated_node.map(text),
        since: moment(pending.since),
        first_queued: queued.initial_attempt.map(moment),
        attempts: queued.attempts,
        errors: queued.consecutive_errors,
        next_try: pending.next_try.map(moment),
    };
    of.waits_for = waits_for(pending, &of);
    of
}

fn waits_for(pending: &Pending<'_>, of: &PendingPod) -> String {
    let node = of.node.as_deref().unwrap_or_default();
    match pending.at {
        PodLocation::Queued(SubQueue::Active) => "a scheduling attempt".to_owned(),
        PodLocation::Queued(SubQueue::Backoff) if of.errors > 0 => {
            "the end of its backoff, after an error".to_owned()
        }
        PodLocation::Queued(SubQueue::Backoff) => "the end of its backoff".to_owned(),
        PodLocation::Queued(SubQueue::Unschedulable) => match concerned(of).as_slice() {
            [] => "a cluster change".to_owned(),
            plugins => format!("a cluster change relevant to {}", plugins.join(" or ")),
        },
        PodLocation::Queued(SubQueue::Gated) => gated(pending.queued.gate, of),
        PodLocation::Extenders => "the answer of an extender".to_owned(),
        PodLocation::Evaluation => {
            "the rest of its evaluation, which goes in slices because the pod is large".to_owned()
        }
        PodLocation::Volumes(_) => format!("its volumes to be bound on node {node}"),
        PodLocation::Binding { is_outcome_unknown: false, .. } => {
            format!("confirmation of binding to node {node}")
        }
        PodLocation::Binding { is_outcome_unknown: true, .. } => {
            format!("confirmation of binding to node {node}, after a lost answer")
        }
    }
}

/// Returns the plugins whose events requeue the pod.
fn concerned(of: &PendingPod) -> Vec<&str> {
    let mut plugins: Vec<&str> = of.plugins.iter().chain(&of.hindered_by).map(String::as_str).collect();
    plugins.sort_unstable();
    plugins.dedup();
    plugins
}

fn gated(gate: Option<&str>, of: &PendingPod) -> String {
    match gate {
        Some(SCHEDULING_GATES) if of.gates.len() == 1 => {
            format!("removal of its scheduling gate: {}", of.gates.join(", "))
        }
        Some(SCHEDULING_GATES) => format!("removal of its scheduling gates: {}", of.gates.join(", ")),
        Some(PREEMPTION) => match &of.nominated_node {
            Some(node) => format!("its preemption victims on node {node} to terminate"),
            None => "its preemption victims to terminate".to_owned(),
        },
        Some(GANG_SCHEDULING) => match &of.group {
            Some(group) => format!("its pod group {group}: the PodGroup, or enough members"),
            None => "its pod group".to_owned(),
        },
        Some(plugin) => format!("admission by {plugin}"),
        None => "admission by a plugin".to_owned(),
    }
}
