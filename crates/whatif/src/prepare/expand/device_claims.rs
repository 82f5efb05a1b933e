//! The ResourceClaims that their controller makes for pods from ResourceClaimTemplates.
//!
//! Upstream: `pkg/controller/resourceclaim/controller.go#handleClaim`.

use crate::load::files::{Item, text_at};
use crate::prepare::identity::{controlled_by, derived_uid, fields_at, generated_name, set};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The annotation with the name of the claim in the pod.
const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";

/// ResourceClaimTemplates by namespace and name.
#[derive(Default)]
pub struct ClaimTemplates(BTreeMap<(String, String), Value>);

impl ClaimTemplates {
    /// Collects the templates among the objects.
    pub fn of<'i>(items: impl IntoIterator<Item = &'i Item>) -> Self {
        let templates = items.into_iter().filter(|item| item.kind() == "ResourceClaimTemplate");
        let by_key = templates.map(|item| {
            let namespace = if item.namespace().is_empty() { "default" } else { item.namespace() };
            ((namespace.to_owned(), item.name().to_owned()), item.clone().unpacked().value)
        });
        Self(by_key.collect())
    }

    /// Returns the claims of a pod that do not exist yet, and names them in its status. Claims of templates that do
    /// not exist are left out, so the pod waits for them.
    pub fn claims_for(&self, pod: &mut Item) -> Vec<Item> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let entries = |pointer: &str| pod.value.pointer(pointer).and_then(Value::as_array).cloned();
        let mut statuses = entries("/status/resourceClaimStatuses").unwrap_or_default();
        let mut claims = Vec::new();
        for entry in entries("/spec/resourceClaims").unwrap_or_default() {
            let name = text_at(&entry, "/name");
            let template = text_at(&entry, "/resourceClaimTemplateName");
            let key = (pod.namespace().to_owned(), template.to_owned());
            let Some(template) = self.0.get(&key) else { continue };
            if statuses.iter().any(|status| text_at(status, "/name") == name) {
                continue;
            }
            let claim = claim(template, pod, name);
            statuses.push(json!({ "name": name, "resourceClaimName": claim.name() }));
            claims.push(claim);
        }
        if let (false, Some(status)) = (claims.is_empty(), fields_at(&mut pod.value, &["status"])) {
            status.insert("resourceClaimStatuses".to_owned(), statuses.into());
        }
        claims
    }
}

/// Returns a new claim of a pod.
fn claim(template: &Value, pod: &Item, claim: &str) -> Item {
    let namespace = pod.namespace();
    let name = generated_name(&format!("{}-{claim}-", pod.name()), "ResourceClaim", namespace, 0);
    let mut metadata = json!({
        "name": name, "namespace": namespace, "uid": derived_uid("ResourceClaim", namespace, &name),
        "ownerReferences": controlled_by("v1", "Pod", pod.name(), pod.text("/metadata/uid")),
    });
    for field in ["labels", "annotations"] {
        if let Some(texts) = template.pointer(&format!("/spec/metadata/{field}")) {
            metadata[field] = texts.clone();
        }
    }
    set(&mut metadata, &["annotations", POD_CLAIM_NAME], claim.into());
    let spec = template.pointer("/spec/spec").cloned().unwrap_or_default();
    let value = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec,
    });
    Item::new(value, pod.origin)
}
