//! Times cycles of pod groups in process, beside the real kube-scheduler's on the same scenario.
//!
//! ```text
//! cargo bench -p supercargo-dev --bench groups -- [--workload W] [--oracle target/upstream/1.37/bin/oracle]
//! ```
//!
//! A scenario creates one group after the other. Each side plays all of it, in the format of the recorded scenarios,
//! with every node scored by one thread. A figure is the CPU time of the cycles that a group needs, from the creation
//! of its pods until nothing is left to decide; events and writes are left out.
//!
//! Prints a table without thresholds. Requires Linux for CPU time.

#[path = "../../../benches/report/mod.rs"]
mod report;

use clap::Parser;
use nix::time::{ClockId, clock_gettime};
use report::{Numbers, Table, circumstances};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use supercargo_core::model::emulation::Compat;
use supercargo_dev::golden::groups::{GroupScenario, time};

const RACK: &str = "rack";
const HOSTNAME: &str = "kubernetes.io/hostname";
const GATES: [&str; 2] = ["GenericWorkload", "TopologyAwareWorkloadScheduling"];

#[derive(Parser)]
#[command(name = "groups", about = "Times cycles of pod groups")]
struct Args {
    /// Workload to run [default: all]
    #[arg(long)]
    workload: Option<String>,
    /// Number of groups [default: that of the workload]
    #[arg(long)]
    groups: Option<usize>,
    /// Number of runs of each side
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Also time kube-scheduler, by the oracle of 1.37 at this path
    #[arg(long)]
    oracle: Option<PathBuf>,
    /// Accepted and ignored: cargo passes it
    #[arg(long, hide = true)]
    bench: bool,
}

/// How the members of a group differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Members {
    /// In nothing but their names.
    Identical,
    /// In a label with their index, as an Indexed Job's pods.
    Indexed,
    /// In their requests; and each keeps the others from its node.
    Apart,
}

/// Groups of one kind in a cluster.
struct Workload {
    id: &'static str,
    about: &'static str,
    nodes: usize,
    racks: usize,
    /// Number of groups that are created one after the other.
    groups: usize,
    size: usize,
    /// Number of members with which a group starts.
    minimum: usize,
    members: Members,
    /// Whether a group requires all its members in one rack.
    in_rack: bool,
    /// Whether pods of lower priority fill all nodes.
    is_full: bool,
}

fn workloads() -> Vec<Workload> {
    let usual = Workload {
        id: "racks-200",
        about: "4 members in one of 200 racks",
        nodes: 5_000,
        racks: 200,
        groups: 20,
        size: 4,
        minimum: 4,
        members: Members::Identical,
        in_rack: true,
        is_full: false,
    };
    let large =
        |id, about, members| Workload { id, about, groups: 5, size: 48, minimum: 48, members, ..usual };
    vec![
        Workload { id: "racks-50", about: "4 members in one of 50 racks", racks: 50, ..usual },
        large("identical", "48 identical members in one of 200 racks", Members::Identical),
        large("indexed", "48 members of an Indexed Job in one of 200 racks", Members::Indexed),
        Workload {
            // A rack has 25 nodes.
            minimum: 24,
            ..large(
                "apart",
                "48 members with different requests, each on a node of its own, in one of 200 racks",
                Members::Apart,
            )
        },
        Workload {
            id: "preempting",
            about: "64 members that preempt on 300 full nodes",
            nodes: 300,
            racks: 10,
            groups: 1,
            size: 64,
            minimum: 64,
            in_rack: false,
            is_full: true,
            ..usual
        },
        Workload {
            id: "thousand",
            about: "1,000 members on 5,000 nodes, without a topology key",
            groups: 3,
            size: 1_000,
            minimum: 1_000,
            in_rack: false,
            ..usual
        },
        usual,
    ]
}

impl Workload {
    fn scenario(&self, groups: usize) -> Value {
        let mut objects: Vec<Value> = (0..self.nodes).map(|at| self.node(at)).collect();
        if self.is_full {
            // Four on each node, which leave no room.
            objects.extend((0..4 * self.nodes).map(|at| {
                let mut pod = pod(&format!("low-{at}"), &json!({}), 8_000, 0);
                pod["spec"]["nodeName"] = node_name(at % self.nodes).into();
                pod["status"] = json!({"phase": "Running", "startTime": "2023-11-14T22:24:59Z"});
                pod
            }));
        }
        let steps: Vec<Value> = (0..groups).map(|at| self.group(&format!("g{at}"))).collect();
        json!({"name": self.id, "version": "1.37", "gates": GATES, "objects": objects, "steps": steps})
    }

    fn node(&self, at: usize) -> Value {
        let name = node_name(at);
        let labels = json!({HOSTNAME: name, RACK: format!("r{:03}", at % self.racks)});
        let amounts = json!({"cpu": "32", "memory": "256Gi", "pods": "110"});
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": labels},
            "spec": {},
            "status": {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    /// Returns the step that creates a group with its pods.
    fn group(&self, name: &str) -> Value {
        let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": self.minimum}}, "priority": 10});
        if self.in_rack {
            spec["schedulingConstraints"] = json!({"topology": [{"key": RACK}]});
        }
        let group = json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-pg-{name}")}, "spec": spec, "status": {},
        });
        let members = (0..self.size).map(|at| {
            let mut labels = json!({"job": name});
            if self.members == Members::Indexed {
                labels["batch.kubernetes.io/job-completion-index"] = at.to_string().into();
            }
            let cpu = if self.members == Members::Apart { 1_000 + at } else { 4_000 };
            let mut pod = pod(&format!("{name}-{at}"), &labels, cpu, 10);
            pod["spec"]["schedulingGroup"] = json!({"podGroupName": name});
            if self.members == Members::Apart {
                pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                    json!([{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"job": name}}}]);
            }
            json!({"create": pod})
        });
        let changes: Vec<Value> = std::iter::once(json!({"create": group})).chain(members).collect();
        json!({"do": changes})
    }
}

fn node_name(at: usize) -> String {
    format!("n{at:05}")
}

fn pod(name: &str, labels: &Value, cpu: usize, priority: i32) -> Value {
    let requests = json!({"cpu": format!("{cpu}m"), "memory": "128Mi"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": labels,
            "creationTimestamp": "2023-11-14T22:13:23Z"},
        "spec": {
            "containers": [{"name": "c", "image": "registry.example/x:1", "resources": {"requests": requests}}],
            "priority": priority, "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
        },
        "status": {},
    })
}

fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux has this clock").into()
}

/// The figures of one run.
struct Side {
    /// Milliseconds of each group.
    each: Vec<f64>,
    /// The number of pods with a node at the end.
    bound: usize,
    cycles: usize,
}

fn ours(scenario: &Value) -> Side {
    let scenario: GroupScenario = serde_json::from_value(scenario.clone()).expect("it is a scenario");
    let costs = time(&scenario, Compat::Repaired, cpu);
    Side {
        each: costs.iter().map(|it| it.spent.as_secs_f64() * 1e3).collect(),
        bound: costs.last().map_or(0, |it| it.bound),
        cycles: costs.iter().map(|it| it.cycles).sum(),
    }
}

fn upstream(oracle: &Path, file: &Path) -> (Side, String) {
    let output = Command::new(oracle).arg("time-groups").arg(file).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", oracle.display()));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    let number = |line: &Value, field: &str| line[field].as_u64().and_then(|it| usize::try_from(it).ok());
    let side = Side {
        each: lines.iter().map(|line| line["cpu_us"].as_f64().unwrap_or_default() / 1e3).collect(),
        bound: lines.last().and_then(|line| number(line, "bound")).unwrap_or_default(),
        cycles: lines.iter().filter_map(|line| number(line, "cycles")).sum(),
    };
    (side, lines.first().and_then(|line| line["impl"].as_str()).unwrap_or_default().to_owned())
}

fn main() -> io::Result<()> {
    let args = Args::parse();
    let all = workloads();
    if let Some(id) = args.workload.as_deref().filter(|id| all.iter().all(|it| it.id != *id)) {
        let known: Vec<&str> = all.iter().map(|it| it.id).collect();
        let text = format!("groups: no workload {id}; there are {}", known.join(", "));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut table = Table::new(&[
        "workload",
        "groups",
        "supercargo, ms a group",
        "kube-scheduler, ms a group",
        "ratio",
        "pods with a node",
        "cycles",
    ]);
    let mut version = "without kube-scheduler".to_owned();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("scenario.json");
    for workload in all.iter().filter(|it| args.workload.as_deref().is_none_or(|id| it.id == id)) {
        let groups = args.groups.unwrap_or(workload.groups);
        let scenario = workload.scenario(groups);
        fs::write(&file, scenario.to_string())?;
        let (mut own, mut other, mut ratio) = (Numbers::default(), Numbers::default(), Numbers::default());
        let (mut bound, mut cycles) = (String::new(), String::new());
        for _ in 0..args.runs.max(1) {
            let run = ours(&scenario);
            run.each.iter().for_each(|it| own.push(*it));
            (bound, cycles) = (run.bound.to_string(), run.cycles.to_string());
            if let Some(oracle) = &args.oracle {
                let (beside, of) = upstream(oracle, &file);
                beside.each.iter().for_each(|it| other.push(*it));
                ratio.push(beside.each.iter().sum::<f64>() / run.each.iter().sum::<f64>());
                bound = format!("{bound} and {}", beside.bound);
                cycles = format!("{cycles} and {}", beside.cycles);
                version = of;
            }
        }
        table.row(&[
            format!("{}: {}", workload.id, workload.about),
            groups.to_string(),
            own.median_and_range(),
            other.median_and_range(),
            ratio.median_and_range(),
            bound,
            cycles,
        ]);
    }
    writeln!(io::stdout(), "{}\n\n{}", circumstances(&version), table.text())
}
