//! KubeSchedulerConfiguration v1: read strictly, checked, and refused where this version cannot honour it.
//!
//! Plugins, their arguments and extenders are refused by name rather than ignored: a scheduler that runs with another
//! configuration than it was given decides wrongly without a word.

mod file;

use file::File;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// The name of the only profile when there is no configuration file.
pub const OWN_NAME: &str = "supercargo";
/// The name of a file's only profile when it has none (upstream `DefaultSchedulerName`).
const DEFAULT_NAME: &str = "default-scheduler";

/// The settings that come from a configuration file, or their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Names of the profiles, none of them twice.
    pub profiles: Vec<String>,
    /// The first pause of a pod that failed.
    pub initial_backoff: Duration,
    /// The longest pause of a pod that failed.
    pub max_backoff: Duration,
    /// The kubeconfig the file names.
    pub kubeconfig: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            profiles: vec![OWN_NAME.to_owned()],
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            kubeconfig: None,
        }
    }
}

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
    /// The text is not a KubeSchedulerConfiguration.
    #[error("{path}: {message}")]
    Decode {
        /// The file.
        path: PathBuf,
        /// Where and what.
        message: String,
    },
    /// Fields hold what they must not.
    #[error("{path}: {}", problems.join("; "))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Each with its field's path, in the file's order.
        problems: Vec<String>,
    },
}

impl Settings {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// When the file cannot be read, is no KubeSchedulerConfiguration, holds an unknown field or an invalid value, or
    /// asks for what this version does not do.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let decode = |message: String| ConfigError::Decode { path: path.to_owned(), message };
        let file: File = serde_saphyr::from_str(text).map_err(|error| decode(error.to_string()))?;
        if file.api_version != file::API_VERSION || file.kind != file::KIND {
            return Err(decode(format!(
                "no kind {:?} is registered for version {:?}; expected kind {:?} of version {:?}",
                file.kind,
                file.api_version,
                file::KIND,
                file::API_VERSION
            )));
        }
        let problems = file.problems();
        if !problems.is_empty() {
            return Err(ConfigError::Invalid { path: path.to_owned(), problems });
        }
        Ok(file.settings())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

    fn parse(rest: &str) -> Result<Settings, String> {
        Settings::parse(Path::new("f.yaml"), &format!("{HEAD}{rest}")).map_err(|e| e.to_string())
    }

    #[test]
    fn a_profile_without_a_name_is_the_default_scheduler() {
        let settings = parse("leaderElection: {leaderElect: false}\n").expect("a valid file");
        assert_eq!(settings.profiles, ["default-scheduler"]);
        assert_eq!(settings.max_backoff, Duration::from_secs(10));
        let settings = parse("leaderElection: {leaderElect: false}\nprofiles: [{}]\n").expect("a valid file");
        assert_eq!(settings.profiles, ["default-scheduler"]);
    }

    #[test]
    fn an_unknown_field_is_named_with_its_line() {
        let error = parse("leaderElection: {leaderElect: false}\npodInitialBackofSeconds: 3\n")
            .expect_err("misspelt");
        assert!(error.contains("podInitialBackofSeconds") && error.contains('4'), "{error}");
    }

    #[test]
    fn what_this_version_does_not_do_is_refused_by_field() {
        for (rest, field) in [
            ("", "leaderElection.leaderElect"),
            ("leaderElection: {leaderElect: true}\n", "leaderElection.leaderElect"),
            ("leaderElection: {leaderElect: false}\nextenders: [{urlPrefix: x}]\n", "extenders"),
            (
                "leaderElection: {leaderElect: false}\npercentageOfNodesToScore: 50\n",
                "percentageOfNodesToScore",
            ),
            (
                "leaderElection: {leaderElect: false}\nprofiles: [{plugins: {score: {}}}]\n",
                "profiles[0].plugins",
            ),
            (
                "leaderElection: {leaderElect: false}\nprofiles: [{pluginConfig: [{name: NodeAffinity}]}]\n",
                "profiles[0].pluginConfig",
            ),
        ] {
            let error = parse(rest).expect_err(field);
            assert!(error.contains(field), "{rest}: {error}");
        }
    }

    #[test]
    fn invalid_values_are_told_with_upstream_paths() {
        let error = parse(
            "leaderElection: {leaderElect: false}\npodInitialBackoffSeconds: 0\npodMaxBackoffSeconds: -1\n\
             parallelism: 0\nprofiles: [{schedulerName: a}, {schedulerName: a}, {}]\n",
        )
        .expect_err("four things are wrong");
        for text in [
            "parallelism: Invalid value: 0: should be an integer value greater than zero",
            "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
            "podMaxBackoffSeconds: Invalid value: -1: must be greater than or equal to PodInitialBackoffSeconds",
            "profiles[1].schedulerName: Duplicate value",
            "profiles[2].schedulerName: Required value",
        ] {
            assert!(error.contains(text), "{text} in {error}");
        }
    }

    #[test]
    fn another_version_is_refused() {
        let error = Settings::parse(
            Path::new("f.yaml"),
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n",
        );
        assert!(error.expect_err("v1beta3 is gone").to_string().contains("v1beta3"));
    }
}
