//! Names of objects, for completion: one short list, within a short time, and no messages.

use crate::live::{LiveArgs, connection};
use http::Request;
use http::header::ACCEPT;
use kube::config::Kubeconfig;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use supercargo_apiserver::client;

/// Maximum time of a completion: a person waits for it with the hands on the keyboard.
const WITHIN: Duration = Duration::from_secs(2);
/// Maximum number of names: more are no help in a terminal.
const NAMES_MAX: usize = 500;
/// Asks for names without specs.
const ONLY_METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Objects whose names are completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// All pods.
    Pods,
    /// Pods without a node.
    PendingPods,
    /// Pod groups, in the first version of their API that is served.
    PodGroups,
    /// Nodes.
    Nodes,
    /// Namespaces.
    Namespaces,
    /// Workloads of this kind.
    Workloads(&'static str),
}

impl Named {
    /// Returns the paths to try in turn.
    fn paths(self, namespace: &str) -> Vec<String> {
        let within =
            |group: &str, plural: &str| format!("{group}/namespaces/{namespace}/{plural}?limit={NAMES_MAX}");
        match self {
            Self::Pods => vec![within("/api/v1", "pods")],
            Self::PendingPods => vec![within("/api/v1", "pods") + "&fieldSelector=spec.nodeName%3D"],
            Self::PodGroups => {
                let versions = ["v1beta1", "v1alpha2"];
                versions
                    .map(|version| within(&format!("/apis/scheduling.k8s.io/{version}"), "podgroups"))
                    .to_vec()
            }
            Self::Nodes => vec![format!("/api/v1/nodes?limit={NAMES_MAX}")],
            Self::Namespaces => vec![format!("/api/v1/namespaces?limit={NAMES_MAX}")],
            Self::Workloads(kind) => {
                let group = match kind {
                    "Job" => "/apis/batch/v1",
                    "ReplicationController" => "/api/v1",
                    _ => "/apis/apps/v1",
                };
                vec![within(group, &format!("{}s", kind.to_lowercase()))]
            }
        }
    }
}

/// Which cluster and namespace to list.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The kubeconfig; kubectl's if `None`.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    pub context: Option<String>,
    /// The namespace; that of the context if `None`.
    pub namespace: Option<String>,
}

/// Returns the names, or none if the cluster does not give them in time.
pub fn names(of: Listed, kind: Named) -> Vec<String> {
    let (sender, names) = channel();
    // A credential plugin may block, so the thread is left behind when the time is over.
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            // The receiver may have stopped waiting.
            let _ = sender.send(runtime.block_on(list(of, kind)).unwrap_or_default());
            runtime.shutdown_background();
        }
    });
    names.recv_timeout(WITHIN).unwrap_or_default()
}

async fn list(of: Listed, kind: Named) -> Option<Vec<String>> {
    let args = LiveArgs { kubeconfig: of.kubeconfig, context: of.context, request_timeout: WITHIN };
    let config = connection(&args).await.ok()?;
    let client = client::builder(&config).ok()?.build();
    let namespace = of.namespace.unwrap_or(config.default_namespace);
    for path in kind.paths(&namespace) {
        let request = Request::get(path).header(ACCEPT, ONLY_METADATA).body(Vec::new()).ok()?;
        let Ok(text) = client.request_text(request).await else { continue };
        let list: Value = serde_json::from_str(&text).ok()?;
        let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names = items.iter().filter_map(|item| item["metadata"]["name"].as_str());
        return Some(names.map(str::to_owned).collect());
    }
    None
}

/// Returns the names of the contexts of a kubeconfig, or of kubectl's.
pub fn contexts(file: Option<PathBuf>) -> Vec<String> {
    let read = file.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    let contexts = read.map(|config| config.contexts).unwrap_or_default();
    contexts.into_iter().map(|context| context.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_kinds() {
        for (kind, path) in [
            (Named::Workloads("StatefulSet"), "/apis/apps/v1/namespaces/shop/statefulsets?limit=500"),
            (Named::Workloads("Job"), "/apis/batch/v1/namespaces/shop/jobs?limit=500"),
            (
                Named::Workloads("ReplicationController"),
                "/api/v1/namespaces/shop/replicationcontrollers?limit=500",
            ),
            (Named::PodGroups, "/apis/scheduling.k8s.io/v1beta1/namespaces/shop/podgroups?limit=500"),
            (Named::PendingPods, "/api/v1/namespaces/shop/pods?limit=500&fieldSelector=spec.nodeName%3D"),
            (Named::Nodes, "/api/v1/nodes?limit=500"),
        ] {
            assert_eq!(kind.paths("shop")[0], path);
        }
    }

    #[test]
    fn cluster_that_cannot_be_asked_has_no_names() {
        let of = Listed { kubeconfig: Some("no-such-file".into()), ..Listed::default() };
        assert_eq!(names(of, Named::Nodes), [""; 0]);
        assert_eq!(contexts(Some("no-such-file".into())), [""; 0]);
    }
}
