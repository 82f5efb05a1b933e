//! NodeResourcesFit rejects nodes with insufficient resources and scores the others by a strategy.
//!
//! Upstream: `pkg/scheduler/framework/plugins/noderesources/fit.go`.

use super::allocation::{Basis, ResourceSpec, ScoringStrategy, Weighing};
use super::hint::hint;
use super::simd_block::{self, Remaining};
use crate::cache::{Columns, NodeView, Snapshot};
use crate::framework::simd::with_best_instructions;
use crate::framework::{
    ClusterEvent, Code, CycleError, DependsOn, EventSet, Fact, FilterRule, Hint, Measure, NodeAction,
    NodeFilterPlugin, NodeScorePlugin, PluginName, PodAction, Prepared, Reason, Rejection, ScoreRule,
    Verdict,
};
use crate::model::intern::{Symbol, Tables};
use crate::model::node::NodeIdx;
use crate::model::node_pod::NodePod;
use crate::model::node_set::{NodeSet, bits};
use crate::model::pod::PodInfo;
use crate::model::resources::{Resources, is_extended_resource};
use crate::switches::mutation::{self, Mutation};
use std::sync::Arc;

pub(super) const NAME: PluginName = "NodeResourcesFit";

/// `NodeResourcesFitArgs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeResourcesFitArgs {
    /// Extended resources that Filter ignores.
    pub ignored_resources: Vec<Box<str>>,
    /// Groups of extended resources (the part of the name before the slash) that Filter ignores.
    pub ignored_resource_groups: Vec<Box<str>>,
    /// `scoringStrategy.type`, with its shape if it has one.
    pub strategy: ScoringStrategy,
    /// `scoringStrategy.resources`.
    pub resources: Vec<ResourceSpec>,
}

impl Default for NodeResourcesFitArgs {
    fn default() -> Self {
        Self {
            ignored_resources: Vec::new(),
            ignored_resource_groups: Vec::new(),
            strategy: ScoringStrategy::LeastAllocated,
            resources: ResourceSpec::defaults(),
        }
    }
}

impl NodeResourcesFitArgs {
    /// Whether Filter ignores the resource `name`; it never ignores hugepages and `kubernetes.io` names.
    fn ignores(&self, name: &str) -> bool {
        let group = name.split('/').next().unwrap_or(name);
        is_extended_resource(name)
            && (self.ignored_resources.iter().any(|ignored| **ignored == *name)
                || self.ignored_resource_groups.iter().any(|ignored| **ignored == *group))
    }
}

/// The plugin.
#[derive(Clone, Debug, Default)]
pub struct NodeResourcesFit {
    args: Arc<NodeResourcesFitArgs>,
}

impl NodeResourcesFit {
    /// Creates the plugin with arguments.
    pub fn new(args: NodeResourcesFitArgs) -> Self {
        Self { args: Arc::new(args) }
    }
}

impl NodeFilterPlugin for NodeResourcesFit {
    fn name(&self) -> PluginName {
        NAME
    }

    fn prepare(&self, pod: NodePod<'_>, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        let demand = Demand::new(&pod.resources().request, &self.args, snapshot);
        Prepared::Run { rule: Box::new(demand), only: None }
    }

    fn events(&self) -> EventSet {
        EventSet::NEW_NODE
            | EventSet::node(NodeAction::UpdateAllocatable)
            | EventSet::assigned_pod(PodAction::Delete)
            | EventSet::assigned_pod(PodAction::UpdateScaleDown)
            | EventSet::DEVICE_CLASS
    }

    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint {
        hint(event, pod, &Demand::new(&pod.resources.request, &self.args, snapshot))
    }
}

/// The resource requests of a pod; zero requests always fit.
pub(super) struct Demand {
    pub(super) cpu_milli: i64,
    pub(super) memory: i64,
    pub(super) ephemeral_storage: i64,
    /// Requested scalar resources that are not ignored.
    pub(super) scalar: Box<[Scalar]>,
}

/// A requested scalar resource.
pub(super) struct Scalar {
    pub(super) name: Symbol,
    pub(super) wanted: i64,
    /// Whether a DeviceClass serves it: DynamicResources handles nodes without any of it.
    by_class: bool,
}

impl Scalar {
    /// Whether this plugin delegates the node to DynamicResources (upstream `shouldDelegateResourceToDRA`).
    pub(super) fn is_delegated(&self, allocatable: &Resources) -> bool {
        self.by_class && allocatable.scalar(self.name).unwrap_or(0) <= 0
    }
}

/// An insufficient resource of a node.
enum Shortage {
    Pods,
    Cpu,
    Memory,
    EphemeralStorage,
    Scalar(Symbol),
}

impl Shortage {
    fn reason(&self, tables: &Tables) -> Reason {
        match self {
            Self::Pods => "Too many pods".into(),
            Self::Cpu => "Insufficient cpu".into(),
            Self::Memory => "Insufficient memory".into(),
            Self::EphemeralStorage => "Insufficient ephemeral-storage".into(),
            Self::Scalar(name) => format!("Insufficient {}", tables.text(*name)).into(),
        }
    }
}

/// Whether the request `wanted` fits. A zero request fits even if the node is overcommitted.
fn suffices(wanted: i64, allocatable: i64, taken: i64) -> bool {
    wanted <= 0 || wanted <= allocatable.saturating_sub(taken)
}

impl Demand {
    fn new(request: &Resources, args: &NodeResourcesFitArgs, snapshot: Snapshot<'_>) -> Self {
        let tables = snapshot.tables();
        let scalar = |&(name, wanted)| Scalar { name, wanted, by_class: snapshot.is_served_by_class(name) };
        let needed = |&&(name, amount): &&(Symbol, i64)| amount != 0 && !args.ignores(tables.text(name));
        Self {
            cpu_milli: request.cpu_milli,
            memory: request.memory,
            ephemeral_storage: request.ephemeral_storage,
            scalar: request.scalar.iter().filter(needed).map(scalar).collect(),
        }
    }

    /// Whether the pod would fit on the node without other pods.
    pub(super) fn fits_empty(&self, allocatable: &Resources, allocatable_pods: i64) -> bool {
        let mut short = false;
        self.shortages(allocatable, allocatable_pods, &Resources::default(), 0, |_, _| short = true);
        !short
    }

    /// Calls `short` for each insufficient resource, and whether it is insufficient on the empty node, too.
    fn shortages(
        &self,
        allocatable: &Resources,
        allocatable_pods: i64,
        taken: &Resources,
        pods: i64,
        mut short: impl FnMut(Shortage, bool),
    ) {
        if pods >= allocatable_pods {
            short(Shortage::Pods, false);
        }
        let mut judge = |shortage, wanted: i64, allocatable: i64, taken: i64| {
            if !suffices(wanted, allocatable, taken) {
                short(shortage, wanted > allocatable);
            }
        };
        judge(Shortage::Cpu, self.cpu_milli, allocatable.cpu_milli, taken.cpu_milli);
        judge(Shortage::Memory, self.memory, allocatable.memory, taken.memory);
        let (has, used) = (allocatable.ephemeral_storage, taken.ephemeral_storage);
        judge(Shortage::EphemeralStorage, self.ephemeral_storage, has, used);
        for need in self.scalar.iter().filter(|need| !need.is_delegated(allocatable)) {
            let of = |resources: &Resources| resources.scalar(need.name).unwrap_or(0);
            judge(Shortage::Scalar(need.name), need.wanted, of(allocatable), of(taken));
        }
    }

    /// Returns the nodes of a block that pass [`Self::fits_columns`], and others; `None` if each must be
    /// checked.
    #[inline(always)]
    fn fits_block(&self, columns: &Columns, at: usize, nodes: u64) -> Option<u64> {
        if (nodes.count_ones() as usize) < simd_block::PAY_FROM {
            return None;
        }
        let mut left = Remaining::new();
        let needs = [
            (1, &columns.allocatable_pods, &columns.pods),
            (self.cpu_milli, &columns.allocatable_cpu_milli, &columns.requested_cpu_milli),
            (self.memory, &columns.allocatable_memory, &columns.requested_memory),
            (
                self.ephemeral_storage,
                &columns.allocatable_ephemeral_storage,
                &columns.requested_ephemeral_storage,
            ),
        ];
        for (wanted, allocatable, taken) in needs.into_iter().filter(|&(wanted, ..)| wanted > 0) {
            left.need(wanted, allocatable[at..].first_chunk()?, taken[at..].first_chunk()?);
        }
        left.nodes()
    }

    /// Keeps the nodes that have enough of the resources stored in columns.
    #[inline(always)]
    fn filter_columns(&self, columns: &Columns, feasible: &mut NodeSet) {
        feasible.retain_blocks(
            #[inline(always)]
            |at, nodes| match self.fits_block(columns, at, nodes) {
                Some(fitting) => fitting,
                None => bits(nodes)
                    .filter(|&bit| self.fits_columns(columns, at + bit))
                    .fold(0, |fitting, bit| fitting | 1 << bit),
            },
        );
    }

    fn fits_columns(&self, columns: &Columns, at: usize) -> bool {
        columns.pods[at] < columns.allocatable_pods[at]
            && suffices(self.cpu_milli, columns.allocatable_cpu_milli[at], columns.requested_cpu_milli[at])
            && suffices(self.memory, columns.allocatable_memory[at], columns.requested_memory[at])
            && suffices(
                self.ephemeral_storage,
                columns.allocatable_ephemeral_storage[at],
                columns.requested_ephemeral_storage[at],
            )
    }
}

impl FilterRule for Demand {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeUsage
    }

    fn most_on_empty(&self, snapshot: Snapshot<'_>, node: NodeIdx) -> usize {
        let info = snapshot.node_info(node);
        let allocatable = &info.allocatable;
        let scalars = self.scalar.iter().filter(|need| !need.is_delegated(allocatable));
        let scalars = scalars.map(|need| (need.wanted, allocatable.scalar(need.name).unwrap_or(0)));
        let plain = [
            (1, info.allocatable_pods),
            (self.cpu_milli, allocatable.cpu_milli),
            (self.memory, allocatable.memory),
            (self.ephemeral_storage, allocatable.ephemeral_storage),
        ];
        let needed = plain.into_iter().chain(scalars).filter(|(wanted, _)| *wanted > 0);
        let most = needed.map(|(wanted, has)| usize::try_from(has / wanted).unwrap_or(0));
        most.min().unwrap_or(usize::MAX)
    }

    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        with_best_instructions(
            #[inline(always)]
            || self.filter_columns(snapshot.columns(), feasible),
        );
        for need in &self.scalar {
            feasible.retain(|node| {
                let allocatable = &snapshot.node_info(node).allocatable;
                let of = |resources: &Resources| resources.scalar(need.name).unwrap_or(0);
                need.is_delegated(allocatable)
                    || suffices(need.wanted, of(allocatable), of(snapshot.requested(node)))
            });
        }
        Ok(())
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        let (info, tables) = (node.info(), node.snapshot().tables());
        let (mut reasons, mut code) = (Vec::new(), Code::Unschedulable);
        let note = |shortage: Shortage, even_when_empty: bool| {
            reasons.push(shortage.reason(tables));
            if even_when_empty {
                code = Code::UnschedulableAndUnresolvable;
            }
        };
        self.shortages(&info.allocatable, info.allocatable_pods, &node.requested(), node.pod_count(), note);
        if reasons.is_empty() {
            return Verdict::Fits;
        }
        Verdict::Rejected(Rejection { code, reasons })
    }

    /// Two bits for each resource: whether it is insufficient, and whether it is on the empty node, too.
    fn verdict_number(&self, node: &NodeView<'_>) -> Option<u64> {
        const NUMBERED: usize = 32 - 4;
        if self.scalar.len() > NUMBERED {
            return None;
        }
        let (info, mut number) = (node.info(), 0);
        let note = |shortage: Shortage, even_when_empty: bool| {
            let place = match shortage {
                Shortage::Pods => 0,
                Shortage::Cpu => 1,
                Shortage::Memory if mutation::is_on(Mutation::PreemptionIgnoresMemory) => return,
                Shortage::Memory => 2,
                Shortage::EphemeralStorage => 3,
                Shortage::Scalar(name) => 4 + self.scalar.iter().take_while(|need| need.name != name).count(),
            };
            number |= (1 | u64::from(even_when_empty) << 1) << (2 * place);
        };
        self.shortages(&info.allocatable, info.allocatable_pods, &node.requested(), node.pod_count(), note);
        Some(number)
    }

    fn facts(&self, node: &NodeView<'_>) -> Vec<Fact> {
        let (info, taken, pods) = (node.info(), node.requested(), node.pod_count());
        let mut facts = Vec::new();
        self.shortages(&info.allocatable, info.allocatable_pods, &taken, pods, |shortage, _| {
            let has = &info.allocatable;
            let (of, wanted, taken, allocatable) = match shortage {
                Shortage::Pods => (Measure::Pods, 1, pods, info.allocatable_pods),
                Shortage::Cpu => (Measure::Cpu, self.cpu_milli, taken.cpu_milli, has.cpu_milli),
                Shortage::Memory => (Measure::Memory, self.memory, taken.memory, has.memory),
                Shortage::EphemeralStorage => {
                    let (used, has) = (taken.ephemeral_storage, has.ephemeral_storage);
                    (Measure::EphemeralStorage, self.ephemeral_storage, used, has)
                }
                Shortage::Scalar(name) => {
                    let wanted = self.scalar.iter().find(|need| need.name == name);
                    let of = |resources: &Resources| resources.scalar(name).unwrap_or(0);
                    (Measure::Scalar(name), wanted.map_or(0, |need| need.wanted), of(&taken), of(has))
                }
            };
            facts.push(Fact::Short { of, wanted, taken, allocatable });
        });
        facts
    }
}

impl NodeScorePlugin for NodeResourcesFit {
    fn name(&self) -> PluginName {
        NAME
    }

    fn prepare(&self, pod: NodePod<'_>, snapshot: Snapshot<'_>) -> Prepared<dyn ScoreRule> {
        let weighing = Weighing::new(Basis::WithDefaults, &self.args.resources, pod.resources(), snapshot);
        Prepared::Run { rule: Box::new(Score { args: Arc::clone(&self.args), weighing }), only: None }
    }
}

struct Score {
    args: Arc<NodeResourcesFitArgs>,
    weighing: Weighing,
}

impl ScoreRule for Score {
    fn score(&self, snapshot: Snapshot<'_>, feasible: &NodeSet, raw: &mut [i64]) -> Result<(), CycleError> {
        if self.args.resources.is_empty() {
            return Err(CycleError("resources not found".into()));
        }
        self.args.strategy.score(&self.weighing, snapshot, feasible, raw);
        Ok(())
    }

    fn depends_on(&self) -> DependsOn {
        self.weighing.depends_on()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::node_set::BLOCK;

    #[test]
    fn block_fit_equals_single_node_fit() {
        const SLOTS: usize = 3 * BLOCK + 5;
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as i64
        };
        let (mut blocks, mut fitting, mut left_alone) = (0, 0, 0);
        for turn in 0..2_000 {
            // Some amounts are so large that their differences overflow.
            let largest = if turn % 5 == 0 { i64::MAX } else { 7 };
            let mut column = || -> Vec<i64> {
                (0..SLOTS).map(|_| if next() % 400 == 0 { largest } else { next() % 8 }).collect()
            };
            let columns = Columns {
                allocatable_cpu_milli: column(),
                allocatable_memory: column(),
                allocatable_ephemeral_storage: column(),
                allocatable_pods: column(),
                requested_cpu_milli: column(),
                requested_memory: column(),
                requested_ephemeral_storage: column(),
                pods: column(),
                ..Columns::default()
            };
            let (cpu_milli, memory, ephemeral_storage) = (next() % 4, next() % 3, next() % 3 - 1);
            let demand = Demand { cpu_milli, memory, ephemeral_storage, scalar: [].into() };
            for at in (0..SLOTS).step_by(BLOCK) {
                let Some(nodes) = demand.fits_block(&columns, at, u64::MAX) else {
                    left_alone += 1;
                    continue;
                };
                let fits = |slot: usize| demand.fits_columns(&columns, at + slot);
                assert_eq!(nodes, (0..BLOCK).fold(0, |n, slot| n | u64::from(fits(slot)) << slot));
                (blocks, fitting) = (blocks + 1, fitting + nodes.count_ones());
            }
        }
        // The last block is empty.
        assert!(blocks > 4_000 && fitting > 10_000 && left_alone > 2_200, "{blocks} {fitting} {left_alone}");
    }
}
