//! NodeResourcesBalancedAllocation scores nodes by how much the pod improves the balance of their resource
//! use.
//!
//! From 1.36 on it scores the change, not the balance itself: a pod that changes nothing scores 75. Upstream:
//! `pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go`.

use super::allocation::{Basis, ResourceSpec, Share, Weighing};
use super::simd_block::{Part, whole};
use crate::cache::Snapshot;
use crate::framework::{
    CycleError, DependsOn, MAX_NODE_SCORE, NodeScorePlugin, PluginName, Prepared, ScoreRule,
};
use crate::model::emulation::Balance;
use crate::model::node_pod::NodePod;
use crate::model::node_set::NodeSet;

/// `NodeResourcesBalancedAllocationArgs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeResourcesBalancedAllocationArgs {
    /// The resources to balance, each with weight 1.
    pub resources: Vec<ResourceSpec>,
}

impl Default for NodeResourcesBalancedAllocationArgs {
    fn default() -> Self {
        Self { resources: ResourceSpec::defaults() }
    }
}

/// The plugin.
#[derive(Clone, Debug, Default)]
pub struct NodeResourcesBalancedAllocation {
    args: NodeResourcesBalancedAllocationArgs,
}

impl NodeResourcesBalancedAllocation {
    /// Creates the plugin with arguments.
    pub fn new(args: NodeResourcesBalancedAllocationArgs) -> Self {
        Self { args }
    }
}

impl NodeScorePlugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> PluginName {
        "NodeResourcesBalancedAllocation"
    }

    fn prepare(&self, pod: NodePod<'_>, snapshot: Snapshot<'_>) -> Prepared<dyn ScoreRule> {
        let weighing = Weighing::new(Basis::Real, &self.args.resources, pod.resources(), snapshot);
        // A pod without requests changes no balance; scoring it would concentrate such pods on one node.
        if weighing.is_nothing() {
            return Prepared::Skip;
        }
        let balance = snapshot.rules().balance;
        Prepared::Run { rule: Box::new(Rule { weighing, balance }), only: None }
    }
}

struct Rule {
    weighing: Weighing,
    balance: Balance,
}

impl ScoreRule for Rule {
    fn score(&self, snapshot: Snapshot<'_>, feasible: &NodeSet, raw: &mut [i64]) -> Result<(), CycleError> {
        match self.balance {
            Balance::Change => {
                self.weighing.score_in_lanes(snapshot, feasible, raw, change, change_of_two);
            }
            Balance::After => {
                self.weighing.score_in_lanes(snapshot, feasible, raw, after, after_of_two);
            }
        }
        Ok(())
    }

    fn depends_on(&self) -> DependsOn {
        self.weighing.depends_on()
    }
}

/// Scores the balance with the pod.
#[inline]
fn after(shares: &[Share]) -> i64 {
    balance(shares, |share| share.requested)
}

/// Scores the balance of two resources, with the same result.
#[inline(always)]
fn after_of_two(a: &Part, b: &Part) -> f64 {
    balance_of_two(a, b, |part| part.requested)
}

/// Scores the change of the balance by the pod.
#[inline]
fn change(shares: &[Share]) -> i64 {
    let with_pod = balance(shares, |share| share.requested);
    let without_pod = balance(shares, |share| share.used);
    MAX_NODE_SCORE / 2 + (MAX_NODE_SCORE / 2 + with_pod - without_pod) / 2
}

/// Scores the change of the balance of two resources, with the same result.
#[inline(always)]
fn change_of_two(a: &Part, b: &Part) -> f64 {
    let half = (MAX_NODE_SCORE / 2) as f64;
    let change = balance_of_two(a, b, |part| part.requested) - balance_of_two(a, b, |part| part.used);
    half + whole((half + change) / 2.0)
}

#[inline(always)]
fn balance_of_two(a: &Part, b: &Part, taken: impl Fn(&Part) -> f64) -> f64 {
    let fraction = |part: &Part| {
        let fraction = taken(part) / part.allocatable;
        if fraction > 1.0 { 1.0 } else { fraction }
    };
    let deviation = ((fraction(a) - fraction(b)) / 2.0).abs();
    whole((1.0 - deviation) * MAX_NODE_SCORE as f64)
}

/// Returns 100 minus the standard deviation of the used fractions. The order of operations is upstream's, to
/// the last bit.
#[inline]
fn balance(shares: &[Share], taken: impl Fn(&Share) -> i64) -> i64 {
    let fraction = |share: &Share| {
        let fraction = taken(share) as f64 / share.allocatable as f64;
        if fraction > 1.0 { 1.0 } else { fraction }
    };
    let deviation = match shares {
        [] | [_] => 0.0,
        [a, b] => ((fraction(a) - fraction(b)) / 2.0).abs(),
        more => {
            let count = more.len() as f64;
            let mean = more.iter().fold(0.0, |sum, share| sum + fraction(share)) / count;
            let squares = more.iter().fold(0.0, |sum, share| {
                let off = fraction(share) - mean;
                sum + off * off
            });
            (squares / count).sqrt()
        }
    };
    ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::super::allocation::check_lanes;
    use super::*;

    fn score(before: &[(i64, i64)], after: &[i64]) -> (i64, i64) {
        let shares: Vec<Share> = before
            .iter()
            .zip(after)
            .map(|(&(used, allocatable), &requested)| Share { allocatable, used, requested, weight: 1 })
            .collect();
        (balance(&shares, |s| s.used), balance(&shares, |s| s.requested))
    }

    #[test]
    fn balance_is_100_minus_the_deviation() {
        // Computed by hand from upstream's formula.
        assert_eq!(score(&[(0, 4), (0, 4)], &[3, 2]), (100, 87));
        assert_eq!(score(&[(0, 4), (0, 4)], &[2, 2]), (100, 100));
        assert_eq!(score(&[(6, 20), (0, 20)], &[12, 5]), (85, 82));
        assert_eq!(score(&[(6, 20), (5, 20)], &[12, 10]), (97, 95));
        assert_eq!(score(&[(3, 10), (1, 10)], &[6, 2]), (90, 80));
        assert_eq!(score(&[(1, 1), (0, 1)], &[1, 1]), (50, 100));
        assert_eq!(score(&[(3000, 3500), (5000, 40_000), (3, 8)], &[3000, 5000, 4]), (69, 70));
        assert_eq!(score(&[(3000, 3500), (5000, 40_000), (0, 8)], &[3000, 5000, 1]), (62, 65));
    }

    #[test]
    fn block_scores_equal_single_node_scores() {
        check_lanes([1, 1], change, change_of_two);
        check_lanes([1, 1], after, after_of_two);
    }

    #[test]
    fn one_resource_is_balanced_and_overuse_counts_as_full() {
        assert_eq!(score(&[(1, 10)], &[9]), (100, 100));
        assert_eq!(score(&[(30, 10), (10, 10)], &[40, 10]), (100, 100));
    }
}
