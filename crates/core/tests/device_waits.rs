//! Pods that wait for devices: after failed binding conditions, lost allocations, refused writes and missing claims.

#[path = "device_waits/cluster.rs"]
mod cluster;
#[path = "device_waits/requests.rs"]
mod requests;
mod support;

use cluster::{Cluster, Shown, allocation_of, with_pod};
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::model::device::{Allocation, ResourceClaim};
use supercargo_core::model::effect::{Lane, VolumeChange};
use supercargo_core::model::emulation::Compat;
use supercargo_core::model::event::{BindOutcome, Event, ObjectKey, WriteOutcome};
use supercargo_core::model::volume::StorageObject;
use supercargo_core::queue::SubQueue;
use support::arrival;

#[test]
fn device_whose_conditions_failed_is_avoided_while_others_fit() {
    let mut cluster = with_pod(3, Compat::Repaired);
    let devices: Vec<String> = (0..4).map(|_| cluster.get_device_that_fails()).collect();
    assert_eq!(devices, ["d0", "d1", "d2", "d0"], "when all have failed, the first is tried again");
    assert!(cluster.waits.iter().all(|wait| wait.status == "failure"), "{:?}", cluster.waits);
    assert_eq!(cluster.waits[0].devices, [("gpu.example.com".into(), true)]);
}

#[test]
fn device_whose_conditions_failed_is_not_avoided_if_only_preemption_gives_a_node() {
    let mut cluster = with_pod(1, Compat::Repaired);
    assert_eq!(cluster.get_device_that_fails(), "d0");
    let lesser = arrival(cluster.scheduler.tables(), "pod lesser cpu=64 priority=-1 on=a");
    cluster.handle(lesser);
    let end = cluster.now + Duration::from_secs(60);
    while cluster.evicted.is_empty() {
        assert!(cluster.run().is_empty());
        let wake_at = cluster.wake_at.filter(|at| *at <= end);
        cluster.now = wake_at.unwrap_or_else(|| panic!("no victim"));
    }
    assert_eq!(cluster.evicted, ["lesser"]);
}

#[test]
fn pod_is_bound_as_soon_as_its_device_is_ready() {
    let mut cluster = with_pod(1, Compat::Repaired);
    let write = cluster.write();
    let allocation = Some(allocation_of(&write));
    let mut shown = Shown { allocation, reserved_for: vec!["p"], ..Shown::default() };
    cluster.show("c", &shown);
    cluster.answer(&write, WriteOutcome::Done);
    assert!(cluster.run().is_empty() && cluster.bound.is_empty(), "{:?}", cluster.bound);
    cluster.now = cluster.now + Duration::from_secs(2);
    shown.condition = Some("ready");
    cluster.show("c", &shown);
    assert!(cluster.run().is_empty());
    assert_eq!(cluster.bound, ["p"]);
    let [wait] = &cluster.waits[..] else { panic!("{:?}", cluster.waits) };
    assert_eq!((wait.status, wait.took), ("success", Duration::from_secs(2)));
}

#[test]
fn reservation_is_given_up_again_if_another_pod_reserved_the_claim_before_it_was_freed() {
    let allocation = Some(allocation_of(&with_pod(1, Compat::Repaired).write()));
    let mut cluster = Cluster::new(1, Compat::Repaired);
    let condition = Some("broken");
    let mut shown = Shown { allocation, reserved_for: vec!["p"], condition, ..Shown::default() };
    cluster.show("c", &shown);
    cluster.show_pod("p", "c");
    let freed = cluster.write();
    assert!(matches!(freed.change, VolumeChange::Deallocate { .. }), "{freed:?}");
    shown.reserved_for.push("q");
    cluster.show("c", &shown);
    cluster.answer(&freed, WriteOutcome::Refused { message: "the object has been modified".to_owned() });
    let given_up = cluster.next_write(Duration::from_secs(30));
    assert!(matches!(given_up.change, VolumeChange::Unreserve { .. }), "{given_up:?}");
}

#[test]
fn claim_made_with_devices_of_another_node_is_deleted_once_another_scheduler_bound_its_pod() {
    let allocation = Some(allocation_of(&with_pod(1, Compat::Repaired).write()));
    for (made_on, bound_to, is_deleted) in [("a", "b", true), ("a", "a", false)] {
        for claim_comes_first in [true, false] {
            let mut cluster = Cluster::new(1, Compat::Repaired);
            let other = arrival(cluster.scheduler.tables(), "node b cpu=64");
            cluster.handle(other);
            let (allocation, reserved_for) = (allocation.clone(), vec!["p"]);
            let shown =
                Shown { allocation, reserved_for, made_for: Some(("p", made_on)), ..Shown::default() };
            let pod = arrival(cluster.scheduler.tables(), &format!("pod p cpu=1 on={bound_to}"));
            if claim_comes_first {
                cluster.show("made", &shown);
                cluster.handle(pod);
            } else {
                cluster.handle(pod);
                cluster.show("made", &shown);
            }
            let writes = cluster.run();
            let deleted = writes.iter().filter(|it| matches!(it.change, VolumeChange::Delete { .. })).count();
            let case = format!("made on {made_on}, bound to {bound_to}, {claim_comes_first}: {writes:?}");
            assert_eq!((deleted, writes.len()), (usize::from(is_deleted), usize::from(is_deleted)), "{case}");
        }
    }
}

#[test]
fn devices_that_another_claim_got_before_the_write_was_sent_are_not_allocated_twice() {
    let mut cluster = Cluster::with_credits(3, Compat::Repaired, 1);
    for (pod, claim) in [("p", "c"), ("q", "d")] {
        cluster.show(claim, &Shown::default());
        cluster.show_pod(pod, claim);
    }
    // The write for q waits for the credit that the one for p has used.
    let first = cluster.write();
    let taken = allocation_of(&first);
    assert_eq!(&*taken.results[0].device.device, "d0");
    let mut other = Allocation::clone(&taken);
    other.results[0].device.device = "d1".into();
    cluster.show("other", &Shown { allocation: Some(other.into()), ..Shown::default() });
    cluster.answer(&first, WriteOutcome::Done);
    let credits = Event::Credits { lane: Lane::Volume, count: 1 };
    cluster.handle(credits);
    let second = cluster.write();
    assert_eq!((&*second.pod.name, &*allocation_of(&second).results[0].device.device), ("q", "d2"));
}

#[test]
fn pod_that_is_bound_during_pre_bind_reserves_again_the_claims_that_it_gave_up() {
    let mut cluster = Cluster::new(2, Compat::Repaired);
    let ([mut c, mut d], given_up) = cluster.give_up_claims();
    assert_eq!(given_up.len(), 2);
    for write in &given_up {
        cluster.answer(write, WriteOutcome::Done);
    }
    cluster.show_node("node a cpu=64");
    cluster.now = cluster.now + Duration::from_secs(5);
    assert!(cluster.run().is_empty(), "the requests that give the claims up can still arrive");
    cluster.show_with_claims("pod p cpu=1 on=a", &["c", "d"]);
    d.reserved_for.clear();
    cluster.show("d", &d);
    assert!(cluster.run().is_empty(), "the watch does not show yet that the first claim was given up");
    c.reserved_for.clear();
    cluster.show("c", &c);
    for (name, mut shown) in [("c", c), ("d", d)] {
        let write = cluster.write();
        let VolumeChange::Reserve { claim, allocation: None, .. } = &write.change else {
            panic!("{write:?}")
        };
        assert_eq!(claim.name, name);
        cluster.answer(&write, WriteOutcome::Done);
        shown.reserved_for.push("p");
        cluster.show(name, &shown);
    }
    assert!(cluster.run().is_empty());
    assert_eq!(cluster.scheduler.stats().volume_bindings, 0, "PreBind has ended");
    let held = cluster.scheduler.held();
    assert!(held.contains(&("pods that gave up reservations", 0)), "{held:?}");
}

#[test]
fn pod_that_is_bound_keeps_the_claims_that_it_was_about_to_give_up() {
    let mut cluster = Cluster::with_credits(2, Compat::Repaired, 1);
    let (_, given_up) = cluster.give_up_claims();
    assert_eq!(given_up.len(), 1, "there is one credit");
    cluster.show_with_claims("pod p cpu=1 on=a", &["c", "d"]);
    cluster.answer(&given_up[0], WriteOutcome::Done);
    cluster.handle(Event::Credits { lane: Lane::Volume, count: 1 });
    assert!(cluster.run().is_empty());
}

#[test]
fn pod_that_is_bound_during_pre_bind_does_not_wait_for_requests_that_are_not_sent() {
    let mut cluster = Cluster::with_credits(2, Compat::Repaired, 0);
    let (_, given_up) = cluster.give_up_claims();
    assert!(given_up.is_empty(), "there is no credit");
    cluster.show_node("node a cpu=64");
    cluster.now = cluster.now + Duration::from_secs(5);
    assert!(cluster.run().is_empty());
    assert_eq!(cluster.scheduler.stats().volume_bindings, 1);
    cluster.show_with_claims("pod p cpu=1 on=a", &["c", "d"]);
    assert!(cluster.run().is_empty());
    assert_eq!(cluster.scheduler.stats().volume_bindings, 0, "PreBind has ended");
}

#[test]
fn upstream_chooses_the_failed_device_again() {
    let mut cluster = with_pod(3, Compat::Upstream);
    let devices: Vec<String> = (0..3).map(|_| cluster.get_device_that_fails()).collect();
    assert_eq!(devices, ["d0", "d0", "d0"]);
}

#[test]
fn devices_of_a_lost_allocation_wake_waiting_pods_when_it_expires() {
    let mut cluster = with_pod(1, Compat::Repaired);
    let write = cluster.write();
    cluster.answer(&write, WriteOutcome::Unknown { message: "context deadline exceeded".to_owned() });
    cluster.handle(Event::Gone(ObjectKey::Pod("p".into())));
    cluster.show("d", &Shown::default());
    cluster.show_pod("q", "d");
    let began = cluster.now;
    let write = cluster.next_write(Duration::from_secs(120));
    assert_eq!((&*write.pod.name, &*allocation_of(&write).results[0].device.device), ("q", "d0"));
    assert!(cluster.now.since(began) >= Duration::from_secs(59), "the device may have been taken");
}

#[test]
fn devices_of_a_failed_pod_wake_waiting_pods() {
    let mut cluster = with_pod(1, Compat::Repaired);
    let write = cluster.write();
    cluster.show("d", &Shown::default());
    cluster.show_pod("q", "d");
    assert!(cluster.run().is_empty());
    let began = cluster.now;
    cluster.answer(&write, WriteOutcome::Refused { message: "admission webhook denied it".to_owned() });
    let write = cluster.next_write(Duration::from_secs(30));
    assert_eq!(&*allocation_of(&write).results[0].device.device, "d0");
    assert!(cluster.now.since(began) < Duration::from_secs(30));
}

#[test]
fn claim_that_has_other_devices_in_its_next_version_wakes_waiting_pods() {
    let taken = allocation_of(&with_pod(1, Compat::Repaired).write());
    let mut cluster = Cluster::new(1, Compat::Repaired);
    cluster.show("other", &Shown { allocation: Some(Arc::clone(&taken)), ..Shown::default() });
    cluster.show("d", &Shown::default());
    cluster.show_pod("q", "d");
    assert!(cluster.run().is_empty());
    let mut elsewhere = Allocation::clone(&taken);
    elsewhere.results[0].device.device = "d9".into();
    cluster.show("other", &Shown { allocation: Some(elsewhere.into()), ..Shown::default() });
    let write = cluster.next_write(Duration::from_secs(30));
    assert_eq!(allocation_of(&write).results[0].device, taken.results[0].device);
}

#[test]
fn claim_that_another_scheduler_allocated_is_decided_anew_without_backoff() {
    for message in [
        "claim default/c got allocated elsewhere in the meantime",
        "claim default/c got deleted in the meantime",
        "Operation cannot be fulfilled on resourceclaims: Precondition failed: UID in precondition: a, UID in object \
         meta: b",
    ] {
        let mut cluster = with_pod(2, Compat::Repaired);
        let write = cluster.write();
        let allocation = allocation_of(&write);
        cluster.answer(&write, WriteOutcome::Refused { message: message.to_owned() });
        assert!(cluster.run().is_empty(), "the watch shows what changed");
        let mut other = Allocation::clone(&allocation);
        other.results[0].device.device = "d1".into();
        cluster.show("c", &Shown { allocation: Some(other.into()), ..Shown::default() });
        let write = cluster.write();
        let VolumeChange::Reserve { allocation, stamps, .. } = &write.change else { panic!("{write:?}") };
        assert_eq!((allocation, *stamps), (&None, true), "the allocation has no timestamp yet: {message}");
    }
}

#[test]
fn claim_finds_its_gated_pod_among_forty_thousand() {
    const PODS: usize = 40_000;
    let mut cluster = Cluster::new(1, Compat::Repaired);
    for number in 0..PODS {
        cluster.show_pod(&format!("p{number}"), &format!("c{number}"));
    }
    assert!(cluster.run().is_empty());
    let tables = cluster.scheduler.tables();
    let key = (tables.symbol("default"), tables.symbol("c7"));
    let found = |cluster: &Cluster| cluster.scheduler.queue().gated_by_claim(key.0, key.1).count();
    assert_eq!((cluster.scheduler.queue().gated().count(), found(&cluster)), (PODS, 1));
    cluster.show("c7", &Shown::default());
    assert_eq!(&*cluster.write().pod.name, "p7");
    assert_eq!((cluster.scheduler.queue().gated().count(), found(&cluster)), (PODS - 1, 0));
}

/// The deletion of the claim may take effect at any time, so the next attempt must not rely on it.
#[test]
fn claim_made_for_a_pod_whose_binding_was_refused_is_not_used_again() {
    let mut cluster = Cluster::new(2, Compat::Repaired);
    let line = "pod p cpu=1 res:deviceclass.resource.kubernetes.io/gpu=1";
    let pod = arrival(cluster.scheduler.tables(), line);
    cluster.handle(pod);
    let made = cluster.write();
    let VolumeChange::Create { allocation, .. } = &made.change else { panic!("{made:?}") };
    let shown = Shown {
        allocation: Some(Arc::clone(allocation)),
        reserved_for: vec!["p"],
        condition: Some("ready"),
        made_for: Some(("p", "a")),
    };
    cluster.show("made", &shown);
    cluster.answer(&made, WriteOutcome::Done);
    assert!(cluster.run().is_empty());
    assert_eq!(cluster.bound, ["p"]);
    let outcome = BindOutcome::Refused { message: "admission webhook denied it".to_owned() };
    cluster.handle(Event::BindFinished { uid: "p".into(), outcome });
    // The watch does not show the deletion yet when the pod is tried again.
    for wait in [0, 5] {
        cluster.now = cluster.now + Duration::from_secs(wait);
        let deleted = cluster.write();
        assert!(matches!(deleted.change, VolumeChange::Delete { .. }), "{deleted:?}");
    }
    assert_eq!(cluster.scheduler.stats().volume_bindings, 0);
}

/// A watch that was interrupted may miss the deletion. The next claim of that name then seems to be an update.
#[test]
fn gated_pod_goes_on_with_the_claim_that_replaces_one_being_deleted() {
    let mut cluster = Cluster::new(1, Compat::Repaired);
    cluster.show("c", &Shown::default());
    let tables = cluster.scheduler.tables();
    let (namespace, name) = (tables.symbol("default"), tables.symbol("c"));
    let shown = cluster.scheduler.snapshot().devices().claim(namespace, name).cloned().expect("it is shown");
    let leaving = ResourceClaim { deleting: true, ..ResourceClaim::clone(&shown) };
    let next = ResourceClaim { uid: "uid-next".into(), ..ResourceClaim::clone(&shown) };
    cluster.handle(Event::StorageApplied(StorageObject::ResourceClaim(leaving.into())));
    cluster.show_pod("p", "c");
    assert!(cluster.run().is_empty());
    let place = cluster.scheduler.queue().waiting().next().map(|(place, _)| place);
    assert_eq!(place, Some(SubQueue::Gated));
    cluster.handle(Event::StorageApplied(StorageObject::ResourceClaim(next.into())));
    let write = cluster.write();
    assert!(matches!(write.change, VolumeChange::Reserve { .. }), "{write:?}");
}
