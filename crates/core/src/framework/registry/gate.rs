//! PreEnqueue: finds the plugin of a profile that keeps a pod out of the active queue.

use super::ExtensionPoint;
use crate::cycle::Framework;
use crate::framework::PluginName;
use crate::intern::Tables;
use crate::plugins::scheduling_gates;
use crate::pod::PodInfo;

impl Framework {
    /// Returns the PreEnqueue plugin that gates the pod, if it is enabled.
    pub fn gate(&self, pod: &PodInfo, tables: &Tables) -> Option<PluginName> {
        let held = self.runs(ExtensionPoint::PreEnqueue, scheduling_gates::NAME)
            && scheduling_gates::pre_enqueue(pod, tables).is_some();
        held.then_some(scheduling_gates::NAME)
    }
}
