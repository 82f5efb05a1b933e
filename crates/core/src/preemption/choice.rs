//! Which candidate is the least harm (upstream `pickOneNodeForPreemption`).

use super::importance::started;
use crate::framework::post_filter::Candidate;
use crate::time::Time;
use std::cmp::Reverse;

/// How much harm a candidate does; less is better, the first difference decides.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Harm {
    violations: usize,
    highest_priority: i32,
    /// Of the priorities, each raised to be no less than 0, so that more victims are never less harm.
    priorities: i64,
    victims: usize,
    /// Of the victims of the highest priority: that they have not run for long is better.
    earliest_start: Reverse<Time>,
}

impl Harm {
    fn of(candidate: &Candidate<'_>, now: Time) -> Self {
        let victims = &candidate.victims;
        // The first is the most important one, as plugins order them; an extender's order is its own.
        let first = victims.first().map_or(i32::MIN, |pod| pod.priority);
        let highest = victims.iter().map(|pod| pod.priority).max().unwrap_or(i32::MIN);
        let starts = victims.iter().filter(|pod| pod.priority == highest).map(|pod| started(pod, now));
        Self {
            violations: candidate.violations,
            highest_priority: first,
            priorities: victims.iter().map(|pod| i64::from(pod.priority) - i64::from(i32::MIN)).sum(),
            victims: victims.len(),
            earliest_start: Reverse(starts.min().unwrap_or(now)),
        }
    }
}

/// The candidates of least harm, in the order they came. Upstream takes any one of them.
pub(super) fn best(candidates: Vec<Candidate<'_>>, now: Time) -> Vec<Candidate<'_>> {
    let harms: Vec<Harm> = candidates.iter().map(|candidate| Harm::of(candidate, now)).collect();
    let least = harms.iter().min();
    let tied = candidates.into_iter().zip(&harms).filter(|(_, harm)| Some(*harm) == least);
    tied.map(|(candidate, _)| candidate).collect()
}
