//! The whole way of a pod, from its creation until its binding is seen, on a real kube-apiserver and etcd: kube-scheduler with its
//! client's limits lifted, supercargo, and a binder that thinks nothing. `make bench-e2e` writes what came of it into
//! `docs/benchmarks.md`.
//!
//! Each run has an etcd of its own, on a fresh copy of the same data, and an API server that has just started; the three take turns.
//! First a burst: the pods are there when the scheduler starts, and time and processor time are counted from the first binding that is
//! seen to the last. Then pods are created at a fixed rate whatever becomes of them, and the time of each is counted from the moment it
//! was due. It needs Linux.
//!
//! `--part ceiling` compares larger bursts of two, supercargo's and those of the binder that thinks nothing: how much of what the API
//! server gives is reached once the start is over.
//! `--part asked` measures another thing in the same way: what supercargo loses while somebody asks it about pending pods without a pause.
//! `--part start` measures how long a start takes where many pods run: all sides take turns at one control plane.

mod asked;
mod asker;
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
#[path = "../../tests/support/mod.rs"]
mod support;
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
    /// [default: 5000; 2000 where somebody asks]
    #[arg(long)]
    nodes: Option<usize>,
    /// Pods that run already [default: 10000; 4000 where somebody asks, 50000 for the start]
    #[arg(long)]
    existing: Option<usize>,
    /// Pods of the burst [default: 1000; 5000 for the ceiling]
    #[arg(long)]
    pods: Option<usize>,
    /// Pods that fit nowhere, which are asked about
    #[arg(long, default_value_t = 100)]
    waiting: usize,
    /// Pods created per second afterwards; repeated [default: 50 and 100; 50, 100 and 200 where somebody asks; none for the ceiling]
    #[arg(long = "rate")]
    rates: Vec<u32>,
    /// For how long at each rate
    #[arg(long, default_value_t = 4)]
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
    /// Large bursts by supercargo and the binder that thinks nothing.
    Ceiling,
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
        let (nodes, existing, pods, rates): (_, _, _, &[u32]) = match self.part {
            Part::WholeWay => (5_000, 10_000, 1_000, &[50, 100]),
            Part::Ceiling => (5_000, 10_000, 5_000, &[]),
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
        Part::Ceiling => ("ceiling", whole_way(args, &plan, &workloads).await?),
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
            // Each is first in its turn.
            let order = sides.iter().cycle().skip(round % sides.len()).take(sides.len());
            for &side in order {
                let outcome = run::run(side, workload, plan, &mut stage).await?;
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
