//! The program: flags in, exit code out.
//!
//! Exit codes of the scheduler: 0 told to stop and stopped, 1 something failed while running, 2 a flag or the configuration
//! is wrong. A command has its own, with the same meaning of 0, 1 and 2.

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use std::io::Write as _;
use std::process::ExitCode;
use supercargo::args::{Args, Command};
use supercargo::cli::{
    completion, config, doctor, drain_check, explain, fit, lint, man, placement, queue, record, replay,
    report, shadow, simulate,
};
use supercargo::{flags, run, telemetry};

fn main() -> ExitCode {
    let mut args = match flags::read(std::env::args_os()) {
        Ok(line) => Args::read(line),
        Err(told) => Args::command().error(ErrorKind::UnknownArgument, told).exit(),
    };
    match args.command.take() {
        Some(Command::Simulate(args)) => return simulate::main(&args),
        Some(Command::Explain(args)) => return explain::main(&args),
        Some(Command::Fit(args)) => return fit::main(&args),
        Some(Command::DrainCheck(args)) => return drain_check::main(&args),
        Some(Command::Record(args)) => return record::main(&args),
        Some(Command::Replay(args)) => return replay::main(&args),
        Some(Command::Lint(args)) => return lint::main(&args),
        Some(Command::Test(args)) => return placement::main(&args),
        Some(Command::Report(args)) => return report::main(&args),
        Some(Command::Queue(args)) => return queue::main(&args),
        Some(Command::Doctor(args)) => return doctor::main(&args),
        Some(Command::Config(args)) => return config::main(&args),
        Some(Command::Shadow(args)) => return shadow::main(&args),
        Some(Command::Completion(args)) => return completion::main(args),
        Some(Command::Man(args)) => return man::main(&args),
        None => {}
    }
    let log = match telemetry::start(args.logging_format, args.verbosity) {
        Ok(log) => log,
        Err(error) => {
            // Where stderr is gone there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "error: cannot start the log: {error}");
            return ExitCode::FAILURE;
        }
    };
    let lines = log.lines.clone();
    let code = match run::run(args, log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = told(&error.cause), "supercargo ends");
            ExitCode::from(error.code)
        }
    };
    // What a stderr that nobody reads has not taken by then is lost.
    lines.flush(run::LOG_WITHIN);
    code
}

/// The error and what caused it. Some say themselves what caused them: that is not said twice.
fn told(error: &anyhow::Error) -> String {
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
    fn a_cause_is_told_once() {
        let error = anyhow!("is a directory").context("cannot read a: is a directory").context("no start");
        assert_eq!(told(&error), "no start: cannot read a: is a directory");
    }
}
