//! Times decisions of the engine in process: no network, one thread, every node scored.
//!
//! ```text
//! cargo bench --bench algorithm -- --workload spread --nodes 5000 --existing 10000 --pods 1000 --json
//! ```
//!
//! `cpu_us_per_decision` is the CPU time for deciding and assuming a pod, as `oracle time` measures it for
//! kube-scheduler. `decisions_per_s` is the same in wall time. `cpu_us_with_queue` covers all work for a pod:
//! its event, the queue, the decision, the binding and its confirmation by the watch. Decoding is excluded,
//! except in W16.
//!
//! Percentiles are of decision times. With concurrent events (W12, W13, W17), they are of times from a pod's
//! arrival to its decision.
//!
//! `--compare` (`make bench`) also times kube-scheduler. Times are printed without thresholds. Requires Linux.

#[cfg(feature = "ablation")]
mod ablation;
use supercargo_dev::golden::compare;
mod comparison;
#[path = "../engine/mod.rs"]
mod engine;
mod large;
mod own;
mod profile;
#[path = "../report/mod.rs"]
mod report;
#[allow(dead_code, reason = "it asks about one cluster at a time")]
use supercargo_dev::oracle as upstream;
#[path = "../workloads/mod.rs"]
mod workloads;

use comparison::{Extent, Part};
use engine::{Measured, measure};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use workloads::{Size, Workload};

use clap::Parser;

#[derive(Parser)]
#[command(name = "algorithm", about = "Times decisions of the engine in process")]
struct Args {
    /// Workload to run [default: all of `oracle time`]
    #[arg(long)]
    workload: Option<String>,
    /// Number of nodes [default: that of the workload]
    #[arg(long)]
    nodes: Option<usize>,
    /// Number of running pods [default: that of the workload]
    #[arg(long)]
    existing: Option<usize>,
    /// Number of pods to schedule [default: that of the workload]
    #[arg(long)]
    pods: Option<usize>,
    /// Number K of different CPU requests; pod i requests (100 + i mod K)m [default: that of the workload]
    #[arg(long, value_name = "K")]
    signatures: Option<usize>,
    /// Number of pending pods in W12 and W13 [default: that of the workload]
    #[arg(long)]
    waiting: Option<usize>,
    /// Print one line of JSON for each workload
    #[arg(long)]
    json: bool,
    /// Print the longest CPU time of each kind of engine call
    #[arg(long)]
    longest: bool,
    /// List the workloads
    #[arg(long)]
    list: bool,
    /// Time kube-scheduler as well and write docs/benchmarks.md; with --workload, print
    #[arg(long)]
    compare: bool,
    /// Only this part, with --compare
    #[arg(long)]
    part: Option<Part>,
    /// Number of runs of each side, with --compare
    #[arg(long)]
    pairs: Option<usize>,
    /// Profile one workload with perf and write docs/benchmarks.md; requires a binary with symbols
    #[arg(long)]
    profile: bool,
    /// Decide for some seconds, with or without the cache, and print the time of each decision, to be matched
    /// with perf samples
    #[arg(long, hide = true)]
    spans: Option<profile::By>,
    /// Time pods as large as the API server accepts, of all shapes or of those whose name contains SHAPE
    #[arg(long, value_name = "SHAPE", num_args = 0..=1, default_missing_value = "")]
    large: Option<String>,
    /// Measure with each layer of the cached path switched off, and write its page; requires the feature `ablation`
    #[cfg(feature = "ablation")]
    #[arg(long)]
    ablation: bool,
    /// Switch off this layer of the cached path
    #[cfg(feature = "ablation")]
    #[arg(long, hide = true)]
    without: Option<String>,
    /// Compare small clusters with two runs, and print
    #[arg(long)]
    quick: bool,
    /// Added by cargo
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

/// Returns the resident memory of this process in bytes.
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
    #[cfg(feature = "ablation")]
    {
        use supercargo_core::switches::ablation::{Layer, switch_off};
        if args.ablation {
            ablation::run(args.quick, args.pairs.unwrap_or(if args.quick { 1 } else { 3 }));
            return ExitCode::SUCCESS;
        }
        let named = |name: &String| Layer::ALL.into_iter().find(|layer| layer.name() == name);
        switch_off(args.without.as_ref().map(|name| named(name).expect("a layer's name")));
    }
    if args.compare {
        comparison::run(&args.extent(), args.workload.as_deref(), args.part);
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
