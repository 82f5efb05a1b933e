//! Evaluation of large pods in slices: other pods are decided between two slices.
//!
//! A large pod is suspended like one that waits for extenders, and keeps its partial results ([`Partial`]). The last
//! slice is the first one that can compute all missing results; it decides by the cluster's state at that time.
//! Upstream evaluates such a pod in its only loop, while all others wait.
//!
//! A large pod that needs extenders keeps its results while it waits for them. Each answer leads to further slices.

use super::Scheduler;
use super::attempt::Decided;
use super::extend::{Extended, SuspendedDecision};
use super::failure::Failure;
use crate::cache::Snapshot;
use crate::cache::slice::{Partial, Slice};
use crate::cycle::NoProbe;
use crate::model::intern::trace_ids;
use crate::model::pod::PodInfo;
use crate::model::signature::Signature;
use crate::model::time::Time;
use crate::queue::QueuedPod;
use std::collections::VecDeque;
use std::sync::Arc;

/// Attempts of other pods between two slices, if that many pods are pending. So a large pod progresses under any load.
const OTHERS_BETWEEN: u32 = 8;
/// Number of ended evaluations whose results are kept, for the recheck before the binding and for identical pods.
const KEPT: usize = 4;

/// When attempts are evaluated in slices, in units of work: a comparison or lookup of 5 to 10 ns each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Attempts of more work are evaluated in slices; one of this work takes about 20 ms. Hand-written pods stay below:
    /// nine terms with two requirements each, compared with 150,000 distinct pods, are 2.7 million.
    pub large: u64,
    /// The work of one slice: 3 to 6 ms, plus the work that every slice repeats.
    pub slice: u64,
    /// A pod with a larger product is not evaluated. The limit keeps all slices together below a minute of work. It
    /// admits the largest pod that the API server accepts (1.5 MiB, about 12,000 terms) with 150,000 distinct pods.
    pub most: u64,
}

impl Limits {
    /// Returns the work that the searches for devices may do in one slice of a group's cycle: about 10 ms.
    pub(super) fn of_cycle(self) -> u64 {
        self.large / 2
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { large: 3_000_000, slice: 300_000, most: 4_000_000_000 }
    }
}

/// The result of a slice.
pub(super) enum Sliced {
    /// The attempt ended.
    Ended,
    /// Another slice follows, after pending events are handled.
    GoesOn,
}

/// The progress of a large pod's evaluation.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// `None` before the first slice.
    partial: Option<Partial>,
    /// Number of consecutive slices without a new result. Each doubles the work of the next slice.
    vain: u32,
}

impl Progress {
    /// Returns the progress after a slice that began with `before` results and ended with these.
    fn after(self, partial: Partial, before: u64) -> Self {
        let vain = if partial.results() > before { 0 } else { self.vain + 1 };
        Self { partial: Some(partial), vain }
    }
}

/// The limits of evaluation in slices, and the results of ended evaluations.
#[derive(Debug, Default)]
pub(super) struct Slices {
    limits: Limits,
    /// Attempts of other pods since the last slice.
    others: u32,
    kept: VecDeque<SlicedPod>,
    count: u64,
}

/// The results of an evaluation that ended.
#[derive(Debug)]
struct SlicedPod {
    pod: Signature,
    partial: Partial,
    /// Whether they were used since the last garbage collection of ids.
    is_used: bool,
}

trace_ids!(SlicedPod { pod } but not { partial, is_used });
trace_ids!(Slices { kept } but not { limits, others, count });

/// Returns the pod as the results depend on it: a pod is nominated to its node while PreBind runs.
fn without_nomination(pod: &PodInfo) -> Arc<PodInfo> {
    PodInfo { nominated_node: None, ..pod.clone() }.into()
}

impl Slices {
    /// Returns the number of slices evaluated so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Counts an attempt of a pod that is not large.
    pub(super) fn note_other(&mut self) {
        self.others = self.others.saturating_add(1);
    }

    fn take(&mut self, pod: &PodInfo) -> Option<Partial> {
        let pod = without_nomination(pod);
        let at = self.kept.iter().position(|kept| kept.pod.is_of(&pod))?;
        self.kept.remove(at).map(|kept| kept.partial)
    }

    fn keep(&mut self, pod: &Arc<PodInfo>, mut partial: Partial) {
        partial.end();
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        let pod = Signature::of(&without_nomination(pod));
        self.kept.push_back(SlicedPod { pod, partial, is_used: true });
    }

    /// Drops all kept results.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }

    /// Drops results that were not used since the last garbage collection: they hold the ids of their pod.
    pub(super) fn end_collection(&mut self) {
        self.kept.retain_mut(|kept| std::mem::take(&mut kept.is_used));
    }
}

impl Scheduler {
    /// Sets the limits, for tests with small clusters.
    pub fn limit_attempts(&mut self, limits: Limits) {
        self.slices.limits = limits;
    }

    /// Suspends a large pod until its first slice.
    pub(super) fn begin_slices(&mut self, now: Time, queued: QueuedPod) {
        let asks = self.extender_calls.concerns(&queued.pod);
        let waiting = SuspendedDecision::in_slices(queued, now, self.requeues.count, asks);
        self.extender_calls.suspend(waiting);
    }

    /// Evaluates a slice if enough other pods were attempted since the last one.
    pub(super) fn slice_in_turn(&mut self, now: Time) -> Option<Sliced> {
        if self.slices.others < OTHERS_BETWEEN { None } else { self.slice(now) }
    }

    /// Evaluates a slice of the large pod that was suspended first, if there is one.
    pub(super) fn slice(&mut self, now: Time) -> Option<Sliced> {
        let mut waiting = self.extender_calls.take_sliced()?;
        self.slices.others = 0;
        self.slices.count += 1;
        if let Some(key) = waiting.queued.pod.group_key() {
            return Some(self.slice_group(now, waiting, key));
        }
        self.cache.refresh();
        if self.snapshot().nodes().is_empty() {
            let text = super::attempt::NO_NODES.to_owned();
            self.fail(now, waiting.queued, waiting.began, Failure::NoNodes(text));
            return Some(Sliced::Ended);
        }
        let mut progress = waiting.progress.take().unwrap_or_default();
        let known = progress.partial.take().or_else(|| self.slices.take(&waiting.queued.pod));
        let mut partial = known.unwrap_or_default();
        partial.bring_up_to_date(&waiting.queued.pod, self.snapshot());
        let before = partial.results();
        let work = self.slices.limits.slice.saturating_mul(1 << progress.vain.min(32));
        let slice = Slice::new(work, partial);
        if waiting.asks {
            let made = self.decide_extended(now, &mut waiting, Some(&slice), &mut NoProbe);
            let partial = slice.into_partial();
            return Some(self.extended_slice(now, waiting, made, progress, (partial, before)));
        }
        let decided = self.decide(now, &waiting.queued, Some(&slice), &mut NoProbe);
        let partial = slice.into_partial();
        if let Decided::Unfinished = decided {
            waiting.progress = Some(progress.after(partial, before));
            self.extender_calls.suspend_first(waiting);
            return Some(Sliced::GoesOn);
        }
        if !matches!(decided, Decided::Panicked(_)) {
            self.slices.keep(&waiting.queued.pod, partial);
        }
        self.conclude(now, waiting.queued, waiting.began, decided);
        Some(Sliced::Ended)
    }

    /// Acts on the result of a slice of a pod that needs extenders.
    fn extended_slice(
        &mut self,
        now: Time,
        mut waiting: SuspendedDecision,
        made: Extended,
        progress: Progress,
        (partial, before): (Partial, u64),
    ) -> Sliced {
        match &made {
            Extended::Decided(Decided::Panicked(_)) => {}
            Extended::Decided(_) => self.slices.keep(&waiting.queued.pod, partial),
            Extended::Call(_) | Extended::Stale | Extended::Unfinished => {
                waiting.progress = Some(progress.after(partial, before));
            }
        }
        match self.proceed(now, waiting, made) {
            Some(waiting) => {
                self.extender_calls.suspend_first(waiting);
                Sliced::GoesOn
            }
            None => Sliced::Ended,
        }
    }

    /// Whether the node still passes all filters for a large pod, by the kept results. Returns `None` if too much
    /// changed; the pod is then evaluated again.
    pub(super) fn fits_by_results(
        &mut self,
        pod: &Arc<PodInfo>,
        fits: impl FnOnce(&Self, Snapshot<'_>) -> bool,
    ) -> Option<bool> {
        let mut partial = self.slices.take(pod)?;
        partial.bring_up_to_date(pod, self.snapshot());
        let slice = Slice::new(self.slices.limits.large, partial);
        let fits = slice.unless_ended(|| fits(self, self.snapshot().in_slice(&slice)));
        self.slices.keep(pod, slice.into_partial());
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Tables;
    use crate::scheduler::quarantine::tests::pod;

    #[test]
    fn results_that_are_not_used_between_two_collections_are_dropped() {
        let mut slices = Slices::default();
        slices.keep(&pod(&mut Tables::new(), "p", 1, None).into(), Partial::default());
        slices.end_collection();
        assert_eq!(slices.kept.len(), 1, "they were used before the first one");
        slices.end_collection();
        assert!(slices.kept.is_empty());
    }

    #[test]
    fn slices_without_a_new_result_are_counted_so_that_they_grow() {
        let mut progress = Progress::default();
        for vain in 1..4 {
            progress = progress.after(Partial::default(), 0);
            assert_eq!(progress.vain, vain);
        }
    }
}
