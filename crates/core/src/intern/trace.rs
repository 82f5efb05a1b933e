//! Garbage collection, mark phase: every type that holds ids marks them.
//!
//! An id that is held but not marked would later be assigned to another text. Therefore each implementation
//! names *all* fields of its type, including those without ids. A new field does not compile until it is
//! classified.
//!
//! Reference counts would add a cost to every clone of a pod. Marking instead walks all gc roots each time the
//! tables have grown by half, in slices ([`super::gc`]).

use super::{LabelSetId, Symbol, TaintSetId};
use crate::cache::{DeviceClass, DisruptionBudget, ImageState, Service};
use crate::event::ObjectKey;
use crate::extender::{Extender, ExtenderCandidate, ExtenderId};
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
pub(crate) trait TraceIds {
    /// Marks all ids that the value holds.
    fn mark(&self, marks: &mut Marks);
}

impl TraceIds for Symbol {
    fn mark(&self, marks: &mut Marks) {
        marks.symbols.set(self.index());
    }
}

impl TraceIds for LabelSetId {
    fn mark(&self, marks: &mut Marks) {
        marks.label_sets.set(self.0 as usize);
    }
}

impl TraceIds for TaintSetId {
    fn mark(&self, marks: &mut Marks) {
        marks.taint_sets.set(self.0 as usize);
    }
}

/// Implements [`TraceIds`] for types without ids.
macro_rules! holds_no_ids {
    ($($type:ty),* $(,)?) => {
        $(impl TraceIds for $type {
            fn mark(&self, _: &mut Marks) {}
        })*
    };
}

/// Implements [`TraceIds`] for a struct, given its fields with ids and its fields without.
macro_rules! trace_ids {
    ($type:ty { $($held:ident),* $(,)? } $(but not { $($other:ident),* $(,)? })?) => {
        impl $crate::intern::TraceIds for $type {
            fn mark(&self, marks: &mut $crate::intern::Marks) {
                let Self { $($held,)* $($($other: _,)*)? } = self;
                $($crate::intern::TraceIds::mark($held, marks);)*
            }
        }
    };
}
pub(crate) use trace_ids;

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

impl<T: TraceIds + ?Sized> TraceIds for Arc<T> {
    fn mark(&self, marks: &mut Marks) {
        (**self).mark(marks);
    }
}

impl<T: TraceIds> TraceIds for Shared<T> {
    fn mark(&self, marks: &mut Marks) {
        (**self).mark(marks);
    }
}

impl<T: TraceIds + ?Sized> TraceIds for Box<T> {
    fn mark(&self, marks: &mut Marks) {
        (**self).mark(marks);
    }
}

impl<T: TraceIds> TraceIds for [T] {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<T: TraceIds> TraceIds for Vec<T> {
    fn mark(&self, marks: &mut Marks) {
        self.as_slice().mark(marks);
    }
}

impl<T: TraceIds> TraceIds for VecDeque<T> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<T: TraceIds> TraceIds for Option<T> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<T: TraceIds, E> TraceIds for Result<T, E> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<A: TraceIds, B: TraceIds> TraceIds for (A, B) {
    fn mark(&self, marks: &mut Marks) {
        self.0.mark(marks);
        self.1.mark(marks);
    }
}

impl<A: TraceIds, B: TraceIds, C: TraceIds> TraceIds for (A, B, C) {
    fn mark(&self, marks: &mut Marks) {
        self.0.mark(marks);
        self.1.mark(marks);
        self.2.mark(marks);
    }
}

impl<K: TraceIds, V: TraceIds> TraceIds for BTreeMap<K, V> {
    fn mark(&self, marks: &mut Marks) {
        for (key, value) in self {
            key.mark(marks);
            value.mark(marks);
        }
    }
}

impl<T: TraceIds> TraceIds for BTreeSet<T> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|it| it.mark(marks));
    }
}

impl<K: TraceIds, V: TraceIds> TraceIds for FixedMap<K, V> {
    fn mark(&self, marks: &mut Marks) {
        for (key, value) in self {
            key.mark(marks);
            value.mark(marks);
        }
    }
}

impl<K: TraceIds, V: TraceIds> TraceIds for IdMap<K, V> {
    fn mark(&self, marks: &mut Marks) {
        for (key, value) in self {
            key.mark(marks);
            value.mark(marks);
        }
    }
}

impl<K: TraceIds> TraceIds for IdSet<K> {
    fn mark(&self, marks: &mut Marks) {
        self.iter().for_each(|key| key.mark(marks));
    }
}

trace_ids!(Resources { scalar } but not { cpu_milli, memory, ephemeral_storage });
trace_ids!(PodResources { request, placed, score } but not { non_zero_cpu_milli, non_zero_memory });
trace_ids!(Requirement { key, operator });
trace_ids!(TermDemands { labels, names });
trace_ids!(NodeSelectorTerm { demands, pinned_names });
trace_ids!(RequiredNodeAffinity { node_selector, terms });

impl TraceIds for Operator {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::In(values) | Self::NotIn(values) => values.mark(marks),
            Self::Exists | Self::DoesNotExist | Self::Gt(_) | Self::Lt(_) => {}
        }
    }
}

impl TraceIds for Selector {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Nothing => {}
            Self::All(requirements) => requirements.mark(marks),
        }
    }
}

trace_ids!(NodeInfo { name, labels, taints, allocatable, images, declared_features } but not {
    unschedulable, allocatable_pods
});
trace_ids!(Taint { key, value, effect });

impl TraceIds for TaintEffect {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::NoSchedule | Self::PreferNoSchedule | Self::NoExecute => {}
            Self::Other(name) => name.mark(marks),
        }
    }
}

trace_ids!(PodInfo { labels, node_name, nominated_node, node_affinity, volumes, template } but not {
    uid, name, resource_version, generation, deleting, preempted, start_time, scheduled
});
trace_ids!(PodTemplate {
    namespace, owner, scheduler_name, gates, resources, ports, tolerations, preferred_node_affinity, pod_affinity, spread, images,
    required_features, extended_resources
} but not { priority, never_preempts, containers, unjudged });
trace_ids!(Extender { managed } but not { id, url, filters, prioritizes, preempts, binds, weight, ignorable });
trace_ids!(ExtenderCandidate { node } but not { victims, violations });
trace_ids!(Controller { name } but not { kind });
trace_ids!(HostPort { address, protocol } but not { port });
trace_ids!(Toleration { key, value, effect } but not { operator });
trace_ids!(PreferredNodeTerm { term } but not { weight });
trace_ids!(PodAffinity {
    required_affinity,
    required_anti_affinity,
    preferred_affinity,
    preferred_anti_affinity
});
trace_ids!(PodAffinityTerm { namespaces, namespace_selector, selector, topology_key });
trace_ids!(WeightedPodAffinityTerm { term } but not { weight });
trace_ids!(SpreadConstraint { topology_key, selector } but not {
    max_skew, when_unsatisfiable, min_domains, honor_node_affinity, honor_node_taints
});

impl TraceIds for VolumelessSignature {
    fn mark(&self, marks: &mut Marks) {
        self.pod().mark(marks);
    }
}

impl TraceIds for NodeSignature {
    fn mark(&self, marks: &mut Marks) {
        self.pod().mark(marks);
    }
}

impl<K: TraceIds + std::hash::Hash> TraceIds for Hashed<K> {
    fn mark(&self, marks: &mut Marks) {
        self.key().mark(marks);
    }
}

impl TraceIds for Signature {
    fn mark(&self, marks: &mut Marks) {
        self.pod().mark(marks);
    }
}

trace_ids!(PodVolume { source } but not { name });

impl TraceIds for VolumeSource {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Claim(name) | Self::Ephemeral(name) | Self::Csi(name) => name.mark(marks),
            Self::Disk(disk) => disk.mark(marks),
        }
    }
}

trace_ids!(InlineDisk { exclusive, migratable });
trace_ids!(MigratableDisk { driver } but not { plugin, handle });

impl TraceIds for ExclusiveDisk {
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

trace_ids!(VolumeNodeAffinity { terms });
trace_ids!(ClaimRef { namespace, name } but not { uid });
trace_ids!(CsiVolume { driver } but not { handle });
trace_ids!(InTreeVolume { migrated } but not { plugin });
trace_ids!(MigratedVolume { volume, node_affinity });
trace_ids!(PersistentVolumeInfo {
    name, labels, topology, class, claim, access_modes, mode, attributes_class, node_affinity, csi, in_tree
} but not { resource_version, deleting, bound_by_controller, capacity, available });
trace_ids!(ClaimInfo {
    namespace, name, class, volume, selected_node, access_modes, selector, mode, attributes_class
} but not {
    uid, resource_version, controller, deleting, lost, bind_completed, annotated, request
});
trace_ids!(StorageClassInfo { name, provisioner, in_tree, allowed_topologies } but not { binding_mode });
trace_ids!(CsiNodeInfo { name, limits } but not { migrated_plugins });
trace_ids!(CsiDriverInfo { name } but not { storage_capacity });
trace_ids!(CsiStorageCapacityInfo { namespace, name, class, topology } but not { limit });
trace_ids!(VolumeAttachmentInfo { name, node, attacher, volume });
trace_ids!(StorageKey { namespace, name } but not { kind });

impl TraceIds for Reservation {
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

trace_ids!(Service { selector });
trace_ids!(DisruptionBudget { selector } but not { disruptions_allowed, disrupted_pods });
trace_ids!(DeviceClass { implicit, explicit });

impl TraceIds for ObjectKey {
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
