//! PreEnqueue: finds the plugin of a profile that keeps a pod out of the active queue.

use crate::cycle::Framework;
use crate::framework::PluginName;
use crate::framework::extension_point::ExtensionPoint;
use crate::model::intern::Tables;
use crate::model::pod::PodInfo;
use crate::plugins::scheduling_gates;

impl Framework {
    /// Returns the PreEnqueue plugin that gates the pod, if it is enabled.
    pub fn gate(&self, pod: &PodInfo, tables: &Tables) -> Option<PluginName> {
        let held = self.runs(ExtensionPoint::PreEnqueue, scheduling_gates::NAME)
            && scheduling_gates::pre_enqueue(pod, tables).is_some();
        held.then_some(scheduling_gates::NAME)
    }
}
