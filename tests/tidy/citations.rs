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
