//! What a pod needs that no plugin of this version judges, each under the plugin of upstream's that would.
//!
//! Empties as those plugins come. Extended resources that only a DeviceClass serves are told by
//! DynamicResources, node by node.

use crate::api::core::PodSpec;
use supercargo_core::pod::Unjudged;

/// All such needs of a pod.
pub(super) fn needs(spec: &PodSpec) -> Box<[Unjudged]> {
    let claim = spec.resource_claims.first().map(|claim| Unjudged {
        plugin: "DynamicResources",
        what: format!(
            "resource claim {:?} is used, and this version of supercargo does not place pods with resource claims",
            claim.name
        )
        .into(),
    });
    claim.into_iter().collect()
}
