//! Evictions on the simulated API server, and feasible nodes with nominated pods counted.
//!
//! The choice of victims is not checked here.

use crate::agenda::{Answer, Due};
use crate::check::{Broken, broken};
use crate::fault_rates::draw_delay;
use crate::objects::Pod;
use crate::reference::ReferenceCluster;
use crate::server::By;
use crate::sim::Sim;
use std::time::Duration;
use supercargo_core::cache::Snapshot;
use supercargo_core::model::effect::{Eviction, Nomination};
use supercargo_core::model::event::{EvictOutcome, Kind};
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::PodInfo;

/// The maximum termination time of a victim.
const GRACE: Duration = Duration::from_secs(10);

/// Returns the nodes on which `pod` is feasible both with and without the nominated pods that precede it.
pub(crate) fn feasible<'a>(
    world: impl Fn() -> ReferenceCluster<'a>,
    snapshot: Snapshot<'a>,
    pod: &PodInfo,
) -> Vec<Symbol> {
    let mut nodes = world().without(&pod.uid).feasible(pod);
    // Without preceding nominated pods, the first evaluation is sufficient.
    nodes.retain(|&name| {
        snapshot.find_node(name).is_some_and(|idx| {
            preceding_nominations(snapshot, idx, pod).next().is_none()
                || rejection_reason(&world, snapshot, pod, name).is_none()
        })
    });
    nodes
}

/// Returns the pods nominated to a node that precede `pod`: those of equal or higher priority.
fn preceding_nominations<'a>(
    snapshot: Snapshot<'a>,
    node: NodeIdx,
    pod: &PodInfo,
) -> impl Iterator<Item = &'a PodInfo> {
    let before = |other: &&PodInfo| other.priority >= pod.priority && other.uid != pod.uid;
    snapshot.nominated_on(node).iter().map(|other| &**other).filter(before)
}

/// Returns why a node is infeasible for `pod`, alone or with the nominated pods that precede it.
pub(crate) fn rejection_reason<'a>(
    world: impl Fn() -> ReferenceCluster<'a>,
    snapshot: Snapshot<'a>,
    pod: &PodInfo,
    name: Symbol,
) -> Option<String> {
    let Some(idx) = snapshot.find_node(name) else { return Some("node not found".to_owned()) };
    let world = || world().without(&pod.uid);
    let alone = || world().rejection_reason(pod, name);
    let nominated = || preceding_nominations(snapshot, idx, pod);
    let beside =
        || nominated().fold(world(), |world, other| world.with(other, name)).rejection_reason(pod, name);
    let whom = || nominated().map(|other| &*other.uid).collect::<Vec<_>>().join(" ");
    let and_beside =
        || nominated().next().and_then(|_| Some(format!("with nominated {}: {}", whom(), beside()?)));
    alone().or_else(and_beside)
}

/// Returns the nodes that are feasible for `pod` if only the resources and host ports of preceding nominated
/// pods count.
///
/// The engine may find more reasons for rejection, but need not. As upstream, it skips plugins that PreFilter
/// skipped for the present pods, and so misses rejections that the nominated pods would cause.
pub(crate) fn feasible_at_least<'a>(
    world: impl Fn() -> ReferenceCluster<'a>,
    snapshot: Snapshot<'a>,
    pod: &PodInfo,
) -> Vec<Symbol> {
    let world = || world().without(&pod.uid);
    let mut nodes = world().feasible(pod);
    nodes.retain(|&name| {
        let Some(idx) = snapshot.find_node(name) else { return false };
        let mut nominated = preceding_nominations(snapshot, idx, pod).peekable();
        nominated.peek().is_none()
            || nominated
                .fold(world(), |world, other| world.with(other, name))
                .local_rejection_reason(pod, name)
                .is_none()
    });
    nodes
}

/// The share of evictions during which pods are listed again.
const LISTED_DURING_EVICTION: u64 = 50;

impl Sim {
    pub(crate) fn send_eviction(&mut self, eviction: &Eviction) -> Result<(), Broken> {
        let uid = eviction.pod.uid.to_string();
        if !self.process.evicting.insert(uid.clone()) {
            return Err(broken("a pod is evicted once", uid));
        }
        self.say("evict", &uid, format_args!("sent"));
        let delay = draw_delay(&mut self.draw, self.fault_rates.request_delay);
        self.agenda.write(self.now + delay, Due::Evict { incarnation: self.process.incarnation, uid });
        // Few lists would come by chance while victims leave.
        if self.draw.percent(LISTED_DURING_EVICTION) {
            self.list_again(Kind::Pod);
        }
        Ok(())
    }

    /// Handles an eviction that arrives at the API server.
    pub(crate) fn eviction_arrives(&mut self, incarnation: u32, uid: String) {
        let w = self.fault_rates;
        if self.draw.percent(w.foreign) {
            self.fault("eviction answered by a foreign server");
            let answer = Answer::Evicted {
                uid: uid.clone(),
                outcome: EvictOutcome::Failed { message: "not an answer of the API server".to_owned() },
            };
            let delay = draw_delay(&mut self.draw, w.request_delay);
            self.agenda.write(self.now + delay, Due::Answer { incarnation, answer });
            if let Some(late) = self.draw_late() {
                self.agenda.write(self.now + late, Due::LateEviction(uid));
            }
            return;
        }
        let faults = w.forbidden + w.lost_but_applied + w.lost;
        let (is_applied, is_answered) = self.draw.weighted(&[
            (100 - faults, (true, true)),
            (w.forbidden + w.lost, (false, false)),
            (w.lost_but_applied, (true, false)),
        ]);
        match (is_applied, is_answered) {
            (false, _) => self.fault("eviction rejected"),
            (true, false) => self.fault("eviction applied, answer lost"),
            (true, true) => {}
        }
        let exists = self.server.pods.contains_key(&uid);
        if is_applied {
            self.evict(&uid);
        }
        let outcome = match is_answered {
            true if exists => EvictOutcome::Deleted,
            true => EvictOutcome::Gone,
            false => EvictOutcome::Failed { message: "not now".to_owned() },
        };
        let delay = draw_delay(&mut self.draw, self.fault_rates.request_delay);
        self.agenda
            .write(self.now + delay, Due::Answer { incarnation, answer: Answer::Evicted { uid, outcome } });
    }

    pub(crate) fn evict(&mut self, uid: &str) {
        let Some(pod) = self.server.pods.get(uid).cloned() else { return };
        self.say("server", uid, format_args!("terminating"));
        if pod.node.is_none() {
            return self.server.remove_pod(uid);
        }
        self.server.put_pod(Pod { deleting: true, preempted: true, ..Pod::clone(&pod) }, By::Others);
        let grace = draw_delay(&mut self.draw, GRACE);
        self.agenda.write(self.now + grace, Due::Gone(uid.to_owned()));
    }
}

/// Returns the pod's nomination after a patch.
pub(crate) fn renominated(pod: &Pod, change: &Nomination) -> Option<String> {
    match change {
        // The binding ends the nomination; a later patch does not restore it.
        _ if pod.node.is_some() => None,
        Nomination::Keep => pod.nominated.clone(),
        Nomination::Clear => None,
        Nomination::Set(node) => Some(node.clone()),
    }
}
