//! `--watch`: asks a question again and again, and prints the answer when it changes.
//!
//! Knows no question: the commands ask, and this module decides what to print.

use crate::cluster::Refused;
use crate::screen::{complain, print};
use crate::signals;
use clap::Args;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use supercargo_config::parse_duration;

/// Exit code of a watch that a signal ends, as in kubectl.
const ENDED: i32 = 1;
/// Exit code if standard output cannot be written.
const FAILED: u8 = 1;
/// Bounds of `--interval`. More than one question a second would load the scheduler; one an hour is a cron job.
const INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// Moves the cursor to the upper left corner and clears the screen, as `clear` does.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Flags of commands that can watch.
#[derive(Clone, Copy, Debug, Args)]
pub struct WatchArgs {
    /// Go on, and print the answer again when it changes. Ctrl-C ends it with exit code 1, as `kubectl get --watch`.
    #[arg(short = 'w', long)]
    pub watch: bool,

    /// Time between two questions of --watch, from 1s to 1h. A question that takes longer is followed by a pause of
    /// the same length.
    #[arg(long, value_name = "DURATION", default_value = "2s", requires = "watch", value_parser = interval)]
    pub interval: Duration,
}

/// Parses a value of `--interval`.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval < INTERVAL.0 || interval > INTERVAL.1 {
        return Err("expected a duration from 1s to 1h".to_owned());
    }
    Ok(interval)
}

/// An answer.
pub(crate) struct Shown {
    /// The answer in the requested format.
    pub(crate) text: String,
    /// The part of the answer that makes it a new one if it differs.
    pub(crate) state: String,
}

/// The separator between two answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Between {
    /// It replaces it on the screen.
    Clear,
    /// Nothing.
    Nothing,
    /// The separator of YAML documents.
    Document,
}

impl Between {
    /// Returns what separates answers on standard output: tables replace each other on a terminal.
    pub(crate) fn of_stdout(is_table: bool, is_yaml: bool) -> Self {
        match (is_table && io::stdout().is_terminal(), is_yaml) {
            (true, _) => Self::Clear,
            (false, true) => Self::Document,
            (false, false) => Self::Nothing,
        }
    }
}

/// Remembers what was printed last.
struct Watcher {
    between: Between,
    state: Option<String>,
    error: Option<String>,
}

/// The text to print.
#[derive(Debug, Default, PartialEq, Eq)]
struct Print {
    out: String,
    err: Option<String>,
}

impl Watcher {
    fn next(&mut self, answer: Result<Shown, String>) -> Print {
        let shown = match answer {
            Ok(shown) => shown,
            Err(text) if self.error.as_ref() == Some(&text) => return Print::default(),
            Err(text) => {
                let err = Some(format!("error: {text}; asking again until Ctrl-C"));
                self.error = Some(text);
                return Print { out: String::new(), err };
            }
        };
        let is_back = self.error.take().is_some();
        let is_new = self.state.as_ref() != Some(&shown.state);
        let is_first = self.state.is_none();
        let out = match self.between {
            // Its durations move on even if nothing else changes.
            Between::Clear => format!("{CLEAR}{}", shown.text),
            _ if !is_new => String::new(),
            Between::Document if !is_first => format!("---\n{}", shown.text),
            Between::Document | Between::Nothing => shown.text,
        };
        self.state = Some(shown.state);
        Print { out, err: is_back.then(|| "answered again".to_owned()) }
    }
}

/// Asks until a signal ends the process. Returns only if the first question fails, or standard output cannot be
/// written.
pub(crate) fn watch(
    args: WatchArgs,
    between: Between,
    mut ask: impl FnMut() -> Result<Shown, Refused>,
) -> ExitCode {
    if let Err(error) = signals::on_end(|| std::process::exit(ENDED)) {
        complain(&format!("error: cannot receive signals: {error}; try without --watch"));
        return ExitCode::from(FAILED);
    }
    let mut watcher = Watcher { between, state: None, error: None };
    loop {
        let asked = Instant::now();
        let answer = match ask() {
            Err(refused) if watcher.state.is_none() => return refused.report(),
            answer => answer.map_err(Refused::into_text),
        };
        let Print { out, err } = watcher.next(answer);
        if let Some(err) = err {
            complain(&err);
        }
        if !print(&out) {
            return ExitCode::from(FAILED);
        }
        thread::sleep(args.interval.max(asked.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, state: &str) -> Result<Shown, String> {
        Ok(Shown { text: text.to_owned(), state: state.to_owned() })
    }

    /// Returns what is printed for each answer in turn.
    fn printed(between: Between, answers: Vec<Result<Shown, String>>) -> Vec<String> {
        let mut watcher = Watcher { between, state: None, error: None };
        let each = answers.into_iter().map(|answer| {
            let Print { out, err } = watcher.next(answer);
            format!("{out}{}", err.unwrap_or_default())
        });
        each.collect()
    }

    #[test]
    fn unchanged_answer_is_not_printed_again() {
        let answers = || vec![shown("a 1s", "a"), shown("a 2s", "a"), shown("b 3s", "b"), shown("a 4s", "a")];
        assert_eq!(printed(Between::Nothing, answers()), ["a 1s", "", "b 3s", "a 4s"]);
        assert_eq!(printed(Between::Document, answers()), ["a 1s", "", "---\nb 3s", "---\na 4s"]);
    }

    #[test]
    fn terminal_is_redrawn_with_each_answer() {
        let drawn = printed(Between::Clear, vec![shown("a 1s", "a"), shown("a 2s", "a")]);
        assert_eq!(drawn, [format!("{CLEAR}a 1s"), format!("{CLEAR}a 2s")]);
    }

    #[test]
    fn error_is_reported_once_and_its_end_too() {
        let fails = || Err("no leader".to_owned());
        let answers = vec![shown("a", "a"), fails(), fails(), shown("a", "a"), fails()];
        let error = "error: no leader; asking again until Ctrl-C";
        assert_eq!(printed(Between::Nothing, answers), ["a", error, "", "answered again", error]);
    }

    #[test]
    fn interval_is_bounded() {
        for (text, expected) in
            [("1s", Some(1)), ("1h", Some(3600)), ("999ms", None), ("61m", None), ("x", None)]
        {
            assert_eq!(interval(text).ok().map(|interval| interval.as_secs()), expected, "{text}");
        }
    }
}
