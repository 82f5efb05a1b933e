//! `supercargo explain` on a running cluster predicts what the scheduler then reports and does.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::process::Command;

use crate::harness::supercargo;
use crate::world::{World, play, requesting};

/// Runs explain for a pod of the world with the administrator's kubeconfig. Returns output and exit code.
async fn explained(world: &World<'_>, pod: &str, flags: &[&str]) -> Result<(Value, Option<i32>)> {
    let folder = tempfile::tempdir()?;
    let configuration = folder.path().join("configuration.yaml");
    std::fs::write(&configuration, supercargo::configuration(&world.name))?;
    let mut command = Command::new(supercargo::binary()?);
    command
        .args(["explain", "pod", pod, "-o", "json", "--namespace", &world.name])
        .arg("--kubeconfig")
        .arg(world.plane.admin().kubeconfig())
        .arg("--config")
        .arg(&configuration)
        .args(flags);
    let out = tokio::task::spawn_blocking(move || command.output()).await??;
    let text = String::from_utf8(out.stdout)?;
    let answer = serde_json::from_str(&text)
        .with_context(|| format!("{text}{}", String::from_utf8_lossy(&out.stderr)))?;
    Ok((answer, out.status.code()))
}

#[tokio::test]
async fn explain_matches_what_the_scheduler_reports_and_does() -> Result<()> {
    play("explain", async |world| {
        let node = world.node("a").allocatable("cpu", "1");
        node.create(&world.client).await?;
        let name = node.name().to_owned();
        world.create("big", &requesting(&json!({"cpu": "2"}))).await?;
        world.waiting("big", "1 Insufficient cpu").await?;

        let (answer, code) = explained(world, "big", &[]).await?;
        assert_eq!((&answer["verdict"], code), (&json!("neverFits"), Some(3)), "{answer:#}");
        let event = answer["event"].as_str().context("a text")?;
        ensure!(event.contains("1 Insufficient cpu"), "{event}");
        // Nodes of other tests can be near misses, too.
        let near = answer["nearMisses"].as_array().context("a list")?;
        let near = near.iter().find(|near| near["node"] == *name).context("the node is a near miss")?;
        assert_eq!(near["text"], "requests 2 cpu, 1 of 1 free; too small even if empty");
        let grows = answer["changes"].as_array().context("a list")?;
        let grows = grows
            .iter()
            .find(|change| change["codes"] == json!(["GrowNode"]))
            .context("a GrowNode change is offered")?;
        assert_eq!(grows["examples"], json!([name]));

        // A pod that fits is placed where explain predicted.
        world.create("small", &requesting(&json!({"cpu": "1"}))).await?;
        assert_eq!(world.bound("small").await?, name);
        let (answer, code) = explained(world, "small", &["--scores"]).await?;
        assert_eq!((&answer["verdict"], &answer["node"], code), (&json!("bound"), &json!(name), Some(0)));
        assert_eq!(answer["scores"]["winners"], json!([name]), "{answer:#}");
        Ok(())
    })
    .await
}
