//! The identity whose rights are checked, and who asks for them.

use crate::commands::doctor::DoctorArgs;
use crate::live::ask::ActAs;
use serde_json::{Value, json};

/// Start of the user name of a ServiceAccount.
const ACCOUNT: &str = "system:serviceaccount:";
/// The identity of kube-scheduler in most clusters.
const KUBE_SCHEDULER: &str = "system:kube-scheduler";

/// An identity: a user name and its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// User name.
    pub user: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Whether it is also the one that asks (`--as`).
    pub asks: bool,
}

impl Identity {
    /// Returns the identity to check: that of `--identity` or `--service-account`, else that of `--as`, else the
    /// installation's default ServiceAccount.
    pub(super) fn of(args: &DoctorArgs) -> Self {
        let named = args.identity.as_ref().or(args.service_account.as_ref());
        let (user, mut groups, asks) = match (named, &args.as_user) {
            (None, Some(user)) => (user.clone(), args.as_group.clone(), true),
            (named, _) => {
                (named.cloned().unwrap_or_else(|| user_of("kube-system", "supercargo")), Vec::new(), false)
            }
        };
        if let Some((namespace, _)) = account_of(&user) {
            groups
                .extend(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
        }
        groups.push("system:authenticated".to_owned());
        Self { user, groups, asks }
    }

    /// Returns namespace and name, if this is a ServiceAccount.
    pub(super) fn account(&self) -> Option<(&str, &str)> {
        account_of(&self.user)
    }

    /// Formats the identity: a ServiceAccount as `namespace:name`, another by its user name.
    pub(super) fn text(&self) -> &str {
        self.user.strip_prefix(ACCOUNT).unwrap_or(&self.user)
    }

    /// Returns the name of the Lease that an installation with this identity holds by default.
    pub(super) fn lease(&self) -> &'static str {
        if self.user == KUBE_SCHEDULER { "kube-scheduler" } else { "supercargo" }
    }

    /// Returns the review that asks whether this identity has the right.
    pub(super) fn review(&self, attributes: &Value) -> Value {
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": { "user": self.user, "groups": self.groups, "resourceAttributes": attributes },
        })
    }
}

/// Returns the review in which its sender asks about their own right.
pub(super) fn own_review(attributes: &Value) -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": attributes },
    })
}

impl DoctorArgs {
    /// Returns whom the requests are sent as, if it is not the user of the kubeconfig.
    pub(super) fn act_as(&self) -> Option<ActAs<'_>> {
        self.as_user.as_deref().map(|user| ActAs { user, groups: &self.as_group })
    }
}

fn user_of(namespace: &str, name: &str) -> String {
    format!("{ACCOUNT}{namespace}:{name}")
}

fn account_of(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(ACCOUNT)?.split_once(':')
}

/// Parses a ServiceAccount given as `namespace:name`, and returns its user name.
pub(super) fn parse_account(text: &str) -> Result<String, String> {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
    match text.split_once(':') {
        Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(user_of(namespace, name)),
        _ => Err("expected namespace:name, for example kube-system:supercargo".to_owned()),
    }
}

/// Parses the name of a user or group. It becomes a header's value.
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("expected a name".to_owned());
    }
    if !text.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
        return Err("expected printable ASCII characters".to_owned());
    }
    match text.strip_prefix(ACCOUNT) {
        Some(account) => parse_account(account).map_err(|_| {
            format!("expected {ACCOUNT}namespace:name, for example {ACCOUNT}kube-system:supercargo")
        }),
        None => Ok(text.to_owned()),
    }
}
