//! Changes of devices between decisions, and the writes that follow a decision about claims.

use crate::golden::world::World;
use serde::Deserialize;
use serde_json::{Value, json};
use supercargo_core::model::volume::{Reservation, StorageKey, StorageKind};
use supercargo_objects::convert::allocation::allocation_json;

/// A new state of an object of `resource.k8s.io` before the decision on a pod.
#[derive(Clone, Debug, Deserialize)]
pub struct Change {
    /// The index of the pod.
    pub before: usize,
    /// The object, or only its kind, namespace and name if it is deleted or freed.
    pub object: Value,
    /// Whether the object is gone.
    #[serde(default)]
    pub deleted: bool,
    /// Whether the claim loses its allocation.
    #[serde(default)]
    pub freed: bool,
}

/// Returns `namespace/name`.
pub(super) fn key(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

impl World {
    /// Makes the changes before the decision on the next pod.
    pub(super) fn make_changes(&mut self) {
        let at = self.decided;
        self.decided += 1;
        let due: Vec<Change> = self.changes.iter().filter(|change| change.before == at).cloned().collect();
        for change in due {
            self.forget_detours(&change.object);
            if change.deleted {
                self.delete(&change.object);
            } else if change.freed {
                if let Some(mut claim) = self.claims.get(&key(&change.object)).cloned() {
                    claim["status"] = json!({});
                    self.put(claim);
                }
            } else {
                self.put(change.object);
            }
        }
    }

    /// Adds or replaces an object.
    fn put(&mut self, object: Value) {
        self.apply(&super::world::object(&object));
        if object["kind"] == "ResourceClaim" {
            self.claims.insert(key(&object), object);
        }
    }

    fn delete(&mut self, object: &Value) {
        let text = |field: &str| object["metadata"][field].as_str();
        let name = self.tables.symbol(text("name").unwrap_or_default());
        let namespace = text("namespace").map(|namespace| self.tables.symbol(namespace));
        let kind = match object["kind"].as_str() {
            Some("ResourceClaim") => StorageKind::ResourceClaim,
            Some("ResourceSlice") => StorageKind::ResourceSlice,
            Some("DeviceClass") => {
                return self.cache.lookups_mut().device_classes_mut().remove(name);
            }
            other => panic!("a change deletes a {other:?}"),
        };
        self.claims.remove(&key(object));
        self.cache.volumes_mut().remove(StorageKey { kind, namespace, name });
    }

    /// Writes what a decision reserved for a pod, as PreBind does: allocations, reservations, and the claim for
    /// extended resources. Returns what is not about devices.
    pub(super) fn write(&mut self, pod: &Value, reserved: Vec<Reservation>) -> Vec<Reservation> {
        let mut others = Vec::new();
        for reservation in reserved {
            match &reservation {
                Reservation::Allocate { claim, allocation } => {
                    let text = |id| self.tables.text(id);
                    let key = format!("{}/{}", text(claim.namespace), text(claim.name));
                    let mut written = self.claims[&key].clone();
                    written["status"]["allocation"] = allocation_json(allocation);
                    self.put(written);
                }
                Reservation::Create { allocation, .. } => {
                    self.put(made_claim(pod, &allocation_json(allocation)));
                }
                Reservation::Share { .. } => {}
                _ => others.push(reservation),
            }
        }
        self.reserve_all(pod);
        others
    }

    /// Reserves all claims of a pod for it.
    fn reserve_all(&mut self, pod: &Value) {
        let metadata = &pod["metadata"];
        let statuses = pod["status"]["resourceClaimStatuses"].as_array().into_iter().flatten();
        let statuses: Vec<&Value> = statuses.collect();
        let name_of = |claim: &Value| {
            let name = claim["resourceClaimName"].as_str().or_else(|| {
                let status = statuses.iter().find(|status| status["name"] == claim["name"])?;
                status["resourceClaimName"].as_str()
            })?;
            Some(name.to_owned())
        };
        let claims = pod["spec"]["resourceClaims"].as_array().into_iter().flatten().filter_map(name_of);
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        let mut keys: Vec<String> = claims.map(|name| format!("{namespace}/{name}")).collect();
        keys.push(format!("{namespace}/{}", made_name(pod)));
        let consumer = json!({ "resource": "pods", "name": metadata["name"], "uid": metadata["uid"] });
        for key in keys {
            let Some(mut claim) = self.claims.get(&key).cloned() else { continue };
            let mut consumers = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
            let is_reserved = consumers.iter().any(|known| known["uid"] == metadata["uid"]);
            if claim["status"]["allocation"].is_null() || is_reserved {
                continue;
            }
            consumers.push(consumer.clone());
            claim["status"]["reservedFor"] = consumers.into();
            self.put(claim);
        }
    }
}

fn made_name(pod: &Value) -> String {
    format!("{}-extended-resources", pod["metadata"]["name"].as_str().unwrap_or_default())
}

/// Returns the claim that PreBind makes for extended resources, with its allocation. Its requests do not matter any
/// more.
fn made_claim(pod: &Value, allocation: &Value) -> Value {
    let metadata = &pod["metadata"];
    let name = made_name(pod);
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": name, "namespace": metadata["namespace"], "uid": format!("uid-{name}"),
            "annotations": { "resource.kubernetes.io/extended-resource-claim": "true" },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"],
                "controller": true,
            }],
        },
        "spec": { "devices": {} },
        "status": { "allocation": allocation },
    })
}
