//! `supercargo whatif serve` on a real API server: who may ask what, answers that follow the cluster, and the clients
//! of `examples/whatif-go`. It runs with exactly the rights of `manifests/whatif-server.yaml`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::harness::Access;
use crate::harness::access::Credential;
use crate::harness::http::{Answer, ask, get};
use crate::harness::objects::service_account_token;
use crate::harness::ports::Port;
use crate::harness::process::{Process, Program};
use crate::harness::supercargo::binary;
use crate::harness::wait::PATIENCE;
use crate::harness::{pki, wait_for};
use crate::world::{World, play, requesting};

/// Time for the first lists, and for the end.
const START: Duration = Duration::from_secs(60);

/// A running server, and a user who may ask about everything.
struct Server {
    process: Process,
    port: Port,
    token: String,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts a server as the ServiceAccount of the manifest, and waits until it is ready.
    async fn start(world: &World<'_>, flags: &[&str]) -> Result<Self> {
        let admin = world.plane.admin();
        admin.apply_path(Path::new("manifests/whatif-server.yaml")).await?;
        let folder = tempfile::tempdir()?;
        let token = service_account_token(&world.client, "kube-system", "supercargo-whatif").await?;
        let file = folder.path().join("token");
        pki::write_private(&file, &token)?;
        let server = world.plane.server();
        let (config, ca) = (folder.path().join("kubeconfig"), world.plane.ca());
        Access::write(&config, &server, &ca, &Credential::TokenFile(&file))?;
        let port = Port::reserve()?;
        let program = Program::new(format!("{}-whatif", world.name), binary()?)
            .args(["whatif", "serve", "--bind-address=127.0.0.1"])
            .arg(format!("--secure-port={}", port.number()))
            .arg(format!("--kubeconfig={}", config.display()))
            .args(flags.iter().copied());
        let mut process = world.plane.launch(&program)?;
        let url = format!("https://127.0.0.1:{}/readyz", port.number());
        wait_for("the server to be ready", START, || async {
            let (status, body) = get(&url, None).await?;
            ensure!(status == 200, "{status}: {body}");
            Ok(())
        })
        .await
        .with_context(|| process.log_tail(20))?;
        process.check()?;
        let token = user(world, "asker", "supercargo-whatif-user").await?;
        Ok(Self { process, port, token, folder })
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port.number())
    }

    async fn ask(&self, token: Option<&str>, method: Method, path: &str, body: &Value) -> Result<Answer> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        ask(method, &format!("{}/whatif/v1/{path}", self.url()), token, None, &body).await
    }

    /// Posts what must succeed.
    async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let answer = self.ask(Some(&self.token), Method::POST, path, body).await?;
        ensure!(matches!(answer.status, 200 | 201), "{path}: {answer:?}");
        Ok(serde_json::from_str(&answer.body)?)
    }

    /// Returns the live cluster's description.
    async fn live(&self) -> Result<Value> {
        let answer = self.ask(Some(&self.token), Method::GET, "snapshots/live", &Value::Null).await?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(serde_json::from_str(&answer.body)?)
    }

    /// Withdraws the rights of the user.
    async fn forget(&self, world: &World<'_>) -> Result<()> {
        let binding = format!("{}-asker", world.name);
        world.plane.admin().kubectl(&["delete", "clusterrolebinding", &binding]).await?;
        Ok(())
    }

    /// Runs the Go clients with these questions.
    async fn run_clients(&self, questions: &Value) -> Result<Value> {
        let program = self.folder.path().join("whatif-go");
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&program).arg(".").current_dir("examples/whatif-go");
        build.env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local").env("GOWORK", "off");
        let mut command = Command::new(&program);
        command.arg("-server").arg(self.url()).env("TOKEN", &self.token);
        let (file, input) = (self.folder.path().join("questions.json"), questions.to_string());
        std::fs::write(&file, input)?;
        command.stdin(Stdio::from(std::fs::File::open(&file)?));
        tokio::task::spawn_blocking(move || {
            let built = build.output().context("go is needed to build the example")?;
            ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
            let ran = command.output()?;
            if !ran.status.success() {
                bail!("{}", String::from_utf8_lossy(&ran.stderr));
            }
            Ok(serde_json::from_slice(&ran.stdout)?)
        })
        .await?
    }
}

/// Creates a ServiceAccount with a ClusterRole, and returns its token.
async fn user(world: &World<'_>, name: &str, role: &str) -> Result<String> {
    let admin = world.plane.admin();
    admin.kubectl(&["create", "serviceaccount", name, "-n", &world.name]).await?;
    let (binding, role) = (format!("{}-{name}", world.name), format!("--clusterrole={role}"));
    let account = format!("--serviceaccount={}:{name}", world.name);
    admin.kubectl(&["create", "clusterrolebinding", &binding, &role, &account]).await?;
    service_account_token(&world.client, &world.name, name).await
}

fn a_node(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name,
        "labels": { "kubernetes.io/hostname": name } },
        "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" } } })
}

fn a_pod(name: &str, cpu: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
        "spec": requesting(&json!({ "cpu": cpu })) })
}

#[tokio::test]
async fn whatif_users_get_what_they_may_read_and_forks_of_others_are_404() -> Result<()> {
    play("whatif-users", async |world| {
        let role = format!("{}-uploader", world.name);
        let rule = ["create", "clusterrole", &role, "--non-resource-url=/whatif/*", "--verb=get,post,delete"];
        world.plane.admin().kubectl(&rule).await?;
        let uploader = user(world, "uploader", &role).await?;
        let plain = service_account_token(&world.client, &world.name, "default").await?;
        let server = Server::start(world, &[]).await?;
        let status = async |token: Option<&str>, method: Method, path: &str, body: &Value| {
            server.ask(token, method, path, body).await.map(|answer| answer.status)
        };
        let none = Value::Null;
        assert_eq!(status(None, Method::GET, "forks", &none).await?, 401);
        assert_eq!(status(Some("made-up"), Method::GET, "forks", &none).await?, 401);
        assert_eq!(status(Some(&plain), Method::GET, "forks", &none).await?, 403);
        assert_eq!(status(Some(&plain), Method::GET, "openapi.json", &none).await?, 403);
        assert_eq!(status(Some(&uploader), Method::GET, "openapi.json", &none).await?, 200);

        // Without the right to list all pods, only uploaded clusters.
        let live = json!({ "of": "live" });
        let refused = server.ask(Some(&uploader), Method::POST, "forks", &live).await?;
        assert_eq!(refused.status, 403);
        ensure!(refused.body.contains("pods is forbidden: User"), "{refused:?}");
        assert_eq!(status(Some(&uploader), Method::GET, "snapshots/live", &none).await?, 403);
        let nodes = json!({ "apiVersion": "v1", "kind": "List", "items": [a_node("a")] });
        let uploaded = server.ask(Some(&uploader), Method::POST, "snapshots", &nodes).await?;
        assert_eq!(uploaded.status, 201, "{uploaded:?}");
        let id = serde_json::from_str::<Value>(&uploaded.body)?["id"].clone();
        let fork = server.ask(Some(&uploader), Method::POST, "forks", &json!({ "of": id })).await?;
        assert_eq!(fork.status, 201, "{fork:?}");
        let fork = serde_json::from_str::<Value>(&fork.body)?["id"].as_str().unwrap_or_default().to_owned();
        let fits = json!({ "objects": [a_pod("p", "1")] });
        let path = format!("forks/{fork}/fits");
        assert_eq!(status(Some(&uploader), Method::POST, &path, &fits).await?, 200);

        // A user who may read the cluster may not read another user's fork.
        assert_eq!(status(Some(&server.token), Method::POST, &path, &fits).await?, 404);
        let own = server.post("forks", &live).await?["id"].as_str().unwrap_or_default().to_owned();
        let path = format!("forks/{own}/diff");
        assert_eq!(status(Some(&server.token), Method::GET, &path, &none).await?, 200);
        assert_eq!(status(Some(&uploader), Method::GET, &path, &none).await?, 403);
        let admin = crate::harness::plane::ADMIN_TOKEN;
        assert_eq!(status(Some(admin), Method::GET, &path, &none).await?, 404);
        assert_eq!(status(Some(admin), Method::PUT, "forks", &none).await?, 405);
        world.plane.admin().kubectl(&["delete", "clusterrole,clusterrolebinding", &role]).await?;
        server.forget(world).await
    })
    .await
}

/// CPU of the pods on the two nodes: one fits on node `a`, two on node `b`.
const CPU: &str = "3";

/// Creates the two nodes, and returns their names once the server sees them.
async fn two_nodes(world: &World<'_>, server: &Server) -> Result<[String; 2]> {
    // Not 4 and 8: up to 1.35, both would be equally good for the second pod.
    for (name, cpu) in [("a", "5"), ("b", "8")] {
        world.node(name).allocatable("cpu", cpu).create(&world.client).await?;
    }
    let names = ["a", "b"].map(|name| format!("{}-{name}", world.name));
    wait_for("the server to see the nodes", PATIENCE, || async {
        let question = json!({ "objects": [a_world_pod(world, "p")?], "nodes": names });
        let answer = server.post("snapshots/live/feasible", &question).await?;
        ensure!(answer["nodes"] == json!(names), "{answer}");
        Ok(())
    })
    .await?;
    Ok(names)
}

/// A pod for these nodes.
fn a_world_pod(world: &World<'_>, name: &str) -> Result<Value> {
    let mut pod = json!(world.pod(name, &requesting(&json!({ "cpu": CPU })))?);
    pod["metadata"]["namespace"] = json!(world.name);
    Ok(pod)
}

#[tokio::test]
async fn whatif_follows_the_cluster_and_its_answers_come_true() -> Result<()> {
    play("whatif-live", async |world| {
        let mut server = Server::start(world, &[]).await?;
        let names = two_nodes(world, &server).await?;
        let fork = server.post("forks", &json!({ "of": "live" })).await?["id"].clone();
        let fork = format!("forks/{}", fork.as_str().unwrap_or_default());
        let pods = ["p", "q"].map(|name| a_world_pod(world, name)).into_iter().collect::<Result<Vec<_>>>()?;
        let placed = server.post(&format!("{fork}/place"), &json!({ "objects": pods })).await?;
        let placements = placed["placements"].as_array().into_iter().flatten();
        let expected: Vec<&str> = placements.filter_map(|it| it["node"].as_str()).collect();
        let mut bound = Vec::new();
        for name in ["p", "q"] {
            world.create(name, &requesting(&json!({ "cpu": CPU }))).await?;
            bound.push(world.bound(name).await?);
        }
        assert_eq!(expected, bound, "the scheduler binds the pods where the answer said");

        // The objects that the fork placed exist now, so its change no longer applies.
        let diff = format!("{fork}/diff");
        wait_for("the server to see the pods", PATIENCE, || async {
            let answer = server.ask(Some(&server.token), Method::GET, &diff, &Value::Null).await?;
            ensure!(answer.status == 409 && answer.body.contains("exists already"), "{answer:?}");
            Ok(())
        })
        .await?;
        server.post(&format!("{fork}/undo"), &json!({})).await?;
        ensure!(server.live().await?["pods"].as_u64() >= Some(2), "it sees the pods");
        world.plane.admin().kubectl(&["delete", "node", &names[0]]).await?;
        wait_for("the server to miss the node", PATIENCE, || async {
            let body = json!({ "objects": [a_world_pod(world, "r")?], "nodes": names[..1] });
            let path = format!("{fork}/feasible");
            let answer = server.ask(Some(&server.token), Method::POST, &path, &body).await?;
            ensure!(answer.status == 400 && answer.body.contains("not found"), "{answer:?}");
            Ok(())
        })
        .await?;
        let scraper = user(world, "scraper", "system:monitoring").await?;
        let (status, text) = get(&format!("{}/metrics", server.url()), Some(&scraper)).await?;
        ensure!(status == 200, "{status}: {text}");
        for line in [
            r#"supercargo_whatif_request_duration_seconds_count{code="200",question="place"} 1"#,
            r#"supercargo_whatif_held{kind="fork"} 1"#,
            "supercargo_whatif_requests_waiting 0",
        ] {
            ensure!(text.lines().any(|it| it == line), "{line} is missing:\n{text}");
        }
        let binding = format!("{}-scraper", world.name);
        world.plane.admin().kubectl(&["delete", "clusterrolebinding", &binding]).await?;
        server.process.check()?;
        let ended = server.process.stop(START)?;
        ensure!(ended.success(), "{ended}: {}", server.process.log_tail(20));
        server.forget(world).await
    })
    .await
}

#[tokio::test]
async fn whatif_fork_of_the_live_cluster_has_its_own_configuration() -> Result<()> {
    play("whatif-config", async |world| {
        let server = Server::start(world, &[]).await?;
        let names = two_nodes(world, &server).await?;
        let fork = server.post("forks", &json!({ "of": "live" })).await?["id"].clone();
        let fork = format!("forks/{}", fork.as_str().unwrap_or_default());
        let pod = json!({ "objects": [a_world_pod(world, "p")?] });
        let chosen = async |path: &str| -> Result<Value> {
            let fit = server.post(&format!("{path}/fits"), &pod).await?;
            Ok(fit["placements"][0]["node"].clone())
        };
        let text = std::fs::read_to_string("docs/whatif-server/config.json")?;
        let mut config: Value = serde_json::from_str(&text)?;
        let set = server.post(&format!("{fork}/setConfig"), &config).await?;
        assert_eq!(set["profiles"], json!(["default-scheduler"]));
        for _ in 0..2 {
            assert_eq!(chosen(&fork).await?, json!(names[0]), "the pod fills most of node a");
            assert_eq!(chosen("snapshots/live").await?, json!(names[1]), "node b stays emptier");
        }
        config["config"]["profiles"][0]["pluginConfig"][0]["args"]["scoringStrategy"]["type"] = "Most".into();
        let path = format!("{fork}/setConfig");
        let refused = server.ask(Some(&server.token), Method::POST, &path, &config).await?;
        ensure!(refused.status == 400 && refused.body.contains("scoringStrategy.type"), "{refused:?}");
        let undone = server.post(&format!("{fork}/undo"), &json!({})).await?;
        assert_eq!(undone["changes"], 0);
        assert_eq!(chosen(&fork).await?, json!(names[1]));
        server.forget(world).await
    })
    .await
}

#[tokio::test]
async fn go_clients_ask_about_the_live_cluster() -> Result<()> {
    play("whatif-go-live", async |world| {
        let server = Server::start(world, &[]).await?;
        let names = two_nodes(world, &server).await?;
        let pending: Vec<Value> =
            (0..6).map(|at| a_world_pod(world, &format!("more-{at}"))).collect::<Result<_>>()?;
        let questions = json!({
            "requirements": a_world_pod(world, "r")?, "candidates": names, "workload": [a_world_pod(world, "w")?],
            "groups": [{ "name": "like-b", "like": names[1] }], "pending": pending,
        });
        let found = server.run_clients(&questions).await?;
        assert_eq!(found["feasible"], json!(names), "{found:#}");
        assert_eq!(found["bindings"].as_object().map(serde_json::Map::len), Some(1), "{found:#}");
        // The two nodes take three of the six, and each new node takes two.
        assert_eq!(found["scaleUp"]["nodes"][0]["count"], 2, "{found:#}");
        assert_eq!(found["scaleUp"]["pendingWithout"], 3, "{found:#}");
        assert_eq!((&found["scaleUp"]["pending"], &found["differences"]), (&json!(0), &json!(0)), "{found:#}");
        server.forget(world).await
    })
    .await
}

#[tokio::test]
async fn go_clients_simulate_preempt_and_scale_up_an_uploaded_cluster() -> Result<()> {
    play("whatif-go", async |world| {
        let server = Server::start(world, &["--uploads-only"]).await?;
        let mut running: Vec<Value> = (0..2).map(|at| a_pod(&format!("low-{at}"), "3")).collect();
        for (at, pod) in running.iter_mut().enumerate() {
            pod["spec"]["nodeName"] = ["a", "b"][at].into();
            pod["metadata"]["annotations"] = json!({ "kueue.x-k8s.io/workload": format!("low-{at}") });
        }
        let pending: Vec<Value> = (0..9).map(|at| a_pod(&format!("p{at}"), "1500m")).collect();
        let questions = json!({
            "nodes": [a_node("a"), a_node("b"), a_node("c")], "pods": running,
            "requirements": a_pod("r", "2"), "candidates": ["a", "b", "c"],
            "workload": [a_pod("w0", "4"), a_pod("w1", "4")], "preemptible": ["low-0", "low-1"],
            "groups": [{ "name": "four", "template": a_node("four") }], "pending": pending,
        });
        let found = server.run_clients(&questions).await?;
        assert_eq!(found["feasible"], json!(["c"]), "{found:#}");
        assert_eq!(found["excluded"], json!({ "Insufficient cpu": 2 }));
        assert_eq!(found["feasibleAfterPreemption"], json!(["a", "c"]));
        assert_eq!(found["feasibleAfterRevert"], json!(["c"]));
        // Two pods of 4 CPUs need two empty nodes: one workload must go.
        assert_eq!(found["preempted"], json!(["low-0"]));
        let nodes: Vec<&Value> =
            found["bindings"].as_object().into_iter().flat_map(|it| it.values()).collect();
        ensure!(
            nodes.len() == 2 && nodes.contains(&&json!("a")) && nodes.contains(&&json!("c")),
            "{found:#}"
        );
        // Node c takes two of the nine pods, and each new node takes two.
        assert_eq!(found["scaleUp"]["nodes"][0]["count"], 4, "{found:#}");
        assert_eq!((&found["scaleUp"]["pendingWithout"], &found["differences"]), (&json!(7), &json!(0)));
        let none = server.ask(Some(&server.token), Method::GET, "snapshots", &Value::Null).await?;
        assert_eq!(none.body, "{\"items\":[]}", "the client deleted what it uploaded");
        assert_eq!(
            server.ask(Some(&server.token), Method::GET, "snapshots/live", &Value::Null).await?.status,
            404
        );
        server.forget(world).await
    })
    .await
}
