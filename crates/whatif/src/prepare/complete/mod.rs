//! Completes objects as an API server does on creation: sets the defaults of the type and applies admission plugins.
//!
//! Only fields that the scheduler reads are set, nothing is validated, and existing values stay. So an object from a
//! cluster is unchanged. Upstream: `pkg/apis/core/v1/defaults.go`, `plugin/pkg/admission`,
//! `pkg/registry/core/pod/strategy.go`.

mod classes;
mod devices;
mod limits;
mod pod;
mod pod_level;
#[cfg(test)]
mod tests;

use crate::load::files::{Item, Wrong, text_at};
use crate::prepare::identity::{fields_at, set};
use classes::{Priorities, RuntimeClasses, default_storage_class};
use limits::LimitRanges;
use serde_json::Value;

/// The objects of the cluster that admission uses.
pub(super) struct Completer {
    priorities: Priorities,
    runtimes: RuntimeClasses,
    limits: LimitRanges,
    default_storage_class: Option<String>,
}

impl Completer {
    /// Collects the objects that admission uses and ignores all others.
    pub(super) fn new<'c>(items: impl IntoIterator<Item = &'c Item>) -> Self {
        let items: Vec<&Item> = items.into_iter().collect();
        let of =
            |kind: &'static str| items.iter().filter(move |item| item.kind() == kind).map(|item| &item.value);
        Self {
            priorities: Priorities::new(of("PriorityClass")),
            runtimes: RuntimeClasses::new(of("RuntimeClass")),
            limits: LimitRanges::new(of("LimitRange")),
            default_storage_class: default_storage_class(of("StorageClass")),
        }
    }

    /// Completes an object.
    ///
    /// # Errors
    /// Fails if a pod names an unknown PriorityClass or RuntimeClass, or conflicts with its RuntimeClass.
    pub(super) fn complete(&self, value: &mut Value) -> Result<(), Wrong> {
        match text_at(value, "/kind") {
            "Pod" => return self.complete_pod(value),
            "Node" => {
                let capacity = value.pointer("/status/capacity").filter(|list| list.is_object()).cloned();
                if let Some(capacity) = capacity.filter(|_| is_absent(value, "/status/allocatable")) {
                    set(value, &["status", "allocatable"], capacity);
                }
            }
            "Namespace" => {
                let name = text_at(value, "/metadata/name").to_owned();
                set(value, &["metadata", "labels", "kubernetes.io/metadata.name"], name.into());
            }
            "PersistentVolume" => default(value, &["spec", "volumeMode"], "Filesystem"),
            "PersistentVolumeClaim" => self.complete_claim(value),
            "ResourceClaim" => devices::default_requests(value),
            "StorageClass" => default(value, &["volumeBindingMode"], "Immediate"),
            "ReplicationController" => {
                let labels = value.pointer("/spec/template/metadata/labels").cloned();
                if let Some(labels) = labels.filter(|_| is_empty(value, "/spec/selector")) {
                    set(value, &["spec", "selector"], labels);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn complete_pod(&self, value: &mut Value) -> Result<(), Wrong> {
        pod::default_spec(value);
        // Limit ranges apply only when a pod is created; a pod with a resourceVersion already exists.
        if is_absent(value, "/metadata/resourceVersion") {
            self.limits.apply(value);
        }
        self.priorities.apply(value)?;
        pod::tolerate_failing_nodes(value);
        self.runtimes.apply(value)?;
        pod::merge_label_keys(value);
        Ok(())
    }

    fn complete_claim(&self, value: &mut Value) {
        default(value, &["spec", "volumeMode"], "Filesystem");
        let by_annotation = value.pointer("/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
        let names_one = by_annotation.is_some() || !is_absent(value, "/spec/storageClassName");
        if let Some(class) = self.default_storage_class.as_ref().filter(|_| !names_one) {
            set(value, &["spec", "storageClassName"], class.as_str().into());
        }
    }
}

fn is_absent(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).is_none_or(Value::is_null)
}

fn is_empty(value: &Value, pointer: &str) -> bool {
    value
        .pointer(pointer)
        .is_none_or(|found| found.is_null() || found.as_object().is_some_and(|o| o.is_empty()))
}

/// Sets a string field if it is absent, null or empty.
fn default(value: &mut Value, path: &[&str], text: &str) {
    let Some((last, way)) = path.split_last() else { return };
    let Some(fields) = fields_at(value, way) else { return };
    let field = fields.entry(*last).or_insert(Value::Null);
    if field.is_null() || field == "" {
        *field = text.into();
    }
}
