//! A cluster that follows another equals one that is loaded afresh, and scale-up tells what adding nodes gives.

use super::{Random, any_of, group, node, plain, pod, setup, storage};
use crate::cluster::{
    Cluster, ClusterError, Dump, Interrupt, NodeTemplate, ScaleUpPods, ScaleUpTemplate, Setup,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Sets what an API server would set.
fn shown(mut object: Value, uid: usize) -> Value {
    let metadata = &mut object["metadata"];
    metadata["uid"] = format!("uid-{uid}").into();
    metadata["resourceVersion"] = uid.to_string().into();
    if !["Node", "PersistentVolume", "StorageClass", "DeviceClass", "ResourceSlice"]
        .iter()
        .any(|kind| object["kind"] == *kind)
    {
        object["metadata"]["namespace"] = "default".into();
    }
    object
}

/// Returns the state without what depends on the order of arrival.
fn sorted(cluster: &mut Cluster) -> (Dump, Vec<String>) {
    let mut dump = cluster.dump();
    dump.queue.sort();
    for node in dump.nodes.values_mut() {
        // Ids of texts differ between the clusters, so that only names are compared.
        node.object.clear();
        node.requested.clear();
        node.pods.iter_mut().for_each(|pod| *pod = pod.split(' ').next().unwrap_or_default().to_owned());
        node.pods.sort();
    }
    dump.storage.values_mut().for_each(String::clear);
    dump.groups.values_mut().for_each(String::clear);
    dump.namespaces.values_mut().for_each(String::clear);
    let mut said = Vec::new();
    for at in 0..6 {
        let probe = pod(&format!("probe{at}"), &mut Random(at));
        // Each alone: a draw among equal nodes depends on their order, and later pods would depend on the draw.
        let fit = cluster.fits(&[probe]).expect("the pod is new");
        said.push(format!("{} {:?}", fit.fits, fit.placements[0].message));
    }
    (dump, said)
}

#[test]
fn followed_cluster_equals_one_that_is_loaded_afresh() {
    let mut compared = 0;
    for run in 0..40 {
        let mut random = Random(run);
        let mut followed = Cluster::from_objects(Vec::new(), &setup()).expect("it is empty");
        let mut objects: BTreeMap<String, Value> = BTreeMap::new();
        let key = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
        let apply = |followed: &mut Cluster, objects: &mut BTreeMap<String, Value>, object: Value| {
            followed.apply(object.clone()).expect("a generated object is valid");
            objects.insert(key(&object), object);
        };
        for (at, object) in storage().into_iter().enumerate() {
            apply(&mut followed, &mut objects, shown(object, at));
        }
        for number in 100..140 {
            let names: Vec<String> = objects.keys().cloned().collect();
            match random.below(6) {
                0 => {
                    let name = format!("n{}", random.below(4));
                    apply(&mut followed, &mut objects, shown(node(&name, &mut random), number));
                }
                1 | 2 => {
                    let name = format!("p{}", random.below(12));
                    let mut new = shown(pod(&name, &mut random), number);
                    let nodes: Vec<String> = followed.nodes().into_iter().map(str::to_owned).collect();
                    match objects.get(&key(&new)) {
                        // A pod keeps its uid, and gets a node once.
                        Some(before) if random.below(2) == 0 => {
                            new = before.clone();
                            if new["spec"]["nodeName"].is_null() {
                                new["spec"]["nodeName"] = any_of(&nodes, &mut random).into();
                            }
                            if random.below(6) == 0 {
                                new["status"]["phase"] = "Succeeded".into();
                            }
                        }
                        _ => new["spec"]["nodeName"] = any_of(&nodes, &mut random).into(),
                    }
                    apply(&mut followed, &mut objects, new);
                }
                3 => {
                    for object in group(&format!("g{}", random.below(2)), &mut random) {
                        apply(&mut followed, &mut objects, shown(object, number));
                    }
                }
                4 => {
                    if let Some(gone) = any_of(&names, &mut random).and_then(|name| objects.remove(&name)) {
                        followed.remove(&gone).expect("no transaction is open");
                    }
                }
                _ => {
                    let mut afresh = Cluster::from_objects(Vec::new(), &setup()).expect("it is empty");
                    for object in objects.values() {
                        afresh.apply(object.clone()).expect("it was valid before");
                    }
                    assert_eq!(sorted(&mut followed), sorted(&mut afresh), "run {run}, change {number}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 150, "{compared}");
}

#[test]
fn invalid_object_is_refused_with_its_field_and_removed() {
    let mut random = Random(1);
    let mut cluster = Cluster::from_objects(vec![node("a", &mut random)], &Setup::default()).expect("valid");
    let mut pod = shown(plain("p"), 1);
    pod["spec"]["nodeName"] = "a".into();
    cluster.apply(pod.clone()).expect("it is valid");
    assert_eq!(cluster.pods_on("a").expect("it exists"), ["default/p"]);
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "much".into();
    let refused = cluster.apply(pod).expect_err("the amount is invalid").to_string();
    assert!(refused.contains("default/p") && refused.contains("cpu"), "{refused}");
    assert_eq!(cluster.pods().count(), 0);
    cluster.fork();
    assert_eq!(cluster.apply(shown(plain("q"), 2)), Err(ClusterError::InTransaction));
}

#[test]
fn scale_up_equals_really_adding_the_nodes_and_one_less_is_too_few() {
    let (mut added, mut combined) = (0, 0);
    for run in 0..60 {
        let mut random = Random(run);
        let mut objects = storage();
        objects.extend((0..random.below(4)).map(|at| node(&format!("n{at}"), &mut random)));
        let mut cluster = Cluster::from_objects(objects, &setup()).expect("the generated objects are valid");
        let mut pods: Vec<Value> = (0..8).map(|at| pod(&format!("p{at}"), &mut random)).collect();
        pods.extend(group("g", &mut random));
        let mut large = node("large", &mut random);
        large["status"]["allocatable"]["cpu"] = "8".into();
        let small = node("small", &mut random);
        let templates = [("small", &small), ("large", &large)]
            .map(|(name, node)| ScaleUpTemplate { name, node: NodeTemplate::Object(node) });
        let before = cluster.dump();
        let answer = cluster.scale_up(&templates, ScaleUpPods::Objects(&pods), 50).expect("valid");
        assert_eq!(cluster.dump(), before, "run {run}");

        let really = |cluster: &mut Cluster, less: usize| {
            cluster.fork();
            for (at, nodes) in answer.nodes.iter().enumerate() {
                let of = if nodes.template == "small" { &small } else { &large };
                let is_last = at + 1 == answer.nodes.len();
                let names =
                    cluster.add_nodes(NodeTemplate::Object(of), nodes.count - if is_last { less } else { 0 });
                assert!(less > 0 || names.as_ref() == Ok(&nodes.names), "run {run}");
            }
            let placed = cluster.place(&pods).expect("the pods are valid");
            cluster.undo().expect("a transaction is open");
            placed
        };
        assert_eq!(really(&mut cluster, 0), answer.placements, "run {run}");
        assert_eq!(answer.placements.iter().filter(|it| it.node.is_none()).count(), answer.pending);
        if let Some(last) = answer.nodes.last() {
            assert!(last.count > 0 && answer.pending < answer.pending_without, "run {run}: {answer:?}");
            let fewer = really(&mut cluster, 1);
            let pending = fewer.iter().filter(|it| it.node.is_none()).count();
            assert!(pending > answer.pending, "run {run}: {pending} with one node less, {answer:?}");
        }
        assert!(answer.pending_without == 0 || answer.options.len() == 2, "run {run}");
        added += usize::from(!answer.nodes.is_empty());
        combined += usize::from(answer.nodes.len() > 1);
    }
    assert!(added > 30 && combined > 2, "{added} added nodes, {combined} of both templates");
}

#[test]
fn scale_up_of_identical_pods_tries_few_counts() {
    let mut random = Random(3);
    let mut template = node("t", &mut random);
    template["status"]["allocatable"] = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
    template["spec"] = json!({});
    let mut cluster = Cluster::from_objects(vec![template.clone()], &Setup::default()).expect("valid");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    cluster.set_interrupt(Interrupt::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        false
    }));
    let templates = [ScaleUpTemplate { name: "t", node: NodeTemplate::Like("t") }];
    let answer = cluster.scale_up(&templates, ScaleUpPods::Copies(&plain("p"), 160), 100).expect("valid");
    assert_eq!((answer.nodes[0].count, answer.pending, answer.pending_without), (9, 0, 144));
    // Without nodes, with as many as the requests need, and with one less.
    let asked = asked.load(Ordering::Relaxed);
    assert!((480..500).contains(&asked), "{asked} decisions and checks");
}

#[test]
fn interrupt_ends_a_question_early() {
    let mut random = Random(3);
    let mut cluster = Cluster::from_objects(vec![node("a", &mut random)], &Setup::default()).expect("valid");
    let left = AtomicUsize::new(3);
    let interrupt = Interrupt::new(move || left.fetch_sub(1, Ordering::Relaxed) == 0);
    cluster.set_interrupt(interrupt.clone());
    cluster.fork();
    let placed = cluster.place_copies(&plain("p"), 10).expect("valid");
    assert_eq!((placed.len(), interrupt.was_over()), (3, true));
    assert_eq!(cluster.place_pending(), []);
    cluster.undo().expect("a transaction is open");
    cluster.set_interrupt(Interrupt::default());
    assert_eq!(cluster.place_copies(&plain("p"), 10).expect("valid").len(), 10);
}
