//! Expands workloads into the pods and other objects that their controllers would create.
//!
//! A workload counts as new: existing pods are not considered here. All pods are created at once, even where a
//! controller would wait between pods. Upstream: `pkg/controller`.

mod daemon_set;
pub mod device_claims;
mod job;
mod replicas;
mod stateful_set;
#[cfg(test)]
mod tests;

use crate::load::files::{Item, Origin, Wrong, text_at};
use crate::prepare::identity::{controlled_by, derived_uid};
use serde_json::{Map, Value, json};

/// Path prefix of the pod in a workload with a direct template.
const TEMPLATE: &str = "spec.template.";

/// Maximum number of pods per workload, as for `--scale`. Kubernetes supports 150,000 pods in total.
pub(super) const PODS_MAX: usize = 100_000;

/// The objects that a workload expands to.
#[derive(Debug, Default)]
pub struct Expanded {
    /// The pods, in order of creation.
    pub pods: Vec<Item>,
    /// Other objects that the scheduler reads: a ReplicaSet, claims.
    pub objects: Vec<Item>,
}

impl Expanded {
    fn add_pod(&mut self, pod: Value, origin: Origin) {
        self.pods.push(Item::new(pod, origin));
    }
}

/// Returns whether objects of this kind are expanded into pods.
pub fn is_workload(item: &Item) -> bool {
    let kinds = [
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
    ];
    kinds.contains(&(item.text("/apiVersion"), item.kind()))
}

/// Expands a workload; `nodes` are the nodes of the cluster, in order.
///
/// # Errors
/// Fails if the workload has no pod template or selector, or an invalid or too large number of pods.
pub fn expand(item: &Item, nodes: &[Value]) -> Result<Expanded, Wrong> {
    let origin = item.origin.within(TEMPLATE);
    match item.kind() {
        "Deployment" => replicas::deployment(&item.value, origin),
        "ReplicaSet" => replicas::replica_set(&item.value, origin),
        "StatefulSet" => stateful_set::expand(&item.value, origin),
        "DaemonSet" => daemon_set::expand(&item.value, origin, nodes),
        "Job" => job::job(&item.value, origin),
        "CronJob" => job::cron_job(&item.value, item.origin),
        _ => Ok(Expanded::default()),
    }
}

/// Makes the pods of a Job with these numbers, which are the indexes of an indexed Job.
///
/// # Errors
/// As [`expand`].
pub(super) fn pods_of_job(item: &Item, numbers: &[usize]) -> Result<Expanded, Wrong> {
    job::pods_of(&item.value, item.origin.within(TEMPLATE), numbers)
}

/// Returns the claims of a pod's generic ephemeral volumes, as their controller creates them
/// (`pkg/controller/volume/ephemeral`).
pub fn ephemeral_claims(pod: &Item) -> Vec<Item> {
    let volumes = pod.value.pointer("/spec/volumes").and_then(Value::as_array);
    let claims = volumes.into_iter().flatten().filter_map(|volume| {
        let template = volume.pointer("/ephemeral/volumeClaimTemplate")?;
        let name = format!("{}-{}", pod.name(), text_at(volume, "/name"));
        let owner = controlled_by("v1", "Pod", pod.name(), pod.text("/metadata/uid"));
        Some(Item::new(claim(template, &name, pod.namespace(), Some(owner)), pod.origin))
    });
    claims.collect()
}

fn claim(template: &Value, name: &str, namespace: &str, owner: Option<Value>) -> Value {
    let mut metadata = json!({
        "name": name, "namespace": namespace, "uid": derived_uid("PersistentVolumeClaim", namespace, name),
    });
    for field in ["labels", "annotations"] {
        if let Some(texts) = template.pointer(&format!("/metadata/{field}")) {
            metadata[field] = texts.clone();
        }
    }
    if let Some(owner) = owner {
        metadata["ownerReferences"] = owner;
    }
    let spec = template.get("spec").cloned().unwrap_or_default();
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec })
}

/// A controller with its pod template.
struct Controller<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    template: &'a Value,
}

impl<'a> Controller<'a> {
    fn new(object: &'a Value) -> Result<Self, Wrong> {
        Ok(Self {
            api_version: text_at(object, "/apiVersion"),
            kind: text_at(object, "/kind"),
            name: text_at(object, "/metadata/name"),
            namespace: text_at(object, "/metadata/namespace"),
            uid: text_at(object, "/metadata/uid"),
            template: template(object)?,
        })
    }

    /// Returns a pod from the template, with additional labels
    /// (`pkg/controller/controller_utils.go#GetPodFromTemplate`).
    fn pod(&self, name: &str, labels: &[(&str, &str)]) -> Value {
        let mut all = object_at(self.template, "/metadata/labels");
        all.extend(labels.iter().map(|&(key, value)| (key.to_owned(), value.into())));
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "uid": derived_uid("Pod", self.namespace, name),
                "labels": all,
                "annotations": object_at(self.template, "/metadata/annotations"),
                "ownerReferences": controlled_by(self.api_version, self.kind, self.name, self.uid),
            },
            "spec": self.template.get("spec").cloned().unwrap_or_default(),
        })
    }
}

fn template(object: &Value) -> Result<&Value, Wrong> {
    let template = object.pointer("/spec/template").filter(|template| template.is_object());
    template.ok_or_else(|| Wrong::new("spec.template", "expected spec.template to be a pod template"))
}

/// Returns the object at a pointer, or an empty one.
fn object_at(value: &Value, pointer: &str) -> Map<String, Value> {
    value.pointer(pointer).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Returns a non-negative integer field of the spec, or `None` if absent.
fn count(object: &Value, field: &str) -> Result<Option<usize>, Wrong> {
    let value = object.pointer(&format!("/spec/{}", field.replace('.', "/")));
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
    let number = number.and_then(|number| usize::try_from(number).ok());
    let path = format!("spec.{field}");
    number.map(Some).ok_or_else(|| Wrong::new(&path, format!("expected {path} to be a count, found {value}")))
}

/// Returns the number of pods in this field of the spec; more than [`PODS_MAX`] is an error.
fn pods(object: &Value, field: &str) -> Result<Option<usize>, Wrong> {
    let pods = count(object, field)?;
    match pods.filter(|&pods| pods > PODS_MAX) {
        None => Ok(pods),
        Some(pods) => {
            let path = format!("spec.{field}");
            let message = format!(
                "expected {path} to be at most {PODS_MAX}, found {pods}; this is the limit for one workload"
            );
            Err(Wrong::new(path, message))
        }
    }
}

fn is_set(object: &Value, field: &str) -> bool {
    object.pointer(&format!("/spec/{field}")) == Some(&Value::Bool(true))
}
