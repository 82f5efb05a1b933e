//! Events and conditions of pods have the fields that kube-scheduler v1.36 sets.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::harness::wait::PATIENCE;
use crate::harness::{Component, ControlPlane, supercargo, wait_for};
use crate::world::{World, play, play_on, requesting, scheduled_condition};

#[tokio::test]
async fn placed_pod_has_one_event_with_upstream_fields() -> Result<()> {
    play("placed", async |world| {
        let node = world.node("a");
        node.create(&world.client).await?;
        let created = world.create("web", &json!({})).await?;
        world.bound("web").await?;
        let events = world.events("web", "Scheduled").await?;
        let [event] = &events[..] else { panic!("one event, not {}", events.len()) };
        let note = format!("Successfully assigned {}/web to {}", world.name, node.name());
        check_event(world, event, &created, "Normal", "Binding", &note)?;
        let condition = world.pods().get("web").await?;
        let condition = scheduled_condition(&condition).context("no condition")?;
        assert_eq!(condition.status, "True", "the API server's own, once the pod is bound");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn pending_pod_has_upstream_condition_and_event() -> Result<()> {
    play("waits", async |world| {
        world.node("a").allocatable("cpu", "1").create(&world.client).await?;
        let created = world.create("big", &requesting(&json!({"cpu": "2"}))).await?;
        let pod = world.waiting("big", "1 Insufficient cpu").await?;
        let condition = scheduled_condition(&pod).context("no condition")?;
        let message = condition.message.clone().unwrap_or_default();
        ensure!(message.starts_with("0/") && message.contains(" nodes are available: "), "{message}");
        assert_eq!(condition.reason.as_deref(), Some("Unschedulable"));
        assert_eq!(condition.observed_generation, pod.metadata.generation);
        ensure!(condition.last_transition_time.is_some(), "there is a transition time");
        assert_eq!(condition.last_probe_time, None);
        assert_eq!(pod.status.as_ref().and_then(|status| status.nominated_node_name.clone()), None);

        let events = world.events("big", "FailedScheduling").await?;
        // Other tests add nodes, so a second attempt may count differently; the first event is of the first attempt.
        let first = events.iter().min_by_key(|event| event.event_time.clone()).context("no event")?;
        let note = first.note.clone().unwrap_or_default();
        ensure!(note.starts_with("0/") && note.contains("1 Insufficient cpu"), "{note}");
        check_event(world, first, &created, "Warning", "Scheduling", &note)
    })
    .await
}

/// Checks the fields common to both kinds of events. The pod reference is of the version that the scheduler saw.
fn check_event(
    world: &World<'_>,
    event: &Event,
    pod: &Pod,
    kind: &str,
    action: &str,
    note: &str,
) -> Result<()> {
    assert_eq!(event.type_.as_deref(), Some(kind));
    assert_eq!(event.action.as_deref(), Some(action));
    assert_eq!(event.note.as_deref(), Some(note));
    assert_eq!(event.reporting_controller.as_deref(), Some(&*world.name));
    let instance = event.reporting_instance.clone().unwrap_or_default();
    ensure!(instance.starts_with(&format!("{}-", world.name)), "the instance is {instance}");
    assert_eq!(event.metadata.namespace.as_deref(), Some(&*world.name));
    ensure!(event.event_time.is_some() && event.related.is_none() && event.deprecated_count.is_none());
    ensure!(event.metadata.labels.is_none() && event.metadata.owner_references.is_none());
    let regarding = event.regarding.as_ref().context("no regarding object")?;
    assert_eq!(regarding.kind.as_deref(), Some("Pod"));
    assert_eq!(regarding.api_version.as_deref(), Some("v1"));
    assert_eq!(regarding.namespace, pod.metadata.namespace);
    assert_eq!(regarding.name, pod.metadata.name);
    assert_eq!(regarding.uid, pod.metadata.uid);
    assert_eq!(regarding.resource_version, pod.metadata.resource_version);
    // <pod>.<16 hexadecimal digits of the time>
    let name = event.name_any();
    let stamp = name.strip_prefix(&format!("{}.", pod.name_any())).unwrap_or_default();
    ensure!(stamp.len() == 16 && stamp.chars().all(|c| c.is_ascii_hexdigit()), "the event's name is {name}");
    Ok(())
}

/// The first failure changes the pod's condition, and with it the resource version in the second failure's event.
/// From the third failure on nothing changes, so the second event becomes a series.
///
/// Messages count all nodes, so the test has its own control plane.
#[tokio::test]
async fn repeated_failure_becomes_a_series_of_the_second_event() -> Result<()> {
    let parts = [Component::ControllerManager, Component::Kwok];
    let plane = ControlPlane::builder().with(parts).start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, "series", async |world| {
        // zone-a is one pod ahead and may not get another; zone-b is full.
        let near = world.node("a").label("zone", "a");
        let far = world.node("b").label("zone", "b").allocatable("cpu", "1");
        near.create(&world.client).await?;
        far.create(&world.client).await?;
        let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}}]);
        let mut waiting = requesting(&json!({"cpu": "2"}));
        waiting["topologySpreadConstraints"] = spread;
        neighbour(world, "before", near.name()).await?;
        create_web(world, "waiting", &waiting).await?;
        let text = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints.";
        world.waiting("waiting", text).await?;
        // Every pod that counts for the constraint triggers a new attempt.
        for attempt in 1..=3 {
            let series = format!("scheduler_schedule_attempts_total{{profile=\"{}\",result=\"unschedulable\"}}", world.name);
            world.counted(&series, f64::from(attempt)).await?;
            neighbour(world, &format!("neighbour-{attempt}"), near.name()).await?;
        }
        let mut events = wait_for("the second event to be a series", PATIENCE, || async {
            let events = world.events("waiting", "FailedScheduling").await?;
            ensure!(events.iter().any(|event| event.series.is_some()), "{} events without series", events.len());
            Ok(events)
        })
        .await?;
        events.sort_by_key(|event| event.event_time.clone());
        assert_eq!(events.len(), 2, "two versions of the pod, two events");
        assert_eq!(events[0].series, None);
        let series = events[1].series.as_ref().context("the second is the series")?;
        assert_eq!(series.count, 2);
        ensure!(Some(&series.last_observed_time) > events[1].event_time.as_ref(), "last observed later");
        assert_eq!(events[0].note, events[1].note);
        let version = |event: &Event| event.regarding.as_ref().and_then(|object| object.resource_version.clone());
        assert_ne!(version(&events[0]), version(&events[1]));
        Ok(())
    })
    .await
}

/// Creates a pod with the label `app=web`.
async fn create_web(world: &World<'_>, name: &str, spec: &Value) -> Result<()> {
    let mut pod = world.pod(name, spec)?;
    pod.labels_mut().insert(String::from("app"), String::from("web"));
    world.pods().create(&PostParams::default(), &pod).await?;
    Ok(())
}

/// Creates such a pod directly on this node.
async fn neighbour(world: &World<'_>, name: &str, node: &str) -> Result<()> {
    create_web(world, name, &json!({"nodeName": node})).await
}
