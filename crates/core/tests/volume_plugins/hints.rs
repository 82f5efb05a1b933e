//! Queueing hints: the events that requeue a pod which one of these plugins rejected.

use crate::support::language::apply;
use crate::support::{TestCluster, storage};
use supercargo_core::framework::{ClusterEvent, FilterPlugin, Hint, NodeAction, PodAction};
use supercargo_core::plugins::node_declared_features::NodeDeclaredFeatures;
use supercargo_core::plugins::node_volume_limits::NodeVolumeLimits;
use supercargo_core::plugins::volume_binding::VolumeBinding;
use supercargo_core::plugins::volume_restrictions::VolumeRestrictions;
use supercargo_core::plugins::volume_zone::VolumeZone;

const NODE_ACTIONS: [NodeAction; 6] = [
    NodeAction::Add,
    NodeAction::Delete,
    NodeAction::UpdateAllocatable,
    NodeAction::UpdateLabel,
    NodeAction::UpdateTaint,
    NodeAction::UpdateDeclaredFeature,
];

/// A plugin, and the pod that it rejected.
struct Case<P>(P, &'static str);

impl<P: FilterPlugin> Case<P> {
    fn asks(&self, cluster: &mut TestCluster, event: ClusterEvent<'_>) -> bool {
        let pod = cluster.pod_from(self.1);
        self.0.hint(&event, &pod, cluster.snapshot()) == Hint::Queue
    }

    /// Whether a storage event requeues the pod. An empty `old` is an addition, an empty `new` a deletion.
    fn storage(&self, old: &str, new: &str) -> bool {
        let mut cluster = TestCluster::new();
        let [old, new] = [old, new].map(|line| storage::object(&mut cluster.tables, line));
        self.asks(&mut cluster, ClusterEvent::Storage { old: old.as_ref(), new: new.as_ref() })
    }

    fn pod_gone(&self, words: &str) -> bool {
        let mut cluster = TestCluster::new();
        let gone = cluster.pod_from(words);
        let event = ClusterEvent::AssignedPod { action: PodAction::Delete, old: Some(&gone), new: None };
        self.asks(&mut cluster, event)
    }

    /// Returns the node updates that requeue the pod.
    fn node_actions(&self) -> Vec<NodeAction> {
        let mut cluster = TestCluster::new();
        let [old, new] = ["a zone=z1", "a zone=z2"].map(|words| cluster.node_from(words));
        let wakes = |&action: &NodeAction| {
            let old = (action != NodeAction::Add).then_some(&*old);
            let new = (action != NodeAction::Delete).then_some(&*new);
            self.asks(&mut cluster, ClusterEvent::Node { action, old, new })
        };
        NODE_ACTIONS.into_iter().filter(wakes).collect()
    }
}

#[test]
fn node_changes_that_requeue() {
    let new = [NodeAction::Add];
    let moved = [NodeAction::Add, NodeAction::UpdateLabel];
    let goes = [NodeAction::Add, NodeAction::Delete];
    assert_eq!(Case(VolumeRestrictions, "x claim=c").node_actions(), goes);
    assert_eq!(Case(VolumeRestrictions, "x gce=d").node_actions(), new);
    assert_eq!(Case(VolumeBinding, "x claim=c").node_actions(), moved);
    assert_eq!(Case(VolumeZone, "x claim=c").node_actions(), moved);
    assert_eq!(Case(NodeVolumeLimits, "x claim=c").node_actions(), [NodeAction::Add]);
    assert_eq!(Case(NodeDeclaredFeatures, "x feature=F").node_actions(), [NodeAction::Add]);
}

#[test]
fn flush_requeues_every_pod_and_unrelated_objects_none() {
    fn both(plugin: impl FilterPlugin) {
        let case = Case(plugin, "x claim=c feature=F");
        assert!(case.asks(&mut TestCluster::new(), ClusterEvent::UnschedulableTimeout));
        assert!(!case.asks(&mut TestCluster::new(), ClusterEvent::Other));
        assert!(!case.storage("capacity k", "") && !case.storage("", "csidriver d"));
    }
    both(VolumeRestrictions);
    both(VolumeBinding);
    both(VolumeZone);
    both(NodeVolumeLimits);
    both(NodeDeclaredFeatures);
}

#[test]
fn deleted_pod_with_the_same_disk_or_claim_requeues() {
    let case = Case(VolumeRestrictions, "x claim=c gce=d");
    assert!(case.pod_gone("p on=a claim=c"));
    assert!(case.pod_gone("p on=a gce=d:ro"));
    assert!(!case.pod_gone("p on=a claim=other gce=e"));
    assert!(case.pod_gone("p ns=other on=a gce=d"), "disks have no namespace");
    assert!(!case.pod_gone("p ns=other on=a claim=c"));
}

#[test]
fn added_claim_requeues_pods_that_use_it() {
    let restrictions = Case(VolumeRestrictions, "x claim=c ephemeral=e");
    let limits = Case(NodeVolumeLimits, "x claim=c ephemeral=e");
    assert!(restrictions.storage("", "pvc c") && limits.storage("", "pvc c"));
    assert!(!restrictions.storage("", "pvc x-e") && limits.storage("", "pvc x-e"));
    for wrong in ["pvc other", "pvc c ns=other"] {
        assert!(!restrictions.storage("", wrong) && !limits.storage("", wrong), "{wrong}");
    }
    // A list may show a recreated object as a change.
    assert!(restrictions.storage("pvc c", "pvc c uid=other") && limits.storage("pvc c", "pvc c uid=other"));
    assert!(!restrictions.storage("pvc c", ""));
}

/// The row in FIDELITY.md: upstream retries in none of the first two cases.
#[test]
fn missing_driver_is_awaited() {
    let case = Case(NodeVolumeLimits, "x claim=c");
    assert!(case.storage("csidriver csi.x required", "csidriver csi.x"));
    assert!(case.storage("csidriver csi.x required", ""));
    assert!(!case.storage("csidriver csi.x", "csidriver csi.x required"));
    assert!(!case.storage("csidriver csi.x required", "csidriver csi.x required tells"));
    for (version, expected) in [("1.36", false), ("1.37", true)] {
        let mut cluster = TestCluster::new();
        apply(&mut cluster, &format!("emulate {version}"));
        let [old, new] =
            ["csinode a", "csinode a csi.x=any"].map(|line| storage::object(&mut cluster.tables, line));
        let event = ClusterEvent::Storage { old: old.as_ref(), new: new.as_ref() };
        assert_eq!(case.asks(&mut cluster, event), expected, "{version}");
    }
}

#[test]
fn raised_limit_or_freed_volume_requeues_pod_over_a_volume_limit() {
    let case = Case(NodeVolumeLimits, "x claim=c");
    assert!(case.storage("", "csinode a d=1"));
    assert!(case.storage("csinode a d=1", "csinode a d=2"));
    assert!(case.storage("csinode a d=any", "csinode a d=1"));
    assert!(case.storage("csinode a", "csinode a d=1"));
    assert!(!case.storage("csinode a d=2", "csinode a d=1"));
    assert!(!case.storage("csinode a d=2", "csinode a d=2"));
    assert!(case.storage("csinode a d=2", "csinode a d=any") && case.storage("csinode a d=2", "csinode a"));
    assert!(case.storage("csinode a d=2", ""));
    assert!(case.storage("csinode a d=2", "csinode a d=2 migrated=kubernetes.io/aws-ebs"));
    for (old, new) in [
        ("pvc other", "pvc other bound=v"),
        ("pvc other", ""),
        ("", "pv v"),
        ("pv v", ""),
        ("class f of=d", ""),
    ] {
        assert!(case.storage(old, new), "what counts may be less: {old} -> {new}");
    }
    assert!(!case.storage("", "class f of=d"));
    for volume in ["claim=any", "ephemeral=e", "ebs=vol-1"] {
        assert!(case.pod_gone(&format!("p on=a {volume}")), "{volume}");
    }
    assert!(!case.pod_gone("p on=a") && !case.pod_gone("p on=a rbd=m/p/i csi=d"));
}

#[test]
fn pod_that_shares_a_volume_requeues_pod_over_the_limit() {
    let case = Case(NodeVolumeLimits, "x claim=c ebs=vol-1");
    let comes = |words: &str| {
        let mut cluster = TestCluster::new();
        for line in [
            "node a",
            "csinode a csi.x=1",
            "node bare",
            "class fast of=csi.x",
            "pv v csi=csi.x/v",
            "pv disk ebs=vol-1",
            "pvc c class=fast bound=v",
            "pvc same class=fast bound=v",
            "pvc d class=fast",
            "pvc disk class=fast bound=disk",
        ] {
            apply(&mut cluster, line);
        }
        let pod = cluster.pod_from(words);
        let node = pod.node_name.expect("the pod has a node");
        let event = ClusterEvent::AssignedPod { action: PodAction::Add, old: None, new: Some(&pod) };
        let (added, nominated) = (
            case.asks(&mut cluster, event),
            case.asks(&mut cluster, ClusterEvent::Nominated { pod: &pod, node }),
        );
        assert_eq!(added, nominated, "{words}");
        added
    };
    for shared in ["claim=c", "claim=d claim=c", "claim=same", "ns=default claim=disk", "ebs=vol-1"] {
        assert!(comes(&format!("p on=a {shared}")), "{shared}");
        assert!(!comes(&format!("p on=bare {shared}")), "a node without CSINode has no limits: {shared}");
    }
    for other in ["", "claim=d", "ns=other claim=c", "claim=missing", "gce=d"] {
        assert!(!comes(&format!("p on=a {other}")), "{other}");
    }
}

#[test]
fn recreated_storage_objects_requeue_pod_over_the_limit() {
    let case = Case(NodeVolumeLimits, "x claim=c");
    assert!(case.storage("attachment t on=a by=d of=v", "attachment t on=b by=d of=v"));
    assert!(case.storage("class f of=d", "class f of=e"));
    assert!(case.storage("", "pvc other bound=v"), "it may share the volume");
    assert!(!case.storage("", "pvc other"));
}

#[test]
fn detached_volume_requeues_pods_with_claims_or_disks_of_its_driver() {
    let gone = "attachment t on=a by=ebs.csi.aws.com of=v";
    assert!(Case(NodeVolumeLimits, "x claim=c").storage(gone, ""));
    assert!(Case(NodeVolumeLimits, "x ebs=vol-1").storage(gone, ""));
    assert!(!Case(NodeVolumeLimits, "x gce=d").storage(gone, ""));
    assert!(Case(NodeVolumeLimits, "x ephemeral=e").storage(gone, ""));
    assert!(!Case(NodeVolumeLimits, "x claim=c").storage("", gone));
    assert!(!Case(NodeVolumeLimits, "x").storage(gone, ""));
}

#[test]
fn storage_changes_requeue_pod_with_unsatisfied_claims() {
    let case = Case(VolumeBinding, "x claim=c ephemeral=e csi=d");
    for (old, new) in [
        ("", "pv v"),
        ("pv v", "pv v version=2"),
        ("", "pvc c"),
        ("pvc c", "pvc c bound=v"),
        ("pvc x-e", "pvc x-e bound=v"),
        ("", "class f of=d"),
        ("class f of=d", "class f of=d topology=zone=z1"),
        ("class f of=d", "class f of=e"),
        ("", "csinode a"),
        ("csinode a", "csinode a migrated=kubernetes.io/aws-ebs"),
        ("", "capacity k class=f"),
        ("capacity k class=f", "capacity k class=f size=1Gi"),
        ("capacity k class=f size=1Gi", "capacity k class=f size=2Gi"),
        ("csidriver d tells", "csidriver d"),
        ("csidriver other tells", "csidriver other"),
        ("csidriver d tells", ""),
    ] {
        assert!(case.storage(old, new), "{old} -> {new}");
    }
    for (old, new) in [
        ("", "pvc other"),
        ("pvc c ns=other", "pvc c ns=other bound=v"),
        ("csinode a d=1", "csinode a d=2"),
        ("capacity k class=f size=2Gi", "capacity k class=f size=1Gi"),
        ("capacity k class=f size=2Gi", "capacity k class=f"),
        ("csidriver d", "csidriver d tells"),
    ] {
        assert!(!case.storage(old, new), "{old} -> {new}");
    }
}

#[test]
fn volume_or_claim_change_requeues_pod_outside_the_zone_of_its_volume() {
    let case = Case(VolumeZone, "x claim=c ephemeral=e");
    assert!(case.storage("", "pv v") && case.storage("pv v zone=z1", "pv v zone=z1__z2"));
    assert!(!case.storage("pv v zone=z1", "pv v zone=z1 size=1Gi"));
    assert!(case.storage("", "pvc c") && case.storage("pvc c", "pvc c bound=v"));
    assert!(!case.storage("pvc x-e", "pvc x-e bound=v") && !case.storage("", "pvc c ns=other"));
    assert!(case.storage("", "class f of=d"));
    assert!(!case.storage("", "class f immediate") && !case.storage("", "class f nomode"));
    assert!(!case.storage("class f immediate", "class f"));
}

#[test]
fn changed_declared_features_requeue_pod_that_requires_features() {
    let case = Case(NodeDeclaredFeatures, "x feature=F");
    let mut cluster = TestCluster::new();
    let [old, new] = ["a", "a declares=F"].map(|words| cluster.node_from(words));
    let action = NodeAction::UpdateDeclaredFeature;
    assert!(case.asks(&mut cluster, ClusterEvent::Node { action, old: Some(&old), new: Some(&new) }));
    assert!(!case.asks(&mut cluster, ClusterEvent::Node { action, old: Some(&new), new: Some(&new) }));
    let [before, after] = ["x feature=F", "x"].map(|words| cluster.pod_from(words));
    let own = ClusterEvent::OwnPod { action: PodAction::Update, old: &before, new: &after };
    assert!(case.asks(&mut cluster, own));
    let own = ClusterEvent::OwnPod { action: PodAction::UpdateLabel, old: &after, new: &after };
    assert!(!case.asks(&mut cluster, own));
}
