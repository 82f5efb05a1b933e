//! `policy/v1`: the fields of PodDisruptionBudget that preemption reads.

use super::meta::LabelSelector;
use super::{Ignored, Received, kinds, nulls};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

kinds! {
    /// Kind of [`PodDisruptionBudget`].
    PodDisruptionBudgetKind = "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus;
}

/// `policy/v1 PodDisruptionBudget`.
pub type PodDisruptionBudget = Received<PodDisruptionBudgetKind>;

/// `PodDisruptionBudgetSpec`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct PodDisruptionBudgetSpec {
    /// `selector`; absent and empty have different meanings.
    pub selector: Option<LabelSelector>,
}

/// `PodDisruptionBudgetStatus`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    /// `disruptionsAllowed`.
    #[serde(deserialize_with = "nulls::or_default")]
    pub disruptions_allowed: i32,
    /// `disruptedPods`: names of pods whose eviction is already counted. The timestamps are not decoded.
    #[serde(deserialize_with = "nulls::or_default")]
    pub disrupted_pods: BTreeMap<String, Ignored>,
}
