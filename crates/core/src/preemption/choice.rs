//! Chooses the candidate of the lowest cost (upstream `pickOneNodeForPreemption`).

use super::importance::started;
use crate::framework::dry_runs::Harm;
use crate::framework::post_filter::Candidate;
use crate::model::time::Time;
use std::cmp::{Ordering, Reverse};

/// Returns the cost of a candidate.
pub(super) fn harm(candidate: &Candidate<'_>, now: Time) -> Harm {
    let victims = &candidate.victims;
    // Plugins sort victims by importance; an extender may return another order.
    let first = victims.first().map_or(i32::MIN, |pod| pod.priority);
    let highest = victims.iter().map(|pod| pod.priority).max().unwrap_or(i32::MIN);
    let important = || victims.iter().filter(|pod| pod.priority == highest);
    let earliest = important().map(|pod| started(pod, now)).min();
    let is_now = earliest == Some(now) && important().any(|pod| pod.start_time.is_none());
    let count = |number: usize| u32::try_from(number).expect("a node has fewer than 2^32 pods");
    Harm {
        violations: count(candidate.violations),
        highest_priority: first,
        priorities: victims.iter().map(|pod| i64::from(pod.priority) - i64::from(i32::MIN)).sum(),
        victims: count(victims.len()),
        earliest_start: earliest.filter(|_| !is_now),
    }
}

/// Compares two costs; less is better.
pub(super) fn compare(a: &Harm, b: &Harm, now: Time) -> Ordering {
    let key = |harm: &Harm| {
        let start = Reverse(harm.earliest_start.unwrap_or(now));
        (harm.violations, harm.highest_priority, harm.priorities, harm.victims, start)
    };
    key(a).cmp(&key(b))
}

/// Returns the candidates of the lowest cost, in input order. Upstream picks any of them.
pub(super) fn best(candidates: Vec<Candidate<'_>>, now: Time) -> Vec<Candidate<'_>> {
    let harms: Vec<Harm> = candidates.iter().map(|candidate| harm(candidate, now)).collect();
    let least = harms.iter().min_by(|a, b| compare(a, b, now));
    let is_least = |harm: &Harm| least.is_some_and(|least| compare(harm, least, now).is_eq());
    let tied = candidates.into_iter().zip(&harms).filter(|(_, harm)| is_least(harm));
    tied.map(|(candidate, _)| candidate).collect()
}

/// The candidates of the lowest cost so far.
pub(super) struct Least<T> {
    harm: Option<Harm>,
    /// Candidates of equal cost, in input order.
    pub(super) tied: Vec<T>,
}

impl<T> Least<T> {
    /// Creates an empty collection.
    pub(super) fn new() -> Self {
        Self { harm: None, tied: Vec::new() }
    }

    /// Adds a candidate if its cost is at most the lowest so far.
    pub(super) fn meets(&mut self, harm: &Harm, at: T, now: Time) {
        match self.harm.as_ref().map_or(Ordering::Less, |least| compare(harm, least, now)) {
            Ordering::Greater => return,
            Ordering::Equal => {}
            Ordering::Less => {
                self.harm = Some(*harm);
                self.tied.clear();
            }
        }
        self.tied.push(at);
    }
}
