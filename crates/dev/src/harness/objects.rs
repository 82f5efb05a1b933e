//! Helpers for namespaces, pods and ServiceAccounts. They wait for conditions and report what they saw instead.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::pki::write_private;
use super::wait::{PATIENCE, wait_for};

/// Creates a namespace with a unique name that begins with `prefix`, and waits until it accepts pods.
pub async fn create_namespace(client: &Client, prefix: &str) -> Result<String> {
    let metadata = ObjectMeta { generate_name: Some(format!("{prefix}-")), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    let created = Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let name = created.name_any();
    wait_for_default_account(client, &name).await?;
    Ok(name)
}

/// Waits until `namespace` has its default ServiceAccount, which pods need and kube-controller-manager creates.
pub async fn wait_for_default_account(client: &Client, namespace: &str) -> Result<()> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let what = format!("the default service account of namespace {namespace}");
    wait_for(&what, PATIENCE, || async { Ok(accounts.get("default").await?) }).await?;
    Ok(())
}

/// Builds a pod with one container. The fields of `extra` are merged into its spec.
pub fn pod(name: &str, scheduler: &str, extra: &Value) -> Result<Pod> {
    let mut spec = json!({
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}],
    });
    let fields = extra.as_object().context("the extra fields of a pod's spec are not an object")?;
    for (field, value) in fields {
        spec[field] = value.clone();
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
    serde_json::from_value(pod).with_context(|| format!("pod {name}"))
}

/// Waits until the pod has a node and returns the node's name.
pub async fn wait_until_bound(client: &Client, namespace: &str, name: &str) -> Result<String> {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    wait_for(&format!("pod {namespace}/{name} to be bound"), PATIENCE, || async {
        let pod = pods.get(name).await?;
        node_of(&pod).map(str::to_owned).with_context(|| format!("it has no node; {}", condition_text(&pod)))
    })
    .await
}

/// Waits until the pod is Running and returns it.
pub async fn wait_until_running(client: &Client, namespace: &str, name: &str) -> Result<Pod> {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    wait_for(&format!("pod {namespace}/{name} to run"), PATIENCE, || async {
        let pod = pods.get(name).await?;
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        ensure!(phase == "Running", "it is {phase}; {}", condition_text(&pod));
        Ok(pod)
    })
    .await
}

/// Returns the pod's node, if any.
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Formats the pod's conditions: `PodScheduled=False Unschedulable 0/4 nodes are available: ...`.
pub fn condition_text(pod: &Pod) -> String {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let texts: Vec<String> = conditions
        .map(|condition| {
            let reason = condition.reason.as_deref().unwrap_or_default();
            let message = condition.message.as_deref().unwrap_or_default();
            format!("{}={} {reason} {message}", condition.type_, condition.status).trim_end().to_owned()
        })
        .collect();
    if texts.is_empty() { String::from("no conditions") } else { texts.join(", ") }
}

/// A file with a ServiceAccount's token, as the kubelet provides it.
pub struct TokenFile {
    client: Client,
    namespace: String,
    account: String,
    path: PathBuf,
}

impl TokenFile {
    /// Requests a token and writes it to `path`.
    pub async fn create(client: Client, namespace: &str, account: &str, path: PathBuf) -> Result<Self> {
        let file = Self { client, namespace: namespace.to_owned(), account: account.to_owned(), path };
        file.rotate().await?;
        Ok(file)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the token with a new one and returns it.
    pub async fn rotate(&self) -> Result<String> {
        let token = service_account_token(&self.client, &self.namespace, &self.account).await?;
        self.replace(&token)?;
        Ok(token)
    }

    /// Replaces the token with any text, such as an invalid token.
    pub fn replace(&self, token: &str) -> Result<()> {
        write_private(&self.path, token)
    }
}

/// Requests a token for a ServiceAccount, valid for an hour.
pub async fn service_account_token(client: &Client, namespace: &str, account: &str) -> Result<String> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .with_context(|| format!("no token for service account {namespace}/{account}"))?;
    let token = answer.status.and_then(|status| status.token);
    token.with_context(|| format!("the answer to the token request of {namespace}/{account} holds no token"))
}
