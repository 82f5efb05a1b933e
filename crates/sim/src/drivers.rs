//! The lifecycle of devices and claims: users create claims, the resource-claim controller makes those of templates and
//! frees what pods leave behind, the driver publishes devices and reports on them, and another scheduler allocates.

use crate::agenda::Due;
use crate::devices::{DeviceClaim, DeviceKind, Part, PodDevices, Slice, Wanted, foreign_allocation};
use crate::fault_rates::draw_delay;
use crate::groups::has_groups;
use crate::objects::Pod;
use crate::process::emulated_version;
use crate::server::{By, DeviceWork};
use crate::sim::{Sim, WIDE};
use crate::storage::claim_key;
use crate::workload::ZONES;
use std::sync::Arc;
use std::time::Duration;

/// The maximum duration of an action of the driver or the controller without faults.
const CONTROLLER: Duration = Duration::from_secs(1);
/// The pool of the devices that a zone shares.
const FABRIC: &str = "fabric";

/// Whether pods of this seed claim devices.
pub(crate) fn has_devices(seed: u64) -> bool {
    seed % 6 == 1 && !seed.is_multiple_of(WIDE) || has_members_with_devices(seed)
}

/// Whether members of groups claim devices, too: in every second seed with groups.
pub(crate) fn has_members_with_devices(seed: u64) -> bool {
    has_groups(seed) && seed % 12 == 3
}

impl Sim {
    fn has_devices(&self) -> bool {
        has_devices(self.seed)
    }

    /// Creates the classes, and perhaps devices of a zone.
    pub(crate) fn create_device_classes(&mut self) {
        if !self.has_devices() {
            return;
        }
        self.server.put_device_classes();
        if self.draw.percent(60) {
            let zone = self.draw.percent(70).then(|| self.draw.pick(&ZONES));
            let devices = self.draw_devices();
            let (name, pool) = (FABRIC.to_owned(), FABRIC.to_owned());
            let slice = Slice {
                name,
                version: 0,
                pool,
                generation: 1,
                slices: 1,
                node: None,
                zone,
                devices,
                has_counter: false,
            };
            self.server.put_slice(slice);
        }
    }

    fn draw_devices(&mut self) -> Vec<Part> {
        let most = if has_members_with_devices(self.seed) { 6 } else { 4 };
        let draw = &mut self.draw;
        let (wholes, shared) = (draw.between(0, most), draw.between(0, 2));
        let mut devices = Vec::new();
        for at in 0..wholes {
            let (waits, tainted) = (draw.percent(35), draw.percent(8));
            devices.push(Part { name: format!("d{at}"), kind: DeviceKind::Whole, waits, tainted });
        }
        for at in 0..shared {
            let name = format!("m{at}");
            devices.push(Part { name, kind: DeviceKind::Shared, waits: false, tainted: false });
        }
        devices
    }

    // --- users

    /// Draws what devices the next pod asks for: its claims, and the number of devices by an extended resource.
    pub(crate) fn draw_pod_devices(&mut self, namespace: &'static str) -> (Vec<PodDevices>, i64) {
        if !self.has_devices() || self.draw.percent(35) {
            return (Vec::new(), 0);
        }
        let serves = emulated_version(self.seed).rules().serves_resources_by_devices();
        if serves && self.draw.percent(25) {
            return (Vec::new(), self.draw.pick(&[1, 1, 2]));
        }
        let mut claims = Vec::new();
        loop {
            let there = self.server.device_claims.values();
            let there = there.filter(|claim| claim.namespace == namespace && claim.owner.is_none());
            let there: Vec<String> = there.map(|claim| claim.name.clone()).collect();
            let is_shared = !there.is_empty() && self.draw.percent(30);
            let entry = if is_shared {
                PodDevices::Named(there[self.draw.below(there.len() as u64) as usize].clone())
            } else if self.draw.percent(50) {
                PodDevices::Template(None)
            } else {
                let name = format!("dc{}", self.created);
                if self.draw.percent(85) {
                    self.create_device_claim(namespace, name.clone(), None);
                }
                PodDevices::Named(name)
            };
            let is_known = |other: &PodDevices| entry.claim().is_some() && other.claim() == entry.claim();
            if claims.iter().any(is_known) {
                return (claims, 0);
            }
            claims.push(entry);
            if !self.draw.percent(25) {
                return (claims, 0);
            }
        }
    }

    fn draw_wanted(&mut self) -> Vec<Wanted> {
        // More requests make searches that pause.
        let counts = if has_members_with_devices(self.seed) { [1, 3, 4, 5] } else { [1, 1, 1, 2] };
        let count = self.draw.pick(&counts);
        let one = |_| match self.draw.below(10) {
            0..=4 => (DeviceKind::Whole, self.draw.pick(&[1, 1, 2])),
            5..=7 => (DeviceKind::Shared, self.draw.pick(&[1, 2, 3])),
            _ => (DeviceKind::Part, 1),
        };
        (0..count).map(one).collect()
    }

    fn create_device_claim(
        &mut self,
        namespace: &'static str,
        name: String,
        owner: Option<(String, String)>,
    ) {
        self.claims_made += 1;
        let claim = DeviceClaim {
            uid: format!("d{}", self.claims_made),
            namespace,
            name,
            version: 0,
            owner,
            is_made: false,
            deleting: false,
            protected: false,
            wanted: self.draw_wanted(),
            allocation: None,
            reserved_for: Vec::new(),
            ready: None,
        };
        self.say("cluster", &claim.key(), format_args!("created, wants {:?}", claim.wanted));
        self.server.put_device_claim(claim);
    }

    /// Performs an action about devices, or none. Returns whether it did.
    pub(crate) fn act_on_devices(&mut self) -> bool {
        if !self.has_devices() || !self.draw.percent(25) {
            return false;
        }
        match self.draw.below(12) {
            0..=2 => self.allocate_by_another_scheduler(),
            3 | 4 => self.free_by_others(),
            5 => self.create_missing_device_claim(),
            6 => self.delete_device_claim(),
            7 => self.touch_device_claim(),
            _ => self.change_slice(),
        }
        true
    }

    fn some_device_claim(&mut self, fits: impl Fn(&DeviceClaim) -> bool) -> Option<Arc<DeviceClaim>> {
        let found: Vec<_> = self.server.device_claims.values().filter(|it| fits(it)).cloned().collect();
        if found.is_empty() {
            return None;
        }
        Some(Arc::clone(&found[self.draw.below(found.len() as u64) as usize]))
    }

    /// Another scheduler allocates a claim with a device of its own.
    fn allocate_by_another_scheduler(&mut self) {
        let is_free = |claim: &DeviceClaim| claim.allocation.is_none() && !claim.deleting && !claim.is_made;
        let (Some(claim), Some(node)) = (self.some_device_claim(is_free), self.some_node()) else { return };
        self.say("cluster", &claim.key(), format_args!("allocated on {} by another scheduler", node.name));
        let allocation = Some(foreign_allocation(&claim.uid, &node.name));
        self.server.put_device_claim(DeviceClaim {
            allocation,
            protected: true,
            ..DeviceClaim::clone(&claim)
        });
    }

    fn free_by_others(&mut self) {
        let is_idle = |claim: &DeviceClaim| claim.allocation.is_some() && claim.reserved_for.is_empty();
        let Some(claim) = self.some_device_claim(is_idle) else { return };
        self.say("cluster", &claim.key(), format_args!("freed"));
        self.server.put_device_claim(claim.freed());
    }

    /// Creates a claim that a pod waits for.
    fn create_missing_device_claim(&mut self) {
        let missing = |pod: &Arc<Pod>| {
            let named = pod.devices.iter().filter_map(|it| match it {
                PodDevices::Named(name) => Some(name),
                PodDevices::Template(_) => None,
            });
            let mut absent =
                named.filter(|name| !self.server.device_claims.contains_key(&claim_key(pod.namespace, name)));
            absent.next().map(|name| (pod.namespace, name.clone()))
        };
        let missing: Vec<_> = self.server.pods.values().filter_map(missing).collect();
        if !missing.is_empty() {
            let (namespace, name) = missing[self.draw.below(missing.len() as u64) as usize].clone();
            self.create_device_claim(namespace, name, None);
        }
    }

    fn delete_device_claim(&mut self) {
        let is_idle = |claim: &DeviceClaim| claim.reserved_for.is_empty() && claim.owner.is_none();
        let Some(claim) = self.some_device_claim(is_idle) else { return };
        if claim.protected {
            self.say("cluster", &claim.key(), format_args!("terminating"));
            self.server.put_device_claim(DeviceClaim { deleting: true, ..DeviceClaim::clone(&claim) });
        } else {
            self.say("cluster", &claim.key(), format_args!("deleted"));
            self.server.remove_device_claim(&claim.key());
        }
    }

    /// Another client changes a field that the scheduler does not read.
    fn touch_device_claim(&mut self) {
        if let Some(claim) = self.some_device_claim(|_| true) {
            self.server.put_device_claim(DeviceClaim::clone(&claim));
        }
    }

    /// The driver changes a pool: devices come, go or break, and the generation may rise.
    fn change_slice(&mut self) {
        let all: Vec<_> = self.server.slices.values().cloned().collect();
        if all.is_empty() {
            return;
        }
        let mut slice = Slice::clone(&all[self.draw.below(all.len() as u64) as usize]);
        slice.generation += i64::from(self.draw.percent(40));
        if !slice.devices.is_empty() && !slice.has_counter {
            let at = self.draw.below(slice.devices.len() as u64) as usize;
            match self.draw.below(4) {
                0 => drop(slice.devices.remove(at)),
                1 => slice.devices[at].tainted = !slice.devices[at].tainted,
                2 if slice.slices == 1 => {
                    let number = self.draw.between(5, 8);
                    let (name, waits) = (format!("d{number}"), self.draw.percent(35));
                    if !slice.devices.iter().any(|it| it.name == name) {
                        slice.devices.push(Part { name, kind: DeviceKind::Whole, waits, tainted: false });
                    }
                }
                _ => {}
            }
        }
        self.say("driver", &slice.name, format_args!("generation {}", slice.generation));
        // The other slices of the pool follow one by one.
        for other in all.iter().filter(|other| other.pool == slice.pool && other.name != slice.name) {
            if self.draw.percent(70) {
                self.server.put_slice(Slice { generation: slice.generation, ..Slice::clone(other) });
            }
        }
        self.server.put_slice(slice);
    }

    // --- controllers

    /// Schedules the next action of the driver or the resource-claim controller as long as there is work.
    pub(crate) fn call_device_controllers(&mut self) {
        if !self.device_controllers_called && !self.server.device_work().is_empty() {
            self.device_controllers_called = true;
            let delay = draw_delay(&mut self.draw, self.fault_rates.watch_delay.max(CONTROLLER));
            self.agenda.write(self.now + delay, Due::DeviceControllers);
        }
    }

    pub(crate) fn device_controllers_work(&mut self) {
        self.device_controllers_called = false;
        let work = self.server.device_work();
        if work.is_empty() {
            return;
        }
        match work[self.draw.below(work.len() as u64) as usize].clone() {
            DeviceWork::Make { pod, entry } => self.make_template_claim(&pod, entry),
            DeviceWork::Prune { claim } => self.prune(&claim),
            DeviceWork::Collect { claim } => {
                let old = Arc::clone(&self.server.device_claims[&claim]);
                self.say("controller", &claim, format_args!("collected"));
                if old.deleting || !old.protected {
                    self.server.remove_device_claim(&claim);
                } else {
                    self.server.put_device_claim(DeviceClaim { deleting: true, ..DeviceClaim::clone(&old) });
                }
            }
            DeviceWork::Report { claim } => {
                let is_ready = self.is_settling() || self.draw.percent(85);
                if !is_ready {
                    self.fault("device broken");
                }
                self.say("driver", &claim, format_args!("ready: {is_ready}"));
                let old = DeviceClaim::clone(&self.server.device_claims[&claim]);
                self.server.put_device_claim(DeviceClaim { ready: Some(is_ready), ..old });
            }
            DeviceWork::Publish { node } => self.publish_devices(&node),
            DeviceWork::Withdraw { slice } => {
                self.say("driver", &slice, format_args!("withdrawn"));
                self.server.remove_slice(&slice);
            }
        }
    }

    fn make_template_claim(&mut self, uid: &str, entry: usize) {
        let pod = Arc::clone(&self.server.pods[uid]);
        let name = format!("{}-{entry}-{}", pod.name, self.claims_made);
        let owner = Some((pod.name.clone(), pod.uid.clone()));
        self.create_device_claim(pod.namespace, name.clone(), owner);
        let mut pod = Pod::clone(&pod);
        pod.devices[entry] = PodDevices::Template(Some(name));
        self.server.put_pod(pod, By::Others);
    }

    fn prune(&mut self, key: &str) {
        let mut claim = DeviceClaim::clone(&self.server.device_claims[key]);
        claim.reserved_for.retain(|uid| self.server.pods.contains_key(uid));
        let left = claim.reserved_for.len();
        self.say("controller", key, format_args!("{left} consumers left"));
        self.server.put_device_claim(if left == 0 { claim.freed() } else { claim });
    }

    fn publish_devices(&mut self, node: &str) {
        let devices = self.draw_devices();
        let has_card = self.draw.percent(40);
        let slice = |name: &str, pool: String, slices, devices, has_counter| Slice {
            name: format!("{node}-{name}"),
            version: 0,
            pool,
            generation: 1,
            slices,
            node: Some(node.to_owned()),
            zone: None,
            devices,
            has_counter,
        };
        self.say("driver", node, format_args!("publishes {} devices, card: {has_card}", devices.len()));
        self.server.put_slice(slice("devices", node.to_owned(), 1, devices, false));
        if has_card {
            let part = |name: &str| Part {
                name: name.to_owned(),
                kind: DeviceKind::Part,
                waits: false,
                tainted: false,
            };
            let parts = ["p1-0", "p1-1", "p2-0", "p3-0"].map(part).into();
            self.server.put_slice(slice("parts", format!("{node}-card"), 2, parts, false));
            self.server.put_slice(slice("card", format!("{node}-card"), 2, Vec::new(), true));
        }
    }
}
