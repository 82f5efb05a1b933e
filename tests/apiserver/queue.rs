//! `supercargo queue` and the pending-pods pages for users with different permissions: each sees only the pods it may
//! read.

use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::access::Access;
use crate::harness::objects::{create_namespace, pod, service_account_token};
use crate::harness::plane::ADMIN_TOKEN;
use crate::harness::supercargo::binary;
use crate::harness::wait::PATIENCE;
use crate::harness::wait_for;
use crate::world::{World, play, requesting};

/// Creates a ServiceAccount that may view its namespace or, with `everywhere`, all namespaces. Returns its token.
async fn viewer(world: &World<'_>, name: &str, everywhere: bool) -> Result<String> {
    let (admin, namespace) = (world.plane.admin(), world.name.as_str());
    admin.kubectl(&["create", "serviceaccount", name, "-n", namespace]).await?;
    let (binding, subject) = (format!("{namespace}-{name}"), format!("--serviceaccount={namespace}:{name}"));
    let kind = if everywhere { "clusterrolebinding" } else { "rolebinding" };
    let mut create = vec!["create", kind, &binding, "--clusterrole=view", &subject];
    if !everywhere {
        create.extend(["-n", namespace]);
    }
    admin.kubectl(&create).await?;
    service_account_token(&world.client, namespace, name).await
}

/// Runs the program. Returns its exit code, output and error output.
async fn ran(args: Vec<String>) -> Result<(Option<i32>, String, String)> {
    let output = tokio::task::spawn_blocking(move || {
        Command::new(binary()?).args(&args).output().context("supercargo does not start")
    });
    let output = output.await??;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((output.status.code(), text(output.stdout), text(output.stderr)))
}

/// Runs `supercargo queue` against the port, with a token.
async fn queue(world: &World<'_>, token: &str, more: &[&str]) -> Result<(Option<i32>, String, String)> {
    let file = world.plane.folder().join(format!("{}.asks", world.name));
    std::fs::write(&file, token)?;
    let server = format!("https://127.0.0.1:{}", world.supercargo.port());
    let file = file.display().to_string();
    let mut args = vec!["queue", "--server", &server, "--insecure-skip-tls-verify", "--token-file", &file];
    args.extend(more);
    ran(args.into_iter().map(str::to_owned).collect()).await
}

/// Returns the report's pods and their queues.
fn pods(report: &str) -> Result<Vec<String>> {
    let report: Value = serde_json::from_str(report)?;
    let pods = report["pods"].as_array().context("a report has pods")?;
    let text = |pod: &Value, field: &str| pod[field].as_str().unwrap_or_default().to_owned();
    Ok(pods.iter().map(|pod| format!("{} {}", text(pod, "name"), text(pod, "place"))).collect())
}

/// Creates two pending pods in the test's namespace, one of them with a label, and one in another namespace.
async fn waiting(world: &World<'_>) -> Result<String> {
    world.node("a").allocatable("cpu", "1").create(&world.client).await?;
    let other = create_namespace(&world.client, "secret").await?;
    let mut secret = world.pod("secret", &requesting(&json!({"cpu": "5"})))?;
    secret.metadata.namespace = Some(other.clone());
    Api::<Pod>::namespaced(world.client.clone(), &other).create(&PostParams::default(), &secret).await?;
    world.create("gated", &json!({"schedulingGates": [{"name": "example.com/budget"}]})).await?;
    let mut large = world.pod("large", &requesting(&json!({"cpu": "5"})))?;
    large.metadata.labels.get_or_insert_default().insert("app".into(), "large".into());
    world.pods().create(&PostParams::default(), &large).await?;
    world.waiting("large", "Insufficient cpu").await?;
    wait_for("all three to be reported", PATIENCE, || async {
        let (_, output, error) = queue(world, ADMIN_TOKEN, &["-A", "-o", "json"]).await?;
        let pods = pods(&output).with_context(|| error)?;
        ensure!(pods == ["gated gated", "large unschedulable", "secret unschedulable"], "{pods:?}");
        Ok(())
    })
    .await?;
    Ok(other)
}

#[tokio::test]
async fn queue_shows_only_pods_the_user_may_read() -> Result<()> {
    play("queue", async |world| {
        let other = waiting(world).await?;
        let namespace = world.name.clone();
        let (local, all) = (viewer(world, "local", false).await?, viewer(world, "all", true).await?);
        let none = service_account_token(&world.client, &namespace, "default").await?;
        let own = ["-n", namespace.as_str(), "-o", "json"];

        let (code, output, error) = queue(world, &local, &["-A", "-o", "json"]).await?;
        ensure!(code == Some(0), "{code:?}: {error}");
        assert_eq!(pods(&output)?, ["gated gated", "large unschedulable"]);
        ensure!(!output.contains("secret") && output.contains(r#""complete": false"#), "{output}");
        ensure!(output.contains(r#""unschedulable": 1"#), "others are not counted: {output}");
        assert_eq!(pods(&queue(world, &local, &own).await?.1)?.len(), 2);
        let labelled = ["-n", &namespace, "-l", "app=large", "-o", "json"];
        assert_eq!(pods(&queue(world, &local, &labelled).await?.1)?, ["large unschedulable"]);
        assert_eq!(pods(&queue(world, &all, &["-n", &other, "-o", "json"]).await?.1)?, ["secret unschedulable"]);

        // The denial is the same whether or not there are pods.
        for hidden in [other.as_str(), "no-such-namespace"] {
            let (code, output, error) = queue(world, &local, &["-n", hidden]).await?;
            assert_eq!((code, output.as_str()), (Some(1), ""), "{error}");
            let refusal = format!(
                "403: pods is forbidden: User \"system:serviceaccount:{namespace}:local\" cannot get resource \"pods\" in API group \"\" in \
                 the namespace \"{hidden}\"; ask an administrator for this right\n"
            );
            ensure!(error.ends_with(&refusal), "{error}");
        }
        let (code, _, error) = queue(world, &none, &["-A"]).await?;
        ensure!(code == Some(1) && error.contains("403: pods is forbidden"), "{error}");
        let (code, _, error) = queue(world, "made-up", &own).await?;
        ensure!(code == Some(1) && error.contains("401: the scheduler does not accept this token"), "{error}");
        let (status, body) = world.supercargo.get("/debug/pending", None).await?;
        assert_eq!(status, 401, "{body}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn pending_pod_is_explained_to_users_who_may_read_it() -> Result<()> {
    play("explained", async |world| {
        let other = waiting(world).await?;
        let token = viewer(world, "local", false).await?;
        let page = |namespace: &str, name: &str| format!("/debug/explain?namespace={namespace}&name={name}");
        let get = async |path: String| world.supercargo.get(&path, Some(&token)).await;
        let (status, body) = get(page(&world.name, "large")).await?;
        ensure!(status == 200, "{status}: {body}");
        let explanation: Value = serde_json::from_str(&body)?;
        assert_eq!(explanation["kind"], "PendingExplanation");
        // Nodes of other tests have taints that it does not tolerate.
        let waits_for = explanation["pod"]["waitsFor"].as_str().unwrap_or_default();
        ensure!(
            waits_for.starts_with("a cluster change relevant to ") && waits_for.contains("NodeResourcesFit"),
            "{body}"
        );
        let reasons = explanation["reasons"].as_array().context("there are reasons")?;
        let short = reasons
            .iter()
            .find(|reason| reason["code"] == "InsufficientCpu")
            .context("it is short of cpu")?;
        ensure!(short["aloneOn"].as_u64() >= Some(1), "{short}");
        ensure!(!body.contains(&format!("{}-a", world.name)), "no node is named: {body}");
        assert_eq!(get(page(&world.name, "no-such-pod")).await?.0, 404);
        for hidden in ["secret", "no-such-pod"] {
            let (status, body) = get(page(&other, hidden)).await?;
            ensure!(
                status == 403 && !body.contains("no-such-pod") && !body.contains("Insufficient"),
                "{body}"
            );
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn queue_of_one_pod_has_its_reasons_and_a_watch_prints_changes() -> Result<()> {
    play("queue-one", async |world| {
        waiting(world).await?;
        let own = ["-n", world.name.as_str()];
        let (code, output, error) = queue(world, ADMIN_TOKEN, &[&["large"][..], &own].concat()).await?;
        ensure!(code == Some(0), "{code:?}: {error}");
        for part in ["/large: unschedulable\n", "InsufficientCpu", "or earlier if the cluster changes"] {
            ensure!(output.contains(part), "{part}: {output}");
        }
        let (code, _, error) = queue(world, ADMIN_TOKEN, &[&["absent"][..], &own].concat()).await?;
        ensure!(code == Some(2) && error.contains("see `supercargo why absent"), "{code:?}: {error}");

        let server = format!("https://127.0.0.1:{}", world.supercargo.port());
        let token = world.plane.folder().join(format!("{}.asks", world.name));
        let mut watch = Command::new(binary()?)
            .args(["queue", "--watch", "--interval", "1s", "-o", "name", "--server", &server])
            .args(["--insecure-skip-tls-verify", "--token-file", &token.display().to_string()])
            .args(own)
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(watch.stdout.take().context("a pipe")?).lines();
        let (sender, mut printed) = tokio::sync::mpsc::unbounded_channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut next = async || timeout(PATIENCE, printed.recv()).await?.context("the watch has ended");
        assert_eq!([next().await?, next().await?], ["pod/gated", "pod/large"]);
        world.pods().delete("large", &DeleteParams::default()).await?;
        assert_eq!(next().await?, "pod/gated");
        signal::kill(Pid::from_raw(i32::try_from(watch.id())?), Signal::SIGINT)?;
        let ended = tokio::task::spawn_blocking(move || watch.wait()).await??;
        assert_eq!(ended.code(), Some(1), "as `kubectl get --watch`");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn completion_offers_names_of_the_cluster() -> Result<()> {
    play("completion", async |world| {
        let node = world.node("a");
        node.create(&world.client).await?;
        for name in ["api-0", "api-1", "web-0"] {
            world.create(name, &json!({"schedulingGates": [{"name": "example.com/budget"}]})).await?;
        }
        let admin = world.plane.admin();
        let deployment =
            ["create", "deployment", "apish", "--image=example.com/a", "--replicas=0", "-n", &world.name];
        admin.kubectl(&deployment).await?;
        let kubeconfig = admin.kubeconfig().display().to_string();
        let completed = async |words: &[&str]| -> Result<String> {
            let mut args = vec!["__complete", words[0], "--kubeconfig", &kubeconfig, "-n", &world.name];
            args.extend(&words[1..]);
            let (code, output, error) = ran(args.into_iter().map(str::to_owned).collect()).await?;
            ensure!((code, error.as_str()) == (Some(0), ""), "{code:?}: {error}");
            Ok(output)
        };
        assert_eq!(completed(&["why", "api"]).await?, "api-0\napi-1\n:4\n");
        assert_eq!(completed(&["queue", "w"]).await?, "web-0\n:4\n");
        assert_eq!(completed(&["explain", "pod", "api-1"]).await?, "api-1\n:4\n");
        assert_eq!(completed(&["explain", "deploy/a"]).await?, "deploy/apish\n:4\n");
        assert_eq!(completed(&["why", "dep"]).await?, "deploy/\n:6\n");
        let args = ["__complete", "drain-check", "--kubeconfig", &kubeconfig, node.name()];
        assert_eq!(ran(args.map(str::to_owned).to_vec()).await?.1, format!("{}\n:4\n", node.name()));
        let args = ["__complete", "why", "--kubeconfig", &kubeconfig, "-n", &world.name];
        assert_eq!(ran(args.map(str::to_owned).to_vec()).await?.1, format!("{}\n:4\n", world.name));
        Ok(())
    })
    .await
}

/// Returns a non-loopback address of this machine; the API server does not proxy to loopback.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent; connecting a UDP socket only consults the routing table.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// Forwards connections to a loopback port for the rest of the test. Returns the port.
fn pass_on(from: IpAddr, to: u16) -> Result<u16> {
    let listener = TcpListener::bind(SocketAddr::new(from, 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for incoming in listener.incoming().flatten() {
            let Ok(outgoing) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            let (Ok(mut here), Ok(mut there)) = (incoming.try_clone(), outgoing.try_clone()) else {
                continue;
            };
            let (mut incoming, mut outgoing) = (incoming, outgoing);
            std::thread::spawn(move || std::io::copy(&mut incoming, &mut there));
            std::thread::spawn(move || std::io::copy(&mut outgoing, &mut here));
        }
    });
    Ok(port)
}

/// Creates the leader's pod object with this address; the lease holder is a local process.
async fn leaders_pod(world: &World<'_>, address: &str) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.name);
    let holder = wait_for("a leader", PATIENCE, || async {
        let lease = leases.get(&world.name).await?;
        lease
            .spec
            .and_then(|spec| spec.holder_identity)
            .filter(|holder| !holder.is_empty())
            .context("there is no leader")
    })
    .await?;
    let name = holder.rsplit_once('_').map_or(holder.as_str(), |(host, _)| host).to_owned();
    let spec = json!({"schedulerName": "absent", "containers": [{"name": "c", "image": "example.com/a"}]});
    world.pods().create(&PostParams::default(), &pod(&name, &world.name, &spec)?).await?;
    let status = json!({"status": {"podIP": address, "podIPs": [{"ip": address}], "phase": "Running"}});
    world.pods().patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(name)
}

/// Runs `supercargo queue` with a kubeconfig.
async fn queue_by(
    world: &World<'_>,
    who: &Access,
    port: u16,
    more: &[&str],
) -> Result<(Option<i32>, String, String)> {
    let (kubeconfig, port) = (who.kubeconfig().display().to_string(), port.to_string());
    let mut args =
        vec!["queue", "--kubeconfig", &kubeconfig, "--lease", &world.name, "--lease-namespace", &world.name];
    args.extend(["--port", &port, "-n", &world.name]);
    args.extend(more);
    ran(args.into_iter().map(str::to_owned).collect()).await
}

#[tokio::test]
async fn queue_finds_the_leader_by_its_lease_through_the_api_server() -> Result<()> {
    play("proxied", async |world| {
        world.elect().await?;
        waiting(world).await?;
        let admin = world.plane.token_bearer(&format!("{}-admin", world.name), ADMIN_TOKEN)?;
        let Some(address) = own_address() else {
            // On a machine with only loopback, the API server refuses to proxy, which is reported.
            leaders_pod(world, "127.0.0.1").await?;
            let (code, _, error) = queue_by(world, &admin, world.supercargo.port(), &[]).await?;
            ensure!(code == Some(1) && error.contains("cannot ask the leader"), "{error}");
            return Ok(());
        };
        let name = leaders_pod(world, &address.to_string()).await?;
        let port = pass_on(address, world.supercargo.port())?;
        let (code, output, error) = queue_by(world, &admin, port, &["-o", "json"]).await?;
        ensure!(code == Some(0), "{code:?}: {error}");
        assert_eq!(pods(&output)?, ["gated gated", "large unschedulable"]);
        ensure!(output.contains(r#""leading": true"#), "{output}");
        assert_eq!(queue_by(world, &admin, port, &["--pod", &name]).await?.0, Some(0));

        // A client certificate identifies the user to the API server only.
        let certified = world.plane.user(&format!("{}-certified", world.name), Some("system:masters"))?;
        let (code, _, error) = queue_by(world, &certified, port, &[]).await?;
        ensure!(code == Some(1) && error.contains("but no client certificate"), "{error}");
        let token: PathBuf = world.plane.folder().join(format!("{}.handed-on", world.name));
        std::fs::write(&token, ADMIN_TOKEN)?;
        let token = token.display().to_string();
        assert_eq!(queue_by(world, &certified, port, &["--token-file", &token]).await?.0, Some(0));

        // Missing permissions for the lease and the pod proxy are named.
        let plain = service_account_token(&world.client, &world.name, "default").await?;
        let plain = world.plane.token_bearer(&format!("{}-plain", world.name), &plain)?;
        let (code, _, error) = queue_by(world, &plain, port, &[]).await?;
        ensure!(code == Some(1) && error.contains("leases.coordination.k8s.io"), "{error}");
        let (code, _, error) = queue_by(world, &plain, port, &["--pod", &name]).await?;
        ensure!(code == Some(1) && error.contains("cannot get resource \"pods/proxy\""), "{error}");
        Ok(())
    })
    .await
}
