//! The invariants of the scheduler's state: each pod is in exactly one place, and every sum equals a recount.

use super::{Broken, CACHED_EQUALS_FULL, broken};
use crate::evictions;
use crate::objects::Pod;
use crate::process::{is_held, is_held_by_others};
use crate::reference::{self, ReferenceCluster};
use crate::sim::Sim;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::model::event::Kind;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::{HostPort, PodInfo};
use supercargo_core::model::resources::Resources;
use supercargo_core::plugins::{dynamic_resources, gang_scheduling};
use supercargo_core::preemption;
use supercargo_core::queue::{QueuedPod, SubQueue};

/// What the scheduler keeps when a list ends that omits nothing, as its `held` calls it.
const KEPT: [&str; 8] = [
    "queue",
    "bindings",
    "pods waiting for volumes",
    "preemptions",
    "evictions",
    "members of groups",
    "starts of groups",
    "pods waiting for extenders",
];

/// Checks that the scheduler has as much as before the end of a list that omitted nothing.
pub(crate) fn check_kept(
    kind: Kind,
    before: &[(&str, usize)],
    after: &[(&str, usize)],
) -> Result<(), Broken> {
    for ((what, before), (_, after)) in before.iter().zip(after) {
        if KEPT.contains(what) && after < before {
            let detail = format!("a list of {}: {what}: {before}, then {after}", kind.as_str());
            return Err(broken("a list that omits nothing forgets nothing", detail));
        }
    }
    Ok(())
}

impl Sim {
    /// Checks that every pending pod is in exactly one place, and that only pending pods are.
    pub(crate) fn check_places(&self) -> Result<(), Broken> {
        let process = &self.process;
        let queue = process.scheduler.queue();
        let waits = |uid: &str| process.pods.get(uid).is_some_and(|pod| pod.ours && pod.node.is_none());
        for (place, queued) in queue.waiting() {
            let uid = &*queued.pod.uid;
            if !waits(uid) {
                return Err(broken("only pending pods are queued", format!("{uid} in {}", place.as_str())));
            }
            // A preemptor that waits for its victims may be gated, too.
            let held = queued.gate == Some(preemption::NAME) || is_held(queued);
            let key = process.pods.get(uid).and_then(|pod| pod.group_key()).unwrap_or_default();
            if is_held_by_others(queued) && !self.is_held_by_gate(&key) {
                return Err(broken("only a member with a scheduling gate holds back others", uid.to_owned()));
            }
            if (place == SubQueue::Gated) != (held || !queued.pod.gates.is_empty()) {
                return Err(broken(
                    "gated pods are in the gated queue",
                    format!("{uid} in {}", place.as_str()),
                ));
            }
        }
        self.check_gates()?;
        self.check_given_up()?;
        if let Some(pod) = process.scheduler.misplaced_pods().next() {
            let detail = format!("{} at rest", pod.uid);
            return Err(broken("the engine knows each pending pod in exactly one place", detail));
        }
        self.check_asking()?;
        let asking: BTreeSet<&str> = process.suspended_evaluations().map(|pod| &*pod.uid).collect();
        let alive = |pod: &&Arc<Pod>| !pod.deleting && !process.going.contains(&pod.uid);
        // A pod that reappeared with an older state waits for the answer about its earlier binding.
        let comes_again = |pod: &&Arc<Pod>| {
            process.reset_by_stale_list.contains(&pod.uid) && process.unanswered.contains(&pod.uid)
        };
        let waiting = process.pods.values().filter(alive).filter(|pod| waits(&pod.uid));
        for pod in waiting.filter(|pod| !comes_again(pod)) {
            let (queued, decided) = (queue.contains(&pod.uid), process.decided.get(&pod.uid));
            if asking.contains(&*pod.uid) {
                continue;
            }
            let released = decided.is_some_and(|d| d.released.is_some());
            if !queued && decided.is_none() || queued && released {
                let detail = format!("{}: queued {queued}, decided {decided:?}", pod.uid);
                return Err(broken("every pending pod is in exactly one place", detail));
            }
        }
        let stats = process.scheduler.stats();
        let assumed = process
            .decided
            .keys()
            .filter(|uid| !queue.contains(uid) && !asking.contains(uid.as_str()))
            .count();
        if stats.cache.assumed_pods != assumed {
            let detail = format!("{} are, and {assumed} decisions stand", stats.cache.assumed_pods);
            return Err(broken("exactly the pods with an open decision are assumed", detail));
        }
        self.check_gauges()?;
        self.check_health()?;
        self.check_bounds()
    }

    /// Checks that a gated pod waits for what it lacks: only an event about that releases it.
    fn check_gates(&self) -> Result<(), Broken> {
        let process = &self.process;
        for (_, queued) in process.scheduler.queue().waiting() {
            let Some(pod) = process.pods.get(&*queued.pod.uid) else { continue };
            let is_released = match queued.gate {
                Some(dynamic_resources::NAME) => pod.devices.iter().all(|entry| process.may_use(pod, entry)),
                Some(gang_scheduling::NAME) => pod.group_key().is_some_and(|key| self.may_be_tried(&key)),
                _ => false,
            };
            if is_released {
                let detail = format!("{} behind the gate of {:?}", pod.uid, queued.gate);
                return Err(broken("a gated pod lacks what its gate waits for", detail));
            }
        }
        Ok(())
    }

    /// Checks that there were no panics and no wrong cached decisions. The engine survives both, but neither
    /// may happen.
    fn check_health(&self) -> Result<(), Broken> {
        let stats = self.process.scheduler.stats();
        if stats.panics > 0 {
            return Err(broken("no decision or hint panics", format!("{} panics", stats.panics)));
        }
        match stats.verified[1] {
            0 => Ok(()),
            differing => Err(broken(CACHED_EQUALS_FULL, format!("{differing} did not"))),
        }
    }

    /// Checks that the queue's counters equal a recount.
    fn check_gauges(&self) -> Result<(), Broken> {
        let queue = self.process.scheduler.queue();
        let stats = queue.stats();
        let mut pending: BTreeMap<SubQueue, usize> =
            SubQueue::ALL.into_iter().map(|place| (place, 0)).collect();
        let mut blamed: BTreeMap<_, usize> = BTreeMap::new();
        for (place, queued) in queue.waiting() {
            *pending.entry(place).or_default() += 1;
            for plugin in &queued.rejectors {
                *blamed.entry((*plugin, queued.pod.scheduler_name)).or_default() += 1;
            }
        }
        let reported: BTreeMap<_, usize> =
            stats.unschedulable.iter().filter(|&(_, &count)| count > 0).map(|(&key, &n)| (key, n)).collect();
        if stats.pending != pending || reported != blamed || queue.len() != pending.values().sum::<usize>() {
            let detail = format!("{stats:?}; counted {pending:?}, {blamed:?}");
            return Err(broken("the queue's gauges equal a recount", detail));
        }
        Ok(())
    }

    fn check_bounds(&self) -> Result<(), Broken> {
        let [bind, volume, evict, status, record, questions] = self.process.scheduler.stats().outgoing;
        // Each pod has at most one entry in the lane of bindings, and may leave one behind when it is deleted.
        if bind as u64 > 2 * self.scale.pods
            || volume as u64 > 2 * self.scale.pods
            || evict > self.process.pods.len()
            || status > self.process.pods.len() + self.process.groups.len()
            || record > 16_384
            || questions > 64
        {
            let detail = format!(
                "{bind} bindings, {volume} volumes, {evict} evictions, {status} patches, {record} records, {questions} \
                 questions wait"
            );
            return Err(broken("the outbox is bounded", detail));
        }
        Ok(())
    }

    /// Checks that the cache contains the watched objects and the decisions, and that its sums equal a recount.
    pub(crate) fn check_cache(&self) -> Result<(), Broken> {
        let process = &self.process;
        let snapshot = process.scheduler.snapshot();
        if snapshot.nodes().len() != process.nodes.len() {
            let detail = format!("{} nodes, {} watched", snapshot.nodes().len(), process.nodes.len());
            return Err(broken("the cache contains the watched nodes", detail));
        }
        let mut expected: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for pod in process.pods.values() {
            if let Some(node) = process.counts_on(pod) {
                expected.entry(node).or_default().push(&pod.uid);
            }
        }
        for idx in snapshot.nodes().iter() {
            let name = snapshot.text(snapshot.node_info(idx).name);
            if !process.nodes.contains_key(name) {
                return Err(broken("the cache contains the watched nodes", name.to_owned()));
            }
            let mut there: Vec<&str> = snapshot.pods_on(idx).map(|pod| &*pod.uid).collect();
            there.sort_unstable();
            let expected = expected.remove(name).unwrap_or_default();
            if there != expected {
                let detail = format!("{name} has {there:?}, expected {expected:?}");
                return Err(broken("every pod counts on its node", detail));
            }
            self.check_columns(idx)?;
        }
        self.check_storage()
    }

    fn check_columns(&self, idx: NodeIdx) -> Result<(), Broken> {
        let snapshot = self.process.scheduler.snapshot();
        let (columns, at, info) = (snapshot.columns(), idx.index(), snapshot.node_info(idx));
        let mut sum = Resources::default();
        let (mut non_zero_cpu, mut non_zero_memory, mut pods) = (0, 0, 0);
        let mut ports: BTreeMap<HostPort, u32> = BTreeMap::new();
        let (mut affinity, mut anti_affinity) = (false, false);
        for pod in snapshot.pods_on(idx) {
            sum.add(&pod.resources.placed);
            non_zero_cpu += pod.resources.non_zero_cpu_milli;
            non_zero_memory += pod.resources.non_zero_memory;
            pods += 1;
            pod.ports.iter().for_each(|&port| *ports.entry(port).or_default() += 1);
            affinity |= pod.pod_affinity.is_some();
            anti_affinity |= pod.has_required_anti_affinity();
        }
        let of_scalars =
            |r: &Resources| r.scalar.iter().filter(|(_, amount)| *amount != 0).copied().collect::<Vec<_>>();
        let mut differing = Vec::new();
        let mut compare = |what: &'static str, same: bool| {
            if !same {
                differing.push(what);
            }
        };
        compare("requested cpu", columns.requested_cpu_milli[at] == sum.cpu_milli);
        compare("requested memory", columns.requested_memory[at] == sum.memory);
        compare("requested storage", columns.requested_ephemeral_storage[at] == sum.ephemeral_storage);
        compare("cpu for scoring", columns.non_zero_cpu_milli[at] == non_zero_cpu);
        compare("memory for scoring", columns.non_zero_memory[at] == non_zero_memory);
        compare("pods", columns.pods[at] == pods);
        compare("allocatable cpu", columns.allocatable_cpu_milli[at] == info.allocatable.cpu_milli);
        compare("allocatable memory", columns.allocatable_memory[at] == info.allocatable.memory);
        compare("allocatable pods", columns.allocatable_pods[at] == info.allocatable_pods);
        compare("scalars", of_scalars(snapshot.requested(idx)) == of_scalars(&sum));
        compare("ports", snapshot.host_ports(idx).iter().copied().eq(ports));
        compare("affinity", snapshot.nodes_with_affinity().contains(idx) == affinity);
        let noted = snapshot.nodes_with_required_anti_affinity().contains(idx);
        compare("anti-affinity", noted == anti_affinity);
        match differing.as_slice() {
            [] => Ok(()),
            what => Err(broken(
                "a node's sums equal a recount",
                format!("{}: {}", snapshot.text(info.name), what.join(", ")),
            )),
        }
    }

    /// Checks that no pod waits for an event while a node is feasible. Otherwise, a hint missed a requeue.
    pub(crate) fn check_hints(&mut self) -> Result<(), Broken> {
        let assumed = self.process.scheduler.stats().cache.assumed_pods;
        let waiting = self.process.scheduler.queue().waiting();
        let waiting = waiting.filter(|&(place, queued)| self.waits_for_events(place, queued, assumed));
        let waiting: Vec<Arc<PodInfo>> = waiting.map(|(_, queued)| Arc::clone(&queued.pod)).collect();
        let mut objects = None;
        for pod in waiting {
            let devices = self.process.devices_among(&mut objects, &pod.uid);
            let snapshot = self.process.scheduler.snapshot();
            let storage = self.process.storage_for(&pod.uid);
            let world = || {
                let world = ReferenceCluster::seen_by(snapshot).with_storage(Arc::clone(&storage));
                world.with_devices(Arc::clone(&devices))
            };
            if let Some(&node) = evictions::feasible(world, snapshot, &pod).first() {
                let mut waiting = self.process.scheduler.queue().waiting();
                let rejectors = waiting.find(|(_, queued)| queued.pod.uid == pod.uid);
                let rejectors = rejectors.map(|(_, queued)| &queued.rejectors);
                let detail =
                    format!("{} fits on {}; it waits for {rejectors:?}", pod.uid, snapshot.text(node));
                return Err(broken("no hint missed a requeue", detail));
            }
        }
        Ok(())
    }

    /// Whether only an event can bring a pod back, so that it must fit nowhere.
    fn waits_for_events(&self, place: SubQueue, queued: &QueuedPod, assumed: usize) -> bool {
        let pod = &queued.pod;
        if place != SubQueue::Unschedulable || pod.deleting || self.is_managed(&pod.uid) {
            return false;
        }
        if !self.may_start_alone(&pod.uid)
            || self.waits_for_members_preemption(&pod.uid)
            || self.is_taken_along(pod)
        {
            return false;
        }
        // A pod that an assumed pod would help is requeued when the assumed pod is confirmed, as upstream does.
        let over_limit = || queued.rejectors.contains("NodeVolumeLimits");
        let helped_by_pods =
            || reference::may_be_helped_by_pods(pod) || over_limit() && reference::may_share_volumes(pod);
        assumed == 0 || !helped_by_pods()
    }
}
