//! Tests that trials are reverted: afterwards the cluster and the answers are the same.

use crate::explain::{Accepted, Leaving};
use crate::explain::{Place, Question, drain_check, explain, fit};
use crate::load::files::{Item, Origin};
use crate::simulate::{objects, profiles};
use serde_json::{Value, json};
use std::sync::Arc;
use supercargo_core::model::emulation::{Compat, EmulatedVersion, GroupGates};
use supercargo_core::model::pod::PodInfo;
use supercargo_core::scheduler::Trial;

struct World {
    trial: Trial,
    pending: Vec<Arc<PodInfo>>,
}

impl World {
    fn node(&mut self, name: &str, spec: &Value) {
        let value = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "uid": name, "labels": { "kubernetes.io/hostname": name } }, "spec": spec,
            "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } },
        });
        objects::apply(&mut self.trial, Item::new(value, Origin::default())).expect("the node is valid");
    }

    fn pod(&mut self, name: &str, priority: i32, spec: &Value) -> Arc<PodInfo> {
        let mut value = json!({
            "metadata": { "name": name, "uid": name, "namespace": "default", "labels": { "app": "web" },
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true }] },
            "spec": { "priority": priority, "containers": [{ "name": "c", "resources": { "requests": { "cpu": "3" } } }] },
        });
        let fields = value["spec"].as_object_mut().expect("the spec is an object");
        fields.extend(spec.as_object().cloned().unwrap_or_default());
        let item = Item::new(value, Origin::default());
        let (pod, _) = objects::pod(&mut self.trial, item).expect("the pod is valid");
        if pod.node_name.is_none() {
            self.pending.push(Arc::clone(&pod));
        }
        pod
    }

    /// Returns everything that a decision reads, as text.
    fn seen(&self) -> Vec<String> {
        let snapshot = self.trial.snapshot();
        let each = snapshot.nodes().iter().map(|node| {
            let mut pods: Vec<&PodInfo> = snapshot.pods_on(node).collect();
            pods.sort_by(|a, b| a.uid.cmp(&b.uid));
            format!("{:?} {:?} {pods:?}", snapshot.node_info(node), snapshot.requested(node))
        });
        let mut seen: Vec<String> = each.collect();
        seen.sort_unstable();
        let volumes = snapshot.volumes().count();
        seen.push(format!(
            "{volumes} {} {:?}",
            self.trial.placed_pods().count(),
            snapshot.nodes_with_nominations()
        ));
        seen
    }

    fn asked<R>(&mut self, ask: impl FnOnce(&mut Place<'_>) -> R) -> R {
        ask(&mut Place { trial: &mut self.trial, pending: &self.pending })
    }
}

fn anti_affinity() -> Value {
    json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "web" } } }] } } })
}

fn on(node: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["nodeName"] = json!(node);
    spec
}

/// Returns a cluster in which every type of change is tried.
fn world() -> (World, Arc<PodInfo>, Arc<PodInfo>) {
    let trial = profiles::trial(None, EmulatedVersion::default(), Compat::default(), GroupGates::OFF)
        .expect("the default configuration is valid");
    let mut world = World { trial, pending: Vec::new() };
    world.node("a", &json!({}));
    world.node("b", &json!({ "taints": [{ "key": "gpu", "effect": "NoSchedule" }] }));
    world.node("c", &json!({ "unschedulable": true }));
    world.node("d", &json!({}));
    let placed = world.pod("placed", 0, &on("a", &anti_affinity()));
    world.pod("low", -5, &on("d", &json!({})));
    world.pod("other", 0, &anti_affinity());
    let asked = world.pod("asked", 0, &anti_affinity());
    (world, asked, placed)
}

#[test]
fn trials_leave_the_cluster_unchanged() {
    let (mut world, asked, placed) = world();
    let before = world.seen();
    let question = Question { is_ours: true, scores: true, by_node: true, ..Question::default() };
    let explanation = |world: &mut World, pod: &Arc<PodInfo>| {
        let explanation = world.asked(|place| explain(place, pod, question));
        serde_json::to_string(&explanation).expect("the explanation serializes")
    };
    let (waits, runs) = (explanation(&mut world, &asked), explanation(&mut world, &placed));
    assert!(
        waits.contains("AddToleration") && waits.contains("AddNode") && waits.contains("Uncordon"),
        "{waits}"
    );
    let leaving = [Leaving {
        pod: Arc::clone(&placed),
        stays: None,
        is_unmanaged: false,
        has_empty_dir: false,
        is_pending: false,
        is_ready: true,
    }];
    let nodes = ["a".to_owned()];
    let drained = world.asked(|place| {
        drain_check(
            place,
            &nodes,
            (&leaving, Some(&crate::explain::BudgetStates::new())),
            Accepted::default(),
        )
    });
    let fitted = world.asked(|place| fit(place, &asked, 100, 0, false));
    assert_eq!((drained.without_place, fitted.fits), (1, 0));
    assert_eq!(world.seen(), before);
    assert_eq!((explanation(&mut world, &asked), explanation(&mut world, &placed)), (waits, runs));
}

#[test]
fn reported_changes_are_verified() {
    let (mut world, asked, _) = world();
    let explanation =
        world.asked(|place| explain(place, &asked, Question { is_ours: true, ..Question::default() }));
    assert!(!explanation.changes.is_empty());
    for change in &explanation.changes {
        let is_fewer = change.codes == ["FewerReplicas"];
        assert!(change.fits_on > 0 || is_fewer, "{change:?}");
        assert_eq!(change.examples.is_empty(), is_fewer, "{change:?}");
        assert!(change.codes.iter().all(|code| crate::explain::CHANGE_CODES.contains(code)), "{change:?}");
    }
}

#[test]
fn counted_noun_is_singular_for_one_only() {
    let counted = |number: i64| {
        format!(
            "{}, {}",
            crate::explain::format::count(number, "node"),
            crate::explain::format::count(number, "entry")
        )
    };
    assert_eq!([0, 1, 2].map(counted), ["0 nodes, 0 entries", "1 node, 1 entry", "2 nodes, 2 entries"]);
}
