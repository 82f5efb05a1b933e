//! Nodes keep moving between racks of two, while pods with affinity by rack come and go: cached decisions stay equal
//! to full evaluations.
//!
//! 65 racks exceed the number of values for which domains are counted in place. In racks of two, each move empties or
//! completes a domain.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::supercargo::{self, Setup};
use crate::harness::wait::PATIENCE;
use crate::harness::{Component, ControlPlane, nodes, wait_for};
use crate::world::{World, create_once, play_on, sample};

const NODES: usize = 130;
const RACK: &str = "rack";
/// Pods at a time: fewer than racks, so that anti-affinity leaves some free.
const PODS: usize = 48;
/// Duration in seconds in `make test`; `SUPERCARGO_RELABEL_SECONDS` overrides it, up to 600.
const SECONDS: u64 = 20;

#[tokio::test]
async fn cached_decisions_hold_while_nodes_move_between_racks() -> Result<()> {
    let seconds = match std::env::var("SUPERCARGO_RELABEL_SECONDS") {
        Ok(text) => {
            text.parse::<u64>().context("SUPERCARGO_RELABEL_SECONDS is a number of seconds")?.min(600)
        }
        Err(_) => SECONDS,
    };
    let parts = [Component::ControllerManager, Component::Kwok];
    let plane = ControlPlane::builder().with(parts).start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, "relabel", async |world| {
        world.supercargo.terminate()?;
        let mut setup = Setup::called(&world.name);
        setup.args.push("--verify-decisions=1".to_owned());
        world.supercargo = setup.launch(&plane).await?;
        world.supercargo.wait_until_ready().await?;
        let fleet: Vec<_> = (0..NODES)
            .map(|number| world.node(&format!("n{number}")).label(RACK, &format!("r{}", number / 2)))
            .collect();
        nodes::create_all(&world.client, &fleet).await?;
        let until = Instant::now() + Duration::from_secs(seconds);
        let (moves, pods) = tokio::try_join!(move_nodes(world, until), come_and_go(world, until))?;
        wait_for("every pod to be tried", PATIENCE, || async {
            let left = sample(&world.metrics().await?, "scheduler_pending_pods{queue=\"active\"}");
            ensure!(left == Some(0.0), "{left:?} wait");
            Ok(())
        })
        .await?;
        let metrics = world.metrics().await?;
        let counted = |series: &str| sample(&metrics, series).context(format!("no {series}"));
        let same = counted("supercargo_verified_decisions_total{result=\"same\"}")?;
        let different = counted("supercargo_verified_decisions_total{result=\"different\"}")?;
        eprintln!(
            "relabel: {seconds} s, {moves} moves, {pods} pods, {same} comparisons, {different} differences"
        );
        assert_eq!(different, 0.0, "{}", world.supercargo.log_tail());
        assert!(moves >= 100 && same >= 50.0, "{moves} moves and {same} comparisons are too few");
        assert_eq!(counted("supercargo_decision_cache_used")?, 1.0);
        Ok(())
    })
    .await
}

/// Repeatedly swaps the racks of two nodes, one after the other; between the two moves, one rack has one node and one
/// has three.
async fn move_nodes(world: &World<'_>, until: Instant) -> Result<usize> {
    let api = Api::<Node>::all(world.client.clone());
    let mut racks: Vec<usize> = (0..NODES).map(|number| number / 2).collect();
    let mut moves = 0;
    while Instant::now() < until {
        // Two strides coprime to 130 eventually visit every pair of nodes.
        let (one, other) = (moves * 7 % NODES, (moves * 11 + 3) % NODES);
        racks.swap(one, other);
        for node in [one, other] {
            let name = format!("{}-n{node}", world.name);
            let patch = json!({"metadata": {"labels": {RACK: format!("r{}", racks[node])}}});
            api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            moves += 1;
        }
    }
    Ok(moves)
}

/// Returns the affinity of the `number`-th pod.
fn spec(number: usize) -> Value {
    let labelled = |app: &str| json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": RACK});
    match number % 4 {
        0 => json!({}),
        1 => {
            json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [labelled("alone")]}})
        }
        2 => json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [labelled("base")]}}),
        _ => json!({
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [labelled("base")]},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [labelled("both")]},
        }),
    }
}

const APPS: [&str; 4] = ["base", "alone", "beside", "both"];

/// Creates pods, and deletes the oldest ones.
async fn come_and_go(world: &World<'_>, until: Instant) -> Result<usize> {
    let (api, mut there, mut number) = (world.pods(), VecDeque::new(), 0);
    while Instant::now() < until {
        let name = format!("p{number}");
        let mut pod = world.pod(&name, &json!({"affinity": spec(number)}))?;
        let app = APPS[number % APPS.len()].to_owned();
        pod.metadata.labels.get_or_insert_default().insert("app".to_owned(), app);
        create_once(api.clone(), pod).await?;
        there.push_back(name);
        if there.len() > PODS
            && let Some(oldest) = there.pop_front()
        {
            api.delete(&oldest, &DeleteParams::default().grace_period(0)).await?;
        }
        number += 1;
    }
    Ok(number)
}
