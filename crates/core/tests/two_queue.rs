//! The two-queue replacement policy of the decision cache, and the gradual eviction of signatures.
//!
//! The correctness of cached decisions is tested in `incremental.rs`.

mod support;

use supercargo_core::cycle::{Decision, Framework, NoProbe, Options};
use supercargo_core::incremental::DecisionCache;
use supercargo_core::model::rng::Seed;
use support::TestCluster;

const LIMIT: usize = 1 << 20;

struct CacheRun {
    cluster: TestCluster,
    framework: Framework,
    decisions: DecisionCache,
}

impl CacheRun {
    /// Creates an empty cache of this size, and 300 nodes in three zones.
    fn with_limit(room: usize) -> Self {
        Self::with_nodes(300, room)
    }

    fn with_nodes(nodes: usize, room: usize) -> Self {
        let mut cluster = TestCluster::new();
        for number in 0..nodes {
            let node = cluster.node_from(&format!("n{number} zone=z{} cpu=8 mem=8Gi", number % 3));
            cluster.add_node(&node);
        }
        Self { cluster, framework: Framework::default(), decisions: DecisionCache::with_bytes_max(room) }
    }

    /// Decides about a schedulable pod, and returns whether its signature was cached.
    fn decides_from_cache(&mut self, words: &str) -> bool {
        let (pod, before) = (self.cluster.pod_from(words), self.decisions.computed());
        let quick =
            self.framework.decide_cached(&mut self.decisions, &pod, self.cluster.snapshot(), &mut NoProbe);
        assert!(quick.is_some(), "{words}");
        self.decisions.computed() == before
    }

    /// Returns the cache size that this signature alone needs.
    fn alone(words: &str) -> usize {
        let mut cache_run = Self::with_limit(usize::MAX);
        cache_run.decides_from_cache(words);
        cache_run.decisions.bytes()
    }
}

/// A signature that needs about 24 kB, with a shared node evaluation.
fn spread(number: usize) -> String {
    format!("x label:app=a{number} anti=host/app=a{number} spread=host/1/DoNotSchedule/app=a{number}")
}

/// A signature that needs a few hundred bytes, with a shared node evaluation.
fn plain(number: usize) -> String {
    format!("x label:number={number}")
}

/// A signature with its own node evaluation.
fn asking(number: usize) -> String {
    format!("x cpu={}m mem={}Mi", number % 1_000, number / 1_000 + 1)
}

/// Returns a generator of deterministic numbers below a bound.
fn numbers() -> impl FnMut(usize) -> usize {
    let mut state = 1_u64;
    move |bound| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    }
}

#[test]
fn each_decision_evicts_few_entries_and_the_cache_stays_within_its_limit() {
    let kinds = [plain, asking, spread];
    let sizes = kinds.map(|kind| CacheRun::alone(&kind(0)));
    let mut cache_run = CacheRun::with_limit(LIMIT);
    let (mut below, mut last, mut most, mut over_limit) = (numbers(), 0, 0, 0);
    for turn in 0..20_000 {
        // Long runs of small signatures, then large ones, each of which displaces many small ones.
        let kind = if turn % 2_000 < 1_500 { below(2) } else { 2 };
        let number = if below(3) == 0 { below(40) } else { 100 + turn };
        let before = cache_run.decisions.evictions();
        if !cache_run.decides_from_cache(&kinds[kind](number)) {
            last = sizes[kind];
        }
        let gone = cache_run.decisions.evictions() - before;
        assert!(gone <= 9, "{gone} entries evicted in turn {turn}");
        let bytes = cache_run.decisions.bytes();
        assert!(bytes <= LIMIT + last, "{bytes} bytes in turn {turn}, the last entry has {last}");
        most = most.max(gone);
        over_limit += usize::from(bytes > LIMIT);
    }
    let gone = cache_run.decisions.evictions();
    assert!(gone > 10_000 && most > 4, "{gone} entries evicted, at most {most} at once");
    assert!(over_limit > 0, "the cache never exceeded its limit");
}

#[test]
fn recurring_signatures_are_not_evicted_for_one_time_signatures() {
    const RECURRING: usize = 20;
    let mut cache_run = CacheRun::with_limit(LIMIT);
    let mut evicted = 0;
    for turn in 0..2_000 {
        assert!(!cache_run.decides_from_cache(&spread(100 + turn)), "the signature is new");
        evicted += usize::from(!cache_run.decides_from_cache(&spread(turn % RECURRING)));
    }
    // The space for new signatures is smaller than what arrives between two returns. So each is evaluated once more,
    // and then stays.
    assert!(
        evicted <= 2 * RECURRING,
        "{evicted} times something was not known that came every {RECURRING} turns"
    );
    assert!(cache_run.decisions.evictions() > 1_900, "{} entries evicted", cache_run.decisions.evictions());
    assert!(cache_run.decisions.bytes() <= LIMIT, "{} bytes", cache_run.decisions.bytes());
}

/// Small signatures reach the limit of 8,192 signatures long before the limit in bytes.
#[test]
fn one_time_signatures_get_a_quarter_of_the_entries() {
    const MOST: usize = 8_192;
    const RECURRING: usize = 6_500;
    const LATEST: usize = MOST / 4;
    let mut cache_run = CacheRun::with_nodes(2, usize::MAX);
    let decide = |cache_run: &mut CacheRun, numbers: std::ops::Range<usize>| {
        numbers.filter(|number| cache_run.decides_from_cache(&plain(*number))).count()
    };
    // Signatures that leave for others are protected when they return, if their hash is still remembered then.
    for round in 1..=4 {
        decide(&mut cache_run, round * 2 * MOST..round * 2 * MOST + MOST);
        decide(&mut cache_run, 0..RECURRING);
    }
    // Fewer suffice from then on, until three quarters of the entries are protected.
    for round in 0..4 {
        decide(&mut cache_run, (20 + round) * MOST..(20 + round) * MOST + 2 * LATEST);
        decide(&mut cache_run, 0..RECURRING);
    }
    assert_eq!(cache_run.decisions.signatures(), MOST);
    // More one-time signatures than the cache holds do not displace them, but get a quarter of the entries.
    let end = 11 * MOST;
    assert_eq!(decide(&mut cache_run, 10 * MOST..end), 0);
    assert_eq!(decide(&mut cache_run, end - LATEST..end), LATEST);
    let stayed = decide(&mut cache_run, 0..RECURRING);
    assert!(stayed >= MOST - MOST / 4 - 50, "{stayed} of {RECURRING} recurring signatures stayed");
}

#[test]
fn large_recurring_signatures_are_not_evicted_for_one_time_signatures() {
    let mut cache_run = CacheRun::with_limit(LIMIT);
    let recurring = LIMIT * 2 / 3 / CacheRun::alone(&spread(0));
    let meet = |cache_run: &mut CacheRun| {
        (0..recurring).filter(|&number| !cache_run.decides_from_cache(&spread(number))).count()
    };
    (0..3).for_each(|_| _ = meet(&mut cache_run));
    assert_eq!(meet(&mut cache_run), 0, "{recurring} signatures fit");
    let mut evicted = 0;
    for turn in 0..500 {
        cache_run.decides_from_cache(&spread(1_000 + turn));
        evicted += meet(&mut cache_run);
    }
    // Some were still among the new signatures.
    assert!(evicted <= recurring, "{evicted} of {recurring}");
}

#[test]
fn alternating_signatures_stay_cached_if_they_fit() {
    let mut cache_run = CacheRun::with_limit(LIMIT);
    let kinds = LIMIT * 3 / 4 / CacheRun::alone(&spread(0));
    let rounds =
        [0, 1, 2, 3].map(|_| (0..kinds).filter(|&kind| !cache_run.decides_from_cache(&spread(kind))).count());
    assert!(
        rounds[0] == kinds && rounds[1] < kinds && rounds[2..] == [0, 0],
        "{rounds:?} of {kinds} unknown"
    );
}

/// Returns the bytes of two signatures with their shared node evaluation.
fn bytes_of_two() -> usize {
    let mut cache_run = CacheRun::with_limit(usize::MAX);
    (0..2).for_each(|number| _ = cache_run.decides_from_cache(&spread(number)));
    cache_run.decisions.bytes()
}

#[test]
fn signatures_that_need_exactly_the_limit_stay_cached() {
    let are_cached = |cache_run: &mut CacheRun, numbers: [usize; 3]| {
        numbers.map(|number| cache_run.decides_from_cache(&spread(number)))
    };
    // Two new signatures exceed their share: the first is evicted, and protected when it returns.
    let returned = |limit| {
        let mut cache_run = CacheRun::with_limit(limit);
        assert_eq!(are_cached(&mut cache_run, [0, 1, 0]), [false; 3]);
        cache_run
    };
    let limit = returned(bytes_of_two()).decisions.bytes();
    let mut cache_run = returned(limit);
    assert_eq!(cache_run.decisions.bytes(), limit);
    // A single new signature may exceed the share. The next one displaces it, and not the protected one.
    assert_eq!(are_cached(&mut cache_run, [1, 2, 0]), [true, false, true]);
}

#[test]
fn new_signatures_that_need_exactly_their_share_stay_cached() {
    for (limit, stays) in [(4 * bytes_of_two(), true), (4 * bytes_of_two() - 1, false)] {
        let mut cache_run = CacheRun::with_limit(limit);
        (0..2).for_each(|number| _ = cache_run.decides_from_cache(&spread(number)));
        assert_eq!(cache_run.decides_from_cache(&spread(0)), stays, "limit of {limit} bytes");
    }
}

#[test]
fn recurring_signatures_that_do_not_fit_together_stay_within_the_limit() {
    let limit = bytes_of_two();
    let mut cache_run = CacheRun::with_limit(limit);
    for turn in 0..30 {
        cache_run.decides_from_cache(&spread(turn % 3));
        let bytes = cache_run.decisions.bytes();
        assert!(bytes <= limit, "{bytes} of {limit} bytes in turn {turn}");
    }
}

#[test]
fn pods_of_one_deployment_are_fully_evaluated_once() {
    let mut cache_run = CacheRun::with_limit(LIMIT);
    for app in 0..100 {
        let unknown = (0..50).filter(|_| !cache_run.decides_from_cache(&spread(app))).count();
        assert_eq!(unknown, 1, "of app {app}");
    }
}

/// A shared node evaluation is freed with its last signature.
#[test]
fn shared_state_is_freed_with_its_last_signature() {
    let mut cache_run = CacheRun::with_limit(LIMIT);
    let shared = |number| format!("{} cpu=1", spread(number));
    (0..3).for_each(|number| assert!(!cache_run.decides_from_cache(&shared(number))));
    assert_eq!(cache_run.decisions.node_signatures(), 1);
    let (mut others, mut left) = (0, 3);
    while left > 0 {
        let before = cache_run.decisions.evictions();
        cache_run.decides_from_cache(&spread(100 + others));
        others += 1;
        assert!(others < 100, "entries are evicted in order");
        left -= (cache_run.decisions.evictions() - before) as usize;
        assert_eq!(cache_run.decisions.node_signatures(), 1 + usize::from(left > 0), "{left} are left");
    }
    // Nothing remains of them, and everything of the others.
    let mut others_alone = CacheRun::with_limit(usize::MAX);
    let first = others - cache_run.decisions.signatures();
    (first..others).for_each(|number| _ = others_alone.decides_from_cache(&spread(100 + number)));
    assert_eq!(cache_run.decisions.bytes(), others_alone.decisions.bytes());
}

/// A signature that counts pods by node has a count, and the size of a domain, for each of the 300 nodes.
#[test]
fn counts_by_node_need_more_memory_than_counts_by_zone() {
    let [by_node, by_zone] = ["host", "zone"]
        .map(|key| CacheRun::alone(&format!("x label:app=a spread={key}/1/DoNotSchedule/app=a")));
    assert!(by_node > by_zone + 300 * size_of::<[i32; 2]>(), "{by_node} and {by_zone} bytes");
}

/// No data by node is cached for a signature until it has a feasible node.
#[test]
fn unschedulable_pods_occupy_no_cache_space() {
    let mut cache_run = CacheRun::with_limit(LIMIT);
    let (large, small) = ("x cpu=7 label:app=a anti=host/app=a", "x cpu=1 label:app=a anti=host/app=a");
    for number in 0..300 {
        let pod = cache_run.cluster.pod_from(&format!("q{number} on=n{number} cpu=3"));
        cache_run.cluster.place(&pod);
    }
    let ask = |cache_run: &mut CacheRun| {
        cache_run.cluster.cache.refresh();
        let (pod, snapshot) = (cache_run.cluster.pod_from(large), cache_run.cluster.snapshot());
        let plain = cache_run.framework.decide(&pod, snapshot, Options::default(), &mut NoProbe);
        let quick = cache_run.framework.decide_cached(&mut cache_run.decisions, &pod, snapshot, &mut NoProbe);
        assert_eq!(quick.is_some(), matches!(plain, Ok(Decision::Feasible(_))));
        quick.is_some_and(|mut quick| quick.equals(&plain, Seed(7), &pod))
    };
    assert!(!ask(&mut cache_run), "no node is feasible");
    let bytes = cache_run.decisions.bytes();
    assert!(bytes < CacheRun::alone(small) / 10, "{bytes} bytes");
    let pod = cache_run.cluster.pod_from("q7 on=n7 cpu=2");
    cache_run.cluster.place(&pod);
    assert!(!ask(&mut cache_run), "still no node is feasible");
    assert_eq!(
        (cache_run.decisions.bytes(), cache_run.decisions.computed()),
        (bytes, 1),
        "the result came from the cache"
    );
    cache_run.cluster.cache.remove_pod("q8");
    assert!(ask(&mut cache_run), "a node is feasible");
    assert_eq!(cache_run.decisions.bytes(), CacheRun::alone(small), "and now it takes what others do");
    assert_eq!((cache_run.decisions.signatures(), cache_run.decisions.node_signatures()), (1, 1));
}

#[test]
fn cleared_signature_is_fully_evaluated_again() {
    let mut cache_run = CacheRun::with_limit(LIMIT);
    (0..100).for_each(|number| _ = cache_run.decides_from_cache(&spread(number)));
    cache_run.decisions.clear();
    assert_eq!(
        (
            cache_run.decisions.signatures(),
            cache_run.decisions.node_signatures(),
            cache_run.decisions.bytes()
        ),
        (0, 0, 0)
    );
    assert!(!cache_run.decides_from_cache(&spread(99)) && cache_run.decides_from_cache(&spread(99)));
}

/// A change of a namespace voids all states.
#[test]
fn recomputed_signatures_take_their_share_only_once() {
    let mut cache_run = CacheRun::with_limit(4 * bytes_of_two());
    for turn in 0..3 {
        let line = format!("namespace default label:turn=t{turn}");
        support::language::apply(&mut cache_run.cluster, &line);
        (0..2).for_each(|number| assert!(!cache_run.decides_from_cache(&spread(number))));
    }
    assert_eq!((cache_run.decisions.computed(), cache_run.decisions.evictions()), (6, 0));
}
