//! Cached dry runs of preemption: one result per node, shared by identical pods and kept until the node changes.
//!
//! The plugin DefaultPreemption makes the dry runs; `crate::cycle` reports changed nodes. Upstream repeats all dry
//! runs for each pod.

use super::{PluginName, Reason};
use crate::model::node::NodeIdx;
use crate::model::time::Time;

/// The cost of a candidate. The fields are compared in this order; less is better, except for `earliest_start`
/// (upstream `pickOneNodeForPreemption`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Harm {
    /// Number of victims whose eviction violates a disruption budget.
    pub violations: u32,
    /// The priority of the first victim, usually the most important one.
    pub highest_priority: i32,
    /// Number of victims.
    pub victims: u32,
    /// The sum of the victims' priorities, each shifted to at least 0, so that more victims never cost less.
    pub priorities: i64,
    /// The earliest start among victims of the highest priority; later is better. `None` if none has started.
    pub earliest_start: Option<Time>,
}

/// The result of the dry run on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    /// No result is cached.
    #[default]
    Unknown,
    /// No evictions make room for the pod; the index of the reasons.
    Hopeless(u16),
    /// The node is a candidate of this cost.
    Candidate(Harm),
}

/// Why a node cannot take a pod even after evictions, and the plugin that rejects it.
pub type Hindrance = (Vec<Reason>, Option<PluginName>);

/// Maximum number of distinct hindrances kept; further ones are not cached.
const HINDRANCES_MAX: usize = 256;

/// Cached dry-run results of identical pods, by node.
#[derive(Debug, Default)]
pub struct DryRuns {
    by_slot: Vec<DryRun>,
    hindrances: Vec<Hindrance>,
    /// The revision of the disruption budgets.
    budgets: u64,
    /// Whether the cluster had PodGroups: victims are then chosen by group.
    has_groups: bool,
}

impl DryRuns {
    /// Drops the result for a node.
    pub fn forget(&mut self, node: NodeIdx) {
        if let Some(run) = self.by_slot.get_mut(node.index()) {
            *run = DryRun::Unknown;
        }
    }

    /// Drops all results if disruption budgets changed since, or if the first PodGroup came or the last one left.
    pub fn as_of(&mut self, budgets: u64, has_groups: bool) {
        if (self.budgets, self.has_groups) != (budgets, has_groups) {
            *self = Self { budgets, has_groups, ..Self::default() };
        }
    }

    /// Returns the cached result for a node.
    pub fn on(&self, node: NodeIdx) -> DryRun {
        self.by_slot.get(node.index()).copied().unwrap_or_default()
    }

    /// Records that the node is a candidate.
    pub fn set_candidate(&mut self, node: NodeIdx, harm: Harm) {
        *self.slot(node) = DryRun::Candidate(harm);
    }

    /// Records that the node cannot take the pod. Returns the index of the reasons, or `None` if the list is
    /// full.
    pub fn set_hopeless(&mut self, node: NodeIdx, hindrance: Hindrance) -> Option<u16> {
        let known = self.hindrances.iter().position(|known| *known == hindrance);
        let at = known.unwrap_or(self.hindrances.len());
        if at == HINDRANCES_MAX {
            return None;
        }
        if known.is_none() {
            self.hindrances.push(hindrance);
        }
        let at = u16::try_from(at).expect("at most HINDRANCES_MAX");
        *self.slot(node) = DryRun::Hopeless(at);
        Some(at)
    }

    /// Returns the reasons at an index.
    pub fn hindrance(&self, at: u16) -> &Hindrance {
        &self.hindrances[usize::from(at)]
    }

    /// Approximate size in bytes.
    pub fn bytes(&self) -> usize {
        self.by_slot.capacity() * size_of::<DryRun>() + self.hindrances.len() * size_of::<Hindrance>()
    }

    fn slot(&mut self, node: NodeIdx) -> &mut DryRun {
        if self.by_slot.len() <= node.index() {
            self.by_slot.resize(node.index() + 1, DryRun::Unknown);
        }
        &mut self.by_slot[node.index()]
    }
}
