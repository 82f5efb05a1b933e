//! The engine's counters at scrape time, and the metric families built from them.
//!
//! Holds plain numbers only: the engine counts, this module names the series.
//! [`crate::telemetry::metrics::Exposition`] queries the engine.

use std::borrow::Cow;
use std::time::Duration;

use futures::future::BoxFuture;
use prometheus::proto::MetricFamily;
use supercargo_core::model::emulation::EmulatedVersion;

use crate::telemetry::metrics::text::{Plain, plain_family};
use crate::telemetry::metrics::{families, groups};

/// A label value: a constant, or a name from the configuration.
pub type Label = Cow<'static, str>;

/// Queries the engine for its numbers. Yields `None` if it cannot answer, for example during shutdown.
/// The exposition applies a timeout.
pub type CoreSource = Box<dyn Fn() -> BoxFuture<'static, Option<CoreStats>> + Send + Sync>;

/// The engine's gauges and counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreStats {
    /// Pending pods by queue.
    pub pending: PendingPods,
    /// Unschedulable pods by rejecting plugin. A pod counts once per plugin that rejected it.
    pub unschedulable: Vec<UnschedulablePods>,
    /// Pods added to each queue since the start, by event.
    pub incoming: Vec<IncomingPods>,
    /// Pods that have a node and whose binding has not finished, including pods that wait for volumes.
    pub bindings: u64,
    /// Evictions in progress.
    pub evictions: u64,
    /// Bindings that the recheck cancelled since the start.
    pub rechecks_failed: u64,
    /// Pod events dropped since the start.
    pub dropped_events: u64,
    /// Requests queued for sending, by lane.
    pub effects_waiting: Vec<(&'static str, u64)>,
    /// Objects in the cache.
    pub cache: CacheSizes,
    /// Pods scheduled after the periodic flush since the start; no event had requeued them.
    pub pods_rescued_by_flush: u64,
    /// Objects quarantined since the start because handling them panicked.
    pub poison_objects: u64,
    /// Scheduling decisions and queueing hints that panicked since the start.
    pub panics: u64,
    /// Pods that were found in no queue or in two places, were repaired and are still pending.
    pub lost_pods: u64,
    /// Pods repaired this way since the start.
    pub lost_pods_repaired: u64,
    /// Pods that have a node and whose volumes are being bound or provisioned.
    pub waiting_for_volumes: u64,
    /// Pods whose decision waits for an extender.
    pub waiting_for_extenders: u64,
    /// Large pods that are evaluated in slices.
    pub in_evaluation: u64,
    /// Slices evaluated so far.
    pub evaluation_slices: u64,
    /// `prioritize` calls to extenders in flight.
    pub prioritizing: u64,
    /// Groups of identical unschedulable pods that wait for the same plugins.
    pub unschedulable_groups: u64,
    /// Pod groups that are entries of the queues active, backoff, unschedulable and gated; `None` without that.
    pub queued_groups: Option<[QueuedGroups; 4]>,
    /// Pod groups with a member in the queue.
    pub podgroups_waiting: u64,
    /// Pod groups that were scheduled, and have fewer members than `minCount` on nodes.
    pub podgroups_below_min_count: u64,
    /// Waiting pod groups whose members fit into the free resources of all nodes together.
    pub podgroups_fragmented: u64,
    /// Pods found unschedulable because an equal pod was, and nothing changed since.
    pub recalled_decisions: u64,
    /// Cached decisions compared with a full evaluation: `[same, different]`.
    pub verified_decisions: [u64; 2],
    /// Longest time since a live signature was last compared.
    pub cache_unchecked: Duration,
    /// Busy time spent on comparisons.
    pub cache_checking: Duration,
    /// Time in which the scheduling thread was busy.
    pub busy: Duration,
    /// Whether cached decisions are in use.
    pub is_cache_used: bool,
    /// Age of the oldest pod of each queue.
    pub oldest_pending: Vec<(&'static str, Duration)>,
    /// Pods rejected by their kubelet at admission, by reason.
    pub kubelet_rejections: Vec<(String, u64)>,
}

/// Number of pods in each queue. A pod that is being scheduled is in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingPods {
    /// Ready to be scheduled.
    pub active: u64,
    /// In backoff.
    pub backoff: u64,
    /// Tried without success, waiting for an event.
    pub unschedulable: u64,
    /// Never tried, blocked by a PreEnqueue plugin.
    pub gated: u64,
    /// Never tried, because their PodGroup does not exist; counted from 1.37 on.
    pub incomplete: u64,
}

/// Number of pod groups in a queue, and of pods that are their members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuedGroups {
    /// Pod groups.
    pub groups: u64,
    /// Their members.
    pub members: u64,
}

/// Unschedulable pods that one plugin of one profile rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnschedulablePods {
    /// The rejecting plugin, or `Extender`.
    pub plugin: Label,
    /// The `schedulerName` of the profile.
    pub profile: Label,
    /// Number of pods.
    pub pods: u64,
}

/// Pods that one event added to one queue since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingPods {
    /// `active`, `backoff` or `unschedulable`.
    pub queue: Label,
    /// Upstream's event label, such as `UnschedulablePodAdd` or `BackoffComplete`.
    pub event: Label,
    /// Number of pods.
    pub pods: u64,
}

/// Number of objects in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSizes {
    /// Nodes.
    pub nodes: u64,
    /// Pods that have a node, including assumed ones.
    pub pods: u64,
    /// Pods whose binding the watch has not confirmed yet.
    pub assumed_pods: u64,
}

impl CoreStats {
    /// Returns the number of entries of each queue by type, given the pods in each queue.
    fn entities(&self, pending: [(&'static str, u64); 4]) -> Vec<([&'static str; 2], f64)> {
        let groups = self.queued_groups.unwrap_or_default();
        let pods = pending.iter().zip(&groups);
        let pods = pods.map(|(&(queue, n), of)| ([queue, "pod"], n.saturating_sub(of.members) as f64));
        let shown = if self.queued_groups.is_some() { &groups[..] } else { &[] };
        let groups = pending.iter().zip(shown);
        pods.chain(groups.map(|(&(queue, _), of)| ([queue, "podgroup"], of.groups as f64))).collect()
    }

    /// Returns the metric families of these numbers in a version of kube-scheduler, unsorted.
    // long because: one line per family
    pub(super) fn families(&self, version: EmulatedVersion) -> Vec<MetricFamily> {
        let pending = [
            ("active", self.pending.active),
            ("backoff", self.pending.backoff),
            ("unschedulable", self.pending.unschedulable),
            ("gated", self.pending.gated),
        ];
        // A group is decided in one step, so no member waits for the end of a cycle.
        let of_groups = [("incomplete", self.pending.incomplete), ("pending", 0)];
        let of_groups = of_groups.into_iter().filter(|_| version >= EmulatedVersion::V1_37);
        let entities = self.entities(pending);
        let cache = [
            ("nodes", self.cache.nodes),
            ("pods", self.cache.pods),
            ("assumed_pods", self.cache.assumed_pods),
        ];
        let unschedulable =
            self.unschedulable.iter().map(|row| ([&*row.plugin, &*row.profile], row.pods as f64));
        let incoming = self.incoming.iter().map(|row| ([&*row.queue, &*row.event], row.pods as f64));
        let incoming_entities =
            self.incoming.iter().map(|row| ([&*row.queue, &*row.event, "pod"], row.pods as f64));
        // Upstream counts goroutines. This scheduler counts the pods whose operation is in progress.
        let running = [
            ("binding", self.bindings),
            ("DefaultPreemption", self.evictions),
            ("prioritizing_extender", self.prioritizing),
        ];
        let total = |family, value: u64| plain_family(family, Plain::Counter, [([], value as f64)]);
        let number = |family, value: u64| plain_family(family, Plain::Gauge, [([], value as f64)]);
        let [same, different] = self.verified_decisions.map(|count| count as f64);
        let verified = [(["same"], same), (["different"], different)];
        let rescued = self.pods_rescued_by_flush as f64;
        vec![
            plain_family(
                &families::PENDING_PODS,
                Plain::Gauge,
                pending.into_iter().chain(of_groups).map(|(queue, n)| ([queue], n as f64)),
            ),
            plain_family(&families::QUEUED_ENTITIES, Plain::Gauge, entities),
            plain_family(&families::CACHE_SIZE, Plain::Gauge, cache.map(|(kind, n)| ([kind], n as f64))),
            plain_family(&families::UNSCHEDULABLE_PODS, Plain::Gauge, unschedulable),
            plain_family(&families::QUEUE_INCOMING_PODS, Plain::Counter, incoming),
            plain_family(&families::QUEUE_INCOMING_ENTITIES, Plain::Counter, incoming_entities),
            plain_family(&families::GOROUTINES, Plain::Gauge, running.map(|(work, n)| ([work], n as f64))),
            total(&families::RECHECKS_FAILED, self.rechecks_failed),
            total(&families::DROPPED_EVENTS, self.dropped_events),
            plain_family(
                &families::EFFECTS_WAITING,
                Plain::Gauge,
                self.effects_waiting.iter().map(|(lane, n)| ([*lane], *n as f64)),
            ),
            plain_family(&families::POD_SCHEDULED_AFTER_FLUSH, Plain::Counter, [([], rescued)]),
            plain_family(&families::PODS_RESCUED_BY_FLUSH, Plain::Counter, [([], rescued)]),
            total(&families::POISON_OBJECTS, self.poison_objects),
            total(&families::PANICS, self.panics),
            number(&families::LOST_PODS, self.lost_pods),
            total(&families::LOST_PODS_REPAIRED, self.lost_pods_repaired),
            number(&families::WAITING_FOR_VOLUMES, self.waiting_for_volumes),
            number(&families::WAITING_FOR_EXTENDERS, self.waiting_for_extenders),
            number(&families::IN_EVALUATION, self.in_evaluation),
            total(&families::EVALUATION_SLICES, self.evaluation_slices),
            number(&families::UNSCHEDULABLE_GROUPS, self.unschedulable_groups),
            number(&groups::PODGROUPS_WAITING, self.podgroups_waiting),
            number(&groups::PODGROUPS_BELOW_MIN_COUNT, self.podgroups_below_min_count),
            number(&groups::PODGROUPS_FRAGMENTED, self.podgroups_fragmented),
            total(&families::RECALLED_DECISIONS, self.recalled_decisions),
            plain_family(&families::VERIFIED_DECISIONS, Plain::Counter, verified),
            plain_family(
                &families::CACHE_UNCHECKED,
                Plain::Gauge,
                [([], self.cache_unchecked.as_secs_f64())],
            ),
            plain_family(
                &families::CACHE_CHECKING,
                Plain::Counter,
                [([], self.cache_checking.as_secs_f64())],
            ),
            plain_family(&families::BUSY, Plain::Counter, [([], self.busy.as_secs_f64())]),
            number(&families::CACHE_USED, u64::from(self.is_cache_used)),
            plain_family(
                &families::OLDEST_PENDING,
                Plain::Gauge,
                self.oldest_pending.iter().map(|(queue, waited)| ([*queue], waited.as_secs_f64())),
            ),
            plain_family(
                &families::KUBELET_REJECTIONS,
                Plain::Counter,
                self.kubelet_rejections.iter().map(|(reason, pods)| ([&**reason], *pods as f64)),
            ),
        ]
    }
}
