//! Preemption as the simulated API server carries it out, and where a pod may go beside those that are nominated.
//!
//! Whom to send away is the scheduler's choice, and not judged here.

use crate::agenda::{Answer, Due};
use crate::check::{Broken, broken};
use crate::objects::Pod;
use crate::reference::World;
use crate::server::By;
use crate::sim::Sim;
use crate::weather::wait;
use std::time::Duration;
use supercargo_core::cache::Snapshot;
use supercargo_core::effect::{Eviction, Nomination};
use supercargo_core::event::EvictOutcome;
use supercargo_core::intern::Symbol;
use supercargo_core::node::NodeIdx;
use supercargo_core::pod::PodInfo;

/// The longest a victim takes to end.
const GRACE: Duration = Duration::from_secs(10);

/// The names of the nodes of a world that can take `pod`, with and without the pods nominated there that come before it.
pub(crate) fn feasible<'a>(
    world: impl Fn() -> World<'a>,
    snapshot: Snapshot<'a>,
    pod: &PodInfo,
) -> Vec<Symbol> {
    let mut nodes = world().without(&pod.uid).feasible(pod);
    // Where nobody is nominated, that was all there is to ask.
    nodes.retain(|&name| {
        snapshot.find_node(name).is_some_and(|idx| {
            come_before(snapshot, idx, pod).next().is_none()
                || objection(&world, snapshot, pod, name).is_none()
        })
    });
    nodes
}

/// The pods nominated to a node that come before `pod`.
fn come_before<'a>(
    snapshot: Snapshot<'a>,
    node: NodeIdx,
    pod: &PodInfo,
) -> impl Iterator<Item = &'a PodInfo> {
    let before = |other: &&PodInfo| other.priority >= pod.priority && other.uid != pod.uid;
    snapshot.nominated_on(node).iter().map(|other| &**other).filter(before)
}

/// Why a node cannot take `pod`, alone or beside the pods nominated there that come before it.
pub(crate) fn objection<'a>(
    world: impl Fn() -> World<'a>,
    snapshot: Snapshot<'a>,
    pod: &PodInfo,
    name: Symbol,
) -> Option<String> {
    let Some(idx) = snapshot.find_node(name) else { return Some("there is no such node".to_owned()) };
    let world = || world().without(&pod.uid);
    let alone = || world().objection(pod, name);
    let nominated = || come_before(snapshot, idx, pod);
    let beside = || nominated().fold(world(), |world, other| world.with(other, name)).objection(pod, name);
    let whom = || nominated().map(|other| &*other.uid).collect::<Vec<_>>().join(" ");
    let and_beside = || nominated().next().and_then(|_| Some(format!("beside {}: {}", whom(), beside()?)));
    alone().or_else(and_beside)
}

/// The names of the nodes that can take `pod`, where of the pods nominated there only their room and their ports count.
///
/// The engine may see more than that, and need not: as upstream does, it asks a plugin that has nothing to say about the
/// pods that are there nothing about those that are nominated, and so overlooks what the nominated keep away.
pub(crate) fn feasible_at_least<'a>(
    world: impl Fn() -> World<'a>,
    snapshot: Snapshot<'a>,
    pod: &PodInfo,
) -> Vec<Symbol> {
    let world = || world().without(&pod.uid);
    let mut nodes = world().feasible(pod);
    nodes.retain(|&name| {
        let Some(idx) = snapshot.find_node(name) else { return false };
        let mut nominated = come_before(snapshot, idx, pod).peekable();
        nominated.peek().is_none()
            || nominated
                .fold(world(), |world, other| world.with(other, name))
                .local_objection(pod, name)
                .is_none()
    });
    nodes
}

impl Sim {
    pub(crate) fn send_eviction(&mut self, eviction: &Eviction) -> Result<(), Broken> {
        let uid = eviction.pod.uid.to_string();
        if !self.process.evicting.insert(uid.clone()) {
            return Err(broken("a pod is sent away once", uid));
        }
        self.say("evict", &uid, format_args!("sent away"));
        let delay = wait(&mut self.draw, self.weather.request_delay);
        self.agenda.write(self.now + delay, Due::Evict { life: self.process.life, uid });
        Ok(())
    }

    /// An eviction arrives at the API server.
    pub(crate) fn eviction_arrives(&mut self, life: u32, uid: String) {
        let w = self.weather;
        if self.draw.percent(w.foreign) {
            self.fault("eviction answered by somebody else");
            let answer = Answer::Evicted {
                uid: uid.clone(),
                outcome: EvictOutcome::Failed { message: "the answer is not the API server's".to_owned() },
            };
            let delay = wait(&mut self.draw, w.request_delay);
            self.agenda.write(self.now + delay, Due::Answer { life, answer });
            if let Some(late) = self.draw_late() {
                self.agenda.write(self.now + late, Due::LateEviction(uid));
            }
            return;
        }
        let faults = w.forbidden + w.lost_but_applied + w.lost;
        let (is_applied, is_told) = self.draw.weighted(&[
            (100 - faults, (true, true)),
            (w.forbidden + w.lost, (false, false)),
            (w.lost_but_applied, (true, false)),
        ]);
        match (is_applied, is_told) {
            (false, _) => self.fault("eviction refused"),
            (true, false) => self.fault("eviction applied, answer lost"),
            (true, true) => {}
        }
        let exists = self.server.pods.contains_key(&uid);
        if is_applied {
            self.evict(&uid);
        }
        let outcome = match is_told {
            true if exists => EvictOutcome::Deleted,
            true => EvictOutcome::Gone,
            false => EvictOutcome::Failed { message: "not now".to_owned() },
        };
        let delay = wait(&mut self.draw, self.weather.request_delay);
        self.agenda.write(self.now + delay, Due::Answer { life, answer: Answer::Evicted { uid, outcome } });
    }

    pub(crate) fn evict(&mut self, uid: &str) {
        let Some(pod) = self.server.pods.get(uid).cloned() else { return };
        self.say("server", uid, format_args!("deletion begins"));
        if pod.node.is_none() {
            return self.server.remove_pod(uid);
        }
        self.server.put_pod(Pod { deleting: true, preempted: true, ..Pod::clone(&pod) }, By::World);
        let grace = wait(&mut self.draw, GRACE);
        self.agenda.write(self.now + grace, Due::Gone(uid.to_owned()));
    }
}

/// The pod's nomination after a patch.
pub(crate) fn renominated(pod: &Pod, change: &Nomination) -> Option<String> {
    match change {
        // The binding ends it, and a patch that comes later does not bring it back.
        _ if pod.node.is_some() => None,
        Nomination::Keep => pod.nominated.clone(),
        Nomination::Clear => None,
        Nomination::Set(node) => Some(node.clone()),
    }
}
