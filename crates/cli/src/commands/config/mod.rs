//! `supercargo config`: validates configuration files, or compares two. Reads only files and changes
//! nothing.

pub(crate) mod check;
mod diff;

use crate::screen::{Output, plain, say};
use clap::{Args, Subcommand};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code for invalid files.
const BAD_INPUT: u8 = 2;

/// Arguments of `supercargo config`.
#[derive(Clone, Debug, Args)]
pub struct ConfigArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub question: Question,
}

/// Subcommands of `supercargo config`.
#[derive(Clone, Debug, Subcommand)]
pub enum Question {
    /// Check whether the scheduler accepts configuration files, and show each problem with its line.
    ///
    /// Exit code: 0 all are valid, 2 at least one is invalid.
    Check {
        /// Files with a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1).
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,

        /// Output format. JSON and YAML go to standard output even if a file is invalid.
        #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
        output: Output,
    },
    /// Compare the effective settings of two configuration files, defaults included.
    ///
    /// Exit code: 0 equal, 1 different, 2 a file is invalid.
    Diff {
        /// The first file.
        #[arg(value_name = "A")]
        before: PathBuf,
        /// The second file.
        #[arg(value_name = "B")]
        after: PathBuf,
    },
}

/// Output and exit code of a subcommand.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    /// Text for standard output.
    out: String,
    /// Text for standard error.
    err: String,
    code: u8,
}

impl Answer {
    fn bad_input(err: String) -> Self {
        Self { out: String::new(), err, code: BAD_INPUT }
    }
}

/// Escapes what a terminal would interpret, line by line.
fn plain_lines(text: &str) -> String {
    text.lines().map(|line| plain(line) + "\n").collect()
}

/// Runs the command and returns the exit code.
pub fn main(args: &ConfigArgs) -> ExitCode {
    let answer = match &args.question {
        Question::Check { files, output } => check::answer(files, *output),
        Question::Diff { before, after } => diff::answer(before, after),
    };
    // If stderr is closed, there is nowhere to report to.
    let _ = io::stderr().write_all(plain_lines(&answer.err).as_bytes());
    say(&plain_lines(&answer.out), answer.code)
}
