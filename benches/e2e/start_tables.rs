//! Tables of startup results.

use crate::report::{Numbers, Table, circumstances};
use crate::start::{By, Measured, Parts, Round, Start};
use crate::workloads::Size;

fn of(rounds: &[Round], by: By, number: impl Fn(&Start) -> Option<f64>) -> String {
    rounds.iter().filter_map(|round| number(&round[by as usize])).collect::<Numbers>().median_and_range()
}

fn over(
    rounds: &[Round],
    number: impl Fn(&Start) -> f64,
    compare: impl Fn(f64, f64) -> f64,
    pair: [By; 2],
) -> String {
    let numbers = rounds.iter().map(|round| {
        let [left, right] = pair.map(|by| number(&round[by as usize]));
        compare(left, right)
    });
    numbers.collect::<Numbers>().median_and_range()
}

pub(crate) fn section(size: Size, rounds: usize, measured: &[Measured]) -> String {
    let named: Vec<String> =
        measured.iter().map(|measured| format!("--workload {}", measured.workload)).collect();
    let filled: Numbers = measured.iter().map(|measured| measured.filled.as_secs_f64()).collect();
    format!(
        "{}\n\n{} nodes, {} pods on them, one pending pod; medians of {rounds} interleaved rounds with their ranges, differences and ratios of \
         the same round. Leader election is off. Filling the cluster took {} s. `cargo bench --bench e2e -- --part start {} --nodes {} --existing {} --rounds \
         {rounds}` repeats the run.\n\n\
         From the launch of the process to the observed binding:\n\n{}\nThe same as ratios and differences:\n\n{}\n\
         Phases of supercargo's startup by its log, in seconds, and CPU seconds of its threads. The engine has its own thread; the others read, decode \
         and write:\n\n{}\n",
        circumstances("kube-scheduler v1.36.3, qps and burst 5000; kube-apiserver v1.36.3, etcd v3.7.3"),
        size.nodes,
        size.existing,
        filled.median_and_range(),
        named.join(" "),
        size.nodes,
        size.existing,
        starts(measured),
        compared(measured),
        parts(measured),
    )
}

fn starts(measured: &[Measured]) -> String {
    let mut table = Table::new(&[
        "workload",
        "by",
        "seconds",
        "CPU seconds",
        "API server CPU seconds",
        "peak RSS MB",
        "MB of lists",
    ]);
    let all: [fn(&Start) -> Option<f64>; 5] = [
        |start| Some(start.s),
        |start| Some(start.cpu_s),
        |start| Some(start.server_cpu_s),
        |start| Some(start.peak_mb),
        |start| start.read_mb,
    ];
    for Measured { workload, rounds, .. } in measured {
        for by in By::ALL {
            let cells = all.map(|number| of(rounds, by, number));
            let head = [(*workload).to_owned(), by.as_str().to_owned()];
            table.row(&head.into_iter().chain(cells).collect::<Vec<_>>());
        }
    }
    table.text().to_owned()
}

fn compared(measured: &[Measured]) -> String {
    use By::{KubeScheduler, Lister, Supercargo};
    let mut table = Table::new(&[
        "workload",
        "seconds beyond the API server's own, supercargo",
        "seconds beyond the API server's own, kube-scheduler",
        "seconds, kube-scheduler / supercargo",
        "CPU, kube-scheduler / supercargo",
        "peak RSS, kube-scheduler / supercargo",
    ]);
    for Measured { workload, rounds, .. } in measured {
        let beyond = |by| over(rounds, |start| start.s, |left, right| left - right, [by, Lister]);
        let ratio = |number: fn(&Start) -> f64| {
            over(rounds, number, |left, right| left / right, [KubeScheduler, Supercargo])
        };
        table.row(&[
            (*workload).to_owned(),
            beyond(Supercargo),
            beyond(KubeScheduler),
            ratio(|start| start.s),
            ratio(|start| start.cpu_s),
            ratio(|start| start.peak_mb),
        ]);
    }
    table.text().to_owned()
}

fn parts(measured: &[Measured]) -> String {
    let mut table = Table::new(&[
        "workload",
        "until the first request",
        "until all lists are complete",
        "until the decision",
        "until the binding is observed",
        "CPU of the engine thread",
        "CPU of the other threads",
    ]);
    let all: [fn(&Start, &Parts) -> f64; 6] = [
        |_, parts| parts.launch,
        |_, parts| parts.lists,
        |_, parts| parts.decision,
        |_, parts| parts.binding,
        |_, parts| parts.engine_cpu,
        |start, parts| start.cpu_s - parts.engine_cpu,
    ];
    for Measured { workload, rounds, .. } in measured {
        let cells = all.map(|number| {
            of(rounds, By::Supercargo, |start| start.parts.as_ref().map(|parts| number(start, parts)))
        });
        table.row(&[(*workload).to_owned()].into_iter().chain(cells).collect::<Vec<_>>());
    }
    table.text().to_owned()
}
