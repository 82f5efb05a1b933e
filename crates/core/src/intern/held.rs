//! Garbage collection, mark phase: every type that holds ids marks them.
//!
//! An id that is held but not marked would later be assigned to another text. Therefore each implementation
//! names *all* fields of its type, including those without ids. A new field does not compile until it is
//! classified.
//!
//! Reference counts would add a cost to every clone of a pod. Marking instead walks all gc roots each time the
//! tables have grown by half, in slices ([`super::round`]).

use super::{LabelSetId, Symbol, TaintSetId};
use crate::cache::{DeviceClass, DisruptionBudget, ImageState, Service};
use crate::event::ObjectKey;
use crate::extender::{Extender, ExtenderId, Room};
use crate::hash::{FixedMap, Hashed, IdMap, IdSet};
use crate::node::{NodeIdx, NodeInfo, Taint, TaintEffect};
use crate::pod::{
    Controller, ControllerKind, HostPort, PodAffinity, PodAffinityTerm, PodInfo, PodTemplate,
    PreferredNodeTerm, SpreadConstraint, Toleration, WeightedPodAffinityTerm,
};
use crate::resources::{PodResources, Resources};
use crate::selector::{NodeSelectorTerm, Operator, RequiredNodeAffinity, Requirement, Selector, TermDemands};
use crate::shared::Shared;
use crate::signature::{NodeSignature, Signature, VolumelessSignature};
use crate::volume::{
    ClaimInfo, ClaimRef, CsiDriverInfo, CsiNodeInfo, CsiStorageCapacityInfo, CsiVolume, ExclusiveDisk,
    InTreePlugin, InTreeVolume, InlineDisk, MigratableDisk, MigratedVolume, PersistentVolumeInfo, PodVolume,
    Reservation, StorageClassInfo, StorageKey, VolumeAttachmentInfo, VolumeNodeAffinity, VolumeSource,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The marked ids of each table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    pub(super) symbols: Bits,
    pub(super) label_sets: Bits,
    pub(super) taint_sets: Bits,
}

/// A set of small numbers, one bit each.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn set(&mut self, at: usize) {
        if self.0.len() <= at / 64 {
            self.0.resize(at / 64 + 1, 0);
        }
        self.0[at / 64] |= 1 << (at % 64);
    }

    /// Whether this set contains all of `others`.
    #[cfg(debug_assertions)]
    fn has_all(&self, others: &Self) -> bool {
        others
            .0
            .iter()
            .zip(self.0.iter().chain(std::iter::repeat(&0)))
            .all(|(others, these)| others & !these == 0)
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}

impl Marks {
    /// Whether all ids in `others` are marked.
    #[cfg(debug_assertions)]
    pub(crate) fn have_all(&self, others: &Self) -> bool {
        self.symbols.has_all(&others.symbols)
            && self.label_sets.has_all(&others.label_sets)
            && self.taint_sets.has_all(&others.taint_sets)
    }
}

/// A type whose values may hold ids.
pub(crate) trait HoldsIds {
    /// Marks all ids that the value holds.
    fn mark(&self, marks: &mut Marks);
}

impl HoldsIds for Symbol {
    fn mark(&self, marks: &mut Marks) {
        marks.symbols.set(self.index());
    }
}

impl HoldsIds for LabelSetId {
    fn mark(&self, marks: &mut Marks) {
        marks.label_sets.set(self.0 as usize);
    }
}

impl HoldsIds for TaintSetId {
    fn mark(&self, marks: &mut Marks) {
        marks.taint_sets.set(self.0 as usize);
    }
}

/// Implements [`HoldsIds`] for types without ids.
macro_rules! holds_no_ids {
    ($($type:ty),* $(,)?) => {
        $(impl HoldsIds for $type {
            fn mark(&self, _: &mut Marks) {}
        })*
    };
}

/// Implements [`HoldsIds`] for a struct, given its fields with ids and its fields without.
macro_rules! holds_ids {
    ($type:ty { $($held:ident),* $(,)? } $(but not { $($other:ident),* $(,)? })?) => {
        impl $crate::intern::HoldsIds for $type {
            fn mark(&self, marks: &mut $crate::intern::Marks) {
                let Self { $($held,)* $($($other: _,)*)? } = self;
                $($crate::intern::HoldsIds::mark($held, marks);)*
            }
        }
    };
}
pub(crate) use holds_ids;

holds_no_ids!(
    bool,
    i32,
    u32,
    i64,
    u64,
    i128,
    usize,
    str,
    NodeIdx,
    ControllerKind,
    InTreePlugin,
    ImageState,
    ExtenderId
);

impl<T: HoldsIds + ?Sized> HoldsIds for Arc<T> {
    fn mark(&self, marks: &mut Marks) {
        (**self).mark(marks);
    }
}

impl<T: HoldsIds> HoldsIds for Shared<T> {
    fn mark(&self, marks: &mut Marks) {
        (**self).mark(marks);
    }
}

impl<T: HoldsIds + ?Sized> HoldsIds for Box<T> {
    fn mark(&self, marks: &mut Marks) {
        (**self).mark(marks);
    }
}

impl<T: HoldsIds> HoldsIds for [T] {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<T: HoldsIds> HoldsIds for Vec<T> {
    fn mark(&self, marks: &mut Marks) {
        self.as_slice().mark(marks);
    }
}

impl<T: HoldsIds> HoldsIds for VecDeque<T> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<T: HoldsIds> HoldsIds for Option<T> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<T: HoldsIds, E> HoldsIds for Result<T, E> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<A: HoldsIds, B: HoldsIds> HoldsIds for (A, B) {
    fn mark(&self, marks: &mut Marks) {
        self.0.mark(marks);
        self.1.mark(marks);
    }
}

impl<A: HoldsIds, B: HoldsIds, C: HoldsIds> HoldsIds for (A, B, C) {
    fn mark(&self, marks: &mut Marks) {
        self.0.mark(marks);
        self.1.mark(marks);
        self.2.mark(marks);
    }
}

impl<K: HoldsIds, V: HoldsIds> HoldsIds for BTreeMap<K, V> {
    fn mark(&self, marks: &mut Marks) {
        for (key, value) in self {
            key.mark(marks);
            value.mark(marks);
        }
    }
}

impl<T: HoldsIds> HoldsIds for BTreeSet<T> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<K: HoldsIds, V: HoldsIds> HoldsIds for FixedMap<K, V> {
    fn mark(&self, marks: &mut Marks) {
        for (key, value) in self {
            key.mark(marks);
            value.mark(marks);
        }
    }
}

impl<K: HoldsIds, V: HoldsIds> HoldsIds for IdMap<K, V> {
    fn mark(&self, marks: &mut Marks) {
        for (key, value) in self {
            key.mark(marks);
            value.mark(marks);
        }
    }
}

impl<K: HoldsIds> HoldsIds for IdSet<K> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|key| key.mark(marks));
    }
}

holds_ids!(Resources { scalar } but not { cpu_milli, memory, ephemeral_storage });
holds_ids!(PodResources { request, placed, score } but not { non_zero_cpu_milli, non_zero_memory });
holds_ids!(Requirement { key, operator });
holds_ids!(TermDemands { labels, names });
holds_ids!(NodeSelectorTerm { demands, pinned_names });
holds_ids!(RequiredNodeAffinity { node_selector, terms });

impl HoldsIds for Operator {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::In(values) | Self::NotIn(values) => values.mark(marks),
            Self::Exists | Self::DoesNotExist | Self::Gt(_) | Self::Lt(_) => {}
        }
    }
}

impl HoldsIds for Selector {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Nothing => {}
            Self::All(requirements) => requirements.mark(marks),
        }
    }
}

holds_ids!(NodeInfo { name, labels, taints, allocatable, images, declared_features } but not {
    unschedulable, allocatable_pods
});
holds_ids!(Taint { key, value, effect });

impl HoldsIds for TaintEffect {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::NoSchedule | Self::PreferNoSchedule | Self::NoExecute => {}
            Self::Other(name) => name.mark(marks),
        }
    }
}

holds_ids!(PodInfo { labels, node_name, nominated_node, node_affinity, volumes, template } but not {
    uid, name, resource_version, generation, deleting, preempted, start_time, scheduled
});
holds_ids!(PodTemplate {
    namespace, owner, scheduler_name, gates, resources, ports, tolerations, preferred_node_affinity, pod_affinity, spread, images,
    required_features, extended_resources
} but not { priority, never_preempts, containers, unjudged });
holds_ids!(Extender { managed } but not { id, url, filters, prioritizes, preempts, binds, weight, ignorable });
holds_ids!(Room { node } but not { victims, violations });
holds_ids!(Controller { name } but not { kind });
holds_ids!(HostPort { address, protocol } but not { port });
holds_ids!(Toleration { key, value, effect } but not { operator });
holds_ids!(PreferredNodeTerm { term } but not { weight });
holds_ids!(PodAffinity {
    required_affinity,
    required_anti_affinity,
    preferred_affinity,
    preferred_anti_affinity
});
holds_ids!(PodAffinityTerm { namespaces, namespace_selector, selector, topology_key });
holds_ids!(WeightedPodAffinityTerm { term } but not { weight });
holds_ids!(SpreadConstraint { topology_key, selector } but not {
    max_skew, when_unsatisfiable, min_domains, honor_node_affinity, honor_node_taints
});

impl HoldsIds for VolumelessSignature {
    fn mark(&self, marks: &mut Marks) {
        self.pod().mark(marks);
    }
}

impl HoldsIds for NodeSignature {
    fn mark(&self, marks: &mut Marks) {
        self.pod().mark(marks);
    }
}

impl<K: HoldsIds + std::hash::Hash> HoldsIds for Hashed<K> {
    fn mark(&self, marks: &mut Marks) {
        self.key().mark(marks);
    }
}

impl HoldsIds for Signature {
    fn mark(&self, marks: &mut Marks) {
        self.pod().mark(marks);
    }
}

holds_ids!(PodVolume { source } but not { name });

impl HoldsIds for VolumeSource {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Claim(name) | Self::Ephemeral(name) | Self::Csi(name) => name.mark(marks),
            Self::Disk(disk) => disk.mark(marks),
        }
    }
}

holds_ids!(InlineDisk { exclusive, migratable });
holds_ids!(MigratableDisk { driver } but not { plugin, handle });

impl HoldsIds for ExclusiveDisk {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Gce { name, read_only: _ } => name.mark(marks),
            Self::Ebs { id } => id.mark(marks),
            Self::Iscsi { iqn, read_only: _ } => iqn.mark(marks),
            Self::Rbd { monitors, pool, image, read_only: _ } => {
                monitors.mark(marks);
                pool.mark(marks);
                image.mark(marks);
            }
        }
    }
}

holds_ids!(VolumeNodeAffinity { terms });
holds_ids!(ClaimRef { namespace, name } but not { uid });
holds_ids!(CsiVolume { driver } but not { handle });
holds_ids!(InTreeVolume { migrated } but not { plugin });
holds_ids!(MigratedVolume { volume, node_affinity });
holds_ids!(PersistentVolumeInfo {
    name, labels, topology, class, claim, access_modes, mode, attributes_class, node_affinity, csi, in_tree
} but not { resource_version, deleting, bound_by_controller, capacity, available });
holds_ids!(ClaimInfo {
    namespace, name, class, volume, selected_node, access_modes, selector, mode, attributes_class
} but not {
    uid, resource_version, controller, deleting, lost, bind_completed, annotated, request
});
holds_ids!(StorageClassInfo { name, provisioner, in_tree, allowed_topologies } but not { binding_mode });
holds_ids!(CsiNodeInfo { name, limits } but not { migrated_plugins });
holds_ids!(CsiDriverInfo { name } but not { storage_capacity });
holds_ids!(CsiStorageCapacityInfo { namespace, name, class, topology } but not { limit });
holds_ids!(VolumeAttachmentInfo { name, node, attacher, volume });
holds_ids!(StorageKey { namespace, name } but not { kind });

impl HoldsIds for Reservation {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Bind { volume, claim, by_controller: _ } => {
                volume.mark(marks);
                claim.mark(marks);
            }
            Self::Provision { namespace, name, node } => {
                namespace.mark(marks);
                name.mark(marks);
                node.mark(marks);
            }
        }
    }
}

holds_ids!(Service { selector });
holds_ids!(DisruptionBudget { selector } but not { disruptions_allowed, disrupted_pods });
holds_ids!(DeviceClass { implicit, explicit });

impl HoldsIds for ObjectKey {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Pod(_) => {}
            Self::Node(name) | Self::Namespace(name) | Self::DeviceClass(name) => name.mark(marks),
            Self::Service(namespace, name)
            | Self::Controller(_, namespace, name)
            | Self::DisruptionBudget(namespace, name) => {
                namespace.mark(marks);
                name.mark(marks);
            }
            Self::Storage(key) => key.mark(marks),
        }
    }
}
