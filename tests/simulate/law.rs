//! A law over generated clusters: every output format and level of detail places the same pods on the same nodes.

use crate::support::{Files, list, node, pod};
use clap::Parser as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use supercargo::args::{Args, Command};
use supercargo_cli::commands::simulate::Simulation;
use supercargo_dev::draw::Draw;
use supercargo_dev::generate::{FAMILIES, scenario};

/// Output formats and levels of detail; the first is the reference.
const FORMS: [(&str, &str); 9] = [
    ("json", "full"),
    ("json", "brief"),
    ("json", "none"),
    ("table", "full"),
    ("table", "brief"),
    ("table", "none"),
    ("wide", "full"),
    ("wide", "none"),
    ("yaml", "none"),
];
/// The compared combinations: one for each way to make a decision.
const COMPARED: [(&str, &str); 5] =
    [FORMS[0], ("json", "brief"), ("json", "none"), ("table", "none"), ("wide", "full")];
/// Scenarios per family, together about 500 decisions in a few seconds of a debug build.
const SCENARIOS: u64 = 8;
const SEED: u64 = 16;
/// Number of generated clusters in which pods compete for volumes.
const CONTESTS: u64 = 40;

/// The pods with their nodes, from a report in any format.
type Placed = Vec<(String, Option<String>)>;

fn placed_of(report: &str, form: &str) -> Placed {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let "table" | "wide" = form {
        let row = |line: &str| {
            let mut words = line.split_whitespace().map(str::to_owned);
            (words.next().expect("a pod"), words.next().filter(|node| node != "<none>"))
        };
        return report.lines().skip(1).take_while(|line| !line.is_empty()).map(row).collect();
    }
    let report: Value = if form == "yaml" {
        serde_saphyr::from_str(report).expect("a report")
    } else {
        serde_json::from_str(report).expect("a report")
    };
    let decisions = report["decisions"].as_array().expect("a list");
    decisions.iter().map(|it| (text(&it["pod"]).expect("a name"), text(&it["node"]))).collect()
}

fn placed(files: &Files, more: &[&str], (form, detail): (&str, &str)) -> Placed {
    let path = |name: &str| files.path().join(name).display().to_string();
    let (cluster, pods) = (path("cluster"), path("pods"));
    let mut args = vec!["supercargo", "simulate", "--cluster", &cluster, "--pods", &pods, "-o", form];
    args.extend(["--detail", detail]);
    args.extend(more);
    let Some(Command::Simulate(args)) = Args::parse_from(args).command else { panic!("another command") };
    let simulation = Simulation::load(&args, &mut std::io::empty()).expect("the files are valid");
    let mut report = Vec::new();
    simulation.run(&mut report).expect("writing to memory succeeds");
    placed_of(&String::from_utf8(report).expect("the report is UTF-8"), form)
}

#[test]
fn every_output_and_detail_gives_the_same_placements() {
    let families = u64::try_from(FAMILIES.len()).expect("the number is small");
    let (mut decisions, mut found) = (0, Vec::new());
    for number in 0..families * SCENARIOS {
        let scenario = scenario(FAMILIES, SEED, number);
        let objects = |field: &str| list(scenario[field].as_array().map_or(&[], Vec::as_slice));
        let files = Files::with(&objects("objects"), &objects("pods"));
        let config = files.write("config", &scenario["config"].to_string()).display().to_string();
        let round = number / families;
        let preemption = if round % 2 == 0 { "report" } else { "apply" };
        let tie_break = if round % 3 == 0 { "name" } else { "seeded" };
        let mut more = vec!["--as-written", "--preemption", preemption, "--tie-break", tie_break];
        if scenario["config"].is_object() {
            more.extend(["--config", &config]);
        }
        let first = placed(&files, &more, COMPARED[0]);
        decisions += first.len();
        let differs = COMPARED[1..].iter().filter(|&&form| placed(&files, &more, form) != first);
        found.extend(differs.map(|form| format!("{} {preemption} {tie_break} {form:?}", scenario["name"])));
    }
    assert!(found.is_empty(), "{} differ: {}", found.len(), found.join(", "));
    assert!(decisions > 400, "{decisions} decisions");
}

/// Generates a few nodes, and pods whose claims compete for volumes of several sizes, some reachable from one node
/// only.
fn contest(draw: &mut Draw) -> (Vec<Value>, Vec<Value>) {
    let nodes = draw.between(1, 5);
    let (volumes, pods) = (draw.between(1, 6), draw.between(2, 7));
    let mut objects = storage(volumes, pods);
    for it in &mut objects {
        let size = format!("{}Gi", draw.between(1, 3));
        match it["kind"].as_str() {
            Some("PersistentVolume") => {
                it["spec"]["capacity"]["storage"] = json!(size);
                if draw.percent(60) {
                    let name = format!("n{}", draw.below(nodes));
                    let here = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [name] });
                    it["spec"]["nodeAffinity"] =
                        json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [here] }] } });
                }
            }
            Some("PersistentVolumeClaim") => it["spec"]["resources"]["requests"]["storage"] = json!(size),
            _ => {}
        }
    }
    objects.extend((0..nodes).map(|at| node(&format!("n{at}"), 6)));
    let claim = |draw: &mut Draw| format!("data-{}", draw.below(pods));
    let pods = (0..pods).map(|at| {
        let mut pod = mounts(&format!("p{at}"), &format!("data-{at}"));
        if draw.percent(30) {
            let more = json!({ "name": "more", "persistentVolumeClaim": { "claimName": claim(draw) } });
            pod["spec"]["volumes"].as_array_mut().expect("a list").push(more);
        }
        pod
    });
    let pods = pods.collect();
    (objects, pods)
}

#[test]
fn every_detail_reserves_the_same_volumes() {
    let (mut found, mut placed_all) = (Vec::new(), 0);
    for number in 0..CONTESTS {
        let (objects, pods) = contest(&mut Draw::new(SEED, number));
        let files = Files::with(&list(&objects), &list(&pods));
        let first = placed(&files, &[], COMPARED[0]);
        placed_all += usize::from(first.iter().all(|(_, node)| node.is_some()));
        let differs = COMPARED[1..].iter().filter(|&&form| placed(&files, &[], form) != first);
        found.extend(differs.map(|form| format!("contest {number} {form:?}")));
    }
    assert!(found.is_empty(), "{} differ: {}", found.len(), found.join(", "));
    assert!(placed_all < CONTESTS as usize / 2, "{placed_all} without a loser");
}

/// Returns this many volumes that bind with their pods, and one claim per pod.
fn storage(volumes: usize, pods: usize) -> Vec<Value> {
    let mut objects = vec![json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "local" },
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    })];
    objects.extend((0..volumes).map(|at| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": format!("pv-{at}") },
            "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "local" },
            "status": { "phase": "Available" },
        })
    }));
    objects.extend((0..pods).map(|at| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": format!("data-{at}") },
            "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "resources": { "requests": { "storage": "1Gi" } } },
        })
    }));
    objects
}

fn mounts(name: &str, claim: &str) -> Value {
    let volumes = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
    pod(name, 1, &json!({ "volumes": volumes }))
}

#[test]
fn each_volume_is_reserved_once_at_every_output_and_detail() {
    let mut objects: Vec<Value> = (0..4).map(|at| node(&format!("n{at}"), 8)).collect();
    objects.extend(storage(5, 9));
    let pods: Vec<Value> = (0..9).map(|at| mounts(&format!("p{at}"), &format!("data-{at}"))).collect();
    let files = Files::with(&list(&objects), &list(&pods));
    let first = placed(&files, &[], FORMS[0]);
    assert_eq!(first.iter().filter(|(_, node)| node.is_some()).count(), 5, "{first:?}");
    for form in FORMS {
        assert_eq!(placed(&files, &[], form), first, "{form:?}");
    }
    // The table of a what-if uses cached decisions.
    objects.extend(pods);
    let files = Files::with(&list(&objects), "");
    let flags = ["--cluster", "cluster", "--add-nodes", "1:template=n0"];
    for more in [&["-o", "json"][..], &["-o", "json", "--detail", "none"], &["-o", "yaml"]] {
        let ran = files.run(&[&flags, more].concat(), "");
        let placed = placed_of(&ran.stdout, more[1]);
        assert_eq!(placed.iter().filter(|(_, node)| node.is_some()).count(), 5, "{more:?}: {placed:?}");
    }
    for form in ["table", "wide"] {
        let ran = files.run(&[&flags[..], &["-o", form]].concat(), "");
        assert!(ran.stderr.contains("5 of 9 pods placed"), "{form}: {ran:?}");
    }
}

#[test]
fn read_write_once_pod_claim_is_given_to_one_pod() {
    let mut objects = vec![node("a", 8), node("b", 8)];
    objects.extend(storage(1, 1));
    objects.last_mut().expect("a claim")["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    let volume = objects.iter_mut().find(|it| it["kind"] == "PersistentVolume").expect("a volume");
    volume["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    let files = Files::with(&list(&objects), &list(&[mounts("p", "data-0"), mounts("q", "data-0")]));
    for form in FORMS {
        let nodes: Vec<bool> = placed(&files, &[], form).iter().map(|(_, node)| node.is_some()).collect();
        assert_eq!(nodes, [true, false], "{form:?}");
    }
}

#[test]
fn volumes_to_provision_count_against_the_node_limit() {
    let csi = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": "a" },
        "spec": { "drivers": [{ "name": "csi.example.com", "nodeID": "a", "allocatable": { "count": 2 } }] },
    });
    let mut objects = vec![node("a", 8), csi];
    objects.extend(storage(0, 4));
    objects[2]["provisioner"] = json!("csi.example.com");
    let pods: Vec<Value> = (0..4).map(|at| mounts(&format!("p{at}"), &format!("data-{at}"))).collect();
    let files = Files::with(&list(&objects), &list(&pods));
    for form in FORMS {
        let nodes: BTreeSet<String> =
            placed(&files, &[], form).into_iter().filter_map(|(pod, node)| node.map(|_| pod)).collect();
        assert_eq!(nodes.len(), 2, "{form:?}: {nodes:?}");
    }
}
