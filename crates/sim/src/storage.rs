//! Claims, volumes and classes of the simulated API server, and their conversion to the engine's model.
//!
//! All claims and volumes have the same size. A volume is accessible from all zones or from one.

use supercargo_core::model::intern::{Symbol, Tables, known};
use supercargo_core::model::selector::{Operator, Requirement};
use supercargo_core::model::volume::{
    BindingMode, ClaimInfo, ClaimRef, CsiNodeInfo, CsiVolume, PersistentVolumeInfo, StorageClassInfo,
    StorageKey, StorageKind, StorageSize, VolumeNodeAffinity,
};

/// The driver that provisions and attaches volumes.
const DRIVER: &str = "csi.example.com";

/// A StorageClass. All classes exist from the start; only their allowed zone changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// `Immediate` binding: claims are bound regardless of pods.
    Now,
    /// `WaitForFirstConsumer` with a provisioner.
    Later,
    /// `WaitForFirstConsumer` without a provisioner.
    Local,
}

impl Class {
    pub(crate) const ALL: [Self; 3] = [Self::Now, Self::Later, Self::Local];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Later => "later",
            Self::Local => "local",
        }
    }

    /// Whether a driver provisions and attaches its volumes.
    fn has_driver(self) -> bool {
        self != Self::Local
    }

    /// Converts the class, which provisions volumes for one zone or for all.
    pub(crate) fn info(self, zone: Option<&str>, tables: &mut Tables) -> StorageClassInfo {
        let allowed = zone.map(|zone| Some([in_zone(zone, tables)].into()));
        StorageClassInfo {
            name: tables.symbol(self.name()),
            provisioner: match self {
                Self::Now | Self::Later => tables.symbol(DRIVER),
                Self::Local => known::NO_PROVISIONER,
            },
            in_tree: None,
            binding_mode: Some(match self {
                Self::Now => BindingMode::Immediate,
                Self::Later | Self::Local => BindingMode::WaitForFirstConsumer,
            }),
            allowed_topologies: allowed.into_iter().collect(),
        }
    }
}

/// Returns the CSINode of a node with its volume limit; `None` for no limit.
pub(crate) fn csi_node(tables: &mut Tables, node: &str, limit: Option<i32>) -> CsiNodeInfo {
    CsiNodeInfo {
        name: tables.symbol(node),
        limits: [(tables.symbol(DRIVER), limit)].into(),
        migrated_plugins: "".into(),
    }
}

fn in_zone(zone: &str, tables: &mut Tables) -> Requirement {
    Requirement { key: known::ZONE, operator: Operator::In([tables.symbol(zone)].into()) }
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) uid: String,
    pub(crate) namespace: &'static str,
    pub(crate) name: String,
    pub(crate) version: u64,
    /// The uid of the pod for whose ephemeral volume it was created.
    pub(crate) owner: Option<String>,
    pub(crate) class: Class,
    /// The volume to which it is fully bound.
    pub(crate) volume: Option<String>,
    /// The node for which a volume is to be provisioned.
    pub(crate) selected: Option<String>,
}

/// Prefix of the names of claims for ephemeral volumes.
const EPHEMERAL: &str = "ephemeral-";

/// Returns the name of the claim for a pod's ephemeral volume. A pod that is recreated under the same name has the same
/// claim.
pub(crate) fn ephemeral_claim(pod: u64) -> String {
    format!("{EPHEMERAL}{pod}")
}

/// Whether a claim is for an ephemeral volume.
pub(crate) fn is_ephemeral(claim: &str) -> bool {
    claim.starts_with(EPHEMERAL)
}

/// Returns the key of a claim: namespace and name.
pub(crate) fn claim_key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

impl Claim {
    pub(crate) fn key(&self) -> String {
        claim_key(self.namespace, &self.name)
    }

    pub(crate) fn info(&self, tables: &mut Tables) -> ClaimInfo {
        ClaimInfo {
            namespace: tables.symbol(self.namespace),
            name: tables.symbol(&self.name),
            uid: self.uid.as_str().into(),
            resource_version: self.version.to_string().into(),
            controller: self.owner.as_deref().map(Into::into),
            deleting: false,
            lost: false,
            class: tables.symbol(self.class.name()),
            volume: self.volume.as_deref().map(|volume| tables.symbol(volume)),
            bind_completed: self.volume.is_some(),
            selected_node: self.selected.as_deref().map(|node| tables.symbol(node)),
            annotated: true,
            access_modes: modes(tables),
            request: Some(StorageSize::from_bytes(1 << 30)),
            selector: None,
            mode: known::FILESYSTEM,
            attributes_class: known::EMPTY,
        }
    }
}

/// The claim of a volume (`spec.claimRef`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// A PersistentVolume.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) version: u64,
    pub(crate) class: Class,
    /// The only zone from which it is accessible.
    pub(crate) zone: Option<&'static str>,
    pub(crate) claim: Option<Owner>,
    /// Whether it was provisioned for a claim, and is deleted with it.
    pub(crate) made: bool,
}

impl Volume {
    pub(crate) fn is_for(&self, claim: &Claim) -> bool {
        self.claim.as_ref().is_some_and(|owner| owner.uid == claim.uid)
    }

    pub(crate) fn info(&self, tables: &mut Tables) -> PersistentVolumeInfo {
        let reached = |zone: &str, tables: &mut Tables| {
            let term: Box<[Requirement]> = [in_zone(zone, tables)].into();
            VolumeNodeAffinity { terms: [term].into() }
        };
        let claim = |owner: &Owner, tables: &mut Tables| ClaimRef {
            namespace: tables.symbol(&owner.namespace),
            name: tables.symbol(&owner.name),
            uid: Some(owner.uid.as_str().into()),
        };
        PersistentVolumeInfo {
            name: tables.symbol(&self.name),
            resource_version: self.version.to_string().into(),
            labels: tables.label_set(Vec::new()),
            topology: [].into(),
            deleting: false,
            bound_by_controller: self.claim.is_some(),
            class: tables.symbol(self.class.name()),
            claim: self.claim.as_ref().map(|owner| claim(owner, tables)),
            capacity: StorageSize::from_bytes(1 << 30),
            access_modes: modes(tables),
            mode: known::FILESYSTEM,
            attributes_class: known::EMPTY,
            node_affinity: self.zone.map(|zone| reached(zone, tables)),
            csi: self
                .class
                .has_driver()
                .then(|| CsiVolume { driver: tables.symbol(DRIVER), handle: self.name.as_str().into() }),
            in_tree: None,
            available: self.claim.is_none(),
        }
    }
}

fn modes(tables: &mut Tables) -> Box<[Symbol]> {
    [tables.symbol("ReadWriteOnce")].into()
}

/// Returns a volume's key in the engine.
pub(crate) fn volume_id(tables: &mut Tables, name: &str) -> StorageKey {
    StorageKey { kind: StorageKind::PersistentVolume, namespace: None, name: tables.symbol(name) }
}

/// Returns a CSINode's key in the engine.
pub(crate) fn csi_node_id(tables: &mut Tables, node: &str) -> StorageKey {
    StorageKey { kind: StorageKind::CsiNode, namespace: None, name: tables.symbol(node) }
}

/// Returns a claim's key in the engine.
pub(crate) fn claim_id(tables: &mut Tables, key: &str) -> StorageKey {
    let (namespace, name) = key.split_once('/').expect("a claim's key has its namespace");
    StorageKey::of_claim(tables.symbol(namespace), tables.symbol(name))
}
