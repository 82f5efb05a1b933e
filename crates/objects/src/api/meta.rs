//! `meta/v1`: object metadata as far as the scheduler reads it, label selectors and quantities.

use super::nulls;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// The finalizer of ResourceClaims that have devices. Of all finalizers, only this one is decoded.
pub const PROTECTION: &str = "resource.kubernetes.io/delete-protection";

/// Decoded metadata, without managed fields, other finalizers, owners that are not controllers, and unused annotations.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(super) generation: Option<i64>,
    pub(super) creation_timestamp: Option<Time>,
    pub(super) deletion_timestamp: Option<Time>,
    #[serde(deserialize_with = "nulls::optional_texts")]
    pub(super) labels: Option<BTreeMap<String, String>>,
    #[serde(deserialize_with = "known_annotations")]
    pub(super) annotations: Option<BTreeMap<String, String>>,
    #[serde(deserialize_with = "nulls::list")]
    pub(super) owner_references: Vec<Owner>,
    #[serde(rename = "finalizers", deserialize_with = "has_protection")]
    pub(super) is_protected: bool,
}

fn has_protection<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let finalizers: Vec<String> = nulls::list(from)?;
    Ok(finalizers.iter().any(|name| name == PROTECTION))
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Owner {
    #[serde(deserialize_with = "nulls::or_default")]
    pub(super) api_version: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub(super) kind: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub(super) uid: String,
    pub(super) controller: Option<bool>,
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
            creation_timestamp: read.creation_timestamp,
            deletion_timestamp: read.deletion_timestamp,
            finalizers: read.is_protected.then(|| vec![PROTECTION.to_owned()]),
            labels: read.labels,
            annotations: read.annotations,
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

/// Annotations of claims, volumes, CSINodes, ResourceClaims and PodGroups that the scheduler reads.
pub mod annotation {
    use supercargo_core::model::group_options;

    /// On claims and volumes: the storage class; overrides `spec.storageClassName`.
    pub const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
    /// On claims: both sides of the binding are written.
    pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
    /// On volumes: the binding was made by a controller, not by a user.
    pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
    /// On claims: the node that the volume is provisioned for.
    pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
    /// On CSINodes: the in-tree plugins whose volumes are served by CSI drivers.
    pub const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";
    /// On ResourceClaims: the scheduler made the claim for a pod's extended resources.
    pub const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";
    /// All annotations that are decoded.
    pub(in crate::api) const ALL: [&str; 13] = [
        CLASS,
        BIND_COMPLETED,
        BOUND_BY_CONTROLLER,
        SELECTED_NODE,
        MIGRATED_PLUGINS,
        EXTENDED_RESOURCE_CLAIM,
        group_options::REPLACEMENTS,
        group_options::PREFERRED_TOPOLOGY,
        group_options::RANK_LABEL,
        group_options::ROLE_LABEL,
        group_options::MIN_PER_ROLE,
        group_options::START_WITHIN,
        group_options::RESERVE,
    ];
}

/// Decodes the annotations in use and skips the others, which may be large. `None` if there are none at all.
fn known_annotations<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    struct Known;

    impl<'de> Visitor<'de> for Known {
        type Value = Option<BTreeMap<String, String>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let (mut known, mut is_empty) = (BTreeMap::new(), true);
            while let Some(key) = map.next_key::<KnownText>()? {
                is_empty = false;
                match key.0 {
                    Some(key) => {
                        let value: Option<String> = map.next_value()?;
                        known.insert(key.to_owned(), value.unwrap_or_default());
                    }
                    // Upstream rejects a value that is not a string.
                    None => {
                        map.next_value::<Option<KnownText>>()?;
                    }
                }
            }
            Ok((!is_empty).then_some(known))
        }
    }

    from.deserialize_any(Known)
}

/// A string, kept if it is the name of an annotation in use.
struct KnownText(Option<&'static str>);

impl<'de> Deserialize<'de> for KnownText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct AnyText;

        impl Visitor<'_> for AnyText {
            type Value = KnownText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<KnownText, E> {
                Ok(KnownText(annotation::ALL.into_iter().find(|&known| known == text)))
            }
        }

        from.deserialize_str(AnyText)
    }
}

/// `LabelSelector`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
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
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct SelectorRequirement {
    /// `key`.
    #[serde(deserialize_with = "nulls::or_default")]
    pub key: String,
    /// `operator`, as written in the object.
    #[serde(deserialize_with = "nulls::or_default")]
    pub operator: String,
    /// `values`; absent and empty are displayed differently in error messages.
    #[serde(deserialize_with = "nulls::optional_list")]
    pub values: Option<Vec<String>>,
}

/// A quantity as written in the object. `convert` parses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantityText(pub(super) Box<str>);

impl QuantityText {
    /// Returns the text without surrounding quotes and spaces.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for QuantityText {
    fn default() -> Self {
        Self("0".into())
    }
}

impl Serialize for QuantityText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for QuantityText {
    /// Accepts what upstream's `Quantity.UnmarshalJSON` accepts: any JSON value, without its quotes; null is zero.
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
