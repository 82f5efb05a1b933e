//! Effects of disabled extension points beyond one decision. Decisions are tested by the golden family `points`.

mod support;

use supercargo_core::cycle::{Decision, Framework, NoProbe, Options};
use supercargo_core::framework::CycleError;
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::model::device::{PodClaim, PodClaimSource};
use supercargo_core::model::effect::{Effect, VolumeChange};
use supercargo_core::model::event::Event;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::QueueConfig;
use supercargo_core::registry::Plan;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use support::{TestCluster, arrival, begin};

#[test]
fn gate_blocks_pod_only_if_scheduling_gates_is_enabled_at_pre_enqueue() {
    let mut cluster = TestCluster::new();
    let (gated, free) = (cluster.pod("gated").gate("wait").build(), cluster.pod("free").build());
    let snapshot = cluster.snapshot();
    let framework = Framework::default();
    assert_eq!(framework.gate(&gated, snapshot), Some("SchedulingGates"));
    assert_eq!(framework.gate(&free, snapshot), None);

    let mut plan = Plan::default();
    let before_queue = plan.points.get_mut(&ExtensionPoint::PreEnqueue).expect("the default plugins have it");
    before_queue.retain(|name| *name != "SchedulingGates");
    assert_eq!(Framework::new(&plan).gate(&gated, snapshot), None);
}

/// Filter reads what PreFilter computed, and fails without it.
#[test]
fn filter_without_its_pre_filter_fails_the_decision() {
    let mut cluster = TestCluster::new();
    support::language::apply(&mut cluster, "node a declares=Feature");
    let mut plan = Plan::default();
    let pre_filter = plan.points.get_mut(&ExtensionPoint::PreFilter).expect("the default plugins have it");
    pre_filter.retain(|name| *name != "NodeDeclaredFeatures");
    let pod = cluster.pod_from("x feature=Feature");
    let [whole, part] = [Framework::default(), Framework::new(&plan)]
        .map(|framework| framework.decide(&pod, cluster.snapshot(), Options::default(), &mut NoProbe).err());
    let read = "error reading \"PreFilterNodeDeclaredFeatures\" from cycle-state: not found";
    let error = format!("running \"NodeDeclaredFeatures\" filter plugin: {read}");
    assert_eq!((whole, part), (None, Some(CycleError(error))));
}

/// Without Reserve, upstream assumes nothing, so that the next pod gets the same volume.
#[test]
fn volumes_are_reserved_even_if_reserve_is_disabled() {
    let mut cluster = TestCluster::new();
    for line in ["node a", "class fast", "pv v class=fast", "pvc c class=fast"] {
        support::language::apply(&mut cluster, line);
    }
    let mut plan = Plan::default();
    plan.points.insert(ExtensionPoint::Reserve, Vec::new());
    let pod = cluster.pod_from("x claim=c");
    let framework = Framework::new(&plan);
    let decided = framework.decide(&pod, cluster.snapshot(), Options::default(), &mut NoProbe);
    let Ok(Decision::Feasible(feasible)) = decided else { panic!("the volume is reserved") };
    let node = cluster.idx("a");
    assert_eq!(feasible.filtered.reserve(cluster.snapshot(), node).expect("nothing is refused").len(), 1);
}

/// Each plugin's PreBind writes its own objects. A pod with both kinds is not bound before the enabled one has written.
#[test]
fn claims_are_written_if_pre_bind_of_volumes_is_disabled_and_the_reverse() {
    let first_write = |disabled: &str| {
        let mut plan = Plan::default();
        let pre_bind = plan.points.get_mut(&ExtensionPoint::PreBind).expect("the default plugins have it");
        pre_bind.retain(|name| *name != disabled);
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::new(&plan) };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
        let now = Time::from_secs(1_000);
        let mut scheduler = Scheduler::new(config, now);
        begin(&mut scheduler, now, 10);
        for line in ["node a", "class fast", "pv v class=fast", "pvc c class=fast", "devices-claim gpu"] {
            let event = arrival(scheduler.tables(), line);
            scheduler.handle(now, event);
        }
        let source = PodClaimSource::Named(scheduler.tables().symbol("gpu"));
        let Event::PodApplied(mut pod) = arrival(scheduler.tables(), "pod x claim=c") else { unreachable!() };
        pod.claims = [PodClaim { name: "gpu".into(), source }].into();
        scheduler.handle(now, Event::PodApplied(pod));
        loop {
            match scheduler.step(now, &mut NoProbe) {
                Step::Effect(effect @ (Effect::WriteVolume(_) | Effect::Bind { .. })) => return effect,
                Step::Idle { .. } => panic!("the pod is neither prepared nor bound"),
                _ => {}
            }
        }
    };
    let write = |disabled: &str| match first_write(disabled) {
        Effect::WriteVolume(write) => write.change,
        other => panic!("without {disabled}, {other:?} comes first"),
    };
    assert!(matches!(write("VolumeBinding"), VolumeChange::Reserve { .. }));
    assert!(matches!(write("DynamicResources"), VolumeChange::Bind { .. }));
}
