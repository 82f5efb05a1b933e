//! Many seeds, as many at a time as there are processors. Seeds know nothing of each other.

use crate::{Failure, Options, Summary, run};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Of so many seeds, one is run twice, and must write the same log.
const TWICE: u64 = 50;

/// What many runs came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Runs.
    pub seeds: u64,
    /// Runs that were repeated, and gave the same log.
    pub repeated: u64,
    /// Things that happened.
    pub steps: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Pods created.
    pub created: u64,
    /// Decisions for a node.
    pub placed: u64,
    /// Bindings sent.
    pub bindings: u64,
    /// Bindings judged in the server's truth, by their node's rules or by all.
    pub checked: [u64; 2],
    /// Cached decisions compared with full evaluations.
    pub compared: u64,
    /// Runs whose clusters had about as many values of a topology label as the engine tells apart by name, or more.
    pub wide: u64,
    /// Lives of schedulers.
    pub lives: u64,
    /// Virtual seconds.
    pub seconds: u64,
}

impl Totals {
    fn add(&mut self, run: &Summary) {
        self.seeds += 1;
        self.steps += run.steps;
        for (kind, count) in &run.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        self.created += run.created;
        self.placed += run.placed;
        self.bindings += run.bindings;
        self.checked[0] += run.checked_locally;
        self.checked[1] += run.checked_wholly;
        self.compared += run.compared;
        self.wide += u64::from(run.is_wide);
        self.lives += u64::from(run.lives);
        self.seconds += run.seconds;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [local, whole] = self.checked;
        writeln!(f, "{} seeds held, {} of them twice with the same log", self.seeds, self.repeated)?;
        writeln!(f, "{} steps in {} virtual seconds, {} lives", self.steps, self.seconds, self.lives)?;
        writeln!(
            f,
            "{} pods, {} decisions for a node, {} bindings sent",
            self.created, self.placed, self.bindings
        )?;
        writeln!(f, "{local} bindings judged in truth by their node's rules, {whole} by all")?;
        writeln!(f, "{} cached decisions compared, {} seeds with many racks", self.compared, self.wide)?;
        write!(f, "rescued by the flush: 0; faults:")?;
        self.faults.iter().try_for_each(|(kind, count)| write!(f, "\n  {count:>9}  {kind}"))
    }
}

/// Runs `seeds` seeds from `first`, and stops at the first failure. `told` is called now and then with the number of runs.
///
/// # Errors
/// With the failure, that of the lowest seed if there are several.
pub fn sweep(first: u64, seeds: u64, steps: u64, told: impl Fn(u64) + Sync) -> Result<Totals, Box<Failure>> {
    sweep_with(false, first, seeds, steps, told)
}

/// The same, with an extender or without.
///
/// # Errors
/// With the failure, that of the lowest seed if there are several.
pub fn sweep_with(
    extended: bool,
    first: u64,
    seeds: u64,
    steps: u64,
    told: impl Fn(u64) + Sync,
) -> Result<Totals, Box<Failure>> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let outcome = Mutex::new((Totals::default(), None::<Box<Failure>>));
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= seeds {
                return;
            }
            let done = one(extended, first + at, steps, at.is_multiple_of(TWICE));
            let mut outcome = outcome.lock().expect("no run panics while it holds the totals");
            match done {
                Ok(run) => {
                    outcome.0.add(&run);
                    outcome.0.repeated += u64::from(at.is_multiple_of(TWICE));
                    told(outcome.0.seeds);
                }
                Err(failure) => {
                    failed.store(true, Ordering::Relaxed);
                    if outcome.1.as_ref().is_none_or(|known| known.seed > failure.seed) {
                        outcome.1 = Some(failure);
                    }
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let (totals, failure) = outcome.into_inner().expect("no run panics while it holds the totals");
    failure.map_or(Ok(totals), Err)
}

fn one(extended: bool, seed: u64, steps: u64, twice: bool) -> Result<Summary, Box<Failure>> {
    let summary = run(Options { seed, steps, extended, ..Options::default() })?;
    if twice && run(Options { seed, steps, extended, ..Options::default() })? != summary {
        return Err(Box::new(Failure {
            seed,
            step: steps,
            invariant: "the same seed gives the same log",
            detail: format!("{:016x} the first time", summary.log_hash),
            tail: Vec::new(),
        }));
    }
    Ok(summary)
}
