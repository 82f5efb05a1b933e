//! Runs every folder of `examples/` on a real API server and checks its placements, conditions and events. The demo
//! runs the same steps with output.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::audited::Audited;
use crate::harness::binaries::{chosen_minor, chosen_version};
use crate::harness::groups::GroupApi;
use crate::harness::objects::service_account_token;
use crate::harness::steps::runner::Runner;
use crate::harness::steps::{Claim, Example, Expectation, Step, View};
use crate::harness::supercargo::{self, Setup, Supercargo};
use crate::harness::{Component, ControlPlane};
use crate::rights::{Right, granted};
use crate::world::sample;

/// Messages in examples count all nodes, so they run on a control plane with only the four nodes.
#[tokio::test]
async fn every_example_meets_its_expectations() -> Result<()> {
    let audited = Audited::start(Component::ALL, json!({"level": "Metadata", "users": [ACCOUNT]})).await?;
    let plane = &audited.plane;
    let runner = Runner::new(plane).await?;
    supercargo::install(plane).await?;
    let mut supercargo = Setup::installed(plane).await?.with_groups().launch(plane).await?;
    supercargo.wait_until_ready().await?;
    supercargo::wait_for_the_deployment(plane).await?;

    let examples = Example::all()?;
    ensure!(!examples.is_empty(), "no examples found");
    let mut failures = Vec::new();
    let version = chosen_version();
    for example in examples.iter().filter(|example| example.runs_on(&version)) {
        if let Err(error) = runner.run(example).await {
            failures.push(format!("{error:#}"));
        }
    }
    ensure!(failures.is_empty(), "{}\n{}", failures.join("\n"), supercargo.log_tail());
    check_metrics(plane, &supercargo).await?;
    supercargo.check()?;
    supercargo.check_rights()?;
    check_rights_both_ways(&audited).await
}

/// The user whose requests are audited.
const ACCOUNT: &str = "system:serviceaccount:kube-system:supercargo";

/// Permissions that examples do not use, as written by [`Right::text`], and what uses them.
const OF_NO_USE_HERE: [(&str, &str); 5] = [
    (
        "list ",
        "an API server that aborts or lacks streamed lists: a_list_that_breaks_off_is_made_by_pages_next",
    ),
    (
        "get pods",
        "a binding whose answer is lost: crates/core/tests/scenarios/binding.txt, tests/apiserver/chaos.rs",
    ),
    (
        "patch resourceclaims/binding",
        "the API server itself, from 1.36, while it handles a patch of resourceclaims/status: \
         claims_are_not_reserved_without_the_right_to_bind_them",
    ),
    ("get resourceclaims", "a claim that changed since the decision: src/write/tests/claims.rs"),
    (
        "delete resourceclaims",
        "a claim made for a pod that was not bound with it: src/write/tests/claims.rs, crates/core/tests/claims",
    ),
];

/// Checks the audit log: no request was denied, each used permission is granted, and each granted permission is used.
async fn check_rights_both_ways(audited: &Audited) -> Result<()> {
    let granted: BTreeSet<Right> = granted(&audited.plane).await?.into_iter().collect();
    // The examples of groups run on one version.
    let has_groups = chosen_version() == "1.36";
    let is_of_use = |right: &String| {
        let of_groups = right.contains("podgroups") && !has_groups;
        // Claims are made for extended resources.
        let of_extended = right == "create resourceclaims" && chosen_minor() < 36;
        // From 1.37 on, no example has the same event twice.
        let of_repeated = right == "patch events" && chosen_minor() >= 37;
        !of_groups
            && !of_extended
            && !of_repeated
            && !OF_NO_USE_HERE.iter().any(|(of_none, _)| right.starts_with(of_none))
    };
    let all_used = |entries: Vec<Value>| {
        let used: BTreeSet<Right> = entries.iter().filter_map(Right::used).collect();
        let unused: Vec<_> = granted.difference(&used).map(Right::text).filter(is_of_use).collect();
        ensure!(unused.is_empty(), "granted, but not used in any example: {unused:?}");
        Ok(entries)
    };
    let entries = audited.once("each permission to be used", all_used).await?;
    let refused: Vec<_> = entries.iter().filter(|entry| entry["responseStatus"]["code"] == 403).collect();
    ensure!(refused.is_empty(), "refused: {refused:#?}");
    let used: BTreeSet<Right> = entries.iter().filter_map(Right::used).collect();
    let texts = |rights: Vec<&Right>| rights.into_iter().map(Right::text).collect::<Vec<_>>();
    let more = texts(used.difference(&granted).collect());
    ensure!(more.is_empty(), "used, but not granted by the roles of manifests/: {more:?}");
    eprintln!(
        "permissions: {} granted, {} used in {} requests, none denied; not used here: {:?}",
        granted.len(),
        used.len(),
        entries.len(),
        texts(granted.difference(&used).collect()),
    );
    Ok(())
}

#[tokio::test]
async fn api_server_without_streamed_lists_is_listed() -> Result<()> {
    let rule = json!({"level": "Metadata", "users": [ACCOUNT]});
    let without = (Component::ApiServer, "--feature-gates=WatchList=false");
    let audited = Audited::start_with([Component::ControllerManager], rule, Some(without)).await?;
    supercargo::install(&audited.plane).await?;
    let mut supercargo = Setup::installed(&audited.plane).await?.with_groups().launch(&audited.plane).await?;
    supercargo.wait_until_ready().await?;
    let granted = granted(&audited.plane).await?;
    let has_groups = GroupApi::of(&chosen_version()).is_some();
    let is_used = |right: &&Right| has_groups || !right.text().contains("podgroups");
    let lists: Vec<_> =
        granted.iter().filter(|right| right.text().starts_with("list ")).filter(is_used).collect();
    let all_used = |entries: Vec<Value>| {
        let used: BTreeSet<Right> = entries.iter().filter_map(Right::used).collect();
        let unused: Vec<_> =
            lists.iter().filter(|right| !used.contains(right)).map(|right| right.text()).collect();
        ensure!(unused.is_empty(), "granted, but not used: {unused:?}");
        Ok(())
    };
    audited.once("each list to be requested", all_used).await?;
    supercargo.check_rights()
}

/// Checks the metrics: all attempts are counted, none failed, and no pod is pending.
async fn check_metrics(plane: &ControlPlane, supercargo: &Supercargo) -> Result<()> {
    let (admin, client) = (plane.admin(), plane.client().await?);
    admin.kubectl(&["create", "serviceaccount", "reader"]).await?;
    let (role, subject) = ("--clusterrole=supercargo-metrics-reader", "--serviceaccount=default:reader");
    admin.kubectl(&["create", "clusterrolebinding", "reader", role, subject]).await?;
    let token = service_account_token(&client, "default", "reader").await?;
    let (status, scrape) = supercargo.get("/metrics", Some(&token)).await?;
    assert_eq!(status, 200, "{scrape}");
    let attempts = |result: &str| {
        sample(
            &scrape,
            &format!("scheduler_schedule_attempts_total{{profile=\"supercargo\",result=\"{result}\"}}"),
        )
    };
    assert_eq!(attempts("error").unwrap_or_default(), 0.0, "{}", supercargo.log_tail());
    ensure!(attempts("unschedulable") >= Some(7.0), "pending pods were tried: {scrape}");
    let placed = attempts("scheduled");
    ensure!(placed >= Some(30.0), "too few pods were placed: {scrape}");
    assert_eq!(sample(&scrape, "scheduler_pod_scheduling_attempts_count"), placed);
    for queue in ["active", "backoff", "gated", "unschedulable"] {
        let series = format!("scheduler_pending_pods{{queue=\"{queue}\"}}");
        assert_eq!(sample(&scrape, &series), Some(0.0), "{series}");
    }
    Ok(())
}

#[test]
fn invalid_step_is_reported_with_its_line() {
    let parse = |text: &str| {
        let outcome = Example::parse(String::from("01-x"), "examples/01-x".into(), text);
        outcome.err().map(|error| format!("{error:#}")).unwrap_or_default()
    };
    assert_eq!(
        parse("title A\n\nwish for rain"),
        "examples/01-x/steps.txt:3: unknown step \"wish\"; examples/README.md lists all steps"
    );
    assert_eq!(parse("say A\n"), "examples/01-x/steps.txt:1: `title` must be the first line and occur once");
    assert_eq!(
        parse("title A\nexpect web to be happy"),
        "examples/01-x/steps.txt:2: unknown claim \"to be happy\"; examples/README.md lists all claims"
    );
    assert_eq!(
        parse("title A\nfinally kubectl delete pod x\nsay B"),
        "examples/01-x/steps.txt:3: `finally` lines must come last"
    );
    assert!(parse("title A\nkubectl get pods | wc").contains("pipes are not supported"));
    assert_eq!(parse("title A\n# a comment\nsay B\nexpect app=web spread over zone: 2 1"), "");
}

#[test]
fn expectation_formats_as_it_is_written() -> Result<()> {
    for line in [
        "web on a,b",
        "app=web placed 3",
        "app=web spread over kubernetes.io/hostname: 2 1",
        "web waiting Unschedulable: 0/4 nodes are available: 1 Insufficient cpu.",
        "web event Scheduled: Successfully assigned",
        "web no event FailedScheduling",
    ] {
        assert_eq!(line.parse::<Expectation>()?.to_string(), line);
    }
    Ok(())
}

#[test]
fn failed_expectation_describes_actual_state() -> Result<()> {
    let pod = |name: &str, node: Option<&str>| {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "uid": name, "labels": {"app": "web"}},
            "spec": {"nodeName": node, "containers": []},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/1 nodes are available"}]},
        }))
    };
    let view = View { pods: vec![pod("a", Some("n1"))?, pod("b", None)?], ..View::default() };
    let judge =
        |line: &str| anyhow::Ok(line.parse::<Expectation>()?.judge(&view).err().map(|e| e.to_string()));
    assert_eq!(judge("a on n1,n2")?, None);
    assert_eq!(judge("a on n2")?.as_deref(), Some("it is on n1"));
    assert_eq!(judge("b on n1")?.as_deref(), Some("it is pending, Unschedulable: 0/1 nodes are available"));
    assert_eq!(judge("c on n1")?.as_deref(), Some("0 pods match"));
    assert_eq!(judge("app=web placed 1")?, None);
    assert_eq!(judge("app=web placed 2")?.as_deref(), Some("1 of 2 have a node"));
    assert_eq!(judge("app=web waiting Unschedulable: 0/1 nodes")?, None);
    assert!(judge("app=web waiting SchedulingGated: 0/1 nodes")?.is_some());
    assert!(judge("app=web waiting Unschedulable: 0/2 nodes")?.is_some());
    assert_eq!(judge("a event Scheduled: x")?.as_deref(), Some("the events are none"));
    assert_eq!(judge("a no event Scheduled")?, None);
    Ok(())
}

/// Guards against an example without expectations.
#[test]
fn every_example_has_expectations() -> Result<()> {
    for example in Example::all()? {
        let claims = example.steps.iter().filter(
            |step| matches!(step, Step::Expect(expectation) if !matches!(expectation.claim, Claim::NoEvent { .. })),
        );
        ensure!(claims.count() > 0, "{} has no expectations", example.name);
    }
    Ok(())
}
