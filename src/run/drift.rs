//! What the engine holds beside what the API server has, compared when somebody asks for it: upstream's cache comparer
//! (`pkg/scheduler/backend/cache/debugger/comparer.go`).
//!
//! Upstream compares with its own informers, and calls a mismatch what is merely on its way. Here the API server is asked, and what
//! differs is looked at a second time a little later. Nothing is mended.

use crate::api::{Node, Pod};
use crate::driver::Inbox;
use crate::metrics::Metrics;
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;
use supercargo_core::scheduler::Scheduler;

/// Between the two looks: longer than an event takes to come by a watch.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Objects on a page of a list.
const PAGE: u32 = 500;
/// Upstream's watch has no others.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// What one side has: nodes by name, pods by uid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sight {
    nodes: BTreeSet<String>,
    pods: BTreeSet<String>,
}

/// What differs.
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

    /// What both looks found.
    fn lasting(&self, later: &Self) -> Self {
        let both = |a: &Sight, b: &Sight| Sight {
            nodes: a.nodes.intersection(&b.nodes).cloned().collect(),
            pods: a.pods.intersection(&b.pods).cloned().collect(),
        };
        Self { missed: both(&self.missed, &later.missed), redundant: both(&self.redundant, &later.redundant) }
    }
}

/// Compares, and tells log and metrics.
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

/// What differs now; `None` where one side cannot be asked.
async fn look(client: &kube::Client, inbox: &Inbox<Scheduler>) -> Option<Drift> {
    let listed = async {
        let nodes = list::<Node>(client, ListParams::default()).await?;
        let pods = list::<Pod>(client, ListParams::default().fields(NOT_ENDED)).await?;
        Ok::<_, kube::Error>((nodes, pods))
    };
    match listed.await {
        Ok((nodes, pods)) => inbox.ask(move |engine| drift(&nodes, &pods, engine)).await.ok(),
        Err(error) => {
            tracing::warn!(%error, "the cache cannot be compared: the API server does not tell what it has");
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

/// Whether the pod goes before it was placed: it is held until its next attempt, and no longer.
fn goes_unplaced(pod: &Pod) -> bool {
    let unplaced = pod.content().is_ok_and(|content| content.spec.node_name.is_empty());
    unplaced && pod.metadata.deletion_timestamp.is_some()
}

/// Of what the API server has, what the engine should hold: nodes, pods on them, and pods that wait for one of its profiles.
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
    use supercargo_core::event::{Event, Kind};
    use supercargo_core::queue::QueueConfig;
    use supercargo_core::rng::Seed;
    use supercargo_core::scheduler::{Config, Profile};
    use supercargo_core::time::Time;

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

    fn apply<K: crate::convert::Watched>(engine: &mut Scheduler, object: &K) {
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
    fn what_is_as_it_should_be_is_no_drift() {
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
    fn what_the_engine_lacks_and_what_it_should_not_have_are_told_apart() {
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
        assert_eq!(found.lasting(&mended), Drift::default(), "what was on its way is no drift");
    }
}
