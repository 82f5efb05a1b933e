//! The invariant of pending pods: each pod of ours that the watch shows without a node is in exactly one place.
//!
//! Places are the queue, the wait for extenders, the wait for volumes, an open binding, and the cache, where an accepted binding waits
//! for the watch. What the watch shows is kept here, apart from all of them. One pod is checked at each step, and the rest when there is
//! nothing else to do. A pod in no place is queued again, and one in two keeps the place that is nearest to its binding; both are counted, and
//! a notice says so.

use super::Scheduler;
use super::binding::UNKNOWN_MAX;
use crate::cache::PodState;
use crate::event::{Found, ObjectKey};
use crate::hash::FixedMap;
use crate::intern::{HoldsIds, Marks, Unmarked, Work};
use crate::mutation::{self, Mutation};
use crate::pod::{PodInfo, Uid};
use crate::preemption;
use crate::report::Notice;
use crate::time::Time;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Pods checked at once when there is nothing else to do: they take less than 1 ms.
const PIECE: usize = 4_096;
/// The pause between two such pieces: they take less than half a percent of the time, and wake an idle scheduler twice a second at most. All of
/// 150,000 pods are checked in 19 s.
const PAUSE: Duration = Duration::from_millis(500);
/// So few are checked without a pause.
const FEW: usize = 64;

/// A pending pod as the watch shows it.
struct Shown {
    pod: Arc<PodInfo>,
    /// When the API server said that the pod is gone, which the watch has yet to show.
    said_gone: Option<Time>,
    /// It was found in no place, or in two.
    was_lost: bool,
}

/// The pending pods of ours that the watch shows.
#[derive(Default)]
pub(super) struct Audit {
    pods: Vec<Shown>,
    at: FixedMap<Uid, usize>,
    /// The next one to check.
    next: usize,
    /// How many are to be checked since anything changed.
    left: usize,
    next_piece: Time,
    /// Pods that are said to be gone, in the order of the times.
    said_gone: VecDeque<(Time, Uid)>,
    repaired: u64,
    lost: usize,
    unmarked: Unmarked,
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

    /// The pod is not pending any more.
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

    /// The API server says that the pod is gone: it is in no place until the watch shows the same.
    pub(super) fn said_gone(&mut self, now: Time, uid: &str) {
        if let Some(&place) = self.at.get(uid) {
            let shown = &mut self.pods[place];
            shown.said_gone = Some(now);
            self.said_gone.push_back((now, Arc::clone(&shown.pod.uid)));
        }
    }

    /// Forgets, at the front of the line of those said to be gone, who is waited for no more: nobody is woken for them.
    fn drop_stale(&mut self) {
        let shown = |uid: &Uid| self.at.get(uid).and_then(|&place| self.pods[place].said_gone);
        let stale = self.said_gone.iter().take_while(|(at, uid)| shown(uid) != Some(*at)).count();
        self.said_gone.drain(..stale);
    }

    /// Something may have changed where pods are.
    pub(super) fn stir(&mut self) {
        self.left = self.pods.len();
    }

    /// The next pod to check.
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

    /// The uids of all.
    pub(super) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.at.keys()
    }

    /// How many are known.
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// Pods that were lost and are still pending, and all that were ever lost; all were put right.
    pub(super) fn lost(&self) -> (usize, u64) {
        (self.lost, self.repaired)
    }

    pub(super) fn begin_round(&mut self) {
        self.unmarked.begin(self.pods.len());
    }

    pub(super) fn mark_some(&mut self, marks: &mut Marks, work: &mut Work) -> bool {
        // Else it would cover up what the queue overlooks.
        if mutation::is_on(Mutation::MovedUnmarked) {
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

    pub(super) fn end_round(&mut self) {
        self.unmarked.end();
    }
}

impl HoldsIds for Audit {
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

/// What is wrong with where a pod is.
enum Fault {
    Nowhere,
    Twice,
    /// It waits for victims to go, and nobody sends them away.
    KeptBack,
}

/// An answer, or the mistake of taking none for one.
pub(super) fn believed(found: Found) -> Found {
    let is_mistaken = found == Found::NoAnswer && mutation::is_on(Mutation::NoAnswerIsGone);
    if is_mistaken { Found::Gone } else { found }
}

impl Scheduler {
    /// The watch shows the pod.
    pub(super) fn pod_shown(&mut self, pod: &Arc<PodInfo>) {
        // A binding takes no step back: a pending pod that counts on a node is an older state.
        let is_bound = matches!(self.cache.placed(&pod.uid), Some((_, _, PodState::Added)));
        if pod.node_name.is_none() && !pod.deleting && !is_bound && self.is_ours(pod) {
            self.audit.show(pod);
        } else {
            self.audit.forget(&pod.uid);
        }
    }

    /// Checks one pod. At the end of the process pods are left to whoever takes over.
    pub(super) fn check_next(&mut self, now: Time) {
        if !self.halted
            && let Some(pod) = self.audit.next()
        {
            self.check(now, &pod);
        }
    }

    /// Checks a piece of the pods, where it is time for that; whether anything was to be put right.
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

    /// When there is something to check again.
    pub(super) fn next_check(&self) -> Option<Time> {
        let piece = (self.audit.left > 0).then_some(self.audit.next_piece);
        let said_gone = self.audit.said_gone.front().map(|&(at, _)| at + UNKNOWN_MAX);
        piece.into_iter().chain(said_gone).min()
    }

    /// The watch still shows pods that the API server once said are gone. Copies of their bindings cannot be carried out any more, so they are
    /// queued again: should they be gone after all, that costs a refused binding.
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

    /// All pending pods that are in no place, or in two. Checks every one: for tests.
    pub fn misplaced_pods(&self) -> impl Iterator<Item = &PodInfo> {
        let awaited = self.audit.pods.iter().filter(|shown| shown.said_gone.is_none() && !self.halted);
        let ours = awaited.map(|shown| &*shown.pod).filter(|pod| self.is_ours(pod));
        ours.filter(|pod| self.fault(pod).is_some())
    }

    /// What is wrong with where the pod is.
    fn fault(&self, pod: &PodInfo) -> Option<Fault> {
        let uid = &pod.uid;
        let is_queued = self.queue.contains(uid);
        let is_decided = self.is_in_pre_bind(uid) || self.bindings.contains(uid);
        let is_assumed = matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed)));
        let is_asking = self.extending.contains(uid);
        match u8::from(is_queued) + u8::from(is_decided || is_assumed) + u8::from(is_asking) {
            0 => Some(Fault::Nowhere),
            1 if self.is_in_pre_bind(uid) && self.bindings.contains(uid) => Some(Fault::Twice),
            1 => {
                let kept_back = is_queued && self.queue.kept_back_by(uid) == Some(preemption::NAME);
                (kept_back && !self.preemptions.is_running(uid)).then_some(Fault::KeptBack)
            }
            _ => Some(Fault::Twice),
        }
    }

    /// Checks where a pod is, and puts right what is wrong.
    fn check(&mut self, now: Time, pod: &Arc<PodInfo>) {
        // It was of a profile that is gone.
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
                self.queue.let_go(now, uid);
                "the pod was kept back for victims that nobody evicts. It is tried again"
            }
        };
        self.put_right(pod, what);
    }

    /// Whether a pod that was popped is in another place as well: then nothing is decided about it, for its binding may be on its way.
    pub(super) fn is_elsewhere(&mut self, pod: &Arc<PodInfo>) -> bool {
        let uid = &pod.uid;
        let is_elsewhere = self.cache.placed(uid).is_some()
            || self.bindings.contains(uid)
            || self.is_in_pre_bind(uid)
            || self.extending.contains(uid);
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

    /// Of a pod in several places, ends all but the one that is nearest to its binding: that may have left already.
    fn keep_last_place(&mut self, uid: &Uid) {
        let is_bound = self.bindings.contains(uid);
        if is_bound {
            self.end_pre_bind(uid);
        }
        let is_assumed = matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed)));
        if is_bound || is_assumed || self.is_in_pre_bind(uid) {
            self.end_asking(uid);
        }
        self.queue.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::NoProbe;
    use crate::effect::Effect;
    use crate::event::{BindOutcome, Event};
    use crate::scheduler::Step;
    use crate::scheduler::quarantine::tests::{World, pod};

    fn lost(world: &World) -> (usize, u64) {
        let stats = world.scheduler.stats();
        (stats.lost_pods, stats.lost_pods_repaired)
    }

    #[test]
    fn a_pod_that_is_put_back_nowhere_is_found_queued_again_and_bound() {
        let mut world = World::new();
        world.pod("p", 500, None);
        world.run();
        let outcome = BindOutcome::Refused { message: "no".to_owned() };
        let told = mutation::with(Some(Mutation::PodDropped), || {
            world.handle(Event::BindFinished { uid: "p".into(), outcome });
            world.run()
        });
        assert!(told.iter().any(|line| line.contains("it was pending and in no queue")), "{told:?}");
        assert!(told.iter().any(|line| line.starts_with("Bind {")), "{told:?}");
        assert_eq!(lost(&world), (1, 1), "it is not bound yet");
        let bound = pod(world.scheduler.tables(), "p", 500, Some("a"));
        world.handle(Event::PodApplied(bound));
        assert_eq!(lost(&world), (0, 1));
    }

    #[test]
    fn a_pod_in_two_places_keeps_the_one_that_is_nearest_to_its_binding() {
        let mut world = World::new();
        world.pod("p", 500, None);
        world.run();
        let again: Arc<PodInfo> = pod(world.scheduler.tables(), "p", 500, None).into();
        world.scheduler.queue.add(world.now, again, None);
        let told = world.run();
        assert!(
            matches!(&told[..], [line] if line.contains("in two places")),
            "it is not decided about again: {told:?}"
        );
        assert!(!world.scheduler.queue().contains("p") && world.scheduler.bindings.contains("p"));
        assert_eq!(lost(&world), (1, 1));
        // One that is not about to be popped is found by the check.
        let mut gated = pod(world.scheduler.tables(), "p", 500, None);
        gated.resource_version = "2".into();
        world.scheduler.queue.add(world.now, gated.into(), Some("SchedulingGates"));
        world.pod("other", 9_000, None);
        let told = world.run();
        assert!(told.iter().any(|line| line.contains("in two places")), "{told:?}");
        assert!(!world.scheduler.queue().contains("p") && world.scheduler.bindings.contains("p"));
        assert_eq!(lost(&world), (1, 2), "it is one pod, twice");
    }

    #[test]
    fn a_pod_that_is_kept_back_for_nobody_is_tried_again() {
        let mut world = World::new();
        world.pod("large", 9_000, None);
        world.run();
        world.scheduler.queue.keep_back(&"large".into(), preemption::NAME);
        let told = world.run();
        assert_eq!(told, [""; 0], "nothing happened since it was checked");
        world.pod("other", 9_000, None);
        let told = world.run();
        assert!(told.iter().any(|line| line.contains("victims that nobody evicts")), "{told:?}");
    }

    #[test]
    fn a_pod_said_to_be_gone_is_in_no_place_until_the_watch_should_have_shown_it() {
        let mut world = World::new();
        world.pod("p", 500, None);
        world.run();
        world.handle(Event::BindFinished { uid: "p".into(), outcome: BindOutcome::Moot(Found::Gone) });
        assert_eq!(world.run(), [""; 0]);
        let Step::Idle { wake_at: Some(at) } = world.scheduler.step(world.now, &mut NoProbe) else {
            panic!("it is to be looked for")
        };
        assert_eq!(at, world.now + UNKNOWN_MAX);
        world.now = at;
        let told = world.run();
        assert!(told.iter().any(|line| line.starts_with("p: Placed")), "{told:?}");
        assert_eq!(lost(&world), (0, 0), "somebody told us a wrong thing, and nothing was lost here");
    }

    #[test]
    fn a_pod_that_is_gone_as_was_said_leaves_nothing_behind() {
        let mut world = World::new();
        world.pod("p", 500, None);
        world.run();
        world.handle(Event::BindFinished { uid: "p".into(), outcome: BindOutcome::Moot(Found::Gone) });
        world.run();
        world.handle(Event::Gone(ObjectKey::Pod("p".into())));
        world.run();
        assert_eq!(world.scheduler.audit.len(), 0);
        world.now = world.now + UNKNOWN_MAX;
        assert_eq!(world.run(), [""; 0]);
    }

    /// Work is counted, not timed.
    #[test]
    fn a_step_checks_one_pod_and_idle_time_the_rest_in_pieces() {
        let mut world = World::new();
        // Whoever stands by decides nothing, and checks all the same.
        world.handle(Event::Leading(false));
        let pods = 3 * PIECE;
        for number in 0..pods {
            world.pod(&format!("p{number}"), 9_000, None);
        }
        assert_eq!(world.scheduler.audit.left, pods);
        let mut left = Vec::new();
        while let Step::Idle { wake_at: Some(at) } = world.scheduler.step(world.now, &mut NoProbe) {
            left.push(world.scheduler.audit.left);
            assert!(at > world.now && at.since(world.now) <= PAUSE, "the next piece is due");
            // Nothing more is checked before that.
            world.scheduler.step(world.now, &mut NoProbe);
            assert_eq!(Some(world.scheduler.audit.left + 1), left.last().copied());
            world.now = at;
        }
        assert_eq!(left, [pods - 1 - PIECE, pods - 3 - 2 * PIECE]);
        assert_eq!(world.scheduler.audit.left, 0, "nothing changed since, and nothing is checked again");
    }

    #[test]
    fn whoever_is_bound_or_somebody_elses_or_being_deleted_is_not_looked_for() {
        let mut world = World::new();
        world.pod("bound", 500, Some("a"));
        let mut deleting = pod(world.scheduler.tables(), "deleting", 500, None);
        deleting.deleting = true;
        world.handle(Event::PodApplied(deleting));
        let mut other = pod(world.scheduler.tables(), "other", 500, None);
        other.template = {
            let name = world.scheduler.tables().symbol("somebody");
            let mut template = (*other.template).clone();
            template.scheduler_name = name;
            template.into()
        };
        world.handle(Event::PodApplied(other));
        assert_eq!(world.scheduler.audit.len(), 0);
        let is_bind = |effect: &Effect| matches!(effect, Effect::Bind { .. });
        while let Step::Effect(effect) = world.scheduler.step(world.now, &mut NoProbe) {
            assert!(!is_bind(&effect));
        }
    }
}
