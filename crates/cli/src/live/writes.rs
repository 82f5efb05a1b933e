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
use tokio::time::{sleep, timeout};

/// Annotation of the nodes that a plan has cordoned.
pub const CORDONED_BY: &str = "supercargo.dev/cordoned-by";
/// Taint of cordoned nodes. The node lifecycle controller sets and removes it.
const CORDON_TAINT: &str = "node.kubernetes.io/unschedulable";
/// Name of the Lease.
pub const LEASE: &str = "supercargo-plan";
/// How long the Lease stays valid without renewal, in seconds: three renewals may fail.
pub const LEASE_SECONDS: u16 = 30;
/// Maximum duration that is taken seriously in the Lease of another plan: ten times the own one.
const LEASE_SECONDS_MAX: i32 = 300;

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

    /// Whether a node keeps pods off as a cordoned one does. Its taint comes and goes later than `spec.unschedulable`.
    ///
    /// # Errors
    /// Fails if the node cannot be read.
    pub async fn is_cordoned(&self, name: &str) -> Result<bool, Unwritten> {
        let nodes = Api::<Node>::all(self.client.clone());
        let spec = self.ask(&format!("read node {name}"), nodes.get(name)).await?.spec.unwrap_or_default();
        let is_tainted = spec.taints.iter().flatten().any(|taint| taint.key == CORDON_TAINT);
        Ok(is_tainted || spec.unschedulable == Some(true))
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

    /// Takes the Lease. One whose holder seems to be gone is taken once it did not change for its duration: the clocks
    /// of two machines may differ.
    ///
    /// # Errors
    /// Fails if another plan holds it.
    pub async fn take_lease(&self, holder: &str) -> Result<(), Unwritten> {
        let what = format!("take the Lease {}", self.mark());
        let Some(mut lease) = self.ask(&what, self.leases().get_opt(LEASE)).await? else {
            let metadata = ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(held(holder, Timestamp::now())) };
            return self.ask(&what, self.leases().create(&PostParams::default(), &lease)).await.map(drop);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let other = spec.holder_identity.filter(|other| !other.is_empty() && other != holder);
        if let (Some(other), Some(MicroTime(renewed))) = (other, spec.renew_time) {
            let seconds = spec.lease_duration_seconds.unwrap_or(0).clamp(0, LEASE_SECONDS_MAX);
            let duration = Duration::from_secs(seconds.unsigned_abs().into());
            let is_live = Timestamp::now() < renewed + SignedDuration::from_secs(seconds.into());
            if is_live || self.is_renewed(&lease, duration).await? {
                return Err(Unwritten::Later(format!(
                    "{other} carries out another plan; wait until it is done, or if it was killed, {duration:?}"
                )));
            }
        }
        lease.spec = Some(held(holder, Timestamp::now()));
        self.ask(&what, self.leases().replace(LEASE, &PostParams::default(), &lease)).await.map(drop)
    }

    /// Whether a Lease changes within this time.
    async fn is_renewed(&self, lease: &Lease, within: Duration) -> Result<bool, Unwritten> {
        sleep(within).await;
        let now = self.ask(&format!("read the Lease {}", self.mark()), self.leases().get_opt(LEASE)).await?;
        Ok(now.is_none_or(|now| now.metadata.resource_version != lease.metadata.resource_version))
    }

    /// Renews the Lease, or gives it back. An earlier renewal whose answer was lost makes no difference.
    ///
    /// # Errors
    /// Fails with [`Unwritten::Changed`] if another plan holds it.
    pub async fn renew_lease(&self, holder: &str, gives_back: bool) -> Result<(), Unwritten> {
        let what = format!("renew the Lease {}", self.mark());
        let mut lease = self.ask(&what, self.leases().get(LEASE)).await?;
        let before = lease.spec.take().unwrap_or_default();
        if before.holder_identity.as_deref() != Some(holder) {
            return Err(Unwritten::Changed(format!("cannot {what}: another plan holds it")));
        }
        let spec = held(if gives_back { "" } else { holder }, Timestamp::now());
        lease.spec = Some(LeaseSpec { acquire_time: before.acquire_time, ..spec });
        match self.ask(&what, self.leases().replace(LEASE, &PostParams::default(), &lease)).await {
            // It changed in between; who holds it is seen the next time.
            Err(Unwritten::Changed(text)) => Err(Unwritten::Later(text)),
            written => written.map(drop),
        }
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
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
