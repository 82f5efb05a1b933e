//! All bindings that are not settled, and when to ask about those of unknown outcome. Decides nothing.

use super::delegate::Delegate;
use crate::cache::Stamp;
use crate::hash::FixedMap;
use crate::intern::{HoldsIds, Marks, Symbol, holds_ids};
use crate::pod::Uid;
use crate::queue::QueuedPod;
use crate::time::Time;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Pauses between questions about one binding: the first is asked at once, then they double from one to the other.
const QUESTION_PAUSE_MIN: Duration = Duration::from_millis(250);
const QUESTION_PAUSE_MAX: Duration = Duration::from_secs(8);

/// Where a binding stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Decided, not yet released.
    Waiting,
    /// Released, not answered.
    InFlight,
    /// Of unknown outcome; to be asked about at the time given.
    Unknown { ask_at: Time },
    /// Asked about, or about to be, and not answered.
    Asked,
}

/// What is known of a binding whose outcome is not: kept until it is settled, however often it is sent again.
#[derive(Clone, Debug)]
pub(super) struct Doubt {
    /// When its outcome first became unknown.
    pub(super) since: Time,
    /// When the last copy left that got no answer. It may be carried out long after a later copy was refused.
    pub(super) last_lost: Time,
    /// What was seen last.
    pub(super) message: String,
    /// The pause before the last question.
    pause: Duration,
    /// When the last question left. Its answer speaks of a moment after that, and may itself come much later.
    pub(super) asked: Time,
}

impl Doubt {
    pub(super) fn new(since: Time, last_lost: Time, message: String) -> Self {
        Self { since, last_lost, message, pause: QUESTION_PAUSE_MIN, asked: since }
    }

    /// When to ask again.
    pub(super) fn next_question(&mut self, now: Time) -> Phase {
        self.pause = (self.pause * 2).min(QUESTION_PAUSE_MAX);
        Phase::Unknown { ask_at: now + self.pause }
    }
}

/// A decided binding that is not settled yet.
pub(in crate::scheduler) struct Binding {
    pub(super) queued: QueuedPod,
    pub(super) node: Symbol,
    /// The state of what the decision rests on, when the pod was assumed; `None` to look once more whatever it is.
    pub(super) stamp: Option<Stamp>,
    /// When the attempt began whose decision it is.
    pub(super) began: Time,
    phase: Phase,
    /// When it left last.
    pub(super) released: Time,
    /// Set once a copy of it got no answer.
    pub(super) doubt: Option<Doubt>,
    /// The pod is gone or going: whatever the answer, there is nothing to try again.
    pub(super) abandoned: bool,
    /// The watch shows the pod on this node.
    pub(super) confirmed_on: Option<Symbol>,
    /// Where the pod was nominated when it was decided about.
    pub(super) nominated: Option<Symbol>,
    /// A list did not name the pod, and nothing has named it since.
    pub(super) unlisted: bool,
    /// The extender that was last asked to carry it out; `None` where it is ours to post.
    pub(super) by: Option<Delegate>,
    /// An extender failed that need not answer: it is ours to post.
    pub(super) is_ours: bool,
    /// The pod was gone or going, and is told of anew, since a list was of an older state: it is queued after the answer.
    pub(super) came_again: bool,
}

impl Binding {
    pub(in crate::scheduler) fn new(
        queued: QueuedPod,
        node: Symbol,
        nominated: Option<Symbol>,
        stamp: Option<Stamp>,
        began: Time,
    ) -> Self {
        Self {
            queued,
            node,
            stamp,
            began,
            phase: Phase::Waiting,
            released: began,
            doubt: None,
            abandoned: false,
            confirmed_on: None,
            nominated,
            unlisted: false,
            by: None,
            is_ours: false,
            came_again: false,
        }
    }

    /// Where it stands.
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// When it is to be asked about, if it is.
    fn question(&self) -> Option<Time> {
        #[cfg(test)]
        tests::LOOKED_AT.set(tests::LOOKED_AT.get() + 1);
        match self.phase {
            Phase::Unknown { ask_at } => Some(ask_at),
            Phase::Waiting | Phase::InFlight | Phase::Asked => None,
        }
    }
}

/// All bindings that are not settled.
#[derive(Default)]
pub(in crate::scheduler) struct Bindings {
    by_uid: FixedMap<Uid, Binding>,
    /// Of the bindings in [`Phase::Unknown`], when to ask. A step looks at the first only, however many bindings are open.
    questions: BTreeSet<(Time, Uid)>,
}

impl Bindings {
    /// Adds a binding.
    pub(in crate::scheduler) fn insert(&mut self, uid: Uid, binding: Binding) {
        self.remove(&uid);
        if let Some(time) = binding.question() {
            self.questions.insert((time, Arc::clone(&uid)));
        }
        self.by_uid.insert(uid, binding);
    }

    /// Takes a binding out.
    pub(super) fn remove(&mut self, uid: &str) -> Option<Binding> {
        let (uid, binding) = self.by_uid.remove_entry(uid)?;
        if let Some(time) = binding.question() {
            self.questions.remove(&(time, uid));
        }
        Some(binding)
    }

    /// Moves a binding on to a phase.
    pub(super) fn enter(&mut self, uid: &str, phase: Phase) {
        let binding = self.by_uid.get_mut(uid).expect("only a known binding moves on");
        let uid = &binding.queued.pod.uid;
        if let Some(time) = binding.question() {
            self.questions.remove(&(time, Arc::clone(uid)));
        }
        binding.phase = phase;
        if let Some(time) = binding.question() {
            self.questions.insert((time, Arc::clone(&binding.queued.pod.uid)));
        }
    }

    /// A binding.
    pub(in crate::scheduler) fn get(&self, uid: &str) -> Option<&Binding> {
        self.by_uid.get(uid)
    }

    /// The same, to change all of it but its phase.
    pub(super) fn get_mut(&mut self, uid: &str) -> Option<&mut Binding> {
        self.by_uid.get_mut(uid)
    }

    /// The same of one that is known.
    pub(super) fn known(&mut self, uid: &str) -> &mut Binding {
        self.get_mut(uid).expect("it was there a moment ago")
    }

    /// Whether the pod has a binding.
    pub(in crate::scheduler) fn contains(&self, uid: &str) -> bool {
        self.by_uid.contains_key(uid)
    }

    /// How many there are.
    pub(in crate::scheduler) fn len(&self) -> usize {
        self.by_uid.len()
    }

    /// Whether there is none.
    pub(in crate::scheduler) fn is_empty(&self) -> bool {
        self.by_uid.is_empty()
    }

    /// All of them, in no meaningful order.
    pub(in crate::scheduler) fn iter(&self) -> impl Iterator<Item = (&Uid, &Binding)> {
        self.by_uid.iter()
    }

    /// The same, to change all of them but their phases.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Binding> {
        self.by_uid.values_mut()
    }

    /// When the next binding of unknown outcome is to be asked about.
    pub(super) fn next_question(&self) -> Option<Time> {
        self.questions.first().map(|&(time, _)| time)
    }

    /// The bindings to be asked about by now, in the order of their uids.
    pub(super) fn due(&self, now: Time) -> Vec<Uid> {
        let due = self.questions.iter().take_while(|(time, _)| *time <= now);
        let mut uids: Vec<Uid> = due.map(|(_, uid)| Arc::clone(uid)).collect();
        uids.sort_unstable();
        uids
    }
}

impl HoldsIds for Bindings {
    fn mark(&self, marks: &mut Marks) {
        let Self { by_uid, questions: _ } = self;
        by_uid.values().for_each(|binding| binding.mark(marks));
    }
}

holds_ids!(Binding { queued, node, confirmed_on, nominated } but not {
    stamp, began, phase, released, doubt, abandoned, unlisted, by, is_ours, came_again
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::NoProbe;
    use crate::effect::{Effect, Lane};
    use crate::event::{BindOutcome, Event};
    use crate::scheduler::Step;
    use crate::scheduler::quarantine::tests::World;

    thread_local! {
        /// How often a binding was looked at for its time.
        pub(super) static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// A walk over all open bindings at each step would look at them two hundred thousand times.
    #[test]
    fn a_step_looks_at_no_binding_whose_question_is_not_due() {
        /// As many as a node takes.
        const PODS: usize = 110;
        let mut world = World::new();
        for lane in [Lane::Status, Lane::Record] {
            world.handle(Event::Credits { lane, count: 9 * PODS });
        }
        world.handle(Event::Credits { lane: Lane::Bind, count: PODS });
        let mut sent = Vec::new();
        for number in 0..PODS {
            world.pod(&format!("p{number}"), 1, None);
            run(&mut world, &mut sent);
        }
        assert_eq!(sent.len(), PODS, "all are placed");
        for uid in &sent {
            let outcome = BindOutcome::Unknown { message: "no answer".to_owned() };
            world.handle(Event::BindFinished { uid: Arc::clone(uid), outcome });
        }
        let before = LOOKED_AT.get();
        for _ in 0..1_000 {
            world.scheduler.step(world.now, &mut NoProbe);
        }
        let looked_at = LOOKED_AT.get() - before;
        assert!(looked_at <= 8 * PODS, "bindings were looked at {looked_at} times in 1,000 steps");
        assert!(looked_at >= sent.len(), "each was asked about");
    }

    fn run(world: &mut World, sent: &mut Vec<Uid>) {
        loop {
            match world.scheduler.step(world.now, &mut NoProbe) {
                Step::Idle { .. } => return,
                Step::Effect(Effect::Bind { pod, .. }) => sent.push(pod.uid),
                Step::Effect(_) | Step::Report(_) | Step::Notice(_) => {}
            }
        }
    }
}
