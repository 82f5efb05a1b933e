//! The remaining volume limits of nodes, in columns.
//!
//! For most nodes these numbers prove that a pod's volumes fit, without reading the node's pods. Where they do
//! not suffice, the plugin reads the objects.

use super::Volumes;
use crate::collections::list::push_tightly;
use crate::model::intern::{Marks, Symbol, TraceIds, known};
use crate::model::node::NodeIdx;
use crate::model::pod::PodInfo;
use std::collections::BTreeMap;

/// The limit of a node without a limit.
const UNLIMITED: i64 = i64::MAX;

/// Volume limits and uses, with one cell for each node slot in each column.
#[derive(Default)]
pub struct Attachable {
    /// The maximum number of volumes, by CSI driver.
    limits: BTreeMap<Symbol, Vec<i64>>,
    /// An upper bound of the volumes on the node: each use of a claim and each VolumeAttachment counts as one.
    attached: Vec<i64>,
    /// The VolumeAttachments of the node, which are part of `attached`.
    attachments: Vec<i64>,
    /// The pods of each slot whose volumes cannot be counted here.
    uncounted: Vec<u32>,
    /// The sum of `uncounted`.
    uncounted_pods: usize,
}

/// Returns the maximum number of volumes that a pod attaches through its claims, or `None` if it takes more
/// than counting to find out.
fn mounts(pod: &PodInfo) -> Option<i64> {
    let counts =
        pod.volumes.iter().filter(|volume| volume.claim().is_some() || volume.migratable().is_some());
    // A claim of an ephemeral volume may belong to another pod by mistake. A disk belongs to a CSI driver on
    // some nodes only.
    let is_plain = |(name, is_own): (Symbol, bool)| !is_own && name != known::EMPTY;
    counts.map(|volume| volume.claim().is_some_and(is_plain).then_some(1)).sum()
}

impl Attachable {
    /// Whether the volumes of some pod on a node must be evaluated one by one.
    pub fn has_uncounted_pods(&self) -> bool {
        self.uncounted_pods > 0
    }

    /// Returns those of the given nodes of a block that certainly have room for `more` volumes of these
    /// drivers. Blocks are those of [`NodeSet::blocks`](crate::model::node_set::NodeSet::blocks).
    pub fn can_take(&self, first: usize, nodes: u64, drivers: &[Symbol], more: i64) -> u64 {
        let slots = first..(first + u64::BITS as usize).min(self.attached.len());
        let mut full = self.uncounted[slots.clone()]
            .iter()
            .zip(0..)
            .fold(0, |full, (&pods, bit)| full | u64::from(pods > 0) << bit);
        for limits in drivers.iter().filter_map(|driver| self.limits.get(driver)) {
            let cells = limits[slots.clone()].iter().zip(&self.attached[slots.clone()]).zip(0..);
            full |= cells
                .fold(0, |full, ((&limit, &attached), bit)| full | u64::from(limit - attached < more) << bit);
        }
        nodes & !full
    }

    pub(super) fn add_slot(&mut self) {
        push_tightly(&mut self.attached, 0);
        push_tightly(&mut self.attachments, 0);
        push_tightly(&mut self.uncounted, 0);
        self.limits.values_mut().for_each(|column| push_tightly(column, UNLIMITED));
    }

    pub(super) fn clear_slot(&mut self, at: usize) {
        (self.attached[at], self.attachments[at]) = (0, 0);
        self.limits.values_mut().for_each(|column| column[at] = UNLIMITED);
    }

    /// Adds (`sign` 1) or removes (`sign` -1) the volumes of a pod.
    pub(super) fn count(&mut self, at: usize, pod: &PodInfo, sign: i8) {
        if pod.volumes.is_empty() {
            return;
        }
        match mounts(pod) {
            Some(mounts) => self.attached[at] += mounts * i64::from(sign),
            None => {
                self.uncounted[at] = self.uncounted[at].strict_add_signed(sign.into());
                self.uncounted_pods = self.uncounted_pods.strict_add_signed(sign.into());
            }
        }
    }

    /// Sets a node's limits from its CSINode and counts its VolumeAttachments.
    pub(super) fn set(&mut self, node: NodeIdx, name: Symbol, volumes: &Volumes) {
        let at = node.index();
        let attachments = volumes.attachments_on(name).count() as i64;
        self.attached[at] += attachments - std::mem::replace(&mut self.attachments[at], attachments);
        self.limits.values_mut().for_each(|column| column[at] = UNLIMITED);
        for &(driver, limit) in volumes.csi_node(name).map_or(&[][..], |node| &node.limits) {
            let Some(limit) = limit else { continue };
            let slots = self.attached.len();
            let column = self.limits.entry(driver).or_insert_with(|| vec![UNLIMITED; slots]);
            column[at] = column[at].min(limit.into());
        }
    }

    /// Removes the columns of drivers that no node limits any more.
    pub(super) fn drop_unlimited_drivers(&mut self) {
        self.limits.retain(|_, column| column.iter().any(|&limit| limit != UNLIMITED));
    }
}

impl TraceIds for Attachable {
    fn mark(&self, marks: &mut Marks) {
        self.limits.keys().for_each(|driver| driver.mark(marks));
    }
}
