//! `supercargo config`: a configuration file judged, and two compared. Reads files, asks nobody and changes nothing.

pub(in crate::cli) mod check;
mod diff;

use super::cluster::say;
use super::screen::plain;
use clap::{Args, Subcommand};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code for files that cannot be taken.
const BAD_INPUT: u8 = 2;

/// What is asked of configuration files.
#[derive(Clone, Debug, Args)]
pub struct ConfigArgs {
    /// The question.
    #[command(subcommand)]
    pub question: Question,
}

/// Questions about configuration files.
#[derive(Clone, Debug, Subcommand)]
pub enum Question {
    /// Tell whether the scheduler would take a file, and show what is wrong with it where it stands.
    ///
    /// Exit code: 0 it would, 2 it would not.
    Check {
        /// File with a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1).
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Compare what two files come to, defaults included, however each is written.
    ///
    /// Exit code: 0 they come to the same, 1 they do not, 2 one of them cannot be taken.
    Diff {
        /// The first file.
        #[arg(value_name = "A")]
        before: PathBuf,
        /// The second file.
        #[arg(value_name = "B")]
        after: PathBuf,
    },
}

/// What is told, and how the process ends.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    /// For standard output.
    out: String,
    /// For standard error.
    err: String,
    code: u8,
}

impl Answer {
    fn bad_input(err: String) -> Self {
        Self { out: String::new(), err, code: BAD_INPUT }
    }
}

/// Lines without what a terminal would obey.
fn plain_lines(text: &str) -> String {
    text.lines().map(|line| plain(line) + "\n").collect()
}

/// Runs the command on the process's own streams.
pub fn main(args: &ConfigArgs) -> ExitCode {
    let answer = match &args.question {
        Question::Check { file } => check::answer(file),
        Question::Diff { before, after } => diff::answer(before, after),
    };
    // There may be nobody left to tell.
    let _ = io::stderr().write_all(plain_lines(&answer.err).as_bytes());
    say(&plain_lines(&answer.out), answer.code)
}
