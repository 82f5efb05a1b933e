//! `supercargo plan --apply`: carries plans out on the real API server, for pods of supercargo and of kube-scheduler.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use crate::harness::objects::{TokenFile, node_of};
use crate::harness::supercargo;
use crate::harness::wait::PATIENCE;
use crate::harness::{Access, KwokNode, wait_for};
use crate::world::{World, play};

const CORDONED_BY: &str = "supercargo.dev/cordoned-by";

/// A command `supercargo plan --apply` for the pods of one scheduler.
struct Plan<'a> {
    world: &'a World<'a>,
    folder: tempfile::TempDir,
    planner: Access,
    /// Keeps the planner's token.
    _token: TokenFile,
}

impl<'a> Plan<'a> {
    /// Plans as a ServiceAccount with the rights that docs/plan.md names.
    async fn of(world: &'a World<'_>, scheduler: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("configuration.yaml"), supercargo::configuration(scheduler))?;
        let (admin, namespace) = (world.plane.admin(), world.name.as_str());
        let role = std::fs::read_to_string(supercargo_dev::root().join("docs/plan/role.yaml"))?;
        admin.apply(&role.replace("kube-system", namespace)).await?;
        admin.kubectl(&["create", "serviceaccount", "planner", "-n", namespace]).await?;
        let account = format!("--serviceaccount={namespace}:planner");
        for role in ["supercargo-read", "supercargo-plan"] {
            let (name, role) = (format!("{namespace}-planner-{role}"), format!("--clusterrole={role}"));
            admin.kubectl(&["create", "clusterrolebinding", &name, &role, &account]).await?;
        }
        let bind = ["create", "rolebinding", "plan", "--role=supercargo-plan", &account, "-n", namespace];
        admin.kubectl(&bind).await?;
        let (planner, token) = world.plane.service_account(namespace, "planner").await?;
        Ok(Self { world, folder, planner, _token: token })
    }

    fn file(&self, name: &str, object: &Value) -> Result<PathBuf> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, object.to_string())?;
        Ok(path)
    }

    fn command(&self, args: &[&str]) -> Result<Command> {
        let mut command = Command::new(supercargo::binary()?);
        command.arg("plan").args(args).args([
            "--apply",
            "-o",
            "json",
            "--plan-lease-namespace",
            &self.world.name,
        ]);
        command.arg("--kubeconfig").arg(self.planner.kubeconfig());
        command.arg("--config").arg(self.folder.path().join("configuration.yaml"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Runs the command. Returns its exit code and what it prints.
    async fn run(&self, args: &[&str]) -> Result<(Option<i32>, Value, String)> {
        let mut command = self.command(args)?;
        read(tokio::task::spawn_blocking(move || command.output()).await??)
    }

    /// Starts the command and waits until a node is cordoned and a replacement is pending.
    async fn start_until_pending(&self, args: &[&str]) -> Result<Child> {
        let child = self.command(args)?.spawn()?;
        wait_for("a replacement to be pending", PATIENCE, || async {
            let pods = self.world.pods().list(&ListParams::default()).await?;
            ensure!(pods.iter().any(|pod| node_of(pod).is_none()), "all pods have nodes");
            Ok(())
        })
        .await?;
        Ok(child)
    }
}

fn read(out: Output) -> Result<(Option<i32>, Value, String)> {
    let (text, heard) = (String::from_utf8(out.stdout)?, String::from_utf8(out.stderr)?);
    let answer = if text.is_empty() {
        Value::Null
    } else {
        serde_json::from_str(&text).with_context(|| text.clone())?
    };
    Ok((out.status.code(), answer, heard))
}

async fn ended(child: Child) -> Result<(Option<i32>, Value, String)> {
    read(tokio::task::spawn_blocking(move || child.wait_with_output()).await??)
}

fn workload(world: &World<'_>, name: &str, scheduler: &str, replicas: u32, gates: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {
                "schedulerName": scheduler, "schedulingGates": gates,
                "nodeSelector": {"kept-for": world.name}, "tolerations": [{"key": "kept-for", "operator": "Exists"}],
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
            },
        }},
    })
}

fn budget(name: &str, max_unavailable: u32) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": name}}},
    })
}

async fn apply(world: &World<'_>, object: &Value) -> Result<()> {
    let args = ["apply", "-n", &world.name, "-f", "-"];
    world.plane.admin().kubectl_with_input(&args, &object.to_string()).await.map(drop)
}

/// Waits until this many pods are ready. Returns their nodes.
async fn placed(world: &World<'_>, count: usize) -> Result<BTreeMap<String, String>> {
    wait_for(&format!("{count} pods to be ready"), PATIENCE, || async {
        let pods = world.pods().list(&ListParams::default()).await?.items;
        ensure!(pods.len() == count && pods.iter().all(is_ready), "there are {}", pods.len());
        Ok(pods.iter().map(|pod| (pod.name_any(), node_of(pod).unwrap_or_default().to_owned())).collect())
    })
    .await
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Returns whether a node is cordoned, and whether it has the mark of a plan.
async fn cordon_of(world: &World<'_>, node: &KwokNode) -> Result<(bool, bool)> {
    let node = Api::<Node>::all(world.client.clone()).get(node.name()).await?;
    let is_marked = node.annotations().contains_key(CORDONED_BY);
    Ok((node.spec.and_then(|spec| spec.unschedulable) == Some(true), is_marked))
}

async fn lease(world: &World<'_>) -> Result<Option<Lease>> {
    Ok(Api::<Lease>::namespaced(world.client.clone(), &world.name).get_opt("supercargo-plan").await?)
}

async fn change_lease(world: &World<'_>, change: &Value) -> Result<()> {
    let leases = Api::<Lease>::namespaced(world.client.clone(), &world.name);
    leases.patch("supercargo-plan", &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

async fn nodes(world: &World<'_>, names: &[&str], cpu: &str) -> Result<Vec<KwokNode>> {
    let mut nodes = Vec::new();
    for name in names {
        let node = world.node(name).allocatable("cpu", cpu);
        node.create(&world.client).await?;
        nodes.push(node);
    }
    Ok(nodes)
}

/// Empties a node of pods, and checks each step against what happened.
async fn frees_a_node(world: &World<'_>, scheduler: &str) -> Result<()> {
    let nodes = nodes(world, &["a", "b", "c"], "4").await?;
    apply(world, &budget("web", 1)).await?;
    apply(world, &workload(world, "web", scheduler, 6, &json!([]))).await?;
    let before = placed(world, 6).await?;
    let freed = nodes[2].name();
    let displaced: BTreeSet<&String> =
        before.iter().filter(|(_, node)| *node == freed).map(|(pod, _)| pod).collect();
    ensure!(displaced.len() >= 2, "{before:?}");

    let plan = Plan::of(world, scheduler).await?;
    let (code, applied, heard) = plan.run(&["free-nodes", "--nodes", freed]).await?;
    assert_eq!((code, &applied["isDone"]), (Some(0), &json!(true)), "{applied:#}{heard}");
    assert_eq!(applied["cordoned"], json!([freed]));
    let moves = applied["moves"].as_array().context("a list of steps")?;
    let moved: BTreeSet<String> =
        moves.iter().map(|step| text(&step["pod"]).replace(&format!("{}/", world.name), "")).collect();
    assert_eq!(moved.iter().collect::<BTreeSet<_>>(), displaced);
    let after = placed(world, 6).await?;
    for step in moves {
        let node = after.get(text(&step["replacement"])).context("the replacement is ready")?;
        assert_eq!(node, text(&step["to"]), "{step:#}");
        ensure!(step["ties"].as_array().is_some_and(|ties| ties.contains(&json!(node))), "{step:#}");
    }
    ensure!(after.values().all(|node| node != freed), "{after:?}");
    // The emptied node stays cordoned, without the mark. The others were cordoned for single steps at most.
    assert_eq!(cordon_of(world, &nodes[2]).await?, (true, false));
    for node in &nodes[..2] {
        assert_eq!(cordon_of(world, node).await?, (false, false));
    }
    let holder = lease(world).await?.and_then(|lease| lease.spec?.holder_identity);
    assert_eq!(holder.as_deref(), Some(""), "the Lease is given back");
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[tokio::test]
async fn plan_for_pods_of_supercargo_is_carried_out_as_planned() -> Result<()> {
    play("plan-own", async |world| frees_a_node(world, &world.name).await).await
}

#[tokio::test]
async fn plan_for_pods_of_kube_scheduler_is_carried_out_as_planned() -> Result<()> {
    play("plan-theirs", async |world| frees_a_node(world, "default-scheduler").await).await
}

/// Creates two nodes with pods of a workload whose later pods stay pending, so that a replacement never gets a node.
/// Returns the nodes and a plan.
async fn with_pending_replacements<'a>(
    world: &'a World<'_>,
    cpu: &str,
    replicas: u32,
) -> Result<(Vec<KwokNode>, Plan<'a>)> {
    let nodes = nodes(world, &["a", "b"], cpu).await?;
    for gates in [json!([]), json!([{"name": "example.com/wait"}])] {
        apply(world, &workload(world, "web", &world.name, replicas, &gates)).await?;
        placed(world, replicas.try_into()?).await?;
    }
    Ok((nodes, Plan::of(world, &world.name).await?))
}

/// Returns the Lease of a plan, held from now on.
fn lease_of(holder: &str) -> Value {
    let now = k8s_openapi::jiff::Timestamp::now();
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "supercargo-plan"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 60, "renewTime": format!("{now:.6}")},
    })
}

#[tokio::test]
async fn plan_that_meets_a_surprise_stops_and_uncordons_its_nodes() -> Result<()> {
    play("plan-stops", async |world| {
        let (nodes, plan) = with_pending_replacements(world, "4", 2).await?;
        let free = ["free-nodes", "--nodes", nodes[0].name()];

        apply(world, &lease_of("another")).await?;
        let (code, _, heard) = plan.run(&free).await?;
        assert_eq!(code, Some(1), "{heard}");
        ensure!(heard.contains("another carries out another plan"), "{heard}");
        let gone = ["delete", "lease", "supercargo-plan", "-n", &world.name];
        world.plane.admin().kubectl(&gone).await?;

        // No budget allows an eviction: nothing is changed.
        apply(world, &budget("web", 0)).await?;
        let (code, _, heard) = plan.run(&free).await?;
        assert_eq!(code, Some(3), "{heard}");
        assert_eq!(cordon_of(world, &nodes[0]).await?, (false, false));
        world.plane.admin().kubectl(&["delete", "pdb", "web", "-n", &world.name]).await?;

        let (code, applied, heard) = plan.run(&[&free[..], &["--step-timeout", "3s"]].concat()).await?;
        assert_eq!((code, &applied["isDone"]), (Some(4), &json!(false)), "{applied:#}{heard}");
        ensure!(text(&applied["stopped"]).contains("is pending"), "{applied:#}");
        assert_eq!(cordon_of(world, &nodes[0]).await?, (false, false));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn interrupted_plan_uncordons_its_nodes_and_the_next_one_those_of_a_killed_one() -> Result<()> {
    play("plan-ends", async |world| {
        let (nodes, plan) = with_pending_replacements(world, "8", 6).await?;
        let free = ["free-nodes", "--nodes", nodes[0].name()];

        let child = plan.start_until_pending(&free).await?;
        assert_eq!(cordon_of(world, &nodes[0]).await?, (true, true));
        kill(Pid::from_raw(child.id().try_into()?), Signal::SIGTERM)?;
        let (code, applied, heard) = ended(child).await?;
        assert_eq!((code, &applied["stopped"]), (Some(4), &json!("interrupted")), "{applied:#}{heard}");
        assert_eq!(cordon_of(world, &nodes[0]).await?, (false, false));

        let mut child = plan.command(&free)?.spawn()?;
        wait_for("the node to be cordoned again", PATIENCE, || async {
            ensure!(cordon_of(world, &nodes[0]).await?.0, "it is not");
            Ok(())
        })
        .await?;
        child.kill()?;
        child.wait()?;
        assert_eq!(cordon_of(world, &nodes[0]).await?, (true, true));
        // The Lease of the killed one would expire after 30 seconds, and be taken 30 seconds later.
        let expired = json!({"leaseDurationSeconds": 1, "renewTime": "2020-01-01T00:00:00.000000Z"});
        change_lease(world, &json!({"spec": expired})).await?;
        let (_, _, heard) = plan.run(&[&free[..], &["--step-timeout", "1s"]].concat()).await?;
        let left = format!("uncordoned {}, which an interrupted plan left cordoned", nodes[0].name());
        ensure!(heard.contains(&left), "{heard}");
        assert_eq!(cordon_of(world, &nodes[0]).await?, (false, false));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn plan_that_loses_its_lease_stops_and_leaves_the_nodes_to_the_holder() -> Result<()> {
    play("plan-lost", async |world| {
        let (nodes, plan) = with_pending_replacements(world, "4", 2).await?;
        let child = plan.start_until_pending(&["free-nodes", "--nodes", nodes[0].name()]).await?;
        // Another version of the Lease is no reason to stop: the answer to a renewal may have been lost.
        change_lease(world, &json!({"metadata": {"annotations": {"example.com/note": "changed"}}})).await?;
        let renewed =
            || async { Ok::<_, anyhow::Error>(lease(world).await?.and_then(|it| it.spec?.renew_time)) };
        let before = renewed().await?;
        wait_for("the Lease to be renewed", PATIENCE, || async {
            ensure!(renewed().await? != before, "it is not");
            Ok(())
        })
        .await?;

        change_lease(world, &lease_of("another")).await?;
        let (code, applied, heard) = ended(child).await?;
        assert_eq!(code, Some(4), "{applied:#}{heard}");
        ensure!(text(&applied["stopped"]).contains("Lease"), "{applied:#}");
        assert_eq!(applied["cordoned"], json!([nodes[0].name()]), "{heard}");
        assert_eq!(cordon_of(world, &nodes[0]).await?, (true, true));
        let holder = lease(world).await?.and_then(|lease| lease.spec?.holder_identity);
        assert_eq!(holder.as_deref(), Some("another"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn room_is_made_for_a_pod_and_the_nodes_are_schedulable_again() -> Result<()> {
    play("plan-room", async |world| {
        let nodes = nodes(world, &["a", "b"], "4").await?;
        let scheduler = world.name.clone();
        apply(world, &workload(world, "web", &scheduler, 4, &json!([]))).await?;
        placed(world, 4).await?;
        let pod = world.pod(
            "big",
            &json!({
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
            }),
        )?;
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": pod.metadata, "spec": pod.spec,
        });
        let plan = Plan::of(world, &scheduler).await?;
        let file = plan.file("big.json", &pod)?;
        let (code, applied, heard) = plan.run(&["make-room", "-f", &file.display().to_string()]).await?;
        assert_eq!((code, &applied["isDone"]), (Some(0), &json!(true)), "{applied:#}{heard}");
        assert_eq!(applied["moves"].as_array().map(Vec::len), Some(1), "{applied:#}");
        for node in &nodes {
            assert_eq!(cordon_of(world, node).await?, (false, false));
        }
        apply(world, &pod).await?;
        world.bound("big").await?;
        Ok(())
    })
    .await
}
