//! The results of mutation testing name functions that exist. It does not check that the results are current: a changed
//! function has another hash, and the next `make mutants` tests it again.

use super::{assert_none, root};
use std::fs;

#[test]
fn every_mutation_result_names_an_existing_function() {
    let mut gone = Vec::new();
    for table in ["results.tsv", "survivors.tsv", "unfinished.tsv"] {
        let text = super::read(&format!("tests/mutants/{table}"));
        let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        // Nothing may be unfinished.
        assert!(!rows.is_empty() || table == "unfinished.tsv", "{table} has no rows");
        for row in rows {
            let mut fields = row.split('\t');
            let (Some(file), Some(function)) = (fields.next(), fields.next()) else {
                panic!("{table}: no file and function in {row:?}");
            };
            if !exists(file, function) {
                gone.push(format!("{table}: {function} in {file}"));
            }
        }
    }
    gone.dedup();
    assert_none("delete the rows of these functions, or run `make mutants`", &gone);
}

/// Returns whether the file has a function of this name; an empty name stands for expressions outside functions.
fn exists(file: &str, function: &str) -> bool {
    let name = function.rsplit("::").next().unwrap_or(function);
    fs::read_to_string(root().join(file)).is_ok_and(|text| {
        name.is_empty() || text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<"))
    })
}
