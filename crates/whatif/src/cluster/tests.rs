//! Whatever happens within a transaction, undoing it restores the cluster and every later decision.

mod followed;

use super::{Cluster, ClusterError, Diff, Dump, Moved, NodeTemplate, Place, Placement, Setup};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use supercargo_config::flags::gates;

/// Runs of the law; each takes a few milliseconds of a debug build.
const RUNS: u64 = 120;
const GATES: [&str; 4] = [
    "GenericWorkload=true",
    "GangScheduling=true",
    "TopologyAwareWorkloadScheduling=true",
    "WorkloadAwarePreemption=true",
];

const PACKING: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n";

/// A deterministic sequence of random numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn percent(&mut self, of_hundred: usize) -> bool {
        self.below(100) < of_hundred
    }
}

pub(crate) fn node(name: &str, random: &mut Random) -> Value {
    let zone = ["z1", "z2"][random.below(2)];
    let cpu = ["2", "4", "8"][random.below(3)];
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, "zone": zone } }, "spec": {},
        "status": { "allocatable": { "cpu": cpu, "memory": "8Gi", "pods": "10", "example.com/card": "2" } },
    });
    if random.percent(60) {
        node["status"]["images"] = json!([{ "names": ["big:1"], "sizeBytes": 900_000_000 }]);
    }
    if random.percent(15) {
        node["spec"]["taints"] = json!([{ "key": "spot", "effect": "PreferNoSchedule" }]);
    }
    node
}

pub(crate) fn pod(name: &str, random: &mut Random) -> Value {
    let app = ["web", "db"][random.below(2)];
    let cpu = ["250m", "1", "2", "3"][random.below(4)];
    let requests = json!({ "cpu": cpu, "memory": "1Gi" });
    let image = ["big:1", "small:1"][random.below(2)];
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": app } },
        "spec": { "priority": random.below(3),
            "containers": [{ "name": "c", "image": image, "resources": { "requests": requests } }] },
    });
    let like = json!({ "matchLabels": { "app": app } });
    match random.below(9) {
        0 => {
            let term = json!({ "topologyKey": "zone", "labelSelector": like });
            pod["spec"]["affinity"] =
                json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
        }
        1 => {
            pod["spec"]["topologySpreadConstraints"] = json!([{ "maxSkew": 1, "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": like }]);
        }
        2 => pod["spec"]["containers"][0]["ports"] = json!([{ "containerPort": 80, "hostPort": 80 }]),
        3 => {
            let claim = format!("claim{}", random.below(2));
            pod["spec"]["volumes"] =
                json!([{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }]);
        }
        4 => {
            pod["spec"]["resourceClaims"] =
                json!([{ "name": "gpu", "resourceClaimName": format!("gpu{}", random.below(2)) }]);
        }
        5 => {
            let card = json!({ "example.com/card": "1" });
            pod["spec"]["containers"][0]["resources"]["limits"] = card.clone();
            pod["spec"]["containers"][0]["resources"]["requests"]["example.com/card"] =
                card["example.com/card"].clone();
        }
        _ => {}
    }
    pod
}

/// Returns a group of two members, and its pods.
pub(crate) fn group(name: &str, random: &mut Random) -> Vec<Value> {
    let mut objects = vec![json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": { "name": name },
        "spec": { "schedulingPolicy": { "gang": { "minCount": 2 } }, "priority": 2 * random.below(2) },
    })];
    for at in 0..2 {
        let mut member = pod(&format!("{name}-{at}"), random);
        member["spec"]["schedulingGroup"] = json!({ "podGroupName": name });
        member["spec"]["priority"] = objects[0]["spec"]["priority"].clone();
        objects.push(member);
    }
    objects
}

fn workload(name: &str, random: &mut Random) -> Value {
    let like = pod(name, random);
    json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": name },
        "spec": { "replicas": 1 + random.below(3), "selector": { "matchLabels": like["metadata"]["labels"] },
            "template": { "metadata": { "labels": like["metadata"]["labels"] }, "spec": like["spec"] } } })
}

/// Returns claims for volumes and devices, and what they can get.
pub(crate) fn storage() -> Vec<Value> {
    let mut objects = vec![
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "late" },
            "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer" }),
        json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "gpu" }, "spec": {} }),
        json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": "n0-slice" },
            "spec": { "driver": "d.example.com", "nodeName": "n0", "devices": [{ "name": "a" }, { "name": "b" }],
                "pool": { "name": "n0", "generation": 1, "resourceSliceCount": 1 } } }),
    ];
    for at in 0..2 {
        let local = json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions":
            [{ "key": "kubernetes.io/hostname", "operator": "In", "values": [format!("n{at}")] }] }] } });
        objects.extend([
            json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": format!("pv{at}"), "resourceVersion": "1" },
                "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "nodeAffinity": local,
                    "storageClassName": "late", "local": { "path": "/" } }, "status": { "phase": "Available" } }),
            json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": format!("claim{at}"), "resourceVersion": "1" },
                "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
                    "resources": { "requests": { "storage": "1Gi" } } } }),
            json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": { "name": format!("gpu{at}") },
                "spec": { "devices": { "requests": [{ "name": "gpu", "exactly": { "deviceClassName": "gpu" } }] } } }),
        ]);
    }
    objects
}

pub(crate) fn setup() -> Setup {
    let gates = GATES.map(str::to_owned).to_vec();
    Setup { groups: gates::groups(&gates), ..Setup::default() }
}

fn cluster(random: &mut Random) -> Cluster {
    let mut objects = storage();
    objects.extend((0..2 + random.below(4)).map(|at| node(&format!("n{at}"), random)));
    let mut cluster = Cluster::from_objects(objects, &setup()).expect("the generated objects are valid");
    let running: Vec<Value> = (0..random.below(8)).map(|at| pod(&format!("r{at}"), random)).collect();
    cluster.place(&running).expect("the generated pods are valid");
    cluster
}

/// Returns the state, and the decisions about some pods, which are undone.
fn seen(cluster: &mut Cluster) -> (Dump, Vec<Placement>, Vec<Placement>) {
    let dump = cluster.dump();
    let mut random = Random(5);
    let pods: Vec<Value> = (0..9).map(|at| pod(&format!("probe{at}"), &mut random)).collect();
    cluster.fork();
    let probes = cluster.place(&pods).expect("the pods are new");
    let pending = cluster.place_pending();
    cluster.undo().expect("a transaction is open");
    (dump, probes, pending)
}

pub(crate) fn any_of(names: &[String], random: &mut Random) -> Option<String> {
    (!names.is_empty()).then(|| names[random.below(names.len())].clone())
}

/// Makes a random change. `number` makes names unique.
fn change(cluster: &mut Cluster, number: usize, configs: &[PathBuf], random: &mut Random) {
    let nodes: Vec<String> = cluster.nodes().into_iter().map(str::to_owned).collect();
    let placed: Vec<String> =
        cluster.pods.keys().filter(|key| cluster.node_of(key).is_some()).cloned().collect();
    let name = format!("p{number}");
    let done = match random.below(13) {
        0 | 1 => cluster.place(&[pod(&name, random), pod(&format!("{name}-b"), random)]).map(drop),
        2 => cluster.place(&[workload(&name, random)]).map(drop),
        3 => cluster.place(&group(&name, random)).map(drop),
        4 => cluster.place_copies(&pod(&name, random), 2).map(drop),
        5 => match any_of(&placed, random) {
            Some(pod) => cluster.evict(&pod).map(drop),
            None => Ok(()),
        },
        6 => match any_of(&nodes, random) {
            Some(node) => cluster.remove_node(&node).map(drop),
            None => Ok(()),
        },
        7 => match any_of(&nodes, random) {
            Some(like) => cluster.add_nodes(NodeTemplate::Like(&like), 1 + random.below(2)).map(drop),
            None => cluster.add_nodes(NodeTemplate::Object(&node(&name, random)), 1).map(drop),
        },
        8 => {
            let config: Option<&Path> = configs.get(random.below(configs.len() + 1)).map(PathBuf::as_path);
            cluster.set_config(config)
        }
        9 => match any_of(&nodes, random) {
            Some(node) => cluster.taint(&node, "team=a:NoSchedule").and_then(|()| {
                if random.percent(50) { cluster.untaint(&node, "team=a:NoSchedule") } else { Ok(()) }
            }),
            None => Ok(()),
        },
        10 => match cluster.workloads().first().cloned() {
            Some(of) => cluster.scale(&of.kind, &of.namespace, &of.name, random.below(6)),
            None => Ok(()),
        },
        11 => cluster.set_config_text("packing", if random.percent(50) { PACKING } else { "" }),
        _ => {
            cluster.place_pending();
            cluster.fits(&group(&format!("f{number}"), random)).map(drop)
        }
    };
    done.expect("a generated change is valid");
}

fn configurations(folder: &Path) -> Vec<PathBuf> {
    let path = folder.join("packing.yaml");
    std::fs::write(&path, PACKING).expect("the folder can be written");
    vec![path]
}

#[test]
fn undo_restores_cluster_queue_and_later_decisions() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let configs = configurations(folder.path());
    let (mut undone, mut placed, mut steps) = (0, 0, 0);
    for run in 0..RUNS {
        let mut random = Random(run);
        let mut cluster = cluster(&mut random);
        let mut states = Vec::new();
        for number in 0..18 {
            match random.below(6) {
                0 => {
                    states.push(seen(&mut cluster));
                    cluster.fork();
                }
                1 if !states.is_empty() => {
                    steps += cluster.undo().expect("a transaction is open");
                    let (before, now) = (states.pop().expect("one is open"), seen(&mut cluster));
                    assert_eq!(now, before, "run {run}, change {number}");
                    undone += 1;
                }
                2 if !states.is_empty() => {
                    cluster.commit().expect("a transaction is open");
                    states.pop();
                }
                _ => change(&mut cluster, number, &configs, &mut random),
            }
        }
        while let Some(before) = states.pop() {
            steps += cluster.undo().expect("a transaction is open");
            assert_eq!(seen(&mut cluster), before, "run {run}, at the end");
            undone += 1;
        }
        placed += cluster.pods.keys().filter(|key| cluster.node_of(key).is_some()).count();
        assert_eq!(cluster.undo(), Err(ClusterError::NoTransaction));
    }
    assert!(
        undone > 150 && steps > 1_000 && placed > 300,
        "{undone} undone in {steps} steps, {placed} placed"
    );
}

/// Returns the number of steps in which these changes are undone.
fn steps_of_undo(nodes: usize) -> usize {
    let mut random = Random(1);
    let objects = (0..nodes).map(|at| node(&format!("n{at}"), &mut random)).collect();
    let mut cluster = Cluster::from_objects(objects, &setup()).expect("the nodes are valid");
    let pods: Vec<Value> = (0..nodes).map(|at| plain(&format!("r{at}"))).collect();
    cluster.place(&pods).expect("the pods are valid");
    cluster.fork();
    cluster.place(&[plain("new")]).expect("the pod is valid");
    cluster.evict("default/r0").expect("it is placed");
    cluster.add_nodes(NodeTemplate::Like("n0"), 3).expect("the node exists");
    cluster.undo().expect("a transaction is open")
}

pub(crate) fn plain(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": { "containers":
        [{ "name": "c", "image": "small:1", "resources": { "requests": { "cpu": "250m" } } }] } })
}

#[test]
fn undo_takes_as_many_steps_in_a_large_cluster_as_in_a_small_one() {
    let (small, large) = (steps_of_undo(4), steps_of_undo(400));
    assert!((5..=40).contains(&small), "{small}");
    // The pods' nodes may differ in whether they have images, which costs one step more.
    assert!(large <= small + 4, "{small} and {large}");
}

#[test]
fn diff_names_what_the_innermost_transaction_changed() {
    let mut random = Random(3);
    let nodes = ["a", "b"].map(|name| node(name, &mut random));
    let mut cluster = Cluster::from_objects(nodes.to_vec(), &Setup::default()).expect("they are valid");
    cluster.place(&[plain("p")]).expect("it is valid");
    assert_eq!(cluster.diff(), Diff::default());
    let from = cluster.node_of("default/p").expect("it fits").to_owned();
    cluster.fork();
    cluster.remove_node(&from).expect("the node exists");
    cluster.add_nodes(NodeTemplate::Like(if from == "a" { "b" } else { "a" }), 1).expect("the node exists");
    let moved = Moved { from: Some(Place::Node(from.clone())), to: Some(Place::Pending) };
    let diff = cluster.diff();
    assert_eq!(diff.pods.into_iter().collect::<Vec<_>>(), [("default/p".to_owned(), moved)]);
    assert_eq!(diff.removed_nodes.into_iter().collect::<Vec<_>>(), [from]);
    assert_eq!((diff.added_nodes.len(), diff.is_reconfigured), (1, false));
    cluster.fork();
    assert_eq!(cluster.diff(), Diff::default());
    cluster.set_config(None).expect("the defaults are valid");
    assert!(cluster.diff().is_reconfigured);
    cluster.commit().expect("one is open");
    assert!(cluster.diff().is_reconfigured, "it is part of the outer transaction");
    cluster.undo().expect("one is open");
    assert_eq!((cluster.depth(), cluster.diff()), (0, Diff::default()));
}

#[test]
fn group_given_inline_fits_as_a_whole_or_not() {
    let mut random = Random(3);
    let mut small = node("a", &mut random);
    small["status"]["allocatable"]["cpu"] = "2".into();
    let mut cluster = Cluster::from_objects(vec![small], &setup()).expect("it is valid");
    let members = |cpu: &str| {
        let mut objects = group("g", &mut Random(8));
        for member in &mut objects[1..] {
            member["spec"] = json!({ "schedulingGroup": { "podGroupName": "g" }, "containers":
                [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": cpu } } }] });
        }
        objects
    };
    let before = cluster.dump();
    let fit = cluster.fits(&members("1")).expect("it is valid");
    assert!(fit.fits && fit.placements.len() == 2, "{fit:?}");
    let fit = cluster.fits(&members("1500m")).expect("it is valid");
    assert!(!fit.fits && fit.placements.iter().all(|it| it.node.is_none()), "{fit:?}");
    assert_eq!(cluster.dump(), before);
}

#[test]
fn failed_change_leaves_the_cluster_as_it_was_and_says_why() {
    let mut random = Random(3);
    let mut cluster = Cluster::from_objects(vec![node("a", &mut random)], &Setup::default()).expect("valid");
    cluster.place(&[plain("p")]).expect("it is valid");
    let before = cluster.dump();
    assert_eq!(cluster.remove_node("b"), Err(ClusterError::NoNode("b".to_owned())));
    assert_eq!(cluster.evict("default/q"), Err(ClusterError::NoPod("default/q".to_owned())));
    let again = cluster.place(&[plain("q"), plain("p")]);
    assert_eq!(again, Err(ClusterError::Exists("default/p".to_owned())));
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" }, "spec": {} });
    let refused = cluster.place(&[plain("q"), service]).expect_err("a service is not placed").to_string();
    assert_eq!(
        refused,
        "Service default/s: a Service is no part of what is placed; load it with the cluster"
    );
    let worker =
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "w" }, "spec": {} });
    let refused = cluster.place(&[plain("q"), worker]).expect_err("it has no template").to_string();
    assert_eq!(refused, "Deployment w: expected spec.template to be a pod template");
    let mut wrong = plain("q");
    wrong["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "much".into();
    let refused = cluster.place(&[wrong]).expect_err("the amount is invalid").to_string();
    assert!(refused.starts_with("pod default/q: ") && refused.contains("cpu"), "{refused}");
    assert_eq!(cluster.dump(), before);
    assert_eq!(cluster.commit(), Err(ClusterError::NoTransaction));
}

/// The recording of docs/record.md.
const RECORDING: &str = include_str!("../../../../docs/record/recording.jsonl");

#[test]
fn recording_shows_its_cluster_at_any_time() {
    let cluster = |until: Option<u64>| {
        let until = until.map(std::time::Duration::from_nanos);
        Cluster::from_recording(RECORDING.as_bytes(), until).expect("it is a recording")
    };
    // Its binding succeeded, the watch does not show it yet, and later the pod is gone.
    let mut bound = cluster(Some(16_000_000));
    assert_eq!(bound.node_of("default/p10"), Some("n2"));
    let end = cluster(None);
    assert_eq!((end.nodes().len(), end.node_of("default/p10")), (4, None));
    let placed = bound.place_pending();
    let p9 = placed.iter().find(|it| it.pod == "default/p9").expect("it is pending");
    let message = p9.message.as_deref().unwrap_or_default();
    assert!(
        message.starts_with("0/4 nodes are available: 4 node(s) didn't match Pod's node affinity"),
        "{message}"
    );

    assert_eq!(cluster(Some(0)).nodes(), Vec::<&str>::new());
    let early = cluster(Some(14_800_000));
    assert!(
        early.pending().any(|pod| pod == "default/p8") && !early.pending().any(|pod| pod == "default/p9")
    );
}

#[test]
fn recording_with_a_malformed_line_is_refused_with_its_number() {
    let broken = RECORDING.replacen("{\"decided\"", "{\"decide\"", 1);
    let error = Cluster::from_recording(broken.as_bytes(), None).err().map(|error| error.to_string());
    let line = 1 + broken.lines().position(|line| line.starts_with("{\"decide\"")).expect("it is there");
    assert!(error.as_deref().is_some_and(|error| error.contains(&format!("line {line}: "))), "{error:?}");
}
