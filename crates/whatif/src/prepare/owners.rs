//! Owners of pods, and workloads with the pods their templates would make. Built only for commands that need
//! it; no decision reads owners.

pub use crate::load::owner::Owner;

use crate::explain::BudgetState;
use crate::load::files::{Item, Wrong, text_at};
use crate::load::owner::TEMPLATE_HASH;
use crate::prepare::expand::{self, is_workload};
use crate::prepare::identity::{key, set};
use crate::prepare::job::has_finished;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use supercargo_core::model::pod::PodInfo;

/// Path from a workload to the fields of its pods.
const TEMPLATE: &str = "spec.template.";
const JOB_TEMPLATE: &str = "spec.jobTemplate.spec.template.";
/// Prefix of the built-in PriorityClasses, which always exist.
const SYSTEM_CLASSES: &str = "system-";

/// Pods and workloads of a cluster.
#[derive(Default)]
pub struct Owners {
    /// Unfinished pods, in the order they were read.
    pub pods: Vec<OwnedPod>,
    /// Pods of the given files that are not part of the cluster.
    pub to_come: Vec<OwnedPod>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// State of the disruption budgets, by `namespace/name`.
    pub budgets: BTreeMap<String, BudgetState>,
    /// ReplicaSets and StatefulSets of an API server's list, kept until the list is complete.
    listed: Vec<Item>,
    /// Whether the template pods of StatefulSets have claims of their own, so that replicas can be copied from them.
    mounts_claims: bool,
    /// Workloads whose template pods are passing admission.
    templates: VecDeque<Workload>,
}

/// A pod with metadata that is shown to users but not read by decisions.
#[derive(Clone, Debug)]
pub struct OwnedPod {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Its controller.
    pub owner: Option<Owner>,
    /// Whether it is a mirror pod, which a kubelet runs from a static manifest.
    pub is_mirror: bool,
    /// Whether it has an emptyDir volume.
    pub has_empty_dir: bool,
    /// Whether its phase is Pending.
    pub is_pending: bool,
    /// Whether its Ready condition is true.
    pub is_ready: bool,
    /// Creation timestamp as the API server writes it.
    pub created: Box<str>,
    /// What programs that move pods read of it.
    pub eviction: EvictionNotes,
}

/// What cluster-autoscaler reads of a pod before it evicts it (`cluster-autoscaler.kubernetes.io/safe-to-evict`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictionNotes {
    /// Whether an annotation says that the pod may be evicted, or that it must not be.
    pub is_safe: Option<bool>,
    /// Whether the pod keeps data on its node: an emptyDir or hostPath volume that no annotation gives up.
    pub has_local_data: bool,
}

impl EvictionNotes {
    /// Reads the annotations and volumes of a pod.
    fn of(pod: &Value) -> Self {
        let annotation = |name: &str| {
            let annotations = pod.pointer("/metadata/annotations")?;
            annotations.get(format!("cluster-autoscaler.kubernetes.io/{name}"))?.as_str()
        };
        let is_safe = match annotation("safe-to-evict") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        let given_up: Vec<&str> =
            annotation("safe-to-evict-local-volumes").unwrap_or_default().split(',').map(str::trim).collect();
        let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
        let is_local =
            |volume: &Value| ["emptyDir", "hostPath"].iter().any(|kind| volume.get(kind).is_some());
        let is_kept = |volume: &&Value| is_local(volume) && !given_up.contains(&text_at(volume, "/name"));
        let has_local_data = is_safe != Some(true) && volumes.into_iter().flatten().any(|it| is_kept(&it));
        Self { is_safe, has_local_data }
    }
}

impl OwnedPod {
    /// Returns whether the pod is bound to its node for life: a mirror pod, or one owned by a DaemonSet or
    /// Node.
    pub fn is_of_its_node(&self) -> bool {
        let kind = self.owner.as_ref().map_or("", |owner| &*owner.kind);
        self.is_mirror || matches!(kind, "DaemonSet" | "Node")
    }

    /// Returns a function that attaches this object's metadata to its decoded pod.
    pub fn of(item: &Item) -> impl FnOnce(Arc<PodInfo>) -> Self + use<> {
        let created = item.text("/metadata/creationTimestamp").into();
        let is_mirror = item.value.pointer("/metadata/annotations/kubernetes.io~1config.mirror").is_some();
        let owner = Owner::of(&item.value);
        let volumes = item.value.pointer("/spec/volumes").and_then(Value::as_array);
        let has_empty_dir = volumes.into_iter().flatten().any(|volume| volume.get("emptyDir").is_some());
        let is_pending = item.text("/status/phase") == "Pending";
        let conditions = item.value.pointer("/status/conditions").and_then(Value::as_array);
        let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
        let is_ready = ready.is_some_and(|ready| ready["status"] == "True");
        let eviction = EvictionNotes::of(&item.value);
        move |pod| Self { pod, owner, is_mirror, has_empty_dir, is_pending, is_ready, created, eviction }
    }
}

/// An object that makes pods.
#[derive(Clone, Debug)]
pub struct Workload {
    /// `kind`.
    pub kind: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// Number of pods it runs at once; `None` for one per node.
    pub replicas: Option<usize>,
    /// Ordinal of its first pod, if its pods have ordinals.
    pub first: usize,
    /// Number of extra pods a rollout creates before it deletes one; 0 if it deletes first.
    pub surge: usize,
    /// Path prefix of its pods' fields.
    pub prefix: &'static str,
    /// PriorityClass it names that does not exist; `None` if the classes are not known.
    pub missing_class: Option<String>,
    /// Name and StorageClass of each claim template of a StatefulSet; the class is empty if unset.
    pub claim_templates: Vec<(String, String)>,
    /// ResourceClaimTemplates it names that do not exist; empty if no templates are known.
    pub missing_claim_templates: Vec<String>,
    /// Pod that its template makes.
    pub pod: Option<Arc<PodInfo>>,
}

impl Owners {
    /// Returns an empty census for scaling: pods to come can be copied from the template pods of StatefulSets, since
    /// these have claims from the set's templates.
    pub fn for_scaling() -> Self {
        Self { mounts_claims: true, ..Self::default() }
    }

    /// Keeps the state of a disruption budget, and a workload of an API server's list for [`Self::listed`].
    pub fn keep(&mut self, item: &Item) {
        if item.kind() == "PodDisruptionBudget" {
            let (namespace, name) = place(item.namespace(), item.name());
            self.budgets.insert(format!("{namespace}/{name}"), budget_state(&item.value));
        }
        if is_workload(item) {
            self.listed.push(item.clone());
        }
    }

    /// Returns the workloads of the list and clears them.
    pub fn listed(&mut self) -> Vec<Item> {
        std::mem::take(&mut self.listed)
    }

    /// Removes workloads from the objects of a cluster, except kinds the engine reads itself. Returns one pod
    /// for each, which must pass admission like other pods. [`Self::admitted`] expects them in this order.
    pub fn templates(&mut self, items: &mut Vec<Item>) -> Result<Vec<Item>, (Item, Wrong)> {
        let of = |kind: &str| {
            let names = items.iter().filter(|item| item.kind() == kind).map(|item| item.name().to_owned());
            names.collect::<BTreeSet<String>>()
        };
        let (priorities, runtimes) = (of("PriorityClass"), of("RuntimeClass"));
        let claim_templates: BTreeSet<(String, String)> = items
            .iter()
            .filter(|item| item.kind() == "ResourceClaimTemplate")
            .map(|item| place(item.namespace(), item.name()))
            .collect();
        let is_deployment = |item: &&Item| item.kind() == "Deployment";
        let deployments: BTreeSet<(String, String)> =
            items.iter().filter(is_deployment).map(|item| place(item.namespace(), item.name())).collect();
        let (mut pods, mut claims) = (Vec::new(), Vec::new());
        for item in items.iter().filter(|item| is_workload(item)) {
            let Some(mut workload) = workload(item) else { continue };
            let is_made_by_another = item.kind() == "ReplicaSet" && workload.kind == "Deployment";
            // Old ReplicaSets of a Deployment have no pods; the Deployment itself is already counted.
            let is_counted = is_made_by_another
                && (workload.replicas == Some(0)
                    || deployments.contains(&place(&workload.namespace, &workload.name)));
            if is_counted {
                continue;
            }
            let mut pod = template_pod(item, &workload).map_err(|wrong| (item.clone(), wrong))?;
            if workload.kind == "StatefulSet" && self.mounts_claims {
                claims.extend(mount(&mut pod, item, &workload).map_err(|wrong| (item.clone(), wrong))?);
            }
            let named = |field: &str| pod.text(&format!("/spec/{field}")).to_owned();
            let (priority, runtime) = (named("priorityClassName"), named("runtimeClassName"));
            let mut forget = |field: &str| set(&mut pod.value, &["spec", field], Value::Null);
            if !priorities.contains(&priority) && !priority.starts_with(SYSTEM_CLASSES) {
                workload.missing_class =
                    Some(priority).filter(|name| !name.is_empty() && !priorities.is_empty());
                forget("priorityClassName");
            }
            if !runtimes.contains(&runtime) {
                forget("runtimeClassName");
            }
            let entries = pod.value.pointer("/spec/resourceClaims").and_then(Value::as_array);
            let named = entries.into_iter().flatten().map(|it| text_at(it, "/resourceClaimTemplateName"));
            let missing = named.filter(|name| {
                !name.is_empty() && !claim_templates.contains(&place(&workload.namespace, name))
            });
            workload.missing_claim_templates =
                missing.filter(|_| !claim_templates.is_empty()).map(str::to_owned).collect();
            pods.push(pod);
            self.templates.push_back(workload);
        }
        let is_read_for_itself = |item: &Item| matches!(item.kind(), "ReplicaSet" | "StatefulSet");
        items.retain(|item| !is_workload(item) || is_read_for_itself(item));
        items.append(&mut claims);
        Ok(pods)
    }

    /// Receives the next pod of [`Self::templates`] after admission; `None` if it cannot be decoded.
    pub fn admitted(&mut self, pod: Option<Arc<PodInfo>>) {
        if let Some(workload) = self.templates.pop_front() {
            self.workloads.push(Workload { pod, ..workload });
        }
    }
}

/// Returns the state of a disruption budget that only the eviction API reads.
pub(crate) fn budget_state(budget: &Value) -> BudgetState {
    let number = |at: &str| budget.pointer(at).and_then(Value::as_i64).unwrap_or(0);
    let policy = budget.pointer("/spec/unhealthyPodEvictionPolicy");
    BudgetState {
        always_allows_unready: policy.is_some_and(|policy| policy == "AlwaysAllow"),
        current_healthy: number("/status/currentHealthy"),
        desired_healthy: number("/status/desiredHealthy"),
        is_outdated: number("/status/observedGeneration") < number("/metadata/generation"),
    }
}

fn place(namespace: &str, name: &str) -> (String, String) {
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    (namespace.to_owned(), name.to_owned())
}

/// Returns namespace, kind and name of the workloads among the objects. A ReplicaSet of a Deployment counts as the
/// Deployment.
pub fn workloads_among(items: &[Item]) -> BTreeSet<(String, String, String)> {
    items.iter().filter(|item| is_workload(item)).map(namespace_kind_and_name).collect()
}

fn namespace_kind_and_name(item: &Item) -> (String, String, String) {
    let made_by = item.owner().filter(|owner| &*owner.kind == "Deployment");
    let owner = made_by.filter(|_| item.kind() == "ReplicaSet");
    let (kind, name) = match &owner {
        Some(owner) => (&*owner.kind, &*owner.name),
        None => (item.kind(), item.name()),
    };
    let (namespace, name) = place(item.namespace(), name);
    (namespace, kind.to_owned(), name)
}

/// Reads a workload without its pod; `None` if it makes no pods: suspended, or a finished Job.
fn workload(item: &Item) -> Option<Workload> {
    let is_set = |field: &str| item.value.pointer(field) == Some(&Value::Bool(true));
    let number = |field: &str| item.value.pointer(field).and_then(Value::as_u64);
    let number = |field: &str| number(field).map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    let at_once = |spec: &str| {
        let parallel = number(&format!("{spec}/parallelism")).unwrap_or(1);
        parallel.min(number(&format!("{spec}/completions")).unwrap_or(usize::MAX))
    };
    if is_set("/spec/suspend") || (item.kind() == "Job" && has_finished(&item.value)) {
        return None;
    }
    let replicas = match item.kind() {
        "DaemonSet" => None,
        "Job" => Some(at_once("/spec")),
        "CronJob" => Some(at_once("/spec/jobTemplate/spec")),
        _ => Some(number("/spec/replicas").unwrap_or(1)),
    };
    let (namespace, kind, name) = namespace_kind_and_name(item);
    let prefix = if item.kind() == "CronJob" { JOB_TEMPLATE } else { TEMPLATE };
    let surge = if item.kind() == "Deployment" { surge(&item.value, replicas.unwrap_or(1)) } else { 0 };
    let (missing_class, pod, claim_templates) = (None, None, claim_templates(&item.value));
    let first = number("/spec/ordinals/start").unwrap_or(0);
    Some(Workload {
        kind,
        namespace,
        name,
        replicas,
        first,
        surge,
        prefix,
        missing_class,
        claim_templates,
        missing_claim_templates: Vec::new(),
        pod,
    })
}

fn claim_templates(workload: &Value) -> Vec<(String, String)> {
    let templates = workload.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
    let text = |template: &Value, at: &str| text_at(template, at).to_owned();
    let each = templates.into_iter().flatten();
    each.map(|it| (text(it, "/metadata/name"), text(it, "/spec/storageClassName"))).collect()
}

/// Returns how many pods above the replica count a rollout needs when it may delete none first (upstream
/// `pkg/controller/deployment/util#ResolveFenceposts`). 0 if rules separate pods by their template hash.
fn surge(deployment: &Value, replicas: usize) -> usize {
    let tells_apart =
        deployment.pointer("/spec/template").is_some_and(|it| it.to_string().contains(TEMPLATE_HASH));
    if tells_apart || deployment.pointer("/spec/strategy/type").is_some_and(|of| of == "Recreate") {
        return 0;
    }
    let part = |field: &str, up: bool| {
        let given = deployment.pointer(&format!("/spec/strategy/rollingUpdate/{field}"));
        let given = given.filter(|given| !given.is_null());
        let percent = given.map_or(Some(25), |text| text.as_str()?.strip_suffix('%')?.parse::<usize>().ok());
        match percent {
            Some(percent) if up => replicas.saturating_mul(percent).div_ceil(100),
            Some(percent) => replicas.saturating_mul(percent) / 100,
            None => given.and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok()).unwrap_or(0),
        }
    };
    let (surge, unavailable) = (part("maxSurge", true), part("maxUnavailable", false));
    if unavailable == 0 { surge } else { 0 }
}

/// Builds the pod that the workload's template makes. Its name contains a slash, so it equals no real pod's.
fn template_pod(item: &Item, workload: &Workload) -> Result<Item, Wrong> {
    let pointer = if item.kind() == "CronJob" { "/spec/jobTemplate/spec/template" } else { "/spec/template" };
    let template = item.value.pointer(pointer).cloned().unwrap_or_default();
    let like = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": { "name": workload.name, "namespace": workload.namespace, "uid": key(&item.value) },
        "spec": { "replicas": 1, "template": template },
    });
    let origin = item.origin;
    let mut made = expand::expand(&Item::new(like, origin), &[])?;
    let mut pod = made.pods.pop().ok_or_else(|| Wrong::new("spec", "expected a pod template"))?;
    pod.origin = origin.within(workload.prefix);
    for (key, value) in controllers_labels(workload) {
        set(&mut pod.value, &["metadata", "labels", key], value.into());
    }
    set(&mut pod.value, &["metadata", "name"], format!("{}/{}", workload.kind, workload.name).into());
    let uid = format!("{}/{}/{}", workload.kind, workload.namespace, workload.name);
    set(&mut pod.value, &["metadata", "uid"], uid.into());
    Ok(pod)
}

/// Adds the volumes of a StatefulSet's claim templates to its template pod and returns the claims. Claim
/// names end in the pod's name.
fn mount(pod: &mut Item, item: &Item, workload: &Workload) -> Result<Vec<Item>, Wrong> {
    let mut one = item.value.clone();
    set(&mut one, &["spec", "replicas"], 1.into());
    set(&mut one, &["spec", "ordinals"], Value::Null);
    let made = expand::expand(&Item::new(one, item.origin), &[])?;
    let Some(first) = made.pods.first() else { return Ok(Vec::new()) };
    let renamed = |text: &str| {
        let of = text.strip_suffix(&format!("-{}-0", item.name()));
        of.map(|of| format!("{of}-{}/{}", workload.kind, workload.name))
    };
    let mut volumes = first.value.pointer("/spec/volumes").cloned().unwrap_or_default();
    for volume in volumes.as_array_mut().into_iter().flatten() {
        let name = volume.pointer("/persistentVolumeClaim/claimName").and_then(Value::as_str);
        if let Some(name) = name.and_then(renamed) {
            volume["persistentVolumeClaim"]["claimName"] = name.into();
        }
    }
    set(&mut pod.value, &["spec", "volumes"], volumes);
    let owners = first.value.pointer("/metadata/ownerReferences").cloned().unwrap_or_default();
    set(&mut pod.value, &["metadata", "ownerReferences"], owners);
    let claims = made.objects.into_iter().map(|mut claim| {
        if let Some(name) = renamed(claim.name()) {
            let uid = format!("PersistentVolumeClaim/{}/{name}", workload.namespace);
            set(&mut claim.value, &["metadata", "uid"], uid.into());
            set(&mut claim.value, &["metadata", "name"], name.into());
        }
        claim
    });
    Ok(claims.collect())
}

/// Returns the labels a controller adds to its pods, with the values of the first pod, since selectors may
/// match them.
fn controllers_labels(workload: &Workload) -> Vec<(&'static str, String)> {
    let name = || workload.name.clone();
    match workload.kind.as_str() {
        "Job" => vec![("batch.kubernetes.io/job-name", name()), ("job-name", name())],
        "StatefulSet" => vec![
            ("statefulset.kubernetes.io/pod-name", format!("{}-0", workload.name)),
            ("apps.kubernetes.io/pod-index", "0".to_owned()),
        ],
        _ => Vec::new(),
    }
}
