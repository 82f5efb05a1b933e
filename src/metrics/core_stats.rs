//! What the core tells about itself on a scrape, and the families made of it.
//!
//! Plain numbers only: the core counts, the shell names. Nothing here asks the core; see [`super::Exposition`].

use std::borrow::Cow;
use std::time::Duration;

use futures::future::BoxFuture;
use prometheus::proto::MetricFamily;

use super::families;
use super::text::{Plain, plain_family};

/// A label value: a fixed name, or one from the configuration.
pub type Label = Cow<'static, str>;

/// Asks the core for its numbers. `None` when it cannot answer, as while it shuts down; an answer that
/// does not come is cut off by the exposition.
pub type CoreSource = Box<dyn Fn() -> BoxFuture<'static, Option<CoreStats>> + Send + Sync>;

/// The state of the core at one moment, as its gauges and counters show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreStats {
    /// Pods that wait, by queue.
    pub pending: PendingPods,
    /// Unschedulable pods by what rejected them; a pod counts once per plugin.
    pub unschedulable: Vec<UnschedulablePods>,
    /// Pods put into each queue since the start, by the event that put them there.
    pub incoming: Vec<IncomingPods>,
    /// Pods between the decision and the end of their binding, waiting for volumes included.
    pub bindings: u64,
    /// Evictions that are not over.
    pub evictions: u64,
    /// Bindings that a last look held back since the start.
    pub last_looks_failed: u64,
    /// Events about pods that were dropped since the start.
    pub dropped_events: u64,
    /// Writes that wait to be sent, by lane.
    pub effects_waiting: Vec<(&'static str, u64)>,
    /// Objects in the cache.
    pub cache: CacheSizes,
    /// Pods scheduled after the periodic flush since the start: no event had woken them.
    pub pods_rescued_by_flush: u64,
    /// Objects quarantined since the start, because handling them panicked.
    pub poison_objects: u64,
    /// Decisions and hints that panicked.
    pub panics: u64,
    /// Pending pods that were found in no place, or in two, and are still pending.
    pub lost_pods: u64,
    /// All such pods since the start.
    pub lost_pods_repaired: u64,
    /// Pods with a node whose volumes are being bound or made.
    pub waiting_for_volumes: u64,
    /// Pods whose decision waits for extenders.
    pub waiting_for_extenders: u64,
    /// Questions to extenders how good nodes are that are not answered.
    pub prioritizing: u64,
    /// Groups of unschedulable pods that wait for the same.
    pub unschedulable_groups: u64,
    /// Decisions answered from memory.
    pub recalled_decisions: u64,
    /// Cached decisions that were compared with a full evaluation: the same, and not.
    pub verified_decisions: [u64; 2],
    /// How long the live signature has not been compared of which that is longest.
    pub cache_unchecked: Duration,
    /// What comparisons took of the busy time.
    pub cache_checking: Duration,
    /// How long the scheduling thread was busy.
    pub busy: Duration,
    /// Whether cached decisions are used.
    pub is_cache_used: bool,
    /// How long the oldest pod of each queue has waited.
    pub oldest_pending: Vec<(&'static str, Duration)>,
    /// Pods that kubelets did not admit, by reason.
    pub kubelet_rejections: Vec<(String, u64)>,
}

/// Number of pods in each queue; a pod being decided is in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingPods {
    /// Ready to be decided.
    pub active: u64,
    /// Waiting for their backoff to end.
    pub backoff: u64,
    /// Tried, failed, and waiting for an event.
    pub unschedulable: u64,
    /// Never tried, held by a PreEnqueue plugin.
    pub gated: u64,
}

/// Unschedulable pods that one plugin of one profile rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnschedulablePods {
    /// The plugin to blame, or `Extender`.
    pub plugin: Label,
    /// The `schedulerName` of the profile.
    pub profile: Label,
    /// How many pods.
    pub pods: u64,
}

/// Pods that one event put into one queue since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingPods {
    /// `active`, `backoff` or `unschedulable`.
    pub queue: Label,
    /// Upstream's label of the event, such as `UnschedulablePodAdd` or `BackoffComplete`.
    pub event: Label,
    /// How many pods.
    pub pods: u64,
}

/// Number of objects in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSizes {
    /// Nodes.
    pub nodes: u64,
    /// Pods that have a node, the assumed ones included.
    pub pods: u64,
    /// Pods whose binding the watch has not yet confirmed.
    pub assumed_pods: u64,
}

impl CoreStats {
    /// The families of these numbers, in no order.
    // long because: a family a line, and each but once
    pub(super) fn families(&self) -> Vec<MetricFamily> {
        let pending = [
            ("active", self.pending.active),
            ("backoff", self.pending.backoff),
            ("unschedulable", self.pending.unschedulable),
            ("gated", self.pending.gated),
        ];
        let cache = [
            ("nodes", self.cache.nodes),
            ("pods", self.cache.pods),
            ("assumed_pods", self.cache.assumed_pods),
        ];
        let unschedulable =
            self.unschedulable.iter().map(|row| ([&*row.plugin, &*row.profile], row.pods as f64));
        let incoming = self.incoming.iter().map(|row| ([&*row.queue, &*row.event], row.pods as f64));
        // What upstream has goroutines for, and this scheduler has pods between two events.
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
                pending.map(|(queue, n)| ([queue], n as f64)),
            ),
            plain_family(&families::CACHE_SIZE, Plain::Gauge, cache.map(|(kind, n)| ([kind], n as f64))),
            plain_family(&families::UNSCHEDULABLE_PODS, Plain::Gauge, unschedulable),
            plain_family(&families::QUEUE_INCOMING_PODS, Plain::Counter, incoming),
            plain_family(&families::GOROUTINES, Plain::Gauge, running.map(|(work, n)| ([work], n as f64))),
            total(&families::LAST_LOOKS_FAILED, self.last_looks_failed),
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
            number(&families::UNSCHEDULABLE_GROUPS, self.unschedulable_groups),
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
