//! What each layer of the cached path saves: every workload is measured with one layer off at a time.

use crate::comparison::{number, ours_without, print_line};
use crate::report::{Numbers, Table, circumstances, short, write_section_of};
use crate::workloads::{Size, Workload};
use supercargo_core::switches::ablation::Layer;

/// The page that holds the table.
const PAGE: &str = "crates/core/src/incremental/README.md";

/// The measured workloads: column head, workload, and pods, fewer than usual because some layers cost a lot.
const WORKLOADS: [(&str, &str, usize); 7] = [
    ("basic", "basic", 1_000),
    ("spread", "spread", 1_000),
    ("soft anti-affinity", "soft-anti", 1_000),
    ("1,000 signatures in turn", "W15", 3_000),
    ("unseen signatures", "W15-new", 1_000),
    ("spread, unseen signatures", "spread", 1_000),
    ("preemption", "W11", 1_000),
];

fn size(head: &str, id: &str, pods: usize, is_quick: bool) -> Size {
    let own = Workload::named(id).expect("the workload exists").size;
    let small = if is_quick { 10 } else { 1 };
    let signatures = if head.ends_with("unseen signatures") { pods } else { own.signatures };
    let pods = own.pods.min(pods) / small;
    Size { nodes: own.nodes.div_ceil(small), existing: own.existing / small, pods, signatures, ..own }
}

/// Measures every workload with each layer off, in turn, and writes the table to the page; a quick run prints it.
pub(crate) fn run(is_quick: bool, passes: usize) {
    let layers: Vec<Option<Layer>> = std::iter::once(None).chain(Layer::ALL.map(Some)).collect();
    let mut found = vec![vec![Numbers::default(); WORKLOADS.len()]; layers.len()];
    for pass in 1..=passes {
        for (layer, found) in layers.iter().zip(&mut found) {
            let name = layer.map_or("nothing", Layer::name);
            print_line(&format!("pass {pass} of {passes}: without {name}"));
            for ((head, id, pods), found) in WORKLOADS.iter().zip(found.iter_mut()) {
                let line = ours_without(id, &size(head, id, *pods, is_quick), *layer);
                found.push(number(&line, "cpu_us_per_decision"));
            }
        }
    }
    let head: Vec<&str> = std::iter::once("without").chain(WORKLOADS.map(|(head, ..)| head)).collect();
    let mut table = Table::new(&head);
    for (layer, numbers) in layers.iter().zip(&found) {
        let cells = numbers.iter().zip(&found[0]).map(|(numbers, all)| match layer {
            None => format!("{} us", short(numbers.median())),
            Some(_) => format!("{:.2}x", numbers.median() / all.median()),
        });
        let name = layer.map_or("nothing", Layer::name).to_owned();
        table.row(&std::iter::once(name).chain(cells).collect::<Vec<_>>());
    }
    let text = format!(
        "CPU time per decision, median of {passes} runs in turn (`make bench PART=ablation`): microseconds with all layers, then the ratio with one \
         layer off. {}\n\n{}",
        circumstances("no kube-scheduler beside it"),
        table.text()
    );
    if is_quick {
        print_line(&text);
    } else if let Err(error) = write_section_of(PAGE, "ablation", &text) {
        print_line(&format!("{PAGE}: {error}"));
    }
}
