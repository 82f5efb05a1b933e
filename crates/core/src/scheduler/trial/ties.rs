//! The nodes among which a random draw decides, and the placement of a pod on one of them.

use super::super::Scheduler;
use super::super::attempt::{Choice, Decided, NO_NODES, reserve};
use super::super::budget::Size;
use super::{DECIDED_AT, Trial, TrialOptions};
use crate::cycle::{Decision, NoProbe, Options};
use crate::framework::CycleError;
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use std::sync::Arc;

/// The nodes that a decision about a pod may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestNodes {
    /// The feasible nodes with the best total, in slot order; at least one.
    pub nodes: Vec<NodeIdx>,
    /// The number of feasible nodes.
    pub feasible: usize,
    /// Their total score; `None` if only one node is feasible, which skips scoring.
    pub score: Option<i64>,
}

impl Trial {
    /// Returns the nodes that a decision about the pod may choose, without preemption; changes nothing. With `within`,
    /// only these nodes may be chosen, as if all others were infeasible.
    ///
    /// # Errors
    /// If no node is feasible or a plugin fails, returns the message.
    pub fn best_nodes(&mut self, pod: &Arc<PodInfo>, within: Option<&NodeSet>) -> Result<BestNodes, String> {
        let at = self.profile_for(pod);
        let scheduler = &mut self.scheduler;
        scheduler.cache.set_now(DECIDED_AT);
        scheduler.cache.refresh();
        if scheduler.snapshot().nodes().is_empty() {
            return Err(NO_NODES.to_owned());
        }
        if let Size::TooLarge(text) = scheduler.size_of(pod) {
            return Err(text);
        }
        let pod = scheduler.as_nominated(pod);
        let Scheduler { cache, tables, profiles, decisions, walk, .. } = scheduler;
        let (framework, snapshot) = (&profiles[at].1.framework, cache.snapshot(tables));
        let cached = framework.decide_cached_within(decisions, &pod, (snapshot, within), &mut NoProbe);
        if let Some(mut cached) = cached {
            let nodes = cached.best_nodes();
            let score = cached.total(nodes[0]);
            return Ok(BestNodes { nodes, feasible: cached.len(), score });
        }
        let options = Options { walk: Some(walk), within, ..Options::default() };
        match framework.decide(&pod, snapshot, options, &mut NoProbe) {
            Ok(Decision::Feasible(found)) => Ok(BestNodes {
                nodes: found.winners(),
                feasible: found.filtered.feasible().len(),
                score: found.best(),
            }),
            Ok(Decision::Infeasible(filtered)) => Err(filtered.diagnose(snapshot).message),
            Err(CycleError(text)) => Err(text),
        }
    }

    /// Assumes the pod on one of its [`Self::best_nodes`], with its volumes. Returns whether these can be reserved.
    pub fn assume_on(&mut self, pod: &Arc<PodInfo>, node: NodeIdx) -> bool {
        let is_plain = pod.volumes.is_empty() && pod.claims.is_empty() && pod.container_requests.is_empty();
        let (feasible, evaluated, score) = (1, 1, None);
        let plain = Choice { node, evaluated, feasible, score, reservations: Vec::new() };
        let choice = if is_plain { Some(plain) } else { self.reserved(pod, node) };
        let Some(choice) = choice else { return false };
        let options = TrialOptions { uses_caches: true, preempts: false, is_comparable: false };
        self.assume(pod, choice, options);
        true
    }

    /// Returns the choice of this node, with what the pod reserves there.
    fn reserved(&self, pod: &Arc<PodInfo>, node: NodeIdx) -> Option<Choice> {
        let within: NodeSet = [node].into_iter().collect();
        let (framework, snapshot) = (self.framework(pod), self.snapshot());
        let options = Options { within: Some(&within), ..Options::default() };
        let Ok(Decision::Feasible(found)) = framework.decide(pod, snapshot, options, &mut NoProbe) else {
            return None;
        };
        match reserve(&found, snapshot, node) {
            Decided::Node(choice) => Some(choice),
            _ => None,
        }
    }
}
