//! Plugins see only the facts that they declared, where their results are cached.

use crate::cache::{NodeView, Snapshot};
use crate::cycle::{EnabledFilter, Framework, NoProbe, Rank};
use crate::framework::{
    ClusterEvent, DependsOn, EventSet, FilterPlugin, FilterRule, Hint, PluginName, Prepared, Reads, Verdict,
};
use crate::incremental::DecisionCache;
use crate::model::pod::PodInfo;
use crate::scheduler::quarantine::tests::{World, pod};
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
}

impl FilterPlugin for Careless {
    fn name(&self) -> PluginName {
        "Careless"
    }

    fn reads(&self) -> Reads {
        Reads::Pod
    }

    fn prepare(&self, _pod: &PodInfo, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
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
        assert!(!node.info().unschedulable);
        Verdict::Fits
    }
}

#[test]
fn plugin_that_reads_more_than_it_declared_panics_when_its_result_is_cached() {
    let mut world = World::new();
    let pod = Arc::new(*pod(world.scheduler.tables(), "p", 100, None));
    let run = |plugin: Careless| {
        let mut framework = Framework::default();
        framework.filters.push(EnabledFilter {
            plugin: Box::new(plugin),
            pre_filter: true,
            filter: Some(Rank { rank: 0, fails: None }),
        });
        let (mut decisions, snapshot) = (DecisionCache::default(), world.scheduler.snapshot());
        let decided = catch_unwind(AssertUnwindSafe(|| {
            framework.decide_cached(&mut decisions, &pod, snapshot, &mut NoProbe).is_some()
        }));
        decided.map_err(|panic| *panic.downcast::<String>().expect("a formatted message"))
    };
    assert_eq!(run(Careless::Not), Ok(true));
    for plugin in [Careless::Preparing, Careless::Judging] {
        let message = run(plugin).expect_err("it reads more than it declared");
        assert!(message.starts_with("a plugin reads "), "{message}");
    }
}
