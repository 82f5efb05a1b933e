//! Shadow mode beside the real kube-scheduler, with only the overlay's permissions: kube-scheduler places many kinds
//! of pods, and the shadow compares each placement.
//!
//! The audit log shows that the account writes nothing. `SUPERCARGO_SHADOW_PODS` sets the number of pods (default
//! 2,000).

mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::audited::Audited;
use crate::harness::objects::{create_namespace, node_of, service_account_token};
use crate::harness::pki::write_private;
use crate::harness::supercargo::{NAMESPACE, Setup, Supercargo, binary};
use crate::harness::{Component, ControlPlane, nodes, wait_for};
use crate::rights::Right;
use crate::world::sample;

/// Fewer than a hundred, so that kube-scheduler evaluates all nodes regardless of its percentage setting.
const NODES: usize = 60;
const PODS: usize = 2_000;
/// Pods among them that fit no node.
const TOO_LARGE: usize = 5;
/// Additional pods created in a concurrent burst, so that bindings overtake each other.
const BURST: usize = 200;
const BURST_AT_ONCE: usize = 16;
/// Timeout for all of it on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
const ACCOUNT: &str = "supercargo-shadow";

/// Maximum share of raced decisions.
const RACED_PERCENT_MAX: f64 = 2.0;

/// Starts the shadow with the account, configuration and flags of the overlay's Deployment.
async fn shadow(plane: &ControlPlane) -> Result<Supercargo> {
    let overlay = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/overlays/shadow");
    let admin = plane.admin();
    admin
        .kubectl(&["label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted"])
        .await?;
    admin.kubectl(&["apply", "-k", &overlay.display().to_string(), "--warnings-as-errors"]).await?;
    admin
        .kubectl(&["rollout", "status", "deployment/supercargo-shadow", "-n", NAMESPACE, "--timeout=120s"])
        .await?;
    let deployment = admin.kubectl(&["get", "deployment", ACCOUNT, "-n", NAMESPACE, "-o", "json"]).await?;
    let deployment: Value = serde_json::from_str(&deployment)?;
    let args =
        deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().context("arguments")?;
    let args = args.iter().filter_map(Value::as_str).map(str::to_owned);
    let jsonpath = r"jsonpath={.data.config\.yaml}";
    let get = ["get", "configmap", "supercargo-config-shadow", "-n", NAMESPACE, "-o", jsonpath];
    let setup = Setup {
        name: ACCOUNT.to_owned(),
        program: None,
        namespace: NAMESPACE.to_owned(),
        account: ACCOUNT.to_owned(),
        configuration: admin.kubectl(&get).await?,
        port: None,
        server: None,
        token_duration: None,
        stderr: None,
        env: Vec::new(),
        args: args.filter(|arg| !arg.starts_with("--config") && !arg.starts_with("--secure-port")).collect(),
    };
    ensure!(setup.args.iter().any(|arg| arg == "--shadow-of=default-scheduler"), "{:?}", setup.args);
    let mut shadow = setup.launch(plane).await?;
    shadow.wait_until_ready().await?;
    Ok(shadow)
}

/// Returns two tokens: of a user who may read metrics and report, and of one who may not.
async fn readers(plane: &ControlPlane, namespace: &str) -> Result<(String, String)> {
    let (admin, client) = (plane.admin(), plane.client().await?);
    for account in ["reader", "stranger"] {
        admin.kubectl(&["create", "serviceaccount", account, "-n", namespace]).await?;
    }
    for role in ["supercargo-metrics-reader-shadow", "supercargo-report-shadow"] {
        let (role_flag, account) =
            (format!("--clusterrole={role}"), format!("--serviceaccount={namespace}:reader"));
        admin.kubectl(&["create", "clusterrolebinding", role, &role_flag, &account]).await?;
    }
    let reader = service_account_token(&client, namespace, "reader").await?;
    Ok((reader, service_account_token(&client, namespace, "stranger").await?))
}

/// Returns the number of decisions per agreement.
async fn tally(shadow: &Supercargo, token: &str) -> Result<BTreeMap<String, f64>> {
    let (status, text) = shadow.get("/metrics", Some(token)).await?;
    ensure!(status == 200, "/metrics answers {status}: {text}");
    let words =
        ["same", "equal_score", "different", "we_fit_they_not", "they_fit_we_not", "neither_fits", "raced"];
    let series = |word: &str| format!("supercargo_shadow_decisions_total{{agreement=\"{word}\"}}");
    let mut tally: BTreeMap<String, f64> = BTreeMap::new();
    for word in words {
        let count = sample(&text, &series(word)).with_context(|| format!("no count of {word}"))?;
        tally.insert(word.to_owned(), count);
    }
    let unjudged = ["unordered", "unsupported", "failed", "crowded"].iter().map(|why| {
        sample(&text, &format!("supercargo_shadow_unjudged_total{{reason=\"{why}\"}}")).unwrap_or(f64::NAN)
    });
    tally.insert("unjudged".to_owned(), unjudged.sum());
    Ok(tally)
}

/// Creates pods, `at_once` concurrently, and waits until all that fit are bound.
async fn place(api: &Api<Pod>, wanted: Vec<Pod>, at_once: usize) -> Result<()> {
    let created =
        stream::iter(wanted).map(|pod| async move { api.create(&PostParams::default(), &pod).await });
    created.buffer_unordered(at_once).try_collect::<Vec<_>>().await?;
    wait_for("kube-scheduler to place all pods", PATIENCE, || async {
        let pods = api.list(&ListParams::default()).await?.items;
        let waiting = pods.iter().filter(|pod| node_of(pod).is_none()).count();
        ensure!(waiting == TOO_LARGE, "{waiting} have no node");
        Ok(())
    })
    .await
}

/// Waits until the decisions about all pods are compared, and returns their numbers.
async fn judged(shadow: &Supercargo, token: &str, pods: usize) -> Result<BTreeMap<String, f64>> {
    wait_for("every decision to be compared", PATIENCE, || async {
        let tally = tally(shadow, token).await?;
        let judged: f64 = tally.values().sum();
        // An unschedulable pod has at least one decision.
        ensure!(judged >= pods as f64, "{judged} of {pods} are: {tally:?}");
        Ok(tally)
    })
    .await
}

/// Checks the account's audited requests against the overlay: no writes, and every permission is used except `list`,
/// which is for API servers that abort watches.
async fn check_rights(audited: &Audited) -> Result<()> {
    let reviews = ["tokenreviews", "subjectaccessreviews"];
    let used = audited
        .once("the audit log to have the reviews", |entries| {
            let used: BTreeSet<Right> = entries.iter().filter_map(Right::used).collect();
            for review in reviews {
                ensure!(used.iter().any(|right| right.text() == format!("create {review}")), "no {review}");
            }
            Ok(used)
        })
        .await?;
    let texts: BTreeSet<String> = used.iter().map(Right::text).collect();
    for text in &texts {
        let reads = ["list ", "watch "].iter().any(|verb| text.starts_with(verb));
        let reviews = reviews.iter().any(|review| *text == format!("create {review}"));
        ensure!(reads || reviews, "it used {text}");
    }
    for role in ["supercargo-read-shadow", "supercargo-serve-auth-shadow"] {
        let role = audited.plane.admin().kubectl(&["get", "clusterrole", role, "-o", "json"]).await?;
        let role: Value = serde_json::from_str(&role)?;
        for rule in role["rules"].as_array().context("a role has rules")? {
            for resource in rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                for verb in rule["verbs"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                    let right = format!("{verb} {resource}");
                    // Shadow mode does not watch PodGroups.
                    let is_unused = verb == "list" || resource == "podgroups";
                    ensure!(is_unused || texts.contains(&right), "{right} is granted, but not used");
                }
            }
        }
    }
    Ok(())
}

/// Runs `supercargo shadow report`.
async fn report(shadow: &Supercargo, token: &str, output: &str) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("token");
    std::fs::write(&file, token)?;
    let mut command = Command::new(binary()?);
    command.args(["shadow", "report", "--insecure-skip-tls-verify", "-o", output]);
    command.arg(format!("--server=https://127.0.0.1:{}", shadow.port()));
    command.arg(format!("--token-file={}", file.display()));
    let said = tokio::task::spawn_blocking(move || command.output()).await??;
    if !said.status.success() {
        bail!("{}: {}", said.status, String::from_utf8_lossy(&said.stderr));
    }
    Ok(String::from_utf8(said.stdout)?)
}

/// A pod bound to an infeasible node in kube-scheduler's name, while that is stopped, is reported with the reason.
async fn check_a_wrong_binding(
    plane: &ControlPlane,
    api: &Api<Pod>,
    shadow: &Supercargo,
    token: &str,
) -> Result<()> {
    plane.pause(Component::Scheduler)?;
    let pod = pods::mixed("", TOO_LARGE + 1, TOO_LARGE)?.pop().context("there is a pod")?;
    let pod =
        Pod { metadata: ObjectMeta { name: Some("misplaced".to_owned()), ..ObjectMeta::default() }, ..pod };
    let namespace =
        api.create(&PostParams::default(), &pod).await?.namespace().context("it has a namespace")?;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "misplaced"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": pods::TAINTED},
    });
    let path = format!("/api/v1/namespaces/{namespace}/pods/misplaced/binding");
    plane.admin().kubectl_with_input(&["create", "--raw", &path, "-f", "-"], &binding.to_string()).await?;
    wait_for("the shadow to report an infeasible node", PATIENCE, || async {
        let json: Value = serde_json::from_str(&report(shadow, token, "json").await?)?;
        ensure!(json["decisions"]["they_fit_we_not"] == 1, "{}", json["decisions"]);
        let last = json["disagreements"].as_array().and_then(|all| all.last()).context("it is listed")?;
        assert_eq!(
            (&last["pod"]["name"], &last["agreement"]),
            (&json!("misplaced"), &json!("they_fit_we_not"))
        );
        assert_eq!(last["theirs"]["node"], pods::TAINTED);
        assert_eq!(last["theirs"]["rejectedBy"], "TaintToleration");
        assert!(last["ours"]["total"].as_i64() > Some(0), "{last}");
        Ok(())
    })
    .await
}

/// A changed file takes effect without a restart and resets the report. A file without the profile is rejected.
async fn check_another_file(plane: &ControlPlane, shadow: &Supercargo, token: &str) -> Result<()> {
    let file = plane.folder().join(format!("{ACCOUNT}.yaml"));
    let written = |name: &str| {
        format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {{leaderElect: false}}\nprofiles:\n\
             - schedulerName: {name}\n  plugins: {{score: {{disabled: [{{name: '*'}}]}}}}\n"
        )
    };
    let report = async || anyhow::Ok(serde_json::from_str::<Value>(&report(shadow, token, "json").await?)?);
    let before = report().await?;
    for (name, result) in [("another", "invalid"), ("default-scheduler", "applied")] {
        write_private(&file, &written(name))?;
        wait_for("the file to be read", PATIENCE, || async {
            let (_, text) = shadow.get("/metrics", Some(token)).await?;
            let series = format!("supercargo_config_reloads_total{{result=\"{result}\"}}");
            ensure!(sample(&text, &series) >= Some(1.0), "it is not {result}");
            Ok(())
        })
        .await?;
        let now = report().await?;
        let is_new = result == "applied";
        assert_eq!(now["since"] != before["since"], is_new, "{now}");
        assert_eq!(now["decisions"]["they_fit_we_not"] == 0, is_new, "{now}");
    }
    Ok(())
}

#[tokio::test]
async fn shadow_agrees_with_kube_scheduler_and_writes_nothing() -> Result<()> {
    let parts = [Component::ControllerManager, Component::Kwok, Component::Scheduler];
    let user = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    let audited = Audited::start(parts, json!({"level": "Metadata", "users": [user]})).await?;
    let (plane, client) = (&audited.plane, audited.plane.client().await?);
    nodes::create_all(&client, &pods::nodes(NODES)).await?;
    plane.admin().apply(&pods::priority_classes()).await?;
    let mut shadow = shadow(plane).await?;
    let namespace = create_namespace(&client, "shadowed").await?;
    let (reader, stranger) = readers(plane, &namespace).await?;

    let count = std::env::var("SUPERCARGO_SHADOW_PODS").ok().map_or(Ok(PODS), |text| text.parse())?;
    let api = Api::namespaced(client.clone(), &namespace);
    let mut wanted = pods::mixed(&namespace, count + BURST, TOO_LARGE)?;
    let burst = wanted.split_off(count);
    // Sequential creation, as fast as accepted: bindings arrive nearly in the order of decisions.
    place(&api, wanted, 1).await?;
    let tally = judged(&shadow, &reader, count).await?;
    let all: f64 = tally.values().sum();
    let raced = 100.0 * tally["raced"] / all;
    eprintln!("shadow: {count} pods: {tally:?}, raced {raced:.2} %");

    let table = report(&shadow, &reader, "table").await?;
    ensure!(table.starts_with("shadow of default-scheduler since "), "{table}");
    let json: Value = serde_json::from_str(&report(&shadow, &reader, "json").await?)?;
    assert_eq!(json["kind"], "ShadowReport");
    let refused =
        report(&shadow, &stranger, "table").await.err().context("a user without permission is denied")?;
    ensure!(format!("{refused:#}").contains("403"), "{refused:#}");

    for word in ["we_fit_they_not", "they_fit_we_not", "different", "unjudged"] {
        ensure!(tally[word] == 0.0, "{word}: {tally:?}\n{table}");
    }
    ensure!(tally["neither_fits"] >= TOO_LARGE as f64, "{tally:?}");
    ensure!(raced <= RACED_PERCENT_MAX, "{tally:?}\n{table}");
    ensure!(tally["same"] > 0.0 && tally["equal_score"] > 0.0, "{tally:?}");

    place(&api, burst, BURST_AT_ONCE).await?;
    let tally = judged(&shadow, &reader, count + BURST).await?;
    eprintln!("shadow: {BURST} more in a burst, all together: {tally:?}");
    for word in ["we_fit_they_not", "they_fit_we_not"] {
        ensure!(tally[word] == 0.0, "{word}: {tally:?}\n{}", report(&shadow, &reader, "table").await?);
    }
    check_a_wrong_binding(plane, &api, &shadow, &reader).await?;
    check_another_file(plane, &shadow, &reader).await?;
    shadow.check()?;
    shadow.check_rights()?;
    check_rights(&audited).await?;
    shadow.terminate()?;
    Ok(())
}
