//! `make conformance`: runs upstream's own e2e tests `[sig-scheduling]` with kube-scheduler and with supercargo as the
//! default scheduler, and writes docs/conformance.md.
//!
//! Each run has its own control plane with kwok nodes. `tests/upstream/build.sh` builds the binaries and the tests.

mod page;
mod report;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use supercargo_dev::harness::binaries::{PINNED, binary_of, target_dir};
use supercargo_dev::harness::objects::{pod, wait_until_bound};
use supercargo_dev::harness::{
    Access, Component, ControlPlane, KwokNode, Process, Program, nodes, supercargo,
};

use report::Report;

/// The longest run of all tests of a version with one scheduler. Usual are ten minutes.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// Nodes of a cluster. Some tests need two.
const NODES: usize = 3;

/// Label of a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Parser)]
#[command(
    name = "conformance",
    about = "Run upstream's e2e tests of the scheduler with kube-scheduler and with supercargo"
)]
struct Args {
    /// Minor version of Kubernetes, its tests and its API server; may be repeated
    #[arg(long = "version", value_name = "VERSION", default_value = PINNED)]
    versions: Vec<String>,
    /// Tests to run, as a regular expression over their full names
    #[arg(long, value_name = "REGEX", default_value = r"\[sig-scheduling\]")]
    focus: String,
    /// Write the page from the reports of earlier runs, without tests
    #[arg(long)]
    page: bool,
}

/// The scheduler of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheduler {
    KubeScheduler,
    Supercargo,
}

impl Scheduler {
    const ALL: [Self; 2] = [Self::KubeScheduler, Self::Supercargo];

    fn name(self) -> &'static str {
        match self {
            Self::KubeScheduler => "kube-scheduler",
            Self::Supercargo => "supercargo",
        }
    }
}

// A run occupies a thread while it waits for its tests.
#[tokio::main(worker_threads = 4)]
async fn main() -> Result<()> {
    let args = Args::parse();
    let folder = target_dir().join("conformance");
    std::fs::create_dir_all(&folder)?;
    if !args.page {
        for version in &args.versions {
            // Most of a run is waiting, so both schedulers are tested at once.
            let runs = Scheduler::ALL.map(|scheduler| {
                let (version, focus, folder) = (version.clone(), args.focus.clone(), folder.clone());
                tokio::spawn(async move { run(&version, scheduler, &focus, &folder).await })
            });
            for run in runs {
                run.await??;
            }
        }
    }
    page::write(&folder)
}

/// Returns the path of the report of a run.
fn report_path(folder: &Path, version: &str, scheduler: Scheduler) -> PathBuf {
    folder.join(format!("{version}-{}.json", scheduler.name()))
}

/// Runs the tests of a version with a scheduler, and writes their report.
async fn run(version: &str, scheduler: Scheduler, focus: &str, folder: &Path) -> Result<()> {
    let began = Instant::now();
    let tests = binary_of(version, "e2e.test")?;
    let builder =
        ControlPlane::builder().version(version).with([Component::ControllerManager, Component::Kwok]);
    let plane = builder.start().await?;
    // Each in its own zone: the multi-zone tests skip themselves otherwise.
    let node = |number| KwokNode::new(&format!("node-{number}")).label(ZONE, &format!("zone-{number}"));
    let fleet: Vec<_> = (1..=NODES).map(node).collect();
    let client = plane.client().await?;
    nodes::create_all(&client, &fleet).await?;
    let mut running = start(&plane, version, scheduler)?;
    create_node_agents(&client, &fleet).await?;
    let json = report_path(folder, version, scheduler);
    let program = Program::new("e2e", tests).args([
        format!("--kubeconfig={}", plane.admin().kubeconfig().display()),
        format!("--ginkgo.focus={focus}"),
        format!("--ginkgo.json-report={}", json.display()),
        format!("--ginkgo.timeout={}s", TIMEOUT.as_secs()),
        // Tests of features that are off by default need gates that a cluster of kubeadm does not set.
        String::from(r"--ginkgo.skip=\[Feature:OffByDefault\]"),
        String::from("--ginkgo.seed=1"),
        // kwok deletes a pod by its name, and may hit the next pod of that name.
        String::from("--ginkgo.flake-attempts=2"),
        String::from("--ginkgo.no-color"),
        String::from("--provider=skeleton"),
        String::from("--disable-log-dump=true"),
    ]);
    let _ = std::fs::remove_file(&json);
    let mut e2e = plane.launch(&program)?;
    let ended = e2e.wait(TIMEOUT + Duration::from_secs(60));
    let log = folder.join(format!("{version}-{}.log", scheduler.name()));
    std::fs::copy(e2e.log(), &log).with_context(|| format!("cannot write {}", log.display()))?;
    ended?;
    running.check()?;
    let report = Report::read(&json)?;
    ensure!(!report.tests.is_empty(), "no test of {version} matches {focus}; see {}", log.display());
    eprintln!(
        "conformance: {version}, {}: {} of {} passed in {:.0} s",
        scheduler.name(),
        report.passed(),
        report.tests.len(),
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Creates the system pods that the tests expect on each node, and waits until the scheduler has placed them. Without
/// them, each test waits a minute for them.
async fn create_node_agents(client: &Client, fleet: &[KwokNode]) -> Result<()> {
    let pods = Api::<Pod>::namespaced(client.clone(), "kube-system");
    for node in fleet {
        for agent in ["kube-proxy", "fluentd-elasticsearch", "node-problem-detector"] {
            let name = format!("{agent}-{}", node.name());
            let spec = json!({"nodeSelector": {"kubernetes.io/hostname": node.name()}});
            pods.create(&PostParams::default(), &pod(&name, "default-scheduler", &spec)?).await?;
            wait_until_bound(client, "kube-system", &name).await?;
        }
    }
    Ok(())
}

/// Starts the scheduler with the arguments of a kubeadm cluster.
fn start(plane: &ControlPlane, version: &str, scheduler: Scheduler) -> Result<Process> {
    let identity: Access = plane.user("system:kube-scheduler", None)?;
    let path = match scheduler {
        Scheduler::KubeScheduler => binary_of(version, "kube-scheduler")?,
        Scheduler::Supercargo => {
            // Under this name, it has kube-scheduler's defaults.
            let link = plane.folder().join("kube-scheduler");
            symlink(supercargo::binary()?, &link)?;
            link
        }
    };
    let kubeconfig = identity.kubeconfig().display();
    let program = Program::new("scheduler", path).args([
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        String::from("--bind-address=127.0.0.1"),
        format!("--secure-port={}", plane.port(Component::Scheduler)),
        String::from("--leader-elect=true"),
    ]);
    plane.launch(&program)
}
