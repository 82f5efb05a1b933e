//! Requests about claims: which are sent, sent again or left out, and who gets the devices when one is lost.

use super::cluster::{Cluster, Shown, allocation_of, with_pod};
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::device::Allocation;
use supercargo_core::model::effect::{Effect, Lane, VolumeChange, VolumeWrite};
use supercargo_core::model::emulation::Compat;
use supercargo_core::model::event::{Event, ObjectKey, WriteOutcome};
use supercargo_core::model::volume::StorageKey;
use supercargo_core::queue::{QueueConfig, SubQueue};
use supercargo_core::registry::Plan;
use supercargo_core::scheduler::{Profile, Reconfiguration, Step};

/// How a pod requests devices of the class `gpu` as an extended resource.
const EXTENDED: &str = "res:deviceclass.resource.kubernetes.io/gpu";

impl Cluster {
    /// Shows that a claim was deleted.
    fn delete_claim(&mut self, name: &str) {
        let tables = self.scheduler.tables();
        let key = StorageKey::of_resource_claim(tables.symbol("default"), tables.symbol(name));
        self.handle(Event::Gone(ObjectKey::Storage(key)));
    }

    /// Grants credits for all lanes.
    fn grant(&mut self) {
        for lane in Lane::ALL {
            self.handle(Event::Credits { lane, count: 10 });
        }
    }

    /// Sets the time limits for the binding of volumes and for the conditions of devices.
    fn limit_waits(&mut self, volumes: Duration, devices: Duration) {
        let rules = self.scheduler.tables().rules();
        let mut plan = Plan::of(rules);
        plan.args.volume_binding.bind_timeout = volumes;
        plan.args.dynamic_resources.binding_timeout = devices;
        let framework = Framework::new(&plan);
        let profiles = vec![Profile { name: "default-scheduler".to_owned(), framework }];
        let QueueConfig { initial_backoff, max_backoff, .. } = QueueConfig::default();
        let (emulated_version, extenders) = (rules.version, Vec::new());
        let to = Reconfiguration { emulated_version, profiles, initial_backoff, max_backoff, extenders };
        self.scheduler.reconfigure(self.now, to);
    }

    /// Runs the engine until it is idle, and returns reason and note of its Events.
    fn events(&mut self) -> Vec<(&'static str, String)> {
        let mut events = Vec::new();
        loop {
            match self.scheduler.step(self.now, &mut NoProbe) {
                Step::Idle { .. } => return events,
                Step::Effect(Effect::Record(record)) => events.push((record.reason, record.note)),
                Step::Effect(_) | Step::Report(_) | Step::GroupReport(_) => {}
                Step::Notice(notice) => panic!("{}: {}", notice.object, notice.text),
            }
        }
    }

    /// Returns the place of a pod in the queue.
    fn place_of(&self, pod: &str) -> Option<SubQueue> {
        let mut waiting = self.scheduler.queue().waiting();
        waiting.find(|(_, queued)| *queued.pod.name == *pod).map(|(place, _)| place)
    }

    /// Returns how often a pod in the queue was tried.
    fn attempts_of(&self, pod: &str) -> u32 {
        let mut waiting = self.scheduler.queue().waiting();
        waiting.find(|(_, queued)| *queued.pod.name == *pod).expect("it is queued").1.attempts
    }

    /// Adds the pod `q` with the claim `d`, for which no device is left.
    fn add_waiting_pod(&mut self) {
        self.show("d", &Shown::default());
        self.show_pod("q", "d");
        assert!(self.run().is_empty());
        assert_eq!(self.place_of("q"), Some(SubQueue::Unschedulable));
    }

    /// Waits until the pod `q` gets a device, and checks which.
    fn expect_device_of_waiting_pod(&mut self, at_most: Duration) {
        let write = self.next_write(at_most);
        assert_eq!((&*write.pod.name, device_of(&allocation_of(&write))), ("q", "d0"));
    }

    /// Lets the claim `c` of the pod `p` get a device. The pod then waits until the device is ready.
    fn wait_for_device(&mut self) {
        let write = self.write();
        let allocation = Some(allocation_of(&write));
        self.show("c", &Shown { allocation, reserved_for: vec!["p"], ..Shown::default() });
        self.answer(&write, WriteOutcome::Done);
        assert!(self.run().is_empty());
    }
}

fn lost() -> WriteOutcome {
    WriteOutcome::Unknown { message: "context deadline exceeded".to_owned() }
}

/// Returns the allocation of the only device of a cluster.
fn first_device() -> Arc<Allocation> {
    allocation_of(&with_pod(1, Compat::Repaired).write())
}

/// Returns the same allocation with another device.
fn with_device(allocation: &Allocation, device: &str) -> Arc<Allocation> {
    let mut other = allocation.clone();
    other.results[0].device.device = device.into();
    other.into()
}

fn device_of(allocation: &Allocation) -> &str {
    &allocation.results[0].device.device
}

/// Returns the devices of a claim that is to be made.
fn made_with(write: &VolumeWrite) -> Arc<Allocation> {
    match &write.change {
        VolumeChange::Create { allocation, .. } => Arc::clone(allocation),
        other => panic!("{other:?}"),
    }
}

/// Returns a cluster whose pod `p` writes a second claim for its extended resource, after the answer to the first write
/// was lost. Returns both writes as well.
fn after_a_lost_claim() -> (Cluster, VolumeWrite, VolumeWrite) {
    let mut cluster = Cluster::new(2, Compat::Repaired);
    cluster.show_with_claims(&format!("pod p cpu=1 {EXTENDED}=1"), &[]);
    let first = cluster.write();
    cluster.answer(&first, lost());
    let began = cluster.now;
    let second = cluster.next_write(Duration::from_secs(70));
    assert_eq!(cluster.now.since(began), Duration::from_secs(60), "the first write may arrive until then");
    (cluster, first, second)
}

#[test]
fn pod_that_waits_until_its_devices_are_ready_gets_an_event() {
    let mut cluster = with_pod(1, Compat::Repaired);
    let write = cluster.write();
    let allocation = Some(allocation_of(&write));
    cluster.answer(&write, WriteOutcome::Done);
    cluster.show("c", &Shown { allocation, reserved_for: vec!["p"], ..Shown::default() });
    let note = "waiting for binding conditions for device on node a".to_owned();
    assert_eq!(cluster.events(), [("BindingConditionsPending", note)]);
}

#[test]
fn wait_for_devices_ends_at_their_own_time_limit_and_is_reported_as_a_timeout() {
    let limit = Duration::from_secs(40);
    let mut cluster = Cluster::new(1, Compat::Repaired);
    cluster.limit_waits(Duration::from_secs(1_000), limit);
    cluster.show("c", &Shown::default());
    cluster.show_pod("p", "c");
    cluster.wait_for_device();
    cluster.now = cluster.now + Duration::from_secs(39);
    assert!(cluster.run().is_empty() && cluster.waits.is_empty(), "{:?}", cluster.waits);
    cluster.now = cluster.now + Duration::from_secs(1);
    let given_up = cluster.write();
    assert!(matches!(given_up.change, VolumeChange::Unreserve { .. }), "{given_up:?}");
    let [wait] = &cluster.waits[..] else { panic!("{:?}", cluster.waits) };
    assert_eq!((wait.status, wait.took), ("timeout", limit));
}

#[test]
fn wait_for_devices_of_a_claim_that_is_deleted_is_reported_as_an_error() {
    let mut cluster = with_pod(1, Compat::Repaired);
    cluster.wait_for_device();
    cluster.delete_claim("c");
    assert!(cluster.run().is_empty());
    let [wait] = &cluster.waits[..] else { panic!("{:?}", cluster.waits) };
    assert_eq!(wait.status, "error");
}

#[test]
fn write_without_an_answer_wakes_the_engine_to_send_it_again_within_a_second() {
    let mut cluster = with_pod(1, Compat::Repaired);
    let write = cluster.write();
    cluster.answer(&write, lost());
    assert_eq!(cluster.next_write(Duration::from_secs(1)).change, write.change);
}

#[test]
fn claims_that_were_not_given_up_after_all_are_reserved_again_and_the_pod_is_bound() {
    let mut cluster = Cluster::new(2, Compat::Repaired);
    let (claims, given_up) = cluster.give_up_claims();
    for write in &given_up {
        cluster.answer(write, lost());
    }
    cluster.show_node("node a cpu=64");
    let began = cluster.now;
    for (name, shown) in ["c", "d"].into_iter().zip(&claims) {
        let write = cluster.next_write(Duration::from_secs(70));
        let VolumeChange::Reserve { claim, allocation: None, .. } = &write.change else {
            panic!("{write:?}")
        };
        assert_eq!(claim.name, name);
        cluster.answer(&write, WriteOutcome::Done);
        cluster.show(name, shown);
    }
    assert_eq!(cluster.now.since(began), Duration::from_secs(60), "the requests could arrive until then");
    assert!(cluster.run().is_empty());
    assert_eq!(cluster.bound, ["p"]);
}

#[test]
fn pod_that_is_bound_during_pre_bind_leaves_nothing_when_the_lease_is_lost() {
    let mut cluster = Cluster::new(2, Compat::Repaired);
    let (_, given_up) = cluster.give_up_claims();
    assert_eq!(given_up.len(), 2);
    cluster.show_node("node a cpu=64");
    cluster.now = cluster.now + Duration::from_secs(5);
    assert!(cluster.run().is_empty(), "the requests that give the claims up can still arrive");
    cluster.show_with_claims("pod p cpu=1 on=a", &["c", "d"]);
    assert_eq!(cluster.scheduler.stats().volume_bindings, 1);
    assert!(cluster.scheduler.held().contains(&("pods that gave up reservations", 1)));
    cluster.handle(Event::Leading(false));
    let held = cluster.scheduler.held();
    assert!(held.contains(&("pods that gave up reservations", 0)), "{held:?}");
}

#[test]
fn claim_may_get_a_device_that_failed_again_once_a_pod_was_bound_with_another() {
    let mut cluster = with_pod(2, Compat::Repaired);
    assert_eq!(cluster.get_device_that_fails(), "d0");
    let write = cluster.next_write(Duration::from_secs(30));
    let allocation = allocation_of(&write);
    assert_eq!(device_of(&allocation), "d1");
    let condition = Some("ready");
    let allocation = Some(allocation);
    cluster.show("c", &Shown { allocation, reserved_for: vec!["p"], condition, ..Shown::default() });
    cluster.answer(&write, WriteOutcome::Done);
    assert!(cluster.run().is_empty());
    assert_eq!(cluster.bound, ["p"]);
    cluster.show_with_claims("pod p cpu=1 on=a", &["c"]);
    cluster.handle(Event::Gone(ObjectKey::Pod("p".into())));
    cluster.show("c", &Shown::default());
    cluster.show_pod("q", "c");
    let write = cluster.next_write(Duration::from_secs(5));
    assert_eq!((&*write.pod.name, device_of(&allocation_of(&write))), ("q", "d0"));
}

#[test]
fn devices_of_a_lost_allocation_wake_waiting_pods_when_its_claim_gets_others_or_is_deleted() {
    for is_deleted in [false, true] {
        let mut cluster = with_pod(1, Compat::Repaired);
        let write = cluster.write();
        cluster.answer(&write, lost());
        cluster.handle(Event::Gone(ObjectKey::Pod("p".into())));
        cluster.add_waiting_pod();
        if is_deleted {
            cluster.delete_claim("c");
        } else {
            let allocation = Some(with_device(&allocation_of(&write), "d9"));
            cluster.show("c", &Shown { allocation, ..Shown::default() });
        }
        cluster.expect_device_of_waiting_pod(Duration::from_secs(20));
    }
}

#[test]
fn claim_that_changes_while_its_devices_are_written_wakes_no_waiting_pod() {
    let mut cluster = with_pod(1, Compat::Repaired);
    let write = cluster.write();
    cluster.add_waiting_pod();
    // Another client changes a field that is not read here.
    cluster.show("c", &Shown::default());
    assert!(cluster.run().is_empty());
    assert_eq!(cluster.attempts_of("q"), 1);
    cluster.answer(&write, WriteOutcome::Done);
    assert!(cluster.run().is_empty());
    assert_eq!(cluster.attempts_of("q"), 1);
}

#[test]
fn allocation_that_was_written_although_its_answer_was_lost_wakes_no_waiting_pod() {
    let mut cluster = with_pod(1, Compat::Repaired);
    let write = cluster.write();
    cluster.answer(&write, lost());
    cluster.handle(Event::Gone(ObjectKey::Pod("p".into())));
    cluster.add_waiting_pod();
    let allocation = Some(allocation_of(&write));
    cluster.show("c", &Shown { allocation, reserved_for: vec!["p"], ..Shown::default() });
    assert!(cluster.run().is_empty());
    assert_eq!(cluster.attempts_of("q"), 1);
}

#[test]
fn devices_of_a_pod_that_is_deleted_before_its_write_wake_waiting_pods() {
    let mut cluster = Cluster::with_credits(1, Compat::Repaired, 0);
    cluster.show("c", &Shown::default());
    cluster.show_pod("p", "c");
    assert!(cluster.run().is_empty());
    cluster.add_waiting_pod();
    cluster.handle(Event::Gone(ObjectKey::Pod("p".into())));
    cluster.grant();
    cluster.expect_device_of_waiting_pod(Duration::from_secs(20));
}

#[test]
fn devices_whose_write_was_answered_stay_taken_for_ten_minutes_without_the_watch() {
    let mut cluster = with_pod(1, Compat::Repaired);
    let write = cluster.write();
    cluster.answer(&write, WriteOutcome::Done);
    cluster.handle(Event::Gone(ObjectKey::Pod("p".into())));
    cluster.add_waiting_pod();
    let began = cluster.now;
    cluster.expect_device_of_waiting_pod(Duration::from_secs(700));
    assert!(cluster.now.since(began) >= Duration::from_secs(599), "{:?}", cluster.now.since(began));
}

#[test]
fn devices_of_a_pod_that_another_client_binds_elsewhere_stay_taken_while_its_write_may_arrive() {
    let mut cluster = with_pod(1, Compat::Repaired);
    cluster.show_node("node b cpu=64");
    assert_eq!(device_of(&allocation_of(&cluster.write())), "d0");
    cluster.show_with_claims("pod p cpu=1 on=b", &["c"]);
    cluster.add_waiting_pod();
    let began = cluster.now;
    cluster.expect_device_of_waiting_pod(Duration::from_secs(120));
    assert!(cluster.now.since(began) >= Duration::from_secs(59), "{:?}", cluster.now.since(began));
}

#[test]
fn claim_that_another_scheduler_gave_the_chosen_device_is_still_reserved_for_the_pod() {
    let allocation = Some(first_device());
    let mut cluster = Cluster::with_credits(1, Compat::Repaired, 0);
    cluster.show("c", &Shown::default());
    cluster.show_pod("p", "c");
    assert!(cluster.run().is_empty());
    let condition = Some("ready");
    cluster.show("c", &Shown { allocation, reserved_for: vec!["other"], condition, ..Shown::default() });
    cluster.grant();
    let write = cluster.write();
    assert!(matches!(write.change, VolumeChange::Reserve { allocation: None, .. }), "{write:?}");
    assert!(cluster.bound.is_empty(), "{:?}", cluster.bound);
}

#[test]
fn pod_is_decided_anew_if_the_claim_that_it_shares_gets_other_devices_before_its_write() {
    let first = first_device();
    let mut cluster = Cluster::with_credits(2, Compat::Repaired, 0);
    let mut shown = Shown {
        allocation: Some(Arc::clone(&first)),
        reserved_for: vec!["other"],
        condition: Some("ready"),
        ..Shown::default()
    };
    cluster.show("c", &shown);
    cluster.show_pod("p", "c");
    assert!(cluster.run().is_empty());
    assert_eq!(cluster.scheduler.stats().volume_bindings, 1);
    shown.allocation = Some(with_device(&first, "d1"));
    cluster.show("c", &shown);
    cluster.grant();
    let write = cluster.write();
    assert!(matches!(write.change, VolumeChange::Reserve { allocation: None, .. }), "{write:?}");
    assert_eq!(cluster.scheduler.stats().rechecks_failed, 1, "the first decision was for the other device");
    cluster.answer(&write, WriteOutcome::Done);
    shown.reserved_for.push("p");
    cluster.show("c", &shown);
    assert!(cluster.run().is_empty());
    assert_eq!(cluster.bound, ["p"]);
}

/// A pod waits for a write of the version that the watch shows, and not for one of an older version.
#[test]
fn pod_reserves_a_shared_claim_as_soon_as_the_watch_shows_the_write_of_another_one() {
    let mut cluster = Cluster::new(2, Compat::Repaired);
    let shown = |device: &str, reserved_for: &[&'static str]| Shown {
        allocation: Some(with_device(&first_device(), device)),
        reserved_for: reserved_for.to_vec(),
        condition: Some("ready"),
        ..Shown::default()
    };
    cluster.show("c", &shown("d0", &["other"]));
    cluster.show("d", &shown("d1", &["other"]));
    cluster.show_with_claims("pod p cpu=1", &["c", "d"]);
    cluster.show_pod("q", "c");
    let name_of = |write: &VolumeWrite| match &write.change {
        VolumeChange::Reserve { claim, .. } => format!("{} for {}", claim.name, write.pod.name),
        change => panic!("{change:?}"),
    };
    let write = cluster.write();
    assert_eq!(name_of(&write), "c for p");
    cluster.answer(&write, WriteOutcome::Done);
    assert_eq!(name_of(&cluster.write()), "d for p", "q waits until the watch shows the new version of c");
    cluster.show("c", &shown("d0", &["other", "p"]));
    assert_eq!(name_of(&cluster.write()), "c for q", "p is still in PreBind");
}

/// An earlier leader wrote its decision late.
#[test]
fn pod_is_decided_anew_if_its_claim_gets_other_devices_for_it_before_its_write() {
    let allocation = Some(with_device(&first_device(), "d1"));
    let mut cluster = Cluster::with_credits(2, Compat::Repaired, 0);
    cluster.show("c", &Shown::default());
    cluster.show_pod("p", "c");
    assert!(cluster.run().is_empty());
    assert_eq!(cluster.scheduler.stats().volume_bindings, 1);
    let condition = Some("ready");
    cluster.show("c", &Shown { allocation, reserved_for: vec!["p"], condition, ..Shown::default() });
    cluster.grant();
    assert!(cluster.run().is_empty());
    assert_eq!((&cluster.bound[..], cluster.scheduler.stats().rechecks_failed), (&["p".to_owned()][..], 1));
}

#[test]
fn timestamp_of_an_allocation_is_written_only_if_it_is_missing() {
    for is_stamped in [false, true] {
        let mut cluster = Cluster::new(1, Compat::Repaired);
        let mut allocation = Allocation::clone(&first_device());
        allocation.allocated_at = is_stamped.then_some(cluster.now);
        let (allocation, condition) = (Some(allocation.into()), Some("ready"));
        cluster.show("c", &Shown { allocation, condition, ..Shown::default() });
        cluster.show_pod("p", "c");
        let write = cluster.write();
        let VolumeChange::Reserve { allocation: None, stamps, .. } = &write.change else {
            panic!("{write:?}")
        };
        assert_eq!(*stamps, !is_stamped);
    }
}

#[test]
fn claim_for_an_extended_resource_requests_its_class_and_number() {
    let mut cluster = Cluster::new(3, Compat::Repaired);
    cluster.show_with_claims(&format!("pod p cpu=1 {EXTENDED}=2"), &[]);
    let write = cluster.write();
    let VolumeChange::Create { requests, .. } = &write.change else { panic!("{write:?}") };
    assert_eq!(*requests, [("container-0-request-0".to_owned(), "gpu".to_owned(), 2)]);
}

#[test]
fn claim_that_may_have_been_made_keeps_its_devices_and_another_is_made_after_a_minute() {
    let (cluster, first, second) = after_a_lost_claim();
    let devices = [first, second].map(|write| device_of(&made_with(&write)).to_owned());
    assert_eq!(devices, ["d0", "d1"]);
    assert_eq!(cluster.scheduler.stats().rechecks_failed, 1);
}

#[test]
fn claim_of_an_earlier_attempt_does_not_count_as_the_one_that_is_being_made() {
    let (mut cluster, first, second) = after_a_lost_claim();
    let shown = |write: &VolumeWrite| Shown {
        allocation: Some(made_with(write)),
        reserved_for: vec!["p"],
        condition: Some("ready"),
        made_for: Some(("p", "a")),
    };
    cluster.show("first", &shown(&first));
    assert!(cluster.run().is_empty() && cluster.bound.is_empty(), "{:?}", cluster.bound);
    cluster.answer(&second, WriteOutcome::Done);
    cluster.show("second", &shown(&second));
    let write = cluster.write();
    let VolumeChange::Delete { claim } = &write.change else { panic!("{write:?}") };
    assert_eq!(claim.name, "first");
    assert_eq!(cluster.bound, ["p"]);
}
