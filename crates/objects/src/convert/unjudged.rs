//! Needs of a pod that no plugin of this version evaluates, under the upstream plugin that would.
//!
//! Entries disappear as plugins are added. Extended resources served only by a DeviceClass are reported per node by
//! DynamicResources.

use crate::api::core::PodSpec;
use supercargo_core::model::pod::Unjudged;

/// Returns all such needs of a pod.
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
