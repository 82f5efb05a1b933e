//! The whole way of a pod, from its creation until its binding is seen, on a real kube-apiserver and etcd: kube-scheduler with its
//! client's limits lifted, supercargo, and a binder that thinks nothing. `make bench-e2e` writes what came of it into
//! `docs/benchmarks.md`.
//!
//! Each run has a control plane of its own, on fresh data; the three take turns. First a burst: the pods are there when the scheduler
//! starts, and time and processor time are counted from the first binding that is seen to the last. Then pods are created at a
//! fixed rate whatever becomes of them, and the time of each is counted from the moment it was due. It needs Linux.
//!
//! `--part asked` measures another thing in the same way: what supercargo loses while somebody asks it about pending pods without a pause.
//! `--part start` measures how long a start takes where many pods run: all sides take turns at one control plane.

mod asked;
mod asker;
mod lister;
mod load;
mod null_binder;
mod run;
mod side;
mod start;
mod start_tables;
mod tables;
mod watch;

#[path = "../report/mod.rs"]
mod report;
#[path = "../../tests/support/mod.rs"]
mod support;
#[path = "../workloads/mod.rs"]
mod workloads;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use run::{Outcome, Plan};
use side::Side;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use workloads::{Size, Workload};

#[derive(Parser)]
#[command(name = "e2e", about = "Times the whole way of a pod on a real API server")]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// What is measured
    #[arg(long, value_enum, default_value_t = Part::WholeWay)]
    part: Part,
    /// Which [default: all of `oracle time`'s; basic and spread where somebody asks, basic for the start]
    #[arg(long = "workload")]
    workloads: Vec<String>,
    /// Only these of null-binder, kube-scheduler, supercargo [default: all]
    #[arg(long = "side")]
    sides: Vec<String>,
    /// How often each side runs each workload
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// [default: 2000; 5000 for the start]
    #[arg(long)]
    nodes: Option<usize>,
    /// Pods that run already [default: 4000; 50000 for the start]
    #[arg(long)]
    existing: Option<usize>,
    /// Pods of the burst
    #[arg(long, default_value_t = 1_000)]
    pods: usize,
    /// Pods that fit nowhere, which are asked about
    #[arg(long, default_value_t = 100)]
    waiting: usize,
    /// Pods created per second afterwards; repeated
    #[arg(long = "rate", default_values_t = [50, 100, 200])]
    rates: Vec<u32>,
    /// For how long at each rate
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Write docs/benchmarks.md instead of printing
    #[arg(long)]
    write: bool,
    /// cargo adds it
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

/// A part of `docs/benchmarks.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The whole way of a pod, by three sides.
    WholeWay,
    /// The same by supercargo, with and without somebody who asks.
    Asked,
    /// A start where many pods run, by two sides and one that only lists.
    Start,
}

#[derive(Subcommand)]
enum Command {
    /// The binder that thinks nothing
    NullBinder {
        /// Who it is, and where the API server
        kubeconfig: PathBuf,
    },
    /// Who lists as supercargo does, and binds one pod
    Lister {
        /// Who it is, and where the API server
        kubeconfig: PathBuf,
        /// The pod
        pod: String,
        /// Where it goes
        node: String,
    },
}

impl Args {
    fn plan(&self) -> Plan {
        let (nodes, existing) = if self.part == Part::Start { (5_000, 50_000) } else { (2_000, 4_000) };
        let (nodes, existing) = (self.nodes.unwrap_or(nodes), self.existing.unwrap_or(existing));
        let Self { pods, seconds, .. } = *self;
        let size = Size { nodes, existing, pods, signatures: 1, waiting: 0 };
        Plan { size, rates: self.rates.clone(), seconds }
    }

    fn workloads(&self) -> Result<Vec<Workload>> {
        if self.workloads.is_empty() {
            let all = Workload::all().into_iter();
            return Ok(match self.part {
                Part::WholeWay => all.take(7).collect(),
                Part::Asked => all.filter(|workload| ["basic", "spread"].contains(&workload.id)).collect(),
                Part::Start => all.take(1).collect(),
            });
        }
        let named =
            |id: &String| Workload::named(id).ok_or_else(|| anyhow::anyhow!("there is no workload {id}"));
        self.workloads.iter().map(named).collect()
    }
}

fn tell(text: &str) {
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
            tell(&format!("e2e: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn measure(args: &Args) -> Result<()> {
    let (plan, workloads) = (args.plan(), args.workloads()?);
    let (section, text) = match args.part {
        Part::WholeWay => ("whole way", whole_way(args, &plan, &workloads).await?),
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
    let named = |side: &Side| args.sides.is_empty() || args.sides.iter().any(|name| name == side.as_str());
    let sides: Vec<Side> = Side::ALL.into_iter().filter(named).collect();
    let mut outcomes: Vec<(&str, Side, Outcome)> = Vec::new();
    for round in 1..=args.rounds {
        for workload in workloads {
            for &side in &sides {
                let outcome = run::run(side, workload, plan).await?;
                tell(&format!(
                    "round {round} of {}: {} by {}: {outcome:?}",
                    args.rounds,
                    workload.id,
                    side.as_str()
                ));
                outcomes.push((workload.id, side, outcome));
            }
        }
    }
    Ok(tables::tell(plan, args.rounds, workloads, &sides, &outcomes))
}
