//! What a PostFilter plugin found out of nodes for pods that are alike, so that it need not be found out again of those that stayed as they
//! were.
//!
//! Holds it and forgets it; who makes dry runs is a plugin, who knows which nodes changed is `crate::cycle`. Upstream makes them all
//! anew for each pod.

use super::{PluginName, Reason};
use crate::node::NodeIdx;
use crate::time::Time;

/// How much harm a candidate does; less is better, the first difference decides (upstream `pickOneNodeForPreemption`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Harm {
    /// How many victims a disruption budget protects.
    pub violations: u32,
    /// The priority of the first victim, as a rule the most important one.
    pub highest_priority: i32,
    /// How many there are.
    pub victims: u32,
    /// The sum of their priorities, each raised to be no less than 0, so that more victims are never less harm.
    pub priorities: i64,
    /// When the first of those of the highest priority started; `None` where none of them has by now. That it is later is better.
    pub earliest_start: Option<Time>,
}

/// What the dry run on a node came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    /// Nobody knows.
    #[default]
    Unknown,
    /// The node could not take the pod, for reasons that stand in the list of all of them.
    Hopeless(u16),
    /// It could, and that does so much harm.
    Candidate(Harm),
}

/// Why a node cannot take a pod even if others went, and which plugin says so.
pub type Hindrance = (Vec<Reason>, Option<PluginName>);

/// More kinds of reasons than this are not remembered.
const HINDRANCES_MAX: usize = 256;

/// What dry runs of pods that are alike came to, by node.
#[derive(Debug, Default)]
pub struct DryRuns {
    by_slot: Vec<DryRun>,
    hindrances: Vec<Hindrance>,
    /// How often disruption budgets had changed.
    budgets: u64,
}

impl DryRuns {
    /// The dry run on a node has to be made anew.
    pub fn forget(&mut self, node: NodeIdx) {
        if let Some(run) = self.by_slot.get_mut(node.index()) {
            *run = DryRun::Unknown;
        }
    }

    /// Forgets all if disruption budgets changed since.
    pub fn as_of(&mut self, budgets: u64) {
        if self.budgets != budgets {
            *self = Self { budgets, ..Self::default() };
        }
    }

    /// What is known of a node.
    pub fn on(&self, node: NodeIdx) -> DryRun {
        self.by_slot.get(node.index()).copied().unwrap_or_default()
    }

    /// The node is a candidate.
    pub fn is_candidate(&mut self, node: NodeIdx, harm: Harm) {
        *self.slot(node) = DryRun::Candidate(harm);
    }

    /// The node is none, for these reasons; where they stand, if there is room for them.
    pub fn is_hopeless(&mut self, node: NodeIdx, hindrance: Hindrance) -> Option<u16> {
        let known = self.hindrances.iter().position(|known| *known == hindrance);
        let at = known.unwrap_or(self.hindrances.len());
        if at == HINDRANCES_MAX {
            return None;
        }
        if known.is_none() {
            self.hindrances.push(hindrance);
        }
        let at = u16::try_from(at).expect("there are few");
        *self.slot(node) = DryRun::Hopeless(at);
        Some(at)
    }

    /// The reasons that stand there.
    pub fn hindrance(&self, at: u16) -> &Hindrance {
        &self.hindrances[usize::from(at)]
    }

    /// About how many bytes it takes.
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
