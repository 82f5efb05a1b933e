//! `make bench`: runs supercargo and the real kube-scheduler in turn on the same clusters and pods, and writes the
//! results to `docs/benchmarks.md`.
//!
//! Each run is a separate process. A pair is one run of each side, directly after each other, and ratios are those of
//! pairs, so other load on the machine affects both sides.

use crate::own;
use crate::report::{Numbers, Table, circumstances, target, write_section};
use crate::workloads::{Size, Workload};
use crate::{compare, upstream};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The command shown in the results.
const COMMAND: &str = "cargo bench --bench algorithm --";

/// The largest cluster in which `partitions` is compared: a decision of kube-scheduler costs the square of its nodes.
const PARTITIONED_NODES_MAX: usize = 1_000;

/// Extent of the measurements.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) is_quick: bool,
    pub(crate) pairs: usize,
    /// Pods per run of a workload that both sides run.
    pub(crate) pods: usize,
    /// Pods per run of kube-scheduler with all nodes. Each costs tens of milliseconds, and all cost the same.
    pub(crate) whole_pods: usize,
    pub(crate) nodes: usize,
    pub(crate) existing: usize,
}

impl Extent {
    /// A short run, for development.
    pub(crate) const QUICK: Self =
        Self { is_quick: true, pairs: 2, pods: 100, whole_pods: 100, nodes: 1_000, existing: 2_000 };
    /// The full run, whose results are recorded.
    pub(crate) const FULL: Self =
        Self { is_quick: false, pairs: 5, pods: 1_000, whole_pods: 200, nodes: 5_000, existing: 10_000 };
}

pub(super) fn print_line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Runs a program that prints a line of JSON.
fn asked(program: &Path, args: &[String]) -> Value {
    let output = Command::new(program).args(args).stderr(Stdio::inherit()).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    assert!(output.status.success(), "{} {} fails", program.display(), args.join(" "));
    serde_json::from_slice(&output.stdout).expect("it prints a line of JSON")
}

fn words(size: &Size) -> Vec<String> {
    let flags = [
        ("--nodes", size.nodes),
        ("--existing", size.existing),
        ("--pods", size.pods),
        ("--signatures", size.signatures),
    ];
    flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value.to_string()]).collect()
}

/// Runs supercargo once.
pub(super) fn ours(id: &str, size: &Size) -> Value {
    ours_with(id, size, &[])
}

/// Runs supercargo once with a layer of the cached path switched off.
#[cfg(feature = "ablation")]
pub(super) fn ours_without(
    id: &str,
    size: &Size,
    layer: Option<supercargo_core::switches::ablation::Layer>,
) -> Value {
    let args = layer.map(|layer| ["--without".to_owned(), layer.name().to_owned()]);
    ours_with(id, size, args.as_ref().map_or(&[], |args| args.as_slice()))
}

fn ours_with(id: &str, size: &Size, more: &[String]) -> Value {
    let program = std::env::current_exe().expect("the program has a path");
    let mut args = vec!["--json".to_owned(), "--workload".to_owned(), id.to_owned()];
    args.extend(words(size));
    args.extend(["--waiting".to_owned(), size.waiting.to_string()]);
    args.extend_from_slice(more);
    asked(&program, &args)
}

/// Runs kube-scheduler once on a scenario file.
fn theirs(scenario: &Path, percentage: usize) -> Value {
    let args = ["time", "--scenario", &scenario.to_string_lossy(), "--pct", &percentage.to_string()];
    asked(&target().join("upstream/bin/oracle"), &args.map(str::to_owned))
}

pub(super) fn number(line: &Value, field: &str) -> f64 {
    line[field].as_f64().unwrap_or_else(|| panic!("{field} is missing in {line}"))
}

/// Results of the pairs of one workload.
#[derive(Default)]
struct Pairs {
    sampled: Numbers,
    whole: Numbers,
    ours: Numbers,
    with_queue: Numbers,
    p50: Numbers,
    p99: Numbers,
    ratio_sampled: Numbers,
    ratio_whole: Numbers,
    scheduled: BTreeMap<String, f64>,
}

fn pairs(workload: &Workload, size: Size, extent: &Extent) -> Pairs {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let written = |name: &str, size: Size| {
        let file = folder.path().join(name);
        std::fs::write(&file, workload.scenario(size).to_string()).expect("the scenario can be written");
        file
    };
    let file = written("scenario.json", size);
    let short = written("short.json", Size { pods: size.pods.min(extent.whole_pods), ..size });
    let mut found = Pairs::default();
    for _ in 0..extent.pairs {
        let (sampled, us, whole) = (theirs(&file, 0), ours(workload.id, &size), theirs(&short, 100));
        let cpu = number(&us, "cpu_us_per_decision");
        found.sampled.push(number(&sampled, "cpu_us_per_pod"));
        found.whole.push(number(&whole, "cpu_us_per_pod"));
        found.ours.push(cpu);
        found.with_queue.push(number(&us, "cpu_us_with_queue"));
        found.p50.push(number(&us, "p50_us"));
        found.p99.push(number(&us, "p99_us"));
        found.ratio_sampled.push(number(&sampled, "cpu_us_per_pod") / cpu);
        found.ratio_whole.push(number(&whole, "cpu_us_per_pod") / cpu);
        for (side, line) in [("kube-scheduler", &sampled), ("supercargo", &us)] {
            found.scheduled.insert(side.to_owned(), number(line, "scheduled"));
        }
    }
    found
}

/// Returns the number of decisions compared in every field, and the number of differences. The clusters are small,
/// because every score of every node is printed.
fn mismatches(workload: &Workload) -> (usize, usize) {
    let mut size = workload.shrunk(90, 60);
    size.existing = size.existing.min(360);
    let mut oracle = upstream::Oracle::start(&target().join("upstream/bin/oracle"));
    let answer = oracle.ask(&workload.scenario(size));
    assert!(answer["error"].is_null(), "{}: {}", workload.id, answer["error"]);
    let vector: compare::Vector = serde_json::from_value(answer).expect("an answer is a vector");
    let mut found = Vec::new();
    compare::compare_vector(&vector, &mut found);
    for place in found.iter().take(3) {
        print_line(&format!("mismatch: {place}"));
    }
    (vector.decisions.len(), found.len())
}

fn compared(workload: &Workload) -> String {
    let (decisions, differences) = mismatches(workload);
    format!("{differences} of {decisions}")
}

/// Returns the table of workloads that both sides run.
fn compare<'w>(
    workloads: impl IntoIterator<Item = &'w Workload>,
    extent: &Extent,
    size_of: impl Fn(&Workload) -> Size,
) -> String {
    let mut table = Table::new(&[
        "workload",
        "nodes, existing, pods",
        "kube-scheduler, sampling",
        "kube-scheduler, all nodes",
        "supercargo, all nodes",
        "with queue",
        "p50",
        "p99",
        "ratio, sampling",
        "ratio, all nodes",
        "differences",
    ]);
    for workload in workloads {
        print_line(&format!("{}: {}", workload.id, workload.about));
        let size = size_of(workload);
        let found = pairs(workload, size, extent);
        let placed: Vec<f64> = found.scheduled.values().copied().collect();
        if placed.iter().any(|&count| count != placed[0]) {
            print_line(&format!("{}: the numbers of placed pods differ: {:?}", workload.id, found.scheduled));
        }
        table.row(&[
            workload.id.to_owned(),
            format!("{}, {}, {}", size.nodes, size.existing, size.pods),
            found.sampled.median_and_range(),
            found.whole.median_and_range(),
            found.ours.median_and_range(),
            found.with_queue.median_and_range(),
            found.p50.median_and_range(),
            found.p99.median_and_range(),
            found.ratio_sampled.median_and_range(),
            found.ratio_whole.median_and_range(),
            compared(workload),
        ]);
    }
    table.text().to_owned()
}

/// A part of the measurements, with its own section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// The workloads of `oracle time`.
    Beside,
    /// Those of W1 to W17 that kube-scheduler can run, too.
    Needs,
    /// Workloads with ResourceClaims.
    Devices,
    /// supercargo alone.
    Alone,
}

impl Part {
    const ALL: [Self; 4] = [Self::Beside, Self::Needs, Self::Devices, Self::Alone];

    fn section(self) -> &'static str {
        match self {
            Self::Beside => "beside",
            Self::Needs => "needs",
            Self::Devices => "devices",
            Self::Alone => "alone",
        }
    }

    fn measured(self, extent: &Extent, only: Option<&str>) -> String {
        let named = |workload: &Workload| only.is_none_or(|id| workload.id.eq_ignore_ascii_case(id));
        let with_peer = Workload::all().into_iter().filter(|workload| named(workload) && workload.has_peer());
        match self {
            Self::Beside => {
                let is_one = |workload: &Workload| !workload.id.starts_with('W') && !workload.needs_devices();
                let workloads: Vec<_> = with_peer.filter(is_one).collect();
                let Extent { nodes, existing, pods, .. } = *extent;
                compare(&workloads, extent, |workload| Size { nodes, existing, pods, ..workload.size })
            }
            Self::Needs => {
                let has_place = |workload: &Workload| {
                    !extent.is_quick || only.is_some() || ["W3", "W8"].contains(&workload.id)
                };
                let workloads: Vec<_> = with_peer
                    .filter(|workload| workload.id.starts_with('W') && has_place(workload))
                    .collect();
                let table = compare(&workloads, extent, |workload| needed(workload.size, extent));
                if only.is_some() {
                    return table;
                }
                let preempting = Workload::named("W11").expect("the workload exists");
                let compared = compared(&preempting);
                format!(
                    "{table}\nPreemption (W11) is compared but not timed here: {compared} decisions differ.\n"
                )
            }
            Self::Devices => {
                let workloads: Vec<_> = with_peer.filter(Workload::needs_devices).collect();
                let extent = Extent { whole_pods: extent.whole_pods.min(20), ..*extent };
                // A single workload runs with the given number of nodes.
                let given = [extent.nodes];
                let nodes: &[usize] =
                    if extent.is_quick || only.is_some() { &given } else { &[100, 1_000, 5_000] };
                let tables = nodes.iter().map(|&nodes| {
                    let has_time = |it: &&Workload| it.id != "partitions" || nodes <= PARTITIONED_NODES_MAX;
                    compare(workloads.iter().filter(has_time), &extent, |it| with_devices(it, nodes, &extent))
                });
                tables.collect::<Vec<_>>().join("\n")
            }
            Self::Alone => own::table(extent.is_quick, extent.pairs),
        }
    }
}

fn needed(own: Size, extent: &Extent) -> Size {
    let nodes = if extent.is_quick { own.nodes.min(extent.nodes) } else { own.nodes.min(20_000) };
    Size { nodes, existing: own.existing * nodes / own.nodes, pods: own.pods.min(extent.pods / 2), ..own }
}

/// Returns the size of a workload with devices. With shared counters, a decision of kube-scheduler costs the square of
/// the number of nodes.
fn with_devices(workload: &Workload, nodes: usize, extent: &Extent) -> Size {
    let pods_max = if workload.id == "partitions" { 40_000 / nodes } else { 500 };
    Size { nodes, pods: extent.pods.min(pods_max).max(20), ..workload.size }
}

/// Measures, and prints or writes the results.
pub(crate) fn run(extent: &Extent, only: Option<&str>, part: Option<Part>) {
    let parts = Part::ALL.into_iter().filter(|&each| part.is_none_or(|part| part == each));
    for part in parts.filter(|&part| only.is_none() || part != Part::Alone) {
        let circumstances = circumstances("kube-scheduler v1.36.3 in process (tests/upstream/oracle)");
        let table = part.measured(extent, only);
        let how = match part {
            Part::Alone => format!("Medians of {} interleaved runs, with their ranges.", extent.pairs),
            Part::Beside | Part::Needs | Part::Devices => format!(
                "CPU time per decision in microseconds: medians of {} interleaved pairs with their ranges; ratios are of pairs. \
                 With all nodes, kube-scheduler decides about {} of the pods. \
                 `{COMMAND} --workload W --nodes N --existing E --pods P --json` runs supercargo once, \
                 `target/upstream/bin/oracle time --workload W ... [--pct 100]` kube-scheduler. Differences are counted in small \
                 clusters of the same workload, in every field: feasible nodes, reasons, scores, totals, choice and texts.",
                extent.pairs, extent.whole_pods,
            ),
        };
        let text = format!("{circumstances}\n\n{how}\n\n{table}");
        if extent.is_quick || only.is_some() {
            let _ = writeln!(std::io::stdout(), "{text}");
        } else if let Err(error) = write_section(part.section(), &text) {
            print_line(&format!("{error}; the results were:\n{text}"));
        }
    }
}
