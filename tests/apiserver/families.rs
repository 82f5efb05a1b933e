//! Compares the metrics of the real kube-scheduler and ours after the same work: names, types, label names and buckets.
//!
//! Values are covered by other tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::harness::binaries::{PINNED, chosen_minor, chosen_version};
use crate::harness::plane::ADMIN_TOKEN;
use crate::harness::wait::PATIENCE;
use crate::harness::{Component, http, wait_for};
use crate::world::{World, play, requesting};

/// Upstream's families, by name or prefix, that do not apply here, with the reason.
const NOT_HERE: [(&str, &str); 19] = [
    ("go_", "the Go runtime's"),
    ("apiserver_", "leftovers of libraries linked into upstream, constant"),
    ("aggregator_discovery_", "leftovers of libraries linked into upstream, constant"),
    ("cardinality_enforcement_", "of upstream's metrics library: labels come from closed sets here"),
    ("version_info", "of upstream's compatibility versions; see supercargo_build_info"),
    ("informer_", "the queues and stores of Go's informers, from 1.37; see supercargo_watch_age_seconds"),
    ("workqueue_", "the work queues of upstream's serving certificates"),
    ("authentication_", "the API server reviews and counts requests; denials are logged"),
    ("authorization_", "the API server reviews and counts requests; denials are logged"),
    ("authenticated_user_requests", "the API server reviews and counts requests; denials are logged"),
    ("rest_client_exec_plugin_", "credential plugins are not supported"),
    ("rest_client_transport_", "connection cache of Go's client"),
    (
        "rest_client_rate_limiter_duration_seconds",
        "requests are bounded in flight, not by rate; see supercargo_effects_waiting",
    ),
    ("rest_client_request_retries_total", "retries count in rest_client_requests_total"),
    ("scheduler_batch_", "upstream's batching of equal pods; see supercargo_recalled_decisions_total"),
    ("scheduler_get_node_hint_duration_seconds", "upstream's batching of equal pods"),
    ("scheduler_store_schedule_results_duration_seconds", "upstream's batching of equal pods"),
    (
        "scheduler_inflight_events",
        "no events are stored for pods in flight: a decision is one step between two events",
    ),
    (
        "scheduler_queueing_hint_execution_duration_seconds",
        "hints run once per group of pods, within scheduler_event_handling_duration_seconds",
    ),
];

/// Maximum number of values per label, whatever users write.
const VALUES: [(&str, u64); 38] = [
    ("agreement", 7),
    ("attempts", 15),
    ("code", 64),
    ("commit", 1),
    ("encoding", 2),
    ("event", 50),
    ("extension_point", 17),
    ("host", 1),
    // Watched kinds, and kinds of writes.
    ("kind", 25),
    ("kubernetes", 1),
    ("lane", 6),
    ("method", 7),
    ("operation", 7),
    ("plugin", 24),
    // One per profile; names come from the configuration, not from users.
    ("profile", 1),
    // Two of pod groups, from 1.37.
    ("queue", 6),
    ("record", 2),
    // Reasons of kubelet rejections; beyond sixty-four, `Other`.
    ("reason", 65),
    ("result", 13),
    ("status", 7),
    // From 1.37 on, of queued entities, too.
    ("type", 4),
    // Missed or redundant.
    ("which", 2),
    ("verb", 7),
    // Of the build, and the emulated one.
    ("version", 2),
    // The leader election's name, and one per feature gate.
    ("name", 254),
    ("hint", 3),
    // Of volumes, and of feature gates.
    ("stage", 7),
    ("build_date", 1),
    ("compiler", 1),
    ("deprecated_version", 1),
    ("git_commit", 1),
    ("git_tree_state", 1),
    ("git_version", 1),
    ("go_version", 1),
    ("major", 1),
    ("minor", 1),
    ("platform", 1),
    ("stability_level", 4),
];

/// Number of feature gates of 1.37, which has most; each has one series.
const GATES: u64 = 253;

/// Maximum number of series with one profile, those of 1.37 included.
const SERIES_MAX: u64 = 22_000;

/// The queryable properties of a family.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    kind: String,
    labels: BTreeSet<String>,
    buckets: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Scrape {
    families: BTreeMap<String, Shape>,
    series: BTreeMap<String, u64>,
    /// Values of every label except `le`.
    values: BTreeMap<String, BTreeSet<String>>,
    helps: BTreeMap<String, String>,
}

impl Scrape {
    fn read(text: &str) -> Result<Self> {
        let (mut scrape, mut family) = (Self::default(), String::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').context("a TYPE has a name and a kind")?;
                name.clone_into(&mut family);
                scrape.families.entry(family.clone()).or_default().kind = kind.to_owned();
                continue;
            }
            if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
                scrape.helps.insert(name.to_owned(), help.to_owned());
            }
            if line.starts_with('#') {
                continue;
            }
            *scrape.series.entry(family.clone()).or_default() += 1;
            let shape = scrape.families.get_mut(&family).with_context(|| format!("{line} has no TYPE"))?;
            let labels =
                line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(l, _)| l);
            for label in labels.split("\",").filter(|label| !label.is_empty()) {
                let (key, value) = label.split_once("=\"").with_context(|| format!("a label in {line}"))?;
                let value = value.trim_end_matches('"').to_owned();
                if key == "le" {
                    shape.buckets.insert(value);
                } else {
                    shape.labels.insert(key.to_owned());
                    scrape.values.entry(key.to_owned()).or_default().insert(value);
                }
            }
        }
        Ok(scrape)
    }
}

fn reason_not_here(family: &str) -> Option<&'static str> {
    NOT_HERE.iter().find(|(begins, _)| family.starts_with(begins)).map(|(_, why)| *why)
}

/// Creates pods for both schedulers: some fit, one is too large, one is gated, and one preempts another.
async fn work(world: &World<'_>) -> Result<()> {
    for (name, value) in [("families-low", 10), ("families-high", 1_000)] {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
        });
        world.plane.admin().apply(&class.to_string()).await?;
    }
    for (short, scheduler) in [("ours", world.name.as_str()), ("theirs", "default-scheduler")] {
        let of = |spec: Value| {
            let mut spec = spec;
            spec["schedulerName"] = json!(scheduler);
            spec
        };
        let node = world.node(short).label("of", short).allocatable("cpu", "4");
        node.create(&world.client).await?;
        let on_it = |cpu: &str, class: &str| {
            let mut spec = of(requesting(&json!({"cpu": cpu})));
            spec["nodeSelector"] = json!({"of": short});
            spec["priorityClassName"] = json!(class);
            spec["terminationGracePeriodSeconds"] = json!(1);
            spec
        };
        // A pod with user-chosen values wherever possible.
        let mut pod = world.pod(&format!("{short}-made-up-name"), &on_it("3", "families-low"))?;
        pod.metadata.labels = Some([("made-up-key".to_owned(), "made-up-value".to_owned())].into());
        pod.metadata.annotations = Some([("made-up-note".to_owned(), "made-up-text".to_owned())].into());
        world.pods().create(&PostParams::default(), &pod).await?;
        world.bound(&format!("{short}-made-up-name")).await?;
        for number in 0..11 {
            // Enough pods for upstream to sample plugin durations, which it does for a tenth.
            world.create(&format!("{short}-small{number}"), &on_it("1m", "families-high")).await?;
        }
        world.create(&format!("{short}-large"), &on_it("64", "families-low")).await?;
        world.waiting(&format!("{short}-large"), "Insufficient cpu").await?;
        let mut gated = on_it("1m", "families-low");
        gated["schedulingGates"] = json!([{"name": "example.com/made-up-gate"}]);
        world.create(&format!("{short}-gated"), &gated).await?;
        world.create(&format!("{short}-high"), &on_it("3", "families-high")).await?;
        world.bound(&format!("{short}-high")).await?;
        for number in 0..11 {
            world.bound(&format!("{short}-small{number}")).await?;
        }
    }
    Ok(())
}

fn compare(upstream: &Scrape, ours: &Scrape) -> Result<usize> {
    let mut compared = 0;
    for (family, shape) in &upstream.families {
        match (reason_not_here(family), ours.families.get(family)) {
            (Some(why), found) => {
                ensure!(found.is_none(), "{family} exists, but is listed as not applicable: {why}");
            }
            (None, None) => ensure!(false, "upstream has {family}, with {shape:?}"),
            (None, Some(found)) => {
                ensure!(found == shape, "{family} is {found:?} and upstream's {shape:?}");
                compared += 1;
            }
        }
    }
    let made_up: Vec<_> = ours
        .families
        .keys()
        // The tests' kube-scheduler runs without leader election.
        .filter(|name| !name.starts_with("supercargo_") && !name.starts_with("leader_election_"))
        .filter(|name| !upstream.families.contains_key(*name))
        .collect();
    ensure!(made_up.is_empty(), "upstream has no {made_up:?}");
    Ok(compared)
}

/// Returns the events whose handling was timed.
fn handled(text: &str) -> BTreeSet<&str> {
    let counts = text.lines().filter_map(|line| {
        line.strip_prefix("scheduler_event_handling_duration_seconds_count{event=\"")?.split_once('"')
    });
    counts.map(|(event, _)| event).collect()
}

/// The families that panels and rules may use, one per line. `UPDATE_EXPECT=1` rewrites it and the page.
const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/metrics-ours.txt");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
const HEAD: &str = "| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n";

fn as_recorded(ours: &Scrape) -> Result<()> {
    // The list has the names of the pinned version.
    if chosen_version() != PINNED {
        return Ok(());
    }
    let mut lines = String::from(
        "# Every family of a scrape of supercargo after mixed work: name, type, labels. Written by tests/apiserver/families.rs.\n",
    );
    let page = std::fs::read_to_string(PAGE)?;
    let (before, _) = page.split_once(HEAD).context("the page has the table, at its end")?;
    let mut table = format!("{before}{HEAD}");
    for (family, Shape { kind, labels, .. }) in &ours.families {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        writeln!(lines, "{family} {kind} {}", labels.join(","))?;
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let help =
            ours.helps.get(family).with_context(|| format!("{family} has no help"))?.replace('|', "\\|");
        writeln!(table, "| `{family}` | {kind} | {} | {help} |", labels.join(", "))?;
    }
    for (file, text) in [(OURS, lines), (PAGE, table)] {
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(file, &text)?;
        }
        let recorded = std::fs::read_to_string(file)?;
        ensure!(text == recorded, "{file} is out of date; UPDATE_EXPECT=1 rewrites it. Actual:\n{text}");
    }
    Ok(())
}

/// Returns the maximum number of series of a family.
fn bound(family: &str, shape: &Shape) -> Result<u64> {
    if family == "kubernetes_feature_enabled" {
        return Ok(GATES);
    }
    let mut bound = if shape.kind == "histogram" { shape.buckets.len() as u64 + 2 } else { 1 };
    for label in &shape.labels {
        let values =
            VALUES.iter().find(|(name, _)| name == label).with_context(|| format!("a bound for {label}"))?;
        // Plugins have series at four points.
        bound *= match label.as_str() {
            "extension_point" if shape.labels.contains("plugin") => 4,
            // The leader election's, and the stages of volumes.
            "name" => 1,
            "stage" => 3,
            _ => values.1,
        };
    }
    Ok(bound)
}

#[tokio::test]
async fn metric_families_labels_and_buckets_equal_kube_schedulers() -> Result<()> {
    play("families", async |world| {
        world.elect().await?;
        work(world).await?;
        let theirs = format!("https://127.0.0.1:{}/metrics", world.plane.port(Component::Scheduler));
        let compared = wait_for("both to show the same families", PATIENCE, || async {
            let (status, text) = http::get(&theirs, Some(ADMIN_TOKEN)).await?;
            ensure!(status == 200, "kube-scheduler's metrics: {status}");
            let ours = world.metrics().await?;
            let (here, there) = (handled(&ours), handled(&text));
            ensure!(here.is_subset(&there), "events are {here:?} here, and {there:?} upstream");
            let added = if chosen_minor() < 37 { "UnschedulablePodAdd" } else { "UnscheduledPodAdd" };
            for event in ["NodeAdd", "AssignedPodAdd", "AssignedPodDelete", added] {
                ensure!(here.contains(event), "{event} was handled, but is missing from {here:?}");
            }
            compare(&Scrape::read(&text)?, &Scrape::read(&ours)?)
        })
        .await?;
        wait_for("all of ours to exist as recorded for the dashboards", PATIENCE, || async {
            as_recorded(&Scrape::read(&world.metrics().await?)?)
        })
        .await?;
        eprintln!("families: {compared} equal kube-scheduler's");
        ensure!(compared >= 30, "only {compared} families were compared");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn user_input_is_no_label_value_and_series_are_bounded() -> Result<()> {
    play("series", async |world| {
        work(world).await?;
        let text = world.metrics().await?;
        let ours = Scrape::read(&text)?;
        let (mut most, mut there) = (0, 0);
        for (family, shape) in &ours.families {
            let (bound, count) = (bound(family, shape)?, ours.series[family]);
            ensure!(count <= bound, "{family} has {count} series, more than {bound}");
            (most, there) = (most + bound, there + count);
        }
        for (label, values) in &ours.values {
            let bound = VALUES.iter().find(|(name, _)| name == label).map_or(0, |(_, bound)| *bound);
            ensure!(values.len() as u64 <= bound, "{label}: {values:?}");
            let written = |value: &&String| {
                let is_profile = label == "profile" && **value == world.name;
                !is_profile
                    && (value.contains("made-up")
                        || value.contains(&world.name)
                        || value.contains("families-"))
            };
            let written: Vec<_> = values.iter().filter(written).collect();
            ensure!(written.is_empty(), "{label} contains user input: {written:?}");
        }
        eprintln!("series: {there} here, {most} at most with one profile");
        ensure!(most <= SERIES_MAX, "{most} series are possible");
        Ok(())
    })
    .await
}
