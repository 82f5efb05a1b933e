//! Property test: after panics in objects or decisions, cached decisions still equal full evaluations.

use super::tests::{PanicPoint, World, pod};
use crate::cycle::NoProbe;
use crate::model::effect::{Effect, Lane};
use crate::model::event::{BindOutcome, Event, ObjectKey};
use crate::model::intern::Tables;
use crate::model::node::NodeInfo;
use crate::model::pod::{PodAffinity, PodAffinityTerm, PodInfo};
use crate::model::resources::Resources;
use crate::model::selector::{Operator, Requirement, Selector};
use crate::scheduler::Step;

/// Few enough racks that pods meet in them, yet enough that names alone do not separate them.
const NODES: usize = 70;
const PODS: usize = 30;

/// A pod of app 0, which repels app 0 in its rack, or of app 1, which requires app 0 in its rack.
fn tied(tables: &mut Tables, number: usize, app: usize, on: Option<usize>) -> Box<PodInfo> {
    let on = on.map(|node| format!("n{node}"));
    let mut pod = pod(tables, &format!("p{number}"), 10, on.as_deref());
    let (key, values) = (tables.symbol("app"), ["0", "1"].map(|app| tables.symbol(app)));
    let term = |app: usize, tables: &mut Tables| PodAffinityTerm {
        namespaces: [tables.symbol("default")].into(),
        namespace_selector: Selector::Nothing,
        selector: Selector::All([Requirement { key, operator: Operator::In([values[app]].into()) }].into()),
        topology_key: tables.symbol("rack"),
    };
    let (with, without) =
        if app == 0 { ([].into(), [term(0, tables)].into()) } else { ([term(0, tables)].into(), [].into()) };
    let mut template = (*pod.template).clone();
    template.pod_affinity = Some(Box::new(PodAffinity {
        required_affinity: Ok(with),
        required_anti_affinity: Ok(without),
        preferred_affinity: Ok([].into()),
        preferred_anti_affinity: Ok([].into()),
    }));
    pod.template = template.into();
    pod.labels = tables.label_set(vec![(key, values[app])]);
    pod
}

fn node(tables: &mut Tables, number: usize, rack: usize) -> Box<NodeInfo> {
    let pair = (tables.symbol("rack"), tables.symbol(&format!("r{rack}")));
    Box::new(NodeInfo {
        name: tables.symbol(&format!("n{number}")),
        labels: tables.label_set(vec![pair]),
        taints: tables.taint_set(Vec::new()),
        unschedulable: false,
        allocatable: Resources { cpu_milli: 4_000, ..Resources::default() },
        allocatable_pods: 110,
        images: [].into(),
        declared_features: [].into(),
    })
}

struct Law {
    world: World,
    state: u64,
}

impl Law {
    /// A deterministic number below a bound.
    fn below(&mut self, bound: usize) -> usize {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % bound
    }

    fn renew(&mut self, number: usize, rack: usize) {
        let node = node(self.world.scheduler.tables(), number, rack);
        self.world.handle(Event::NodeApplied(node));
    }

    /// Adds a pod, after the deletion of the previous pod with this number.
    fn come(&mut self, number: usize, app: usize, on: Option<usize>) {
        self.world.handle(Event::Gone(ObjectKey::Pod(format!("p{number}").into())));
        let pod = tied(self.world.scheduler.tables(), number, app, on);
        self.world.handle(Event::PodApplied(pod));
    }

    /// Runs the engine until idle, and accepts its bindings.
    fn run(&mut self) {
        self.world.handle(Event::Credits { lane: Lane::Bind, count: 1 });
        loop {
            match self.world.scheduler.step(self.world.now, &mut NoProbe) {
                Step::Idle { .. } => return,
                Step::Effect(Effect::Bind { pod, .. }) => {
                    self.world.handle(Event::BindFinished { uid: pod.uid, outcome: BindOutcome::Accepted });
                }
                _ => {}
            }
        }
    }

    /// Makes the engine panic on an object, or in a decision.
    fn stumble(&mut self, panic_point: PanicPoint) {
        self.world.scheduler.panic_point = Some(panic_point);
        self.world.pod("poison", 10, None);
        self.run();
        self.world.scheduler.panic_point = None;
        self.world.handle(Event::Gone(ObjectKey::Pod("poison".into())));
    }
}

#[test]
fn cached_decisions_after_poison_equal_full_evaluations() {
    let mut law = Law { world: World::new(), state: 1 };
    (0..NODES).for_each(|number| law.renew(number, number));
    let (mut panics, mut poisoned) = (0, 0);
    for turn in 0..1_500 {
        let (node, rack, number) = (law.below(NODES), law.below(NODES), law.below(PODS));
        let app = usize::from(law.below(3) == 0);
        match law.below(30) {
            0 => {
                law.stumble(PanicPoint::Deciding);
                panics += 1;
            }
            1 => {
                law.stumble(PanicPoint::TakingIn);
                poisoned += 1;
            }
            2..9 => law.renew(node, rack),
            9..14 => law.come(number, app, Some(node)),
            14..17 => law.world.handle(Event::Gone(ObjectKey::Pod(format!("p{number}").into()))),
            _ => law.come(number, app, None),
        }
        law.run();
        let stats = law.world.scheduler.stats();
        // In builds with debug assertions, a cached decision that differs from the full evaluation panics.
        assert_eq!((stats.panics, stats.poisoned), (panics, poisoned), "turn {turn}");
    }
    let stats = law.world.scheduler.stats();
    assert!(panics > 20 && poisoned > 20, "{panics} decisions and {poisoned} objects were poison");
    assert!(stats.cached_decisions > 300, "{} cached decisions", stats.cached_decisions);
}
