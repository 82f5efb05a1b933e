//! TaintToleration rejects nodes with untolerated NoSchedule or NoExecute taints, and prefers nodes with few
//! untolerated PreferNoSchedule taints.
//!
//! Nodes share few distinct lists of taints, so each list is evaluated once per call. Upstream:
//! `pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go`.

use super::normalize::default_normalize_score;
use crate::cache::slice::NodeRole;
use crate::cache::{NodeView, Snapshot};
use crate::collections::hash::IdMap;
use crate::framework::{
    ClusterEvent, CycleError, DependsOn, EventSet, Fact, FilterRule, Hint, NodeAction, NodeFilterPlugin,
    NodeScorePlugin, PluginName, PodAction, Prepared, Rejection, Scale, ScoreRule, Verdict,
};
use crate::model::intern::TaintSetId;
use crate::model::node::NodeIdx;
use crate::model::node::{NodeInfo, Taint, TaintEffect};
use crate::model::node_pod::NodePod;
use crate::model::node_set::{NodeSet, bits};
use crate::model::pod::{PodInfo, Toleration};

const NAME: PluginName = "TaintToleration";

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaintToleration;

impl NodeFilterPlugin for TaintToleration {
    fn name(&self) -> PluginName {
        NAME
    }

    fn prepare(&self, pod: NodePod<'_>, _snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        Prepared::Run { rule: Box::new(Filter { tolerations: pod.tolerations().into() }), only: None }
    }

    fn events(&self) -> EventSet {
        EventSet::TAINTS
    }

    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint {
        match event {
            ClusterEvent::Node { action: NodeAction::Add | NodeAction::UpdateTaint, old, new: Some(new) } => {
                let tolerated =
                    |node: &NodeInfo| all_tolerated(snapshot.tables().taints(node.taints), &pod.tolerations);
                Hint::queue_if(!old.is_some_and(tolerated) && tolerated(new))
            }
            ClusterEvent::OwnPod { action: PodAction::UpdateToleration, .. }
            | ClusterEvent::UnschedulableTimeout => Hint::Queue,
            _ => Hint::Skip,
        }
    }
}

/// Whether no taint of the list keeps a pod with these tolerations off.
fn all_tolerated(taints: &[Taint], tolerations: &[Toleration]) -> bool {
    !taints.iter().any(|taint| taint.keeps_out(tolerations))
}

/// Results by list of taints, computed once for each list. Most nodes share a list, often with the previous
/// node.
struct PerList<T, F> {
    find: F,
    known: IdMap<TaintSetId, T>,
    last: Option<(TaintSetId, T)>,
}

impl<T: Copy, F: Fn(TaintSetId) -> T> PerList<T, F> {
    fn new(find: F) -> Self {
        Self { find, known: IdMap::default(), last: None }
    }

    /// Returns the result for a block of nodes if they all have the previous node's list.
    fn of_block(&self, snapshot: Snapshot<'_>, first: usize) -> Option<T> {
        let (last, found) = self.last?;
        let lists: &[_; 64] = snapshot.taint_lists()[first..].first_chunk()?;
        lists.iter().fold(true, |same, list| same & (*list == Some(last))).then_some(found)
    }

    /// Returns the result for an existing node.
    fn of(&mut self, snapshot: Snapshot<'_>, node: NodeIdx) -> T {
        let set =
            snapshot.taint_lists()[node.index()].expect("a node that exists has a list, if an empty one");
        match self.last {
            Some((last, found)) if last == set => found,
            _ => {
                let found = *self.known.entry(set).or_insert_with(|| (self.find)(set));
                self.last = Some((set, found));
                found
            }
        }
    }
}

struct Filter {
    tolerations: Box<[Toleration]>,
}

impl Filter {
    fn tolerates(&self, snapshot: Snapshot<'_>, node: NodeIdx) -> bool {
        let taints = snapshot.node(node).taints();
        let judge = || all_tolerated(taints, &self.tolerations);
        match snapshot.slice() {
            None => judge(),
            Some(slice) => {
                let work = taints.len() as u64 * self.tolerations.len() as u64;
                slice.of_node(NodeRole::Tolerated, node, || work, || i64::from(judge())) != 0
            }
        }
    }
}

impl FilterRule for Filter {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeSpec
    }

    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        let tables = snapshot.tables();
        if snapshot.slice().is_some() {
            feasible.retain(|node| self.tolerates(snapshot, node));
            return Ok(());
        }
        let mut judged = PerList::new(|set| all_tolerated(tables.taints(set), &self.tolerations));
        feasible.retain_blocks(|first, nodes| match judged.of_block(snapshot, first) {
            Some(true) => nodes,
            Some(false) => 0,
            None => {
                let kept = bits(nodes).filter(|&bit| judged.of(snapshot, NodeIdx((first + bit) as u32)));
                kept.fold(0, |kept, bit| kept | 1 << bit)
            }
        });
        Ok(())
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        if self.tolerates(node.snapshot(), node.idx()) {
            return Verdict::Fits;
        }
        Verdict::Rejected(Rejection::unresolvable("node(s) had untolerated taint(s)"))
    }

    fn facts(&self, node: &NodeView<'_>) -> Vec<Fact> {
        let keeps_out = |taint: &&Taint| taint.keeps_out(&self.tolerations);
        node.taints().iter().filter(keeps_out).map(|&taint| Fact::Taint(taint)).collect()
    }
}

impl NodeScorePlugin for TaintToleration {
    fn name(&self) -> PluginName {
        NAME
    }

    fn prepare(&self, pod: NodePod<'_>, _snapshot: Snapshot<'_>) -> Prepared<dyn ScoreRule> {
        let preferring = |t: &&Toleration| matches!(t.effect, None | Some(TaintEffect::PreferNoSchedule));
        let tolerations = pod.tolerations().iter().filter(preferring).copied().collect();
        Prepared::Run { rule: Box::new(Score { tolerations }), only: None }
    }
}

struct Score {
    tolerations: Box<[Toleration]>,
}

impl Score {
    fn count(&self, taints: &[Taint]) -> i64 {
        let disliked = |taint: &&Taint| {
            taint.effect == TaintEffect::PreferNoSchedule && !taint.is_tolerated_by(&self.tolerations)
        };
        taints.iter().filter(disliked).count() as i64
    }
}

impl ScoreRule for Score {
    fn score(&self, snapshot: Snapshot<'_>, feasible: &NodeSet, raw: &mut [i64]) -> Result<(), CycleError> {
        let tables = snapshot.tables();
        if let Some(slice) = snapshot.slice() {
            for (cell, node) in raw.iter_mut().zip(feasible.iter()) {
                let taints = snapshot.node(node).taints();
                let work = taints.len() as u64 * self.tolerations.len() as u64;
                *cell = slice.of_node(NodeRole::Disliked, node, || work, || self.count(taints));
            }
            return Ok(());
        }
        let mut counted = PerList::new(|set| self.count(tables.taints(set)));
        let mut cells = raw.iter_mut();
        for (first, nodes) in feasible.blocks() {
            let here = cells.by_ref().take(nodes.count_ones() as usize);
            match counted.of_block(snapshot, first) {
                Some(count) => here.for_each(|cell| *cell = count),
                None => here.zip(bits(nodes)).for_each(|(cell, bit)| {
                    *cell = counted.of(snapshot, NodeIdx((first + bit) as u32));
                }),
            }
        }
        Ok(())
    }

    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeSpec
    }

    fn scale(&self) -> Scale {
        Scale::Relative
    }

    fn normalize(&self, _snapshot: Snapshot<'_>, _feasible: &NodeSet, raw: &mut [i64]) {
        default_normalize_score(raw, true);
    }
}
