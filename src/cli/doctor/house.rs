//! What the installation itself consists of: who holds its Lease, its Deployments, the priority class they name, and what the quotas of their
//! namespace leave them. Asked and judged here.

use super::facts::{Known, text};
use super::judge::{check, some, unknown, well};
use super::{Check, DoctorArgs, Status};
use crate::cli::live::LiveError;
use crate::cli::live::ask::Api;
use serde_json::Value;
use std::collections::BTreeSet;

/// What its manifests name.
const SHIPPED_CLASS: &str = "system-cluster-critical";

/// Who holds the Lease, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Nobody, or somebody without a name.
    Nobody,
    /// A pod of this name that runs.
    Runs(String),
    /// A pod of this name that has ended, or is about to: in which phase.
    Ends(String, String),
    /// A node of this name: its pod is on the node's network, and called as that.
    OnHost(String),
    /// Nothing in the cluster has this name.
    Unknown(String),
}

/// What is known of it.
#[derive(Clone, Debug)]
pub(super) struct House {
    pub(super) holder: Known<Holder>,
    /// The Deployments with its label.
    pub(super) deployments: Known<Vec<Value>>,
    /// Of the priority classes that they name, those that are not there; of none, the one that is shipped.
    pub(super) missing_classes: Known<Vec<String>>,
    /// The ResourceQuotas of the namespace.
    pub(super) quotas: Known<Vec<Value>>,
}

/// Asks for all of it. `host` is the name of who holds the Lease, if anybody does.
pub(super) async fn gather(
    api: &Api,
    args: &DoctorArgs,
    host: Known<Option<String>>,
) -> Result<House, LiveError> {
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
    Ok(House {
        holder: match host {
            Ok(Some(host)) => holder(api, namespace, &host).await?,
            Ok(None) => Ok(Holder::Nobody),
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

/// The priority classes that Deployments name; what is shipped names one.
pub(super) fn classes(deployments: &[Value]) -> BTreeSet<String> {
    if deployments.is_empty() {
        return [SHIPPED_CLASS.to_owned()].into();
    }
    let named = deployments.iter().map(|it| text(it, "/spec/template/spec/priorityClassName"));
    // What is written there is an object's name, which the API server has checked.
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

/// The checks of it.
pub(super) fn checks(house: &House, args: &DoctorArgs) -> [Check; 4] {
    [holds(&house.holder, args), replicas(&house.deployments), classes_are_there(house), quotas(house, args)]
}

fn holds(holder: &Known<Holder>, args: &DoctorArgs) -> Check {
    let (id, namespace) = ("Holder", &args.lease_namespace);
    match holder {
        Err(why) => unknown(id, why, "get leases.coordination.k8s.io, pods in its namespace, and nodes"),
        Ok(Holder::Nobody) => well(id, "nobody is named by the lease"),
        Ok(Holder::Runs(pod)) => well(id, format!("the pod {namespace}/{pod}, which holds the lease, runs")),
        Ok(Holder::OnHost(node)) => {
            well(id, format!("who holds the lease is called as the node {node}, on whose network it is"))
        }
        Ok(Holder::Ends(pod, phase)) => check(
            id,
            Status::Warning,
            format!("the pod {namespace}/{pod}, which is named by the lease, is {phase}"),
            "wait until the lease has run out, and ask again: another should hold it then",
        ),
        Ok(Holder::Unknown(name)) => check(
            id,
            Status::Warning,
            format!(
                "the lease names {name}, and there is neither a pod {namespace}/{name} nor a node of that name"
            ),
            "see whether it runs outside the cluster. If it is gone, another holds the lease when it has run out; name the namespace of its pods with \
             --lease-namespace",
        ),
    }
}

/// What a Deployment lacks of its pods: whether any could not be made, with why, or how many are not available.
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
        let text = format!("pods of it cannot be made: {}", some(&refused));
        return check(
            id,
            Status::Problem,
            text,
            "the message says what refuses them: a quota, a policy, a missing account or class",
        );
    }
    if !short.is_empty() {
        let text = format!("available are {}", some(&short));
        return check(
            id,
            Status::Warning,
            text,
            "see why the others are not: kubectl describe, kubectl logs --previous",
        );
    }
    match deployments.len() {
        0 => well(id, "there is no Deployment with the label app.kubernetes.io/name=supercargo"),
        _ => well(id, format!("all {all} pods of it are available")),
    }
}

fn classes_are_there(house: &House) -> Check {
    let id = "PriorityClass";
    match &house.missing_classes {
        Err(why) => unknown(id, why, "get priorityclasses.scheduling.k8s.io"),
        Ok(missing) if missing.is_empty() => {
            let named = classes(house.deployments.as_deref().unwrap_or_default());
            let named: Vec<String> = named.into_iter().collect();
            let text = if named.is_empty() {
                "its pods name none".to_owned()
            } else {
                format!("{} exists", some(&named))
            };
            well(id, text)
        }
        Ok(missing) => check(
            id,
            Status::Problem,
            format!("its pods name a PriorityClass that is not there: {}", some(missing)),
            "make it, or have the manifests name another: a pod that names a missing one is refused",
        ),
    }
}

fn quotas(house: &House, args: &DoctorArgs) -> Check {
    let (id, namespace) = ("ResourceQuota", &args.lease_namespace);
    let (quotas, deployments) = match (&house.quotas, &house.deployments) {
        (Ok(quotas), Ok(deployments)) => (quotas, deployments),
        (Err(why), _) => return unknown(id, why, "list resourcequotas in its namespace"),
        (_, Err(why)) => return unknown(id, why, "list deployments.apps in its namespace"),
    };
    let (mut refused, mut full) = (Vec::new(), Vec::new());
    for deployment in deployments {
        let spec = &deployment["spec"]["template"]["spec"];
        for quota in quotas.iter().filter(|quota| super::quota::is_about(quota, spec)) {
            let name = text(quota, "/metadata/name");
            refused.extend(super::quota::unsaid(quota, spec).map(|it| format!("{name} wants {it}")));
            full.extend(super::quota::exhausted(quota, spec).map(|it| format!("{name}: {it}")));
        }
    }
    if !refused.is_empty() {
        let text = format!(
            "a quota of {namespace} refuses its pods, which do not say what they use: {}",
            some(&refused)
        );
        return check(
            id,
            Status::Problem,
            text,
            "write these requests or limits into the Deployment, or give the namespace a LimitRange with defaults",
        );
    }
    if !full.is_empty() {
        let text = format!("a quota of {namespace} has no room for one more pod of it: {}", some(&full));
        return check(
            id,
            Status::Warning,
            text,
            "raise the quota, or scope it so that it is not about its priority class: a pod that goes may not be replaced, and a rolling update not \
             begin",
        );
    }
    well(id, format!("no quota of {namespace} keeps a pod of it out"))
}
