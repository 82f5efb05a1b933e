//! `v1`: the fields of Pod, Node, Namespace, Service and ReplicationController that the scheduler reads.
//!
//! Fields are documented upstream. Comments here cover only differences in decoding.

use super::meta::{LabelSelector, ResourceList, SelectorRequirement};
use super::storage::{AzureDisk, CsiVolume, GceDisk, Iscsi, Rbd, VolumeId};
use super::{Ignored, Received, kinds, nulls};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

kinds! {
    /// Kind of [`Pod`].
    PodKind = "", "v1", "Pod", "pods", namespaced, PodSpec, PodStatus;
    /// Kind of [`Node`].
    NodeKind = "", "v1", "Node", "nodes", cluster, NodeSpec, NodeStatus;
    /// Kind of [`Namespace`].
    NamespaceKind = "", "v1", "Namespace", "namespaces", cluster, Ignored, Ignored;
    /// Kind of [`Service`].
    ServiceKind = "", "v1", "Service", "services", namespaced, MapSelector, Ignored;
    /// Kind of [`ReplicationController`].
    ReplicationControllerKind = "", "v1", "ReplicationController", "replicationcontrollers", namespaced, MapSelector, Ignored;
}

/// `v1 Pod`.
pub type Pod = Received<PodKind>;
/// `v1 Node`.
pub type Node = Received<NodeKind>;
/// `v1 Namespace`.
pub type Namespace = Received<NamespaceKind>;
/// `v1 Service`.
pub type Service = Received<ServiceKind>;
/// `v1 ReplicationController`.
pub type ReplicationController = Received<ReplicationControllerKind>;

/// Message prefix of a pod rejected at admission by its kubelet (`pkg/kubelet/kubelet.go#rejectPod`).
const NOT_ADMITTED: &str = "Pod was rejected: ";

impl Pod {
    /// Returns the kubelet's reason, if the kubelet rejected the pod at admission.
    pub fn kubelets_refusal(&self) -> Option<&str> {
        let status = &self.content().ok()?.status;
        let is_refused = status.phase == "Failed" && status.message.starts_with(NOT_ADMITTED);
        is_refused.then_some(status.reason.as_str())
    }

    /// Reports whether the pod is terminal and holds no resources any more. Upstream's watch excludes such pods.
    pub fn has_ended(&self) -> bool {
        self.content().is_ok_and(|content| matches!(content.status.phase.as_str(), "Succeeded" | "Failed"))
    }
}

/// The spec of Service and ReplicationController.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct MapSelector {
    /// `selector`; absent and empty have different meanings.
    #[serde(deserialize_with = "nulls::optional_texts")]
    pub selector: Option<BTreeMap<String, String>>,
}

/// `PodSpec`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct PodSpec {
    #[serde(deserialize_with = "nulls::or_default")]
    pub node_name: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub scheduler_name: String,
    pub priority: Option<i32>,
    #[serde(deserialize_with = "nulls::or_default")]
    pub preemption_policy: String,
    #[serde(deserialize_with = "nulls::optional_texts")]
    pub node_selector: Option<BTreeMap<String, String>>,
    pub affinity: Option<Affinity>,
    #[serde(deserialize_with = "nulls::list")]
    pub tolerations: Vec<Toleration>,
    #[serde(deserialize_with = "nulls::list")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    #[serde(deserialize_with = "nulls::list")]
    pub scheduling_gates: Vec<SchedulingGate>,
    #[serde(deserialize_with = "nulls::list")]
    pub containers: Vec<Container>,
    #[serde(deserialize_with = "nulls::list")]
    pub init_containers: Vec<Container>,
    #[serde(deserialize_with = "nulls::or_default")]
    pub overhead: ResourceList,
    pub resources: Option<Requests>,
    #[serde(deserialize_with = "nulls::list")]
    pub volumes: Vec<Volume>,
    #[serde(deserialize_with = "nulls::list")]
    pub resource_claims: Vec<PodResourceClaim>,
    #[serde(deserialize_with = "nulls::or_default")]
    pub host_network: bool,
    pub host_users: Option<bool>,
    pub scheduling_group: Option<SchedulingGroup>,
}

/// `PodSchedulingGroup`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct SchedulingGroup {
    #[serde(deserialize_with = "nulls::or_default")]
    pub pod_group_name: String,
}

/// `Container`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct Container {
    #[serde(deserialize_with = "nulls::or_default")]
    pub name: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub image: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub resources: Requests,
    #[serde(deserialize_with = "nulls::list")]
    pub ports: Vec<ContainerPort>,
    #[serde(deserialize_with = "nulls::or_default")]
    pub restart_policy: String,
    #[serde(deserialize_with = "nulls::list")]
    pub restart_policy_rules: Vec<ContainerRestartRule>,
}

impl Container {
    /// Reports whether this init container is a sidecar: it keeps running beside the main containers.
    pub fn is_restartable(&self) -> bool {
        self.restart_policy == "Always"
    }
}

/// `ResourceRequirements`. Decisions use only the names of extended resources in `limits`, by which extenders select
/// their pods. `/metrics/resources` shows all limits.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct Requests {
    #[serde(deserialize_with = "nulls::or_default")]
    pub requests: ResourceList,
    #[serde(deserialize_with = "nulls::or_default")]
    pub limits: ResourceList,
}

/// `ContainerPort`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct ContainerPort {
    #[serde(deserialize_with = "nulls::or_default")]
    pub host_port: i32,
    #[serde(rename = "hostIP", deserialize_with = "nulls::or_default")]
    pub host_ip: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub protocol: String,
}

/// `PodSchedulingGate`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct SchedulingGate {
    #[serde(deserialize_with = "nulls::or_default")]
    pub name: String,
}

/// `ContainerRestartRule`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct ContainerRestartRule {
    #[serde(deserialize_with = "nulls::or_default")]
    pub action: String,
}

/// `PodResourceClaim`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct PodResourceClaim {
    #[serde(deserialize_with = "nulls::or_default")]
    pub name: String,
    pub resource_claim_name: Option<String>,
    pub resource_claim_template_name: Option<String>,
}

/// `PodResourceClaimStatus`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct PodResourceClaimStatus {
    #[serde(deserialize_with = "nulls::or_default")]
    pub name: String,
    pub resource_claim_name: Option<String>,
}

/// `Volume`, with the sources that affect scheduling.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct Volume {
    #[serde(deserialize_with = "nulls::or_default")]
    pub name: String,
    pub image: Option<ImageVolume>,
    pub persistent_volume_claim: Option<ClaimVolume>,
    pub ephemeral: Option<Ignored>,
    pub csi: Option<CsiVolume>,
    pub gce_persistent_disk: Option<GceDisk>,
    pub aws_elastic_block_store: Option<VolumeId>,
    pub rbd: Option<Rbd>,
    pub iscsi: Option<Iscsi>,
    pub azure_disk: Option<AzureDisk>,
    pub cinder: Option<VolumeId>,
    pub portworx_volume: Option<VolumeId>,
    pub azure_file: Option<Ignored>,
    pub vsphere_volume: Option<Ignored>,
}

/// `PersistentVolumeClaimVolumeSource`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct ClaimVolume {
    #[serde(deserialize_with = "nulls::or_default")]
    pub claim_name: String,
}

/// `ImageVolumeSource`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct ImageVolume {
    #[serde(deserialize_with = "nulls::or_default")]
    pub reference: String,
}

/// `Toleration`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct Toleration {
    #[serde(deserialize_with = "nulls::or_default")]
    pub key: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub operator: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub value: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub effect: String,
}

/// `Affinity`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct Affinity {
    pub node_affinity: Option<NodeAffinity>,
    pub pod_affinity: Option<PodAffinity>,
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// `NodeAffinity`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// `requiredDuringSchedulingIgnoredDuringExecution`.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    /// `preferredDuringSchedulingIgnoredDuringExecution`; absent and empty have different meanings.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "nulls::optional_list"
    )]
    pub preferred: Option<Vec<PreferredSchedulingTerm>>,
}

/// `NodeSelector`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct NodeSelector {
    #[serde(deserialize_with = "nulls::list")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// `NodeSelectorTerm`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct NodeSelectorTerm {
    #[serde(deserialize_with = "nulls::list")]
    pub match_expressions: Vec<SelectorRequirement>,
    #[serde(deserialize_with = "nulls::list")]
    pub match_fields: Vec<SelectorRequirement>,
}

/// `PreferredSchedulingTerm`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct PreferredSchedulingTerm {
    #[serde(deserialize_with = "nulls::or_default")]
    pub weight: i32,
    #[serde(deserialize_with = "nulls::or_default")]
    pub preference: NodeSelectorTerm,
}

/// `PodAffinity` and `PodAntiAffinity`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct PodAffinity {
    /// `requiredDuringSchedulingIgnoredDuringExecution`.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "nulls::list")]
    pub required: Vec<PodAffinityTerm>,
    /// `preferredDuringSchedulingIgnoredDuringExecution`.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", deserialize_with = "nulls::list")]
    pub preferred: Vec<WeightedPodAffinityTerm>,
}

/// `PodAffinityTerm`. The API server merges its `matchLabelKeys` into the selector.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct PodAffinityTerm {
    pub label_selector: Option<LabelSelector>,
    #[serde(deserialize_with = "nulls::list")]
    pub namespaces: Vec<String>,
    pub namespace_selector: Option<LabelSelector>,
    #[serde(deserialize_with = "nulls::or_default")]
    pub topology_key: String,
}

/// `WeightedPodAffinityTerm`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct WeightedPodAffinityTerm {
    #[serde(deserialize_with = "nulls::or_default")]
    pub weight: i32,
    #[serde(deserialize_with = "nulls::or_default")]
    pub pod_affinity_term: PodAffinityTerm,
}

/// `TopologySpreadConstraint`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct TopologySpreadConstraint {
    #[serde(deserialize_with = "nulls::or_default")]
    pub max_skew: i32,
    #[serde(deserialize_with = "nulls::or_default")]
    pub topology_key: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub when_unsatisfiable: String,
    pub label_selector: Option<LabelSelector>,
    #[serde(deserialize_with = "nulls::list")]
    pub match_label_keys: Vec<String>,
    pub min_domains: Option<i32>,
    pub node_affinity_policy: Option<String>,
    pub node_taints_policy: Option<String>,
}

/// `PodStatus`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct PodStatus {
    #[serde(deserialize_with = "nulls::or_default")]
    pub phase: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub reason: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub message: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub nominated_node_name: String,
    pub start_time: Option<Time>,
    #[serde(deserialize_with = "nulls::list")]
    pub conditions: Vec<PodCondition>,
    #[serde(deserialize_with = "nulls::list")]
    pub container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "nulls::list")]
    pub init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "nulls::list")]
    pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
    pub resources: Option<StatusRequests>,
    /// From 1.37, an empty list differs from an absent one. The API server stores none that are empty.
    pub allocated_resources: Option<ResourceList>,
}

/// `ResourceRequirements` in a status.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct StatusRequests {
    pub requests: Option<ResourceList>,
}

/// `PodCondition`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct PodCondition {
    #[serde(rename = "type", deserialize_with = "nulls::or_default")]
    pub kind: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub status: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub reason: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub message: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub last_transition_time: String,
}

/// `ContainerStatus`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct ContainerStatus {
    #[serde(deserialize_with = "nulls::or_default")]
    pub name: String,
    pub resources: Option<StatusRequests>,
    /// See [`PodStatus::allocated_resources`].
    pub allocated_resources: Option<ResourceList>,
}

/// `NodeSpec`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct NodeSpec {
    #[serde(deserialize_with = "nulls::list")]
    pub taints: Vec<Taint>,
    #[serde(deserialize_with = "nulls::or_default")]
    pub unschedulable: bool,
}

/// `Taint`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct Taint {
    #[serde(deserialize_with = "nulls::or_default")]
    pub key: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub value: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub effect: String,
}

/// `NodeStatus`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct NodeStatus {
    #[serde(deserialize_with = "nulls::or_default")]
    pub allocatable: ResourceList,
    #[serde(deserialize_with = "nulls::list")]
    pub images: Vec<ContainerImage>,
    #[serde(deserialize_with = "nulls::list")]
    pub declared_features: Vec<String>,
}

/// `ContainerImage`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct ContainerImage {
    #[serde(deserialize_with = "nulls::list")]
    pub names: Vec<String>,
    #[serde(deserialize_with = "nulls::or_default")]
    pub size_bytes: i64,
}
