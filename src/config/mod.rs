//! KubeSchedulerConfiguration v1: read strictly, completed with upstream's defaults, checked by upstream's rules, and made into what
//! the engine runs by.
//!
//! [`Effective`] is what a file means, to kube-scheduler and to us. [`Settings`] are what this version runs by; what it cannot
//! honour is refused by field rather than ignored: a scheduler that runs with another configuration than it was given
//! decides wrongly without a word.

mod build;
mod decode;
mod defaults;
mod document;
mod duration;
mod effective;
mod field;
pub(crate) mod file;
mod flat;
mod framework;
mod nearest;
mod plugins;
mod refuse;
mod scalar;
mod settings;
mod validate;

pub mod v1;

pub(crate) use decode::decode;
pub(crate) use document::Document;
pub use duration::GoDuration;
pub use effective::{Effective, Flags};
pub use field::{Place, Problem};
pub use flat::Difference;
pub(crate) use nearest::nearest;
pub use settings::{ElectionSettings, ProfileSettings, Settings};

use std::path::{Path, PathBuf};
use thiserror::Error;

/// The name of the only profile when there is no configuration file.
pub const OWN_NAME: &str = "supercargo";
/// The name of a file's only profile when it has none (upstream `DefaultSchedulerName`).
pub(crate) const DEFAULT_NAME: &str = "default-scheduler";

/// Why a configuration is not taken.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The text is no KubeSchedulerConfiguration, or fields hold what they must not.
    #[error("{}", told(path, problems))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    /// What is wrong with a field, where that shows only as it is used.
    pub(crate) fn of_field(effective: &Effective, field: &str, text: String) -> Self {
        let place = effective.document.as_ref().and_then(|document| document.find(field));
        let problems = vec![Problem { place, ..Problem::new(field, text) }];
        Self::Invalid { path: effective.path.clone(), problems }
    }
}

/// `file:line:column: field: text`, as far as known, one after the other.
fn told(path: &Path, problems: &[Problem]) -> String {
    let path = path.display();
    let all = problems.iter().map(|problem| match problem.place {
        Some(_) => format!("{path}:{problem}"),
        None => format!("{path}: {problem}"),
    });
    all.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
