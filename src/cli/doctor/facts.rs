//! What is asked of the cluster, before anybody judges it. What may not be asked is kept as why.

use super::DoctorArgs;
use super::house::{self, House};
use super::rights::{self, Right};
use super::trust::Clocks;
use crate::cli::live::LiveError;
use crate::cli::live::ask::{Api, with_api};
use crate::cli::live::certificates::Certificates;
use crate::cli::live::port::{encoded, host_of};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The namespace and name of kube-scheduler's lease.
pub(super) const KUBE_SCHEDULER: (&str, &str) = ("kube-system", "kube-scheduler");
/// Objects on a page of a list.
const PAGE: usize = 500;
/// Pages that are read at most: beyond ten thousand pods nothing new is learned.
const PAGES_MAX: usize = 20;
/// How long a lease is good for that does not say so.
const LEASE_SECONDS: i64 = 15;

/// An answer, or why there is none.
pub(super) type Known<T> = Result<T, String>;

/// What was learned.
pub(super) struct Facts {
    /// `gitVersion` of the API server.
    pub(super) version: Known<String>,
    /// Whether the ServiceAccount exists.
    pub(super) account: Known<bool>,
    /// The rights, and whether it has them.
    pub(super) rights: Known<Vec<(Right, bool)>>,
    /// Its lease; `None` where there is none.
    pub(super) lease: Known<Option<Lease>>,
    /// kube-scheduler's.
    pub(super) kube_scheduler: Known<Option<Lease>>,
    /// The configurations of supercargo there are.
    pub(super) configured: Known<Vec<Configured>>,
    /// Pods without a node.
    pub(super) pending: Known<Pending>,
    /// What the leader's cache has other than the API server, by what; `None` where nobody compared.
    pub(super) drift: Known<Option<BTreeMap<String, u64>>>,
    /// Between the kubeconfig and the API server.
    pub(super) certificates: Certificates,
    /// Theirs and ours.
    pub(super) clocks: Clocks,
    /// What the installation consists of.
    pub(super) house: House,
}

/// Pods without a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    /// How many there are by `schedulerName`.
    pub(super) by_name: BTreeMap<String, usize>,
    /// Whether there are more, which were not looked at.
    pub(super) is_cut: bool,
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    /// Who holds it; empty where nobody does.
    pub(super) holder: String,
    /// Seconds since it was renewed.
    pub(super) age: i64,
    /// Seconds for which it is good.
    pub(super) good_for: i64,
}

impl Lease {
    /// Whether somebody holds it now.
    pub(super) fn is_held(&self) -> bool {
        !self.holder.is_empty() && self.age <= self.good_for
    }
}

/// What a supercargo is configured to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Configured {
    /// `namespace/name` of the ConfigMap.
    pub(super) by: String,
    /// The `schedulerName`s it serves.
    pub(super) serves: BTreeSet<String>,
    /// Namespace and name of its lease; `None` without leader election.
    pub(super) lease: Option<(String, String)>,
}

/// Asks for all of it. Only a cluster that does not answer at all is an error, and not even that where the certificate that it shows says why.
pub(super) fn gather(args: &DoctorArgs) -> Result<Facts, LiveError> {
    with_api(&args.live, async |api| match ask(api, args).await {
        Err(LiveError::Cluster(why)) if is_not_good(&api.certificates) => {
            Ok(Facts::unanswered(why, api.certificates.clone()))
        }
        other => other,
    })
}

/// Whether the API server's certificate is none that a client would take.
fn is_not_good(certificates: &Certificates) -> bool {
    let now = Timestamp::now();
    certificates.serving.as_ref().is_ok_and(|it| it.is_some_and(|it| it.until <= now || it.from > now))
}

impl Facts {
    /// Why facts are not known, of all that are not.
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

    /// The API server is there, and nothing can be asked of it.
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
            drift: Err(why.clone()),
            certificates,
            clocks,
            house: House {
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
    let version = version.object().map(|version| text(&version, "/gitVersion").to_owned());
    let (namespace, name) = args.account();
    let account = api.get(&format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}")).await?;
    let account = match account.status {
        404 => Ok(false),
        _ => account.object().map(|_| true),
    };
    let now = clocks.now();
    let lease = lease(api, (&args.lease_namespace, &args.lease), now).await?;
    let name_of = |lease: &Lease| {
        let host = args.pod.as_deref().or_else(|| host_of(&lease.holder));
        host.filter(|_| !lease.holder.is_empty()).map(str::to_owned)
    };
    let host = lease.as_ref().map(|lease| lease.as_ref().and_then(name_of)).map_err(Clone::clone);
    let is_held = lease.as_ref().is_ok_and(|lease| lease.as_ref().is_some_and(Lease::is_held));
    let drift = match host.as_ref().ok().and_then(Option::as_ref).filter(|_| is_held) {
        Some(host) => drift(api, args, host).await?,
        None => Err("nobody leads who could be asked".to_owned()),
    };
    Ok(Facts {
        version,
        account,
        rights: has_rights(api, args).await?,
        kube_scheduler: self::lease(api, KUBE_SCHEDULER, now).await?,
        lease,
        configured: configured(api).await?,
        pending: pending(api).await?,
        drift,
        certificates: api.certificates.clone(),
        clocks,
        house: house::gather(api, args, host).await?,
    })
}

async fn has_rights(api: &Api, args: &DoctorArgs) -> Result<Known<Vec<(Right, bool)>>, LiveError> {
    let mut rights = Vec::new();
    for right in rights::all() {
        let review = right.review(args.account(), (&args.lease_namespace, &args.lease));
        let answer = api.review("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await?;
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

/// A lease, as old as it is at this time.
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
        // One that was never renewed is as old as can be.
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

/// What a ConfigMap says, if there is a configuration in it. A shadow serves nobody.
pub(super) fn configuration(map: &Value) -> Option<Configured> {
    let (namespace, name) = (text(map, "/metadata/namespace"), text(map, "/metadata/name"));
    let written = map["data"]["config.yaml"].as_str().filter(|_| !name.contains("shadow"))?;
    let config: Value = serde_saphyr::from_str(written).ok()?;
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

/// The series of the drift in a scrape.
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
