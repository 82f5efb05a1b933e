//! Recorded cycles of pod groups, which ours must equal in every field under `--compat=upstream`.
//!
//! The vectors are in `groups`, a file per version. If `GOLDEN_GANG_DIR` is set, those in that folder are compared
//! instead. A scenario names the version of kube-scheduler that was recorded, unless it is 1.36.
//!
//! `groups/differs.txt` lists the vectors that ours does not equal yet, with the reason. One that becomes equal must be
//! taken off the list.

use crate::recorded;
use std::collections::BTreeSet;
use std::path::Path;
use supercargo_core::model::emulation::Compat;
use supercargo_dev::golden::groups::{GroupVector, differences, play};

const FILES: [(&str, usize); 2] = [("groups", 152), ("1.37", 173)];

fn here(name: &str) -> String {
    format!("{}/tests/golden/groups/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn vectors(texts: &[String]) -> Vec<GroupVector> {
    let lines = texts.iter().flat_map(|text| text.lines()).filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).expect("a line is a vector")).collect()
}

/// Compares the vectors. Those named in `differ` must differ, and all others must not.
fn compare(vectors: &[GroupVector], differ: &BTreeSet<&str>) {
    let (mut mismatches, mut failed) = (Vec::new(), 0);
    for GroupVector { scenario, steps } in vectors {
        let played = play(scenario, Compat::Upstream);
        assert_eq!(played.len(), steps.len(), "{}", scenario.name);
        let before = mismatches.len();
        for (number, (expected, got)) in steps.iter().zip(&played).enumerate() {
            let found = differences(expected, got).into_iter();
            mismatches.extend(found.map(|it| format!("{} step {number}{it}", scenario.name)));
        }
        let is_listed = scenario.version.is_some() && differ.contains(scenario.name.as_str());
        if is_listed && mismatches.len() > before {
            mismatches.truncate(before);
        } else if is_listed {
            mismatches.push(format!("{} is equal now: take it off the list", scenario.name));
        }
        failed += usize::from(mismatches.len() > before);
    }
    assert!(
        mismatches.is_empty(),
        "{failed} of {} vectors differ, {} mismatches:\n{}",
        vectors.len(),
        mismatches.len(),
        mismatches.join("\n")
    );
}

#[test]
fn groups_are_decided_as_recorded() {
    let listed = std::fs::read_to_string(here("differs.txt")).expect("the list is there");
    let entries = listed.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let differ: BTreeSet<&str> = entries.filter_map(|line| line.split_whitespace().next()).collect();
    if let Some(folder) = std::env::var_os("GOLDEN_GANG_DIR") {
        let vectors = vectors(&recorded::of_folder(Path::new(&folder)));
        assert!(!vectors.is_empty(), "{folder:?} has no vectors");
        return compare(&vectors, &differ);
    }
    let mut all = Vec::new();
    for (name, count) in FILES {
        let text = recorded::text(Path::new(&here(&format!("{name}.jsonl.gz")))).expect("a compressed file");
        let vectors = vectors(&[text]);
        assert_eq!(vectors.len(), count, "vectors of {name}");
        all.extend(vectors);
    }
    let known: BTreeSet<&str> = all.iter().map(|it| it.scenario.name.as_str()).collect();
    assert!(differ.is_subset(&known), "unknown: {:?}", differ.difference(&known).collect::<Vec<_>>());
    compare(&all, &differ);
}
