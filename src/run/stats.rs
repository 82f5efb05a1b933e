//! Converts the engine's statistics into the numbers that metrics show.

use crate::engine::{Clock, Inbox};
use crate::telemetry::metrics::{
    CacheSizes, CoreSource, CoreStats, IncomingPods, PendingPods, QueuedGroups, UnschedulablePods,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use supercargo_core::model::effect::Lane;
use supercargo_core::model::time::Time;
use supercargo_core::queue::SubQueue;
use supercargo_core::scheduler::{GroupEntries, Scheduler, Stats};

/// Returns a source that queries the engine between two decisions.
pub(super) fn source(inbox: Inbox<Scheduler>, clock: Clock, rescued_by_flush: Arc<AtomicU64>) -> CoreSource {
    Box::new(move || {
        let (inbox, rescued) = (inbox.clone(), Arc::clone(&rescued_by_flush));
        Box::pin(async move {
            let mut stats = inbox.ask(move |engine| read(engine, clock.now())).await.ok()?;
            stats.pods_rescued_by_flush = rescued.load(Ordering::Relaxed);
            Some(stats)
        })
    })
}

fn read(engine: &Scheduler, now: Time) -> CoreStats {
    let stats = engine.stats();
    let (snapshot, verification) = (engine.snapshot(), stats.verification);
    CoreStats {
        pending: pending(&stats),
        unschedulable: stats
            .queue
            .unschedulable
            .iter()
            .map(|(&(plugin, profile), &pods)| UnschedulablePods {
                plugin: plugin.into(),
                profile: snapshot.text(profile).to_owned().into(),
                pods: pods as u64,
            })
            .collect(),
        incoming: stats
            .queue
            .incoming
            .iter()
            .map(|(&(place, event), &pods)| IncomingPods {
                queue: place.as_str().into(),
                event: event.into(),
                pods,
            })
            .collect(),
        bindings: (stats.bindings + stats.volume_bindings) as u64,
        evictions: stats.evictions as u64,
        rechecks_failed: stats.rechecks_failed,
        dropped_events: stats.dropped_records,
        effects_waiting: Lane::ALL
            .iter()
            .zip(stats.outgoing)
            .map(|(lane, n)| (lane.as_str(), n as u64))
            .collect(),
        cache: CacheSizes {
            nodes: stats.cache.nodes as u64,
            pods: stats.cache.pods as u64,
            assumed_pods: stats.cache.assumed_pods as u64,
        },
        pods_rescued_by_flush: 0,
        poison_objects: stats.poisoned,
        panics: stats.panics,
        lost_pods: stats.lost_pods as u64,
        lost_pods_repaired: stats.lost_pods_repaired,
        waiting_for_volumes: stats.volume_bindings as u64,
        waiting_for_extenders: stats.extender_calls as u64,
        in_evaluation: stats.sliced as u64,
        evaluation_slices: stats.slices,
        prioritizing: stats.prioritizing as u64,
        unschedulable_groups: stats.queue.groups as u64,
        queued_groups: stats.groups.entries.as_ref().map(queued_groups),
        podgroups_waiting: stats.groups.waiting as u64,
        podgroups_below_min_count: stats.groups.below_min_count as u64,
        podgroups_fragmented: stats.groups.fragmented as u64,
        recalled_decisions: stats.recalled,
        verified_decisions: stats.verified,
        cache_unchecked: verification.unchecked_since.map_or(Duration::ZERO, |since| now.since(since)),
        cache_checking: verification.comparing,
        busy: verification.busy,
        is_cache_used: verification.is_trusting,
        oldest_pending: oldest(engine, now),
        kubelet_rejections: rejections(stats.kubelet_rejections),
    }
}

fn pending(stats: &Stats) -> PendingPods {
    let number = |place: SubQueue| stats.queue.pending.get(&place).map_or(0, |&n| n as u64);
    let incomplete = stats.groups.entries.as_ref().map_or(0, |entries| entries.incomplete as u64);
    PendingPods {
        active: number(SubQueue::Active),
        backoff: number(SubQueue::Backoff),
        unschedulable: number(SubQueue::Unschedulable),
        gated: number(SubQueue::Gated).saturating_sub(incomplete),
        incomplete,
    }
}

fn queued_groups(entries: &GroupEntries) -> [QueuedGroups; 4] {
    let number = |of: &BTreeMap<SubQueue, usize>, place| of.get(&place).map_or(0, |&n| n as u64);
    SubQueue::ALL.map(|place| QueuedGroups {
        groups: number(&entries.groups, place),
        members: number(&entries.members, place),
    })
}

/// Rejection reasons whose series exist from the start, so that a first rejection shows as an increase from 0.
const USUAL_REJECTIONS: [&str; 3] = ["OutOfcpu", "OutOfmemory", "OutOfpods"];

fn rejections(mut counted: BTreeMap<String, u64>) -> Vec<(String, u64)> {
    for reason in USUAL_REJECTIONS {
        counted.entry(reason.to_owned()).or_default();
    }
    counted.into_iter().collect()
}

/// Returns the age of the oldest pod per queue; 0 for an empty queue.
fn oldest(engine: &Scheduler, now: Time) -> Vec<(&'static str, Duration)> {
    let mut since = SubQueue::ALL.map(|place| (place, now));
    for (place, queued) in engine.queue().waiting() {
        for (_, first) in since.iter_mut().filter(|(at, _)| *at == place) {
            *first = queued.timestamp.min(*first);
        }
    }
    since.map(|(place, first)| (place.as_str(), now.since(first))).into()
}
