//! Creates objects in the API server: a whole cluster, pods in a burst, and pods at a rate.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

use crate::harness::Access;

/// Number of clients; each opens as many connections as it needs.
pub(crate) const CLIENTS: usize = 4;

/// Maximum number of concurrent requests.
const IN_FLIGHT: usize = 32;

/// The pods' namespace.
pub(crate) const NAMESPACE: &str = "load";

/// Creates an object.
pub(crate) async fn post(client: &Client, path: &str, object: &Value) -> Result<()> {
    let request = http::Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
    let answer = client.send(request.body(Body::from(object.to_string().into_bytes()))?).await;
    let answer = answer.with_context(|| format!("POST {path}"))?;
    let status = answer.status();
    let body = answer.into_body().collect_bytes().await?;
    ensure!(status.is_success(), "POST {path}: {status}: {}", String::from_utf8_lossy(&body));
    Ok(())
}

/// Returns the path of the ResourceClaims.
pub(crate) fn claims() -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims")
}

fn path(object: &Value) -> Result<String> {
    Ok(match object["kind"].as_str() {
        Some("Node") => "/api/v1/nodes".to_owned(),
        Some("Namespace") => "/api/v1/namespaces".to_owned(),
        Some("Pod") => format!("/api/v1/namespaces/{NAMESPACE}/pods"),
        Some("Service") => format!("/api/v1/namespaces/{NAMESPACE}/services"),
        Some("ServiceAccount") => format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"),
        Some("DeviceClass") => "/apis/resource.k8s.io/v1/deviceclasses".to_owned(),
        Some("ResourceSlice") => "/apis/resource.k8s.io/v1/resourceslices".to_owned(),
        Some("ResourceClaim") => claims(),
        Some("PodGroup") => {
            let version = object["apiVersion"].as_str().unwrap_or_default();
            format!("/apis/{version}/namespaces/{NAMESPACE}/podgroups")
        }
        kind => anyhow::bail!("unsupported kind {kind:?}"),
    })
}

/// Creates objects with several clients.
pub(crate) struct Loader {
    clients: Vec<Client>,
}

impl Loader {
    pub(crate) async fn new(access: &Access) -> Result<Self> {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(access.client().await?);
        }
        Ok(Self { clients })
    }

    /// Creates the namespace, and the ServiceAccount that pods need.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let named = |name: &str| json!({"metadata": {"name": name}});
        for (kind, name) in [("Namespace", NAMESPACE), ("ServiceAccount", "default")] {
            let mut object = named(name);
            object["apiVersion"] = "v1".into();
            object["kind"] = kind.into();
            post(&self.clients[0], &path(&object)?, &object).await?;
        }
        Ok(())
    }

    /// Creates all objects as fast as possible.
    pub(crate) async fn create(&self, objects: impl Iterator<Item = Value>) -> Result<()> {
        let requests = objects.enumerate().map(|(number, mut object)| {
            // The workloads number them for the engine.
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
                metadata.remove("uid");
            }
            let client = &self.clients[number % CLIENTS];
            async move { post(client, &path(&object)?, &object).await }
        });
        stream::iter(requests).buffer_unordered(IN_FLIGHT).try_collect().await
    }

    /// Creates pods at a fixed rate, without waiting for earlier requests. Returns the due times, in order.
    pub(crate) async fn create_at(&self, rate: u32, pods: Vec<Value>) -> Result<Vec<Instant>> {
        let began = Instant::now();
        let due =
            |number: usize| began + Duration::from_secs(1) * u32::try_from(number).unwrap_or(u32::MAX) / rate;
        let dues = (0..pods.len()).map(due).collect();
        let requests = pods.into_iter().enumerate().map(|(number, pod)| {
            let client = &self.clients[number % CLIENTS];
            async move {
                tokio::time::sleep_until(due(number)).await;
                post(client, &path(&pod)?, &pod).await
            }
        });
        futures::future::try_join_all(requests).await?;
        Ok(dues)
    }
}
