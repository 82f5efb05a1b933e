//! Golden vectors: what the real kube-scheduler said of small clusters, and that we say the same in every field.
//!
//! Vectors are in `golden/`, one JSON object a line; `golden/README.md` tells what they hold and which are left out.
//! With `GOLDEN_DIR` set, the vectors of that folder (`.json`, `.jsonl`) are compared instead.

#[path = "golden/compare.rs"]
mod compare;
#[path = "golden/world.rs"]
mod world;

use compare::{Vector, compare_vector};
use std::path::{Path, PathBuf};

/// How many vectors there are, so that none is lost unseen.
const VECTORS: usize = 138 + 24 + 143 + 12 + 28 + 49 + 2;

#[test]
fn every_decision_is_the_one_kube_scheduler_made_in_every_field() {
    let vectors = vectors();
    let count = vectors.len();
    assert!(count == VECTORS || std::env::var_os("GOLDEN_DIR").is_some(), "{count} vectors of {VECTORS}");
    let mut decisions = 0;
    let mut mismatches = Vec::new();
    for vector in vectors {
        assert_eq!(vector.scenario.pods.len(), vector.decisions.len(), "{}", vector.scenario.name);
        decisions += vector.decisions.len();
        compare_vector(&vector, &mut mismatches);
    }
    println!("{count} vectors, {decisions} decisions");
    let shown: Vec<_> = mismatches.iter().take(100).map(String::as_str).collect();
    assert!(
        mismatches.is_empty(),
        "{} mismatches, the first of them:\n{}",
        mismatches.len(),
        shown.join("\n")
    );
}

fn vectors() -> Vec<Vector> {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let folder = std::env::var_os("GOLDEN_DIR").map_or_else(own, PathBuf::from);
    let files = std::fs::read_dir(&folder)
        .expect("the folder is here")
        .map(|entry| entry.expect("it can be listed").path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|e| e == "jsonl" || e == "json")).collect();
    files.sort();
    let text: String =
        files.iter().map(|path| std::fs::read_to_string(path).expect("a vector is text")).collect();
    text.lines().map(|line| serde_json::from_str(line).expect("a line is a vector")).collect()
}
