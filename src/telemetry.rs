//! The log: structured, on stderr, in text or JSON.

use crate::args::LoggingFormat;
use std::fmt;
use std::io::IsTerminal as _;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// Changes how much is logged while the process runs.
pub struct Verbosity(Box<dyn Fn(u8) -> Result<(), String> + Send + Sync>);

impl Verbosity {
    /// Logs as `--v` at this level does from now on, whatever was said before.
    ///
    /// # Errors
    /// When the log has ended.
    pub fn set(&self, level: u8) -> Result<(), String> {
        (self.0)(level)
    }
}

impl fmt::Debug for Verbosity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verbosity(..)")
    }
}

/// Starts logging for the whole process. `RUST_LOG`, where it is set, has the last word until the level is set anew.
pub fn start(format: LoggingFormat, verbosity: u8) -> Verbosity {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| of_level(verbosity));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LoggingFormat::Text => {
            let log = log.with_ansi(std::io::stderr().is_terminal()).with_filter_reloading();
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
    }
}

/// What is logged at this `--v`.
fn of_level(verbosity: u8) -> EnvFilter {
    let level = match verbosity {
        0 => LevelFilter::WARN,
        1..=3 => LevelFilter::INFO,
        4 | 5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // The libraries below talk too much at the levels an operator wants of us.
    let quiet = if verbosity < 6 { "warn" } else { "debug" };
    // The client logs every connection that fails; the watches tell of it once.
    EnvFilter::new(format!(
        "{quiet},kube_client::client::builder=off,supercargo={level},supercargo_core={level}"
    ))
}
