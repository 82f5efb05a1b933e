//! The scheduler process and its commands: watches, requests, configuration, serving. Holds no scheduling
//! state.

pub mod args;
pub mod cli;
pub mod client;
pub mod dispatch;
pub mod driver;
pub mod explain;
pub mod extender;
pub mod journal;
pub mod lease;
pub mod metrics;
pub mod names;
pub mod pending;
pub mod reload;
pub mod resource_usage;
pub mod run;
pub mod serve;
pub mod shadow;
pub mod telemetry;
pub mod traces;
pub mod watch;
