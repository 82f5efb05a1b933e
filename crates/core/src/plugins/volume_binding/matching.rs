//! Existing volumes that can be bound to a claim.
//!
//! Upstream: `component-helpers/storage/volume/pv_helpers.go#FindMatchingVolume`. Its list of volumes is
//! unordered, so it picks any of equal volumes; this picks the one with the smallest name.

use super::by_label::ByLabel;
use crate::cache::Snapshot;
use crate::model::intern::{Labels, Tables};
use crate::model::selector::Selector;
use crate::model::volume::{ClaimInfo, PersistentVolumeInfo};
use std::sync::Arc;

/// The volumes that match a claim on some node.
pub(super) struct Matching {
    /// Volumes reserved for the claim; if there are any, no others are considered.
    reserved: Vec<Arc<PersistentVolumeInfo>>,
    /// Free volumes, smallest first.
    free: Vec<Arc<PersistentVolumeInfo>>,
    free_by_label: ByLabel,
}

impl Matching {
    /// Returns the volumes that match a claim.
    ///
    /// # Errors
    /// Returns the error that ends the cycle at the first node, if the claim's selector cannot be parsed.
    pub(super) fn of(claim: &ClaimInfo, snapshot: Snapshot<'_>) -> Result<Self, String> {
        let selector = match &claim.selector {
            None => None,
            Some(Ok(selector)) => Some(selector),
            Some(Err(error)) => {
                let (namespace, name) = (snapshot.text(claim.namespace), snapshot.text(claim.name));
                let text = "error creating internal label selector for claim";
                return Err(format!("{text}: {namespace}/{name}: {error}"));
            }
        };
        let (mut reserved, mut free) = (Vec::new(), Vec::new());
        for volume in snapshot.volumes().volumes_for(claim).filter(|volume| is_like(volume, claim)) {
            if volume.is_for(claim) {
                reserved.push(Arc::clone(volume));
            } else if volume.claim.is_none() && is_free_for(volume, claim, selector, snapshot.tables()) {
                free.push(Arc::clone(volume));
            }
        }
        let name = |volume: &PersistentVolumeInfo| snapshot.text(volume.name);
        reserved.sort_unstable_by(|a, b| name(a).cmp(name(b)));
        free.sort_unstable_by(|a, b| (a.capacity, name(a)).cmp(&(b.capacity, name(b))));
        let mut free_by_label = ByLabel::default();
        for (at, volume) in free.iter().enumerate() {
            let terms = volume.node_affinity.as_ref().map(|affinity| &*affinity.terms);
            free_by_label
                .push(at, terms.and_then(|terms| if let [one] = terms { Some(&**one) } else { None }));
        }
        Ok(Self { reserved, free, free_by_label })
    }

    /// Returns the volume for the claim on a node with these labels; `taken` ones serve other claims of the
    /// pod.
    pub(super) fn on(
        &self,
        tables: &Tables,
        labels: Labels<'_>,
        taken: &[Arc<PersistentVolumeInfo>],
    ) -> Option<&Arc<PersistentVolumeInfo>> {
        let is_taken = |volume: &PersistentVolumeInfo| taken.iter().any(|other| other.name == volume.name);
        let is_reached = |volume: &PersistentVolumeInfo| {
            volume.node_affinity.as_ref().is_none_or(|affinity| affinity.matches(tables, labels))
        };
        if let Some(volume) = self.reserved.iter().find(|volume| !is_taken(volume)) {
            return is_reached(volume).then_some(volume);
        }
        let fits = |at: usize| !is_taken(&self.free[at]) && is_reached(&self.free[at]);
        self.free_by_label.first(labels, fits).map(|at| &self.free[at])
    }
}

/// Whether a volume, free or reserved, has the claimed properties and size.
fn is_like(volume: &PersistentVolumeInfo, claim: &ClaimInfo) -> bool {
    volume.capacity >= claim.request.unwrap_or_default()
        && volume.mode == claim.mode
        && volume.attributes_class == claim.attributes_class
        && !volume.deleting
}

fn is_free_for(
    volume: &PersistentVolumeInfo,
    claim: &ClaimInfo,
    selector: Option<&Selector>,
    tables: &Tables,
) -> bool {
    volume.available
        && selector.is_none_or(|selector| selector.matches(tables, tables.labels(volume.labels)))
        && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
}
