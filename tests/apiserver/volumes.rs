//! Pods with WaitForFirstConsumer claims, with the real controller-manager, which completes the bindings that
//! supercargo writes. The test plays the volume provisioner. Pods without volumes overtake every pod that waits for a
//! volume.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::harness::binaries::chosen_minor;
use crate::harness::objects::{node_of, wait_until_running};
use crate::harness::supercargo::{self, Setup};
use crate::harness::wait::PATIENCE;
use crate::harness::{Component, ControlPlane, KwokNode, nodes, wait_for};
use crate::world::{World, play, play_on, requesting, scheduled_condition};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Provisioner name of classes whose volumes are created by hand.
const BY_HAND: &str = "kubernetes.io/no-provisioner";
/// Label of cluster-scoped objects to be deleted after a test.
const OF_TEST: &str = "of-test";

/// Runs a test scenario, then deletes its cluster-scoped storage objects.
async fn play_storage<F>(prefix: &str, story: F) -> Result<()>
where
    F: AsyncFnOnce(&mut World<'_>) -> Result<()>,
{
    play(prefix, async |world| {
        story(world).await?;
        let ours = ListParams::default().labels(&format!("{OF_TEST}={}", world.name));
        let client = world.client.clone();
        Api::<PersistentVolume>::all(client.clone())
            .delete_collection(&DeleteParams::default(), &ours)
            .await?;
        Api::<StorageClass>::all(client).delete_collection(&DeleteParams::default(), &ours).await?;
        Ok(())
    })
    .await
}

/// Creates the test's nodes.
async fn fleet<const N: usize>(world: &World<'_>, names: [&str; N]) -> Result<[KwokNode; N]> {
    let fleet = names.map(|name| world.node(name));
    nodes::create_all(&world.client, &fleet).await?;
    Ok(fleet)
}

/// Creates the test's WaitForFirstConsumer class.
async fn class(world: &World<'_>, provisioner: &str) -> Result<()> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": world.name, "labels": {OF_TEST: world.name}},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
    });
    let class: StorageClass = serde_json::from_value(class)?;
    Api::all(world.client.clone()).create(&PostParams::default(), &class).await?;
    Ok(())
}

fn claims(world: &World<'_>) -> Api<PersistentVolumeClaim> {
    Api::namespaced(world.client.clone(), &world.name)
}

fn volumes(world: &World<'_>) -> Api<PersistentVolume> {
    Api::all(world.client.clone())
}

async fn claim(world: &World<'_>, name: &str) -> Result<()> {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {
            "storageClassName": world.name, "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    claims(world).create(&PostParams::default(), &serde_json::from_value(claim)?).await?;
    Ok(())
}

/// Creates a pod that mounts claims.
async fn mounting(world: &World<'_>, name: &str, claims: &[&str]) -> Result<()> {
    let mut spec = requesting(&json!({"cpu": "1"}));
    let volume = |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    spec["volumes"] = claims.iter().map(volume).collect();
    world.create(name, &spec).await?;
    Ok(())
}

/// A volume reachable only from the node of this name.
fn volume(world: &World<'_>, name: &str, node: &str) -> Value {
    let hostname = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": format!("{}-{name}", world.name), "labels": {OF_TEST: world.name}},
        "spec": {
            "storageClassName": world.name, "accessModes": ["ReadWriteMany"], "capacity": {"storage": "2Gi"},
            "mountOptions": ["noatime"], "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        },
    })
}

/// Waits until the claim has a selected node and returns it.
async fn selected(world: &World<'_>, name: &str) -> Result<String> {
    wait_for(&format!("claim {name} to select a node"), PATIENCE, || async {
        let claim = claims(world).get(name).await?;
        claim.annotations().get(SELECTED_NODE).cloned().context("it has none")
    })
    .await
}

/// Creates a claim's volume, as external-provisioner does, for that claim and its selected node.
async fn provision(world: &World<'_>, name: &str) -> Result<()> {
    let node = selected(world, name).await?;
    let claim = claims(world).get(name).await?;
    let mut volume = volume(world, &format!("made-for-{name}"), &node);
    volume["metadata"]["annotations"] = json!({"pv.kubernetes.io/provisioned-by": world.name});
    volume["spec"]["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": world.name, "name": name,
        "uid": claim.uid(), "resourceVersion": claim.resource_version(),
    });
    volumes(world).create(&PostParams::default(), &serde_json::from_value(volume)?).await?;
    Ok(())
}

/// Reports that a claim's volume cannot be provisioned, as external-provisioner does, so that another node may be
/// selected.
async fn give_up(world: &World<'_>, name: &str) -> Result<()> {
    let without = json!({"metadata": {"annotations": {SELECTED_NODE: null}}});
    claims(world).patch(name, &PatchParams::default(), &Patch::Merge(&without)).await?;
    Ok(())
}

/// Checks that a pod without volumes is placed while `waiting` waits for its volume.
async fn plain_pod_overtakes(world: &World<'_>, waiting: &str) -> Result<()> {
    let name = format!("faster-than-{waiting}");
    world.create(&name, &requesting(&json!({"cpu": "1"}))).await?;
    world.bound(&name).await?;
    let slow = world.pods().get(waiting).await?;
    ensure!(node_of(&slow).is_none(), "{waiting} did not wait: it is on {:?}", node_of(&slow));
    Ok(())
}

/// Waits until the pod has a failure event with this text.
async fn failed(world: &World<'_>, pod: &str, text: &str) -> Result<()> {
    let pod = world.waiting(pod, text).await?;
    let reason = scheduled_condition(&pod).and_then(|condition| condition.reason.clone());
    assert_eq!(reason.as_deref(), Some("SchedulerError"));
    Ok(())
}

fn nominated(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.nominated_node_name.as_deref().filter(|node| !node.is_empty())
}

/// Waits until the pod is nominated, if this version nominates pods before their volumes are bound.
async fn nominated_to(world: &World<'_>, pod: &str, node: &str) -> Result<()> {
    if chosen_minor() < 35 {
        assert_eq!(nominated(&world.pods().get(pod).await?), None);
        return Ok(());
    }
    wait_for(&format!("pod {pod} to be nominated to {node}"), PATIENCE, || async {
        let pod = world.pods().get(pod).await?;
        ensure!(nominated(&pod) == Some(node), "it is nominated to {:?}", nominated(&pod));
        Ok(())
    })
    .await
}

/// The binding completes only when the controller-manager looks again, so the pod without volumes is placed first.
#[tokio::test]
async fn claim_is_bound_to_existing_volume_before_its_pod() -> Result<()> {
    let parts = [Component::ControllerManager, Component::Kwok];
    let plane = ControlPlane::builder().with(parts).start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, "by-hand", async |world| {
        let [_, there] = fleet(world, ["a", "b"]).await?;
        class(world, BY_HAND).await?;
        claim(world, "data").await?;
        let made: PersistentVolume = serde_json::from_value(volume(world, "disk", there.name()))?;
        let made = volumes(world).create(&PostParams::default(), &made).await?;
        let name = made.name_any();
        let is_protected = |volume: &PersistentVolume| !volume.finalizers().is_empty();
        wait_for("the volume to be available", PATIENCE, || async {
            let seen = volumes(world).get(&name).await?;
            let phase = seen.status.as_ref().and_then(|status| status.phase.clone());
            ensure!(phase.as_deref() == Some("Available") && is_protected(&seen), "it is {phase:?}");
            Ok(())
        })
        .await?;
        plane.pause(Component::ControllerManager)?;
        mounting(world, "web", &["data"]).await?;
        let written = wait_for("the volume to reference the claim", PATIENCE, || async {
            let seen = volumes(world).get(&name).await?;
            ensure!(seen.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_some()), "it has no claimRef");
            Ok(seen)
        })
        .await?;
        nominated_to(world, "web", there.name()).await?;
        plain_pod_overtakes(world, "web").await?;
        plane.resume(Component::ControllerManager)?;
        assert_eq!(world.bound("web").await?, there.name());

        let (mut before, after) = (
            made.spec.context("the volume has no spec")?,
            written.spec.clone().context("the volume has no spec")?,
        );
        before.claim_ref.clone_from(&after.claim_ref);
        assert_eq!(after, before, "no other field of the volume has changed");
        let reference = after.claim_ref.context("the volume has no claimRef")?;
        let claim = claims(world).get("data").await?;
        assert_eq!(reference.uid, claim.uid());
        assert_eq!(
            (reference.kind.as_deref(), reference.namespace.as_deref(), reference.name.as_deref()),
            (Some("PersistentVolumeClaim"), Some(&*world.name), Some("data"))
        );
        ensure!(reference.resource_version.is_some(), "claimRef has no resourceVersion");
        assert_eq!(written.annotations().get(BOUND_BY_CONTROLLER).map(String::as_str), Some("yes"));
        assert_eq!(claim.spec.and_then(|spec| spec.volume_name).as_ref(), Some(&name));
        assert_eq!(world.events("web", "Scheduled").await?.len(), 1);
        let pod = wait_until_running(&world.client, &world.name, "web").await?;
        assert_eq!(nominated(&pod), None);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn volume_is_provisioned_for_the_pods_node_before_binding() -> Result<()> {
    play_storage("made", async |world| {
        fleet(world, ["a", "b"]).await?;
        class(world, "disks.example.com").await?;
        claim(world, "data").await?;
        mounting(world, "web", &["data"]).await?;
        let node = selected(world, "data").await?;
        nominated_to(world, "web", &node).await?;
        plain_pod_overtakes(world, "web").await?;
        provision(world, "data").await?;
        assert_eq!(world.bound("web").await?, node);
        Ok(())
    })
    .await
}

/// All of them select the same node; one writes it.
#[tokio::test]
async fn pods_sharing_a_claim_are_placed_on_its_node_without_failure() -> Result<()> {
    play_storage("shared", async |world| {
        fleet(world, ["a", "b"]).await?;
        class(world, "disks.example.com").await?;
        claim(world, "data").await?;
        for pod in ["one", "two", "three"] {
            mounting(world, pod, &["data"]).await?;
        }
        let node = selected(world, "data").await?;
        plain_pod_overtakes(world, "one").await?;
        provision(world, "data").await?;
        for pod in ["one", "two", "three"] {
            assert_eq!(world.bound(pod).await?, node);
        }
        let failures =
            format!("scheduler_schedule_attempts_total{{profile=\"{}\",result=\"error\"}}", world.name);
        world.counted(&failures, 0.0).await
    })
    .await
}

#[tokio::test]
async fn ephemeral_volume_is_provisioned_and_bound() -> Result<()> {
    play_storage("ephemeral", async |world| {
        fleet(world, ["a"]).await?;
        class(world, "disks.example.com").await?;
        let mut spec = requesting(&json!({"cpu": "1"}));
        let template = json!({"spec": {
            "storageClassName": world.name, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }});
        spec["volumes"] = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]);
        world.create("web", &spec).await?;
        selected(world, "web-scratch").await?;
        plain_pod_overtakes(world, "web").await?;
        let claim = claims(world).get("web-scratch").await?;
        let mut volume = volume(world, "scratch", world.node("a").name());
        volume["spec"]["accessModes"] = json!(["ReadWriteOnce"]);
        volume["spec"]["claimRef"] =
            json!({"namespace": world.name, "name": "web-scratch", "uid": claim.uid()});
        volumes(world).create(&PostParams::default(), &serde_json::from_value(volume)?).await?;
        assert_eq!(world.bound("web").await?, world.node("a").name());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn failed_provisioning_is_reported_and_retried() -> Result<()> {
    play_storage("refused", async |world| {
        fleet(world, ["a", "b"]).await?;
        class(world, "disks.example.com").await?;
        claim(world, "data").await?;
        mounting(world, "web", &["data"]).await?;
        nominated_to(world, "web", &selected(world, "data").await?).await?;
        plain_pod_overtakes(world, "web").await?;
        give_up(world, "data").await?;
        failed(
            world,
            "web",
            "running PreBind plugin \"VolumeBinding\": binding volumes: provisioning failed for PVC \"data\"",
        )
        .await?;
        provision(world, "data").await?;
        let node = world.bound("web").await?;
        assert_eq!(node, selected(world, "data").await?);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn late_volume_fails_the_attempt_and_a_later_one_succeeds() -> Result<()> {
    play_storage("late", async |world| {
        fleet(world, ["a", "b"]).await?;
        class(world, "disks.example.com").await?;
        claim(world, "data").await?;
        wait_for_volumes_no_longer_than(world, 2).await?;
        mounting(world, "web", &["data"]).await?;
        selected(world, "data").await?;
        plain_pod_overtakes(world, "web").await?;
        failed(
            world,
            "web",
            "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded",
        )
        .await?;
        provision(world, "data").await?;
        assert_eq!(world.bound("web").await?, selected(world, "data").await?);
        Ok(())
    })
    .await
}

/// Restarts the test's scheduler with this `bindTimeoutSeconds`.
async fn wait_for_volumes_no_longer_than(world: &mut World<'_>, seconds: u64) -> Result<()> {
    world.supercargo.terminate()?;
    let mut setup = Setup::called(&world.name);
    setup.name += "-hasty";
    setup.configuration += &format!(
        "  pluginConfig:\n  - name: VolumeBinding\n    args:\n      bindTimeoutSeconds: {seconds}\n"
    );
    world.supercargo = setup.launch(world.plane).await?;
    world.supercargo.wait_until_ready().await
}

#[tokio::test]
async fn pod_moves_if_its_node_is_deleted_during_provisioning() -> Result<()> {
    play_storage("nodeless", async |world| {
        let both = fleet(world, ["a", "b"]).await?;
        class(world, "disks.example.com").await?;
        claim(world, "data").await?;
        mounting(world, "web", &["data"]).await?;
        let first = selected(world, "data").await?;
        nominated_to(world, "web", &first).await?;
        plain_pod_overtakes(world, "web").await?;
        Api::<Node>::all(world.client.clone()).delete(&first, &DeleteParams::default()).await?;
        let gone = format!("failed to get node \"{first}\": node \"{first}\" not found");
        failed(world, "web", &format!("running PreBind plugin \"VolumeBinding\": binding volumes: {gone}"))
            .await?;
        // A provisioner notices that the node is gone and lets the scheduler choose again.
        give_up(world, "data").await?;
        provision_for_another(world, "data", &first).await?;
        let second = world.bound("web").await?;
        assert_ne!(second, first);
        ensure!(both.iter().any(|node| node.name() == second), "{second} is no node of this test");
        Ok(())
    })
    .await
}

async fn provision_for_another(world: &World<'_>, claim: &str, gone: &str) -> Result<()> {
    wait_for(&format!("claim {claim} to select another node than {gone}"), PATIENCE, || async {
        let selected = selected(world, claim).await?;
        ensure!(selected != gone, "it selects {selected}");
        Ok(())
    })
    .await?;
    provision(world, claim).await
}

#[tokio::test]
async fn restart_during_provisioning_continues_the_binding() -> Result<()> {
    play_storage("killed", async |world| {
        fleet(world, ["a", "b"]).await?;
        class(world, "disks.example.com").await?;
        claim(world, "data").await?;
        mounting(world, "web", &["data"]).await?;
        let node = selected(world, "data").await?;
        // The controller-manager annotates the provisioner, then writes nothing until the volume exists.
        let version = wait_for("a provisioner to be annotated", PATIENCE, || async {
            let claim = claims(world).get("data").await?;
            ensure!(claim.annotations().contains_key(PROVISIONER), "none is");
            Ok(claim.resource_version())
        })
        .await?;
        world.supercargo.kill()?;
        world.supercargo.start_again(world.plane)?;
        plain_pod_overtakes(world, "web").await?;
        assert_eq!(claims(world).get("data").await?.resource_version(), version, "no second write");
        provision(world, "data").await?;
        assert_eq!(world.bound("web").await?, node);
        Ok(())
    })
    .await
}

/// The provisioner may keep or release the volume of a deleted pod; neither blocks other pods.
#[tokio::test]
async fn pod_deleted_during_provisioning_leaves_claim_to_next_pod() -> Result<()> {
    play_storage("deleted", async |world| {
        fleet(world, ["a", "b"]).await?;
        class(world, "disks.example.com").await?;
        claim(world, "data").await?;
        mounting(world, "web", &["data"]).await?;
        let node = selected(world, "data").await?;
        plain_pod_overtakes(world, "web").await?;
        world.delete("web").await?;
        mounting(world, "next", &["data"]).await?;
        provision(world, "data").await?;
        assert_eq!(world.bound("next").await?, node);
        Ok(())
    })
    .await
}
