//! The controller that owns an object.

use serde_json::Value;

/// Label that a Deployment puts on each ReplicaSet and its pods. The ReplicaSet's name ends in its value.
pub(crate) const TEMPLATE_HASH: &str = "pod-template-hash";

/// A controller that owns pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// `kind`; a Deployment for the pods of its ReplicaSets.
    pub kind: Box<str>,
    /// `metadata.name`.
    pub name: Box<str>,
}

impl Owner {
    /// Returns the controller of an object. The Deployment replaces a ReplicaSet it made.
    pub fn of(object: &Value) -> Option<Self> {
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let owner = owners.into_iter().flatten().find(|owner| owner["controller"] == true)?;
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let hash = object.pointer("/metadata/labels").map(|labels| &labels[TEMPLATE_HASH]);
        let hash = hash.and_then(Value::as_str).filter(|hash| kind == "ReplicaSet" && !hash.is_empty());
        let deployment = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
        let deployment = deployment.filter(|name| !name.is_empty());
        Some(match deployment {
            Some(name) => Self { kind: "Deployment".into(), name: name.into() },
            None => Self { kind: kind.into(), name: name.into() },
        })
    }
}
