//! What tests need of namespaces, pods and service accounts. It asserts nothing: it waits, and says what it saw instead.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::pki::write_private;
use super::wait::{PATIENCE, wait_for};

/// Creates a namespace whose name begins with `prefix` and belongs to nobody else, and waits until pods can be created in it.
pub(crate) async fn create_namespace(client: &Client, prefix: &str) -> Result<String> {
    let metadata = ObjectMeta { generate_name: Some(format!("{prefix}-")), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    let created = Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let name = created.name_any();
    wait_for_default_account(client, &name).await?;
    Ok(name)
}

/// Waits until pods that name no service account can be created in `namespace`: kube-controller-manager makes that account.
pub(crate) async fn wait_for_default_account(client: &Client, namespace: &str) -> Result<()> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let what = format!("the default service account of namespace {namespace}");
    wait_for(&what, PATIENCE, || async { Ok(accounts.get("default").await?) }).await?;
    Ok(())
}

/// A pod of one container. `extra` is merged over its spec, so a test names only the fields it is about.
pub(crate) fn pod(name: &str, scheduler: &str, extra: &Value) -> Result<Pod> {
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

/// Waits until the pod has a node, and returns its name.
pub(crate) async fn wait_until_bound(client: &Client, namespace: &str, name: &str) -> Result<String> {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    wait_for(&format!("pod {namespace}/{name} to be bound"), PATIENCE, || async {
        let pod = pods.get(name).await?;
        node_of(&pod).map(str::to_owned).with_context(|| format!("it has no node; {}", condition_text(&pod)))
    })
    .await
}

/// Waits until the pod is Running, and returns it.
pub(crate) async fn wait_until_running(client: &Client, namespace: &str, name: &str) -> Result<Pod> {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    wait_for(&format!("pod {namespace}/{name} to run"), PATIENCE, || async {
        let pod = pods.get(name).await?;
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        ensure!(phase == "Running", "it is {phase}; {}", condition_text(&pod));
        Ok(pod)
    })
    .await
}

/// The node of the pod, if it has one.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// The pod's conditions in one line: `PodScheduled=False Unschedulable 0/4 nodes are available: ...`.
pub(crate) fn condition_text(pod: &Pod) -> String {
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

/// A service account's token in a file, as the kubelet keeps it for a pod.
pub(crate) struct TokenFile {
    client: Client,
    namespace: String,
    account: String,
    path: PathBuf,
}

impl TokenFile {
    /// Asks for a token of the account and writes it to `path`.
    pub(crate) async fn create(
        client: Client,
        namespace: &str,
        account: &str,
        path: PathBuf,
    ) -> Result<Self> {
        let file = Self { client, namespace: namespace.to_owned(), account: account.to_owned(), path };
        file.rotate().await?;
        Ok(file)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the token by a new one, and returns that.
    pub(crate) async fn rotate(&self) -> Result<String> {
        let token = service_account_token(&self.client, &self.namespace, &self.account).await?;
        self.replace(&token)?;
        Ok(token)
    }

    /// Replaces the token by any text, for example one that the server refuses.
    pub(crate) fn replace(&self, token: &str) -> Result<()> {
        write_private(&self.path, token)
    }
}

/// A token of an existing service account, good for an hour.
pub(crate) async fn service_account_token(client: &Client, namespace: &str, account: &str) -> Result<String> {
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
