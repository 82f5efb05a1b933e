//! Queueing hints: the events that requeue a pod which one of the plugins rejected.

use crate::support::TestCluster;
use crate::support::language::apply;
use std::sync::Arc;
use supercargo_core::framework::{ClusterEvent, FilterPlugin, Hint, NodeAction, PodAction};
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::plugins::inter_pod_affinity::InterPodAffinity;
use supercargo_core::plugins::pod_topology_spread::PodTopologySpread;

/// A plugin, a world, and a pod that it rejected.
struct HintCase {
    plugin: Box<dyn FilterPlugin>,
    cluster: TestCluster,
    pod: Arc<PodInfo>,
}

fn spread(pod: &str) -> HintCase {
    asked(Box::new(PodTopologySpread::default()), pod)
}

fn affinity(pod: &str) -> HintCase {
    asked(Box::new(InterPodAffinity::default()), pod)
}

fn asked(plugin: Box<dyn FilterPlugin>, pod: &str) -> HintCase {
    let mut cluster = TestCluster::new();
    let pod = cluster.pod_from(pod);
    HintCase { plugin, cluster, pod }
}

impl HintCase {
    fn requeues(&self, event: &ClusterEvent<'_>) -> bool {
        self.plugin.hint(event, &self.pod, self.cluster.snapshot()) == Hint::Queue
    }

    /// Whether an event of another pod requeues the pod. An empty text means no pod.
    fn by_pod(&mut self, action: PodAction, old: &str, new: &str) -> bool {
        let [old, new] = [old, new].map(|words| (!words.is_empty()).then(|| self.cluster.pod_from(words)));
        self.requeues(&ClusterEvent::AssignedPod { action, old: old.as_deref(), new: new.as_deref() })
    }

    fn by_added(&mut self, pod: &str) -> bool {
        self.by_pod(PodAction::Add, "", pod)
    }

    fn by_deleted(&mut self, pod: &str) -> bool {
        self.by_pod(PodAction::Delete, pod, "")
    }

    fn by_relabeled(&mut self, old: &str, new: &str) -> bool {
        self.by_pod(PodAction::UpdateLabel, old, new)
    }

    /// Whether an update of the pod itself requeues it.
    fn by_own_update(&mut self, action: PodAction, new: &str) -> bool {
        let new = self.cluster.pod_from(new);
        self.requeues(&ClusterEvent::OwnPod { action, old: &self.pod, new: &new })
    }

    /// Whether an event of a node requeues the pod. An empty text means no node.
    fn by_node(&mut self, action: NodeAction, old: &str, new: &str) -> bool {
        let mut node = |words: &str| -> Option<Arc<NodeInfo>> {
            (!words.is_empty()).then(|| self.cluster.node_from(words))
        };
        let (old, new) = (node(old), node(new));
        self.requeues(&ClusterEvent::Node { action, old: old.as_deref(), new: new.as_deref() })
    }
}

#[test]
fn flush_requeues_every_pod_and_unrelated_objects_none() {
    for asked in [spread("x spread=zone/1/DoNotSchedule/app=web"), affinity("x anti=zone/app=web")] {
        assert!(asked.requeues(&ClusterEvent::UnschedulableTimeout));
        assert!(!asked.requeues(&ClusterEvent::Other));
    }
}

#[test]
fn added_or_deleted_matching_pod_requeues_spread_pod() {
    let mut x = spread("x spread=zone/1/DoNotSchedule/app=web spread=host/1/ScheduleAnyway/app=soft");
    assert!(x.by_added("p on=a label:app=web") && x.by_deleted("p on=a label:app=web"));
    assert!(!x.by_added("p on=a label:app=db") && !x.by_deleted("p on=a label:app=db"));
    assert!(!x.by_added("p on=a label:app=soft"), "soft constraints reject no pod");
    assert!(!x.by_added("p on=a ns=other label:app=web"), "another namespace");
    assert!(!x.by_pod(PodAction::UpdateScaleDown, "p on=a label:app=web", "p on=a label:app=web"));
    assert!(!x.by_pod(PodAction::Update, "p on=a label:app=web", "p on=a label:app=web"));
}

#[test]
fn label_update_that_changes_a_match_requeues_spread_pod() {
    let mut x = spread("x label:app=db spread=zone/1/DoNotSchedule/app=web");
    assert!(x.by_relabeled("p on=a label:app=web", "p on=a label:app=db"));
    assert!(x.by_relabeled("p on=a", "p on=a label:app=web"));
    assert!(!x.by_relabeled("p on=a label:app=web", "p on=a label:app=web label:v=2"));
    assert!(x.by_own_update(PodAction::UpdateLabel, "x label:app=web spread=zone/1/DoNotSchedule/app=web"));
    assert!(!x.by_own_update(PodAction::UpdateLabel, "x label:app=api spread=zone/1/DoNotSchedule/app=web"));
}

#[test]
fn own_toleration_requeues_spread_pod_that_honors_taints() {
    let mut x = spread("x spread=zone/1/DoNotSchedule/app=web/honor-taints");
    assert!(x.by_own_update(PodAction::UpdateToleration, "x tolerate=k"));
    assert!(!x.by_pod(PodAction::UpdateToleration, "p on=a", "p on=a tolerate=k"));
    let mut x = spread("x spread=zone/1/DoNotSchedule/app=web");
    assert!(!x.by_own_update(PodAction::UpdateToleration, "x tolerate=k"));
}

#[test]
fn node_that_gains_or_loses_topology_keys_requeues_spread_pod() {
    let mut x = spread("x spread=zone/1/DoNotSchedule/app=web spread=disk/1/DoNotSchedule/app=web");
    let (full, half) = ("n zone=z1 label:disk=ssd", "n zone=z1");
    assert!(x.by_node(NodeAction::Add, "", full) && x.by_node(NodeAction::Delete, full, ""));
    assert!(!x.by_node(NodeAction::Add, "", half) && !x.by_node(NodeAction::Delete, half, ""));
    assert!(x.by_node(NodeAction::UpdateLabel, half, full) && x.by_node(NodeAction::UpdateLabel, full, half));
    assert!(x.by_node(NodeAction::UpdateLabel, full, "n zone=z2 label:disk=ssd"));
    assert!(!x.by_node(NodeAction::UpdateLabel, full, "n zone=z1 label:disk=ssd label:k=v"));
    assert!(x.by_node(NodeAction::UpdateTaint, full, "n zone=z1 label:disk=ssd taint=k:NoSchedule"));
    assert!(!x.by_node(NodeAction::UpdateTaint, half, "n zone=z1 taint=k:NoSchedule"));
    assert!(!x.by_node(NodeAction::UpdateAllocatable, full, full));
}

/// Upstream compares only topology keys and does not requeue the pod, although the minimum may rise when z1 no longer
/// counts.
#[test]
fn node_label_that_changes_inclusion_requeues_spread_pod() {
    let (was, is) = ("n zone=z1 label:disk=ssd", "n zone=z1 label:disk=hdd");
    let mut x = spread("x select:disk=ssd spread=zone/1/DoNotSchedule/app=web");
    assert!(x.by_node(NodeAction::UpdateLabel, was, is));
    let mut x = spread("x select:disk=ssd spread=zone/1/DoNotSchedule/app=web/ignore-affinity");
    assert!(!x.by_node(NodeAction::UpdateLabel, was, is));
}

#[test]
fn malformed_constraints_are_retried() {
    let mut x = spread("x spread=zone/1/DoNotSchedule/?broken");
    assert!(x.by_added("p on=a") && x.by_node(NodeAction::Add, "", "n"));
}

#[test]
fn added_pod_requeues_affinity_pod_only_if_all_terms_match() {
    let mut x = affinity("x affinity=zone/app=web affinity=host/tier=fe");
    assert!(x.by_added("p on=a label:app=web label:tier=fe"));
    assert!(!x.by_added("p on=a label:app=web"));
    assert!(x.by_relabeled("p on=a label:app=web", "p on=a label:app=web label:tier=fe"));
    assert!(!x.by_relabeled("p on=a label:app=web label:tier=fe", "p on=a label:app=web"));
    assert!(!x.by_deleted("p on=a label:app=web label:tier=fe"));
    assert!(!affinity("x anti=zone/app=web").by_added("p on=a label:app=db"));
}

#[test]
fn deleted_conflicting_pod_requeues_anti_affinity_pod() {
    let mut x = affinity("x label:app=web anti=zone/app=db");
    assert!(x.by_deleted("p on=a label:app=db"));
    assert!(!x.by_deleted("p on=a label:app=api"));
    assert!(!x.by_added("p on=a label:app=db"));
    assert!(x.by_relabeled("p on=a label:app=db", "p on=a label:app=api"));
    assert!(!x.by_relabeled("p on=a label:app=api", "p on=a label:app=db"));
    assert!(x.by_deleted("p on=a anti=zone/app=web"), "the deleted pod's terms matched the pod");
    assert!(!x.by_deleted("p on=a ns=other anti=zone/app=web"), "those of another namespace did not");
}

#[test]
fn own_label_update_requeues_pod_selected_by_anti_affinity() {
    let mut x = affinity("x label:app=web");
    assert!(x.by_own_update(PodAction::UpdateLabel, "x label:app=db"));
    assert!(!x.by_own_update(PodAction::UpdateToleration, "x tolerate=k"));
    assert!(!x.by_own_update(PodAction::Update, "x"));
}

#[test]
fn node_with_topology_keys_requeues_affinity_pod() {
    let mut x = affinity("x affinity=zone/app=web");
    assert!(x.by_node(NodeAction::Add, "", "n zone=z1") && !x.by_node(NodeAction::Add, "", "n"));
    assert!(x.by_node(NodeAction::UpdateLabel, "n", "n zone=z1"));
    assert!(x.by_node(NodeAction::UpdateLabel, "n zone=z1", "n zone=z2"));
    assert!(!x.by_node(NodeAction::UpdateLabel, "n zone=z1", "n zone=z1 label:k=v"));
    let mut x = affinity("x anti=zone/app=web");
    assert!(x.by_node(NodeAction::Add, "", "n"), "a node without the key takes the pod");
    assert!(x.by_node(NodeAction::UpdateLabel, "n zone=z1", "n"));
    assert!(x.by_node(NodeAction::UpdateLabel, "n zone=z1", "n zone=z2"));
    assert!(!x.by_node(NodeAction::UpdateLabel, "n", "n zone=z1"));
    assert!(!x.by_node(NodeAction::UpdateAllocatable, "n", "n"));
}

/// Upstream requires that *all* terms match the deleted pod, so a pod with only one matching term keeps waiting.
#[test]
fn deleted_pod_matching_one_of_several_anti_affinity_terms_requeues() {
    let mut x = affinity("x label:app=web label:tier=fe anti=zone/app=db anti=zone/app=api");
    assert!(x.by_deleted("p on=a label:app=db"));
    assert!(x.by_relabeled("p on=a label:app=db", "p on=a"));
    assert!(x.by_deleted("p on=a anti=host/app=web anti=host/app=none"));
}

/// Upstream checks only anti-affinity when a pod is deleted (kubernetes issue 141354).
#[test]
fn deletion_of_last_matching_pod_requeues_self_matching_pod() {
    let mut x = affinity("x label:app=web affinity=zone/app=web");
    assert!(x.by_deleted("p on=a label:app=web"));
    assert!(x.by_relabeled("p on=a label:app=web", "p on=a"));
    assert!(x.by_node(NodeAction::UpdateLabel, "n zone=z1", "n"), "nor where its node loses the key");
    let mut stranger = affinity("x affinity=zone/app=web");
    assert!(!stranger.by_deleted("p on=a label:app=web"));
}

/// Upstream does not count terminating pods either, but requeues the pod only after the deletion.
#[test]
fn terminating_pod_requeues_spread_pod_that_counted_it() {
    let mut x = spread("x spread=zone/1/DoNotSchedule/app=web");
    assert!(x.by_pod(PodAction::Update, "p on=a label:app=web", "p on=a label:app=web deleting"));
    assert!(!x.by_pod(PodAction::Update, "p on=a label:app=web deleting", "p on=a label:app=web deleting"));
    assert!(!x.by_pod(PodAction::Update, "p on=a label:app=db", "p on=a label:app=db deleting"));
    assert!(!x.by_pod(
        PodAction::Update,
        "p on=a ns=other label:app=web",
        "p on=a ns=other label:app=web deleting"
    ));
}

/// Upstream requeues the pod only after the pods of a deleted node were deleted as well.
#[test]
fn deleted_node_requeues_affinity_pods() {
    let mut x = affinity("x label:app=web anti=zone/app=db");
    assert!(x.by_node(NodeAction::Delete, "n zone=z1", ""));
    assert!(!x.by_node(NodeAction::Delete, "n", ""), "the node had no domain");
    let mut x = affinity("x label:app=web affinity=zone/app=web");
    assert!(x.by_node(NodeAction::Delete, "n zone=z1", ""));
    let mut x = affinity("x label:app=web");
    assert!(!x.by_node(NodeAction::Delete, "n zone=z1", ""));
    apply(&mut x.cluster, "node a zone=z1");
    apply(&mut x.cluster, "pod p on=a anti=zone/app=web");
    assert!(x.by_node(NodeAction::Delete, "n zone=z1", ""));
}

/// Upstream handles no namespace events: its pods wait for the flush.
#[test]
fn namespace_label_update_requeues_pods_with_namespace_selectors() {
    assert!(affinity("x affinity=zone/app=web/nssel=env=prod").requeues(&ClusterEvent::Other));
    assert!(affinity("x anti=zone/app=web/nssel=env=prod").requeues(&ClusterEvent::Other));
    let mut x = affinity("x label:app=web affinity=zone/app=web");
    assert!(!x.requeues(&ClusterEvent::Other));
    apply(&mut x.cluster, "node a zone=z1");
    apply(&mut x.cluster, "pod p on=a anti=zone/app=web/nssel=env=prod");
    assert!(x.requeues(&ClusterEvent::Other));
}

/// Upstream's hints do not resolve a namespace selector, so one with requirements matches no pod.
#[test]
fn added_pod_in_a_selected_namespace_requeues() {
    let mut x = affinity("x affinity=zone/app=web/nssel=env=prod");
    assert!(!x.by_added("p on=a ns=other label:app=web"));
    let (env, prod) = (x.cluster.tables.symbol("env"), x.cluster.tables.symbol("prod"));
    let (other, labels) = (x.cluster.tables.symbol("other"), x.cluster.tables.label_set(vec![(env, prod)]));
    x.cluster.cache.lookups_mut().set_namespace(other, labels);
    assert!(x.by_added("p on=a ns=other label:app=web"));
}

/// Upstream checks only the pod's own terms, although terms of other pods may have rejected it.
#[test]
fn added_node_requeues_pod_excluded_by_anti_affinity_elsewhere() {
    let mut x = affinity("x label:app=web");
    assert!(!x.by_node(NodeAction::Add, "", "n zone=z1"));
    let node = x.cluster.node_from("a");
    x.cluster.add_node(&node);
    let foe = x.cluster.pod_from("p on=a anti=host/app=web");
    x.cluster.place(&foe);
    assert!(x.by_node(NodeAction::Add, "", "n zone=z1"));
    assert!(x.by_node(NodeAction::UpdateLabel, "a", "a label:k=v"));
}

/// A nominated pod excludes others from its node like a bound one. Upstream considers only the pod's own terms.
#[test]
fn label_updates_requeue_pod_excluded_by_a_nominated_pod() {
    for (foe, forbids) in [("anti=host/app=web", true), ("affinity=host/app=web", false)] {
        let mut x = affinity("x label:app=web");
        apply(&mut x.cluster, "node a");
        apply(&mut x.cluster, &format!("nominated foe {foe} nominated=a"));
        assert_eq!(x.by_node(NodeAction::UpdateLabel, "a", "a nohost"), forbids);
        assert_eq!(x.requeues(&ClusterEvent::Other), forbids);
    }
}
