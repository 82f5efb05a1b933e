//! Times pods from creation to observed binding on a real kube-apiserver and etcd, with kube-scheduler (client limits
//! raised), supercargo and a no-op binder. `make bench-e2e` writes the results to `docs/benchmarks.md`.
//!
//! Each run has a newly started API server and an etcd on a fresh copy of the same data; the three binders alternate.
//! First a burst: the pods exist when the scheduler starts, and wall time and CPU time count from the first to the
//! last observed binding. Then pods are created at a fixed rate regardless of progress, and each pod's time counts
//! from its due time. Requires Linux.
//!
//! `--part ceiling` compares larger bursts of supercargo and the no-op binder: the share of the API server's
//! throughput reached after startup. `--part claims` gives each pod a ResourceClaim, and the no-op binder writes the
//! same claims. `--part group` measures a gang that waits for room. `--part asked` measures the cost of a client that
//! continuously queries pending pods. `--part start` measures startup with many running pods; all sides take turns on
//! one control plane.

mod asked;
mod asker;
mod group;
mod lister;
mod load;
mod null_binder;
mod run;
mod side;
mod stage;
mod start;
mod start_tables;
mod tables;
mod watch;

#[path = "../report/mod.rs"]
mod report;
use supercargo_dev::harness;
#[path = "../workloads/mod.rs"]
mod workloads;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use run::{Outcome, Plan};
use side::Side;
use stage::Stage;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use workloads::{Size, Workload};

#[derive(Parser)]
#[command(name = "e2e", about = "Time pods from creation to binding on a real API server")]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Part to measure
    #[arg(long, value_enum, default_value_t = Part::WholeWay)]
    part: Part,
    /// Workloads [default: all of `oracle time`; basic and spread for asked; basic for start; claims for claims]
    #[arg(long = "workload")]
    workloads: Vec<String>,
    /// Binders to run: null-binder, kube-scheduler, supercargo [default: all]
    #[arg(long = "side")]
    sides: Vec<String>,
    /// Number of rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Number of nodes [default: 5000; 2000 for asked; 1000 for claims and group]
    #[arg(long)]
    nodes: Option<usize>,
    /// Number of existing pods [default: 10000; 4000 for asked; 50000 for start; 0 for claims; none for group]
    #[arg(long)]
    existing: Option<usize>,
    /// Number of pods in the burst [default: 1000; 5000 for ceiling]
    #[arg(long)]
    pods: Option<usize>,
    /// Number of unschedulable pods to query
    #[arg(long, default_value_t = 100)]
    waiting: usize,
    /// Pods created per second after the burst; may be repeated [default: 50 and 100; 50, 100 and 200 for asked; none
    /// for ceiling, claims and group]
    #[arg(long = "rate")]
    rates: Vec<u32>,
    /// Duration of each rate in seconds
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Write docs/benchmarks.md instead of printing
    #[arg(long)]
    write: bool,
    /// Added by cargo
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

/// A part of `docs/benchmarks.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Pods from creation to binding, with three binders.
    WholeWay,
    /// Larger bursts with supercargo and the no-op binder.
    Ceiling,
    /// Pods with a ResourceClaim each, with three binders.
    Claims,
    /// A gang of many members that waits for room, with three binders. The feature gates of pod groups are on.
    Group,
    /// supercargo with and without a client that queries pending pods.
    Asked,
    /// Startup with many running pods.
    Start,
}

#[derive(Subcommand)]
enum Command {
    /// Run the no-op binder
    NullBinder {
        /// Kubeconfig file
        kubeconfig: PathBuf,
    },
    /// Read supercargo's initial lists, and bind one pod
    Lister {
        /// Kubeconfig file
        kubeconfig: PathBuf,
        /// Name of the pod
        pod: String,
        /// Name of the node
        node: String,
    },
}

impl Args {
    fn plan(&self) -> Plan {
        let (nodes, existing, pods, rates): (_, _, _, &[u32]) = match self.part {
            Part::WholeWay => (5_000, 10_000, 1_000, &[50, 100]),
            Part::Ceiling => (5_000, 10_000, 5_000, &[]),
            Part::Claims => (1_000, 0, 1_000, &[]),
            Part::Group => (1_000, 0, 1_000, &[]),
            Part::Asked => (2_000, 4_000, 1_000, &[50, 100, 200]),
            Part::Start => (5_000, 50_000, 1_000, &[]),
        };
        let size = Size {
            nodes: self.nodes.unwrap_or(nodes),
            existing: self.existing.unwrap_or(existing),
            pods: self.pods.unwrap_or(pods),
            signatures: 1,
            waiting: 0,
        };
        let rates = if self.rates.is_empty() { rates.to_vec() } else { self.rates.clone() };
        Plan { size, rates, seconds: self.seconds }
    }

    fn sides(&self) -> Vec<Side> {
        let of_part: &[Side] = match self.part {
            Part::Ceiling => &[Side::NullBinder, Side::Supercargo],
            _ => &Side::ALL,
        };
        let is_named =
            |side: &Side| self.sides.is_empty() || self.sides.iter().any(|name| name == side.as_str());
        of_part.iter().copied().filter(is_named).collect()
    }

    fn workloads(&self) -> Result<Vec<Workload>> {
        if self.workloads.is_empty() {
            let all = Workload::all().into_iter();
            return Ok(match self.part {
                Part::WholeWay | Part::Ceiling => all.take(7).collect(),
                Part::Asked => all.filter(|workload| ["basic", "spread"].contains(&workload.id)).collect(),
                Part::Claims => all.filter(|workload| workload.id == "claims").collect(),
                Part::Start | Part::Group => all.take(1).collect(),
            });
        }
        let named = |id: &String| Workload::named(id).ok_or_else(|| anyhow::anyhow!("unknown workload {id}"));
        self.workloads.iter().map(named).collect()
    }
}

fn print_line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.command {
        Some(Command::NullBinder { kubeconfig }) => null_binder::run(kubeconfig).await,
        Some(Command::Lister { kubeconfig, pod, node }) => lister::run(kubeconfig, pod, node).await,
        None => measure(&args).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(&format!("e2e: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn measure(args: &Args) -> Result<()> {
    let (plan, workloads) = (args.plan(), args.workloads()?);
    let (section, text) = match args.part {
        Part::WholeWay => ("whole way", whole_way(args, &plan, &workloads).await?),
        Part::Ceiling => ("ceiling", whole_way(args, &plan, &workloads).await?),
        Part::Claims => ("claims end to end", whole_way(args, &plan, &workloads).await?),
        Part::Group => ("group end to end", group::measure(plan.size, args.rounds, &args.sides()).await?),
        Part::Asked => ("asked", asked::measure(&plan, args.rounds, args.waiting.max(1), &workloads).await?),
        Part::Start => ("start", start::measure(plan.size, args.rounds, &workloads).await?),
    };
    if args.write {
        report::write_section(section, &text)?;
    } else {
        let _ = writeln!(std::io::stdout(), "{text}");
    }
    Ok(())
}

async fn whole_way(args: &Args, plan: &Plan, workloads: &[Workload]) -> Result<String> {
    let sides = args.sides();
    let mut outcomes: Vec<(&str, Side, Outcome)> = Vec::new();
    for workload in workloads {
        let mut stage = Stage::fill(workload, plan.size, Vec::new()).await?;
        for round in 1..=args.rounds {
            // Rotate the order, so that each binder is first equally often.
            let order = sides.iter().cycle().skip(round % sides.len()).take(sides.len());
            for &side in order {
                let outcome = run::run(side, workload, plan, &mut stage).await?;
                print_line(&format!(
                    "round {round} of {}: {} by {}: {outcome:?}",
                    args.rounds,
                    workload.id,
                    side.as_str()
                ));
                outcomes.push((workload.id, side, outcome));
            }
        }
    }
    let part = match args.part {
        Part::WholeWay => String::new(),
        part => format!(
            "--part {} ",
            part.to_possible_value().map_or_else(String::new, |part| part.get_name().to_owned())
        ),
    };
    Ok(tables::section(&part, plan, args.rounds, workloads, &sides, &outcomes))
}
