//! `meta/v1`: the part of object metadata the scheduler reads, label selectors and quantities.

use super::nulls;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Metadata as it is read: annotations, managed fields, finalizers and owners that do not control are left behind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    deletion_timestamp: Option<Time>,
    #[serde(deserialize_with = "nulls::optional_texts")]
    labels: Option<BTreeMap<String, String>>,
    #[serde(deserialize_with = "nulls::list")]
    owner_references: Vec<Owner>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Owner {
    #[serde(deserialize_with = "nulls::or_default")]
    api_version: String,
    #[serde(deserialize_with = "nulls::or_default")]
    kind: String,
    #[serde(deserialize_with = "nulls::or_default")]
    name: String,
    #[serde(deserialize_with = "nulls::or_default")]
    uid: String,
    controller: Option<bool>,
}

impl From<Metadata> for ObjectMeta {
    fn from(read: Metadata) -> Self {
        let controller = read.owner_references.into_iter().find(|owner| owner.controller == Some(true));
        Self {
            name: read.name,
            namespace: read.namespace,
            uid: read.uid,
            resource_version: read.resource_version,
            generation: read.generation,
            deletion_timestamp: read.deletion_timestamp,
            labels: read.labels,
            owner_references: controller.map(|owner| {
                vec![OwnerReference {
                    api_version: owner.api_version,
                    kind: owner.kind,
                    name: owner.name,
                    uid: owner.uid,
                    controller: Some(true),
                    block_owner_deletion: None,
                }]
            }),
            ..Self::default()
        }
    }
}

/// `LabelSelector`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// `matchLabels`.
    #[serde(deserialize_with = "nulls::texts")]
    pub match_labels: BTreeMap<String, String>,
    /// `matchExpressions`.
    #[serde(deserialize_with = "nulls::list")]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// `LabelSelectorRequirement` and `NodeSelectorRequirement`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SelectorRequirement {
    /// `key`.
    #[serde(deserialize_with = "nulls::or_default")]
    pub key: String,
    /// `operator`, as written.
    #[serde(deserialize_with = "nulls::or_default")]
    pub operator: String,
    /// `values`; absent and empty show differently in error texts.
    #[serde(deserialize_with = "nulls::optional_list")]
    pub values: Option<Vec<String>>,
}

/// A quantity as it is written. It is parsed where it is judged, in `convert`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantityText(Box<str>);

impl QuantityText {
    /// The text, without quotes and spaces around it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for QuantityText {
    fn default() -> Self {
        Self("0".into())
    }
}

impl<'de> Deserialize<'de> for QuantityText {
    /// Takes what upstream's `Quantity.UnmarshalJSON` takes: any JSON, as it stands between its quotes; null is zero.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        let raw = raw.get();
        if raw == "null" {
            return Ok(Self::default());
        }
        let inside = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
        Ok(Self(inside.unwrap_or(raw).trim().into()))
    }
}

/// Amounts by resource name.
pub type ResourceList = BTreeMap<String, QuantityText>;
