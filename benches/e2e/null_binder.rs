//! A no-op binder: lists the nodes once and binds pods to them in turn, without filtering or scoring, with a Binding
//! and a Scheduled event per pod. Its throughput is the API server's upper bound.

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Semaphore;

use crate::harness::Access;
use crate::lister::connected;
use crate::load::{CLIENTS, post};
use crate::print_line;

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
    let unbound = watcher::Config::default().fields("spec.nodeName=");
    let mut pods = watcher(Api::<PartialObjectMeta<Pod>>::all(client), unbound)
        .default_backoff()
        .applied_objects()
        .boxed();
    let mut seen = BTreeSet::new();
    while let Some(pod) = pods.try_next().await? {
        if !seen.insert(pod.uid().context("pods have uids")?) {
            continue;
        }
        let (client, node) = (clients[seen.len() % CLIENTS].clone(), nodes[seen.len() % nodes.len()].clone());
        let binding = Arc::clone(&for_bindings).acquire_owned().await?;
        let for_events = Arc::clone(&for_events);
        tokio::spawn(async move {
            let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
            let done = async {
                bind(&client, &namespace, &name, &node).await?;
                drop(binding);
                let _event = for_events.acquire().await?;
                write_event(&client, &namespace, &name, &node).await
            };
            if let Err(error) = done.await {
                print_line(&format!("{error:#}"));
            }
        });
    }
    Ok(())
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
