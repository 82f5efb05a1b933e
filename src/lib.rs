//! The shell.
pub mod metrics;
