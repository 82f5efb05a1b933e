//! The lifecycle of claims and volumes: users create and delete them, controllers bind and provision them with
//! delays and failures, and the scheduler's writes are carried out.

use crate::agenda::{Answer, Due, Fate};
use crate::check::{Broken, broken};
use crate::fault_rates::draw_delay;
use crate::objects::Pod;
use crate::server::Work;
use crate::sim::Sim;
use crate::storage::{Claim, Class, Owner, Volume, claim_key, ephemeral_claim, is_ephemeral};
use crate::workload::ZONES;
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::model::effect::{VolumeChange, VolumeWrite};
use supercargo_core::model::event::WriteOutcome;

/// The time after which a sent write can no longer be carried out: an API server's `--request-timeout`.
const LATEST: Duration = Duration::from_secs(60);
/// The maximum number of unclaimed volumes.
const FREE_MAX: usize = 8;
/// The maximum duration of a controller's action without faults.
const CONTROLLER: Duration = Duration::from_secs(1);

impl Sim {
    // --- users

    /// Whether this is a cluster in which most pods have claims, many of them shared, and nodes attach few volumes.
    fn has_many_claims(&self) -> bool {
        self.seed % 7 == 3
    }

    /// Draws the names of the claims of the pod that is created next. In most clusters most pods have none. Some claims
    /// are shared with other pods, some are for an ephemeral volume; some are created later or never.
    pub(crate) fn draw_claims(&mut self, namespace: &'static str) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let [some, shared] = if self.has_many_claims() { [60, 60] } else { [15, 30] };
        if !self.draw.percent(some) {
            return names;
        }
        loop {
            let there = self.server.claims.values().filter(|claim| claim.namespace == namespace);
            let there: Vec<_> =
                there.map(|claim| claim.name.clone()).filter(|name| !is_ephemeral(name)).collect();
            let name = if !there.is_empty() && self.draw.percent(shared) {
                there[self.draw.below(there.len() as u64) as usize].clone()
            } else if self.draw.percent(30) {
                ephemeral_claim(self.created)
            } else {
                format!("c{}", self.created)
            };
            if names.contains(&name) {
                return names;
            }
            if !there.contains(&name) && self.draw.percent(80) {
                let owner = is_ephemeral(&name).then(|| format!("p{}", self.created));
                self.create_claim(namespace, name.clone(), owner);
            }
            names.push(name);
            if !self.draw.percent(25) {
                return names;
            }
        }
    }

    fn create_claim(&mut self, namespace: &'static str, name: String, owner: Option<String>) {
        self.claims_made += 1;
        let claim = Claim {
            uid: format!("u{}", self.claims_made),
            namespace,
            name,
            version: 0,
            owner,
            class: self.draw.pick(&Class::ALL),
            volume: None,
            selected: None,
        };
        self.say("cluster", &claim.key(), format_args!("created, class {}", claim.class.name()));
        self.server.put_claim(claim);
    }

    /// Creates a claim that a pod waits for.
    pub(crate) fn create_missing_claim(&mut self) {
        let missing = |pod: &Arc<Pod>| {
            let absent = |name: &&String| !self.server.claims.contains_key(&claim_key(pod.namespace, name));
            let owner = |name: &str| is_ephemeral(name).then(|| pod.uid.clone());
            pod.claims.iter().find(absent).map(|name| (pod.namespace, name.clone(), owner(name)))
        };
        let missing: Vec<_> = self.server.pods.values().filter_map(missing).collect();
        if !missing.is_empty() {
            let (namespace, name, owner) = missing[self.draw.below(missing.len() as u64) as usize].clone();
            self.create_claim(namespace, name, owner);
        }
    }

    pub(crate) fn delete_claim(&mut self) {
        let keys: Vec<_> = self.server.claims.keys().cloned().collect();
        if !keys.is_empty() {
            let key = &keys[self.draw.below(keys.len() as u64) as usize];
            self.say("cluster", key, format_args!("deleted"));
            self.server.remove_claim(key);
        }
    }

    pub(crate) fn create_volume(&mut self) {
        if self.server.volumes.values().filter(|volume| volume.claim.is_none()).count() < FREE_MAX {
            let class = self.draw.pick(&Class::ALL);
            let zone = self.draw.percent(70).then(|| self.draw.pick(&ZONES));
            self.put_new_volume(class, zone, None);
        }
    }

    fn put_new_volume(&mut self, class: Class, zone: Option<&'static str>, claim: Option<Owner>) {
        self.volumes_made += 1;
        let name = format!("v{}", self.volumes_made);
        self.say(
            "cluster",
            &name,
            format_args!("created, class {}, zone {zone:?}, claim {claim:?}", class.name()),
        );
        let made = claim.is_some();
        self.server.put_volume(Volume { name, version: 0, class, zone, claim, made });
    }

    /// Deletes a volume that is not in use.
    pub(crate) fn delete_volume(&mut self) {
        let free = self.server.volumes.values().filter(|volume| volume.claim.is_none());
        let free: Vec<_> = free.map(|volume| volume.name.clone()).collect();
        if !free.is_empty() {
            let name = &free[self.draw.below(free.len() as u64) as usize];
            self.say("cluster", name, format_args!("deleted"));
            self.server.remove_volume(name);
        }
    }

    /// Changes the zone from which a volume is accessible.
    pub(crate) fn move_volume(&mut self) {
        let volumes: Vec<_> = self.server.volumes.values().cloned().collect();
        if !volumes.is_empty() {
            let volume = &volumes[self.draw.below(volumes.len() as u64) as usize];
            let zone = self.draw.percent(70).then(|| self.draw.pick(&ZONES));
            self.say("cluster", &volume.name, format_args!("moved to {zone:?}"));
            self.server.put_volume(Volume { zone, ..Volume::clone(volume) });
        }
    }

    /// Changes the zone for which a class provisions volumes.
    pub(crate) fn move_class(&mut self) {
        let class = self.draw.pick(&Class::ALL);
        let zone = self.draw.percent(50).then(|| self.draw.pick(&ZONES));
        self.say("cluster", class.name(), format_args!("provisions in {zone:?}"));
        self.server.put_class(class, zone);
    }

    /// Changes the volume limit of a node's driver, or removes the driver.
    pub(crate) fn limit_volumes(&mut self) {
        let Some(node) = self.some_node() else { return };
        if self.draw.percent(20) {
            self.say("cluster", &node.name, format_args!("has no driver"));
            self.server.remove_csi_node(&node.name);
        } else {
            self.put_csi_node(&node.name);
        }
    }

    pub(crate) fn put_csi_node(&mut self, node: &str) {
        let usual = [None, Some(0), Some(1), Some(2), Some(100)];
        let low = [Some(1), Some(2), Some(2), Some(3), Some(4)];
        let limit = self.draw.pick(if self.has_many_claims() { &low } else { &usual });
        self.say("cluster", node, format_args!("volume limit {limit:?}"));
        self.server.put_csi_node(node, limit);
    }

    // --- controllers

    /// Schedules the next action of the volume controllers as long as there is work.
    pub(crate) fn call_controllers(&mut self) {
        if !self.controllers_called && !self.server.volume_work().is_empty() {
            self.controllers_called = true;
            let delay = draw_delay(&mut self.draw, self.fault_rates.watch_delay.max(CONTROLLER));
            self.agenda.write(self.now + delay, Due::Controllers);
        }
    }

    pub(crate) fn controllers_work(&mut self) -> Result<(), Broken> {
        self.controllers_called = false;
        let work = self.server.volume_work();
        if work.is_empty() {
            return Ok(());
        }
        match work[self.draw.below(work.len() as u64) as usize].clone() {
            Work::Bind { claim, volume } => self.complete(&claim, volume)?,
            Work::Find { claim } => self.find_volume(&claim),
            Work::Make { claim, node } => self.make_volume(&claim, &node),
            Work::Release { volume } => self.release(&volume),
        }
        Ok(())
    }

    fn complete(&mut self, key: &str, volume: String) -> Result<(), Broken> {
        let claim = Claim::clone(&self.server.claims[key]);
        if let Some(other) = self.server.claims.values().find(|it| it.volume.as_ref() == Some(&volume)) {
            let detail = format!("{volume} for {key} and {}", other.key());
            return Err(broken("no volume belongs to two claims", detail));
        }
        self.say("controller", key, format_args!("bound to {volume}"));
        self.server.put_claim(Claim { volume: Some(volume), ..claim });
        Ok(())
    }

    /// Binds a claim to the first unclaimed volume, or provisions one in some zone.
    fn find_volume(&mut self, key: &str) {
        let claim = Arc::clone(&self.server.claims[key]);
        let is_free = |volume: &&Arc<Volume>| volume.class == claim.class && volume.claim.is_none();
        let owner = Some(owner(&claim));
        if let Some(volume) = self.server.volumes.values().find(is_free).cloned() {
            self.say("controller", &volume.name, format_args!("claim {key}"));
            self.server.put_volume(Volume { claim: owner, ..Volume::clone(&volume) });
        } else {
            let zone = self.draw.percent(70).then(|| self.draw.pick(&ZONES));
            self.put_new_volume(claim.class, zone, owner);
        }
    }

    fn make_volume(&mut self, key: &str, node: &str) {
        let claim = Arc::clone(&self.server.claims[key]);
        let zone = self.server.nodes.get(node).map(|node| node.zone);
        let fails = self.draw.percent(self.fault_rates.no_volume);
        if fails {
            self.fault("volume not provisioned");
        }
        match zone {
            Some(zone) if !fails => self.put_new_volume(claim.class, zone, Some(owner(&claim))),
            _ => {
                self.say("controller", key, format_args!("provisioning on {node} failed"));
                self.server.put_claim(Claim { selected: None, ..Claim::clone(&claim) });
            }
        }
    }

    fn release(&mut self, name: &str) {
        let volume = Arc::clone(&self.server.volumes[name]);
        self.say("controller", name, format_args!("released"));
        if volume.made {
            self.server.remove_volume(name);
        } else {
            self.server.put_volume(Volume { claim: None, ..Volume::clone(&volume) });
        }
    }

    // --- the scheduler's writes

    pub(crate) fn send_write(&mut self, write: VolumeWrite) -> Result<(), Broken> {
        let uid = write.pod.uid.to_string();
        if self.process.pods.get(&uid).is_some_and(|pod| !pod.ours || !pod.has_claims()) {
            return Err(broken("volumes are written only for own pods with claims", format!("{write:?}")));
        }
        let w = self.fault_rates;
        // Volume writes are rare, so their fault rate is increased.
        let forbidden = w.forbidden * 4;
        let faults = forbidden + w.lost_but_applied + w.lost + w.late + w.foreign / 2;
        let (fate, kind) = self.draw.weighted(&[
            (100 - faults, (Fate::Answered, "")),
            (forbidden, (Fate::Forbidden, "volume write rejected")),
            (w.lost_but_applied, (Fate::Unanswered, "volume write applied, answer lost")),
            (w.lost, (Fate::Unanswered, "volume write lost")),
            (w.late, (Fate::Unanswered, "volume write applied late, answer lost")),
            (w.foreign / 2, (Fate::Unanswered, "volume write answered by a foreign server")),
        ]);
        if !kind.is_empty() {
            self.fault(kind);
        }
        self.say("write", &uid, format_args!("{:?} {kind}", write.change));
        let incarnation = self.process.incarnation;
        let delay = draw_delay(&mut self.draw, self.fault_rates.request_delay);
        let fence = self.fence;
        if !kind.is_empty() {
            self.lost_writes.insert(uid.clone());
        }
        if fate == Fate::Unanswered {
            let outcome = WriteOutcome::Unknown { message: "connection reset".to_owned() };
            self.answer_write(incarnation, &write, outcome, delay);
        }
        let late = Duration::from_millis(self.draw.between(1, 55_000));
        match kind {
            "volume write lost" => {}
            "volume write answered by a foreign server" => {
                if let Some(late) = self.draw_late() {
                    let due = Due::VolumeWrite { incarnation, write, fate, fence, is_late: true };
                    self.agenda.write(self.now + (delay + late).min(LATEST), due);
                }
            }
            "volume write applied late, answer lost" => {
                let due = Due::VolumeWrite { incarnation, write, fate, fence, is_late: true };
                self.agenda.write(self.now + (delay + late).min(LATEST), due);
            }
            _ => {
                let due = Due::VolumeWrite { incarnation, write, fate, fence, is_late: false };
                self.agenda.write(self.now + delay, due);
            }
        }
        Ok(())
    }

    fn answer_write(
        &mut self,
        incarnation: u32,
        write: &VolumeWrite,
        outcome: WriteOutcome,
        delay: Duration,
    ) {
        let answer = Answer::Written { uid: write.pod.uid.to_string(), write: write.write, outcome };
        self.agenda.write(self.now + delay, Due::Answer { incarnation, answer });
    }

    /// Handles a write to a volume or a claim that arrives at the API server.
    pub(crate) fn write_arrives(
        &mut self,
        incarnation: u32,
        write: &VolumeWrite,
        fate: Fate,
        (fence, is_late): (u64, bool),
    ) -> Result<(), Broken> {
        let uid = &*write.pod.uid;
        let is_of_devices =
            !matches!(write.change, VolumeChange::Bind { .. } | VolumeChange::SelectNode { .. });
        if is_of_devices && fence != self.fence {
            self.say("server", uid, format_args!("write is fenced"));
            if fate != Fate::Unanswered {
                let message = "the lease was lost".to_owned();
                self.answer_write(incarnation, write, WriteOutcome::Unknown { message }, Duration::ZERO);
            }
            return Ok(());
        }
        let before = match &write.change {
            VolumeChange::Bind { volume, .. } => self.server.volumes.get(volume).cloned(),
            VolumeChange::SelectNode { .. }
            | VolumeChange::Reserve { .. }
            | VolumeChange::Create { .. }
            | VolumeChange::Unreserve { .. }
            | VolumeChange::Deallocate { .. }
            | VolumeChange::Delete { .. } => None,
        };
        let result = match fate {
            Fate::Forbidden => Err("not now".to_owned()),
            Fate::Answered | Fate::Unanswered if is_of_devices => {
                self.server.write_device_claim(&write.pod, &write.change, is_late)
            }
            Fate::Answered | Fate::Unanswered => self.server.write_volume(&write.change),
        };
        self.say("server", uid, format_args!("volume write: {result:?}"));
        if is_of_devices {
            self.check_allocations()?;
        }
        if let (Ok(()), VolumeChange::Bind { claim, .. }, Some(before)) = (&result, &write.change, before)
            && before.claim.as_ref().is_some_and(|owner| *owner.uid != *claim.uid)
        {
            let detail = format!("{before:?} for {claim:?}");
            return Err(broken("no claim loses its volume", detail));
        }
        if fate != Fate::Unanswered {
            let outcome = match result {
                Ok(()) => WriteOutcome::Done,
                Err(message) => WriteOutcome::Refused { message },
            };
            let delay = draw_delay(&mut self.draw, self.fault_rates.request_delay);
            self.answer_write(incarnation, write, outcome, delay);
        }
        Ok(())
    }
}

fn owner(claim: &Claim) -> Owner {
    Owner { namespace: claim.namespace.to_owned(), name: claim.name.clone(), uid: claim.uid.clone() }
}
