//! Shadow mode: decides for another scheduler's pods as its bindings arrive, and says whether the two agree. Carries nothing out.
//!
//! A [`Shadow`] has no effects to give: its steps come to judgements and no more. What it knows of the cluster it has from a
//! [`Scheduler`] of no profile, which only takes events in: to that one every pod is somebody else's, and it is never asked for a step.
//!
//! A decision is judged as its binding arrives, in the state right before. Where the two disagree, it is judged again two seconds later in
//! states that other orders of what came and went around it would have made; if one of them explains the decision, the disagreement is
//! no more than a race.

mod judge;
mod orders;

pub use judge::{Cell, Comparison, Scored, Theirs};

use crate::cycle::Framework;
use crate::effect::PodRef;
use crate::event::{Event, Kind, ObjectKey};
use crate::hash::{FixedMap, FixedSet};
use crate::intern::{HoldsIds as _, Marks, Symbol, Tables};
use crate::pod::{PodInfo, ScheduledCondition, Uid};
use crate::queue::QueueConfig;
use crate::report::Notice;
use crate::rng::Seed;
use crate::scheduler::{Config, Scheduler};
use crate::time::Time;
use judge::Verdict;
pub(crate) use judge::{Choice, Judge};
use orders::Changes;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// What arrives this long before a binding or after it may have been seen in another order by the scheduler that decided.
pub const WINDOW: Duration = Duration::from_secs(2);

/// A decision is tried out as if it had been made up to this many changes earlier, and as many later.
const SHIFTS: usize = 4;
/// Of the changes on the two nodes in question, so many before and after are tried out one by one.
const SINGLES: usize = 4;
/// Of all changes, so many before and after are.
const NEARBY: usize = 4;
/// Disagreements that wait for the end of their window at most; what comes on top is not judged.
const PENDING_MAX: usize = 10_000;

/// What a judgement comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agreement {
    /// Their node is the one with the best total.
    Same,
    /// Their node is one of several with the best total.
    EqualScore,
    /// Both found a node, and theirs has a lower total.
    Different,
    /// They found no node, and there is one.
    WeFitTheyNot,
    /// Their node cannot take the pod.
    TheyFitWeNot,
    /// Neither found a node.
    NeitherFits,
    /// They disagree in the order in which things arrived here, and agree in another that is as likely.
    Raced,
}

impl Agreement {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Same,
        Self::EqualScore,
        Self::Different,
        Self::WeFitTheyNot,
        Self::TheyFitWeNot,
        Self::NeitherFits,
        Self::Raced,
    ];

    /// The word for it, in metrics and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::EqualScore => "equal_score",
            Self::Different => "different",
            Self::WeFitTheyNot => "we_fit_they_not",
            Self::TheyFitWeNot => "they_fit_we_not",
            Self::NeitherFits => "neither_fits",
            Self::Raced => "raced",
        }
    }

    /// Whether there is nothing to explain.
    fn agrees(self) -> bool {
        matches!(self, Self::Same | Self::EqualScore | Self::NeitherFits)
    }
}

/// Why a decision of the other scheduler is not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unjudged {
    /// It was first seen in a list, so what it was decided in is not known.
    Unordered,
    /// The pod needs what no plugin of this version judges.
    Unsupported,
    /// A plugin failed.
    Failed,
    /// Too many disagreements wait to be looked at again, or too much has come and gone since.
    Crowded,
}

impl Unjudged {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Unordered, Self::Unsupported, Self::Failed, Self::Crowded];

    /// The word for it, in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unordered => "unordered",
            Self::Unsupported => "unsupported",
            Self::Failed => "failed",
            Self::Crowded => "crowded",
        }
    }
}

/// What became of one decision of the other scheduler here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The pod.
    pub pod: PodRef,
    /// When the decision arrived.
    pub at: Time,
    /// What it comes to.
    pub agreement: Agreement,
    /// Our best total less their node's, where both have one and the two did not race.
    pub regret: Option<i64>,
    /// The two decisions, where they disagree, or did before another order explained theirs.
    pub comparison: Option<Comparison>,
}

/// What one call of [`Shadow::step`] came to. There are no effects among it.
#[derive(Debug)]
pub enum Step {
    /// A decision is judged.
    Judged(Box<Judgement>),
    /// A decision is not judged.
    Unjudged(PodRef, Unjudged),
    /// Something happened that a person must know of.
    Notice(Notice),
    /// There is nothing to do before an event comes or this time is reached.
    Idle {
        /// When to step again; `None` when only an event can make work.
        wake_at: Option<Time>,
    },
}

/// A disagreement whose window is open.
struct Pending {
    at: Time,
    number: u64,
    pod: Arc<PodInfo>,
    choice: Choice,
    verdict: Verdict,
    /// The pod found a place after all.
    placed: bool,
    /// What it was judged by, and will be again.
    framework: Arc<Framework>,
}

/// Judges the decisions of another scheduler.
pub struct Shadow {
    /// Keeps the cluster; of no profile, and never stepped.
    watched: Scheduler,
    framework: Arc<Framework>,
    seed: Seed,
    /// Whose pods they are.
    name: Symbol,
    /// Its pods without a node, as they are now.
    waiting: FixedMap<Uid, Arc<PodInfo>>,
    /// The pods a running list has named.
    listed: Option<FixedSet<Uid>>,
    changes: Changes,
    /// By the time they came.
    pending: VecDeque<Pending>,
    done: VecDeque<Step>,
}

impl Shadow {
    /// A shadow of the scheduler of this name, which judges by `framework`, made with these tables. All nodes are looked at, whatever
    /// the profile says.
    pub fn new(name: &str, framework: Framework, seed: Seed, mut tables: Tables, now: Time) -> Self {
        let name = tables.symbol(name);
        let config = Config { seed, profiles: Vec::new(), queue: QueueConfig::default() };
        Self {
            watched: Scheduler::with_tables(config, tables, now),
            framework: of_all_nodes(framework),
            seed,
            name,
            waiting: FixedMap::default(),
            listed: None,
            changes: Changes::default(),
            pending: VecDeque::new(),
            done: VecDeque::new(),
        }
    }

    /// The tables that objects are converted with on their way in, as [`Scheduler::tables`].
    pub fn tables(&mut self) -> &mut Tables {
        self.watched.tables()
    }

    /// From now on judges by another framework, made with these tables. What disagreed before is looked at again by what it was judged by.
    pub fn judge_by(&mut self, framework: Framework) {
        self.framework = of_all_nodes(framework);
    }

    /// The cluster as it is known.
    pub fn watched(&self) -> &Scheduler {
        &self.watched
    }

    /// What the collections hold, by name, for tests of leaks.
    pub fn held(&self) -> Vec<(&'static str, usize)> {
        let mut held = self.watched.held();
        held.extend([
            ("waiting pods", self.waiting.len()),
            ("changes", self.changes.len()),
            ("open judgements", self.pending.len()),
            ("judgements to tell", self.done.len()),
        ]);
        held
    }

    /// Gives back ids that nobody holds, now and then, as [`Scheduler::tidy`].
    pub fn tidy(&mut self) -> usize {
        let Self { watched, framework: _, seed: _, name, waiting, listed: _, changes, pending, done: _ } =
            self;
        watched.tidy_beside(|marks: &mut Marks| {
            name.mark(marks);
            waiting.values().for_each(|pod| pod.mark(marks));
            changes.mark(marks);
            for Pending { pod, choice, at: _, number: _, verdict: _, placed: _, framework: _ } in pending {
                pod.mark(marks);
                if let Choice::Node(node) = choice {
                    node.mark(marks);
                }
            }
        })
    }

    /// Brings the state up to date with one event, and judges the decision it tells of, if it does.
    pub fn handle(&mut self, now: Time, event: Event) {
        match &event {
            Event::PodApplied(pod) => self.pod_applied(now, pod),
            Event::Gone(ObjectKey::Pod(uid)) => self.pod_gone(now, uid),
            Event::NotAdmitted { uid, .. } => self.pod_gone(now, uid),
            Event::ListBegan(Kind::Pod) => self.listed = Some(FixedSet::default()),
            Event::ListEnded(Kind::Pod) => {
                let listed = self.listed.take().unwrap_or_default();
                let gone: Vec<Uid> =
                    self.waiting.keys().filter(|uid| !listed.contains(*uid)).map(Arc::clone).collect();
                gone.iter().for_each(|uid| drop(self.waiting.remove(uid)));
            }
            _ => {}
        }
        self.watched.handle(now, event);
    }

    /// Does one piece of work.
    pub fn step(&mut self, now: Time) -> Step {
        if let Some(notice) = self.watched.take_notice() {
            return Step::Notice(notice);
        }
        if let Some(done) = self.done.pop_front() {
            return done;
        }
        match self.pending.pop_front_if(|first| now.since(first.at) >= WINDOW && now >= first.at) {
            Some(pending) if !self.changes.reaches(pending.number) => {
                Step::Unjudged(self.watched.named(&pending.pod), Unjudged::Crowded)
            }
            Some(pending) => Step::Judged(Box::new(self.settle(pending))),
            None => Step::Idle { wake_at: self.pending.front().map(|first| first.at + WINDOW) },
        }
    }

    /// Whether what arrives now arrives in the order in which it happened.
    fn is_in_order(&self) -> bool {
        self.listed.is_none() && self.watched.awaited_kinds().next().is_none()
    }

    fn pod_applied(&mut self, now: Time, pod: &PodInfo) {
        if let Some(listed) = &mut self.listed {
            listed.insert(Arc::clone(&pod.uid));
        }
        if self.watched.is_placed(&pod.uid) {
            return;
        }
        let in_order = self.is_in_order();
        let Some(node) = pod.node_name else {
            if pod.scheduler_name == self.name {
                self.waits(now, pod, in_order);
            }
            return;
        };
        self.changes.forget_before(earliest(now, self.pending.front()));
        let number = in_order.then(|| self.changes.note(now, &Arc::new(pod.clone()), node, true));
        for pending in self.pending.iter_mut().filter(|it| it.pod.uid == pod.uid) {
            pending.placed = true;
        }
        // A pod that never was without a node was given one by whoever made it: nobody decided.
        let Some(waited) = self.waiting.remove(&pod.uid) else { return };
        match number {
            Some(number) => self.judge(now, number, &waited, Choice::Node(node)),
            None => self.leave(&waited, Unjudged::Unordered),
        }
    }

    /// A pod of theirs has no node.
    fn waits(&mut self, now: Time, pod: &PodInfo, in_order: bool) {
        let pod = Arc::new(pod.clone());
        let old = self.waiting.insert(Arc::clone(&pod.uid), Arc::clone(&pod));
        let told = |it: &&ScheduledCondition| &*it.status == "False" && &*it.reason == "Unschedulable";
        let Some(told) = pod.scheduled.as_deref().filter(told) else { return };
        let is_news = old.is_some_and(|old| old.scheduled != pod.scheduled);
        if is_news && in_order {
            let number = self.changes.skip();
            let message = told.message.to_string();
            self.judge(now, number, &pod, Choice::None { message });
        }
    }

    fn pod_gone(&mut self, now: Time, uid: &Uid) {
        self.waiting.remove(uid);
        self.changes.forget_before(earliest(now, self.pending.front()));
        if let Some((pod, node)) = self.watched.placement(uid) {
            self.changes.note(now, &pod, node, false);
        }
    }

    /// Judges a decision in the state it arrived in.
    fn judge(&mut self, now: Time, number: u64, pod: &Arc<PodInfo>, choice: Choice) {
        if !pod.unjudged.is_empty() {
            return self.leave(pod, Unjudged::Unsupported);
        }
        let judge = Judge { framework: &self.framework, seed: self.seed, attempt: 1 };
        let (mut trial, tables) = self.watched.trial();
        let snapshot = trial.snapshot(tables);
        let verdict = catch_unwind(AssertUnwindSafe(|| judge.verdict(pod, &choice, snapshot)));
        drop(trial);
        let Ok(Ok(verdict)) = verdict else { return self.leave(pod, Unjudged::Failed) };
        if verdict.agreement.agrees() {
            let judgement = self.told(now, pod, verdict);
            self.done.push_back(Step::Judged(Box::new(judgement)));
        } else if self.pending.len() >= PENDING_MAX {
            self.leave(pod, Unjudged::Crowded);
        } else {
            let (pod, framework) = (Arc::clone(pod), Arc::clone(&self.framework));
            self.pending.push_back(Pending {
                at: now,
                number,
                pod,
                choice,
                verdict,
                placed: false,
                framework,
            });
        }
    }

    /// Looks at a disagreement again, now that all its neighbours have come.
    fn settle(&mut self, pending: Pending) -> Judgement {
        let Pending { at, number, pod, choice, mut verdict, placed, framework } = pending;
        let found_a_place = placed && matches!(choice, Choice::None { .. });
        if found_a_place || self.is_explained(&framework, (at, number), &pod, &choice, &mut verdict) {
            (verdict.agreement, verdict.regret) = (Agreement::Raced, None);
        }
        self.told(at, &pod, verdict)
    }

    /// Whether some order explains the decision. Where none does, and in one their node can at least take the pod, that is the verdict.
    fn is_explained(
        &mut self,
        framework: &Framework,
        (at, number): (Time, u64),
        pod: &Arc<PodInfo>,
        choice: &Choice,
        verdict: &mut Verdict,
    ) -> bool {
        let Self { watched, seed, changes, .. } = self;
        let judge = Judge { framework, seed: *seed, attempt: 1 };
        let (mut trial, tables) = watched.trial();
        let ours = verdict.comparison.as_ref().and_then(|it| it.ours.as_ref());
        let ours = ours.and_then(|ours| tables.find(&ours.node));
        let theirs = if let Choice::Node(node) = choice { Some(*node) } else { None };
        changes.rewind(number, &mut trial);
        let before = trial.mark();
        for order in changes.orders(number, at, ours, theirs) {
            order.apply(&mut trial);
            let snapshot = trial.snapshot(tables);
            let again = catch_unwind(AssertUnwindSafe(|| judge.verdict(pod, choice, snapshot)));
            trial.back_to(before);
            let Ok(Ok(again)) = again else { continue };
            if again.agreement.agrees() {
                return true;
            }
            if verdict.agreement == Agreement::TheyFitWeNot && again.agreement == Agreement::Different {
                *verdict = again;
            }
        }
        false
    }

    fn told(&self, at: Time, pod: &PodInfo, verdict: Verdict) -> Judgement {
        let Verdict { agreement, regret, comparison } = verdict;
        Judgement { pod: self.watched.named(pod), at, agreement, regret, comparison }
    }

    fn leave(&mut self, pod: &PodInfo, why: Unjudged) {
        let pod = self.watched.named(pod);
        self.done.push_back(Step::Unjudged(pod, why));
    }
}

/// Looks at all nodes, whatever the profile says.
fn of_all_nodes(mut framework: Framework) -> Arc<Framework> {
    framework.sampling = None;
    Arc::new(framework)
}

/// What happened before this time explains nothing any more.
fn earliest(now: Time, first: Option<&Pending>) -> Time {
    let from = first.map_or(now, |first| first.at.min(now));
    let window = u64::try_from(WINDOW.as_nanos()).expect("two seconds are not many nanoseconds");
    Time::from_nanos(from.as_nanos().saturating_sub(window))
}
