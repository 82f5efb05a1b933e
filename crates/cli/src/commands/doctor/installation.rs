//! Checks of the installation: lease holder, Deployments, their PriorityClass, and the quotas of the
//! namespace. Reads facts and evaluates them.

use crate::commands::doctor::facts::{Known, Lease, text};
use crate::commands::doctor::judge::{check, some, unknown, well};
use crate::commands::doctor::{Check, DoctorArgs, Status};
use crate::live::LiveError;
use crate::live::ask::Api;
use serde_json::Value;
use std::collections::BTreeSet;

/// PriorityClass that the shipped manifests use.
const SHIPPED_CLASS: &str = "system-cluster-critical";

/// Holder of the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// No holder, or one without a name.
    Vacant,
    /// A running pod of this name.
    Runs(String),
    /// A pod that has ended or is being deleted: its name and phase.
    Ends(String, String),
    /// A node of this name: the leader's pod uses the host network.
    OnHost(String),
    /// Neither a pod nor a node has this name.
    Unknown(String),
}

/// Facts about the installation.
#[derive(Clone, Debug)]
pub(super) struct Installation {
    pub holder: Known<Holder>,
    /// Deployments with supercargo's label.
    pub deployments: Known<Vec<Value>>,
    /// Missing priority classes, of those the Deployments use. Without Deployments, the shipped one is
    /// checked.
    pub missing_classes: Known<Vec<String>>,
    /// ResourceQuotas of the namespace.
    pub quotas: Known<Vec<Value>>,
}

/// Reads the facts. `host` is the name of the lease holder, if there is one.
pub(super) async fn gather(
    api: &Api,
    args: &DoctorArgs,
    host: Known<Option<String>>,
) -> Result<Installation, LiveError> {
    let namespace = &args.lease_namespace;
    let of_ours = "labelSelector=app.kubernetes.io%2Fname%3Dsupercargo";
    let deployments =
        list(api, &format!("/apis/apps/v1/namespaces/{namespace}/deployments?{of_ours}")).await?;
    let classes = classes(deployments.as_deref().unwrap_or_default());
    let mut missing = Ok(Vec::new());
    for class in classes {
        let answer = api.get(&format!("/apis/scheduling.k8s.io/v1/priorityclasses/{class}")).await?;
        match (answer.status, answer.object(), &mut missing) {
            (404, _, Ok(missing)) => missing.push(class),
            (_, Err(why), _) => missing = Err(why),
            _ => {}
        }
    }
    Ok(Installation {
        holder: match host {
            Ok(Some(host)) => holder(api, namespace, &host).await?,
            Ok(None) => Ok(Holder::Vacant),
            Err(why) => Err(why),
        },
        deployments,
        missing_classes: missing,
        quotas: list(api, &format!("/api/v1/namespaces/{namespace}/resourcequotas")).await?,
    })
}

async fn list(api: &Api, path: &str) -> Result<Known<Vec<Value>>, LiveError> {
    let list = api.get(path).await?.object();
    Ok(list.map(|mut list| match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }))
}

/// Returns the priority classes of Deployments, or the shipped one without Deployments.
pub(super) fn classes(deployments: &[Value]) -> BTreeSet<String> {
    if deployments.is_empty() {
        return [SHIPPED_CLASS.to_owned()].into();
    }
    let named = deployments.iter().map(|it| text(it, "/spec/template/spec/priorityClassName"));
    // The API server has validated these names, so they are safe in a path.
    named.filter(|class| !class.is_empty()).map(str::to_owned).collect()
}

async fn holder(api: &Api, namespace: &str, host: &str) -> Result<Known<Holder>, LiveError> {
    let pod = api.get(&format!("/api/v1/namespaces/{namespace}/pods/{host}")).await?;
    if pod.status == 404 {
        let node = api.get(&format!("/api/v1/nodes/{host}")).await?;
        return Ok(match node.status {
            404 => Ok(Holder::Unknown(host.to_owned())),
            _ => node.object().map(|_| Holder::OnHost(host.to_owned())),
        });
    }
    Ok(pod.object().map(|pod| {
        let phase = text(&pod, "/status/phase").to_owned();
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            return Holder::Ends(host.to_owned(), "being deleted".to_owned());
        }
        match phase.as_str() {
            "Running" => Holder::Runs(host.to_owned()),
            _ => Holder::Ends(host.to_owned(), phase),
        }
    }))
}

/// Returns the checks of the installation. `lease` is its Lease, if there is one.
pub(super) fn checks(installation: &Installation, lease: Option<&Lease>, args: &DoctorArgs) -> [Check; 4] {
    [
        holds(&installation.holder, lease, args),
        replicas(&installation.deployments),
        classes_are_there(installation),
        quotas(installation, args),
    ]
}

fn holds(holder: &Known<Holder>, lease: Option<&Lease>, args: &DoctorArgs) -> Check {
    let (id, namespace) = ("Holder", &args.lease_namespace);
    match holder {
        Err(why) => unknown(id, why, "get leases.coordination.k8s.io, pods in its namespace, and nodes"),
        Ok(Holder::Vacant) => well(id, "the lease has no holder"),
        Ok(Holder::Runs(pod)) => well(id, format!("the lease holder, pod {namespace}/{pod}, is running")),
        Ok(Holder::OnHost(node)) => {
            well(id, format!("the lease holder matches the node {node} (hostNetwork)"))
        }
        Ok(Holder::Ends(pod, phase)) => check(
            id,
            Status::Warning,
            format!("the lease holder, pod {namespace}/{pod}, is {phase}"),
            "run doctor again after the lease has expired: another replica should hold it then",
        ),
        // With --pod, the holder should be a pod.
        Ok(Holder::Unknown(_)) if args.pod.is_none() && lease.is_some_and(Lease::is_held) => {
            let (holder, age) = lease.map_or(("", 0), |lease| (lease.holder.as_str(), lease.age));
            let what = format!("a process that is no pod in {namespace} and no node of the cluster");
            well(id, format!("the lease holder, {holder}, is {what}; it renewed the lease {age} s ago"))
        }
        Ok(Holder::Unknown(name)) => check(
            id,
            Status::Warning,
            format!(
                "the lease holder is {}, but there is neither a pod {namespace}/{name} nor a node of that name",
                lease.map_or(name, |lease| &lease.holder)
            ),
            "check whether it runs outside the cluster. If it is gone, another replica takes the lease once it expires. Name the pods' namespace with \
             --lease-namespace",
        ),
    }
}

/// Checks the Deployments: a problem if pods cannot be created, a warning if some are not available.
fn replicas(deployments: &Known<Vec<Value>>) -> Check {
    let id = "Replicas";
    let deployments = match deployments {
        Ok(deployments) => deployments,
        Err(why) => return unknown(id, why, "list deployments.apps in its namespace"),
    };
    let (mut refused, mut short, mut all) = (Vec::new(), Vec::new(), 0);
    for deployment in deployments {
        let name = text(deployment, "/metadata/name");
        let conditions = deployment["status"]["conditions"].as_array().into_iter().flatten();
        let failure = conditions
            .filter(|it| it["type"] == "ReplicaFailure" && it["status"] == "True")
            .map(|it| text(it, "/message"));
        refused.extend(failure.map(|message| format!("{name}: {message}")));
        let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
        let available = deployment["status"]["availableReplicas"].as_u64().unwrap_or(0);
        all += available;
        if available < wanted {
            short.push(format!("{available} of {wanted} pods of {name}"));
        }
    }
    if !refused.is_empty() {
        let text = format!("pods cannot be created: {}", some(&refused));
        return check(
            id,
            Status::Problem,
            text,
            "remove the cause in the message: a quota, a policy, a missing account or class",
        );
    }
    if !short.is_empty() {
        let text = format!("available: {}", some(&short));
        return check(
            id,
            Status::Warning,
            text,
            "find out why the others are not: kubectl describe, kubectl logs --previous",
        );
    }
    match deployments.len() {
        0 => well(id, "no Deployment has the label app.kubernetes.io/name=supercargo"),
        _ => well(id, format!("all {all} pods are available")),
    }
}

fn classes_are_there(installation: &Installation) -> Check {
    let id = "PriorityClass";
    match &installation.missing_classes {
        Err(why) => unknown(id, why, "get priorityclasses.scheduling.k8s.io"),
        Ok(missing) if missing.is_empty() => {
            let named = classes(installation.deployments.as_deref().unwrap_or_default());
            let named: Vec<String> = named.into_iter().collect();
            let text = if named.is_empty() {
                "the pods use no PriorityClass".to_owned()
            } else {
                format!("{} exists", some(&named))
            };
            well(id, text)
        }
        Ok(missing) => check(
            id,
            Status::Problem,
            format!("the pods use a PriorityClass that does not exist: {}", some(missing)),
            "create it, or change it in the manifests: pods with a missing PriorityClass are rejected",
        ),
    }
}

fn quotas(installation: &Installation, args: &DoctorArgs) -> Check {
    let (id, namespace) = ("ResourceQuota", &args.lease_namespace);
    let (quotas, deployments) = match (&installation.quotas, &installation.deployments) {
        (Ok(quotas), Ok(deployments)) => (quotas, deployments),
        (Err(why), _) => return unknown(id, why, "list resourcequotas in its namespace"),
        (_, Err(why)) => return unknown(id, why, "list deployments.apps in its namespace"),
    };
    let (mut refused, mut full) = (Vec::new(), Vec::new());
    for deployment in deployments {
        let spec = &deployment["spec"]["template"]["spec"];
        for quota in quotas.iter().filter(|quota| crate::commands::doctor::quota::is_about(quota, spec)) {
            let name = text(quota, "/metadata/name");
            refused.extend(
                crate::commands::doctor::quota::unsaid(quota, spec).map(|it| format!("{name} requires {it}")),
            );
            full.extend(
                crate::commands::doctor::quota::exhausted(quota, spec).map(|it| format!("{name}: {it}")),
            );
        }
    }
    if !refused.is_empty() {
        let text = format!(
            "a quota in {namespace} rejects the pods, which lack requests or limits: {}",
            some(&refused)
        );
        return check(
            id,
            Status::Problem,
            text,
            "set these requests or limits in the Deployment, or add a LimitRange with defaults to the namespace",
        );
    }
    if !full.is_empty() {
        let text = format!("a quota in {namespace} does not admit one more pod: {}", some(&full));
        return check(
            id,
            Status::Warning,
            text,
            "raise the quota, or exclude the pods' PriorityClass from its scope: otherwise deleted pods may not be replaced, and a rolling update cannot \
             start",
        );
    }
    well(id, format!("all quotas in {namespace} admit one more pod"))
}
