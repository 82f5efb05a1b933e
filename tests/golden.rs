//! Golden vectors: what the real kube-scheduler said of small clusters, and that we say the same in every field.
//!
//! Vectors are in `golden/`, one JSON object a line; `golden/README.md` tells what they hold and which are left out.
//! With `GOLDEN_DIR` set, the vectors of that folder (`.json`, `.jsonl`, `.jsonl.gz`) are compared instead.

#[path = "golden/compare.rs"]
mod compare;
#[path = "golden/recorded.rs"]
mod recorded;
#[path = "golden/world.rs"]
mod world;

use compare::{Vector, compare_vector};

/// How many vectors there are, so that none is lost unseen: those the project began with, and its own families.
const VECTORS: usize = 345 + 49 + 2 + 52 + 17 + 34 + 57 + 65 + 72 + 331;

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
    let text = recorded::read().concat();
    text.lines().map(|line| serde_json::from_str(line).expect("a line is a vector")).collect()
}
