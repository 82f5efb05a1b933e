//! A no-op binder: lists the nodes once and binds pods to them in turn, without filtering or scoring, with a Binding
//! and a Scheduled event per pod. If there are ResourceClaims, it first writes what a scheduler writes: the
//! nomination, then to the pod's claims the finalizer, a device of the node and the reservation. Its throughput is the
//! API server's upper bound.

use anyhow::{Context, Result};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Semaphore;

use crate::harness::Access;
use crate::lister::connected;
use crate::load::{CLIENTS, NAMESPACE, claims, post};
use crate::print_line;
use crate::workloads::DRIVER;

/// Bindings and events in flight; pods have precedence over events.
const BINDINGS: usize = 100;
const EVENTS: usize = 16;

pub(crate) async fn run(kubeconfig: &Path) -> Result<()> {
    let access = Access::from_kubeconfig(kubeconfig);
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connected(&access).await?);
    }
    let client = connected(&access).await?;
    let nodes: Vec<String> = Api::<Node>::all(client.clone())
        .list_metadata(&Default::default())
        .await?
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    let [for_bindings, for_events] = [BINDINGS, EVENTS].map(|room| Arc::new(Semaphore::new(room)));
    let claims = existing_claims(&client).await?;
    let mut pods = unbound_pods(client, !claims.is_empty());
    let mut seen = BTreeSet::new();
    while let Some(pod) = pods.try_next().await? {
        if !seen.insert(pod.uid.clone()) {
            continue;
        }
        let (client, at) = (clients[seen.len() % CLIENTS].clone(), seen.len() % nodes.len());
        let node = nodes[at].clone();
        let claims: Vec<Claim> = pod.claims.iter().filter_map(|name| claims.get(name).cloned()).collect();
        let device = seen.len() / nodes.len();
        let binding = Arc::clone(&for_bindings).acquire_owned().await?;
        let for_events = Arc::clone(&for_events);
        tokio::spawn(async move {
            let done = async {
                if !claims.is_empty() {
                    nominate(&client, &pod, &node).await?;
                }
                for claim in &claims {
                    reserve(&client, claim, &pod, &node, device).await?;
                }
                bind(&client, &pod.namespace, &pod.name, &node).await?;
                drop(binding);
                let _event = for_events.acquire().await?;
                write_event(&client, &pod.namespace, &pod.name, &node).await
            };
            if let Err(error) = done.await {
                print_line(&format!("{error:#}"));
            }
        });
    }
    Ok(())
}

/// A pod without a node.
struct Pending {
    namespace: String,
    name: String,
    uid: String,
    /// The names of its claims, if they were asked for.
    claims: Vec<String>,
}

/// Watches pods without a node. Without claims, it reads only their metadata.
fn unbound_pods(client: Client, with_claims: bool) -> BoxStream<'static, watcher::Result<Pending>> {
    fn pending(pod: &impl ResourceExt, claims: Vec<String>) -> Pending {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        Pending { namespace, name, uid: pod.uid().unwrap_or_default(), claims }
    }
    let unbound = watcher::Config::default().fields("spec.nodeName=");
    if !with_claims {
        let pods = watcher(Api::<PartialObjectMeta<Pod>>::all(client), unbound);
        return pods.default_backoff().applied_objects().map_ok(|pod| pending(&pod, Vec::new())).boxed();
    }
    let pods = watcher(Api::<Pod>::all(client), unbound).default_backoff().applied_objects();
    pods.map_ok(|pod| {
        let claims = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
        let claims = claims.filter_map(|claim| claim.resource_claim_name.clone()).collect();
        pending(&pod, claims)
    })
    .boxed()
}

/// A claim that existed at the start.
#[derive(Clone)]
struct Claim {
    name: String,
    uid: String,
    version: String,
}

/// Returns the claims of [`NAMESPACE`] by name.
async fn existing_claims(client: &Client) -> Result<BTreeMap<String, Claim>> {
    let claims = Api::<ResourceClaim>::namespaced(client.clone(), NAMESPACE);
    let claims = claims.list_metadata(&Default::default()).await?;
    let claim = |claim: PartialObjectMeta<ResourceClaim>| {
        let (uid, version) = (claim.uid().unwrap_or_default(), claim.resource_version().unwrap_or_default());
        (claim.name_any(), Claim { name: claim.name_any(), uid, version })
    };
    Ok(claims.into_iter().map(claim).collect())
}

/// Writes the node that the pod is nominated to while its claims are written.
async fn nominate(client: &Client, pod: &Pending, node: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{}/pods/{}/status", pod.namespace, pod.name);
    let metadata = json!({"uid": pod.uid});
    let status = json!({"nominatedNodeName": node});
    patch(client, &path, &json!({"metadata": metadata, "status": status})).await?;
    Ok(())
}

/// Gives a claim the device with this number of a node, for a pod.
async fn reserve(client: &Client, claim: &Claim, pod: &Pending, node: &str, device: usize) -> Result<()> {
    let path = format!("{}/{}", claims(), claim.name);
    let metadata = json!({
        "uid": claim.uid, "resourceVersion": claim.version,
        "finalizers": ["resource.kubernetes.io/delete-protection"],
    });
    let answer = patch(client, &path, &json!({ "metadata": metadata })).await?;
    let selector = json!({"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]},
    ]});
    let device = json!({"request": "gpu", "driver": DRIVER, "pool": node, "device": format!("gpu-{device}")});
    let status = json!({
        "allocation": {"devices": {"results": [device]}, "nodeSelector": selector},
        "reservedFor": [{"resource": "pods", "name": pod.name, "uid": pod.uid}],
    });
    let metadata = json!({"uid": claim.uid, "resourceVersion": answer["metadata"]["resourceVersion"]});
    patch(client, &format!("{path}/status"), &json!({"metadata": metadata, "status": status})).await?;
    Ok(())
}

async fn patch(client: &Client, path: &str, patch: &Value) -> Result<Value> {
    let request = http::Request::patch(path)
        .header(http::header::CONTENT_TYPE, "application/strategic-merge-patch+json")
        .body(patch.to_string().into_bytes())?;
    client.request(request).await.with_context(|| format!("PATCH {path}"))
}

/// Binds a pod to a node.
pub(crate) async fn bind(client: &Client, namespace: &str, pod: &str, node: &str) -> Result<()> {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"namespace": namespace, "name": pod},
        "target": {"kind": "Node", "name": node},
    });
    post(client, &format!("/api/v1/namespaces/{namespace}/pods/{pod}/binding"), &binding).await
}

async fn write_event(client: &Client, namespace: &str, pod: &str, node: &str) -> Result<()> {
    let events = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    post(client, &events, &scheduled(namespace, pod, node)).await
}

/// Returns the event that a scheduler writes.
fn scheduled(namespace: &str, pod: &str, node: &str) -> Value {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"namespace": namespace, "name": format!("{pod}.bound")},
        "eventTime": now, "type": "Normal", "reason": "Scheduled", "action": "Binding",
        "note": format!("Successfully assigned {namespace}/{pod} to {node}"),
        "reportingController": "null-binder", "reportingInstance": "null-binder",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod},
    })
}
