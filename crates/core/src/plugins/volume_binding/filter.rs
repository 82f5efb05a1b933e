//! The filter of a pod's claims on one node: access to bound volumes, matching, and provisioning.
//!
//! Upstream: `volumebinding/binder.go#FindPodVolumes` and `#AssumePodVolumes`.

use super::claims::Claims;
use super::matching::Matching;
use super::provisioning::{Obstacle, Provisioning};
use super::score::ClassStorage;
use crate::cache::{NodeView, Snapshot};
use crate::framework::{Code, CycleError, DependsOn, FilterRule, Reason, Rejection, Verdict};
use crate::model::intern::{Labels, Symbol, Tables};
use crate::model::node_set::NodeSet;
use crate::model::volume::{
    ClaimInfo, ClaimRef, CsiNodeInfo, PersistentVolumeInfo, Reservation, VolumeNodeAffinity,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const UNREACHED: &str = "node(s) didn't match PersistentVolume's node affinity";
const UNMATCHED: &str = "node(s) didn't find available persistent volumes to bind";
const NO_ROOM: &str = "node(s) did not have enough free storage";
const NO_VOLUME: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

/// The rule of a pod with claims.
pub(super) struct Filter {
    /// The volumes of bound claims; `None` for a missing one.
    bound: Vec<Option<Arc<PersistentVolumeInfo>>>,
    delayed: Vec<Delayed>,
}

/// A claim that waits for the pod's node.
struct Delayed {
    claim: Arc<ClaimInfo>,
    matching: Result<Matching, String>,
    provisioning: Provisioning,
}

impl Delayed {
    /// Returns the requested bytes.
    fn requested(&self) -> i64 {
        self.claim.request.unwrap_or_default().bytes()
    }
}

/// The volumes that a node offers for the pod's claims.
#[derive(Default)]
struct Found<'a> {
    reasons: Vec<Reason>,
    matched: Vec<(&'a Delayed, Arc<PersistentVolumeInfo>)>,
    provided: Vec<&'a Delayed>,
}

impl Filter {
    pub(super) fn new(claims: Claims, snapshot: Snapshot<'_>) -> Self {
        let objects = snapshot.volumes();
        let bound = claims.bound.iter().filter_map(|claim| claim.volume);
        let bound = bound.map(|volume| objects.volume(volume).map(Arc::clone)).collect();
        let delayed = claims.delayed.into_iter().map(|(claim, class)| Delayed {
            matching: Matching::of(&claim, snapshot),
            provisioning: Provisioning::of(&claim, &class, snapshot),
            claim,
        });
        Self { bound, delayed: delayed.collect() }
    }

    /// Whether no node can be rejected.
    fn is_indifferent(&self) -> bool {
        let is_everywhere =
            |volume: &PersistentVolumeInfo| volume.node_affinity.is_none() && volume.in_tree.is_none();
        self.delayed.is_empty()
            && self.bound.iter().all(|volume| volume.as_deref().is_some_and(is_everywhere))
    }

    fn find(&self, node: &NodeView<'_>) -> Result<Found<'_>, CycleError> {
        let (snapshot, name) = (node.snapshot(), node.name());
        let csi_node = snapshot.volumes().csi_node(name).map(Arc::as_ref);
        let (tables, labels) = (snapshot.tables(), node.labels());
        let mut found = Found::default();
        let unreached = self.check_bound(tables, labels, csi_node)?;
        let unmatched = self.check_delayed(tables, labels, name, &mut found)?;
        // In this order, whichever was found first.
        let reasons = [
            (unreached == Some(UNREACHED), UNREACHED),
            (unmatched == Some(Obstacle::NotHere), UNMATCHED),
            (unmatched == Some(Obstacle::NoRoom), NO_ROOM),
            (unreached == Some(NO_VOLUME), NO_VOLUME),
        ];
        found.reasons = reasons.iter().filter(|(holds, _)| *holds).map(|&(_, text)| text.into()).collect();
        Ok(found)
    }

    /// Returns the storage of each class that the pod takes on a feasible node: of the volumes that it finds there, or
    /// else of those that are provisioned and whose driver publishes capacity.
    pub(super) fn storage(&self, node: &NodeView<'_>) -> Result<BTreeMap<Symbol, ClassStorage>, CycleError> {
        let found = self.find(node)?;
        let (tables, labels) = (node.snapshot().tables(), node.labels());
        let mut classes = BTreeMap::<Symbol, ClassStorage>::new();
        for (it, volume) in &found.matched {
            let class = classes.entry(it.claim.class).or_default();
            class.requested = class.requested.wrapping_add(it.requested());
            class.capacity = class.capacity.wrapping_add(volume.capacity.bytes());
        }
        if found.matched.is_empty() {
            for it in &found.provided {
                let Some(capacity) = it.provisioning.capacity_on(tables, labels) else { continue };
                let class = classes.entry(it.claim.class).or_default();
                class.requested = class.requested.wrapping_add(it.requested());
                // All volumes of a class share the capacity.
                class.capacity = capacity;
            }
        }
        Ok(classes)
    }

    /// Returns the first reason why the node cannot access a bound volume.
    fn check_bound(
        &self,
        tables: &Tables,
        labels: Labels<'_>,
        csi_node: Option<&CsiNodeInfo>,
    ) -> Result<Option<&'static str>, CycleError> {
        for volume in &self.bound {
            let Some(volume) = volume else { return Ok(Some(NO_VOLUME)) };
            if node_affinity(volume, csi_node)?.is_some_and(|affinity| !affinity.matches(tables, labels)) {
                return Ok(Some(UNREACHED));
            }
        }
        Ok(None)
    }

    /// Returns why claims that wait for a node cannot be served; their volumes are added to `found`.
    fn check_delayed<'a>(
        &'a self,
        tables: &Tables,
        labels: Labels<'_>,
        node: Symbol,
        found: &mut Found<'a>,
    ) -> Result<Option<Obstacle>, CycleError> {
        if self.delayed.iter().any(|it| it.claim.selected_node.is_some_and(|selected| selected != node)) {
            return Ok(Some(Obstacle::NotHere));
        }
        let (selected, mut open): (Vec<_>, Vec<_>) =
            self.delayed.iter().partition(|it| it.claim.selected_node.is_some());
        found.provided = selected;
        open.sort_by_key(|it| it.claim.request.unwrap_or_default());
        let mut taken = Vec::new();
        for it in open {
            let matching = it.matching.as_ref().map_err(|error| CycleError(error.clone()))?;
            match matching.on(tables, labels, &taken) {
                Some(volume) => {
                    taken.push(Arc::clone(volume));
                    found.matched.push((it, Arc::clone(volume)));
                }
                None => found.provided.push(it),
            }
        }
        Ok(found.provided.iter().find_map(|it| it.provisioning.on(tables, labels).err()))
    }
}

/// Returns a volume's node affinity, in its CSI driver's labels if the node uses the driver for this kind.
fn node_affinity<'a>(
    volume: &'a PersistentVolumeInfo,
    csi_node: Option<&CsiNodeInfo>,
) -> Result<Option<&'a VolumeNodeAffinity>, CycleError> {
    let is_migrated = |plugin| csi_node.is_some_and(|node| node.has_migrated(plugin));
    match volume.in_tree.as_ref().filter(|it| it.plugin.is_followed() && is_migrated(it.plugin)) {
        None => Ok(volume.node_affinity.as_ref()),
        Some(in_tree) => match &in_tree.migrated {
            Ok(migrated) => Ok(migrated.node_affinity.as_ref()),
            Err(error) => Err(CycleError(format!("could not translate pv: {error}"))),
        },
    }
}

/// Whether a node can access a volume (upstream `CheckNodeAffinity`).
pub(super) fn reaches(node: &NodeView<'_>, volume: &PersistentVolumeInfo) -> Result<bool, CycleError> {
    let snapshot = node.snapshot();
    let csi_node = snapshot.volumes().csi_node(node.name()).map(Arc::as_ref);
    let affinity = node_affinity(volume, csi_node)?;
    Ok(affinity.is_none_or(|affinity| affinity.matches(snapshot.tables(), node.labels())))
}

impl FilterRule for Filter {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        if self.is_indifferent() {
            return Ok(());
        }
        let mut failed = Ok(());
        feasible.retain(|node| match self.find(&snapshot.node(node)) {
            Ok(found) => found.reasons.is_empty(),
            Err(error) => {
                failed = failed.clone().and(Err(error));
                false
            }
        });
        failed
    }

    fn is_safe(&self, _snapshot: Snapshot<'_>) -> bool {
        self.delayed.iter().all(|it| it.matching.is_ok())
            && self.bound.iter().flatten().all(|volume| volume.in_tree.is_none())
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        match self.find(node) {
            Err(error) => Verdict::Failed(error),
            Ok(Found { reasons, .. }) if reasons.is_empty() => Verdict::Fits,
            Ok(Found { reasons, .. }) => {
                Verdict::Rejected(Rejection { code: Code::UnschedulableAndUnresolvable, reasons })
            }
        }
    }

    fn reserve(&self, node: &NodeView<'_>) -> Result<Vec<Reservation>, Rejection> {
        // A node that is infeasible or fails is never chosen.
        let Ok(Found { matched, provided, .. }) = self.find(node) else { return Ok(Vec::new()) };
        let bindings = matched.into_iter().map(|(it, volume)| Reservation::Bind {
            volume: volume.name,
            claim: ClaimRef {
                namespace: it.claim.namespace,
                name: it.claim.name,
                uid: Some(Arc::clone(&it.claim.uid)),
            },
            by_controller: !volume.is_for(&it.claim),
        });
        let provisions = provided.into_iter().map(|it| Reservation::Provision {
            namespace: it.claim.namespace,
            name: it.claim.name,
            node: node.name(),
        });
        Ok(bindings.chain(provisions).collect())
    }
}
