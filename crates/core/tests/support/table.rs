//! Tables: a cluster and pods to schedule above a line of dashes, and the plugins' results below it.
//!
//! ```text
//! with NodeResourcesFit                       words a test's own function turns into plugins
//!
//! == a pod that asks for more than a node has stays off it
//! node a cpu=4
//! schedule x cpu=5
//! ----
//! a: NodeResourcesFit UnschedulableAndUnresolvable: Insufficient cpu
//! ```
//!
//! Lines that start with `#` are comments. `with` before the first title applies to all tables without their own.
//! With `UPDATE_EXPECT=1` in the environment, the results are rewritten.

use super::run::{Plugins, decide};
use super::{TestCluster, language};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::PodInfo;

const RULE: &str = "----";

/// Turns a word of a `with` line into plugins.
pub(crate) type PluginsByName<'f> = &'f dyn Fn(&str, &mut Tables, &mut Plugins);

/// Returns the result for a pod, under the words of the `with` lines.
pub(crate) type Describe<'f> = &'f dyn Fn(&mut TestCluster, &[&str], &PodInfo) -> String;

/// Checks every table of `tests/tables/<file>`, or rewrites its results.
pub(crate) fn check_file(file: &str, plugins: PluginsByName<'_>) {
    check_file_by(file, &|cluster, with, pod| by_plugins(cluster, with, pod, plugins));
}

/// As [`check_file`], with results from `say`.
pub(crate) fn check_file_by(file: &str, say: Describe<'_>) {
    let path = format!("{}/tests/tables/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let actual = render(&text, say);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, actual).unwrap_or_else(|error| panic!("{path}: {error}"));
    } else {
        compare(&text, &actual);
    }
}

/// Checks one table given as text.
pub(crate) fn check(table: &str, plugins: PluginsByName<'_>) {
    let table: String = table.trim().lines().map(|line| format!("{}\n", line.trim())).collect();
    compare(&table, &render(&table, &|cluster, with, pod| by_plugins(cluster, with, pod, plugins)));
}

fn by_plugins(cluster: &mut TestCluster, with: &[&str], pod: &PodInfo, plugins: PluginsByName<'_>) -> String {
    let mut chosen = Plugins::default();
    for word in with {
        plugins(word, &mut cluster.tables, &mut chosen);
    }
    decide(cluster, &chosen, pod)
}

fn compare(expected: &str, actual: &str) {
    let differing = expected.lines().zip(actual.lines()).find(|(e, a)| e != a);
    let differing =
        differing.map_or_else(String::new, |(e, a)| format!("first differs:\n  - {e}\n  + {a}\n"));
    assert!(
        expected.trim_end() == actual.trim_end(),
        "{differing}a table says otherwise; UPDATE_EXPECT=1 rewrites files. All of it as it is now:\n{actual}"
    );
}

/// Returns the tables of `text` with recomputed results.
fn render(text: &str, say: Describe<'_>) -> String {
    let mut blocks: Vec<Vec<&str>> = vec![Vec::new()];
    for line in text.lines() {
        if line.starts_with("== ") {
            blocks.push(Vec::new());
        }
        blocks.last_mut().expect("the file has a first block").push(line);
    }
    let head_has_rule = blocks[0].contains(&RULE);
    let common: Vec<&str> = if head_has_rule { Vec::new() } else { withs(&blocks[0]) };
    let mut out = String::new();
    for (at, block) in blocks.iter().enumerate() {
        if at == 0 && !head_has_rule {
            block.iter().for_each(|line| push_line(&mut out, line));
            continue;
        }
        let end = block.iter().position(|line| *line == RULE).unwrap_or_else(|| {
            panic!(
                "a table lacks the line {RULE} between what is and what is expected:\n{}",
                block.join("\n")
            )
        });
        let input = &block[..end];
        input.iter().for_each(|line| push_line(&mut out, line));
        push_line(&mut out, RULE);
        let own = withs(input);
        let words = if own.is_empty() { &common } else { &own };
        out.push_str(&table(input, words, say));
        if at + 1 < blocks.len() {
            out.push('\n');
        }
    }
    out
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn withs<'t>(lines: &[&'t str]) -> Vec<&'t str> {
    lines.iter().filter_map(|line| line.strip_prefix("with ")).flat_map(str::split_whitespace).collect()
}

fn table(input: &[&str], with: &[&str], say: Describe<'_>) -> String {
    let mut cluster = TestCluster::new();
    let mut pods = Vec::new();
    for line in input.iter().filter(|l| !l.is_empty()) {
        match line.split_whitespace().next() {
            Some("==" | "with") => {}
            Some(word) if word.starts_with('#') => {}
            Some("schedule") => {
                let words: Vec<&str> = line.split_whitespace().skip(1).collect();
                pods.push(language::pod(&mut cluster.tables, &words));
            }
            _ => language::apply(&mut cluster, line),
        }
    }
    assert!(!pods.is_empty(), "a table schedules at least one pod:\n{}", input.join("\n"));
    cluster.cache.refresh();
    match pods.as_slice() {
        [pod] => say(&mut cluster, with, pod),
        pods => pods.iter().map(|pod| format!("{}\n{}", pod.name, say(&mut cluster, with, pod))).collect(),
    }
}
