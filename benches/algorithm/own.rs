//! supercargo alone: measurements beyond the ratios, and workloads that do more than decide.

use crate::comparison::{number, ours, print_line};
use crate::report::{Numbers, Table};
use crate::workloads::{Size, Workload};
use std::collections::BTreeMap;

const FIELDS: [&str; 6] =
    ["decisions_per_s", "cpu_us_per_decision", "cpu_us_with_queue", "p50_us", "p99_us", "rss_mb"];

/// Returns the measured rows: description, workload, and a size that differs from the workload's own.
fn rows(is_quick: bool) -> Vec<(&'static str, &'static str, Size)> {
    let own = |id: &str| Workload::named(id).expect("the workload exists").size;
    let running = |existing: usize| Some(Size { existing, ..own("basic") });
    let rows = [
        ("1,000 signatures in turn", "W15", None),
        ("unseen signatures", "W15-new", None),
        ("1,000 signatures, 20,000 nodes", "W15-20k", None),
        ("100,000 nodes, one signature", "W2", None),
        (
            "100,000 nodes, unseen signatures",
            "basic",
            Some(Size { nodes: 100_000, existing: 0, signatures: 1_000, ..own("basic") }),
        ),
        ("no running pods", "basic", running(0)),
        ("150,000 running pods", "basic", running(150_000)),
        ("no running pods, spread", "spread", running(0)),
        ("150,000 running pods, spread", "spread", running(150_000)),
        ("no running pods, hard-anti", "hard-anti", running(0)),
        ("150,000 running pods, hard-anti", "hard-anti", running(150_000)),
        ("no pending pods", "W12-idle", None),
        ("10,000 pending pods, ten signatures", "W12", None),
        ("10,000 pending pods, 10,000 signatures", "W12-many", None),
        ("10,000 gated pods, others created and deleted", "W13", None),
        ("pods with new labels created and deleted", "churn", None),
        ("50 status updates per new pod", "W13-reports", None),
        ("preemption", "W11", None),
        ("every hundredth pod preempts", "W11-mix", None),
        ("volumes provisioned after the decision", "W14-late", None),
        ("rolling update of DaemonSets", "W9-rolling", None),
        ("nodes added and removed", "W17", None),
        ("startup", "W16", None),
        ("startup with 100,000 nodes", "W16-100k", None),
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

/// Measures all rows in turn, several times, so that other load on the machine affects all of them.
pub(crate) fn table(is_quick: bool, passes: usize) -> String {
    let rows = rows(is_quick);
    let mut found: Vec<BTreeMap<&str, Numbers>> = rows.iter().map(|_| BTreeMap::new()).collect();
    for pass in 1..=passes {
        for ((what, id, size), found) in rows.iter().zip(&mut found) {
            print_line(&format!("pass {pass} of {passes}: {what}"));
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
        cells.extend(FIELDS.map(|field| found[field].median_and_range()));
        table.row(&cells);
    }
    table.text().to_owned()
}
