//! The configuration file while it runs: a new profile takes up its pods, one that is gone lets them go, a wrong file changes nothing.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::support::pki::write_private;
use crate::support::supercargo::{NAME, Setup, configuration};
use crate::world::{World, play, requesting};

/// Puts another file in the place of the one it runs with.
pub(crate) fn reconfigure(world: &World<'_>, text: &str) -> Result<()> {
    write_private(&world.plane.folder().join(format!("{NAME}-{}.yaml", world.name)), text)
}

pub(crate) fn reloads(result: &str) -> String {
    format!("supercargo_config_reloads_total{{result=\"{result}\"}}")
}

#[tokio::test]
async fn a_new_profile_takes_up_its_pods_and_one_that_is_gone_lets_them_go() -> Result<()> {
    play("reload", async |world| {
        world.node("a").allocatable("cpu", "4").create(&world.client).await?;
        let second = format!("{}-second", world.name);
        let mut of_second = requesting(&json!({"cpu": "1"}));
        of_second["schedulerName"] = json!(second);
        let of_first = requesting(&json!({"cpu": "1"}));
        // It waits before there is anybody to place it.
        world.create("waiting", &of_second).await?;
        world.create("first", &of_first).await?;
        world.bound("first").await?;

        reconfigure(world, &format!("{}- schedulerName: {second}\n", configuration(&world.name)))?;
        world.bound("waiting").await?;
        world.counted(&reloads("applied"), 1.0).await?;

        reconfigure(world, &configuration(&second))?;
        world.counted(&reloads("applied"), 2.0).await?;
        world.create("let-go", &of_first).await?;
        world.create("taken", &of_second).await?;
        world.bound("taken").await?;
        let let_go = world.pods().get("let-go").await?;
        ensure!(let_go.spec.is_some_and(|spec| spec.node_name.is_none()), "its profile is gone");

        reconfigure(world, &configuration(&world.name))?;
        world.bound("let-go").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_file_that_is_not_valid_is_told_with_its_place_and_changes_nothing() -> Result<()> {
    play("bad-reload", async |world| {
        world.node("a").allocatable("cpu", "4").create(&world.client).await?;
        reconfigure(world, &format!("{}podMaxBackofSeconds: 5\n", configuration(&world.name)))?;
        world.counted(&reloads("invalid"), 1.0).await?;
        world.counted("supercargo_config_last_reload_success", 0.0).await?;
        let log = world.supercargo.log()?;
        let told = ".yaml:7:1: podMaxBackofSeconds: strict decoding error: unknown field";
        ensure!(log.contains(told), "{told} is not in the log");

        world.create("p", &requesting(&json!({"cpu": "1"}))).await?;
        world.bound("p").await?;
        reconfigure(world, &configuration(&world.name))?;
        world.counted("supercargo_config_last_reload_success", 1.0).await?;
        Ok(())
    })
    .await
}

/// Starts it anew with a certificate from files; the file with the certificate.
async fn with_certificate(world: &mut World<'_>) -> Result<PathBuf> {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let file = |end: &str| world.plane.folder().join(format!("{}.{end}", world.name));
    let (certificate, key) = (file("crt"), file("key"));
    std::fs::write(&certificate, pair.cert.pem())?;
    write_private(&key, &pair.signing_key.serialize_pem())?;
    let mut setup = Setup::called(&world.name);
    setup.args.push(format!("--tls-cert-file={}", certificate.display()));
    setup.args.push(format!("--tls-private-key-file={}", key.display()));
    world.supercargo.terminate()?;
    world.supercargo = setup.launch(world.plane).await?;
    world.supercargo.wait_until_ready().await?;
    Ok(certificate)
}

/// The file becomes, one after the other, what would have kept it from starting.
#[tokio::test]
async fn nothing_that_is_wrong_with_its_files_stops_a_running_scheduler() -> Result<()> {
    play("goes-on", async |world| {
        world.node("a").allocatable("cpu", "16").create(&world.client).await?;
        let certificate = with_certificate(world).await?;
        let right = configuration(&world.name);
        let path = world.plane.folder().join(format!("{NAME}-{}.yaml", world.name));
        let wrong = [
            (
                "version",
                right.replace("/v1\n", "/v1beta3\n"),
                "no kind \\\"KubeSchedulerConfiguration\\\" is registered",
            ),
            (
                "plugin",
                format!("{right}  plugins:\n    score:\n      enabled:\n      - name: NodeResourcesFitt\n"),
                "ScorePlugin \\\"NodeResourcesFitt\\\" does not exist",
            ),
            (
                "twice",
                format!("{right}- schedulerName: {}\n", world.name),
                "profiles[1].schedulerName: Duplicate value",
            ),
            ("text", String::from("{{{"), "cannot be taken"),
        ];
        for (count, (name, text, _)) in (1_u32..).zip(&wrong) {
            reconfigure(world, text)?;
            world.counted(&reloads("invalid"), f64::from(count)).await?;
            world.create(name, &requesting(&json!({"cpu": "1"}))).await?;
            world.bound(name).await?;
        }
        // Its certificate, which it reads every ten seconds, goes on being what it was.
        std::fs::write(&certificate, "no certificate")?;
        world.counted("supercargo_certificate_reloads_total{result=\"invalid\"}", 1.0).await?;
        world.counted("supercargo_certificate_last_reload_success", 0.0).await?;
        world.create("certificate", &requesting(&json!({"cpu": "1"}))).await?;
        world.bound("certificate").await?;
        // Nobody can read a folder.
        std::fs::remove_file(&path)?;
        std::fs::create_dir(&path)?;
        world.counted(&reloads("invalid"), 5.0).await?;
        world.create("folder", &requesting(&json!({"cpu": "1"}))).await?;
        world.bound("folder").await?;
        let log = world.supercargo.log()?;
        for (name, _, told) in &wrong {
            ensure!(
                log.replace("\\\"", "\"").contains(&told.replace("\\\"", "\"")),
                "{name}: {told} is not in the log"
            );
        }
        ensure!(log.contains("Is a directory (os error 21)"), "the folder is not in the log");
        let told = "as --tls-cert-file and --tls-private-key-file: it contains no PEM certificate";
        let of_certificate =
            |line: &&str| line.contains("failed to reload the serving certificate") && line.contains(told);
        let count = log.lines().filter(of_certificate).count();
        ensure!(count == 1, "the certificate is told of {count} times");
        std::fs::remove_dir(&path)?;
        reconfigure(world, &right)?;
        world.counted("supercargo_config_last_reload_success", 1.0).await
    })
    .await
}
