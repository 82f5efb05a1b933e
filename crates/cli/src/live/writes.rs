//! Writes to a cluster, for `plan --apply`: cordons, evictions, and the Lease that only one plan can hold.

use crate::live::{LiveArgs, LiveError, connection, with_causes};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{
    DeleteParams, EvictParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions,
};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::time::Duration;
use supercargo_apiserver::client;
use tokio::time::timeout;

/// Annotation of the nodes that a plan has cordoned.
pub const CORDONED_BY: &str = "supercargo.dev/cordoned-by";
/// Name of the Lease.
pub const LEASE: &str = "supercargo-plan";
/// How long the Lease stays valid without renewal, in seconds: three renewals may fail.
pub const LEASE_SECONDS: u16 = 30;

/// Why a write was not carried out.
#[derive(Debug)]
pub enum Unwritten {
    /// The object is gone, or changed since it was read.
    Changed(String),
    /// The API server asks to try again later, for example because of a disruption budget.
    Later(String),
    /// Any other failure.
    Failed(String),
}

impl Unwritten {
    /// Returns the message.
    pub fn into_text(self) -> String {
        match self {
            Self::Changed(text) | Self::Later(text) | Self::Failed(text) => text,
        }
    }
}

/// A connection that writes.
#[derive(Clone)]
pub struct Writer {
    client: kube::Client,
    server: String,
    one: Duration,
    /// The namespace of the Lease.
    namespace: String,
}

impl Writer {
    /// Connects to the cluster of the kubeconfig. `namespace` is that of the Lease.
    ///
    /// # Errors
    /// Fails if the kubeconfig is not usable.
    pub async fn new(args: &LiveArgs, namespace: String) -> Result<Self, LiveError> {
        let config = connection(args).await?;
        let server = config.cluster_url.to_string();
        let builder = client::builder(&config).map_err(|error| LiveError::Settings(format!("{error:#}")))?;
        Ok(Self { client: builder.build(), server, one: args.request_timeout, namespace })
    }

    async fn ask<T>(
        &self,
        what: &str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Unwritten> {
        match timeout(self.one, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Err(_) => Err(Unwritten::Failed(format!(
                "cannot {what}: {} does not answer within {:?}",
                self.server, self.one
            ))),
            Ok(Err(kube::Error::Api(status))) => {
                let text = format!("cannot {what}: {} ({})", status.message, status.code);
                Err(match status.code {
                    404 | 409 => Unwritten::Changed(text),
                    429 => Unwritten::Later(text),
                    _ => Unwritten::Failed(text),
                })
            }
            Ok(Err(error)) => Err(Unwritten::Failed(format!("cannot {what}: {}", with_causes(&error)))),
        }
    }

    /// Returns the value of the annotation: plans with another Lease leave the node alone.
    fn mark(&self) -> String {
        format!("{}/{LEASE}", self.namespace)
    }

    /// Cordons a node and marks it. Returns false if it was cordoned before.
    ///
    /// # Errors
    /// Fails if the node cannot be read or written.
    pub async fn cordon(&self, name: &str) -> Result<bool, Unwritten> {
        let nodes = Api::<Node>::all(self.client.clone());
        let node = self.ask(&format!("read node {name}"), nodes.get(name)).await?;
        if node.spec.and_then(|spec| spec.unschedulable) == Some(true) {
            return Ok(false);
        }
        let patch = json!({
            "metadata": {"annotations": {CORDONED_BY: self.mark()}, "resourceVersion": node.metadata.resource_version},
            "spec": {"unschedulable": true},
        });
        self.patch_node(&format!("cordon node {name}"), name, &patch).await.map(|()| true)
    }

    /// Uncordons a node that a plan has cordoned.
    ///
    /// # Errors
    /// Fails if the node cannot be written.
    pub async fn uncordon(&self, name: &str) -> Result<(), Unwritten> {
        let patch =
            json!({"metadata": {"annotations": {CORDONED_BY: null}}, "spec": {"unschedulable": null}});
        self.patch_node(&format!("uncordon node {name}"), name, &patch).await
    }

    /// Removes the mark of a node that stays cordoned.
    ///
    /// # Errors
    /// Fails if the node cannot be written.
    pub async fn unmark(&self, name: &str) -> Result<(), Unwritten> {
        let patch = json!({"metadata": {"annotations": {CORDONED_BY: null}}});
        self.patch_node(&format!("change node {name}"), name, &patch).await
    }

    async fn patch_node(&self, what: &str, name: &str, patch: &serde_json::Value) -> Result<(), Unwritten> {
        let nodes = Api::<Node>::all(self.client.clone());
        let patch = Patch::Merge(patch);
        self.ask(what, nodes.patch(name, &PatchParams::default(), &patch)).await.map(drop)
    }

    /// Returns the nodes that an earlier plan has cordoned.
    ///
    /// # Errors
    /// Fails if nodes cannot be listed.
    pub async fn marked_nodes(&self) -> Result<Vec<String>, Unwritten> {
        let nodes = Api::<Node>::all(self.client.clone());
        let nodes = self.ask("list nodes", nodes.list(&ListParams::default())).await?;
        let mark = self.mark();
        let marked = nodes.items.iter().filter(|node| node.annotations().get(CORDONED_BY) == Some(&mark));
        Ok(marked.map(ResourceExt::name_any).collect())
    }

    /// Returns a pod; `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if the pod cannot be read.
    pub async fn pod(&self, namespace: &str, name: &str) -> Result<Option<Pod>, Unwritten> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace);
        self.ask(&format!("read pod {namespace}/{name}"), pods.get_opt(name)).await
    }

    /// Returns the pods of a namespace that the controller with this uid owns.
    ///
    /// # Errors
    /// Fails if pods cannot be listed.
    pub async fn pods_of(&self, namespace: &str, controller: &str) -> Result<Vec<Pod>, Unwritten> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let pods = self.ask(&format!("list pods of {namespace}"), pods.list(&ListParams::default())).await?;
        let owned = pods.items.into_iter().filter(|pod| controller_of(pod) == Some(controller));
        Ok(owned.collect())
    }

    /// Evicts a pod through the Eviction API, which respects disruption budgets.
    ///
    /// # Errors
    /// Fails if the eviction is refused, or if the pod is another one by now.
    pub async fn evict(&self, namespace: &str, name: &str, uid: &str) -> Result<(), Unwritten> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let same = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let delete = DeleteParams { preconditions: Some(same), ..DeleteParams::default() };
        let params = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
        self.ask(&format!("evict pod {namespace}/{name}"), pods.evict(name, &params)).await.map(drop)
    }

    /// Takes the Lease.
    ///
    /// # Errors
    /// Fails if another plan holds it.
    pub async fn take_lease(&self, holder: &str) -> Result<Lease, Unwritten> {
        let leases = Api::<Lease>::namespaced(self.client.clone(), &self.namespace);
        let what = format!("take the Lease {}", self.mark());
        let now = Timestamp::now();
        let Some(mut lease) = self.ask(&what, leases.get_opt(LEASE)).await? else {
            let metadata = ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(held(holder, now)) };
            return self.ask(&what, leases.create(&PostParams::default(), &lease)).await;
        };
        let spec = lease.spec.take().unwrap_or_default();
        if let (Some(other), Some(MicroTime(renewed))) = (&spec.holder_identity, spec.renew_time)
            && !other.is_empty()
        {
            let until = renewed + SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or(0).into());
            if now < until {
                return Err(Unwritten::Later(format!(
                    "{other} carries out another plan; wait until it is done, or if it was killed, until {until:.0}"
                )));
            }
        }
        lease.spec = Some(held(holder, now));
        self.ask(&what, leases.replace(LEASE, &PostParams::default(), &lease)).await
    }

    /// Renews the Lease, or gives it back without a `holder`.
    ///
    /// # Errors
    /// Fails if the Lease was changed by another.
    pub async fn renew_lease(&self, mut lease: Lease, holder: Option<&str>) -> Result<Lease, Unwritten> {
        let leases = Api::<Lease>::namespaced(self.client.clone(), &self.namespace);
        let taken = lease.spec.as_ref().and_then(|spec| spec.acquire_time.clone());
        let spec = held(holder.unwrap_or_default(), Timestamp::now());
        lease.spec = Some(LeaseSpec { acquire_time: taken, ..spec });
        let what = format!("renew the Lease {}", self.mark());
        self.ask(&what, leases.replace(LEASE, &PostParams::default(), &lease)).await
    }
}

/// Returns the content of a Lease that is held from now on.
fn held(holder: &str, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(LEASE_SECONDS.into()),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        ..LeaseSpec::default()
    }
}

/// Returns the uid of a pod's controller.
pub fn controller_of(pod: &Pod) -> Option<&str> {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}
