//! The log: structured, on stderr, in text or JSON.

use crate::args::LoggingFormat;
use std::io::IsTerminal as _;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// Starts logging for the whole process. `RUST_LOG`, where it is set, has the last word.
pub fn start(format: LoggingFormat, verbosity: u8) {
    let level = match verbosity {
        0 => LevelFilter::WARN,
        1..=3 => LevelFilter::INFO,
        4 | 5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // The libraries below talk too much at the levels an operator wants of us.
    let quiet = if verbosity < 6 { "warn" } else { "debug" };
    // The client logs every connection that fails; the watches tell of it once.
    let directives =
        format!("{quiet},kube_client::client::builder=off,supercargo={level},supercargo_core={level}");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LoggingFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LoggingFormat::Json => log.json().flatten_event(true).init(),
    }
}
