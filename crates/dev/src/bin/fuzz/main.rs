//! Compares decisions on random clusters with those of the real kube-scheduler: `make fuzz-golden SEED=1 N=20000`, or
//! `make fuzz-golden VERSION=1.37` for another version than the one the golden vectors are of.
//!
//! Scenarios are generated from the seed and sent to the oracle, a program linked with the upstream framework. Its
//! answers are compared field by field, like the vectors in `tests/golden`. A mismatch is minimized, printed with
//! both sides, and saved as a vector. Exits with 1 after a mismatch.

#![allow(clippy::print_stdout, reason = "a command-line program")]

mod explain;
mod mismatch;
mod shrink;

use clap::Parser;
use mismatch::Mismatch;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use supercargo_core::model::emulation::EmulatedVersion;
#[cfg(feature = "mutations")]
use supercargo_core::switches::mutation::{self, Mutation};
use supercargo_dev::generate;
use supercargo_dev::generate::{FAMILIES, Family};
use supercargo_dev::oracle::Oracle;

#[derive(Parser)]
#[command(
    name = "fuzz",
    about = "Compare decisions on random clusters with those of the real kube-scheduler"
)]
struct Args {
    /// Seed of the scenarios; the same seed generates the same scenarios
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Minimum number of decisions to compare
    #[arg(long, default_value_t = 20_000)]
    decisions: usize,
    /// Scenario families to generate [default: all]
    #[arg(long = "family")]
    families: Vec<String>,
    /// Number of the first scenario
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Continue after a mismatch, and show one of each kind
    #[arg(long)]
    all: bool,
    /// Write scenarios with a mismatch as they are, without minimizing them
    #[arg(long)]
    as_found: bool,
    /// Compare while the engine makes this deliberate mistake, to see that the comparison finds it
    #[cfg(feature = "mutations")]
    #[arg(long, value_name = "NAME")]
    mutation: Option<String>,
    /// Compare with this version of kube-scheduler
    #[arg(long, value_name = "1.N", default_value = "1.36", value_parser = version)]
    emulated_version: EmulatedVersion,
    /// Print this many scenarios, one per line, without comparing
    #[arg(long, value_name = "N")]
    print: Option<u64>,
}

/// Counts of one family.
#[derive(Default)]
struct Count {
    scenarios: usize,
    decisions: usize,
    without_answer: usize,
    mismatches: usize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let Some(families) = families(&args.families) else {
        let known: Vec<_> = FAMILIES.iter().map(|family| family.name).collect();
        eprintln!("fuzz: unknown family; available: {}", known.join(", "));
        return ExitCode::from(2);
    };
    if let Some(count) = args.print {
        for number in args.from..args.from + count {
            println!("{}", scenario(&families, args.seed, number, args.emulated_version));
        }
        return ExitCode::SUCCESS;
    }
    mismatch::keep_panics_quiet();
    eprintln!("seed {}, kube-scheduler {}", args.seed, args.emulated_version);
    let began = Instant::now();
    let mut run = Run {
        args,
        counts: BTreeMap::new(),
        errors: BTreeMap::new(),
        explained: BTreeMap::new(),
        shown: Vec::new(),
        again: None,
    };
    #[cfg(feature = "mutations")]
    {
        let Ok(mutation) = run.args.mutation.as_deref().map(named).transpose() else {
            let known: Vec<_> = Mutation::ALL.iter().map(|known| format!("{known:?}")).collect();
            eprintln!("fuzz: unknown mutation; available: {}", known.join(", "));
            return ExitCode::from(2);
        };
        mutation::with(mutation, || run.compare(families));
    }
    #[cfg(not(feature = "mutations"))]
    run.compare(families);
    run.report(began);
    let mismatches: usize = run.counts.values().map(|count| count.mismatches).sum();
    if mismatches == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the mutation of this name.
#[cfg(feature = "mutations")]
fn named(name: &str) -> Result<Mutation, ()> {
    Mutation::ALL.into_iter().find(|known| format!("{known:?}") == name).ok_or(())
}

/// Returns the families of these names, or all without names; `None` if a name is unknown.
fn families(names: &[String]) -> Option<Vec<Family>> {
    if names.is_empty() {
        return Some(FAMILIES.to_vec());
    }
    names.iter().map(|name| FAMILIES.iter().find(|family| family.name == name).copied()).collect()
}

struct Run {
    args: Args,
    counts: BTreeMap<String, Count>,
    /// Errors of scenarios without an answer, with their number.
    errors: BTreeMap<String, usize>,
    /// Scenarios with a difference that a row of `FIDELITY.md` explains, by row.
    explained: BTreeMap<&'static str, usize>,
    /// Kinds of mismatches already shown.
    shown: Vec<String>,
    /// An oracle that is asked again about scenarios with a mismatch.
    again: Option<Oracle>,
}

/// How often upstream is asked again about a scenario.
const ORDERS: usize = 512;

/// Whether one of several answers of upstream equals ours, up to the first pod that differs in this answer. Later pods
/// see its devices.
fn is_explained_by_order(again: &mut Oracle, answer: &Value) -> bool {
    let pods = answer["scenario"]["pods"].as_array().map_or(0, Vec::len);
    let is_equal = |answer: &Value| mismatch::of(answer).mismatches.is_empty();
    let first = (1..=pods).map(|count| with_pods(answer, count)).find(|answer| !is_equal(answer));
    first.is_some_and(|first| {
        (0..ORDERS).any(|_| {
            let other = again.ask(&first["scenario"]);
            other["error"].is_null() && is_equal(&other)
        })
    })
}

/// Returns an answer about the first pods only.
fn with_pods(answer: &Value, count: usize) -> Value {
    let mut answer = answer.clone();
    for list in ["/scenario/pods", "/decisions"] {
        if let Some(list) = answer.pointer_mut(list).and_then(Value::as_array_mut) {
            list.truncate(count);
        }
    }
    answer
}

impl Run {
    fn compare(&mut self, families: Vec<Family>) {
        let (seed, from, wanted) = (self.args.seed, self.args.from, self.args.decisions);
        let version = self.args.emulated_version;
        let mut oracle = Oracle::start(&oracle(version));
        oracle.feed((from..).map(move |number| scenario(&families, seed, number, version)));
        let mut decided = 0;
        for answer in oracle {
            decided += self.one(&answer);
            let failed = self.counts.values().any(|count| count.mismatches > 0);
            if decided >= wanted || failed && !self.args.all {
                return;
            }
        }
        panic!("the oracle ended");
    }

    /// Compares one answer of the oracle. Returns the number of decisions.
    fn one(&mut self, answer: &Value) -> usize {
        let kind = answer["scenario"]["kind"].as_str().unwrap_or("?");
        let count = self.counts.entry(kind.to_owned()).or_default();
        count.scenarios += 1;
        if let Some(error) = answer["error"].as_str() {
            count.without_answer += 1;
            *self.errors.entry(error.to_owned()).or_default() += 1;
            return 0;
        }
        let decisions = answer["decisions"].as_array().map_or(0, Vec::len);
        count.decisions += decisions;
        let mismatch::Compared { mismatches, mut explained } = mismatch::of(answer);
        if !mismatches.is_empty() && self.order_explains(answer) {
            explained = Some(explain::ORDER_OF_POOLS);
        }
        if let Some(row) = explained {
            *self.explained.entry(row).or_default() += 1;
        }
        if !mismatches.is_empty() && explained != Some(explain::ORDER_OF_POOLS) {
            self.counts.entry(kind.to_owned()).or_default().mismatches += 1;
            self.show(answer, &mismatches);
        }
        decisions
    }

    /// Whether upstream gives another answer, which equals ours, when it visits the pools of devices in another order.
    fn order_explains(&mut self, answer: &Value) -> bool {
        let version = self.args.emulated_version;
        if version >= EmulatedVersion::V1_36 || !explain::has_devices(answer) {
            return false;
        }
        let again = self.again.get_or_insert_with(|| Oracle::start(&oracle(version)));
        is_explained_by_order(again, answer)
    }

    /// Shows a mismatch, unless one of its kind was shown.
    fn show(&mut self, answer: &Value, mismatches: &[Mismatch]) {
        let Some(first) = mismatches.iter().find(|mismatch| !self.shown.contains(&mismatch.kind)) else {
            return;
        };
        self.shown.push(first.kind.clone());
        let name = answer["scenario"]["name"].as_str().unwrap_or("scenario");
        eprintln!("\n{name}: {}", first.text);
        if self.args.as_found {
            self.write(name, answer);
            return;
        }
        eprintln!("minimizing ...");
        let visits_by_chance = self.args.emulated_version < EmulatedVersion::V1_36;
        let [mut oracle, mut again] = [(); 2].map(|()| Oracle::start(&oracle(self.args.emulated_version)));
        let smallest = shrink::shrink(answer["scenario"].clone(), |scenario| {
            let answer = oracle.ask(scenario);
            answer["error"].is_null()
                && mismatch::of(&answer).mismatches.iter().any(|found| found.kind == first.kind)
                && !(visits_by_chance && is_explained_by_order(&mut again, &answer))
        });
        let answer = oracle.ask(&smallest);
        if !answer["error"].is_null() {
            eprintln!("the scenario alone has no answer: {}", answer["error"]);
            return;
        }
        if !smallest["config"].is_null() {
            eprintln!("config: {}", smallest["config"]);
        }
        for part in ["objects", "pods", "changes", "detour"] {
            for object in smallest[part].as_array().into_iter().flatten() {
                eprintln!("{part}: {object}");
            }
        }
        for found in mismatch::of(&answer).mismatches {
            eprintln!("{}", found.text);
        }
        eprintln!("upstream: {}", answer["decisions"]);
        eprintln!("ours:     {}", mismatch::ours(&smallest));
        self.write(name, &answer);
    }

    fn write(&self, name: &str, answer: &Value) {
        let folder = target().join("fuzz");
        let file = folder.join(format!("{name}.json"));
        std::fs::create_dir_all(&folder).expect("the target folder can be written to");
        std::fs::write(&file, format!("{answer}\n")).expect("the target folder can be written to");
        eprintln!("written to {}", file.display());
    }

    fn report(&self, began: Instant) {
        eprintln!(
            "\n{:20} {:>9} {:>9} {:>12} {:>10}",
            "family", "scenarios", "decisions", "no answer", "mismatches"
        );
        let mut all = Count::default();
        for (name, count) in &self.counts {
            let Count { scenarios, decisions, without_answer, mismatches } = count;
            eprintln!("{name:20} {scenarios:9} {decisions:9} {without_answer:12} {mismatches:10}");
            all.decisions += decisions;
            all.mismatches += mismatches;
        }
        for (error, scenarios) in &self.errors {
            eprintln!("no answer for {scenarios} scenarios: {error}");
        }
        for (row, scenarios) in &self.explained {
            eprintln!("{scenarios} scenarios differ as FIDELITY.md says: {row}");
        }
        let seconds = began.elapsed().as_secs_f64();
        let per_second = f64::from(u32::try_from(all.decisions).unwrap_or(u32::MAX)) / seconds;
        eprintln!(
            "seed {}: {} decisions in {seconds:.0} s, {per_second:.0} per second, {} scenarios with mismatches",
            self.args.seed, all.decisions, all.mismatches
        );
    }
}

/// Returns the version of this name.
fn version(name: &str) -> Result<EmulatedVersion, String> {
    let known = EmulatedVersion::ALL.into_iter().find(|known| known.as_str() == name);
    known.ok_or_else(|| {
        format!("known versions: {}", EmulatedVersion::ALL.map(EmulatedVersion::as_str).join(", "))
    })
}

/// Returns a scenario on which the version decides.
fn scenario(families: &[Family], seed: u64, number: u64, version: EmulatedVersion) -> Value {
    let mut scenario = generate::scenario(families, seed, number);
    scenario["emulatedVersion"] = version.as_str().into();
    scenario
}

/// Returns the path of the program that answers for the version.
fn oracle(version: EmulatedVersion) -> PathBuf {
    let upstream = target().join("upstream");
    match version {
        EmulatedVersion::V1_36 => upstream,
        other => upstream.join(other.as_str()),
    }
    .join("bin/oracle")
}

/// Returns the folder of build results.
fn target() -> PathBuf {
    let own = || supercargo_dev::root().join("target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(own, PathBuf::from)
}
