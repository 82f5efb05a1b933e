//! Drives the engine without an API server: a made-up cluster, faults, one thread, virtual time, one seed.
//!
//! [`run`] lets so many things happen, stops the faults, waits for everything to come right, and says which invariant
//! broke, if one did. The same seed gives the same run, to the last line of its log. The invariants stand in `check`;
//! what a node may take is judged by [`mod@reference`], which shares no rule with the engine. There are no API objects here:
//! pods and nodes are built as the engine takes them.

pub mod reference;

mod agenda;
mod check;
mod draw;
mod effects;
mod evictions;
mod extenders;
mod feeds;
mod log;
mod objects;
mod picture;
mod process;
mod server;
mod sim;
mod storage;
mod sweep;
mod volumes;
mod watch;
mod weather;
mod world;

use check::Broken;
use log::Log;
use sim::Sim;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;

pub use sweep::{Totals, sweep, sweep_with};

/// Told when the engine begins and ends a piece of work, by one who has a clock. What it does is no part of the run.
pub trait Stopwatch {
    /// The engine begins.
    fn begin(&mut self);
    /// The engine is done.
    fn end(&mut self);
}

/// What to run.
#[derive(Default)]
pub struct Options {
    /// The seed of all draws, the engine's included.
    pub seed: u64,
    /// How many things happen before the faults stop.
    pub steps: u64,
    /// Where each line of the log is written as well.
    pub echo: Option<Box<dyn Write>>,
    /// Whether there is an extender, with faults of its own.
    pub extended: bool,
    /// Who times the engine.
    pub stopwatch: Option<Box<dyn Stopwatch>>,
}

/// A run in which every invariant held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// A hash of all lines of the log.
    pub log_hash: u64,
    /// How many lines the log has.
    pub log_lines: u64,
    /// Things that happened, the calm included.
    pub steps: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Pods created.
    pub created: u64,
    /// Decisions for a node.
    pub placed: u64,
    /// Bindings sent.
    pub bindings: u64,
    /// Bindings whose node was checked in the server's truth.
    pub checked_locally: u64,
    /// Bindings all of whose rules were checked in the server's truth.
    pub checked_wholly: u64,
    /// Cached decisions that were compared with full evaluations.
    pub compared: u64,
    /// Whether the cluster had about as many values of a topology label as the engine tells apart by name, or more.
    pub is_wide: bool,
    /// Lives of the scheduler.
    pub lives: u32,
    /// Virtual seconds.
    pub seconds: u64,
}

/// An invariant that did not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// How many things had happened.
    pub step: u64,
    /// The invariant.
    pub invariant: &'static str,
    /// How it was broken.
    pub detail: String,
    /// The last lines of the log.
    pub tail: Vec<String>,
}

impl Failure {
    /// Which invariant broke and how, without the log.
    pub fn verdict(&self) -> String {
        format!("broken at step {} of seed {}: {}\n  {}", self.step, self.seed, self.invariant, self.detail)
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
/// With the first invariant that did not hold.
pub fn run(options: Options) -> Result<Summary, Box<Failure>> {
    let mut sim = Sim::new(options.seed, options.extended, Log::new(options.echo), options.stopwatch);
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
            created: sim.created,
            placed: sim.placed,
            bindings: sim.requests,
            checked_locally: sim.truths[0],
            checked_wholly: sim.truths[1],
            compared: sim.compared + sim.process.scheduler.stats().verified[0],
            is_wide: sim.scale.is_wide(),
            lives: sim.process.life,
            seconds: sim.now.since(began).as_secs(),
        }),
        Err(Broken { invariant, detail }) => {
            let tail = sim.log.into_tail();
            Err(Box::new(Failure { seed: options.seed, step, invariant, detail, tail }))
        }
    }
}
