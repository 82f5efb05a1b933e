//! Permissions that the manifests grant, parsed from the manifests, and the effect of each missing one.

use serde_json::{Value, json};
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
            ("events", _) => "pods get no events",
            ("tokenreviews" | "subjectaccessreviews", _) => "its metrics and debug pages reject every caller",
            _ => "a feature that needs it does not work",
        }
    }

    /// Returns the SubjectAccessReview that checks this permission for a ServiceAccount; `lease` is namespace
    /// and name.
    pub(super) fn review(&self, account: (&str, &str), lease: (&str, &str)) -> Value {
        let (namespace, name) = account;
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
        let groups = [
            "system:serviceaccounts",
            &format!("system:serviceaccounts:{namespace}"),
            "system:authenticated",
        ];
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": format!("system:serviceaccount:{namespace}:{name}"),
                "groups": groups,
                "resourceAttributes": attributes,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn review_names_the_account_and_the_lease() {
        let lease = |verb: &str| {
            let right = all().into_iter().find(|right| right.resource == "leases" && right.verb == verb);
            right.expect("it is there").review(("ns", "account"), ("kube-system", "mine"))["spec"].clone()
        };
        let update = lease("update");
        assert_eq!(update["user"], "system:serviceaccount:ns:account");
        assert_eq!(update["resourceAttributes"]["namespace"], "kube-system");
        assert_eq!(update["resourceAttributes"]["name"], "mine");
        assert!(lease("create")["resourceAttributes"]["name"].is_null());
    }
}
