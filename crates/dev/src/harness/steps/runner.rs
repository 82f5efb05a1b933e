//! Runs examples against an API server: creates the four nodes, performs steps, and restores the initial state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::super::nodes::is_ready;
use super::super::wait::{PATIENCE, wait_for};
use super::super::{Access, ControlPlane};
use super::{Claim, Example, Expectation, Step, View, examples_dir};

/// Timeout of an expectation.
const EXPECTATION: Duration = Duration::from_secs(30);

/// Prefix of node lifecycle taints, which examples do not set.
const LIFECYCLE: &str = "node.kubernetes.io/";

/// Prefix of labels that kube-controller-manager adds to nodes at some point; examples cannot change them.
const RECONCILED: &str = "beta.kubernetes.io/";

/// Properties of a node that an example must restore, as text: labels, taints, cordon and images.
type Face = String;

/// An API server with the four nodes.
pub struct Runner {
    access: Access,
    client: Client,
    /// The nodes before the first example.
    nodes: BTreeMap<String, Face>,
}

impl Runner {
    /// Creates the four nodes and waits until they accept pods.
    pub async fn new(plane: &ControlPlane) -> Result<Self> {
        let (access, client) = (plane.admin(), plane.client().await?);
        access.apply_path(&examples_dir().join("nodes.yaml")).await?;
        let api = Api::<Node>::all(client.clone());
        let nodes = wait_for("the four nodes to be ready and free of lifecycle taints", PATIENCE, || async {
            let nodes = api.list(&ListParams::default()).await?.items;
            for node in &nodes {
                ensure!(is_ready(node), "{} is not ready (kwok sets this condition)", node.name_any());
                let taint = taints(node).find(|key| key.starts_with(LIFECYCLE));
                ensure!(taint.is_none(), "{} still has the taint {taint:?}", node.name_any());
            }
            Ok(faces(&nodes))
        })
        .await?;
        Ok(Self { access, client, nodes })
    }

    /// Runs all steps of an example, and its cleanup in any case. The error names the line.
    pub async fn run(&self, example: &Example) -> Result<()> {
        let outcome = self.perform_all(example).await;
        let tidied = self.tidy_up(example).await;
        outcome.and(tidied).with_context(|| format!("examples/{}", example.name))
    }

    /// Performs one step. An expectation is retried until it holds.
    pub async fn perform(&self, example: &Example, step: &Step) -> Result<()> {
        match step {
            Step::Say(_) => Ok(()),
            Step::Kubectl(words) => self.kubectl(example, words).await.map(drop),
            Step::Supercargo(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.access.supercargo_in(&example.folder, &words).await.map(drop)
            }
            Step::Expect(expectation) => self.expect(example, expectation).await,
        }
    }

    /// Returns the current state of the example's namespace.
    pub async fn view(&self, example: &Example) -> Result<View> {
        let all = ListParams::default();
        let pods = Api::<Pod>::namespaced(self.client.clone(), example.namespace());
        let events = Api::<Event>::namespaced(self.client.clone(), example.namespace());
        let nodes = Api::<Node>::all(self.client.clone()).list(&all).await?.items;
        Ok(View {
            pods: pods.list(&all).await?.items,
            nodes: nodes.into_iter().map(|node| (node.name_any(), node)).collect(),
            events: events.list(&all).await?.items,
        })
    }

    /// Runs the `finally` lines, then waits until the namespace has no pods and the nodes are restored.
    pub async fn tidy_up(&self, example: &Example) -> Result<()> {
        for words in &example.finally {
            // A line with nothing to undo may fail; anything left is detected below.
            let _ = self.kubectl(example, words).await;
        }
        wait_for("the nodes to be restored and the example's pods to be gone", PATIENCE, || async {
            let view = self.view(example).await?;
            let left: Vec<String> = view.pods.iter().map(ResourceExt::name_any).collect();
            ensure!(left.is_empty(), "pods {} remain", left.join(", "));
            let nodes: Vec<Node> = view.nodes.into_values().collect();
            let changed = self.changed(&faces(&nodes));
            ensure!(changed.is_empty(), "{}", changed.join("; "));
            Ok(())
        })
        .await
    }

    /// Waits until the examples' namespaces are deleted.
    pub async fn wait_for_the_namespaces_to_go(&self, examples: &[&Example]) -> Result<()> {
        let api = Api::<Namespace>::all(self.client.clone());
        for example in examples {
            let name = example.namespace();
            wait_for(&format!("namespace {name} to be gone"), PATIENCE, || async {
                ensure!(api.get_opt(name).await?.is_none(), "it still exists");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Returns the nodes' differences from the initial state.
    fn changed(&self, seen: &BTreeMap<String, Face>) -> Vec<String> {
        let names: BTreeSet<&String> = self.nodes.keys().chain(seen.keys()).collect();
        let describe = |face: Option<&Face>| face.map_or_else(|| String::from("missing"), Clone::clone);
        names
            .into_iter()
            .filter(|name| self.nodes.get(*name) != seen.get(*name))
            .map(|name| {
                let (was, is) = (describe(self.nodes.get(name)), describe(seen.get(name)));
                format!("{name} was {was} and is {is}")
            })
            .collect()
    }

    async fn perform_all(&self, example: &Example) -> Result<()> {
        for step in &example.steps {
            self.perform(example, step).await?;
        }
        Ok(())
    }

    async fn kubectl(&self, example: &Example, words: &[String]) -> Result<String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.access.kubectl_in(&example.folder, &words).await
    }

    async fn expect(&self, example: &Example, expectation: &Expectation) -> Result<()> {
        if matches!(expectation.claim, Claim::NoEvent { .. }) {
            let judged = expectation.judge(&self.view(example).await?);
            return judged.with_context(|| format!("expected {expectation}"));
        }
        let what = format!("`expect {expectation}`");
        wait_for(&what, EXPECTATION, || async { expectation.judge(&self.view(example).await?) }).await
    }
}

fn faces(nodes: &[Node]) -> BTreeMap<String, Face> {
    nodes.iter().map(|node| (node.name_any(), face(node))).collect()
}

fn face(node: &Node) -> Face {
    let spec = node.spec.clone().unwrap_or_default();
    let images = node.status.iter().flat_map(|status| status.images.iter().flatten());
    let labels: Vec<String> = node
        .labels()
        .iter()
        .filter(|(key, _)| !key.starts_with(RECONCILED))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let images: Vec<&String> = images.flat_map(|image| image.names.iter().flatten()).collect();
    let taints: Vec<&str> = taints(node).collect();
    let cordoned = spec.unschedulable.unwrap_or_default();
    format!("{{labels {labels:?}, taints {taints:?}, images {images:?}, cordoned {cordoned}}}")
}

fn taints(node: &Node) -> impl Iterator<Item = &str> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.map(|taint| taint.key.as_str())
}
