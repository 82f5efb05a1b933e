//! Queueing hints: the events that requeue a pod which a plugin rejected.

use crate::support::{TestCluster, language};
use std::sync::Arc;
use supercargo_core::framework::{ClusterEvent, FilterPlugin, Hint, NodeAction, PodAction};
use supercargo_core::model::device::DeviceClass;
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::plugins::dynamic_resources::DynamicResources;
use supercargo_core::plugins::node_affinity::{NodeAffinity, NodeAffinityArgs};
use supercargo_core::plugins::node_name::NodeName;
use supercargo_core::plugins::node_ports::NodePorts;
use supercargo_core::plugins::node_resources::{NodeResourcesFit, NodeResourcesFitArgs};
use supercargo_core::plugins::node_unschedulable::NodeUnschedulable;
use supercargo_core::plugins::scheduling_gates;
use supercargo_core::plugins::taint_toleration::TaintToleration;

/// A plugin, a world and a pod, to be combined with events in the cluster language.
struct Case<P> {
    cluster: TestCluster,
    plugin: P,
    pod: Arc<PodInfo>,
}

impl<P: FilterPlugin> Case<P> {
    fn new(plugin: P, pod: &str) -> Self {
        let mut cluster = TestCluster::new();
        let pod = cluster.pod_from(pod);
        Self { cluster, plugin, pod }
    }

    fn queues(&self, event: ClusterEvent<'_>) -> bool {
        self.plugin.hint(&event, &self.pod, self.cluster.snapshot()) == Hint::Queue
    }

    fn on_node(&mut self, action: NodeAction, old: Option<&str>, new: Option<&str>) -> bool {
        let old: Option<Arc<NodeInfo>> = old.map(|words| self.cluster.node_from(words));
        let new: Option<Arc<NodeInfo>> = new.map(|words| self.cluster.node_from(words));
        self.queues(ClusterEvent::Node { action, old: old.as_deref(), new: new.as_deref() })
    }

    fn on_node_add(&mut self, node: &str) -> bool {
        self.on_node(NodeAction::Add, None, Some(node))
    }

    fn on_node_change(&mut self, action: NodeAction, old: &str, new: &str) -> bool {
        self.on_node(action, Some(old), Some(new))
    }

    fn on_pod(&mut self, action: PodAction, old: Option<&str>, new: Option<&str>) -> bool {
        let [old, new] = [old, new].map(|words| words.map(|words| self.cluster.pod_from(words)));
        self.queues(ClusterEvent::AssignedPod { action, old: old.as_deref(), new: new.as_deref() })
    }

    fn on_own(&mut self, action: PodAction, new: &str) -> bool {
        let new = self.cluster.pod_from(new);
        self.queues(ClusterEvent::OwnPod { action, old: &self.pod, new: &new })
    }
}

#[test]
fn gated_pod_is_queued_after_its_last_gate_is_removed() {
    let mut cluster = TestCluster::new();
    let gated = cluster.pod_from("x gate=example.com/b gate=example.com/a");
    let free = cluster.pod_from("x");
    let rejection = scheduling_gates::pre_enqueue(&gated, &cluster.tables).expect("it has gates");
    assert_eq!(rejection.message(), "waiting for scheduling gates: [example.com/b example.com/a]");
    assert_eq!(rejection.code.as_str(), "UnschedulableAndUnresolvable");
    assert_eq!(scheduling_gates::pre_enqueue(&free, &cluster.tables), None);

    let own = |action| ClusterEvent::OwnPod { action, old: &gated, new: &free };
    assert_eq!(scheduling_gates::hint(&own(PodAction::UpdateGatesEliminated)), Hint::Queue);
    assert_eq!(scheduling_gates::hint(&own(PodAction::UpdateLabel)), Hint::Skip);
    let other = ClusterEvent::AssignedPod {
        action: PodAction::UpdateGatesEliminated,
        old: Some(&gated),
        new: Some(&free),
    };
    assert_eq!(scheduling_gates::hint(&other), Hint::Skip);
}

#[test]
fn uncordon_or_new_toleration_requeues() {
    let mut case = Case::new(NodeUnschedulable, "x");
    assert!(case.on_node_add("a"));
    assert!(!case.on_node_add("a unschedulable"));
    assert!(case.on_node_change(NodeAction::UpdateTaint, "a unschedulable", "a"));
    assert!(!case.on_node_change(NodeAction::UpdateTaint, "a taint=k:NoSchedule", "a"));
    assert!(!case.on_node_change(NodeAction::UpdateTaint, "a", "a unschedulable"));
    assert!(!case.on_node_change(NodeAction::UpdateLabel, "a unschedulable", "a zone=z1"));
    assert!(case.on_own(PodAction::UpdateToleration, "x tolerate=*"));
    assert!(!case.on_own(PodAction::UpdateToleration, "x tolerate=k"));
}

#[test]
fn any_added_node_requeues_a_pod_with_a_node_name() {
    let mut case = Case::new(NodeName, "x on=a");
    assert!(case.on_node_add("b"));
    assert!(!case.on_node_change(NodeAction::UpdateLabel, "b", "b zone=z1"));
    assert!(!case.on_node(NodeAction::Delete, Some("b"), None));
}

#[test]
fn newly_tolerated_taints_requeue() {
    let mut case = Case::new(TaintToleration, "x tolerate=mine");
    assert!(case.on_node_add("a taint=mine:NoSchedule"));
    assert!(!case.on_node_add("a taint=other:NoSchedule"));
    assert!(case.on_node_add("a taint=other:PreferNoSchedule"));
    let tainted = "a taint=other:NoExecute taint=mine:NoSchedule";
    assert!(case.on_node_change(NodeAction::UpdateTaint, tainted, "a taint=mine:NoSchedule"));
    assert!(!case.on_node_change(NodeAction::UpdateTaint, "a taint=mine:NoSchedule", "a"));
    assert!(!case.on_node_change(NodeAction::UpdateLabel, tainted, "a"));
    assert!(case.on_own(PodAction::UpdateToleration, "x tolerate=other"));
    assert!(!case.on_own(PodAction::UpdateLabel, "x tolerate=other"));
}

#[test]
fn newly_matching_nodes_requeue() {
    let mut case = Case::new(NodeAffinity::default(), "x require=zone=z1");
    assert!(case.on_node_add("a zone=z1"));
    assert!(!case.on_node_add("a zone=z2"));
    assert!(case.on_node_change(NodeAction::UpdateLabel, "a zone=z2", "a zone=z1"));
    assert!(!case.on_node_change(NodeAction::UpdateLabel, "a zone=z1", "a zone=z1 label:k=v"));
    assert!(!case.on_node_change(NodeAction::UpdateAllocatable, "a zone=z2", "a zone=z1"));
}

/// Upstream tests only the pod's own terms against the old node, so the pod waits for up to five minutes.
#[test]
fn node_that_newly_matches_added_affinity_requeues() {
    let mut cluster = TestCluster::new();
    let term = crate::support::language::node_term(&mut cluster.tables, "label=on");
    let args = NodeAffinityArgs { added_required: Some([term].into()), ..NodeAffinityArgs::default() };
    let pod = cluster.pod_from("x select:disk=ssd");
    let mut case = Case { cluster, plugin: NodeAffinity::new(args), pod };
    let (before, after) = ("a label:disk=ssd", "a label:disk=ssd label:label=on");
    assert!(case.on_node_change(NodeAction::UpdateLabel, before, after));
    assert!(!case.on_node_change(NodeAction::UpdateLabel, after, before));
    assert!(!case.on_node_add(before));
    assert!(case.on_node_add(after));
}

#[test]
fn only_deleted_pod_with_the_same_host_port_requeues() {
    let mut case = Case::new(NodePorts, "x port=80");
    assert!(case.on_pod(PodAction::Delete, Some("p on=a port=127.0.0.1:80"), None));
    assert!(!case.on_pod(PodAction::Delete, Some("p on=a port=81"), None));
    assert!(!case.on_pod(PodAction::Delete, Some("p on=a"), None));
    assert!(!case.on_pod(PodAction::Add, None, Some("p on=a port=80")));
    assert!(case.on_node_add("a"));
}

#[test]
fn freed_resources_requeue() {
    let mut case = Case::new(NodeResourcesFit::default(), "x cpu=2 res:example.com/gpu=1");
    assert!(case.on_pod(PodAction::Delete, Some("p on=a"), None), "whatever it gives back");
    assert!(case.on_own(PodAction::UpdateScaleDown, "x cpu=1"));
    assert!(!case.on_own(PodAction::UpdateLabel, "x cpu=1"));

    let mut shrinks = |old, new| case.on_pod(PodAction::UpdateScaleDown, Some(old), Some(new));
    assert!(shrinks("p on=a cpu=2", "p on=a cpu=1"));
    assert!(shrinks("p on=a res:example.com/gpu=1", "p on=a"));
    assert!(!shrinks("p on=a mem=2 cpu=1", "p on=a mem=1 cpu=1"), "no memory is requested");
}

#[test]
fn grown_node_requeues_if_the_pod_fits_it_when_empty() {
    let mut case = Case::new(NodeResourcesFit::default(), "x cpu=2 res:example.com/gpu=1");
    let fits = "a cpu=2 res:example.com/gpu=1";
    assert!(case.on_node_add(fits));
    assert!(!case.on_node_add("a cpu=1 res:example.com/gpu=1"));
    assert!(!case.on_node_add("a cpu=2"));
    assert!(!case.on_node_add("a cpu=2 res:example.com/gpu=1 pods=0"));

    let mut grows = |old, new| case.on_node_change(NodeAction::UpdateAllocatable, old, new);
    assert!(grows("a cpu=1 res:example.com/gpu=1", fits));
    assert!(grows("a cpu=2", fits));
    assert!(grows("a cpu=2 res:example.com/gpu=1 pods=10", "a cpu=2 res:example.com/gpu=1 pods=11"));
    assert!(!grows("a cpu=2 res:example.com/gpu=1", "a cpu=2 res:example.com/gpu=1 mem=5"));
    assert!(!grows("a cpu=500m", "a cpu=1"), "grown and still too small");
    assert!(!case.on_node_change(NodeAction::UpdateLabel, "a cpu=1", fits));
}

#[test]
fn device_class_changes_requeue_pods_that_wait_for_devices() {
    let mut case = Case::new(NodeResourcesFit::default(), "x res:example.com/gpu=1");
    let mut class = |words: &[&str]| language::device_class(&mut case.cluster.tables, words).1;
    let (bare, gpus) = (class(&["gpus"]), class(&["gpus", "serves=example.com/gpu"]));
    let fpgas = class(&["fpgas", "serves=example.com/fpga"]);
    let events: [(Option<&DeviceClass>, &DeviceClass); 5] =
        [(None, &bare), (None, &fpgas), (Some(&gpus), &gpus), (None, &gpus), (Some(&bare), &gpus)];
    let woken = events.map(|(old, new)| case.queues(ClusterEvent::DeviceClass { old, new }));
    assert_eq!(woken, [false, false, false, true, true]);
    let mut implicit =
        Case::new(NodeResourcesFit::default(), "x res:deviceclass.resource.kubernetes.io/gpus=1");
    let bare = language::device_class(&mut implicit.cluster.tables, &["gpus"]).1;
    assert!(implicit.queues(ClusterEvent::DeviceClass { old: None, new: &bare }));
    assert!(!implicit.queues(ClusterEvent::DeviceClass { old: Some(&bare), new: &bare }));

    let mut waiting = Case::new(DynamicResources::default(), "x res:example.com/gpu=1");
    assert!(waiting.queues(ClusterEvent::DeviceClass { old: None, new: &bare }));
    assert!(waiting.on_node_add("a"));
    assert!(waiting.on_node_change(NodeAction::UpdateAllocatable, "a", "a res:example.com/gpu=1"));
    assert!(!waiting.on_pod(PodAction::Delete, Some("p on=a"), None));
}

/// A missing resource that a DeviceClass serves is left to DynamicResources, so the node is worth an attempt.
#[test]
fn node_lacking_only_resources_of_a_device_class_requeues() {
    let mut case = Case::new(NodeResourcesFit::default(), "x cpu=2 res:example.com/gpu=1");
    assert!(!case.on_node_add("a cpu=2"));
    language::apply(&mut case.cluster, "device-class gpus serves=example.com/gpu");
    assert!(case.on_node_add("a cpu=2"));
    assert!(case.on_node_change(NodeAction::UpdateAllocatable, "a cpu=2", "a cpu=2 mem=5"));
    assert!(!case.on_node_add("a cpu=1"));
}

/// Upstream's hint does not skip resources that its filter ignores, so the pod waits for up to five minutes.
#[test]
fn resources_ignored_by_the_filter_do_not_block_requeueing() {
    let args = NodeResourcesFitArgs { ignored_resources: vec!["example.com/a".into()], ..Default::default() };
    let mut case = Case::new(NodeResourcesFit::new(args), "x cpu=2 res:example.com/a=1");
    assert!(case.on_node_add("a cpu=2"));
    assert!(!case.on_node_add("a cpu=1"));
}

#[test]
fn flush_requeues_every_rejected_pod() {
    let plugins: [Box<dyn FilterPlugin>; 6] = [
        Box::new(NodeUnschedulable),
        Box::new(NodeName),
        Box::new(TaintToleration),
        Box::new(NodeAffinity::default()),
        Box::new(NodePorts),
        Box::new(NodeResourcesFit::default()),
    ];
    let mut cluster = TestCluster::new();
    let pod = cluster.pod_from("x");
    for plugin in plugins {
        let hint = |event| plugin.hint(&event, &pod, cluster.snapshot());
        assert_eq!(hint(ClusterEvent::UnschedulableTimeout), Hint::Queue, "{}", plugin.name());
        assert_eq!(hint(ClusterEvent::Other), Hint::Skip, "{}", plugin.name());
    }
}
