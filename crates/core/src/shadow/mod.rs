//! Shadow mode: decides for another scheduler's pods as its bindings arrive and reports agreement. It emits
//! no effects.
//!
//! [`Shadow`] keeps its cluster state in a [`Scheduler`] without profiles. That scheduler only handles
//! events: every pod belongs to another scheduler, and it is never stepped.
//!
//! A decision is judged when its binding arrives, in the state right before. A disagreement is judged again
//! two seconds later, in the states that other plausible orders of nearby events would have produced. If one
//! of them explains the decision, the disagreement counts as raced.

mod orders;

use crate::collections::hash::{FixedMap, FixedSet};
use crate::compare::{Agreement, Assessment, Choice, Comparison, Judge};
use crate::cycle::Framework;
use crate::model::effect::PodRef;
use crate::model::event::{Event, Kind, ObjectKey};
use crate::model::intern::{Marks, Symbol, Tables, TraceIds as _};
use crate::model::pod::{PodInfo, ScheduledCondition, Uid};
use crate::model::rng::Seed;
use crate::model::time::Time;
use crate::queue::QueueConfig;
use crate::report::Notice;
use crate::scheduler::{Config, Scheduler};
use orders::Changes;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The time before and after a binding in which the other scheduler may have seen events in another order.
pub const WINDOW: Duration = Duration::from_secs(2);

/// Maximum number of preceding and of following changes by which a decision is shifted as a whole.
const SHIFTS: usize = 4;
/// Maximum number of preceding and of following changes on the two compared nodes that are tried one by one.
const SINGLES: usize = 4;
/// Maximum number of preceding and of following changes on any node that are tried one by one.
const NEARBY: usize = 4;
/// Maximum number of disagreements with an open window; further ones are not judged.
const PENDING_MAX: usize = 10_000;

/// Why a decision of the other scheduler is not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unjudged {
    /// It was first seen in a list, so the state of its decision is unknown.
    Unordered,
    /// The pod has resource claims. They are written before the pod is bound, so the state of the decision is unknown.
    Unsupported,
    /// A plugin failed.
    Failed,
    /// Too many disagreements are pending, or their changes are no longer kept.
    Crowded,
}

impl Unjudged {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::Unordered, Self::Unsupported, Self::Failed, Self::Crowded];

    /// The name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unordered => "unordered",
            Self::Unsupported => "unsupported",
            Self::Failed => "failed",
            Self::Crowded => "crowded",
        }
    }
}

/// The judgement of one decision of the other scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The pod.
    pub pod: PodRef,
    /// When the decision arrived.
    pub at: Time,
    /// The result.
    pub agreement: Agreement,
    /// Regret: our best total minus the total of their node, if both have one and the decisions did not race.
    pub regret: Option<i64>,
    /// Both decisions, if they disagree or did so before another order explained theirs.
    pub comparison: Option<Comparison>,
}

/// The result of one call of [`Shadow::step`]; it contains no effects.
#[derive(Debug)]
pub enum Step {
    /// A decision was judged.
    Judged(Box<Judgement>),
    /// A decision was not judged.
    Unjudged(PodRef, Unjudged),
    /// A condition that an operator must know of.
    Notice(Notice),
    /// There is no work before the next event or this time.
    Idle {
        /// When to step again; `None` if only an event can cause work.
        wake_at: Option<Time>,
    },
}

/// A disagreement with an open window.
struct Pending {
    at: Time,
    number: u64,
    pod: Arc<PodInfo>,
    choice: Choice,
    verdict: Assessment,
    /// The pod found a node later.
    placed: bool,
    /// The framework that judged it and will judge it again.
    framework: Arc<Framework>,
}

/// Compares another scheduler's decisions with its own.
pub struct Shadow {
    /// The cluster state, in a scheduler without profiles that is never stepped.
    watched: Scheduler,
    framework: Arc<Framework>,
    seed: Seed,
    /// The name of the other scheduler.
    name: Symbol,
    /// Its pending pods, in their present versions.
    waiting: FixedMap<Uid, Arc<PodInfo>>,
    /// The pods that a running list has named.
    listed: Option<FixedSet<Uid>>,
    changes: Changes,
    /// In order of arrival.
    pending: VecDeque<Pending>,
    done: VecDeque<Step>,
}

impl Shadow {
    /// Creates a shadow of the scheduler `name` that judges by `framework`, made with `tables`. All nodes are
    /// evaluated, whatever the profile's `percentageOfNodesToScore`.
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

    /// Returns the tables that convert incoming objects; see [`Scheduler::tables`].
    pub fn tables(&mut self) -> &mut Tables {
        self.watched.tables()
    }

    /// Replaces the framework, made with these tables. Pending disagreements are judged again by their former
    /// framework.
    pub fn judge_by(&mut self, framework: Framework) {
        self.framework = of_all_nodes(framework);
    }

    /// Returns the cluster state.
    pub fn watched(&self) -> &Scheduler {
        &self.watched
    }

    /// Returns the sizes of the collections by name, for leak tests.
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

    /// Frees ids that nothing holds, in slices; see [`Scheduler::collect_ids`].
    pub fn collect_ids(&mut self) -> usize {
        let Self { watched, framework: _, seed: _, name, waiting, listed: _, changes, pending, done: _ } =
            self;
        watched.collect_ids_and_others(|marks: &mut Marks| {
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

    /// Handles one event, and judges the decision in it, if any.
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

    /// Performs one unit of work.
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

    /// Whether events arrive in the order in which they happened.
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
        // A pod that was never seen pending was created with a node: no scheduler decided.
        let Some(waited) = self.waiting.remove(&pod.uid) else { return };
        match number {
            Some(number) => self.judge(now, number, &waited, Choice::Node(node)),
            None => self.leave(&waited, Unjudged::Unordered),
        }
    }

    /// Tracks a pending pod of the other scheduler.
    fn waits(&mut self, now: Time, pod: &PodInfo, in_order: bool) {
        let pod = Arc::new(pod.clone());
        let old = self.waiting.insert(Arc::clone(&pod.uid), Arc::clone(&pod));
        let is_unschedulable =
            |it: &&ScheduledCondition| &*it.status == "False" && &*it.reason == "Unschedulable";
        let Some(condition) = pod.scheduled.as_deref().filter(is_unschedulable) else { return };
        let is_news = old.is_some_and(|old| old.scheduled != pod.scheduled);
        if is_news && in_order {
            let number = self.changes.skip();
            let message = condition.message.to_string();
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

    /// Judges a decision in the state in which it arrived.
    fn judge(&mut self, now: Time, number: u64, pod: &Arc<PodInfo>, choice: Choice) {
        // A claim is allocated before the pod is bound, so the state of the decision is not known.
        if !pod.claims.is_empty() {
            return self.leave(pod, Unjudged::Unsupported);
        }
        let judge = Judge { framework: &self.framework, seed: self.seed, attempt: 1 };
        let (mut hypothetical, tables) = self.watched.hypothetical();
        let snapshot = hypothetical.snapshot(tables);
        let verdict = catch_unwind(AssertUnwindSafe(|| judge.verdict(pod, &choice, snapshot)));
        drop(hypothetical);
        let Ok(Ok(verdict)) = verdict else { return self.leave(pod, Unjudged::Failed) };
        if verdict.agreement.agrees() {
            let judgement = self.judgement(now, pod, verdict);
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

    /// Judges a disagreement again after its window closed.
    fn settle(&mut self, pending: Pending) -> Judgement {
        let Pending { at, number, pod, choice, mut verdict, placed, framework } = pending;
        let found_a_place = placed && matches!(choice, Choice::None { .. });
        if found_a_place || self.is_explained(&framework, (at, number), &pod, &choice, &mut verdict) {
            (verdict.agreement, verdict.regret) = (Agreement::Raced, None);
        }
        self.judgement(at, &pod, verdict)
    }

    /// Whether some order explains the decision. If none does, the verdict comes from an order in which their
    /// node is at least feasible, if there is one.
    fn is_explained(
        &mut self,
        framework: &Framework,
        (at, number): (Time, u64),
        pod: &Arc<PodInfo>,
        choice: &Choice,
        verdict: &mut Assessment,
    ) -> bool {
        let Self { watched, seed, changes, .. } = self;
        let judge = Judge { framework, seed: *seed, attempt: 1 };
        let (mut hypothetical, tables) = watched.hypothetical();
        let ours = verdict.comparison.as_ref().and_then(|it| it.ours.as_ref());
        let ours = ours.and_then(|ours| tables.find(&ours.node));
        let theirs = if let Choice::Node(node) = choice { Some(*node) } else { None };
        changes.rewind(number, &mut hypothetical);
        let before = hypothetical.checkpoint();
        for order in changes.orders(number, at, ours, theirs) {
            order.apply(&mut hypothetical);
            let snapshot = hypothetical.snapshot(tables);
            let again = catch_unwind(AssertUnwindSafe(|| judge.verdict(pod, choice, snapshot)));
            hypothetical.roll_back_to(before);
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

    fn judgement(&self, at: Time, pod: &PodInfo, verdict: Assessment) -> Judgement {
        let Assessment { agreement, regret, comparison } = verdict;
        Judgement { pod: self.watched.named(pod), at, agreement, regret, comparison }
    }

    fn leave(&mut self, pod: &PodInfo, why: Unjudged) {
        let pod = self.watched.named(pod);
        self.done.push_back(Step::Unjudged(pod, why));
    }
}

/// Makes the framework evaluate all nodes, whatever the profile says.
fn of_all_nodes(mut framework: Framework) -> Arc<Framework> {
    framework.sampling = None;
    Arc::new(framework)
}

/// The time before which changes can no longer explain any decision.
fn earliest(now: Time, first: Option<&Pending>) -> Time {
    let from = first.map_or(now, |first| first.at.min(now));
    let window = u64::try_from(WINDOW.as_nanos()).expect("two seconds are not many nanoseconds");
    Time::from_nanos(from.as_nanos().saturating_sub(window))
}
