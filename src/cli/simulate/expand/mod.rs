//! The pods that controllers would make of workloads, with the objects they would make beside them.
//!
//! A workload is taken as new: pods it may already have in the cluster are not looked for. Everything is made at once, also
//! where a controller would wait for one pod before it makes the next. Upstream: `pkg/controller`.

mod daemon_set;
mod job;
mod replicas;
mod stateful_set;
#[cfg(test)]
mod tests;

use super::files::{Item, Origin, Wrong, text_at};
use super::identity::{controlled_by, derived_uid};
use serde_json::{Map, Value, json};

/// The fields of a template's pod stand here, in a workload that has the template itself.
const TEMPLATE: &str = "spec.template.";

/// Pods that are made of one workload at most, as `--scale` takes them: Kubernetes is built for 150,000 in all.
const PODS_MAX: usize = 100_000;

/// What a workload becomes.
#[derive(Debug, Default)]
pub(in crate::cli) struct Expanded {
    /// The pods, in the order they are made.
    pub(in crate::cli) pods: Vec<Item>,
    /// What the scheduler finds beside them: a ReplicaSet, claims.
    pub(in crate::cli) objects: Vec<Item>,
}

impl Expanded {
    fn add_pod(&mut self, pod: Value, origin: Origin) {
        self.pods.push(Item::new(pod, origin));
    }
}

/// Whether objects of this kind stand for pods.
pub(in crate::cli) fn is_workload(item: &Item) -> bool {
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

/// The pods of a workload; `nodes` are those of the cluster, in order.
pub(in crate::cli) fn expand(item: &Item, nodes: &[Value]) -> Result<Expanded, Wrong> {
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

/// The claims that generic ephemeral volumes of a pod stand for, as the controller for them makes them
/// (`pkg/controller/volume/ephemeral`).
pub(super) fn ephemeral_claims(pod: &Item) -> Vec<Item> {
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

/// A controller and its pod template.
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

    /// A pod of the template, with labels of its own beside the template's
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

/// The object at a pointer; empty when there is none.
fn object_at(value: &Value, pointer: &str) -> Map<String, Value> {
    value.pointer(pointer).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// A whole number of the spec that is not negative; `None` when it is absent.
fn count(object: &Value, field: &str) -> Result<Option<usize>, Wrong> {
    let value = object.pointer(&format!("/spec/{}", field.replace('.', "/")));
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
    let number = number.and_then(|number| usize::try_from(number).ok());
    let path = format!("spec.{field}");
    number.map(Some).ok_or_else(|| Wrong::new(&path, format!("expected {path} to be a count, found {value}")))
}

/// How many pods a workload is to have, by this field: as many as are made of one.
fn pods(object: &Value, field: &str) -> Result<Option<usize>, Wrong> {
    let pods = count(object, field)?;
    match pods.filter(|&pods| pods > PODS_MAX) {
        None => Ok(pods),
        Some(pods) => {
            let path = format!("spec.{field}");
            let message = format!(
                "expected {path} to be {PODS_MAX} at most, found {pods}: no more are made of one workload"
            );
            Err(Wrong::new(path, message))
        }
    }
}

fn is_set(object: &Value, field: &str) -> bool {
    object.pointer(&format!("/spec/{field}")) == Some(&Value::Bool(true))
}
