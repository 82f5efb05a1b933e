//! The dry run on one node: removes all lower-priority pods hypothetically, then reprieves as many as
//! possible.

use super::budgets;
use super::importance::Importance;
use super::units::{self, GroupVictims, Unit};
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
pub(super) fn try_node<'a>(
    unplaced: &Unplaced<'a>,
    groups: &GroupVictims<'a>,
    node: NodeIdx,
    ports: Ports,
) -> DryRunOutcome<'a> {
    let tried = if groups.concern(node) {
        try_units(unplaced, groups, node)
    } else {
        try_as_upstream(unplaced, node)
    };
    let candidate = match tried {
        DryRunOutcome::Candidate(candidate) if ports == Ports::Counted => candidate,
        tried => return tried,
    };
    match WithoutPods::victims(unplaced, &candidate, ports).rejection() {
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
    candidate(unplaced, Candidate { node, victims, violations })
}

/// As [`try_as_upstream`], on a node with members of groups: a group whose mode is `all` is removed as a whole
/// (upstream `SelectVictimsOnNode` of 1.37).
///
/// Its members on other nodes may decide about this node by their affinity or their number in a domain. The dry run
/// does not follow that, so such a group is no victim if the pod is not judged by each node alone.
fn try_units<'a>(unplaced: &Unplaced<'a>, groups: &GroupVictims<'a>, node: NodeIdx) -> DryRunOutcome<'a> {
    let (pod, snapshot) = (unplaced.pod, unplaced.snapshot);
    let is_alone = unplaced.judge.judges_nodes_alone();
    let mut lesser = groups.units_on(node, unplaced.now);
    lesser.retain(|unit| unit.priority < pod.priority && (is_alone || unit.is_local()));
    if lesser.is_empty() {
        return DryRunOutcome::Hopeless(vec![NO_VICTIMS.into()], None);
    }
    let here: Vec<&PodInfo> = lesser.iter().flat_map(|unit| unit.here.iter().copied()).collect();
    let mut world = WithoutPods::all(unplaced, node, &here, Ports::AsUpstream);
    match world.rejection() {
        Ok(None) => {}
        Ok(Some((plugin, Rejection { reasons, .. }))) => {
            return DryRunOutcome::Hopeless(reasons, Some(plugin));
        }
        Err(error) => return DryRunOutcome::Failed(error),
    }
    units::sort(&mut lesser);
    let mut charges = budgets::BudgetCharges::default();
    let mut violated =
        |unit: &Unit<'a>| unit.pods.iter().filter(|pod| charges.violates(pod, snapshot)).count();
    let charged: Vec<(usize, Unit<'a>)> = lesser.into_iter().map(|unit| (violated(&unit), unit)).collect();
    let (protected, free): (Vec<_>, Vec<_>) = charged.into_iter().partition(|(violated, _)| *violated > 0);
    let is_mixed = !protected.is_empty() && !free.is_empty();
    let (mut violations, mut victims) = (0, Vec::new());
    for (violated, unit) in protected.into_iter().chain(free) {
        if !world.spares_all(&unit.here) {
            violations += violated;
            victims.push(unit);
        }
    }
    if is_mixed {
        units::sort(&mut victims);
    }
    let victims = victims.into_iter().flat_map(|unit| unit.pods).collect();
    candidate(unplaced, Candidate { node, victims, violations })
}

fn candidate<'a>(unplaced: &Unplaced<'a>, candidate: Candidate<'a>) -> DryRunOutcome<'a> {
    if candidate.victims.is_empty() {
        let snapshot = unplaced.snapshot;
        let name = snapshot.text(snapshot.node_info(candidate.node).name);
        return DryRunOutcome::Failed(CycleError(format!(
            "expected at least one victim pod on node \"{name}\""
        )));
    }
    DryRunOutcome::Candidate(candidate)
}

/// Whether the pod fits on the candidate's node without its victims.
pub(super) fn still_helps<'a>(unplaced: &Unplaced<'a>, candidate: &Candidate<'a>, ports: Ports) -> bool {
    matches!(WithoutPods::victims(unplaced, candidate, ports).rejection(), Ok(None))
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
    /// Removes the victims of a candidate that are on its node. Members of a group may be on others, too.
    fn victims(unplaced: &'u Unplaced<'a>, candidate: &Candidate<'a>, ports: Ports) -> Self {
        let (node, snapshot) = (candidate.node, unplaced.snapshot);
        let is_here = |pod: &&PodInfo| {
            pod.group.is_none() || snapshot.pods_on(node).any(|other| std::ptr::eq(other, *pod))
        };
        let here: Vec<&PodInfo> = candidate.victims.iter().copied().filter(is_here).collect();
        Self::all(unplaced, node, &here, ports)
    }

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
        self.spares_all(&[pod])
    }

    /// Reprieves pods together, as [`Self::spares`] does with one.
    fn spares_all(&mut self, pods: &[&'a PodInfo]) -> bool {
        self.each_overlay(|overlay| pods.iter().for_each(|&pod| overlay.restore(pod)));
        let spared = self.still_passes();
        if !spared {
            self.each_overlay(|overlay| pods.iter().for_each(|&pod| remove_hypothetically(overlay, pod)));
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
