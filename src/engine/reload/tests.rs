//! Tests of reloads, with an engine without a cluster.

use super::*;
use crate::engine::{Item, without_driver};
use crate::telemetry::metrics::Exposition;
use std::path::Path;
use std::time::Duration;
use supercargo_core::model::extender::ExtenderId;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::QueueConfig;
use supercargo_core::scheduler::Config;
use tokio::task::JoinHandle;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                    leaderElection: {leaderElect: false}\n";

fn text(rest: &str) -> std::io::Result<String> {
    Ok(format!("{HEAD}{rest}"))
}

/// A followed file with its engine.
struct Followed {
    reload: Reload,
    metrics: Arc<Metrics>,
    extenders: Extenders,
    /// The engine; it ends when the last sender is dropped.
    engine: JoinHandle<Scheduler>,
}

impl Followed {
    fn new(rest: &str) -> Self {
        let path = Path::new("f.yaml");
        let text = text(rest).expect("the text is valid");
        let started = Effective::parse(path, &text, &Flags::default()).expect("the configuration is valid");
        let (inbox, mut items) = without_driver(8);
        let config = Config { seed: Seed(1), profiles: Vec::new(), queue: QueueConfig::default() };
        let engine = tokio::spawn(async move {
            let mut engine = Scheduler::new(config, Time::default());
            while let Some(item) = items.recv().await {
                match item {
                    Item::Change(change, _) => change(&mut engine, Time::default()),
                    _ => panic!("only changes are sent here"),
                }
            }
            engine
        });
        let metrics = Arc::new(Metrics::new());
        let (flags, relist) = (Flags::default(), (Relist::default(), Relist::default()));
        let (file, extenders) = (Some(path.to_owned()), Extenders::default());
        let shared = (extenders.clone(), Arc::clone(&metrics));
        let reload = Reload::new(file, flags, started, inbox, relist, shared.0, shared.1);
        Self { reload, metrics, engine, extenders }
    }

    async fn changes_to(&mut self, rest: &str) {
        self.reload.changed(text(rest)).await.expect("the engine is running");
    }

    /// Returns the counters of applied, restart-needing and invalid reloads, and the gauges for success and restart
    /// needed.
    async fn counted(&self) -> [u64; 5] {
        let shown = Exposition::new(Arc::clone(&self.metrics)).render().await;
        let value = |series: &str| {
            let line = shown.lines().find_map(|line| line.strip_prefix(&format!("{series} ")));
            line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{series} is not in\n{shown}"))
        };
        let reloads =
            |result: &str| value(&format!("supercargo_config_reloads_total{{result=\"{result}\"}}"));
        [
            reloads("applied"),
            reloads("needs_restart"),
            reloads("invalid"),
            value("supercargo_config_last_reload_success"),
            value("supercargo_config_restart_needed"),
        ]
    }

    /// Returns the engine's profiles at the end, and whether a relist of pods was requested.
    async fn end(self) -> (Vec<String>, bool) {
        let relist = self.reload.relist.0.clone();
        drop(self.reload);
        let engine = self.engine.await.expect("the engine is running");
        let is_asked = tokio::time::timeout(Duration::ZERO, relist.requested()).await.is_ok();
        (engine.profile_names().map(str::to_owned).collect(), is_asked)
    }
}

#[tokio::test]
async fn new_profile_applies_at_once_and_relists_pods() {
    let mut file = Followed::new("profiles: [{schedulerName: a}]\n");
    assert_eq!(file.counted().await, [0, 0, 0, 1, 0]);
    file.changes_to("profiles: [{schedulerName: a}, {schedulerName: b}]\npodMaxBackoffSeconds: 30\n").await;
    assert_eq!(file.counted().await, [1, 0, 0, 1, 0]);
    assert_eq!(file.end().await, (vec!["a".to_owned(), "b".to_owned()], true));
}

#[tokio::test]
async fn invalid_file_changes_nothing_until_it_is_fixed() {
    let mut file = Followed::new("");
    file.changes_to("profiles: [{schedulerNam: b}]\n").await;
    assert_eq!(file.counted().await, [0, 0, 1, 0, 0]);
    file.changes_to("delayCacheUntilActive: true\n").await;
    assert_eq!(file.counted().await, [0, 0, 2, 0, 0], "unsupported settings are rejected, too");
    let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
    file.reload.changed(Err(gone)).await.expect("the engine is running");
    assert_eq!(file.counted().await, [0, 0, 3, 0, 0]);
    file.changes_to("# mended\n").await;
    assert_eq!(file.counted().await, [0, 0, 3, 1, 0]);
    assert_eq!(file.end().await, (Vec::new(), false), "the engine was not changed");
}

#[tokio::test]
async fn repaired_file_is_logged_once_even_without_changes() {
    let page = Page::default();
    let log = tracing_subscriber::fmt().with_writer(page.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(log);
    let mut file = Followed::new("");
    file.changes_to("# no change\n").await;
    assert_eq!(page.count("is valid again"), 0);
    file.changes_to("profiles: [{schedulerNam: b}]\n").await;
    file.changes_to("# repaired\n").await;
    file.changes_to("# no change either\n").await;
    assert_eq!(page.count("INFO"), page.count("is valid again"));
    assert_eq!(page.count("is valid again"), 1);
}

/// The captured log of a test.
#[derive(Clone, Default)]
struct Page(Arc<std::sync::Mutex<Vec<u8>>>);

impl Page {
    fn count(&self, words: &str) -> usize {
        let page = self.0.lock().expect("the lock is not poisoned").clone();
        String::from_utf8(page).expect("the log is UTF-8").matches(words).count()
    }
}

impl std::io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("the lock is not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Page {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn extenders_are_applied_and_invalid_urls_are_rejected() {
    let mut file = Followed::new("");
    file.changes_to("extenders: [{urlPrefix: 'http://127.0.0.1:1/a', filterVerb: f}]\n").await;
    assert_eq!(file.counted().await, [1, 0, 0, 1, 0]);
    file.changes_to("extenders: [{urlPrefix: nowhere, filterVerb: f}]\n").await;
    assert_eq!(file.counted().await, [1, 0, 1, 0, 0]);
    let (objects, client) = (file.extenders.objects().clone(), file.extenders.client(ExtenderId(0)));
    assert!(client.is_some(), "the previous client stays");
    assert!(objects.wants(Kind::Pod) && objects.wants(Kind::Node));
    file.changes_to("# none\n").await;
    assert_eq!(file.counted().await, [2, 0, 1, 1, 0]);
    assert!(file.extenders.client(ExtenderId(0)).is_none() && !objects.wants(Kind::Pod));
}

#[tokio::test]
async fn restart_is_reported_while_reloadable_fields_apply() {
    let mut file = Followed::new("profiles: [{schedulerName: a}]\n");
    file.changes_to("parallelism: 4\nprofiles: [{schedulerName: a}]\n").await;
    assert_eq!(file.counted().await, [0, 1, 0, 1, 1]);
    file.changes_to("parallelism: 4\nprofiles: [{schedulerName: a, percentageOfNodesToScore: 5}]\n").await;
    assert_eq!(file.counted().await, [0, 2, 0, 1, 1]);
    file.changes_to("profiles: [{schedulerName: a, percentageOfNodesToScore: 5}]\n").await;
    assert_eq!(file.counted().await, [0, 2, 0, 1, 0], "the file equals the one at startup");
    assert_eq!(file.end().await.0, ["a"]);
}

#[tokio::test]
async fn reload_ends_with_the_engine() {
    let mut file = Followed::new("");
    file.engine.abort();
    assert!((&mut file.engine).await.is_err_and(|error| error.is_cancelled()));
    let outcome = file.reload.changed(text("podMaxBackoffSeconds: 30\n")).await;
    assert_eq!(outcome, Err(Ended));
}

#[tokio::test]
async fn another_version_applies_to_the_file_and_to_the_engine() {
    let mut followed = Followed::new("podMaxBackoffSeconds: 20\n");
    followed.reload.emulate(EmulatedVersion::V1_35).await.expect("the engine is running");
    assert_eq!(followed.reload.in_force.emulated_version, EmulatedVersion::V1_36, "the file cannot be read");
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("f.yaml");
    std::fs::write(&path, text("podMaxBackoffSeconds: 20\n").expect("a text")).expect("it is written");
    followed.reload.path = Some(path.clone());
    followed.reload.emulate(EmulatedVersion::V1_35).await.expect("the engine is running");
    assert_eq!(followed.reload.in_force.emulated_version, EmulatedVersion::V1_35);
    // The shape is an argument from 1.37 on.
    let shape = "profiles:\n- pluginConfig:\n  - name: VolumeBinding\n    args: {shape: [{utilization: 0, score: 1}]}\n";
    std::fs::write(&path, text(shape).expect("a text")).expect("it is written");
    followed.reload.emulate(EmulatedVersion::V1_36).await.expect("the engine is running");
    assert_eq!(
        followed.reload.flags.emulated_version,
        EmulatedVersion::V1_35,
        "the file is invalid for 1.36"
    );
    followed.reload.emulate(EmulatedVersion::V1_37).await.expect("the engine is running");
    assert_eq!(followed.reload.in_force.emulated_version, EmulatedVersion::V1_37);
    let scrape = Exposition::new(Arc::clone(&followed.metrics)).render().await;
    assert!(scrape.contains("supercargo_emulated_version{version=\"1.37\"} 1\n"), "{scrape}");
    let Followed { reload, engine, .. } = followed;
    drop(reload);
    let engine = engine.await.expect("it ends");
    assert_eq!(engine.snapshot().rules().version, EmulatedVersion::V1_37);
}
