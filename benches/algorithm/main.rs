//! Times decisions of the engine in process: no network, one thread, every node scored.
//!
//! ```text
//! cargo bench --bench algorithm -- --workload spread --nodes 5000 --existing 10000 --pods 1000 --json
//! ```
//!
//! `cpu_us_per_decision` is processor time over deciding and counting the pod on its node, as `oracle time` counts of
//! kube-scheduler, `decisions_per_s` the same on the wall; `cpu_us_with_queue` is all that is done about a pod: taking it in,
//! queueing, deciding, its binding and the confirmation by the watch. Reading objects is left out of all, save for W16. Percentiles
//! are of decisions; where something else goes on meanwhile (W12, W13, W17), from a pod's arrival until it is decided about.
//! `--compare` (`make bench`) times kube-scheduler beside. Times are told, never judged. It needs Linux.

mod alone;
mod beside;
#[path = "../../tests/golden/compare.rs"]
mod compare;
#[path = "../engine/mod.rs"]
mod engine;
mod large;
mod profile;
#[path = "../report/mod.rs"]
mod report;
#[allow(dead_code, reason = "it asks about one cluster at a time")]
#[path = "../../tests/fuzz/oracle.rs"]
mod upstream;
#[path = "../workloads/mod.rs"]
mod workloads;
#[path = "../../tests/golden/world.rs"]
mod world;

use beside::{Extent, Part};
use engine::{Measured, measure};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use workloads::{Size, Workload};

use clap::Parser;

#[derive(Parser)]
#[command(name = "algorithm", about = "Times decisions of the engine in process")]
struct Args {
    /// Which; without it, all of `oracle time`'s
    #[arg(long)]
    workload: Option<String>,
    /// Nodes of the cluster [default: the workload's own]
    #[arg(long)]
    nodes: Option<usize>,
    /// Pods that run already [default: the workload's own]
    #[arg(long)]
    existing: Option<usize>,
    /// Pods to decide about [default: the workload's own]
    #[arg(long)]
    pods: Option<usize>,
    /// Pod i asks for (100 + i mod K)m of cpu [default: the workload's own]
    #[arg(long, value_name = "K")]
    signatures: Option<usize>,
    /// Pods that wait in W12 and W13 [default: the workload's own]
    #[arg(long)]
    waiting: Option<usize>,
    /// One line of JSON for each workload
    #[arg(long)]
    json: bool,
    /// Also tell how much processor time the longest call of the engine of each kind took
    #[arg(long)]
    longest: bool,
    /// Which workloads there are
    #[arg(long)]
    list: bool,
    /// Also time kube-scheduler, in turn, and write docs/benchmarks.md; of one workload, print
    #[arg(long)]
    compare: bool,
    /// This part alone, with --compare
    #[arg(long)]
    part: Option<Part>,
    /// How often each side runs, with --compare
    #[arg(long)]
    pairs: Option<usize>,
    /// Write into docs/benchmarks.md where the time of one workload goes, by perf; of a program that is not stripped
    #[arg(long)]
    profile: bool,
    /// Decide for some seconds, afresh or from memory, and tell when each decision was: what perf is held against
    #[arg(long, hide = true)]
    spans: Option<profile::By>,
    /// Time pods as large as the API server accepts, of each shape or those whose name has this in it
    #[arg(long, value_name = "SHAPE", num_args = 0..=1, default_missing_value = "")]
    large: Option<String>,
    /// Compare small clusters, twice, and print
    #[arg(long)]
    quick: bool,
    /// cargo adds it
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    fn extent(&self) -> Extent {
        let usual = if self.quick { Extent::QUICK } else { Extent::FULL };
        Extent {
            pairs: self.pairs.unwrap_or(usual.pairs),
            pods: self.pods.unwrap_or(usual.pods),
            nodes: self.nodes.unwrap_or(usual.nodes),
            existing: self.existing.unwrap_or(usual.existing),
            ..usual
        }
    }

    fn size(&self, workload: &Workload) -> Size {
        let own = workload.size;
        Size {
            nodes: self.nodes.unwrap_or(own.nodes).max(1),
            existing: self.existing.unwrap_or(own.existing),
            pods: self.pods.unwrap_or(own.pods).max(1),
            signatures: self.signatures.unwrap_or(own.signatures).max(1),
            waiting: self.waiting.unwrap_or(own.waiting),
        }
    }
}

/// Memory of this process that is resident, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
    kilobytes.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn json(workload: &Workload, size: Size, measured: &Measured, rss: u64) -> String {
    let mut line = format!("{{\"workload\":\"{}\"", workload.id);
    for (name, count) in [
        ("nodes", size.nodes),
        ("existing", size.existing),
        ("pods", size.pods),
        ("scheduled", measured.scheduled),
    ] {
        let _ = write!(line, ",\"{name}\":{count}");
    }
    let pods = size.pods as f64;
    let percentile = |percent: usize| {
        measured.laps.get(measured.laps.len() * percent / 100).map_or(0.0, |lap| lap.as_secs_f64() * 1e6)
    };
    for (name, value) in [
        ("decisions_per_s", pods / measured.taken.decided.as_secs_f64().max(1e-9)),
        ("cpu_us_per_decision", measured.taken.cpu_decided.as_secs_f64() * 1e6 / pods),
        ("cpu_us_with_queue", measured.taken.cpu.as_secs_f64() * 1e6 / pods),
        ("p50_us", percentile(50)),
        ("p99_us", percentile(99)),
        ("rss_mb", rss as f64 / 1e6),
    ] {
        let _ = write!(line, ",\"{name}\":{value:.2}");
    }
    if measured.longest.is_wanted {
        for (name, call) in ["handle", "step", "tidy"].iter().zip(measured.longest.calls) {
            let _ = write!(line, ",\"longest_{name}_us\":{:.0}", call.as_secs_f64() * 1e6);
        }
    }
    line.push('}');
    line
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut out = io::stdout();
    if args.list {
        for workload in Workload::all() {
            let _ = writeln!(out, "{:<18} {}", workload.id, workload.about);
        }
        return ExitCode::SUCCESS;
    }
    if args.profile {
        profile::run(args.workload.as_deref().unwrap_or(profile::HOTTEST), args.quick);
        return ExitCode::SUCCESS;
    }
    if let Some(only) = &args.large {
        large::run(args.nodes.unwrap_or(5_000), args.existing.unwrap_or(150_000), Some(only), &mut out);
        return ExitCode::SUCCESS;
    }
    if args.compare {
        beside::run(&args.extent(), args.workload.as_deref(), args.part);
        return ExitCode::SUCCESS;
    }
    let wanted = match &args.workload {
        Some(id) => Workload::named(id).map(|workload| vec![workload]),
        None => Some(Workload::all().into_iter().take(7).collect()),
    };
    let Some(wanted) = wanted else {
        let _ = writeln!(io::stderr(), "algorithm: no such workload; --list tells them all");
        return ExitCode::from(2);
    };
    if let Some(by) = args.spans {
        let size = args.size(&wanted[0]);
        profile::tell_spans(&wanted[0], size, by, &mut out);
        return ExitCode::SUCCESS;
    }
    for workload in wanted {
        let size = args.size(&workload);
        let line = json(&workload, size, &measure(&workload, size, args.longest), resident());
        let _ = writeln!(out, "{line}");
    }
    ExitCode::SUCCESS
}
