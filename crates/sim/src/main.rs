//! `supercargo-sim`: runs seeds of the simulation and prints the first broken invariant.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use supercargo_sim::{Failure, Options, Stopwatch, run, sweep_with};

const USAGE: &str = "Simulates the engine in generated clusters with faults. Prints the first broken invariant and exits with 1.

Usage: supercargo-sim [OPTIONS]

Options:
  --seed N       First seed [default: 1]
  --steps N      Number of steps before the faults stop [default: 3000]
  --seeds N      Number of seeds; with more than one, they run in parallel on all processors [default: 1]
  --extended     Add an extender with its own faults
  --timed        Print the durations of the engine's steps; only with one seed
  -v, --verbose  Print every line of the log; only with one seed
  -h, --help     Print this help";

/// The number of seeds between two progress lines.
const PROGRESS_INTERVAL: u64 = 10_000;

struct Args {
    seed: u64,
    steps: u64,
    seeds: u64,
    timed: bool,
    verbose: bool,
    extended: bool,
}

/// Parses the arguments; returns `None` if help was requested.
fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Args>, String> {
    let mut args = Args { seed: 1, steps: 3_000, seeds: 1, timed: false, verbose: false, extended: false };
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
            "--timed" => args.timed = true,
            "--extended" => args.extended = true,
            "-v" | "--verbose" => args.verbose = true,
            "-h" | "--help" => return Ok(None),
            other => return Err(format!("unknown flag {other}")),
        }
    }
    Ok(Some(args))
}

/// Prints a line and ignores write errors, for example a closed pipe.
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
    let done = if args.seeds == 1 { one(&args) } else { many(&args) };
    let Err(failure) = done else { return ExitCode::SUCCESS };
    // With `--verbose` the log lines were already printed.
    if args.verbose {
        say(failure.verdict());
    } else {
        say(&failure);
    }
    let (seed, steps) = (failure.seed, args.steps);
    let extended = if args.extended { " --extended" } else { "" };
    say(format_args!(
        "reproduce with: cargo run --release -p supercargo-sim -- --seed {seed} --steps {steps}{extended} -v"
    ));
    ExitCode::FAILURE
}

fn one(args: &Args) -> Result<(), Box<Failure>> {
    let (seed, steps) = (args.seed, args.steps);
    say(format_args!("seed {seed}, {steps} steps"));
    let echo = args.verbose.then(|| Box::new(io::stdout()) as Box<dyn Write>);
    let times = Rc::new(RefCell::new(Vec::new()));
    let timer = || Box::new(Timer { began: Instant::now(), times: Rc::clone(&times) }) as Box<dyn Stopwatch>;
    let done = run(Options {
        seed,
        steps,
        echo,
        extended: args.extended,
        stopwatch: args.timed.then(timer),
        ..Options::default()
    })?;
    say(format_args!(
        "  all invariants held: {} s, {} pods, {} placed, {} bindings ({} and {} checked against the server), {} incarnations, log {:016x}",
        done.seconds,
        done.created,
        done.placed,
        done.bindings,
        done.checked_locally,
        done.checked_wholly,
        done.incarnations,
        done.log_hash
    ));
    let mut times = times.take();
    times.sort_unstable();
    if let Some(longest) = times.last() {
        let at = |share: f64| times[(times.len() as f64 * share) as usize];
        let (half, most) = (at(0.5), at(0.999));
        let count = times.len();
        say(format_args!(
            "  {count} engine steps: median {half:?}, 99.9th percentile {most:?}, maximum {longest:?}"
        ));
    }
    Ok(())
}

/// Records the duration of each engine step.
struct Timer {
    began: Instant,
    times: Rc<RefCell<Vec<Duration>>>,
}

impl Stopwatch for Timer {
    fn begin(&mut self) {
        self.began = Instant::now();
    }

    fn end(&mut self) {
        self.times.borrow_mut().push(self.began.elapsed());
    }
}

fn many(args: &Args) -> Result<(), Box<Failure>> {
    let last = args.seed.saturating_add(args.seeds).saturating_sub(1);
    say(format_args!("seeds {} to {last}, {} steps each before the faults stop", args.seed, args.steps));
    let began = Instant::now();
    let report = |seeds: u64| {
        if seeds.is_multiple_of(PROGRESS_INTERVAL) {
            say(format_args!("  {seeds} seeds in {} s", began.elapsed().as_secs()));
        }
    };
    let totals = sweep_with(args.extended, args.seed, args.seeds, args.steps, report)?;
    say(format_args!("{totals}\n{:.1} s", began.elapsed().as_secs_f64()));
    Ok(())
}
