//! Event registrations of plugins: a hint returns Queue only for events that the plugin has registered.

mod support;

use std::sync::Arc;
use supercargo_core::cycle::Framework;
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::framework::{ClusterEvent, Hint, NodeAction, PluginName, PodAction};
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::volume::StorageObject;
use supercargo_core::registry::Plan;
use support::{TestCluster, storage};

const NODE_ACTIONS: [NodeAction; 6] = [
    NodeAction::Add,
    NodeAction::Delete,
    NodeAction::UpdateAllocatable,
    NodeAction::UpdateLabel,
    NodeAction::UpdateTaint,
    NodeAction::UpdateDeclaredFeature,
];
const POD_ACTIONS: [PodAction; 8] = [
    PodAction::Add,
    PodAction::Delete,
    PodAction::UpdateLabel,
    PodAction::UpdateScaleDown,
    PodAction::UpdateScaleUp,
    PodAction::UpdateGatesEliminated,
    PodAction::UpdateToleration,
    PodAction::Update,
];

/// Pods that every plugin has to evaluate.
const WAITING: [&str; 4] = [
    "x label:app=web cpu=2 port=80 require=zone:in:z1 spread=zone/1/DoNotSchedule/app=web anti=zone/app=web",
    "x label:app=db cpu=1 affinity=zone/app=web/nssel=env=prod claim=c ephemeral=e csi=d gce=disk",
    "x cpu=9 spread=host/1/DoNotSchedule/app=web/honor-taints affinity=host/app=web claim=c ebs=disk",
    "x tolerate=gpu res:example.com/gpu=1 spread=zone/1/DoNotSchedule/app=web/ignore-affinity",
];
const OTHERS: [&str; 4] = [
    "p on=a label:app=web cpu=2 port=80 claim=c gce=disk anti=zone/app=web",
    "p on=a label:app=db cpu=1 port=80 claim=c gce=disk ebs=disk",
    "p on=a label:app=web cpu=2 port=80 claim=c gce=disk anti=zone/app=web deleting",
    "p on=a",
];
const NODES: [&str; 4] = [
    "a zone=z1 cpu=9 label:disk=ssd",
    "a zone=z2 cpu=4 taint=gpu:NoSchedule unschedulable",
    "a cpu=1 declares=Feature",
    "a zone=z1 cpu=4",
];
const STORAGE: [(&str, &str); 7] = [
    ("pv v class=fast zone=z1", "pv v class=fast zone=z2"),
    ("pvc c class=fast", "pvc c class=fast bound=v"),
    ("class fast of=csi.x", "class fast of=csi.x topology=zone:in:z1"),
    ("csinode a d=1", "csinode a d=9"),
    ("csidriver d tells", "csidriver d"),
    ("capacity k class=fast size=1Gi", "capacity k class=fast size=9Gi"),
    ("attachment t on=a by=d of=v", "attachment t on=a by=d of=w"),
];

/// Returns all pairs of old and new state, including additions and deletions.
fn pairs<T: Clone>(all: &[T]) -> Vec<(Option<T>, Option<T>)> {
    let some: Vec<Option<T>> = all.iter().cloned().map(Some).chain([None]).collect();
    let each = |old: &Option<T>| some.iter().map(|new| (old.clone(), new.clone())).collect::<Vec<_>>();
    some.iter().flat_map(each).filter(|(old, new)| old.is_some() || new.is_some()).collect()
}

struct Listeners {
    cluster: TestCluster,
    framework: Framework,
    plugins: Vec<PluginName>,
    waiting: Vec<Arc<PodInfo>>,
    /// The number of pairs of a plugin and an event for which the hint returned Queue.
    queued: usize,
}

impl Listeners {
    fn hear(&mut self, event: &ClusterEvent<'_>) {
        let snapshot = self.cluster.snapshot();
        for plugin in &self.plugins {
            for pod in &self.waiting {
                if self.framework.hint(plugin, event, pod, snapshot) == Hint::Queue {
                    self.queued += 1;
                    assert!(
                        self.framework.hears(plugin, event, snapshot.rules()),
                        "{plugin} would queue {pod:?} on {event:?}, which it does not listen to"
                    );
                }
            }
        }
    }
}

#[test]
fn plugin_requeues_no_pod_for_unregistered_event() {
    let mut cluster = TestCluster::new();
    for line in ["node a zone=z1 cpu=4", "node b zone=z2 cpu=4", "pod q on=b label:app=web anti=zone/app=web"]
    {
        support::language::apply(&mut cluster, line);
    }
    let waiting = WAITING.map(|words| cluster.pod_from(words)).to_vec();
    let nodes: Vec<Arc<NodeInfo>> = NODES.map(|words| cluster.node_from(words)).to_vec();
    let pods: Vec<Arc<PodInfo>> = OTHERS.map(|words| cluster.pod_from(words)).to_vec();
    let storage: Vec<[StorageObject; 2]> = STORAGE
        .map(|(old, new)| [old, new].map(|line| storage::object(&mut cluster.tables, line).expect("storage")))
        .to_vec();
    let classes = ["gpus", "gpus serves=example.com/gpu"].map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        support::language::device_class(&mut cluster.tables, &words).1
    });
    let framework = Framework::default();
    let mut plugins = framework.plugins_at(ExtensionPoint::PreFilter).to_vec();
    plugins.extend(framework.plugins_at(ExtensionPoint::Filter));
    plugins.sort_unstable();
    plugins.dedup();
    assert!(plugins.len() > 12, "{plugins:?}");
    let mut listeners = Listeners { cluster, framework, plugins, waiting, queued: 0 };
    for action in NODE_ACTIONS {
        for (old, new) in pairs(&nodes) {
            listeners.hear(&ClusterEvent::Node { action, old: old.as_deref(), new: new.as_deref() });
        }
    }
    for action in POD_ACTIONS {
        for (old, new) in pairs(&pods) {
            listeners.hear(&ClusterEvent::AssignedPod { action, old: old.as_deref(), new: new.as_deref() });
        }
    }
    for versions in &storage {
        for (old, new) in pairs(versions) {
            listeners.hear(&ClusterEvent::Storage { old: old.as_ref(), new: new.as_ref() });
        }
    }
    for (old, new) in pairs(&classes) {
        if let Some(new) = &new {
            listeners.hear(&ClusterEvent::DeviceClass { old: old.as_deref(), new });
        }
    }
    for pod in &pods {
        let node = pod.node_name.expect("the pod has a node");
        listeners.hear(&ClusterEvent::Nominated { pod, node });
    }
    listeners.hear(&ClusterEvent::Other);
    assert!(listeners.queued > 500, "the events are worth listening to: {}", listeners.queued);
}

/// Row Q1 of docs/versions.md. NodeVolumeLimits registers for no node.
#[test]
fn unrelated_taint_requeues_every_rejected_pod_up_to_1_36() {
    for version in EmulatedVersion::ALL {
        let mut cluster = TestCluster::new();
        support::language::apply(&mut cluster, &format!("emulate {version}"));
        let spread = "spread=disk/1/DoNotSchedule/app=web";
        let pod = cluster.pod_from(&format!("x cpu=5 port=80 claim=c anti=zone/app=web feature=F {spread}"));
        let [old, new] = ["a zone=z1", "a zone=z1 taint=k:NoSchedule"].map(|words| cluster.node_from(words));
        let framework = Framework::new(&Plan::of(cluster.tables.rules()));
        let (action, snapshot) = (NodeAction::UpdateTaint, cluster.snapshot());
        let event = ClusterEvent::Node { action, old: Some(&old), new: Some(&new) };
        let own = ["NodeUnschedulable", "NodeVolumeLimits", "PodTopologySpread", "TaintToleration"];
        for plugin in framework.plugins_at(ExtensionPoint::Filter) {
            let requeues = version <= EmulatedVersion::V1_36 && !own.contains(plugin);
            let hint = framework.hint(plugin, &event, &pod, snapshot);
            assert_eq!(hint, Hint::queue_if(requeues), "{plugin} of {version}");
            let hears = framework.hears(plugin, &event, snapshot.rules());
            assert_eq!(hears, requeues || own.contains(plugin) && *plugin != own[1], "{plugin} of {version}");
        }
    }
}
