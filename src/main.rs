//! The program: flags in, exit code out.
//!
//! Exit codes: 0 told to stop and stopped, 1 something failed while running, 2 a flag or the configuration is wrong.

use clap::Parser as _;
use std::process::ExitCode;
use supercargo::args::Args;
use supercargo::{run, telemetry};

fn main() -> ExitCode {
    let args = Args::parse();
    telemetry::start(args.logging_format, args.verbosity);
    match run::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{:#}", error.cause), "supercargo ends");
            ExitCode::from(error.code)
        }
    }
}
