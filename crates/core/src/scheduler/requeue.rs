//! Cluster events, and the pods that they requeue.

use super::{Profile, Scheduler, profile_named};
use crate::cache::Snapshot;
use crate::framework::{ClusterEvent, Hint, NodeAction, PluginName, PodAction};
use crate::model::emulation::VersionRules;
use crate::model::extender;
use crate::model::intern::Symbol;
use crate::model::node::NodeInfo;
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use crate::switches::mutation::{self, Mutation};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The cluster events that may have requeued pods.
#[derive(Default)]
pub(super) struct Requeues {
    /// Their number so far.
    pub(super) count: u64,
    /// Upstream's label of the first one since the engine began to handle its current input.
    pub(super) label: Option<&'static str>,
}

impl Requeues {
    /// Counts an event.
    pub(super) fn note(&mut self) {
        self.count += 1;
    }
}

impl Scheduler {
    /// Requeues the unschedulable pods that `event` may help, according to the queueing hints of their rejecting
    /// plugins. A hint that panics counts as [`Hint::Queue`].
    pub(super) fn requeue_on(&mut self, now: Time, event: &ClusterEvent<'_>) {
        self.requeue_up_to(now, event, i32::MAX);
    }

    /// As [`Self::requeue_on`], for pods up to this priority.
    pub(super) fn requeue_up_to(&mut self, now: Time, event: &ClusterEvent<'_>, priority: i32) {
        // Upstream has no event for namespaces and nominations.
        if !matches!(event, ClusterEvent::Other | ClusterEvent::Nominated { .. }) {
            self.note_event_label(event.label(self.tables.rules()));
        }
        self.requeues.note();
        let snapshot = self.cache.snapshot(&self.tables);
        let (profiles, panics) = (&self.profiles, &mut self.quarantine.panics);
        self.queue.move_all(
            now,
            event,
            &|plugin| {
                plugin == extender::NAME
                    || profiles
                        .iter()
                        .any(|(_, profile)| profile.framework.hears(plugin, event, snapshot.rules()))
            },
            &mut |plugin, pod| {
                if pod.priority > priority {
                    return Hint::Skip;
                }
                hint(profiles, plugin, event, pod, snapshot).unwrap_or_else(|| {
                    *panics += 1;
                    Hint::Queue
                })
            },
        );
    }

    /// Records the label of the current event.
    pub(super) fn note_event_label(&mut self, label: &'static str) {
        self.requeues.label.get_or_insert(label);
    }
}

/// Calls the queueing hint of a plugin of the pod's profile. Returns `None` if it panics.
///
/// A panic cannot corrupt the state, since the hint sees it through a shared borrow.
pub(super) fn hint(
    profiles: &[(Symbol, Profile)],
    plugin: PluginName,
    event: &ClusterEvent<'_>,
    pod: &PodInfo,
    snapshot: Snapshot<'_>,
) -> Option<Hint> {
    // It is unknown which objects an extender reads.
    if plugin == extender::NAME {
        return Some(Hint::Queue);
    }
    let hint = catch_unwind(AssertUnwindSafe(|| match profile_named(profiles, pod.scheduler_name) {
        Some(profile) => profile.framework.hint(plugin, event, pod, snapshot),
        None => Hint::Skip,
    }));
    hint.ok()
}

/// Returns the differences between two versions of a node, in upstream's order (`pkg/scheduler/framework/events.go`).
pub(super) fn node_actions(old: &NodeInfo, new: &NodeInfo) -> Vec<NodeAction> {
    let mut actions = Vec::new();
    if old.unschedulable && !new.unschedulable {
        actions.push(NodeAction::UpdateTaint);
    }
    if old.allocatable != new.allocatable || old.allocatable_pods != new.allocatable_pods {
        actions.push(NodeAction::UpdateAllocatable);
    }
    if old.labels != new.labels {
        actions.push(NodeAction::UpdateLabel);
    }
    if old.taints != new.taints {
        actions.push(NodeAction::UpdateTaint);
    }
    if old.declared_features != new.declared_features {
        actions.push(NodeAction::UpdateDeclaredFeature);
    }
    actions
}

/// Returns the differences between two versions of a pod, or the generic update if there is no specific one.
pub(super) fn pod_actions(old: &PodInfo, new: &PodInfo, rules: VersionRules) -> Vec<PodAction> {
    let mut actions = Vec::new();
    if old.labels != new.labels {
        actions.push(PodAction::UpdateLabel);
    }
    if scaled_down(old, new) {
        actions.push(PodAction::UpdateScaleDown);
    }
    if rules.splits_pod_events && scaled_up(old, new) {
        actions.push(PodAction::UpdateScaleUp);
    }
    if !old.gates.is_empty() && new.gates.is_empty() {
        actions.push(PodAction::UpdateGatesEliminated);
    }
    if old.tolerations.len() != new.tolerations.len() {
        actions.push(PodAction::UpdateToleration);
    }
    if actions.is_empty() {
        actions.push(PodAction::Update);
    }
    actions
}

fn scaled_up(old: &PodInfo, new: &PodInfo) -> bool {
    let (old, new) = (&old.resources.placed, &new.resources.placed);
    new.cpu_milli > old.cpu_milli
        || new.memory > old.memory
        || new.ephemeral_storage > old.ephemeral_storage
        || new.scalar.iter().any(|&(name, amount)| old.scalar(name).is_none_or(|before| before < amount))
}

fn scaled_down(old: &PodInfo, new: &PodInfo) -> bool {
    let (old, new) = (&old.resources.placed, &new.resources.placed);
    new.cpu_milli < old.cpu_milli
        || new.memory < old.memory
        || new.ephemeral_storage < old.ephemeral_storage
        || old.scalar.iter().any(|&(name, amount)| {
            let now = new.scalar(name);
            assert!(now.is_some() || !mutation::is_on(Mutation::ResourceAssumedToRemain), "it asked for it");
            now.is_none_or(|now| now < amount)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::emulation::EmulatedVersion;
    use crate::model::intern::Tables;
    use crate::scheduler::quarantine::tests;

    /// Creates a pod that requests so much CPU, memory, ephemeral storage and of an extended resource.
    fn pod(tables: &mut Tables, [cpu, memory, ephemeral_storage, gpus]: [i64; 4]) -> Box<PodInfo> {
        let mut pod = tests::pod(tables, "p", cpu, None);
        let placed = &mut pod.template.resources.placed;
        (placed.memory, placed.ephemeral_storage) = (memory, ephemeral_storage);
        if gpus > 0 {
            placed.set_scalar(tables.symbol("example.com/gpu"), gpus);
        }
        pod
    }

    #[test]
    fn request_that_grows_or_shrinks_is_an_action_of_its_own() {
        use PodAction::{Update, UpdateScaleDown as Down, UpdateScaleUp as Up};
        let mut tables = Tables::new();
        let [rules, older] = [EmulatedVersion::V1_37, EmulatedVersion::V1_36].map(EmulatedVersion::rules);
        let mut check = |from, to, actions: &[PodAction], of_older: &[PodAction]| {
            let [old, new] = [from, to].map(|amounts| pod(&mut tables, amounts));
            assert_eq!(pod_actions(&old, &new, rules), actions, "{from:?} to {to:?}");
            assert_eq!(pod_actions(&old, &new, older), of_older, "{from:?} to {to:?}");
        };
        let before = [2; 4];
        for at in 0..before.len() {
            let with = |amount| {
                let mut after = before;
                after[at] = amount;
                after
            };
            check(before, with(2), &[Update], &[Update]);
            for less in [0, 1] {
                check(before, with(less), &[Down], &[Down]);
                check(with(less), before, &[Up], &[Update]);
            }
        }
        check([2, 2, 2, 2], [1, 3, 2, 2], &[Down, Up], &[Down]);
    }
}
