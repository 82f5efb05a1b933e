//! `resource.k8s.io/v1`: the fields of DeviceClass, ResourceSlice and ResourceClaim that the scheduler reads or copies.
//!
//! Fields are documented upstream. Comments here cover only differences in decoding.

use super::core::NodeSelector;
use super::meta::{QuantityText, ResourceList};
use super::{Ignored, Received, kinds, nulls};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

kinds! {
    /// Kind of [`DeviceClass`].
    DeviceClassKind = "resource.k8s.io", "v1", "DeviceClass", "deviceclasses", cluster, DeviceClassSpec, Ignored;
    /// Kind of [`ResourceSlice`].
    ResourceSliceKind = "resource.k8s.io", "v1", "ResourceSlice", "resourceslices", cluster, ResourceSliceSpec, Ignored;
    /// Kind of [`ResourceClaim`].
    ResourceClaimKind = "resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", namespaced, ResourceClaimSpec, ResourceClaimStatus;
}

/// `resource.k8s.io/v1 DeviceClass`.
pub type DeviceClass = Received<DeviceClassKind>;
/// `resource.k8s.io/v1 ResourceSlice`.
pub type ResourceSlice = Received<ResourceSliceKind>;
/// `resource.k8s.io/v1 ResourceClaim`.
pub type ResourceClaim = Received<ResourceClaimKind>;

/// `DeviceClassSpec`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceClassSpec {
    #[serde(deserialize_with = "nulls::list")]
    pub selectors: Vec<DeviceSelector>,
    #[serde(deserialize_with = "nulls::list")]
    pub config: Vec<DeviceClassConfiguration>,
    pub extended_resource_name: Option<String>,
}

/// `DeviceSelector`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceSelector {
    pub cel: Option<CelDeviceSelector>,
}

/// `CELDeviceSelector`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct CelDeviceSelector {
    #[serde(deserialize_with = "nulls::or_default")]
    pub expression: String,
}

/// `DeviceClassConfiguration`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceClassConfiguration {
    pub opaque: Option<OpaqueDeviceConfiguration>,
}

/// `OpaqueDeviceConfiguration`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct OpaqueDeviceConfiguration {
    #[serde(deserialize_with = "nulls::or_default")]
    pub driver: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub parameters: RawJson,
}

/// `ResourceSliceSpec`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct ResourceSliceSpec {
    #[serde(deserialize_with = "nulls::or_default")]
    pub driver: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub pool: ResourcePool,
    pub node_name: Option<String>,
    pub node_selector: Option<NodeSelector>,
    pub all_nodes: Option<bool>,
    pub per_device_node_selection: Option<bool>,
    #[serde(deserialize_with = "nulls::list")]
    pub devices: Vec<Device>,
    #[serde(deserialize_with = "nulls::list")]
    pub shared_counters: Vec<CounterSet>,
}

/// `ResourcePool`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct ResourcePool {
    #[serde(deserialize_with = "nulls::or_default")]
    pub name: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub generation: i64,
    #[serde(deserialize_with = "nulls::or_default")]
    pub resource_slice_count: i64,
}

/// `CounterSet`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct CounterSet {
    #[serde(deserialize_with = "nulls::or_default")]
    pub name: String,
    #[serde(deserialize_with = "nulls::map")]
    pub counters: BTreeMap<String, Counter>,
}

/// `Counter`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct Counter {
    #[serde(deserialize_with = "nulls::or_default")]
    pub value: QuantityText,
}

/// `Device`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct Device {
    #[serde(deserialize_with = "nulls::or_default")]
    pub name: String,
    #[serde(deserialize_with = "nulls::map")]
    pub attributes: BTreeMap<String, DeviceAttribute>,
    #[serde(deserialize_with = "nulls::map")]
    pub capacity: BTreeMap<String, DeviceCapacity>,
    #[serde(deserialize_with = "nulls::list")]
    pub consumes_counters: Vec<DeviceCounterConsumption>,
    pub node_name: Option<String>,
    pub node_selector: Option<NodeSelector>,
    pub all_nodes: Option<bool>,
    #[serde(deserialize_with = "nulls::list")]
    pub taints: Vec<DeviceTaint>,
    pub binds_to_node: Option<bool>,
    #[serde(deserialize_with = "nulls::optional_list")]
    pub binding_conditions: Option<Vec<String>>,
    #[serde(deserialize_with = "nulls::list")]
    pub binding_failure_conditions: Vec<String>,
    pub allow_multiple_allocations: Option<bool>,
}

/// `DeviceAttribute`. The engine checks only whether a list value is present.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceAttribute {
    pub int: Option<i64>,
    pub bool: Option<bool>,
    pub string: Option<String>,
    pub version: Option<String>,
    #[serde(deserialize_with = "nulls::list")]
    pub ints: Vec<i64>,
    #[serde(deserialize_with = "nulls::list")]
    pub bools: Vec<bool>,
    #[serde(deserialize_with = "nulls::list")]
    pub strings: Vec<String>,
    #[serde(deserialize_with = "nulls::list")]
    pub versions: Vec<String>,
}

/// `DeviceCapacity`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceCapacity {
    #[serde(deserialize_with = "nulls::or_default")]
    pub value: QuantityText,
    pub request_policy: Option<CapacityRequestPolicy>,
}

/// `CapacityRequestPolicy`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct CapacityRequestPolicy {
    pub default: Option<QuantityText>,
    #[serde(deserialize_with = "nulls::optional_list")]
    pub valid_values: Option<Vec<QuantityText>>,
    pub valid_range: Option<CapacityRequestPolicyRange>,
}

/// `CapacityRequestPolicyRange`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct CapacityRequestPolicyRange {
    pub min: Option<QuantityText>,
    pub max: Option<QuantityText>,
    pub step: Option<QuantityText>,
}

/// `DeviceCounterConsumption`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceCounterConsumption {
    #[serde(deserialize_with = "nulls::or_default")]
    pub counter_set: String,
    #[serde(deserialize_with = "nulls::map")]
    pub counters: BTreeMap<String, Counter>,
}

/// `DeviceTaint`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceTaint {
    #[serde(deserialize_with = "nulls::or_default")]
    pub key: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub value: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub effect: String,
}

/// `DeviceToleration`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceToleration {
    #[serde(deserialize_with = "nulls::or_default")]
    pub key: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub operator: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub value: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub effect: String,
    pub toleration_seconds: Option<i64>,
}

/// `ResourceClaimSpec`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct ResourceClaimSpec {
    #[serde(deserialize_with = "nulls::or_default")]
    pub devices: DeviceClaim,
}

/// `DeviceClaim`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceClaim {
    #[serde(deserialize_with = "nulls::list")]
    pub requests: Vec<DeviceRequest>,
    #[serde(deserialize_with = "nulls::list")]
    pub constraints: Vec<DeviceConstraint>,
    #[serde(deserialize_with = "nulls::list")]
    pub config: Vec<DeviceClaimConfiguration>,
}

/// `DeviceRequest`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceRequest {
    #[serde(deserialize_with = "nulls::or_default")]
    pub name: String,
    pub exactly: Option<ExactDeviceRequest>,
    #[serde(deserialize_with = "nulls::list")]
    pub first_available: Vec<DeviceSubRequest>,
}

/// `ExactDeviceRequest`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct ExactDeviceRequest {
    #[serde(deserialize_with = "nulls::or_default")]
    pub device_class_name: String,
    #[serde(deserialize_with = "nulls::list")]
    pub selectors: Vec<DeviceSelector>,
    #[serde(deserialize_with = "nulls::or_default")]
    pub allocation_mode: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub count: i64,
    pub admin_access: Option<bool>,
    #[serde(deserialize_with = "nulls::list")]
    pub tolerations: Vec<DeviceToleration>,
    pub capacity: Option<CapacityRequirements>,
}

/// `DeviceSubRequest`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceSubRequest {
    #[serde(deserialize_with = "nulls::or_default")]
    pub name: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub device_class_name: String,
    #[serde(deserialize_with = "nulls::list")]
    pub selectors: Vec<DeviceSelector>,
    #[serde(deserialize_with = "nulls::or_default")]
    pub allocation_mode: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub count: i64,
    #[serde(deserialize_with = "nulls::list")]
    pub tolerations: Vec<DeviceToleration>,
    pub capacity: Option<CapacityRequirements>,
}

/// `CapacityRequirements`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct CapacityRequirements {
    #[serde(deserialize_with = "nulls::or_default")]
    pub requests: ResourceList,
}

/// `DeviceConstraint`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceConstraint {
    #[serde(deserialize_with = "nulls::list")]
    pub requests: Vec<String>,
    pub match_attribute: Option<String>,
    pub distinct_attribute: Option<String>,
}

/// `DeviceClaimConfiguration`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceClaimConfiguration {
    #[serde(deserialize_with = "nulls::list")]
    pub requests: Vec<String>,
    pub opaque: Option<OpaqueDeviceConfiguration>,
}

/// `ResourceClaimStatus`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct ResourceClaimStatus {
    pub allocation: Option<AllocationResult>,
    #[serde(deserialize_with = "nulls::list")]
    pub reserved_for: Vec<ResourceClaimConsumerReference>,
    #[serde(deserialize_with = "nulls::list")]
    pub devices: Vec<AllocatedDeviceStatus>,
}

/// `AllocationResult`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct AllocationResult {
    #[serde(deserialize_with = "nulls::or_default")]
    pub devices: DeviceAllocationResult,
    pub node_selector: Option<NodeSelector>,
    pub allocation_timestamp: Option<Time>,
}

/// `DeviceAllocationResult`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceAllocationResult {
    #[serde(deserialize_with = "nulls::list")]
    pub results: Vec<DeviceRequestAllocationResult>,
    #[serde(deserialize_with = "nulls::list")]
    pub config: Vec<DeviceAllocationConfiguration>,
}

/// `DeviceRequestAllocationResult`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceRequestAllocationResult {
    #[serde(deserialize_with = "nulls::or_default")]
    pub request: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub driver: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub pool: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub device: String,
    pub admin_access: Option<bool>,
    #[serde(deserialize_with = "nulls::list")]
    pub tolerations: Vec<DeviceToleration>,
    #[serde(deserialize_with = "nulls::list")]
    pub binding_conditions: Vec<String>,
    #[serde(deserialize_with = "nulls::list")]
    pub binding_failure_conditions: Vec<String>,
    #[serde(rename = "shareID")]
    pub share_id: Option<String>,
    #[serde(deserialize_with = "nulls::or_default")]
    pub consumed_capacity: ResourceList,
}

/// `DeviceAllocationConfiguration`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceAllocationConfiguration {
    #[serde(deserialize_with = "nulls::or_default")]
    pub source: String,
    #[serde(deserialize_with = "nulls::list")]
    pub requests: Vec<String>,
    pub opaque: Option<OpaqueDeviceConfiguration>,
}

/// `ResourceClaimConsumerReference`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct ResourceClaimConsumerReference {
    #[serde(deserialize_with = "nulls::or_default")]
    pub uid: String,
}

/// `AllocatedDeviceStatus`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct AllocatedDeviceStatus {
    #[serde(deserialize_with = "nulls::or_default")]
    pub driver: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub pool: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub device: String,
    #[serde(deserialize_with = "nulls::list")]
    pub conditions: Vec<DeviceCondition>,
}

/// `meta/v1 Condition`, of an allocated device.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct DeviceCondition {
    #[serde(rename = "type", deserialize_with = "nulls::or_default")]
    pub kind: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub status: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub reason: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub message: String,
}

/// JSON that the scheduler copies and never reads (`runtime.RawExtension`): without whitespace outside of strings, and
/// without the escapes of characters that Go's encoder adds for HTML. Numbers keep their digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawJson(Box<str>);

impl RawJson {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses JSON; `None` if it is not valid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let raw: &RawValue = serde_json::from_str(text).ok()?;
        Some(Self(normalized(raw.get()).into()))
    }
}

impl Default for RawJson {
    fn default() -> Self {
        Self("null".into())
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        Ok(Self(normalized(raw.get()).into()))
    }
}

impl Serialize for RawJson {
    /// Writes the value. Numbers outside the range of f64 and values nested more than 127 deep become null.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<serde_json::Value>(&self.0).unwrap_or_default().serialize(to)
    }
}

/// Removes the whitespace between the tokens of valid JSON, and the escapes that Go adds for HTML.
fn normalized(json: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(json.len()), json);
    let mut is_in_string = false;
    while let Some(next) = rest.chars().next() {
        let mut length = next.len_utf8();
        match next {
            '"' => is_in_string = !is_in_string,
            ' ' | '\t' | '\n' | '\r' if !is_in_string => {
                rest = &rest[length..];
                continue;
            }
            '\\' => match unescaped(rest) {
                Some(plain) => {
                    text.push(plain);
                    rest = &rest[6..];
                    continue;
                }
                None => length = 2,
            },
            _ => {}
        }
        text.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    text
}

/// Returns the character at the beginning of the text if Go escapes it for HTML.
fn unescaped(text: &str) -> Option<char> {
    let escape = text.get(..6)?;
    let escapes = [
        ("\\u003c", '<'),
        ("\\u003e", '>'),
        ("\\u0026", '&'),
        ("\\u2028", '\u{2028}'),
        ("\\u2029", '\u{2029}'),
    ];
    escapes.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(escape)).map(|(_, plain)| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_json_is_the_same_for_all_ways_to_write_it() {
        let parse = |text| RawJson::parse(text).map(|json| json.as_str().to_owned());
        let plain = parse(r#"{"a b": [1.0, 12345678901234567890123], "c": "<&\" \\"}"#);
        assert_eq!(plain.as_deref(), Some(r#"{"a b":[1.0,12345678901234567890123],"c":"<&\" \\"}"#));
        assert_eq!(
            parse("{ \"a b\":[1.0,\n12345678901234567890123],\"c\":\"\\u003C\\u0026\\\" \\\\\"}"),
            plain
        );
        assert_eq!(parse("{"), None);
    }
}
