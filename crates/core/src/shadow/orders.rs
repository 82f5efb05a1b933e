//! Recent changes of pods on nodes, and the orders in which another scheduler may have seen them.
//!
//! Another scheduler decides one pod after another and assumes each at once. Its bindings are sent
//! concurrently and arrive here in a slightly different order. So it decided in a state in which some
//! neighboring changes were applied and others were not.

use super::{NEARBY, SHIFTS, SINGLES, WINDOW};
use crate::cache::Hypothetical;
use crate::model::intern::{Symbol, trace_ids};
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of changes kept; the oldest are dropped first.
const CHANGES_MAX: usize = 20_000;

/// A pod appeared on a node or left it.
pub(super) struct Change {
    number: u64,
    at: Time,
    pod: Arc<PodInfo>,
    node: Symbol,
    came: bool,
}

trace_ids!(Change { pod, node } but not { number, at, came });

impl Change {
    fn undo(&self, hypothetical: &mut Hypothetical<'_>) {
        if self.came {
            hypothetical.remove(&self.pod.uid);
        } else {
            hypothetical.add(&self.pod, self.node);
        }
    }

    fn redo(&self, hypothetical: &mut Hypothetical<'_>) {
        if self.came {
            hypothetical.add(&self.pod, self.node);
        } else {
            hypothetical.remove(&self.pod.uid);
        }
    }
}

/// The latest changes, in order of arrival.
#[derive(Default)]
pub(super) struct Changes {
    next: u64,
    kept: VecDeque<Change>,
    /// Some changes with lower numbers were dropped because of the limit.
    whole_from: u64,
}

trace_ids!(Changes { kept } but not { next, whole_from });

impl Changes {
    /// Records a change and returns its number.
    pub(super) fn note(&mut self, at: Time, pod: &Arc<PodInfo>, node: Symbol, came: bool) -> u64 {
        let number = self.skip();
        self.kept.push_back(Change { number, at, pod: Arc::clone(pod), node, came });
        if self.kept.len() > CHANGES_MAX {
            self.kept.pop_front();
            self.whole_from = self.kept.front().map_or(self.next, |first| first.number);
        }
        number
    }

    /// Whether all changes since this number are kept.
    pub(super) fn reaches(&self, number: u64) -> bool {
        number >= self.whole_from
    }

    /// Reserves a number between the latest change and the next.
    pub(super) fn skip(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Drops changes that no open judgement needs.
    pub(super) fn forget_before(&mut self, at: Time) {
        while self.kept.front().is_some_and(|change| change.at < at) {
            self.kept.pop_front();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Rolls the pods in the cache back to the state before the change of this number.
    pub(super) fn rewind(&self, number: u64, hypothetical: &mut Hypothetical<'_>) {
        for change in self.kept.iter().rev().take_while(|change| change.number >= number) {
            change.undo(hypothetical);
        }
    }

    /// Returns the orders to try around the change of this number, which arrived at this time.
    ///
    /// Each order lists changes to undo, latest first, and then changes to apply, earliest first. `ours` and
    /// `theirs` are the compared nodes, whose changes are tried one by one.
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

/// Distinct orders, the most likely first.
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

/// One order: changes to undo and changes to apply early.
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
    /// Applies the order to a state from before the judged change.
    pub(super) fn apply(&self, hypothetical: &mut Hypothetical<'_>) {
        self.out.iter().for_each(|change| change.undo(hypothetical));
        self.inn.iter().for_each(|change| change.redo(hypothetical));
    }
}
