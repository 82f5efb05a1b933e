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
use flate2::read::GzDecoder;
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::io::Read as _;

/// How many vectors there are, so that none is lost unseen: those the project began with, and its own families.
const VECTORS: usize = 345 + 49 + 2 + 52 + 17 + 34 + 57 + 65 + 72 + 331 + 34 + 12;

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

/// `src/api/proto` is compared with JSON on every object of the vectors, as upstream's encoder writes it: none may be missing there.
#[test]
fn every_object_of_the_vectors_is_written_down_as_protobuf() {
    #[derive(serde::Deserialize)]
    struct Written {
        written: String,
    }
    #[derive(serde::Deserialize)]
    struct Objects<'a> {
        #[serde(borrow)]
        scenario: Lists<'a>,
    }
    #[derive(serde::Deserialize)]
    struct Lists<'a> {
        #[serde(borrow)]
        objects: Vec<&'a RawValue>,
        #[serde(borrow)]
        pods: Vec<&'a RawValue>,
    }

    let packed = include_bytes!("fixtures/protobuf.jsonl.gz");
    let mut fixture = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut fixture).expect("the fixture is text");
    let sum = |line| serde_json::from_str::<Written>(line).expect("a line of the fixture").written;
    let known: HashSet<String> = fixture.lines().map(sum).collect();
    for line in recorded::read().concat().lines() {
        let Objects { scenario: Lists { objects, pods } } =
            serde_json::from_str(line).expect("a line is a vector");
        for object in objects.iter().chain(&pods) {
            assert!(known.contains(&fnv(object.get())), "run make protobuf; this is new: {object}");
        }
    }
}

/// FNV-1a, as `tests/upstream/protobuf` sums texts.
fn fnv(text: &str) -> String {
    let add = |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, add))
}
