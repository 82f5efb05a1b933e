//! Work limits of one attempt: each product of the sizes of a pod and of the cluster has a maximum.

mod support;

use std::sync::Arc;
use supercargo_core::cycle::{Framework, NoProbe, Probe};
use supercargo_core::model::event::{Event, Kind};
use supercargo_core::model::pod::{HostPort, PodInfo, PreferredNodeTerm, Toleration, TolerationOperator};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::selector::{
    NodeSelectorTerm, Operator, RequiredNodeAffinity, Requirement, Selector, TermDemands,
};
use supercargo_core::model::time::Time;
use supercargo_core::model::volume::{PodVolume, VolumeSource};
use supercargo_core::queue::{QueueConfig, SubQueue};
use supercargo_core::report::Outcome;
use supercargo_core::scheduler::{Config, Limits, Profile, Scheduler, Step};
use support::TestCluster;

/// Returns the outcome of the first attempt for a pod with this many affinity terms on this many nodes.
fn attempt(terms: usize, nodes: usize) -> (Outcome, Option<SubQueue>) {
    let now = Time::from_secs(100);
    let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
    let (queue, seed) = (QueueConfig::default(), Seed(1));
    let mut scheduler = Scheduler::new(Config { seed, profiles: vec![profile], queue }, now);
    for kind in Kind::ALL {
        scheduler.handle(now, Event::ListBegan(kind));
        scheduler.handle(now, Event::ListEnded(kind));
    }
    let mut cluster = TestCluster::new();
    std::mem::swap(&mut cluster.tables, scheduler.tables());
    let nodes: Vec<_> = (0..nodes).map(|at| cluster.node_from(&format!("n{at} cpu=4"))).collect();
    let words = format!("p cpu=1{}", " anti=host/app=web".repeat(terms));
    let pod = cluster.pod_from(&words);
    std::mem::swap(&mut cluster.tables, scheduler.tables());
    for node in nodes {
        scheduler.handle(now, Event::NodeApplied(Box::new(Arc::unwrap_or_clone(node))));
    }
    scheduler.handle(now, Event::PodApplied(Box::new(Arc::unwrap_or_clone(pod))));
    let Step::Report(report) = scheduler.step(now, &mut NoProbe) else { panic!("the pod is tried") };
    let place = scheduler.queue().waiting().next().map(|(place, _)| place);
    (report.outcome, place)
}

#[test]
fn pod_with_a_hundred_terms_is_within_the_work_budget() {
    let (outcome, _) = attempt(100, 1_000);
    assert!(matches!(outcome, Outcome::Placed { .. }), "{outcome:?}");
}

/// A scheduler with these nodes and bound pods, and the world that describes the next pod.
struct Harness {
    scheduler: Scheduler,
    cluster: TestCluster,
    now: Time,
}

impl Harness {
    fn new(nodes: &[String]) -> Self {
        let now = Time::from_secs(100);
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
        let (queue, seed) = (QueueConfig::default(), Seed(1));
        let mut scheduler = Scheduler::new(Config { seed, profiles: vec![profile], queue }, now);
        support::begin(&mut scheduler, now, 100_000);
        let mut harness = Self { scheduler, cluster: TestCluster::new(), now };
        for words in nodes {
            let node = harness.with_world(|cluster| cluster.node_from(words));
            harness.handle(Event::NodeApplied(Box::new(Arc::unwrap_or_clone(node))));
        }
        harness
    }

    fn with_world<R>(&mut self, build: impl FnOnce(&mut TestCluster) -> R) -> R {
        std::mem::swap(&mut self.cluster.tables, self.scheduler.tables());
        let built = build(&mut self.cluster);
        std::mem::swap(&mut self.cluster.tables, self.scheduler.tables());
        built
    }

    fn handle(&mut self, event: Event) {
        self.scheduler.handle(self.now, event);
    }

    fn pod(&mut self, words: &str, change: impl FnOnce(&mut TestCluster, &mut PodInfo)) {
        let pod = self.with_world(|cluster| {
            let mut pod = Arc::unwrap_or_clone(cluster.pod_from(words));
            change(cluster, &mut pod);
            pod
        });
        self.handle(Event::PodApplied(Box::new(pod)));
    }

    /// Runs until idle, and returns the pods with finished attempts, in order, and their outcomes.
    fn run(&mut self) -> Vec<(String, Outcome)> {
        let mut outcomes = Vec::new();
        loop {
            match self.scheduler.step(self.now, &mut NoProbe) {
                // Between two slices, events are handled.
                Step::Idle { wake_at: Some(at) } if at <= self.now => {}
                Step::Idle { .. } => return outcomes,
                Step::Report(report) => outcomes.push((report.pod.name, report.outcome)),
                Step::Effect(_) | Step::GroupReport(_) | Step::Notice(_) => {}
            }
        }
    }

    /// Returns the message of the first pod, which must be unschedulable because of a work limit.
    fn refusal(&mut self) -> String {
        match self.run().swap_remove(0) {
            (_, Outcome::Unschedulable { message, rejectors, .. }) if rejectors.is_empty() => message,
            other => panic!("{other:?}"),
        }
    }
}

fn nodes(count: usize, words: &str) -> Vec<String> {
    (0..count).map(|at| format!("n{at} cpu=4 {words}")).collect()
}

fn texts(cluster: &mut TestCluster, count: usize) -> Box<[supercargo_core::model::intern::Symbol]> {
    (0..count).map(|at| cluster.tables.symbol(&format!("text-{at}"))).collect()
}

fn one_of(cluster: &mut TestCluster, values: usize) -> Requirement {
    let key = cluster.tables.symbol("key");
    Requirement { key, operator: Operator::In(texts(cluster, values).into()) }
}

#[track_caller]
fn is_refused(harness: &mut Harness, product: &str) {
    let message = harness.refusal();
    assert!(
        message.starts_with(&format!("the pod's {product}, are more work than one attempt may be (")),
        "{message}"
    );
}

/// A lookup among many values costs more than a comparison. It makes an evaluation large, but never too large.
#[test]
fn lookups_among_many_values_are_evaluated_in_slices() {
    // 35 comparisons with each of 50 nodes, 9 nodes to a slice.
    for (values, slices) in [(16, 0), (100_000, 6)] {
        let mut harness = Harness::new(&nodes(50, "label:key=text-0"));
        harness.scheduler.limit_attempts(Limits { large: 1_000, slice: 300, most: 1_000 });
        harness.pod("p", |cluster, pod| {
            let demands = TermDemands { labels: [one_of(cluster, values)].into(), names: [].into() };
            let term = NodeSelectorTerm { demands: Some(demands), pinned_names: None };
            let required = RequiredNodeAffinity { node_selector: None, terms: Some([term].into()) };
            pod.node_affinity = required.into();
        });
        assert!(matches!(harness.run()[0].1, Outcome::Placed { .. }), "{values} values");
        assert_eq!(harness.scheduler.stats().slices, slices, "{values} values");
    }
}

#[test]
fn requirements_of_node_affinity_times_nodes_are_bounded() {
    // The term itself counts as one requirement.
    for requirements in [499, 500] {
        let mut harness = Harness::new(&nodes(20, "label:key=text-0"));
        harness.scheduler.limit_attempts(Limits { most: 10_000, ..Limits::default() });
        harness.pod("p", |cluster, pod| {
            let demands =
                TermDemands { labels: vec![one_of(cluster, 9); requirements].into(), names: [].into() };
            let term = NodeSelectorTerm { demands: Some(demands), pinned_names: None };
            let required = RequiredNodeAffinity { node_selector: None, terms: Some([term].into()) };
            pod.node_affinity = required.into();
        });
        if requirements == 499 {
            assert!(matches!(harness.run()[0].1, Outcome::Placed { .. }), "10,000 are not too much");
        } else {
            is_refused(
                &mut harness,
                "501 requirements of node selectors and node affinity, each compared with 20 nodes",
            );
        }
    }
}

#[test]
fn requirements_of_affinity_terms_times_distinct_pods_are_bounded() {
    let mut harness = Harness::new(&nodes(1, "pods=1000"));
    harness.scheduler.limit_attempts(Limits { most: 10_000, ..Limits::default() });
    for at in 0..500 {
        harness.pod(&format!("placed{at} on=n0 label:app=a{at}"), |_, _| {});
    }
    harness.pod(&format!("p{}", " anti=host/app=web".repeat(11)), |_, _| {});
    is_refused(
        &mut harness,
        "22 requirements of affinity terms and topology spread constraints, each compared with 500 distinct pods",
    );
}

/// A sum for each of these keys is kept for each pod class and node. Keys that no node has are not counted.
#[test]
fn topology_keys_that_nodes_have_are_bounded() {
    let labels: Vec<String> = (0..60).map(|at| format!("label:k{at}=x")).collect();
    let keyed = |from: usize| (from..from + 60).map(|at| format!(" anti=k{at}/app=web")).collect::<String>();
    let mut harness = Harness::new(&nodes(9_000, &labels.join(" ")));
    harness.pod(&format!("p{}", keyed(0)), |_, _| {});
    is_refused(&mut harness, "60 topology keys of affinity terms, each compared with 9000 nodes");
    harness.pod(&format!("q{}", keyed(60)), |_, _| {});
    let placed =
        |(name, outcome): &(String, Outcome)| name == "q" && matches!(outcome, Outcome::Placed { .. });
    assert!(harness.run().iter().any(placed));
}

#[test]
fn namespace_selectors_times_namespaces_are_bounded() {
    let mut harness = Harness::new(&nodes(1, ""));
    for at in 0..600 {
        let (name, labels) = harness.with_world(|cluster| {
            (cluster.tables.symbol(&format!("ns{at}")), cluster.tables.label_set(Vec::new()))
        });
        harness.handle(Event::NamespaceApplied { name, labels });
    }
    harness.pod("p anti=host/app=web", |cluster, pod| {
        let demands = vec![one_of(cluster, 2); 100_000];
        let affinity = pod.pod_affinity.as_mut().expect("it has a term");
        let terms = affinity.required_anti_affinity.as_mut().expect("the objects are valid");
        terms[0].namespace_selector = Selector::All(demands.into());
    });
    is_refused(&mut harness, "100001 requirements of namespace selectors, each compared with 600 namespaces");
}

#[test]
fn tolerations_times_taints_are_bounded() {
    let taints: Vec<String> = (0..30).map(|at| format!("taint=k{at}:NoSchedule")).collect();
    let mut harness = Harness::new(&nodes(1_000, &taints.join(" ")));
    harness.scheduler.limit_attempts(Limits { most: 50_000_000, ..Limits::default() });
    harness.pod("p", |cluster, pod| {
        let key = Some(cluster.tables.symbol("other"));
        let value = cluster.tables.symbol("");
        let toleration = Toleration { key, operator: TolerationOperator::Exists, value, effect: None };
        pod.tolerations = vec![toleration; 2_000].into();
    });
    is_refused(&mut harness, "2000 tolerations, each compared with 30000 taints of nodes");
}

#[test]
fn host_ports_are_looked_up_however_many_there_are() {
    let mut harness = Harness::new(&nodes(50, ""));
    let ports = |cluster: &mut TestCluster, from: i32, count: i32| -> Box<[HostPort]> {
        let [address, protocol] = ["0.0.0.0", "TCP"].map(|text| cluster.tables.symbol(text));
        (from..from + count).map(|port| HostPort { address, protocol, port }).collect()
    };
    for at in 0..50 {
        harness.pod(&format!("placed{at} on=n{at}"), |cluster, pod| pod.ports = ports(cluster, 1, 1_001));
    }
    harness.pod("p", |cluster, pod| pod.ports = ports(cluster, 5_000, 1_000));
    assert!(matches!(harness.run()[0].1, Outcome::Placed { .. }), "used ports are looked up by key");
}

#[test]
fn resources_and_volumes_times_nodes_are_bounded() {
    let mut harness = Harness::new(&nodes(2_000, ""));
    harness.pod("p", |cluster, pod| {
        pod.resources.request.scalar = texts(cluster, 25_001).iter().map(|&name| (name, 1)).collect();
    });
    is_refused(&mut harness, "25001 resources, each compared with 2000 nodes");

    let mut harness = Harness::new(&nodes(2_000, ""));
    harness.pod("p", |cluster, pod| {
        let volume = |&driver| PodVolume { name: "v".into(), source: VolumeSource::Csi(driver) };
        pod.volumes = texts(cluster, 25_001).iter().map(volume).collect();
    });
    is_refused(&mut harness, "25001 volumes, each compared with 2000 nodes");

    let mut harness = Harness::new(&nodes(1, ""));
    for at in 0..1_000 {
        let event = harness.with_world(|cluster| {
            support::arrival(&mut cluster.tables, &format!("pv v{at} csi=driver/h{at}"))
        });
        harness.handle(event);
    }
    harness.pod("p", |cluster, pod| {
        let volume = |&driver| PodVolume { name: "v".into(), source: VolumeSource::Csi(driver) };
        pod.volumes = texts(cluster, 50_001).iter().map(volume).collect();
    });
    is_refused(&mut harness, "50001 volumes, each compared with 1000 PersistentVolumes");
}

/// Although pods of the same priority keep arriving, the large pod is attempted in its order, at first and on
/// retries.
#[test]
fn pod_over_the_work_budget_is_decided_in_order_without_delaying_others() {
    let mut harness = Harness::new(&nodes(2_000, "pods=1000"));
    let mut before_it = 0;
    let mut attempts = 0;
    harness.pod("large", |cluster, pod| {
        pod.resources.request.scalar = texts(cluster, 25_001).iter().map(|&name| (name, 1)).collect();
    });
    for at in 0..60 {
        harness.pod(&format!("small{at} cpu=1"), |_, _| {});
        for (name, outcome) in harness.run() {
            match (name.as_str(), outcome) {
                ("large", Outcome::Unschedulable { .. }) => {
                    attempts += 1;
                    assert!(
                        before_it <= 12,
                        "{before_it} pods were tried before it, more than come in the longest backoff"
                    );
                    before_it = 0;
                }
                (_, Outcome::Placed { .. }) => before_it += 1,
                (_, Outcome::Bound { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        harness.now = harness.now + std::time::Duration::from_secs(1);
    }
    assert!(attempts >= 6, "{attempts} attempts in a minute");
    assert_eq!(harness.scheduler.stats().cache.pods, 60, "all others are placed");
}

#[test]
fn pairs_of_a_node_selector_times_nodes_are_bounded() {
    let mut harness = Harness::new(&nodes(20, ""));
    harness.scheduler.limit_attempts(Limits { most: 10_000, ..Limits::default() });
    harness.pod("p", |cluster, pod| {
        let pairs = texts(cluster, 501).iter().map(|&text| (text, text)).collect();
        pod.node_affinity = RequiredNodeAffinity { node_selector: Some(pairs), terms: None }.into();
    });
    is_refused(
        &mut harness,
        "501 requirements of node selectors and node affinity, each compared with 20 nodes",
    );
}

/// Notes when attempts begin and when they are decided.
#[derive(Default)]
struct Attempts(Vec<&'static str>);

impl Probe for Attempts {
    fn attempt_begins(&mut self) {
        self.0.push("begins");
    }

    fn attempt_decided(&mut self) {
        self.0.push("decided");
    }
}

#[test]
fn each_attempt_is_decided_once() {
    let mut harness = Harness::new(&nodes(2, ""));
    for words in ["small cpu=1", "large cpu=9"] {
        harness.pod(words, |_, _| {});
        let mut attempts = Attempts::default();
        while !matches!(harness.scheduler.step(harness.now, &mut attempts), Step::Idle { .. }) {}
        assert_eq!(attempts.0, ["begins", "decided"], "{words}");
    }
}

/// Returns how many slices the evaluation of a pod with this number of tolerations takes.
fn slices_with_tolerations(nodes: &[String], tolerations: usize, large: u64) -> u64 {
    let mut harness = Harness::new(nodes);
    harness.scheduler.limit_attempts(Limits { large, slice: 50, most: 1_000_000 });
    harness.pod("p", |cluster, pod| {
        let key = Some(cluster.tables.symbol("other"));
        let value = cluster.tables.symbol("");
        let toleration = Toleration { key, operator: TolerationOperator::Exists, value, effect: None };
        pod.tolerations = vec![toleration; tolerations].into();
    });
    assert!(matches!(harness.run()[0].1, Outcome::Placed { .. }), "{tolerations} tolerations");
    harness.scheduler.stats().slices
}

#[test]
fn attempt_of_exactly_the_largest_work_is_evaluated_in_one_step() {
    let nodes = nodes(50, "");
    assert_eq!(slices_with_tolerations(&nodes, 3, 150), 0);
    assert!(slices_with_tolerations(&nodes, 3, 149) > 0);
}

#[test]
fn taints_are_counted_only_for_pods_with_many_tolerations() {
    let nodes = nodes(2, "taint=a:PreferNoSchedule taint=b:PreferNoSchedule taint=c:PreferNoSchedule");
    assert_eq!(slices_with_tolerations(&nodes, 50, 200), 0);
    assert!(slices_with_tolerations(&nodes, 51, 200) > 0);
}

/// With 51 keys, 9,804 nodes would be the most.
#[test]
fn pod_with_fifty_topology_keys_is_evaluated_in_every_cluster() {
    let mut harness = Harness::new(&nodes(10_001, ""));
    let terms: String = (0..50).map(|at| format!(" anti=k{at}/app=web")).collect();
    harness.pod(&format!("p{terms}"), |_, _| {});
    let (name, outcome) = harness.run().swap_remove(0);
    assert!(name == "p" && matches!(outcome, Outcome::Placed { .. }), "{name}: {outcome:?}");
}

#[test]
fn requirements_of_preferred_node_affinity_are_bounded_as_well() {
    let mut harness = Harness::new(&nodes(20, "label:key=text-0"));
    harness.scheduler.limit_attempts(Limits { most: 10_000, ..Limits::default() });
    harness.pod("p", |cluster, pod| {
        let demands = TermDemands { labels: vec![one_of(cluster, 9); 500].into(), names: [].into() };
        let term = NodeSelectorTerm { demands: Some(demands), pinned_names: None };
        pod.preferred_node_affinity = Some(Ok([PreferredNodeTerm { weight: 1, term }].into()));
    });
    is_refused(
        &mut harness,
        "501 requirements of node selectors and node affinity, each compared with 20 nodes",
    );
}
