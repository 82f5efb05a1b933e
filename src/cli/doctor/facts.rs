//! What is asked of the cluster, before anybody judges it. What may not be asked is kept as why.

use super::DoctorArgs;
use super::rights::{self, Right};
use crate::cli::live::LiveError;
use crate::cli::live::ask::{Api, with_api};
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
    /// Pods without a node, by `schedulerName`.
    pub(super) pending: Known<BTreeMap<String, usize>>,
    /// What the leader's cache has other than the API server, by what; `None` where nobody compared.
    pub(super) drift: Known<Option<BTreeMap<String, u64>>>,
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

/// Asks for all of it. Only a cluster that does not answer at all is an error.
pub(super) fn gather(args: &DoctorArgs) -> Result<Facts, LiveError> {
    let way = (args.kubeconfig.as_deref(), args.context.as_deref(), args.request_timeout);
    with_api(way, async |api| {
        let version = api.get("/version").await?.object();
        let version = version.map(|version| text(&version, "/gitVersion").to_owned());
        let (namespace, name) = args.account();
        let account = api.get(&format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}")).await?;
        let account = match account.status {
            404 => Ok(false),
            _ => account.object().map(|_| true),
        };
        let lease = lease(api, (&args.lease_namespace, &args.lease)).await?;
        let holder = lease.as_ref().ok().and_then(Option::as_ref).filter(|lease| lease.is_held());
        let drift = match holder.and_then(|lease| host_of(&lease.holder)) {
            Some(host) => drift(api, args, args.pod.as_deref().unwrap_or(host)).await?,
            None => Err("nobody leads who could be asked".to_owned()),
        };
        Ok(Facts {
            version,
            account,
            rights: has_rights(api, args).await?,
            kube_scheduler: self::lease(api, KUBE_SCHEDULER).await?,
            lease,
            configured: configured(api).await?,
            pending: pending(api).await?,
            drift,
        })
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

async fn lease(api: &Api, (namespace, name): (&str, &str)) -> Result<Known<Option<Lease>>, LiveError> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
    let answer = api.get(&path).await?;
    if answer.status == 404 {
        return Ok(Ok(None));
    }
    Ok(answer.object().map(|lease| {
        let renewed = text(&lease, "/spec/renewTime").parse::<Timestamp>();
        // One that was never renewed is as old as can be.
        let age =
            renewed.map_or(i64::MAX, |renewed| Timestamp::now().duration_since(renewed).as_secs().max(0));
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

async fn pending(api: &Api) -> Result<Known<BTreeMap<String, usize>>, LiveError> {
    let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D,status.phase%3DPending&limit={PAGE}");
    let (mut by_name, mut next) = (BTreeMap::new(), String::new());
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
    Ok(Ok(by_name))
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

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
