//! The rights that the manifests grant, read from the manifests themselves, and what does not work without each.

use serde_json::{Value, json};

/// The roles of `manifests/base` that the ServiceAccount has.
const ROLES: [&str; 4] = [
    include_str!("../../../manifests/base/cluster-role-read.yaml"),
    include_str!("../../../manifests/base/cluster-role-act.yaml"),
    include_str!("../../../manifests/base/cluster-role-serve-auth.yaml"),
    include_str!("../../../manifests/base/role-lead.yaml"),
];

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Right {
    pub(super) group: String,
    /// With the subresource after a slash.
    pub(super) resource: String,
    pub(super) verb: String,
    /// The lease it is about, where it is about that one alone.
    pub(super) is_of_lease: bool,
}

/// All of them.
pub(super) fn all() -> Vec<Right> {
    let documents = ROLES.iter().flat_map(|text| {
        let documents: Result<Vec<Value>, _> = serde_saphyr::from_multiple(text);
        documents.expect("the manifests are YAML")
    });
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
    /// As `kubectl auth can-i` writes it.
    pub(super) fn text(&self) -> String {
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
        format!("{} {}{group}", self.verb, self.resource)
    }

    /// What does not work without it.
    pub(super) fn without(&self) -> &'static str {
        match (self.resource.as_str(), self.verb.as_str()) {
            ("pods/binding", _) => "no pod is bound",
            ("leases", _) => "it cannot lead, and decides nothing",
            (_, "watch" | "list") => "it never has the whole cluster, and decides nothing",
            ("pods", "get") => "a binding whose answer was lost is not settled before its time is up",
            ("pods", "delete") => "preemption makes no room",
            ("pods/status", _) => "pods are not told why they wait, and nominated nowhere",
            ("persistentvolumes" | "persistentvolumeclaims", _) => {
                "pods whose volumes wait for a node stay pending"
            }
            ("events", _) => "there are no events about pods",
            ("tokenreviews" | "subjectaccessreviews", _) => "nobody is let in to its metrics and pages",
            _ => "what it is for does not work",
        }
    }

    /// The SubjectAccessReview of whether a ServiceAccount has it; `lease` is namespace and name.
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
    fn the_manifests_rights_are_all_known_by_what_breaks_without_them() {
        let rights = all();
        assert!(rights.len() > 40, "{}", rights.len());
        let unknown: Vec<_> =
            rights.iter().filter(|right| right.without().starts_with("what it is for")).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        let text: Vec<String> = rights.iter().map(Right::text).collect();
        for known in
            ["create pods/binding", "watch csinodes.storage.k8s.io", "update leases.coordination.k8s.io"]
        {
            assert!(text.iter().any(|text| text == known), "{known}: {text:?}");
        }
    }

    #[test]
    fn a_review_is_about_the_account_and_of_a_lease_about_that_one() {
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
