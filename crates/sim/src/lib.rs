//! Simulation: runs the engine without an API server, in a generated cluster with faults, on one thread, in
//! virtual time, from one seed.
//!
//! [`run`] performs a number of steps, stops the faults, waits until the cluster settles, and returns the first
//! broken invariant, if any. Equal seeds give equal runs, down to the last log line.
//!
//! The module `check` contains the invariants. [`mod@reference`] judges which nodes are feasible, and shares no
//! rule with the engine. There are no API objects: pods and nodes are built in the engine's model.

pub mod reference;

mod agenda;
mod check;
mod cluster_view;
mod delivery;
mod devices;
mod draw;
mod drivers;
mod effects;
mod evictions;
mod extenders;
mod fault_rates;
mod groups;
mod log;
mod objects;
mod process;
mod server;
mod sim;
mod storage;
mod sweep;
mod volumes;
mod watch;
mod workload;

use check::Broken;
use log::Log;
use process::emulated_version;
use sim::Sim;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;

pub use sweep::{Totals, sweep, sweep_with};

/// Measures the duration of the engine's work. It is called at the beginning and the end of each step and does not
/// affect the run.
pub trait Stopwatch {
    /// A step of the engine begins.
    fn begin(&mut self);
    /// The step ends.
    fn end(&mut self);
}

/// The parameters of a run.
#[derive(Default)]
pub struct Options {
    /// The seed of all random draws, including the engine's.
    pub seed: u64,
    /// The number of steps before the faults stop.
    pub steps: u64,
    /// A copy of each log line is written here.
    pub echo: Option<Box<dyn Write>>,
    /// Whether there is an extender, with its own faults.
    pub extended: bool,
    /// Whether reports of groups name the members in each placement. The log is the same with and without.
    pub names_members: bool,
    /// Measures the engine's steps.
    pub stopwatch: Option<Box<dyn Stopwatch>>,
}

/// The statistics of a run in which every invariant held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The hash of all log lines.
    pub log_hash: u64,
    /// The number of log lines.
    pub log_lines: u64,
    /// The number of steps, including those after the faults stopped.
    pub steps: u64,
    /// The number of faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// The number of cycles of pod groups by result.
    pub group_cycles: BTreeMap<&'static str, u64>,
    /// The number of created pods.
    pub created: u64,
    /// The number of decisions that placed a pod.
    pub placed: u64,
    /// The number of bindings sent.
    pub bindings: u64,
    /// The number of bindings checked against the server's state by the rules of their node alone.
    pub checked_locally: u64,
    /// The number of bindings checked against the server's state by all rules.
    pub checked_wholly: u64,
    /// The number of cached decisions compared with full evaluations.
    pub compared: u64,
    /// Whether the number of values of a topology label was close to or above the number of domains that the
    /// engine tracks individually.
    pub is_wide: bool,
    /// The number of scheduler processes, one after the other.
    pub incarnations: u32,
    /// The simulated time in seconds.
    pub seconds: u64,
}

/// A broken invariant.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// The step in which the invariant broke, counted from 1; [`Options::steps`] if that was after the faults stopped.
    pub step: u64,
    /// The invariant.
    pub invariant: &'static str,
    /// How it was broken.
    pub detail: String,
    /// The last log lines.
    pub tail: Vec<String>,
}

impl Failure {
    /// Returns the invariant and how it was broken, without the log.
    pub fn verdict(&self) -> String {
        let Self { seed, step, invariant, detail, .. } = self;
        let version = emulated_version(*seed);
        format!("broken at step {step} of seed {seed}, version {version}: {invariant}\n  {detail}")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.tail {
            writeln!(f, "{line}")?;
        }
        f.write_str(&self.verdict())
    }
}

/// Runs one seed.
///
/// # Errors
/// Returns the first broken invariant.
pub fn run(options: Options) -> Result<Summary, Box<Failure>> {
    let with = (options.extended, options.names_members);
    let mut sim = Sim::new(options.seed, with, Log::new(options.echo), options.stopwatch);
    let began = sim.now;
    let mut step = 0;
    let mut drive = || {
        while step < options.steps {
            step += 1;
            sim.step()?;
        }
        sim.settle()
    };
    let outcome = drive();
    match outcome {
        Ok(()) => Ok(Summary {
            log_hash: sim.log.hash(),
            log_lines: sim.log.lines(),
            steps: sim.happened,
            faults: sim.faults,
            group_cycles: sim.group_cycles,
            created: sim.created,
            placed: sim.placed,
            bindings: sim.requests,
            checked_locally: sim.server_checks[0],
            checked_wholly: sim.server_checks[1],
            compared: sim.compared + sim.process.scheduler.stats().verified[0],
            is_wide: sim.scale.is_wide(),
            incarnations: sim.process.incarnation,
            seconds: sim.now.since(began).as_secs(),
        }),
        Err(Broken { invariant, detail }) => {
            let tail = sim.log.into_tail();
            Err(Box::new(Failure { seed: options.seed, step, invariant, detail, tail }))
        }
    }
}
