//! Extenders with a real API server: over HTTP and HTTPS, slow, failing and incorrect ones.

mod comparison;
mod server;

use anyhow::{Context, Result, ensure};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::ports::Port;
use crate::harness::supercargo::configuration;
use crate::harness::wait::PATIENCE;
use crate::harness::wait_for;
use crate::reload::{reconfigure, reloads};
use crate::world::{World, play, requesting};
use server::{Call, Extender, Reply};

/// The resource managed by extenders in some tests.
const FPGA: &str = "example.com/fpga";

/// Configures these extenders, each given by its fields; this is the configuration's `time`-th reload.
async fn extend(world: &World<'_>, extenders: &[String], time: f64) -> Result<()> {
    let list: String = extenders.iter().map(|extender| format!("- {{{extender}}}\n")).collect();
    let list = if list.is_empty() { String::new() } else { format!("extenders:\n{list}") };
    reconfigure(world, &format!("{}{list}", configuration(&world.name)))?;
    world.counted(&reloads("applied"), time).await
}

/// Creates nodes with these names, each with four CPUs and four boards.
async fn nodes(world: &World<'_>, names: &[&str]) -> Result<()> {
    for name in names {
        world.node(name).allocatable("cpu", "4").allocatable(FPGA, "4").create(&world.client).await?;
    }
    Ok(())
}

fn small() -> Value {
    requesting(&json!({"cpu": "100m"}))
}

fn on_a_board() -> Value {
    let mut spec = requesting(&json!({"cpu": "100m", FPGA: "1"}));
    spec["containers"][0]["resources"]["limits"] = json!({FPGA: "1"});
    spec
}

/// Builds a filter response: nodes whose names have one of these suffixes pass; all others fail with a reason.
fn passing(call: &Call, ends: &[&str], with_nodes: bool) -> Value {
    let passes = |name: &String| ends.iter().any(|end| name.ends_with(end));
    let (passed, failed): (Vec<String>, Vec<String>) = call.nodes().into_iter().partition(passes);
    let failed: serde_json::Map<String, Value> =
        failed.into_iter().map(|node| (node, json!("no licence"))).collect();
    if with_nodes {
        let items = call.body["Nodes"]["items"].as_array().cloned().unwrap_or_default();
        let named = |node: &Value| passed.iter().any(|name| node["metadata"]["name"] == *name);
        let items: Vec<Value> = items.into_iter().filter(named).collect();
        return json!({"Nodes": {"items": items}, "FailedNodes": failed});
    }
    json!({"NodeNames": passed, "FailedNodes": failed})
}

#[tokio::test]
async fn extender_is_called_only_while_configured() -> Result<()> {
    play("extend", async |world| {
        nodes(world, &["a", "b", "c"]).await?;
        let extender = Extender::start(&world.client, 0, None, |call| match &*call.path {
            "/x/filter" => Reply::Json(passing(call, &["-b", "-c"], true)),
            _ => {
                let score =
                    |node: &String| json!({"Host": node, "Score": if node.ends_with("-c") { 10 } else { 0 }});
                Reply::Json(call.nodes().iter().map(score).collect())
            }
        })
        .await?;
        world.create("before", &small()).await?;
        world.bound("before").await?;
        let fields = format!(
            "urlPrefix: 'http://127.0.0.1:{}/x', filterVerb: filter, prioritizeVerb: prioritize, weight: 100",
            extender.port
        );
        extend(world, &[fields], 1.0).await?;
        for name in ["p", "q"] {
            world.create(name, &small()).await?;
            let node = world.bound(name).await?;
            ensure!(node.ends_with("-c"), "{name} is on {node}");
            let calls = extender.calls_about(name);
            let paths: Vec<&str> = calls.iter().map(|call| call.path.as_str()).collect();
            ensure!(paths == ["/x/filter", "/x/prioritize"], "{paths:?}");
            let asked = [calls[0].nodes().len(), calls[1].nodes().len()];
            ensure!(asked == [3, 2], "asked about {asked:?} nodes");
            whole_objects(&calls[0].body)?;
        }
        ensure!(extender.calls_about("before").is_empty(), "it was not configured yet");
        extend(world, &[], 2.0).await?;
        world.create("after", &small()).await?;
        world.bound("after").await?;
        ensure!(extender.calls_about("after").is_empty(), "it is no longer configured");
        let calls = |verb: &str| {
            format!("supercargo_extender_calls_total{{operation=\"{verb}\",result=\"success\"}}")
        };
        world.counted(&calls("filter"), 2.0).await?;
        world.counted(&calls("prioritize"), 2.0).await
    })
    .await
}

/// The pod and nodes are complete API objects, not just the decoded fields.
fn whole_objects(body: &Value) -> Result<()> {
    let pod = &body["Pod"];
    ensure!(pod["kind"].is_null() && pod["metadata"]["managedFields"].is_null(), "{pod}");
    ensure!(pod["spec"]["containers"][0]["terminationMessagePath"].is_string(), "{pod}");
    let node = &body["Nodes"]["items"][0];
    ensure!(node["kind"].is_null() && node["metadata"]["managedFields"].is_array(), "{node}");
    ensure!(node["status"]["nodeInfo"].is_object(), "{node}");
    Ok(())
}

#[tokio::test]
async fn slow_extender_does_not_delay_other_pods() -> Result<()> {
    play("slow-extender", async |world| {
        nodes(world, &["a"]).await?;
        let slow = |call: &Call| Reply::Held(passing(call, &["-a"], false));
        let extender = Extender::start(&world.client, 0, None, slow).await?;
        let fields = format!(
            "urlPrefix: 'http://127.0.0.1:{}', filterVerb: f, nodeCacheCapable: true, httpTimeout: 60s, \
             managedResources: [{{name: {FPGA}}}]",
            extender.port
        );
        extend(world, &[fields], 1.0).await?;
        world.create("slow", &on_a_board()).await?;
        world.create("slow-too", &on_a_board()).await?;
        for pod in ["slow", "slow-too"] {
            wait_for("the extender to be called", PATIENCE, || async {
                ensure!(extender.calls_about(pod).len() == 1, "no call for {pod}");
                Ok(())
            })
            .await?;
        }
        world.counted("supercargo_pods_waiting_for_extenders", 2.0).await?;
        for number in 0..5 {
            let name = format!("quick{number}");
            world.create(&name, &small()).await?;
            world.bound(&name).await?;
            ensure!(extender.calls_about(&name).is_empty(), "{name} does not use it");
        }
        let slow = world.pods().get("slow").await?;
        ensure!(slow.spec.is_some_and(|spec| spec.node_name.is_none()), "the extender has not answered yet");
        extender.go_on();
        world.bound("slow").await?;
        world.bound("slow-too").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn failing_extender_fails_its_pods_until_it_recovers() -> Result<()> {
    play("broken-extender", async |world| {
        nodes(world, &["a"]).await?;
        let port = Port::reserve()?;
        let number = port.number();
        let fields = format!(
            "urlPrefix: 'http://127.0.0.1:{number}/x/', filterVerb: f, nodeCacheCapable: true, httpTimeout: 500ms"
        );
        extend(world, &[fields], 1.0).await?;
        world.create("p", &small()).await?;
        let refused = format!(
            "Post \"http://127.0.0.1:{number}/x/f\": dial tcp 127.0.0.1:{number}: connect: connection refused"
        );
        let pod = world.waiting("p", &refused).await?;
        let condition = crate::world::scheduled_condition(&pod).context("it has a condition")?;
        ensure!(condition.reason.as_deref() == Some("SchedulerError"), "{condition:?}");
        ensure!(condition.message.as_deref() == Some(&*refused), "{condition:?}");

        drop(port);
        let well = Arc::new(AtomicUsize::new(0));
        let state = Arc::clone(&well);
        let extender = Extender::start(&world.client, number, None, move |call| match state.load(Ordering::SeqCst) {
            0 => Reply::Held(json!(null)),
            1 => Reply::Code(503),
            2 => Reply::Json(json!({"Error": "out of slots, 100% of them"})),
            3 => Reply::Json(json!({"NodeNames": ["nowhere"]})),
            4 => Reply::Json(json!([1, 2])),
            _ => Reply::Json(passing(call, &["-a"], false)),
        })
        .await?;
        let url = format!("http://127.0.0.1:{number}/x/");
        for (step, text) in [
            (0, format!("Post \"{url}f\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)")),
            (1, format!("failed f with extender at URL {url}f, code 503")),
            (2, "out of slots, 100% of them".to_owned()),
            (3, format!("extender {url:?} claims a filtered node \"nowhere\" which is not found in the input node list")),
            (4, "the response's filter result is an array; expected an object".to_owned()),
        ] {
            well.store(step, Ordering::SeqCst);
            world.waiting("p", &text).await?;
        }
        well.store(5, Ordering::SeqCst);
        world.bound("p").await?;
        ensure!(extender.calls_about("p").len() > 5, "each failure took at least one call");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn unreachable_ignorable_extender_is_skipped() -> Result<()> {
    play("ignorable", async |world| {
        nodes(world, &["a"]).await?;
        let port = Port::reserve()?;
        let fields = format!(
            "urlPrefix: 'http://127.0.0.1:{}', filterVerb: f, prioritizeVerb: s, weight: 1, bindVerb: b, ignorable: true",
            port.number()
        );
        extend(world, &[fields], 1.0).await?;
        world.create("p", &small()).await?;
        world.bound("p").await?;
        let failed = |verb: &str| format!("supercargo_extender_calls_total{{operation=\"{verb}\",result=\"error\"}}");
        world.counted(&failed("filter"), 1.0).await?;
        world.counted(&failed("bind"), 1.0).await
    })
    .await
}

#[tokio::test]
async fn extender_binding_counts_only_when_the_watch_shows_it() -> Result<()> {
    play("binding-extender", async |world| {
        nodes(world, &["a"]).await?;
        let lies = AtomicUsize::new(0);
        let extender = Extender::start(&world.client, 0, None, move |call| match call.pod() {
            "refused" => Reply::Json(json!({"Error": "no slot left"})),
            "lied" if lies.fetch_add(1, Ordering::SeqCst) == 0 => Reply::Json(json!({"Error": ""})),
            _ => Reply::Binds,
        })
        .await?;
        let fields = format!(
            "urlPrefix: 'http://127.0.0.1:{}', bindVerb: bind, managedResources: [{{name: {FPGA}}}]",
            extender.port
        );
        extend(world, &[fields], 1.0).await?;
        world.create("bound", &on_a_board()).await?;
        let node = world.bound("bound").await?;
        let scheduled = world.events("bound", "Scheduled").await?;
        let note = format!("Successfully assigned {}/bound to {node}", world.name);
        ensure!(scheduled.len() == 1 && scheduled[0].note.as_deref() == Some(&*note), "{scheduled:?}");
        let calls = extender.calls_about("bound");
        let uid = world.pods().get("bound").await?.metadata.uid;
        let expected = json!({"PodName": "bound", "PodNamespace": world.name, "PodUID": uid, "Node": node});
        ensure!(calls.len() == 1 && calls[0].body == expected, "{calls:?}");

        world.create("refused", &on_a_board()).await?;
        let pod = world.waiting("refused", "no slot left").await?;
        let condition = crate::world::scheduled_condition(&pod).context("it has a condition")?;
        ensure!(condition.message.as_deref() == Some("no slot left"), "{condition:?}");
        world.delete("refused").await?;

        world.create("lied", &on_a_board()).await?;
        world.bound("lied").await?;
        ensure!(extender.calls_about("lied").len() == 2, "it is called again after a false success");
        ensure!(world.events("lied", "Scheduled").await?.len() == 1, "one placement has one event");

        world.create("ours", &small()).await?;
        world.bound("ours").await?;
        ensure!(extender.calls_about("ours").is_empty(), "the pod does not use it");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn https_extender_is_verified_as_configured() -> Result<()> {
    play("https-extender", async |world| {
        nodes(world, &["a"]).await?;
        let (acceptor, authority) = https()?;
        let conduct = |call: &Call| Reply::Json(passing(call, &["-a"], false));
        let extender = Extender::start(&world.client, 0, Some(acceptor), conduct).await?;
        let file = world.plane.folder().join(format!("{}-ca.pem", world.name));
        std::fs::write(&file, authority)?;
        let base = format!(
            "urlPrefix: 'https://127.0.0.1:{}', filterVerb: f, nodeCacheCapable: true",
            extender.port
        );
        let trusting = format!("{base}, enableHTTPS: true, tlsConfig: {{caFile: {}}}", file.display());
        extend(world, &[format!("{base}, tlsConfig: {{caFile: {}}}", world.plane.ca().display())], 1.0)
            .await?;
        world.create("p", &small()).await?;
        world.waiting("p", "invalid peer certificate: UnknownIssuer").await?;
        extend(world, &[trusting], 2.0).await?;
        world.bound("p").await?;
        Ok(())
    })
    .await
}

/// Creates a TLS server configuration for 127.0.0.1, and its CA certificate as PEM.
fn https() -> Result<(tokio_rustls::TlsAcceptor, String)> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &authority)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    Ok((tokio_rustls::TlsAcceptor::from(Arc::new(config)), authority.pem()))
}
