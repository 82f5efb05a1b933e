//! `supercargo simulate`: runs the scheduling engine over files or over a snapshot of a live cluster. It writes
//! nothing.
//!
//! `supercargo_whatif` reads and completes the objects and decides; `report` prints.
//!
//! `what_if` does the same after hypothetical changes.

mod args;
pub(crate) mod progress;
mod report;
pub(crate) mod what_if;

use crate::screen::Output;
pub use args::SimulateArgs;
pub use report::to_value;
pub use what_if::{AddNodes, ChangeArgs, Scale};

use crate::screen::complain;
use progress::Progress;
use report::Reporter;
use std::collections::BTreeSet;
use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_core::model::rng::Seed;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::load::files::{Files, InputError, Item};
use supercargo_whatif::simulate::decide::{Decider, Rules};
use supercargo_whatif::simulate::decision::Decision;
use supercargo_whatif::simulate::{profiles, run};

/// Exit code when at least one pod was not placed.
const NOT_PLACED: u8 = 3;
/// Exit code for invalid flags or files.
const BAD_INPUT: u8 = 2;

/// Runs the command on the process's own streams.
pub fn main(args: &SimulateArgs) -> ExitCode {
    if what_if::is_asked(args) {
        return what_if::main(args);
    }
    let simulation = match Simulation::load(args, &mut io::stdin().lock()) {
        Ok(simulation) => simulation,
        Err(error) => {
            complain(&format!("error: {error}"));
            return ExitCode::from(BAD_INPUT);
        }
    };
    simulation.notices.iter().for_each(|notice| complain(notice));
    match simulation.run(BufWriter::new(io::stdout().lock())) {
        Ok(summary) => {
            complain(&summary.to_string());
            ExitCode::from(if summary.placed == summary.pods { 0 } else { NOT_PLACED })
        }
        // The reader of the report closed the pipe, for example `head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("error: cannot write the report: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The final result over all pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of pods to schedule.
    pub pods: usize,
    /// Number of pods on a node at the end, without those that were evicted again.
    pub placed: usize,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pods, placed } = self;
        write!(f, "{placed} of {} placed", count(pods, "pod"))
    }
}

/// A validated cluster and the pods to schedule.
pub struct Simulation {
    decider: Decider,
    /// The pods, each with whether it has finished.
    pods: Vec<(Arc<PodInfo>, bool)>,
    /// Lengths of the longest pod key and the longest node name, for column widths.
    widths: (usize, usize),
    output: Output,
    /// Messages about the input files for stderr.
    pub notices: Vec<String>,
}

impl Simulation {
    /// Reads all files; `-` reads from `stdin`.
    ///
    /// # Errors
    /// Fails if a file cannot be read or is invalid; the error names the file, line and column.
    pub fn load(args: &SimulateArgs, stdin: &mut dyn Read) -> Result<Self, InputError> {
        let version = args.emulation.of_files();
        let groups = args.emulation.groups(version)?;
        let trial = profiles::trial(args.config.as_deref(), version, args.emulation.compat, groups)?;
        let mut files = Files::within(args.input_limit, complain).strictly(args.strict);
        let mut read = |paths: &[PathBuf]| -> Result<Vec<Item>, InputError> {
            let read: Result<Vec<_>, _> = paths.iter().map(|path| files.read(path, stdin)).collect();
            Ok(read?.into_iter().flatten().collect())
        };
        let objects = (read(&args.cluster)?, read(&args.pods)?);
        let rules = Rules {
            tie_break: args.tie_break,
            seed: Seed(args.seed),
            preemption: args.preemption,
            detail: args.detail,
        };
        let run::Simulation { decider, pods, notices } =
            run::Simulation::of(&files, objects, trial, rules, args.as_written)?;
        let snapshot = decider.trial().snapshot();
        let names = snapshot.nodes().iter().map(|node| snapshot.text(snapshot.node_info(node).name).len());
        let longest_pod = pods.iter().map(|(pod, _)| snapshot.pod_key(pod).len()).max();
        let widths = (longest_pod.unwrap_or(0), names.max().unwrap_or(0));
        Ok(Self { decider, pods, widths, output: args.output, notices })
    }

    /// Schedules every pod and writes each decision as soon as it is made.
    ///
    /// # Errors
    /// Fails if the report cannot be written.
    pub fn run(mut self, out: impl Write) -> io::Result<Summary> {
        let mut reporter = Reporter::new(out, self.output, self.widths.0, self.widths.1);
        let mut progress = Progress::new(self.pods.len());
        reporter.begin()?;
        let pods = self.pods.len();
        let mut placed: BTreeSet<Uid> = BTreeSet::new();
        let given = std::mem::take(&mut self.pods);
        let turns = self.decider.turns(given.iter().map(|(pod, has_ended)| (pod, *has_ended)));
        for (pod, decided) in turns.iter().flat_map(|turn| self.decider.decide_turn(turn)) {
            if decided.decision.node.is_some() {
                placed.insert(Arc::clone(&pod.uid));
            }
            for victim in &decided.evicted {
                placed.remove(victim);
            }
            progress.make_way();
            reporter.add(&decided.decision, decided.counts)?;
            progress.step();
        }
        progress.clear();
        reporter.end()?;
        Ok(Summary { pods, placed: placed.len() })
    }

    /// Schedules every pod in order and returns the decisions.
    pub fn decisions(self) -> Vec<Decision> {
        run::Simulation { decider: self.decider, pods: self.pods, notices: self.notices }.decisions()
    }
}
