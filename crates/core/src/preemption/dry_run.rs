//! The dry run on one node: removes all lower-priority pods hypothetically, then reprieves as many as
//! possible.

use super::budgets;
use super::importance::Importance;
use crate::cache::Overlay;
use crate::framework::post_filter::{Candidate, Unplaced};
use crate::framework::{CycleError, PluginName, Reason, Rejection};
use crate::model::node::NodeIdx;
use crate::model::pod::PodInfo;

/// The reason of a node without lower-priority pods.
pub(super) const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// The result of the dry run on a node.
pub(super) enum DryRunOutcome<'a> {
    /// The node is feasible without the victims.
    Candidate(Candidate<'a>),
    /// The node stays infeasible, for these reasons; with the rejecting plugin if there were potential
    /// victims.
    Hopeless(Vec<Reason>, Option<PluginName>),
    /// A filter failed.
    Failed(CycleError),
}

/// How the dry run treats host ports of removed pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    /// Free, even if a remaining pod uses the same port: upstream keeps a node's ports as a set without
    /// counts.
    AsUpstream,
    /// In use as long as a remaining pod uses them, as in Filter.
    Counted,
}

/// Runs the dry run on one node. With [`Ports::Counted`], upstream's candidate must also hold with counted
/// ports.
pub(super) fn try_node<'a>(unplaced: &Unplaced<'a>, node: NodeIdx, ports: Ports) -> DryRunOutcome<'a> {
    let candidate = match try_as_upstream(unplaced, node) {
        DryRunOutcome::Candidate(candidate) if ports == Ports::Counted => candidate,
        tried => return tried,
    };
    match WithoutPods::all(unplaced, node, &candidate.victims, ports).rejection() {
        Ok(None) => DryRunOutcome::Candidate(candidate),
        Ok(Some((plugin, Rejection { reasons, .. }))) => DryRunOutcome::Hopeless(reasons, Some(plugin)),
        Err(error) => DryRunOutcome::Failed(error),
    }
}

/// Returns the least important set of pods whose removal makes the node feasible (upstream
/// `SelectVictimsOnNode`). Terminating pods can be victims, too.
fn try_as_upstream<'a>(unplaced: &Unplaced<'a>, node: NodeIdx) -> DryRunOutcome<'a> {
    let (pod, snapshot) = (unplaced.pod, unplaced.snapshot);
    let mut lesser: Vec<&PodInfo> =
        snapshot.pods_on(node).filter(|other| other.priority < pod.priority).collect();
    if lesser.is_empty() {
        return DryRunOutcome::Hopeless(vec![NO_VICTIMS.into()], None);
    }
    let mut world = WithoutPods::all(unplaced, node, &lesser, Ports::AsUpstream);
    match world.rejection() {
        Ok(None) => {}
        Ok(Some((plugin, Rejection { reasons, .. }))) => {
            return DryRunOutcome::Hopeless(reasons, Some(plugin));
        }
        Err(error) => return DryRunOutcome::Failed(error),
    }
    let importance = Importance::new(&lesser, unplaced.now, snapshot.rules());
    importance.sort(&mut lesser);
    let (protected, free) = budgets::split(&lesser, snapshot);
    let mut victims: Vec<&PodInfo> = protected.iter().copied().filter(|pod| !world.spares(pod)).collect();
    let violations = victims.len();
    victims.extend(free.iter().copied().filter(|pod| !world.spares(pod)));
    if !protected.is_empty() && !free.is_empty() {
        importance.sort(&mut victims);
    }
    if victims.is_empty() {
        let name = snapshot.text(snapshot.node_info(node).name);
        return DryRunOutcome::Failed(CycleError(format!(
            "expected at least one victim pod on node \"{name}\""
        )));
    }
    DryRunOutcome::Candidate(Candidate { node, victims, violations })
}

/// Whether the pod fits on the candidate's node without its victims.
pub(super) fn still_helps<'a>(unplaced: &Unplaced<'a>, candidate: &Candidate<'a>, ports: Ports) -> bool {
    matches!(WithoutPods::all(unplaced, candidate.node, &candidate.victims, ports).rejection(), Ok(None))
}

/// A node without some of its pods, with and without the pods nominated to it.
struct WithoutPods<'u, 'a> {
    unplaced: &'u Unplaced<'a>,
    node: NodeIdx,
    bare: Overlay<'a>,
    /// The overlay that includes nominated pods that precede the pod; `None` if there are none.
    nominated: Option<Overlay<'a>>,
}

impl<'u, 'a> WithoutPods<'u, 'a> {
    fn all(unplaced: &'u Unplaced<'a>, node: NodeIdx, gone: &[&'a PodInfo], ports: Ports) -> Self {
        let remove: fn(&mut Overlay<'a>, &'a PodInfo) = match ports {
            Ports::AsUpstream => remove_hypothetically,
            Ports::Counted => |overlay, pod| overlay.remove(pod),
        };
        let mut bare = Overlay::new();
        gone.iter().for_each(|pod| remove(&mut bare, pod));
        let mut with = Overlay::new();
        for other in unplaced.snapshot.nominated_on(node) {
            if other.priority >= unplaced.pod.priority && other.uid != unplaced.pod.uid {
                with.add(other);
            }
        }
        let nominated = (!with.is_empty()).then(|| {
            gone.iter().for_each(|pod| remove(&mut with, pod));
            with
        });
        Self { unplaced, node, bare, nominated }
    }

    /// Returns why the node is infeasible. It must pass both with and without the nominated pods (upstream
    /// `RunFilterPluginsWithNominatedPods`).
    fn rejection(&self) -> Result<Option<(PluginName, Rejection)>, CycleError> {
        let node = self.unplaced.snapshot.node(self.node);
        for overlay in self.nominated.iter().chain([&self.bare]) {
            let rejection = self.unplaced.judge.first_rejection(&node.with(overlay))?;
            if rejection.is_some() {
                return Ok(rejection);
            }
        }
        Ok(None)
    }

    /// Whether the pod still fits, given that it fitted with all potential victims removed.
    fn still_passes(&self) -> bool {
        let node = self.unplaced.snapshot.node(self.node);
        let mut overlays = self.nominated.iter().chain([&self.bare]);
        overlays.all(|overlay| self.unplaced.judge.still_passes(&node.with(overlay)))
    }

    /// Reprieves a pod: puts it back if the incoming pod still fits. Otherwise removes it again and returns
    /// false.
    fn spares(&mut self, pod: &'a PodInfo) -> bool {
        self.each_overlay(|overlay| overlay.restore(pod));
        let spared = self.still_passes();
        if !spared {
            self.each_overlay(|overlay| remove_hypothetically(overlay, pod));
        }
        spared
    }

    fn each_overlay(&mut self, mut change: impl FnMut(&mut Overlay<'a>)) {
        change(&mut self.bare);
        self.nominated.iter_mut().for_each(change);
    }
}

fn remove_hypothetically<'a>(overlay: &mut Overlay<'a>, pod: &'a PodInfo) {
    overlay.remove(pod);
    overlay.free_ports(pod);
}
