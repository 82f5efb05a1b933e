//! One test's part of the shared control plane: a namespace, a scheduler of that name with the manifests'
//! permissions, and nodes that accept only this test's pods.
//!
//! Other tests add and remove nodes concurrently, so messages that count all nodes vary. A test of such messages
//! starts its own control plane.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::harness::nodes::CONTROL_PLANE;
use crate::harness::objects::{
    condition_text, create_namespace, node_of, pod, service_account_token, wait_until_bound,
};
use crate::harness::supercargo::{self, NAME, Setup, Supercargo};
use crate::harness::wait::PATIENCE;
use crate::harness::{ControlPlane, KwokNode, shared, wait_for};

/// Label and taint key that reserve a test's nodes for its pods.
const KEPT_FOR: &str = "kept-for";

/// Creates a pod, retrying lost requests.
pub(crate) async fn create_once(pods: Api<Pod>, pod: Pod) -> Result<()> {
    let name = pod.name_any();
    wait_for(&format!("pod {name} to be created"), PATIENCE, || async {
        match pods.create(&PostParams::default(), &pod).await {
            Ok(_) => Ok(()),
            // The pod exists: the answer to an earlier attempt was lost.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

/// Returns the shared control plane with `manifests/base` applied.
pub(crate) async fn installed() -> Result<&'static ControlPlane> {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let plane = shared().await;
    let install = || async {
        // The Deployment's pod prefers control plane nodes; without one it would occupy a test's node.
        let node =
            KwokNode::new("control-plane").label(CONTROL_PLANE, "").taint(CONTROL_PLANE, "", "NoSchedule");
        node.create(&plane.client().await?).await?;
        supercargo::install(plane).await
    };
    INSTALLED.get_or_try_init(install).await?;
    Ok(plane)
}

/// A test's part of the cluster.
pub(crate) struct World<'a> {
    pub(crate) plane: &'a ControlPlane,
    pub(crate) client: Client,
    /// Name of the namespace and of the scheduler.
    pub(crate) name: String,
    pub(crate) supercargo: Supercargo,
    /// Token of a reader of metrics.
    reader: String,
}

/// Plays `story` in its own world. Errors include the ends of the logs of its schedulers. Denied requests are errors.
pub(crate) async fn play<F>(prefix: &str, story: F) -> Result<()>
where
    F: AsyncFnOnce(&mut World<'_>) -> Result<()>,
{
    play_on(installed().await?, prefix, story).await
}

/// Plays `story` on a control plane with the manifests.
pub(crate) async fn play_on<F>(plane: &ControlPlane, prefix: &str, story: F) -> Result<()>
where
    F: AsyncFnOnce(&mut World<'_>) -> Result<()>,
{
    let mut world = World::new(plane, prefix).await?;
    let outcome = match story(&mut world).await {
        Ok(()) => world.supercargo.check().and_then(|()| world.supercargo.check_rights()),
        Err(error) => Err(error),
    };
    outcome.with_context(|| {
        let others =
            world.supercargo.log_tails_beside(&world.name).unwrap_or_else(|error| format!("{error:#}"));
        format!("{}\n{others}", world.supercargo.log_tail())
    })?;
    world.clear().await
}

impl<'a> World<'a> {
    async fn new(plane: &'a ControlPlane, prefix: &str) -> Result<Self> {
        let (admin, client) = (plane.admin(), plane.client().await?);
        let name = create_namespace(&client, prefix).await?;
        for account in [NAME, "reader"] {
            admin.kubectl(&["create", "serviceaccount", account, "-n", &name]).await?;
        }
        supercargo::grant(&admin, &name, NAME).await?;
        let (binding, subject) = (format!("{name}-reader"), format!("--serviceaccount={name}:reader"));
        let role = "--clusterrole=supercargo-metrics-reader";
        admin.kubectl(&["create", "clusterrolebinding", &binding, role, &subject]).await?;
        let reader = service_account_token(&client, &name, "reader").await?;
        let mut supercargo = Setup::called(&name).launch(plane).await?;
        supercargo.wait_until_ready().await?;
        Ok(Self { plane, client, name, supercargo, reader })
    }

    /// Grants the scheduler the right to contend for leases in the namespace.
    pub(crate) async fn allow_election(&self) -> Result<()> {
        let (admin, namespace) = (self.plane.admin(), self.name.as_str());
        let leases = "--resource=leases.coordination.k8s.io";
        admin
            .kubectl(&["create", "role", "lead", "--verb=get,create,update", leases, "-n", namespace])
            .await?;
        let account = format!("--serviceaccount={namespace}:{NAME}");
        admin.kubectl(&["create", "rolebinding", "lead", "--role=lead", &account, "-n", namespace]).await?;
        Ok(())
    }

    /// Restarts the scheduler with leader election. The lease has the namespace's name and is in it.
    pub(crate) async fn elect(&mut self) -> Result<()> {
        self.allow_election().await?;
        self.supercargo.terminate()?;
        let mut setup = Setup::called(&self.name);
        setup.configuration = supercargo::elected_configuration(&self.name);
        self.supercargo = setup.launch(self.plane).await?;
        self.supercargo.wait_until_ready().await
    }

    /// Restarts the scheduler with JSON as its content type.
    pub(crate) async fn read_json(&mut self) -> Result<()> {
        self.supercargo.terminate()?;
        let mut setup = Setup::called(&self.name);
        setup.configuration.push_str("clientConnection:\n  acceptContentTypes: application/json\n");
        self.supercargo = setup.launch(self.plane).await?;
        self.supercargo.wait_until_ready().await
    }

    /// Returns a client of the namespace's pods.
    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Describes a node reserved for this test's pods. Its name begins with the namespace's.
    pub(crate) fn node(&self, name: &str) -> KwokNode {
        let name = format!("{}-{name}", self.name);
        KwokNode::new(&name).label(KEPT_FOR, &self.name).taint(KEPT_FOR, &self.name, "NoSchedule")
    }

    /// Builds a pod for those nodes and this scheduler, unless `spec` says otherwise.
    pub(crate) fn pod(&self, name: &str, spec: &Value) -> Result<Pod> {
        let mut spec = spec.clone();
        if spec["nodeSelector"].is_null() {
            spec["nodeSelector"] = json!({});
        }
        spec["nodeSelector"][KEPT_FOR] = json!(self.name);
        if spec["tolerations"].is_null() {
            spec["tolerations"] = json!([]);
        }
        let tolerations = spec["tolerations"].as_array_mut().context("tolerations are a list")?;
        tolerations.push(json!({"key": KEPT_FOR, "operator": "Exists"}));
        pod(name, &self.name, &spec)
    }

    /// Creates such a pod.
    pub(crate) async fn create(&self, name: &str, spec: &Value) -> Result<Pod> {
        let pod = self.pod(name, spec)?;
        self.pods()
            .create(&PostParams::default(), &pod)
            .await
            .with_context(|| format!("cannot create pod {name}"))
    }

    /// Deletes a pod and waits until it is gone.
    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        let pods = self.pods();
        pods.delete(name, &DeleteParams::default()).await?;
        wait_for(&format!("pod {name} to be gone"), PATIENCE, || async {
            ensure!(pods.get_opt(name).await?.is_none(), "it still exists");
            Ok(())
        })
        .await
    }

    /// Waits until the pod has a node and returns the node's name.
    pub(crate) async fn bound(&self, name: &str) -> Result<String> {
        wait_until_bound(&self.client, &self.name, name).await
    }

    /// Waits until the pod is reported unschedulable with a message that contains `text`, and returns it.
    pub(crate) async fn waiting(&self, name: &str, text: &str) -> Result<Pod> {
        let pods = self.pods();
        wait_for(&format!("pod {name} to be pending because of {text:?}"), PATIENCE, || async {
            let pod = pods.get(name).await?;
            ensure!(node_of(&pod).is_none(), "it has a node, {:?}", node_of(&pod));
            let condition = scheduled_condition(&pod).filter(|condition| condition.status == "False");
            let message = condition.and_then(|condition| condition.message.as_deref()).unwrap_or_default();
            ensure!(message.contains(text), "{}", condition_text(&pod));
            Ok(pod)
        })
        .await
    }

    /// Waits for an event with this reason about the pod, and returns all such events.
    pub(crate) async fn events(&self, pod: &str, reason: &str) -> Result<Vec<Event>> {
        let api = Api::<Event>::namespaced(self.client.clone(), &self.name);
        wait_for(&format!("an event {reason} about {pod}"), PATIENCE, || async {
            let all = api.list(&ListParams::default()).await?.items;
            let about = |event: &Event| event.regarding.as_ref().and_then(|object| object.name.clone());
            let found: Vec<Event> = all
                .into_iter()
                .filter(|event| {
                    event.reason.as_deref() == Some(reason) && about(event).as_deref() == Some(pod)
                })
                .collect();
            ensure!(!found.is_empty(), "there is none");
            Ok(found)
        })
        .await
    }

    /// Returns a token that may read metrics.
    pub(crate) fn reader(&self) -> &str {
        &self.reader
    }

    /// Returns the scheduler's metrics.
    pub(crate) async fn metrics(&self) -> Result<String> {
        let (status, body) = self.supercargo.get("/metrics", Some(self.reader())).await?;
        ensure!(status == 200, "/metrics answers {status}: {body}");
        Ok(body)
    }

    /// Waits until a series, as written in the metrics, has this value.
    pub(crate) async fn counted(&self, series: &str, value: f64) -> Result<()> {
        wait_for(&format!("{series} to be {value}"), PATIENCE, || async {
            let seen = sample(&self.metrics().await?, series);
            // The values compared here are counts: exact in a float.
            ensure!(seen == Some(value), "it is {seen:?}");
            Ok(())
        })
        .await
    }

    /// Deletes cluster-scoped objects that could affect other tests. The namespace terminates in the background.
    async fn clear(self) -> Result<()> {
        drop(self.supercargo);
        let kept = ListParams::default().labels(&format!("{KEPT_FOR}={}", self.name));
        Api::<Node>::all(self.client).delete_collection(&DeleteParams::default(), &kept).await?;
        let admin = self.plane.admin();
        supercargo::revoke(&admin, &self.name).await?;
        admin.kubectl(&["delete", "namespace", &self.name, "--wait=false"]).await?;
        Ok(())
    }
}

/// Returns the pod's condition PodScheduled.
pub(crate) fn scheduled_condition(pod: &Pod) -> Option<&PodCondition> {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == "PodScheduled")
}

/// Returns the value of a series in a scrape.
pub(crate) fn sample(scrape: &str, series: &str) -> Option<f64> {
    scrape.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

/// Returns a pod spec with one container and these requests.
pub(crate) fn requesting(requests: &Value) -> Value {
    json!({"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}]})
}

/// Returns the CPU requests of non-terminal pods per node, in millicores.
pub(crate) fn requested_cpu_milli(pods: &[Pod]) -> Result<BTreeMap<String, u64>> {
    let mut by_node = BTreeMap::new();
    for pod in pods {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let Some(node) = node_of(pod).filter(|_| !matches!(phase, "Succeeded" | "Failed")) else { continue };
        for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
            let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
            let cpu = requests.and_then(|requests| requests.get("cpu")).map_or("0", |quantity| &quantity.0);
            let milli = match cpu.strip_suffix('m') {
                Some(milli) => milli.parse::<u64>(),
                None => cpu.parse::<u64>().map(|cpus| cpus * 1000),
            };
            let milli = milli.with_context(|| format!("pod {} requests {cpu}", pod.name_any()))?;
            *by_node.entry(node.to_owned()).or_default() += milli;
        }
    }
    Ok(by_node)
}
