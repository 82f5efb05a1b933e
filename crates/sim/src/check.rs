//! What must never happen, and what must have happened in the end.
//!
//! Everything is judged by what the scheduler was told, by the server's truth and by [`crate::reference`]; nothing by
//! the engine's own rules.

use crate::agenda::Request;
use crate::evictions;
use crate::objects::Pod;
use crate::reference::{self, World};
use crate::sim::Sim;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::effect::PodRef;
use supercargo_core::event::Kind;
use supercargo_core::intern::{LabelSetId, Symbol};
use supercargo_core::node::{NodeIdx, NodeInfo};
use supercargo_core::pod::{HostPort, PodInfo};
use supercargo_core::queue::Place;
use supercargo_core::report::{Outcome, Report};
use supercargo_core::resources::Resources;

/// An invariant that does not hold.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) invariant: &'static str,
    pub(crate) detail: String,
}

pub(crate) fn broken(invariant: &'static str, detail: String) -> Broken {
    Broken { invariant, detail }
}

impl Sim {
    // --- what leaves the scheduler

    /// A binding may leave.
    pub(crate) fn check_bind(&self, pod: &PodRef, node: &str) -> Result<(), Broken> {
        let uid = &*pod.uid;
        let because =
            |why: &str| Err(broken("a binding leaves for a pod that waits for one", format!("{uid}: {why}")));
        let Some(seen) = self.process.pods.get(uid) else { return because("it is gone") };
        if !seen.ours {
            return because("it is somebody else's");
        }
        if seen.gated {
            return because("it is gated");
        }
        if seen.deleting {
            return because("it is being deleted");
        }
        if let Some(there) = &seen.node {
            return because(&format!("it is on {there}"));
        }
        let Some(decided) = self.process.decided.get(uid) else { return because("nothing was decided") };
        if decided.node != node || decided.in_flight {
            let detail = format!("{uid} is sent to {node}, and was sent to {}", decided.node);
            return Err(broken("one binding of a pod is in flight, to the node decided", detail));
        }
        let other = |r: &&Request| r.life == self.process.life && r.uid == uid && r.node != node;
        // Of a pod that is gone nothing can be carried out; a slow watch may still speak of it.
        let exists = self.server.pods.contains_key(uid);
        if let Some(request) = self.in_air.values().find(other).filter(|_| exists) {
            let detail = format!("{uid} is sent to {node} while {} may still get it", request.node);
            return Err(broken("no second target while the first binding is unknown", detail));
        }
        Ok(())
    }

    /// A gated pod costs no request, and somebody else's is none of our business.
    pub(crate) fn check_may_speak_of(&self, pod: &PodRef) -> Result<(), Broken> {
        match self.process.pods.get(&*pod.uid) {
            Some(seen) if seen.gated || !seen.ours => {
                Err(broken("gated and foreign pods are not spoken of", pod.uid.to_string()))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check_report(&mut self, report: &Report) -> Result<(), Broken> {
        let uid = &*report.pod.uid;
        match &report.outcome {
            Outcome::Placed { node, .. } => {
                self.check_placed(uid, node)?;
                self.note_placed(uid, node);
            }
            Outcome::Unschedulable { message, .. } => {
                self.check_nowhere(uid)?;
                // One decided anew that never left.
                self.process.decided.remove(uid);
                self.process.told.entry(uid.to_owned()).or_default().failure = Some(message.clone());
            }
            Outcome::BindFailed { message } => {
                self.process.decided.remove(uid);
                self.process.told.entry(uid.to_owned()).or_default().failure = Some(message.clone());
                self.check_failed(uid)?;
            }
            Outcome::Error { message } => {
                return Err(broken("no attempt fails by itself", format!("{uid}: {message}")));
            }
            Outcome::PreemptionEnded { .. } => {}
            Outcome::Skipped => {
                if !self.process.pods.get(uid).is_some_and(|pod| pod.deleting) {
                    return Err(broken("only pods that are being deleted are skipped", uid.to_owned()));
                }
            }
            Outcome::PreBound { .. } => {
                return Err(broken("no pod here has volumes", uid.to_owned()));
            }
            Outcome::Bound { node } => {
                if self.server.pods.get(uid).is_some_and(|pod| pod.node.as_deref() != Some(node)) {
                    return Err(broken("a pod said to be bound is", format!("{uid} on {node}")));
                }
            }
        }
        Ok(())
    }

    fn seen_info(&mut self, uid: &str) -> Result<Arc<PodInfo>, Broken> {
        let Some(pod) = self.process.pods.get(uid).cloned() else {
            return Err(broken("only known pods are decided about", uid.to_owned()));
        };
        Ok(self.process.info(&pod))
    }

    /// The winner is feasible by the reference.
    fn check_placed(&mut self, uid: &str, node: &str) -> Result<(), Broken> {
        let pod = self.seen_info(uid)?;
        if let Some(there) = self.process.decided.get(uid).filter(|d| d.released.is_some()) {
            let detail = format!("{uid} to {node}, with one to {} not settled", there.node);
            return Err(broken("no decision while an earlier one is on its way", detail));
        }
        let snapshot = self.process.scheduler.snapshot();
        let name = snapshot.tables().find(node);
        let objection = match name {
            Some(name) => World::seen_by(snapshot).without(uid).objection(&pod, name),
            None => Some("nobody knows that node".to_owned()),
        };
        match objection {
            Some(why) => Err(broken("the node decided can take the pod", format!("{uid} on {node}: {why}"))),
            None => Ok(()),
        }
    }

    /// No node is feasible by the reference.
    fn check_nowhere(&mut self, uid: &str) -> Result<(), Broken> {
        let pod = self.seen_info(uid)?;
        let snapshot = self.process.scheduler.snapshot();
        match evictions::feasible(snapshot, &pod).first() {
            Some(&node) => Err(broken(
                "a pod said to be unschedulable is",
                format!("{uid} fits on {}", snapshot.text(node)),
            )),
            None => Ok(()),
        }
    }

    /// A binding that is said to have failed was not carried out, and will not be.
    fn check_failed(&self, uid: &str) -> Result<(), Broken> {
        let life = self.process.life;
        let ours = self.server.pods.get(uid).filter(|pod| pod.bound_by == Some(life));
        if let Some(node) = ours.and_then(|pod| pod.node.as_ref()) {
            let detail = format!("{uid} is on {node} by our own hand");
            return Err(broken("a binding said to have failed was not carried out", detail));
        }
        let exists = self.server.pods.contains_key(uid);
        match self.in_air.values().find(|r| exists && r.life == life && r.uid == uid) {
            Some(request) => {
                let detail = format!("{uid} may still get to {}", request.node);
                Err(broken("a binding is given up only when it cannot be carried out any more", detail))
            }
            None => Ok(()),
        }
    }

    // --- the server's truth

    /// Where nothing changed between what was known and the write, the write breaks no rule.
    pub(crate) fn check_bound(&mut self, request: &Request) -> Result<(), Broken> {
        let unchanged = request.decided_on.is_some_and(|stamp| stamp == self.server.whole_stamp());
        let node_unchanged =
            request.released_on.is_some_and(|stamp| stamp == self.server.node_stamp(&request.node));
        if !unchanged && !node_unchanged {
            return Ok(());
        }
        self.truths[usize::from(unchanged)] += 1;
        let objection = self.in_truth(&request.uid, |world, pod, tables_node| {
            if unchanged {
                world.objection(pod, tables_node)
            } else {
                world.local_objection(pod, tables_node)
            }
        });
        match objection {
            Some(why) => Err(broken(
                "a binding breaks no rule in the server's truth",
                format!("{} on {}: {why}", request.uid, request.node),
            )),
            None => Ok(()),
        }
    }

    /// Asks about a bound pod in the world of the server's truth and of what is on its way there, without the pods
    /// decided about later: they have to bear with this one, not the other way round.
    fn in_truth<T>(&mut self, uid: &str, ask: impl FnOnce(&World<'_>, &PodInfo, Symbol) -> T) -> T {
        let pods: Vec<_> = self.server.pods.values().cloned().collect();
        let number = |sim: &Self, uid: &str| sim.process.numbers.get(uid).copied();
        let own = number(self, uid).expect("a pod that was bound was decided about");
        let mut placed: Vec<(Arc<PodInfo>, String)> = Vec::new();
        for pod in &pods {
            let life = pod.bound_by.is_none_or(|life| life == self.process.life);
            if life && number(self, &pod.uid).is_some_and(|number| number > own) {
                continue;
            }
            let released = || self.process.decided.get(&pod.uid).filter(|d| d.released.is_some());
            let on_the_way = || released().map(|decided| &decided.node);
            if let Some(node) = pod.node.as_ref().or_else(on_the_way).cloned() {
                placed.push((self.process.info(pod), node));
            }
        }
        let tables = self.process.scheduler.tables();
        let nodes: Vec<NodeInfo> = self.server.nodes.values().map(|node| node.info(tables)).collect();
        let names: Vec<Symbol> = placed.iter().map(|(_, node)| tables.symbol(node)).collect();
        let mut namespaces: Vec<(Symbol, LabelSetId)> = Vec::new();
        for (&name, &team) in &self.server.namespaces {
            let pair = (tables.symbol("team"), tables.symbol(team));
            namespaces.push((tables.symbol(name), tables.label_set(vec![pair])));
        }
        let at = placed.iter().position(|(pod, _)| *pod.uid == *uid).expect("the pod is bound");
        let (pod, node) = (Arc::clone(&placed[at].0), names[at]);
        let on_nodes = placed.iter().map(|(pod, _)| &**pod).zip(names.iter().copied());
        let world = World::new(tables, nodes.iter().collect(), on_nodes, namespaces).without(uid);
        ask(&world, &pod, node)
    }

    // --- the scheduler's state

    /// Every waiting pod is in one place, and none is there that does not wait.
    pub(crate) fn check_places(&self) -> Result<(), Broken> {
        let process = &self.process;
        let queue = process.scheduler.queue();
        let waits = |uid: &str| process.pods.get(uid).is_some_and(|pod| pod.ours && pod.node.is_none());
        for (place, queued) in queue.waiting() {
            let uid = &*queued.pod.uid;
            if !waits(uid) {
                return Err(broken("only waiting pods are queued", format!("{uid} in {}", place.as_str())));
            }
            // One that waits for its victims may be kept back, too.
            let held = queued.gate.is_some_and(|gate| gate == supercargo_core::preemption::NAME);
            if (place == Place::Gated) != (held || !queued.pod.gates.is_empty()) {
                return Err(broken("gated pods are in their place", format!("{uid} in {}", place.as_str())));
            }
        }
        let alive = |pod: &&Arc<Pod>| !pod.deleting && !process.known_gone.contains(&pod.uid);
        for pod in process.pods.values().filter(alive).filter(|pod| waits(&pod.uid)) {
            let (queued, decided) = (queue.contains(&pod.uid), process.decided.get(&pod.uid));
            let released = decided.is_some_and(|d| d.released.is_some());
            if !queued && decided.is_none() || queued && released {
                let detail = format!("{}: queued {queued}, decided {decided:?}", pod.uid);
                return Err(broken("no pod is lost and none is in two places", detail));
            }
        }
        let stats = process.scheduler.stats();
        let assumed = process.decided.keys().filter(|uid| !queue.contains(uid)).count();
        if stats.cache.assumed_pods != assumed {
            let detail = format!("{} are, and {assumed} decisions stand", stats.cache.assumed_pods);
            return Err(broken("exactly the pods with a standing decision are assumed", detail));
        }
        self.check_bounds()
    }

    fn check_bounds(&self) -> Result<(), Broken> {
        let [bind, volume, evict, status, record] = self.process.scheduler.stats().outgoing;
        // A pod has one entry in the lane of bindings at most, and may leave one behind when it goes.
        if bind as u64 > 2 * self.scale.pods
            || volume > 0
            || evict.max(status) > self.process.pods.len()
            || record > 1_000
        {
            let detail = format!(
                "{bind} bindings, {volume} volumes, {evict} evictions, {status} patches, {record} records wait"
            );
            return Err(broken("the outbox has bounds", detail));
        }
        Ok(())
    }

    /// The cache holds what the watches told and what was decided, and its sums are those of a recount.
    pub(crate) fn check_cache(&self) -> Result<(), Broken> {
        let process = &self.process;
        let snapshot = process.scheduler.snapshot();
        if snapshot.nodes().len() != process.nodes.len() {
            let detail = format!("{} nodes, {} were told of", snapshot.nodes().len(), process.nodes.len());
            return Err(broken("the cache holds the nodes it was told of", detail));
        }
        let mut expected: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for pod in process.pods.values() {
            let assumed = || Some(&process.decided.get(&pod.uid)?.node);
            let queued = process.scheduler.queue().contains(&pod.uid);
            if let Some(node) = pod.node.as_ref().or_else(assumed).filter(|_| !queued) {
                expected.entry(node).or_default().push(&pod.uid);
            }
        }
        for idx in snapshot.nodes().iter() {
            let name = snapshot.text(snapshot.node_info(idx).name);
            if !process.nodes.contains_key(name) {
                return Err(broken("the cache holds the nodes it was told of", name.to_owned()));
            }
            let mut there: Vec<&str> = snapshot.pods_on(idx).map(|pod| &*pod.uid).collect();
            there.sort_unstable();
            let expected = expected.remove(name).unwrap_or_default();
            if there != expected {
                let detail = format!("{name} has {there:?}, expected {expected:?}");
                return Err(broken("each pod counts on its node", detail));
            }
            self.check_columns(idx)?;
        }
        Ok(())
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
                "a node's sums are those of a recount",
                format!("{}: {}", snapshot.text(info.name), what.join(", ")),
            )),
        }
    }

    /// No pod waits for an event while a node could take it: a hint would have missed a wake-up.
    pub(crate) fn check_hints(&self) -> Result<(), Broken> {
        let snapshot = self.process.scheduler.snapshot();
        let assumed = self.process.scheduler.stats().cache.assumed_pods;
        for (place, queued) in self.process.scheduler.queue().waiting() {
            if place != Place::Unschedulable || queued.pod.deleting {
                continue;
            }
            // Whom an assumed pod would help is woken when that pod is confirmed, as upstream wakes it.
            if assumed > 0 && reference::may_be_helped_by_pods(&queued.pod) {
                continue;
            }
            if let Some(&node) = evictions::feasible(snapshot, &queued.pod).first() {
                let detail = format!(
                    "{} fits on {}; it waits for {:?}",
                    queued.pod.uid,
                    snapshot.text(node),
                    queued.rejectors
                );
                return Err(broken("no pod waits for an event that has come", detail));
            }
        }
        Ok(())
    }

    // --- in the end

    /// A while after the faults have stopped everything is as it should be.
    pub(crate) fn check_end(&self) -> Result<(), Broken> {
        let process = &self.process;
        if process.scheduler.awaited_kinds().next().is_some() {
            return Err(broken("lists come to an end", "a kind is still awaited".to_owned()));
        }
        if !process.scheduler.is_settled() || !process.decided.is_empty() {
            let detail = format!("{:?}; decided {:?}", process.scheduler.stats(), process.decided);
            return Err(broken("bindings and effects drain", detail));
        }
        for kind in [Kind::Pod, Kind::Node] {
            debug_assert!(
                self.watches.delivered(kind) > 0 || self.server.version() == 0,
                "{kind:?} was listed"
            );
        }
        for pod in self.server.pods.values().filter(|pod| pod.ours && !pod.gated && !pod.deleting) {
            let told = process.told.get(&pod.uid).cloned().unwrap_or_default();
            let wrong = if pod.node.is_some() {
                pod.bound_by == Some(process.life) && told.scheduled_records != 1
            } else {
                told.failed_records == 0
                    || told.failure.is_none()
                    || pod.condition.as_ref().map(|(_, message)| message) != told.failure.as_ref()
            };
            if wrong {
                let detail = format!("{}: on {:?}, {:?}, {told:?}", pod.uid, pod.node, pod.condition);
                return Err(broken("every pod has its event, and a waiting one its condition", detail));
            }
        }
        let waiting = |pod: &&Arc<Pod>| pod.ours && pod.node.is_none() && !pod.deleting;
        let pending = self.server.pods.values().filter(waiting).count();
        let queued = process.scheduler.queue().waiting().filter(|(_, queued)| !queued.pod.deleting).count();
        if pending != queued {
            let detail = format!("{pending} pods are pending, {queued} are queued");
            return Err(broken("the queue accounts for every pending pod", detail));
        }
        self.check_places()?;
        self.check_cache()?;
        self.check_hints()
    }
}
