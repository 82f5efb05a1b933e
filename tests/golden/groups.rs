//! Recorded cycles of pod groups, which ours must equal in every field under `--compat=upstream`.
//!
//! The vectors are in `groups.jsonl.gz`. If `GOLDEN_GANG_DIR` is set, those in that folder are compared instead.

use crate::recorded;
use std::path::Path;
use supercargo_core::model::emulation::Compat;
use supercargo_dev::golden::groups::{GroupVector, differences, play};

const VECTORS: usize = 152;

#[test]
fn groups_are_decided_as_recorded() {
    let folder = std::env::var_os("GOLDEN_GANG_DIR");
    let texts = match &folder {
        Some(folder) => recorded::of_folder(Path::new(folder)),
        None => {
            let file = format!("{}/tests/golden/groups/groups.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
            vec![recorded::text(Path::new(&file)).expect("a compressed file")]
        }
    };
    let lines = texts.iter().flat_map(|text| text.lines()).filter(|line| !line.trim().is_empty());
    let vectors: Vec<GroupVector> =
        lines.map(|line| serde_json::from_str(line).expect("a line is a vector")).collect();
    assert!(!vectors.is_empty(), "{folder:?} has no vectors");
    assert!(folder.is_some() || vectors.len() == VECTORS, "{} vectors of {VECTORS}", vectors.len());
    let (mut mismatches, mut failed) = (Vec::new(), 0);
    for GroupVector { scenario, steps } in &vectors {
        let played = play(scenario, Compat::Upstream);
        assert_eq!(played.len(), steps.len(), "{}", scenario.name);
        let before = mismatches.len();
        for (number, (expected, got)) in steps.iter().zip(&played).enumerate() {
            let found = differences(expected, got).into_iter();
            mismatches.extend(found.map(|it| format!("{} step {number}{it}", scenario.name)));
        }
        failed += usize::from(mismatches.len() > before);
    }
    println!("{} vectors, {failed} of them differ", vectors.len());
    assert!(
        mismatches.is_empty(),
        "{failed} of {} vectors differ, {} mismatches:\n{}",
        vectors.len(),
        mismatches.len(),
        mismatches.join("\n")
    );
}
