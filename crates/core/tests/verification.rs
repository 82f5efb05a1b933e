//! Verification: comparisons change no decision, stay within their budget, and reach every signature.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::effect::Effect;
use supercargo_core::model::event::{BindOutcome, Event, EvictOutcome, ObjectKey};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::QueueConfig;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use support::{arrival, begin};

const START: Time = Time::from_secs(100);
/// The simulated duration of a call.
const CALL: Duration = Duration::from_micros(50);
/// The engine's interval between two comparisons in idle time.
const PAUSE: Duration = Duration::from_millis(10);

const NODES: [&str; 9] = [
    "zone=z1 cpu=4 mem=8Gi",
    "zone=z2 cpu=4 mem=4Gi image=nginx:latest@900Mi",
    "zone=z3 cpu=8 mem=8Gi taint=gpu:NoSchedule",
    "zone=z2 cpu=4 mem=8Gi taint=spot:PreferNoSchedule",
    "zone=z1 cpu=4 mem=8Gi unschedulable",
    "zone=z2 cpu=4 mem=8Gi label:disk=ssd label:rack=r1",
    "zone=z3 cpu=4 mem=8Gi image=nginx:latest@900Mi label:rack=r1",
    "zone=z1 cpu=4 mem=8Gi image=redis:7@700Mi label:rack=r2",
    "cpu=4 mem=8Gi label:disk=ssd label:rack=r3",
];
const PODS: [&str; 14] = [
    "cpu=1 mem=1Gi",
    "cpu=1 image=nginx:latest",
    "cpu=1 image=nginx:latest image=redis:7 label:app=web",
    "label:app=web spread=zone/1/DoNotSchedule/app=web",
    "label:app=web spread=rack/1/ScheduleAnyway/app=web cpu=1",
    "label:app=db anti=rack/app=db",
    "affinity=zone/app=web cpu=1",
    "prefer-affinity=10/zone/app=web label:app=db",
    "port=80",
    "tolerate=gpu tolerate=spot cpu=1",
    "select:disk=ssd cpu=1",
    "cpu=1 priority=3 mem=100Mi",
    "cpu=16",
    "label:app=web affinity=rack/app=web anti=host/app=web",
];

fn engine() -> Scheduler {
    let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
    let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
    let mut engine = Scheduler::new(config, START);
    engine.verify_decisions(None);
    begin(&mut engine, START, usize::MAX / 2);
    engine
}

/// A deterministic sequence of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// Two engines with the same inputs at the same times. Only one of them compares.
struct Pair {
    plain: Scheduler,
    comparing: Scheduler,
    now: Time,
    /// The description of each existing pod.
    pods: BTreeMap<String, String>,
}

impl Pair {
    fn new(interval: Duration) -> Self {
        let (plain, mut comparing) = (engine(), engine());
        comparing.verify_within(START, interval);
        Self { plain, comparing, now: START, pods: BTreeMap::new() }
    }

    fn handle(&mut self, event: impl Fn(&mut Scheduler) -> Event) {
        for engine in [&mut self.plain, &mut self.comparing] {
            let event = event(engine);
            engine.handle(self.now, event);
        }
        self.now = self.now + CALL;
    }

    fn apply(&mut self, line: &str) {
        self.handle(|engine| arrival(engine.tables(), line));
    }

    fn pod_gone(&mut self, name: &str) {
        self.pods.remove(name);
        self.handle(|_| Event::Gone(ObjectKey::Pod(name.into())));
    }

    /// Runs both engines until idle, and checks that they do the same.
    fn work(&mut self) {
        loop {
            let steps = [&mut self.plain, &mut self.comparing].map(|it| it.step(self.now, &mut NoProbe));
            self.now = self.now + CALL;
            let [plain, comparing] = steps.each_ref().map(|step| match step {
                Step::Idle { .. } => "idle".to_owned(),
                other => format!("{other:?}"),
            });
            assert_eq!(comparing, plain, "a comparison changed what is done");
            let [step, _] = steps;
            match step {
                Step::Idle { .. } => return,
                Step::Effect(Effect::Bind { pod, node }) => {
                    self.handle(|_| Event::BindFinished {
                        uid: pod.uid.clone(),
                        outcome: BindOutcome::Accepted,
                    });
                    let words = self.pods[&pod.name].clone();
                    self.apply(&format!("pod {} {words} on={node}", pod.name));
                }
                Step::Effect(Effect::Evict(eviction)) => {
                    let uid = Arc::clone(&eviction.pod.uid);
                    self.handle(|_| Event::EvictFinished {
                        uid: Arc::clone(&uid),
                        outcome: EvictOutcome::Deleted,
                    });
                    self.pod_gone(&eviction.pod.name);
                }
                Step::Effect(_) | Step::Report(_) | Step::GroupReport(_) | Step::Notice(_) => {}
            }
        }
    }

    /// Advances the time, without inputs.
    fn rest(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.work();
            self.now = self.now + PAUSE;
        }
    }

    fn change(&mut self, random: &mut Random, number: usize) {
        match random.below(20) {
            0..4 => {
                let (name, what) = (random.below(8), NODES[random.below(NODES.len())]);
                self.apply(&format!("node n{name} {what}"));
            }
            4 => {
                let name = format!("n{}", random.below(8));
                self.handle(|engine| Event::Gone(ObjectKey::Node(engine.tables().symbol(&name))));
            }
            5..13 => {
                let words = PODS[random.below(PODS.len())];
                self.pods.insert(format!("p{number}"), words.to_owned());
                self.apply(&format!("pod p{number} {words}"));
            }
            13..17 => {
                let at = random.below(self.pods.len().max(1));
                if let Some(name) = self.pods.keys().nth(at).cloned() {
                    self.pod_gone(&name);
                }
            }
            _ => self.rest(Duration::from_millis(200)),
        }
        if random.below(3) > 0 {
            self.work();
        }
    }
}

#[test]
fn comparisons_change_no_decision() {
    let mut compared = 0;
    for seed in 0..24 {
        let (mut pair, mut random) = (Pair::new(Duration::from_millis(500)), Random(seed));
        for name in 0..8 {
            pair.apply(&format!("node n{name} {}", NODES[name % NODES.len()]));
        }
        for number in 0..250 {
            pair.change(&mut random, number);
        }
        pair.rest(Duration::from_secs(1));
        assert_eq!(pair.plain.stats().verified, [0, 0]);
        let stats = pair.comparing.stats();
        assert_eq!(stats.verified[1], 0, "seed {seed}: a cached decision differs");
        assert_eq!(
            stats.cached_decisions,
            pair.plain.stats().cached_decisions,
            "seed {seed}: as many decisions come from the cache"
        );
        compared += stats.verified[0];
    }
    assert!(compared > 3_000, "only {compared} decisions were compared");
}

/// Returns how long the longest unchecked signature has not been compared, and the number of comparisons.
fn progress(engine: &Scheduler) -> (Duration, u64) {
    let stats = engine.stats();
    let since = stats.verification.unchecked_since;
    (since.map_or(Duration::ZERO, |since| since - START), stats.verified.iter().sum())
}

/// Creates a cluster with some nodes and one bound pod for each signature.
fn with_signatures(signatures: usize, interval: Duration) -> Pair {
    let mut pair = Pair::new(interval);
    for name in 0..20 {
        pair.apply(&format!("node n{name} zone=z{} cpu=1000 mem=1000Gi pods=10000", name % 3));
    }
    for number in 0..signatures {
        pair.pods.insert(format!("s{number}"), format!("cpu=1 mem={}Mi", 10 + number));
        pair.apply(&format!("pod s{number} cpu=1 mem={}Mi", 10 + number));
        pair.work();
    }
    pair
}

#[test]
fn every_live_signature_is_compared_once_per_round_when_idle() {
    let (signatures, interval) = (40, Duration::from_secs(60));
    let mut pair = with_signatures(signatures, interval);
    let (_, before) = progress(&pair.comparing);
    for _ in 0..60 {
        pair.rest(Duration::from_secs(5));
        let (unchecked_since, _) = progress(&pair.comparing);
        let age = (pair.now - START) - unchecked_since;
        assert!(age <= interval, "unchecked for {age:?} at {:?}", pair.now - START);
    }
    let (_, after) = progress(&pair.comparing);
    // One round in 30 s, for 300 s.
    let rounds = (after - before) as usize / signatures;
    assert!((9..=10).contains(&rounds), "{rounds} rounds: no more comparisons than the interval asks for");
}

#[test]
fn continuous_load_limits_comparisons_to_their_share_and_covers_all_signatures() {
    const CHEAP: Duration = Duration::from_millis(10);
    const FULL: Duration = Duration::from_millis(15);
    let (signatures, interval) = (12, Duration::from_secs(120));
    let mut engine = engine();
    engine.verify_within(START, interval);
    for name in 0..20 {
        let line = format!("node n{name} zone=z{} cpu=1000 mem=1000Gi pods=10000", name % 3);
        let event = arrival(engine.tables(), &line);
        engine.handle(START, event);
    }
    let (mut now, mut number, mut compared) = (START, 0, 0);
    let (mut cheap, mut full) = (Duration::ZERO, Duration::ZERO);
    let mut per_signature = 0;
    while now - START < 3 * interval {
        if engine.queue().stats().pending.values().sum::<usize>() < 2 {
            // All signatures at first; then only two of them are decided repeatedly.
            let which = if number < signatures { number } else { number % 2 };
            let line = format!("pod p{number} cpu=1m mem={}Mi", 10 + which);
            let event = arrival(engine.tables(), &line);
            engine.handle(now, event);
            number += 1;
        }
        let step = engine.step(now, &mut NoProbe);
        assert!(!matches!(step, Step::Idle { .. }), "a pod is always pending");
        let (unchecked_since, so_far) = progress(&engine);
        let age = (now - START).saturating_sub(unchecked_since);
        assert!(age <= interval, "unchecked for {age:?} at {:?}", now - START);
        let (cost, kind) = if so_far > compared { (FULL, &mut full) } else { (CHEAP, &mut cheap) };
        per_signature += so_far - compared;
        compared = so_far;
        *kind += cost;
        now = now + cost;
    }
    assert!(full <= cheap / 50 + FULL, "{full:?} of comparisons beside {cheap:?} of work");
    assert!(full + 2 * FULL >= cheap / 50, "{full:?} beside {cheap:?}: the share is used");
    assert!(per_signature > 3 * signatures as u64, "{per_signature} comparisons");
}

/// The pod that represents a signature in the cache may be nominated later. Then other pods of the signature must
/// respect its nomination.
#[test]
fn nominated_pod_is_no_difference_between_cached_and_full_refusals() {
    let mut pair = Pair::new(Duration::from_secs(60));
    pair.apply("node n0 cpu=2 mem=8Gi");
    pair.apply("node n1 cpu=1 mem=8Gi");
    pair.apply("pod victim on=n0 cpu=2");
    for engine in [&mut pair.plain, &mut pair.comparing] {
        // The victims stay, because evictions have no credits.
        while !matches!(engine.step(START, &mut NoProbe), Step::Idle { .. }) {}
    }
    let wants = |name: &str| format!("pod {name} cpu=2 priority=5");
    let decide = |pair: &mut Pair, name: &str| {
        pair.apply(&wants(name));
        for engine in [&mut pair.plain, &mut pair.comparing] {
            while !matches!(engine.step(pair.now, &mut NoProbe), Step::Idle { .. }) {}
        }
        pair.now = pair.now + CALL;
    };
    // The signature is cached for the second pod. After the deletion of the first, the second is nominated, and the
    // third finds no victim.
    decide(&mut pair, "first");
    decide(&mut pair, "second");
    pair.handle(|_| Event::Gone(ObjectKey::Pod("first".into())));
    pair.now = pair.now + Duration::from_secs(400);
    decide(&mut pair, "third");
    let engine = &mut pair.comparing;
    let nominated = |engine: &Scheduler| {
        let snapshot = engine.snapshot();
        let nodes = snapshot.nodes_with_nominations().into_iter();
        nodes.flat_map(|node| snapshot.nominated_on(node)).map(|pod| pod.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(nominated(engine), ["second"]);
    let (mut cursor, now) = (0, pair.now + CALL);
    while engine.verify_one(now, &mut cursor, now) {}
    let [same, differing] = engine.stats().verified;
    assert!(same > 0 && differing == 0, "{same} are the same, {differing} are not");
}

/// A node leaves a rack of two nodes, and the cache of the other one is not updated. This is found in idle time, and
/// one signature is evicted.
#[cfg(feature = "mutations")]
#[test]
fn stale_domain_is_detected_when_idle_and_pods_stay_in_their_racks() {
    use supercargo_core::switches::mutation::{Mutation, with};
    let interval = Duration::from_secs(60);
    let mut engine = engine();
    engine.verify_within(START, interval);
    let mut now = START;
    let handle = |engine: &mut Scheduler, now: Time, line: &str| {
        let event = arrival(engine.tables(), line);
        engine.handle(now, event);
    };
    let work = |engine: &mut Scheduler, now: Time| {
        let mut output = Vec::new();
        loop {
            match engine.step(now, &mut NoProbe) {
                Step::Effect(Effect::Bind { pod, node }) => output.push(format!("{} on {node}", pod.name)),
                Step::GroupReport(_) => {}
                Step::Notice(notice) => output.push(notice.text),
                Step::Effect(_) | Step::Report(_) => {}
                Step::Idle { .. } => return output,
            }
        }
    };
    for node in 0..130 {
        handle(&mut engine, now, &format!("node n{node} cpu=8 label:rack=r{}", node / 2));
    }
    handle(&mut engine, now, "pod base on=n0 label:app=base");
    handle(&mut engine, now, "pod before affinity=rack/app=base cpu=1");
    let bound = work(&mut engine, now);
    assert!(["before on n0", "before on n1"].contains(&&*bound[0]), "{bound:?}");
    with(Some(Mutation::DomainPeersNotUpdated), || {
        handle(&mut engine, now, "node n0 cpu=8 label:rack=r1");
        now = now + interval / 2;
        let output = work(&mut engine, now);
        assert!(output.len() == 1 && output[0].contains("differs from a full evaluation"), "{output:?}");
        assert_eq!(engine.stats().verified, [0, 1]);
        for number in 0..20 {
            handle(&mut engine, now, &format!("pod after{number} affinity=rack/app=base cpu=1m"));
            let bound = work(&mut engine, now);
            let node = bound[0].split(" on ").nth(1).unwrap_or_default();
            assert!(["n0", "n2", "n3"].contains(&node), "{bound:?}");
        }
    });
    let stats = engine.stats();
    assert!(stats.verification.is_trusting && stats.cached_decisions > 20, "the cache is used on: {stats:?}");
}

/// A comparison in idle time reads the image counts of a changed node before they are refreshed.
#[test]
fn image_counts_that_a_comparison_read_are_read_again_after_their_refresh() {
    use supercargo_core::cycle::Options;
    use supercargo_core::incremental::DecisionCache;
    let mut cluster = support::TestCluster::new();
    let add = |cluster: &mut support::TestCluster, words: &str| {
        let node = cluster.node_from(words);
        cluster.add_node(&node);
    };
    add(&mut cluster, "a cpu=4 mem=8Gi image=nginx:latest@900Mi");
    add(&mut cluster, "b cpu=4 mem=8Gi");
    let pod = cluster.pod_from("x image=nginx:latest");
    let (framework, mut decisions) = (Framework::default(), DecisionCache::default());
    let mut is_equal = |cluster: &support::TestCluster| {
        let snapshot = cluster.snapshot();
        let full = framework.decide(&pod, snapshot, Options::default(), &mut NoProbe);
        let cached = framework.decide_cached(&mut decisions, &pod, snapshot, &mut NoProbe);
        cached.expect("both nodes are feasible").equals(&full, Seed(7), &pod)
    };
    cluster.cache.refresh();
    assert!(is_equal(&cluster));
    add(&mut cluster, "b cpu=4 mem=8Gi image=nginx:latest@900Mi");
    cluster.cache.preview();
    assert!(is_equal(&cluster));
    cluster.cache.refresh();
    assert!(is_equal(&cluster));
}
