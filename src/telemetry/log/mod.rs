//! The log: structured, on stderr, in text or JSON.
//!
//! Logging never fails and never waits for stderr: lines go through a bounded queue ([`LogLines`]), and lost lines
//! are counted.
//!
//! Field values may come from anyone who can create a pod, so an entry must not be able to imitate another one. In
//! text, as klog does, a tab follows each line break, and other control characters are escaped. In JSON, all of them
//! are escaped.

mod queue;

use clap::ValueEnum;
use queue::Loss;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::panic::PanicHookInfo;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

pub use queue::LogLines;

/// Log formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoggingFormat {
    /// One line of text per entry.
    Text,
    /// One JSON object per entry.
    Json,
}

/// Handles to this process's log.
#[derive(Debug)]
pub struct Log {
    /// Changes the log level.
    pub verbosity: Verbosity,
    /// The queue of lines to be written.
    pub lines: LogLines,
}

/// Changes the log level at run time.
pub struct Verbosity(Box<dyn Fn(u8) -> Result<(), String> + Send + Sync>);

impl Verbosity {
    /// Sets the level to that of `--v=<level>`, replacing any `RUST_LOG`.
    ///
    /// # Errors
    /// If the log has ended.
    pub fn set(&self, level: u8) -> Result<(), String> {
        (self.0)(level)
    }
}

impl fmt::Debug for Verbosity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verbosity(..)")
    }
}

/// Starts logging for the whole process, panics included. `RUST_LOG`, if set, takes precedence until the level is
/// changed.
///
/// # Errors
/// If stderr cannot be duplicated or no thread can be started.
pub fn start(format: LoggingFormat, verbosity: u8) -> io::Result<Log> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| of_level(verbosity));
    let colours = io::stderr().is_terminal();
    // A descriptor of its own, so that a thread blocked in a write holds no lock that other users of stderr need.
    let lines = LogLines::start(File::from(io::stderr().as_fd().try_clone_to_owned()?), report_loss)?;
    let to = lines.clone();
    let form = match format {
        LoggingFormat::Text => Form::Text { colours },
        LoggingFormat::Json => Form::Json,
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    let log = log.with_writer(move || RateLimited { to: to.clone(), form });
    let verbosity = match format {
        LoggingFormat::Text => {
            let log = log.with_ansi(colours).with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            Verbosity(Box::new(move |level| {
                handle.reload(of_level(level)).map_err(|error| error.to_string())
            }))
        }
        LoggingFormat::Json => {
            let log = log.json().flatten_event(true).with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            Verbosity(Box::new(move |level| {
                handle.reload(of_level(level)).map_err(|error| error.to_string())
            }))
        }
    };
    std::panic::set_hook(Box::new(log_panic));
    Ok(Log { verbosity, lines })
}

/// Logs a panic. The standard library's hook would write to stderr and could block forever.
fn log_panic(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let at = info.location().map(ToString::to_string).unwrap_or_default();
    let text = info.payload_as_str().unwrap_or("no message");
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(thread = thread.name(), at, panic = text, backtrace, "a thread panicked");
}

/// Logs how many lines were lost.
fn report_loss(Loss { lines, error }: Loss) {
    let error = Some(error).filter(|error| !error.is_empty());
    tracing::warn!(lines, error, "log lines were lost because stderr was blocked or not writable");
}

/// Returns the filter of a `--v` level: milestones and warnings from 0, decisions from 2, their steps from 3,
/// everything from 6.
fn of_level(verbosity: u8) -> EnvFilter {
    let level = match verbosity {
        0..=2 => LevelFilter::INFO,
        3..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let decisions = if verbosity < 2 { LevelFilter::WARN } else { level };
    // Libraries log too much at the levels that are useful for this program.
    let quiet = if verbosity < 6 { "warn" } else { "debug" };
    // These warn once per malformed message of an HTTPS client.
    let quieter = if verbosity < 6 { "error" } else { "debug" };
    // The client logs whole answers that it cannot decode, which may contain tokens, so it may only log errors. Its
    // builder logs every failed connection; the watches already log that once.
    EnvFilter::new(format!(
        "{quiet},rustls={quieter},h2={quieter},hyper={quieter},kube_client::client=error,kube_client::client::builder=off,supercargo={level},supercargo_core={level},{DECISIONS}={decisions}"
    ))
}

/// Log target of decisions, one line each.
pub const DECISIONS: &str = "supercargo::decisions";

/// The format of log entries.
#[derive(Clone, Copy)]
enum Form {
    Text {
        /// Whether the text is colored by our own escape codes. Escape codes in field values were escaped before.
        colours: bool,
    },
    /// A JSON object, in which ASCII control characters are already escaped.
    Json,
}

/// A writer that sanitizes whole entries, so that none can imitate another.
struct RateLimited<W> {
    to: W,
    form: Form,
}

impl<W: io::Write> io::Write for RateLimited<W> {
    /// Writes one entry.
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(entry);
        self.to.write_all(tamed(&text, self.form).as_bytes())?;
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn tamed(entry: &str, form: Form) -> Cow<'_, str> {
    let (inside, end) = entry.strip_suffix('\n').map_or((entry, ""), |inside| (inside, "\n"));
    let ours = |c: char| matches!(form, Form::Text { colours } if c == '\t' || colours && c == '\x1b');
    let harmless = |c: char| !c.is_control() || ours(c);
    if inside.chars().all(harmless) {
        return entry.into();
    }
    let mut text = String::with_capacity(entry.len() + 16);
    for c in inside.chars() {
        match (c, form) {
            (c, _) if harmless(c) => text.push(c),
            ('\n', Form::Text { .. }) => text.push_str("\n\t"),
            (c, Form::Text { .. }) => text.extend(c.escape_default()),
            (c, Form::Json) => text.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    text.push_str(end);
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, part: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(part);
            Ok(part.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A field value that imitates log entries of ours.
    const FORGED: &str = "harmless\n2026-01-01T00:00:00Z  INFO supercargo: all is well\r\x1b[2J\u{85}\tend";

    fn logged(start: impl FnOnce(Page) -> tracing::Dispatch) -> String {
        let page = Page::default();
        tracing::dispatcher::with_default(&start(page.clone()), || {
            tracing::info!(message = %FORGED, field = %FORGED, debugged = ?FORGED);
        });
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn forged_entries_in_field_values_are_indented_in_text() {
        let text = logged(|page| {
            let writer = move || RateLimited { to: page.clone(), form: Form::Text { colours: false } };
            tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish().into()
        });
        let mut lines = text.lines();
        assert!(lines.next().is_some_and(|line| line.contains("harmless")));
        assert!(lines.clone().count() >= 1 && lines.all(|line| line.starts_with('\t')), "{text:?}");
        let wild: Vec<char> = text.chars().filter(|c| c.is_control() && !matches!(c, '\n' | '\t')).collect();
        assert!(wild.is_empty(), "{text:?}");
        assert!(text.ends_with('\n') && !text.ends_with("\n\t"));
    }

    #[test]
    fn forged_entries_in_field_values_stay_on_one_line_in_json() {
        let text = logged(|page| {
            let writer = move || RateLimited { to: page.clone(), form: Form::Json };
            tracing_subscriber::fmt().json().flatten_event(true).with_writer(writer).finish().into()
        });
        assert_eq!(text.matches('\n').count(), 1, "{text:?}");
        assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "{text:?}");
        let entry: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(entry["field"], FORGED);
    }

    #[test]
    fn entry_without_control_characters_is_unchanged() {
        assert_eq!(tamed("plain\ttext\n", Form::Text { colours: false }), "plain\ttext\n");
        assert_eq!(tamed("\x1b[2mgrey\x1b[0m\n", Form::Text { colours: true }), "\x1b[2mgrey\x1b[0m\n");
        assert_eq!(tamed("a\nb\n", Form::Text { colours: true }), "a\n\tb\n");
    }

    #[test]
    fn each_level_logs_its_targets_and_none_logs_answers_of_the_api_server() {
        let enabled = |level: u8| {
            let page = Page::default();
            let writer = page.clone();
            let log = tracing_subscriber::fmt().with_env_filter(of_level(level)).with_ansi(false);
            let log = log.with_writer(move || writer.clone()).finish();
            tracing::subscriber::with_default(log, || {
                tracing::info!(target: "supercargo::run", "milestone");
                tracing::info!(target: DECISIONS, "decision");
                tracing::debug!(target: DECISIONS, "step");
                tracing::trace!(target: "supercargo_apiserver::watch", "everything");
                tracing::info!(target: "tower", "chatter");
                tracing::warn!(target: "rustls::check", "provoked");
                tracing::warn!(target: "kube_client::client", "answer");
                tracing::error!(target: "kube_client::client::builder", "unreachable");
            });
            let bytes = page.0.lock().unwrap().clone();
            let text = String::from_utf8(bytes).unwrap();
            text.lines().filter_map(|line| line.rsplit(' ').next()).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(enabled(0), ["milestone"]);
        assert_eq!(enabled(2), ["milestone", "decision"]);
        assert_eq!(enabled(3), ["milestone", "decision", "step"]);
        assert_eq!(enabled(6), ["milestone", "decision", "step", "everything", "chatter", "provoked"]);
    }
}
