//! Each right of the manifests taken away, one at a time: whoever lacks what decisions are made from, what binds, or what elects, places nothing and
//! says which right is missing; whoever lacks another goes on.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::support::nodes::KwokNode;
use crate::support::objects::{create_namespace, node_of, pod, wait_until_bound};
use crate::support::supercargo::{NAMESPACE, ROLES, Setup, Supercargo, elected_configuration};
use crate::support::{ControlPlane, wait_for};
use crate::world::installed;

/// As many schedulers at a time start side by side.
const AT_ONCE: usize = 8;
const PATIENCE: Duration = Duration::from_secs(120);

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    group: String,
    resource: String,
    verb: String,
}

impl Right {
    /// The right that a request made use of, as the audit log has it; `None` where it was about no resource.
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

    /// What it says without this right, where it must not place anything; `None` where it places pods all the same.
    fn refusal(&self) -> Option<String> {
        let Self { group, resource, verb } = self;
        match (resource.as_str(), verb.as_str()) {
            ("leases", _) => Some(String::from("as in manifests/base/role-lead.yaml")),
            ("pods/binding", "create") => Some(String::from("cannot create resource \\\"pods/binding\\\"")),
            // Lists come as watches; to list is for an API server that breaks those off.
            (_, "watch") => {
                let resource =
                    if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
                Some(format!("grant list and watch on {resource} "))
            }
            _ => None,
        }
    }
}

/// All rights that the manifests grant for use.
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

/// A scheduler with all rights but one, and a pod for it.
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
        let (admin, namespace) = (plane.admin(), create_namespace(client, "lacking").await?);
        admin.kubectl(&["create", "serviceaccount", "lacking", "-n", &namespace]).await?;
        let rules: Vec<Value> =
            rights.iter().filter(|right| Some(*right) != missing.as_ref()).map(Right::rule).collect();
        let subject = json!({"kind": "ServiceAccount", "name": "lacking", "namespace": namespace});
        let group = "rbac.authorization.k8s.io";
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": namespace}, "rules": rules},
            {"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": namespace},
             "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": namespace}, "subjects": [subject]},
        ]});
        admin.apply(&objects.to_string()).await?;
        let only = json!({"nodeSelector": {"kept-for": "rights"}, "tolerations": [{"key": "kept-for", "operator": "Exists"}]});
        let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
        pods.create(&PostParams::default(), &pod("web", &namespace, &only)?).await?;
        let mut setup = Setup::called(&namespace);
        setup.account = String::from("lacking");
        setup.configuration = elected_configuration(&namespace);
        let supercargo = setup.launch(plane).await?;
        Ok(Self { missing, namespace, supercargo })
    }

    /// What comes of it: the pod is placed, or it is told which right is missing.
    async fn outcome(&self, client: &Client) -> Result<()> {
        let Some(refusal) = self.missing.as_ref().and_then(Right::refusal) else {
            wait_until_bound(client, &self.namespace, "web").await?;
            return Ok(());
        };
        wait_for("it to say which right is missing", PATIENCE, || async {
            let log = self.supercargo.log()?;
            let refusal = refusal.replace("\\\"", "\"");
            let told = log.lines().any(|line| line.replace("\\\"", "\"").contains(&refusal));
            ensure!(told, "it does not say {refusal:?}");
            Ok(())
        })
        .await
    }

    /// Nothing was placed that was not to be. To be asked last.
    async fn check(&self, client: &Client) -> Result<()> {
        let missing = self.missing.as_ref();
        // Whoever may make the lease and not renew it holds it until its end, and may write until then.
        let led = missing.is_some_and(|right| (&*right.resource, &*right.verb) == ("leases", "update"));
        if !led && missing.and_then(Right::refusal).is_some() {
            let pod = Api::<Pod>::namespaced(client.clone(), &self.namespace).get("web").await?;
            ensure!(node_of(&pod).is_none(), "it was placed on {:?}", node_of(&pod));
        }
        Ok(())
    }

    async fn clear(self, plane: &ControlPlane) -> Result<()> {
        drop(self.supercargo);
        let admin = plane.admin();
        for kind in ["clusterrolebinding", "clusterrole"] {
            admin.kubectl(&["delete", kind, &self.namespace]).await?;
        }
        admin.kubectl(&["delete", "namespace", &self.namespace, "--wait=false"]).await?;
        Ok(())
    }
}

#[tokio::test]
async fn b22_without_any_one_right_nothing_is_placed_blindly_and_what_is_missing_is_said() -> Result<()> {
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
    ensure!(refusing >= 20, "without {refusing} rights nothing is placed");
    for some in rights.chunks(AT_ONCE) {
        let mut lacking = Vec::new();
        // The last lacks nothing: that what the others do not place could have been placed by then is shown by it.
        for missing in some.iter().cloned().map(Some).chain([None]) {
            lacking.push(Lacking::start(plane, &client, &rights, missing).await?);
        }
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
            one.clear(plane).await?;
        }
    }
    eprintln!("rights: {} taken away, without {refusing} of them nothing is placed", rights.len());
    plane.admin().kubectl(&["delete", "node", "rights"]).await?;
    Ok(())
}
