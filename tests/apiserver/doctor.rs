//! `supercargo doctor` on a real API server: healthy installations, and ones with a missing permission, no leader or
//! a second scheduler.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::harness::access::Access;
use crate::harness::objects::{pod, service_account_token};
use crate::harness::supercargo::{NAME, binary};
use crate::harness::wait::PATIENCE;
use crate::harness::wait_for;
use crate::world::{World, play};

/// Runs doctor on this test's installation.
async fn doctor(world: &World<'_>, who: &Access, lease: &str) -> Result<(Option<i32>, Value)> {
    let account = format!("{}:{NAME}", world.name);
    let flags = ["--service-account", &account, "--lease", lease, "--lease-namespace", &world.name];
    doctor_with(who, &flags).await
}

/// Runs doctor with these flags; returns its exit code and report.
pub(crate) async fn doctor_with(who: &Access, flags: &[&str]) -> Result<(Option<i32>, Value)> {
    let mut command = Command::new(binary()?);
    command.args(["doctor", "-o", "json"]).args(flags).arg("--kubeconfig").arg(who.kubeconfig());
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = serde_json::from_str(&stdout);
    Ok((output.status.code(), report.with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?))
}

/// Returns a check's status and text.
pub(crate) fn check<'r>(report: &'r Value, id: &str) -> Result<(&'r str, &'r str)> {
    let checks = report["checks"].as_array().context("there are checks")?;
    let check = checks.iter().find(|check| check["id"] == id).with_context(|| format!("no {id}"))?;
    Ok((check["status"].as_str().unwrap_or_default(), check["text"].as_str().unwrap_or_default()))
}

#[tokio::test]
async fn doctor_reports_what_an_installation_has_and_lacks() -> Result<()> {
    play("doctor", async |world| {
        world.elect().await?;
        let (admin, lease) = (world.plane.admin(), world.name.clone());
        wait_for("a leader", PATIENCE, || async {
            let (_, report) = doctor(world, &admin, &lease).await?;
            for well in [
                "ApiServerVersion",
                "ServiceAccount",
                "Rights",
                "Leader",
                "ApiServerCertificate",
                "CertificateAuthority",
                "ClockSkew",
                "PriorityClass",
                "ResourceQuota",
            ] {
                let (status, text) = check(&report, well)?;
                ensure!(status == "ok", "{well}: {status}: {text}");
            }
            Ok(())
        })
        .await?;

        // The leader is a process, not a pod of the cluster.
        let (_, report) = doctor(world, &admin, &lease).await?;
        let (status, text) = check(&report, "Holder")?;
        ensure!(status == "ok" && text.contains("is a process that is no pod in "), "{text}");
        ensure!(check(&report, "ApiServerCertificate")?.1.contains(" days from now"), "{report}");

        let (code, report) = doctor(world, &admin, "no-such-lease").await?;
        assert_eq!((code, check(&report, "Holder")?.0), (Some(3), "ok"));
        let (status, text) = check(&report, "Leader")?;
        ensure!(status == "problem" && text.contains("there was no leader yet"), "{text}");

        let binding = format!("{lease}-supercargo-act");
        admin.kubectl(&["delete", "clusterrolebinding", &binding]).await?;
        wait_for("the permission to be revoked", PATIENCE, || async {
            let (code, report) = doctor(world, &admin, &lease).await?;
            let (status, text) = check(&report, "Rights")?;
            ensure!(status == "problem" && code == Some(3), "{status}: {text}");
            for lost in ["no pod is bound (without create pods/binding)", "preemption cannot evict pods"] {
                ensure!(text.contains(lost), "{lost}: {text}");
            }
            ensure!(!text.contains("schedules nothing"), "it has all it reads by: {text}");
            Ok(())
        })
        .await
    })
    .await
}

#[tokio::test]
async fn doctor_reports_other_schedulers_and_unserved_pods() -> Result<()> {
    play("beside", async |world| {
        let admin = world.plane.admin();
        // Its name sorts before those of other tests.
        let unserved = format!("0-{}", world.name);
        let spec = json!({"schedulerName": unserved, "containers": [{"name": "c", "image": "example.com/a"}]});
        let pods: Api<Pod> = world.pods();
        pods.create(&PostParams::default(), &pod("lost", &world.name, &spec)?).await?;
        for name in ["one", "two"] {
            let config = format!("leaderElection: {{resourceName: {name}}}\nprofiles: [{{schedulerName: {}}}]", world.name);
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": config}, "metadata": {
                "name": name, "namespace": world.name, "labels": {"app.kubernetes.io/name": "supercargo"}}});
            admin.apply(&map.to_string()).await?;
        }
        let (code, report) = doctor(world, &admin, &world.name).await?;
        assert_eq!(code, Some(3));
        let (status, text) = check(&report, "UnservedPods")?;
        ensure!(status == "warning" && text.contains(&format!("1 for {unserved}")), "{text}");
        let (status, text) = check(&report, "ServedOnce")?;
        let twice = format!("{0} by {0}/one and {0}/two", world.name);
        ensure!(status == "problem" && text.contains(&twice), "{text}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn doctor_reports_quota_and_priority_class_problems() -> Result<()> {
    play("kept-out", async |world| {
        let admin = world.plane.admin();
        // The manifests, in the test's namespace and without pods.
        let written = include_str!("../../manifests/base/deployment.yaml");
        let deployment = written
            .replace("namespace: kube-system", &format!("namespace: {}", world.name))
            .replace("    tier: control-plane\nspec:\n", "    app.kubernetes.io/name: supercargo\nspec:\n")
            .replace("replicas: 2", "replicas: 0")
            .replace("system-cluster-critical", "gold-that-is-not-there");
        admin.apply(&deployment).await?;
        let quota = |hard: &Value| {
            json!({
                "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "critical", "namespace": world.name},
                "spec": {"hard": hard, "scopeSelector": {"matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "In", "values": ["gold-that-is-not-there"]}]}},
            })
        };
        admin.apply(&quota(&json!({"pods": "0"})).to_string()).await?;
        let (code, report) = doctor(world, &admin, &world.name).await?;
        assert_eq!(code, Some(3));
        let (status, text) = check(&report, "PriorityClass")?;
        ensure!(status == "problem" && text.contains("gold-that-is-not-there"), "{text}");
        let (status, text) = check(&report, "ResourceQuota")?;
        ensure!(status == "warning" && text.contains("critical: 0 of 0 pods are used"), "{text}");

        admin.apply(&quota(&json!({"limits.cpu": "1"})).to_string()).await?;
        let (_, report) = doctor(world, &admin, &world.name).await?;
        let (status, text) = check(&report, "ResourceQuota")?;
        ensure!(status == "problem" && text.contains("critical requires limits.cpu"), "{text}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn doctor_without_permissions_lists_the_missing_ones() -> Result<()> {
    play("unknown", async |world| {
        let token = service_account_token(&world.client, &world.name, "default").await?;
        let plain = world.plane.token_bearer(&format!("{}-doctor", world.name), &token)?;
        let (code, report) = doctor(world, &plain, &world.name).await?;
        for id in [
            "ServiceAccount",
            "Rights",
            "Leader",
            "DefaultScheduler",
            "ServedOnce",
            "UnservedPods",
            "CacheDrift",
            "Holder",
            "Replicas",
            "PriorityClass",
            "ResourceQuota",
        ] {
            let (status, text) = check(&report, id)?;
            assert_eq!(status, "unknown", "{id}: {text}");
        }
        // A check that could not run does not pass.
        assert_eq!((code, check(&report, "ApiServerVersion")?.0), (Some(4), "ok"));
        assert_eq!(check(&report, "Credentials")?.0, "ok");
        let rights = report["checks"].as_array().and_then(|all| all.iter().find(|it| it["id"] == "Rights"));
        ensure!(
            rights.is_some_and(|it| it["toDo"]
                == format!(
                    "ask a user with the permission to create subjectaccessreviews.authorization.k8s.io, or to impersonate \
                     system:serviceaccount:{}:{NAME}",
                    world.name
                )),
            "{report}"
        );
        Ok(())
    })
    .await
}

/// Another identity than the installation's ServiceAccount: asked for by name, as a user who may only impersonate
/// it, and as the identity itself.
#[tokio::test]
async fn doctor_checks_the_rights_of_any_identity() -> Result<()> {
    play("identities", async |world| {
        let admin = world.plane.admin();
        let rights = async |who: &Access, flags: &[&str]| -> Result<(String, String)> {
            let (_, report) = doctor_with(who, flags).await?;
            let (status, text) = check(&report, "Rights")?;
            ensure!(check(&report, "Credentials")?.0 == "ok", "{report:#}");
            Ok((status.to_owned(), text.to_owned()))
        };
        let scheduler = ["--identity", "system:kube-scheduler"];
        let (status, text) = rights(&admin, &scheduler).await?;
        ensure!(status == "ok" && text.starts_with("system:kube-scheduler has all "), "{text}");

        let plain_account = format!("system:serviceaccount:{}:default", world.name);
        let (status, text) = rights(&admin, &["--identity", &plain_account]).await?;
        ensure!(
            status == "problem" && text.contains("no pod is bound (without create pods/binding)"),
            "{text}"
        );

        // Its roles grant other Leases only in kube-system.
        let flags = [&scheduler[..], &["--lease", "other", "--lease-namespace", &world.name]].concat();
        let (status, text) = rights(&admin, &flags).await?;
        ensure!(status == "problem" && text.contains("it cannot become leader"), "another Lease: {text}");

        // As kubectl does: the requests are the other user's, and so are the rights.
        for flags in
            [&["--as", "system:kube-scheduler"][..], &["--as", "jane", "--as-group", "system:masters"]]
        {
            let (status, text) = rights(&admin, flags).await?;
            ensure!(status == "ok" && text.starts_with(flags[1]), "{flags:?}: {text}");
        }
        let (status, text) = rights(&admin, &["--as", "jane"]).await?;
        ensure!(status == "problem" && text.starts_with("jane lacks "), "{text}");

        // A user who may not create SubjectAccessReviews, and may impersonate this one identity.
        let token = service_account_token(&world.client, &world.name, "default").await?;
        let plain = world.plane.token_bearer(&format!("{}-identities", world.name), &token)?;
        let (status, text) = rights(&plain, &scheduler).await?;
        ensure!(status == "unknown" && text.contains("403"), "without rights: {text}");
        let (code, report) = doctor_with(&plain, &["--as", "system:kube-scheduler"]).await?;
        let (status, text) = check(&report, "Credentials")?;
        ensure!(
            status == "problem" && text.contains("does not take requests as system:kube-scheduler"),
            "{text}"
        );
        assert_eq!(code, Some(3));

        let role = format!("{}-impersonate", world.name);
        let verbs = ["create", "clusterrole", &role, "--verb=impersonate", "--resource=users"];
        admin.kubectl(&[&verbs[..], &["--resource-name=system:kube-scheduler"]].concat()).await?;
        let subject = format!("--serviceaccount={}:default", world.name);
        admin
            .kubectl(&["create", "clusterrolebinding", &role, &format!("--clusterrole={role}"), &subject])
            .await?;
        wait_for("the permission to impersonate", PATIENCE, || async {
            let (status, text) = rights(&plain, &scheduler).await?;
            ensure!(status == "ok", "{text}");
            Ok(())
        })
        .await
    })
    .await
}
