//! `scheduling.k8s.io`: the fields of PodGroup that the scheduler reads, in each version of the API.
//!
//! The versions differ in the type of `disruptionMode`, in the name of the condition, and in their protobuf numbers.
//! `convert::groups` turns both into one engine type.

use super::{Ignored, Received, kinds, nulls};
use serde::{Deserialize, Serialize};

kinds! {
    /// Kind of [`PodGroupV1Alpha2`].
    PodGroupV1Alpha2Kind = "scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", namespaced, PodGroupSpecV1Alpha2, PodGroupStatus;
    /// Kind of [`PodGroupV1Beta1`].
    PodGroupV1Beta1Kind = "scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", namespaced, PodGroupSpecV1Beta1, PodGroupStatus;
}

/// `scheduling.k8s.io/v1alpha2 PodGroup`, of Kubernetes 1.36.
pub type PodGroupV1Alpha2 = Received<PodGroupV1Alpha2Kind>;
/// `scheduling.k8s.io/v1beta1 PodGroup`, of Kubernetes 1.37.
pub type PodGroupV1Beta1 = Received<PodGroupV1Beta1Kind>;

/// `PodGroupSpec` of v1alpha2.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupSpecV1Alpha2 {
    /// `schedulingPolicy`.
    #[serde(deserialize_with = "nulls::or_default")]
    pub scheduling_policy: SchedulingPolicy,
    /// `schedulingConstraints`; absent and empty have different meanings.
    pub scheduling_constraints: Option<SchedulingConstraints>,
    /// `disruptionMode`: `Pod`, `PodGroup`, or empty if absent.
    #[serde(deserialize_with = "nulls::or_default")]
    pub disruption_mode: String,
    /// `priority`.
    pub priority: Option<i32>,
}

/// `PodGroupSpec` of v1beta1.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupSpecV1Beta1 {
    /// `parentCompositePodGroupName`; empty if absent.
    #[serde(deserialize_with = "nulls::or_default")]
    pub parent_composite_pod_group_name: String,
    /// `schedulingPolicy`.
    #[serde(deserialize_with = "nulls::or_default")]
    pub scheduling_policy: SchedulingPolicy,
    /// `schedulingConstraints`; absent and empty have different meanings.
    pub scheduling_constraints: Option<SchedulingConstraints>,
    /// `disruptionMode`.
    pub disruption_mode: Option<DisruptionMode>,
    /// `priority`.
    pub priority: Option<i32>,
}

/// `DisruptionMode` of v1beta1: exactly one field is set.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct DisruptionMode {
    /// `single`.
    pub single: Option<Ignored>,
    /// `all`.
    pub all: Option<Ignored>,
}

/// `PodGroupSchedulingPolicy`: exactly one field is set.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct SchedulingPolicy {
    /// `basic`.
    pub basic: Option<Ignored>,
    /// `gang`.
    pub gang: Option<GangPolicy>,
}

/// `GangSchedulingPolicy`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GangPolicy {
    /// `minCount`.
    #[serde(deserialize_with = "nulls::or_default")]
    pub min_count: i32,
}

/// `PodGroupSchedulingConstraints`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct SchedulingConstraints {
    /// `topology`.
    #[serde(deserialize_with = "nulls::list")]
    pub topology: Vec<TopologyConstraint>,
}

/// `TopologyConstraint`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct TopologyConstraint {
    /// `key`: the node label whose values are the domains.
    #[serde(deserialize_with = "nulls::or_default")]
    pub key: String,
}

/// `PodGroupStatus`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct PodGroupStatus {
    /// `conditions`.
    #[serde(deserialize_with = "nulls::list")]
    pub conditions: Vec<GroupCondition>,
}

/// `metav1.Condition`, without its time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupCondition {
    /// `type`.
    #[serde(rename = "type", deserialize_with = "nulls::or_default")]
    pub kind: String,
    /// `status`.
    #[serde(deserialize_with = "nulls::or_default")]
    pub status: String,
    /// `observedGeneration`.
    #[serde(deserialize_with = "nulls::or_default")]
    pub observed_generation: i64,
    /// `reason`.
    #[serde(deserialize_with = "nulls::or_default")]
    pub reason: String,
    /// `message`.
    #[serde(deserialize_with = "nulls::or_default")]
    pub message: String,
}
