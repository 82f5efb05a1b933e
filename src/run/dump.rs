//! Logs the engine's cache and queue on SIGUSR2, and starts a comparison with the API server. Read-only.
//!
//! Upstream: `pkg/scheduler/backend/cache/debugger`, whose headings are kept. Each pending pod also has its queue,
//! what it waits for and since when.

use super::drift;
use super::questions::Questions;
use crate::engine::Inbox;
use crate::telemetry::metrics::Metrics;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::queue::{QueuedPod, SubQueue};
use supercargo_core::scheduler::Scheduler;
use supercargo_whatif::pending::moment;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Timeout for the comparison with the API server.
const COMPARED_WITHIN: Duration = Duration::from_secs(60);

/// Multi-line texts of nodes and queue.
#[derive(Debug)]
struct Dump {
    nodes: String,
    summary: String,
    pods: String,
}

/// On each SIGUSR2, logs a dump and starts a comparison, until the engine has ended.
pub(super) async fn on_signal(
    inbox: Inbox<Scheduler>,
    client: kube::Client,
    metrics: Arc<Metrics>,
) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut asked = signal(SignalKind::user_defined2())?;
    let mut comparison: Option<JoinHandle<()>> = None;
    while asked.recv().await.is_some() {
        let Ok(dump) = inbox.ask(dump).await else { break };
        tracing::info!(nodes = %dump.nodes, "Dump of cached NodeInfo");
        tracing::info!(summary = %dump.summary, pods = %dump.pods, "Dump of scheduling queue");
        // Upstream compares first. Here the dump does not wait for the API server.
        if comparison.as_ref().is_none_or(JoinHandle::is_finished) {
            let (client, inbox, metrics) = (client.clone(), inbox.clone(), Arc::clone(&metrics));
            comparison = Some(tokio::spawn(async move {
                if timeout(COMPARED_WITHIN, drift::compare(&client, &inbox, &metrics)).await.is_err() {
                    tracing::warn!("cannot compare the cache: the API server does not answer");
                }
            }));
        }
    }
    Ok(())
}

/// Returns the nodes' dump for `/debug/cache`.
pub(super) async fn nodes_of(questions: Questions) -> Option<String> {
    questions.ask(nodes).await
}

/// Returns the queue's dump for `/debug/queue`.
pub(super) async fn queue_of(questions: Questions) -> Option<String> {
    let (summary, pods) = questions.ask(queue).await?;
    Some(format!("{summary}\n{pods}"))
}

fn dump(engine: &Scheduler) -> Dump {
    let (summary, pods) = queue(engine);
    Dump { nodes: nodes(engine), summary, pods }
}

/// Returns a summary of queue lengths, and one line per pending pod.
fn queue(engine: &Scheduler) -> (String, String) {
    let stats = engine.stats();
    let count = |place: SubQueue| stats.queue.pending.get(&place).copied().unwrap_or(0);
    let summary = format!(
        "activeQ:{}; backoffQ:{}; unschedulablePods:{}",
        count(SubQueue::Active),
        count(SubQueue::Backoff),
        count(SubQueue::Unschedulable) + count(SubQueue::Gated)
    );
    let mut pods = String::new();
    for (place, queued) in engine.queue().waiting() {
        write_pending(&mut pods, engine, place, queued);
    }
    for (queued, node, since) in engine.waiting_for_volumes() {
        write_pod(&mut pods, engine, &queued.pod);
        let node = engine.snapshot().text(node);
        let (since, attempts) = (moment(since), queued.attempts);
        let _ = writeln!(
            pods,
            ", queue: none, waits for: its volumes on node {node}, since: {since}, attempts: {attempts}"
        );
    }
    (summary, pods)
}

fn nodes(engine: &Scheduler) -> String {
    let (mut text, snapshot) = (String::new(), engine.snapshot());
    for idx in snapshot.nodes().iter() {
        let (info, requested) = (snapshot.node_info(idx), snapshot.requested(idx));
        let _ = writeln!(text, "Node name: {}", snapshot.text(info.name));
        for (what, resources, pods) in [
            ("Requested Resources", requested, snapshot.pods_on(idx).count() as i64),
            ("Allocatable Resources", &info.allocatable, info.allocatable_pods),
        ] {
            let _ = write!(
                text,
                "{what}: cpu {}m, memory {}, ephemeral-storage {}, pods {pods}",
                resources.cpu_milli, resources.memory, resources.ephemeral_storage
            );
            for &(name, amount) in &resources.scalar {
                let _ = write!(text, ", {} {amount}", snapshot.text(name));
            }
            text.push('\n');
        }
        let _ = writeln!(text, "Scheduled Pods(number: {}):", snapshot.pods_on(idx).count());
        for pod in snapshot.pods_on(idx) {
            write_pod(&mut text, engine, pod);
            text.push('\n');
        }
        let nominated = snapshot.nominated_on(idx);
        if !nominated.is_empty() {
            let _ = writeln!(text, "Nominated Pods(number: {}):", nominated.len());
            for pod in nominated {
                write_pod(&mut text, engine, pod);
                text.push('\n');
            }
        }
        text.push('\n');
    }
    text
}

fn write_pod(text: &mut String, engine: &Scheduler, pod: &PodInfo) {
    let snapshot = engine.snapshot();
    let nominated = pod.nominated_node.map_or("", |node| snapshot.text(node));
    let namespace = snapshot.text(pod.namespace);
    let _ = write!(
        text,
        "name: {}, namespace: {namespace}, uid: {}, nominated node: {nominated}",
        pod.name, pod.uid
    );
}

fn write_pending(text: &mut String, engine: &Scheduler, place: SubQueue, queued: &QueuedPod) {
    write_pod(text, engine, &queued.pod);
    let waits_for = match (place, queued.gate) {
        (SubQueue::Active, _) => "scheduling".to_owned(),
        (SubQueue::Backoff, _) => "end of backoff".to_owned(),
        (SubQueue::Gated, gate) => format!("PreEnqueue plugin {}", gate.unwrap_or("(unknown)")),
        (SubQueue::Unschedulable, _) => {
            let plugins: Vec<_> = queued.rejectors.iter().copied().collect();
            format!("an event relevant to {}", plugins.join(", "))
        }
    };
    let (place, since, attempts) = (place.as_str(), moment(queued.timestamp), queued.attempts);
    let _ = writeln!(text, ", queue: {place}, waits for: {waits_for}, since: {since}, attempts: {attempts}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use supercargo_core::cycle::Framework;
    use supercargo_core::cycle::NoProbe;
    use supercargo_core::model::event::{Event, Kind};
    use supercargo_core::model::rng::Seed;
    use supercargo_core::model::time::Time;
    use supercargo_core::queue::QueueConfig;
    use supercargo_core::scheduler::{Config, Profile, Step};

    fn applied<K: supercargo_objects::convert::Watched>(engine: &mut Scheduler, object: &K) {
        let event = object.applied(engine.tables()).expect("the object is well formed");
        engine.handle(Time::from_secs(1_800_000_000), event);
    }

    #[test]
    fn dump_shows_queue_reason_and_time_of_each_pending_pod() {
        let now = Time::from_secs(1_800_000_000);
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
        let (queue, seed) = (QueueConfig::default(), Seed(1));
        let mut engine = Scheduler::new(Config { seed, profiles: vec![profile], queue }, now);
        for kind in Kind::ALL {
            engine.handle(now, Event::ListBegan(kind));
            engine.handle(now, Event::ListEnded(kind));
        }
        let node: supercargo_objects::api::Node = serde_json::from_str(
            r#"{"metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"10"}}}"#,
        )
        .unwrap();
        applied(&mut engine, &node);
        let pod = |name: &str, spec: &str| -> supercargo_objects::api::Pod {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"team","uid":"u-{name}"}},
                    "spec":{{"schedulerName":"default-scheduler","containers":[{{"name":"c","resources":{{"requests":
                    {{"cpu":"3"}}}}}}]{spec}}}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        applied(&mut engine, &pod("there", r#","nodeName":"n1""#));
        applied(&mut engine, &pod("large", ""));
        while !matches!(engine.step(now, &mut NoProbe), Step::Idle { .. }) {}
        applied(&mut engine, &pod("held", r#","schedulingGates":[{"name":"g"}]"#));
        let class: supercargo_objects::api::StorageClass = serde_json::from_str(
            r#"{"metadata":{"name":"fast"},"provisioner":"p","volumeBindingMode":"WaitForFirstConsumer"}"#,
        )
        .unwrap();
        applied(&mut engine, &class);
        let claim: supercargo_objects::api::PersistentVolumeClaim = serde_json::from_str(
            r#"{"metadata":{"name":"c","namespace":"team","uid":"u-c"},"spec":{"storageClassName":"fast"}}"#,
        )
        .unwrap();
        applied(&mut engine, &claim);
        let slow: supercargo_objects::api::Pod = serde_json::from_str(
            r#"{"metadata":{"name":"slow","namespace":"team","uid":"u-slow"},"spec":{"schedulerName":"default-scheduler",
                "containers":[{"name":"c"}],"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]}}"#,
        )
        .unwrap();
        applied(&mut engine, &slow);
        while !matches!(engine.step(now, &mut NoProbe), Step::Idle { .. }) {}
        let dump = dump(&engine);
        assert_eq!(dump.summary, "activeQ:0; backoffQ:0; unschedulablePods:2");
        assert_eq!(
            dump.pods,
            "name: large, namespace: team, uid: u-large, nominated node: , queue: unschedulable, waits for: an event \
             relevant to NodeResourcesFit, since: 2027-01-15T08:00:00Z, attempts: 1\n\
             name: held, namespace: team, uid: u-held, nominated node: , queue: gated, waits for: PreEnqueue plugin SchedulingGates, \
             since: 2027-01-15T08:00:00Z, attempts: 0\n\
             name: slow, namespace: team, uid: u-slow, nominated node: , queue: none, waits for: its volumes on node n1, \
             since: 2027-01-15T08:00:00Z, attempts: 1\n"
        );
        assert_eq!(
            dump.nodes,
            "Node name: n1\n\
             Requested Resources: cpu 3000m, memory 0, ephemeral-storage 0, pods 2\n\
             Allocatable Resources: cpu 4000m, memory 8589934592, ephemeral-storage 0, pods 10\n\
             Scheduled Pods(number: 2):\n\
             name: there, namespace: team, uid: u-there, nominated node: \n\
             name: slow, namespace: team, uid: u-slow, nominated node: \n\n"
        );
    }
}
