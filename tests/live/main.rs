//! A real Prometheus scrapes a running supercargo: every dashboard query and recording rule returns a series, and
//! every selector of an alert matches one.
//!
//! Part of `make release-check`, which builds Prometheus first. `tests/dashboards.rs` compares names without a cluster.

use supercargo_dev::harness;

#[allow(dead_code, reason = "the API server tests use the rest")]
#[path = "../apiserver/world.rs"]
mod world;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use harness::ports::Port;
use harness::wait::PATIENCE;
use harness::{Component, ControlPlane, Program, http, supercargo, wait_for};
use world::{World, play_on, requesting};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn prometheus() -> Result<PathBuf> {
    let given = std::env::var_os("CARGO_TARGET_DIR").map(|target| root().join(target));
    let mut folders = given.into_iter().chain([root().join("target")]);
    let built = folders
        .find_map(|target| Some(target.join("packaging/bin/prometheus")).filter(|path| path.is_file()));
    built.context("prometheus is not built; run `tests/packaging/build.sh prometheus` first")
}

/// Creates pods of all kinds: some fit, one is too large, one is gated, and one preempts another.
async fn work(world: &World<'_>) -> Result<()> {
    for (name, value) in [("live-low", 10), ("live-high", 1_000)] {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
        });
        world.plane.admin().apply(&class.to_string()).await?;
    }
    for node in ["a", "b"] {
        world.node(node).allocatable("cpu", "4").create(&world.client).await?;
    }
    let of_class = |cpu: &str, class: &str| {
        let mut spec = requesting(&json!({"cpu": cpu}));
        spec["priorityClassName"] = json!(class);
        spec["terminationGracePeriodSeconds"] = json!(1);
        spec
    };
    for name in ["low-one", "low-two"] {
        world.create(name, &of_class("3", "live-low")).await?;
        world.bound(name).await?;
    }
    world.create("large", &of_class("64", "live-low")).await?;
    world.waiting("large", "Insufficient cpu").await?;
    let mut gated = of_class("1", "live-low");
    gated["schedulingGates"] = json!([{"name": "example.com/budget"}]);
    world.create("gated", &gated).await?;
    world.create("high", &of_class("3", "live-high")).await?;
    world.bound("high").await?;
    Ok(())
}

/// Queries Prometheus and returns the number of series.
async fn series(port: u16, query: &str) -> Result<usize> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let (status, body) =
        http::get(&format!("http://127.0.0.1:{port}/api/v1/query?query={encoded}"), None).await?;
    ensure!(status == 200, "{query}: {status}: {body}");
    let answer: Value = serde_json::from_str(&body)?;
    Ok(answer["data"]["result"].as_array().map_or(0, Vec::len))
}

async fn has_series(port: u16, whose: &str, query: &str) -> Result<()> {
    wait_for(&format!("{whose} to have a series"), PATIENCE, || async {
        ensure!(series(port, query).await? > 0, "no series for {query}");
        Ok(())
    })
    .await
}

/// Returns the queries of all panels, with Grafana's variables replaced.
fn panels() -> Result<Vec<(String, String)>> {
    let dashboard: Value =
        serde_json::from_str(&std::fs::read_to_string(root().join("dashboards/supercargo.json"))?)?;
    let panels = dashboard["panels"].as_array().context("panels")?;
    let queries = panels.iter().flat_map(|panel| {
        let title = panel["title"].as_str().unwrap_or_default().to_owned();
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.filter_map(move |target| Some((title.clone(), target["expr"].as_str()?.to_owned())))
    });
    let filled = |query: String| {
        query.replace("$__rate_interval", "1m").replace("$job", ".+").replace("$instance", ".+")
    };
    Ok(queries.map(|(title, query)| (title, filled(query))).collect())
}

/// Returns the selectors of an expression: metric name and label matchers, except status codes that only failures
/// produce.
fn selectors(expr: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in expr.match_indices('{') {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
        let begin = expr[..at].rfind(|c| !is_name(c)).map_or(0, |before| before + 1);
        let end = at + expr[at..].find('}').map_or(0, |length| length + 1);
        let matchers: Vec<&str> =
            expr[at + 1..end - 1].split(", ").filter(|matcher| !matcher.starts_with("code=~")).collect();
        found.push(format!("{}{{{}}}", &expr[begin..at], matchers.join(", ")));
    }
    found
}

#[tokio::test]
async fn every_panel_and_rule_has_data_in_a_real_prometheus() -> Result<()> {
    let binary = prometheus()?;
    let plane = ControlPlane::builder().with([Component::ControllerManager, Component::Kwok]).start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, "live", async |world| {
        world.elect().await?;
        let port = Port::reserve()?;
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [root().join("dashboards/rules.yaml")],
            "scrape_configs": [{
                "job_name": "supercargo", "scheme": "https", "tls_config": {"insecure_skip_verify": true},
                "authorization": {"credentials": world.reader()},
                "static_configs": [{"targets": [format!("127.0.0.1:{}", world.supercargo.port())]}],
            }],
        });
        let file = plane.folder().join("prometheus.yaml");
        std::fs::write(&file, config.to_string())?;
        let program = Program::new("prometheus", binary)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", plane.folder().join("prometheus").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{}", port.number()));
        let _process = plane.launch(&program)?;
        has_series(port.number(), "the target", "up == 1").await?;
        work(world).await?;

        let panels = panels()?;
        for (title, query) in &panels {
            has_series(port.number(), title, query).await?;
        }
        let rules: Value = serde_saphyr::from_str(&std::fs::read_to_string(root().join("dashboards/rules.yaml"))?)?;
        let (mut records, mut demanded) = (0, 0);
        for rule in rules["groups"].as_array().into_iter().flatten().flat_map(|g| g["rules"].as_array().into_iter().flatten()) {
            if let Some(record) = rule["record"].as_str() {
                has_series(port.number(), record, record).await?;
                records += 1;
                continue;
            }
            let alert = rule["alert"].as_str().context("a rule records or alerts")?;
            for selector in selectors(rule["expr"].as_str().context("an expression")?) {
                has_series(port.number(), alert, &selector).await?;
                demanded += 1;
            }
        }
        eprintln!("prometheus: {} panel queries, {records} recording rules and {demanded} alert selectors have series", panels.len());
        Ok(())
    })
    .await
}
