//! Validates a configuration with defaults. Upstream: `pkg/scheduler/apis/config/validation/validation.go`,
//! `component-base/config/validation`; paths and messages equal upstream's.

mod args;

use crate::v1::plugins::{POINTS, field_of};
use crate::v1::{
    API_VERSION, ClientConnection, Configuration, Extender, LeaderElection, Plugin, PluginSet, Profile,
};
use crate::yaml::field::{Json, Problem};
use std::collections::BTreeSet;
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::model::emulation::VersionRules;
use supercargo_objects::convert::{requests::is_extended, syntax};

pub(crate) use args::fit_problems;

/// Plugins that were removed from kube-scheduler.
const GONE: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];
const SORT: &str = "plugins.queueSort";

/// Returns all problems.
pub(crate) fn problems(configuration: &Configuration, rules: VersionRules) -> Vec<Problem> {
    let mut problems = Vec::new();
    connection(&configuration.client_connection, &mut problems);
    election(&configuration.leader_election, &mut problems);
    let parallelism = configuration.parallelism.unwrap_or_default();
    if parallelism <= 0 {
        let rule = "should be an integer value greater than zero";
        problems.push(Problem::invalid("parallelism", parallelism, rule));
    }
    profiles(&configuration.profiles, rules, &mut problems);
    percentage("percentageOfNodesToScore", configuration.percentage_of_nodes_to_score, &mut problems);
    backoff(configuration, &mut problems);
    extenders(&configuration.extenders, &mut problems);
    problems
}

fn connection(connection: &ClientConnection, problems: &mut Vec<Problem>) {
    if connection.burst < 0 {
        problems.push(Problem::invalid("clientConnection.burst", connection.burst, "must be non-negative"));
    }
}

fn election(election: &LeaderElection, problems: &mut Vec<Problem>) {
    if election.leader_elect != Some(true) {
        return;
    }
    let mut invalid = |field: &str, value: String, rule: &str| {
        problems.push(Problem::invalid(format!("leaderElection.{field}"), value.as_str(), rule));
    };
    let durations = [
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ];
    for (field, duration) in durations {
        if duration.0 <= 0 {
            invalid(field, duration.to_string(), "must be greater than zero");
        }
    }
    if election.lease_duration <= election.renew_deadline {
        // The shown value is that of the other field, as in upstream.
        let rule = "must be greater than `RenewDeadline`";
        invalid("leaseDuration", election.renew_deadline.to_string(), rule);
    }
    if election.resource_lock != "leases" {
        invalid("resourceLock", election.resource_lock.clone(), "resourceLock value must be \"leases\"");
    }
}

fn percentage(path: &str, value: Option<i32>, problems: &mut Vec<Problem>) {
    if let Some(value) = value.filter(|value| !(0..=100).contains(value)) {
        problems.push(Problem::invalid(path, value, "not in valid range [0-100]"));
    }
}

fn backoff(configuration: &Configuration, problems: &mut Vec<Problem>) {
    let initial = configuration.pod_initial_backoff_seconds.unwrap_or_default();
    let max = configuration.pod_max_backoff_seconds.unwrap_or_default();
    if initial <= 0 {
        problems.push(Problem::invalid("podInitialBackoffSeconds", initial, "must be greater than 0"));
    }
    if max < initial {
        let rule = "must be greater than or equal to PodInitialBackoffSeconds";
        problems.push(Problem::invalid("podMaxBackoffSeconds", max, rule));
    }
}

fn profiles(profiles: &[Profile], rules: VersionRules, problems: &mut Vec<Problem>) {
    for (at, profile) in profiles.iter().enumerate() {
        let path = format!("profiles[{at}]");
        let name = profile.scheduler_name.as_deref().unwrap_or_default();
        if name.is_empty() {
            problems.push(Problem::required(format!("{path}.schedulerName"), ""));
        }
        percentage(
            &format!("{path}.percentageOfNodesToScore"),
            profile.percentage_of_nodes_to_score,
            problems,
        );
        gone_plugins(&path, profile, problems);
        plugin_configs(&path, profile, rules, problems);
        let is_same = |other: &Profile| other.scheduler_name.as_deref().unwrap_or_default() == name;
        if profiles[..at].iter().any(is_same) {
            problems.push(Problem::duplicate(format!("{path}.schedulerName"), name));
        }
    }
    queue_sort(profiles, problems);
}

fn gone(path: String, name: &str) -> Option<Problem> {
    let rule =
        format!("was invalid in version \"v1\" (KubeSchedulerConfiguration is version {API_VERSION:?})");
    GONE.contains(&name).then(|| Problem::invalid(path, name, &rule))
}

/// Upstream checks neither `multiPoint` nor the extension points for placements.
fn gone_plugins(path: &str, profile: &Profile, problems: &mut Vec<Problem>) {
    let Some(plugins) = &profile.plugins else { return };
    let looked_at = POINTS
        .into_iter()
        .filter(|point| !matches!(point, ExtensionPoint::PlacementGenerate | ExtensionPoint::PlacementScore))
        .map(|point| (field_of(point), plugins.at(point)))
        .chain([("podGroupPostFilter", &plugins.pod_group_post_filter)]);
    for (field, set) in looked_at {
        for (at, plugin) in set.enabled.iter().enumerate() {
            problems.extend(gone(format!("{path}.plugins.{field}.enabled[{at}]"), &plugin.name));
        }
    }
}

fn plugin_configs(path: &str, profile: &Profile, rules: VersionRules, problems: &mut Vec<Problem>) {
    for (at, config) in profile.plugin_config.iter().enumerate() {
        let path = format!("{path}.pluginConfig[{at}]");
        if profile.plugin_config[..at].iter().any(|other| other.name == config.name) {
            problems.push(Problem::duplicate(path.as_str(), &config.name));
        }
        problems.extend(gone(path.clone(), &config.name));
        args::problems(&format!("{path}.args"), &config.args, rules, problems);
    }
}

/// Checks that all profiles use the same queue sort plugin, since they share one queue.
fn queue_sort(profiles: &[Profile], problems: &mut Vec<Problem>) {
    let set = |profile: &Profile| profile.plugins.clone().unwrap_or_default().queue_sort;
    let Some((first, others)) = profiles.split_first() else { return };
    let canon = set(first);
    if canon.enabled.len() > 1 {
        let rule = "only one queue sort plugin can be enabled";
        problems.push(Problem::invalid(format!("profiles[0].{SORT}.Enabled"), canon.enabled.len(), rule));
    }
    let sorter = canon.enabled.first().map(|plugin| plugin.name.as_str());
    let config =
        |profile: &Profile| profile.plugin_config.iter().find(|c| Some(c.name.as_str()) == sorter).cloned();
    for (at, other) in others.iter().enumerate() {
        let path = format!("profiles[{}]", at + 1);
        let current = set(other);
        if current != canon {
            let rule = "must be the same for all profiles";
            problems.push(Problem::invalid(format!("{path}.{SORT}"), as_upstream(&current), rule));
        }
        if let Some(theirs) = config(other)
            && config(first).is_none_or(|ours| ours.args != theirs.args)
        {
            let shown = Json(serde_json::to_string(&theirs.args).unwrap_or_default());
            let rule = "queueSort must be the same for all profiles";
            problems.push(Problem::invalid(format!("{path}.pluginConfig.args"), shown, rule));
        }
    }
}

/// Formats a set like upstream's internal type.
fn as_upstream(set: &PluginSet) -> Json {
    let list = |plugins: &[Plugin]| {
        let shown = plugins.iter().map(|plugin| {
            let name = syntax::json(&plugin.name);
            format!("{{\"Name\":{name},\"Weight\":{}}}", plugin.weight)
        });
        if plugins.is_empty() {
            "null".to_owned()
        } else {
            format!("[{}]", shown.collect::<Vec<_>>().join(","))
        }
    };
    Json(format!("{{\"Enabled\":{},\"Disabled\":{}}}", list(&set.enabled), list(&set.disabled)))
}

fn extenders(extenders: &[Extender], problems: &mut Vec<Problem>) {
    let mut managed = BTreeSet::new();
    for (at, extender) in extenders.iter().enumerate() {
        let path = format!("extenders[{at}]");
        if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
            let rule = "must have a positive weight applied to it";
            problems.push(Problem::invalid(format!("{path}.weight"), extender.weight, rule));
        }
        for (at, resource) in extender.managed_resources.iter().enumerate() {
            let path = format!("{path}.managedResources[{at}].name");
            let name = resource.name.as_str();
            let wrong = syntax::label_key_errors(name);
            problems.extend(wrong.iter().map(|rule| Problem::invalid(path.as_str(), name, rule)));
            if wrong.is_empty() && !is_extended(name) {
                problems.push(Problem::invalid(path.as_str(), name, "is an invalid extended resource name"));
            }
            if !managed.insert(name) {
                problems.push(Problem::invalid(path, name, "duplicate extender managed resource name"));
            }
        }
    }
    let binders = extenders.iter().filter(|extender| !extender.bind_verb.is_empty()).count();
    if binders > 1 {
        let value = format!("found {binders} extenders implementing bind");
        problems.push(Problem::invalid("extenders", value.as_str(), "only one extender can implement bind"));
    }
}
