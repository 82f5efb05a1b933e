//! The audit of pending pods: each pod of ours that the watch shows without a node must be in exactly one place.
//!
//! The places are the queue, the extender ledger, PreBind, an open binding, and the cache (an accepted binding that
//! waits for the watch). The audit keeps its own record of the watched pods. It checks one pod at each step, and the
//! rest in idle time. A pod in no place is queued again, and a pod in two places keeps the one closest to its
//! binding. Both cases are counted and reported in a notice.

use super::Scheduler;
use super::unknown_outcome::UNKNOWN_MAX;
use crate::cache::PodState;
use crate::collections::hash::FixedMap;
use crate::model::event::{BindingState, ObjectKey};
use crate::model::intern::{MarkWorklist, Marks, TraceIds, WorkBudget};
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::preemption;
use crate::report::Notice;
use crate::switches::mutation::{self, Mutation};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Pods checked at once in idle time. This takes less than 1 ms.
const PIECE: usize = 4_096;
/// The interval between two such batches. Batches take less than 0.5 % of the time, and wake an idle scheduler at
/// most twice a second. A full check of 150,000 pods takes 19 s.
const PAUSE: Duration = Duration::from_millis(500);
/// The number of unchecked pods up to which the interval is skipped.
const FEW: usize = 64;

/// A pending pod as the watch shows it.
struct Shown {
    pod: Arc<PodInfo>,
    /// When the API server reported that the pod does not exist, if the watch does not show this yet.
    said_gone: Option<Time>,
    /// Whether it was found in no place or in two.
    was_lost: bool,
}

/// The pending pods of ours that the watch shows.
#[derive(Default)]
pub(super) struct Audit {
    pods: Vec<Shown>,
    at: FixedMap<Uid, usize>,
    /// The index of the next pod to check.
    next: usize,
    /// The number of pods that are still to be checked since the last change.
    left: usize,
    next_piece: Time,
    /// The pods reported as missing, in the order of these reports.
    said_gone: VecDeque<(Time, Uid)>,
    repaired: u64,
    lost: usize,
    unmarked: MarkWorklist,
}

impl Audit {
    fn show(&mut self, pod: &Arc<PodInfo>) {
        let place = match self.at.get(&pod.uid) {
            Some(&place) => {
                let shown = &mut self.pods[place];
                (shown.pod, shown.said_gone) = (Arc::clone(pod), None);
                place
            }
            None => {
                let place = self.pods.len();
                self.at.insert(Arc::clone(&pod.uid), place);
                self.left += 1;
                self.pods.push(Shown { pod: Arc::clone(pod), said_gone: None, was_lost: false });
                place
            }
        };
        self.unmarked.put(place);
    }

    /// Removes a pod that is not pending any more.
    pub(super) fn forget(&mut self, uid: &str) {
        let Some(place) = self.at.remove(uid) else { return };
        let gone = self.pods.swap_remove(place);
        self.lost -= usize::from(gone.was_lost);
        if let Some(moved) = self.pods.get(place) {
            self.at.insert(Arc::clone(&moved.pod.uid), place);
            self.unmarked.put(place);
        }
        if self.pods.is_empty() {
            self.said_gone.clear();
        }
    }

    /// Records that the API server reported the pod as missing. It is in no place until the watch shows its deletion.
    pub(super) fn said_gone(&mut self, now: Time, uid: &str) {
        if let Some(&place) = self.at.get(uid) {
            let shown = &mut self.pods[place];
            shown.said_gone = Some(now);
            self.said_gone.push_back((now, Arc::clone(&shown.pod.uid)));
        }
    }

    /// Drops outdated entries at the front of `said_gone`, so that they do not wake the engine.
    fn drop_stale(&mut self) {
        let shown = |uid: &Uid| self.at.get(uid).and_then(|&place| self.pods[place].said_gone);
        let stale = self.said_gone.iter().take_while(|(at, uid)| shown(uid) != Some(*at)).count();
        self.said_gone.drain(..stale);
    }

    /// Schedules a check of all pods, because any of them may have moved.
    pub(super) fn stir(&mut self) {
        self.left = self.pods.len();
    }

    /// Returns the next pod to check.
    fn next(&mut self) -> Option<Arc<PodInfo>> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        if self.next >= self.pods.len() {
            self.next = 0;
        }
        let shown = self.pods.get(self.next)?;
        self.next += 1;
        shown.said_gone.is_none().then(|| Arc::clone(&shown.pod))
    }

    /// Returns the uids of all pods.
    pub(super) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.at.keys()
    }

    /// Returns the number of pods.
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// Returns the misplaced pods that are still pending, and the number of all repairs.
    pub(super) fn lost(&self) -> (usize, u64) {
        (self.lost, self.repaired)
    }

    pub(super) fn begin_collection(&mut self) {
        self.unmarked.begin(self.pods.len());
    }

    pub(super) fn mark_some(&mut self, marks: &mut Marks, work: &mut WorkBudget) -> bool {
        // Otherwise marking here would hide the fault that this mutation plants in the queue.
        if mutation::is_on(Mutation::MovedObjectsNotMarked) {
            return true;
        }
        let pods = &self.pods;
        self.unmarked.walk(work, |place| {
            pods.get(place).map_or(0, |shown| {
                shown.pod.mark(marks);
                1
            })
        })
    }

    pub(super) fn end_collection(&mut self) {
        self.unmarked.end();
    }
}

impl TraceIds for Audit {
    fn mark(&self, marks: &mut Marks) {
        let Self {
            pods,
            at: _,
            next: _,
            left: _,
            next_piece: _,
            said_gone: _,
            repaired: _,
            lost: _,
            unmarked: _,
        } = self;
        pods.iter().for_each(|shown| shown.pod.mark(marks));
    }
}

/// What is wrong with the place of a pod.
enum Fault {
    Nowhere,
    Twice,
    /// It waits for victims of a preemption that does not exist.
    KeptBack,
}

/// Returns the result of a query, or its misreading under a mutation test.
pub(super) fn believed(found: BindingState) -> BindingState {
    let is_mistaken = found == BindingState::NoAnswer && mutation::is_on(Mutation::NoAnswerCountsAsGone);
    if is_mistaken { BindingState::Gone } else { found }
}

impl Scheduler {
    /// Records the pod as the watch shows it.
    pub(super) fn pod_shown(&mut self, pod: &Arc<PodInfo>) {
        // A bound pod never becomes unbound, so an unbound one is an older state.
        let is_bound = matches!(self.cache.placed(&pod.uid), Some((_, _, PodState::Added)));
        if pod.node_name.is_none() && !pod.deleting && !is_bound && self.is_ours(pod) {
            self.audit.show(pod);
        } else {
            self.audit.forget(&pod.uid);
        }
    }

    /// Checks one pod. After shutdown has begun, pods are left to the next leader.
    pub(super) fn check_next(&mut self, now: Time) {
        if !self.halted
            && let Some(pod) = self.audit.next()
        {
            self.check(now, &pod);
        }
    }

    /// Checks a batch of pods if one is due. Returns whether anything was repaired.
    pub(super) fn check_piece(&mut self, now: Time) -> bool {
        let before = self.audit.repaired;
        let mut acted = self.believe_no_longer(now);
        self.audit.drop_stale();
        if self.audit.left > FEW && now < self.audit.next_piece {
            return acted;
        }
        for _ in 0..self.audit.left.min(PIECE) {
            self.check_next(now);
        }
        self.audit.next_piece = now + PAUSE;
        acted |= self.audit.repaired != before;
        acted
    }

    /// Returns when the next check is due.
    pub(super) fn next_check(&self) -> Option<Time> {
        let piece = (self.audit.left > 0).then_some(self.audit.next_piece);
        let said_gone = self.audit.said_gone.front().map(|&(at, _)| at + UNKNOWN_MAX);
        piece.into_iter().chain(said_gone).min()
    }

    /// Requeues pods that the API server reported as missing, but that the watch still shows after [`UNKNOWN_MAX`].
    ///
    /// By then, copies of their bindings cannot be carried out any more. If such a pod is missing after all, this
    /// costs one rejected binding.
    fn believe_no_longer(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some((at, uid)) = self.audit.said_gone.front().cloned() {
            if now.since(at) < UNKNOWN_MAX {
                break;
            }
            self.audit.said_gone.pop_front();
            let Some(&place) = self.audit.at.get(&uid) else { continue };
            let shown = &mut self.audit.pods[place];
            if shown.said_gone != Some(at) {
                continue;
            }
            shown.said_gone = None;
            let pod = Arc::clone(&shown.pod);
            if matches!(self.fault(&pod), Some(Fault::Nowhere)) {
                self.pending_pod(now, &pod);
                any = true;
            }
        }
        any
    }

    /// Returns all pending pods that are in no place or in two. Checks every pod; for tests.
    pub fn misplaced_pods(&self) -> impl Iterator<Item = &PodInfo> {
        let awaited = self.audit.pods.iter().filter(|shown| shown.said_gone.is_none() && !self.halted);
        let ours = awaited.map(|shown| &*shown.pod).filter(|pod| self.is_ours(pod));
        ours.filter(|pod| self.fault(pod).is_some())
    }

    /// Returns what is wrong with the place of the pod, if anything.
    fn fault(&self, pod: &PodInfo) -> Option<Fault> {
        let uid = &pod.uid;
        let is_queued = self.queue.contains(uid);
        let is_decided = self.volume_bindings.contains(uid) || self.bindings.contains(uid);
        let is_assumed = matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed)));
        let is_asking = self.extender_calls.contains(uid);
        match u8::from(is_queued) + u8::from(is_decided || is_assumed) + u8::from(is_asking) {
            0 => Some(Fault::Nowhere),
            1 if self.volume_bindings.contains(uid) && self.bindings.contains(uid) => Some(Fault::Twice),
            1 => {
                let kept_back = is_queued && self.queue.blocked_by(uid) == Some(preemption::NAME);
                (kept_back && !self.preemptions.is_running(uid)).then_some(Fault::KeptBack)
            }
            _ => Some(Fault::Twice),
        }
    }

    /// Checks the place of a pod, and repairs it.
    fn check(&mut self, now: Time, pod: &Arc<PodInfo>) {
        // Its profile was removed.
        if !self.is_ours(pod) {
            return self.audit.forget(&pod.uid);
        }
        let Some(fault) = self.fault(pod) else { return };
        let uid = &pod.uid;
        let what = match fault {
            Fault::Nowhere => {
                self.pending_pod(now, pod);
                "the pod was lost: it was pending and in no queue. It is queued again"
            }
            Fault::Twice => {
                self.keep_last_place(uid);
                "the pod was in two places on its way to a node. It keeps the later one"
            }
            Fault::KeptBack => {
                self.queue.unblock(now, uid);
                "the pod waited for the eviction of victims that are not being evicted; it was requeued"
            }
        };
        self.put_right(pod, what);
    }

    /// Whether a popped pod is in another place as well. Then it gets no decision, because its binding may be in
    /// flight.
    pub(super) fn is_elsewhere(&mut self, pod: &Arc<PodInfo>) -> bool {
        let uid = &pod.uid;
        let is_elsewhere = self.cache.placed(uid).is_some()
            || self.bindings.contains(uid)
            || self.volume_bindings.contains(uid)
            || self.extender_calls.contains(uid);
        if is_elsewhere {
            self.put_right(pod, "the pod was in two places on its way to a node. It keeps the later one");
        }
        is_elsewhere
    }

    fn put_right(&mut self, pod: &PodInfo, what: &str) {
        if let Some(&place) = self.audit.at.get(&pod.uid) {
            let was_lost = std::mem::replace(&mut self.audit.pods[place].was_lost, true);
            self.audit.lost += usize::from(!was_lost);
        }
        self.audit.repaired += 1;
        let object = ObjectKey::Pod(Arc::clone(&pod.uid)).describe(&self.tables, Some(pod));
        let text = format!("{what}. This is a fault of supercargo: please report it");
        self.notices.push_back(Notice { object, text });
    }

    /// Removes a pod from all its places but the one closest to its binding, which may already have been sent.
    fn keep_last_place(&mut self, uid: &Uid) {
        let is_bound = self.bindings.contains(uid);
        if is_bound {
            self.end_pre_bind(uid);
        }
        let is_assumed = matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed)));
        if is_bound || is_assumed || self.volume_bindings.contains(uid) {
            self.extender_calls.end(uid, &mut self.outbox);
        }
        self.queue.remove(uid);
    }
}

#[cfg(test)]
mod tests;
