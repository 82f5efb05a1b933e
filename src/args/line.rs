//! From the words of a command line to [`Args`]: kube-scheduler's flags are read as kube-scheduler reads them, all
//! mistakes are reported at once, and clap reads the rest.

use super::{Args, VERSION, values};
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory as _, FromArgMatches as _};
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use supercargo_config::flags::table::{Effect, FLAGS, Flag};
use supercargo_config::flags::{self, CommandLine, Kind, OwnFlag, Request};
use supercargo_core::model::emulation::EmulatedVersion;

/// The name by which the program was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// Any other name: the defaults are of a scheduler besides kube-scheduler.
    #[default]
    Supercargo,
    /// `kube-scheduler`: it has kube-scheduler's defaults, and no commands.
    KubeScheduler,
}

impl Program {
    /// Returns the program of the first word of a command line.
    pub fn of(word: Option<&OsString>) -> Self {
        match file_name(word) {
            Some("kube-scheduler") => Self::KubeScheduler,
            _ => Self::Supercargo,
        }
    }
}

fn file_name(word: Option<&OsString>) -> Option<&str> {
    word.map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str)
}

/// The flags of [`FLAGS`] that [`Args`] does not declare itself. Clap only describes them; [`CommandLine`] reads them.
#[derive(Clone, Debug, Default)]
pub struct DeclaredFlags;

impl clap::Args for DeclaredFlags {
    fn augment_args(command: Command) -> Command {
        FLAGS
            .iter()
            .filter(|flag| !flag.help.is_empty())
            .fold(command, |command, flag| command.arg(declared(flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for DeclaredFlags {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

fn declared(flag: &'static Flag) -> Arg {
    let help = match flag.effect {
        Effect::Works => flag.help.to_owned(),
        Effect::None(why) => format!("{} No effect: {why}.", flag.help),
    };
    let arg = Arg::new(flag.name).long(flag.name).help(help).help_heading("Flags of kube-scheduler");
    let arg = if flag.default.is_empty() { arg } else { arg.default_value(flag.default) };
    let arg = arg.action(if flag.kind.adds() { ArgAction::Append } else { ArgAction::Set });
    match flag.kind {
        Kind::Bool => arg
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(PossibleValuesParser::new(["true", "false"])),
        Kind::Int | Kind::Int32 | Kind::Float32 => arg.value_name("NUMBER"),
        Kind::Ints32 => arg.value_name("NUMBERS"),
        Kind::Duration => arg.value_name("DURATION"),
        Kind::List => arg.value_name("LIST"),
        Kind::Pairs | Kind::Modules => arg.value_name("PAIRS"),
        Kind::CertKeys => arg.value_name("FILES"),
        Kind::Quantity => arg.value_name("QUANTITY"),
        _ if flag.name.ends_with("-file") || flag.name.ends_with("kubeconfig") => arg.value_name("FILE"),
        _ => arg.value_name("VALUE"),
    }
}

/// Why a command line does not run the scheduler or a command.
#[derive(Debug)]
pub enum Refusal {
    /// Help, a version or clap's error.
    Answer(clap::Error),
    /// The text of a version, without clap.
    Version(String),
    /// What is wrong with the flags.
    Problems(Vec<String>),
}

impl Refusal {
    /// Prints the reason and exits: with 0 for help and versions, 2 for mistakes, 1 if printing fails.
    fn exit(self, program: Option<&OsString>) -> ! {
        let answer = match self {
            Self::Answer(answer) => answer,
            // Clap would print it as an error.
            Self::Version(text) => {
                let printed = std::io::stdout().write_all(text.as_bytes());
                std::process::exit(i32::from(printed.is_err()))
            }
            Self::Problems(problems) => {
                let text = match problems.as_slice() {
                    [only] => only.clone(),
                    all => format!("{} flags or arguments are wrong:\n  {}", all.len(), all.join("\n  ")),
                };
                Args::command_as(program).error(ErrorKind::UnknownArgument, text)
            }
        };
        let code = answer.print().map_or(1, |()| answer.exit_code());
        std::process::exit(code)
    }
}

impl Args {
    /// Returns the command line definition. Called through a link named `kubectl-NAME`, its help shows
    /// `kubectl NAME`; called `kube-scheduler`, it shows no commands.
    pub fn command_as(program: Option<&OsString>) -> Command {
        let command = Self::command();
        if Program::of(program) == Program::KubeScheduler {
            let about = "Runs supercargo in kube-scheduler's place: without --config it schedules pods whose \
                         `spec.schedulerName` is `default-scheduler`, and holds the Lease kube-system/kube-scheduler.";
            let hidden = command.mut_subcommands(|command| command.hide(true));
            return hidden.bin_name("kube-scheduler").long_about(about);
        }
        match file_name(program).and_then(|file| file.strip_prefix("kubectl-")) {
            Some(plugin) => command.bin_name(format!("kubectl {plugin}")),
            None => command,
        }
    }

    /// Reads a command line. Exits the process if it is wrong, or after printing help or the version.
    pub fn read(line: impl IntoIterator<Item = OsString>) -> Self {
        let line: Vec<OsString> = line.into_iter().collect();
        Self::try_read(&line).unwrap_or_else(|refusal| refusal.exit(line.first()))
    }

    /// Reads a command line.
    ///
    /// # Errors
    /// Everything that is wrong with the flags; or help or a version, if they are requested.
    pub fn try_read(line: &[OsString]) -> Result<Self, Refusal> {
        let program = Program::of(line.first());
        let is_command = |word: &OsString| !word.is_empty() && !word.to_string_lossy().starts_with('-');
        if program == Program::Supercargo && line.get(1).is_some_and(is_command) {
            return Self::by_clap(line.to_vec());
        }
        let command = Self::command();
        let own: Vec<OwnFlag<'_>> = command.get_arguments().filter_map(own_flag).collect();
        let parsed = CommandLine::read(line.get(1..).unwrap_or_default(), &own);
        let first = line.first().cloned().unwrap_or_else(|| "supercargo".into());
        if let (true, Some(Request::Help { short })) = (parsed.problems.is_empty(), parsed.request) {
            return Self::by_clap(vec![first, if short { "-h" } else { "--help" }.into()]);
        }
        let mut problems = parsed.problems.clone();
        if parsed.words.iter().any(|word| !word.is_empty()) {
            let name = if program == Program::KubeScheduler { "kube-scheduler" } else { "supercargo" };
            let words: Vec<String> = parsed.words.iter().map(|word| format!("{word:?}")).collect();
            problems.push(format!("{name:?} does not take any arguments, got [{}]", words.join(" ")));
        }
        if let (true, Some(Request::Version { raw })) = (problems.is_empty(), parsed.request) {
            problems = flags::version_problems(&parsed.values);
            if problems.is_empty() {
                return Err(Refusal::Version(version(program, raw, &parsed)));
            }
        }
        problems.extend(parsed.own.iter().filter_map(|flag| own_problem(flag)));
        problems.extend(flags::problems(&parsed.values));
        if !problems.is_empty() {
            return Err(Refusal::Problems(problems));
        }
        let given = parsed.values.arguments().chain(last_of_each(&parsed.own)).map(OsString::from);
        let mut args = Self::by_clap([first].into_iter().chain(given).collect())?;
        args.upstream = parsed.values;
        args.reported_version = parsed.reported_version;
        Ok(args)
    }

    /// Reads a command line whose flags have clap's form.
    fn by_clap(line: Vec<OsString>) -> Result<Self, Refusal> {
        let program = Program::of(line.first());
        let matches = Self::command_as(line.first()).try_get_matches_from(line).map_err(Refusal::Answer)?;
        let mut args = Self::from_arg_matches(&matches).map_err(Refusal::Answer)?;
        args.values = values(&matches);
        args.program = program;
        Ok(args)
    }
}

/// Returns a flag that kube-scheduler does not have.
fn own_flag(arg: &Arg) -> Option<OwnFlag<'_>> {
    let name = arg.get_long().filter(|name| flags::table::find(name).is_none())?;
    (!matches!(name, "help" | "version"))
        .then(|| OwnFlag { name, takes_value: arg.get_action().takes_values() })
}

/// Returns what is wrong with the value of one of our own flags.
fn own_problem(flag: &str) -> Option<String> {
    let error = Args::command().try_get_matches_from(["supercargo", flag]).err()?;
    // Other flags that this one needs are judged with the whole command line.
    let is_about_value = matches!(
        error.kind(),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::TooManyValues | ErrorKind::NoEquals
    );
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    is_about_value.then(|| line.strip_prefix("error: ").unwrap_or(line).to_owned())
}

/// Returns each flag once, with its last value.
fn last_of_each(flags: &[String]) -> impl Iterator<Item = String> {
    let name = |flag: &String| flag.split('=').next().unwrap_or_default().to_owned();
    let last = flags
        .iter()
        .enumerate()
        .filter(move |(at, flag)| !flags[at + 1..].iter().any(|later| name(later) == name(flag)));
    last.map(|(_, flag)| flag.clone())
}

/// Returns the version of kube-scheduler that the program behaves as, with its own version as build metadata.
pub fn git_version(emulated: EmulatedVersion, reported: Option<&str>) -> String {
    reported.map_or_else(|| format!("v{emulated}.0+supercargo-{}", env!("CARGO_PKG_VERSION")), str::to_owned)
}

fn version(program: Program, raw: bool, parsed: &CommandLine) -> String {
    let emulated = parsed.values.emulated_version().unwrap_or(EmulatedVersion::NEWEST);
    let git_version = git_version(emulated, parsed.reported_version.as_deref());
    match (raw, program) {
        (true, _) => {
            let (major, minor) = emulated.as_str().split_once('.').unwrap_or((emulated.as_str(), ""));
            let commit = crate::COMMIT.unwrap_or("unknown");
            format!(
                "version.Info{{Major:{major:?}, Minor:{minor:?}, GitVersion:{git_version:?}, GitCommit:{commit:?}, \
                 Compiler:\"rustc\", Platform:\"{}/{}\"}}\n",
                std::env::consts::OS,
                std::env::consts::ARCH
            )
        }
        (false, Program::KubeScheduler) => format!("Kubernetes {git_version}\n"),
        (false, Program::Supercargo) => format!("supercargo {VERSION}\n"),
    }
}

#[cfg(test)]
mod tests;
