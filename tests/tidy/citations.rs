//! Tests that pages cite as `file::name` exist: a function, the title of a scenario or table, or a golden vector.

use super::{assert_none, code, files, functions, read, root, sources};
use std::collections::BTreeSet;

/// Returns the citations of a page: file and name.
fn citations(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let cited = quoted.filter_map(|word| word.split_once("::"));
    cited.filter(|(file, _)| [".rs", ".txt", ".jsonl"].iter().any(|end| file.ends_with(end))).collect()
}

/// Returns whether a file has a test of this name.
fn has(file: &str, name: &str) -> bool {
    let Ok(text) = std::fs::read_to_string(root().join(file)) else { return false };
    match file.rsplit('.').next() {
        Some("rs") => functions(&code(&text)).iter().any(|(function, ..)| function == name),
        Some("txt") => text.lines().any(|line| line.strip_prefix("== ") == Some(name)),
        _ => text.contains(&format!("\"name\":\"{name}\"")),
    }
}

#[test]
fn every_cited_test_exists() {
    let mut seen = 0;
    let mut breaches = Vec::new();
    for (page, text) in files().iter().filter(|(name, _)| name.ends_with(".md")) {
        for (file, name) in citations(text) {
            seen += 1;
            if !has(file, name) {
                breaches.push(format!("{page}: {file}::{name}"));
            }
        }
    }
    assert_none("cited tests that do not exist", &breaches);
    assert!(seen > 100, "docs/integration-tests.md cites tests: {seen}");
}

/// Folders whose paths are cited without a package, each with a slash.
const FOLDERS: [&str; 8] =
    ["src/", "crates/", "tests/", "benches/", "manifests/", "dashboards/", "examples/", "docs/"];
/// Pages about earlier versions, and files that cite paths of other projects.
const OF_OTHER_TREES: [&str; 4] =
    ["CHANGELOG.md", "docs/old-names.md", "pod_topology_spread/go_log.rs", "COVERAGE.md"];

/// Returns the paths in a file: words in backticks that begin with a folder, without placeholders.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_path = |word: &&str| {
        FOLDERS.iter().any(|folder| word.starts_with(folder))
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c))
            && !["NAME", "VERSION"].iter().any(|placeholder| word.contains(placeholder))
    };
    quoted.filter(is_path)
}

#[test]
fn every_cited_path_exists() {
    let mut seen = 0;
    let mut breaches = Vec::new();
    let is_checked = |page: &str| {
        (page.ends_with(".md") || page.ends_with(".rs"))
            && !OF_OTHER_TREES.iter().any(|it| page.ends_with(it))
    };
    for (page, text) in files().iter().filter(|(page, _)| is_checked(page)) {
        // A path is relative to the repository or to the file's package.
        let package = page.split('/').take(2).collect::<Vec<_>>().join("/");
        for path in paths(text) {
            seen += 1;
            let exists = |base: &str| {
                let at = root().join(base).join(path);
                at.exists() || at.with_extension("rs").exists()
            };
            if !exists("") && !exists(&package) {
                breaches.push(format!("{page}: {path}"));
            }
        }
    }
    assert_none("cited paths that do not exist", &breaches);
    assert!(seen > 300, "pages cite paths: {seen}");
}

/// Functions that the table "Where to start reading" names, as `function` or `Type::function`.
#[test]
fn every_function_that_a_reader_is_sent_to_exists() {
    let text = read("ARCHITECTURE.md");
    let (_, table) = text.split_once("## Where to start reading").expect("the section exists");
    let table = table.split("\n## ").next().unwrap_or_default();
    let known: BTreeSet<String> =
        sources().iter().flat_map(|(_, text)| functions(&code(text))).map(|(name, ..)| name).collect();
    let quoted = table.split('`').skip(1).step_by(2).map(|word| word.rsplit("::").next().unwrap_or(word));
    let named: Vec<&str> = quoted
        .filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '_') && word.len() > 1)
        .collect();
    assert!(named.len() > 25, "the table names functions: {named:?}");
    let breaches: Vec<String> =
        named.iter().filter(|name| !known.contains(**name)).map(|&name| name.to_owned()).collect();
    assert_none("functions in ARCHITECTURE.md that do not exist", &breaches);
}

#[test]
fn citations_of_tests_are_recognized() {
    assert_eq!(citations("`a/b.rs::c`, `d.txt::e, f`, `Type::method`"), [("a/b.rs", "c"), ("d.txt", "e, f")]);
    assert!(has("tests/tidy/citations.rs", "every_cited_test_exists"));
    assert!(!has("tests/tidy/citations.rs", "another"));
    assert!(has("crates/core/tests/scenarios/lifecycle.txt", "a gated pod waits until its gate is removed"));
    assert!(!has("crates/core/tests/scenarios/lifecycle.txt", "a gated pod"));
    assert!(!has("no/such/file.rs", "every_cited_test_exists"));
}
