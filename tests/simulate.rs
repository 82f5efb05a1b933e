//! Tests of `supercargo simulate`: recorded decisions, flags, input files and errors.
//!
//! Unit tests beside the code cover defaults and expansions; these tests run the whole command.

#[path = "simulate/bad_input.rs"]
mod bad_input;
#[path = "simulate/devices.rs"]
mod devices;
#[path = "simulate/files.rs"]
mod files;
#[path = "simulate/golden.rs"]
mod golden;
#[path = "simulate/groups.rs"]
mod groups;
#[path = "simulate/jobs.rs"]
mod jobs;
#[path = "simulate/law.rs"]
mod law;
#[allow(dead_code, reason = "other tests use the rest of it")]
mod offline;
#[path = "simulate/pods.rs"]
mod pods;
#[path = "simulate/preemption.rs"]
mod preemption;
#[path = "golden/recorded.rs"]
mod recorded;
#[path = "simulate/report.rs"]
mod report;
#[path = "simulate/scale.rs"]
mod scale;
#[path = "simulate/schema.rs"]
mod schema;
#[path = "simulate/strict.rs"]
mod strict;
#[path = "simulate/support.rs"]
mod support;
#[path = "simulate/updates.rs"]
mod updates;
#[path = "simulate/what_if.rs"]
mod what_if;
