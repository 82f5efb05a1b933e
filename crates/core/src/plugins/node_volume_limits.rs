//! NodeVolumeLimits rejects nodes on which a CSI driver's volume limit would be exceeded.
//!
//! It counts distinct volumes, not uses. A volume that is not provisioned yet counts by its claim; upstream
//! gives it a random prefix to make it distinct. Upstream:
//! `pkg/scheduler/framework/plugins/nodevolumelimits/csi.go` without VolumeLimitScaling.

use crate::cache::{Attachable, NodeView, Snapshot};
use crate::framework::{
    ClusterEvent, CycleError, DependsOn, EventSet, FilterPlugin, FilterRule, Hint, NodeAction, PluginName,
    PodAction, Prepared, Reads, Rejection, Verdict,
};
use crate::model::intern::{Symbol, known};
use crate::model::node::NodeIdx;
use crate::model::node_set::{NodeSet, bits};
use crate::model::pod::{PodInfo, Uid};
use crate::model::volume::{
    ClaimInfo, CsiDriverInfo, CsiNodeInfo, InTreePlugin, PodVolume, StorageKind, StorageObject,
    VolumeAttachmentInfo,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const NAME: PluginName = "NodeVolumeLimits";
const TOO_MANY: &str = "node(s) exceed max volume count";

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeVolumeLimits;

/// The fields of a pod that the rule reads: the incoming pod, or one on a node.
#[derive(Clone, Copy)]
struct Mounts<'a> {
    namespace: Symbol,
    name: &'a str,
    uid: &'a Uid,
    volumes: &'a [PodVolume],
}

impl<'a> Mounts<'a> {
    fn of(pod: &'a PodInfo) -> Self {
        Self { namespace: pod.namespace, name: &pod.name, uid: &pod.uid, volumes: &pod.volumes }
    }
}

struct Filter {
    namespace: Symbol,
    name: Box<str>,
    uid: Uid,
    volumes: Box<[PodVolume]>,
}

/// A volume as counted on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Counted {
    driver: Symbol,
    handle: Handle,
}

/// The identity of a volume of a driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Handle {
    /// The driver's volume handle.
    Named(Arc<str>),
    /// The claim, by namespace and name, for which a volume will be provisioned.
    Awaited(Symbol, Symbol),
}

/// Why volumes cannot be counted.
enum Problem {
    /// A claim of the pod does not exist.
    NotFound(String),
    /// The node lacks this driver, which requires to be present.
    NoDriver(Symbol),
    /// An error that ends the attempt.
    Error(String),
}

fn counts(volume: &PodVolume) -> bool {
    volume.claim().is_some() || volume.migratable().is_some()
}

impl FilterPlugin for NodeVolumeLimits {
    fn name(&self) -> PluginName {
        NAME
    }

    fn reads(&self) -> Reads {
        Reads::Volumes
    }

    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        match self.without_pre_filter(pod, snapshot) {
            Some(rule) => Prepared::Run { rule, only: None },
            None => Prepared::Skip,
        }
    }

    fn without_pre_filter(&self, pod: &PodInfo, _snapshot: Snapshot<'_>) -> Option<Box<dyn FilterRule>> {
        let volumes: Box<[_]> = pod.volumes.iter().filter(|volume| counts(volume)).cloned().collect();
        if volumes.is_empty() {
            return None;
        }
        let (name, uid) = (pod.name.clone(), Arc::clone(&pod.uid));
        Some(Box::new(Filter { namespace: pod.namespace, name, uid, volumes }))
    }

    fn events(&self) -> EventSet {
        EventSet::node(NodeAction::Add)
            | EventSet::assigned_pod(PodAction::Add)
            | EventSet::assigned_pod(PodAction::Delete)
            | EventSet::NOMINATIONS
            | EventSet::storage(StorageKind::CsiNode)
            | EventSet::storage(StorageKind::CsiDriver)
            | EventSet::storage(StorageKind::PersistentVolumeClaim)
            | EventSet::storage(StorageKind::PersistentVolume)
            | EventSet::storage(StorageKind::StorageClass)
            | EventSet::storage(StorageKind::VolumeAttachment)
    }

    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint {
        use StorageObject::{Attachment, Claim, Class, CsiDriver, CsiNode, Volume};
        match event {
            ClusterEvent::AssignedPod { action: PodAction::Delete, old: Some(gone), .. } => {
                Hint::queue_if(gone.volumes.iter().any(counts))
            }
            // Upstream does not requeue in these two cases.
            ClusterEvent::AssignedPod { action: PodAction::Add, new: Some(added), .. } => {
                Hint::queue_if(added.node_name.is_some_and(|node| shares_volume(pod, added, node, snapshot)))
            }
            ClusterEvent::Nominated { pod: nominated, node } => {
                Hint::queue_if(shares_volume(pod, nominated, *node, snapshot))
            }
            // Upstream waits for the new node's CSINode, which not every node has.
            ClusterEvent::Node { action: NodeAction::Add, .. } | ClusterEvent::UnschedulableTimeout => {
                Hint::Queue
            }
            ClusterEvent::Storage { old, new } => Hint::queue_if(match (old, new) {
                (None, Some(CsiNode(_))) => true,
                (Some(CsiNode(old)), Some(CsiNode(new))) => {
                    let added = snapshot.rules().rejects_missing_csi_drivers
                        && new.limits.iter().any(|&(driver, _)| !old.has_driver(driver));
                    added || takes_more(old, new)
                }
                // Upstream does not requeue here. Nodes without the driver may take the pod now.
                (Some(CsiDriver(old)), new) => {
                    let is_required = |driver: &CsiDriverInfo| driver.prevents_scheduling_if_missing;
                    is_required(old) && !matches!(new, Some(CsiDriver(new)) if is_required(new))
                }
                // A new claim of another pod that is bound already may share the volume of this pod.
                (None, Some(Claim(claim))) => uses(pod, claim) || claim.volume.is_some(),
                // A list may show a recreated attachment or class as a changed one.
                (Some(Attachment(old)), _) => waits_for(pod, old),
                // Upstream does not requeue here. A claim of any pod may no longer count.
                (Some(CsiNode(_)), None) | (Some(Class(_) | Claim(_)), _) => true,
                (old, new) => old.or(*new).is_some_and(|object| matches!(object, Volume(_))),
            }),
            _ => Hint::Skip,
        }
    }
}

/// Whether another pod, added or nominated to a node, uses a volume of the pod: it is no new volume there any
/// more. A node without CSINode has no limits.
fn shares_volume(pod: &PodInfo, other: &PodInfo, node: Symbol, snapshot: Snapshot<'_>) -> bool {
    if !other.volumes.iter().any(counts) {
        return false;
    }
    let Some(csi_node) = snapshot.volumes().csi_node(node) else { return false };
    let volumes = |pod| {
        let mut counted = BTreeSet::new();
        count(snapshot, Mounts::of(pod), Some(csi_node), false, &mut counted).ok()?;
        Some(counted)
    };
    // Volumes that cannot be counted end the attempt with an error.
    matches!((volumes(pod), volumes(other)), (Some(own), Some(others)) if !own.is_disjoint(&others))
}

/// Whether a driver's limit increased or was removed. As upstream, a new limit counts as an increase from
/// zero.
fn takes_more(old: &CsiNodeInfo, new: &CsiNodeInfo) -> bool {
    let grew = |&(driver, limit): &(Symbol, Option<i32>)| limit.unwrap_or(0) > old.limit(driver).unwrap_or(0);
    let is_gone = |&(driver, limit): &(Symbol, Option<i32>)| limit.is_some() && new.limit(driver).is_none();
    let migrates = old.migrated_plugins != new.migrated_plugins;
    migrates || new.limits.iter().any(grew) || old.limits.iter().any(is_gone)
}

/// Whether the pod may use a volume of the driver whose attachment was deleted.
fn waits_for(pod: &PodInfo, gone: &VolumeAttachmentInfo) -> bool {
    pod.volumes.iter().any(|volume| {
        let migrated = volume.migratable();
        volume.claim().is_some()
            || migrated.is_some_and(|disk| disk.handle.is_err() || disk.driver == gone.attacher)
    })
}

fn uses(pod: &PodInfo, claim: &ClaimInfo) -> bool {
    let mut claims = pod.volumes.iter().filter_map(PodVolume::claim);
    claim.namespace == pod.namespace && claims.any(|(name, _)| name == claim.name)
}

impl FilterRule for Filter {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        let new = self.plain(snapshot);
        let mut drivers: Vec<Symbol> = new.iter().flatten().map(|volume| volume.driver).collect();
        drivers.dedup();
        // Columns do not show whether a node has a driver.
        let shortcut = snapshot.attachable().filter(|_| !drivers.iter().any(|&d| is_required(snapshot, d)));
        let (known, mut failed) = (shortcut.zip(new), Ok(()));
        feasible.retain_blocks(|first, nodes| {
            let sure = known
                .as_ref()
                .map_or(0, |(attachable, new)| attachable.can_take(first, nodes, &drivers, new.len() as i64));
            // Other nodes may still have room: two entries counted here may be one volume there.
            bits(nodes & !sure).fold(sure, |fitting, bit| {
                match self.check(&snapshot.node(NodeIdx((first + bit) as u32))) {
                    Verdict::Fits => fitting | 1 << bit,
                    Verdict::Rejected(_) => fitting,
                    Verdict::Failed(error) => {
                        failed = failed.clone().and(Err(error));
                        fitting
                    }
                }
            })
        });
        failed
    }

    fn is_safe(&self, snapshot: Snapshot<'_>) -> bool {
        let is_counted = |attachable: &Attachable| !attachable.has_uncounted_pods();
        snapshot.attachable().is_some_and(is_counted) && self.plain(snapshot).is_some()
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        match self.fits(node) {
            Ok(true) => Verdict::Fits,
            Ok(false) => Verdict::Rejected(Rejection::unschedulable(TOO_MANY)),
            Err(Problem::NoDriver(driver)) => {
                let driver = node.snapshot().text(driver);
                let text = format!("{driver} CSI driver is not installed on the node");
                Verdict::Rejected(Rejection::unschedulable(text))
            }
            Err(Problem::NotFound(text)) => Verdict::Rejected(Rejection::unresolvable(text)),
            Err(Problem::Error(text)) => Verdict::Failed(CycleError(text)),
        }
    }
}

impl Filter {
    fn mounts(&self) -> Mounts<'_> {
        let Self { namespace, name, uid, volumes } = self;
        Mounts { namespace: *namespace, name, uid, volumes }
    }

    /// Returns the pod's volumes, if they are the same on all nodes and free of errors.
    fn plain(&self, snapshot: Snapshot<'_>) -> Option<BTreeSet<Counted>> {
        let (objects, mut new) = (snapshot.volumes(), BTreeSet::new());
        for volume in &self.volumes {
            let claim = objects.claim(self.namespace, volume.claim()?.0)?;
            let is_migratable = match claim.volume.and_then(|name| objects.volume(name)) {
                Some(volume) => volume.in_tree.is_some(),
                None => objects.class(claim.class).is_some_and(|class| class.in_tree.is_some()),
            };
            if is_migratable {
                return None;
            }
        }
        count(snapshot, self.mounts(), None, true, &mut new).ok()?;
        Some(new)
    }

    fn fits(&self, node: &NodeView<'_>) -> Result<bool, Problem> {
        let (snapshot, name) = (node.snapshot(), node.name());
        let csi_node = snapshot.volumes().csi_node(name).map(Arc::as_ref);
        let mut new = BTreeSet::new();
        count(snapshot, self.mounts(), csi_node, true, &mut new)?;
        let is_missing = |&driver: &Symbol| {
            is_required(snapshot, driver) && !csi_node.is_some_and(|node| node.has_driver(driver))
        };
        if let Some(driver) = new.iter().map(|volume| volume.driver).find(is_missing) {
            return Err(Problem::NoDriver(driver));
        }
        let Some(csi_node) = csi_node.filter(|node| node.limits.iter().any(|(_, limit)| limit.is_some()))
        else {
            return Ok(true);
        };
        if new.is_empty() {
            return Ok(true);
        }
        let mut attached = BTreeSet::new();
        for pod in node.pods().filter(|pod| !pod.volumes.is_empty()) {
            count(snapshot, Mounts::of(pod), Some(csi_node), false, &mut attached)?;
        }
        new.retain(|volume| !attached.contains(volume));
        // Not removed from the new volumes: upstream counts a volume twice that is attached but used by no
        // pod here.
        attached.extend(attachments(snapshot, name));
        let mut more: BTreeMap<Symbol, usize> = BTreeMap::new();
        for volume in &new {
            *more.entry(volume.driver).or_default() += 1;
        }
        Ok(more.into_iter().all(|(driver, more)| {
            let here = attached.iter().filter(|volume| volume.driver == driver).count();
            csi_node.limit(driver).is_none_or(|limit| i64::from(limit) >= (here + more) as i64)
        }))
    }
}

/// Whether nodes without this driver take no pods with its volumes (VolumeLimitScaling).
fn is_required(snapshot: Snapshot<'_>, driver: Symbol) -> bool {
    snapshot.rules().rejects_missing_csi_drivers
        && snapshot.volumes().csi_driver(driver).is_some_and(|driver| driver.prevents_scheduling_if_missing)
}

/// Returns the volumes of a node by its VolumeAttachments.
fn attachments(snapshot: Snapshot<'_>, node: Symbol) -> impl Iterator<Item = Counted> {
    let objects = snapshot.volumes();
    objects.attachments_on(node).filter(|attachment| attachment.attacher != known::EMPTY).filter_map(
        move |attachment| {
            let csi = objects.volume(attachment.volume?)?.csi.as_ref()?;
            let handle = Handle::Named(Arc::clone(&csi.handle));
            Some(Counted { driver: attachment.attacher, handle })
        },
    )
}

/// Adds the volumes of a pod that count on a node. Claims of existing pods may be missing.
fn count(
    snapshot: Snapshot<'_>,
    pod: Mounts<'_>,
    csi_node: Option<&CsiNodeInfo>,
    is_new: bool,
    counted: &mut BTreeSet<Counted>,
) -> Result<(), Problem> {
    for volume in pod.volumes {
        let Some((name, is_own)) = volume.claim() else {
            counted.extend(inline(snapshot, volume, csi_node)?);
            continue;
        };
        if name == known::EMPTY {
            return Err(Problem::Error("PersistentVolumeClaim had no name".to_owned()));
        }
        let text = |symbol| snapshot.text(symbol);
        match snapshot.volumes().claim(pod.namespace, name) {
            None if is_new => {
                let (namespace, name) = (text(pod.namespace), text(name));
                return Err(Problem::NotFound(format!(
                    "looking up PVC {namespace}/{name}: persistentvolumeclaim \"{name}\" not found"
                )));
            }
            None => {}
            Some(claim) if is_own && claim.controller.as_ref() != Some(pod.uid) => {
                let namespace = text(pod.namespace);
                return Err(Problem::Error(format!(
                    "PVC {namespace}/{} was not created for pod {namespace}/{} (pod is not owner)",
                    text(name),
                    pod.name
                )));
            }
            Some(claim) => counted.extend(claimed(snapshot, claim, csi_node)),
        }
    }
    Ok(())
}

/// Whether the node uses the CSI driver for volumes of an in-tree plugin (upstream `isCSIMigrationOn`).
fn is_migrated(snapshot: Snapshot<'_>, plugin: InTreePlugin, csi_node: Option<&CsiNodeInfo>) -> bool {
    let is_named = |node: &CsiNodeInfo| {
        plugin != InTreePlugin::Portworx
            || snapshot.rules().finds_migrated_portworx
            || node.has_migrated(plugin)
    };
    plugin.is_followed() && csi_node.is_some_and(is_named)
}

/// Returns an inline disk as a CSI volume, if the node uses the CSI driver for its kind.
fn inline(
    snapshot: Snapshot<'_>,
    volume: &PodVolume,
    csi_node: Option<&CsiNodeInfo>,
) -> Result<Option<Counted>, Problem> {
    let Some(disk) = volume.migratable().filter(|disk| is_migrated(snapshot, disk.plugin, csi_node)) else {
        return Ok(None);
    };
    match &disk.handle {
        Ok(handle) => Ok(Some(Counted { driver: disk.driver, handle: Handle::Named(Arc::clone(handle)) })),
        Err(error) => {
            Err(Problem::Error(format!("converting volume({}) from inline to csi: {error}", volume.name)))
        }
    }
}

/// Returns a claim's volume: the bound one, or the one that its class will provision.
fn claimed(snapshot: Snapshot<'_>, claim: &ClaimInfo, csi_node: Option<&CsiNodeInfo>) -> Option<Counted> {
    let Some(volume) = claim.volume.and_then(|name| snapshot.volumes().volume(name)) else {
        return awaited(snapshot, claim, csi_node);
    };
    let in_tree = || volume.in_tree.as_ref().filter(|it| is_migrated(snapshot, it.plugin, csi_node));
    let csi = volume.csi.as_ref().or_else(|| Some(&in_tree()?.migrated.as_ref().ok()?.volume))?;
    let is_known = csi.driver != known::EMPTY && !csi.handle.is_empty();
    is_known.then(|| Counted { driver: csi.driver, handle: Handle::Named(Arc::clone(&csi.handle)) })
}

fn awaited(snapshot: Snapshot<'_>, claim: &ClaimInfo, csi_node: Option<&CsiNodeInfo>) -> Option<Counted> {
    // A claim without a class is bound without regard to pods, so it is bound before they are placed.
    let class = snapshot.volumes().class(claim.class).filter(|_| claim.class != known::EMPTY)?;
    let driver = match class.in_tree {
        None => class.provisioner,
        Some((plugin, driver)) if is_migrated(snapshot, plugin, csi_node) => driver,
        Some(_) => return None,
    };
    let handle = Handle::Awaited(claim.namespace, claim.name);
    (driver != known::EMPTY).then_some(Counted { driver, handle })
}
