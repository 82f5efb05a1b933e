//! Reloading the configuration file: pods of a new profile are scheduled, those of a removed one are not, and an
//! invalid file is rejected.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::harness::pki::write_private;
use crate::harness::supercargo::{NAME, Setup, configuration};
use crate::world::{World, play, requesting};

/// Replaces the running scheduler's configuration file.
pub(crate) fn reconfigure(world: &World<'_>, text: &str) -> Result<()> {
    write_private(&world.plane.folder().join(format!("{NAME}-{}.yaml", world.name)), text)
}

pub(crate) fn reloads(result: &str) -> String {
    format!("supercargo_config_reloads_total{{result=\"{result}\"}}")
}

#[tokio::test]
async fn added_profile_schedules_its_pods_and_removed_one_does_not() -> Result<()> {
    play("reload", async |world| {
        world.node("a").allocatable("cpu", "4").create(&world.client).await?;
        let second = format!("{}-second", world.name);
        let mut of_second = requesting(&json!({"cpu": "1"}));
        of_second["schedulerName"] = json!(second);
        let of_first = requesting(&json!({"cpu": "1"}));
        // The pod exists before its profile.
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
async fn invalid_file_is_logged_with_position_and_rejected() -> Result<()> {
    play("bad-reload", async |world| {
        world.node("a").allocatable("cpu", "4").create(&world.client).await?;
        reconfigure(world, &format!("{}podMaxBackofSeconds: 5\n", configuration(&world.name)))?;
        world.counted(&reloads("invalid"), 1.0).await?;
        world.counted("supercargo_config_last_reload_success", 0.0).await?;
        let log = world.supercargo.log()?;
        let expected = ".yaml:7:1: podMaxBackofSeconds: strict decoding error: unknown field";
        ensure!(log.contains(expected), "{expected} is missing from the log");

        world.create("p", &requesting(&json!({"cpu": "1"}))).await?;
        world.bound("p").await?;
        reconfigure(world, &configuration(&world.name))?;
        world.counted("supercargo_config_last_reload_success", 1.0).await?;
        Ok(())
    })
    .await
}

/// Restarts the scheduler with a certificate from files. Returns the certificate's path.
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

/// The file gets, one after the other, errors that would prevent a start.
#[tokio::test]
async fn invalid_files_do_not_stop_a_running_scheduler() -> Result<()> {
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
            ("text", String::from("{{{"), "is parsed as JSON: key must be a string"),
        ];
        for (count, (name, text, _)) in (1_u32..).zip(&wrong) {
            reconfigure(world, text)?;
            world.counted(&reloads("invalid"), f64::from(count)).await?;
            world.create(name, &requesting(&json!({"cpu": "1"}))).await?;
            world.bound(name).await?;
        }
        // The certificate is read every ten seconds; the previous one stays in use.
        std::fs::write(&certificate, "no certificate")?;
        world.counted("supercargo_certificate_reloads_total{result=\"invalid\"}", 1.0).await?;
        world.counted("supercargo_certificate_last_reload_success", 0.0).await?;
        world.create("certificate", &requesting(&json!({"cpu": "1"}))).await?;
        world.bound("certificate").await?;
        // A folder cannot be read as a file.
        std::fs::remove_file(&path)?;
        std::fs::create_dir(&path)?;
        world.counted(&reloads("invalid"), 5.0).await?;
        world.create("folder", &requesting(&json!({"cpu": "1"}))).await?;
        world.bound("folder").await?;
        let log = world.supercargo.log()?;
        for (name, _, expected) in &wrong {
            ensure!(
                log.replace("\\\"", "\"").contains(&expected.replace("\\\"", "\"")),
                "{name}: {expected} is missing from the log"
            );
        }
        ensure!(log.contains("Is a directory (os error 21)"), "the folder's error is missing from the log");
        let expected = "as a serving certificate or its key (--tls-cert-file, --tls-private-key-file, --tls-sni-cert-key): it contains no PEM certificate";
        let of_certificate = |line: &&str| {
            line.contains("failed to reload the serving certificate") && line.contains(expected)
        };
        let count = log.lines().filter(of_certificate).count();
        ensure!(count == 1, "the certificate's error is logged {count} times");
        std::fs::remove_dir(&path)?;
        reconfigure(world, &right)?;
        world.counted("supercargo_config_last_reload_success", 1.0).await
    })
    .await
}
