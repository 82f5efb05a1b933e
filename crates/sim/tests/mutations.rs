//! The simulation detects bugs: each mutation of the engine breaks an invariant within a few seeds.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use supercargo_core::switches::mutation::{self, Mutation};
use supercargo_sim::{Options, run};

const STEPS: u64 = 1_000;
/// The number of seeds after which a mutation counts as undetected.
const SEEDS_MAX: u64 = 400;

/// The name for the engine's own assertions, where one fails before an invariant of the simulation.
const ASSERTED: &str = "the engine's own assertions";

/// Returns the first seed that detects the mutation, and the broken invariant.
fn detected(mutation: Option<Mutation>, seeds: u64) -> Option<(u64, String)> {
    (1..=seeds).find_map(|seed| {
        let extended = mutation.is_some_and(Mutation::is_about_extenders);
        let options = Options { seed, steps: STEPS, extended, ..Options::default() };
        let run = || mutation::with(mutation, || run(options));
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(_)) => None,
            Ok(Err(failure)) => Some((seed, failure.invariant.to_owned())),
            Err(_) => Some((seed, ASSERTED.to_owned())),
        }
    })
}

#[test]
fn every_mutation_is_detected() {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    let work = || {
        while let Some(&mutation) = Mutation::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            let detected = detected(Some(mutation), SEEDS_MAX);
            found.lock().expect("no thread panics while holding it").insert(mutation, detected);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let found = found.into_inner().expect("no thread panics while holding it");
    let mut missed = Vec::new();
    for (mutation, detected) in &found {
        match detected {
            Some((seed, invariant)) => println!("{mutation:<24?} seed {seed:>3}  {invariant}"),
            None => missed.push(mutation),
        }
    }
    assert_eq!(found.len(), Mutation::ALL.len());
    assert!(missed.is_empty(), "not detected in {SEEDS_MAX} seeds: {missed:?}");
}

#[test]
fn unmutated_engine_passes_the_same_seeds() {
    assert_eq!(detected(None, 20), None);
}
