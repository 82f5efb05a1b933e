//! Members of groups that claim devices: what their gates wait for, and how their claims are written and given up.

mod support;

use std::sync::Arc;
use std::time::Duration;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::device::{Allocation, PodClaim, PodClaimSource, ResourceClaim};
use supercargo_core::model::effect::{Effect, Lane, VolumeChange, VolumeWrite};
use supercargo_core::model::event::{Event, ObjectKey, WriteOutcome};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::model::volume::StorageObject;
use supercargo_core::queue::{QueueConfig, SubQueue};
use supercargo_core::report::Outcome;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use support::{arrival, begin, groups, storage};

/// A scheduler, and what it did.
struct Running {
    scheduler: Scheduler,
    now: Time,
    /// The numbers of members that groups' cycles decided on.
    cycles: Vec<usize>,
    victims: Vec<String>,
    /// The number of attempts that found no node.
    unschedulable: usize,
    writes: Vec<VolumeWrite>,
    bound: Vec<String>,
}

impl Running {
    fn new() -> Self {
        Self::with_credits(1_000)
    }

    fn with_credits(credits: usize) -> Self {
        let now = Time::from_secs(100);
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
        let config = Config { seed: Seed(7), profiles: vec![profile], queue: QueueConfig::default() };
        let mut scheduler = Scheduler::new(config, now);
        begin(&mut scheduler, now, credits);
        let gates = ["GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"];
        groups::act(&mut scheduler, now, "gates", &gates);
        Self {
            scheduler,
            now,
            cycles: Vec::new(),
            victims: Vec::new(),
            unschedulable: 0,
            writes: Vec::new(),
            bound: Vec::new(),
        }
    }

    fn handle(&mut self, event: Event) {
        self.scheduler.handle(self.now, event);
        self.run();
    }

    /// Lets time pass.
    fn wait(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.run();
    }

    fn run(&mut self) {
        loop {
            match self.scheduler.step(self.now, &mut NoProbe) {
                Step::Idle { .. } => return,
                Step::Effect(Effect::Bind { pod, node }) => self.bound.push(format!("{} {node}", pod.name)),
                Step::Effect(Effect::WriteVolume(write)) => self.writes.push(write),
                Step::GroupReport(report) => {
                    self.cycles.push(report.members.len());
                    self.victims.extend(report.victims.iter().map(|victim| victim.name.clone()));
                }
                Step::Report(report) => {
                    let is_rejected = matches!(report.outcome, Outcome::Unschedulable { .. });
                    self.unschedulable += usize::from(is_rejected);
                }
                Step::Effect(_) | Step::Notice(_) => {}
            }
        }
    }

    /// Applies an object, or removes a pod or claim: `group g min=2`, `pod p claim=c group=g`, `gone pod p`.
    fn apply(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words {
            ["group", ..] => {
                let group = groups::group(self.scheduler.tables(), &words[1..]);
                self.handle(Event::PodGroupApplied(Box::new(group)));
            }
            ["gone", "pod", name] => self.handle(Event::Gone(ObjectKey::Pod(name.into()))),
            ["gone", "claim", name] => {
                let claim = storage::devices_claim(self.scheduler.tables(), name);
                let key = StorageObject::ResourceClaim(claim.into()).key();
                self.handle(Event::Gone(ObjectKey::Storage(key)));
            }
            _ => {
                let (claims, others): (Vec<&str>, Vec<&str>) =
                    words.into_iter().partition(|word| word.starts_with("claim="));
                let mut event = arrival(self.scheduler.tables(), &others.join(" "));
                if let (Event::PodApplied(pod), [claim]) = (&mut event, &*claims) {
                    let name = self.scheduler.tables().symbol(&claim["claim=".len()..]);
                    let source = PodClaimSource::Named(name);
                    pod.claims = [PodClaim { name: "devices".into(), source }].into();
                }
                self.handle(event);
            }
        }
    }

    fn apply_all(&mut self, lines: &[&str]) {
        lines.iter().for_each(|line| self.apply(line));
    }

    /// Carries out the oldest write, which reserves a claim for a pod.
    fn answer_write(&mut self) {
        let write = self.writes.remove(0);
        let VolumeChange::Reserve { claim, allocation, .. } = write.change else { panic!("{write:?}") };
        let uid = Arc::clone(&write.pod.uid);
        let (outcome, write) = (WriteOutcome::Done, write.write);
        self.handle(Event::VolumeWritten { uid: Arc::clone(&uid), write, outcome });
        self.show_reservation(&claim.name, &uid, allocation);
    }

    /// Takes the only write, which takes a claim from a pod, and returns its number.
    fn unreserves(&mut self) -> u64 {
        let writes = std::mem::take(&mut self.writes);
        let [VolumeWrite { change: VolumeChange::Unreserve { .. }, write, .. }] = writes[..] else {
            panic!("{writes:?}")
        };
        write
    }

    /// Refuses the only write, which takes a claim from the pod `p`.
    fn refuse_unreserve(&mut self) {
        let write = self.unreserves();
        let outcome = WriteOutcome::Refused { message: "forbidden".to_owned() };
        self.handle(Event::VolumeWritten { uid: "p".into(), write, outcome });
    }

    /// Shows a claim as reserved for a pod.
    fn show_reservation(&mut self, claim: &str, pod: &str, allocation: Option<Arc<Allocation>>) {
        let claim = ResourceClaim {
            resource_version: "2".into(),
            allocation,
            reserved_for: [pod.into()].into(),
            ..storage::devices_claim(self.scheduler.tables(), claim)
        };
        self.handle(Event::StorageApplied(StorageObject::ResourceClaim(claim.into())));
    }
}

#[test]
fn member_is_tried_once_its_claim_and_its_group_are_there_in_any_order() {
    let steps = ["group g min=1", "devices-claim c"];
    for order in [[0, 1], [1, 0]] {
        let mut running = Running::new();
        running.apply_all(&["node a cpu=4", "pod p cpu=1 group=g claim=c"]);
        for at in order {
            assert!(running.cycles.is_empty());
            running.apply(steps[at]);
        }
        assert_eq!(running.cycles, [1], "{order:?}");
    }
}

#[test]
fn member_whose_claim_is_recreated_is_tried_once_its_group_is_complete() {
    for order in [["devices-claim c", "pod q cpu=1 group=g"], ["pod q cpu=1 group=g", "devices-claim c"]] {
        let mut running = Running::new();
        running.apply_all(&[
            "node a cpu=4",
            "group g min=2",
            "devices-claim c",
            "pod p cpu=1 group=g claim=c",
        ]);
        running.apply("gone claim c");
        running.apply_all(&order);
        assert_eq!(running.cycles.last(), Some(&2), "{order:?}: {:?}", running.cycles);
    }
}

#[test]
fn nominations_of_other_members_do_not_keep_a_member_from_its_node_after_pre_bind() {
    let mut running = Running::new();
    // `q` waits for the victim that goes, and keeps its nomination.
    running.apply_all(&["node a cpu=4", "pod victim cpu=2 on=a deleting preempted", "devices-claim c"]);
    running.apply_all(&[
        "pod p cpu=1 priority=5 group=g claim=c",
        "pod q cpu=4 priority=5 group=g nominated=a",
        "group g min=1 priority=5",
    ]);
    running.answer_write();
    assert_eq!((&*running.bound, &*running.cycles), (&["p a".to_owned()][..], &[2][..]));
    assert_eq!(running.scheduler.snapshot().nodes_with_nominations().len(), 1);
}

#[test]
fn gated_member_gives_up_a_claim_that_is_shown_as_reserved_for_it() {
    let mut running = Running::new();
    running.apply_all(&["node a cpu=4", "devices-claim c", "group g min=2"]);
    running.apply_all(&["pod p cpu=1 group=g claim=c", "pod q cpu=1 group=g"]);
    let write = running.writes.remove(0);
    running.apply("gone pod q");
    let outcome = WriteOutcome::Refused { message: "no".to_owned() };
    running.handle(Event::VolumeWritten { uid: "p".into(), write: write.write, outcome });
    assert!(running.writes.is_empty() && running.bound.is_empty());
    let gated = running.scheduler.queue().waiting().filter(|(place, _)| *place == SubQueue::Gated);
    assert_eq!(gated.count(), 1);
    running.show_reservation("c", "p", None);
    let write = running.unreserves();
    let outcome = WriteOutcome::Unknown { message: "deadline".to_owned() };
    running.handle(Event::VolumeWritten { uid: "p".into(), write, outcome });
    running.wait(5);
    running.apply("pod p cpu=1 group=g claim=c label:changed=yes");
    assert!(running.writes.is_empty());
    running.wait(61);
    running.unreserves();
}

#[test]
fn claim_of_a_gated_member_is_given_up_by_the_leader_only() {
    for is_bound in [false, true] {
        let mut running = Running::new();
        running.handle(Event::Leading(false));
        running.apply_all(&["node a cpu=4", "devices-claim c", "pod p cpu=1 group=g claim=c"]);
        running.show_reservation("c", "p", None);
        if is_bound {
            running.apply("pod p cpu=1 group=g claim=c on=a");
        }
        assert!(running.writes.is_empty());
        running.handle(Event::Leading(true));
        if is_bound {
            assert!(running.writes.is_empty(), "{:?}", running.writes);
        } else {
            running.unreserves();
        }
    }
}

#[test]
fn members_after_pre_bind_are_rechecked_beside_those_before_them_only() {
    let mut running = Running::new();
    running.apply_all(&["node a zone=z1 cpu=4", "node b zone=z2 cpu=4", "group g min=2"]);
    running.apply_all(&["devices-claim c", "devices-claim d"]);
    let common = "cpu=1 group=g label:app=x require=zone:in:z1";
    running.apply(&format!("pod p {common} claim=c spread=zone/1/DoNotSchedule/app=x/ignore-affinity"));
    running.apply(&format!("pod q {common} claim=d"));
    assert_eq!(running.writes.len(), 2);
    (0..2).for_each(|_| running.answer_write());
    running.bound.sort();
    assert_eq!(running.bound, ["p a", "q a"]);
}

#[test]
fn members_are_bound_together_although_another_one_does_not_fit_any_more() {
    let mut running = Running::new();
    running.apply_all(&["node a zone=z1 cpu=4", "node b zone=z2 cpu=4", "node c zone=z2 cpu=4"]);
    let common = "cpu=1 group=g label:app=x require=zone:in:z1";
    running.apply_all(&[
        "devices-claim d",
        &format!("pod p {common} spread=zone/1/DoNotSchedule/app=x/ignore-affinity"),
        &format!("pod q {common}"),
        "pod r cpu=1 group=g claim=d require=@name:in:c",
        "group g min=2",
    ]);
    assert_eq!(running.cycles, [3]);
    assert_eq!(running.writes.len(), 1);
    running.apply("node c zone=z2 cpu=4 unschedulable");
    running.answer_write();
    running.bound.sort();
    assert_eq!(running.bound, ["p a", "q a"]);
}

#[test]
fn member_that_another_client_bound_stays_on_its_node_when_its_group_starts() {
    let mut running = Running::new();
    running.apply_all(&["node a cpu=1", "node b cpu=1", "devices-claim c", "group g min=2"]);
    running.apply("pod p cpu=1 group=g require=@name:in:a");
    running.apply("pod q cpu=1 group=g require=@name:in:b claim=c");
    running.apply("pod p cpu=1 group=g require=@name:in:a on=a");
    running.apply("node a cpu=1 unschedulable");
    running.answer_write();
    assert_eq!(running.bound, ["q b"]);
    let snapshot = running.scheduler.snapshot();
    let on_nodes: usize = snapshot.nodes().iter().map(|node| snapshot.pods_on(node).count()).sum();
    assert_eq!(on_nodes, 2);
}

#[test]
fn group_is_not_bound_in_part_if_a_node_changes_while_another_member_is_in_pre_bind() {
    let mut running = Running::new();
    running.apply_all(&["node a cpu=1", "node b cpu=1", "devices-claim c", "group g min=2"]);
    running.apply("pod p cpu=1 group=g require=@name:in:a");
    running.apply("pod q cpu=1 group=g require=@name:in:b claim=c");
    assert_eq!(running.writes.len(), 1);
    running.apply("node a cpu=1 unschedulable");
    running.answer_write();
    assert!(running.bound.is_empty(), "{:?}", running.bound);
}

#[test]
fn other_members_are_tried_once_one_that_came_before_them_is_deleted() {
    let mut running = Running::new();
    running.apply_all(&["node a cpu=4", "group g min=2"]);
    running.apply_all(&["pod l cpu=3 group=g", "pod p cpu=2 group=g", "pod q cpu=2 group=g"]);
    assert!(running.bound.is_empty());
    running.apply("pod l cpu=3 group=g deleting");
    running.wait(30);
    running.bound.sort();
    assert_eq!(running.bound, ["p a", "q a"]);
}

#[test]
fn members_are_tried_once_one_of_them_gets_the_label_of_its_role() {
    let mut running = Running::new();
    running.apply_all(&["node a cpu=4", "group g min=2 role-label=role min-per-role=leader=1"]);
    running.apply_all(&["pod p cpu=1 group=g", "pod q cpu=1 group=g"]);
    assert!(running.bound.is_empty());
    running.apply("pod p cpu=1 group=g label:role=leader");
    running.wait(30);
    running.bound.sort();
    assert_eq!(running.bound, ["p a", "q a"]);
}

#[test]
fn replacement_is_tried_once_another_client_has_bound_one() {
    let mut running = Running::new();
    running.apply_all(&["node a cpu=4", "group g min=3 scheduled"]);
    running.apply_all(&["pod p cpu=1 group=g", "pod q cpu=1 group=g"]);
    assert!(running.cycles.is_empty());
    running.apply("pod p cpu=1 group=g on=a");
    assert_eq!(running.bound, ["q a"]);
}

#[test]
fn pod_whose_write_was_dropped_with_the_lease_is_tried_again() {
    let mut running = Running::with_credits(0);
    running.apply_all(&["node a cpu=1", "devices-claim c", "pod p cpu=2 claim=c"]);
    running.show_reservation("c", "p", None);
    running.wait(30);
    let attempts = running.unschedulable;
    assert!(running.writes.is_empty());
    running.handle(Event::Leading(false));
    running.handle(Event::Leading(true));
    running.wait(30);
    assert_eq!(running.unschedulable, attempts + 1);
    for lane in Lane::ALL {
        running.handle(Event::Credits { lane, count: 100 });
    }
    running.unreserves();
}

#[test]
fn pod_whose_claim_is_deleted_before_its_write_waits_for_it_without_a_failure() {
    let mut running = Running::with_credits(0);
    running.apply_all(&["node a cpu=4", "devices-claim c", "pod p cpu=1 claim=c", "gone claim c"]);
    for lane in Lane::ALL {
        running.handle(Event::Credits { lane, count: 100 });
    }
    assert!(running.writes.is_empty(), "{:?}", running.writes);
    assert_eq!(running.scheduler.stats().rechecks_failed, 1);
    running.apply("devices-claim c");
    running.answer_write();
    assert_eq!(running.bound, ["p a"], "it was not put into backoff");
}

#[test]
fn claim_that_is_shown_does_not_end_the_wait_for_victims() {
    let mut running = Running::new();
    running.apply_all(&["node a cpu=1", "devices-claim c", "pod low cpu=1 on=a"]);
    running.apply("pod p cpu=1 priority=9 claim=c");
    running.show_reservation("c", "p", None);
    running.wait(30);
    assert_eq!(running.unschedulable, 1);
}

#[test]
fn group_that_is_evicted_as_a_whole_is_spared_while_a_member_writes_its_claim() {
    let mut running = Running::new();
    running.apply_all(&["node a cpu=2", "devices-claim c", "group low min=2 whole"]);
    running.apply_all(&["pod p cpu=1 group=low claim=c", "pod q cpu=1 group=low"]);
    assert_eq!(running.writes.len(), 1);
    running.apply_all(&["group high min=1 priority=9", "pod r cpu=1 priority=9 group=high"]);
    assert_eq!(running.cycles, [2, 1]);
    assert!(running.victims.is_empty(), "{:?}", running.victims);
    running.answer_write();
    assert_eq!(running.bound.len(), 2, "{:?}", running.bound);
}

#[test]
fn members_are_rechecked_together_again_before_the_first_of_them_is_bound() {
    let mut running = Running::with_credits(0);
    running.apply_all(&["node a zone=a cpu=4", "node b zone=b cpu=4", "group g min=2"]);
    running.apply_all(&["pod p cpu=1 group=g require=zone:in:a", "pod q cpu=1 group=g require=zone:in:b"]);
    assert_eq!(running.cycles, [2]);
    running.apply("node b zone=b cpu=4 unschedulable");
    running.handle(Event::Credits { lane: Lane::Bind, count: 10 });
    assert!(running.bound.is_empty(), "{:?}", running.bound);
    running.apply("node b zone=b cpu=4");
    running.wait(10);
    assert_eq!(running.bound, ["p a", "q b"]);
}

#[test]
fn members_whose_bindings_wait_are_not_rechecked_because_of_a_nomination() {
    let mut running = Running::with_credits(0);
    running.apply_all(&["node a cpu=2", "group g min=2", "pod p cpu=1 group=g", "pod q cpu=1 group=g"]);
    assert_eq!(running.cycles, [2]);
    running.apply("pod urgent cpu=2 priority=9 nominated=a gate=closed");
    assert_eq!(running.scheduler.snapshot().nodes_with_nominations().len(), 1);
    running.handle(Event::Credits { lane: Lane::Bind, count: 10 });
    assert_eq!(running.bound, ["p a", "q a"]);
}

#[test]
fn member_that_is_deleted_before_the_first_is_bound_keeps_the_others_from_starting() {
    let mut running = Running::with_credits(0);
    running.apply_all(&["node a cpu=4", "group g min=2", "pod p cpu=1 group=g", "pod q cpu=1 group=g"]);
    running.apply("gone pod q");
    running.handle(Event::Credits { lane: Lane::Bind, count: 10 });
    assert!(running.bound.is_empty(), "{:?}", running.bound);
    running.apply("pod r cpu=1 group=g");
    running.wait(10);
    assert_eq!(running.bound, ["p a", "r a"]);
}

/// Refuses the oldest write.
fn refuse_write(running: &mut Running) {
    let write = running.writes.remove(0);
    let uid = Arc::clone(&write.pod.uid);
    let outcome = WriteOutcome::Refused { message: "forbidden".to_owned() };
    running.handle(Event::VolumeWritten { uid, write: write.write, outcome });
}

#[test]
fn start_that_fails_takes_back_members_in_pre_bind_too() {
    let mut running = Running::new();
    running.apply_all(&["node a zone=a cpu=4", "node b zone=b cpu=4", "devices-claim c", "devices-claim d"]);
    running.apply_all(&[
        "pod p cpu=1 group=g require=zone:in:a",
        "pod q cpu=1 group=g require=zone:in:b claim=c",
    ]);
    running.apply_all(&["pod r cpu=1 group=g require=zone:in:b claim=d", "group g min=2"]);
    assert_eq!((&*running.cycles, running.writes.len()), (&[3][..], 2));
    // The first write is that of `q`, which is then chosen again.
    refuse_write(&mut running);
    running.wait(10);
    assert_eq!((&*running.cycles, running.writes.len()), (&[3, 1][..], 2));
    running.apply("node a zone=a cpu=4 unschedulable");
    running.answer_write();
    assert_eq!(running.cycles, [3, 1, 3], "all three are decided again");
}

#[test]
fn member_that_failed_twice_is_not_awaited_any_more() {
    let mut running = Running::new();
    running.apply_all(&["node a cpu=4", "devices-claim c", "devices-claim d", "pod p cpu=1 group=g"]);
    running.apply_all(&["pod q cpu=1 group=g claim=c", "pod r cpu=1 group=g claim=d", "group g min=3"]);
    assert_eq!((&*running.cycles, running.writes.len()), (&[3][..], 2));
    // The first write is that of `q`. Afterwards it is that of `r`.
    refuse_write(&mut running);
    running.wait(10);
    running.writes.swap(0, 1);
    refuse_write(&mut running);
    running.wait(10);
    assert_eq!((&*running.cycles, running.writes.len()), (&[3, 1, 1][..], 2));
    running.answer_write();
    running.wait(10);
    assert_eq!(running.cycles, [3, 1, 1, 3], "`q` failed twice, so all three are decided again");
    assert!(running.bound.is_empty(), "{:?}", running.bound);
}

/// Members without their claim cannot be tried, however old they are.
#[test]
fn a_group_whose_members_lack_a_claim_keeps_no_other_from_a_reservation() {
    let mut running = Running::new();
    running.apply_all(&[
        "node a cpu=2",
        "node b cpu=2",
        "pod old cpu=2 on=b",
        "group older min=2 reserve=true",
    ]);
    running.apply_all(&[
        "pod o1 cpu=1 group=older created=10 claim=missing",
        "pod o2 cpu=1 group=older created=10 claim=missing",
        "group younger min=2 reserve=true",
        "pod y1 cpu=2 group=younger created=20",
        "pod y2 cpu=2 group=younger created=20",
    ]);
    assert_eq!(running.scheduler.snapshot().nodes_with_nominations().len(), 1);
}

#[test]
fn gated_member_gives_up_its_claim_again_a_minute_after_the_write_failed() {
    let mut running = Running::new();
    running.apply_all(&["node a cpu=4", "devices-claim c", "group g min=2", "pod p cpu=1 group=g claim=c"]);
    running.show_reservation("c", "p", None);
    running.refuse_unreserve();
    running.wait(59);
    assert!(running.writes.is_empty(), "{:?}", running.writes);
    running.wait(1);
    running.unreserves();
}

/// Another leader may have written what a member needs. The watch shows that right after the decision.
#[test]
fn group_of_a_new_leader_starts_if_its_member_leaves_pre_bind_before_the_next_step() {
    let mut running = Running::new();
    running.apply_all(&[
        "node a cpu=4",
        "devices-claim c",
        "devices-claim d",
        "group g min=2",
        "group h min=2",
    ]);
    running.apply_all(&[
        "pod r cpu=1 group=h require=@name:in:b claim=d",
        "pod s cpu=1 group=h require=@name:in:b",
        "pod p cpu=1 group=g claim=c",
        "pod q cpu=1 group=g",
    ]);
    running.answer_write();
    assert_eq!(running.bound.len(), 2, "{:?}", running.bound);
    running.handle(Event::Leading(false));
    running.handle(Event::Leading(true));
    running.wait(30);
    let node = arrival(running.scheduler.tables(), "node b cpu=4");
    let now = running.now;
    running.scheduler.handle(now, node);
    let mut steps = (0..10).map(|_| running.scheduler.step(now, &mut NoProbe));
    assert!(steps.any(|step| matches!(step, Step::GroupReport(_))));
    running.show_reservation("d", "r", Some(Arc::default()));
    running.bound.sort();
    assert_eq!(running.bound, ["p a", "q a", "r b", "s b"]);
}

/// Without the right to write claims, each request is refused, for ever.
#[test]
fn unschedulable_pod_gives_up_its_claim_again_each_minute_until_a_request_succeeds() {
    let mut running = Running::new();
    running.apply_all(&["node a cpu=1", "devices-claim c", "pod p cpu=2 claim=c"]);
    running.show_reservation("c", "p", None);
    running.wait(10);
    for minute in 0..10 {
        running.refuse_unreserve();
        running.wait(50);
        assert!(running.writes.is_empty(), "{:?}", running.writes);
        running.wait(20);
        let attempts = running.scheduler.queue().waiting().next().expect("it is pending").1.attempts;
        assert!(attempts <= 2 + 9 * (minute + 1), "{attempts} attempts after minute {minute}");
    }
}

#[test]
fn gated_member_gives_up_its_claim_again_if_the_write_was_lost_with_the_lease() {
    let mut running = Running::new();
    running.apply_all(&["node a cpu=4", "devices-claim c", "pod p cpu=1 group=g claim=c"]);
    running.show_reservation("c", "p", None);
    running.unreserves();
    // The write has no answer.
    running.handle(Event::Leading(false));
    running.handle(Event::Leading(true));
    assert!(running.writes.is_empty(), "the request can still arrive");
    running.wait(61);
    running.unreserves();
}
