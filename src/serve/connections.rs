//! Bounds the open connections: two groups of limited size, and the choice of a victim when one is full.
//!
//! Connections that have completed a request and those that have not never evict each other. So clients that
//! connect without a request take no room from Prometheus. Clients that hold a connection after a request
//! take none from the kubelet's next probe.
//!
//! In a full group the victim belongs to the peer address with the most connections. Among those, it is at
//! the stage with the most connections, and its last progress is the longest ago. A probe progresses as fast
//! as it is served, so it leaves a stage before connections that are only held open.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;

use crate::telemetry::metrics::ServingMetrics;
use supercargo_apiserver::Throttle;

/// How far a connection has progressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(super) enum Stage {
    /// Accepted; the TLS ClientHello is incomplete.
    Hello,
    /// The TLS handshake is running.
    Handshake,
    /// The handshake is complete; no request has arrived.
    Silent,
    /// The first request is running.
    Asking,
    /// A request was answered; none is running.
    Idle,
    /// A request was answered; another is running.
    Busy,
}

impl Stage {
    const ALL: [Self; 6] = [Self::Hello, Self::Handshake, Self::Silent, Self::Asking, Self::Idle, Self::Busy];

    /// Whether a request was answered.
    fn is_proven(self) -> bool {
        self >= Self::Idle
    }
}

/// Progress of one connection, shared with its task.
#[derive(Debug)]
pub(super) struct Progress {
    stage: AtomicU8,
    /// The furthest stage reached. Cancelling and repeating a request is no progress.
    furthest: AtomicU8,
    /// Number of running requests; HTTP/2 allows several.
    running: AtomicU64,
    /// Time of the last progress, in milliseconds since `origin`.
    last: AtomicU64,
    origin: Instant,
}

impl Progress {
    fn new(origin: Instant) -> Self {
        let (stage, furthest, running) = (AtomicU8::new(0), AtomicU8::new(0), AtomicU64::new(0));
        let progress = Self { stage, furthest, running, last: AtomicU64::new(0), origin };
        progress.touch();
        progress
    }

    /// Records that the connection has reached `stage`.
    pub(super) fn reached(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
        if self.furthest.fetch_max(stage as u8, Ordering::Relaxed) < stage as u8 {
            self.touch();
        }
    }

    /// Records that a request has arrived; it runs until the returned guard is dropped.
    pub(super) fn asked(self: &Arc<Self>) -> Running {
        self.running.fetch_add(1, Ordering::Relaxed);
        self.reached(if self.stage().is_proven() { Stage::Busy } else { Stage::Asking });
        Running { progress: Arc::clone(self), is_answered: false }
    }

    /// Whether a request has been answered or is running.
    pub(super) fn was_used(&self) -> bool {
        self.stage() >= Stage::Asking
    }

    fn touch(&self) {
        let since = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(since, Ordering::Relaxed);
    }

    fn stage(&self) -> Stage {
        Stage::ALL[usize::from(self.stage.load(Ordering::Relaxed))]
    }
}

/// Guard of a running request. Dropping it without [`Running::answered`] means that the client cancelled the
/// request.
pub(super) struct Running {
    progress: Arc<Progress>,
    is_answered: bool,
}

impl Running {
    /// Records that the request was answered.
    pub(super) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let progress = &self.progress;
        let others = progress.running.fetch_sub(1, Ordering::Relaxed) > 1;
        progress.reached(match (self.is_answered || progress.stage().is_proven(), others) {
            (true, true) => Stage::Busy,
            (true, false) => Stage::Idle,
            (false, true) => Stage::Asking,
            (false, false) => Stage::Silent,
        });
        if self.is_answered {
            progress.touch();
        }
    }
}

/// The open connections.
pub(super) struct Connections {
    tasks: JoinSet<()>,
    open: HashMap<Id, Open>,
    /// Maximum size of each group.
    limit: usize,
    origin: Instant,
    metrics: ServingMetrics,
    evictions: Throttle,
}

struct Open {
    peer: IpAddr,
    progress: Arc<Progress>,
    task: AbortHandle,
}

impl Connections {
    /// Returns an empty set whose two groups hold at most `limit` connections each. Evictions are logged at
    /// most once per `log_every`.
    pub(super) fn new(limit: usize, log_every: Duration, metrics: ServingMetrics) -> Self {
        let (tasks, open) = (JoinSet::new(), HashMap::new());
        Self { tasks, open, limit, origin: Instant::now(), metrics, evictions: Throttle::new(log_every) }
    }

    /// Serves one more connection, and evicts others until both groups are within the limit.
    pub(super) fn add<F>(&mut self, peer: SocketAddr, serve: impl FnOnce(Arc<Progress>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.forget(&ended);
        }
        let progress = Arc::new(Progress::new(self.origin));
        let task = self.tasks.spawn(serve(Arc::clone(&progress)));
        // A dual-stack socket reports IPv4 clients by their mapped IPv6 address.
        let peer = peer.ip().to_canonical();
        self.open.insert(task.id(), Open { peer, progress, task });
        for is_proven in [false, true] {
            while let Some(victim) = victim(&self.open, is_proven, self.limit) {
                self.evict(victim);
            }
        }
    }

    /// Returns the number of open connections.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Waits until all connections have ended.
    pub(super) async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// Aborts all connections.
    pub(super) async fn shutdown(&mut self) {
        self.tasks.shutdown().await;
    }

    fn forget(&mut self, ended: &Result<(Id, ()), tokio::task::JoinError>) {
        let id = match ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        self.open.remove(&id);
    }

    fn evict(&mut self, victim: Id) {
        let Some(open) = self.open.remove(&victim) else { return };
        open.task.abort();
        self.metrics.evicted();
        if let Some(withheld) = self.evictions.admit() {
            let (limit, peer, stage) = (self.limit, open.peer, open.progress.stage());
            tracing::warn!(limit, %peer, ?stage, withheld, "too many connections; closed one of the peer with the most");
        }
    }
}

/// Returns the connection to evict from one group (`is_proven`: those that completed a request); `None` if
/// the group is within the limit.
fn victim(open: &HashMap<Id, Open>, is_proven: bool, limit: usize) -> Option<Id> {
    if open.len() <= limit {
        return None;
    }
    // Read each stage once, since it changes concurrently.
    let group: Vec<(Id, IpAddr, Stage, u64)> = open
        .iter()
        .map(|(id, open)| (*id, open.peer, open.progress.stage(), open.progress.last.load(Ordering::Relaxed)))
        .filter(|(_, _, stage, _)| stage.is_proven() == is_proven)
        .collect();
    if group.len() <= limit {
        return None;
    }
    let peer = commonest(group.iter().map(|(_, peer, ..)| *peer))?;
    let of_peer = || group.iter().filter(|(_, of, ..)| *of == peer);
    let stage = commonest(of_peer().map(|(_, _, stage, _)| *stage))?;
    of_peer().filter(|(_, _, at, _)| *at == stage).min_by_key(|(.., last)| *last).map(|(id, ..)| *id)
}

/// Returns the most frequent value; any of them on a tie.
fn commonest<T: Copy + Eq + Hash>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: HashMap<T, usize> = HashMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::Metrics;

    const LIMIT: usize = 4;

    struct ConnectionTable {
        connections: Connections,
        /// All added connections, in order.
        added: Vec<Arc<Progress>>,
    }

    impl ConnectionTable {
        fn new() -> Self {
            let metrics = Metrics::new().serving();
            Self { connections: Connections::new(LIMIT, Duration::from_secs(60), metrics), added: Vec::new() }
        }

        /// Adds a connection of 10.0.0.`peer` at `stage`, one millisecond after the last one.
        async fn add(&mut self, peer: u8, stage: Stage) {
            let mut added = None;
            let address = SocketAddr::from(([10, 0, 0, peer], 1));
            self.connections.add(address, |progress| {
                added = Some(progress);
                std::future::pending()
            });
            let added = added.unwrap();
            tokio::time::advance(Duration::from_millis(1)).await;
            added.reached(stage);
            self.added.push(added);
        }

        /// Returns the indices of open connections, in order of arrival.
        fn open(&self) -> Vec<usize> {
            let is_open = |progress: &Arc<Progress>| {
                self.connections.open.values().any(|open| Arc::ptr_eq(&open.progress, progress))
            };
            (0..self.added.len()).filter(|&at| is_open(&self.added[at])).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn victim_is_the_longest_idle_of_the_most_frequent_stage() {
        let mut house = ConnectionTable::new();
        house.add(1, Stage::Hello).await;
        for _ in 0..3 {
            house.add(1, Stage::Silent).await;
        }
        house.add(1, Stage::Handshake).await;
        assert_eq!(house.open(), [0, 2, 3, 4], "the silent stage has the most connections");
        house.added[2].reached(Stage::Asking);
        house.add(1, Stage::Handshake).await;
        house.add(1, Stage::Handshake).await;
        assert_eq!(house.open().len(), LIMIT);
        assert!(house.open().contains(&2) && house.open().contains(&3), "{:?}", house.open());
    }

    #[tokio::test(start_paused = true)]
    async fn victim_belongs_to_the_peer_with_the_most_connections() {
        let mut house = ConnectionTable::new();
        house.add(1, Stage::Hello).await;
        for _ in 0..3 {
            house.add(2, Stage::Asking).await;
        }
        house.add(3, Stage::Hello).await;
        assert_eq!(house.open(), [0, 2, 3, 4], "the oldest of the second peer was evicted");
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_requests_are_no_progress() {
        let mut house = ConnectionTable::new();
        for _ in 0..LIMIT {
            house.add(1, Stage::Silent).await;
        }
        for _ in 0..3 {
            drop(house.added[0].asked());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        drop(house.added[0].asked());
        assert_eq!(house.added[0].stage(), Stage::Silent);
        let first = house.added[0].last.load(Ordering::Relaxed);
        tokio::time::advance(Duration::from_millis(1)).await;
        drop(house.added[0].asked());
        assert_eq!(house.added[0].last.load(Ordering::Relaxed), first);
    }

    #[tokio::test(start_paused = true)]
    async fn proven_and_unproven_connections_never_evict_each_other() {
        let mut house = ConnectionTable::new();
        for _ in 0..LIMIT {
            house.add(1, Stage::Idle).await;
        }
        for _ in 0..3 * LIMIT {
            house.add(1, Stage::Handshake).await;
        }
        assert_eq!(house.open()[..LIMIT], [0, 1, 2, 3], "no proven connection was evicted");
        assert_eq!(house.open().len(), 2 * LIMIT);
        // One more connection becomes proven, so the proven one that was idle the longest is evicted.
        let newest = house.added.last().unwrap();
        newest.asked().answered();
        house.add(1, Stage::Hello).await;
        assert_eq!(house.open()[..LIMIT - 1], [1, 2, 3]);
        assert!(house.open().contains(&(4 * LIMIT - 1)), "{:?}", house.open());
    }

    #[tokio::test(start_paused = true)]
    async fn connection_with_one_of_two_requests_answered_is_busy_and_then_idle() {
        let mut house = ConnectionTable::new();
        house.add(1, Stage::Silent).await;
        let progress = &house.added[0];
        let (first, second) = (progress.asked(), progress.asked());
        assert_eq!(progress.stage(), Stage::Asking);
        first.answered();
        assert_eq!(progress.stage(), Stage::Busy);
        drop(second);
        assert_eq!(progress.stage(), Stage::Idle, "a proven connection stays proven");
    }

    #[tokio::test(start_paused = true)]
    async fn ended_connections_free_their_slots() {
        let mut house = ConnectionTable::new();
        house.add(1, Stage::Handshake).await;
        for _ in 0..10 * LIMIT {
            house.connections.add(SocketAddr::from(([10, 0, 0, 2], 1)), |_| std::future::ready(()));
            tokio::task::yield_now().await;
        }
        assert_eq!(house.open(), [0]);
        assert!(house.connections.len() <= 2, "{}", house.connections.len());
    }

    #[test]
    fn mapped_address_is_the_peer_it_maps() {
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(mapped.to_canonical(), "10.0.0.1".parse::<IpAddr>().unwrap());
    }
}
