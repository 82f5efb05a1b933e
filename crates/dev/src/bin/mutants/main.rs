//! Mutation testing of the engine: `make mutants`.
//!
//! cargo-mutants lists the mutants, and would build each of them alone, which takes a day. This program compiles all
//! of them into one build, each behind a switch (mutant schemata), and runs only the tests that reach a mutant. It
//! knows no more of the engine than its paths. Results survive an interruption; the next run continues.

#![allow(clippy::print_stdout, reason = "a command-line program")]

mod build;
mod mutant;
mod run;
mod schema;
mod table;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result, ensure};
use build::{Compiled, Tree};
use clap::Parser;
use mutant::Mutant;
use run::{Outcome, Tests};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use supercargo_dev::harness::binaries::target_dir;
use table::Results;

const PACKAGE: &str = "supercargo-core";
const LIB: &str = "crates/core/src/lib.rs";
/// Tests of a mutant in the first round. Most mutants are caught within a second; survivors, which cost a run of every
/// test that reaches them, wait until all others have a result.
const FIRST_ROUND: Duration = Duration::from_secs(4);

#[derive(Parser)]
#[command(name = "mutants", about = "Test whether the engine's tests notice small mistakes")]
struct Args {
    /// Test only mutants of files below this path
    #[arg(long, value_name = "PATH", default_value = "")]
    below: String,
    /// Test only the unexplained survivors, again, for example after tests were added
    #[arg(long)]
    again: bool,
    /// Run the tests of this package, for example supercargo-sim; several are possible
    #[arg(long = "tests", value_name = "PACKAGE", default_value = PACKAGE)]
    packages: Vec<String>,
    /// Stop after this many minutes; the next run continues
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Write the tables from the known results, without tests
    #[arg(long)]
    table: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let root = supercargo_dev::root();
    let work = target_dir().join("mutants");
    std::fs::create_dir_all(&work)?;
    let mutants = mutant::read_list(&list(root)?, root)?;
    let found = mutants.len();
    let selected = mutant::select(mutants);
    let mut results = Results::read(root, &work.join("results.tsv"))?;
    let todo = todo(&args, &selected, &results);
    eprintln!("{found} mutants, {} selected, {} to test", selected.len(), todo.len());
    if !args.table && !todo.is_empty() {
        test(&args, &selected, &todo, &mut results, &work)?;
    }
    results.write(&selected)
}

/// Asks cargo-mutants for all mutants of the engine.
fn list(root: &Path) -> Result<String> {
    let program = target_dir().join("tools/bin/cargo-mutants");
    let output = Command::new(&program)
        .args(["mutants", "--list", "--json", "--package", PACKAGE])
        .current_dir(root)
        .output()
        .with_context(|| {
            format!("cannot start {}; run `make mutants`, which installs it", program.display())
        })?;
    ensure!(output.status.success(), "cargo-mutants failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).context("the list of cargo-mutants is not UTF-8")
}

/// Returns the positions of the mutants to test.
fn todo(args: &Args, selected: &[Mutant], results: &Results) -> Vec<usize> {
    let functions = table::by_function(selected);
    let is_due = |mutant: &Mutant| {
        let of_function =
            functions.get(&(mutant.name.file.clone(), mutant.name.function.clone())).map_or(0, Vec::len);
        let is_known = results.own(mutant).is_some() || results.is_counted(mutant, of_function);
        if args.again { results.is_open(mutant) } else { !is_known }
    };
    (0..selected.len())
        .filter(|&at| selected[at].name.file.starts_with(&args.below) && is_due(&selected[at]))
        .collect()
}

/// Builds all mutants, and tests the given ones.
fn test(args: &Args, selected: &[Mutant], todo: &[usize], results: &mut Results, work: &Path) -> Result<()> {
    let root = supercargo_dev::root();
    let tree = Tree::copy(root, &tracked(root)?, &work.join("tree"), PACKAGE, LIB)?.tested_by(&args.packages);
    let is_unviable = |mutant: &Mutant| results.own(mutant) == Some(&Outcome::Unviable);
    let (fates, programs) = tree.build(selected, is_unviable)?;
    let began = Instant::now();
    let is_over = || args.minutes.is_some_and(|minutes| began.elapsed() > Duration::from_secs(60 * minutes));
    let tests = Tests::measure(&programs, &work.join("tests.tsv"))?;
    tests.learn(results.earlier());
    // The build shows them all, whatever part is to be tested.
    for (mutant, fate) in selected.iter().zip(&fates) {
        if *fate == Compiled::Unviable && results.own(mutant).is_none() {
            results.record(mutant, Outcome::Unviable)?;
        }
    }
    let mut switched: Vec<usize> =
        todo.iter().copied().filter(|&number| fates[number] == Compiled::Switch).collect();
    for budget in [Some(FIRST_ROUND), None] {
        switched = round(&tests, selected, &switched, budget, (results, &is_over))?;
    }
    for &number in todo.iter().filter(|&&number| fates[number] == Compiled::Single) {
        if is_over() {
            return Ok(());
        }
        let mutant = &selected[number];
        let outcome = tests.test_single(&tree, mutant)?;
        report(0, 1, mutant, &outcome);
        results.record(mutant, outcome)?;
    }
    Ok(())
}

/// Tests mutants on all processors. Returns those whose tests do not fit in the time.
fn round(
    tests: &Tests,
    selected: &[Mutant],
    numbers: &[usize],
    budget: Option<Duration>,
    (results, is_over): (&mut Results, &(impl Fn() -> bool + Sync)),
) -> Result<Vec<usize>> {
    let next = AtomicUsize::new(0);
    let state = Mutex::new((results, Vec::new()));
    let work = || -> Result<()> {
        loop {
            let done = next.fetch_add(1, Ordering::Relaxed);
            let Some(&number) = numbers.get(done).filter(|_| !is_over()) else { return Ok(()) };
            let mutant = &selected[number];
            let outcome = tests.test(number, &mutant.name, budget)?;
            let (results, waiting) = &mut *state.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Some(outcome) => {
                    report(done, numbers.len(), mutant, &outcome);
                    results.record(mutant, outcome)?;
                }
                None => waiting.push(number),
            }
        }
    };
    std::thread::scope(|scope| {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    Ok(state.into_inner().unwrap_or_else(PoisonError::into_inner).1)
}

fn report(done: usize, of: usize, mutant: &Mutant, outcome: &Outcome) {
    let name = &mutant.name;
    eprintln!("{}/{of} {outcome:?}: {} in {} ({})", done + 1, name.change, name.function, name.file);
}

/// Returns the files of the source tree that git knows or does not ignore.
fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .context("cannot start git")?;
    ensure!(output.status.success(), "git cannot list the files of {}", root.display());
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let mut files: Vec<PathBuf> =
        names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    files.retain(|file| root.join(file).is_file());
    files.dedup();
    Ok(files)
}
