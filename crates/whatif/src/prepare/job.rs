//! The pods that an existing Job runs at once, and those that it still has to start.
//!
//! Upstream: `pkg/controller/job/job_controller.go#manageJob`, `pkg/controller/job/indexed_job_utils.go`. Rules for
//! failures are not applied: they end a Job by a condition.

use crate::load::files::{Item, text_at};
use crate::prepare::expand::PODS_MAX;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// The label and the annotation with the index of a pod of an indexed Job.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Conditions of a Job that starts no more pods.
const LAST_CONDITIONS: [&str; 4] = ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"];

/// Returns whether a Job has finished or is about to finish, so that it starts no more pods.
pub(super) fn has_finished(job: &Value) -> bool {
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        LAST_CONDITIONS.contains(&text_at(condition, "/type")) && text_at(condition, "/status") == "True"
    })
}

/// Returns whether each pod of a Job has an index.
pub(super) fn is_indexed(job: &Value) -> bool {
    text_at(job, "/spec/completionMode") == "Indexed"
}

/// Returns the index of a pod of an indexed Job.
pub(super) fn index_of(pod: &Item) -> Option<usize> {
    let text = |field: &str| pod.value.get("metadata")?.get(field)?.get(INDEX)?.as_str();
    text("annotations").or_else(|| text("labels"))?.parse().ok()
}

/// How far an existing Job is, from its status and its pods.
pub(super) struct Progress {
    /// Whether it has finished or is about to finish.
    pub(super) has_finished: bool,
    /// Whether it is suspended.
    pub(super) is_suspended: bool,
    /// Number of pods or indexes that have succeeded.
    pub(super) succeeded: usize,
    parallelism: usize,
    /// Number of completions; `None` if the first success ends the Job.
    completions: Option<usize>,
    /// The indexes that need no pod any more; `None` if the pods have no indexes.
    closed: Option<Indexes>,
}

impl Progress {
    /// Reads the progress of a Job with these succeeded pods.
    pub(super) fn of(job: &Item, succeeded: &[&Item]) -> Self {
        let number = |path: &str| {
            job.value.pointer(path).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok())
        };
        let parallelism = number("/spec/parallelism").unwrap_or(1);
        let progress = Self {
            has_finished: has_finished(&job.value),
            is_suspended: job.value.pointer("/spec/suspend") == Some(&Value::Bool(true)),
            succeeded: number("/status/succeeded").unwrap_or(0).max(succeeded.len()),
            parallelism,
            completions: number("/spec/completions"),
            closed: None,
        };
        if !is_indexed(&job.value) {
            return progress;
        }
        let completions = progress.completions.unwrap_or(parallelism);
        let of_pods = succeeded.iter().filter_map(|pod| index_of(pod));
        let mut closed = Indexes::below(completions, job.text("/status/completedIndexes"), of_pods);
        let succeeded = closed.len();
        closed.add(completions, job.text("/status/failedIndexes"));
        Self { succeeded, completions: Some(completions), closed: Some(closed), ..progress }
    }

    /// Returns how many pods the Job wants at once, if `active` of them run or are pending.
    pub(super) fn wanted(&self, active: usize) -> usize {
        if self.has_finished || self.is_suspended {
            return 0;
        }
        match self.completions {
            None if self.succeeded > 0 => active,
            None => self.parallelism,
            Some(completions) => self.parallelism.min(completions.saturating_sub(self.succeeded)),
        }
    }

    /// Returns whether the Job may keep a pod with this index beside the indexes in `taken`; adds the index to them.
    pub(super) fn keeps(&self, index: Option<usize>, taken: &mut BTreeSet<usize>) -> bool {
        let is_below = |index: &usize| self.completions.is_none_or(|completions| *index < completions);
        self.closed.is_none() || index.filter(is_below).is_some_and(|index| taken.insert(index))
    }

    /// Returns the numbers of the pods that the Job starts beside its `active` pods with the indexes in `taken`: the
    /// lowest free indexes, or else numbers from `unused` on.
    pub(super) fn missing(&self, active: usize, taken: &BTreeSet<usize>, unused: usize) -> Vec<usize> {
        // One more than allowed is enough for the error.
        let missing = self.wanted(active).saturating_sub(active).min(PODS_MAX + 1);
        let Some(closed) = &self.closed else { return (unused..).take(missing).collect() };
        let free = |index: &usize| !closed.contains(*index) && !taken.contains(index);
        (0..self.completions.unwrap_or(0)).filter(free).take(missing).collect()
    }
}

/// A set of indexes.
struct Indexes {
    ranges: Vec<RangeInclusive<usize>>,
    single: BTreeSet<usize>,
}

impl Indexes {
    /// Collects the indexes below `end` from a text such as `0-2,4`, and further ones.
    fn below(end: usize, text: &str, more: impl Iterator<Item = usize>) -> Self {
        let mut indexes = Self { ranges: Vec::new(), single: BTreeSet::new() };
        indexes.add(end, text);
        let single = more.filter(|&index| index < end && !indexes.contains(index)).collect();
        Self { single, ..indexes }
    }

    /// Adds the indexes below `end` of a text.
    fn add(&mut self, end: usize, text: &str) {
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>()) else {
                continue;
            };
            if first <= last && first < end {
                self.ranges.push(first..=last.min(end - 1));
            }
        }
    }

    /// Returns the number of indexes. Their ranges in the status of a Job do not overlap.
    fn len(&self) -> usize {
        self.ranges.iter().map(|range| range.end() - range.start() + 1).sum::<usize>() + self.single.len()
    }

    fn contains(&self, index: usize) -> bool {
        self.ranges.iter().any(|range| range.contains(&index)) || self.single.contains(&index)
    }
}
