//! The HTTPS port with real identities: access control, and metrics of real events. The API server reviews every
//! token, and supercargo has only the manifests' permissions.

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::objects::service_account_token;
use crate::harness::plane::ADMIN_TOKEN;
use crate::harness::wait::PATIENCE;
use crate::harness::{http, supercargo, wait_for};
use crate::world::{installed, play, requesting, sample};

#[tokio::test]
async fn only_health_endpoints_allow_anonymous_access() -> Result<()> {
    play("health", async |world| {
        for path in ["/healthz", "/livez", "/readyz"] {
            assert_eq!(world.supercargo.get(path, None).await?, (200, String::from("ok")), "{path}");
        }
        let (status, body) = world.supercargo.get("/readyz?verbose", None).await?;
        ensure!(status == 200 && body.contains("[+]sched-handler-sync ok"), "{status}: {body}");
        for path in ["/metrics", "/metrics/slis", "/readyz/sched-handler-sync", "/no-such-path"] {
            let (status, body) = world.supercargo.get(path, None).await?;
            assert_eq!(status, 403, "{path}: {body}");
            ensure!(body.contains("system:anonymous"), "the denied user is named: {body}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn metrics_require_permission_reviewed_by_api_server() -> Result<()> {
    play("metrics", async |world| {
        let (status, _) = world.supercargo.get("/metrics", Some("made-up")).await?;
        assert_eq!(status, 401, "the token is unknown");

        let stranger = service_account_token(&world.client, &world.name, "default").await?;
        let (status, body) = world.supercargo.get("/metrics", Some(&stranger)).await?;
        assert_eq!(status, 403, "{body}");
        let user = format!("system:serviceaccount:{}:default", world.name);
        ensure!(
            body.contains(&user) && body.contains("/metrics"),
            "the denied user and path are named: {body}"
        );

        let scrape = world.metrics().await?;
        ensure!(scrape.contains("# TYPE scheduler_schedule_attempts_total counter"), "{scrape}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn metrics_count_real_events() -> Result<()> {
    play("counts", async |world| {
        world.node("a").allocatable("cpu", "2").create(&world.client).await?;
        let attempts = |result: &str| {
            format!("scheduler_schedule_attempts_total{{profile=\"{}\",result=\"{result}\"}}", world.name)
        };
        let pending = |queue: &str| format!("scheduler_pending_pods{{queue=\"{queue}\"}}");
        for (name, cpu) in [("one", "1"), ("two", "1")] {
            world.create(name, &requesting(&json!({"cpu": cpu}))).await?;
            world.bound(name).await?;
        }
        world.counted(&attempts("scheduled"), 2.0).await?;
        world.create("three", &requesting(&json!({"cpu": "1"}))).await?;
        world.create("gated", &json!({"schedulingGates": [{"name": "example.com/budget"}]})).await?;
        world.waiting("three", "1 Insufficient cpu").await?;
        world.counted(&pending("unschedulable"), 1.0).await?;
        world.counted(&pending("gated"), 1.0).await?;

        let scrape = world.metrics().await?;
        ensure!(sample(&scrape, &attempts("unschedulable")) >= Some(1.0), "the third was tried");
        assert_eq!(sample(&scrape, &attempts("error")).unwrap_or_default(), 0.0);
        assert_eq!(sample(&scrape, "scheduler_pod_scheduling_attempts_count"), Some(2.0));
        let duration = format!("{{profile=\"{}\",result=\"scheduled\"}}", world.name);
        let observed =
            sample(&scrape, &format!("scheduler_scheduling_attempt_duration_seconds_count{duration}"));
        assert_eq!(observed, Some(2.0), "one observation per attempt");

        world.delete("one").await?;
        world.bound("three").await?;
        world.counted(&attempts("scheduled"), 3.0).await?;
        world.counted(&pending("unschedulable"), 0.0).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn sigusr2_compares_cache_with_api_server() -> Result<()> {
    play("compared", async |world| {
        world.node("a").allocatable("cpu", "1").create(&world.client).await?;
        world.create("there", &requesting(&json!({"cpu": "1"}))).await?;
        world.bound("there").await?;
        world.create("waits", &requesting(&json!({"cpu": "1"}))).await?;
        world.waiting("waits", "Insufficient cpu").await?;
        let (status, _) = world.supercargo.get("/metrics", Some(world.reader())).await?;
        assert_eq!(status, 200);
        let level = format!("https://127.0.0.1:{}/debug/flags/v", world.supercargo.port());
        let set = http::ask(::http::Method::PUT, &level, Some(ADMIN_TOKEN), None, "4").await?;
        assert_eq!(set.status, 200, "{set:?}");
        world.supercargo.signal(Signal::SIGUSR2)?;
        wait_for("the comparison to end", PATIENCE, || async {
            let log = world.supercargo.log()?;
            ensure!(log.contains("Cache comparer finished"), "it has not finished");
            ensure!(!log.contains("Cache mismatch"), "there is a mismatch");
            Ok(())
        })
        .await?;
        for series in [
            "Node\",which=\"missed",
            "Node\",which=\"redundant",
            "Pod\",which=\"missed",
            "Pod\",which=\"redundant",
        ] {
            world.counted(&format!("supercargo_cache_drift{{kind=\"{series}\"}}"), 0.0).await?;
        }
        Ok(())
    })
    .await
}

/// kube-scheduler places the manifests' pods, and kwok reports them as Running.
#[tokio::test]
async fn deployment_of_the_manifests_gets_its_pods() -> Result<()> {
    let plane = installed().await?;
    supercargo::wait_for_the_deployment(plane).await?;
    let fields = "jsonpath={range .items[*]}{.spec.schedulerName} {.spec.serviceAccountName} {.spec.nodeName} {.status.phase}{\"\\n\"}{end}";
    let pods = ["get", "pods", "-n", "kube-system", "-l", "app.kubernetes.io/name=supercargo", "-o", fields];
    let placed = plane.admin().kubectl(&pods).await?;
    let each = "default-scheduler supercargo control-plane Running";
    assert_eq!(placed.trim().lines().collect::<Vec<_>>(), [each; 2]);
    // Applying the manifests again, as an upgrade does, changes no immutable field.
    supercargo::install(plane).await
}
