//! Faulty input: an unreachable API server, missing permissions, invalid flags and files, malformed objects. Each
//! fault is reported with its place, and everything else keeps working.
//!
//! A real API server admits few malformed objects. `crates/objects/src/api` and `crates/objects/src/convert` test the
//! others.

use std::io::Write;
use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::harness::ports::Port;
use crate::harness::supercargo::{self, NAME, Setup, configuration};
use crate::harness::wait::PATIENCE;
use crate::harness::{objects, wait_for};
use crate::world::{World, installed, play, requesting};

/// A forwarder that opens later stands in for an API server that is unreachable at first.
#[tokio::test]
async fn unreachable_api_server_at_start_is_retried() -> Result<()> {
    let plane = installed().await?;
    let (client, way) = (plane.client().await?, Port::reserve()?);
    let namespace = objects::create_namespace(&client, "away").await?;
    plane.admin().kubectl(&["create", "serviceaccount", NAME, "-n", &namespace]).await?;
    supercargo::grant(&plane.admin(), &namespace, NAME).await?;
    let mut setup = Setup::called(&namespace);
    setup.server = Some(format!("https://127.0.0.1:{}", way.number()));
    let mut supercargo = setup.launch(plane).await?;

    wait_for("it to serve and report not ready", PATIENCE, || async {
        let (alive, _) = supercargo.get("/livez", None).await?;
        let (ready, _) = supercargo.get("/readyz", None).await?;
        ensure!((alive, ready) == (200, 500), "/livez answers {alive}, /readyz {ready}");
        Ok(())
    })
    .await?;
    wait_for_log_line(&supercargo, &["watch failed; retrying"]).await?;
    supercargo.check()?;

    let open = open_way(way.number(), plane.server()).await?;
    supercargo.wait_until_ready().await?;
    wait_for_log_line(&supercargo, &["all watches have recovered"]).await?;
    supercargo.check_rights()?;
    open.abort();
    supercargo::revoke(&plane.admin(), &namespace).await
}

/// Forwards connections to the API server.
async fn open_way(from: u16, server: String) -> Result<JoinHandle<()>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, from)).await?;
    let target = server.strip_prefix("https://").context("the server's URL is an HTTPS one")?.to_owned();
    Ok(tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let target = target.clone();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(target).await?;
                tokio::io::copy_bidirectional(&mut near, &mut far).await
            });
        }
    }))
}

#[tokio::test]
async fn missing_permissions_are_logged_and_granting_them_resumes_work() -> Result<()> {
    let plane = installed().await?;
    let (client, admin) = (plane.client().await?, plane.admin());
    let namespace = objects::create_namespace(&client, "powerless").await?;
    admin.kubectl(&["create", "serviceaccount", NAME, "-n", &namespace]).await?;
    let mut supercargo = Setup::called(&namespace).launch(plane).await?;
    wait_for_log_line(&supercargo, &["cannot watch resource \"nodes\"", "grant list and watch on nodes"])
        .await?;
    wait_for_log_line(&supercargo, &["cannot watch resource \"replicasets\" in API group \"apps\""]).await?;
    assert_eq!(supercargo.get("/readyz", None).await?.0, 500);
    supercargo.check()?;

    supercargo::grant(&admin, &namespace, NAME).await?;
    supercargo.wait_until_ready().await?;
    drop(supercargo);
    supercargo::revoke(&admin, &namespace).await
}

/// With permission to read but not to bind, each pod gets an event, is retried, and is placed once permission is
/// granted.
#[tokio::test]
async fn missing_bind_permission_is_reported_and_retried() -> Result<()> {
    play("cannot-bind", async |world| {
        world.node("a").create(&world.client).await?;
        let admin = world.plane.admin();
        let binding = format!("{}-supercargo-act", world.name);
        admin.kubectl(&["delete", "clusterrolebinding", &binding]).await?;
        refused(world, &["auth", "can-i", "create", "pods/binding"]).await?;
        world.create("web", &json!({})).await?;
        wait_for_log_line(&world.supercargo, &["cannot create resource \"pods/binding\""]).await?;

        let subject = format!("--serviceaccount={}:{NAME}", world.name);
        let role = "--clusterrole=supercargo-act";
        admin.kubectl(&["create", "clusterrolebinding", &binding, role, &subject]).await?;
        world.bound("web").await?;
        world.supercargo.forgive_refusals()
    })
    .await
}

/// Waits until the API server denies this request; role changes take a moment to be effective.
async fn refused(world: &World<'_>, question: &[&str]) -> Result<()> {
    let identity = format!("--as=system:serviceaccount:{}:{NAME}", world.name);
    let mut question = question.to_vec();
    question.extend(["-n", &world.name, &identity]);
    wait_for("the permission to be revoked", PATIENCE, || async {
        let answer = world.plane.admin().kubectl(&question).await;
        ensure!(
            answer.is_err_and(|error| format!("{error:#}").contains("exit status: 1")),
            "it is still granted"
        );
        Ok(())
    })
    .await
}

/// Waits until one line of the log contains all these parts.
async fn wait_for_log_line(supercargo: &supercargo::Supercargo, parts: &[&str]) -> Result<()> {
    wait_for(&format!("a log line with {parts:?}"), PATIENCE, || async {
        let log = supercargo.log()?;
        let found = log.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        ensure!(found, "{}", supercargo.log_tail());
        Ok(())
    })
    .await
}

/// Objects that an API server admits although no scheduler can evaluate them. Other pods are placed as usual.
#[tokio::test]
async fn unevaluable_object_does_not_affect_other_pods() -> Result<()> {
    play("odd", async |world| {
        let node = world.node("sane").label("size", "large");
        node.create(&world.client).await?;
        // A huge request, and a node without status.
        world.node("vast").allocatable("cpu", "999999999999999999999999").allocatable("pods", "0").create(&world.client).await?;
        let mute = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("{}-mute", world.name),
            "labels": {"kept-for": world.name}}});
        world.plane.admin().apply(&mute.to_string()).await?;
        // `Gt` compares integers; neither value is one.
        let odd = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["1"]}]}]}}}});
        world.create("odd", &odd).await?;
        let all = json!({"example.com/no-such-thing": "9223372036854775807"});
        let mut greedy = requesting(&all);
        greedy["containers"][0]["resources"]["limits"] = all;
        world.create("greedy", &greedy).await?;
        for number in 0..5 {
            world.create(&format!("sane-{number}"), &requesting(&json!({"cpu": "1"}))).await?;
        }
        for number in 0..5 {
            assert_eq!(world.bound(&format!("sane-{number}")).await?, node.name());
        }
        world.waiting("odd", "didn't match Pod's node affinity/selector").await?;
        world.waiting("greedy", "Insufficient example.com/no-such-thing").await?;
        Ok(())
    })
    .await
}

#[test]
fn unknown_flag_exits_with_2() -> Result<()> {
    let (code, said) = run(&["--no-such-flag"])?;
    assert_eq!(code, Some(2), "{said}");
    ensure!(said.contains("--no-such-flag"), "{said}");
    let (code, said) = run(&["--secure-port=many"])?;
    assert_eq!(code, Some(2), "{said}");
    ensure!(said.contains("--secure-port") && said.contains("many"), "{said}");
    Ok(())
}

#[test]
fn invalid_configuration_exits_with_2_and_position() -> Result<()> {
    let cases = [
        ("prfiles: []\n", "prfiles"),
        ("profiles:\n- schedulerName: a\n  nonsense: 1\n", "nonsense"),
        ("podInitialBackoffSeconds: soon\n", "podInitialBackoffSeconds"),
    ];
    for (wrong, what) in cases {
        let mut file = tempfile::NamedTempFile::new()?;
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        write!(file, "{head}{wrong}")?;
        let path = file.path().display().to_string();
        let (code, said) = run(&["--config", &path])?;
        assert_eq!(code, Some(2), "{said}");
        ensure!(said.contains(&path) && said.contains(what), "{what}: {said}");
    }
    let (code, said) = run(&["--config", "no-such-file.yaml"])?;
    assert_eq!(code, Some(2), "{said}");
    ensure!(said.contains("no-such-file.yaml"), "{said}");
    Ok(())
}

/// Starts the program with invalid input and reads the last line of its log.
struct Wrong {
    folder: tempfile::TempDir,
}

impl Wrong {
    fn new() -> Result<Self> {
        let wrong = Self { folder: tempfile::tempdir()? };
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        });
        wrong.file("kubeconfig", &kubeconfig.to_string())?;
        wrong.file("right.yaml", &configuration("x"))?;
        Ok(wrong)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn file(&self, name: &str, text: &str) -> Result<String> {
        std::fs::write(self.folder.path().join(name), text)?;
        Ok(self.path(name))
    }

    /// Asserts exit code and error message. The time and the test's folder are ignored.
    fn ends(&self, args: &[&str], code: i32, words: &str) -> Result<()> {
        let kubeconfig = format!("--kubeconfig={}", self.path("kubeconfig"));
        let args: Vec<&str> =
            args.iter().copied().chain([kubeconfig.as_str(), "--logging-format=json"]).collect();
        let (ended, said) = run(&args)?;
        let last = said.lines().last().context("there is a log line")?;
        let entry: serde_json::Value = serde_json::from_str(last).with_context(|| said.clone())?;
        let folder = format!("{}/", self.folder.path().display());
        let error = entry["error"].as_str().unwrap_or_default().replace(&folder, "");
        assert_eq!((ended, error.as_str()), (Some(code), words), "{args:?}: {said}");
        assert_eq!(
            (&entry["level"], &entry["message"]),
            (&json!("ERROR"), &json!("the scheduler stopped with an error"))
        );
        Ok(())
    }
}

#[test]
fn startup_errors_have_expected_messages_and_exit_codes() -> Result<()> {
    let wrong = Wrong::new()?;
    std::fs::create_dir(wrong.path("folder.yaml"))?;
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    wrong.file("version.yaml", &head.replace("/v1\n", "/v1beta3\n"))?;
    let plugin = "profiles:\n- plugins:\n    score:\n      enabled:\n      - name: NodeResourcesFitt\n";
    wrong.file("plugin.yaml", &format!("{head}{plugin}"))?;
    wrong.file("twice.yaml", &format!("{head}profiles:\n- schedulerName: a\n- schedulerName: a\n"))?;
    let files = [
        ("folder.yaml", "cannot read folder.yaml: Is a directory (os error 21)"),
        ("none.yaml", "cannot read none.yaml: No such file or directory (os error 2)"),
        (
            "version.yaml",
            "version.yaml:1:1: apiVersion: no kind \"KubeSchedulerConfiguration\" is registered for version \
             \"kubescheduler.config.k8s.io/v1beta3\"; expected kind \"KubeSchedulerConfiguration\" of version \
             \"kubescheduler.config.k8s.io/v1\"",
        ),
        (
            "plugin.yaml",
            "plugin.yaml:7:9: profiles[0].plugins.score.enabled[0]: initializing profiles: creating profile for scheduler name \
             default-scheduler: ScorePlugin \"NodeResourcesFitt\" does not exist",
        ),
        ("twice.yaml", "twice.yaml:5:3: profiles[1].schedulerName: Duplicate value: \"a\""),
    ];
    for (file, words) in files {
        wrong.ends(&[&format!("--config={}", wrong.path(file))], 2, words)?;
    }

    let config = format!("--config={}", wrong.path("right.yaml"));
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = taken.local_addr()?;
    let words = format!(
        "cannot listen on {address}: Address already in use (os error 98); choose another with --bind-address and --secure-port"
    );
    wrong.ends(&[&config, &format!("--secure-port={}", address.port())], 1, &words)?;

    if cfg!(not(feature = "otlp")) {
        let words = "--otlp-endpoint: this program was built without the feature otlp; build it with `cargo build --release --features otlp`";
        wrong.ends(&[&config, "--otlp-endpoint=http://127.0.0.1:4318"], 2, words)?;
    }
    Ok(())
}

#[test]
fn unusable_certificate_or_key_exits_with_1_and_file_name() -> Result<()> {
    let wrong = Wrong::new()?;
    let config = format!("--config={}", wrong.path("right.yaml"));
    wrong.file("bad.key", "no key")?;
    let pair = || rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let (good, other) = (pair()?, pair()?);
    wrong.file("good.crt", &good.cert.pem())?;
    wrong.file("other.key", &other.signing_key.serialize_pem())?;
    let certificates = [
        (
            "good.crt",
            "bad.key",
            "cannot use bad.key as a serving certificate or its key (--tls-cert-file, --tls-private-key-file, --tls-sni-cert-key): it contains no PEM private key",
        ),
        (
            "good.crt",
            "other.key",
            "cannot use other.key as a serving certificate or its key (--tls-cert-file, --tls-private-key-file, --tls-sni-cert-key): it is not the key of good.crt",
        ),
        (
            "bad.crt",
            "bad.key",
            "cannot use bad.crt as a serving certificate or its key (--tls-cert-file, --tls-private-key-file, --tls-sni-cert-key): it contains no PEM certificate",
        ),
        (
            "none.crt",
            "bad.key",
            "cannot use none.crt as a serving certificate or its key (--tls-cert-file, --tls-private-key-file, --tls-sni-cert-key): No such file or directory (os error 2)",
        ),
    ];
    wrong.file("bad.crt", "no certificate")?;
    for (file, key, words) in certificates {
        let certificate = format!("--tls-cert-file={}", wrong.path(file));
        let key = format!("--tls-private-key-file={}", wrong.path(key));
        wrong.ends(&[&config, "--secure-port=10259", &certificate, &key], 1, words)?;
    }
    Ok(())
}

/// A container image with only the program has no CA certificates. They are missed only if a certificate must be
/// verified.
#[test]
fn https_extender_without_system_ca_needs_its_own_ca() -> Result<()> {
    let wrong = Wrong::new()?;
    let run = |url: &str, more: &str| {
        let extender = format!("extenders:\n- urlPrefix: {url}\n  filterVerb: filter\n{more}");
        let config = wrong.file("extender.yaml", &format!("{}{extender}", configuration("x")))?;
        let output = Command::new(supercargo::binary()?)
            .args(["--secure-port=0", "--config", &config, "--kubeconfig=none-such"])
            .env("SSL_CERT_FILE", wrong.path("none.pem"))
            .env("SSL_CERT_DIR", wrong.path("none"))
            .output()?;
        anyhow::Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    for (url, more) in [
        ("http://127.0.0.1:9/x", ""),
        ("https://127.0.0.1:9/x", "  enableHTTPS: true\n  tlsConfig:\n    insecure: true\n"),
    ] {
        let (code, said) = run(url, more)?;
        ensure!(code == Some(1) && said.contains("none-such"), "{url}: {code:?}: {said}");
    }
    let (code, said) = run("https://127.0.0.1:9/x", "")?;
    ensure!(
        code == Some(2) && said.contains("No CA certificates were loaded from the system"),
        "{code:?}: {said}"
    );
    Ok(())
}

/// Waiting does not help if the kubeconfig file is missing.
#[test]
fn unreadable_kubeconfig_is_named() -> Result<()> {
    let mut file = tempfile::NamedTempFile::new()?;
    write!(file, "{}", configuration("x"))?;
    let config = format!("--config={}", file.path().display());
    let (code, said) = run(&[&config, "--kubeconfig=no-such-kubeconfig"])?;
    assert_eq!(code, Some(1), "{said}");
    ensure!(said.contains("no-such-kubeconfig"), "{said}");
    Ok(())
}

/// Runs the program to its end. Returns its exit code and standard error.
fn run(args: &[&str]) -> Result<(Option<i32>, String)> {
    let output = Command::new(supercargo::binary()?).args(args).arg("--bind-address=127.0.0.1").output()?;
    Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
}
