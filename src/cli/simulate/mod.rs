//! `supercargo simulate`: runs the scheduling engine over files or over a snapshot of a live cluster. It writes
//! nothing.
//!
//! Data flow:
//! - `files` reads objects, and `inventory` sorts them.
//! - `expand` creates the pods of workloads, and `complete` sets the defaults that an API server would set.
//! - `world` converts objects as the scheduler does.
//! - `decide` schedules, and `report` prints.
//!
//! `what_if` does the same after hypothetical changes.

mod args;
mod compare;
mod complete;
pub(in crate::cli) mod decide;
pub(in crate::cli) mod expand;
pub(in crate::cli) mod files;
pub(in crate::cli) mod identity;
pub(in crate::cli) mod input;
pub(in crate::cli) mod inventory;
mod json_stream;
mod packed;
mod place;
pub(in crate::cli) mod progress;
mod report;
mod schema;
mod stream;
pub(in crate::cli) mod update;
pub(in crate::cli) mod what_if;
pub(in crate::cli) mod world;

pub use args::{Detail, Output, PreemptionMode, SimulateArgs, TieBreak};
pub use files::InputError;
pub use input::InputLimit;
pub use report::{Counts, Decision, Nodes, Preemption, Rejected, to_value};
pub use what_if::{AddNodes, ChangeArgs, Scale};

use crate::cli::screen::plain;
use crate::explain::format::count;
use decide::{Decider, Rules};
use files::Files;
use inventory::{Given, Inventory};
use progress::Progress;
use report::Reporter;
use std::collections::BTreeSet;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use supercargo_config::{Effective, Flags, Settings};
use supercargo_core::cycle::Framework;
use supercargo_core::intern::Tables;
use supercargo_core::pod::{PodInfo, Uid};
use supercargo_core::rng::Seed;
use update::Concern;
use world::World;

/// Exit code when at least one pod was not placed.
const NOT_PLACED: u8 = 3;
/// Exit code for invalid flags or files.
const BAD_INPUT: u8 = 2;

/// Runs the command on the process's own streams.
pub fn main(args: &SimulateArgs) -> ExitCode {
    if what_if::is_asked(args) {
        return what_if::main(args);
    }
    let complain = |text: &dyn std::fmt::Display| {
        // If stderr is closed, nothing can be reported.
        let _ = writeln!(io::stderr(), "{}", plain(&text.to_string()));
    };
    let simulation = match Simulation::load(args, &mut io::stdin().lock()) {
        Ok(simulation) => simulation,
        Err(error) => {
            complain(&format_args!("error: {error}"));
            return ExitCode::from(BAD_INPUT);
        }
    };
    simulation.notices.iter().for_each(|notice| complain(notice));
    match simulation.run(BufWriter::new(io::stdout().lock())) {
        Ok(summary) => {
            complain(&summary);
            ExitCode::from(if summary.placed == summary.pods { 0 } else { NOT_PLACED })
        }
        // The reader of the report closed the pipe, for example `head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => {
            complain(&format_args!("error: cannot write the report: {error}"));
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
        let mut world = World::default();
        let profiles = profiles(args.config.as_deref(), &mut world.tables)?;
        let mut files = Files::within(args.input_limit).strictly(args.strict);
        let mut read = |paths: &[PathBuf]| -> Result<Vec<files::Item>, InputError> {
            let read: Result<Vec<_>, _> = paths.iter().map(|path| files.read(path, stdin)).collect();
            Ok(read?.into_iter().flatten().collect())
        };
        let (of_cluster, of_pods) = (read(&args.cluster)?, read(&args.pods)?);
        let existing = Concern::among(&of_pods, of_cluster.iter());
        let given = Given { items: of_pods, are_templates: false, existing };
        let gathered = inventory::gather(&files, of_cluster, given, args.as_written)?;
        let Inventory { mut cluster, pods, leaving, mut changes, skipped, whole } = gathered;
        cluster.retain(|item| {
            let is_leaving = || leaving.contains(&(item.namespace().to_owned(), item.name().to_owned()));
            item.kind() != "Pod" || !is_leaving()
        });
        let is_node = |item: &&files::Item| item.kind() == "Node";
        let longest_node = cluster.iter().filter(is_node).map(|node| node.name().len()).max();
        let longest_pod = pods.iter().map(|pod| identity::key(&pod.value).len()).max();
        for item in cluster {
            let origin = item.origin;
            let taken = whole.of(item).and_then(|item| world.apply(item));
            taken.map_err(|wrong| files.error(origin, &wrong))?;
        }
        let mut decoded = Vec::with_capacity(pods.len());
        for item in pods {
            let origin = item.origin;
            decoded.push(world.pod(item).map_err(|wrong| files.error(origin, &wrong))?);
        }
        let rules = Rules {
            tie_break: args.tie_break,
            seed: Seed(args.seed),
            preemption: args.preemption,
            detail: args.detail,
        };
        Ok(Self {
            decider: Decider::new(world, profiles, rules),
            pods: decoded,
            widths: (longest_pod.unwrap_or(0), longest_node.unwrap_or(0)),
            output: args.output,
            notices: {
                changes.extend(skipped.told());
                changes
            },
        })
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
        for (pod, has_ended) in std::mem::take(&mut self.pods) {
            let decided = self.decider.decide(&pod, has_ended);
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
    pub fn decisions(mut self) -> Vec<Decision> {
        let pods = std::mem::take(&mut self.pods);
        pods.iter().map(|(pod, has_ended)| self.decider.decide(pod, *has_ended).decision).collect()
    }
}

/// Returns the profiles of a configuration by name; without a configuration, one profile with the default plugins.
///
/// # Errors
/// Fails if the configuration is invalid or lists extenders, which a simulation never calls.
pub(in crate::cli) fn profiles(
    config: Option<&Path>,
    tables: &mut Tables,
) -> Result<Vec<(String, Framework)>, InputError> {
    // A simulation has no leader election.
    let flags = Flags::without_election();
    let settings = match config {
        Some(path) => Effective::load(path, &flags).and_then(|effective| Settings::of(&effective)),
        None => Ok(Settings::default()),
    };
    let settings = settings.map_err(|error| InputError(error.to_string()))?;
    if !settings.extenders.is_empty() {
        let text = "extenders: a simulation does not call extenders; remove the field from the file for the simulation";
        return Err(InputError(text.to_owned()));
    }
    let named = settings.profiles.iter().map(|profile| (profile.name.clone(), profile.framework(tables)));
    Ok(named.collect())
}
