//! Rebuilds the cache from its own objects after a panic may have left it half changed.

use super::Cache;
use crate::model::event::ObjectKey;

impl Cache {
    /// Rebuilds the cache without the object of this key.
    ///
    /// Nodes, pods and nominations are counted again, and no clock goes back. Objects looked up by name have no
    /// derived sums and are kept.
    pub(crate) fn rebuilt(self, without: &ObjectKey) -> Self {
        let Self {
            nodes,
            preemption_log,
            pods,
            pod_classes,
            images: _,
            nominated,
            mut lookups,
            mut volumes,
            version,
            // Set before every decision.
            now: _,
            hidden_claims: _,
            undoes_exactly,
        } = self;
        match *without {
            ObjectKey::Pod(_) | ObjectKey::Node(_) => {}
            ObjectKey::Namespace(name) => lookups.remove_namespace(name),
            ObjectKey::Service(namespace, name) => lookups.remove_service(namespace, name),
            ObjectKey::Controller(kind, namespace, name) => lookups.remove_controller(kind, namespace, name),
            ObjectKey::DisruptionBudget(namespace, name) => lookups.remove_disruption_budget(namespace, name),
            ObjectKey::PodGroup(key) => drop(lookups.remove_group(key)),
            ObjectKey::DeviceClass(name) => lookups.device_classes_mut().remove(name),
            ObjectKey::Storage(key) => {
                volumes.remove(key);
            }
        }
        if let ObjectKey::Pod(uid) = without {
            volumes.forget(uid);
        }
        let mut cache = Self {
            nodes: nodes.successor(),
            preemption_log: preemption_log.successor(),
            pod_classes: pod_classes.successor(),
            lookups,
            volumes,
            version,
            undoes_exactly,
            ..Self::default()
        };
        let is_out = |uid: &str| matches!(without, ObjectKey::Pod(out) if **out == *uid);
        for node in nodes.infos().filter(|node| *without != ObjectKey::Node(node.name)) {
            cache.apply_node(node);
        }
        for entry in pods.iter().filter(|entry| !is_out(&entry.info.uid)) {
            cache.place(&entry.info, nodes.name(entry.node), entry.state);
        }
        for (pod, node) in nominated.iter().filter(|(pod, _)| !is_out(&pod.uid)) {
            cache.nominate(pod, Some(node));
        }
        cache
    }
}
