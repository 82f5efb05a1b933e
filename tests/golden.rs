//! Golden vectors: recorded decisions of the real kube-scheduler on small clusters, which ours must equal in every
//! field.
//!
//! Vectors are in `golden/`, one JSON object per line; `golden/README.md` describes them and what is excluded.
//! If `GOLDEN_DIR` is set, the vectors in that folder (`.json`, `.jsonl`, `.jsonl.gz`) are compared instead.

use supercargo_dev::golden::compare;
#[path = "golden/devices.rs"]
mod devices;
#[path = "golden/groups.rs"]
mod groups;
#[path = "golden/recorded.rs"]
mod recorded;
#[path = "golden/versions.rs"]
mod versions;

use compare::{Vector, compare_vector};
use flate2::read::GzDecoder;
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::io::Read as _;

/// The expected number of vectors, so that none is lost unnoticed: the initial ones and the project's own families.
const VECTORS: usize = 345 + 49 + 2 + 52 + 17 + 34 + 57 + 65 + 72 + 331 + 34 + 12 + 237;

#[test]
fn decisions_equal_kube_schedulers_in_every_field() {
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

/// `crates/objects/src/api/proto` is compared with JSON for every object in the vectors, encoded by upstream; none
/// may be missing.
#[test]
fn every_object_of_the_vectors_has_a_protobuf_fixture() {
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
        // Templates are not watched.
        let is_watched = |object: &&&RawValue| !object.get().contains("\"kind\":\"ResourceClaimTemplate\"");
        for object in objects.iter().chain(&pods).filter(is_watched) {
            assert!(known.contains(&fnv(object.get())), "run `make protobuf`; new object: {object}");
        }
    }
}

/// FNV-1a hash, as `tests/upstream/protobuf` computes it.
fn fnv(text: &str) -> String {
    let add = |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, add))
}
