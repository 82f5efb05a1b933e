//! Pod groups: a gang starts whole or not at all, whatever happens to the scheduler.

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;

use crate::harness::binaries::{chosen_minor, chosen_version};
use crate::harness::groups::GroupApi;
use crate::harness::objects::node_of;
use crate::harness::supercargo::{self, Setup};
use crate::harness::wait::PATIENCE;
use crate::harness::{Component, ControlPlane, nodes, wait_for};
use crate::world::{World, play, play_on, requesting};

/// Pods that are created at a time.
const AT_A_TIME: usize = 20;
/// CPUs of a node; each member asks for one.
const NODE_CPUS: usize = 10;

/// Plays `story` with the gates on. In a version without such groups, checks that the program refuses the gates.
async fn play_with_groups<F>(prefix: &str, story: F) -> Result<()>
where
    F: AsyncFnOnce(&mut World<'_>, &'static str) -> Result<()>,
{
    let Some(api) = GroupApi::of(&chosen_version()) else {
        return play(prefix, async |world| refuses_gates(world).await).await;
    };
    let components = [Component::ControllerManager, Component::Kwok];
    let plane = ControlPlane::builder().with(components).with_groups().start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, prefix, async |world| {
        world.supercargo.terminate()?;
        world.supercargo = Setup::called(&world.name).with_groups().launch(&plane).await?;
        world.supercargo.wait_until_ready().await?;
        story(world, api.version).await
    })
    .await
}

/// 1.34 does not know the gate, which then has no effect. 1.35 has another API, and the program refuses the gate.
async fn refuses_gates(world: &mut World<'_>) -> Result<()> {
    let mut setup = Setup::called(&world.name);
    setup.name = format!("{}-gates", world.name);
    setup.args.push("--feature-gates=GenericWorkload=true".to_owned());
    let mut other = setup.launch(world.plane).await?;
    if chosen_version() == "1.34" {
        other.wait_until_ready().await?;
        ensure!(other.log()?.contains("does not know the feature gate"), "{}", other.log_tail());
        return Ok(());
    }
    let status = other.end()?;
    ensure!(status.code() == Some(2), "{status}: {}", other.log_tail());
    Ok(())
}

async fn create_raw(world: &World<'_>, path: &str, object: &Value) -> Result<()> {
    let path = format!("{path}?fieldValidation=Strict");
    let request = http::Request::post(&path).header("Content-Type", "application/json");
    let request = request.body(serde_json::to_vec(object)?)?;
    world.client.request::<Value>(request).await.with_context(|| format!("cannot create {object}"))?;
    Ok(())
}

fn groups_path(world: &World<'_>, api: &str) -> String {
    format!("/apis/scheduling.k8s.io/{api}/namespaces/{}/podgroups", world.name)
}

/// Creates a gang, which may require nodes with one value of a label.
async fn create_gang(
    world: &World<'_>,
    api: &str,
    name: &str,
    min_count: usize,
    key: Option<&str>,
) -> Result<()> {
    let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": min_count}}});
    if let Some(key) = key {
        spec["schedulingConstraints"] = json!({"topology": [{"key": key}]});
    }
    let object = json!({
        "apiVersion": format!("scheduling.k8s.io/{api}"), "kind": "PodGroup", "metadata": {"name": name}, "spec": spec,
    });
    create_raw(world, &groups_path(world, api), &object).await
}

/// Creates a gang with annotations of ours.
async fn create_annotated(
    world: &World<'_>,
    api: &str,
    name: &str,
    min_count: usize,
    annotations: Value,
) -> Result<()> {
    let object = json!({
        "apiVersion": format!("scheduling.k8s.io/{api}"), "kind": "PodGroup",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    });
    create_raw(world, &groups_path(world, api), &object).await
}

/// Creates pods of these names, each a member of the group beside it.
async fn create_members(world: &World<'_>, members: Vec<(String, &str)>) -> Result<()> {
    let path = format!("/api/v1/namespaces/{}/pods", world.name);
    let create = async |(name, group): (String, &str)| {
        let mut pod = serde_json::to_value(world.pod(&name, &requesting(&json!({"cpu": "1"})))?)?;
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["labels"]["group"] = json!(group);
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
        create_raw(world, &path, &pod).await
    };
    stream::iter(members).map(create).buffer_unordered(AT_A_TIME).try_collect().await
}

async fn create_nodes(world: &World<'_>, racks: usize, of_each: usize) -> Result<()> {
    let node = |at: usize| {
        world
            .node(&format!("n{at}"))
            .label("rack", &format!("r{}", at / of_each))
            .allocatable("cpu", &NODE_CPUS.to_string())
    };
    let all: Vec<_> = (0..racks * of_each).map(node).collect();
    nodes::create_all(&world.client, &all).await
}

/// Returns the nodes of the bound members of a group.
async fn bound(world: &World<'_>, group: &str) -> Result<Vec<String>> {
    let members = world.pods().list(&ListParams::default().labels(&format!("group={group}"))).await?;
    Ok(members.iter().filter_map(|pod| node_of(pod).map(str::to_owned)).collect())
}

/// Returns the racks of nodes that [`create_nodes`] made with two in each.
fn racks(nodes: &[String]) -> BTreeSet<Option<usize>> {
    let rack =
        |node: &String| node.rsplit('n').next().and_then(|at| at.parse::<usize>().ok()).map(|at| at / 2);
    nodes.iter().map(rack).collect()
}

/// Returns the condition of a group, as `True: reason` or `False: message`.
async fn condition(world: &World<'_>, api: &str, group: &str) -> Result<String> {
    let request = http::Request::get(format!("{}/{group}", groups_path(world, api))).body(Vec::new())?;
    let object = world.client.request::<Value>(request).await?;
    let condition = &object["status"]["conditions"][0];
    let expected = if api == "v1alpha2" { "PodGroupScheduled" } else { "PodGroupInitiallyScheduled" };
    ensure!(condition["type"] == expected, "{object}");
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let why = if condition["status"] == "True" { text("reason") } else { text("message") };
    Ok(format!("{}: {why}", text("status")))
}

/// Deletes all pods and groups of the world.
async fn clear(world: &World<'_>, api: &str) -> Result<()> {
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    let pods: Api<Pod> = world.pods();
    pods.delete_collection(&now, &ListParams::default()).await?;
    let request = http::Request::delete(groups_path(world, api)).body(Vec::new())?;
    world.client.request::<Value>(request).await?;
    wait_for("all pods and groups to be gone", PATIENCE, || async {
        let left = pods.list(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} pods are left");
        let request = http::Request::get(groups_path(world, api)).body(Vec::new())?;
        let groups = world.client.request::<Value>(request).await?;
        ensure!(groups["items"] == json!([]), "{groups}");
        Ok(())
    })
    .await
}

/// Two gangs of 100 pods, of which one fits: `SUPERCARGO_GROUP_ROUNDS` repeats it, 20 times in `make soak`.
#[tokio::test]
async fn one_of_two_gangs_starts_whole_and_the_other_not_at_all() -> Result<()> {
    const MEMBERS: usize = 100;
    play_with_groups("gangs", async |world, api| {
        create_nodes(world, 1, 15).await?;
        let rounds = std::env::var("SUPERCARGO_GROUP_ROUNDS").map_or(Ok(2), |rounds| rounds.parse())?;
        for round in 0..rounds {
            let gangs = [format!("a{round}"), format!("b{round}")];
            for gang in &gangs {
                create_gang(world, api, gang, MEMBERS, None).await?;
            }
            let member = |at: usize| {
                let gang = gangs[at % 2].as_str();
                (format!("{gang}-{}", at / 2), gang)
            };
            create_members(world, (0..2 * MEMBERS).map(member).collect()).await?;
            let winner = wait_for("a gang to be bound", PATIENCE, || async {
                for (at, gang) in gangs.iter().enumerate() {
                    if bound(world, gang).await?.len() == MEMBERS {
                        return Ok(at);
                    }
                }
                bail!("neither is bound whole")
            })
            .await?;
            let loser = &gangs[1 - winner];
            wait_for("the conditions", PATIENCE, || async {
                let [won, lost] =
                    [condition(world, api, &gangs[winner]).await?, condition(world, api, loser).await?];
                ensure!(won == "True: Scheduled", "{won}");
                let why = match api {
                    "v1alpha2" => "pod group is unschedulable",
                    _ => "minCount (100) cannot be satisfied",
                };
                ensure!(lost.starts_with("False: ") && lost.contains(why), "{lost}");
                Ok(())
            })
            .await?;
            ensure!(bound(world, loser).await?.is_empty(), "members of the other gang are bound");
            clear(world, api).await?;
        }
        Ok(())
    })
    .await
}

/// A group that is late, and one that requires a rack: members wait for it, and all come into one rack.
#[tokio::test]
async fn gang_waits_for_its_group_and_stays_within_a_rack() -> Result<()> {
    play_with_groups("racks", async |world, api| {
        create_nodes(world, 3, 2).await?;
        let members = |gang: &'static str, count: usize| {
            (0..count).map(|at| (format!("{gang}-{at}"), gang)).collect::<Vec<_>>()
        };
        create_members(world, members("late", 12)).await?;
        let queue = if chosen_minor() < 37 { "gated" } else { "incomplete" };
        world.counted(&format!("scheduler_pending_pods{{queue=\"{queue}\"}}"), 12.0).await?;
        ensure!(bound(world, "late").await?.is_empty(), "the group does not exist yet");
        create_gang(world, api, "late", 12, Some("rack")).await?;
        let racks_of = async |gang: &'static str, count: usize| {
            wait_for("the gang to be bound", PATIENCE, || async {
                let nodes = bound(world, gang).await?;
                ensure!(nodes.len() == count, "{} of {count}", nodes.len());
                Ok(racks(&nodes))
            })
            .await
        };
        let of_late = racks_of("late", 12).await?;
        ensure!(of_late.len() == 1, "{of_late:?}");
        // No rack has room for it.
        let prefix = if chosen_minor() < 37 { "" } else { "pod group is unschedulable, " };
        create_gang(world, api, "large", 21, Some("rack")).await?;
        create_members(world, members("large", 21)).await?;
        wait_for("the condition", PATIENCE, || async {
            let text = condition(world, api, "large").await?;
            ensure!(text.starts_with(&format!("False: {prefix}0/3 placements are available")), "{text}");
            Ok(())
        })
        .await?;
        ensure!(bound(world, "large").await?.is_empty(), "no rack has room for it");
        let series = "scheduler_podgroup_schedule_attempts_total";
        let scheduled = format!("{series}{{profile=\"{}\",result=\"scheduled\"}}", world.name);
        world.counted(&scheduled, 1.0).await?;
        world.counted("supercargo_podgroup_start_duration_seconds_count", 1.0).await?;
        world.counted("supercargo_podgroups_waiting", 1.0).await?;
        // A started gang that loses a member is below its minCount, whatever its condition says.
        world.counted("supercargo_podgroups_below_min_count", 0.0).await?;
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        world.pods().delete("late-0", &now).await?;
        world.counted("supercargo_podgroups_below_min_count", 1.0).await?;
        // An empty rack takes all members of a group that prefers one.
        create_annotated(world, api, "near", 15, json!({"supercargo.dev/preferred-topology": "rack"}))
            .await?;
        create_members(world, members("near", 15)).await?;
        let of_near = racks_of("near", 15).await?;
        ensure!(of_near.len() == 1 && of_near.is_disjoint(&of_late), "{of_near:?}, {of_late:?}");
        // Nothing has room for it, and it is given up.
        create_annotated(world, api, "hasty", 50, json!({"supercargo.dev/start-within": "2s"})).await?;
        create_members(world, members("hasty", 50)).await?;
        wait_for("the group to be given up", PATIENCE, || async {
            let text = condition(world, api, "hasty").await?;
            ensure!(text.contains("did not start within 2 s"), "{text}");
            Ok(())
        })
        .await?;
        world.counted("scheduler_pending_pods{queue=\"gated\"}", 50.0).await
    })
    .await
}

/// Killed between the bindings of a gang: the next process binds the rest, and no other gang takes the room.
#[tokio::test]
async fn gang_is_completed_after_the_scheduler_was_killed() -> Result<()> {
    const MEMBERS: usize = 200;
    play_with_groups("cut", async |world, api| {
        create_nodes(world, 1, 25).await?;
        for round in 0..5 {
            let gangs = [format!("first{round}"), format!("second{round}")];
            create_gang(world, api, &gangs[0], MEMBERS, None).await?;
            let member = |at: usize, gang: usize| (format!("{}-{at}", gangs[gang]), gangs[gang].as_str());
            create_members(world, (0..MEMBERS).map(|at| member(at, 0)).collect()).await?;
            // Without a pause between two looks, since the bindings take a fraction of a second.
            let (pods, first) = (world.pods(), format!("{}-0", gangs[0]));
            let looking = async { while pods.get(&first).await.is_ok_and(|pod| node_of(&pod).is_none()) {} };
            tokio::time::timeout(PATIENCE, looking).await.context("no member is bound")?;
            world.supercargo.kill()?;
            let was_cut = bound(world, &gangs[0]).await?.len() < MEMBERS;
            // It has room only while the first gang is not complete.
            create_gang(world, api, &gangs[1], 100, None).await?;
            create_members(world, (0..100).map(|at| member(at, 1)).collect()).await?;
            world.supercargo.start_again(world.plane)?;
            wait_for("the first gang to be complete", PATIENCE, || async {
                let count = bound(world, &gangs[0]).await?.len();
                ensure!(count == MEMBERS, "{count} of {MEMBERS}");
                Ok(())
            })
            .await?;
            wait_for("the second gang to be tried", PATIENCE, || async {
                let text = condition(world, api, &gangs[1]).await?;
                ensure!(text.starts_with("False: "), "{text}");
                Ok(())
            })
            .await?;
            ensure!(bound(world, &gangs[1]).await?.is_empty(), "the second gang took the room");
            if was_cut {
                return Ok(());
            }
            clear(world, api).await?;
        }
        bail!("it was too fast to be killed between two bindings")
    })
    .await
}
