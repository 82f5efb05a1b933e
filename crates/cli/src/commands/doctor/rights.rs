//! Permissions that the manifests grant, parsed from the manifests, and the effect of each missing one.

use serde_json::{Value, json};
use supercargo_apiserver::version::ServerVersion;
use supercargo_config::yaml;

/// Roles in `manifests/base` that are bound to the ServiceAccount.
const ROLES: [&str; 4] = [
    include_str!("../../../../../manifests/base/cluster-role-read.yaml"),
    include_str!("../../../../../manifests/base/cluster-role-act.yaml"),
    include_str!("../../../../../manifests/base/cluster-role-serve-auth.yaml"),
    include_str!("../../../../../manifests/base/role-lead.yaml"),
];

/// A permission: one verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Right {
    pub group: String,
    /// Resource, with a subresource after a slash.
    pub resource: String,
    pub verb: String,
    /// Whether it is limited to the installation's Lease.
    pub is_of_lease: bool,
}

/// Returns all permissions of the manifests.
pub(super) fn all() -> Vec<Right> {
    let documents = ROLES.iter().flat_map(|text| yaml::values(text).expect("the manifests are YAML"));
    documents
        .flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default())
        .flat_map(|rule| of_rule(&rule))
        .collect()
}

fn of_rule(rule: &Value) -> Vec<Right> {
    let texts = |field: &str| -> Vec<String> {
        let list = rule[field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let is_of_lease = rule["resourceNames"].is_array();
    let mut rights = Vec::new();
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            rights.extend(texts("verbs").into_iter().map(|verb| Right {
                group: group.clone(),
                resource: resource.clone(),
                verb,
                is_of_lease,
            }));
        }
    }
    rights
}

impl Right {
    /// Formats the permission as `kubectl auth can-i` takes it.
    pub(super) fn text(&self) -> String {
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
        format!("{} {}{group}", self.verb, self.resource)
    }

    /// Returns what does not work without this permission.
    pub(super) fn without(&self) -> &'static str {
        match (self.resource.as_str(), self.verb.as_str()) {
            ("pods/binding", _) => "no pod is bound",
            ("leases", _) => "it cannot become leader, and schedules nothing",
            (_, "watch" | "list") => "its cache never becomes complete, and it schedules nothing",
            ("pods", "get") => "a binding with a lost answer is only resolved after its timeout",
            ("pods", "delete") => "preemption cannot evict pods",
            ("pods/status", _) => "pending pods get no condition and no nominated node",
            ("persistentvolumes" | "persistentvolumeclaims", _) => {
                "pods with volumes that wait for a node stay pending"
            }
            ("resourceclaims", "get") => "a claim that changes while it gets devices delays its pod",
            ("resourceclaims", "create" | "delete") => {
                "pods with extended resources that only devices provide stay pending"
            }
            ("resourceclaims" | "resourceclaims/status" | "resourceclaims/binding", _) => {
                "pods with resource claims stay pending"
            }
            ("podgroups/status", _) => "pod groups get no condition",
            ("events", _) => "pods get no events",
            ("tokenreviews" | "subjectaccessreviews", _) => "its metrics and debug pages reject every caller",
            _ => "a feature that needs it does not work",
        }
    }

    /// Returns whether supercargo uses this permission with an API server of this version, which is `None` if it is not
    /// known, and with pod groups or without. The bootstrap roles of kube-scheduler lack the others.
    pub(super) fn is_used(&self, server: Option<ServerVersion>, with_groups: bool) -> bool {
        let since = match (self.group.as_str(), self.resource.as_str(), self.verb.as_str()) {
            ("resource.k8s.io", "resourceclaims/binding", _)
            | ("resource.k8s.io", "resourceclaims", "create" | "delete") => (1, 36),
            ("resource.k8s.io", ..) => (1, 34),
            ("scheduling.k8s.io", ..) => return with_groups,
            _ => return true,
        };
        match server {
            Some(ServerVersion::Known(version)) => version.numbers() >= since,
            Some(ServerVersion::Older(major, minor)) => (major, minor) >= since,
            Some(ServerVersion::Newer(..)) | None => true,
        }
    }

    /// Returns the permission as attributes of an access review; `lease` is namespace and name.
    pub(super) fn attributes(&self, lease: (&str, &str)) -> Value {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let mut attributes = json!({ "group": self.group, "resource": resource, "verb": self.verb });
        if !subresource.is_empty() {
            attributes["subresource"] = json!(subresource);
        }
        if resource == "leases" {
            attributes["namespace"] = json!(lease.0);
        }
        if self.is_of_lease {
            attributes["name"] = json!(lease.1);
        }
        attributes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use supercargo_apiserver::version::VersionInfo;

    #[test]
    fn every_permission_of_the_manifests_has_an_effect_text() {
        let rights = all();
        assert!(rights.len() > 40, "{}", rights.len());
        let unknown: Vec<_> =
            rights.iter().filter(|right| right.without().starts_with("a feature that needs it")).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        let text: Vec<String> = rights.iter().map(Right::text).collect();
        for known in
            ["create pods/binding", "watch csinodes.storage.k8s.io", "update leases.coordination.k8s.io"]
        {
            assert!(text.iter().any(|text| text == known), "{known}: {text:?}");
        }
    }

    #[test]
    fn attributes_name_the_lease() {
        let lease = |verb: &str| {
            let right = all().into_iter().find(|right| right.resource == "leases" && right.verb == verb);
            right.expect("it is there").attributes(("kube-system", "mine"))
        };
        assert_eq!(
            (&lease("update")["namespace"], &lease("update")["name"]),
            (&json!("kube-system"), &json!("mine"))
        );
        assert!(lease("create")["name"].is_null());
    }

    /// The rights of kube-scheduler, which the API server itself creates, suffice in each version.
    #[test]
    fn bootstrap_rights_of_kube_scheduler_suffice_in_each_version() {
        let table = include_str!("../../../../../tests/fixtures/rights/kube-scheduler.txt");
        let versions: Vec<&str> = table
            .lines()
            .find_map(|line| line.strip_prefix("# versions "))
            .expect("a head")
            .split(' ')
            .collect();
        assert_eq!(versions, ["1.33", "1.34", "1.35", "1.36", "1.37"]);
        for version in versions {
            let info = json!({ "major": "1", "minor": version.trim_start_matches("1.") });
            let server = serde_json::from_value::<VersionInfo>(info).expect("it is one").version();
            let has = |verb: &str, resource: &str| {
                table.lines().any(|line| {
                    let cells: Vec<&str> = line.split(' ').collect();
                    cells[0] == verb && cells[1] == resource && cells[2..].contains(&version)
                })
            };
            for right in all() {
                let text = right.text();
                let (verb, resource) = text.split_once(' ').expect("verb and resource");
                assert!(!right.is_used(server, false) || has(verb, resource), "{version}: {text}");
            }
        }
    }
}
