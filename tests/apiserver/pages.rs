//! The HTTPS port's pages compared with the real kube-scheduler's: access control, media types, and pod resource
//! metrics line by line.

use anyhow::{Context, Result, ensure};
use http::Method;
use http::header::{CONTENT_TYPE, WARNING};
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::harness::binaries::chosen_minor;
use crate::harness::http::{Answer, ask};
use crate::harness::objects::service_account_token;
use crate::harness::plane::ADMIN_TOKEN;
use crate::harness::wait::PATIENCE;
use crate::harness::{Component, wait_for};
use crate::world::{World, play};

/// Sends the same request to both ports.
async fn both(
    world: &World<'_>,
    method: &Method,
    path: &str,
    token: Option<&str>,
    accept: Option<&str>,
    body: &str,
) -> Result<(Answer, Answer)> {
    let port = world.plane.port(Component::Scheduler);
    let theirs = ask(method.clone(), &format!("https://127.0.0.1:{port}{path}"), token, accept, body).await?;
    let port = world.supercargo.port();
    let ours = ask(method.clone(), &format!("https://127.0.0.1:{port}{path}"), token, accept, body).await?;
    Ok((theirs, ours))
}

/// Paths of both servers, including single checks and an unknown path.
const PATHS: [&str; 14] = [
    "/healthz",
    "/livez",
    "/readyz",
    "/readyz/sched-handler-sync",
    "/metrics",
    "/metrics/slis",
    "/metrics/resources",
    "/statusz",
    "/flagz",
    "/configz",
    "/debug/flags/v",
    "/debug/no-such-page",
    "/version",
    "/no-such-path",
];

#[tokio::test]
async fn page_access_equals_kube_schedulers_and_denials_reveal_nothing() -> Result<()> {
    play("access", async |world| {
        let admin = world.plane.admin();
        admin.kubectl(&["create", "serviceaccount", "monitoring", "-n", &world.name]).await?;
        let (binding, subject) =
            (format!("{}-monitoring", world.name), format!("--serviceaccount={}:monitoring", world.name));
        let role = "--clusterrole=system:monitoring";
        admin.kubectl(&["create", "clusterrolebinding", &binding, role, &subject]).await?;
        let plain = service_account_token(&world.client, &world.name, "default").await?;
        let monitoring = service_account_token(&world.client, &world.name, "monitoring").await?;
        let who = [
            ("anonymous", None),
            ("a bad token", Some("made-up")),
            ("plain", Some(plain.as_str())),
            ("monitoring", Some(monitoring.as_str())),
            ("admin", Some(ADMIN_TOKEN)),
        ];
        let (mut compared, mut refused) = (0, 0);
        for path in PATHS {
            for (name, token) in who {
                let (theirs, ours) = both(world, &Method::GET, path, token, None, "").await?;
                let is_health = ["/healthz", "/livez", "/readyz"].contains(&path);
                if is_health && name == "a bad token" {
                    // FIDELITY.md: health ignores tokens.
                    assert_eq!((theirs.status, ours.status), (401, 200), "{path} for {name}");
                    continue;
                }
                assert_eq!(ours.status, theirs.status, "{path} for {name}: {ours:?} and upstream {theirs:?}");
                if matches!(ours.status, 401 | 403) {
                    assert_eq!(ours.body.trim_end(), theirs.body.trim_end(), "{path} for {name}");
                    refused += 1;
                }
                compared += 1;
            }
        }
        admin.kubectl(&["delete", "clusterrolebinding", &binding]).await?;
        eprintln!(
            "pages: {compared} responses have kube-scheduler's status, and {refused} denials its message"
        );
        ensure!(refused >= 30, "{refused} refusals");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn statusz_and_flagz_have_kube_schedulers_media_types_and_shape() -> Result<()> {
    let kind = |page: &str| if page == "/statusz" { "Statusz" } else { "Flagz" };
    play("forms", async |world| {
        let mut compared = 0;
        for page in ["/statusz", "/flagz"] {
            let other = if page == "/statusz" { "Flagz" } else { "Statusz" };
            for accept in [
                String::new(),
                "*/*".into(),
                "text/plain".into(),
                "text/*".into(),
                "text/html".into(),
                "text/html,*/*;q=0.1".into(),
                "application/json".into(),
                "application/yaml".into(),
                "application/cbor".into(),
                format!("application/json;as={};v=v1beta1;g=config.k8s.io", kind(page)),
                format!("application/json;as={};v=v1alpha1;g=config.k8s.io", kind(page)),
                format!("application/yaml;as={};v=v1beta1;g=config.k8s.io", kind(page)),
                format!("application/*;as={};v=v1beta1;g=config.k8s.io", kind(page)),
                format!("text/plain;q=0.2,application/json;as={};v=v1beta1;g=config.k8s.io", kind(page)),
                format!("application/json;as={};v=v2;g=config.k8s.io", kind(page)),
                format!("application/json;as={other};v=v1beta1;g=config.k8s.io"),
                format!("text/plain;as={};v=v1beta1;g=config.k8s.io", kind(page)),
            ] {
                let accept = Some(accept.as_str());
                let (theirs, ours) = both(world, &Method::GET, page, Some(ADMIN_TOKEN), accept, "").await?;
                same_form(&theirs, &ours).with_context(|| format!("{page} as {accept:?}"))?;
                compared += 1;
            }
        }
        eprintln!("pages: {compared} responses have kube-scheduler's form");
        Ok(())
    })
    .await
}

/// Compares status, content type, warning and structure.
fn same_form(theirs: &Answer, ours: &Answer) -> Result<()> {
    let form = |answer: &Answer| {
        let (content_type, warning) = (answer.header(CONTENT_TYPE), answer.header(WARNING));
        (answer.status, content_type.to_owned(), warning.to_owned())
    };
    let shape = |answer: &Answer| -> Vec<String> {
        let body = answer.body.as_str();
        let is_yaml = answer.header(CONTENT_TYPE).starts_with("application/yaml");
        let read = if is_yaml { serde_saphyr::from_str(body).ok() } else { serde_json::from_str(body).ok() };
        if let Some(Value::Object(object)) = read {
            let is_flags = |key: &str| key == "flags";
            let fields = |(key, value): (&String, &Value)| match value {
                Value::Object(inner) if !is_flags(key) => format!("{key}: {:?}", inner.keys()),
                Value::String(text) if key == "message" || key == "apiVersion" => format!("{key}: {text}"),
                _ => key.clone(),
            };
            return object.iter().map(fields).collect();
        }
        // The names at the beginning of lines, except flags.
        let names = body.lines().map(|line| line.split([':', '=', ' ']).next().unwrap_or_default());
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        if let Some(at) = body.lines().position(|line| line.starts_with("Warning")) {
            names.truncate(if body.contains("flagz") { at + 1 } else { names.len() });
        }
        let known = ["", "Warning", "Started", "Up", "Go", "Binary", "Emulation", "Paths"];
        names.retain(|name| known.contains(&name.as_str()));
        names
    };
    ensure!(
        form(theirs) == form(ours),
        "it is {:?} and upstream's {:?}: {theirs:?}",
        form(ours),
        form(theirs)
    );
    let (here, there) = (shape(ours), shape(theirs));
    ensure!(here == there, "it has {here:?} and upstream's {there:?}: {} and {}", ours.body, theirs.body);
    Ok(())
}

#[tokio::test]
async fn configz_has_upstream_fields() -> Result<()> {
    play("configz", async |world| {
        let (theirs, ours) = both(world, &Method::GET, "/configz", Some(ADMIN_TOKEN), None, "").await?;
        assert_eq!(ours.header(CONTENT_TYPE), theirs.header(CONTENT_TYPE));
        let [theirs, ours]: [Value; 2] =
            [serde_json::from_str(&theirs.body)?, serde_json::from_str(&ours.body)?];
        let (mut theirs, mut ours) = (theirs["componentconfig"].clone(), ours["componentconfig"].clone());
        let profile = ours["profiles"][0]["schedulerName"].take();
        assert_eq!(profile, json!(world.name));
        if chosen_minor() < 36 {
            // Up to 1.35, kube-scheduler shows Go's names of its internal type (FIDELITY.md).
            ensure!(theirs["Profiles"].is_array() && ours["profiles"].is_array(), "{theirs:#} {ours:#}");
            return Ok(());
        }
        theirs["profiles"][0]["schedulerName"].take();
        // The two are started with different values of these.
        for config in [&mut theirs, &mut ours] {
            let fields = config.as_object_mut().context("it is an object")?;
            for differs in ["clientConnection", "leaderElection", "delayCacheUntilActive"] {
                fields.remove(differs);
            }
        }
        ensure!(ours == theirs, "it is {ours:#} and upstream's {theirs:#}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn log_level_is_set_over_http_with_kube_schedulers_messages() -> Result<()> {
    play("level", async |world| {
        for (method, body) in
            [(Method::PUT, "4"), (Method::PUT, "x"), (Method::PUT, ""), (Method::GET, ""), (Method::PUT, "2")]
        {
            let (theirs, ours) =
                both(world, &method, "/debug/flags/v", Some(ADMIN_TOKEN), None, body).await?;
            assert_eq!(
                (ours.status, ours.body.trim_end()),
                (theirs.status, theirs.body.trim_end()),
                "{method} {body:?}"
            );
        }
        for (page, has) in [("/debug/cache", "Node name: "), ("/debug/queue", "activeQ:")] {
            let (status, body) = world.supercargo.get(page, Some(ADMIN_TOKEN)).await?;
            ensure!(status == 200 && body.contains(has), "{page}: {status} {body}");
        }
        Ok(())
    })
    .await
}

/// A pod with every field that affects its resource requests.
fn manifold(world: &World<'_>, name: &str, scheduler: &str) -> Value {
    let container = |name: &str, resources: Value| json!({"name": name, "image": "example.com/a", "resources": resources});
    let mut sidecar =
        container("side", json!({"requests": {"cpu": "30m"}, "limits": {"cpu": "40m", "memory": "10M"}}));
    sidecar["restartPolicy"] = json!("Always");
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": world.name}, "spec": {
        "schedulerName": scheduler,
        "nodeSelector": {"kept-for": world.name},
        "tolerations": [{"key": "kept-for", "operator": "Exists"}],
        "initContainers": [
            sidecar,
            container("first", json!({"requests": {"cpu": "1250m", "ephemeral-storage": "1.5Gi"}, "limits": {"ephemeral-storage": "3Gi"}})),
        ],
        "containers": [
            container("main", json!({"requests": {"cpu": "100m", "memory": "123456789", "hugepages-2Mi": "4Mi"},
                "limits": {"memory": "200M", "hugepages-2Mi": "4Mi", "example.com/gpu": "2"}})),
            container("none", json!({"requests": {"cpu": "0"}})),
        ],
    }})
}

#[tokio::test]
async fn resource_metrics_equal_kube_schedulers() -> Result<()> {
    play("census", async |world| {
        let node = world.node("a").allocatable("cpu", "8").allocatable("hugepages-2Mi", "64Mi");
        node.allocatable("example.com/gpu", "8").create(&world.client).await?;
        for (name, scheduler) in
            [("ours", world.name.as_str()), ("unserved", "absent"), ("theirs", "default-scheduler")]
        {
            let pod = serde_json::from_value(manifold(world, name, scheduler))?;
            world.pods().create(&PostParams::default(), &pod).await?;
        }
        world.create("small", &json!({"containers": [{"name": "main", "image": "example.com/a"}]})).await?;
        for bound in ["ours", "theirs", "small"] {
            world.bound(bound).await?;
        }
        // Other tests run concurrently, so only pods of this namespace are compared.
        let own = |text: &str| -> Vec<String> {
            let of = format!("{{namespace=\"{}\"", world.name);
            text.lines()
                .filter(|line| line.starts_with('#') || line.contains(&of))
                .map(str::to_owned)
                .collect()
        };
        let same = async |least: usize| {
            wait_for("both to show the same", PATIENCE, || async {
                let path = "/metrics/resources";
                let (theirs, ours) = both(world, &Method::GET, path, Some(ADMIN_TOKEN), None, "").await?;
                ensure!((ours.status, theirs.status) == (200, 200), "{ours:?} and upstream {theirs:?}");
                assert_eq!(ours.header(CONTENT_TYPE), theirs.header(CONTENT_TYPE));
                let (here, there) = (own(&ours.body), own(&theirs.body));
                ensure!(there.len() >= least, "upstream shows {there:#?}");
                ensure!(here == there, "it shows {here:#?} and upstream {there:#?}");
                Ok(here.len())
            })
            .await
        };
        let lines = same(20).await?;
        eprintln!("resources: {lines} lines equal kube-scheduler's");
        world.delete("ours").await?;
        same(10).await?;
        Ok(())
    })
    .await
}
