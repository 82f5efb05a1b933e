//! Runs of the simulation: the same seeds every time, and a few that nobody has run before.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::process::Command;
use supercargo_sim::{Options, Summary, run};

const STEPS: u64 = 3_000;

fn holds(seed: u64, steps: u64) -> Summary {
    run(Options { seed, steps, echo: None }).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Runs seeds, and checks that what they are to show came up at all.
fn all_hold(seeds: impl Iterator<Item = u64>) {
    let runs: Vec<Summary> = seeds.map(|seed| holds(seed, STEPS)).collect();
    let sum = |of: fn(&Summary) -> u64| runs.iter().map(of).sum::<u64>();
    assert!(sum(|run| run.placed) > 300, "{runs:?}");
    assert!(sum(|run| run.bindings) > sum(|run| run.placed), "no binding was sent again: {runs:?}");
    assert!(sum(|run| run.checked_locally) > 50 && sum(|run| run.checked_wholly) > 100, "{runs:?}");
    assert!(runs.iter().any(|run| run.lives > 1), "the scheduler was never started again");
}

#[test]
fn every_invariant_holds_for_seeds_1_to_10() {
    all_hold(1..=10);
}

#[test]
fn every_invariant_holds_for_seeds_11_to_20() {
    all_hold(11..=20);
}

#[test]
fn every_invariant_holds_for_seeds_21_to_30() {
    all_hold(21..=30);
}

#[test]
fn every_invariant_holds_for_seeds_31_to_40() {
    all_hold(31..=40);
}

#[test]
fn every_invariant_holds_for_seeds_nobody_has_run_before() {
    for nth in 0..20_u64 {
        // The one source of chance in the standard library that is no clock. Small enough to be typed again.
        let seed = RandomState::new().hash_one(nth) % 1_000_000_000;
        println!("seed {seed}");
        holds(seed, STEPS);
    }
}

#[test]
fn the_same_seed_gives_the_same_log_to_the_last_line() {
    let (first, second) = (holds(7, STEPS), holds(7, STEPS));
    assert_eq!(first, second);
    assert!(first.log_lines > 1_000, "{first:?}");
    assert_ne!(first.log_hash, holds(8, STEPS).log_hash);
}

fn program(args: &[&str]) -> (Option<i32>, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_supercargo-sim")).args(args).output();
    let done = done.expect("the program of this package can be run");
    let text = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_program_prints_the_seed_first_and_every_line_if_asked() {
    let (code, text) = program(&["--seed", "3", "--steps=50", "--seeds", "2"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.starts_with("seed 3, 50 steps\n  held: ") && text.contains("\nseed 4, 50 steps\n"),
        "{text}"
    );
    let (code, text) = program(&["--seed", "3", "--steps", "50", "-v"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("   100.200000 process  life 1     starts\n"), "{text}");
}

#[test]
fn the_program_says_what_is_wrong_with_its_arguments() {
    for (args, complaint) in [
        (&["--seed"][..], "--seed needs a number"),
        (&["--steps", "many"], "--steps: \"many\" is not a number of 0 or more"),
        (&["--sede", "1"], "there is no flag --sede"),
    ] {
        let (code, text) = program(args);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.starts_with(complaint) && text.contains("usage: supercargo-sim"), "{text}");
    }
}
