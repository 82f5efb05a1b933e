//! What is asked of the engine beside ratios, and workloads in whose course more happens than decisions: supercargo alone.

use crate::beside::{number, ours, tell};
use crate::report::{Numbers, Table};
use crate::workloads::{Size, Workload};
use std::collections::BTreeMap;

const FIELDS: [&str; 6] =
    ["decisions_per_s", "cpu_us_per_decision", "cpu_us_with_queue", "p50_us", "p99_us", "rss_mb"];

/// What is measured: in words, the workload, and its size where it is not the workload's own.
fn rows(is_quick: bool) -> Vec<(&'static str, &'static str, Size)> {
    let own = |id: &str| Workload::named(id).expect("it is one of ours").size;
    let running = |existing: usize| Some(Size { existing, ..own("basic") });
    let rows = [
        ("1,000 kinds of pods in turn", "W15", None),
        ("a kind never seen", "W15-new", None),
        ("1,000 kinds, 20,000 nodes", "W15-20k", None),
        ("100,000 nodes, one kind", "W2", None),
        (
            "100,000 nodes, kinds never seen",
            "basic",
            Some(Size { nodes: 100_000, existing: 0, signatures: 1_000, ..own("basic") }),
        ),
        ("no pods that run", "basic", running(0)),
        ("150,000 pods that run", "basic", running(150_000)),
        ("no pods that run, spread", "spread", running(0)),
        ("150,000 that run, spread", "spread", running(150_000)),
        ("no pods that run, hard-anti", "hard-anti", running(0)),
        ("150,000 that run, hard-anti", "hard-anti", running(150_000)),
        ("nobody waits", "W12-idle", None),
        ("10,000 wait, of ten kinds", "W12", None),
        ("10,000 wait, of as many kinds", "W12-many", None),
        ("10,000 gated, others come and go", "W13", None),
        ("pods with ever new labels come and go", "churn", None),
        ("50 reports of pods per arrival", "W13-reports", None),
        ("preemption", "W11", None),
        ("preemption by every hundredth", "W11-mix", None),
        ("volumes made late", "W14-late", None),
        ("rolling update of DaemonSets", "W9-rolling", None),
        ("nodes come and go", "W17", None),
        ("start", "W16", None),
        ("start with 100,000 nodes", "W16-100k", None),
    ];
    let small = if is_quick { 10 } else { 1 };
    let scaled = |size: Size| Size {
        nodes: size.nodes.div_ceil(small),
        existing: size.existing / small,
        pods: size.pods.div_ceil(small * if size.pods > 10_000 { 5 } else { 1 }),
        waiting: size.waiting / small,
        ..size
    };
    rows.into_iter().map(|(what, id, size)| (what, id, scaled(size.unwrap_or_else(|| own(id))))).collect()
}

/// Measures all of it in turn, again and again, so that what the machine does beside falls on all of it.
pub(crate) fn table(is_quick: bool, passes: usize) -> String {
    let rows = rows(is_quick);
    let mut found: Vec<BTreeMap<&str, Numbers>> = rows.iter().map(|_| BTreeMap::new()).collect();
    for pass in 1..=passes {
        for ((what, id, size), found) in rows.iter().zip(&mut found) {
            tell(&format!("pass {pass} of {passes}: {what}"));
            let line = ours(id, size);
            for field in FIELDS {
                found.entry(field).or_default().push(number(&line, field));
            }
        }
    }
    let head = [
        "what",
        "workload",
        "nodes, existing, pods",
        "decisions/s",
        "cpu us",
        "with queue",
        "p50 us",
        "p99 us",
        "RSS MB",
    ];
    let mut table = Table::new(&head);
    for ((what, id, size), found) in rows.iter().zip(&found) {
        let sizes = format!("{}, {}, {}", size.nodes, size.existing, size.pods);
        let mut cells = vec![(*what).to_owned(), (*id).to_owned(), sizes];
        cells.extend(FIELDS.map(|field| found[field].told()));
        table.row(&cells);
    }
    table.text().to_owned()
}
