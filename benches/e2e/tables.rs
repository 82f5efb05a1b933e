//! Tables of all runs.

use std::fmt::Write as _;

use crate::report::{Numbers, Table, circumstances};
use crate::run::{AtRate, Outcome, Plan};
use crate::side::Side;
use crate::workloads::Workload;

type Outcomes<'a> = [(&'a str, Side, Outcome)];

fn of<'a>(outcomes: &'a Outcomes<'_>, id: &'a str, side: Side) -> impl Iterator<Item = &'a Outcome> {
    outcomes.iter().filter(move |(of, by, _)| *of == id && *by == side).map(|(_, _, outcome)| outcome)
}

/// Returns one side's numbers divided by another's, round by round.
fn ratio(
    outcomes: &Outcomes<'_>,
    id: &str,
    [over, under]: [Side; 2],
    number: impl Fn(&Outcome) -> f64,
) -> Numbers {
    let pairs = of(outcomes, id, over).zip(of(outcomes, id, under));
    pairs.map(|(over, under)| number(over) / number(under)).collect()
}

/// Returns the section of `part`, which is a flag of the command line or empty.
pub(crate) fn section(
    part: &str,
    plan: &Plan,
    rounds: usize,
    workloads: &[Workload],
    sides: &[Side],
    outcomes: &Outcomes<'_>,
) -> String {
    let size = plan.size;
    let mut text = format!(
        "{}\n\n{} nodes, {} pods on them, medians of {rounds} interleaved rounds with their ranges. `cargo bench --bench e2e -- {part}--workload W \
         --nodes {} --existing {} --pods {} --rounds {rounds}` repeats the run.\n\nA burst of {} pods:\n\n{}\nThe same as ratios:\n\n{}\n",
        circumstances(
            "kube-scheduler v1.36.3, qps and burst 5000, protobuf; kube-apiserver v1.36.3, etcd v3.7.3"
        ),
        size.nodes,
        size.existing,
        size.nodes,
        size.existing,
        size.pods,
        size.pods,
        bursts(workloads, sides, outcomes),
        ratios(workloads, sides, outcomes),
    );
    if !plan.rates.is_empty() {
        let _ = write!(
            text,
            "Pods created at a fixed rate for {} seconds, from the due time of each to its observed binding, in milliseconds:\n\n{}\n",
            plan.seconds,
            rates(plan, workloads, sides, outcomes),
        );
    }
    text
}

fn bursts(workloads: &[Workload], sides: &[Side], outcomes: &Outcomes<'_>) -> String {
    let mut table = Table::new(&[
        "workload",
        "by",
        "pods/s",
        "CPU ms per pod",
        "with startup",
        "API writes per pod",
        "peak RSS MB",
    ]);
    for workload in workloads {
        for &side in sides {
            let numbers = |number: fn(&Outcome) -> f64| {
                of(outcomes, workload.id, side).map(number).collect::<Numbers>().median_and_range()
            };
            table.row(&[
                workload.id.to_owned(),
                side.as_str().to_owned(),
                numbers(|outcome| outcome.pods_per_s),
                numbers(|outcome| outcome.cpu_ms_per_pod),
                numbers(|outcome| outcome.cpu_ms_with_start),
                numbers(|outcome| outcome.writes_per_pod),
                numbers(|outcome| outcome.peak_mb),
            ]);
        }
    }
    table.text().to_owned()
}

/// A ratio of two sides, with its name.
type Ratio = (&'static str, [Side; 2], fn(&Outcome) -> f64);

/// Returns the ratios of those sides that ran.
fn ratios(workloads: &[Workload], sides: &[Side], outcomes: &Outcomes<'_>) -> String {
    use Side::{KubeScheduler, NullBinder, Supercargo};
    let all: [Ratio; 6] = [
        ("CPU per pod, kube-scheduler / supercargo", [KubeScheduler, Supercargo], |by| by.cpu_ms_per_pod),
        ("the same with startup", [KubeScheduler, Supercargo], |by| by.cpu_ms_with_start),
        ("peak RSS, kube-scheduler / supercargo", [KubeScheduler, Supercargo], |by| by.peak_mb),
        ("pods/s, supercargo / kube-scheduler", [Supercargo, KubeScheduler], |by| by.pods_per_s),
        ("pods/s, supercargo / null binder", [Supercargo, NullBinder], |by| by.pods_per_s),
        ("pods/s, kube-scheduler / null binder", [KubeScheduler, NullBinder], |by| by.pods_per_s),
    ];
    let shown: Vec<Ratio> =
        all.into_iter().filter(|(_, pair, _)| pair.iter().all(|side| sides.contains(side))).collect();
    let mut head = vec!["workload"];
    head.extend(shown.iter().map(|(name, ..)| name));
    let mut table = Table::new(&head);
    for workload in workloads {
        let mut cells = vec![workload.id.to_owned()];
        cells.extend(
            shown
                .iter()
                .map(|(_, pair, number)| ratio(outcomes, workload.id, *pair, number).median_and_range()),
        );
        table.row(&cells);
    }
    table.text().to_owned()
}

fn rates(plan: &Plan, workloads: &[Workload], sides: &[Side], outcomes: &Outcomes<'_>) -> String {
    let mut table =
        Table::new(&["workload", "pods/s", "by", "p50", "p99", "CPU ms per pod", "unbound after a minute"]);
    for workload in workloads {
        for &rate in &plan.rates {
            for &side in sides {
                let at = || {
                    of(outcomes, workload.id, side)
                        .flat_map(|outcome| &outcome.rates)
                        .filter(|at| at.rate == rate)
                };
                let numbers =
                    |number: fn(&AtRate) -> f64| at().map(number).collect::<Numbers>().median_and_range();
                table.row(&[
                    workload.id.to_owned(),
                    rate.to_string(),
                    side.as_str().to_owned(),
                    numbers(|at| at.p50_ms),
                    numbers(|at| at.p99_ms),
                    numbers(|at| at.cpu_ms_per_pod),
                    numbers(|at| at.unbound as f64),
                ]);
            }
        }
    }
    table.text().to_owned()
}
