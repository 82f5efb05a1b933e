//! Expands StatefulSets: pods with ordinals, each with one claim per claim template.

use crate::load::files::{Item, Origin, Wrong, text_at};
use crate::prepare::expand::{Controller, Expanded, claim, count, object_at, pods};
use crate::prepare::identity::{set, template_hash};
use serde_json::{Value, json};

/// Expands a StatefulSet. Upstream: `pkg/controller/statefulset/stateful_set_utils.go`.
pub(super) fn expand(object: &Value, origin: Origin) -> Result<Expanded, Wrong> {
    let owner = Controller::new(object)?;
    let revision = format!("{}-{}", owner.name, template_hash(owner.template));
    let templates = object.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
    let templates = templates.map_or(&[][..], Vec::as_slice);
    let first = count(object, "ordinals.start")?.unwrap_or(0);
    let mut expanded = Expanded::default();
    for ordinal in (first..).take(pods(object, "replicas")?.unwrap_or(1)) {
        let (name, index) = (format!("{}-{ordinal}", owner.name), ordinal.to_string());
        let labels = [
            ("apps.kubernetes.io/pod-index", index.as_str()),
            ("controller-revision-hash", &revision),
            ("statefulset.kubernetes.io/pod-name", &name),
        ];
        let mut pod = owner.pod(&name, &labels);
        let claims: Vec<(&str, Value)> = templates
            .iter()
            .map(|template| {
                (text_at(template, "/metadata/name"), claim_of(object, &owner, template, ordinal))
            })
            .collect();
        mount(&mut pod, &claims);
        expanded.add_pod(pod, origin);
        let origin = origin.within("spec.volumeClaimTemplates.");
        expanded.objects.extend(claims.into_iter().map(|(_, value)| Item::new(value, origin)));
    }
    Ok(expanded)
}

fn claim_of(object: &Value, owner: &Controller<'_>, template: &Value, ordinal: usize) -> Value {
    let name = format!("{}-{}-{ordinal}", text_at(template, "/metadata/name"), owner.name);
    let mut claim = claim(template, &name, owner.namespace, None);
    let mut labels = object_at(template, "/metadata/labels");
    labels.extend(object_at(object, "/spec/selector/matchLabels"));
    set(&mut claim, &["metadata", "labels"], labels.into());
    claim
}

/// Adds a volume for each claim; replaces volumes of the template with the same name.
fn mount(pod: &mut Value, claims: &[(&str, Value)]) {
    if claims.is_empty() {
        return;
    }
    let mut volumes: Vec<Value> = claims
        .iter()
        .map(|(name, claim)| {
            let claim_name = text_at(claim, "/metadata/name");
            json!({ "name": name, "persistentVolumeClaim": { "claimName": claim_name } })
        })
        .collect();
    let own = pod.pointer("/spec/volumes").and_then(Value::as_array).cloned().unwrap_or_default();
    let replaced = |volume: &Value| claims.iter().any(|&(name, _)| name == text_at(volume, "/name"));
    volumes.extend(own.into_iter().filter(|volume| !replaced(volume)));
    set(pod, &["spec", "volumes"], volumes.into());
}
