//! Arguments of plugins as written.
//!
//! Upstream: `kube-scheduler/config/v1/types_pluginargs.go`, `api/core/v1/types.go`.

use crate::v1::API_VERSION;
use crate::v1::duration::GoDuration;
use crate::yaml::decode::{self, Part};
use crate::yaml::document::{Document, Value};
use crate::yaml::field::Problem;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

macro_rules! typed_args {
    ($($plugin:ident($args:ident),)*) => {
        /// Arguments of a plugin.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub enum Args {
            /// No arguments.
            #[default]
            Absent,
            /// Not decoded yet; does not occur in a complete configuration.
            Unread(u64),
            /// Arguments of a plugin without an argument type, unchanged.
            Raw(serde_json::Value),
            $(#[doc = concat!("Arguments of ", stringify!($plugin), ".")] $plugin($args),)*
        }

        impl Args {
            /// Returns the empty arguments of a plugin; `None` for a plugin without an argument type.
            pub fn empty(plugin: &str) -> Option<Self> {
                match plugin {
                    $(stringify!($plugin) => Some(Self::$plugin($args::default())),)*
                    _ => None,
                }
            }

            fn of_kind(document: &Document, id: usize, path: &str, kind: &str) -> Option<Result<Self, Vec<Problem>>> {
                match kind {
                    $(stringify!($args) => Some(decode::decode(document, id, path).map(Self::$plugin)),)*
                    _ => None,
                }
            }

            fn kind(&self) -> Option<&'static str> {
                match self {
                    Self::Absent | Self::Unread(_) | Self::Raw(_) => None,
                    $(Self::$plugin(_) => Some(stringify!($args)),)*
                }
            }
        }

        impl Serialize for Args {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self {
                    Self::Absent | Self::Unread(_) => to.serialize_none(),
                    Self::Raw(value) => value.serialize(to),
                    $(Self::$plugin(args) => Typed { api_version: API_VERSION, kind: stringify!($args), args }.serialize(to),)*
                }
            }
        }
    };
}

typed_args! {
    DefaultPreemption(DefaultPreemptionArgs),
    DynamicResources(DynamicResourcesArgs),
    InterPodAffinity(InterPodAffinityArgs),
    NodeAffinity(NodeAffinityArgs),
    NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs),
    NodeResourcesFit(NodeResourcesFitArgs),
    PodTopologySpread(PodTopologySpreadArgs),
    VolumeBinding(VolumeBindingArgs),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    args: &'a T,
}

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Part::deserialize(from).map(|Part(id)| Self::Unread(id))
    }
}

impl Args {
    /// Returns whether there are no arguments.
    pub fn is_absent(&self) -> bool {
        *self == Self::Absent
    }

    /// Decodes arguments with the type of the plugin.
    ///
    /// # Errors
    /// Fails if they have another type, or unknown fields.
    pub(crate) fn read(&self, document: &Document, plugin: &str, path: &str) -> Result<Self, Vec<Problem>> {
        let Self::Unread(id) = *self else { return Ok(Self::empty(plugin).unwrap_or_default()) };
        let id = usize::try_from(id).expect("it was one");
        let node = document.node(id);
        let Some(own_kind) = Self::empty(plugin).and_then(|args| args.kind()) else {
            return Ok(match json(document, id) {
                serde_json::Value::Null => Self::Absent,
                value => Self::Raw(value),
            });
        };
        let problem = |text: String| vec![Problem::new(path, text).at(node.place)];
        let text = |key: &str| match document.get(id, key).map(|node| &node.value) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::Text(text)) => Ok(text.as_str()),
            Some(_) => Err(problem(format!("decoding args for plugin {plugin}: {key} must be a string"))),
        };
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let kind = if kind.is_empty() { own_kind } else { kind };
        let unregistered = || {
            problem(format!(
                "decoding args for plugin {plugin}: no kind {kind:?} is registered for version {:?}",
                if api_version.is_empty() { API_VERSION } else { api_version }
            ))
        };
        if !["", API_VERSION].contains(&api_version) {
            return Err(unregistered());
        }
        let args = Self::of_kind(document, id, path, kind).ok_or_else(unregistered)??;
        if kind != own_kind {
            let group = API_VERSION.split('/').next().unwrap_or_default();
            return Err(problem(format!(
                "args for plugin {plugin} were not of type {own_kind}.{group}, got {kind}.{group}"
            )));
        }
        Ok(args)
    }
}

/// Converts a node to JSON.
fn json(document: &Document, id: usize) -> serde_json::Value {
    match &document.node(id).value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(number) => match i64::try_from(*number) {
            Ok(number) => number.into(),
            Err(_) => u64::try_from(*number).unwrap_or(u64::MAX).into(),
        },
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => (*number as i64).into(),
        Value::Float(number) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(|&id| json(document, id)).collect(),
        Value::Map(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), json(document, entry.value))).collect()
        }
    }
}

/// `DefaultPreemptionArgs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DefaultPreemptionArgs {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_candidate_nodes_percentage: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_candidate_nodes_absolute: Option<i32>,
}

/// `DynamicResourcesArgs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DynamicResourcesArgs {
    pub filter_timeout: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding_timeout: Option<GoDuration>,
}

/// `InterPodAffinityArgs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InterPodAffinityArgs {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard_pod_affinity_weight: Option<i32>,
    pub ignore_preferred_terms_of_existing_pods: bool,
}

/// `NodeResourcesBalancedAllocationArgs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeResourcesBalancedAllocationArgs {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceSpec>,
}

/// `ResourceSpec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSpec {
    pub name: String,
    #[serde(skip_serializing_if = "super::is_zero")]
    pub weight: i64,
}

/// `NodeResourcesFitArgs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeResourcesFitArgs {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored_resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored_resource_groups: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scoring_strategy: Option<ScoringStrategy>,
}

/// `ScoringStrategy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScoringStrategy {
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_to_capacity_ratio: Option<RequestedToCapacityRatio>,
}

/// `RequestedToCapacityRatioParam`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestedToCapacityRatio {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<UtilizationShapePoint>,
}

/// `UtilizationShapePoint`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UtilizationShapePoint {
    pub utilization: i32,
    pub score: i32,
}

/// `VolumeBindingArgs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeBindingArgs {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind_timeout_seconds: Option<i64>,
    /// Absent and empty are different.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<UtilizationShapePoint>>,
}

/// `PodTopologySpreadArgs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTopologySpreadArgs {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub default_constraints: Vec<TopologySpreadConstraint>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub defaulting_type: String,
}

/// `TopologySpreadConstraint`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySpreadConstraint {
    pub max_skew: i32,
    pub topology_key: String,
    pub when_unsatisfiable: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_domains: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_taints_policy: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<String>,
}

/// `LabelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// `NodeSelectorRequirement` and `LabelSelectorRequirement`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectorRequirement {
    pub key: String,
    pub operator: String,
    /// Absent and empty are different in validation.
    #[serde(skip_serializing_if = "no_values")]
    pub values: Option<Vec<String>>,
}

fn no_values(values: &Option<Vec<String>>) -> bool {
    values.as_ref().is_none_or(Vec::is_empty)
}

/// `NodeAffinityArgs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAffinityArgs {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_affinity: Option<NodeAffinity>,
}

/// `NodeAffinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct NodeAffinity {
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Option::is_none"
    )]
    pub required: Option<NodeSelector>,
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<PreferredSchedulingTerm>,
}

/// `NodeSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    pub node_selector_terms: Option<Vec<NodeSelectorTerm>>,
}

/// `NodeSelectorTerm`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<SelectorRequirement>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_fields: Vec<SelectorRequirement>,
}

/// `PreferredSchedulingTerm`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreferredSchedulingTerm {
    pub weight: i32,
    pub preference: NodeSelectorTerm,
}
