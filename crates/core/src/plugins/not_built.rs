//! Stands where a plugin of upstream's is not built yet, and refuses the pods that plugin would have to judge.
//!
//! To place them by guess could put a pod where its device is not. Each goes when its plugin comes.

use crate::cache::Snapshot;
use crate::framework::{
    ClusterEvent, EventSet, FilterPlugin, FilterRule, Hint, PluginName, Prepared, Rejection,
};
use crate::pod::PodInfo;

/// A plugin that is not built.
#[derive(Clone, Copy, Debug)]
pub struct NotBuilt {
    name: PluginName,
}

/// In place of upstream's DynamicResources: claims of devices.
pub const DYNAMIC_RESOURCES: NotBuilt = NotBuilt { name: "DynamicResources" };

impl FilterPlugin for NotBuilt {
    fn name(&self) -> PluginName {
        self.name
    }

    fn prepare(&self, pod: &PodInfo, _snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        match pod.unjudged.iter().find(|need| need.plugin == self.name) {
            Some(need) => Prepared::Rejected(Rejection::unresolvable(need.what.to_string())),
            None => Prepared::Skip,
        }
    }

    fn events(&self) -> EventSet {
        EventSet::NONE
    }

    fn hint(&self, event: &ClusterEvent<'_>, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Hint {
        Hint::queue_if(matches!(event, ClusterEvent::UnschedulableTimeout))
    }
}
