//! Profiles decisions with `perf`: a run with full evaluations of every node, and a run with cached decisions.
//!
//! Only samples within decisions count. The run prints their times, by the clock of perf's timestamps. A symbol's
//! share includes the functions inlined into it, but not the functions it calls.

use crate::comparison::print_line;
use crate::engine::{Engine, measure_on};
use crate::report::{Table, circumstances, short, target, write_section};
use crate::workloads::{Size, Workload};
use nix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The workload of `oracle time` with the most expensive decisions.
pub(crate) const HOTTEST: &str = "hard-anti";

/// Duration of sampled decisions (less in a quick run), and samples per second.
const DECIDED: Duration = Duration::from_secs(2);
const FREQUENCY: &str = "4999";

/// Number of symbols shown.
const SYMBOLS_SHOWN: usize = 15;

/// The kind of decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
    /// Full evaluation of every node.
    Afresh,
    /// Cached decisions, where only changed nodes are evaluated.
    Memory,
}

/// Decides on the workload's pods for the required time, and prints start and end of each decision, in nanoseconds of
/// the monotonic clock.
pub(crate) fn tell_spans(workload: &Workload, size: Size, by: By, out: &mut impl Write) {
    let since_boot = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has a monotonic clock");
    let (began, since_boot) = (Instant::now(), Duration::from(since_boot));
    let mut decided = Duration::ZERO;
    while decided < DECIDED {
        let mut engine = Engine::with_cluster(workload, size);
        engine.note_spans();
        if by == By::Afresh {
            engine.disable_cache();
        }
        let spans = measure_on(engine, workload, size).spans;
        assert!(!spans.is_empty(), "{} made no decisions", workload.id);
        for (from, lap) in spans {
            decided += lap;
            let from = since_boot + from.duration_since(began);
            let _ = writeln!(out, "{} {}", from.as_nanos(), (from + lap).as_nanos());
        }
    }
}

/// Samples of one run.
struct Profile {
    decisions: usize,
    us_per_decision: f64,
    /// Samples within decisions, by symbol.
    symbols: HashMap<String, usize>,
}

impl Profile {
    fn samples(&self) -> usize {
        self.symbols.values().sum()
    }
}

fn output(command: &mut Command) -> String {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.unwrap_or_else(|error| {
        panic!("{}: {error}; perf is in the package linux-tools, or perf", command.get_program().display())
    });
    assert!(output.status.success(), "{command:?} fails");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn sampled(workload: &str, size: [usize; 3], by: By) -> Profile {
    let data = target().join("tmp/profile.data");
    std::fs::create_dir_all(target().join("tmp")).expect("results can be written");
    let program = std::env::current_exe().expect("the program has a path");
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "-e", "cpu-clock", "-F", FREQUENCY, "-k", "CLOCK_MONOTONIC", "-o"]);
    record.arg(&data).arg("--").arg(program).args(["--workload", workload, "--spans"]);
    record.arg(if by == By::Afresh { "afresh" } else { "memory" });
    for (flag, value) in ["--nodes", "--existing", "--pods"].into_iter().zip(size) {
        record.args([flag.to_owned(), value.to_string()]);
    }
    let spans = output(&mut record);
    let spans: Vec<[u128; 2]> = spans
        .lines()
        .filter_map(|line| {
            let (from, to) = line.split_once(' ')?;
            Some([from.parse().ok()?, to.parse().ok()?])
        })
        .collect();
    let symbols = within(&samples(&data), &spans);
    let _ = std::fs::remove_file(&data);
    let nanos: u128 = spans.iter().map(|[from, to]| to - from).sum();
    Profile { decisions: spans.len(), us_per_decision: nanos as f64 / 1e3 / spans.len() as f64, symbols }
}

/// Returns the time of each sample in nanoseconds, and its symbol.
fn samples(data: &Path) -> Vec<(u128, String)> {
    let printed = output(Command::new("perf").args(["script", "--ns", "-F", "time,ip,sym", "-i"]).arg(data));
    let sample = |line: &str| {
        let (time, rest) = line.trim().split_once(':')?;
        let (seconds, nanos) = time.split_once('.')?;
        let time = seconds.parse::<u128>().ok()? * 1_000_000_000 + nanos.parse::<u128>().ok()?;
        let (_, symbol) = rest.trim().split_once(' ')?;
        Some((time, symbol.trim().to_owned()))
    };
    printed.lines().filter_map(sample).collect()
}

/// Counts samples per symbol within the spans, which are ordered and do not overlap.
fn within(samples: &[(u128, String)], spans: &[[u128; 2]]) -> HashMap<String, usize> {
    let mut symbols = HashMap::new();
    for (time, symbol) in samples {
        let at = spans.partition_point(|[from, _]| from <= time);
        if at.checked_sub(1).is_some_and(|at| *time < spans[at][1]) {
            *symbols.entry(symbol.clone()).or_default() += 1;
        }
    }
    symbols
}

fn table(profile: &Profile) -> String {
    let mut table = Table::new(&["symbol", "share", "us per decision"]);
    let all = profile.samples();
    let mut symbols: Vec<(&String, usize)> =
        profile.symbols.iter().map(|(name, &count)| (name, count)).collect();
    symbols.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let rest: usize = symbols.iter().skip(SYMBOLS_SHOWN).map(|(_, count)| count).sum();
    let mut row = |name: &str, count: usize| {
        let share = count as f64 / all.max(1) as f64;
        table.row(&[
            name.to_owned(),
            format!("{:.1} %", share * 100.0),
            short(share * profile.us_per_decision),
        ]);
    };
    for (name, count) in symbols.iter().take(SYMBOLS_SHOWN) {
        row(&format!("`{name}`"), *count);
    }
    row("all others", rest);
    table.text().to_owned()
}

/// Profiles both kinds and writes the results to docs/benchmarks.md; a quick run prints them.
pub(crate) fn run(workload: &str, is_quick: bool) {
    let size = if is_quick { [1_000, 2_000, 200] } else { [5_000, 10_000, 1_000] };
    let [nodes, existing, pods] = size;
    let mut text = format!(
        "{}\n\n{workload}, {nodes} nodes, {existing} pods on them, {pods} pods at a time; perf with {FREQUENCY} samples per second of CPU time.\n",
        circumstances("perf's cpu-clock")
    );
    for (by, how) in [
        (By::Afresh, "Full evaluation: every pod evaluates every node"),
        (By::Memory, "Cached decisions: only changed nodes are evaluated"),
    ] {
        let profile = sampled(workload, size, by);
        print_line(&format!("{by:?}: {} decisions, {} samples within", profile.decisions, profile.samples()));
        assert!(profile.samples() > 0, "perf has no samples within {} decisions", profile.decisions);
        let _ = write!(
            text,
            "\n{how}. {} us of wall time per decision, {} decisions, {} samples within them.\n\n{}",
            short(profile.us_per_decision),
            short(profile.decisions as f64),
            short(profile.samples() as f64),
            table(&profile)
        );
    }
    if is_quick {
        let _ = writeln!(std::io::stdout(), "{text}");
    } else if let Err(error) = write_section("profile", &text) {
        print_line(&format!("algorithm: {error}"));
    }
}
