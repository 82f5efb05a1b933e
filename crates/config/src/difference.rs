//! Flattens a configuration into a list of settings, so that two configurations can be compared.

use crate::effective::Effective;
use crate::v1::plugins::{POINTS, field_of};
use crate::v1::{Args, Profile};
use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use supercargo_core::framework::extension_point::ExtensionPoint;

/// Top-level fields that are reloaded without a restart.
const TAKEN_OVER: [&str; 4] = ["profiles", "podInitialBackoffSeconds", "podMaxBackoffSeconds", "extenders"];

/// A setting that differs between two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Path of the field. Profiles are identified by name instead of index.
    pub field: String,
    /// Value in the first configuration; `None` if it has none.
    pub before: Option<String>,
    /// Value in the second configuration; `None` if it has none.
    pub after: Option<String>,
}

impl Difference {
    /// Returns whether a change of this setting requires a restart.
    pub fn needs_restart(&self) -> bool {
        let top = self.field.split(['.', '[']).next().unwrap_or_default();
        !TAKEN_OVER.contains(&top)
    }
}

impl Effective {
    /// Returns all settings with their values, defaults included. For each profile, lists the plugins in
    /// effect at each extension point, and the percentage of nodes to score.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let mut all = serde_json::to_value(&self.configuration).expect("a configuration is JSON");
        if let Value::Object(fields) = &mut all {
            fields.remove("profiles");
            fields.remove("percentageOfNodesToScore");
        }
        let mut settings = BTreeMap::new();
        flatten("", &all, &mut settings);
        for (at, profile) in self.configuration.profiles.iter().enumerate() {
            self.add_profile(at, profile, &mut settings);
        }
        settings
    }

    fn add_profile(&self, at: usize, profile: &Profile, settings: &mut BTreeMap<String, String>) {
        let path = format!("profiles[{}]", profile.scheduler_name.as_deref().unwrap_or_default());
        let looked_at = match self.percentage_of_nodes_to_score(at) {
            None => "all nodes".to_owned(),
            Some(0) => "adaptive".to_owned(),
            Some(percentage) => format!("{percentage} %"),
        };
        settings.insert(format!("{path}.percentageOfNodesToScore"), looked_at);
        let order = &self.orders[at];
        for point in POINTS {
            let plugins = order.points.get(&point).map(Vec::as_slice).unwrap_or_default();
            let entries = plugins.iter().map(|plugin| match order.weights.get(plugin) {
                Some(weight) if point == ExtensionPoint::Score => format!("{plugin}={weight}"),
                _ => (*plugin).to_owned(),
            });
            let entries: Vec<String> = entries.collect();
            if !entries.is_empty() {
                settings.insert(format!("{path}.plugins.{}", field_of(point)), entries.join(" "));
            }
        }
        for config in &profile.plugin_config {
            let args = match &config.args {
                Args::Absent | Args::Unread(_) => continue,
                args => serde_json::to_value(args).expect("arguments are JSON"),
            };
            flatten(&format!("{path}.{}", config.name), &args, settings);
        }
    }

    /// Returns the settings that differ, sorted by field.
    pub fn differences(&self, after: &Self) -> Vec<Difference> {
        let (before, mut rest) = (self.settings(), after.settings());
        let mut differences: Vec<Difference> = Vec::new();
        for (field, value) in before {
            let other = rest.remove(&field);
            if other.as_ref() != Some(&value) {
                differences.push(Difference { field, before: Some(value), after: other });
            }
        }
        let added =
            rest.into_iter().map(|(field, value)| Difference { field, before: None, after: Some(value) });
        differences.extend(added);
        differences.sort_by(|a, b| a.field.cmp(&b.field));
        differences
    }

    /// Returns the percentage written for the profile, or else for all profiles.
    pub(crate) fn percentage_of_nodes_to_score(&self, profile: usize) -> Option<i32> {
        let own = self.written.profiles.get(profile).and_then(|profile| profile.percentage_of_nodes_to_score);
        own.or(self.written.percentage_of_nodes_to_score)
    }
}

/// Adds all values below `path` to `settings`, except `apiVersion` and `kind`.
fn flatten(path: &str, value: &Value, settings: &mut BTreeMap<String, String>) {
    match value {
        // Show only a hash of a private key, so that a change is visible but not the key.
        Value::String(key) if path.ends_with(".keyData") => {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            settings.insert(path.to_owned(), format!("(not shown, {:08x})", hasher.finish() as u32));
        }
        Value::Object(fields) => {
            for (key, value) in
                fields.iter().filter(|(key, _)| !["apiVersion", "kind"].contains(&key.as_str()))
            {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(&format!("{path}{dot}{key}"), value, settings);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                flatten(&format!("{path}[{at}]"), item, settings);
            }
        }
        Value::Null => {}
        Value::String(text) => {
            settings.insert(path.to_owned(), text.clone());
        }
        other => {
            settings.insert(path.to_owned(), other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flags;
    use std::path::Path;

    fn read(rest: &str) -> Effective {
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        Effective::parse(Path::new("f.yaml"), &format!("{head}{rest}"), &Flags::default())
            .expect("it is valid")
    }

    fn differences(before: &str, after: &str) -> Vec<(String, bool)> {
        let differences = read(before).differences(&read(after));
        let describe = |d: &Difference| {
            let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            (format!("{}: {} -> {}", d.field, side(&d.before), side(&d.after)), d.needs_restart())
        };
        differences.iter().map(describe).collect()
    }

    #[test]
    fn equal_settings_have_no_differences() {
        for (before, after) in [
            ("", "parallelism: 16\nprofiles: [{schedulerName: default-scheduler}]\n"),
            (
                "profiles: [{schedulerName: a}, {schedulerName: b}]\n",
                "profiles: [{schedulerName: b}, {schedulerName: a}]\n",
            ),
            ("percentageOfNodesToScore: 30\n", "profiles: [{percentageOfNodesToScore: 30}]\n"),
            ("", "profiles: [{plugins: {filter: {enabled: [{name: NodeUnschedulable}]}}}]\n"),
        ] {
            assert_eq!(differences(before, after), [], "{before} and {after}");
        }
    }

    #[test]
    fn differences_name_the_field_and_whether_a_restart_is_needed() {
        let line = |text: &str, restart| (text.to_owned(), restart);
        assert_eq!(
            differences("", "podMaxBackoffSeconds: 30\n"),
            [line("podMaxBackoffSeconds: 10 -> 30", false)]
        );
        assert_eq!(differences("", "parallelism: 4\n"), [line("parallelism: 16 -> 4", true)]);
        assert_eq!(
            differences("", "percentageOfNodesToScore: 0\n"),
            [line("profiles[default-scheduler].percentageOfNodesToScore: all nodes -> adaptive", false)]
        );
        assert_eq!(
            differences(
                "",
                "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 7}}]}]\n"
            ),
            [line("profiles[default-scheduler].InterPodAffinity.hardPodAffinityWeight: 1 -> 7", false)]
        );
        let keyed =
            |key: &str| format!("extenders: [{{urlPrefix: http://x, tlsConfig: {{keyData: {key}}}}}]\n");
        let changed = differences(&keyed("c2VjcmV0"), &keyed("b3RoZXI="));
        assert!(
            matches!(&changed[..], [(text, false)] if text.starts_with("extenders[0].tlsConfig.keyData: (not shown, ")
            && !text.contains("c2VjcmV0") && !text.contains("secret")),
            "{changed:?}"
        );
        let other = differences("profiles: [{schedulerName: a}]\n", "profiles: [{schedulerName: b}]\n");
        assert!(other.contains(&line("profiles[a].plugins.bind: DefaultBinder -> -", false)), "{other:?}");
        assert!(other.contains(&line("profiles[b].plugins.bind: - -> DefaultBinder", false)), "{other:?}");
    }
}
