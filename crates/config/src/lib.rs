//! KubeSchedulerConfiguration v1: strict decoding, upstream's defaults and validation, and conversion into
//! the engine's settings.
//!
//! [`Effective`] is the complete, valid configuration, equal to kube-scheduler's. [`Settings`] are the
//! settings this version runs with. A field that this version does not support is an error: ignoring it would
//! change scheduling silently.

mod build;
mod difference;
mod effective;
pub mod extenders;
pub mod flags;
mod framework;
mod lease_terms;
pub mod redacted;
mod refuse;
mod settings;
pub mod v1;
pub mod yaml;

pub use difference::Difference;
pub use effective::{DeprecatedFlags, Effective, Flags};
pub use lease_terms::{LeaseTerms, RETRY_JITTER};
pub use settings::{ElectionSettings, ProfileSettings, Settings};
pub use v1::duration::{GoDuration, parse_duration};
pub use yaml::{Place, Problem};

use std::path::{Path, PathBuf};
use thiserror::Error;

/// Name of the only profile without a configuration file.
pub const OWN_NAME: &str = "supercargo";
/// Name of a file's only profile if the file does not set it (upstream `DefaultSchedulerName`).
pub const DEFAULT_NAME: &str = "default-scheduler";

/// Why a configuration is rejected.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The text is not a KubeSchedulerConfiguration, or it is invalid.
    #[error("{}", format_problems(path, problems))]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// Problems found.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    /// Returns an error about a field whose value turned out to be unusable after validation.
    pub fn of_field(effective: &Effective, field: &str, text: String) -> Self {
        let place = effective.document.as_ref().and_then(|document| document.find(field));
        let problems = vec![Problem { place, ..Problem::new(field, text) }];
        Self::Invalid { path: effective.path.clone(), problems }
    }
}

/// Formats problems as `file:line:column: field: text`, separated by semicolons.
fn format_problems(path: &Path, problems: &[Problem]) -> String {
    let path = path.display();
    let all = problems.iter().map(|problem| match problem.place {
        Some(_) => format!("{path}:{problem}"),
        None => format!("{path}: {problem}"),
    });
    all.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
