//! Pods that came to nodes and left them lately, and the orders in which that may have been seen elsewhere. Judges nothing.
//!
//! Another scheduler decides one pod after the other and counts each on its node at once; its bindings are carried out side by side, and
//! arrive here in an order that may differ a little. So the state it decided in is one of those in which some neighbours of a binding
//! are counted in, or out.

use super::{NEARBY, SHIFTS, SINGLES, WINDOW};
use crate::cache::Trial;
use crate::intern::{Symbol, holds_ids};
use crate::pod::PodInfo;
use crate::time::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// Changes remembered at most; the oldest are let go.
const CHANGES_MAX: usize = 20_000;

/// A pod came to a node, or left it.
pub(super) struct Change {
    number: u64,
    at: Time,
    pod: Arc<PodInfo>,
    node: Symbol,
    came: bool,
}

holds_ids!(Change { pod, node } but not { number, at, came });

impl Change {
    fn undo(&self, trial: &mut Trial<'_>) {
        if self.came {
            trial.take(&self.pod.uid);
        } else {
            trial.put(&self.pod, self.node);
        }
    }

    fn redo(&self, trial: &mut Trial<'_>) {
        if self.came {
            trial.put(&self.pod, self.node);
        } else {
            trial.take(&self.pod.uid);
        }
    }
}

/// The latest changes, in the order in which they arrived.
#[derive(Default)]
pub(super) struct Changes {
    next: u64,
    kept: VecDeque<Change>,
    /// Of those with a lower number some were let go for want of room.
    whole_from: u64,
}

holds_ids!(Changes { kept } but not { next, whole_from });

impl Changes {
    /// Notes a change; its number.
    pub(super) fn note(&mut self, at: Time, pod: &Arc<PodInfo>, node: Symbol, came: bool) -> u64 {
        let number = self.skip();
        self.kept.push_back(Change { number, at, pod: Arc::clone(pod), node, came });
        if self.kept.len() > CHANGES_MAX {
            self.kept.pop_front();
            self.whole_from = self.kept.front().map_or(self.next, |first| first.number);
        }
        number
    }

    /// Whether everything since the change of this number is remembered.
    pub(super) fn reaches(&self, number: u64) -> bool {
        number >= self.whole_from
    }

    /// A number between the change that came last and the next.
    pub(super) fn skip(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Forgets what no open judgement can ask for any more.
    pub(super) fn forget_before(&mut self, at: Time) {
        while self.kept.front().is_some_and(|change| change.at < at) {
            self.kept.pop_front();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Brings the cache back to where it was before the change of this number, as far as pods go.
    pub(super) fn rewind(&self, number: u64, trial: &mut Trial<'_>) {
        for change in self.kept.iter().rev().take_while(|change| change.number >= number) {
            change.undo(trial);
        }
    }

    /// The orders to look at of what happened around the change of this number, which came at this time; each is what
    /// to undo, the latest first, and what to do after all, the earliest first. `ours` and `theirs` are the nodes in question, around
    /// which singles are sought.
    pub(super) fn orders(
        &self,
        number: u64,
        at: Time,
        ours: Option<Symbol>,
        theirs: Option<Symbol>,
    ) -> Vec<Order<'_>> {
        let near = |change: &&Change| change.at.since(at) <= WINDOW && at.since(change.at) <= WINDOW;
        let before: Vec<&Change> =
            self.kept.iter().rev().skip_while(|it| it.number >= number).take_while(near).collect();
        let after: Vec<&Change> = self.kept.iter().filter(|it| it.number > number).take_while(near).collect();
        let mut orders = Orders::default();
        for far in 1..=SHIFTS {
            orders.offer(&before[..far.min(before.len())], &[]);
            orders.offer(&[], &after[..far.min(after.len())]);
        }
        let here = |it: &&Change| Some(it.node) == ours || Some(it.node) == theirs;
        let out: Vec<&Change> = before.iter().copied().filter(here).take(SINGLES).collect();
        let inn: Vec<&Change> = after.iter().copied().filter(here).take(SINGLES).collect();
        orders.offer(&out, &inn);
        out.iter().chain(before.iter().take(NEARBY)).for_each(|it| orders.offer(&[it], &[]));
        inn.iter().chain(after.iter().take(NEARBY)).for_each(|it| orders.offer(&[], &[it]));
        orders.offer(&before, &[]);
        orders.offer(&[], &after);
        orders.0
    }
}

/// Orders that differ, the likeliest first.
#[derive(Default)]
struct Orders<'a>(Vec<Order<'a>>);

impl<'a> Orders<'a> {
    fn offer(&mut self, out: &[&'a Change], inn: &[&'a Change]) {
        let order = Order { out: out.to_vec(), inn: inn.to_vec() };
        let as_it_arrived = out.is_empty() && inn.is_empty();
        if !as_it_arrived && !self.0.contains(&order) {
            self.0.push(order);
        }
    }
}

/// One order: changes that are thought away, and changes that are thought to be there already.
pub(super) struct Order<'a> {
    out: Vec<&'a Change>,
    inn: Vec<&'a Change>,
}

impl PartialEq for Order<'_> {
    fn eq(&self, other: &Self) -> bool {
        let same =
            |a: &[&Change], b: &[&Change]| a.iter().map(|it| it.number).eq(b.iter().map(|it| it.number));
        same(&self.out, &other.out) && same(&self.inn, &other.inn)
    }
}

impl Order<'_> {
    /// Brings it about in a state from before the change in question.
    pub(super) fn apply(&self, trial: &mut Trial<'_>) {
        self.out.iter().for_each(|change| change.undo(trial));
        self.inn.iter().for_each(|change| change.redo(trial));
    }
}
