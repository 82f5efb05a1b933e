//! The scheduler process and its commands: watches, requests, configuration, serving. Holds no scheduling
//! state.

/// The commit that the program was built from; `None` if the build does not know it.
pub const COMMIT: Option<&str> = option_env!("SUPERCARGO_COMMIT_HASH");

pub mod args;
pub mod dispatch;
pub mod driver;
pub mod extender;
pub mod journal;
pub mod lease;
pub mod metrics;
pub mod record;
pub mod reload;
pub mod resource_usage;
pub mod run;
pub mod serve;
pub mod shadow;
pub mod telemetry;
pub mod traces;
