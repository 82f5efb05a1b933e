//! `supercargo-sim`: runs seeds of the simulation and tells which invariant broke. It knows nothing of the simulation
//! itself.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use supercargo_sim::{Options, run};

const USAGE: &str = "usage: supercargo-sim [--seed N] [--steps N] [--seeds K] [-v]

  --seed N    the first seed (1)
  --steps N   how many things happen before the faults stop (3000)
  --seeds K   how many seeds to run, one after the other (1)
  -v          print every line of the log";

struct Args {
    seed: u64,
    steps: u64,
    seeds: u64,
    verbose: bool,
}

/// Reads the arguments; nothing when help was asked for.
fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Args>, String> {
    let mut args = Args { seed: 1, steps: 3_000, seeds: 1, verbose: false };
    while let Some(word) = words.next() {
        let (flag, mut value) = match word.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (word, None),
        };
        let mut number = || {
            let text =
                value.take().or_else(|| words.next()).ok_or_else(|| format!("{flag} needs a number"))?;
            text.parse::<u64>().map_err(|_| format!("{flag}: \"{text}\" is not a number of 0 or more"))
        };
        match flag.as_str() {
            "--seed" => args.seed = number()?,
            "--steps" => args.steps = number()?,
            "--seeds" => args.seeds = number()?,
            "-v" | "--verbose" => args.verbose = true,
            "-h" | "--help" => return Ok(None),
            other => return Err(format!("there is no flag {other}")),
        }
    }
    Ok(Some(args))
}

/// Prints a line. Nobody reads on: that is no reason to fail.
fn say(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(Some(args)) => args,
        Ok(None) => {
            say(USAGE);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    for seed in args.seed..args.seed.saturating_add(args.seeds) {
        say(format_args!("seed {seed}, {} steps", args.steps));
        let echo = args.verbose.then(|| Box::new(io::stdout()) as Box<dyn Write>);
        match run(Options { seed, steps: args.steps, echo }) {
            Ok(done) => say(format_args!(
                "  held: {} s, {} pods, {} placed, {} bindings ({} and {} checked in truth), {} lives, log {:016x}",
                done.seconds,
                done.created,
                done.placed,
                done.bindings,
                done.checked_locally,
                done.checked_wholly,
                done.lives,
                done.log_hash
            )),
            Err(failure) => {
                // Who reads all lines has read the last ones.
                if args.verbose {
                    say(failure.verdict());
                } else {
                    say(&failure);
                }
                say(format_args!(
                    "again: cargo run --release -p supercargo-sim -- --seed {seed} --steps {} -v",
                    args.steps
                ));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
