//! Expands Deployments and ReplicaSets.

use crate::load::files::{Item, Origin, Wrong, text_at};
use crate::prepare::expand::{Controller, Expanded, is_set, object_at, pods};
use crate::prepare::identity::{controlled_by, derived_uid, generated_name, set, template_hash};
use serde_json::{Value, json};

const HASH_LABEL: &str = "pod-template-hash";

/// Expands a Deployment into a ReplicaSet, named after the template's hash, and its pods. A paused Deployment has
/// none.
pub(super) fn deployment(deployment: &Value, origin: Origin) -> Result<Expanded, Wrong> {
    let owner = Controller::new(deployment)?;
    if is_set(deployment, "paused") {
        return Ok(Expanded::default());
    }
    let selector = deployment.pointer("/spec/selector").filter(|selector| selector.is_object());
    let Some(selector) = selector else {
        return Err(Wrong::new("spec", "expected spec.selector to be a label selector"));
    };
    let hash = template_hash(owner.template);
    let name = format!("{}-{hash}", owner.name);
    let mut labels = object_at(owner.template, "/metadata/labels");
    labels.insert(HASH_LABEL.to_owned(), hash.as_str().into());
    let mut set_object = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "uid": derived_uid("ReplicaSet", owner.namespace, &name),
            "labels": labels,
            "ownerReferences": controlled_by(owner.api_version, owner.kind, owner.name, owner.uid),
        },
        "spec": {
            "replicas": deployment.pointer("/spec/replicas"),
            "selector": selector,
            "template": owner.template,
        },
    });
    set(&mut set_object, &["spec", "selector", "matchLabels", HASH_LABEL], hash.as_str().into());
    set(&mut set_object, &["spec", "template", "metadata", "labels"], labels.into());
    let mut expanded = replica_set(&set_object, origin)?;
    expanded.objects.push(Item::new(set_object, origin.within("")));
    Ok(expanded)
}

/// Expands a ReplicaSet into its pods, by default 1.
pub(super) fn replica_set(set: &Value, origin: Origin) -> Result<Expanded, Wrong> {
    let owner = Controller::new(set)?;
    let mut expanded = Expanded::default();
    let base = format!("{}-", text_at(set, "/metadata/name"));
    for at in 0..pods(set, "replicas")?.unwrap_or(1) {
        let name = generated_name(&base, "ReplicaSet", owner.namespace, at);
        expanded.add_pod(owner.pod(&name, &[]), origin);
    }
    Ok(expanded)
}
