//! `supercargo replay`: repeats the decisions of a recording and compares them. Contacts no API server and
//! changes nothing.

mod report;
mod table;

use crate::progress::Working;
use crate::screen::Output;
use crate::screen::{complain, in_form, say};
use clap::Args;
use report::{Compared, ReplayReport};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use supercargo_config::{Effective, Flags, Settings};
use supercargo_whatif::load::input::decompressed;
use supercargo_whatif::recording::entry::Bad;
use supercargo_whatif::recording::entry::Entries;
use supercargo_whatif::recording::header::Header;
use supercargo_whatif::recording::header::Mode;
use supercargo_whatif::recording::replay::{Replay, Summary};
use supercargo_whatif::recording::watched::judge;

/// Advice for a file that is no recording.
const RECORDING: &str = "give a file of --record-to or `supercargo record`";
/// Exit code if a decision differs.
const DIFFERS: u8 = 3;
/// Exit code for invalid flags and files.
const BAD_INPUT: u8 = 2;

/// Arguments of `supercargo replay`.
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// Recording written by --record-to or `supercargo record`; `-` reads standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// File with another KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) to compare with. Each
    /// decision is also made with it, in the cluster state of that moment. Without it, decisions are compared
    /// with the recorded ones.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Show all differences: with --config each decision that differs, else both sides of the first
    /// difference.
    #[arg(long)]
    pub diff: bool,

    /// Output format.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

/// Runs the command: prints the result and returns the exit code.
pub fn main(args: &ReplayArgs) -> ExitCode {
    match answer(args) {
        Ok(answer) => {
            if let Some(notice) = answer.notice() {
                complain(&notice);
            }
            let text = in_form(args.output, &answer, |wide| table::text(&answer, wide || args.diff));
            say(&text, if answer.is_same() { 0 } else { DIFFERS })
        }
        Err(error) => {
            complain(&format!("error: {error}"));
            ExitCode::from(BAD_INPUT)
        }
    }
}

fn answer(args: &ReplayArgs) -> Result<ReplayReport, String> {
    let other = args.config.as_deref().map(other).transpose()?;
    let name = if args.file == Path::new("-") {
        "standard input".to_owned()
    } else {
        args.file.display().to_string()
    };
    let with_name = |bad: &dyn std::fmt::Display| format!("{name}: {bad}");
    let from: Box<dyn BufRead> = if args.file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&args.file).and_then(decompressed);
        let file = file.map_err(|error| with_name(&format!("{error}; {RECORDING}")))?;
        Box::new(BufReader::new(file))
    };
    let (beginning, entries) =
        Entries::open(from).map_err(|bad| with_name(&format!("{bad}; {RECORDING}")))?;
    let _working = Working::on("replaying the recording");
    match &beginning.mode {
        Mode::Scheduler => {
            let (summary, compared) =
                played(beginning.clone(), entries, other.as_ref()).map_err(|bad| with_name(&bad))?;
            Ok(ReplayReport::new(&beginning, summary, compared))
        }
        Mode::Watcher { of } => {
            let name = other.as_ref().map_or("the recorded configuration", |(name, _)| name);
            let mut compared = Compared::by(name);
            let settings = other.as_ref().map(|(_, settings)| settings);
            let summary = judge(&beginning, entries, of, settings, |line, seen| compared.see(line, &seen));
            Ok(ReplayReport::new(&beginning, summary.map_err(|bad| with_name(&bad))?, Some(compared)))
        }
    }
}

/// Loads the other configuration and returns it with its file name.
fn other(path: &Path) -> Result<(String, Settings), String> {
    let flags = Flags { allow_second_default_scheduler: true, ..Flags::without_election() };
    let settings = Effective::load(path, &flags).and_then(|effective| Settings::of(&effective));
    let settings = settings.map_err(|error| error.to_string())?;
    if !settings.extenders.is_empty() {
        return Err(format!("{}: extenders: replay calls no extenders; remove the field", path.display()));
    }
    Ok((path.display().to_string(), settings))
}

fn played(
    beginning: Header,
    entries: Entries<Box<dyn BufRead>>,
    other: Option<&(String, Settings)>,
) -> Result<(Summary, Option<Compared>), Bad> {
    let mut replay = Replay::of(beginning, entries)?;
    let mut compared = other.map(|(name, settings)| {
        replay.set_alternative(settings);
        Compared::by(name)
    });
    let summary = replay.run(|line, alternative| {
        if let Some(compared) = &mut compared {
            compared.count(line, &alternative);
        }
    })?;
    Ok((summary, compared))
}
