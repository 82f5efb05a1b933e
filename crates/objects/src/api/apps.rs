//! `apps/v1`: the fields of ReplicaSet and StatefulSet that the scheduler reads.

use super::meta::LabelSelector;
use super::{Ignored, Received, kinds};
use serde::{Deserialize, Serialize};

kinds! {
    /// Kind of [`ReplicaSet`].
    ReplicaSetKind = "apps", "v1", "ReplicaSet", "replicasets", namespaced, LabelSelected, Ignored;
    /// Kind of [`StatefulSet`].
    StatefulSetKind = "apps", "v1", "StatefulSet", "statefulsets", namespaced, LabelSelected, Ignored;
}

/// `apps/v1 ReplicaSet`.
pub type ReplicaSet = Received<ReplicaSetKind>;
/// `apps/v1 StatefulSet`.
pub type StatefulSet = Received<StatefulSetKind>;

/// The spec of ReplicaSet and StatefulSet.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct LabelSelected {
    /// `selector`.
    pub selector: Option<LabelSelector>,
}
