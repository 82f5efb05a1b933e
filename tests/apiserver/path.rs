//! Pods that others affect: placed by other schedulers, bound by hand, completed or deleted while pending, or on a
//! node that is deleted. All of them are counted, and none is touched.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::harness::objects::{node_of, wait_until_running};
use crate::harness::wait::PATIENCE;
use crate::harness::{nodes, wait_for};
use crate::world::{World, play, requested_cpu_milli, requesting, sample, scheduled_condition};

const UNSCHEDULABLE: &str = "scheduler_pending_pods{queue=\"unschedulable\"}";

/// kube-scheduler fills half of three nodes and supercargo the other half; then the nodes are full.
#[tokio::test]
async fn two_schedulers_fill_the_same_nodes_and_place_only_their_pods() -> Result<()> {
    play("beside", async |world| {
        let fleet: Vec<_> = ["a", "b", "c"].map(|name| world.node(name).allocatable("cpu", "4")).into();
        nodes::create_all(&world.client, &fleet).await?;
        let of = |scheduler: &str| {
            let mut spec = requesting(&json!({"cpu": "1"}));
            spec["schedulerName"] = json!(scheduler);
            spec
        };
        world.create("unserved", &of("another-scheduler")).await?;
        let ours = world.name.clone();
        for scheduler in ["default-scheduler", &ours] {
            for number in 0..6 {
                world.create(&format!("{}-{number}", short(scheduler)), &of(scheduler)).await?;
            }
            for number in 0..6 {
                world.bound(&format!("{}-{number}", short(scheduler))).await?;
            }
        }
        let pods = world.pods().list(&ListParams::default()).await?.items;
        let full: Vec<u64> = requested_cpu_milli(&pods)?.into_values().collect();
        assert_eq!(full, [4000; 3], "three nodes, full and not beyond");

        for scheduler in ["default-scheduler", &ours] {
            let name = format!("{}-late", short(scheduler));
            world.create(&name, &of(scheduler)).await?;
            world.waiting(&name, "3 Insufficient cpu").await?;
            let placed = world.events(&format!("{}-0", short(scheduler)), "Scheduled").await?;
            assert_eq!(placed.len(), 1, "placed once");
            assert_eq!(placed[0].reporting_controller.as_deref(), Some(scheduler));
        }
        let unserved = world.pods().get("unserved").await?;
        assert_eq!(node_of(&unserved), None);
        ensure!(scheduled_condition(&unserved).is_none(), "a scheduler tried another's pod");
        let scrape = world.metrics().await?;
        let attempts = |result: &str| {
            let series = format!(
                "scheduler_schedule_attempts_total{{profile=\"{}\",result=\"{result}\"}}",
                world.name
            );
            sample(&scrape, &series)
        };
        assert_eq!(attempts("scheduled"), Some(6.0), "our six and no others");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn pod_bound_by_others_is_counted_and_not_retried() -> Result<()> {
    play("by-hand", async |world| {
        let node = world.node("a").allocatable("cpu", "2");
        node.create(&world.client).await?;
        let mut spec = requesting(&json!({"cpu": "1"}));
        spec["nodeSelector"] = json!({"no": "such-node"});
        world.create("stuck", &spec).await?;
        world.waiting("stuck", "didn't match Pod's node affinity/selector").await?;
        world.counted(UNSCHEDULABLE, 1.0).await?;

        bind(world, "stuck", node.name()).await?;
        world.counted(UNSCHEDULABLE, 0.0).await?;
        assert_eq!(world.bound("stuck").await?, node.name());
        world.create("next", &requesting(&json!({"cpu": "2"}))).await?;
        world.waiting("next", "1 Insufficient cpu").await?;
        world.delete("stuck").await?;
        assert_eq!(world.bound("next").await?, node.name());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn deleted_pending_pod_is_forgotten() -> Result<()> {
    play("deleted", async |world| {
        let node = world.node("a").allocatable("cpu", "1");
        node.create(&world.client).await?;
        world.create("too-big", &requesting(&json!({"cpu": "2"}))).await?;
        world.waiting("too-big", "1 Insufficient cpu").await?;
        world.counted(UNSCHEDULABLE, 1.0).await?;
        world.delete("too-big").await?;
        world.counted(UNSCHEDULABLE, 0.0).await?;
        world.create("small", &requesting(&json!({"cpu": "1"}))).await?;
        assert_eq!(world.bound("small").await?, node.name());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn terminal_pods_free_their_resources() -> Result<()> {
    play("ended", async |world| {
        let node = world.node("a").allocatable("cpu", "1");
        node.create(&world.client).await?;
        let whole = requesting(&json!({"cpu": "1"}));
        world.create("first", &whole).await?;
        world.bound("first").await?;
        for (ended, phase, next) in [("first", "Succeeded", "second"), ("second", "Failed", "third")] {
            world.create(next, &whole).await?;
            world.waiting(next, "1 Insufficient cpu").await?;
            wait_until_running(&world.client, &world.name, ended).await?;
            let status = json!({"status": {"phase": phase}});
            world.pods().patch_status(ended, &PatchParams::default(), &Patch::Merge(&status)).await?;
            assert_eq!(world.bound(next).await?, node.name());
        }
        Ok(())
    })
    .await
}

/// A node recreated under its name still has the pods that name it.
#[tokio::test]
async fn recreated_node_still_counts_its_pods() -> Result<()> {
    play("flapping", async |world| {
        let (only, twin) = (world.node("a").allocatable("cpu", "2"), world.node("a").allocatable("cpu", "2"));
        let whole = requesting(&json!({"cpu": "2"}));
        only.create(&world.client).await?;
        world.create("first", &whole).await?;
        world.bound("first").await?;
        world.create("second", &whole).await?;
        world.waiting("second", "1 Insufficient cpu").await?;

        let api = Api::<Node>::all(world.client.clone());
        api.delete(only.name(), &DeleteParams::default()).await?;
        wait_for("the node to be gone", PATIENCE, || async {
            ensure!(api.get_opt(only.name()).await?.is_none(), "it still exists");
            Ok(())
        })
        .await?;
        world.create("third", &requesting(&json!({"cpu": "1"}))).await?;
        let waiting = world.waiting("third", "nodes are available").await?;
        let message = scheduled_condition(&waiting).and_then(|condition| condition.message.clone());
        ensure!(
            message.is_some_and(|message| !message.contains("Insufficient")),
            "the deleted node is still counted"
        );

        twin.create(&world.client).await?;
        world.waiting("third", "1 Insufficient cpu").await?;
        assert_eq!(node_of(&world.pods().get("first").await?), Some(twin.name()), "it was not moved");
        world.delete("first").await?;
        let both = [world.pods().get("second").await?, world.pods().get("third").await?];
        let placed = wait_for("one of the two to be placed", PATIENCE, || async {
            let mut placed = Vec::new();
            for pod in &both {
                let pod = world.pods().get(&pod.name_any()).await?;
                placed.extend(node_of(&pod).map(str::to_owned));
            }
            ensure!(!placed.is_empty(), "neither is placed");
            Ok(placed)
        })
        .await?;
        assert_eq!(placed, [twin.name()], "only one of them fits");
        Ok(())
    })
    .await
}

/// A burst of pods: every decision sees all earlier ones.
#[tokio::test]
async fn burst_of_pods_fills_nodes_without_overcommit() -> Result<()> {
    play("burst", async |world| {
        let fleet: Vec<_> =
            (0..4).map(|number| world.node(&format!("n{number}")).allocatable("cpu", "2")).collect();
        nodes::create_all(&world.client, &fleet).await?;
        let spec = requesting(&json!({"cpu": "100m"}));
        for number in 0..90 {
            world.create(&format!("p{number}"), &spec).await?;
        }
        let pods = wait_for("80 pods to be placed and 10 to be reported unschedulable", PATIENCE, || async {
            let pods = world.pods().list(&ListParams::default()).await?.items;
            let placed = pods.iter().filter(|pod| node_of(pod).is_some()).count();
            let unschedulable =
                pods.iter().filter(|pod| node_of(pod).is_none() && is_unschedulable(pod)).count();
            ensure!(
                (placed, unschedulable) == (80, 10),
                "{placed} are placed, {unschedulable} are unschedulable"
            );
            Ok(pods)
        })
        .await?;
        assert_eq!(requested_cpu_milli(&pods)?.into_values().collect::<Vec<_>>(), [2000; 4]);
        Ok(())
    })
    .await
}

fn is_unschedulable(pod: &Pod) -> bool {
    scheduled_condition(pod).is_some_and(|condition| condition.status == "False")
}

/// Shortens names, which are limited in length.
fn short(scheduler: &str) -> &str {
    if scheduler == "default-scheduler" { "theirs" } else { "ours" }
}

/// Binds a pod without a scheduler.
async fn bind(world: &World<'_>, pod: &str, node: &str) -> Result<()> {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "namespace": world.name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let path = format!("/api/v1/namespaces/{}/pods/{pod}/binding", world.name);
    let create = ["create", "--raw", &path, "-f", "-"];
    world.plane.admin().kubectl_with_input(&create, &binding.to_string()).await?;
    Ok(())
}
