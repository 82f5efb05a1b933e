//! Queueing hints: the events that requeue a pod which one of the plugins rejected.

use crate::support::World;
use crate::support::language::apply;
use std::sync::Arc;
use supercargo_core::framework::{ClusterEvent, FilterPlugin, Hint, NodeAction, PodAction};
use supercargo_core::node::NodeInfo;
use supercargo_core::plugins::inter_pod_affinity::InterPodAffinity;
use supercargo_core::plugins::pod_topology_spread::PodTopologySpread;
use supercargo_core::pod::PodInfo;

/// A plugin, a world, and a pod that it rejected.
struct Asked {
    plugin: Box<dyn FilterPlugin>,
    world: World,
    pod: Arc<PodInfo>,
}

fn spread(pod: &str) -> Asked {
    asked(Box::new(PodTopologySpread::default()), pod)
}

fn affinity(pod: &str) -> Asked {
    asked(Box::new(InterPodAffinity::default()), pod)
}

fn asked(plugin: Box<dyn FilterPlugin>, pod: &str) -> Asked {
    let mut world = World::new();
    let pod = world.pod_from(pod);
    Asked { plugin, world, pod }
}

impl Asked {
    fn wakes(&self, event: &ClusterEvent<'_>) -> bool {
        self.plugin.hint(event, &self.pod, self.world.snapshot()) == Hint::Queue
    }

    /// Whether an event of another pod requeues the pod. An empty text means no pod.
    fn by_pod(&mut self, action: PodAction, old: &str, new: &str) -> bool {
        let [old, new] = [old, new].map(|words| (!words.is_empty()).then(|| self.world.pod_from(words)));
        self.wakes(&ClusterEvent::AssignedPod { action, old: old.as_deref(), new: new.as_deref() })
    }

    fn by_added(&mut self, pod: &str) -> bool {
        self.by_pod(PodAction::Add, "", pod)
    }

    fn by_deleted(&mut self, pod: &str) -> bool {
        self.by_pod(PodAction::Delete, pod, "")
    }

    fn by_relabelled(&mut self, old: &str, new: &str) -> bool {
        self.by_pod(PodAction::UpdateLabel, old, new)
    }

    /// Whether an update of the pod itself requeues it.
    fn by_itself(&mut self, action: PodAction, new: &str) -> bool {
        let new = self.world.pod_from(new);
        self.wakes(&ClusterEvent::OwnPod { action, old: &self.pod, new: &new })
    }

    /// Whether an event of a node requeues the pod. An empty text means no node.
    fn by_node(&mut self, action: NodeAction, old: &str, new: &str) -> bool {
        let mut node = |words: &str| -> Option<Arc<NodeInfo>> {
            (!words.is_empty()).then(|| self.world.node_from(words))
        };
        let (old, new) = (node(old), node(new));
        self.wakes(&ClusterEvent::Node { action, old: old.as_deref(), new: new.as_deref() })
    }
}

#[test]
fn the_flush_wakes_everything_and_other_objects_nothing() {
    for asked in [spread("x spread=zone/1/DoNotSchedule/app=web"), affinity("x anti=zone/app=web")] {
        assert!(asked.wakes(&ClusterEvent::UnschedulableTimeout));
        assert!(!asked.wakes(&ClusterEvent::Other));
    }
}

#[test]
fn pods_that_come_or_go_wake_a_spread_pod_if_a_constraint_counts_them() {
    let mut x = spread("x spread=zone/1/DoNotSchedule/app=web spread=host/1/ScheduleAnyway/app=soft");
    assert!(x.by_added("p on=a label:app=web") && x.by_deleted("p on=a label:app=web"));
    assert!(!x.by_added("p on=a label:app=db") && !x.by_deleted("p on=a label:app=db"));
    assert!(!x.by_added("p on=a label:app=soft"), "soft constraints reject nobody");
    assert!(!x.by_added("p on=a ns=other label:app=web"), "another namespace");
    assert!(!x.by_pod(PodAction::UpdateScaleDown, "p on=a label:app=web", "p on=a label:app=web"));
    assert!(!x.by_pod(PodAction::Update, "p on=a label:app=web", "p on=a label:app=web"));
}

#[test]
fn a_label_wakes_a_spread_pod_if_a_constraint_begins_or_ceases_to_count() {
    let mut x = spread("x label:app=db spread=zone/1/DoNotSchedule/app=web");
    assert!(x.by_relabelled("p on=a label:app=web", "p on=a label:app=db"));
    assert!(x.by_relabelled("p on=a", "p on=a label:app=web"));
    assert!(!x.by_relabelled("p on=a label:app=web", "p on=a label:app=web label:v=2"));
    assert!(x.by_itself(PodAction::UpdateLabel, "x label:app=web spread=zone/1/DoNotSchedule/app=web"));
    assert!(!x.by_itself(PodAction::UpdateLabel, "x label:app=api spread=zone/1/DoNotSchedule/app=web"));
}

#[test]
fn a_toleration_of_its_own_wakes_a_spread_pod_whose_constraint_honors_taints() {
    let mut x = spread("x spread=zone/1/DoNotSchedule/app=web/honor-taints");
    assert!(x.by_itself(PodAction::UpdateToleration, "x tolerate=k"));
    assert!(!x.by_pod(PodAction::UpdateToleration, "p on=a", "p on=a tolerate=k"));
    let mut x = spread("x spread=zone/1/DoNotSchedule/app=web");
    assert!(!x.by_itself(PodAction::UpdateToleration, "x tolerate=k"));
}

#[test]
fn nodes_wake_a_spread_pod_if_they_have_all_keys_or_begin_or_cease_to() {
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
fn a_label_that_changes_whether_a_node_is_counted_wakes_a_spread_pod() {
    let (was, is) = ("n zone=z1 label:disk=ssd", "n zone=z1 label:disk=hdd");
    let mut x = spread("x select:disk=ssd spread=zone/1/DoNotSchedule/app=web");
    assert!(x.by_node(NodeAction::UpdateLabel, was, is));
    let mut x = spread("x select:disk=ssd spread=zone/1/DoNotSchedule/app=web/ignore-affinity");
    assert!(!x.by_node(NodeAction::UpdateLabel, was, is));
}

#[test]
fn constraints_that_cannot_be_parsed_are_tried_again() {
    let mut x = spread("x spread=zone/1/DoNotSchedule/?broken");
    assert!(x.by_added("p on=a") && x.by_node(NodeAction::Add, "", "n"));
}

#[test]
fn a_peer_that_comes_wakes_a_pod_with_affinity_only_if_all_terms_mean_it() {
    let mut x = affinity("x affinity=zone/app=web affinity=host/tier=fe");
    assert!(x.by_added("p on=a label:app=web label:tier=fe"));
    assert!(!x.by_added("p on=a label:app=web"));
    assert!(x.by_relabelled("p on=a label:app=web", "p on=a label:app=web label:tier=fe"));
    assert!(!x.by_relabelled("p on=a label:app=web label:tier=fe", "p on=a label:app=web"));
    assert!(!x.by_deleted("p on=a label:app=web label:tier=fe"));
    assert!(!affinity("x anti=zone/app=web").by_added("p on=a label:app=db"));
}

#[test]
fn a_foe_that_goes_wakes_a_pod_with_anti_affinity() {
    let mut x = affinity("x label:app=web anti=zone/app=db");
    assert!(x.by_deleted("p on=a label:app=db"));
    assert!(!x.by_deleted("p on=a label:app=api"));
    assert!(!x.by_added("p on=a label:app=db"));
    assert!(x.by_relabelled("p on=a label:app=db", "p on=a label:app=api"));
    assert!(!x.by_relabelled("p on=a label:app=api", "p on=a label:app=db"));
    assert!(x.by_deleted("p on=a anti=zone/app=web"), "its own terms meant the pod");
    assert!(!x.by_deleted("p on=a ns=other anti=zone/app=web"), "those of another namespace did not");
}

#[test]
fn labels_of_its_own_wake_a_pod_that_others_may_have_meant() {
    let mut x = affinity("x label:app=web");
    assert!(x.by_itself(PodAction::UpdateLabel, "x label:app=db"));
    assert!(!x.by_itself(PodAction::UpdateToleration, "x tolerate=k"));
    assert!(!x.by_itself(PodAction::Update, "x"));
}

#[test]
fn nodes_wake_a_pod_by_the_keys_of_its_terms() {
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

#[test]
fn any_change_of_taints_wakes_a_pod_with_affinity() {
    let mut x = affinity("x affinity=zone/app=web");
    assert!(x.by_node(NodeAction::UpdateTaint, "n taint=k:NoSchedule", "n"));
}

/// Upstream requires that *all* terms match the deleted pod, so a pod with only one matching term keeps waiting.
#[test]
fn a_foe_of_one_of_several_terms_that_goes_wakes_the_pod() {
    let mut x = affinity("x label:app=web label:tier=fe anti=zone/app=db anti=zone/app=api");
    assert!(x.by_deleted("p on=a label:app=db"));
    assert!(x.by_relabelled("p on=a label:app=db", "p on=a"));
    assert!(x.by_deleted("p on=a anti=host/app=web anti=host/app=none"));
}

/// Upstream checks only anti-affinity when a pod is deleted (kubernetes issue 141354).
#[test]
fn the_last_peer_that_goes_wakes_a_pod_that_may_be_the_first_of_its_kind() {
    let mut x = affinity("x label:app=web affinity=zone/app=web");
    assert!(x.by_deleted("p on=a label:app=web"));
    assert!(x.by_relabelled("p on=a label:app=web", "p on=a"));
    assert!(x.by_node(NodeAction::UpdateLabel, "n zone=z1", "n"), "nor where its node loses the key");
    let mut stranger = affinity("x affinity=zone/app=web");
    assert!(!stranger.by_deleted("p on=a label:app=web"));
}

/// Upstream does not count terminating pods either, but requeues the pod only after the deletion.
#[test]
fn a_pod_that_begins_to_be_deleted_wakes_a_spread_pod_that_counted_it() {
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
fn a_node_that_goes_wakes_a_pod_whose_foes_or_peers_it_may_have_had() {
    let mut x = affinity("x label:app=web anti=zone/app=db");
    assert!(x.by_node(NodeAction::Delete, "n zone=z1", ""));
    assert!(!x.by_node(NodeAction::Delete, "n", ""), "it was in no domain");
    let mut x = affinity("x label:app=web affinity=zone/app=web");
    assert!(x.by_node(NodeAction::Delete, "n zone=z1", ""));
    let mut x = affinity("x label:app=web");
    assert!(!x.by_node(NodeAction::Delete, "n zone=z1", ""));
    apply(&mut x.world, "node a zone=z1");
    apply(&mut x.world, "pod p on=a anti=zone/app=web");
    assert!(x.by_node(NodeAction::Delete, "n zone=z1", ""));
}

/// Upstream handles no namespace events: its pods wait for the flush.
#[test]
fn a_namespace_with_other_labels_wakes_a_pod_that_selects_namespaces_or_that_others_may_mean() {
    assert!(affinity("x affinity=zone/app=web/nssel=env=prod").wakes(&ClusterEvent::Other));
    assert!(affinity("x anti=zone/app=web/nssel=env=prod").wakes(&ClusterEvent::Other));
    let mut x = affinity("x label:app=web affinity=zone/app=web");
    assert!(!x.wakes(&ClusterEvent::Other));
    apply(&mut x.world, "node a zone=z1");
    apply(&mut x.world, "pod p on=a anti=zone/app=web/nssel=env=prod");
    assert!(x.wakes(&ClusterEvent::Other));
}

/// Upstream's hints do not resolve a namespace selector, so one with requirements matches no pod.
#[test]
fn a_peer_in_a_selected_namespace_wakes_the_pod() {
    let mut x = affinity("x affinity=zone/app=web/nssel=env=prod");
    assert!(!x.by_added("p on=a ns=other label:app=web"));
    let (env, prod) = (x.world.tables.symbol("env"), x.world.tables.symbol("prod"));
    let (other, labels) = (x.world.tables.symbol("other"), x.world.tables.label_set(vec![(env, prod)]));
    x.world.cache.lookups_mut().set_namespace(other, labels);
    assert!(x.by_added("p on=a ns=other label:app=web"));
}

/// Upstream checks only the pod's own terms, although terms of other pods may have rejected it.
#[test]
fn a_node_that_appears_wakes_a_pod_that_others_keep_out_elsewhere() {
    let mut x = affinity("x label:app=web");
    assert!(!x.by_node(NodeAction::Add, "", "n zone=z1"));
    let node = x.world.node_from("a");
    x.world.add_node(&node);
    let foe = x.world.pod_from("p on=a anti=host/app=web");
    x.world.place(&foe);
    assert!(x.by_node(NodeAction::Add, "", "n zone=z1"));
    assert!(x.by_node(NodeAction::UpdateLabel, "a", "a label:k=v"));
}
