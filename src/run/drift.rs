//! Compares the engine's cache with the API server on SIGUSR2, like upstream's cache comparer
//! (`pkg/scheduler/backend/cache/debugger/comparer.go`).
//!
//! Upstream compares with its informers and also reports objects whose events are still on the way. Here, the API
//! server is listed, and differences are checked again a little later. Nothing is repaired.

use crate::engine::Inbox;
use crate::telemetry::metrics::Metrics;
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;
use supercargo_core::scheduler::Scheduler;
use supercargo_objects::api::{Node, Pod};

/// Delay before the second comparison: longer than a watch event takes to arrive.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Page size of lists, in objects.
const PAGE: u32 = 500;
/// Field selector of non-terminal pods, as upstream's watch uses it.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The objects of one side: nodes by name, pods by UID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sight {
    nodes: BTreeSet<String>,
    pods: BTreeSet<String>,
}

/// The differences between engine and API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Drift {
    missed: Sight,
    redundant: Sight,
}

impl Drift {
    fn between(server: &Sight, engine: &Sight) -> Self {
        let less = |a: &Sight, b: &Sight| Sight {
            nodes: a.nodes.difference(&b.nodes).cloned().collect(),
            pods: a.pods.difference(&b.pods).cloned().collect(),
        };
        Self { missed: less(server, engine), redundant: less(engine, server) }
    }

    /// Returns the differences found by both comparisons.
    fn lasting(&self, later: &Self) -> Self {
        let both = |a: &Sight, b: &Sight| Sight {
            nodes: a.nodes.intersection(&b.nodes).cloned().collect(),
            pods: a.pods.intersection(&b.pods).cloned().collect(),
        };
        Self { missed: both(&self.missed, &later.missed), redundant: both(&self.redundant, &later.redundant) }
    }
}

/// Runs the comparison and records its result in the log and metrics.
pub(super) async fn compare(client: &kube::Client, inbox: &Inbox<Scheduler>, metrics: &Metrics) {
    tracing::debug!("Cache comparer started");
    let Some(first) = look(client, inbox).await else { return };
    let drift = if first == Drift::default() {
        first
    } else {
        tokio::time::sleep(LOOK_AGAIN).await;
        let Some(second) = look(client, inbox).await else { return };
        first.lasting(&second)
    };
    let Drift { missed, redundant } = &drift;
    if !missed.nodes.is_empty() || !redundant.nodes.is_empty() {
        tracing::info!(missedNodes = ?missed.nodes, redundantNodes = ?redundant.nodes, "Cache mismatch");
    }
    if !missed.pods.is_empty() || !redundant.pods.is_empty() {
        tracing::info!(missedPods = ?missed.pods, redundantPods = ?redundant.pods, "Cache mismatch");
    }
    metrics.drifted("Node", missed.nodes.len(), redundant.nodes.len());
    metrics.drifted("Pod", missed.pods.len(), redundant.pods.len());
    tracing::debug!("Cache comparer finished");
}

/// Returns the current differences, or `None` if either side does not answer.
async fn look(client: &kube::Client, inbox: &Inbox<Scheduler>) -> Option<Drift> {
    let listed = async {
        let nodes = list::<Node>(client, ListParams::default()).await?;
        let pods = list::<Pod>(client, ListParams::default().fields(NOT_ENDED)).await?;
        Ok::<_, kube::Error>((nodes, pods))
    };
    match listed.await {
        Ok((nodes, pods)) => inbox.ask(move |engine| drift(&nodes, &pods, engine)).await.ok(),
        Err(error) => {
            tracing::warn!(%error, "cannot compare the cache: listing nodes and pods from the API server failed");
            None
        }
    }
}

async fn list<K>(client: &kube::Client, params: ListParams) -> kube::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
{
    let (api, mut params) = (Api::<K>::all(client.clone()), params.limit(PAGE));
    let mut all = Vec::new();
    loop {
        let page = api.list(&params).await?;
        all.extend(page.items);
        params.continue_token = page.metadata.continue_.filter(|more| !more.is_empty());
        if params.continue_token.is_none() {
            return Ok(all);
        }
    }
}

fn drift(nodes: &[Node], pods: &[Pod], engine: &Scheduler) -> Drift {
    let (server, mut held) = (of_server(nodes, pods, engine), of_engine(engine));
    for pod in pods.iter().filter(|pod| goes_unplaced(pod)) {
        held.pods.remove(pod.metadata.uid.as_deref().unwrap_or_default());
    }
    Drift::between(&server, &held)
}

/// Reports whether the pod is terminating without a node. The engine holds such a pod only until its next attempt.
fn goes_unplaced(pod: &Pod) -> bool {
    let unplaced = pod.content().is_ok_and(|content| content.spec.node_name.is_empty());
    unplaced && pod.metadata.deletion_timestamp.is_some()
}

/// Returns the objects of the API server that the engine should hold: nodes, their pods, and pending pods of its
/// profiles.
fn of_server(nodes: &[Node], pods: &[Pod], engine: &Scheduler) -> Sight {
    let nodes: BTreeSet<String> = nodes.iter().filter_map(|node| node.metadata.name.clone()).collect();
    let profiles: BTreeSet<&str> = engine.profile_names().collect();
    let held = pods.iter().filter(|pod| {
        let Ok(content) = pod.content() else { return false };
        let spec = &content.spec;
        if spec.node_name.is_empty() {
            !goes_unplaced(pod) && profiles.contains(spec.scheduler_name.as_str())
        } else {
            nodes.contains(&spec.node_name)
        }
    });
    let pods = held.filter_map(|pod| pod.metadata.uid.clone()).collect();
    Sight { nodes, pods }
}

fn of_engine(engine: &Scheduler) -> Sight {
    let snapshot = engine.snapshot();
    let mut sight = Sight::default();
    for idx in snapshot.nodes().iter() {
        sight.nodes.insert(snapshot.text(snapshot.node_info(idx).name).to_owned());
        sight.pods.extend(snapshot.pods_on(idx).map(|pod| pod.uid.to_string()));
    }
    sight.pods.extend(engine.queue().waiting().map(|(_, queued)| queued.pod.uid.to_string()));
    sight.pods.extend(engine.waiting_for_volumes().map(|(queued, _, _)| queued.pod.uid.to_string()));
    sight
}

#[cfg(test)]
mod tests {
    use super::*;
    use supercargo_core::cycle::Framework;
    use supercargo_core::model::event::{Event, Kind};
    use supercargo_core::model::rng::Seed;
    use supercargo_core::model::time::Time;
    use supercargo_core::queue::QueueConfig;
    use supercargo_core::scheduler::{Config, Profile};

    const NOW: Time = Time::from_secs(1_800_000_000);

    fn engine(nodes: &[Node], pods: &[Pod]) -> Scheduler {
        let profile = Profile { name: "ours".to_owned(), framework: Framework::default() };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
        let mut engine = Scheduler::new(config, NOW);
        for kind in Kind::ALL {
            engine.handle(NOW, Event::ListBegan(kind));
            engine.handle(NOW, Event::ListEnded(kind));
        }
        nodes.iter().for_each(|node| apply(&mut engine, node));
        pods.iter().for_each(|pod| apply(&mut engine, pod));
        engine
    }

    fn apply<K: supercargo_objects::convert::Watched>(engine: &mut Scheduler, object: &K) {
        let event = object.applied(engine.tables()).expect("the object is well formed");
        engine.handle(NOW, event);
    }

    fn node(name: &str) -> Node {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}"}},"status":{{"allocatable":{{"cpu":"4","pods":"10"}}}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn pod(name: &str, scheduler: &str, node: &str, going: bool) -> Pod {
        let going = if going { r#","deletionTimestamp":"2027-01-01T00:00:00Z""# } else { "" };
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"team","uid":"{name}"{going}}},
                "spec":{{"schedulerName":"{scheduler}","nodeName":"{node}","containers":[{{"name":"c"}}]}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn consistent_cache_shows_no_drift() {
        let nodes = [node("a"), node("b")];
        let pods = [
            pod("placed", "ours", "a", false),
            pod("of-another", "theirs", "b", false),
            pod("waits", "ours", "", false),
            pod("goes", "ours", "", true),
            pod("waits-for-another", "theirs", "", false),
            pod("on-no-node", "ours", "gone", false),
        ];
        let engine = engine(&nodes, &pods);
        assert_eq!(drift(&nodes, &pods, &engine), Drift::default());
    }

    #[test]
    fn missed_and_redundant_objects_are_reported_separately() {
        let nodes = [node("a"), node("b")];
        let pods = [pod("placed", "ours", "a", false), pod("waits", "ours", "", false)];
        let stale = engine(
            &[node("a"), node("old")],
            &[pod("placed", "ours", "a", false), pod("gone", "ours", "a", false)],
        );
        let found = drift(&nodes, &pods, &stale);
        let names = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(",");
        assert_eq!((names(&found.missed.nodes), names(&found.redundant.nodes)), ("b".into(), "old".into()));
        assert_eq!(
            (names(&found.missed.pods), names(&found.redundant.pods)),
            ("waits".into(), "gone".into())
        );
        let mended = drift(&nodes, &pods, &engine(&nodes, &pods));
        assert_eq!(found.lasting(&mended), Drift::default(), "events still on the way are no drift");
    }
}
