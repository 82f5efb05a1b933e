//! Converts storage objects and pod volumes.

use super::csi_migration::{self, Translated, ZONES_SEPARATOR};
use super::quantity::Quantity;
use super::selectors::{label_selector, one_of, volume_terms};
use super::{Watched, controller, devices, given, label_set, uid};
use crate::api::core::{PodSpec, Volume};
use crate::api::meta::{QuantityText, annotation};
use crate::api::storage::TopologySelectorTerm;
use crate::api::{
    CsiDriver, CsiNode, CsiStorageCapacity, Kind as ApiKind, Malformed, PersistentVolume,
    PersistentVolumeClaim, Received, ResourceClaim, ResourceSlice, StorageClass, VolumeAttachment,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::model::event::{Event, Kind, ObjectKey};
use supercargo_core::model::intern::{Symbol, Tables, known};
use supercargo_core::model::selector::{Requirement, Selector};
use supercargo_core::model::volume::{
    BindingMode, ClaimInfo, ClaimRef, CsiDriverInfo, CsiNodeInfo, CsiStorageCapacityInfo, CsiVolume,
    ExclusiveDisk, InTreePlugin, InTreeVolume, InlineDisk, MigratableDisk, MigratedVolume,
    PersistentVolumeInfo, PodVolume, StorageClassInfo, StorageKey, StorageKind, StorageObject, StorageSize,
    VolumeAttachmentInfo, VolumeSource,
};

/// Converts the volumes that affect scheduling. A generic ephemeral volume's claim is named after pod and volume
/// (`component-helpers/storage/ephemeral`).
pub(super) fn of_pod(tables: &mut Tables, pod: &str, spec: &PodSpec) -> Box<[PodVolume]> {
    let volumes = spec.volumes.iter().filter_map(|volume| {
        let source = source(tables, pod, volume)?;
        Some(PodVolume { name: volume.name.as_str().into(), source })
    });
    volumes.collect()
}

fn source(tables: &mut Tables, pod: &str, volume: &Volume) -> Option<VolumeSource> {
    if let Some(claim) = &volume.persistent_volume_claim {
        return Some(VolumeSource::Claim(tables.symbol(&claim.claim_name)));
    }
    if volume.ephemeral.is_some() {
        return Some(VolumeSource::Ephemeral(tables.symbol(&format!("{pod}-{}", volume.name))));
    }
    if let Some(csi) = &volume.csi {
        return Some(VolumeSource::Csi(tables.symbol(&csi.driver)));
    }
    let exclusive = exclusive(tables, volume);
    let migratable = csi_migration::inline(volume).map(|(plugin, handle)| MigratableDisk {
        plugin,
        driver: tables.symbol(plugin.driver()),
        handle: handle.map(Into::into).map_err(Into::into),
    });
    let is_disk = exclusive.is_some() || migratable.is_some();
    is_disk.then_some(VolumeSource::Disk(InlineDisk { exclusive, migratable }))
}

fn exclusive(tables: &mut Tables, volume: &Volume) -> Option<ExclusiveDisk> {
    Some(match volume {
        Volume { gce_persistent_disk: Some(disk), .. } => {
            ExclusiveDisk::Gce { name: tables.symbol(&disk.pd_name), read_only: disk.read_only }
        }
        Volume { aws_elastic_block_store: Some(disk), .. } => {
            ExclusiveDisk::Ebs { id: tables.symbol(&disk.volume_id) }
        }
        Volume { iscsi: Some(disk), .. } => {
            ExclusiveDisk::Iscsi { iqn: tables.symbol(&disk.iqn), read_only: disk.read_only }
        }
        Volume { rbd: Some(disk), .. } => ExclusiveDisk::Rbd {
            monitors: disk.monitors.iter().map(|monitor| tables.symbol(monitor)).collect(),
            pool: tables.symbol(&disk.pool),
            image: tables.symbol(&disk.image),
            read_only: disk.read_only,
        },
        _ => return None,
    })
}

/// Converts a PersistentVolume.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn persistent_volume(
    tables: &mut Tables,
    volume: &PersistentVolume,
) -> Result<PersistentVolumeInfo, Malformed> {
    let content = volume.content()?;
    let spec = &content.spec;
    let no_labels = BTreeMap::new();
    let labels = volume.metadata.labels.as_ref().unwrap_or(&no_labels);
    let class = annotated(volume, annotation::CLASS).unwrap_or(&spec.storage_class_name);
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let in_tree = csi_migration::persistent(spec, labels);
    Ok(PersistentVolumeInfo {
        name: tables.symbol(volume.name()),
        resource_version: resource_version(volume),
        labels: label_set(tables, &volume.metadata),
        topology: topology(tables, labels),
        deleting: volume.metadata.deletion_timestamp.is_some(),
        bound_by_controller: annotated(volume, annotation::BOUND_BY_CONTROLLER).is_some(),
        class: tables.symbol(class),
        claim: spec.claim_ref.as_ref().map(|claim| ClaimRef {
            namespace: tables.symbol(&claim.namespace),
            name: tables.symbol(&claim.name),
            uid: (!claim.uid.is_empty()).then(|| claim.uid.as_str().into()),
        }),
        capacity: storage(volume, "spec.capacity", spec.capacity.get("storage"))?.unwrap_or_default(),
        access_modes: spec.access_modes.iter().map(|mode| tables.symbol(mode)).collect(),
        mode: mode(tables, spec.volume_mode.as_deref()),
        attributes_class: tables.symbol(spec.volume_attributes_class_name.as_deref().unwrap_or_default()),
        node_affinity: required.map(|selector| volume_terms(tables, &selector.node_selector_terms)),
        csi: spec.csi.as_ref().map(|csi| CsiVolume {
            driver: tables.symbol(&csi.driver),
            handle: csi.volume_handle.as_str().into(),
        }),
        in_tree: in_tree.map(|(plugin, translated)| in_tree_volume(tables, plugin, translated)),
        available: content.status.phase == "Available",
    })
}

fn in_tree_volume(
    tables: &mut Tables,
    plugin: InTreePlugin,
    translated: Result<Translated, String>,
) -> InTreeVolume {
    let migrated = translated.map(|Translated { handle, terms }| MigratedVolume {
        volume: CsiVolume { driver: tables.symbol(plugin.driver()), handle: handle.into() },
        node_affinity: terms.map(|terms| volume_terms(tables, &terms)),
    });
    InTreeVolume { plugin, migrated: migrated.map_err(Into::into) }
}

/// Returns the zones and regions in a volume's labels (upstream `volumezone/volume_zone.go#getPVTopologies`).
fn topology(tables: &mut Tables, labels: &BTreeMap<String, String>) -> Box<[(Symbol, Box<[Symbol]>)]> {
    let keys = [known::BETA_ZONE, known::BETA_REGION, known::ZONE, known::REGION];
    let found = keys.into_iter().filter_map(|key| {
        let label = labels.get(tables.text(key))?;
        let values: Vec<&str> = label.split(ZONES_SEPARATOR).map(str::trim).collect();
        if values.contains(&"") {
            return None;
        }
        let mut values: Vec<Symbol> = values.into_iter().map(|value| tables.symbol(value)).collect();
        values.sort_unstable();
        values.dedup();
        Some((key, values.into()))
    });
    found.collect()
}

/// Converts a PersistentVolumeClaim.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn claim(tables: &mut Tables, claim: &PersistentVolumeClaim) -> Result<ClaimInfo, Malformed> {
    let content = claim.content()?;
    let spec = &content.spec;
    let class = annotated(claim, annotation::CLASS).or(spec.storage_class_name.as_deref());
    let selector = spec.selector.as_ref().map(|selector| label_selector(tables, Some(selector)));
    Ok(ClaimInfo {
        namespace: tables.symbol(claim.namespace()),
        name: tables.symbol(claim.name()),
        uid: uid(claim),
        resource_version: resource_version(claim),
        controller: controller(&claim.metadata).map(|owner| owner.uid.as_str().into()),
        deleting: claim.metadata.deletion_timestamp.is_some(),
        lost: content.status.phase == "Lost",
        class: tables.symbol(class.unwrap_or_default()),
        volume: given(tables, &spec.volume_name),
        bind_completed: annotated(claim, annotation::BIND_COMPLETED).is_some(),
        selected_node: annotated(claim, annotation::SELECTED_NODE).map(|node| tables.symbol(node)),
        annotated: claim.metadata.annotations.is_some(),
        access_modes: spec.access_modes.iter().map(|mode| tables.symbol(mode)).collect(),
        request: storage(claim, "spec.resources.requests", spec.resources.requests.get("storage"))?,
        selector,
        mode: mode(tables, spec.volume_mode.as_deref()),
        attributes_class: tables.symbol(spec.volume_attributes_class_name.as_deref().unwrap_or_default()),
    })
}

/// Converts a StorageClass.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn storage_class(tables: &mut Tables, class: &StorageClass) -> Result<StorageClassInfo, Malformed> {
    let fields = &class.content()?.spec;
    let in_tree = InTreePlugin::ALL.into_iter().find(|plugin| plugin.as_str() == fields.provisioner);
    let binding_mode = fields.volume_binding_mode.as_deref().map(|mode| match mode {
        "WaitForFirstConsumer" => BindingMode::WaitForFirstConsumer,
        _ => BindingMode::Immediate,
    });
    Ok(StorageClassInfo {
        name: tables.symbol(class.name()),
        provisioner: tables.symbol(&fields.provisioner),
        in_tree: in_tree.map(|plugin| (plugin, tables.symbol(plugin.driver()))),
        binding_mode,
        allowed_topologies: fields.allowed_topologies.iter().map(|t| topology_term(tables, t)).collect(),
    })
}

fn topology_term(tables: &mut Tables, term: &TopologySelectorTerm) -> Option<Box<[Requirement]>> {
    let expressions = term.match_label_expressions.iter();
    let requirements: Option<Box<[_]>> =
        expressions.map(|expression| one_of(tables, &expression.key, &expression.values)).collect();
    requirements.filter(|requirements| !requirements.is_empty())
}

/// Converts a CSINode.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn csi_node(tables: &mut Tables, node: &CsiNode) -> Result<CsiNodeInfo, Malformed> {
    let drivers = node.content()?.spec.drivers.iter();
    let limits = drivers.map(|driver| {
        (tables.symbol(&driver.name), driver.allocatable.as_ref().and_then(|allocatable| allocatable.count))
    });
    Ok(CsiNodeInfo {
        limits: limits.collect(),
        name: tables.symbol(node.name()),
        migrated_plugins: annotated(node, annotation::MIGRATED_PLUGINS).unwrap_or_default().into(),
    })
}

/// Converts a CSIDriver.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn csi_driver(tables: &mut Tables, driver: &CsiDriver) -> Result<CsiDriverInfo, Malformed> {
    let spec = &driver.content()?.spec;
    Ok(CsiDriverInfo {
        name: tables.symbol(driver.name()),
        storage_capacity: spec.storage_capacity == Some(true),
        prevents_scheduling_if_missing: spec.prevent_pod_scheduling_if_missing == Some(true),
    })
}

/// Converts a CSIStorageCapacity.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn csi_storage_capacity(
    tables: &mut Tables,
    capacity: &CsiStorageCapacity,
) -> Result<CsiStorageCapacityInfo, Malformed> {
    let fields = &capacity.content()?.spec;
    let largest = storage(capacity, "maximumVolumeSize", fields.maximum_volume_size.as_ref())?;
    let in_all = storage(capacity, "capacity", fields.capacity.as_ref())?;
    let topology = label_selector(tables, fields.node_topology.as_ref());
    Ok(CsiStorageCapacityInfo {
        namespace: tables.symbol(capacity.namespace()),
        name: tables.symbol(capacity.name()),
        class: tables.symbol(&fields.storage_class_name),
        limit: largest.or(in_all).map(StorageSize::bytes),
        capacity: in_all.map(StorageSize::bytes),
        topology: topology.ok().filter(|selector| *selector != Selector::Nothing),
    })
}

/// Converts a VolumeAttachment.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn volume_attachment(
    tables: &mut Tables,
    attachment: &VolumeAttachment,
) -> Result<VolumeAttachmentInfo, Malformed> {
    let spec = &attachment.content()?.spec;
    let volume = spec.source.persistent_volume_name.as_deref();
    Ok(VolumeAttachmentInfo {
        name: tables.symbol(attachment.name()),
        node: tables.symbol(&spec.node_name),
        attacher: tables.symbol(&spec.attacher),
        volume: volume.map(|volume| tables.symbol(volume)),
    })
}

pub(super) fn annotated<'a, K: ApiKind>(object: &'a Received<K>, key: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref().and_then(|notes| notes.get(key)).map(String::as_str)
}

fn resource_version<K: ApiKind>(object: &Received<K>) -> Box<str> {
    object.metadata.resource_version.as_deref().unwrap_or_default().into()
}

fn mode(tables: &mut Tables, mode: Option<&str>) -> Symbol {
    mode.map_or(known::FILESYSTEM, |mode| tables.symbol(mode))
}

/// Parses an amount of storage. `place` names the field in errors.
fn storage<K: ApiKind>(
    object: &Received<K>,
    place: &str,
    amount: Option<&QuantityText>,
) -> Result<Option<StorageSize>, Malformed> {
    let parsed = amount.map(|amount| Quantity::parse(amount.as_str())).transpose();
    let parsed = parsed.map_err(|error| object.malformed(format!("{place}: {error}")))?;
    Ok(parsed.map(|amount| StorageSize::from_nano_bytes(amount.nano_value())))
}

macro_rules! watched {
    ($($object:ident, $storage:ident, $convert:path, $has_namespace:literal;)*) => {$(
        impl Watched for $object {
            const KIND: Kind = Kind::$object;

            fn applied(&self, tables: &mut Tables) -> Result<Event, Malformed> {
                let info = Arc::new($convert(tables, self)?);
                let object = StorageObject::$storage(info);
                Ok(Event::StorageApplied(object))
            }

            fn key(&self, tables: &mut Tables) -> ObjectKey {
                let namespace: Option<Symbol> =
                    if $has_namespace { Some(tables.symbol(self.namespace())) } else { None };
                ObjectKey::Storage(StorageKey {
                    kind: StorageKind::$object,
                    namespace,
                    name: tables.symbol(self.name()),
                })
            }
        }
    )*};
}

watched! {
    PersistentVolume, Volume, persistent_volume, false;
    PersistentVolumeClaim, Claim, claim, true;
    StorageClass, Class, storage_class, false;
    CsiNode, CsiNode, csi_node, false;
    CsiDriver, CsiDriver, csi_driver, false;
    CsiStorageCapacity, Capacity, csi_storage_capacity, true;
    VolumeAttachment, Attachment, volume_attachment, false;
    ResourceClaim, ResourceClaim, devices::resource_claim, true;
    ResourceSlice, ResourceSlice, devices::resource_slice, false;
}
