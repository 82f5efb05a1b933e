//! The invariants of devices: none is allocated beyond what it has, pods are bound with their claims, and nothing is
//! kept for pods that do not use it.

use super::{Broken, broken};
use crate::devices::{DeviceClaim, UNITS, units_of};
use crate::reference::Taken;
use crate::sim::Sim;
use crate::storage::claim_key;
use std::collections::BTreeSet;
use std::sync::Arc;
use supercargo_core::model::device::DeviceId;
use supercargo_core::model::event::Kind;
use supercargo_core::queue::SubQueue;

impl Sim {
    /// Checks that no device is allocated beyond what it has in the server's state.
    pub(crate) fn check_allocations(&self) -> Result<(), Broken> {
        let mut taken = Taken::default();
        for claim in self.server.device_claims.values() {
            claim.results().for_each(|result| taken.add(result));
        }
        // A device that its driver has removed takes nothing from the card.
        let published =
            self.server.slices.values().flat_map(|slice| {
                slice.devices.iter().map(|device| (slice.pool.as_str(), device.name.as_str()))
            });
        let published: BTreeSet<(&str, &str)> = published.collect();
        let units_of = |id: &DeviceId| match published.contains(&(&*id.pool.name, &*id.device)) {
            true => units_of(&id.device),
            false => 0,
        };
        match taken.excess(UNITS, units_of) {
            Some(why) => Err(broken("no device is allocated twice", why)),
            None => Ok(()),
        }
    }

    /// Checks that the claims of a pod whose binding is sent are allocated, reserved for it and ready, and that the
    /// node can use them. The scheduler knows no newer state than that of its watch.
    pub(crate) fn check_bound_devices(&self, uid: &str, node: &str) -> Result<(), Broken> {
        let Some(pod) = self.process.pods.get(uid) else { return Ok(()) };
        if !pod.needs_devices() || !self.server.pods.contains_key(uid) {
            return Ok(());
        }
        let is_current = self.watches.know(Kind::ResourceClaim, self.server.last_change(Kind::ResourceClaim));
        let claims = if is_current { &self.server.device_claims } else { &self.process.device_claims };
        let zone = self.server.nodes.get(node).and_then(|node| node.zone);
        let is_usable = |claim: &DeviceClaim| {
            let is_reserved = claim.reserved_for.iter().any(|other| *other == uid);
            is_reserved && claim.is_ready() && (claim.reaches(node, zone) || !self.knows_node(node))
        };
        let fail =
            |what: String| Err(broken("a pod is bound with its devices", format!("{uid} on {node}: {what}")));
        for entry in &pod.devices {
            let key = entry.claim().map(|name| claim_key(pod.namespace, name));
            match key.as_ref().and_then(|key| claims.get(key)) {
                Some(claim) if is_usable(claim) => {}
                Some(claim) => return fail(format!("{claim:?}")),
                None => return fail(format!("{key:?} does not exist")),
            }
        }
        let is_made = |claim: &&Arc<DeviceClaim>| {
            claim.is_made && claim.owner.as_ref().is_some_and(|(_, owner)| owner == uid)
        };
        let mut made = claims.values().filter(is_made);
        if pod.tpus > 0 && !made.any(|claim| is_usable(claim)) {
            return fail("no claim was made".to_owned());
        }
        Ok(())
    }

    /// Whether the scheduler knows the node's present labels, by which allocations may select it.
    fn knows_node(&self, node: &str) -> bool {
        let version = |node: Option<&Arc<crate::objects::Node>>| node.map(|node| node.version);
        version(self.server.nodes.get(node)) == version(self.process.nodes.get(node))
    }

    /// Checks what is kept for pods when the cluster has settled.
    pub(crate) fn check_devices_at_end(&self) -> Result<(), Broken> {
        let snapshot = self.process.scheduler.snapshot();
        let in_flight: Vec<_> = snapshot.devices().unlimited_in_flight().collect();
        if !in_flight.is_empty() {
            return Err(broken("no allocation stays in flight for ever", format!("{in_flight:?}")));
        }
        let gone = |uid: &&String| !self.server.pods.contains_key(*uid);
        let queue = self.process.scheduler.queue();
        let waiting: BTreeSet<&str> = queue
            .waiting()
            .filter(|(place, _)| matches!(place, SubQueue::Unschedulable | SubQueue::Gated))
            .map(|(_, queued)| &*queued.pod.uid)
            .collect();
        for (key, claim) in &self.server.device_claims {
            if let Some(uid) = claim.reserved_for.iter().find(gone) {
                return Err(broken("no claim is reserved for a pod that is gone", format!("{key}: {uid}")));
            }
            // The next attempt of other pods is due.
            let is_idle = |uid: &String| {
                let pod = &self.server.pods[uid];
                pod.ours
                    && waiting.contains(&**uid)
                    && pod.node.is_none()
                    && !pod.deleting
                    && !self.lost_writes.contains(uid)
            };
            if let Some(uid) = claim.reserved_for.iter().find(|uid| is_idle(uid)) {
                return Err(broken("no claim is reserved for a pending pod", format!("{key}: {uid}")));
            }
        }
        let made = self.server.device_claims.values().filter(|claim| claim.is_made);
        let mut owners = BTreeSet::new();
        for claim in made {
            let uid = claim.owner.as_ref().map_or("", |(_, uid)| uid);
            let is_pending = self.server.pods.get(uid).is_some_and(|pod| pod.node.is_none());
            let is_first = owners.insert(uid);
            if self.lost_writes.contains(uid) {
                continue;
            }
            if is_pending || !is_first {
                let detail = format!("{}: pending {is_pending}", claim.key());
                return Err(broken("a pod has one claim for extended resources, once it is bound", detail));
            }
            let node = self.server.pods.get(uid).and_then(|pod| pod.node.as_deref());
            if let Some(node) = node.filter(|node| claim.excludes_by_name(node)) {
                let detail = format!("{} on {node}: {:?}", claim.key(), claim.allocation);
                return Err(broken("a claim for extended resources has devices of its pod's node", detail));
            }
        }
        Ok(())
    }
}
