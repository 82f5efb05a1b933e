//! PreEnqueue: finds the plugin of a profile that keeps a pod out of the active queue.

use crate::cache::Snapshot;
use crate::cycle::Framework;
use crate::framework::PluginName;
use crate::framework::extension_point::ExtensionPoint;
use crate::model::pod::PodInfo;
use crate::plugins::{dynamic_resources, scheduling_gates};

impl Framework {
    /// Returns the PreEnqueue plugin that gates the pod, if it is enabled.
    pub fn gate(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<PluginName> {
        let is_gated_by = |plugin: &PluginName| match *plugin {
            scheduling_gates::NAME => scheduling_gates::pre_enqueue(pod, snapshot.tables()).is_some(),
            dynamic_resources::NAME => dynamic_resources::pre_enqueue(pod, snapshot).is_some(),
            _ => false,
        };
        self.plugins_at(ExtensionPoint::PreEnqueue).iter().copied().find(is_gated_by)
    }
}
