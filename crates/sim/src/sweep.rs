//! Runs many seeds, in parallel on all processors. Runs are independent of each other.

use crate::{Failure, Options, Summary, run};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// One in this many seeds runs twice and must give the same log, the second time with longer reports.
const TWICE: u64 = 50;

/// The totals of many runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of runs.
    pub seeds: u64,
    /// The number of repeated runs, which all gave the same log.
    pub repeated: u64,
    /// Steps.
    pub steps: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Cycles of pod groups by result.
    pub group_cycles: BTreeMap<&'static str, u64>,
    /// Pods created.
    pub created: u64,
    /// Decisions that placed a pod.
    pub placed: u64,
    /// Bindings sent.
    pub bindings: u64,
    /// Bindings checked against the server's state, by their node's rules and by all rules.
    pub checked: [u64; 2],
    /// Cached decisions compared with full evaluations.
    pub compared: u64,
    /// Runs in which the number of values of a topology label was close to or above the number of domains that
    /// the engine tracks individually.
    pub wide: u64,
    /// Scheduler processes.
    pub incarnations: u64,
    /// Simulated seconds.
    pub seconds: u64,
}

impl Totals {
    fn add(&mut self, run: &Summary) {
        self.seeds += 1;
        self.steps += run.steps;
        let sums = [(&mut self.faults, &run.faults), (&mut self.group_cycles, &run.group_cycles)];
        for (sum, counts) in sums {
            counts.iter().for_each(|(kind, count)| *sum.entry(kind).or_default() += count);
        }
        self.created += run.created;
        self.placed += run.placed;
        self.bindings += run.bindings;
        self.checked[0] += run.checked_locally;
        self.checked[1] += run.checked_wholly;
        self.compared += run.compared;
        self.wide += u64::from(run.is_wide);
        self.incarnations += u64::from(run.incarnations);
        self.seconds += run.seconds;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [local, whole] = self.checked;
        writeln!(
            f,
            "{} seeds without a broken invariant, {} of them run twice with equal logs",
            self.seeds, self.repeated
        )?;
        writeln!(
            f,
            "{} steps in {} virtual seconds, {} incarnations",
            self.steps, self.seconds, self.incarnations
        )?;
        writeln!(
            f,
            "{} pods, {} decisions for a node, {} bindings sent",
            self.created, self.placed, self.bindings
        )?;
        writeln!(
            f,
            "{local} bindings checked against the server by their node's rules, {whole} by all rules"
        )?;
        writeln!(f, "{} cached decisions compared, {} seeds with many racks", self.compared, self.wide)?;
        let cycles = self.group_cycles.iter().map(|(result, count)| format!("{count} {result}"));
        writeln!(f, "cycles of pod groups: {}", cycles.collect::<Vec<_>>().join(", "))?;
        write!(f, "placed by the flush: 0; faults:")?;
        self.faults.iter().try_for_each(|(kind, count)| write!(f, "\n  {count:>9}  {kind}"))
    }
}

/// Runs `seeds` seeds starting at `first`, and stops at the first failure. `progress` is called from time to time
/// with the number of finished runs.
///
/// # Errors
/// Returns the failure with the lowest seed.
pub fn sweep(
    first: u64,
    seeds: u64,
    steps: u64,
    progress: impl Fn(u64) + Sync,
) -> Result<Totals, Box<Failure>> {
    sweep_with(false, first, seeds, steps, progress)
}

/// Like [`sweep`], with or without an extender.
///
/// # Errors
/// Returns the failure with the lowest seed.
pub fn sweep_with(
    extended: bool,
    first: u64,
    seeds: u64,
    steps: u64,
    progress: impl Fn(u64) + Sync,
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
                    progress(outcome.0.seeds);
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
    let options =
        |names_members: bool| Options { seed, steps, extended, names_members, ..Options::default() };
    let summary = run(options(false))?;
    if twice && run(options(true))? != summary {
        return Err(Box::new(Failure {
            seed,
            step: steps,
            invariant: "equal seeds give equal logs, also if reports say more",
            detail: format!("{:016x} the first time", summary.log_hash),
            tail: Vec::new(),
        }));
    }
    Ok(summary)
}
