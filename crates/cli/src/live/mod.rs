//! Reads a running cluster from its API server: lists each resource once, and watches nothing. Only [`writes`] writes.
//!
//! The only module of the commands with an API client. Each request has a timeout, and so have all of them
//! together.

pub mod ask;
pub mod candidates;
pub mod certificates;
pub mod listed;
pub mod port;
pub mod session;
pub mod writes;

use crate::live::port::encoded;
use crate::progress::Working;
use bytes::Bytes;
use clap::Args;
use clap_complete::ArgValueCompleter;
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use supercargo_apiserver::client;
use supercargo_apiserver::version::{ServerVersion, VersionInfo};
use supercargo_config::parse_duration;
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_whatif::load::files::{Item, Origin, items, remove_unread_fields};
use supercargo_whatif::prepare::update::Concern;
use tokio::time::{Instant, timeout_at};

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of all lists together. 50,000 pods are listed within seconds.
const ALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Stands for no timeout: longer than any command runs, and safe to add to an `Instant`.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);
/// Advice for missing permissions.
pub const GRANT: &str = "the ClusterRole supercargo-read of manifests/base has the required permissions: kubectl create clusterrolebinding NAME \
                     --clusterrole=supercargo-read --user=USER";
/// Advice for a kubeconfig that gives no connection.
const CHECK_KUBECONFIG: &str = "check --kubeconfig, --context and KUBECONFIG";
/// Advice for a server that does not answer.
pub const REACH: &str = "check its address and the network, or allow more time with --request-timeout";
/// Advice for an API server whose certificate is not trusted.
const TRUST: &str =
    "check server, certificate-authority and tls-server-name of the cluster in the kubeconfig";
/// Advice for an answer that is not the API server's.
const FOREIGN: &str = "something between may have answered in its place: check server and proxy-url of the kubeconfig, and the proxies on the way";
/// Length of the part of a foreign answer that a message quotes, in characters.
const QUOTED: usize = 80;
/// Page size of lists, the same as kubectl's.
const PAGE: usize = 500;

/// Path of the disruption budgets.
pub const BUDGETS: &str = "/apis/policy/v1/poddisruptionbudgets";

/// Paths to list, and whether they are required. Of the others, a forbidden one is skipped with a notice, and
/// one the server does not have counts as empty.
const KINDS: [(&str, bool); 18] = [
    ("/api/v1/nodes", true),
    ("/api/v1/pods", true),
    ("/api/v1/namespaces", false),
    ("/api/v1/services", false),
    ("/api/v1/replicationcontrollers", false),
    ("/apis/apps/v1/replicasets", false),
    ("/apis/apps/v1/statefulsets", false),
    (BUDGETS, false),
    ("/api/v1/persistentvolumes", false),
    ("/api/v1/persistentvolumeclaims", false),
    ("/apis/storage.k8s.io/v1/storageclasses", false),
    ("/apis/storage.k8s.io/v1/csinodes", false),
    ("/apis/storage.k8s.io/v1/csidrivers", false),
    ("/apis/storage.k8s.io/v1/csistoragecapacities", false),
    ("/apis/storage.k8s.io/v1/volumeattachments", false),
    ("/apis/resource.k8s.io/v1/deviceclasses", false),
    ("/apis/resource.k8s.io/v1/resourceclaims", false),
    ("/apis/resource.k8s.io/v1/resourceslices", false),
];

/// Paths of PodGroups, in each version of their API. One of them is served, or none.
const GROUPS: [&str; 2] =
    ["/apis/scheduling.k8s.io/v1beta1/podgroups", "/apis/scheduling.k8s.io/v1alpha2/podgroups"];

/// Paths that pod admission and the controller of claims read, for pods that no API server has admitted.
const ADMISSION: [&str; 4] = [
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/node.k8s.io/v1/runtimeclasses",
    "/api/v1/limitranges",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates",
];

/// Workloads that decisions do not read.
const WORKLOADS: [&str; 4] = [
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/daemonsets",
    "/apis/batch/v1/jobs",
    "/apis/batch/v1/cronjobs",
];

/// What to list beside the resources that decisions read.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// Resources that pod admission reads.
    pub admission: bool,
    /// Workloads, with the resources that pod admission reads.
    pub workloads: bool,
    /// Pod groups.
    pub groups: bool,
}

/// Connection to a cluster. Commands with another source declare conflicts with these flags.
#[derive(Clone, Debug, Args)]
pub struct LiveArgs {
    /// Kubeconfig of the cluster. Defaults to the one kubectl uses.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig.
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(candidates::contexts))]
    pub context: Option<String>,

    /// Timeout of one request; 0 for none. All requests together always end after two minutes.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = request_timeout)]
    pub request_timeout: Duration,
}

/// Parses a value of `--request-timeout`. As for kubectl, 0 means no timeout.
pub fn request_timeout(text: &str) -> Result<Duration, String> {
    parse_duration(text).map(|limit| if limit.is_zero() { NO_LIMIT } else { limit })
}

/// Why a cluster cannot be read.
pub enum LiveError {
    /// The kubeconfig is invalid.
    Settings(String),
    /// The cluster does not answer, or its answer is an error.
    Cluster(String),
}

impl LiveError {
    /// Returns the message.
    pub fn into_text(self) -> String {
        match self {
            Self::Settings(text) | Self::Cluster(text) => text,
        }
    }
}

/// Listed objects of a cluster.
pub struct Listed {
    /// Namespace of the kubeconfig's context.
    pub namespace: String,
    /// Objects that decisions read.
    pub objects: Vec<Value>,
    /// Objects that pod admission reads, and the workloads.
    pub admission: Vec<Value>,
    /// Messages for the user.
    pub notices: Vec<String>,
    /// Paths that the user may not read.
    pub unread: Vec<&'static str>,
}

impl Listed {
    /// Returns the objects that the given manifests may change.
    pub fn concerned(&self, given: &[Item]) -> Vec<Item> {
        let all = self.objects.iter().chain(&self.admission);
        Concern::among(given, all.map(|value| Item::new(value.clone(), Origin::default())))
    }
}

/// Lists all resources that decisions read, and those in `wanted`.
pub fn list(args: &LiveArgs, wanted: Listing) -> Result<Listed, LiveError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| LiveError::Cluster(format!("cannot start the async runtime: {error}")))?;
    let listed = runtime.block_on(list_all(args, wanted));
    // Do not wait for a blocked DNS lookup.
    runtime.shutdown_background();
    listed
}

/// Returns the version of kube-scheduler that suits the cluster's API server; the newest if the user may not read it.
pub fn emulated_version(args: &LiveArgs) -> Result<EmulatedVersion, LiveError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| LiveError::Cluster(format!("cannot start the async runtime: {error}")))?;
    let read = runtime.block_on(async {
        let lister = Lister::new(args, None).await.map_err(or_files)?;
        lister.emulated_version().await
    });
    // Do not wait for a blocked DNS lookup.
    runtime.shutdown_background();
    read
}

/// Adds the advice to read files instead.
fn or_files(error: LiveError) -> LiveError {
    match error {
        LiveError::Settings(text) => {
            LiveError::Settings(format!("{text}; or read the cluster from files with --cluster"))
        }
        other => other,
    }
}

async fn list_all(args: &LiveArgs, wanted: Listing) -> Result<Listed, LiveError> {
    let working = Working::on("reading the cluster");
    let lister = Lister::new(args, Some(working)).await.map_err(or_files)?;
    let namespace = lister.client.default_namespace().to_owned();
    let mut listed = Listed {
        namespace,
        objects: Vec::new(),
        admission: Vec::new(),
        notices: Vec::new(),
        unread: Vec::new(),
    };
    let groups = GROUPS.into_iter().filter(|_| wanted.groups).map(|path| (path, false));
    for (path, is_needed) in KINDS.into_iter().chain(groups) {
        let objects = lister.kind(path, is_needed, &mut listed).await?;
        listed.objects.extend(objects);
    }
    let admission = ADMISSION.into_iter().filter(|_| wanted.admission || wanted.workloads);
    for path in admission.chain(WORKLOADS.into_iter().filter(|_| wanted.workloads)) {
        let objects = lister.kind(path, false, &mut listed).await?;
        listed.admission.extend(objects);
    }
    Ok(listed)
}

/// Returns a client for watches, after checking that nodes and pods may be listed, and the version of kube-scheduler
/// that suits the API server.
pub async fn client(args: &LiveArgs) -> Result<(kube::Client, EmulatedVersion), LiveError> {
    let lister = Lister::new(args, None).await?;
    let version = lister.emulated_version().await?;
    for (path, _) in KINDS.iter().filter(|(_, is_needed)| *is_needed) {
        lister
            .page(&format!("{path}?limit=1"))
            .await
            .map_err(|refusal| refusal.into_error(&lister.server, path))?;
    }
    Ok((lister.client, version))
}

/// Loads the connection settings.
async fn connection(args: &LiveArgs) -> Result<kube::Config, LiveError> {
    let wrong = |what: &str, error: &dyn std::error::Error| {
        LiveError::Settings(format!("{what}: {}; {CHECK_KUBECONFIG}", with_causes(error)))
    };
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
            client::inferred().await.map_err(|error| wrong("no cluster is configured", error.as_ref()))?
        }
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT.min(args.request_timeout));
    Ok(config)
}

/// Returns the advice for a server that does not answer, by the error: `trust` if its certificate is not trusted.
fn reach<'a>(error: &str, trust: &'a str) -> &'a str {
    if error.contains("invalid peer certificate") { trust } else { REACH }
}

/// Formats an error and its causes, without causes that an earlier message contains.
fn with_causes(error: &dyn std::error::Error) -> String {
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
    /// Says on a terminal what is being listed.
    working: Option<Working>,
}

impl Lister {
    async fn new(args: &LiveArgs, working: Option<Working>) -> Result<Self, LiveError> {
        let config = connection(args).await?;
        let server = config.cluster_url.to_string();
        let builder = client::builder(&config).map_err(|error| LiveError::Settings(format!("{error:#}")))?;
        let deadline = Instant::now() + ALL_TIMEOUT;
        Ok(Self { client: builder.build(), server, deadline, one: args.request_timeout, working })
    }

    /// Returns the version of kube-scheduler that suits the API server.
    async fn emulated_version(&self) -> Result<EmulatedVersion, LiveError> {
        let info = match self.page("/version").await {
            Ok(value) => serde_json::from_value::<VersionInfo>(value).ok(),
            // /version may be forbidden to a user who may list.
            Err(Refusal::Status(403, _)) => None,
            Err(refusal) => return Err(refusal.into_error(&self.server, "/version")),
        };
        let version = info.and_then(|info| info.version());
        Ok(version.map_or(EmulatedVersion::NEWEST, ServerVersion::emulated))
    }

    /// Returns the objects of a path. Of a path that the user may not read, `listed` takes note.
    async fn kind(
        &self,
        path: &'static str,
        is_needed: bool,
        listed: &mut Listed,
    ) -> Result<Vec<Value>, LiveError> {
        let mut objects = Vec::new();
        let mut next = String::new();
        loop {
            let query = if next.is_empty() { String::new() } else { format!("&continue={}", encoded(&next)) };
            let page = self.page(&format!("{path}?limit={PAGE}{query}")).await;
            let mut page = match page {
                Ok(page) => page,
                Err(Refusal::Status(404, _)) if !is_needed && next.is_empty() => return Ok(Vec::new()),
                Err(Refusal::Status(403, text)) if !is_needed => {
                    listed.notices.push(format!("ignoring {path}: {text}"));
                    listed.unread.push(path);
                    return Ok(Vec::new());
                }
                Err(refusal) => return Err(refusal.into_error(&self.server, path)),
            };
            if !is_list(&page) {
                let text = format!("the answer to {path} is not a list");
                return Err(Refusal::Foreign(text).into_error(&self.server, path));
            }
            next = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            let mut page = if page["items"].is_null() { Vec::new() } else { items(page.take()) };
            page.iter_mut().for_each(remove_unread_fields);
            objects.append(&mut page);
            if let Some(working) = &self.working {
                let kind = path.rsplit('/').next().unwrap_or_default();
                working.step(|| format!("{kind}: {}", objects.len()));
            }
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
            Err(_) => return Err(Refusal::Silence(format!("no response for {path} within {:?}", self.one))),
            Ok(Err(kube::Error::Api(status))) if is_foreign(&status) => {
                let quoted: String = status.message.chars().take(QUOTED).collect();
                let text = format!("{path} is answered with an error that is no Status: {quoted:?}");
                return Err(Refusal::Foreign(text));
            }
            Ok(Err(kube::Error::Api(status))) => {
                return Err(Refusal::Status(status.code, status.message.clone()));
            }
            Ok(Err(error)) => return Err(Refusal::Silence(with_causes(&error))),
            Ok(Ok(text)) => Bytes::from(text),
        };
        serde_json::from_slice(&text)
            .map_err(|error| Refusal::Silence(format!("the answer to {path} is not JSON: {error}")))
    }
}

/// Returns whether an error response is not the API server's, which sends a Status. Only a 404 may be a plain text, if
/// no server knows the group; a foreign one must not count as a kind that is not served.
fn is_foreign(response: &kube::core::Status) -> bool {
    /// Reason that kube-client gives a response without a Status.
    const NO_STATUS: &str = "Failed to parse error data";
    let is_plain = response.code == 404 && response.reason == NO_STATUS;
    !response.is_failure() || (is_plain && response.message != "404 page not found")
}

/// Returns whether a page is a list. Its `items` may be null.
fn is_list(page: &Value) -> bool {
    page.get("items").is_some_and(|items| items.is_array() || items.is_null())
}

/// Why a page could not be read.
enum Refusal {
    /// An error response: status code and message.
    Status(u16, String),
    /// A response that is not the API server's.
    Foreign(String),
    /// No response, or one that cannot be decoded.
    Silence(String),
}

impl Refusal {
    /// Returns the error with advice.
    fn into_error(self, server: &str, path: &str) -> LiveError {
        LiveError::Cluster(match self {
            Self::Status(401, text) => format!(
                "{server} does not accept the credentials of the kubeconfig (401: {text}); log in again, or give it a new token or client \
                 certificate"
            ),
            Self::Status(403, text) => format!("{server} rejects {path} with 403: {text}; {GRANT}"),
            Self::Status(code, text) => {
                format!("{server} rejects {path} with {code}: {text}; try again later")
            }
            Self::Foreign(text) => {
                format!("{server} answers otherwise than an API server: {text}; {FOREIGN}")
            }
            Self::Silence(text) => {
                format!("{server} does not answer: {text}; {}", reach(&text, TRUST))
            }
        })
    }
}
