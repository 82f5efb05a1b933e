//! The file as it is written: every field of KubeSchedulerConfiguration v1, and no other.
//!
//! Source: `pkg/scheduler/apis/config/v1`, `pkg/scheduler/apis/config/validation`.

use super::{DEFAULT_NAME, Settings};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
pub(super) const KIND: &str = "KubeSchedulerConfiguration";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct File {
    pub(super) api_version: String,
    pub(super) kind: String,
    parallelism: Option<i32>,
    leader_election: Option<LeaderElection>,
    client_connection: Option<ClientConnection>,
    enable_profiling: Option<bool>,
    enable_contention_profiling: Option<bool>,
    percentage_of_nodes_to_score: Option<i32>,
    pod_initial_backoff_seconds: Option<i64>,
    pod_max_backoff_seconds: Option<i64>,
    delay_cache_until_active: Option<bool>,
    profiles: Option<Vec<Profile>>,
    extenders: Option<Vec<IgnoredAny>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "known fields are accepted; they say nothing while nothing is elected")]
struct LeaderElection {
    leader_elect: Option<bool>,
    lease_duration: Option<String>,
    renew_deadline: Option<String>,
    retry_period: Option<String>,
    resource_lock: Option<String>,
    resource_name: Option<String>,
    resource_namespace: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "the client speaks JSON and limits requests in flight, not requests a second")]
struct ClientConnection {
    kubeconfig: Option<String>,
    accept_content_types: Option<String>,
    content_type: Option<String>,
    qps: Option<f32>,
    burst: Option<i32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Profile {
    scheduler_name: Option<String>,
    percentage_of_nodes_to_score: Option<i32>,
    plugins: Option<IgnoredAny>,
    plugin_config: Option<Vec<IgnoredAny>>,
}

fn not_built(field: &str, what: &str) -> String {
    format!("{field}: {what} is not part of this version; remove the field")
}

impl File {
    /// What is wrong, or asks for what this version does not do.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(n) = self.parallelism.filter(|&n| n <= 0) {
            problems.push(format!(
                "parallelism: Invalid value: {n}: should be an integer value greater than zero"
            ));
        }
        if self.leader_election.as_ref().and_then(|l| l.leader_elect).unwrap_or(true) {
            problems.push(
                "leaderElection.leaderElect: leader election is not part of this version, and true is the default; \
                 set it to false and run one replica"
                    .to_owned(),
            );
        }
        if self.percentage_of_nodes_to_score.is_some() {
            problems.push(not_built("percentageOfNodesToScore", "looking at a part of the nodes"));
        }
        let (initial, max) = self.backoff_seconds();
        if initial <= 0 {
            problems
                .push(format!("podInitialBackoffSeconds: Invalid value: {initial}: must be greater than 0"));
        }
        if max < initial {
            problems.push(format!(
                "podMaxBackoffSeconds: Invalid value: {max}: must be greater than or equal to PodInitialBackoffSeconds"
            ));
        }
        if self.extenders.as_ref().is_some_and(|e| !e.is_empty()) {
            problems.push(not_built("extenders", "asking extenders"));
        }
        if self.enable_profiling == Some(true) || self.enable_contention_profiling == Some(true) {
            problems.push(not_built("enableProfiling", "serving profiles"));
        }
        if self.delay_cache_until_active == Some(true) {
            problems.push(not_built("delayCacheUntilActive", "delaying the cache"));
        }
        self.profile_problems(&mut problems);
        problems
    }

    fn profile_problems(&self, problems: &mut Vec<String>) {
        let profiles = self.profiles.as_deref().unwrap_or_default();
        for (at, profile) in profiles.iter().enumerate() {
            let field = |name: &str| format!("profiles[{at}].{name}");
            match profile.scheduler_name.as_deref() {
                None | Some("") if profiles.len() > 1 => {
                    problems.push(format!("{}: Required value", field("schedulerName")));
                }
                Some(name) if profiles[..at].iter().any(|p| p.scheduler_name.as_deref() == Some(name)) => {
                    problems.push(format!("{}: Duplicate value: {name:?}", field("schedulerName")));
                }
                None | Some(_) => {}
            }
            if profile.percentage_of_nodes_to_score.is_some() {
                problems
                    .push(not_built(&field("percentageOfNodesToScore"), "looking at a part of the nodes"));
            }
            if profile.plugins.is_some() {
                problems.push(not_built(&field("plugins"), "choosing plugins"));
            }
            if profile.plugin_config.as_ref().is_some_and(|args| !args.is_empty()) {
                problems.push(not_built(&field("pluginConfig"), "arguments of plugins"));
            }
        }
    }

    fn backoff_seconds(&self) -> (i64, i64) {
        (self.pod_initial_backoff_seconds.unwrap_or(1), self.pod_max_backoff_seconds.unwrap_or(10))
    }

    /// The settings of a file without problems.
    pub(super) fn settings(&self) -> Settings {
        let seconds = |n: i64| Duration::from_secs(u64::try_from(n).unwrap_or(0));
        let (initial, max) = self.backoff_seconds();
        let name = |p: &Profile| {
            p.scheduler_name.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| DEFAULT_NAME.to_owned())
        };
        let named: Vec<String> = self.profiles.iter().flatten().map(name).collect();
        let kubeconfig = self.client_connection.as_ref().and_then(|c| c.kubeconfig.clone());
        Settings {
            profiles: if named.is_empty() { vec![DEFAULT_NAME.to_owned()] } else { named },
            initial_backoff: seconds(initial),
            max_backoff: seconds(max),
            kubeconfig: kubeconfig.filter(|path| !path.is_empty()).map(PathBuf::from),
        }
    }
}
