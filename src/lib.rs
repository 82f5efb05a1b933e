//! The shell.
pub mod metrics;
pub mod serve;
