//! Tests of the control plane harness: it behaves like a cluster, and fails and recovers on request. `leftovers.rs`
//! tests that it leaves nothing behind.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::harness::objects::{create_namespace, node_of, pod, wait_until_bound, wait_until_running};
use crate::harness::ports::Port;
use crate::harness::wait::PATIENCE;
use crate::harness::{Access, Component, ControlPlane, KwokNode, binaries, http, nodes, shared, wait_for};

#[tokio::test]
async fn every_component_serves() -> Result<()> {
    let plane = shared().await;
    for component in Component::ALL {
        plane.wait_until_ready(component).await?;
    }
    plane.check()?;
    let version = plane.client().await?.apiserver_version().await?;
    let modules = std::fs::read_to_string(match binaries::chosen_version() {
        pinned if pinned == binaries::PINNED => "tests/upstream/go.mod".to_owned(),
        other => format!("tests/upstream/versions/{other}.mod"),
    })?;
    let pin = modules.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    assert_eq!(Some(version.git_version.as_str()), pin);
    Ok(())
}

#[tokio::test]
async fn node_becomes_ready_as_described() -> Result<()> {
    let client = shared().await.client().await?;
    let node = KwokNode::new("as-described")
        .label("zone", "a")
        .taint("business", "models", "NoSchedule")
        .allocatable("example.com/gpu", "3")
        .image(&["registry.example/web:1"], 123_456_789)
        .create(&client)
        .await?;
    let (spec, status) = (node.spec.context("no spec")?, node.status.context("no status")?);
    let labels = node.metadata.labels.context("no labels")?;
    assert_eq!(labels["zone"], "a");
    assert_eq!(labels["kubernetes.io/hostname"], "as-described");
    let taints: Vec<_> =
        spec.taints.context("no taints")?.into_iter().map(|taint| (taint.key, taint.effect)).collect();
    assert_eq!(taints, [(String::from("business"), String::from("NoSchedule"))]);
    let allocatable = status.allocatable.context("nothing allocatable")?;
    let quantity = |name: &str| allocatable[name].0.clone();
    assert_eq!(["cpu", "memory", "pods", "example.com/gpu"].map(quantity), ["8", "16Gi", "110", "3"]);
    assert_eq!(status.images.context("no images")?[0].size_bytes, Some(123_456_789));
    let addresses = status.addresses.context("no addresses")?;
    assert!(
        addresses.iter().any(|address| address.type_ == "InternalIP" && address.address.starts_with("172."))
    );
    Ok(())
}

#[tokio::test]
async fn cordoned_node_becomes_ready() -> Result<()> {
    let client = shared().await.client().await?;
    let node = KwokNode::new("cordoned").unschedulable().create(&client).await?;
    assert_eq!(node.spec.context("no spec")?.unschedulable, Some(true));
    Ok(())
}

#[tokio::test]
async fn kube_scheduler_binds_a_pod_and_kwok_runs_it() -> Result<()> {
    let client = shared().await.client().await?;
    KwokNode::new("for-one-pod").label("only", "this").create(&client).await?;
    let namespace = create_namespace(&client, "bind").await?;
    let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
    let wanted = pod("web", "default-scheduler", &json!({"nodeSelector": {"only": "this"}}))?;
    pods.create(&PostParams::default(), &wanted).await?;
    assert_eq!(wait_until_bound(&client, &namespace, "web").await?, "for-one-pod");
    let running = wait_until_running(&client, &namespace, "web").await?;
    assert!(running.status.and_then(|status| status.pod_ip).is_some(), "kwok gives a running pod an address");
    Ok(())
}

#[tokio::test]
async fn pod_of_another_scheduler_is_ignored() -> Result<()> {
    let client = shared().await.client().await?;
    let namespace = create_namespace(&client, "foreign").await?;
    KwokNode::new("for-none").label("for", "none").create(&client).await?;
    let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
    let selector = json!({"nodeSelector": {"for": "none"}});
    pods.create(&PostParams::default(), &pod("theirs", "another-scheduler", &selector)?).await?;
    // Once kube-scheduler has bound the second pod, it has seen the first.
    pods.create(&PostParams::default(), &pod("its-own", "default-scheduler", &selector)?).await?;
    wait_until_bound(&client, &namespace, "its-own").await?;
    assert_eq!(node_of(&pods.get("theirs").await?), None);
    Ok(())
}

#[tokio::test]
async fn deployment_applied_with_kubectl_gets_its_pods() -> Result<()> {
    let plane = shared().await;
    let client = plane.client().await?;
    let namespace = create_namespace(&client, "deploy").await?;
    KwokNode::new("for-deployment").create(&client).await?;
    let manifest = r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
        "spec": {"nodeName": "for-deployment", "containers": [{"name": "web", "image": "web:1"}]}}}}"#;
    plane.admin().kubectl_with_input(&["apply", "-n", &namespace, "-f", "-"], manifest).await?;
    plane
        .admin()
        .kubectl(&["rollout", "status", "-n", &namespace, "deployment/web", "--timeout=90s"])
        .await?;
    let pods = Api::<Pod>::namespaced(client, &namespace).list(&ListParams::default()).await?;
    assert_eq!(pods.items.iter().filter_map(node_of).collect::<Vec<_>>(), ["for-deployment"; 2]);
    let error = plane.admin().apply("kind: Nonsense\napiVersion: v1\nmetadata: {name: x}").await.unwrap_err();
    assert!(format!("{error:#}").contains("no matches for kind \"Nonsense\""), "{error:#}");
    Ok(())
}

#[tokio::test]
async fn service_account_has_granted_permissions_and_token_is_reread() -> Result<()> {
    let plane = shared().await;
    let client = plane.client().await?;
    let namespace = create_namespace(&client, "account").await?;
    let (access, token) = plane.service_account(&namespace, "default").await?;
    let list = ["get", "pods", "-n", &namespace, "-o", "name"];
    let refused = access.kubectl(&list).await.unwrap_err();
    assert!(format!("{refused:#}").contains("cannot list resource \"pods\""), "{refused:#}");

    let account = format!("--serviceaccount={namespace}:default");
    let grant = ["create", "rolebinding", "view", "-n", &namespace, "--clusterrole=view", &account];
    plane.admin().kubectl(&grant).await?;
    wait_for("the role to be effective", PATIENCE, || access.kubectl(&list)).await?;

    token.replace("worthless")?;
    let refused = access.kubectl(&list).await.unwrap_err();
    assert!(format!("{refused:#}").contains("Unauthorized"), "{refused:#}");
    token.rotate().await?;
    access.kubectl(&list).await?;
    Ok(())
}

#[tokio::test]
async fn user_without_roles_and_anonymous_are_denied() -> Result<()> {
    let plane = shared().await;
    let status = |access: Access| async move {
        let nodes = Api::<Node>::all(access.client().await?).list(&ListParams::default()).await;
        anyhow::Ok(match nodes {
            Err(kube::Error::Api(status)) => status.code,
            other => panic!("expected a denial: {other:?}"),
        })
    };
    assert_eq!(status(plane.user("alice@example", Some("developers"))?).await?, 403);
    assert_eq!(status(plane.token_bearer("stranger", "no-such-token")?).await?, 401);
    Api::<Node>::all(plane.user("root@example", Some("system:masters"))?.client().await?)
        .list(&ListParams::default())
        .await?;
    assert_eq!(http::get(&format!("{}/livez", plane.server()), None).await?.0, 200);
    assert_eq!(http::get(&format!("{}/api/v1/nodes", plane.server()), None).await?.0, 403);
    let admin = crate::harness::plane::ADMIN_TOKEN;
    assert_eq!(http::get(&format!("{}/api/v1/nodes", plane.server()), Some(admin)).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn stored_objects_survive_crashes_of_api_server_and_etcd() -> Result<()> {
    let plane = ControlPlane::builder().start().await?;
    let client = plane.client().await?;
    let server = plane.server();
    put(&client, "before").await?;
    plane.kill(Component::ApiServer)?;
    assert!(put(&client, "during").await.is_err(), "no server can have answered");
    plane.start(Component::ApiServer).await?;
    assert_eq!(plane.server(), server);
    get(&client, "before").await?;

    plane.kill(Component::Etcd)?;
    plane.start(Component::Etcd).await?;
    plane.wait_until_ready(Component::ApiServer).await?;
    get(&client, "before").await?;
    wait_for("writes to work again", PATIENCE, || put(&client, "after")).await?;
    Ok(())
}

#[tokio::test]
async fn paused_api_server_does_not_answer_until_resumed() -> Result<()> {
    let plane = ControlPlane::builder().start().await?;
    let client = plane.client().await?;
    put(&client, "before").await?;
    plane.pause(Component::ApiServer)?;
    let silence = tokio::time::timeout(Duration::from_millis(300), get(&client, "before")).await;
    assert!(silence.is_err(), "a paused server answered: {silence:?}");
    plane.resume(Component::ApiServer)?;
    get(&client, "before").await
}

#[tokio::test]
async fn component_that_cannot_start_is_named_with_its_log() {
    let error = ControlPlane::builder().arg(Component::ApiServer, "--no-such-flag").start().await;
    let error = format!("{:#}", error.err().expect("no server knows this flag"));
    assert!(
        error.starts_with("kube-apiserver ended before serving (exit status: 1); last lines of "),
        "{error}"
    );
    assert!(error.contains("unknown flag: --no-such-flag"), "{error}");
}

#[test]
fn missing_binary_is_named_with_build_command() {
    let error = binaries::binary("kube-nonsense").unwrap_err().to_string();
    assert!(error.ends_with("upstream/bin/kube-nonsense is missing; run `make upstream` first"), "{error}");
}

#[tokio::test]
async fn failed_wait_reports_last_error() {
    let mut looks = 0;
    let waited = wait_for("three looks", Duration::from_millis(200), || {
        looks += 1;
        let seen = looks;
        async move {
            ensure!(seen > 1_000_000, "only {seen} looks");
            Ok(())
        }
    });
    let error = waited.await.unwrap_err().to_string();
    assert!(error.starts_with("waited 200ms for three looks; last seen: only "), "{error}");
    assert!(error.ends_with(&format!("only {looks} looks")), "{error} after {looks}");
}

#[tokio::test]
async fn hanging_attempt_does_not_hang_the_wait() {
    let error =
        wait_for::<(), _, _>("godot", Duration::from_millis(50), std::future::pending).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "waited 50ms for godot; last seen: the last attempt did not finish: no answer"
    );
}

#[test]
fn ports_are_unique() -> Result<()> {
    let ports = (0..50).map(|_| Port::reserve()).collect::<Result<Vec<_>>>()?;
    let numbers: HashSet<u16> = ports.iter().map(Port::number).collect();
    assert_eq!(numbers.len(), ports.len());
    assert!(numbers.iter().all(|number| *number < 32_768), "the kernel gives those to outgoing connections");
    Ok(())
}

#[test]
fn kind_nodes_have_their_usual_names() {
    let names: Vec<String> = nodes::kind(4).iter().map(|node| node.name().to_owned()).collect();
    assert_eq!(names, ["kind-control-plane", "kind-worker", "kind-worker2", "kind-worker3"]);
    assert!(nodes::kind(0).is_empty());
}

async fn put(client: &Client, name: &str) -> Result<()> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    Api::<ConfigMap>::namespaced(client.clone(), "default").create(&PostParams::default(), &map).await?;
    Ok(())
}

async fn get(client: &Client, name: &str) -> Result<()> {
    Api::<ConfigMap>::namespaced(client.clone(), "default").get(name).await?;
    Ok(())
}
