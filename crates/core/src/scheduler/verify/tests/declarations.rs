//! Plugins see only the facts that they declared, where their results are cached.

use crate::cache::{NodeView, Snapshot};
use crate::cycle::{Decision, EnabledFilter, Framework, NoProbe, Options, Rank};
use crate::framework::post_filter::Draws;
use crate::framework::tally::{Counter, Domains, FilterTally, Outdated, Tally, Whole};
use crate::framework::{
    ClusterEvent, DependsOn, EventSet, FilterPlugin, FilterRule, Hint, NodeFilterPlugin, PluginName,
    Prepared, Rejection, Tallied, Verdict,
};
use crate::incremental::DecisionCache;
use crate::model::intern::known;
use crate::model::node::NodeIdx;
use crate::model::node_pod::NodePod;
use crate::model::pod::{PodFacets, PodInfo};
use crate::model::rng::Seed;
use crate::model::time::Time;
use crate::scheduler::quarantine::tests::{World, pod};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A filter that declares to judge node objects, and reads something else as well.
#[derive(Clone, Copy)]
enum Careless {
    /// Nothing else.
    Not,
    /// Other pods when it prepares a pod.
    Preparing,
    /// The pods on a node when it judges the node.
    Judging,
    /// All pods when it rejects a node.
    Rejecting,
    /// The pods on a node when it decides whether they count.
    Counting,
}

impl NodeFilterPlugin for Careless {
    fn name(&self) -> PluginName {
        "Careless"
    }

    fn prepare(&self, _pod: NodePod<'_>, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        if let Self::Preparing = self {
            assert_eq!(snapshot.pod_classes().count(), 0);
        }
        Prepared::Run { rule: Box::new(*self), only: None }
    }

    fn events(&self) -> EventSet {
        EventSet::DEVICE_CLASS
    }

    fn hint(&self, _event: &ClusterEvent<'_>, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Hint {
        Hint::Skip
    }
}

impl FilterRule for Careless {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeSpec
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        if let Self::Judging = self {
            assert_eq!(node.pods().count(), 0);
        }
        if let Self::Rejecting = self {
            assert_eq!(node.snapshot().pod_classes().count(), 0);
            return Verdict::Rejected(Rejection::unschedulable("all nodes"));
        }
        assert!(!node.info().unschedulable);
        Verdict::Fits
    }
}

/// A filter that needs only counts of pods.
struct CarelessTally {
    tallied: Careless,
    counters: [Counter; 1],
}

impl FilterPlugin for CarelessTally {
    fn name(&self) -> PluginName {
        "CarelessTally"
    }

    fn prepare(&self, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        Prepared::Run { rule: Box::new(Careless::Not), only: None }
    }

    fn tally(&self, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Tallied<dyn FilterTally> {
        Tallied::Yes(Box::new(Self { ..*self }))
    }

    fn events(&self) -> EventSet {
        EventSet::DEVICE_CLASS
    }

    fn hint(&self, _event: &ClusterEvent<'_>, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Hint {
        Hint::Skip
    }
}

impl Tally for CarelessTally {
    fn counters(&self) -> &[Counter] {
        &self.counters
    }

    fn adds(
        &self,
        _snapshot: Snapshot<'_>,
        _pod: PodFacets<'_>,
        _add: &mut dyn FnMut(usize, i64),
    ) -> Result<(), Outdated> {
        Ok(())
    }

    fn counts_everywhere(&self, _are_all_placed: bool) -> bool {
        false
    }

    fn counts_on(&self, snapshot: Snapshot<'_>, node: NodeIdx, _counts: &mut [bool]) -> Result<(), Outdated> {
        if let Careless::Counting = self.tallied {
            assert_eq!(snapshot.node(node).pods().count(), 0);
        }
        assert!(!snapshot.node_info(node).unschedulable);
        Ok(())
    }
}

impl FilterTally for CarelessTally {
    fn compares_domains(&self) -> bool {
        false
    }

    fn passes(&self, _sums: &[Option<i64>], _whole: &[Whole]) -> bool {
        true
    }
}

fn framework(plugin: impl FilterPlugin + 'static) -> Framework {
    let mut framework = Framework::default();
    framework.filters.push(EnabledFilter {
        plugin: Box::new(plugin),
        pre_filter: true,
        filter: Some(Rank { rank: 0, fails: None }),
        reserve: None,
    });
    framework
}

/// Runs `decide`; returns the message if it panics.
fn caught<T>(decide: impl FnOnce() -> T) -> Result<T, String> {
    let decided = catch_unwind(AssertUnwindSafe(decide));
    decided.map_err(|panic| *panic.downcast::<String>().expect("a formatted message"))
}

#[track_caller]
fn assert_reads_too_much<T: Debug>(decided: Result<T, String>) {
    let message = decided.expect_err("it reads more than it declared");
    assert!(message.starts_with("a plugin reads "), "{message}");
}

#[test]
fn plugin_that_reads_more_than_it_declared_panics_when_its_result_is_cached() {
    let mut world = World::new();
    let pod = Arc::new(*pod(world.scheduler.tables(), "p", 100, None));
    let run = |plugin: Careless| {
        let (mut decisions, snapshot) = (DecisionCache::default(), world.scheduler.snapshot());
        let framework = framework(plugin);
        caught(|| framework.decide_cached(&mut decisions, &pod, snapshot, &mut NoProbe).is_some())
    };
    assert_eq!(run(Careless::Not), Ok(true));
    assert_reads_too_much(run(Careless::Preparing));
    assert_reads_too_much(run(Careless::Judging));
}

#[test]
fn filter_that_reads_other_nodes_panics_when_its_rejection_is_cached() {
    let mut world = World::new();
    let pod = Arc::new(*pod(world.scheduler.tables(), "p", 100, None));
    let (mut decisions, snapshot) = (DecisionCache::default(), world.scheduler.snapshot());
    let framework = framework(Careless::Rejecting);
    let full = framework.decide(&pod, snapshot, Options::default(), &mut NoProbe);
    let Ok(Decision::Infeasible(filtered)) = full else { panic!("the filter rejects every node") };
    framework.note_infeasible(&mut decisions, &pod, &filtered);
    let when = (Draws { seed: Seed(1), attempt: 1 }, Time::default());
    assert_reads_too_much(caught(|| {
        framework.reject_cached(&mut decisions, &pod, snapshot, when, &mut NoProbe, |_, _| ())
    }));
}

#[test]
fn tally_that_reads_pods_panics_when_it_decides_whether_a_node_counts() {
    let mut world = World::new();
    let pod = Arc::new(*pod(world.scheduler.tables(), "p", 100, None));
    let run = |tallied: Careless| {
        let (mut decisions, snapshot) = (DecisionCache::default(), world.scheduler.snapshot());
        let counters = [Counter { key: known::HOSTNAME, domains: Domains::Nodes }];
        let framework = framework(CarelessTally { tallied, counters });
        caught(|| framework.decide_cached(&mut decisions, &pod, snapshot, &mut NoProbe).is_some())
    };
    assert_eq!(run(Careless::Not), Ok(true));
    assert_reads_too_much(run(Careless::Counting));
}
