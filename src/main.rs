//! The `supercargo` binary: parses the command line, runs the scheduler or a command, and returns the exit
//! code.
//!
//! Exit codes of the scheduler: 0 stopped on request, 1 failed at run time, 2 invalid flag or configuration.
//! Each command documents its own codes; 0, 1 and 2 mean the same everywhere unless it says otherwise.

use clap::CommandFactory as _;
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use supercargo::args::{Args, Command, Program};
use supercargo::telemetry::log;
use supercargo::{record, run, whatif_serve};
use supercargo_cli::commands::{
    cel, completion, config, doctor, drain_check, explain, fit, lint, man, placement, plan, queue, replay,
    report, shadow, simulate, top,
};

fn main() -> ExitCode {
    if let Some(commit) = supercargo::COMMIT {
        supercargo_apiserver::client::set_commit(commit);
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    if Program::of(words.first()) == Program::Supercargo
        && let Some(code) = completion::answered(&words, Args::command)
    {
        return code;
    }
    let mut args = Args::read(words);
    match args.command.take() {
        Some(Command::Simulate(args)) => return simulate::main(&args),
        Some(Command::Explain(args)) => return explain::main(&args),
        Some(Command::Why(args)) => return explain::main(&args.explain()),
        Some(Command::Fit(args)) => return fit::main(&args),
        Some(Command::DrainCheck(args)) => return drain_check::main(&args),
        Some(Command::Plan(args)) => return plan::main(&args),
        Some(Command::Whatif(args)) => return whatif_serve::main(&args),
        Some(Command::Record(args)) => return record::main(&args),
        Some(Command::Replay(args)) => return replay::main(&args),
        Some(Command::Lint(args)) => return lint::main(&args),
        Some(Command::Cel(args)) => return cel::main(&args),
        Some(Command::Test(args)) => return placement::main(&args),
        Some(Command::Report(args)) => return report::main(&args),
        Some(Command::Queue(args)) => return queue::main(&args),
        Some(Command::Top(args)) => return top::main(&args),
        Some(Command::Doctor(args)) => return doctor::main(&args),
        Some(Command::Config(args)) => return config::main(&args),
        Some(Command::Shadow(args)) => return shadow::main(&args),
        Some(Command::Completion(args)) => return completion::main(args),
        Some(Command::Man(args)) => return man::main(&args, Args::command()),
        None => {}
    }
    let log = match log::start(args.logging_format, args.verbosity) {
        Ok(log) => log,
        Err(error) => {
            // If stderr is closed, the error cannot be reported anywhere.
            let _ = writeln!(std::io::stderr(), "error: cannot start the log: {error}");
            return ExitCode::FAILURE;
        }
    };
    let lines = log.lines.clone();
    let code = match run::run(args, log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = error_chain(&error.cause), "the scheduler stopped with an error");
            ExitCode::from(error.code)
        }
    };
    // Log lines that stderr does not accept within this time are lost.
    lines.flush(run::LOG_WITHIN);
    code
}

/// Formats an error with its chain of causes, leaving out causes that an earlier message already contains.
fn error_chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn causes_contained_in_an_earlier_message_are_not_repeated() {
        let error = anyhow!("is a directory").context("cannot read a: is a directory").context("no start");
        assert_eq!(error_chain(&error), "no start: cannot read a: is a directory");
    }
}
