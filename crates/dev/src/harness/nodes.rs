//! Simulated nodes: described, created, and awaited until they accept pods.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::wait::{PATIENCE, wait_for};

/// Label, and taint key, of control plane nodes.
pub const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// A node to create. By default, it has 8 CPUs, 16 GiB, room for 110 pods, and the labels of a Linux node.
#[derive(Clone, Debug)]
pub struct KwokNode {
    name: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    allocatable: BTreeMap<String, String>,
    images: Vec<Value>,
    unschedulable: bool,
}

impl KwokNode {
    /// Describes a node with defaults.
    pub fn new(name: &str) -> Self {
        let node = Self {
            name: name.to_owned(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            allocatable: BTreeMap::new(),
            images: Vec::new(),
            unschedulable: false,
        };
        node.label("kubernetes.io/hostname", name)
            .label("kubernetes.io/os", "linux")
            .label("kubernetes.io/arch", "amd64")
            .allocatable("cpu", "8")
            .allocatable("memory", "16Gi")
            .allocatable("ephemeral-storage", "100Gi")
            .allocatable("pods", "110")
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a taint; `effect` is `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let value = if value.is_empty() { None } else { Some(value.to_owned()) };
        self.taints.push(Taint { key: key.to_owned(), value, effect: effect.to_owned(), time_added: None });
        self
    }

    /// Sets the allocatable quantity of a resource, which may be an extended resource.
    pub fn allocatable(mut self, resource: &str, quantity: &str) -> Self {
        self.allocatable.insert(resource.to_owned(), quantity.to_owned());
        self
    }

    /// Adds an image with all its names and its size in bytes.
    pub fn image(mut self, names: &[&str], size_bytes: i64) -> Self {
        self.images.push(json!({"names": names, "sizeBytes": size_bytes}));
        self
    }

    /// Cordons the node.
    pub fn unschedulable(mut self) -> Self {
        self.unschedulable = true;
        self
    }

    /// Creates the node and waits until it is Ready and has no other taints than its own.
    pub async fn create(&self, client: &Client) -> Result<Node> {
        self.post(client).await?;
        self.wait_until_ready(client).await
    }

    async fn post(&self, client: &Client) -> Result<()> {
        let node: Node = serde_json::from_value(self.object())?;
        let nodes = Api::<Node>::all(client.clone());
        nodes
            .create(&PostParams::default(), &node)
            .await
            .with_context(|| format!("cannot create node {}", self.name))?;
        Ok(())
    }

    async fn wait_until_ready(&self, client: &Client) -> Result<Node> {
        let nodes = Api::<Node>::all(client.clone());
        let what = format!("node {} to be ready and free of lifecycle taints", self.name);
        wait_for(&what, PATIENCE, || async {
            let node = nodes.get(&self.name).await?;
            ensure!(is_ready(&node), "it is not ready (kwok sets this condition)");
            let foreign = self.foreign_taints(&node);
            ensure!(foreign.is_empty(), "it has taints {foreign:?} (kube-controller-manager removes them)");
            Ok(node)
        })
        .await
    }

    /// Returns taints that were not requested: a new node has `not-ready`. A cordoned node keeps `unschedulable`.
    fn foreign_taints(&self, node: &Node) -> Vec<String> {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let asked_for = |taint: &&Taint| {
            self.unschedulable && taint.key == "node.kubernetes.io/unschedulable"
                || self.taints.iter().any(|own| own.key == taint.key && own.effect == taint.effect)
        };
        taints
            .filter(|taint| !asked_for(taint))
            .map(|taint| format!("{}:{}", taint.key, taint.effect))
            .collect()
    }

    fn object(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": self.labels,
                "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
            },
            "spec": {"taints": self.taints, "unschedulable": self.unschedulable},
            "status": {
                "addresses": [
                    {"type": "InternalIP", "address": next_address()},
                    {"type": "Hostname", "address": self.name},
                ],
                "allocatable": self.allocatable,
                "capacity": self.allocatable,
                "images": self.images,
            },
        })
    }
}

/// Creates several nodes concurrently and waits for all of them.
pub async fn create_all(client: &Client, nodes: &[KwokNode]) -> Result<()> {
    for node in nodes {
        node.post(client).await?;
    }
    for node in nodes {
        node.wait_until_ready(client).await?;
    }
    Ok(())
}

/// Returns the nodes of a kind cluster: the tainted `kind-control-plane`, and `count` - 1 workers `kind-worker`,
/// `kind-worker2`, ...
pub fn kind(count: usize) -> Vec<KwokNode> {
    let worker = |number: usize| match number {
        1 => KwokNode::new("kind-worker"),
        _ => KwokNode::new(&format!("kind-worker{number}")),
    };
    let control_plane =
        KwokNode::new("kind-control-plane").label(CONTROL_PLANE, "").taint(CONTROL_PLANE, "", "NoSchedule");
    std::iter::once(control_plane).chain((1..).map(worker)).take(count).collect()
}

/// Reports whether the node's Ready condition is True.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Returns an unused address. Nodes without one would share their host ports.
fn next_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(2);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("172.{}.{}.{}", 18 + (number >> 16), (number >> 8) & 0xff, number & 0xff)
}
