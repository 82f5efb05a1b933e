//! DynamicResources' PostFilter, as it is for a pod without claims; pods with claims are refused by `not_built`.
//!
//! Upstream: `dynamicresources/dynamicresources.go#PostFilter`.

use crate::framework::post_filter::{PostFilterPlugin, PostFiltered, Unplaced};
use crate::framework::{CycleError, PluginName};

const NAME: PluginName = "DynamicResources";

/// Has no claim to deallocate.
#[derive(Clone, Copy, Debug)]
pub struct Deallocation;

impl PostFilterPlugin for Deallocation {
    fn name(&self) -> PluginName {
        NAME
    }

    /// Where a plugin before this one rejected the pod in PreFilter, upstream's finds no state and fails with this text,
    /// so that preemption is not asked either.
    fn post_filter<'a>(&self, unplaced: &Unplaced<'a>) -> PostFiltered<'a> {
        if !unplaced.prepared_by.contains(&NAME) {
            return PostFiltered::Failed(CycleError("not found".to_owned()));
        }
        PostFiltered::Nothing { reason: "no new claims to deallocate".to_owned(), clear_nomination: false }
    }
}
