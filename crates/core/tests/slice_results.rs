//! Results that an evaluation in slices keeps: they are dropped when what they depend on changes, each slice stays
//! small, and the evaluation ends.

mod support;

use std::sync::Arc;
use supercargo_core::cache::Snapshot;
use supercargo_core::cache::slice::Evaluation;
use supercargo_core::cycle::{Decision, Framework, NoProbe, Options};
use supercargo_core::model::pod::PodInfo;
use support::{TestCluster, language};

const NODES: usize = 10;
const CLASSES: usize = 6;
/// More slices than any evaluation here needs.
const SLICES_MAX: usize = 100;

/// A pod whose slices end after one pod class or node.
struct Sliced {
    cluster: TestCluster,
    framework: Framework,
    evaluation: Evaluation,
    pod: Arc<PodInfo>,
}

/// Returns the slots of the feasible nodes.
fn feasible(framework: &Framework, pod: &PodInfo, snapshot: Snapshot<'_>) -> Vec<usize> {
    match framework.decide(pod, snapshot, Options::default(), &mut NoProbe) {
        Ok(Decision::Feasible(found)) => found.filtered.feasible().iter().map(|node| node.index()).collect(),
        Ok(Decision::Infeasible(_)) => Vec::new(),
        Err(error) => panic!("{}", error.0),
    }
}

impl Sliced {
    fn new(lines: &[&str], pod: &str) -> Self {
        let mut cluster = TestCluster::new();
        lines.iter().for_each(|line| language::apply(&mut cluster, line));
        let pod = cluster.pod_from(pod);
        Self { cluster, framework: Framework::default(), evaluation: Evaluation::default(), pod }
    }

    /// Adds ten nodes, and pods of six pod classes that attract the pod. Evaluates it to the end.
    fn with_peers() -> Self {
        let mut sliced = Self::new(&["namespace default"], "x affinity=zone/app=a");
        for at in 0..NODES {
            sliced.apply(&format!("node n{at} zone=z{} cpu=8 mem=8Gi", at % 2));
        }
        for at in 0..CLASSES {
            sliced.apply(&format!("pod q{at} on=n{at} label:app=a label:own=o{at}"));
        }
        assert_eq!(sliced.decided(), (0..NODES).collect::<Vec<_>>());
        sliced
    }

    fn apply(&mut self, line: &str) {
        language::apply(&mut self.cluster, line);
    }

    /// Places a pod of a known pod class on each node.
    fn add_pods(&mut self, turn: usize) {
        for at in 0..NODES {
            self.apply(&format!("pod t{turn}-{at} on=n{at} label:app=a label:own=o0"));
        }
    }

    /// Evaluates a slice, and returns the feasible nodes if it is the last one.
    fn slice(&mut self) -> Option<Vec<usize>> {
        self.cluster.cache.refresh();
        let Self { cluster, framework, evaluation, pod } = self;
        let (framework, pod): (&Framework, &PodInfo) = (framework, pod);
        evaluation.go_on(pod, cluster.snapshot(), 1, |snapshot| feasible(framework, pod, snapshot))
    }

    /// Evaluates slices to the end.
    fn decided(&mut self) -> Vec<usize> {
        (0..SLICES_MAX).find_map(|_| self.slice()).expect("the evaluation ends")
    }

    /// Evaluates slices to the end, and returns how many came before the last one.
    fn slices_before_the_last(&mut self) -> usize {
        (0..SLICES_MAX).take_while(|_| self.slice().is_none()).count()
    }
}

/// Decides about a pod before and after a change, with another pod on the first of two nodes.
fn follows(placed: &str, pod: &str, [before, after]: [&str; 2], expected: [&[usize]; 2]) {
    let nodes = ["node n0 zone=z0 cpu=8 mem=8Gi", "node n1 zone=z1 cpu=8 mem=8Gi"];
    let mut sliced = Sliced::new(&[nodes[0], nodes[1], before, placed], pod);
    assert_eq!(sliced.decided(), expected[0], "{pod}: {before}");
    sliced.apply(after);
    assert_eq!(sliced.decided(), expected[1], "{pod}: {after}");
}

#[test]
fn results_about_pods_follow_changes_of_namespaces() {
    let (placed, pod) = ("pod q ns=other on=n0 label:app=a", "x affinity=zone/app=a/nssel=team=red");
    let [red, blue] = ["namespace other label:team=red", "namespace other label:team=blue"];
    follows(placed, pod, [red, blue], [&[0], &[]]);
    follows(placed, pod, [blue, red], [&[], &[0]]);
}

#[test]
fn results_about_pods_follow_changes_of_the_namespace_of_the_pod() {
    let (placed, pod) = ("pod q ns=other on=n0 anti=zone/app=x/nssel=team=red", "x label:app=x");
    let [red, blue] = ["namespace default label:team=red", "namespace default label:team=blue"];
    follows(placed, pod, [red, blue], [&[1], &[0, 1]]);
    follows(placed, pod, [blue, red], [&[0, 1], &[1]]);
}

#[test]
fn results_about_pods_follow_nodes_with_a_new_topology_key() {
    let (placed, pod) = ("pod q on=n0 label:app=a", "x affinity=rack/app=a");
    let changes = ["namespace default", "node n0 label:rack=r cpu=8 mem=8Gi"];
    follows(placed, pod, changes, [&[], &[0]]);
}

/// Two changes of the pod's namespace drop twice as many results as there are pod classes. Only after three times as
/// many may one slice compute the rest.
#[test]
fn sums_are_computed_in_slices_although_results_about_pods_were_dropped() {
    let mut sliced = Sliced::with_peers();
    sliced.apply("namespace default label:turn=first");
    (0..CLASSES).for_each(|_| assert_eq!(sliced.slice(), None));
    sliced.apply("namespace default label:turn=second");
    let slices = sliced.slices_before_the_last();
    assert!(slices >= CLASSES + NODES - 1, "{slices} slices");
}

/// Pods come to each node twice. This drops almost twice as many sums as there are nodes.
#[test]
fn sums_are_computed_in_slices_although_some_were_dropped() {
    let mut sliced = Sliced::with_peers();
    sliced.add_pods(0);
    (1..NODES).for_each(|_| assert_eq!(sliced.slice(), None));
    sliced.add_pods(1);
    let slices = sliced.slices_before_the_last();
    assert!(slices >= NODES - 1, "{slices} slices");
}

#[test]
fn evaluation_ends_although_pods_come_to_all_nodes_between_all_slices() {
    let mut sliced = Sliced::with_peers();
    let ends = (0..SLICES_MAX).any(|turn| {
        sliced.add_pods(turn);
        sliced.slice().is_some()
    });
    assert!(ends, "the sums are computed again for ever");
}
