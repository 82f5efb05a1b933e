//! Runs of the simulation: fixed seeds, and a few new ones each time.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::process::Command;
use supercargo_sim::{Options, Summary, Totals, run, sweep, sweep_with};

const STEPS: u64 = 1_000;
const FRESH: u64 = 200;

/// Seeds that once detected a bug. The meaning of a seed changes with the simulation. The bug itself is covered
/// by a scenario or a regression test; the seed is run as an extra.
const FAILED_BEFORE: [(u64, u64, &str); 32] = [
    (
        2_500_098_167,
        300,
        "the checker did not know that a refused binding of a pod that a list omits is queried",
    ),
    (
        2_500_003_833,
        300,
        "the checker did not know that 1.37 refuses a group with a bound member of another scheduler",
    ),
    (2_100_000_615, 300, "the checker did not count pods that waited for their group after PreBind"),
    (1_700_011_945, 300, "pods that share two claims waited for each other's reservations, without end"),
    (
        1_600_081_599,
        300,
        "slices of a group's cycle dropped the results of searches for devices that the next slice needed, without end",
    ),
    (960_018_561, 300, "a pod waited on after the deletion of a group whose members it may preempt"),
    (
        920_002_485,
        1_000,
        "assumed members refreshed the image counts of their nodes, unseen by shared scores",
    ),
    (550_397_595, 1_000, "a member without a node kept the others from the node that it was nominated to"),
    (
        403_750_422,
        1_000,
        "the checker blamed the flush for what happened while a pod was evaluated in slices",
    ),
    (510_422_876, 1_000, "a pod waited for a replaced claim whose volume went to another claim"),
    (7_050_629, 300, "the checker blamed the flush for the effect of a nomination that had moved"),
    (7_050_568, 300, "the reference counted a pod without its own claim on a node without a volume limit"),
    (9_000_453, 300, "a recreated pod got the rejection of its predecessor, which owned the claim"),
    (
        1_079_327,
        300,
        "a pod over a volume limit was not retried when a pod that uses its volume was nominated to the node",
    ),
    (600_058_319, 300, "the simulation delivered an answer to a later process than the one that asked"),
    (
        510_006_999,
        1_000,
        "the checker blamed the flush for the effect of a node that changed before the binding was sent",
    ),
    (70_003_149, 300, "the checker blamed the flush for the effect of a nomination that had ended"),
    (60_071_476, 300, "a binding was sent although a claim of the pod was replaced by one without a volume"),
    (30_000_021, 300, "a binding was sent although a claim of the pod was replaced by an unbound one"),
    (8_011_781, 300, "the checker expected a reservation that a newer version of the claim had ended"),
    (42, 2_000, "the state of a terminating pod was kept after a list no longer contained it"),
    (
        808,
        2_000,
        "an answer from before a long pause was trusted, and a binding that was carried out was abandoned",
    ),
    (2, 1_000, "a late binding answer assumed a pod again that the watch had shown as bound"),
    (1, 2_000, "a stale list released the reservation of a pod whose binding was in flight"),
    (
        459_131_483,
        1_000,
        "a preemptor rejected for another reason after its victims terminated kept its nomination forever",
    ),
    (10_137, 1_000, "a preemptor rejected for another reason after its victims terminated was not retried"),
    (20_135, 1_000, "the same"),
    (7_000_295, 300, "resources that a nominated pod no longer requested requeued no pod"),
    (5_003_910, 300, "a pod that preemption did not help was not retried after the obstacle was gone"),
    (120_017_007, 300, "a member whose claim came before its group stayed behind the claim's gate forever"),
    (
        120_010_983,
        300,
        "nominations of other members kept a member from its node after PreBind, so that its claim was made again and again",
    ),
    (360_005_943, 1_000, "a member of an incomplete group kept the claim that was made for it"),
];

fn holds(seed: u64, steps: u64) -> Summary {
    run(Options { seed, steps, ..Options::default() }).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Runs seeds and checks that the expected situations occurred at all.
fn all_hold(first: u64, seeds: u64) -> Totals {
    let totals = sweep(first, seeds, STEPS, |_| ()).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(totals.steps >= 300 * seeds && totals.placed > 10 * seeds, "{totals}");
    assert!(totals.bindings > totals.placed, "no binding was retried: {totals}");
    assert!(totals.checked.iter().all(|&judged| judged > seeds), "{totals}");
    assert!(totals.compared > 30 * seeds, "few cached decisions were compared: {totals}");
    assert!(totals.wide > 0, "no cluster had many racks: {totals}");
    assert!(totals.incarnations > totals.seeds, "the scheduler was never restarted");
    assert!(totals.repeated > 0, "no seed was run twice");
    for result in ["scheduled", "unschedulable", "waiting_on_preemption"] {
        assert!(totals.group_cycles.contains_key(result), "no group was {result}: {totals}");
    }
    for fault in FAULTS {
        assert!(totals.faults.contains_key(fault), "fault did not occur: {fault}: {totals}");
    }
    totals
}

const FAULTS: [&str; 22] = [
    "binding answered by a foreign server",
    "binding applied late, answer lost",
    "binding applied, answer lost",
    "binding lost",
    "binding rejected",
    "clock jump",
    "connection lost",
    "duplicate event",
    "eviction answered by a foreign server",
    "lease lost",
    "stale list",
    "patch lost",
    "process killed",
    "query answered by a foreign server",
    "query unanswered",
    "volume not provisioned",
    "volume write answered by a foreign server",
    "volume write applied late, answer lost",
    "volume write applied, answer lost",
    "volume write lost",
    "volume write rejected",
    "watch expired",
];

#[test]
fn every_invariant_holds_for_seeds_1_to_60() {
    println!("{}", all_hold(1, 60));
}

#[test]
fn every_invariant_holds_with_a_faulty_extender() {
    let totals = sweep_with(true, 1, 60, STEPS, |_| ()).unwrap_or_else(|failure| panic!("{failure}"));
    for fault in ["extender failed", "wrong extender answer", "lease lost", "process killed"] {
        assert!(totals.faults.contains_key(fault), "fault did not occur: {fault}: {totals}");
    }
    assert!(totals.placed > 600, "{totals}");
}

#[test]
fn every_invariant_holds_for_seeds_that_failed_before() {
    for (seed, steps, what) in FAILED_BEFORE {
        if let Err(failure) = run(Options { seed, steps, ..Options::default() }) {
            panic!("{what}: again\n{failure}");
        }
    }
}

#[test]
fn every_invariant_holds_for_new_random_seeds() {
    // The only source of randomness in the standard library that is not a clock. The seed is small enough to
    // type.
    let first = RandomState::new().hash_one(0) % 1_000_000_000;
    println!("seeds {first} to {}", first + FRESH - 1);
    println!("{}", all_hold(first, FRESH));
}

#[test]
fn searches_of_members_for_devices_pause() {
    let interrupted = |seed| holds(seed, STEPS).group_cycles.get("interrupted").copied().unwrap_or_default();
    let seeds = (0..20).map(|at| 12 * at + 3);
    assert!(seeds.map(interrupted).sum::<u64>() > 50);
}

#[test]
fn equal_seeds_give_equal_logs() {
    let (first, second) = (holds(7, STEPS), holds(7, STEPS));
    assert_eq!(first, second);
    assert!(first.log_lines > 1_000, "{first:?}");
    assert_ne!(first.log_hash, holds(8, STEPS).log_hash);
}

fn program(args: &[&str]) -> (Option<i32>, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_supercargo-sim")).args(args).output();
    let done = done.expect("the program runs");
    let text = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn program_prints_the_seed_first_and_the_log_if_verbose() {
    let (code, text) = program(&["--seed", "3", "--steps=50", "--seeds", "2"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.starts_with("seeds 3 to 4, 50 steps each before the faults stop\n2 seeds without a broken invariant, 1 of them run twice"),
        "{text}"
    );
    let (code, text) = program(&["--seed", "3", "--steps", "50", "-v"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("   100.200000 process  incarnation 1 starts\n"), "{text}");
}

#[test]
fn program_reports_invalid_arguments() {
    for (args, complaint) in [
        (&["--seed"][..], "--seed needs a number"),
        (&["--steps", "many"], "--steps: \"many\" is not a number of 0 or more"),
        (&["--sede", "1"], "unknown flag --sede"),
    ] {
        let (code, text) = program(args);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.starts_with(complaint) && text.contains("Usage: supercargo-sim"), "{text}");
    }
}
