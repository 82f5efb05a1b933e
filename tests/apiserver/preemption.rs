//! Preemption on a real API server: a pod of higher priority replaces one of lower priority, and all visible effects
//! equal kube-scheduler's.
//!
//! A finalizer holds victims so that tests can observe the time between their deletion and their end.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::harness::binaries::chosen_minor;
use crate::harness::wait::PATIENCE;
use crate::harness::{Access, Component, ControlPlane, supercargo, wait_for};
use crate::world::{World, play, play_on, requesting, scheduled_condition};

const HOLD: &str = "example.com/hold";

/// Creates a PriorityClass, unless it exists.
async fn class(admin: &Access, name: &str, value: i32, policy: &str) -> Result<()> {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
        "value": value, "preemptionPolicy": policy,
    });
    admin.apply(&class.to_string()).await?;
    Ok(())
}

async fn classes(world: &World<'_>) -> Result<()> {
    let admin = world.plane.admin();
    class(&admin, "low", 10, "PreemptLowerPriority").await?;
    class(&admin, "middle", 20, "PreemptLowerPriority").await?;
    class(&admin, "high", 1_000, "PreemptLowerPriority").await?;
    class(&admin, "polite", 1_000, "Never").await
}

/// A pod of three CPUs; only one fits on a node of four.
fn of_class(class: &str) -> Value {
    let mut spec = requesting(&json!({"cpu": "3"}));
    spec["priorityClassName"] = json!(class);
    spec["terminationGracePeriodSeconds"] = json!(1);
    spec
}

/// Creates a pod whose deletion waits for `let_go`.
async fn create_held(world: &World<'_>, name: &str, spec: &Value) -> Result<Pod> {
    let mut pod = world.pod(name, spec)?;
    pod.finalizers_mut().push(HOLD.to_owned());
    Ok(world.pods().create(&PostParams::default(), &pod).await?)
}

async fn let_go(world: &World<'_>, name: &str) -> Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    world.pods().patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

fn disruption(pod: &Pod) -> Option<&PodCondition> {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == "DisruptionTarget")
}

fn nominated(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.nominated_node_name.as_deref()
}

fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Waits until the pod is nominated and returns it.
async fn wait_until_nominated(world: &World<'_>, name: &str) -> Result<Pod> {
    let pods = world.pods();
    wait_for(&format!("pod {name} to be nominated"), PATIENCE, || async {
        let pod = pods.get(name).await?;
        ensure!(nominated(&pod).is_some(), "{:?}", pod.status);
        Ok(pod)
    })
    .await
}

async fn wait_until_going(world: &World<'_>, name: &str) -> Result<Pod> {
    let pods = world.pods();
    wait_for(&format!("pod {name} to be deleted"), PATIENCE, || async {
        let pod = pods.get(name).await?;
        ensure!(is_going(&pod), "it is not being deleted");
        Ok(pod)
    })
    .await
}

/// Returns the current events with this reason about the pod.
async fn events_now(world: &World<'_>, pod: &str, reason: &str) -> Result<Vec<Event>> {
    let all =
        Api::<Event>::namespaced(world.client.clone(), &world.name).list(&ListParams::default()).await?;
    let about = |event: &Event| event.regarding.as_ref().and_then(|object| object.name.clone());
    let wanted =
        |event: &Event| event.reason.as_deref() == Some(reason) && about(event).as_deref() == Some(pod);
    Ok(all.items.into_iter().filter(wanted).collect())
}

#[tokio::test]
async fn higher_priority_pod_replaces_lower_priority_pod() -> Result<()> {
    play("preempts", async |world| {
        classes(world).await?;
        let node = world.node("a").allocatable("cpu", "4");
        node.create(&world.client).await?;
        create_held(world, "low", &of_class("low")).await?;
        world.bound("low").await?;
        let high = world.create("high", &of_class("high")).await?;

        let waiting = wait_until_nominated(world, "high").await?;
        assert_eq!(nominated(&waiting), Some(node.name()));
        let condition = scheduled_condition(&waiting).context("the nomination comes with the condition")?;
        let message = condition.message.clone().unwrap_or_default();
        // The message of the first attempt, or of a later one if that came before the poll.
        // From 1.37 on, it says whom the pod preempts.
        let reports_victims = chosen_minor() >= 37 && message.contains("preempting 1 victims");
        let is_first = reports_victims || !message.contains("preemption:");
        let is_later = message.contains("not eligible due to a terminating pod on the nominated node");
        ensure!(message.contains("1 Insufficient cpu") && (is_first || is_later), "{message}");

        let low = wait_until_going(world, "low").await?;
        let condition = disruption(&low).context("it has no DisruptionTarget condition")?;
        let text = format!("{}: preempting to accommodate a higher priority pod", world.name);
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_deref()),
            ("True", Some("PreemptionByScheduler"))
        );
        assert_eq!(condition.message, Some(text));
        ensure!(condition.last_transition_time.is_some() && condition.observed_generation.is_some());
        let events = world.events("low", "Preempted").await?;
        let [event] = &events[..] else { panic!("one event, not {}", events.len()) };
        let note = format!("Preempted by pod {} on node {}", high.uid().unwrap_or_default(), node.name());
        assert_eq!(event.note, Some(note));
        let related = event.related.as_ref().and_then(|it| it.name.as_deref());
        assert_eq!(related, (chosen_minor() < 36).then_some("high"));

        // While the victim is terminating, the preemptor waits and evicts no other pod.
        world.waiting("high", "Insufficient cpu").await?;
        let_go(world, "low").await?;
        assert_eq!(world.bound("high").await?, node.name());
        // Before 1.35, the API server keeps the nomination of a bound pod.
        let kept = (chosen_minor() < 35).then_some(node.name());
        assert_eq!(nominated(&world.pods().get("high").await?), kept);
        world.counted("scheduler_preemption_victims_sum", 1.0).await?;
        world.counted("scheduler_preemption_goroutines_execution_total{result=\"success\"}", 1.0).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn preemptor_is_bound_after_its_victims_are_gone() -> Result<()> {
    play("graceful", async |world| {
        classes(world).await?;
        let node = world.node("a").allocatable("cpu", "6");
        node.create(&world.client).await?;
        for name in ["low-1", "low-2"] {
            world.create(name, &of_class("low")).await?;
            world.bound(name).await?;
        }
        let mut big = of_class("high");
        big["containers"][0]["resources"]["requests"]["cpu"] = json!("6");
        world.create("high", &big).await?;
        assert_eq!(world.bound("high").await?, node.name());
        for name in ["low-1", "low-2"] {
            assert_eq!(world.events(name, "Preempted").await?.len(), 1);
        }
        world.counted("scheduler_preemption_victims_sum", 2.0).await
    })
    .await
}

#[tokio::test]
async fn victim_without_disruption_budget_is_preferred() -> Result<()> {
    play("budget", async |world| {
        classes(world).await?;
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "front", "namespace": world.name},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "front"}}},
        });
        world.plane.admin().apply(&budget.to_string()).await?;
        for name in ["a", "b"] {
            world.node(name).allocatable("cpu", "4").create(&world.client).await?;
        }
        let mut front = world.pod("front", &of_class("low"))?;
        front.labels_mut().insert("app".to_owned(), "front".to_owned());
        world.pods().create(&PostParams::default(), &front).await?;
        world.bound("front").await?;
        world.create("back", &of_class("middle")).await?;
        let there = world.bound("back").await?;

        world.create("high", &of_class("high")).await?;
        assert_eq!(world.bound("high").await?, there);
        let front = world.pods().get("front").await?;
        ensure!(!is_going(&front) && disruption(&front).is_none(), "{:?}", front.status);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn pod_that_never_preempts_stays_pending_with_reason() -> Result<()> {
    play("polite", async |world| {
        classes(world).await?;
        world.node("a").allocatable("cpu", "4").create(&world.client).await?;
        world.create("low", &of_class("low")).await?;
        world.bound("low").await?;
        world.create("polite", &of_class("polite")).await?;
        let text = "preemption: not eligible due to preemptionPolicy=Never.";
        let waiting = world.waiting("polite", text).await?;
        assert_eq!(nominated(&waiting), None);
        let low = world.pods().get("low").await?;
        ensure!(!is_going(&low) && disruption(&low).is_none(), "{:?}", low.status);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn pod_already_terminating_is_not_evicted() -> Result<()> {
    play("ending", async |world| {
        classes(world).await?;
        let node = world.node("a").allocatable("cpu", "4");
        node.create(&world.client).await?;
        create_held(world, "low", &of_class("low")).await?;
        world.bound("low").await?;
        world.pods().delete("low", &DeleteParams::default()).await?;
        wait_until_going(world, "low").await?;

        world.create("high", &of_class("high")).await?;
        let waiting = wait_until_nominated(world, "high").await?;
        assert_eq!(nominated(&waiting), Some(node.name()));
        let_go(world, "low").await?;
        world.bound("high").await?;
        assert_eq!(events_now(world, "low", "Preempted").await?, []);
        world.counted("scheduler_preemption_victims_count", 0.0).await
    })
    .await
}

#[tokio::test]
async fn deleted_preemptor_frees_its_nominated_node() -> Result<()> {
    play("abandoned", async |world| {
        classes(world).await?;
        let node = world.node("a").allocatable("cpu", "4");
        node.create(&world.client).await?;
        create_held(world, "low", &of_class("low")).await?;
        world.bound("low").await?;
        world.create("high", &of_class("high")).await?;
        wait_until_nominated(world, "high").await?;
        wait_until_going(world, "low").await?;
        world.create("middle", &of_class("middle")).await?;
        world.waiting("middle", "Insufficient cpu").await?;

        world.delete("high").await?;
        let_go(world, "low").await?;
        assert_eq!(world.bound("middle").await?, node.name());
        Ok(())
    })
    .await
}

/// The manifests' role without permission to delete pods, and later with it.
#[tokio::test]
async fn missing_delete_permission_is_logged_and_preemption_resumes_later() -> Result<()> {
    play("unarmed", async |world| {
        classes(world).await?;
        world.node("a").allocatable("cpu", "4").create(&world.client).await?;
        world.create("low", &of_class("low")).await?;
        world.bound("low").await?;

        let (admin, name) = (world.plane.admin(), world.name.clone());
        let role = admin.kubectl(&["get", "clusterrole", "supercargo-act", "-o", "json"]).await?;
        let mut role: Value = serde_json::from_str(&role)?;
        let rules = role["rules"].as_array_mut().context("a role has rules")?;
        rules.retain(|rule| rule["resources"] != json!(["pods"]));
        let unarmed = format!("{name}-unarmed");
        role["metadata"] = json!({"name": unarmed});
        admin.apply(&role.to_string()).await?;
        let armed = format!("{name}-supercargo-act");
        let (of, who) = (format!("--clusterrole={unarmed}"), format!("--serviceaccount={name}:supercargo"));
        admin.kubectl(&["create", "clusterrolebinding", &unarmed, &of, &who]).await?;
        admin.kubectl(&["delete", "clusterrolebinding", &armed]).await?;
        // RBAC changes take a moment to be effective.
        wait_for("the permission to be revoked", PATIENCE, || async {
            let who = format!("--as=system:serviceaccount:{name}:supercargo");
            let may = admin.kubectl(&["auth", "can-i", "delete", "pods", &who]).await;
            ensure!(may.is_err(), "it is still granted");
            Ok(())
        })
        .await?;

        world.create("high", &of_class("high")).await?;
        let errors = "scheduler_preemption_goroutines_execution_total{result=\"error\"}";
        world.counted(errors, 1.0).await?;
        let log = world.supercargo.log()?;
        ensure!(log.contains("grant delete on pods and patch on pods/status"), "{log}");
        // The next attempt follows after the backoff and fails the same way.
        world.counted(errors, 2.0).await?;
        let low = world.pods().get("low").await?;
        ensure!(!is_going(&low), "it was deleted without permission");

        let of = "--clusterrole=supercargo-act";
        admin.kubectl(&["create", "clusterrolebinding", &armed, of, &who]).await?;
        world.bound("high").await?;
        world.supercargo.forgive_refusals()?;
        admin.kubectl(&["delete", "clusterrolebinding,clusterrole", &unarmed]).await?;
        Ok(())
    })
    .await
}

/// Collects the visible effects of a preemption, with names of schedulers, nodes and UIDs normalized.
async fn visible(world: &World<'_>, scheduler: &str) -> Result<Value> {
    let (set, names) = (scheduler, |name: &str| format!("{name}-{scheduler}"));
    let mut place = json!({"schedulerName": scheduler, "nodeSelector": {"set": set}});
    for (name, class) in [("low", "low"), ("middle", "middle")] {
        let mut spec = of_class(class);
        // Each on its own node, in any order.
        place["nodeSelector"]["holds"] = json!(name);
        spec.as_object_mut().context("a spec")?.append(place.clone().as_object_mut().context("fields")?);
        create_held(world, &names(name), &spec).await?;
        world.bound(&names(name)).await?;
    }
    place["nodeSelector"] = json!({"set": set});
    let mut spec = of_class("high");
    spec.as_object_mut().context("a spec")?.append(place.as_object_mut().context("fields")?);
    let high = world.create(&names("high"), &spec).await?;
    let waiting = wait_until_nominated(world, &names("high")).await?;
    let low = wait_until_going(world, &names("low")).await?;
    let middle = world.pods().get(&names("middle")).await?;
    ensure!(!is_going(&middle) && disruption(&middle).is_none(), "the wrong pod was evicted");
    let events = world.events(&names("low"), "Preempted").await?;
    let event = events.first().context("no event")?;
    let_go(world, &names("low")).await?;
    let bound = world.bound(&names("high")).await?;

    let plain = |condition: Option<&PodCondition>| {
        let mut value = json!(condition);
        value["lastTransitionTime"] = Value::Null;
        value
    };
    let mut state = json!({
        "nominated": nominated(&waiting), "waiting": plain(scheduled_condition(&waiting)),
        "victim": plain(disruption(&low)), "bound": bound,
        "event": {
            "type": event.type_, "reason": event.reason, "action": event.action, "note": event.note,
            "related": event.related, "controller": event.reporting_controller,
            "regarding": {
                "kind": event.regarding.as_ref().and_then(|it| it.kind.clone()),
                "name": event.regarding.as_ref().and_then(|it| it.name.clone()),
            },
            "count": event.series.as_ref().map_or(1, |series| series.count), "events": events.len(),
        },
    });
    if let Some(related) = state["event"]["related"].as_object_mut() {
        // It is that of the pod at the decision, or one of a status that was written before.
        let number = |version: Option<&str>| version.and_then(|it| it.parse::<u64>().ok());
        let created = number(high.resource_version().as_deref()).context("a created pod has a version")?;
        let named = number(related["resourceVersion"].as_str());
        ensure!(named.is_some_and(|named| named >= created), "{related:?}");
        related.insert("resourceVersion".to_owned(), json!("VERSION"));
        ensure!(related["namespace"] == *world.name, "{related:?}");
        related.insert("namespace".to_owned(), json!("NAMESPACE"));
    }
    let text =
        state.to_string().replace(&high.uid().unwrap_or_default(), "UID").replace(scheduler, "SCHEDULER");
    Ok(serde_json::from_str(&text)?)
}

/// On its own control plane, because messages count all nodes.
#[tokio::test]
async fn visible_effects_of_preemption_equal_kube_schedulers() -> Result<()> {
    let plane = ControlPlane::builder().with(Component::ALL).start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, "beside", async |world| {
        classes(world).await?;
        let ours = world.name.clone();
        for scheduler in [&*ours, "default-scheduler"] {
            for holds in ["low", "middle"] {
                let node = world.node(&format!("{holds}-{scheduler}")).label("set", scheduler);
                node.label("holds", holds).allocatable("cpu", "4").create(&world.client).await?;
            }
        }
        let upstream = visible(world, "default-scheduler").await?;
        let mut own = visible(world, &ours).await?.to_string();
        // Node names begin with the world's name, which is also our scheduler's name.
        own = own.replace("SCHEDULER-low-", "NODE-low-").replace("SCHEDULER-middle-", "NODE-middle-");
        let upstream = upstream.to_string().replace(&format!("{ours}-"), "NODE-");
        assert_eq!(serde_json::from_str::<Value>(&own)?, serde_json::from_str::<Value>(&upstream)?);
        Ok(())
    })
    .await
}
