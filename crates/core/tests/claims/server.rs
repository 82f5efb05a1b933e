//! The simulated API server: its claims, and the watch events that are not delivered yet.

use super::*;

/// A claim in the API server.
#[derive(Clone, Debug, Default)]
pub(super) struct Claim {
    /// The pod for which the scheduler made it.
    pub(super) made_for: Option<Uid>,
    pub(super) version: u64,
    pub(super) is_protected: bool,
    /// The node and the results.
    pub(super) allocation: Option<(String, Arc<Allocation>)>,
    pub(super) reserved_for: Vec<Uid>,
    /// Whether the driver reported the devices as ready, or as broken.
    pub(super) is_ready: Option<bool>,
}

impl Claim {
    pub(super) fn results(&self) -> impl Iterator<Item = &AllocatedDevice> {
        self.allocation.iter().flat_map(|(_, allocation)| &allocation.results)
    }

    /// Whether it was made for the pod, and has its devices on the node.
    pub(super) fn is_made_on(&self, node: &str, pod: &Uid) -> bool {
        let is_here = self.allocation.as_ref().is_some_and(|(on, _)| on == node);
        is_here && self.made_for.as_ref() == Some(pod) && self.reserved_for.contains(pod)
    }

    pub(super) fn needs_report(&self) -> bool {
        self.is_ready.is_none() && self.results().any(|result| !result.binding_conditions.is_empty())
    }

    /// Returns `status.devices`.
    pub(super) fn statuses(&self) -> Vec<DeviceStatus> {
        let Some(is_ready) = self.is_ready else { return Vec::new() };
        let condition = |device: &DeviceId| DeviceStatus {
            device: device.clone(),
            conditions: [DeviceCondition {
                kind: if is_ready { "ready" } else { "broken" }.into(),
                is_true: true,
                reason: "Report".into(),
                message: "".into(),
            }]
            .into(),
        };
        self.results().map(|result| condition(&result.device)).collect()
    }
}

/// The state of the API server, and the watch events that are not delivered yet.
#[derive(Default)]
pub(super) struct Server {
    pub(super) versions: u64,
    pub(super) claims: BTreeMap<String, Claim>,
    /// Names, and whether the claim was deleted.
    pub(super) events: VecDeque<(String, Claim, bool)>,
    pub(super) bound: BTreeMap<String, String>,
}

impl Server {
    pub(super) fn put(&mut self, name: &str, claim: Claim) {
        self.versions += 1;
        let claim = Claim { version: self.versions, ..claim };
        self.claims.insert(name.to_owned(), claim.clone());
        self.events.push_back((name.to_owned(), claim, false));
    }

    pub(super) fn delete(&mut self, name: &str) {
        self.versions += 1;
        if let Some(claim) = self.claims.remove(name) {
            self.events.push_back((name.to_owned(), claim, true));
        }
    }

    /// Makes a claim, as the first request of [`VolumeChange::Create`] does. Returns its name.
    pub(super) fn make(&mut self, pod: &Uid) -> String {
        let name = format!("{pod}-made-{}", self.versions);
        let made_for = Some(Arc::clone(pod));
        self.put(&name, Claim { made_for, is_protected: true, ..Claim::default() });
        name
    }

    /// Carries out a request whose answer was lost before it arrived. Of a write with several requests, only the first
    /// is on its way.
    pub(super) fn write_late(&mut self, write: &VolumeWrite) {
        if let VolumeChange::Create { .. } = &write.change {
            self.make(&write.pod.uid);
        } else {
            self.write(write);
        }
    }

    pub(super) fn write(&mut self, write: &VolumeWrite) -> WriteOutcome {
        let pod = &write.pod.uid;
        let refused = |message: &str| WriteOutcome::Refused { message: message.to_owned() };
        let conflict = "Operation cannot be fulfilled on resourceclaims: the object has been modified";
        match &write.change {
            VolumeChange::Create { allocation, .. } => {
                let name = self.make(pod);
                let made = self.claims[&name].clone();
                let node = allocation.results[0].device.pool.name.to_string();
                let allocation = Some((node, Arc::clone(allocation)));
                self.put(&name, Claim { allocation, reserved_for: vec![Arc::clone(pod)], ..made });
            }
            VolumeChange::Delete { claim: id } => {
                if !self.claims.contains_key(&*id.name) {
                    return refused("not found");
                }
                assert_eq!(
                    self.claims[&*id.name].made_for.as_ref(),
                    Some(pod),
                    "{} belongs to others",
                    id.name
                );
                self.delete(&id.name);
                if let Some(node) = self.bound.get(&**pod) {
                    let serves = |claim: &Claim| claim.is_made_on(node, pod);
                    assert!(self.claims.values().any(serves), "{pod} is bound with {}", id.name);
                }
            }
            VolumeChange::Reserve { claim: id, add_finalizer, allocation, .. } => {
                let name = &*id.name;
                let Some(claim) = self.claims.get(name).cloned() else { return refused("not found") };
                if claim.version.to_string() != id.version {
                    return refused(conflict);
                }
                assert_eq!(*add_finalizer, allocation.is_some() && !claim.is_protected);
                let mut claim = Claim { is_protected: true, ..claim };
                if let Some(new) = allocation {
                    assert!(claim.allocation.is_none(), "{name} is allocated twice");
                    claim.allocation = Some((new.results[0].device.pool.name.to_string(), Arc::clone(new)));
                }
                if claim.allocation.is_none() {
                    return refused("status.reservedFor: Forbidden: may not be specified when not allocated");
                }
                if !claim.reserved_for.contains(pod) {
                    claim.reserved_for.push(Arc::clone(pod));
                }
                self.put(name, claim);
            }
            VolumeChange::Unreserve { claim: id } => {
                let name = &*id.name;
                let mut claim = self.claims[name].clone();
                claim.reserved_for.retain(|uid| uid != pod);
                self.put(name, claim);
            }
            VolumeChange::Deallocate { claim: id } => {
                let name = &*id.name;
                let claim = self.claims[name].clone();
                if claim.version.to_string() != id.version {
                    return refused(conflict);
                }
                assert!(claim.reserved_for.iter().all(|uid| uid == pod), "{name} is taken from others");
                self.put(name, Claim { allocation: None, reserved_for: Vec::new(), is_ready: None, ..claim });
            }
            other => unreachable!("no pod needs this write: {other:?}"),
        }
        WriteOutcome::Done
    }

    /// Another scheduler allocates a free claim with a device of its own.
    pub(super) fn allocate_elsewhere(&mut self, name: &str, node: &str) {
        let claim = self.claims[name].clone();
        if claim.allocation.is_some() {
            return;
        }
        let device = DeviceId { pool: pool(&format!("{node}-other")), device: name.into() };
        let result = AllocatedDevice::whole("r", device);
        let allocation = Allocation { results: vec![result], ..Allocation::default() };
        self.put(name, Claim { allocation: Some((node.to_owned(), allocation.into())), ..claim });
    }

    /// The driver reports on the devices of a claim.
    pub(super) fn report(&mut self, name: &str, is_ready: bool) {
        let claim = self.claims[name].clone();
        if claim.needs_report() {
            self.put(name, Claim { is_ready: Some(is_ready), ..claim });
        }
    }

    /// Another component frees a claim that no pod has reserved.
    pub(super) fn free(&mut self, name: &str) {
        let claim = self.claims[name].clone();
        if claim.reserved_for.is_empty() && claim.allocation.is_some() {
            self.put(name, Claim { allocation: None, is_ready: None, ..claim });
        }
    }
}
