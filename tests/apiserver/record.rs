//! Recordings of a scheduler on a real API server, made by itself and from outside: replays match what the API server
//! shows.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::plane::ADMIN_TOKEN;
use crate::harness::supercargo::{self, Setup};
use crate::harness::wait::PATIENCE;
use crate::harness::wait_for;
use crate::world::{World, play, requesting};

/// Runs a replay. Returns its JSON output, exit code and error output.
async fn replayed(file: &Path, flags: &[&str]) -> Result<(Value, Option<i32>, String)> {
    let mut command = Command::new(supercargo::binary()?);
    command.arg("replay").arg(file).args(["-o", "json"]).args(flags);
    let out = tokio::task::spawn_blocking(move || command.output()).await??;
    let (text, said) = (String::from_utf8(out.stdout)?, String::from_utf8(out.stderr)?);
    let answer = serde_json::from_str(&text).with_context(|| format!("{text}{said}"))?;
    Ok((answer, out.status.code(), said))
}

/// Returns the recorded nodes of pods, by pod name.
fn recorded(file: &Path) -> Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(file)?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let placed = lines.map(|line| line["decided"].clone()).filter(|it| it["result"] == "placed");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(placed.map(|it| (text(&it["pod"]["name"]), text(&it["node"]))).collect())
}

/// Restarts the world's scheduler with these flags.
async fn start_with(world: &mut World<'_>, args: Vec<String>) -> Result<()> {
    world.supercargo.terminate()?;
    let mut setup = Setup::called(&world.name);
    setup.args.extend(args);
    world.supercargo = setup.launch(world.plane).await?;
    world.supercargo.wait_until_ready().await
}

/// Waits until these pods have nodes and returns the nodes by pod name.
async fn placed(world: &World<'_>, names: &[&str]) -> Result<BTreeMap<String, String>> {
    let mut nodes = BTreeMap::new();
    for name in names {
        nodes.insert((*name).to_owned(), world.bound(name).await?);
    }
    Ok(nodes)
}

/// Waits until the last decisions include the pod and returns them.
async fn shown(world: &World<'_>, pod: &str) -> Result<Value> {
    wait_for(&format!("/debug/decisions to have {pod}"), PATIENCE, || async {
        let (status, body) = world.supercargo.get("/debug/decisions", Some(ADMIN_TOKEN)).await?;
        ensure!(status == 200, "/debug/decisions answers {status}: {body}");
        let list: Value = serde_json::from_str(&body)?;
        let decisions = list["decisions"].as_array().context("a list")?;
        let found = decisions.iter().find(|it| it["pod"]["name"] == pod);
        found.cloned().with_context(|| body.clone())
    })
    .await
}

#[tokio::test]
async fn recording_from_a_real_api_server_replays_identically() -> Result<()> {
    play("record", async |world| {
        let folder = tempfile::tempdir()?;
        let (file, log) = (folder.path().join("input.jsonl"), folder.path().join("decisions.jsonl"));
        let flags = [("record-to", &file), ("decision-log", &log)];
        let flags: Vec<String> =
            flags.iter().map(|(flag, path)| format!("--{flag}={}", path.display())).collect();
        start_with(world, flags.clone()).await?;
        for name in ["a", "b"] {
            world.node(name).allocatable("cpu", "2").create(&world.client).await?;
        }
        let names = ["p1", "p2", "p3"];
        for name in names {
            world.create(name, &requesting(&json!({"cpu": "500m"}))).await?;
        }
        let nodes = placed(world, &names).await?;
        world.create("big", &requesting(&json!({"cpu": "3"}))).await?;
        world.waiting("big", "2 Insufficient cpu").await?;

        let of_a_pod = shown(world, "p1").await?;
        assert_eq!((&of_a_pod["result"], &of_a_pod["node"]), (&json!("placed"), &json!(nodes["p1"])));
        let of_none = shown(world, "big").await?;
        ensure!(of_none["message"].as_str().is_some_and(|it| it.contains("2 Insufficient cpu")), "{of_none}");
        let (status, _) = world.supercargo.get("/debug/decisions", Some(world.reader())).await?;
        assert_eq!(status, 403, "the permission to read metrics is not enough");

        world.supercargo.terminate()?;
        let (answer, code, said) = replayed(&file, &[]).await?;
        assert_eq!((code, &answer["identical"]), (Some(0), &json!(true)), "{answer:#}\n{said}");
        assert_eq!(answer["recording"]["ends"], "stopped");
        assert_eq!(recorded(&file)?, nodes, "what the API server shows");
        let logged = std::fs::read_to_string(&log)?;
        ensure!(
            logged.lines().any(|line| line.contains("\"name\":\"p1\"") && line.contains("\"placed\"")),
            "{logged}"
        );

        // After a kill, the recording is usable, and the previous one still exists.
        start_with(world, flags).await?;
        world.create("p4", &requesting(&json!({"cpu": "100m"}))).await?;
        let node = world.bound("p4").await?;
        shown(world, "p4").await?;
        wait_for("the decision to be in the file", PATIENCE, || async {
            ensure!(recorded(&file)?.get("p4") == Some(&node), "it is not there yet");
            Ok(())
        })
        .await?;
        world.supercargo.kill()?;
        let (answer, code, said) = replayed(&file, &[]).await?;
        assert_eq!((code, &answer["identical"]), (Some(0), &json!(true)), "{answer:#}\n{said}");
        ensure!(said.contains("the recording breaks off after"), "{said}");
        assert_eq!(recorded(&folder.path().join("input.jsonl.1"))?, nodes);
        start_with(world, Vec::new()).await
    })
    .await
}

#[tokio::test]
async fn outside_recording_compares_another_schedulers_bindings() -> Result<()> {
    play("watch-record", async |world| {
        let folder = tempfile::tempdir()?;
        let (file, config) = (folder.path().join("seen.jsonl"), folder.path().join("config.yaml"));
        std::fs::write(&config, supercargo::configuration(&world.name))?;
        let mut command = Command::new(supercargo::binary()?);
        command.arg("record").arg(&file).args(["--of", &world.name]).arg("--config").arg(&config);
        command.arg("--kubeconfig").arg(world.plane.admin().kubeconfig()).stderr(Stdio::piped());
        let mut recorder = command.spawn()?;
        let stderr = recorder.stderr.take().context("it is piped")?;
        let said = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(stderr).read_line(&mut line).map(|_| line)
        })
        .await??;
        ensure!(said.starts_with("all objects listed; recording to "), "{said}");

        for (name, cpu) in [("small", "2"), ("large", "16")] {
            world.node(name).allocatable("cpu", cpu).create(&world.client).await?;
        }
        let names = ["p1", "p2", "p3", "p4"];
        for name in names {
            world.create(name, &requesting(&json!({"cpu": "300m"}))).await?;
            world.bound(name).await?;
        }
        let seen = |name: &str| -> Result<bool> {
            let text = std::fs::read_to_string(&file)?;
            Ok(text.lines().any(|line| {
                line.contains(&format!("\"name\":\"{name}\"")) && line.contains("\"nodeName\"")
            }))
        };
        wait_for("the bindings to be in the file", PATIENCE, || async {
            ensure!(names.iter().map(|name| seen(name)).collect::<Result<Vec<_>>>()?.iter().all(|it| *it), "not yet");
            Ok(())
        })
        .await?;
        let interrupted = Command::new("kill").args(["-INT", &recorder.id().to_string()]).status()?;
        ensure!(interrupted.success(), "it cannot be interrupted");
        let status = tokio::task::spawn_blocking(move || recorder.wait()).await??;
        assert_eq!(status.code(), Some(0));

        let (answer, code, said) = replayed(&file, &[]).await?;
        assert_eq!(code, Some(0), "{answer:#}\n{said}");
        assert_eq!((&answer["watched"], &answer["compared"]["asked"]), (&json!(world.name), &json!(4)), "{answer:#}");
        // A bin-packing scheduler would have placed them on the small node, in any order.
        let mut packing = supercargo::configuration(&world.name);
        packing.push_str("  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 10}]}\n");
        std::fs::write(&config, packing)?;
        let (answer, code, said) = replayed(&file, &["--diff", "--config", &config.display().to_string()]).await?;
        assert_eq!(code, Some(3), "{answer:#}\n{said}");
        ensure!(answer["compared"]["elsewhere"].as_u64() >= Some(1), "{answer:#}");
        Ok(())
    })
    .await
}
