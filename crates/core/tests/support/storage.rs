//! The words of the cluster language about storage.
//!
//! ```text
//! pv v1 class=fast size=10Gi modes=RWO,ROX phase=Bound for=ns/claim[/uid] zone=z1__z2 region=r label:k=v
//!       at=zone=z1 at=host:in:a,b (one term each; at=! for none at all) csi=driver/handle ebs=vol-1[/key=value]
//!       ebs=?error gold (its attributes class) block deleting version=2
//! pvc c ns=default class=fast size=5Gi modes=RWO bound=v1 named=v1 selected=a lost deleting owner=uid select=k=v
//!       select=?error gold block uid=u version=2 annotated
//! class fast of=provisioner immediate nomode topology=zone:in:z1,z2 (one term each; topology=! allows none)
//! csinode a driver=2 driver=any migrated=kubernetes.io/aws-ebs
//! csidriver name tells                      capacity c class=fast size=10Gi nodes=zone=z1 | nodes=*
//! attachment a on=node by=driver of=pv
//! ```
//!
//! Of pods: `claim=c`, `ephemeral=v`, `csi=driver`, `gce=d[:ro]`, `ebs=vol-1`, `ebs=?error`, `iscsi=iqn[:ro]`,
//! `rbd=mon,mon/pool/image[:ro]`, `feature=Name`. Of nodes: `declares=Name`.

use super::TestCluster;
use super::language::{bytes, requirement, selector};
use std::sync::Arc;
use supercargo_core::model::device::{PoolId, Reach, ResourceClaim, ResourceSlice};
use supercargo_core::model::intern::{Symbol, Tables, known};
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::selector::Requirement;
use supercargo_core::model::volume::{
    BindingMode, ClaimInfo, ClaimRef, CsiDriverInfo, CsiNodeInfo, CsiStorageCapacityInfo, CsiVolume,
    ExclusiveDisk, InTreePlugin, InTreeVolume, InlineDisk, MigratableDisk, MigratedVolume,
    PersistentVolumeInfo, PodVolume, StorageClassInfo, StorageObject, StorageSize, VolumeAttachmentInfo,
    VolumeNodeAffinity, VolumeSource,
};

/// Parses a storage object; `None` if the line is not about storage.
pub(crate) fn object(tables: &mut Tables, line: &str) -> Option<StorageObject> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (&kind, words) = words.split_first()?;
    Some(match kind {
        "pv" => StorageObject::Volume(Arc::new(volume(tables, words))),
        "pvc" => StorageObject::Claim(Arc::new(claim(tables, words))),
        "class" => StorageObject::Class(Arc::new(class(tables, words))),
        "csinode" => StorageObject::CsiNode(Arc::new(csi_node(tables, words))),
        "csidriver" => StorageObject::CsiDriver(Arc::new(CsiDriverInfo {
            name: tables.symbol(words[0]),
            storage_capacity: words.contains(&"tells"),
            prevents_scheduling_if_missing: words.contains(&"required"),
        })),
        "capacity" => StorageObject::Capacity(Arc::new(capacity(tables, words))),
        "attachment" => StorageObject::Attachment(Arc::new(attachment(tables, words))),
        "devices-claim" => StorageObject::ResourceClaim(Arc::new(devices_claim(tables, words[0]))),
        "devices-slice" => StorageObject::ResourceSlice(Arc::new(devices_slice(tables, words[0]))),
        _ => return None,
    })
}

/// A ResourceClaim without requests.
pub(crate) fn devices_claim(tables: &mut Tables, name: &str) -> ResourceClaim {
    ResourceClaim {
        namespace: tables.symbol("default"),
        name: tables.symbol(name),
        uid: name.into(),
        resource_version: "1".into(),
        controller: None,
        deleting: false,
        is_for_extended_resources: false,
        is_protected: false,
        spec: Arc::default(),
        allocation: None,
        nodes: None,
        reserved_for: [].into(),
        devices: [].into(),
    }
}

/// A ResourceSlice without devices.
fn devices_slice(tables: &mut Tables, name: &str) -> ResourceSlice {
    ResourceSlice {
        name: tables.symbol(name),
        pool: PoolId { driver: "gpu.example.com".into(), name: name.into() },
        generation: 1,
        slices: 1,
        reach: Reach::AllNodes,
        devices: [].into(),
        counters: [].into(),
    }
}

/// Applies a storage object to the world; returns false if the line is not about storage.
pub(crate) fn apply(cluster: &mut TestCluster, line: &str) -> bool {
    let object = object(&mut cluster.tables, line);
    object.is_some_and(|object| {
        cluster.cache.volumes_mut().apply(object);
        true
    })
}

fn pairs<'a>(words: &'a [&'a str]) -> impl Iterator<Item = (&'a str, &'a str)> {
    words[1..].iter().map(|word| word.split_once('=').unwrap_or((word, "")))
}

fn size(text: &str) -> StorageSize {
    StorageSize::from_bytes(bytes(text))
}

fn modes(tables: &mut Tables, text: &str) -> Box<[Symbol]> {
    let long = |mode: &str| match mode {
        "RWO" => "ReadWriteOnce".to_owned(),
        "RWX" => "ReadWriteMany".to_owned(),
        "ROX" => "ReadOnlyMany".to_owned(),
        "RWOP" => "ReadWriteOncePod".to_owned(),
        other => panic!("no access mode {other:?}"),
    };
    text.split(',').map(|mode| tables.symbol(&long(mode))).collect()
}

fn term(tables: &mut Tables, text: &str) -> Box<[Requirement]> {
    text.split(';').filter(|part| !part.is_empty()).map(|part| requirement(tables, part)).collect()
}

fn add_term(tables: &mut Tables, affinity: &mut Option<VolumeNodeAffinity>, text: &str) {
    let affinity = affinity.get_or_insert_with(|| VolumeNodeAffinity { terms: [].into() });
    if text != "!" {
        let mut terms = std::mem::take(&mut affinity.terms).into_vec();
        terms.push(term(tables, text));
        affinity.terms = terms.into();
    }
}

fn volume(tables: &mut Tables, words: &[&str]) -> PersistentVolumeInfo {
    let mut labels = Vec::new();
    let mut topology = Vec::new();
    let mut pv = PersistentVolumeInfo {
        name: tables.symbol(words[0]),
        resource_version: "1".into(),
        labels: tables.label_set(Vec::new()),
        topology: [].into(),
        deleting: false,
        bound_by_controller: false,
        class: known::EMPTY,
        claim: None,
        capacity: StorageSize::default(),
        access_modes: modes(tables, "RWO"),
        mode: known::FILESYSTEM,
        attributes_class: known::EMPTY,
        node_affinity: None,
        csi: None,
        in_tree: None,
        available: true,
    };
    for (key, value) in pairs(words) {
        match key {
            "class" => pv.class = tables.symbol(value),
            "size" => pv.capacity = size(value),
            "modes" => pv.access_modes = modes(tables, value),
            "phase" => pv.available = value == "Available",
            "for" => pv.claim = Some(claim_ref(tables, value)),
            "at" => add_term(tables, &mut pv.node_affinity, value),
            "csi" => {
                let (driver, handle) = value.split_once('/').expect("csi=driver/handle");
                pv.csi = Some(CsiVolume { driver: tables.symbol(driver), handle: handle.into() });
            }
            "ebs" => pv.in_tree = Some(ebs_volume(tables, value)),
            "gold" => pv.attributes_class = tables.symbol("gold"),
            "block" => pv.mode = tables.symbol("Block"),
            "deleting" => pv.deleting = true,
            "version" => pv.resource_version = value.into(),
            "zone" | "region" | "beta-zone" | "beta-region" => {
                let key = match key {
                    "zone" => known::ZONE,
                    "region" => known::REGION,
                    "beta-zone" => known::BETA_ZONE,
                    _ => known::BETA_REGION,
                };
                topology.push((key, value.split("__").map(|v| tables.symbol(v)).collect()));
            }
            other => match other.split_once(':') {
                Some(("label", key)) => labels.push((tables.symbol(key), tables.symbol(value))),
                _ => panic!("a pv has no {other:?}"),
            },
        }
    }
    pv.labels = tables.label_set(labels);
    pv.topology = topology.into();
    pv
}

fn claim_ref(tables: &mut Tables, text: &str) -> ClaimRef {
    let parts: Vec<&str> = text.split('/').collect();
    ClaimRef {
        namespace: tables.symbol(parts[0]),
        name: tables.symbol(parts[1]),
        uid: parts.get(2).map(|&uid| uid.into()),
    }
}

fn ebs_volume(tables: &mut Tables, text: &str) -> InTreeVolume {
    let plugin = InTreePlugin::AwsEbs;
    if let Some(error) = text.strip_prefix('?') {
        return InTreeVolume { plugin, migrated: Err(error.into()) };
    }
    let (handle, demand) = text.split_once('/').unwrap_or((text, ""));
    let mut node_affinity = None;
    if !demand.is_empty() {
        add_term(tables, &mut node_affinity, demand);
    }
    let volume = CsiVolume { driver: tables.symbol(plugin.driver()), handle: handle.into() };
    InTreeVolume { plugin, migrated: Ok(MigratedVolume { volume, node_affinity }) }
}

fn claim(tables: &mut Tables, words: &[&str]) -> ClaimInfo {
    let mut pvc = ClaimInfo {
        namespace: tables.symbol("default"),
        name: tables.symbol(words[0]),
        uid: words[0].into(),
        resource_version: "1".into(),
        controller: None,
        deleting: false,
        lost: false,
        class: known::EMPTY,
        volume: None,
        bind_completed: false,
        selected_node: None,
        annotated: false,
        access_modes: modes(tables, "RWO"),
        request: None,
        selector: None,
        mode: known::FILESYSTEM,
        attributes_class: known::EMPTY,
    };
    for (key, value) in pairs(words) {
        match key {
            "ns" => pvc.namespace = tables.symbol(value),
            "class" => pvc.class = tables.symbol(value),
            "size" => pvc.request = Some(size(value)),
            "modes" => pvc.access_modes = modes(tables, value),
            "bound" => (pvc.volume, pvc.bind_completed) = (Some(tables.symbol(value)), true),
            "annotated" => pvc.annotated = true,
            "named" => pvc.volume = Some(tables.symbol(value)),
            "selected" => pvc.selected_node = Some(tables.symbol(value)),
            "lost" => pvc.lost = true,
            "deleting" => pvc.deleting = true,
            "owner" => pvc.controller = Some(value.into()),
            "select" => {
                let broken = value.strip_prefix('?');
                pvc.selector = Some(broken.map_or_else(|| Ok(selector(tables, value)), |e| Err(e.into())));
            }
            "gold" => pvc.attributes_class = tables.symbol("gold"),
            "block" => pvc.mode = tables.symbol("Block"),
            "uid" => pvc.uid = value.into(),
            "version" => pvc.resource_version = value.into(),
            other => panic!("a pvc has no {other:?}"),
        }
    }
    pvc
}

fn class(tables: &mut Tables, words: &[&str]) -> StorageClassInfo {
    let mut class = StorageClassInfo {
        name: tables.symbol(words[0]),
        provisioner: known::NO_PROVISIONER,
        in_tree: None,
        binding_mode: Some(BindingMode::WaitForFirstConsumer),
        allowed_topologies: [].into(),
    };
    for (key, value) in pairs(words) {
        match key {
            "of" => {
                class.provisioner = tables.symbol(value);
                let in_tree = InTreePlugin::ALL.into_iter().find(|plugin| plugin.as_str() == value);
                class.in_tree = in_tree.map(|plugin| (plugin, tables.symbol(plugin.driver())));
            }
            "immediate" => class.binding_mode = Some(BindingMode::Immediate),
            "nomode" => class.binding_mode = None,
            "topology" => {
                let mut terms = std::mem::take(&mut class.allowed_topologies).into_vec();
                terms.push((value != "!").then(|| term(tables, value)));
                class.allowed_topologies = terms.into();
            }
            other => panic!("a class has no {other:?}"),
        }
    }
    class
}

fn csi_node(tables: &mut Tables, words: &[&str]) -> CsiNodeInfo {
    let (mut limits, mut migrated_plugins) = (Vec::new(), "");
    for (key, value) in pairs(words) {
        if key == "migrated" {
            migrated_plugins = value;
        } else {
            limits.push((tables.symbol(key), value.parse().ok()));
        }
    }
    let name = tables.symbol(words[0]);
    CsiNodeInfo { name, limits: limits.into(), migrated_plugins: migrated_plugins.into() }
}

fn capacity(tables: &mut Tables, words: &[&str]) -> CsiStorageCapacityInfo {
    let mut capacity = CsiStorageCapacityInfo {
        namespace: tables.symbol("default"),
        name: tables.symbol(words[0]),
        class: known::EMPTY,
        limit: None,
        capacity: None,
        topology: None,
    };
    for (key, value) in pairs(words) {
        match key {
            "class" => capacity.class = tables.symbol(value),
            "size" => (capacity.limit, capacity.capacity) = (Some(bytes(value)), Some(bytes(value))),
            "nodes" => capacity.topology = Some(selector(tables, value)),
            other => panic!("a capacity has no {other:?}"),
        }
    }
    capacity
}

fn attachment(tables: &mut Tables, words: &[&str]) -> VolumeAttachmentInfo {
    let name = tables.symbol(words[0]);
    let mut it = VolumeAttachmentInfo { name, node: known::EMPTY, attacher: known::EMPTY, volume: None };
    for (key, value) in pairs(words) {
        let value = tables.symbol(value);
        match key {
            "on" => it.node = value,
            "by" => it.attacher = value,
            "of" => it.volume = Some(value),
            other => panic!("an attachment has no {other:?}"),
        }
    }
    it
}

/// Whether a word of a pod is about storage.
pub(crate) fn is_of_pod(key: &str) -> bool {
    ["claim", "ephemeral", "csi", "gce", "ebs", "iscsi", "rbd", "feature"].contains(&key)
}

/// Applies these words about storage to the pod, in order.
pub(crate) fn with_storage(tables: &mut Tables, pod: Arc<PodInfo>, words: &[&str]) -> Arc<PodInfo> {
    if words.is_empty() {
        return pod;
    }
    let mut pod = Arc::unwrap_or_clone(pod);
    let (mut volumes, mut features) = (Vec::new(), Vec::new());
    for word in words {
        let (key, value) = word.split_once('=').expect("words about storage have values");
        if key == "feature" {
            features.push(tables.symbol(value));
            continue;
        }
        let source = source(tables, &pod.name, key, value);
        volumes.push(PodVolume { name: format!("v{}", volumes.len()).into(), source });
    }
    (pod.volumes, pod.required_features) = (volumes.into(), features.into());
    Arc::new(pod)
}

fn source(tables: &mut Tables, pod: &str, key: &str, value: &str) -> VolumeSource {
    let (identity, read_only) = value.strip_suffix(":ro").map_or((value, false), |identity| (identity, true));
    let exclusive = match key {
        "claim" => return VolumeSource::Claim(tables.symbol(value)),
        "ephemeral" => return VolumeSource::Ephemeral(tables.symbol(&format!("{pod}-{value}"))),
        "csi" => return VolumeSource::Csi(tables.symbol(value)),
        "gce" => ExclusiveDisk::Gce { name: tables.symbol(identity), read_only },
        "ebs" => ExclusiveDisk::Ebs { id: tables.symbol(identity) },
        "iscsi" => ExclusiveDisk::Iscsi { iqn: tables.symbol(identity), read_only },
        _ => {
            let parts: Vec<&str> = identity.split('/').collect();
            ExclusiveDisk::Rbd {
                monitors: parts[0].split(',').map(|monitor| tables.symbol(monitor)).collect(),
                pool: tables.symbol(parts[1]),
                image: tables.symbol(parts[2]),
                read_only,
            }
        }
    };
    let plugin = match key {
        "gce" => Some(InTreePlugin::GcePd),
        "ebs" => Some(InTreePlugin::AwsEbs),
        _ => None,
    };
    let migratable = plugin.map(|plugin| MigratableDisk {
        plugin,
        driver: tables.symbol(plugin.driver()),
        handle: identity.strip_prefix('?').map_or_else(|| Ok(identity.into()), |error| Err(error.into())),
    });
    VolumeSource::Disk(InlineDisk { exclusive: Some(exclusive), migratable })
}
