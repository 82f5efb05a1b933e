//! `resource.k8s.io/v1`: the field of DeviceClass that maps it to an extended resource.

use super::{Ignored, Received, kinds};
use serde::{Deserialize, Serialize};

kinds! {
    /// Kind of [`DeviceClass`].
    DeviceClassKind = "resource.k8s.io", "v1", "DeviceClass", "deviceclasses", cluster, DeviceClassSpec, Ignored;
}

/// `resource.k8s.io/v1 DeviceClass`.
pub type DeviceClass = Received<DeviceClassKind>;

/// `DeviceClassSpec`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceClassSpec {
    /// `extendedResourceName`.
    pub extended_resource_name: Option<String>,
}
