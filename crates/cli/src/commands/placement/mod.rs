//! `supercargo test`: runs placement tests, which compare expected with decided placements. Made for
//! pipelines; changes nothing.
//!
//! `spec` reads a file, `simulate::what_if` decides, `judge` compares, `report` formats the result.

mod judge;
mod report;
mod spec;

use crate::cluster::{Refused, SourceArgs};
use crate::commands::config::check::show;
use crate::commands::simulate::what_if::{ChangeArgs, Question, WhatIf};
use crate::commands::simulate::{AddNodes, Scale};
use crate::emulation::EmulationArgs;
use crate::live::LiveArgs;
use crate::screen::plain_json;
use crate::screen::{complain, say};
use clap::{Args, ValueEnum};
use report::{OfCase, OfFile, Report};
use spec::{NodeChoice, Spec, TestFile};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use supercargo_config::Problem;
use supercargo_core::model::rng::Seed;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::load::input::InputLimit;
use supercargo_whatif::load::input::decompressed;
use supercargo_whatif::simulate::decide::Detail;
use supercargo_whatif::simulate::decide::PreemptionMode;
use supercargo_whatif::simulate::decide::Rules;
use supercargo_whatif::simulate::decide::TieBreak;

/// Exit code if a test failed.
const FAILED: u8 = 3;
/// Exit code for invalid files.
const BAD_INPUT: u8 = 2;
/// Maximum size of a test file in bytes. The files it names may be larger.
const BYTES_MAX: u64 = 16 << 20;

/// Arguments of `supercargo test`.
#[derive(Clone, Debug, Args)]
pub struct TestArgs {
    /// Files with a PlacementTest (docs/placement-test.md). Paths in a file are relative to it.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Fail on empty files and on objects with unknown fields or versions, instead of warning about them.
    #[arg(long)]
    pub strict: bool,

    /// Version of kube-scheduler to behave as.
    #[command(flatten)]
    pub emulation: EmulationArgs,

    /// Output format.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: TestOutput,
}

/// Output formats of `supercargo test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TestOutput {
    /// One line per test, with its failures.
    Table,
    /// A PlacementTestReport as JSON.
    Json,
    /// JUnit XML.
    Junit,
}

/// Why a file could not be run.
enum NoResult {
    /// The file is invalid: the text shows its problems.
    Wrong(String),
    /// A file that it names is invalid.
    Refused(Refused),
}

/// Runs the command: prints the report and returns the exit code.
pub fn main(args: &TestArgs) -> ExitCode {
    let mut files = Vec::new();
    for file in &args.files {
        match run(file, args) {
            Ok(of_file) => files.push(of_file),
            Err(NoResult::Wrong(text)) => {
                eprint(&text);
                return ExitCode::from(BAD_INPUT);
            }
            Err(NoResult::Refused(refused)) => {
                complain(&format!("cannot run {}", file.display()));
                return refused.report();
            }
        }
    }
    let report = Report::new(files);
    let text = match args.output {
        TestOutput::Table => report.table(),
        TestOutput::Json => {
            let text = serde_json::to_string_pretty(&report);
            plain_json(text.expect("a report holds only strings, numbers and lists") + "\n")
        }
        TestOutput::Junit => report.junit(),
    };
    say(&text, if report.failed == 0 { 0 } else { FAILED })
}

/// Prints line by line, since `complain` would escape the line breaks.
fn eprint(text: &str) {
    text.lines().for_each(complain);
}

fn run(file: &Path, args: &TestArgs) -> Result<OfFile, NoResult> {
    let text = text_of(file).map_err(|error| {
        NoResult::Wrong(format!("error: {}: {error}; give a file with a PlacementTest", file.display()))
    })?;
    let wrong = |problems: Vec<Problem>| {
        let mut message = String::new();
        problems.iter().for_each(|problem| show(file, &text, problem, &mut message));
        let _ = writeln!(message, "{}: {}", file.display(), count(problems.len(), "problem"));
        NoResult::Wrong(message)
    };
    let read = TestFile::new(&text).map_err(wrong)?;
    let (source, pods) = source(file, &read.spec, args);
    let changes = changes(&read.spec);
    let question = Question {
        source: &source,
        pods: &pods,
        changes: &changes,
        rules: rules(&read.spec),
        compared: None,
    };
    let mut what_if = WhatIf::load(&question).map_err(NoResult::Refused)?;
    what_if.notices.iter().for_each(|notice| complain(notice));
    let unknown = unknown_nodes(&read, &what_if, &changes.remove_node);
    if !unknown.is_empty() {
        return Err(wrong(unknown));
    }
    let round = what_if.decide(|_, _| Ok(())).expect("nothing is written");
    drop(round);
    let residents = what_if.residents();
    let cases = read.spec.tests.iter().map(|case| {
        let judged = judge::judge(&mut what_if, &residents, case);
        OfCase {
            name: case.name.clone(),
            passed: judged.failures.is_empty(),
            pods: judged.pods,
            failures: judged.failures,
        }
    });
    let tests = cases.collect();
    Ok(OfFile { file: file.display().to_string(), name: read.spec.metadata.name.clone(), tests })
}

fn text_of(file: &Path) -> std::io::Result<String> {
    use std::io::{Error, ErrorKind, Read as _};
    let mut text = String::new();
    let read = decompressed(std::fs::File::open(file)?)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > BYTES_MAX {
        return Err(Error::new(ErrorKind::FileTooLarge, "larger than 16 MiB, the limit for a test file"));
    }
    Ok(text)
}

/// Resolves the paths in the file, relative to it.
fn source(file: &Path, spec: &Spec, args: &TestArgs) -> (SourceArgs, Vec<PathBuf>) {
    let folder = file.parent().unwrap_or(Path::new(""));
    let beside = |names: &[String]| names.iter().map(|name| folder.join(name)).collect::<Vec<_>>();
    let live = LiveArgs { kubeconfig: None, context: None, request_timeout: Duration::ZERO };
    let config = spec.config.as_ref().map(|name| folder.join(name));
    let source = SourceArgs {
        cluster: beside(&spec.cluster),
        live,
        config,
        emulation: args.emulation.clone(),
        as_written: spec.as_written,
        input_limit: InputLimit::default(),
        strict: args.strict,
    };
    (source, beside(&spec.pods))
}

/// Returns the changes. Validation has parsed them before.
fn changes(spec: &Spec) -> ChangeArgs {
    let of = &spec.changes;
    ChangeArgs {
        add_nodes: of.add_nodes.iter().filter_map(|text| AddNodes::parse(text).ok()).collect(),
        remove_node: of.remove_nodes.clone(),
        scale: of.scale.iter().filter_map(|text| Scale::parse(text).ok()).collect(),
        namespace: of.namespace.clone(),
    }
}

fn rules(spec: &Spec) -> Rules {
    let preemption = match spec.preemption.as_deref() {
        Some("apply") => PreemptionMode::Apply,
        Some("off") => PreemptionMode::Off,
        _ => PreemptionMode::Report,
    };
    let seed = Seed(spec.seed.unsigned_abs());
    Rules { tie_break: TieBreak::Seeded, seed, preemption, detail: Detail::None }
}

/// Returns a problem for each name of a node that does not exist: an expectation about it could never fail.
fn unknown_nodes(read: &TestFile, what_if: &WhatIf, removed: &[String]) -> Vec<Problem> {
    let tables = what_if.tables();
    let mut known: BTreeSet<&str> = what_if.node_names().map(|node| tables.text(node)).collect();
    known.extend(removed.iter().map(String::as_str));
    let mut problems = Vec::new();
    let mut look = |path: String, nodes: &NodeChoice| {
        for (at, name) in nodes.names.iter().enumerate().filter(|(_, name)| !known.contains(name.as_str())) {
            let problem = read.problem(&format!("{path}.names[{at}]"), format!("node {name} not found"));
            let meant = supercargo_config::yaml::nearest(name, known.iter().copied()).map(str::to_owned);
            problems.push(Problem { meant, ..problem });
        }
    };
    for (at, case) in read.spec.tests.iter().enumerate() {
        let path = |field: &str| format!("tests[{at}].expect.{field}");
        let of = &case.expect;
        of.on_nodes.iter().for_each(|nodes| look(path("onNodes"), nodes));
        of.not_on_nodes.iter().for_each(|nodes| look(path("notOnNodes"), nodes));
        of.spread.iter().for_each(|spread| look(path("spread.nodes"), &spread.nodes));
    }
    problems
}
