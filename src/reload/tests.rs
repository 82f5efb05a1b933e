//! What becomes of a file that changes, with an engine that knows no cluster.

use super::*;
use crate::driver::{Item, without_driver};
use crate::metrics::Exposition;
use std::path::Path;
use std::time::Duration;
use supercargo_core::extender::ExtenderId;
use supercargo_core::queue::QueueConfig;
use supercargo_core::rng::Seed;
use supercargo_core::scheduler::Config;
use supercargo_core::time::Time;
use tokio::task::JoinHandle;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                    leaderElection: {leaderElect: false}\n";

fn text(rest: &str) -> std::io::Result<String> {
    Ok(format!("{HEAD}{rest}"))
}

/// A file that is followed, and the engine it is followed for.
struct Followed {
    reload: Reload,
    metrics: Arc<Metrics>,
    extenders: Extenders,
    /// Ends with the engine when the last sender is gone.
    engine: JoinHandle<Scheduler>,
}

impl Followed {
    fn new(rest: &str) -> Self {
        let path = Path::new("f.yaml");
        let text = text(rest).expect("it was made here");
        let started = Effective::parse(path, &text, &Flags::default()).expect("it is valid");
        let (inbox, mut items) = without_driver(8);
        let config = Config { seed: Seed(1), profiles: Vec::new(), queue: QueueConfig::default() };
        let engine = tokio::spawn(async move {
            let mut engine = Scheduler::new(config, Time::default());
            while let Some(item) = items.recv().await {
                match item {
                    Item::Change(change, _) => change(&mut engine, Time::default()),
                    _ => panic!("nothing else is sent here"),
                }
            }
            engine
        });
        let metrics = Arc::new(Metrics::new());
        let (flags, relist) = (Flags::default(), (Relist::default(), Relist::default()));
        let (file, extenders) = (path.to_owned(), Extenders::default());
        let shared = (extenders.clone(), Arc::clone(&metrics));
        let reload = Reload::new(file, flags, started, inbox, relist, shared.0, shared.1);
        Self { reload, metrics, engine, extenders }
    }

    async fn changes_to(&mut self, rest: &str) {
        self.reload.changed(text(rest)).await.expect("the engine lives");
    }

    /// Applied, needing a restart, invalid; whether the last one was good; whether a restart is needed.
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

    /// The engine's profiles in the end, and whether a list of pods was asked for.
    async fn end(self) -> (Vec<String>, bool) {
        let relist = self.reload.relist.0.clone();
        drop(self.reload);
        let engine = self.engine.await.expect("the engine lives");
        let is_asked = tokio::time::timeout(Duration::ZERO, relist.requested()).await.is_ok();
        (engine.profile_names().map(str::to_owned).collect(), is_asked)
    }
}

#[tokio::test]
async fn a_new_profile_is_in_force_at_once_and_its_pods_are_asked_for() {
    let mut file = Followed::new("profiles: [{schedulerName: a}]\n");
    assert_eq!(file.counted().await, [0, 0, 0, 1, 0]);
    file.changes_to("profiles: [{schedulerName: a}, {schedulerName: b}]\npodMaxBackoffSeconds: 30\n").await;
    assert_eq!(file.counted().await, [1, 0, 0, 1, 0]);
    assert_eq!(file.end().await, (vec!["a".to_owned(), "b".to_owned()], true));
}

#[tokio::test]
async fn a_file_that_is_not_valid_changes_nothing_until_it_is_mended() {
    let mut file = Followed::new("");
    file.changes_to("profiles: [{schedulerNam: b}]\n").await;
    assert_eq!(file.counted().await, [0, 0, 1, 0, 0]);
    file.changes_to("enableProfiling: true\n").await;
    assert_eq!(file.counted().await, [0, 0, 2, 0, 0], "what is not honoured is not taken either");
    let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
    file.reload.changed(Err(gone)).await.expect("the engine lives");
    assert_eq!(file.counted().await, [0, 0, 3, 0, 0]);
    file.changes_to("# mended\n").await;
    assert_eq!(file.counted().await, [0, 0, 3, 1, 0]);
    assert_eq!(file.end().await, (Vec::new(), false), "the engine was never asked");
}

#[tokio::test]
async fn a_repaired_file_is_logged_once_even_where_nothing_changed() {
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

/// What a test logs.
#[derive(Clone, Default)]
struct Page(Arc<std::sync::Mutex<Vec<u8>>>);

impl Page {
    fn count(&self, words: &str) -> usize {
        let page = self.0.lock().expect("nobody panicked").clone();
        String::from_utf8(page).expect("a log is text").matches(words).count()
    }
}

impl std::io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panicked").extend_from_slice(bytes);
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
async fn extenders_are_taken_over_and_one_that_cannot_be_reached_as_written_is_not() {
    let mut file = Followed::new("");
    file.changes_to("extenders: [{urlPrefix: 'http://127.0.0.1:1/a', filterVerb: f}]\n").await;
    assert_eq!(file.counted().await, [1, 0, 0, 1, 0]);
    file.changes_to("extenders: [{urlPrefix: nowhere, filterVerb: f}]\n").await;
    assert_eq!(file.counted().await, [1, 0, 1, 0, 0]);
    let (objects, client) = (file.extenders.objects().clone(), file.extenders.client(ExtenderId(0)));
    assert!(client.is_some(), "the last good one stays");
    assert!(objects.wants(Kind::Pod) && objects.wants(Kind::Node));
    file.changes_to("# none\n").await;
    assert_eq!(file.counted().await, [2, 0, 1, 1, 0]);
    assert!(file.extenders.client(ExtenderId(0)).is_none() && !objects.wants(Kind::Pod));
}

#[tokio::test]
async fn what_needs_a_restart_is_told_and_what_does_not_is_taken_over_all_the_same() {
    let mut file = Followed::new("profiles: [{schedulerName: a}]\n");
    file.changes_to("parallelism: 4\nprofiles: [{schedulerName: a}]\n").await;
    assert_eq!(file.counted().await, [0, 1, 0, 1, 1]);
    file.changes_to("parallelism: 4\nprofiles: [{schedulerName: a, percentageOfNodesToScore: 5}]\n").await;
    assert_eq!(file.counted().await, [0, 2, 0, 1, 1]);
    file.changes_to("profiles: [{schedulerName: a, percentageOfNodesToScore: 5}]\n").await;
    assert_eq!(file.counted().await, [0, 2, 0, 1, 0], "it is as it was at the start");
    assert_eq!(file.end().await.0, ["a"]);
}

#[tokio::test]
async fn without_an_engine_the_file_is_followed_no_longer() {
    let mut file = Followed::new("");
    file.engine.abort();
    assert!((&mut file.engine).await.is_err_and(|error| error.is_cancelled()));
    let told = file.reload.changed(text("podMaxBackoffSeconds: 30\n")).await;
    assert_eq!(told, Err(Ended));
}
