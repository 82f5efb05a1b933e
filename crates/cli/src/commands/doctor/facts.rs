//! Facts that the checks evaluate, read from the cluster. A fact that could not be read is kept as its error.

use crate::commands::doctor::DoctorArgs;
use crate::commands::doctor::identity::{Identity, own_review};
use crate::commands::doctor::installation::{self, Installation};
use crate::commands::doctor::rights::{self, Right};
use crate::commands::doctor::tls_and_clock::Clocks;
use crate::live::LiveError;
use crate::live::ask::{Answer, Api, with_api};
use crate::live::certificates::Certificates;
use crate::live::port::{encoded, host_of};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use supercargo_apiserver::version::{ServerVersion, VersionInfo};
use supercargo_config::{DEFAULT_NAME, yaml};

/// Namespace and name of kube-scheduler's Lease.
pub(super) const KUBE_SCHEDULER: (&str, &str) = ("kube-system", "kube-scheduler");
/// Page size of lists.
const PAGE: usize = 500;
/// Maximum number of pages read. More than ten thousand pending pods would not change a verdict.
const PAGES_MAX: usize = 20;
/// Age in seconds up to which an event shows that its scheduler runs: a pod that stays pending is tried again at least
/// every five minutes.
const RECENT_SECONDS: i64 = 600;
/// Maximum number of schedulers of pending pods whose events are read. A cluster rarely has more than two.
const REPORTING_MAX: usize = 5;
/// Duration of a Lease without `leaseDurationSeconds`, in seconds: kube-scheduler's default.
const LEASE_SECONDS: i64 = 15;

/// A fact, or why it could not be read.
pub(super) type Known<T> = Result<T, String>;

/// The version of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiVersion {
    /// `gitVersion`.
    pub(super) text: String,
    /// The version that it behaves as; `None` if it names none.
    pub(super) served: Option<ServerVersion>,
}

impl ApiVersion {
    /// Reads the answer of `/version`.
    pub(super) fn of(answer: &Value) -> Self {
        let info: Option<VersionInfo> = serde_json::from_value(answer.clone()).ok();
        let served = info.and_then(|info| info.version());
        Self { text: text(answer, "/gitVersion").to_owned(), served }
    }
}

/// All facts.
pub(super) struct Facts {
    /// `gitVersion` of the API server.
    pub version: Known<ApiVersion>,
    /// Whether the ServiceAccount exists; `None` if the identity is not a ServiceAccount.
    pub account: Known<Option<bool>>,
    /// Permissions of the manifests that the version uses, and whether the identity has them.
    pub rights: Known<Vec<(Right, bool)>>,
    /// Lease of supercargo; `None` if it does not exist.
    pub lease: Known<Option<Lease>>,
    /// Lease of kube-scheduler; `None` if it does not exist.
    pub kube_scheduler: Known<Option<Lease>>,
    /// Configurations of supercargo found in the cluster.
    pub configured: Known<Vec<Configured>>,
    /// Pods without a node.
    pub pending: Known<Pending>,
    /// Schedulers that wrote an event recently. Empty if events may not be listed: they only add to what leases and
    /// configurations say.
    pub reporting: BTreeSet<String>,
    /// Differences between the leader's cache and the API server, by labels of the metric; `None` before the
    /// first comparison.
    pub drift: Known<Option<BTreeMap<String, u64>>>,
    /// Certificates of the API server and the kubeconfig.
    pub certificates: Certificates,
    /// Clocks of the API server and of this machine.
    pub clocks: Clocks,
    /// Leader, Deployments, priority classes and quotas of the installation.
    pub installation: Installation,
}

/// Pods without a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    /// Number of pods by `schedulerName`.
    pub by_name: BTreeMap<String, usize>,
    /// Whether there are more pods than were read.
    pub is_cut: bool,
}

/// State of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    /// Identity of the holder; empty if it is not held.
    pub holder: String,
    /// Seconds since the last renewal.
    pub age: i64,
    /// Lease duration in seconds.
    pub good_for: i64,
}

impl Lease {
    /// Returns whether the lease is held now.
    pub(super) fn is_held(&self) -> bool {
        !self.holder.is_empty() && self.age <= self.good_for
    }
}

/// Configuration of a supercargo instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Configured {
    /// Namespace and name of its ConfigMap, joined by a slash.
    pub by: String,
    /// `schedulerName`s it serves.
    pub serves: BTreeSet<String>,
    /// Namespace and name of its Lease; `None` without leader election.
    pub lease: Option<(String, String)>,
}

/// Reads all facts.
///
/// # Errors
/// Fails if the cluster does not answer. An invalid certificate of the API server is not an error here: it is
/// reported by its check.
pub(super) fn gather(args: &DoctorArgs) -> Result<Facts, LiveError> {
    with_api(&args.live, args.act_as(), async |api| match ask(api, args).await {
        Err(LiveError::Cluster(why)) if is_not_good(&api.certificates) => {
            Ok(Facts::unanswered(why, api.certificates.clone()))
        }
        other => other,
    })
}

/// Returns whether the API server's certificate is expired or not valid yet.
fn is_not_good(certificates: &Certificates) -> bool {
    let now = Timestamp::now();
    certificates.serving.as_ref().is_ok_and(|it| it.is_some_and(|it| it.until <= now || it.from > now))
}

impl Facts {
    /// Returns the errors of all facts that could not be read.
    pub(super) fn unknown(&self) -> Vec<&str> {
        let all: [Option<&String>; 7] = [
            self.version.as_ref().err(),
            self.account.as_ref().err(),
            self.rights.as_ref().err(),
            self.lease.as_ref().err(),
            self.kube_scheduler.as_ref().err(),
            self.configured.as_ref().err(),
            self.pending.as_ref().err(),
        ];
        all.into_iter().flatten().map(String::as_str).collect()
    }

    /// Returns facts for an API server that answers no request.
    pub(super) fn unanswered(why: String, certificates: Certificates) -> Self {
        let clocks = Clocks { here: Timestamp::now(), there: Err(why.clone()) };
        Self {
            version: Err(why.clone()),
            account: Err(why.clone()),
            rights: Err(why.clone()),
            lease: Err(why.clone()),
            kube_scheduler: Err(why.clone()),
            configured: Err(why.clone()),
            pending: Err(why.clone()),
            reporting: BTreeSet::new(),
            drift: Err(why.clone()),
            certificates,
            clocks,
            installation: Installation {
                holder: Err(why.clone()),
                deployments: Err(why.clone()),
                missing_classes: Err(why.clone()),
                quotas: Err(why),
            },
        }
    }
}

async fn ask(api: &Api, args: &DoctorArgs) -> Result<Facts, LiveError> {
    let version = api.get("/version").await?;
    let clocks = Clocks::read(Timestamp::now(), version.date.as_deref());
    let version = version.object().map(|version| ApiVersion::of(&version));
    let identity = Identity::of(args);
    let account = match identity.account() {
        None => Ok(None),
        Some((namespace, name)) => {
            let account = api.get(&format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}")).await?;
            match account.status {
                404 => Ok(Some(false)),
                _ => account.object().map(|_| Some(true)),
            }
        }
    };
    let now = clocks.now();
    let served = version.as_ref().ok().and_then(|version| version.served);
    let lease = lease(api, args.lease(), now).await?;
    let name_of = |lease: &Lease| {
        let host = args.pod.as_deref().or_else(|| host_of(&lease.holder));
        host.filter(|_| !lease.holder.is_empty()).map(str::to_owned)
    };
    let host = lease.as_ref().map(|lease| lease.as_ref().and_then(name_of)).map_err(Clone::clone);
    let is_held = lease.as_ref().is_ok_and(|lease| lease.as_ref().is_some_and(Lease::is_held));
    let drift = match host.as_ref().ok().and_then(Option::as_ref).filter(|_| is_held) {
        Some(host) => drift(api, args, host).await?,
        None => Err("no leader to ask".to_owned()),
    };
    let pending = pending(api).await?;
    Ok(Facts {
        version,
        account,
        rights: has_rights(api, &identity, args.lease(), (served, args.has_groups())).await?,
        kube_scheduler: crate::commands::doctor::facts::lease(api, KUBE_SCHEDULER, now).await?,
        lease,
        configured: configured(api).await?,
        reporting: reporting(api, &pending, now).await?,
        pending,
        drift,
        certificates: api.certificates.clone(),
        clocks,
        installation: installation::gather(api, args, host).await?,
    })
}

/// Asks for each permission that this version uses: by SubjectAccessReview, or as the identity itself if the caller may
/// only impersonate it.
async fn has_rights(
    api: &Api,
    identity: &Identity,
    lease: (&str, &str),
    (served, with_groups): (Option<ServerVersion>, bool),
) -> Result<Known<Vec<(Right, bool)>>, LiveError> {
    let mut rights = Vec::new();
    let mut way = if identity.asks { Way::Own } else { Way::Subject };
    for right in rights::all().into_iter().filter(|right| right.is_used(served, with_groups)) {
        let attributes = right.attributes(lease);
        let mut answer = way.ask(api, identity, &attributes).await?;
        if answer.status == 403 && matches!(way, Way::Subject) {
            way = Way::Impersonated;
            let refusal = answer.object().err().unwrap_or_default();
            answer = way.ask(api, identity, &attributes).await?;
            if answer.status == 403 {
                return Ok(Err(refusal));
            }
        }
        match answer.object() {
            Ok(answer) => {
                let is_allowed = answer["status"]["allowed"] == true && answer["status"]["denied"] != true;
                rights.push((right, is_allowed));
            }
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(rights))
}

/// How to ask whether the identity has a permission.
enum Way {
    /// By a SubjectAccessReview, which only some users may create.
    Subject,
    /// By a SelfSubjectAccessReview, sent as the identity.
    Impersonated,
    /// By a SelfSubjectAccessReview: all requests are sent as the identity.
    Own,
}

impl Way {
    async fn ask(&self, api: &Api, identity: &Identity, attributes: &Value) -> Result<Answer, LiveError> {
        let (kind, review, user) = match self {
            Self::Subject => ("subjectaccessreviews", identity.review(attributes), None),
            Self::Impersonated => {
                ("selfsubjectaccessreviews", own_review(attributes), Some(identity.user.as_str()))
            }
            Self::Own => ("selfsubjectaccessreviews", own_review(attributes), None),
        };
        api.review(&format!("/apis/authorization.k8s.io/v1/{kind}"), &review, user).await
    }
}

/// Reads a Lease; its age is relative to `now`.
async fn lease(
    api: &Api,
    (namespace, name): (&str, &str),
    now: Timestamp,
) -> Result<Known<Option<Lease>>, LiveError> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
    let answer = api.get(&path).await?;
    if answer.status == 404 {
        return Ok(Ok(None));
    }
    Ok(answer.object().map(|lease| {
        let renewed = text(&lease, "/spec/renewTime").parse::<Timestamp>();
        // A Lease that was never renewed counts as expired.
        let age = renewed.map_or(i64::MAX, |renewed| now.duration_since(renewed).as_secs().max(0));
        let good_for = lease["spec"]["leaseDurationSeconds"].as_i64().unwrap_or(LEASE_SECONDS);
        Some(Lease { holder: text(&lease, "/spec/holderIdentity").to_owned(), age, good_for })
    }))
}

async fn configured(api: &Api) -> Result<Known<Vec<Configured>>, LiveError> {
    let path = "/api/v1/configmaps?labelSelector=app.kubernetes.io%2Fname%3Dsupercargo";
    Ok(api.get(path).await?.object().map(|list| {
        let maps = list["items"].as_array().into_iter().flatten();
        maps.filter_map(configuration).collect()
    }))
}

/// Reads the configuration in a ConfigMap, if any. Shadow instances serve no pods and are skipped.
pub(super) fn configuration(map: &Value) -> Option<Configured> {
    let (namespace, name) = (text(map, "/metadata/namespace"), text(map, "/metadata/name"));
    let written = map["data"]["config.yaml"].as_str().filter(|_| !name.contains("shadow"))?;
    let config: Value = yaml::values(written).ok()?.into_iter().next().unwrap_or_default();
    let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
    let profiles = config["profiles"].as_array().cloned().unwrap_or_default();
    let mut serves: BTreeSet<String> =
        profiles.iter().map(|profile| or(text(profile, "/schedulerName"), "default-scheduler")).collect();
    if serves.is_empty() {
        serves.insert("default-scheduler".to_owned());
    }
    let election = &config["leaderElection"];
    let lease = || {
        let namespace = or(text(election, "/resourceNamespace"), KUBE_SCHEDULER.0);
        (namespace, or(text(election, "/resourceName"), KUBE_SCHEDULER.1))
    };
    let is_elected = election["leaderElect"] != false;
    Some(Configured { by: format!("{namespace}/{name}"), serves, lease: is_elected.then(lease) })
}

async fn pending(api: &Api) -> Result<Known<Pending>, LiveError> {
    let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D,status.phase%3DPending&limit={PAGE}");
    let (mut by_name, mut next) = (BTreeMap::<String, usize>::new(), String::new());
    for _ in 0..PAGES_MAX {
        let more = if next.is_empty() { String::new() } else { format!("&continue={}", encoded(&next)) };
        let page = match api.get(&format!("{path}{more}")).await?.object() {
            Ok(page) => page,
            Err(why) => return Ok(Err(why)),
        };
        for pod in page["items"].as_array().into_iter().flatten() {
            if pod["metadata"]["deletionTimestamp"].is_null() {
                *by_name.entry(text(pod, "/spec/schedulerName").to_owned()).or_default() += 1;
            }
        }
        next = text(&page, "/metadata/continue").to_owned();
        if next.is_empty() {
            break;
        }
    }
    Ok(Ok(Pending { by_name, is_cut: !next.is_empty() }))
}

/// Returns the schedulers that wrote an event recently, of default-scheduler and those of pending pods.
///
/// Reads one page of events of each.
async fn reporting(
    api: &Api,
    pending: &Known<Pending>,
    now: Timestamp,
) -> Result<BTreeSet<String>, LiveError> {
    let of_pods = pending.iter().flat_map(|pending| pending.by_name.keys()).take(REPORTING_MAX);
    let names: BTreeSet<&str> = of_pods.map(String::as_str).chain([DEFAULT_NAME]).collect();
    let mut found = BTreeSet::new();
    for name in names {
        let source = encoded(&format!("source={name}"));
        let list = api.get(&format!("/api/v1/events?fieldSelector={source}&limit={PAGE}")).await?.object();
        let events = list.as_ref().ok().and_then(|list| list["items"].as_array());
        if events.is_some_and(|events| events.iter().any(|event| is_recent(event, now))) {
            found.insert(name.to_owned());
        }
    }
    Ok(found)
}

/// Returns whether an event happened, or was repeated, recently.
pub(super) fn is_recent(event: &Value, now: Timestamp) -> bool {
    let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime"];
    let last = times.iter().filter_map(|at| text(event, at).parse::<Timestamp>().ok()).max();
    last.is_some_and(|last| now.duration_since(last).as_secs() <= RECENT_SECONDS)
}

async fn drift(
    api: &Api,
    args: &DoctorArgs,
    pod: &str,
) -> Result<Known<Option<BTreeMap<String, u64>>>, LiveError> {
    let (namespace, port) = (&args.lease_namespace, args.port);
    let answer =
        api.get(&format!("/api/v1/namespaces/{namespace}/pods/https:{pod}:{port}/proxy/metrics")).await?;
    Ok(answer.object().map(|metrics| series(metrics.as_str().unwrap_or_default())))
}

/// Returns the drift series of a metrics scrape; `None` if there are none.
pub(super) fn series(scrape: &str) -> Option<BTreeMap<String, u64>> {
    let series = scrape.lines().filter_map(|line| {
        let (labels, value) = line.strip_prefix("supercargo_cache_drift{")?.split_once("} ")?;
        Some((labels.to_owned(), value.parse::<f64>().ok()? as u64))
    });
    let series: BTreeMap<String, u64> = series.collect();
    (!series.is_empty()).then_some(series)
}

pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
