//! The scheduler process and its commands: watches, requests, configuration, serving. Holds no scheduling
//! state.

/// The commit that the program was built from; `None` if the build does not know it.
pub const COMMIT: Option<&str> = option_env!("SUPERCARGO_COMMIT_HASH");

pub mod args;
pub mod engine;
pub mod extenders;
pub mod lease;
pub mod record;
pub mod run;
pub mod serve;
pub mod signals;
pub mod telemetry;
pub mod whatif_serve;
pub mod write;
