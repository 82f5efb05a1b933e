//! ResourceClaims, ResourceSlices, and the devices that are allocated or about to be.
//!
//! A claim holds devices by its `status.allocation`, or, until the API server shows that, by the reservation of the
//! pod for which it is being allocated. Upstream: `dynamicresources/{dra_manager,allocateddevices}.go`.

mod allocated;
mod changes;
mod given_up;
mod soundness;

pub use allocated::{AllocatedDevices, DeviceUsage};
pub use changes::DeviceChange;

use crate::collections::hash::{FixedMap, IdMap};
use crate::model::device::{
    Allocation, DeviceClass, DeviceId, DeviceSelector, PoolId, Reach, ResourceClaim, ResourceSlice,
    planned_uid,
};
use crate::model::intern::{Marks, Symbol, TraceIds, known};
use crate::model::pod::Uid;
use crate::model::time::Time;
use changes::Changes;
use given_up::GivenUp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// If a time limit comes more than this late, the process was paused, and the limit is extended by as much.
const PAUSED: Duration = Duration::from_secs(60);

/// All claims and slices.
#[derive(Default)]
pub struct Devices {
    claims: IdMap<(Symbol, Symbol), Arc<ResourceClaim>>,
    /// Claims that the scheduler made for extended resources, by the uid of their pod.
    extended: BTreeMap<Uid, BTreeSet<(Symbol, Symbol)>>,
    /// Pods that are bound, or about to be, with this claim that was made for them.
    settled: BTreeMap<Uid, (Symbol, Symbol)>,
    /// Reservations that pods gave up, while the API server still shows them: by pod and claim, the request.
    given_up: BTreeMap<Uid, BTreeMap<Uid, GivenUp>>,
    /// Allocations that the API server does not show yet, by the uid of the claim.
    in_flight: FixedMap<Uid, Arc<Allocation>>,
    /// Those of them that the API server showed once, before it showed the claim without them again.
    shown_once: BTreeSet<Uid>,
    /// Claims whose allocation was sent, but whose pod is not in PreBind any more, with the time until which the watch
    /// may still show the allocation.
    lingering: FixedMap<Uid, Lingering>,
    /// Number of claims that were to be made and lingered, for their uids.
    planned: u64,
    /// The devices whose binding conditions failed for a claim, by its uid.
    avoided: BTreeMap<Uid, BTreeSet<DeviceId>>,
    /// The allocations that count in `allocated`, by the uid of the claim.
    held: FixedMap<Uid, Arc<Allocation>>,
    allocated: AllocatedDevices,
    slices: IdMap<Symbol, Arc<ResourceSlice>>,
    pools: BTreeMap<PoolId, Vec<Arc<ResourceSlice>>>,
    /// Slices for one node, by its name.
    by_node: IdMap<Symbol, BTreeSet<Symbol>>,
    /// Slices that several nodes may be able to use.
    shared: BTreeSet<Symbol>,
    /// Pools that some node may find incomplete, invalid or obsolete.
    unsound: BTreeSet<PoolId>,
    changes: Changes,
}

/// A claim whose allocation was sent.
struct Lingering {
    until: Time,
    /// Whether the time was extended, since the process was paused when it came.
    is_extended: bool,
    claim: Arc<ResourceClaim>,
}

impl Devices {
    /// Returns a claim as the API server shows it.
    pub fn claim(&self, namespace: Symbol, name: Symbol) -> Option<&Arc<ResourceClaim>> {
        self.claims.get(&(namespace, name))
    }

    /// Returns all claims, in arbitrary order.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<ResourceClaim>> {
        self.claims.values()
    }

    /// Returns the claims that the scheduler made for the extended resources of the pod with this name and uid, in
    /// order of their ids. Upstream: `extendeddynamicresources.go#findExtendedResourceClaim`.
    pub fn made_for(&self, name: &str, uid: &str) -> impl Iterator<Item = &Arc<ResourceClaim>> {
        let claims = self.extended.get(uid).into_iter().flatten().filter_map(|key| self.claims.get(key));
        claims.filter(move |claim| claim.controller.as_ref().is_some_and(|(owner, _)| **owner == *name))
    }

    /// Returns the claim made for a pod with which it is bound, or about to be.
    pub fn settled(&self, pod: &str) -> Option<&Arc<ResourceClaim>> {
        self.claims.get(self.settled.get(pod)?)
    }

    /// Returns the pods that have such a claim.
    pub fn all_settled(&self) -> impl Iterator<Item = &Uid> {
        self.settled.keys()
    }

    /// Returns the devices that a claim avoids while others fit.
    pub fn avoided_by(&self, claim: &str) -> Option<&BTreeSet<DeviceId>> {
        self.avoided.get(claim)
    }

    /// Returns the devices that claims avoid, by the uid of the claim.
    pub fn all_avoided(&self) -> &BTreeMap<Uid, BTreeSet<DeviceId>> {
        &self.avoided
    }

    /// Returns the number of claims that avoid devices.
    pub fn avoiding_count(&self) -> usize {
        self.avoided.len()
    }

    pub(super) fn avoid(&mut self, claim: &Uid, devices: Option<BTreeSet<DeviceId>>) -> bool {
        match devices.filter(|devices| !devices.is_empty()) {
            None => self.avoided.remove(claim).is_some(),
            Some(devices) => {
                let known = self.avoided.entry(Arc::clone(claim)).or_default();
                let before = known.len();
                known.extend(devices);
                known.len() != before
            }
        }
    }

    pub(super) fn settle(&mut self, pod: &Uid, claim: &ResourceClaim) {
        self.settled.insert(Arc::clone(pod), (claim.namespace, claim.name));
    }

    pub(super) fn unsettle(&mut self, pod: &str) {
        self.settled.remove(pod);
    }

    /// Returns the allocation of a claim that the API server does not show yet.
    pub fn in_flight(&self, claim: &str) -> Option<&Arc<Allocation>> {
        self.in_flight.get(claim)
    }

    /// Returns the allocations that the API server does not show yet, with the uids of their claims.
    pub fn all_in_flight(&self) -> impl Iterator<Item = (&Uid, &Arc<Allocation>)> {
        self.in_flight.iter()
    }

    /// Returns the allocations that were sent, and hold their devices until the API server shows them or a time limit.
    pub fn all_lingering(&self) -> impl Iterator<Item = (&Uid, &Arc<Allocation>)> {
        self.in_flight.iter().filter(|(uid, _)| self.lingering.contains_key(*uid))
    }

    /// Returns the uids of claims whose allocation the API server does not show yet, and that no time limits.
    pub fn unlimited_in_flight(&self) -> impl Iterator<Item = &Uid> {
        self.in_flight.keys().filter(|uid| !self.lingering.contains_key(*uid))
    }

    /// Returns the devices that are allocated or about to be.
    pub fn allocated(&self) -> &AllocatedDevices {
        &self.allocated
    }

    /// Returns a slice.
    pub fn slice(&self, name: Symbol) -> Option<&Arc<ResourceSlice>> {
        self.slices.get(&name)
    }

    /// Returns all slices, in arbitrary order.
    pub fn slices(&self) -> impl Iterator<Item = &Arc<ResourceSlice>> {
        self.slices.values()
    }

    /// Returns the slices of a pool, in arbitrary order.
    pub fn pool(&self, pool: &PoolId) -> &[Arc<ResourceSlice>] {
        self.pools.get(pool).map_or(&[], Vec::as_slice)
    }

    /// Returns the slices that a node may be able to use, in arbitrary order.
    pub fn slices_for(&self, node: Symbol) -> impl Iterator<Item = &Arc<ResourceSlice>> {
        let own = self.by_node.get(&node).into_iter().flatten();
        own.chain(&self.shared).filter_map(|name| self.slices.get(name))
    }

    /// Counts the devices of a class within reach, and those of them that are allocated.
    ///
    /// # Errors
    /// If a node selector cannot be parsed, or an expression fails.
    pub(super) fn count_of_class(
        &self,
        class: &DeviceClass,
        node: Symbol,
        is_reached: impl Fn(&Reach) -> Result<bool, Arc<str>>,
    ) -> Result<(i64, i64), Arc<str>> {
        let (mut total, mut allocated) = (0, 0);
        for slice in self.slices_for(node) {
            let usage = self.allocated.of_pool(&slice.pool);
            let is_open = matches!(slice.reach, Reach::PerDevice | Reach::Nothing);
            if !is_open && !is_reached(&slice.reach)? {
                continue;
            }
            for device in &slice.devices {
                if slice.reach == Reach::PerDevice && !is_reached(&device.reach)? {
                    continue;
                }
                let mut is_match = true;
                for DeviceSelector(expression) in class.selectors.iter().flatten() {
                    is_match = is_match && expression.matches(&device.facts)?;
                }
                if is_match {
                    total += 1;
                    allocated += i64::from(usage.is_some_and(|usage| usage.of(&device.name).is_some()));
                }
            }
        }
        Ok((total, allocated))
    }

    pub(super) fn set_claim(&mut self, claim: &Arc<ResourceClaim>) -> Option<Arc<ResourceClaim>> {
        let key = (claim.namespace, claim.name);
        let old = self.claims.insert(key, Arc::clone(claim));
        if let Some(old) = &old {
            self.reservations_ended(old, Some(claim));
            // Another version of the same claim leaves it as settled as it was.
            if (&old.uid, &old.controller) != (&claim.uid, &claim.controller) {
                self.leave_pod(old);
            }
            if old.uid != claim.uid {
                self.claim_left(&old.uid);
            }
        }
        if let Some((_, pod)) = claim.controller.as_ref().filter(|_| claim.is_for_extended_resources) {
            self.extended.entry(Arc::clone(pod)).or_default().insert(key);
            let planned = planned_uid(pod);
            if self.is_in_flight_for(&planned, claim) {
                self.shown_once.insert(Arc::clone(&planned));
            }
            self.end_lingering(&planned, claim);
        }
        self.count(claim);
        old
    }

    pub(super) fn remove_claim(&mut self, namespace: Symbol, name: Symbol) -> Option<Arc<ResourceClaim>> {
        let old = self.claims.remove(&(namespace, name))?;
        self.leave_pod(&old);
        self.reservations_ended(&old, None);
        self.claim_left(&old.uid);
        Some(old)
    }

    /// Ends what is known about a claim that does not exist any more. No write can reach it.
    fn claim_left(&mut self, uid: &Uid) {
        self.avoided.remove(uid);
        if self.lingering.remove(uid).is_some() {
            self.take_in_flight(uid);
        }
        let in_flight = self.in_flight.get(uid).cloned();
        self.hold(uid, in_flight);
    }

    fn leave_pod(&mut self, claim: &ResourceClaim) {
        let Some((_, pod)) = &claim.controller else { return };
        let key = (claim.namespace, claim.name);
        if self.settled.get(pod) == Some(&key) {
            self.settled.remove(pod);
        }
        if let Some(made) = self.extended.get_mut(pod) {
            made.remove(&key);
            if made.is_empty() {
                self.extended.remove(pod);
            }
        }
    }

    /// Gives back the devices that lingered for a claim that was to be made, once the watch shows it.
    fn end_lingering(&mut self, planned: &Uid, shown: &ResourceClaim) {
        let is_it = |uid: &&Uid| uid.starts_with(&**planned) && self.is_in_flight_for(uid, shown);
        if let Some(uid) = self.lingering.keys().find(is_it).cloned() {
            self.lingering.remove(&uid);
            self.take_in_flight(&uid);
            self.hold(&uid, None);
        }
    }

    fn take_in_flight(&mut self, claim: &Uid) -> Option<Arc<Allocation>> {
        self.shown_once.remove(claim);
        self.in_flight.remove(claim)
    }

    fn is_in_flight_for(&self, claim: &Uid, shown: &ResourceClaim) -> bool {
        let in_flight = self.in_flight.get(claim).map(|sent| &sent.results);
        in_flight.is_some() && in_flight == shown.allocation.as_ref().map(|shown| &shown.results)
    }

    /// Counts the devices of a claim by its shown allocation and by the one in flight.
    fn count(&mut self, claim: &ResourceClaim) {
        if claim.allocation.is_some() && self.lingering.remove(&claim.uid).is_some() {
            self.take_in_flight(&claim.uid);
        }
        if self.is_in_flight_for(&claim.uid, claim) {
            self.shown_once.insert(Arc::clone(&claim.uid));
        }
        let in_flight = self.in_flight.get(&claim.uid);
        let allocation = match (&claim.allocation, in_flight) {
            // The claim may be freed again before the write arrives.
            (Some(shown), Some(sent)) if shown.results != sent.results => Some(both(shown, sent)),
            (Some(one), _) | (None, Some(one)) => Some(Arc::clone(one)),
            (None, None) => None,
        };
        self.hold(&claim.uid, allocation);
    }

    fn hold(&mut self, claim: &Uid, allocation: Option<Arc<Allocation>>) {
        let before = match &allocation {
            Some(now) => self.held.insert(Arc::clone(claim), Arc::clone(now)),
            None => self.held.remove(claim),
        };
        self.holding_changed(before.as_deref(), allocation.as_deref());
        if let Some(before) = before {
            self.allocated.remove(&before);
        }
        if let Some(now) = allocation {
            self.allocated.add(&now);
        }
    }

    pub(super) fn assume(&mut self, claim: &ResourceClaim, allocation: &Arc<Allocation>) {
        // An allocation whose write was lost may still arrive.
        let other = self.in_flight.get(&claim.uid);
        let allocation = other.map_or_else(|| Arc::clone(allocation), |other| both(other, allocation));
        self.shown_once.remove(&claim.uid);
        self.in_flight.insert(Arc::clone(&claim.uid), allocation);
        self.recount(claim);
    }

    pub(super) fn forget(&mut self, claim: &ResourceClaim) {
        if self.lingering.contains_key(&claim.uid) {
            return;
        }
        self.take_in_flight(&claim.uid);
        self.recount(claim);
    }

    /// Keeps the devices of a claim whose allocation was sent, until the watch shows it or the time has come.
    pub(super) fn linger(&mut self, claim: &ResourceClaim, until: Time) {
        if claim.name == known::EXTENDED_RESOURCES {
            return self.linger_planned(claim, until);
        }
        let is_shown = |shown: &Arc<ResourceClaim>| shown.uid == claim.uid && shown.allocation.is_some();
        let is_in_flight = self.in_flight.contains_key(&claim.uid) && !self.shown_once.contains(&claim.uid);
        if is_in_flight && !self.claim(claim.namespace, claim.name).is_some_and(is_shown) {
            let lingering =
                Lingering { until, is_extended: false, claim: ResourceClaim::clone(claim).into() };
            self.lingering.insert(Arc::clone(&claim.uid), lingering);
        }
    }

    /// Does the same for a claim that was to be made. Its devices move to a uid of their own, since the pod's next
    /// attempt may make another claim.
    fn linger_planned(&mut self, claim: &ResourceClaim, until: Time) {
        let is_made = claim.controller.as_ref().is_some_and(|(name, pod)| {
            self.made_for(name, pod).any(|made| self.is_in_flight_for(&claim.uid, made))
        });
        let was_shown = is_made || self.shown_once.contains(&claim.uid);
        if let Some(sent) = self.take_in_flight(&claim.uid).filter(|_| !was_shown) {
            self.planned += 1;
            let uid: Uid = format!("{}{}", claim.uid, self.planned).into();
            self.in_flight.insert(Arc::clone(&uid), Arc::clone(&sent));
            self.hold(&uid, Some(sent));
            self.lingering.insert(
                uid,
                Lingering { until, is_extended: false, claim: ResourceClaim::clone(claim).into() },
            );
        }
        self.hold(&claim.uid, None);
    }

    /// Returns when the next devices of a lingering claim are given back.
    pub fn next_expiry(&self) -> Option<Time> {
        self.lingering.values().map(|it| it.until).min()
    }

    /// Gives back the devices of claims whose time has come. Returns these claims, each with the allocation that it
    /// would have had, in order of their uids.
    pub(super) fn expire(&mut self, now: Time) -> Vec<Arc<ResourceClaim>> {
        if self.lingering.is_empty() {
            return Vec::new();
        }
        let mut over = BTreeSet::new();
        for (uid, it) in self.lingering.iter_mut().filter(|(_, it)| it.until <= now) {
            if !it.is_extended && it.until + PAUSED < now {
                // Events of the time before may still wait.
                (it.until, it.is_extended) = (now + PAUSED, true);
            } else {
                over.insert(Arc::clone(uid));
            }
        }
        let mut freed = Vec::with_capacity(over.len());
        for uid in over {
            let Some(Lingering { claim, .. }) = self.lingering.remove(&uid) else { continue };
            let allocation = self.take_in_flight(&uid);
            freed.push(Arc::new(ResourceClaim { allocation, ..ResourceClaim::clone(&claim) }));
            let shown = self.claim(claim.namespace, claim.name).filter(|shown| shown.uid == uid);
            let allocation = shown.and_then(|claim| claim.allocation.clone());
            self.hold(&uid, allocation);
        }
        freed
    }

    fn recount(&mut self, claim: &ResourceClaim) {
        let shown = self.claim(claim.namespace, claim.name).filter(|shown| shown.uid == claim.uid).cloned();
        match shown {
            Some(shown) => self.count(&shown),
            None => {
                let in_flight = self.in_flight.get(&claim.uid).cloned();
                self.hold(&claim.uid, in_flight);
            }
        }
    }

    pub(super) fn set_slice(&mut self, slice: Arc<ResourceSlice>) -> Option<Arc<ResourceSlice>> {
        let old = self.remove_slice(slice.name);
        match slice.reach {
            Reach::Node(node) => {
                self.by_node.entry(node).or_default().insert(slice.name);
            }
            _ => {
                self.shared.insert(slice.name);
            }
        }
        self.pools.entry(slice.pool.clone()).or_default().push(Arc::clone(&slice));
        self.pool_changed(&slice.pool);
        self.check_pool(&slice.pool);
        self.slices.insert(slice.name, slice);
        old
    }

    pub(super) fn remove_slice(&mut self, name: Symbol) -> Option<Arc<ResourceSlice>> {
        let old = self.slices.remove(&name)?;
        self.pool_changed(&old.pool);
        self.shared.remove(&name);
        if let Reach::Node(node) = old.reach
            && let Some(own) = self.by_node.get_mut(&node)
        {
            own.remove(&name);
            if own.is_empty() {
                self.by_node.remove(&node);
            }
        }
        if let Some(pool) = self.pools.get_mut(&old.pool) {
            pool.retain(|slice| slice.name != name);
            if pool.is_empty() {
                self.pools.remove(&old.pool);
            }
        }
        self.check_pool(&old.pool);
        Some(old)
    }

    pub(super) fn claim_keys(&self) -> impl Iterator<Item = &(Symbol, Symbol)> {
        self.claims.keys()
    }

    pub(super) fn slice_names(&self) -> impl Iterator<Item = &Symbol> {
        self.slices.keys()
    }
}

/// Returns an allocation with the devices of two.
fn both(one: &Allocation, other: &Allocation) -> Arc<Allocation> {
    let mut both = one.clone();
    both.results.extend(other.results.iter().cloned());
    both.into()
}

impl TraceIds for Devices {
    fn mark(&self, marks: &mut Marks) {
        let Self {
            claims,
            // Names of `claims`.
            extended: _,
            settled: _,
            given_up: _,
            // Allocations hold texts only.
            in_flight: _,
            shown_once: _,
            lingering,
            planned: _,
            // Ids of devices are texts.
            avoided: _,
            held: _,
            allocated: _,
            slices,
            // Slices in `slices`, by other keys.
            pools: _,
            by_node: _,
            shared: _,
            unsound: _,
            // An id of a deleted node finds no node; if the id was reused, another node is evaluated again.
            changes: _,
        } = self;
        claims.mark(marks);
        lingering.values().for_each(|it| it.claim.mark(marks));
        slices.mark(marks);
    }
}

#[cfg(test)]
mod tests {
    use super::allocated::tests::allocation;
    use super::*;

    /// Returns a claim without a name.
    pub(super) fn claim(uid: &str, allocation: Option<Allocation>) -> ResourceClaim {
        ResourceClaim {
            namespace: known::EMPTY,
            name: known::EMPTY,
            uid: uid.into(),
            resource_version: "1".into(),
            controller: None,
            deleting: false,
            is_for_extended_resources: false,
            is_protected: true,
            spec: Arc::default(),
            allocation: allocation.map(Arc::new),
            nodes: None,
            reserved_for: [].into(),
            devices: [].into(),
        }
    }

    /// Returns a claim whose devices linger until 100 s.
    fn lingering() -> Devices {
        let (mut devices, sent) = (Devices::default(), claim("sent", None));
        devices.set_claim(&Arc::new(sent.clone()));
        devices.assume(&sent, &allocation("d").into());
        devices.linger(&sent, Time::from_secs(100));
        devices
    }

    #[test]
    fn devices_linger_once_more_if_their_time_limit_comes_late() {
        let expired = |devices: &mut Devices, at: u64| devices.expire(Time::from_secs(at)).len();
        for at in [100, 101, 160] {
            let mut devices = lingering();
            assert_eq!((expired(&mut devices, 99), expired(&mut devices, at)), (0, 1), "at {at} s");
            assert!(devices.allocated().is_empty());
        }
        let mut devices = lingering();
        assert_eq!([161, 220].map(|at| expired(&mut devices, at)), [0, 0]);
        assert_eq!(devices.next_expiry(), Some(Time::from_secs(221)));
        assert_eq!(expired(&mut devices, 900), 1, "a second pause extends the time no more");
        assert!(devices.allocated().is_empty());
    }

    /// The claim was deleted before the answer to its write was lost, and another one got its name.
    #[test]
    fn claim_that_lingered_does_not_hold_the_devices_of_another_claim_of_its_name() {
        let (mut devices, sent) = (Devices::default(), claim("sent", None));
        devices.set_claim(&Arc::new(sent.clone()));
        devices.assume(&sent, &allocation("d").into());
        devices.remove_claim(sent.namespace, sent.name);
        devices.linger(&sent, Time::from_secs(100));
        devices.set_claim(&Arc::new(claim("other", Some(allocation("e")))));
        assert_eq!(devices.allocated().len(), 2);
        assert_eq!(devices.expire(Time::from_secs(100)).len(), 1);
        assert_eq!(devices.allocated().len(), 1);
        devices.remove_claim(sent.namespace, sent.name);
        assert!(devices.allocated().is_empty());
    }
}
