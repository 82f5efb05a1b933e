//! Evaluates the facts: each check with its status and a recommended action. Contacts no server.

use crate::commands::doctor::facts::{ApiVersion, Configured, Facts, KUBE_SCHEDULER, Known, Lease};
use crate::commands::doctor::identity::Identity;
use crate::commands::doctor::{Check, DoctorArgs, Status, installation, tls_and_clock};
use std::collections::{BTreeMap, BTreeSet};
use supercargo_config::{DEFAULT_NAME, OWN_NAME};
use supercargo_whatif::explain::format::count;

/// Maximum number of items named in a text.
const NAMED: usize = 5;

/// Returns all checks, in the order of docs/doctor.md.
pub(super) fn checks(facts: &Facts, args: &DoctorArgs) -> Vec<Check> {
    let mut checks = vec![
        credentials(facts, args),
        version(&facts.version),
        account(&facts.account, args),
        rights(facts, args),
        leader(&facts.lease, args),
        default_scheduler(facts),
        served_once(&facts.configured),
        unserved(facts),
        drift(facts),
    ];
    checks.extend(tls_and_clock::checks(&facts.certificates, &facts.clocks));
    let lease = facts.lease.as_ref().ok().and_then(Option::as_ref);
    checks.extend(installation::checks(&facts.installation, lease, args));
    checks
}

/// Ids of all checks, in the order of docs/doctor.md.
pub const CHECK_IDS: [&str; 17] = [
    "Credentials",
    "ApiServerVersion",
    "ServiceAccount",
    "Rights",
    "Leader",
    "DefaultScheduler",
    "ServedOnce",
    "UnservedPods",
    "CacheDrift",
    "ApiServerCertificate",
    "ClientCertificate",
    "CertificateAuthority",
    "ClockSkew",
    "Holder",
    "Replicas",
    "PriorityClass",
    "ResourceQuota",
];

pub(super) fn check(
    id: &'static str,
    status: Status,
    text: impl Into<String>,
    to_do: impl Into<String>,
) -> Check {
    let to_do = to_do.into();
    Check { id, status, text: text.into(), to_do: (!to_do.is_empty()).then_some(to_do) }
}

pub(super) fn well(id: &'static str, text: impl Into<String>) -> Check {
    check(id, Status::Ok, text, "")
}

/// Returns a check that could not run. After a 403, the action names the missing permission.
pub(super) fn unknown(id: &'static str, why: &str, right: &str) -> Check {
    let to_do = if why.starts_with("403") && !right.is_empty() {
        format!("ask a user with the permission to {right}")
    } else {
        String::new()
    };
    check(id, Status::Unknown, format!("cannot be checked: {why}"), to_do)
}

/// Checks whether the API server accepts the kubeconfig's credentials. If not, it answers every request with
/// 401. With `--as`, checks whether the caller may impersonate the user.
fn credentials(facts: &Facts, args: &DoctorArgs) -> Check {
    let id = "Credentials";
    let refusal = facts.version.as_ref().err().filter(|why| why.contains("cannot impersonate"));
    if let (Some(user), Some(why)) = (&args.as_user, refusal) {
        return check(
            id,
            Status::Problem,
            format!("the API server does not take requests as {user}: {why}"),
            "get the permission to impersonate this user and its groups, or use --identity, which needs the permission to create \
             subjectaccessreviews.authorization.k8s.io",
        );
    }
    let accepted = "the API server accepts the credentials of the kubeconfig";
    match facts.unknown().into_iter().find(|why| why.starts_with("401")) {
        Some(why) => check(
            id,
            Status::Problem,
            format!("the API server does not accept the credentials of the kubeconfig: {why}"),
            "log in again, or give the kubeconfig a new token or client certificate; `kubectl auth whoami` shows whether they are accepted",
        ),
        None => match &facts.version {
            Err(why) if !why.starts_with("403") => unknown(id, why, ""),
            _ => well(id, accepted),
        },
    }
}

fn version(version: &Known<ApiVersion>) -> Check {
    let id = "ApiServerVersion";
    let version = match version {
        Ok(version) => version,
        Err(why) => return unknown(id, why, "get /version"),
    };
    let ApiVersion { text, served } = version;
    let Some(served) = served else { return unknown(id, &format!("{text:?} is not a version"), "") };
    match served.warning() {
        None => well(id, format!("{text}; decisions are those of kube-scheduler v{}", served.emulated())),
        Some(warning) => check(
            id,
            Status::Warning,
            format!("{text}: {warning}"),
            "expect different decisions where kube-scheduler changed between these versions; docs/versions.md lists the differences",
        ),
    }
}

fn account(account: &Known<Option<bool>>, args: &DoctorArgs) -> Check {
    let (id, identity) = ("ServiceAccount", Identity::of(args));
    let name = identity.text();
    match account {
        Ok(None) => {
            well(id, format!("not needed: the permissions of {name} are checked, which is no ServiceAccount"))
        }
        Ok(Some(true)) => well(id, format!("{name} exists")),
        Ok(Some(false)) => check(
            id,
            Status::Problem,
            format!("ServiceAccount {name} not found"),
            "install supercargo (manifests/base), or name its ServiceAccount with --service-account",
        ),
        Err(why) => unknown(id, why, "get serviceaccounts"),
    }
}

fn rights(facts: &Facts, args: &DoctorArgs) -> Check {
    let (id, identity) = ("Rights", Identity::of(args));
    let rights = match &facts.rights {
        Ok(rights) => rights,
        Err(why) => {
            let either = format!(
                "create subjectaccessreviews.authorization.k8s.io, or to impersonate {}",
                identity.user
            );
            return unknown(id, why, &either);
        }
    };
    let missing: Vec<_> = rights.iter().filter(|(_, has)| !has).map(|(right, _)| right).collect();
    if missing.is_empty() {
        return well(
            id,
            format!("{} has all {} permissions of the manifests", identity.text(), rights.len()),
        );
    }
    let mut by_loss: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for right in &missing {
        by_loss.entry(right.without()).or_default().push(right.text());
    }
    let each = by_loss.into_iter().map(|(loss, rights)| format!("{loss} (without {})", some(&rights)));
    let text = format!(
        "{} lacks {} of {} permissions: {}",
        identity.text(),
        missing.len(),
        rights.len(),
        each.collect::<Vec<_>>().join("; ")
    );
    let to_do = match identity.account() {
        Some(_) => "apply the roles and bindings of manifests/base, or of the chart",
        None => {
            "bind the roles of manifests/base to this user, or restore the bootstrap roles of system:kube-scheduler; name its Lease with --lease"
        }
    };
    check(id, Status::Problem, text, to_do)
}

fn leader(lease: &Known<Option<Lease>>, args: &DoctorArgs) -> Check {
    let (namespace, name) = args.lease();
    let (id, name) = ("Leader", format!("{namespace}/{name}"));
    let no_holder = "check that the pods run, and their logs for why none leads; or name the Lease with --lease and --lease-namespace";
    match lease {
        Err(why) => unknown(id, why, "get leases.coordination.k8s.io"),
        Ok(None) => {
            check(id, Status::Problem, format!("lease {name} not found: there was no leader yet"), no_holder)
        }
        Ok(Some(lease)) if lease.holder.is_empty() => {
            check(id, Status::Problem, format!("lease {name} has no holder"), no_holder)
        }
        Ok(Some(lease)) if !lease.is_held() => {
            let (holder, age, good_for) = (&lease.holder, lease.age, lease.good_for);
            let age = if age == i64::MAX { "ever".to_owned() } else { format!("for {age} s") };
            let text =
                format!("{holder} has not renewed the lease {name} {age}; it expires after {good_for} s");
            check(id, Status::Problem, text, no_holder)
        }
        Ok(Some(lease)) => well(id, format!("{} holds {name}, renewed {} s ago", lease.holder, lease.age)),
    }
}

fn default_scheduler(facts: &Facts) -> Check {
    let id = "DefaultScheduler";
    let (configured, theirs) = match (&facts.configured, &facts.kube_scheduler) {
        (Ok(configured), Ok(theirs)) => (configured, theirs),
        (Err(why), _) => return unknown(id, why, "list configmaps"),
        (_, Err(why)) => return unknown(id, why, "get leases.coordination.k8s.io"),
    };
    let is_kube_schedulers =
        |lease: &(String, String)| (lease.0.as_str(), lease.1.as_str()) == KUBE_SCHEDULER;
    let serves_too = |it: &&Configured| {
        it.serves.contains(DEFAULT_NAME) && !it.lease.as_ref().is_some_and(is_kube_schedulers)
    };
    let beside: Vec<String> = configured.iter().filter(serves_too).map(|it| it.by.clone()).collect();
    let is_held = theirs.as_ref().is_some_and(Lease::is_held);
    let reports = facts.reporting.contains(DEFAULT_NAME);
    match (beside.is_empty(), is_held, theirs) {
        (true, true, _) => {
            well(id, "only the holder of the lease kube-system/kube-scheduler serves default-scheduler")
        }
        (true, false, lease) => {
            let state = if lease.is_some() { "is not held" } else { "does not exist" };
            let lease = format!("The lease kube-system/kube-scheduler {state}");
            let text = if reports {
                format!(
                    "some scheduler serves default-scheduler, as events of the last 10 minutes show. {lease}, so it is not known which one"
                )
            } else {
                format!(
                    "no scheduler is known to serve default-scheduler. {lease}, and no event of the last 10 minutes has its name"
                )
            };
            well(id, text)
        }
        (false, false, _) => well(
            id,
            format!("{} serves default-scheduler, and kube-scheduler's lease is not held", some(&beside)),
        ),
        (false, true, _) => check(
            id,
            Status::Problem,
            format!(
                "two schedulers serve default-scheduler: {}, and the holder of the lease kube-system/kube-scheduler",
                some(&beside)
            ),
            "change the profile's schedulerName, or set leaderElection.resourceName to kube-scheduler",
        ),
    }
}

fn served_once(configured: &Known<Vec<Configured>>) -> Check {
    let id = "ServedOnce";
    let configured = match configured {
        Ok(configured) => configured,
        Err(why) => return unknown(id, why, "list configmaps"),
    };
    let mut by_name: BTreeMap<&str, Vec<&Configured>> = BTreeMap::new();
    for it in configured {
        it.serves.iter().for_each(|name| by_name.entry(name).or_default().push(it));
    }
    // Instances that share a lease are replicas; only one of them is active.
    let apart = |them: &Vec<&Configured>| {
        them.len() > 1
            && (them.iter().any(|it| it.lease.is_none())
                || them.iter().map(|it| &it.lease).collect::<BTreeSet<_>>().len() > 1)
    };
    let twice: Vec<String> = by_name
        .into_iter()
        .filter(|(_, them)| apart(them))
        .map(|(name, them)| {
            format!("{name} by {}", them.iter().map(|it| it.by.as_str()).collect::<Vec<_>>().join(" and "))
        })
        .collect();
    if twice.is_empty() {
        return well(id, "no schedulerName is served under two leases");
    }
    let text = format!("served under two leases: {}", some(&twice));
    check(id, Status::Problem, text, "give each its own schedulerName, or all of them the same lease")
}

fn unserved(facts: &Facts) -> Check {
    let id = "UnservedPods";
    let (configured, pending) = match (&facts.configured, &facts.pending) {
        (Ok(configured), Ok(pending)) => (configured, pending),
        (Err(why), _) => return unknown(id, why, "list configmaps"),
        (_, Err(why)) => return unknown(id, why, "list pods"),
    };
    let mut served: BTreeSet<&str> =
        configured.iter().flat_map(|it| &it.serves).map(String::as_str).collect();
    if configured.is_empty() {
        served.insert(OWN_NAME);
    }
    if facts.kube_scheduler.as_ref().is_ok_and(|lease| lease.as_ref().is_some_and(Lease::is_held)) {
        served.insert(DEFAULT_NAME);
    }
    served.extend(facts.reporting.iter().map(String::as_str));
    let others = pending.by_name.iter().filter(|(name, _)| !served.contains(name.as_str()));
    let each: Vec<String> = others.clone().map(|(name, pods)| format!("{pods} for {name}")).collect();
    if each.is_empty() {
        let pods: usize = pending.by_name.values().sum();
        let pods = count(pods, "pending pod");
        let text = format!("{pods}, each with a schedulerName that is served");
        if pending.is_cut {
            return check(id, Status::Unknown, format!("{text}; further pods were not checked"), "");
        }
        return well(id, text);
    }
    let names: Vec<String> = served.iter().map(|&name| name.to_owned()).collect();
    let no_lease = if others.clone().any(|(name, _)| name == DEFAULT_NAME) {
        "; no lease kube-system/kube-scheduler is held, and no recent event is of default-scheduler, so it is not known \
         whether that scheduler runs"
    } else {
        ""
    };
    let text = format!("pending pods of schedulers that are not known to run: {}{no_lease}", some(&each));
    let to_do = format!(
        "known schedulers: {}; check the spec.schedulerName of these pods, or that their scheduler runs",
        some(&names)
    );
    check(id, Status::Warning, text, to_do)
}

fn drift(facts: &Facts) -> Check {
    let id = "CacheDrift";
    match &facts.drift {
        Err(why) => unknown(id, why, "get pods/proxy and /metrics"),
        Ok(None) => check(
            id,
            Status::Warning,
            "the cache was not compared with the API server yet",
            "send SIGUSR2 to the leader, and run doctor again after some seconds",
        ),
        Ok(Some(series)) => {
            let found: Vec<String> = series
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|(labels, count)| format!("{count} {labels}"))
                .collect();
            if found.is_empty() {
                return well(id, "at the last comparison, the cache equaled the API server's state");
            }
            let text = format!("the cache differs from the API server's state: {}", some(&found));
            check(id, Status::Problem, text, "see docs/runbooks/SupercargoCacheDrift.md")
        }
    }
}

/// Joins the first few items of a list, with the number of others.
pub(super) fn some(all: &[String]) -> String {
    let named = all.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if all.len() > NAMED { format!("{named} and {} more", all.len() - NAMED) } else { named }
}
