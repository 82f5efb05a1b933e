//! How many volumes nodes may still take, in columns: enough to pass most nodes without looking at their pods. Where these numbers do not
//! suffice the objects themselves are to be asked.

use super::Volumes;
use crate::intern::{HoldsIds, Marks, Symbol, known};
use crate::list::push_tightly;
use crate::node::NodeIdx;
use crate::pod::PodInfo;
use std::collections::BTreeMap;

/// Stands for "as many as there may be".
const UNLIMITED: i64 = i64::MAX;

/// One cell per slot in each column.
#[derive(Default)]
pub struct Attachable {
    /// By CSI driver how many volumes at most.
    limits: BTreeMap<Symbol, Vec<i64>>,
    /// Not less than the volumes that count on the node: each use of a claim and each VolumeAttachment as one.
    taken: Vec<i64>,
    /// VolumeAttachments.
    attachments: Vec<i64>,
    /// How many pods have volumes that this cannot count, by slot.
    uncounted: Vec<u32>,
    /// The same on all slots together.
    uncounted_pods: usize,
}

/// How many volumes a pod takes at most by its claims; `None` where that is more than counting them.
fn mounts(pod: &PodInfo) -> Option<i64> {
    let counts =
        pod.volumes.iter().filter(|volume| volume.claim().is_some() || volume.migratable().is_some());
    // A claim of the pod's own may be another's by mistake, and a disk is its driver's on some nodes only.
    let is_plain = |(name, is_own): (Symbol, bool)| !is_own && name != known::EMPTY;
    counts.map(|volume| volume.claim().is_some_and(is_plain).then_some(1)).sum()
}

impl Attachable {
    /// Whether some pod on a node has volumes that have to be looked at one by one.
    pub fn has_uncounted_pods(&self) -> bool {
        self.uncounted_pods > 0
    }

    /// Of the nodes of a block, as [`NodeSet::blocks`](crate::node_set::NodeSet::blocks) has it, those that can take `more` volumes of these
    /// drivers for sure.
    pub fn can_take(&self, first: usize, nodes: u64, drivers: &[Symbol], more: i64) -> u64 {
        let slots = first..(first + u64::BITS as usize).min(self.taken.len());
        let mut full = self.uncounted[slots.clone()]
            .iter()
            .zip(0..)
            .fold(0, |full, (&pods, bit)| full | u64::from(pods > 0) << bit);
        for limits in drivers.iter().filter_map(|driver| self.limits.get(driver)) {
            let cells = limits[slots.clone()].iter().zip(&self.taken[slots.clone()]).zip(0..);
            full |=
                cells.fold(0, |full, ((&limit, &taken), bit)| full | u64::from(limit - taken < more) << bit);
        }
        nodes & !full
    }

    pub(super) fn add_slot(&mut self) {
        push_tightly(&mut self.taken, 0);
        push_tightly(&mut self.attachments, 0);
        push_tightly(&mut self.uncounted, 0);
        self.limits.values_mut().for_each(|column| push_tightly(column, UNLIMITED));
    }

    pub(super) fn clear_slot(&mut self, at: usize) {
        (self.taken[at], self.attachments[at]) = (0, 0);
        self.limits.values_mut().for_each(|column| column[at] = UNLIMITED);
    }

    /// A pod came to a node, or went.
    pub(super) fn count(&mut self, at: usize, pod: &PodInfo, sign: i8) {
        if pod.volumes.is_empty() {
            return;
        }
        match mounts(pod) {
            Some(mounts) => self.taken[at] += mounts * i64::from(sign),
            None => {
                self.uncounted[at] = self.uncounted[at].strict_add_signed(sign.into());
                self.uncounted_pods = self.uncounted_pods.strict_add_signed(sign.into());
            }
        }
    }

    /// Takes over what CSINode and VolumeAttachments say of a node.
    pub(super) fn set(&mut self, node: NodeIdx, name: Symbol, volumes: &Volumes) {
        let at = node.index();
        let attachments = volumes.attachments_on(name).count() as i64;
        self.taken[at] += attachments - std::mem::replace(&mut self.attachments[at], attachments);
        self.limits.values_mut().for_each(|column| column[at] = UNLIMITED);
        for &(driver, limit) in volumes.csi_node(name).map_or(&[][..], |node| &node.limits) {
            let Some(limit) = limit else { continue };
            let slots = self.taken.len();
            let column = self.limits.entry(driver).or_insert_with(|| vec![UNLIMITED; slots]);
            column[at] = column[at].min(limit.into());
        }
    }

    /// Forgets drivers that no node limits any more.
    pub(super) fn tidy(&mut self) {
        self.limits.retain(|_, column| column.iter().any(|&limit| limit != UNLIMITED));
    }
}

impl HoldsIds for Attachable {
    fn mark(&self, marks: &mut Marks) {
        self.limits.keys().for_each(|driver| driver.mark(marks));
    }
}
