//! Removes each permission of the manifests, one at a time. Without one that decisions, binding or leader election
//! need, no pod is placed and the missing permission is logged. Without any other, scheduling continues.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, from_value, json};

use crate::harness::nodes::KwokNode;
use crate::harness::objects::{create_namespace, node_of, pod, wait_until_bound};
use crate::harness::supercargo::{NAMESPACE, ROLES, Setup, Supercargo, elected_configuration};
use crate::harness::{ControlPlane, wait_for};
use crate::world::installed;

/// Number of schedulers started concurrently.
const AT_ONCE: usize = 8;
const PATIENCE: Duration = Duration::from_secs(120);

/// A permission: one verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    group: String,
    resource: String,
    verb: String,
}

impl Right {
    /// Returns the permission used by an audited request; `None` for non-resource requests.
    pub(crate) fn used(entry: &Value) -> Option<Self> {
        let (object, text) =
            (&entry["objectRef"], |value: &Value| value.as_str().unwrap_or_default().to_owned());
        let (resource, subresource) = (text(&object["resource"]), text(&object["subresource"]));
        let resource = if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
        let right = Self { group: text(&object["apiGroup"]), resource, verb: text(&entry["verb"]) };
        (!right.resource.is_empty()).then_some(right)
    }

    pub(crate) fn text(&self) -> String {
        format!("{} {}", self.verb, self.resource)
    }

    fn rule(&self) -> Value {
        json!({"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb]})
    }

    /// Returns the log message without this permission, if no pod may then be placed; `None` if pods are placed anyway.
    fn refusal(&self) -> Option<String> {
        let Self { group, resource, verb } = self;
        match (resource.as_str(), verb.as_str()) {
            // PodGroups are watched with their feature gate only, which is off here.
            ("podgroups", _) => None,
            ("leases", _) => Some(String::from("as in manifests/base/role-lead.yaml")),
            ("pods/binding", "create") => Some(String::from("cannot create resource \\\"pods/binding\\\"")),
            // Lists are streamed as watches. `list` is for API servers that abort streamed lists.
            (_, "watch") => {
                let resource =
                    if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
                Some(format!("grant list and watch on {resource} "))
            }
            _ => None,
        }
    }
}

/// Returns all permissions that the manifests grant.
pub(crate) async fn granted(plane: &ControlPlane) -> Result<Vec<Right>> {
    let mut roles = Vec::new();
    for role in ROLES {
        roles.push(plane.admin().kubectl(&["get", "clusterrole", role, "-o", "json"]).await?);
    }
    let lead = ["get", "role", "supercargo-lead", "-n", NAMESPACE, "-o", "json"];
    roles.push(plane.admin().kubectl(&lead).await?);
    let mut rights = Vec::new();
    for role in roles {
        let role: Value = serde_json::from_str(&role)?;
        for rule in role["rules"].as_array().context("a role has rules")? {
            let texts = |field: &str| {
                let list = rule[field].as_array().cloned().unwrap_or_default();
                list.iter().map(|text| text.as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
            };
            for group in texts("apiGroups") {
                for resource in texts("resources") {
                    rights.extend(texts("verbs").into_iter().map(|verb| {
                        let (group, resource) = (group.clone(), resource.clone());
                        Right { group, resource, verb }
                    }));
                }
            }
        }
    }
    Ok(rights)
}

/// A scheduler that lacks one permission, and a pod for it.
struct Lacking {
    missing: Option<Right>,
    namespace: String,
    supercargo: Supercargo,
}

impl Lacking {
    async fn start(
        plane: &ControlPlane,
        client: &Client,
        rights: &[Right],
        missing: Option<Right>,
    ) -> Result<Self> {
        let namespace = create_namespace(client, "lacking").await?;
        let account: ServiceAccount = from_value(json!({"metadata": {"name": "lacking"}}))?;
        Api::namespaced(client.clone(), &namespace).create(&PostParams::default(), &account).await?;
        let rules: Vec<Value> =
            rights.iter().filter(|right| Some(*right) != missing.as_ref()).map(Right::rule).collect();
        let subject = json!({"kind": "ServiceAccount", "name": "lacking", "namespace": namespace});
        let name = json!({"name": namespace});
        let role: ClusterRole = from_value(json!({"metadata": name, "rules": rules}))?;
        let binding: ClusterRoleBinding = from_value(json!({
            "metadata": name, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace},
        }))?;
        Api::all(client.clone()).create(&PostParams::default(), &role).await?;
        Api::all(client.clone()).create(&PostParams::default(), &binding).await?;
        let only = json!({"nodeSelector": {"kept-for": "rights"}, "tolerations": [{"key": "kept-for", "operator": "Exists"}]});
        let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
        pods.create(&PostParams::default(), &pod("web", &namespace, &only)?).await?;
        let mut setup = Setup::called(&namespace);
        setup.account = String::from("lacking");
        setup.configuration = elected_configuration(&namespace);
        let supercargo = setup.launch(plane).await?;
        Ok(Self { missing, namespace, supercargo })
    }

    /// Waits until the pod is placed or the missing permission is logged.
    async fn outcome(&self, client: &Client) -> Result<()> {
        let Some(refusal) = self.missing.as_ref().and_then(Right::refusal) else {
            wait_until_bound(client, &self.namespace, "web").await?;
            return Ok(());
        };
        wait_for("it to log the missing permission", PATIENCE, || async {
            let log = self.supercargo.log()?;
            let refusal = refusal.replace("\\\"", "\"");
            let is_logged = log.lines().any(|line| line.replace("\\\"", "\"").contains(&refusal));
            ensure!(is_logged, "it does not log {refusal:?}");
            Ok(())
        })
        .await
    }

    /// Checks that no pod was placed against the rule. Call it last.
    async fn check(&self, client: &Client) -> Result<()> {
        let missing = self.missing.as_ref();
        // Who may create the lease but not renew it holds it until it expires, and may write until then.
        let led = missing.is_some_and(|right| (&*right.resource, &*right.verb) == ("leases", "update"));
        if !led && missing.and_then(Right::refusal).is_some() {
            let pod = Api::<Pod>::namespaced(client.clone(), &self.namespace).get("web").await?;
            ensure!(node_of(&pod).is_none(), "it was placed on {:?}", node_of(&pod));
        }
        Ok(())
    }

    async fn clear(self, client: &Client) -> Result<()> {
        drop(self.supercargo);
        let (name, with) = (&*self.namespace, DeleteParams::default());
        Api::<ClusterRoleBinding>::all(client.clone()).delete(name, &with).await?;
        Api::<ClusterRole>::all(client.clone()).delete(name, &with).await?;
        Api::<Namespace>::all(client.clone()).delete(name, &with).await?;
        Ok(())
    }
}

#[tokio::test]
async fn b22_missing_permission_prevents_blind_placement_and_is_logged() -> Result<()> {
    let plane = installed().await?;
    let client = plane.client().await?;
    KwokNode::new("rights")
        .label("kept-for", "rights")
        .taint("kept-for", "rights", "NoSchedule")
        .create(&client)
        .await?;
    let rights = granted(plane).await?;
    ensure!(rights.len() >= 40, "{} rights", rights.len());
    let refusing = rights.iter().filter(|right| right.refusal().is_some()).count();
    ensure!(refusing >= 20, "only {refusing} permissions prevent placement");
    for some in rights.chunks(AT_ONCE) {
        // The last one lacks nothing. It shows that there was time to place the others' pods.
        let missing = some.iter().cloned().map(Some).chain([None]);
        let started = missing.map(|missing| Lacking::start(plane, &client, &rights, missing));
        let lacking = try_join_all(started).await?;
        for one in &lacking {
            let what = || {
                format!("without {:?}: {}", one.missing.as_ref().map(Right::text), one.supercargo.log_tail())
            };
            one.outcome(&client).await.with_context(what)?;
        }
        for one in lacking {
            one.check(&client)
                .await
                .with_context(|| format!("without {:?}", one.missing.as_ref().map(Right::text)))?;
            one.clear(&client).await?;
        }
    }
    eprintln!("permissions: {} removed; without {refusing} of them, no pod is placed", rights.len());
    plane.admin().kubectl(&["delete", "node", "rights"]).await?;
    Ok(())
}
