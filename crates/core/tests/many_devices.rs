//! 10,000 ResourceSlices of 128 devices: the work of a decision is counted, by the evaluations of an expression.

mod support;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::device::{
    ClaimSpec, Device, DeviceClass, DeviceSelector, Expression, Facts, PodClaim, PodClaimSource, PoolId,
    Reach, Request, RequestKind, ResourceClaim, ResourceSlice,
};
use supercargo_core::model::event::Event;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::volume::StorageObject;
use supercargo_core::scheduler::{Profile, Trial, TrialDecision, TrialOptions};
use support::{arrival, devices, language};

const SLICES: usize = 10_000;
const DEVICES: usize = 128;
const NODES: usize = 20;

/// An expression that selects the last device of each slice, and counts its evaluations.
#[derive(Default)]
struct Last(AtomicUsize);

impl fmt::Debug for Last {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Last")
    }
}

impl Expression for Last {
    fn text(&self) -> &str {
        "last"
    }

    fn matches(&self, facts: &Facts) -> Result<bool, Arc<str>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(facts.0.downcast_ref::<usize>() == Some(&(DEVICES - 1)))
    }
}

fn device(number: usize, name: &Arc<str>, facts: &Facts) -> Device {
    debug_assert!(number < DEVICES);
    Device { name: Arc::clone(name), facts: facts.clone(), ..devices::device("") }
}

/// Adds slices, each for a node of its own. Only some of the nodes exist.
fn add_slices(trial: &mut Trial) {
    let facts: Vec<(Arc<str>, Facts)> =
        (0..DEVICES).map(|at| (format!("d{at}").into(), Facts(Arc::new(at)))).collect();
    for number in 0..SLICES {
        let node = format!("n{number}");
        let devices = facts.iter().enumerate().map(|(at, (name, facts))| device(at, name, facts));
        let slice = ResourceSlice {
            name: trial.tables_mut().symbol(&format!("s{number}")),
            pool: PoolId { driver: "d".into(), name: node.as_str().into() },
            generation: 1,
            slices: 1,
            reach: Reach::Node(trial.tables_mut().symbol(&node)),
            devices: devices.collect(),
            counters: [].into(),
        };
        trial.set_storage(StorageObject::ResourceSlice(Arc::new(slice)));
    }
}

fn add_claim(trial: &mut Trial, selector: &Arc<Last>) {
    let tables = trial.tables_mut();
    let (class, implicit) = (tables.symbol("c"), tables.symbol("deviceclass.resource.kubernetes.io/c"));
    let expression: Arc<dyn Expression> = Arc::<Last>::clone(selector);
    let selectors = [Some(DeviceSelector(expression))];
    let request = devices::request("r", class);
    let request = Request { name: "r".into(), kind: RequestKind::Exactly(request) };
    let claim = ResourceClaim {
        namespace: tables.symbol("default"),
        name: tables.symbol("claim"),
        uid: "claim".into(),
        resource_version: "1".into(),
        controller: None,
        deleting: false,
        is_for_extended_resources: false,
        is_protected: false,
        spec: Arc::new(ClaimSpec { requests: [request].into(), ..ClaimSpec::default() }),
        allocation: None,
        nodes: None,
        reserved_for: [].into(),
        devices: [].into(),
    };
    let new = DeviceClass {
        implicit,
        explicit: None,
        created: None,
        selectors: selectors.into(),
        config: [].into(),
    };
    trial.handle(Event::DeviceClassApplied { name: class, class: Arc::new(new) });
    trial.set_storage(StorageObject::ResourceClaim(Arc::new(claim)));
}

#[test]
fn decision_evaluates_only_devices_of_the_nodes() {
    let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
    let mut trial = Trial::new(Seed(1), vec![profile], Tables::new());
    for number in 0..NODES {
        let event = arrival(trial.tables_mut(), &format!("node n{number} cpu=4 mem=8Gi"));
        trial.handle(event);
    }
    add_slices(&mut trial);
    let selector = Arc::new(Last::default());
    add_claim(&mut trial, &selector);
    let name = trial.tables_mut().symbol("claim");
    let pod = language::pod(trial.tables_mut(), &["p", "cpu=1"]);
    let mut pod = PodInfo::clone(&pod);
    pod.claims = vec![PodClaim { name: "claim".into(), source: PodClaimSource::Named(name) }].into();
    let options = TrialOptions { uses_caches: true, preempts: true, is_comparable: false };
    let decision = trial.decide(&Arc::new(pod), options, &mut NoProbe);
    assert!(matches!(decision, TrialDecision::Placed { feasible: NODES, .. }), "{decision:?}");
    let evaluations = selector.0.load(Ordering::Relaxed);
    // Filter, Score and Reserve may each look at the devices of a node.
    assert!((DEVICES..=3 * NODES * DEVICES).contains(&evaluations), "{evaluations} evaluations");
}
