//! The cluster as it is now, asked of its API server: each kind listed once, nothing watched, nothing written.
//!
//! The only module of the commands with a client. Every request has a deadline, and so has all of them together.

pub(super) mod ask;
pub(super) mod certificates;
pub(super) mod port;

use self::port::encoded;
use super::cluster::Cluster;
use super::simulate::files::{Item, Origin, items, leave_out_what_nobody_reads};
use super::simulate::update::Concern;
use crate::args::parse_duration;
use crate::client;
use bytes::Bytes;
use clap::Args;
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long all lists together may take: 50,000 pods come within seconds.
const ALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Longer than any command runs, and short enough to be added to any time.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);
/// What to do where a right is missing.
pub(super) const GRANT: &str = "the ClusterRole supercargo-read of manifests/base has the rights this needs: kubectl create clusterrolebinding NAME \
                     --clusterrole=supercargo-read --user=USER";
/// Objects on a page, as kubectl asks for them.
const PAGE: usize = 500;
/// Unreadable objects that are named.
const NAMED: usize = 3;

/// What is listed: the path, and whether there is no answer without it. Of the others, what may not be read is told and left
/// out, and what the server does not have is not there.
const KINDS: [(&str, bool); 16] = [
    ("/api/v1/nodes", true),
    ("/api/v1/pods", true),
    ("/api/v1/namespaces", false),
    ("/api/v1/services", false),
    ("/api/v1/replicationcontrollers", false),
    ("/apis/apps/v1/replicasets", false),
    ("/apis/apps/v1/statefulsets", false),
    ("/apis/policy/v1/poddisruptionbudgets", false),
    ("/api/v1/persistentvolumes", false),
    ("/api/v1/persistentvolumeclaims", false),
    ("/apis/storage.k8s.io/v1/storageclasses", false),
    ("/apis/storage.k8s.io/v1/csinodes", false),
    ("/apis/storage.k8s.io/v1/csidrivers", false),
    ("/apis/storage.k8s.io/v1/csistoragecapacities", false),
    ("/apis/storage.k8s.io/v1/volumeattachments", false),
    ("/apis/resource.k8s.io/v1/deviceclasses", false),
];

/// What admission reads, where a pod is thought of that no API server has seen.
const ADMISSION: [&str; 3] = [
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/node.k8s.io/v1/runtimeclasses",
    "/api/v1/limitranges",
];

/// What makes pods, beside what a decision rests on.
const WORKLOADS: [&str; 4] = [
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/daemonsets",
    "/apis/batch/v1/jobs",
    "/apis/batch/v1/cronjobs",
];

/// What is listed beside what a decision rests on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listing {
    /// What admission reads.
    pub(super) admission: bool,
    /// What makes pods, with what admission reads.
    pub(super) workloads: bool,
}

/// How a cluster is reached. Whoever has another way says what conflicts with it.
#[derive(Clone, Debug, Args)]
pub struct LiveArgs {
    /// Kubeconfig with the cluster; without it what kubectl would use.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The kubeconfig's context.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// How long the API server may take for one answer. 0 sets no limit of its own; all answers together may take two minutes.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = request_timeout)]
    pub request_timeout: Duration,
}

/// A value of `--request-timeout`. As to kubectl, 0 is no limit.
pub(super) fn request_timeout(text: &str) -> Result<Duration, String> {
    parse_duration(text).map(|limit| if limit.is_zero() { NO_LIMIT } else { limit })
}

/// Why there is no cluster to ask about.
pub(super) enum LiveError {
    /// The kubeconfig cannot be used.
    Settings(String),
    /// The cluster does not answer, or not as it should.
    Cluster(String),
}

impl LiveError {
    /// What it says.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Settings(text) | Self::Cluster(text) => text,
        }
    }
}

/// What a cluster holds.
pub(super) struct Listed {
    /// The namespace of the context.
    pub(super) namespace: String,
    objects: Vec<Value>,
    admission: Vec<Value>,
    notices: Vec<String>,
}

impl Listed {
    /// The objects that matter to manifests.
    pub(super) fn concerned(&self, given: &[Item]) -> Vec<Item> {
        let all = self.objects.iter().chain(&self.admission);
        Concern::among(given, all.map(|value| Item::new(value.clone(), Origin::default())))
    }

    /// Hands the objects over; what cannot be read of them is left out. What admission reads, and what
    /// makes pods, is given back.
    pub(super) fn into_cluster(self, cluster: &mut Cluster) -> Vec<Item> {
        let mut unreadable = Vec::new();
        for value in self.objects {
            let item = Item::new(value, Origin::default());
            if let Err(wrong) = cluster.add(item) {
                unreadable.push(wrong.message);
            }
        }
        cluster.notices.extend(self.notices);
        if !unreadable.is_empty() {
            let named = unreadable.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
            cluster
                .notices
                .push(format!("{} objects cannot be read and are left out: {named}", unreadable.len()));
        }
        self.admission.into_iter().map(|value| Item::new(value, Origin::default())).collect()
    }
}

/// Lists everything a decision rests on, and more if that is wanted.
pub(super) fn list(args: &LiveArgs, wanted: Listing) -> Result<Listed, LiveError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| LiveError::Cluster(format!("no runtime: {error}")))?;
    let listed = runtime.block_on(list_all(args, wanted));
    // A resolver that hangs is not waited for.
    runtime.shutdown_background();
    listed
}

async fn list_all(args: &LiveArgs, wanted: Listing) -> Result<Listed, LiveError> {
    let config = connection(args).await.map_err(|error| match error {
        LiveError::Settings(text) => {
            LiveError::Settings(format!("{text}; or give the cluster as files with --cluster"))
        }
        other => other,
    })?;
    let namespace = config.default_namespace.clone();
    let server = config.cluster_url.to_string();
    let builder = client::builder(&config).map_err(|error| LiveError::Settings(format!("{error:#}")))?;
    let lister = Lister {
        client: builder.build(),
        server,
        deadline: Instant::now() + ALL_TIMEOUT,
        one: args.request_timeout,
    };
    let mut listed = Listed { namespace, objects: Vec::new(), admission: Vec::new(), notices: Vec::new() };
    for (path, is_needed) in KINDS {
        let objects = lister.kind(path, is_needed, &mut listed.notices).await?;
        listed.objects.extend(objects);
    }
    let admission = ADMISSION.into_iter().filter(|_| wanted.admission || wanted.workloads);
    for path in admission.chain(WORKLOADS.into_iter().filter(|_| wanted.workloads)) {
        let objects = lister.kind(path, false, &mut listed.notices).await?;
        listed.admission.extend(objects);
    }
    Ok(listed)
}

/// A client for whoever watches a cluster, which answers and lets them list its nodes and pods.
pub(super) async fn client(args: &LiveArgs) -> Result<kube::Client, LiveError> {
    let config = connection(args).await?;
    let server = config.cluster_url.to_string();
    let builder = client::builder(&config).map_err(|error| LiveError::Settings(format!("{error:#}")))?;
    let deadline = Instant::now() + ALL_TIMEOUT;
    let lister = Lister { client: builder.build(), server, deadline, one: args.request_timeout };
    match lister.page("/version").await {
        // Who may not ask for that may watch all the same.
        Ok(_) | Err(Refusal::Status(403, _)) => {}
        Err(refusal) => return Err(refusal.told(&lister.server, "/version")),
    }
    for (path, _) in KINDS.iter().filter(|(_, is_needed)| *is_needed) {
        lister
            .page(&format!("{path}?limit=1"))
            .await
            .map_err(|refusal| refusal.told(&lister.server, path))?;
    }
    Ok(lister.client)
}

/// How the API server is reached.
async fn connection(args: &LiveArgs) -> Result<kube::Config, LiveError> {
    let wrong =
        |what: &str, error: &dyn std::error::Error| LiveError::Settings(format!("{what}: {}", told(error)));
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let file = match &args.kubeconfig {
        Some(path) => Some(
            Kubeconfig::read_from(path)
                .map_err(|error| wrong(&format!("cannot read the kubeconfig {}", path.display()), &error))?,
        ),
        None if args.context.is_some() => {
            Some(Kubeconfig::read().map_err(|error| wrong("cannot read a kubeconfig", &error))?)
        }
        None => None,
    };
    let mut config = match file {
        Some(file) => client::of_kubeconfig(file, &options)
            .await
            .map_err(|error| wrong("the kubeconfig is not usable", &error))?,
        None => {
            client::inferred().await.map_err(|error| wrong("there is no cluster to ask", error.as_ref()))?
        }
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT.min(args.request_timeout));
    Ok(config)
}

/// An error with what caused it, each said once.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

struct Lister {
    client: kube::Client,
    server: String,
    deadline: Instant,
    one: Duration,
}

impl Lister {
    async fn kind(
        &self,
        path: &str,
        is_needed: bool,
        notices: &mut Vec<String>,
    ) -> Result<Vec<Value>, LiveError> {
        let mut objects = Vec::new();
        let mut next = String::new();
        loop {
            let query = if next.is_empty() { String::new() } else { format!("&continue={}", encoded(&next)) };
            let page = self.page(&format!("{path}?limit={PAGE}{query}")).await;
            let mut page = match page {
                Ok(page) => page,
                Err(Refusal::Status(404, _)) if !is_needed => return Ok(Vec::new()),
                Err(Refusal::Status(403, text)) if !is_needed => {
                    notices.push(format!("what rests on {path} is left out: {text}"));
                    return Ok(Vec::new());
                }
                Err(refusal) => return Err(refusal.told(&self.server, path)),
            };
            next = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            let mut page = items(page.take());
            page.iter_mut().for_each(leave_out_what_nobody_reads);
            objects.append(&mut page);
            if next.is_empty() {
                return Ok(objects);
            }
        }
    }

    async fn page(&self, path: &str) -> Result<Value, Refusal> {
        let request = Request::get(path).header(http::header::ACCEPT, "application/json").body(Vec::new());
        let request = request.map_err(|error| Refusal::Silence(error.to_string()))?;
        let by = self.deadline.min(Instant::now() + self.one);
        let answer = timeout_at(by, self.client.request_text(request)).await;
        let text = match answer {
            Err(_) => return Err(Refusal::Silence(format!("nothing came of {path} within {:?}", self.one))),
            Ok(Err(kube::Error::Api(status))) => {
                return Err(Refusal::Status(status.code, status.message.clone()));
            }
            Ok(Err(error)) => return Err(Refusal::Silence(told(&error))),
            Ok(Ok(text)) => Bytes::from(text),
        };
        serde_json::from_slice(&text).map_err(|error| Refusal::Silence(format!("{path} is no JSON: {error}")))
    }
}

/// Why there is no page.
enum Refusal {
    /// The server says no.
    Status(u16, String),
    /// It says nothing that can be read.
    Silence(String),
}

impl Refusal {
    /// What to say of it, and what to do about it.
    fn told(self, server: &str, path: &str) -> LiveError {
        LiveError::Cluster(match self {
            Self::Status(401, text) => format!(
                "{server} does not accept the credentials of the kubeconfig (401: {text}); log in again, or give it a new token or client \
                 certificate"
            ),
            Self::Status(403, text) => format!("{server} refuses {path} with 403: {text}; {GRANT}"),
            Self::Status(code, text) => format!("{server} refuses {path} with {code}: {text}"),
            Self::Silence(text) => format!("{server} does not answer: {text}"),
        })
    }
}
