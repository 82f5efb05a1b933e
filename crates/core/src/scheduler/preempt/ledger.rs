//! The ledger of running preemptions and their evictions.
//!
//! It decides nothing about other pods: what an answer means for queue and nominations is up to the scheduler.

use crate::cache::Cache;
use crate::model::intern::{Marks, Symbol, TraceIds, trace_ids};
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::scheduler::outbox::Outbox;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A group that preempts as a whole.
pub(super) struct Preempting {
    /// The group's uid.
    pub(super) uid: Uid,
    /// The members that wait until the victims leave.
    pub(super) blocked: Vec<Uid>,
}

/// A preemption with victims that are not terminating yet.
pub(super) struct Running {
    /// The pod, or a member of the group.
    pub(super) preemptor: Arc<PodInfo>,
    /// The group, if not a single pod preempts.
    pub(super) group: Option<Preempting>,
    pub(super) attempt: u32,
    /// The nominated node; `None` for a group.
    pub(super) node: Option<Symbol>,
    pub(super) began: Time,
    /// The victims that the watch does not show as terminating yet, in order. The last is evicted last.
    pub(super) left: Vec<Uid>,
}

impl Running {
    /// Returns the uid of the pod or the group that preempts.
    fn uid(&self) -> &Uid {
        self.group.as_ref().map_or(&self.preemptor.uid, |group| &group.uid)
    }

    /// Returns the pods that wait for the victims.
    pub(super) fn blocked(&self) -> &[Uid] {
        self.group.as_ref().map_or(std::slice::from_ref(&self.preemptor.uid), |group| &group.blocked)
    }
}

/// Whether an eviction began.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Begun {
    Yes,
    /// The pod has no node any more, or is being evicted already.
    No,
    /// The preemption has ended.
    Ended,
}

/// A pod that is being evicted, its node, and the first pod for which it is evicted.
pub(super) struct EvictedPod {
    pub(super) pod: Arc<PodInfo>,
    pub(super) node: Symbol,
    pub(super) preemptor: Arc<PodInfo>,
    /// The uid of the group that preempts, if not a single pod does.
    pub(super) group: Option<Uid>,
}

impl EvictedPod {
    fn of(victim: &Victim) -> Self {
        let Victim { pod, node, preemptor, group, .. } = victim;
        Self { pod: Arc::clone(pod), node: *node, preemptor: Arc::clone(preemptor), group: group.clone() }
    }
}

/// The state of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for release.
    Waiting,
    /// Released, without an answer.
    InFlight,
    /// Answered, but the watch does not show the deletion yet.
    Answered,
}

/// A pod that is being evicted. The record is kept until the watch shows it terminating, so that it is not evicted
/// twice.
struct Victim {
    pod: Arc<PodInfo>,
    node: Symbol,
    /// The first pod for which it is evicted.
    preemptor: Arc<PodInfo>,
    /// The uid of the group that preempts, if not a single pod does.
    group: Option<Uid>,
    stage: Stage,
    /// Whether the watch has shown it as terminating.
    left: bool,
}

/// All running preemptions, and their evictions.
#[derive(Default)]
pub(in crate::scheduler) struct Preemptions {
    running: BTreeMap<Uid, Running>,
    /// The preemptors by nominated node.
    by_node: BTreeMap<Symbol, BTreeSet<Uid>>,
    victims: BTreeMap<Uid, Victim>,
    /// The members of groups that wait, each with the uid of its group.
    members: BTreeMap<Uid, Uid>,
    /// The preemptors that wait for each victim.
    awaited: BTreeMap<Uid, BTreeSet<Uid>>,
}

impl Preemptions {
    /// Starts the preemption of the victims that are still to be evicted, and returns whether there are any.
    pub(super) fn start(&mut self, mut preemption: Running, cache: &Cache) -> bool {
        let stays = |uid: &Uid| cache.placed(uid).is_some_and(|(victim, ..)| !victim.deleting);
        preemption.left.retain(stays);
        let any = !preemption.left.is_empty();
        if any {
            self.begin(preemption);
        }
        any
    }

    fn begin(&mut self, running: Running) {
        let preemptor = Arc::clone(running.uid());
        for victim in &running.left {
            self.awaited.entry(Arc::clone(victim)).or_default().insert(Arc::clone(&preemptor));
        }
        if let Some(node) = running.node {
            self.by_node.entry(node).or_default().insert(Arc::clone(&preemptor));
        }
        for member in running.group.iter().flat_map(|group| &group.blocked) {
            self.members.insert(Arc::clone(member), Arc::clone(&preemptor));
        }
        self.running.insert(preemptor, running);
    }

    /// Lets a new member wait with the others for the victims of its group. Returns whether they wait.
    pub(in crate::scheduler) fn join(&mut self, group: &str, member: &Uid) -> bool {
        let running = self.running.get_mut(group).and_then(|running| running.group.as_mut());
        let Some(preempting) = running.filter(|preempting| !preempting.blocked.is_empty()) else {
            return false;
        };
        preempting.blocked.push(Arc::clone(member));
        self.members.insert(Arc::clone(member), Arc::clone(&preempting.uid));
        true
    }

    /// Removes a preemption.
    fn finish(&mut self, preemptor: &str) -> Option<Running> {
        let running = self.running.remove(preemptor)?;
        for member in running.group.iter().flat_map(|group| &group.blocked) {
            self.members.remove(member);
        }
        if let Some(node) = running.node
            && let Entry::Occupied(mut there) = self.by_node.entry(node)
        {
            there.get_mut().remove(preemptor);
            if there.get().is_empty() {
                there.remove();
            }
        }
        for victim in &running.left {
            self.awaits_no_more(preemptor, victim);
        }
        Some(running)
    }

    fn awaits_no_more(&mut self, preemptor: &str, victim: &str) {
        if let Some(waiting) = self.awaited.get_mut(victim) {
            waiting.remove(preemptor);
            if waiting.is_empty() {
                self.awaited.remove(victim);
            }
        }
    }

    /// Removes a victim from a preemption.
    pub(super) fn strike_out(&mut self, preemptor: &str, victim: &str) {
        if let Some(running) = self.running.get_mut(preemptor) {
            running.left.retain(|left| **left != *victim);
        }
        self.awaits_no_more(preemptor, victim);
    }

    /// Returns the number of running preemptions.
    pub(in crate::scheduler) fn running(&self) -> usize {
        self.running.len()
    }

    /// Whether the pod waits for its victims, or for those of its group.
    pub(in crate::scheduler) fn is_running(&self, preemptor: &str) -> bool {
        self.running.contains_key(preemptor) || self.members.contains_key(preemptor)
    }

    /// Returns the number of pods that are being evicted.
    pub(in crate::scheduler) fn evictions(&self) -> usize {
        self.victims.len()
    }

    /// Whether an eviction has no answer yet.
    pub(in crate::scheduler) fn is_any_in_flight(&self) -> bool {
        self.victims.values().any(|victim| victim.stage == Stage::InFlight)
    }

    /// Returns the preemptors that wait for the victim.
    pub(super) fn waiting_for(&self, victim: &str) -> Vec<Uid> {
        self.awaited.get(victim).into_iter().flatten().cloned().collect()
    }

    /// Returns the victims of a preemption that may be evicted now and are not being evicted yet.
    pub(super) fn evictable(&self, preemptor: &str) -> Vec<Uid> {
        let Some(Running { left, .. }) = self.running.get(preemptor) else { return Vec::new() };
        let Some((last, others)) = left.split_last() else { return Vec::new() };
        let is_answered =
            |uid: &Uid| self.victims.get(uid).is_some_and(|victim| victim.stage == Stage::Answered);
        let mut evictable = others.to_vec();
        if others.iter().all(is_answered) {
            evictable.push(Arc::clone(last));
        }
        evictable.retain(|uid| !self.victims.contains_key(uid));
        evictable
    }

    /// Begins to evict a victim for a preemptor.
    pub(super) fn evict(&mut self, preemptor: &Uid, uid: &Uid, cache: &Cache) -> Begun {
        let Some(running) = self.running.get(preemptor) else { return Begun::Ended };
        let preemptor = Arc::clone(&running.preemptor);
        let group = running.group.as_ref().map(|group| Arc::clone(&group.uid));
        let Some((pod, node, _)) = cache.placed(uid) else { return Begun::No };
        if self.victims.contains_key(uid) {
            return Begun::No;
        }
        debug_assert!(group.is_some() || pod.priority < preemptor.priority, "a victim is less important");
        let victim =
            Victim { pod: Arc::clone(pod), node, preemptor, group, stage: Stage::Waiting, left: false };
        self.victims.insert(Arc::clone(uid), victim);
        Begun::Yes
    }

    /// Whether a preemption runs that waits for no victim any more.
    pub(super) fn is_done(&self, preemptor: &str) -> bool {
        self.running.get(preemptor).is_some_and(|running| running.left.is_empty())
    }

    /// Returns an eviction with its victim.
    pub(super) fn eviction(&self, uid: &str) -> Option<EvictedPod> {
        self.victims.get(uid).map(EvictedPod::of)
    }

    /// Marks an eviction as sent, and returns what to evict; `None` if it is not needed any more.
    pub(super) fn send(&mut self, uid: &str, cache: &Cache) -> Option<EvictedPod> {
        let victim = self.victims.get_mut(uid)?;
        let node = victim.node;
        let (pod, ..) = cache.placed(uid).filter(|(pod, on, _)| *on == node && !pod.deleting)?;
        victim.stage = Stage::InFlight;
        victim.pod = Arc::clone(pod);
        Some(EvictedPod::of(victim))
    }

    /// Handles the answer to an eviction, and returns it.
    pub(super) fn answered(&mut self, uid: &str, has_failed: bool) -> Option<EvictedPod> {
        let victim = self.victims.get_mut(uid)?;
        victim.stage = Stage::Answered;
        let (evicted, left) = (EvictedPod::of(victim), victim.left);
        if left || has_failed {
            self.victims.remove(uid);
        }
        Some(evicted)
    }

    /// Handles a victim that the watch shows as terminating or deleted.
    pub(super) fn left(&mut self, uid: &str) {
        match self.victims.get_mut(uid) {
            Some(victim) if victim.stage == Stage::InFlight => victim.left = true,
            Some(victim) if victim.stage == Stage::Answered => {
                self.victims.remove(uid);
            }
            Some(_) | None => {}
        }
    }

    /// Cancels the eviction of a pod, if it was not sent.
    pub(super) fn cancel(&mut self, uid: &str, outbox: &mut Outbox) {
        if self.victims.get(uid).is_some_and(|victim| victim.stage == Stage::Waiting) {
            self.victims.remove(uid);
            outbox.cancel_eviction(uid);
        }
    }

    /// Ends a preemption, and cancels its evictions that were not sent and that no other preemptor waits for.
    pub(super) fn end(&mut self, preemptor: &str, outbox: &mut Outbox) -> Option<Running> {
        let running = self.finish(preemptor)?;
        for uid in &running.left {
            if !self.awaited.contains_key(uid) {
                self.cancel(uid, outbox);
            }
        }
        Some(running)
    }

    /// Ends all preemptions and returns the pods that waited. Nothing more is sent; evictions in flight are still
    /// reported.
    pub(super) fn end_all(&mut self, outbox: &mut Outbox) -> Vec<Uid> {
        let preemptors: Vec<Uid> = self.running.keys().cloned().collect();
        let ended = preemptors.iter().filter_map(|preemptor| self.end(preemptor, outbox));
        ended.flat_map(|running| running.blocked().to_vec()).collect()
    }

    /// Returns the preemptors that are nominated to a node.
    pub(super) fn on_node(&self, node: Symbol) -> Vec<Uid> {
        self.by_node.get(&node).into_iter().flatten().cloned().collect()
    }
}

trace_ids!(Running { preemptor, node } but not { group, attempt, began, left });
trace_ids!(Victim { pod, node, preemptor } but not { group, stage, left });

impl TraceIds for Preemptions {
    fn mark(&self, marks: &mut Marks) {
        let Self { running, victims, by_node: _, members: _, awaited: _ } = self;
        running.values().for_each(|it| it.mark(marks));
        victims.values().for_each(|it| it.mark(marks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::PodState;
    use crate::model::intern::Tables;
    use crate::scheduler::quarantine::tests::pod;

    #[test]
    fn last_victim_is_evicted_after_the_others_were_answered() {
        let (mut tables, mut cache, mut outbox) = (Tables::new(), Cache::default(), Outbox::default());
        let mut preemptions = Preemptions::default();
        let node = tables.symbol("a");
        let victims: Vec<Uid> = ["x", "y", "z"].map(Uid::from).to_vec();
        for uid in &victims {
            cache.place(&Arc::new(*pod(&mut tables, uid, 1, Some("a"))), node, PodState::Added);
        }
        let mut high = pod(&mut tables, "high", 1, None);
        high.template.priority = 9;
        let (high, began) = (Arc::new(*high), Time::from_secs(1));
        let left = [&victims[..], &["gone".into()]].concat();
        let preemptor = Arc::clone(&high);
        let running = Running { preemptor, group: None, attempt: 1, node: Some(node), began, left };
        assert!(preemptions.start(running, &cache));
        assert_eq!(preemptions.evictable("high"), victims[..2], "a victim that is gone needs no eviction");
        for uid in &victims[..2] {
            assert_eq!(preemptions.evict(&high.uid, uid, &cache), Begun::Yes);
            assert_eq!(preemptions.evict(&high.uid, uid, &cache), Begun::No, "a pod is evicted once");
            assert!(preemptions.send(uid, &cache).is_some());
        }
        assert_eq!(preemptions.evictable("high"), [""; 0].map(Uid::from));
        preemptions.answered("x", false);
        preemptions.answered("y", false);
        assert_eq!(preemptions.evictable("high"), victims[2..]);
        for uid in &victims {
            preemptions.left(uid);
            for preemptor in preemptions.waiting_for(uid) {
                preemptions.strike_out(&preemptor, uid);
            }
        }
        assert!(preemptions.is_done("high"));
        assert!(preemptions.end("high", &mut outbox).is_some());
        assert_eq!((preemptions.running(), preemptions.evictions()), (0, 0));
    }

    #[test]
    fn eviction_of_a_pod_that_moved_or_terminates_is_not_sent() {
        for (on, deleting, is_sent) in [("a", false, true), ("b", false, false), ("a", true, false)] {
            let (mut tables, mut cache) = (Tables::new(), Cache::default());
            let (mut preemptions, node) = (Preemptions::default(), tables.symbol("a"));
            cache.place(&Arc::new(*pod(&mut tables, "low", 1, Some("a"))), node, PodState::Added);
            let mut high = pod(&mut tables, "high", 1, None);
            high.template.priority = 9;
            let (preemptor, began) = (Arc::new(*high), Time::from_secs(1));
            let uid = Arc::clone(&preemptor.uid);
            let left = vec!["low".into()];
            let running = Running { preemptor, group: None, attempt: 1, node: Some(node), began, left };
            assert!(preemptions.start(running, &cache));
            assert_eq!(preemptions.evict(&uid, &"low".into(), &cache), Begun::Yes);
            let mut now = pod(&mut tables, "low", 1, Some(on));
            now.deleting = deleting;
            cache.place(&Arc::new(*now), tables.symbol(on), PodState::Added);
            assert_eq!(preemptions.send("low", &cache).is_some(), is_sent, "on {on}, deleting: {deleting}");
            assert_eq!(preemptions.is_any_in_flight(), is_sent);
        }
    }
}
