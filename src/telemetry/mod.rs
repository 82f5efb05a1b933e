//! What the program reports about itself: log, metrics, traces.

pub mod log;
pub mod metrics;
pub mod resource_usage;
pub mod traces;
