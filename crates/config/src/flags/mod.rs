//! kube-scheduler's flags: how a command line is read, what is wrong with it, and the values.
//!
//! [`CommandLine`] splits a command line as kube-scheduler does, [`problems`] checks the flags together, and [`Values`]
//! has the result. [`table`] lists the flags. `src/args.rs` adds the flags that kube-scheduler does not have.

pub mod gates;
mod go;
mod kind;
mod line;
pub mod table;
mod tls;
mod validate;
mod values;
mod version;

pub use kind::{CertKey, Kind};
pub use line::{CommandLine, OwnFlag, Request};
pub use validate::{allowed_labels, problems, serves, version_problems};
pub use values::Values;
pub use version::parse_emulated_version;
